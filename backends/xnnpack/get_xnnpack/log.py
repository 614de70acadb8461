"""Run the commands of the build, with their output in a file named by error messages."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

NINJA = re.compile(r"\[(\d+)/(\d+)\]")
TAIL = 12
"""Number of lines of a failed command's output in its error message."""


class XnnpackError(Exception):
    """XNNPACK is missing and cannot be built; the message says why."""


class Log:
    """Progress on the terminal (stderr, if pip shows it), complete output in the file."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")

    def say(self, text: str) -> None:
        """Report a step to the user and to the file."""
        print(text, file=sys.stderr, flush=True)
        self.write(text + "\n")

    def write(self, text: str) -> None:
        """Append to the file."""
        if self.path:
            with self.path.open("a") as file:
                file.write(text)

    def run(self, *command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
        """Run a command and return its output; ninja's progress is reported in tenths."""
        words = [str(word) for word in command]
        self.write(f"\n$ {' '.join(words)}\n")
        lines: list[str] = []
        tenth = 0
        try:
            process = subprocess.Popen(
                words,
                cwd=cwd,
                env=env,
                text=True,
                errors="replace",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        except OSError as error:
            raise XnnpackError(f"{words[0]} cannot be run: {error.strerror}") from None
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            self.write(line)
            step = NINJA.match(line)
            if step and int(step[1]) * 10 // int(step[2]) > tenth:
                tenth = int(step[1]) * 10 // int(step[2])
                self.say(f"  {step[1]} of {step[2]} files")
        if process.wait() != 0:
            raise self.failure(f"'{' '.join(words[:3])} ...' failed", "".join(lines))
        return "".join(lines)

    def failure(self, what: str, output: str) -> XnnpackError:
        """Return an error with the end of a command's output and the path of the log."""
        tail = "".join(f"\n  | {line}" for line in output.splitlines()[-TAIL:])
        where = f"\n(complete output: {self.path})" if self.path else ""
        return XnnpackError(f"{what}{':' if tail else ''}{tail}{where}")
