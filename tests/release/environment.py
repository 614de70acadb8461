"""Another environment: its python, its snapshot, its programs, and examples."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import ROOT
from tests.release import changes

HERE = Path(__file__).resolve().parent
SILENCE_SECONDS = 900
"""The longest time between two lines of a script: those of rows have a shorter limit."""
TIMED_OUT = 124
"""The code of a process that was ended, as of `timeout`."""
Say = Callable[[str], None]


class EndedEarly(Exception):
    """A script of another environment did not run to its end."""


def ended(code: int) -> str:
    """Return how a process of `streamed` ended."""
    return "reached its time limit" if code == TIMED_OUT else f"ended with {code}"


def streamed(command: list[str], seconds: float, **options: Any) -> Generator[str, None, int]:
    """Yield the lines that a command prints, without their ends, and return its exit code.

    A command that prints no line for some seconds is ended, with all processes of its group. Its
    messages go to the null device.
    """
    child = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        **options,
    )
    assert child.stdout is not None
    is_late = threading.Event()

    def end() -> None:
        is_late.set()
        os.killpg(child.pid, signal.SIGKILL)

    line = "its start"
    while line:
        timer = threading.Timer(seconds, end)
        timer.start()
        line = child.stdout.readline()
        timer.cancel()
        if line:
            yield line.rstrip("\n")
    code = child.wait()
    return TIMED_OUT if is_late.is_set() else code


@dataclass(frozen=True)
class Environment:
    """An environment with a release of executorch."""

    python: str
    paths: tuple[str, ...] = ()
    """Folders before the packages of this python."""

    @classmethod
    def of(cls, place: Path) -> "Environment":
        """Return a virtual environment, or this one with a folder of installed packages first."""
        python = place / "bin" / "python"
        if python.exists():
            return cls(str(python))
        if (place / "executorch").is_dir():
            return cls(sys.executable, (str(place),))
        raise SystemExit(f"{place}: neither a virtual environment nor a folder with executorch")

    def variables(self, *folders: object) -> dict[str, str]:
        """Return the variables of processes there; they find modules of more folders, too."""
        paths = [*self.paths, *map(str, folders), os.environ.get("PYTHONPATH", "")]
        return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}

    def lines(self, script: str, *arguments: object) -> Iterator[str]:
        """Yield the lines that a script of this folder prints there.

        Raises EndedEarly after the last one if it did not end by itself.
        """
        command = [self.python, str(HERE / script), *map(str, arguments)]
        line, rows = "its start", streamed(command, SILENCE_SECONDS, env=self.variables())
        while True:
            try:
                line = next(rows)
            except StopIteration as end:
                if end.value:
                    raise EndedEarly(f"{script} {ended(end.value)} after {line!r}") from None
                return
            yield line

    def snapshot(self) -> changes.Snapshot:
        """Return what the release consists of."""
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as names:
            names.write("\n".join(changes.uses()))
            names.flush()
            try:
                text = "\n".join(self.lines("snapshot.py", names.name))
            except EndedEarly as error:
                raise SystemExit(f"no snapshot: {str(error)[:300]}") from None
        result: changes.Snapshot = json.loads(text)
        return result

    def export(self, folder: Path, say: Say, names: tuple[str, ...] = ()) -> str:
        """Export the rows of export_programs.py into a folder. Return why rows are missing."""
        try:
            for name in self.lines("export_programs.py", folder, *names):
                say(f"export {name}")
        except EndedEarly as error:
            return str(error)
        return ""

    def examples(self, say: Say, names: Sequence[str] = ()) -> tuple[dict[str, str], str]:
        """Return what each flow and each example of the wheel gives there, on this runtime, and why
        rows are missing."""
        results = {}
        try:
            for line in self.lines("examples.py", ROOT, *names):
                name, _, result = line.partition("\t")
                results[name] = result
                say(name)
        except EndedEarly as error:
            return results, str(error)
        return results, ""

    def version(self) -> str:
        return self.printed("from importlib.metadata import version; print(version('executorch'))")

    def folder(self) -> Path:
        """Return the folder of the release's package."""
        return Path(self.printed("import executorch; print(list(executorch.__path__)[0])"))

    def printed(self, code: str) -> str:
        """Return what Python code prints there."""
        command = [self.python, "-c", code]
        return subprocess.check_output(command, text=True, env=self.variables()).strip()


def here() -> Environment:
    """Return the environment of this process."""
    return Environment(sys.executable)


def progress(text: str) -> None:
    """Show the current step on a terminal."""
    if sys.stderr.isatty():
        print(f"\r{text[:78]:78}", end="", file=sys.stderr, flush=True)


def as_json(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True)
