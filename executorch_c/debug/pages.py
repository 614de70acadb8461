"""Pages of `explain` and `compare_programs`: graphs in step, coloured by errors.

The views of `explain` are eager's graph (what torch.export returned), the edge dialect's, and the
program's with its delegates opened; matches of values say what corresponds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from executorch_c._programs import ProgramFile
from executorch_c._render.page.data import MAX_NODES
from executorch_c._render.page.model import GraphPage, GraphView, Link, Node, Overlay
from executorch_c._render.text import shortened
from executorch_c.debug._graphs.names import operator_of
from executorch_c.debug._graphs.reference import module_of, source_of
from executorch_c.inspect import families
from executorch_c.inspect.diagram.draw import graph
from executorch_c.inspect.diagram.view import view_of
from executorch_c.inspect.events import placed

if TYPE_CHECKING:
    import torch.fx

    from executorch_c.debug._graphs.reference import ReferenceGraph
    from executorch_c.debug._matching.matches import Matches
    from executorch_c.debug.report import ErrorReport, NodeError
    from executorch_c.inspect.events import EventPlaces

MAX_ARGUMENT = 200
"""Maximum number of characters of an argument."""
EAGER, EDGE = "eager", "edge"
VERDICTS = {
    "ok": "#7fb58a",
    "propagated": "#e6b450",
    "unexplained": "#e08a3c",
    "amplified": "#e0623c",
    "first": "#c81e1e",
    "source": "#c81e1e",
}
"""Colours of verdicts, from the least to the most important."""


# ---- errors -----------------------------------------------------------------------------------


def errors(rows: Sequence[NodeError], side: int = -1, view: str = "") -> tuple[Overlay, ...]:
    """Return verdicts and errors of rows by place; of rows about two programs, of the first (0) or
    the second (-1)."""
    verdicts: dict[str, float | str] = {}
    total: dict[str, float | str] = {}
    local: dict[str, float | str] = {}
    order = list(VERDICTS)
    for row in rows:
        place = place_of(row.where, side)
        known = verdicts.get(place, row.verdict)
        verdicts[place] = max(str(known), row.verdict, key=order.index)
        total[place] = max(float(total.get(place, 0.0)), row.accumulated.relative)
        if row.local is not None:
            local[place] = max(float(local.get(place, 0.0)), row.local.relative)
    shown = {row.verdict for row in rows}  # the same on both sides
    colours = tuple((name, colour) for name, colour in VERDICTS.items() if name in shown)
    overlays = (
        Overlay("verdict", "", verdicts, categories=colours, view=view),
        Overlay("error", "", total, log=True, view=view),
        Overlay("local error", "", local, log=True, view=view),
    )
    return tuple(one for one in overlays if one.values)


def place_of(where: str, side: int) -> str:
    """Return the place of a row's node: "instruction 3" of "instruction 3, result 1 / instruction
    5" on side 0."""
    return where.split(" / ")[side].partition(", result ")[0]


# ---- explain ----------------------------------------------------------------------------------


