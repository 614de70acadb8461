"""Python processes that this one starts: they import modules from the same folders, and talk over a
connection."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import IO

MAX_LINE_BYTES = 4096
"""Bytes at the end of a log of which the last line is told."""
CODE = "import sys; sys.path[:] = {path!r}; from {module} import main; main({descriptor})"


def missing() -> str | None:
    """Return why this Python cannot start another; None if it can."""
    executable = sys.executable or ""
    if getattr(sys, "frozen", False) or not re.search("python|pypy", Path(executable).name.lower()):
        return f"sys.executable is {executable!r}, which is no Python interpreter"
    return None


def start(module: str, log: IO[bytes]) -> tuple[subprocess.Popen[bytes], Connection]:
    """Start `main(descriptor)` of a module in a process of its own, and return the process and this
    end of the connection; it writes to a log. Raises OSError."""
    ours, theirs = Pipe()
    code = CODE.format(path=sys.path, module=module, descriptor=theirs.fileno())
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[theirs.fileno()],
        )
    return process, ours


def last_line(log: IO[bytes]) -> str:
    """Return the last line of a process's log that is not empty."""
    size = os.fstat(log.fileno()).st_size
    tail = os.pread(log.fileno(), MAX_LINE_BYTES, max(size - MAX_LINE_BYTES, 0))
    lines = tail.decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def ending(status: int | None) -> str:
    """Return how a process ended: "crashed (SIGSEGV)"; an empty text if it has not."""
    if status is None:
        return ""
    if status >= 0:
        return f"ended with exit code {status}"
    with suppress(ValueError):
        return f"crashed ({signal.Signals(-status).name})"
    return f"crashed (signal {-status})"
