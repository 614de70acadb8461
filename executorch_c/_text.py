"""Plain text for the command line: aligned tables, sizes, short views of arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

FEW = 6
"""So many values of an array are printed."""


def table(rows: Iterable[Sequence[object]], head: Sequence[str] = (), indent: int = 2) -> str:
    """Rows in aligned columns, numbers to the right; columns without any text are left out."""
    body = [list(row) for row in rows]
    cells = [list(head)] if head else []
    cells += [[f"{c:,}" if isinstance(c, int) else str(c) for c in row] for row in body]
    if not cells:
        return ""
    columns = [c for c in range(len(cells[0])) if any(row[c] for row in cells)]
    lines: list[list[str]] = [[] for _ in cells]
    for c in columns:
        width = max(len(row[c]) for row in cells)
        numbers = bool(body) and all(isinstance(row[c], int) for row in body)
        for line, row in zip(lines, cells):
            line.append(row[c].rjust(width) if numbers else row[c].ljust(width))
    return "\n".join(" " * indent + "  ".join(line).rstrip() for line in lines)


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


def value_line(index: int, name: str, value: object) -> list[object]:
    """A table row for an input or output of a call: index, name, type, shape, values."""
    import numpy as np

    if isinstance(value, np.ndarray):
        return [index, name, value.dtype.name, shape(value.shape), brief(value)]
    if isinstance(value, list):
        return [index, name, "list", f"[{len(value)}]", ""]
    return [index, name, type(value).__name__, "", scalar(value)]
