"""Pictures of calls: what runs when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from executorch_c._render import axes as _axes
from executorch_c._render import figures as _figures
from executorch_c._render import text as _text
from executorch_c._render.axes import BLUE, ORANGE, dress

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_ROWS = 40
"""Largest number of rows of a timeline."""
OTHERS = "others"


@dataclass(frozen=True)
class Span:
    """A time in a call."""

    path: tuple[str, ...]
    """Names from outside: ("XnnpackBackend d0", "Convolution")."""
    start_us: float
    us: float


def timeline(spans: Sequence[Span], *, title: str = "", ax: Axes | None = None) -> Figure:
    """Draw when a call does what: a row for each operator, those inside a delegate below it.

    Of more than MAX_ROWS rows, those that take the least time are together in "others".

    Args:
        spans: Times of a call; their order does not matter.
        title: Heading.
        ax: Axes to draw into; default: a new figure.
    """
    rows = _rows(spans)
    axes = _figures.axes_of(ax, (9, 1.4 + 0.22 * max(len(rows), 1)))
    for i, (path, inside) in enumerate(rows.items()):
        colour = (BLUE, ORANGE, "#8250df")[min(len(path) - 1, 2)]
        pieces = [(span.start_us, span.us) for span in inside]
        axes.broken_barh(pieces, (i - 0.38, 0.76), facecolors=colour, edgecolors=colour, lw=0.4)
    labels = [
        f"{'    ' * (len(p) - 1)}{_text.shortened(p[-1], _axes.MAX_LETTERS)}{_spent(rows[p])}"
        for p in rows
    ]
    axes.set_yticks(range(len(rows)), labels)
    axes.set_ylim(max(len(rows), 1) - 0.4, -0.6)
    end = max((span.start_us + span.us for span in spans), default=1.0)
    axes.set_xlim(0, end or 1.0)
    axes.grid(True, axis="x", alpha=0.3)
    dress(axes, title, "us")
    for label in axes.get_yticklabels():
        label.set_horizontalalignment("left")
    longest = max(map(len, labels), default=0)
    axes.tick_params(axis="y", pad=4.2 * longest)
    return _figures.figure_of(axes)


def _spent(spans: Sequence[Span]) -> str:
    return f"  {sum(span.us for span in spans):,.1f} us"


def _rows(spans: Sequence[Span]) -> dict[tuple[str, ...], list[Span]]:
    """Return spans by row: a row follows the one that encloses it, in the order of their starts."""
    times: dict[tuple[str, ...], float] = {}
    for span in spans:
        times[span.path] = times.get(span.path, 0.0) + span.us
    kept = set(times)
    if len(times) > MAX_ROWS:
        largest = sorted(times, key=lambda path: -times[path])[: MAX_ROWS - 4]
        kept = {path[:end] for path in largest for end in range(1, len(path) + 1)}
    rows: dict[tuple[str, ...], list[Span]] = {}
    started: dict[tuple[str, ...], float] = {}
    for span in sorted(spans, key=lambda span: (span.start_us, len(span.path))):
        path = span.path if span.path in kept else _others(span.path, kept)
        rows.setdefault(path, []).append(span)
        for end in range(1, len(path) + 1):
            started.setdefault(path[:end], span.start_us)

    def place(path: tuple[str, ...]) -> list[tuple[bool, float, str]]:
        names = [path[:end] for end in range(1, len(path) + 1)]
        return [(name[-1] == OTHERS, started[name], name[-1]) for name in names]

    return {path: rows[path] for path in sorted(rows, key=place)}


def _others(path: tuple[str, ...], kept: set[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the row of a span that has none of its own: below what encloses it."""
    outer = path[:-1]
    while outer and outer not in kept:
        outer = outer[:-1]
    return (*outer, OTHERS)
