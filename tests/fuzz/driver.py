"""Builds the fuzzer with sanitizers and runs it, for the test and for `python -m tests.fuzz`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
REGRESSION = ROOT / "tests/regression"
SANITIZE = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all"
DEFINES = "-DEC_INSTRUCTION_LIMIT=2000 -DEC_ARENA_EXACT"
SANITIZERS = {"ASAN_OPTIONS": "allocator_may_return_null=1:detect_leaks=1"}


def build_folder(folder: Path) -> Path:
    """Returns the folder that EXECUTORCH_C_FUZZ_BUILD names, which keeps objects, or `folder`."""
    return Path(os.environ.get("EXECUTORCH_C_FUZZ_BUILD", folder))


def build(folder: Path, goal: str = "fuzz", program: str = "fuzz_pte", **variables: str) -> Path:
    """Builds a program of csrc/testing; objects go to `build_folder`."""
    folder = build_folder(folder)
    given = {"CFLAGS": f"{SANITIZE} {DEFINES}", **variables}
    command = ["make", "-C", str(ROOT / "csrc"), f"BUILD={folder}", f"-j{os.cpu_count() or 1}",
               *(f"{name}={value}" for name, value in given.items()), goal]  # fmt: skip
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode:
        raise RuntimeError(f"the fuzzer does not build:\n{made.stderr[-3000:]}")
    return folder / program


def with_xnnpack(folder: Path) -> dict[str, str]:
    """Variables of `build` that link XnnpackBackend; its shared libraries go into the folder."""
    if os.environ.get("EXECUTORCH_C_XNNPACK") == "0":
        return {}
    sys.path.insert(0, str(ROOT / "backends/xnnpack"))
    from get_xnnpack import find

    library, folder = find(), build_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in library.shared.items():
        if not (folder / name).exists():  # a fuzzer that runs may have it mapped
            shutil.copy(path, folder / name)
    files = " ".join(map(str, library.libraries))
    return {"XNNPACK": str(library.root), "XNNPACK_FILES": files}


def run(fuzzer: Path, files: list[Path], cases: int, seed: int, out: Path) -> tuple[bool, str]:
    """Whether no case failed, and what the fuzzer printed; failing files are in `out`."""
    out.mkdir(parents=True, exist_ok=True)
    jobs = min(os.cpu_count() or 1, 16)
    command = [str(fuzzer), "--cases", str(cases), "--seed", str(seed), "--jobs", str(jobs),
               "--out", str(out), *map(str, files)]  # fmt: skip
    found = subprocess.run(command, capture_output=True, text=True,
                           env={**os.environ, **SANITIZERS})  # fmt: skip
    errors = found.stderr if len(found.stderr) < 8000 else found.stderr[:8000] + "..."
    return found.returncode == 0, found.stdout + errors


def count(report: str, what: str) -> int:
    """The number in front of a word of the report."""
    match = re.search(rf"(\d+) {what}", report)
    assert match, report
    return int(match.group(1))
