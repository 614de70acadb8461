"""What changed between the graphs of two programs.

    changes = compare_graphs("old.pte", "new.pte")
    print(changes)               # a row for each node that changed
    changes.save("change.html")  # both graphs side by side, in step

Nodes are paired in order of execution: first those that are equal (operator, tensors, arguments),
around nodes that occur once in both programs; then, between them, those of one operator. The bytes
of the weights of a pair are compared, and the payloads of delegates whose nodes are all the same.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any, Literal, TypeAlias

from executorch_c._programs import ProgramSource, opened, title_of
from executorch_c._render import text as _text
from executorch_c._render.page.data import MAX_NODES
from executorch_c._render.page.model import GraphPage, Link, Node, Overlay
from executorch_c.inspect import families
from executorch_c.inspect.diagram import explorer
from executorch_c.inspect.diagram.contents import Contents, ContentsPair
from executorch_c.inspect.diagram.draw import Graph, graph
from executorch_c.inspect.diagram.paged import PagedReport
from executorch_c.inspect.diagram.view import structured, view_of
from executorch_c.inspect.structure import View
from executorch_c.inspect.where import id_of

Status: TypeAlias = Literal["same", "changed", "removed", "added"]
COLOURS = {"same": "#b8c0c8", "changed": "#e0a100", "removed": "#d1383d", "added": "#2f9e44"}
PLACES = ("instruction", "value", "to", "debug handle", "source")
"""Attributes that tell where a node is, not what it computes."""
WINDOW = 200
"""Number of nodes of both programs that are compared item by item at once."""
MAX_PRINTED_ROWS = 40
MAX_WHOLE_ROWS = 5
"""Maximum number of rows whose differences are printed whole, below a table that shortens them."""

Pair: TypeAlias = "tuple[int, int]"


# ---- pairs ------------------------------------------------------------------------------------


def paired(first: Sequence[Hashable], second: Sequence[Hashable]) -> list[Pair]:
    """Return pairs of equal items of two sequences, in the order of both.

    Items that occur once in both are paired first, then those between. Where no such item is left,
    items are compared window by window.
    """
    pairs: list[Pair] = []
    gaps = [(0, len(first), 0, len(second))]
    while gaps:
        a, a_end, b, b_end = gaps.pop()
        while a < a_end and b < b_end and first[a] == second[b]:
            pairs.append((a, b))
            a, b = a + 1, b + 1
        while a < a_end and b < b_end and first[a_end - 1] == second[b_end - 1]:
            a_end, b_end = a_end - 1, b_end - 1
            pairs.append((a_end, b_end))
        if a == a_end or b == b_end:
            continue
        anchors = _anchors(first, second, (a, a_end, b, b_end))
        if anchors:
            pairs += anchors
            starts = [(a - 1, b - 1), *anchors]
            ends = [*anchors, (a_end, b_end)]
            gaps += [(i + 1, k, j + 1, n) for (i, j), (k, n) in zip(starts, ends)]
        else:
            pairs += _windows(first, second, (a, a_end, b, b_end))
    return sorted(pairs)


def _windows(
    first: Sequence[Hashable], second: Sequence[Hashable], gap: tuple[int, int, int, int]
) -> Iterator[Pair]:
    """Yield pairs of a gap without anchors, window by window: time is linear in its length."""
    a, a_end, b, b_end = gap
    while a < a_end and b < b_end:
        left, right = first[a : min(a + WINDOW, a_end)], second[b : min(b + WINDOW, b_end)]
        is_last = a + WINDOW >= a_end and b + WINDOW >= b_end
        blocks = SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks()
        found = [(i + k, j + k) for i, j, size in blocks for k in range(size)]
        kept = found if is_last else found[: max(len(found) // 2, 1)]
        yield from ((a + i, b + j) for i, j in kept)
        i, j = kept[-1] if kept else (WINDOW // 2 - 1, WINDOW // 2 - 1)
        a, b = (a_end, b_end) if is_last else (a + i + 1, b + j + 1)


def _anchors(
    first: Sequence[Hashable], second: Sequence[Hashable], gap: tuple[int, int, int, int]
) -> list[Pair]:
    """Return the longest increasing sequence of pairs of items that occur once on both sides."""
    a, a_end, b, b_end = gap
    counts, others = Counter(first[a:a_end]), Counter(second[b:b_end])
    place = {second[j]: j for j in range(b, b_end)}
    once = [
        (i, place[first[i]])
        for i in range(a, a_end)
        if counts[first[i]] == 1 and others[first[i]] == 1
    ]
    tails: list[int] = []  # the smallest end of a sequence of each length
    last: list[int] = []
    before: list[int] = []
    for number, (_, j) in enumerate(once):
        at = bisect_left(tails, j)
        before.append(last[at - 1] if at else -1)
        tails[at : at + 1] = [j]
        last[at : at + 1] = [number]
    chosen = []
    at = last[-1] if last else -1
    while at >= 0:
        chosen.append(once[at])
        at = before[at]
    return chosen[::-1]


def _key(node: Node) -> Hashable:
    """Return what a node computes: equal for nodes that did not change."""
    items = ((name, text) for name, text in node.attributes.items() if name not in PLACES)
    names = tuple(name for _, name in node.inputs)
    return (node.label, node.groups, tuple(node.outputs), tuple(sorted(items)), names)


def _all_pairs(first: Sequence[Node], second: Sequence[Node]) -> list[Pair]:
    """Return pairs of equal nodes and, between them, of nodes of one operator."""
    pairs = paired([*map(_key, first)], [*map(_key, second)])
    more: list[Pair] = []
    starts = [(-1, -1), *pairs]
    ends = [*pairs, (len(first), len(second))]
    for (a, b), (c, d) in zip(starts, ends):
        left, right = first[a + 1 : c], second[b + 1 : d]
        names = [node.label for node in left], [node.label for node in right]
        more += [(a + 1 + i, b + 1 + j) for i, j in paired(*names)]
    return sorted(pairs + more)


# ---- report -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class NodeChange:
    """A node that changed, or that only one of the programs has."""

    status: Status
    operator: str
    was: str
    """Id in the first program; empty for an added node; "d0" for a delegate's payload."""
    now: str
    """Id in the second program; empty for a removed node."""
    what: str
    """What changed: "output: float32 (1, 8) -> float32 (1, 16)"."""


