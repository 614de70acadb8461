"""Simulation of a busy machine: processes that compete for its CPUs."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Keep a number of busy processes running, each on one CPU."""
    code = "while True: pass"
    hogs = [subprocess.Popen([sys.executable, "-S", "-c", code]) for _ in range(count)]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
        for hog in hogs:
            hog.wait()
