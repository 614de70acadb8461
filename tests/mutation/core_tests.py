"""The tests in C as judges of mutants: which test runs which line, and a build with one change."""

import json
import os
import re
import resource
import signal
import subprocess
import time
from collections import defaultdict
from pathlib import Path

from tests import ROOT, build_core
from tests.fuzz.driver import build
from tests.mutation.mutant import Mutant, near

CSRC = ROOT / "csrc"
FOLDERS = ("core", "format", "trace", "backend", "runtime")
QUICK = 0.1
"""Seconds of a test that runs before others."""
FLAGS = (
    "-std=c11 -D_GNU_SOURCE -fPIC -fvisibility=hidden -w -I. -Iinclude "
    "-DEC_HAVE_PTHREADPOOL=1 -Itesting/pool"
).split()
"""Of csrc/Makefile with TEST_POOL, whose threads are those of csrc/testing/pool."""
SECONDS, MEMORY = 6, 16 << 30
"""Limits of a run: processor time, and address space in bytes."""
Lines = dict[str, dict[str, list[str]]]
"""By file and line: the tests that run it."""


def limit() -> None:
    """Limit the process that is about to start, and begin a group of its children."""
    os.setpgrp()
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(command: list[str], cwd: Path, seconds: float = 45) -> str:
    """Run a command with limits; return "" if it succeeds, or how it ended."""
    process = subprocess.Popen(
        command,
        cwd=cwd,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=limit,
    )
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        return "endless"
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)  # its children, too
        except ProcessLookupError:
            pass
        process.wait()
    if code < 0:
        ended = signal.Signals(-code).name
        return "endless" if ended in ("SIGXCPU", "SIGKILL") else ended
    return "failure" if code else ""


def names() -> list[str]:
    """Return the names of the tests."""
    return re.findall(r"^EC_TEST\((\w+)\)", (CSRC / "testing/tests.def").read_text(), re.M)


def executed(folder: Path) -> dict[tuple[str, int], bool]:
    """Return the lines with code, and True for those that ran since the counters in a folder were
    removed."""
    data = [str(path) for layer in FOLDERS for path in folder.glob(f"{layer}/**/*.gcda")]
    command = ["gcov", "--json-format", "--stdout", *data]
    output = subprocess.run(command, cwd=CSRC, capture_output=True, check=True).stdout
    result: dict[tuple[str, int], bool] = {}
    for document in filter(None, output.splitlines()):
        for file in json.loads(document)["files"]:
            path = (CSRC / file["file"]).resolve()
            if path.is_relative_to(CSRC):
                name = path.relative_to(ROOT).as_posix()
                for row in file["lines"]:
                    place = (name, row["line_number"])
                    result[place] = result.get(place, False) or row["count"] > 0
    return result


def measure(folder: Path) -> tuple[Lines, dict[str, float]]:
    """Return the tests of each line, and the duration of each test."""
    program = build(folder, "all", "test_core", CFLAGS="-O0 -g1 --coverage", TEST_POOL="1")
    lines: Lines = defaultdict(lambda: defaultdict(list))
    seconds = {}
    for test in names():
        for data in folder.rglob("*.gcda"):
            data.unlink()
        start = time.monotonic()
        if ended := run([str(program), f"={test}"], CSRC):
            raise RuntimeError(f"the test {test} does not pass by itself: {ended}")
        seconds[test] = time.monotonic() - start
        for (file, line), ran in executed(folder).items():
            lines[file][str(line)] += [test] if ran else []
    return lines, seconds


class CoreTests:
    """A build of the tests in C, in which one object is another.

    Attributes:
        folder: Folder of the objects.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "core"
        kept = folder / f"lines-{build_core.fingerprint()}.json"
        if not kept.exists():
            kept.write_text(json.dumps(measure(folder / "core-lines")))
        self.lines, self.seconds = json.loads(kept.read_text())
        self.original: dict[str, bytes] = {}
        build(self.folder, "all", "test_core", CFLAGS="-O0 -g0", TEST_POOL="1")

    def tests(self, mutant: Mutant) -> list[str]:
        """Return the tests that run the mutant's line, or those near it (`near`)."""
        lines = {int(line): tests for line, tests in self.lines.get(mutant.file, {}).items()}
        tests = near(lines, mutant.line)
        if not tests and mutant.line not in lines:  # a table beside functions that no test runs
            tests = set().union(*lines.values())
        return sorted(tests)

    def same(self, mutant: Mutant) -> bool:
        """Return True if the compiler makes the same code of the mutant."""
        text = (ROOT / mutant.file).read_text()
        if mutant.file not in self.original:
            self.original[mutant.file] = self.code(text, mutant)
        return self.code(mutant.apply(text), mutant) == self.original[mutant.file]

    def code(self, text: str, mutant: Mutant) -> bytes:
        """Return the optimized object of a text."""
        file = compiled(text, mutant, self.folder, "-O2")
        return file.read_bytes() if file else b""

    def link(self, mutant: Mutant, changed: Path) -> Path:
        """Return the tests with an object instead of the one of the mutant's file."""
        target = self.folder / "mutant_tests"
        replaced = self.folder / Path(mutant.file).relative_to("csrc").with_suffix(".o")
        objects = [path for path in self.folder.glob("testing/*.o") if path.stem not in OTHERS]
        layers = [path for layer in FOLDERS for path in self.folder.glob(f"{layer}/**/*.o")]
        layers = [changed if path == replaced else path for path in layers]
        objects.append(self.folder / "testing/pool/pthreadpool.o")
        library = self.folder / "libexecutorch_c.a"
        command = ["gcc", "-O0", "-o", target, *objects, *layers, library, "-lm", "-lpthread"]
        subprocess.run(list(map(str, command)), check=True)
        return target

    def judge(self, mutant: Mutant) -> tuple[str, str]:
        """Return the result for a mutant, and the test that kills it or how it ends."""
        tests = self.tests(mutant)
        if not tests:
            return "survived", "no test in C runs the line"
        text = mutant.apply((ROOT / mutant.file).read_text())
        changed = compiled(text, mutant, self.folder, "-O0")
        if not changed:
            return "compiler", ""
        program = str(self.link(mutant, changed))
        quick = [test for test in tests if self.seconds[test] < QUICK]
        slow = sorted(set(tests) - set(quick), key=self.seconds.__getitem__)
        for batch in filter(None, (quick, *([test] for test in slow))):
            if ended := run([program, *(f"={test}" for test in batch)], CSRC):
                return "c", ended
        if self.same(mutant):
            return "same code", ""
        return "survived", f"{len(tests)} tests in C run the line"


OTHERS = {"fuzz_pte", "fuzz_replay", "fuzz_guided", "preload_alloc", "preload_io"}
"""Sources of csrc/testing that are no part of the tests."""


def compiled(text: str, mutant: Mutant, folder: Path, optimize: str) -> Path | None:
    """Return the object of a text instead of the mutant's file, or None if it does not compile.

    The folder of the source is on the path of headers, where its own includes look first.
    """
    source, target = folder / "mutant.c", folder / "mutant.o"
    source.write_text(f'#line 1 "{mutant.file}"\n{text}')
    near = f"-iquote{(ROOT / mutant.file).parent}"
    command = ["gcc", *FLAGS, near, optimize, "-c", str(source), "-o", str(target)]
    done = subprocess.run(command, cwd=CSRC, capture_output=True, timeout=60)
    return None if done.returncode else target
