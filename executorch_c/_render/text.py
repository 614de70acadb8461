"""Plain text for the command line: aligned tables, sizes, short views of arrays."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

NARROWEST = 40
"""Columns of a line that a narrower terminal wraps."""
LEAST, READABLE = 6, 16
"""Characters that a cut cell keeps: at least, and while columns can be left out instead."""
FEW = 6
"""Maximum number of printed elements of an array."""


def width() -> int:
    """Return the columns of the terminal (or of COLUMNS); 80 where there is none."""
    return max(shutil.get_terminal_size((80, 24)).columns, NARROWEST)


def shortened(text: str, most: int) -> str:
    """Return a text of at most `most` characters, cut in the middle."""
    if len(text) <= most:
        return text
    kept = max(most - 2, 1)
    return text[: (kept + 1) // 2] + ".." + text[len(text) - kept // 2 :]


def wrapped(text: str) -> str:
    """Return a sentence broken into lines of `width()`, the rest of them indented."""
    return textwrap.fill(
        text, width(), subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def _span(widths: dict[int, int]) -> int:
    """Characters of a line."""
    return sum(widths.values()) + 2 * (len(widths) - 1)


def _fit(widths: dict[int, int], fixed: set[int], room: int, least: int) -> dict[int, int]:
    """Widths of columns for a table of `room` characters: the widest is cut first."""
    widths = dict(widths)
    while _span(widths) > room:
        column = max((c for c in widths if c not in fixed), key=lambda c: widths[c], default=None)
        if column is None or widths[column] <= least:
            break
        widths[column] -= 1
    return widths


def table(
    rows: Iterable[Sequence[object]],
    head: Sequence[str] = (),
    indent: int = 2,
    width: int | None = None,
    optional: Sequence[str] = (),
) -> str:
    """Return rows in aligned columns, numbers to the right; empty columns are left out.

    Args:
        width: Most characters of a line: columns of `optional` are left out in this order, then
            the widest cells of text are cut in the middle. Default: any.
        optional: Names of `head`.
    """
    body = [list(row) for row in rows]
    cells = [list(head)] if head else []
    cells += [[f"{c:,}" if isinstance(c, int) else str(c) for c in row] for row in body]
    if not cells:
        return ""
    filled = cells[1:] if head and body else cells
    widths = {c: max(len(row[c]) for row in cells) for c in range(len(cells[0]))
              if any(row[c] for row in filled)}  # fmt: skip
    fixed = {c for c in widths if _is_numeric(row[c] for row in cells[1 if head else 0 :])}
    if width is not None:
        left_out = [head.index(name) for name in optional if name in head]
        fitted = _fit(widths, fixed, width - indent, READABLE)
        while _span(fitted) > width - indent and left_out:
            widths.pop(left_out.pop(0), None)
            fitted = _fit(widths, fixed, width - indent, READABLE)
        widths = _fit(fitted, fixed, width - indent, LEAST)
    lines: list[list[str]] = [[] for _ in cells]
    for c, size in widths.items():
        numbers = bool(body) and all(isinstance(row[c], int) for row in body)
        for line, row in zip(lines, cells):
            text = shortened(row[c], size)
            line.append(text.rjust(size) if numbers else text.ljust(size))
    return "\n".join(" " * indent + "  ".join(line).rstrip() for line in lines)


def _is_numeric(texts: Iterable[str]) -> bool:
    """Return whether a column has numbers, which are never shortened."""
    return all(not text or text[0] in "0123456789-+<" or text in ("inf", "nan") for text in texts)


def plural(count: int, noun: str) -> str:
    """"1 input", "2 inputs"."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def size(nbytes: int) -> str:
    """Bytes in the unit that reads best: "512 bytes", "27.6 KiB", "1.5 GiB"."""
    value, unit = float(nbytes), 0
    while value >= 1024 and unit < 4:
        value, unit = value / 1024, unit + 1
    return f"{value:.1f} {'KMGT'[unit - 1]}iB" if unit else plural(nbytes, "byte")


def seconds(value: float) -> str:
    """A time in the unit that reads best."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def scalar(value: object) -> str:
    """One number, short."""
    return f"{value:.5g}" if isinstance(value, (float, complex)) else str(value)


def brief(array: np.ndarray) -> str:
    """The first values of an array, and its range where it has more."""
    flat = array.reshape(-1)
    numeric = flat.astype("float32") if array.dtype.kind == "V" else flat
    if array.dtype.name == "bfloat16":
        numeric = flat.astype("float32")
    shown = " ".join(scalar(v) for v in numeric[:FEW].tolist())
    if flat.size <= FEW or numeric.dtype.kind in "cb":
        return shown + (" ..." if flat.size > FEW else "")
    low, high = scalar(numeric.min().item()), scalar(numeric.max().item())
    return f"{shown} ... (min {low}, max {high})"


def shape(sizes: Sequence[int], dynamism: str = "static") -> str:
    """"[2, 3]"; where a program allows other sizes, the most elements that there may be."""
    text = "[" + ", ".join(str(size) for size in sizes) + "]"
    return {"static": text, "bound": f"up to {text}"}.get(dynamism, f"any, for example {text}")


def sizes(shape: Sequence[int], bound: str = "") -> str:
    """Return "(1, 3)", "(4,)"; `bound` stands before sizes that are upper bounds: "(<=1, <=3)"."""
    comma = "," if len(shape) == 1 else ""
    return "(" + ", ".join(f"{bound}{size}" for size in shape) + comma + ")"


def value_line(index: int, name: str, value: object) -> list[object]:
    """A table row for an input or output of a call: index, name, type, shape, values."""
    import numpy as np

    if isinstance(value, np.ndarray):
        return [index, name, value.dtype.name, shape(value.shape), brief(value)]
    if isinstance(value, list):
        return [index, name, "list", f"[{len(value)}]", ""]
    return [index, name, type(value).__name__, "", scalar(value)]
