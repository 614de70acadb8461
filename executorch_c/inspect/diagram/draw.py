"""A method as a graph of operators, tensors and nodes of delegates.

    picture = graph(program, "forward")
    picture.save("model.html")  # a page to search, open and colour
    picture.save("model.json")  # for Model Explorer
    picture.save("model.svg")   # Graphviz' dot draws it; .dot needs nothing

An edge goes from the writer of a value to its reader; after the branches of a `torch.cond` there is
an edge from each branch. Weights and numbers are attributes of their readers.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from executorch_c._names import visible
from executorch_c._paths import write_text
from executorch_c._programs import ProgramFile, ProgramSource, name_in, opened
from executorch_c._render import text as _text
from executorch_c._render.page.model import GraphPage, Node, Overlay
from executorch_c.inspect import families
from executorch_c.inspect.diagram import explorer, layers
from executorch_c.inspect.diagram.build import nodes_of
from executorch_c.inspect.diagram.modules import modules_of_record, name_modules
from executorch_c.inspect.diagram.paged import PagedReport
from executorch_c.inspect.diagram.view import structured, view_of
from executorch_c.inspect.etrecord import ETRecord, read_etrecord
from executorch_c.inspect.structure import View
from executorch_c.report import Report

if TYPE_CHECKING:
    from executorch_c._types import FilePath


@dataclass(frozen=True)
class Graph(PagedReport):
    """The result of graph(); notebooks show its page."""

    method: str
    nodes: dict[str, Node]
    """Nodes by id, in order of the instructions."""
    values: tuple[Overlay, ...] = ()
    """Values that colour the nodes of its page."""

    @property
    def edges(self) -> list[tuple[str, str]]:
        """Pairs of nodes, without repetitions."""
        pairs = ((source[0], node.id) for node in self.nodes.values() for source, _ in node.inputs)
        return list(dict.fromkeys(pairs))

    # ---- DOT ----

    @property
    def drawn(self) -> Graph:
        """The graph of pictures: this graph, or for a large graph its layers."""
        is_large = len(self.nodes) > layers.MAX_DRAWN_NODES
        return Graph(self.method, layers.by_layer(self.nodes)) if is_large else self

    def dot(self) -> str:
        """Return text for Graphviz: a box for each node (or layer of a large graph), a cluster for
        each delegate. `model_explorer` and `table` have every node."""
        return self.drawn._dot()

    def _dot(self) -> str:
        lines = [
            f"digraph {_quoted(self.method)} {{",
            '  graph [fontname="Helvetica", fontsize=11, ranksep=0.35, nodesep=0.25];',
            '  node [shape=box, style="rounded,filled", fontname="Helvetica", fontsize=10,'
            ' margin="0.12,0.06", color="#555e68", fillcolor="#ffffff"];',
            '  edge [color="#6b7580", arrowsize=0.6];',
            *self._clusters((), "  "),
            *(f"  {_quoted(a)} -> {_quoted(b)};" for a, b in self.edges),
            "}",
        ]
        return "\n".join(lines) + "\n"

    def _clusters(self, groups: tuple[str, ...], indent: str) -> Iterator[str]:
        """Yield the nodes of a group and, recursively, of its subgroups."""
        inner: dict[str, None] = {}
        for node in self.nodes.values():
            if node.groups == groups:
                yield f"{indent}{_quoted(node.id)} [{_dot_attributes(node)}];"
            elif node.groups[: len(groups)] == groups:
                inner.setdefault(node.groups[len(groups)])
        for name in inner:
            path = (*groups, name)
            yield f"{indent}subgraph {_quoted('cluster_' + '/'.join(path))} {{"
            yield (
                f'{indent}  label={_quoted(name)}; labeljust=l; style="rounded,filled"; '
                f'color="#c98a00"; fillcolor="#fff6e0";'
            )
            yield from self._clusters(path, indent + "  ")
            yield f"{indent}}}"

    def svg(self) -> str:
        """Return the picture drawn by Graphviz' `dot`.

        Raises FileNotFoundError if that program is not installed (Python packages need it, too),
        RuntimeError with its message if it fails.
        """
        program = shutil.which("dot")
        if program is None:
            raise FileNotFoundError(
                "SVG needs the program 'dot' of Graphviz, which is not on the PATH: install "
                "Graphviz, or write DOT or Model Explorer JSON, which do not need it"
            )
        run = subprocess.run([program, "-Tsvg"], input=self.dot(), capture_output=True, text=True)
        if run.returncode:
            raise RuntimeError(f"dot failed: {' '.join(run.stderr.split())}")
        return run.stdout

    # ---- Model Explorer ----

    def model_explorer(self) -> str:
        """Return a graph collection as JSON for Model Explorer (ai-edge-model-explorer)."""
        nodes = structured(self.nodes.values())
        return explorer.collection(self.method, {self.method: nodes}, self.values)

    def node_data(self) -> dict[str, str]:
        """Return the values of each overlay as JSON for Model Explorer's node data, by name."""
        return {one.name: explorer.node_data(self.method, self.nodes, one) for one in self.values}

    # ---- report ----

    def summary(self) -> str:
        """Return the number of nodes and edges."""
        return (
            f"method '{visible(self.method)}': {_text.plural(len(self.nodes), 'node')}, "
            f"{_text.plural(len(self.edges), 'edge')}"
        )

    def heading(self) -> str:
        """Return the heading of its page."""
        title = self.title()
        return f"Graph of '{self.method}'" + (f" of {title}" if title != self.method else "")

    def _rows(self) -> list[list[str]]:
        return [
            [
                node.id,
                node.label,
                node.family,
                " / ".join(node.groups),
                ", ".join(node.outputs),
                ", ".join(dict.fromkeys(source[0] for source, _ in node.inputs)),
            ]
            for node in self.nodes.values()
        ]

    def table(self) -> str:
        """Return a row for each node as text."""
        return _text.table(self._rows(), HEAD, width=_text.width(), optional=("family", "reads"))

    def rows_as_dicts(self) -> list[dict[str, object]]:
        """Return a row for each node."""
        return [dict(zip(HEAD, row)) for row in self._rows()]

    def as_dict(self) -> dict[str, Any]:
        """Return {"method", "summary", "nodes", "edges"}."""
        return {
            "method": self.method,
            "summary": self.summary(),
            "nodes": self.rows_as_dicts(),
            "edges": self.edges,
        }

    def page(self) -> GraphPage:
        """Return the contents of its page: one view of all nodes, of the layers of a graph that is
        too large."""
        view = view_of(self.title(), self.nodes)
        return GraphPage(self.heading(), (view,), self.values, colours=families.COLOURS)

    def title(self) -> str:
        """Return the name of the program's file, or of the method."""
        names = [os.path.basename(one.name) for one in self._origins.values() if one.name]
        return names[0] if names else self.method

    def __str__(self) -> str:
        return "\n".join(filter(None, [self.summary(), self.table()]))

    # ---- files, notebooks ----

    def save(self, path: FilePath, format: str | None = None) -> None:
        """Write a file. The extension selects the format: .dot or .gv, .svg, .json (for Model
        Explorer), .html, .csv or .txt.

        Raises ValueError for another format, and the exceptions of svg().
        """
        ending = format or ENDINGS.get(Path(path).suffix.lower())
        if ending is None or ending not in FORMATS:
            if format is not None:
                self.render(format)  # the error lists the formats
            if Path(path).suffix.lower() not in (".html", ".csv", ".txt"):
                endings = ", ".join([*ENDINGS, ".html", ".csv", ".txt"])
                raise ValueError(
                    f"{os.fspath(path)!r}: expected a name that ends with {endings}, or a format"
                )
            super().save(path)
            return
        write_text(path, self.render(ending))

    def render(self, format: str) -> str:
        """Return the text of one of FORMATS. Raises ValueError for another format."""
        makers = {"dot": self.dot, "svg": self.svg, "model-explorer": self.model_explorer}
        if format not in makers:
            raise ValueError(f"`format` is {format!r}, expected one of {', '.join(FORMATS)}")
        return makers[format]()

    def __repr__(self) -> str:
        return (
            f"<executorch_c.devtools.Graph of '{self.method}': "
            f"{_text.plural(len(self.nodes), 'node')}, "
            f"{_text.plural(len(self.edges), 'edge')}>"
        )