def draw_explained(
    report: ErrorReport,
    program: ProgramFile,
    method: str,
    model: ReferenceGraph,
    matches: Matches,
    seen: EventPlaces,
) -> None:
    """Set the graphs of a report of `explain`. They are read here, so that the report does not keep
    the model. `seen` are the places of the program's events."""
    report.set_event_places(seen)
    edge = fx_view(EDGE, model.program, model.nodes)
    eager = None if model.source is None else fx_view(EAGER, model.source, model.source.graph.nodes)
    before = {
        node.name: _names_before(node, eager)
        for node in model.nodes
        if eager is not None and node.name in edge.nodes
    }
    pairs = [
        (node.name, match.where) for match in matches.pairs for node in match.path or match.nodes
    ]
    modules = {match.where: module_of(match.anchor) or "" for match in matches.pairs}

    def make() -> GraphPage:
        picture = graph(program, method, overlays=[report], modules=modules)
        last = view_of(picture.title(), picture.nodes, MAX_NODES // 3)
        places = report.graph_places(picture.nodes.values())
        ends = [(node, places.get(at, at)) for node, at in pairs]
        return _page(report, [*([eager] if eager else []), edge, last], ends, before)

    report.set_graph(make)


def _page(
    report: ErrorReport,
    views: Sequence[GraphView],
    pairs: Sequence[tuple[str, str]],
    before: Mapping[str, Sequence[str]],
) -> GraphPage:
    """Return the page of views (eager's if known, edge, the program's). `pairs` are nodes of the
    edge graph and places of the program, `before` has eager's nodes of each edge node."""
    program = views[-1].name
    ends = [(id, id) for id in views[-1].nodes if id.startswith(("input ", "output "))]
    steps = {
        EDGE: [*pairs, *ends],
        EAGER: [(one, where) for node, where in pairs for one in before.get(node, ())] + ends,
    }
    links = [Link(view.name, program, steps[view.name]) for view in views[:-1]]
    if len(views) == 3:
        both = [(one, node) for node, names in before.items() for one in names]
        links.append(Link(EAGER, EDGE, both + ends))
    shown = report.overlays(views[-1].nodes.values())
    overlays = [replace(one, view=program) for one in shown]
    for view in views[:-1]:
        last = {where: node for node, where in steps[view.name]}
        for one in shown:
            values = {last[at]: value for at, value in one.values.items() if at in last}
            overlays.append(replace(one, values=values, view=view.name))
    views = [view_of(view.name, view.nodes, MAX_NODES // 3) for view in views]
    return GraphPage(
        report.heading(),
        tuple(views),
        tuple(one for one in overlays if one.values),
        tuple(links),
        families.COLOURS,
        "verdict",
    )


def _names_before(node: torch.fx.Node, eager: GraphView) -> list[str]:
    """Return the nodes of eager's graph that an edge node was made from."""
    names = (source.name for source in node.meta.get("from_node") or ())
    return [name for name in dict.fromkeys(names) if name in eager.nodes]


def fx_view(name: str, program: Any, nodes: Iterable[torch.fx.Node]) -> GraphView:
    """Return an exported program's graph as a view: parameters are attributes of their readers."""
    return GraphView(name, _FxNodes(program).read(nodes))


class _FxNodes:
    """The nodes of an exported program's graph under construction."""

    def __init__(self, program: Any) -> None:
        self.specs = iter(program.graph_signature.input_specs)
        self.nodes: dict[str, Node] = {}
        self.sources: dict[torch.fx.Node, tuple[str, int]] = {}
        self.weights: dict[torch.fx.Node, str] = {}

    def read(self, nodes: Iterable[torch.fx.Node]) -> dict[str, Node]:
        """Return the nodes by name."""
        for node in nodes:
            if node.op == "placeholder":
                self._placeholder(node)
            elif node.op == "output":
                self._outputs(node)
            elif node.op == "call_function" and operator_of(node) is None and node.args:
                self._item(node)
            elif node.op == "call_function":
                self._call(node)
        return self.nodes

    def _add(self, node: Node, output: torch.fx.Node | None = None) -> Node:
        if output is not None:
            node.outputs = list(_tensors(output.meta.get("val")))
            self.sources[output] = (node.id, 0)
        self.nodes[node.id] = node
        return node

    def _placeholder(self, node: torch.fx.Node) -> None:
        from torch.export.graph_signature import InputKind

        spec = next(self.specs)
        if spec.kind == InputKind.USER_INPUT:
            number = sum(one.family == "input" for one in self.nodes.values())
            title = f"input {number}"
            self._add(Node(title, title, "input", (), {"name": node.name}), node)
        else:
            types = ", ".join(_tensors(node.meta.get("val")))
            self.weights[node] = f"{types} {spec.target or node.name}"

    def _item(self, node: torch.fx.Node) -> None:
        """Note an item of a tuple, or another function without a schema, as its first argument."""
        before, *rest = node.args
        if before in self.sources:
            number = rest[0] if rest and isinstance(rest[0], int) else 0
            self.sources[node] = (self.sources[before][0], number)  # type: ignore[index]

    def _outputs(self, node: torch.fx.Node) -> None:
        for number, result in enumerate(_items(node.args[0])):
            title = f"output {number}"
            one = self._add(Node(title, title, "output", (), {}))
            if hasattr(result, "op") and result in self.sources:
                one.read({self.sources[result]}, "")

    def _call(self, node: torch.fx.Node) -> None:
        label = operator_of(node) or str(node.target)
        one = Node(node.name, label, families.family_of(label), (), {})
        one.module = module_of(node) or ""
        names = [argument.name for argument in node.target._schema.arguments]  # type: ignore
        for name, value in [*zip(names, node.args), *node.kwargs.items()]:
            self._argument(one, name, value)
        source = source_of(node)
        if source:
            one.attributes["source"] = source
        self._add(one, node)

    def _argument(self, node: Node, name: str, value: Any) -> None:
        nodes = [one for one in _items(value) if hasattr(one, "op")]
        for item in nodes:
            if item in self.sources:
                node.read({self.sources[item]}, name)
            elif item in self.weights:
                node.attributes[name] = self.weights[item]
        if not nodes:
            node.attributes[name] = shortened(str(value), MAX_ARGUMENT)


def _items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else [value]


def _tensors(value: Any) -> Iterator[str]:
    """Yield the types of a value's tensors: "float32 (1, 8)"; a dynamic size is its symbol."""
    for item in _items(value):
        if hasattr(item, "shape"):
            dims = [str(size) for size in item.shape]
            shape = f"({dims[0]},)" if len(dims) == 1 else f"({', '.join(dims)})"
            yield f"{str(item.dtype).removeprefix('torch.')} {shape}"


# ---- compare ----------------------------------------------------------------------------------


def draw_compared(
    report: ErrorReport,
    programs: Sequence[ProgramFile],
    names: Sequence[str],
    method: str,
    seen: Sequence[EventPlaces],
) -> None:
    """Set the graphs of a report of two programs, or of a program compared with itself. `seen` are
    the places of the events of both."""
    report.set_event_places(seen[-1])

    def make() -> GraphPage:
        views = [
            view_of(name, graph(one, method).nodes, MAX_NODES // 2)
            for name, one in zip(names, programs)
        ]
        sides = [0, -1] if len(views) == 2 else [-1]
        places = [seen[side].on(view.nodes.values()) for side, view in zip(sides, views)]
        overlays = [
            one
            for side, view, at in zip(sides, views, places)
            for one in placed(errors(report.rows, side, view.name), at)
        ]
        ends = [[place_of(row.where, side) for row in report.rows] for side in (0, -1)]
        pairs = [(places[0].get(a, a), places[-1].get(b, b)) for a, b in zip(*ends)]
        links = [Link(names[0], names[1], pairs)] if len(views) == 2 else []
        title = report.heading()
        return GraphPage(
            title, tuple(views), tuple(overlays), tuple(links), families.COLOURS, "verdict"
        )

    report.set_graph(make)