def _what(a: Node, b: Node, pairs: dict[str, str], contents: ContentsPair | None) -> str:
    """Return the differences of a pair; empty if there are none."""
    parts = []

    def part(name: str, was: object, now: object) -> None:
        if was != now:
            parts.append(f"{name}: {was or 'none'} -> {now or 'none'}")

    part("delegate", " / ".join(a.groups), " / ".join(b.groups))
    part("output", "; ".join(a.outputs), "; ".join(b.outputs))
    for name in dict.fromkeys([*a.attributes, *b.attributes]):
        if name not in PLACES:
            part(name, a.attributes.get(name, ""), b.attributes.get(name, ""))
    read = [(pairs.get(source[0], f"{source[0]} (removed)"), source[1]) for source, _ in a.inputs]
    reads = [source for source, _ in b.inputs]
    if not parts and contents:
        parts += contents.weights(a, b)
    if not parts and read != reads:
        parts.append("reads other nodes")
    return "; ".join(parts)


@dataclass(frozen=True)
class GraphChanges(PagedReport):
    """The result of compare_graphs()."""

    titles: tuple[str, str]
    graphs: tuple[Graph, Graph]
    pairs: tuple[tuple[str, str], ...]
    """Ids of nodes that correspond."""
    rows: tuple[NodeChange, ...]
    """Nodes that changed, in order of the second program; then removed ones, and delegates of which
    only the payload changed."""
    note: str = ""
    """The parts that are not compared."""

    def summary(self) -> str:
        """Return the numbers of nodes that changed, and of those that did not."""
        counts = Counter(row.status for row in self.rows)
        parts = [f"{counts[status]:,} {status}" for status in ("changed", "added", "removed")]
        same = len(self.pairs) - counts["changed"]
        return f"{' and '.join(self.titles)}: {', '.join(parts)}, {same:,} the same"

    def heading(self) -> str:
        """Return the heading of its page."""
        return f"{self.titles[1]} compared with {self.titles[0]}"

    def table(self, top: int | None = MAX_PRINTED_ROWS) -> str:
        """Return a row for each node that changed as text, at most `top`."""
        rows = [[str(one[name]) for name in ROW] for one in self.rows_as_dicts()[:top]]
        lines = [_text.table(rows, ROW, width=_text.width())] if rows else []
        cut = [row for row in rows if lines and row[-1] not in lines[0]]
        for _, operator, was, now, what in cut[:MAX_WHOLE_ROWS]:
            lines.append(_text.wrapped(f"{now or was or operator}: {what}"))
        if len(rows) < len(self.rows):
            lines.append(f"  ({len(rows)} of {len(self.rows):,} nodes)")
        return "\n".join(lines)

    def rows_as_dicts(self) -> list[dict[str, object]]:
        """Return a row for each node that changed, with the ids of reports: "d0.5"."""
        was, now = self.graphs
        return [
            {**vars(row), "was": _where(was, row.was), "now": _where(now, row.now)}
            for row in self.rows
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return {"summary", "rows", "pairs"}."""
        pairs = [[*map(_where, self.graphs, pair)] for pair in self.pairs]
        return {"summary": self.summary(), "rows": self.rows_as_dicts(), "pairs": pairs}

    def _named(self) -> Iterator[tuple[str, Graph]]:
        return zip(self.titles, self.graphs)

    def page(self) -> GraphPage:
        """Return the contents of its page: both graphs, in step, coloured by what changed."""
        views = tuple(view_of(name, one.nodes, MAX_NODES // 2) for name, one in self._named())
        sides: tuple[dict[str, float | str], ...] = tuple(
            {id: "same" for id in view.nodes} for view in views
        )
        for row in self.rows:
            for side, id in zip(sides, (row.was, row.now)):
                if id in side:
                    side[id] = row.status
        overlays = tuple(
            Overlay("change", "", side, categories=tuple(COLOURS.items()), view=view.name)
            for side, view in zip(sides, views)
        )
        link = Link(self.titles[0], self.titles[1], self.pairs)
        return GraphPage(self.heading(), views, overlays, (link,), families.COLOURS, "change")

    def model_explorer(self) -> str:
        """Return both graphs as JSON for Model Explorer, which shows two side by side."""
        graphs = {name: structured(one.nodes.values()) for name, one in self._named()}
        return explorer.collection(self.heading(), graphs)

    def __str__(self) -> str:
        lines = [_text.wrapped(self.summary()), self.table(), _text.wrapped(self.note)]
        return "\n".join(filter(None, lines))

    def __repr__(self) -> str:
        return f"<executorch_c.devtools.GraphChanges: {self.summary()}>"


ROW = ("status", "operator", "was", "now", "what")


def _where(graph: Graph, id: str) -> str:
    """Return the id of a node in reports: "d0.5"; the id of an input or output unchanged."""
    return id_of(graph.nodes[id].place) or id if id in graph.nodes else id


def _rows(
    first: Graph, second: Graph, pairs: Sequence[Pair], contents: ContentsPair | None = None
) -> list[NodeChange]:
    left, right = list(first.nodes.values()), list(second.nodes.values())
    known = {left[i].id: right[j].id for i, j in pairs}
    partner = {j: i for i, j in pairs}
    rows = []
    for j, node in enumerate(right):
        if j not in partner:
            rows.append(NodeChange("added", node.label, "", node.id, _tensors(node)))
        elif what := _what(left[partner[j]], node, known, contents):
            rows.append(NodeChange("changed", node.label, left[partner[j]].id, node.id, what))
    gone = (node for node in left if node.id not in known)
    return rows + [NodeChange("removed", node.label, node.id, "", _tensors(node)) for node in gone]


def _hidden(
    first: Graph, second: Graph, changes: GraphChanges, contents: ContentsPair
) -> Iterator[NodeChange]:
    """Yield a row for each pair of delegates whose nodes are all the same, and whose payloads or
    compile specs are not, and for named data that no node shows."""
    changed = {row.now for row in changes.rows if row.now}
    gone = {first.nodes[row.was].delegate for row in changes.rows if row.was and not row.now}
    pairs = dict[tuple[int, int], list[Node]]()
    for was, now in changes.pairs:
        a, b = first.nodes[was].delegate, second.nodes[now].delegate
        if a is not None and b is not None:
            pairs.setdefault((a, b), []).append(second.nodes[now])
    for (a, b), nodes in pairs.items():
        is_same = a not in gone and not any(node.id in changed for node in nodes)
        parts = [*contents.facts(a, b)]
        payload = contents.payloads(a, b)
        if is_same and payload:
            parts.insert(0, f"payload: {payload}")
        if parts:
            name = nodes[0].groups[0].rpartition(" ")[0] if nodes[0].groups else nodes[0].label
            yield NodeChange("changed", name, f"d{a}", f"d{b}", "; ".join(parts))
    read = {
        key for one in first.nodes.values() for key in one.data.values() if isinstance(key, str)
    }
    for key, text in contents.named(read):
        yield NodeChange("changed", "named data", "", "", f"{_text.shortened(key, 40)}: {text}")


def _tensors(node: Node) -> str:
    return "; ".join(node.outputs)


def compare_graphs(
    baseline: ProgramSource, candidate: ProgramSource, method: str = "forward"
) -> GraphChanges:
    """Return what changed between the graphs of two programs. No method is loaded.

    Args:
        baseline, candidate: The old and the new program.
        method: Name of the method, in both.

    Raises NotFoundError for an unknown method, InvalidProgramError for a wrong file.
    """
    sources = opened(baseline), opened(candidate)
    names = title_of(baseline, "baseline"), title_of(candidate, "candidate")
    if names[0] == names[1]:
        folders = (os.path.basename(os.path.dirname(_path(one.source))) for one in sources)
        names = tuple(f"{folder}/{names[0]}" for folder in folders)  # type: ignore[assignment]
    names = ("baseline", "candidate") if names[0] == names[1] else names
    first, second = (graph(one, method) for one in sources)
    contents = ContentsPair(*(Contents(one, View(one.program, method)) for one in sources))
    pairs = _all_pairs(list(first.nodes.values()), list(second.nodes.values()))
    left, right = list(first.nodes), list(second.nodes)
    ids = tuple((left[i], right[j]) for i, j in pairs)
    rows = tuple(_rows(first, second, pairs, contents))
    changes = GraphChanges(names, (first, second), ids, rows, contents.note())
    changes = replace(changes, rows=(*rows, *_hidden(first, second, changes, contents)))
    changes.set_origins(baseline=sources[0].origin, candidate=sources[1].origin)
    return changes


def _path(source: object) -> str:
    return os.path.abspath(os.fspath(source)) if isinstance(source, (str, os.PathLike)) else ""