HEAD = ("id", "operator", "family", "delegate", "outputs", "reads")
FORMATS = ("dot", "svg", "model-explorer")
ENDINGS = {".dot": "dot", ".gv": "dot", ".svg": "svg", ".json": "model-explorer"}


def _quoted(text: str) -> str:
    lines = [visible(line).replace("\\", "\\\\") for line in text.split("\n")]
    return '"' + "\\n".join(lines).replace('"', '\\"') + '"'


def _dot_attributes(node: Node) -> str:
    lines = [node.label, *node.outputs[:2], *(["..."] if len(node.outputs) > 2 else [])]
    tooltip = "\n".join(f"{name}: {value}" for name, value in node.attributes.items())
    colour = "#ffffff" if node.family == "output" else families.tint(node.family)
    return (
        f"label={_quoted(chr(10).join(lines))}, fillcolor={_quoted(colour)}, "
        f"tooltip={_quoted(tooltip or node.label)}"
    )


def graph(
    program: ProgramSource,
    method: str = "forward",
    *,
    overlays: Sequence[Report] = (),
    etrecord: ETRecord | FilePath | None = None,
    modules: Mapping[str, str] | None = None,
) -> Graph:
    """Return the graph of a method. No method is loaded.

    Args:
        overlays: Reports about the program whose values colour the nodes of its page: a trace, a
            memory plan, the result of `explain`. Of values of one name, those of the first.
        etrecord: An ETRecord of the export, or its path: names the modules that the page folds
            nodes by. Default: the names of weights.
        modules: Modules by the place of an instruction or node, as `Trace.name_nodes` has them, or
            by the places of one of the reports.

    Delegates have nodes if their backend describes payloads, or if their payload is a program.
    Raises NotFoundError for an unknown method, InvalidProgramError for a wrong file,
    InvalidExternalDataError for a damaged ETRecord.
    """
    source = opened(program)
    method = name_in(source, method)
    nodes = nodes_of(View(source.program, method))
    if etrecord is not None:
        record = etrecord if isinstance(etrecord, ETRecord) else read_etrecord(etrecord)
        name_modules(nodes.values(), modules_of_record(nodes.values(), record, method))
    if modules:
        places = [report.graph_places(nodes.values()) for report in overlays]
        name_modules(nodes.values(), modules, {k: v for one in places for k, v in one.items()})
    values: dict[tuple[str, str], Overlay] = {}
    for one in (one for report in overlays for one in report.overlays(nodes.values())):
        values.setdefault((one.name, one.view), one)
    picture = Graph(method, nodes, tuple(values.values()))
    picture.set_origins(program=source.origin)
    return picture


def draw_on(
    report: Report,
    program: ProgramFile,
    method: str,
    *,
    more: Sequence[Report] = (),
    etrecord: ETRecord | None = None,
    modules: Mapping[str, str] | None = None,
) -> None:
    """Set the graph of a report's page: the program's, coloured by the report's values, and by
    those of `more` reports; folded as by `graph`."""

    def make() -> GraphPage:
        reports = [report, *more]
        picture = graph(program, method, overlays=reports, etrecord=etrecord, modules=modules)
        page = picture.page()
        return replace(page, shown=page.overlays[0].name if page.overlays else "")

    report.set_graph(make)
