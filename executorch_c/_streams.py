"""Standard output and error of a command, which ends with its files and its exit code also where
nobody reads them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO, cast


class OutputFile:
    """A text file that drops texts from its first error on: a pipe without reader, a full disk."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.error: OSError | None = None
        """The first error of the file; None if it has all texts."""

    def write(self, text: str) -> int:
        """Write a text. Return the number of its characters."""
        if self.error is None:
            try:
                self._file.write(text)
            except OSError as error:
                self._drop(error)
        return len(text)

    def flush(self) -> None:
        """Pass on what has been written."""
        if self.error is None:
            try:
                self._file.flush()
            except OSError as error:
                self._drop(error)

    def _drop(self, error: OSError) -> None:
        """Send what the file still holds to the null device: Python flushes it at exit."""
        self.error = error
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._file.fileno())
        os.close(null)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@contextmanager
def outputs() -> Iterator[None]:
    """Take standard output and error for files that drop texts after an error.

    After the block, standard error has a line about a full disk. A reader that has seen enough
    (`| head`) is no error. A stream that is closed (`>&-`) is the null device.
    """
    with ExitStack() as stack:

        def taken(stream: TextIO | None) -> OutputFile:
            return OutputFile(
                stream or stack.enter_context(open(os.devnull, "w", encoding="utf-8"))
            )

        out, err = taken(sys.stdout), taken(sys.stderr)
        with redirect_stdout(cast(TextIO, out)), redirect_stderr(cast(TextIO, err)):
            try:
                yield
            finally:
                out.flush()
                if out.error is not None and not isinstance(out.error, BrokenPipeError):
                    reason = out.error.strerror
                    print(f"executorch-c: error: standard output: {reason}", file=sys.stderr)
                err.flush()


def stop_without_reader() -> None:
    """Raise the error of standard output, if it has one: for commands whose texts are all they do.

    Raises:
        OSError: The stream drops texts.
    """
    error = getattr(sys.stdout, "error", None)
    if error is not None:
        raise error
