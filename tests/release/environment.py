"""Another environment: its python, its snapshot, its programs, and its own tests."""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import ROOT
from tests.release import changes

HERE = Path(__file__).resolve().parent
SNAPSHOT_SECONDS = 900
EXPORT_SECONDS = 3600
SUITE_SECONDS = 3600
TIMED_OUT = 124
"""Exit code of `timeout` for a process that it ended."""
SUITES = (
    "runtime/test",
    "extension/pybindings/test",
    "exir/emit/test",
    "backends/xnnpack/test/ops",
)
"""Folders of the wheel whose tests run programs."""
Say = Callable[[str], None]


def python_of(place: Path) -> list[str]:
    """Return the command of the python of a virtual environment, or of this one with a folder of
    installed packages first."""
    python = place / "bin" / "python"
    if python.exists():
        return [str(python)]
    if (place / "executorch").is_dir():
        return ["env", f"PYTHONPATH={place}", sys.executable]
    raise SystemExit(f"{place}: neither a virtual environment nor a folder with executorch in it")


class EndedEarly(Exception):
    """A script of another environment did not run to its end."""


def ended(code: int) -> str:
    """Return how a process under `timeout` ended."""
    return "reached its time limit" if code == TIMED_OUT else f"ended with {code}"


@dataclass(frozen=True)
class Environment:
    """An environment with a release of executorch."""

    python: list[str]

    def run(self, script: str, *arguments: object, seconds: int) -> "subprocess.Popen[str]":
        """Start a script of this folder there; its messages go to the null device."""
        command = [*self.python, str(HERE / script), *map(str, arguments)]
        return subprocess.Popen(
            ["timeout", str(seconds), *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def snapshot(self) -> changes.Snapshot:
        """Return what the release consists of."""
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as names:
            names.write("\n".join(changes.uses()))
            names.flush()
            child = self.run("snapshot.py", names.name, seconds=SNAPSHOT_SECONDS)
            text, _ = child.communicate()
        if child.returncode:
            raise SystemExit(f"snapshot.py ended with {child.returncode} in that environment")
        result: changes.Snapshot = json.loads(text)
        return result

    def lines(self, script: str, *arguments: object) -> Iterator[str]:
        """Yield the lines that a script of this folder prints there.

        Raises EndedEarly after the last one if it did not end by itself.
        """
        child, line = self.run(script, *arguments, seconds=EXPORT_SECONDS), "its start"
        assert child.stdout is not None
        for text in child.stdout:
            yield (line := text.strip())
        if child.wait():
            raise EndedEarly(f"{script} {ended(child.returncode)} after {line!r}")

    def export(self, folder: Path, say: Say, names: tuple[str, ...] = ()) -> str:
        """Export the rows of export_programs.py into a folder. Return why rows are missing."""
        try:
            for name in self.lines("export_programs.py", folder, *names):
                say(f"export {name}")
        except EndedEarly as error:
            return str(error)
        return ""

    def examples(self, say: Say) -> tuple[dict[str, str], str]:
        """Return what each flow and each example of the wheel gives there, on this runtime, and why
        rows are missing."""
        results = {}
        try:
            for line in self.lines("examples.py", ROOT):
                name, _, result = line.partition("\t")
                results[name] = result
                say(name)
        except EndedEarly as error:
            return results, str(error)
        return results, ""

    def version(self) -> str:
        code = "from importlib.metadata import version; print(version('executorch'))"
        return subprocess.check_output([*self.python, "-c", code], text=True).strip()

    def folder(self) -> Path:
        """Return the folder of the release's package."""
        code = "import executorch; print(list(executorch.__path__)[0])"
        return Path(subprocess.check_output([*self.python, "-c", code], text=True).strip())

    def suite(self, name: str, ours: bool) -> tuple[dict[str, str], str]:
        """Return the outcome of each test of a folder of the wheel, on this runtime or its own, and
        why tests are missing."""
        root = self.folder()
        options = ["-q", "-rA", "-p", "no:cacheprovider", "--import-mode=importlib", "--tb=no"]
        options.append("--continue-on-collection-errors")
        swap = ["-p", "official_swap"] if ours else []
        paths = [str(ROOT / "tests" / "official"), str(ROOT), os.environ.get("PYTHONPATH", "")]
        *before, python = self.python
        own = [p for part in before if part.startswith("PYTHONPATH=") for p in [part[11:]]]
        command = [python, "-m", "pytest", *options, *swap, f"--rootdir={root}", str(root / name)]
        done = subprocess.run(
            ["timeout", str(SUITE_SECONDS), *command],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([*own, *paths])},
            capture_output=True,
            text=True,
            cwd=tempfile.gettempdir(),
        )
        rows = re.findall(r"^(PASSED|FAILED|ERROR) \S*?(\w+\.py::\S+)", done.stdout, re.M)
        results = {test: outcome for outcome, test in rows}
        if done.returncode > 1 or not results:  # 1: tests failed
            return results, f"pytest {ended(done.returncode)} after {len(results)} tests"
        return results, ""

    def suites(self, say: Say) -> Iterator[tuple[str, str]]:
        """Yield tests that pass on the release's own runtime only, with their outcomes here, and
        folders whose tests did not all run."""
        for name in SUITES:
            if not (self.folder() / name).is_dir():
                continue
            say(f"tests of {name}, on its own runtime")
            theirs, fault = self.suite(name, ours=False)
            if fault:
                yield name, f"on its own runtime, {fault}"
            say(f"tests of {name}, on this runtime")
            ours, fault = self.suite(name, ours=True)
            if fault:
                yield name, fault
            for test, outcome in theirs.items():
                if outcome == "PASSED" and ours.get(test) != "PASSED":
                    yield f"{name} {test}", ours.get(test, "not run").lower()


def here() -> Environment:
    """Return the environment of this process."""
    return Environment([sys.executable])


def progress(text: str) -> None:
    """Show the current step on a terminal."""
    if sys.stderr.isatty():
        print(f"\r{text[:78]:78}", end="", file=sys.stderr, flush=True)


def as_json(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True)
