"""Builds the C core as a shared library for op_harness.py, once for each state of the sources.

`make -C csrc shared` does the same; this needs no make.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import sys
import tempfile

CSRC = pathlib.Path(__file__).resolve().parent.parent / "csrc"
sys.path.insert(0, str(CSRC))
import ninja_build


def library(target: pathlib.Path) -> ninja_build.SharedObject:
    """Returns what ninja builds: all of csrc but the Python layer, and entry points for ctypes."""
    entries = [CSRC / name for name in ninja_build.variables()["HARNESS"]]
    flags = [*ninja_build.language(), *ninja_build.includes(), "-O2"]
    sources = [*ninja_build.core_sources(), *entries]
    objects = ninja_build.Objects("core", sources, flags)
    return ninja_build.SharedObject(target, [objects], ["-lm", "-lpthread"])


def fingerprint() -> str:
    """Returns a digest of all that the library is built from."""
    digest = hashlib.sha256(" ".join(ninja_build.compiler()).encode())
    for path in sorted(CSRC.rglob("*")):
        if path.suffix in {".c", ".h", ".def", ".mk"}:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def build() -> pathlib.Path:
    """Path of the library, compiled if the sources changed since the last time."""
    cache = os.environ.get("EXECUTORCH_C_TEST_CACHE") or CSRC.parent / "tests" / ".cache"
    folder = pathlib.Path(cache) / "core"
    built = folder / f"libexecutorch_c-{fingerprint()}.so"
    if built.exists():
        return built
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        target = pathlib.Path(work, built.name)
        ninja_build.build([library(target)], target.parent / "objects")
        shutil.move(target, built)
    return built
