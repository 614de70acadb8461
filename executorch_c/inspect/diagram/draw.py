"""A method as a graph of operators, tensors and nodes of delegates.

    picture = graph(program, "forward")
    picture.save("model.svg")   # Graphviz' dot draws it; .dot needs nothing
    picture.save("model.json")  # for Model Explorer

An edge goes from the writer of a value to its reader; after the branches of a `torch.cond` there is
an edge from each branch. Weights and numbers are attributes of their readers.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from executorch_c._programs import ProgramSource, name_in, opened
from executorch_c._render import text as _text
from executorch_c._render.html import Markup, tag, together, without_empty
from executorch_c._render.html import table as html_table
from executorch_c.inspect import families
from executorch_c.inspect.diagram import layers
from executorch_c.inspect.diagram.build import nodes_of
from executorch_c.inspect.diagram.nodes import Node
from executorch_c.inspect.structure import View
from executorch_c.report import Report

if TYPE_CHECKING:
    from executorch_c._types import FilePath


@dataclass(frozen=True)
class Graph(Report):
    """The result of graph(); notebooks draw it if Graphviz is installed."""

    method: str
    nodes: dict[str, Node]
    """Nodes by id, in order of the instructions."""

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
        nodes = [_model_explorer_node(node) for node in self.nodes.values()]
        graphs = [{"id": self.method, "nodes": nodes}]
        return json.dumps({"label": self.method, "graphs": graphs}, indent=1)

    # ---- report ----

    @property
    def ok(self) -> bool:
        """True: a graph is neither right nor wrong."""
        return True

    def summary(self) -> str:
        """Return the number of nodes and edges."""
        return (
            f"method '{self.method}': {_text.plural(len(self.nodes), 'node')}, "
            f"{_text.plural(len(self.edges), 'edge')}"
        )

    def heading(self) -> str:
        """Return the heading of its page."""
        return f"Graph of '{self.method}'"

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

    def sections(self) -> Iterator[object]:
        """Yield the parts of its page after the finding: the picture (with Graphviz), all nodes."""
        try:
            yield Markup(self._svg_element())
        except (FileNotFoundError, RuntimeError) as error:
            yield str(error)
        yield html_table("nodes", *without_empty(HEAD, [[*row] for row in self._rows()], len(HEAD)))

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
        Path(path).write_text(self.render(ending), encoding="utf-8")

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

    def _svg_element(self) -> str:
        svg = self.svg()
        return svg[svg.index("<svg") :]

    def _repr_html_(self) -> str:
        try:
            return self._svg_element()
        except (FileNotFoundError, RuntimeError) as error:
            return together(tag("p", repr(self)), tag("p", error))


HEAD = ("id", "operator", "family", "delegate", "outputs", "reads")
FORMATS = ("dot", "svg", "model-explorer")
ENDINGS = {".dot": "dot", ".gv": "dot", ".svg": "svg", ".json": "model-explorer"}


def _quoted(text: str) -> str:
    lines = [_text.visible(line).replace("\\", "\\\\") for line in text.split("\n")]
    return '"' + "\\n".join(lines).replace('"', '\\"') + '"'


def _dot_attributes(node: Node) -> str:
    lines = [node.label, *node.outputs[:2], *(["..."] if len(node.outputs) > 2 else [])]
    tooltip = "\n".join(f"{name}: {value}" for name, value in node.attributes.items())
    colour = "#ffffff" if node.family == "output" else families.tint(node.family)
    return (
        f"label={_quoted(chr(10).join(lines))}, fillcolor={_quoted(colour)}, "
        f"tooltip={_quoted(tooltip or node.label)}"
    )


def _model_explorer_node(node: Node) -> dict[str, object]:
    def pairs(items: dict[str, str]) -> list[dict[str, str]]:
        return [{"key": key, "value": value} for key, value in items.items()]

    edges, inputs = [], []
    for (source, name), at in node.inputs.items():
        edges.append(
            {
                "sourceNodeId": source[0],
                "sourceNodeOutputId": str(source[1]),
                "targetNodeInputId": str(at),
            }
        )
        inputs.append({"id": str(at), "attrs": pairs({"__tensor_tag": name})})
    outputs = [
        {"id": str(i), "attrs": pairs({"tensor": text})} for i, text in enumerate(node.outputs)
    ]
    return {
        "id": node.id,
        "label": node.label,
        "namespace": "/".join(node.groups),
        "attrs": pairs({"family": node.family, **node.attributes}),
        "incomingEdges": edges,
        "inputsMetadata": inputs,
        "outputsMetadata": outputs,
        "style": {"backgroundColor": families.tint(node.family)},
    }


def graph(program: ProgramSource, method: str = "forward") -> Graph:
    """Return the graph of a method. No method is loaded.

    Delegates have nodes if their backend describes payloads, or if their payload is a program.
    Raises NotFoundError for an unknown method, InvalidProgramError for a wrong file.
    """
    source = opened(program)
    method = name_in(source, method)
    picture = Graph(method, nodes_of(View(source.program, method)))
    picture.set_origins(program=source.origin)
    return picture
