"""Plain text for the command line: aligned tables, sizes, short views of arrays."""

from __future__ import annotations

import difflib
import shutil
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeAlias

from executorch_c._names import visible

if TYPE_CHECKING:
    import numpy as np

Draw: TypeAlias = "Callable[[Sequence[Sequence[str]], Sequence[str], int], str]"
"""Draws a table: lines of cells of equal widths, names of columns, indent (`terminal.py`)."""

MIN_WIDTH = 40
"""Minimum width in columns; narrower terminals wrap lines."""
MIN_CELL, READABLE_CELL = 6, 16
"""Minimum width of a truncated cell, and while optional columns remain."""
MAX_PRINTED_ELEMENTS = 6
"""Maximum number of printed elements of an array."""
MAX_LISTED = 40
"""Maximum length of an item in a list."""
MIN_DRAWN_WIDTH = 80
"""Columns of a drawn table on a narrower terminal."""

_draw: ContextVar[Draw | None] = ContextVar("draw", default=None)


@contextmanager
def drawn_by(draw: Draw | None) -> Iterator[None]:
    """Draw tables by a function, as commands do on a terminal; None: as plain text, the default."""
    token = _draw.set(draw)
    try:
        yield
    finally:
        _draw.reset(token)


def width() -> int:
    """Return the width of the terminal in columns (or COLUMNS); 80 without a terminal."""
    return max(shutil.get_terminal_size((80, 24)).columns, MIN_WIDTH)


