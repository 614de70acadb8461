"""Progress of long work: one line, rewritten, on a terminal; otherwise no output."""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import monotonic

from executorch_c._render import text as _text

INTERVAL = 0.1
"""Seconds between two updates of a count."""


class Progress:
    """A line on stderr with the current step; a context manager that removes it.

    Args:
        name: Name of the work, at the beginning of the line.
        enabled: Show the line. Default: if stderr is a terminal.
    """

    def __init__(self, name: str, enabled: bool | None = None) -> None:
        self._name = name
        self._on = sys.stderr.isatty() if enabled is None else enabled
        self._shown = 0
        self._last = 0.0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self("")

    def __call__(self, text: str) -> None:
        """Show the current step; an empty text removes the line."""
        if not self._on:
            return
        line = _text.shortened(f"{self._name}: {text}", _text.width() - 1) if text else ""
        sys.stderr.write("\r" + line.ljust(self._shown) + ("" if text else "\r"))
        sys.stderr.flush()
        self._shown = len(line)

    def count(self, text: str) -> Callable[[int, int], None]:
        """Return a function that shows a count."""

        def show(done: int, total: int) -> None:
            now = monotonic()
            if self._on and now - self._last > INTERVAL:
                self._last = now
                self(f"{text}, {done:,} of {total:,}")

        return show
