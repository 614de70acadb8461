"""Builds the C core as a shared library for op_harness.py, once for each state of the sources.

`make -C csrc shared` does the same; this needs only the C compiler that installed the package.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent
CSRC = ROOT / "csrc"
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off",
         "-fno-math-errno", "-O2", "-I", str(CSRC), "-I", str(CSRC / "include")]  # fmt: skip


def sources() -> list[pathlib.Path]:
    """All of csrc but the Python layer, and of testing/ the doors for ctypes."""
    skipped = {CSRC / "python", CSRC / "testing", CSRC / "build"}
    found = [p for p in CSRC.rglob("*.c") if not skipped & set(p.parents)]
    doors = [CSRC / "testing" / name for name in ("run_op.c", "time_verify.c")]
    return sorted([*found, *doors])


def fingerprint() -> str:
    digest = hashlib.sha256(" ".join(FLAGS).encode())
    for path in sorted(CSRC.rglob("*")):
        if path.suffix in {".c", ".h", ".def"}:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def build() -> pathlib.Path:
    """Path of the library, compiled if the sources changed since the last time."""
    cache = os.environ.get("EXECUTORCH_C_TEST_CACHE") or ROOT / "tests" / ".cache"
    folder = pathlib.Path(cache) / "core"
    library = folder / f"libexecutorch_c-{fingerprint()}.so"
    if library.exists():
        return library
    folder.mkdir(parents=True, exist_ok=True)
    compiler = os.environ.get("CC", "gcc")
    with tempfile.TemporaryDirectory(dir=folder) as work:

        def compile_one(numbered: tuple[int, pathlib.Path]) -> str:
            number, source = numbered
            target = f"{work}/{number}.o"
            subprocess.run([compiler, *FLAGS, "-c", str(source), "-o", target], check=True)
            return target

        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            objects = list(pool.map(compile_one, enumerate(sources())))
        made = f"{work}/{library.name}"
        subprocess.run([compiler, "-shared", "-o", made, *objects, "-lm", "-lpthread"], check=True)
        shutil.move(made, library)
    return library
