"""Pictures by matplotlib (extra `view`): figures for notebooks, images for pages.

Pages embed the figures that `report.plot()` returns and `save` writes, as images: a picture is
drawn once for notebooks, pages and files, and a caller's axes may hold it. SVG of our own would
draw each a second time. Without matplotlib pages have the tables, and say which extra is missing.
"""

from __future__ import annotations

import base64
import io
from html import escape
from typing import TYPE_CHECKING, Any

from executorch_c import _extras
from executorch_c._render.html import Markup

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_SVG_BYTES = 150_000
"""Largest picture that a page embeds as SVG; larger ones are PNG."""
MAX_SVG_SHAPES = 2000
"""Most bars and points of a picture that is tried as SVG, whose writing takes long."""
DPI = 110
"""Dots per inch of PNG in pages."""


class NothingToDraw(ValueError):
    """A report has nothing of this kind: outputs that were not kept, or are no numbers."""


def figure(**options: Any) -> Figure:
    """Return a figure without pyplot's global state. Notebooks display it with or without pyplot.

    Raises ImportError if matplotlib is not installed.
    """
    module = _extras.load("a picture", "matplotlib.figure")

    class Shown(module.Figure):  # type: ignore[misc, name-defined]
        """Display hooks of notebooks."""

        def _repr_html_(self) -> str:
            return image(self, "picture")

    drawing: Figure = Shown(**options)
    return drawing


def axes_of(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """Return the caller's axes, or those of a new figure of a size in inches."""
    if ax is not None:
        return ax
    axes: Axes = figure(figsize=size, layout="constrained").add_subplot()
    return axes


def figure_of(axes: Axes) -> Figure:
    """Return the figure of axes, of those in a subfigure the whole one."""
    found: Any = axes.get_figure()
    while getattr(found, "figure", found) is not found:
        found = found.figure
    drawn: Figure = found
    return drawn


def image(drawn: Figure, about: str, kind: str | None = None) -> Markup:
    """Return an <img> with embedded data: "svg", or "png" for a picture with many elements; by
    default what fits."""
    if kind is None and _shapes(drawn) > MAX_SVG_SHAPES:
        kind = "png"
    data = _data(drawn, kind or "svg")
    if kind is None and len(data) > MAX_SVG_BYTES:
        kind, data = "png", _data(drawn, "png")
    mime = {"svg": "svg+xml", "png": "png"}[kind or "svg"]
    text = base64.b64encode(data).decode()
    return Markup(f'<img alt="{escape(about)}" src="data:image/{mime};base64,{text}">')


def _shapes(drawn: Figure) -> int:
    """Return the number of bars and points."""
    collections = [one for axes in drawn.axes for one in axes.collections]
    return sum(max(len(one.get_paths()), _count(one.get_offsets())) for one in collections)


def _count(points: Any) -> int:
    return len(points)


def _data(drawn: Figure, kind: str) -> bytes:
    file = io.BytesIO()
    drawn.savefig(file, format=kind, bbox_inches="tight", dpi=DPI)
    return file.getvalue()
