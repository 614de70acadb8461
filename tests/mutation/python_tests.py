"""The tests in Python as judges of mutants: which test runs which line, and a server that runs
them."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from tests import ROOT, kept
from tests.mutation.mutant import Mutant, near

FOLDERS = ("compare", "check", "debug")
TESTS = (
    "tests/debug/test_*.py",
    "tests/suite/test_*.py",
    "tests/verdicts/test_*.py",
    "tests/python/test_check*.py",
    "tests/python/test_input_sets.py",
    "tests/python/test_official_engine.py",
    "tests/python/test_policies.py",
    "tests/python/test_report.py",
    "tests/python/test_testing.py",
)
"""Files that test these folders."""
MEASURED = 60.0
"""Seconds of processor time of a file's tests that are traced: later ones do not judge."""
ENOUGH = 12.0
"""Seconds of processor time of the tests of a mutant: others, slower ones, do not run."""


class PythonTests:
    """A process with the tests (`server.py`), and the lines that each of them runs.

    Attributes:
        folder: Folder of the kept lines.
        seconds: Processor time of each test that passes.
        lines: By file and line: the tests that run it.
    """

    def __init__(self, folder: Path, patterns: tuple[str, ...] = TESTS) -> None:
        self.folder = folder / "python"
        self.folder.mkdir(parents=True, exist_ok=True)
        files = [path for pattern in patterns for path in sorted(ROOT.glob(pattern))]
        self.start([path.relative_to(ROOT).as_posix() for path in files])
        self.seconds: dict[str, float] = {}
        self.lines: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
        by_file: dict[str, list[str]] = defaultdict(list)
        for name in self.read()["tests"]:
            by_file[name.partition("::")[0]].append(name)
        for file, names in by_file.items():
            self.add(self.measured(file, names))

    def start(self, files: list[str]) -> None:
        """Start the server."""
        to_read, write = os.pipe()
        read, to_write = os.pipe()
        command = [sys.executable, "-m", "tests.mutation.server", str(to_read), str(to_write)]
        self.process = subprocess.Popen(
            [*command, ",".join(FOLDERS), *files],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self.requests, self.answers = os.fdopen(write, "w"), os.fdopen(read)

    def read(self) -> dict[str, Any]:
        line = self.answers.readline()
        if not line:
            raise RuntimeError(f"the process with the tests ended: {self.process.wait()}")
        result: dict[str, Any] = json.loads(line)
        return result

    def ask(self, **request: object) -> dict[str, Any]:
        """Return the answer to a request."""
        self.requests.write(json.dumps(request) + "\n")
        self.requests.flush()
        return self.read()

    def measured(self, file: str, names: list[str]) -> dict[str, Any]:
        """Return the answer with the lines of a file's tests, kept for these sources."""
        sources = [
            path for name in FOLDERS for path in (ROOT / "executorch_c" / name).rglob("*.py")
        ]
        path = self.folder / f"{kept.digest(ROOT / file, names, *sorted(sources))}.json"
        if not path.exists():
            print(f"{file}: tracing {len(names)} tests, once", file=sys.stderr, flush=True)
            path.write_text(json.dumps(self.ask(tests=names, trace=True, seconds=MEASURED)))
        result: dict[str, Any] = json.loads(path.read_text())
        if "ended" in result:
            print(f"{file}: left out: {result['ended']}", file=sys.stderr, flush=True)
        return result

    def add(self, answer: dict[str, Any]) -> None:
        """Add the tests that pass."""
        for name, outcome in answer.get("outcomes", {}).items():
            if outcome == "passed":
                self.seconds[name] = answer["seconds"][name]
                for file, lines in answer["lines"][name].items():
                    for line in lines:
                        self.lines[file][line].append(name)

    def tests(self, mutant: Mutant) -> list[str]:
        """Return the tests that run the mutant's line, quick ones first."""
        return sorted(near(self.lines[mutant.file], mutant.line), key=self.seconds.__getitem__)

    def judge(self, mutant: Mutant) -> tuple[str, str]:
        """Return the result for a mutant, and the test that kills it or how it ends."""
        tests = self.tests(mutant)
        if not tests:
            return "survived", "no test in Python runs the line"
        chosen, seconds = [], 0.0
        for name in tests:
            seconds += self.seconds[name]
            if not chosen or seconds < ENOUGH:
                chosen.append(name)
        text = mutant.apply((ROOT / mutant.file).read_text())
        answer = self.ask(tests=chosen, file=mutant.file, text=text, seconds=2 * ENOUGH)
        if "no mutant" in answer:
            return answer["no mutant"], ""
        if "outcomes" in answer:
            return "survived", f"{len(answer['seconds'])} of {len(tests)} tests of the line ran"
        return "python", answer.get("failed") or answer["ended"]
