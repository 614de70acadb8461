"""Tables on a terminal, drawn by rich (the extra `view`); without rich they are plain text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TextIO

from executorch_c import _extras
from executorch_c._render.html import VERDICTS
from executorch_c._render.text import drawn_by

STYLES = {"good": "green", "bad": "bold red", "unsure": "yellow"}
"""Styles of the classes of VERDICTS."""


@contextmanager
def tables(file: TextIO) -> Iterator[None]:
    """Draw tables by rich where a file is a terminal and rich is installed."""
    is_drawn = file.isatty() and _extras.is_installed("rich")
    with drawn_by(partial(_drawn, file) if is_drawn else None):
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
        table.add_row(*(Text(cell, _style(name, cell.strip()))
                        for name, cell in zip(names or [""] * len(line), line)))  # fmt: skip
    width = indent + sum(len(cell) + 2 for cell in lines[0])
    console = Console(file=file, width=width)
    with console.capture() as captured:
        console.print(Padding(table, (0, 0, 0, indent)), highlight=False)
    return captured.get().rstrip("\n")


def _style(name: str, cell: str) -> str:
    return STYLES.get(VERDICTS.get(cell, ""), "") if name == "verdict" else ""
