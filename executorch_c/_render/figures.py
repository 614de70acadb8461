"""Pictures by matplotlib (extra `view`): figures for notebooks, images for pages."""

from __future__ import annotations

import base64
import io
from html import escape
from typing import TYPE_CHECKING, Any

from executorch_c import _extras
from executorch_c._render.html import Markup

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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


def image(drawn: Figure, about: str, kind: str = "svg") -> Markup:
    """Return an <img> with embedded data; kind "png" for pictures with many elements."""
    file = io.BytesIO()
    drawn.savefig(file, format=kind, bbox_inches="tight")
    data = base64.b64encode(file.getvalue()).decode()
    mime = {"svg": "svg+xml", "png": "png"}[kind]
    return Markup(f'<img alt="{escape(about)}" src="data:image/{mime};base64,{data}">')
