"""HTML of a page of graphs: a document, a section of a report's page, a frame for notebooks."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from executorch_c._render import html
from executorch_c._render.html import Markup, tag
from executorch_c._render.page import data
from executorch_c._render.page.model import GraphPage

SCRIPTS = ("layout.js", "detail.js", "draw.js", "pane.js", "page.js")
FRAME_HEIGHT = "32em"
"""Height of a page in a notebook."""


@cache
def _asset(name: str) -> str:
    from importlib import resources

    return (resources.files(__package__) / name).read_text(encoding="utf-8")


@cache
def script() -> Markup:
    """Return the script of pages with graphs."""
    text = "".join(map(_asset, SCRIPTS))
    return Markup(f'"use strict";\n(() => {{\n{text}}})();\n')


def section(page: GraphPage, whole: bool = False) -> Markup:
    """Return the elements of a graph, for a page that runs `script`: at the size of the window
    (`whole`), or as a section."""
    return tag(
        "section",
        tag("style", Markup(_asset("page.css"))),
        tag("script", Markup(data.dumps(page)), type="application/json", class_="graph-data"),
        tag("noscript", "The graph needs JavaScript; .csv, .txt and --json have its nodes."),
        class_="graph whole" if whole else "graph",
        aria_label=f"graph of {page.title}",
    )


def render(page: GraphPage, finding: object = None, about: object = None) -> str:
    """Return a page with the graph at the size of the window, below the finding; `about` is hidden
    until asked for."""
    facts = tag("details", tag("summary", "About"), about, class_="graph-about") if about else None
    said = tag("p", finding) if finding else None
    return html.page(page.title, said, section(page, True), facts, script=script())


class Drawing:
    """The graph of a report, made when its page is; a report that was pickled has none."""

    def __init__(self, make: Callable[[], GraphPage] | None = None) -> None:
        self.make = make

    def section(self) -> Markup | None:
        """Return the graph as a section; None without one."""
        return None if self.make is None else section(self.make())

    def __deepcopy__(self, memo: object) -> Drawing:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Drawing, ()


def frame(text: str, title: str) -> Markup:
    """Return a page in a frame that reaches nothing outside of it, for notebooks."""
    style = f"width: 100%; height: {FRAME_HEIGHT}; border: 1px solid #8888"
    return tag("iframe", srcdoc=Markup(text), title=title, style=style, sandbox="allow-scripts")
