"""python -m tests.coverage: coverage of the C code by its own tests, by folder.

Build csrc with gcc --coverage and run the C tests, the fuzzers' corpus, the seeds, and a fixed
number of mutations of each, so that reruns cover the same lines. --kernels adds tests/kernels with
the same library, --python pytest with an extension built in build/. A line counts once, even if it
is in several objects: templates are compiled for each dtype.

--branches prints branches by file, and those that were never taken; with a gcc that has
-fcondition-coverage (14 or later), also conditions: outcomes of terms that decided an expression
by themselves (MC/DC). --core runs the tests in C only.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import ROOT
from tests.fuzz.driver import build, with_xnnpack
from tests.fuzz.seeds import PROGRAM, TARGETS, kept_files, write_seeds

FLAGS = "-O0 -g1 --coverage -DEC_INSTRUCTION_LIMIT=2000 -DNDEBUG"
"""NDEBUG: an assertion that holds is no branch."""
COMPILER = os.environ.get("CC", "gcc")
GCOV = os.environ.get("GCOV", "gcov")
"""CC=FOLDER/gcc GCOV=FOLDER/gcov: gcc 14 of csrc/testing/get_gcc14."""
BRANCHED = ("csrc/core", "csrc/format", "csrc/trace", "csrc/backend", "csrc/runtime")
"""Folders whose branches are listed."""
FOLDERS = tuple(
    (
        "csrc/core csrc/format csrc/trace csrc/kernels csrc/backend csrc/runtime "
        "csrc/python backends/xnnpack backends/interpreted backends/operators "
        "backends/openvino backends/demo backends/demo_ops"
    ).split()
)
Lines = dict[str, dict[int, bool]]
"""By file: the lines with code, and True for lines that ran."""
Place = tuple[str, int, int]
"""A function, a line and a number there."""


@dataclass
class Coverage:
    """What ran.

    Attributes:
        lines: Lines by file.
        branches: By file and place: whether the branch was taken.
        conditions: By file and place: the number of outcomes of terms, and those that decided.
    """

    lines: Lines = field(default_factory=lambda: defaultdict(dict))
    branches: dict[str, dict[Place, bool]] = field(default_factory=lambda: defaultdict(dict))
    conditions: dict[str, dict[Place, tuple[int, int]]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    def add(self, name: str, rows: list[dict[str, Any]]) -> None:
        """Add the lines of a file in an object."""
        seen, taken, decided = self.lines[name], self.branches[name], self.conditions[name]
        for row in rows:
            number, function = row["line_number"], row.get("function_name", "")
            seen[number] = seen.get(number, False) or row["count"] > 0
            for index, branch in enumerate(row["branches"]):
                place = (function, number, index)
                taken[place] = taken.get(place, False) or branch["count"] > 0
            for index, one in enumerate(row.get("conditions", ())):
                place = (function, number, index)
                covered = max(one["covered"], decided.get(place, (0, 0))[1])
                decided[place] = (one["count"], covered)


def gcc_flags() -> str:
    """Return the flags of this compiler: with conditions, if it knows them."""
    flag = "-fcondition-coverage"
    test = [COMPILER, flag, "-E", "-x", "c", os.devnull]
    known = subprocess.run(test, capture_output=True, check=False).returncode == 0
    return f"{FLAGS} {flag}" if known else FLAGS


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


def run_tests(folder: Path, **variables: str) -> None:
    """Run the C tests."""
    tests = build(folder, "all", "test_core", CFLAGS=gcc_flags(), CC=COMPILER, **variables)
    subprocess.run([str(tests)], cwd=ROOT / "csrc", stdout=subprocess.DEVNULL, check=True)


def run_core(folder: Path, seeds: bool, mutations: int) -> None:
    """Run the C tests and the fuzz targets."""
    targets = with_xnnpack(folder)
    flags = gcc_flags()
    program = build(folder, "fuzz", "fuzz_replay", CFLAGS=flags, CC=COMPILER, **targets)
    run_tests(folder, **targets)
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
    flags = gcc_flags()
    library = build(folder, "shared", "libexecutorch_c.so", CFLAGS=flags, CC=COMPILER, **targets)
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


def read_counters(folder: Path, coverage: Coverage) -> None:
    """Add the counters in a folder. Objects without counters, which no test ran, have zeros."""
    conditions = ["--conditions"] if "-fcondition" in gcc_flags() else []
    notes = sorted(str(path) for path in folder.rglob("*.gcno"))
    for first in range(0, len(notes), 100):
        outputs = subprocess.run(
            [GCOV, "--branch-probabilities", *conditions, "--json-format", "--stdout"]
            + notes[first : first + 100],
            cwd=ROOT / "csrc",
            capture_output=True,
            check=True,
        )
        for document in filter(None, outputs.stdout.splitlines()):
            result = json.loads(document)
            for file in result["files"]:
                path = Path(result["current_working_directory"], file["file"]).resolve()
                if path.is_relative_to(ROOT):
                    coverage.add(path.relative_to(ROOT).as_posix(), file["lines"])


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


def report_branches(coverage: Coverage) -> None:
    """Print branches, and conditions if the compiler has them, by file; then what is missing."""
    print(f"\n{'file':<40}{'branches':>9}{'taken':>7}{'':>8}{'conditions':>11}{'':>8}")
    total = [0, 0, 0, 0]
    names = [n for n in sorted(coverage.branches) if n.startswith(BRANCHED)]
    for name in [*names, ""]:
        branches, terms = coverage.branches.get(name, {}), coverage.conditions.get(name, {})
        row = [len(branches), sum(branches.values())]
        row += [sum(one[0] for one in terms.values()), sum(one[1] for one in terms.values())]
        total = [a + b for a, b in zip(total, row)]
        cells = total if not name else row
        if cells[0]:
            print(f"{name or 'all':<40}{cells[0]:>9}{cells[1]:>7}{share(*cells[:2])}", end="")
            print(f"{cells[2]:>11}{share(*cells[2:])}" if cells[2] else "")
    for name in names:
        text = (ROOT / name).read_text().splitlines()
        missing = {line for (_, line, _), taken in coverage.branches[name].items() if not taken}
        for line in sorted(missing):
            print(f"{name}:{line}: {text[line - 1].strip()}")


def share(count: int, ran: int) -> str:
    """Return a percentage in eight columns."""
    return f"{100 * ran / max(count, 1):>7.1f}%"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.coverage", description=__doc__)
    add = parser.add_argument
    add("--build", type=Path, help="folder for objects and counters, kept (default: none)")
    add("--core", action="store_true", help="only the tests in C, a minute")
    add("--branches", action="store_true", help="also branches by file, and those never taken")
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
    coverage = Coverage()

    with tempfile.TemporaryDirectory() as work:
        folder = (options.build or Path(work)).resolve()
        if options.core:
            run_tests(folder, TEST_POOL="1")  # threads of csrc/testing/pool
        else:
            run_core(folder, not options.no_seeds, options.mutations)
        if options.kernels:
            run_kernels(folder)
        if options.python:
            run_python(folder, options.python)
            read_counters(ROOT / "build", coverage)
        read_counters(folder, coverage)
    report(coverage.lines, options.missing)
    if options.branches:
        report_branches(coverage)


if __name__ == "__main__":
    main()
