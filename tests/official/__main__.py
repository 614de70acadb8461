"""Runs the official flow's own tests of XNNPACK on this runtime, and prints how many pass.

    python -m tests.official            # all operators: some minutes
    python -m tests.official test_add.py test_linear.py

They come with the executorch wheel (backends/xnnpack/test/ops) and compare with eager; only the
module that runs programs is exchanged, by official_swap.py.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import in_place


def folder() -> Path:
    """Where the official tests are."""
    spec = find_spec("executorch")
    assert spec is not None and spec.submodule_search_locations, "executorch is not installed"
    return Path(spec.submodule_search_locations[0], "backends", "xnnpack", "test", "ops")


def command(names: list[str]) -> list[str]:
    """pytest on some of the official files, or on all of them."""
    chosen = [str(folder() / name) for name in names] or [str(folder())]
    options = ["-q", "-p", "official_swap", "-p", "no:cacheprovider", "--import-mode=importlib"]
    return [sys.executable, "-m", "pytest", *options, f"--rootdir={folder()}", *chosen]


def environment() -> dict[str, str]:
    """That of this process, with the plugin to be found, and what is built in the sources."""
    built = [str(in_place.ROOT)] if in_place.IN_PLACE else []
    paths = [str(HERE), *built, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


if __name__ == "__main__":
    done = subprocess.run(command(sys.argv[1:]), env=environment(), cwd=HERE)
    sys.exit(done.returncode)
