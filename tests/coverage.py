"""python -m tests.coverage: line coverage of the C code by its own tests, by folder.

Build csrc with gcc --coverage and run the C tests, the fuzzers' corpus, the seeds, and a fixed
number of mutations of each, so that reruns cover the same lines. --kernels adds tests/kernels with
the same library, --python pytest with an extension built in build/. A line counts once, even if it
is in several objects: templates are compiled for each dtype.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from tests import ROOT
from tests.fuzz.driver import build, with_xnnpack
from tests.fuzz.seeds import PROGRAM, TARGETS, kept_files, write_seeds

FLAGS = "-O0 -g1 --coverage -DEC_INSTRUCTION_LIMIT=2000"
FOLDERS = tuple(
    (
        "csrc/core csrc/format csrc/trace csrc/kernels csrc/backend csrc/runtime "
        "csrc/python backends/xnnpack backends/interpreted backends/operators "
        "backends/openvino backends/demo backends/demo_ops"
    ).split()
)
Lines = dict[str, dict[int, bool]]
"""By file: the lines with code, and True for lines that ran."""


def replay(program: Path, target: str, files: list[Path], mutations: int) -> None:
    """Replay files and mutations of them; a failure is an error."""
    command = [
        str(program),
        f"--target={target}",
        f"--program={PROGRAM}",
        f"--mutate={mutations}",
        *map(str, files),
    ]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def run_core(folder: Path, seeds: bool, mutations: int) -> None:
    """Run the C tests and the fuzz targets."""
    targets = with_xnnpack(folder)
    program = build(folder, "fuzz", "fuzz_replay", CFLAGS=FLAGS, **targets)
    tests = build(folder, "all", "test_core", CFLAGS=FLAGS, **targets)
    subprocess.run([str(tests)], cwd=ROOT / "csrc", stdout=subprocess.DEVNULL, check=True)
    for target in TARGETS:
        if target == "xnnpack" and not targets:
            continue
        files = kept_files(target)
        if seeds:
            result = folder / "seeds" / target
            print(f"{target}: {write_seeds(target, result)} seeds", flush=True)
            files = sorted(result.iterdir())
        if files:
            replay(program, target, files, mutations)


def run_kernels(folder: Path) -> None:
    """Run tests/kernels with a library of the same objects."""
    targets = with_xnnpack(folder)
    library = build(folder, "shared", "libexecutorch_c.so", CFLAGS=FLAGS, **targets)
    environment = {**os.environ, "EXECUTORCH_C_CORE_LIB": str(library)}
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tests/kernels"],
        cwd=ROOT,
        check=False,
        env=environment,
    )


def run_python(folder: Path, tests: list[str]) -> None:
    """Run tests with an extension built with coverage, each argument in a process of its own.

    Not with pytest-xdist: its workers end without writing their counters.
    """
    site = folder / "site"
    pip = [
        *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"),
        *("--no-build-isolation", "--target", str(site), str(ROOT)),
    ]
    build_here = {**os.environ, "CFLAGS": "--coverage -O0 -g1", "LDFLAGS": "--coverage"}
    if prefix := with_xnnpack(folder).get("XNNPACK"):
        build_here["XNNPACK_ROOT"] = prefix  # as it is: built without these flags
    subprocess.run(pip, check=True, env=build_here)
    # -P: the sources in place would hide the extension.
    pytest = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(site)}
    running = [subprocess.Popen([*pytest, one], cwd=ROOT, env=environment) for one in tests]
    for process in running:
        process.wait()


def read_lines(folder: Path, lines: Lines) -> None:
    """Add the counters in a folder."""
    for data in sorted(folder.rglob("*.gcda")):
        outputs = subprocess.run(
            ["gcov", "--json-format", "--stdout", str(data)],
            cwd=ROOT / "csrc",
            capture_output=True,
            check=True,
        )
        for document in outputs.stdout.splitlines():
            result = json.loads(document)
            for file in result["files"]:
                path = Path(result["current_working_directory"], file["file"]).resolve()
                if path.is_relative_to(ROOT):
                    seen = lines[path.relative_to(ROOT).as_posix()]
                    for line in file["lines"]:
                        number = line["line_number"]
                        seen[number] = seen.get(number, False) or line["count"] > 0


def report(lines: Lines, missing: list[str]) -> None:
    """Print the table, and the uncovered lines of the requested files."""
    total = [0, 0]
    print(f"{'folder':<20}{'lines':>8}{'run':>8}{'':>9}")
    for folder in FOLDERS:
        files = [seen for name, seen in lines.items() if name.startswith(folder + "/")]
        count, ran = sum(map(len, files)), sum(sum(seen.values()) for seen in files)
        if count:
            print(f"{folder:<20}{count:>8}{ran:>8}{100 * ran / count:>8.1f}%")
            total = [total[0] + count, total[1] + ran]
    print(f"{'all':<20}{total[0]:>8}{total[1]:>8}{100 * total[1] / max(total[0], 1):>8.1f}%")
    for name, seen in sorted(lines.items()):
        without = sorted(number for number, ran in seen.items() if not ran)
        if without and any(name.startswith(part) for part in missing):
            print(f"{name}: {len(without)} of {len(seen)}: {' '.join(map(str, without))}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.coverage", description=__doc__)
    add = parser.add_argument
    add("--build", type=Path, help="folder for objects and counters, kept (default: none)")
    add("--no-seeds", action="store_true", help="only the corpus, without generated programs")
    add("--mutations", type=int, default=4, help="mutations of each file (default: 4)")
    add("--kernels", action="store_true", help="also tests/kernels")
    add(
        "--python",
        nargs="*",
        metavar="TESTS",
        default=[],
        help="also pytest with an instrumented extension, a process for each",
    )
    add(
        "--missing",
        action="append",
        default=[],
        metavar="FOLDER",
        help="also the uncovered lines of these files, such as csrc/format",
    )
    options = parser.parse_args()
    lines: Lines = defaultdict(dict)

    with tempfile.TemporaryDirectory() as work:
        folder = (options.build or Path(work)).resolve()
        run_core(folder, not options.no_seeds, options.mutations)
        if options.kernels:
            run_kernels(folder)
        if options.python:
            run_python(folder, options.python)
            read_lines(ROOT / "build", lines)
        read_lines(folder, lines)
    report(lines, options.missing)


if __name__ == "__main__":
    main()
