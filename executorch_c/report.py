"""Reports: the interface of all results of this package.

    result = check_model(model, (x,), flow="xnnpack")
    result.ok, result.summary()   # the verdict, the finding as text
    print(result.table())         # rows as text
    result.save("check.html")     # also .json, .csv, .txt, and .svg or .png if it has a plot

These functions return a `Report`: check_model, check_all, compare, explain, compare_programs,
quantization_error, advise, check_nan, cut, memory_plan, graph, dump, check_llm, perplexity,
quantization_cost.
Traces and the results of test cases of a .bpte are reports, too.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from executorch_c import __version__, _extras
from executorch_c._paths import OwnedPath, write_text, writing
from executorch_c._render import figures as _figures
from executorch_c._render import html, json
from executorch_c._render import text as _text
from executorch_c._render.page import document

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from executorch_c._render.page.model import GraphPage, Node, Overlay
    from executorch_c._types import FilePath

__all__ = ["Origin", "Report"]

PICTURES = (".svg", ".png", ".pdf")


class Origin:
    """The program of a report, with host and date of the report."""

    def __init__(self, source: object, size: int) -> None:
        self.source, self.size = source, size
        self.date = datetime.now(timezone.utc).astimezone()

    @property
    def name(self) -> str | None:
        """Path of the file, if it is the user's."""
        return None if isinstance(self.source, OwnedPath) else self._path

    @property
    def _path(self) -> str | None:
        source = self.source
        return str(os.fspath(source)) if isinstance(source, (str, os.PathLike)) else None

    @cached_property
    def sha256(self) -> str | None:
        """Hash of the file; None for a loaded program or a deleted file."""
        if isinstance(self.source, (bytes, bytearray)):
            return hashlib.sha256(self.source).hexdigest()
        if self._path is None:
            return None
        digest = hashlib.sha256()
        try:
            with open(self._path, "rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
        except OSError:
            return None
        return digest.hexdigest()

    def facts(self) -> dict[str, str]:
        """Return file, hash, size, versions, host and date, as text."""
        rows = {
            "file": self.name,
            "sha256": self.sha256,
            "size": f"{self.size:,} bytes",
            "versions": versions(),
            "host": host(),
            "date": self.date.isoformat(" ", "seconds"),
        }
        return {name: text for name, text in rows.items() if text}

    def __deepcopy__(self, memo: object) -> Origin:
        return self


def versions() -> str:
    """Return the versions that results depend on: "executorch_c 0.1.0, NumPy 2.1, Python 3.11"."""
    known = {"executorch_c": __version__}
    for module, name in (("numpy", "NumPy"), ("torch", "torch")):
        if module in sys.modules:
            known[name] = str(getattr(sys.modules[module], "__version__", "?"))
    known["Python"] = platform.python_version()
    return ", ".join(f"{name} {version}" for name, version in known.items())


def host() -> str:
    """Return the name, system and architecture of this machine."""
    return f"{platform.node()} ({platform.system()} {platform.machine()})"


Row = TypeVar("Row")


class Report:
    """A result: its verdict, a summary, rows, and files.

    Subclasses define `ok`, `summary`, `table` and `rows_as_dicts`; some also PLOTS, with a method
    for each kind.
    """

    PLOTS: ClassVar[Mapping[str, str]] = {}
    """What each kind of its plot shows, the usual kind first."""

    _origins: Mapping[str, Origin] = {}
    """Programs of the report, by name."""

    _drawing = document.Drawing()
    """The graph of its page."""

    @property
    def ok(self) -> bool:
        """True if nothing is wrong."""
        raise NotImplementedError

    def summary(self) -> str:
        """Return the finding in a sentence or two."""
        raise NotImplementedError

    def problems(self) -> list[str]:
        """Return a sentence for each error; pages begin with these."""
        return []

    def table(self) -> str:
        """Return rows as a table of text."""
        raise NotImplementedError

    def rows_as_dicts(self) -> list[dict[str, object]]:
        """Return rows with the names of their columns, for data frames and CSV."""
        raise NotImplementedError

    def as_dict(self) -> dict[str, Any]:
        """Return the report as a dict, for JSON."""
        return {"ok": self.ok, "summary": self.summary(), "rows": self.rows_as_dicts()}

    def heading(self) -> str:
        """Return the heading of its page."""
        return type(self).__name__

    def sections(self) -> Iterable[object]:
        """Return the parts of its page after the finding: `executorch_c._render.html.Markup`."""
        raise NotImplementedError

    def plot(self, kind: str | None = None, *, ax: Axes | None = None, **options: object) -> Figure:
        """Return a matplotlib Figure, which a notebook shows.

        Args:
            kind: A kind of PLOTS; default: the first.
            ax: Axes to draw into; default: a new figure.
            options: Options of that kind, as `executorch_c.plotting` has them.

        Raises ImportError without matplotlib (pip install 'executorch_c[view]'), ValueError for
        another kind, TypeError for an option that the kind does not have.
        """
        kind = next(iter(self.PLOTS), "") if kind is None else kind
        if kind not in self.PLOTS:
            known = f": {_text.unknown(kind, self.PLOTS)}" if self.PLOTS else ""
            raise ValueError(f"{type(self).__name__} has no such plot{known}")
        drawn: Figure = getattr(self, f"_plot_{kind}")(ax=ax, **options)
        return drawn

    def pictures(self, *kinds: str) -> Iterator[html.Markup]:
        """Yield plots as images for a page, by default all kinds, if there is anything to draw;
        without matplotlib a sentence that names the extra."""
        try:
            for kind in kinds or self.PLOTS:
                yield _figures.image(self.plot(kind), self.PLOTS[kind])
        except _figures.NothingToDraw:
            return
        except ImportError as error:
            yield html.tag("p", f"No pictures: {error}")

    def overlays(self, nodes: Iterable[Node]) -> Sequence[Overlay]:
        """Return values of the nodes of the program's graph, which colour it."""
        return ()

    def graph_places(self, nodes: Iterable[Node]) -> Mapping[str, str]:
        """Return the places of nodes on the program's graph by those of the report's rows, where
        they differ; empty for what has no node there."""
        return {}

    def to_json(self, path: FilePath | None = None) -> str:
        """Return the report as JSON, and write it to `path`; infinity is "inf", NaN is null."""
        return written(json.dumps(self.as_dict()), path)

    def to_csv(self, path: FilePath | None = None) -> str:
        """Return rows as CSV, and write them to `path`."""
        file = io.StringIO(newline="")
        rows = self.rows_as_dicts()
        writer = csv.DictWriter(file, _columns(rows))
        writer.writeheader()
        writer.writerows(rows)
        return written(file.getvalue(), path)

    def to_html(self, path: FilePath | None = None, title: str | None = None) -> str:
        """Return an HTML page, and write it to `path`.

        The page begins with the finding and the errors; tables sort and filter; the file's hash,
        versions, host and date are at its end.
        """
        finding = html.verdict("match" if self.ok else "differ", self.summary())
        problems = self.problems()
        listed = html.tag("ul", *(html.tag("li", one) for one in problems)) if problems else None
        about = (about_table(name, origin) for name, origin in self._origins.items())
        parts = [html.tag("p", finding), listed, *self.sections()]
        graph = self._drawing.section()
        if graph is not None:
            parts += [html.tag("h2", "Graph"), graph]
        script = document.script() if graph is not None else ""
        text = html.page(title or self.heading(), *parts, *about, script=script)
        return written(text, path)

    def to_dataframe(self) -> pandas.DataFrame:
        """Return a pandas.DataFrame of the rows. Needs pandas (extra `view`)."""
        rows = self.rows_as_dicts()
        return _extras.data_frame(
            {name: [row.get(name) for row in rows] for name in _columns(rows)}
        )

    def save(self, path: FilePath, format: str | None = None) -> None:
        """Write a file: .html, .json, .csv, .txt, or for a report with a plot .svg, .png or .pdf.

        `format` overrides the extension. Raises ValueError for another extension, ImportError for
        a picture without matplotlib.
        """
        ending = f".{format.lstrip('.')}" if format else Path(path).suffix.lower()
        if ending in PICTURES and self.PLOTS:
            with writing(path, "wb") as file:
                self.plot().savefig(file, format=ending[1:], bbox_inches="tight", dpi=120)
        elif ending == ".html":
            self.to_html(path)
        elif ending == ".json":
            self.to_json(path)
        elif ending == ".csv":
            self.to_csv(path)
        elif ending == ".txt":
            with _text.drawn_by(None):
                written(f"{self}\n", path)
        else:
            known = (".html", ".json", ".csv", ".txt", *(PICTURES if self.PLOTS else ()))
            raise ValueError(
                f"{os.fspath(path)!r}: expected a name that ends with {', '.join(known)}"
            )

    def set_origins(self, **origins: Origin | None) -> None:
        """Set the programs of the report."""
        known = {name: origin for name, origin in origins.items() if origin is not None}
        object.__setattr__(self, "_origins", known)  # works for frozen classes

    def graph_page(self) -> GraphPage | None:
        """Return the graphs of its page; None without any."""
        return None if self._drawing.make is None else self._drawing.make()

    def set_graph(self, make: Callable[[], GraphPage]) -> None:
        """Set the graph of its page, which is made when the page is."""
        object.__setattr__(self, "_drawing", document.Drawing(make))


class JudgedReport(Report, Generic[Row]):
    """A report with a verdict on its rows: iterates over them; `bool(report)` is `report.ok`."""

    ROWS: ClassVar[str] = "rows"
    """Name of the field with the rows."""

    @property
    def verdict(self) -> str:
        """The verdict on all rows."""
        raise NotImplementedError

    @property
    def ok(self) -> bool:
        """True if the verdict is "match"."""
        return self.verdict == "match"

    def __bool__(self) -> bool:
        return self.ok

    def __len__(self) -> int:
        return len(getattr(self, self.ROWS))

    def __iter__(self) -> Iterator[Row]:
        return iter(getattr(self, self.ROWS))


def _columns(rows: Sequence[Mapping[str, object]]) -> list[str]:
    """Return the names of all columns, in the order of their first use."""
    return list(dict.fromkeys(name for row in rows for name in row))


def about_table(name: str, origin: Origin) -> html.Markup:
    """Return file, hash, versions, host and date as a table."""
    facts: Sequence[tuple[str, str]] = list(origin.facts().items())
    return html.together(html.tag("h2", f"About this {name}"), html.table("", ("", ""), facts, 2))


def written(text: str, path: FilePath | None) -> str:
    """Return a text, and write it to `path`."""
    if path is not None:
        write_text(path, text)
    return text
