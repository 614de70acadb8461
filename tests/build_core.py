"""Builds of the C core as a shared library for op_harness.py, one per state of the sources.

`make -C csrc shared` does the same with make.
"""

import os
import pathlib
import shutil
import sys
import tempfile

from tests import kept

CSRC = pathlib.Path(__file__).resolve().parent.parent / "csrc"
sys.path.insert(0, str(CSRC))
import ninja_build

SOURCES = {".c", ".h", ".def", ".mk"}


def library(target: pathlib.Path, optimize: str) -> ninja_build.SharedObject:
    """Return the build.ninja target: csrc without its Python layer, plus entry points for
    ctypes."""
    entries = [CSRC / name for name in ninja_build.variables()["HARNESS"]]
    flags = [*ninja_build.language(), *ninja_build.includes(), optimize]
    sources = [*ninja_build.core_sources(), *entries]
    objects = ninja_build.Objects("core", sources, flags)
    return ninja_build.SharedObject(target, [objects], ["-lm", "-lpthread"])


def fingerprint(*folders: pathlib.Path) -> str:
    """Return a digest of the C sources in csrc and in other folders."""
    files = [path for folder in (CSRC, *folders) for path in sorted(folder.rglob("*"))]
    sources = [path for path in files if path.suffix in SOURCES or path.name == "Makefile"]
    return kept.digest(ninja_build.compiler(), os.environ.get("CFLAGS"), *sources)


def link(target: pathlib.Path, optimize: str) -> None:
    """Compile in a temporary folder, and write the library to `target`."""
    with tempfile.TemporaryDirectory(dir=target.parent) as work:
        result = pathlib.Path(work, "libexecutorch_c.so")
        ninja_build.build([library(result, optimize)], result.parent / "objects")
        shutil.move(result, target)


def build(optimize: str = "-O0") -> pathlib.Path:
    """Path of the library, compiled if the sources changed since the last time. For tests, it is
    quick to build; they take as long with optimized loops, which run in programs."""
    name = f"core/libexecutorch_c{optimize}-{fingerprint()}.so"
    return kept.file(name, lambda target: link(target, optimize))
