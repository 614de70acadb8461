"""Reports that are a page with graphs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from executorch_c._render.html import Markup, together, verdict
from executorch_c._render.page import document
from executorch_c._render.page.model import GraphPage
from executorch_c.report import Report, about_table, written

if TYPE_CHECKING:
    from executorch_c._types import FilePath


class PagedReport(Report):
    """A report whose page shows graphs at the size of the window. Subclasses define `page`."""

    @property
    def ok(self) -> bool:
        """True: a graph is neither right nor wrong."""
        return True

    def page(self) -> GraphPage:
        """Return the contents of its page."""
        raise NotImplementedError

    def to_html(self, path: FilePath | None = None, title: str | None = None) -> str:
        """Return a page with the graph, and write it to `path`: boxes that open and close, search,
        colours by value, details of each node. It loads nothing and needs no server."""
        page = self.page()
        about = together(*(about_table(name, one) for name, one in self._origins.items()))
        page = replace(page, title=title or page.title)
        return written(document.render(page, verdict("match", self.summary()), about), path)

    def sections(self) -> Iterator[object]:
        """Yield the graph."""
        yield document.section(self.page())

    def _repr_html_(self) -> Markup:
        return document.frame(self.to_html(), self.heading())
