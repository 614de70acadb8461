"""Build the fuzzer with sanitizers and run it, for the test and for `python -m tests.fuzz`."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests import ROOT, build_core, kept

REGRESSION = ROOT / "tests/regression"
QUICK_TO_BUILD, QUICK_TO_RUN = "-O0 -g1", "-O1 -g"
SANITIZE = "-fsanitize=address,undefined -fno-sanitize-recover=all"
DEFINES = "-DEC_INSTRUCTION_LIMIT=2000 -DEC_ARENA_EXACT"
CHECKED = f"{QUICK_TO_BUILD} {SANITIZE} {DEFINES}"
FAST = "-O2 -g1 -DEC_INSTRUCTION_LIMIT=2000"
"""Flags of the build without sanitizers: a hundred times as many inputs, of which those are
findings that crash or differ."""
SANITIZERS = {"ASAN_OPTIONS": "allocator_may_return_null=1:detect_leaks=1"}


def build_folder(folder: Path) -> Path:
    """Return the folder of EXECUTORCH_C_FUZZ_BUILD, which keeps objects, or `folder`."""
    return Path(os.environ.get("EXECUTORCH_C_FUZZ_BUILD", folder))


def build(folder: Path, goal: str = "fuzz", program: str = "fuzz_pte", **variables: str) -> Path:
    """Build a program of csrc/testing; objects go to `build_folder`."""
    folder = build_folder(folder)
    table = {"CFLAGS": CHECKED, **variables}
    command = [
        "make",
        "-C",
        str(ROOT / "csrc"),
        f"BUILD={folder}",
        f"-j{os.cpu_count() or 1}",
        *(f"{name}={value}" for name, value in table.items()),
        goal,
    ]
    outputs = subprocess.run(command, capture_output=True, text=True)
    if outputs.returncode:
        raise RuntimeError(f"the fuzzer does not build:\n{outputs.stderr[-3000:]}")
    return folder / program


def with_xnnpack(folder: Path) -> dict[str, str]:
    """Return the variables of `build` that link XnnpackBackend, and copy its shared libraries to
    the folder."""
    if os.environ.get("EXECUTORCH_C_XNNPACK") == "0":
        return {}
    sys.path.insert(0, str(ROOT / "backends/xnnpack"))
    from get_xnnpack import find

    library, folder = find(), build_folder(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in library.shared.items():
        if not (folder / name).exists():  # a running fuzzer may have it mapped
            shutil.copy(path, folder / name)
    files = " ".join(map(str, library.libraries))
    return {"XNNPACK": str(library.root), "XNNPACK_FILES": files}


def kept_build(flags: str = CHECKED) -> Path:
    """Returns the folder of fuzz_pte and fuzz_replay, which are built once for each state of the
    sources."""
    if "EXECUTORCH_C_FUZZ_BUILD" in os.environ:
        with kept.locked("fuzz"):
            folder = build_folder(Path())
            return build(folder, CFLAGS=flags, **with_xnnpack(folder)).parent
    xnnpack = os.environ.get("EXECUTORCH_C_XNNPACK")
    name = f"fuzz-{build_core.fingerprint(ROOT / 'backends')}-"
    name += kept.digest(flags, str(ROOT), xnnpack)
    return kept.file(
        name,
        lambda folder: without_objects(build(folder, CFLAGS=flags, **with_xnnpack(folder))),
    )


def without_objects(fuzzer: Path) -> None:
    """Leaves the programs and shared libraries of a build."""
    for path in fuzzer.parent.iterdir():
        if path.is_dir():
            shutil.rmtree(path)


def run(
    fuzzer: Path, files: list[Path], cases: int, seed: int, out: Path, *options: str
) -> tuple[bool, str]:
    """Run the fuzzer; return True if no case failed, and its output. Failing files are in `out`."""
    out.mkdir(parents=True, exist_ok=True)
    jobs = min(os.cpu_count() or 1, 16)
    command = [
        str(fuzzer),
        "--cases",
        str(cases),
        "--seed",
        str(seed),
        "--jobs",
        str(jobs),
        "--out",
        str(out),
        *options,
        *map(str, files),
    ]
    outputs = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **SANITIZERS}
    )
    errors = outputs.stderr if len(outputs.stderr) < 8000 else outputs.stderr[:8000] + "..."
    return outputs.returncode == 0, outputs.stdout + errors


def count(report: str, what: str) -> int:
    """Return the number before a word of the report."""
    match = re.search(rf"(\d+) {what}", report)
    assert match, report
    return int(match.group(1))