def terminal_width() -> int:
    """Return the columns of drawn tables."""
    return max(width(), MIN_DRAWN_WIDTH)


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return ", did you mean 'run'?" for the name that is most like one; else an empty text."""
    matches = difflib.get_close_matches(name, list(names), 1)
    return f", did you mean '{matches[0]}'?" if matches else ""


def unknown(name: str, names: Iterable[str]) -> str:
    """Return "'rn', did you mean 'run'?", or the names if none of them is like it."""
    names = list(names)
    return f"'{name}'{did_you_mean(name, names) or ', expected one of ' + ', '.join(names)}"


def shortened(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters, truncated in the middle."""
    if len(text) <= limit:
        return text
    kept = max(limit - 2, 1)
    return text[: (kept + 1) // 2] + ".." + text[len(text) - kept // 2 :]


def listed(items: Iterable[object], most: int = 8) -> str:
    """Return items as text, "a, b, c": the first `most`, and how many more there are."""
    texts = [shortened(str(item), MAX_LISTED) for item in items]
    rest = f" and {len(texts) - most:,} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + rest


def wrapped(text: str) -> str:
    """Return a sentence wrapped at `width()`, with a hanging indent."""
    return textwrap.fill(
        text, width(), subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def _span(widths: dict[int, int]) -> int:
    """Return the width of a line in characters."""
    return sum(widths.values()) + 2 * (len(widths) - 1)


def _fit(widths: dict[int, int], fixed: set[int], room: int, least: int) -> dict[int, int]:
    """Return column widths for a line of `room` characters: the widest columns shrink first."""
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
    whole: Sequence[str] = (),
) -> str:
    """Return rows in aligned columns, with numbers right-aligned and without empty columns.

    Args:
        width: Maximum line width: columns in `optional` are omitted in this order, then
            the widest text cells are truncated in the middle. Default: unlimited.
        optional: Names of `head`.
        whole: Columns that are truncated only if there is no room without `optional`.
    """
    body = [list(row) for row in rows]
    cells = [list(head)] if head else []
    cells += [[f"{c:,}" if isinstance(c, int) else visible(str(c)) for c in row] for row in body]
    if not cells:
        return ""
    draw = _draw.get()
    room = width if draw is None else terminal_width()
    left_out = [head.index(name) for name in optional if name in head]
    kept = {head.index(name) for name in whole if name in head}
    widths = _widths(cells, bool(head), None if room is None else room - indent, left_out, kept)
    numbers = {c for c in widths if body and all(isinstance(row[c], int) for row in body)}
    lines = [[_aligned(row[c], size, c in numbers) for c, size in widths.items()] for row in cells]
    if draw is not None and widths:
        return draw(lines, [head[c] for c in widths] if head else [], indent)
    return "\n".join(" " * indent + "  ".join(line).rstrip() for line in lines)


def _widths(
    cells: Sequence[Sequence[str]],
    has_head: bool,
    room: int | None,
    left_out: list[int],
    whole: set[int],
) -> dict[int, int]:
    """Return the widths of the columns that are shown: those with text, in `room` characters."""
    body = cells[1:] if has_head else cells
    filled = body or cells
    widths = {
        c: max(len(row[c]) for row in cells)
        for c in range(len(cells[0]))
        if any(row[c] for row in filled)
    }
    if room is None:
        return widths
    fixed = {c for c in widths if _is_numeric(row[c] for row in body)}
    fitted = _fit(widths, fixed | whole, room, READABLE_CELL)
    while _span(fitted) > room and left_out:
        widths.pop(left_out.pop(0), None)
        fitted = _fit(widths, fixed | whole, room, READABLE_CELL)
    return _fit(_fit(fitted, fixed | whole, room, MIN_CELL), fixed, room, MIN_CELL)


def _aligned(text: str, size: int, to_the_right: bool) -> str:
    text = shortened(text, size)
    return text.rjust(size) if to_the_right else text.ljust(size)


def _is_numeric(texts: Iterable[str]) -> bool:
    """Return True if a column has only numbers with units, which are never truncated."""
    return all(
        not text or (text[0] in "0123456789-+<" or text in ("inf", "nan")) and text.count(" ") < 3
        for text in texts
    )


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: "1 input", "2 inputs"."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def size(nbytes: int) -> str:
    """Return a size in bytes with a binary unit: "512 bytes", "27.6 KiB", "1.5 GiB"."""
    value, unit = float(nbytes), 0
    while value >= 1024 and unit < 4:
        value, unit = value / 1024, unit + 1
    return f"{value:.1f} {'KMGT'[unit - 1]}iB" if unit else plural(nbytes, "byte")


def seconds(value: float) -> str:
    """Return a time in seconds with its unit: ns, us, ms or s."""
    if value >= 999.5:
        return f"{value:,.0f} s"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= 0.9995 * scale:  # 999.6 us is "1 ms", not "1e+03 us"
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def scalar(value: object) -> str:
    """Return a number in short form."""
    return f"{value:.5g}" if isinstance(value, (float, complex)) else str(value)


def brief(array: np.ndarray, few: int = MAX_PRINTED_ELEMENTS) -> str:
    """Return the first `few` elements of an array, and its range if it has more."""
    flat = array.reshape(-1)
    numeric = flat.astype("float32") if array.dtype.kind == "V" else flat
    if array.dtype.name == "bfloat16":
        numeric = flat.astype("float32")
    shown = " ".join(scalar(v) for v in numeric[:few].tolist())
    if flat.size <= few or numeric.dtype.kind in "cb":
        return shown + (" ..." if flat.size > few else "")
    low, high = scalar(numeric.min().item()), scalar(numeric.max().item())
    return f"{shown} ... (min {low}, max {high})"


def sizes(shape: Sequence[int], bound: str = "") -> str:
    """Return sizes: "(1, 3)", "(4,)". `bound` is a prefix of upper bounds: "(<=1, <=3)"."""
    comma = "," if len(shape) == 1 else ""
    return "(" + ", ".join(f"{bound}{size}" for size in shape) + comma + ")"


def shape(dims: Sequence[int], dynamism: str = "static") -> str:
    """Return a shape: "(2, 3)"; of a dynamic shape the upper bound: "up to (2, 3)"."""
    text = sizes(dims)
    return {"static": text, "bound": f"up to {text}"}.get(dynamism, f"any, for example {text}")


def value_line(
    index: int, name: str, value: object, few: int = MAX_PRINTED_ELEMENTS
) -> list[object]:
    """Return a table row for an input or output of a call: index, name, type, shape, values."""
    import numpy as np

    if isinstance(value, np.ndarray):
        return [index, name, value.dtype.name, shape(value.shape), brief(value, few)]
    if isinstance(value, list):
        return [index, name, "list", f"[{len(value)}]", ""]
    return [index, name, type(value).__name__, "", scalar(value)]
