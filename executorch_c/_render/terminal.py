"""Tables on a terminal, drawn by rich (the extra `view`); without rich they are plain text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
import re
from contextlib import contextmanager, nullcontext, redirect_stdout
from functools import partial
from typing import Any, TextIO, cast

from executorch_c import _extras
from executorch_c._render.html import VERDICTS
from executorch_c._render.text import drawn_by

STYLES = {"good": "green", "bad": "bold red", "unsure": "yellow"}
"""Styles of the classes of VERDICTS."""
UNSAFE = re.compile(
    "\x1b(?!\\[[0-9;]*m)|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)
"""Characters that a terminal obeys, but for line breaks, tabs and the codes of colours."""


class EscapedFile:
    """A terminal's file that shows the control characters of its text as escapes: a program's file
    may hold any."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        """Write a text. Return the number of its characters."""
        self._file.write(UNSAFE.sub(lambda match: repr(match[0])[1:-1], text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@contextmanager
def tables(file: TextIO) -> Iterator[None]:
    """Draw tables by rich where a file is a terminal and rich is installed. On a terminal, standard
    output shows control characters as escapes."""
    is_drawn = file.isatty() and _extras.is_installed("rich")
    shown = redirect_stdout(cast(TextIO, EscapedFile(file))) if file.isatty() else nullcontext()
    with drawn_by(partial(_drawn, file) if is_drawn else None), shown:
        yield


def _drawn(file: TextIO, lines: Sequence[Sequence[str]], names: Sequence[str], indent: int) -> str:
    """Return lines of cells of equal widths as text with the terminal's codes.

    Args:
        names: Names of the columns, which are the first line; empty for a table without a head.
    """
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=bool(names))
    for cell in lines[0]:
        table.add_column(Text(cell) if names else "", width=len(cell), no_wrap=True)
    for line in lines[1:] if names else lines:
        table.add_row(
            *(
                Text(cell, _style(name, cell.strip()))
                for name, cell in zip(names or [""] * len(line), line)
            )
        )
    width = indent + sum(len(cell) + 2 for cell in lines[0])
    console = Console(file=file, width=width)
    with console.capture() as captured:
        console.print(Padding(table, (0, 0, 0, indent)), highlight=False)
    return captured.get().rstrip("\n")


def _style(name: str, cell: str) -> str:
    return STYLES.get(VERDICTS.get(cell, ""), "") if name == "verdict" else ""
