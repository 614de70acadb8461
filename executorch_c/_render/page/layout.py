"""Layered layout of a view: a tree of boxes, in each of them rows of its children.

A box is laid out without regard to its surroundings: the page computes coordinates from the rows
whenever a box is opened or closed. Time is linear in nodes and edges; execution order breaks cycles
and ties.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from executorch_c._render.page.model import Group, Node

MAX_CHILDREN = 200
"""Maximum number of children of a box; more are grouped into runs."""
RUNS, MIN_RUN = 100, 25
"""Approximate number of runs in a box, and the minimum number of children of a run."""
MAX_SPAN = 40
"""Maximum number of rows that an edge passes by; longer edges have no place of their own."""
MAX_BENDS, MIN_BENDS = 3, 120
"""Maximum number of places of passing edges, for each child of a box, and for a small box."""
SWEEPS = 4
"""Number of passes that order the rows, in each direction."""
MAX_RUN_OPERATORS = 3
"""Maximum number of operators in the name of a run."""

Edge: TypeAlias = "tuple[int, int]"


@dataclass
class Box:
    """A group of a view, or the view itself. Children are numbers of nodes, or, from the number of
    nodes on, of boxes."""

    kind: str
    name: str
    parent: int
    """Number of the enclosing box; -1 for the view."""
    place: str = ""
    """Place in reports."""
    children: list[int] = field(default_factory=list)
    rows: list[list[int]] = field(default_factory=list)
    """Slots from the first row to the last: indices of `children`; from their number on, bends."""
    chains: list[list[int]] = field(default_factory=list)
    """The slots of each edge between children: both ends, and the bends between."""


def boxes(nodes: Sequence[Node]) -> list[Box]:
    """Return the boxes of a view, laid out; the first is the view."""
    return _Tree(nodes).boxes()


class _Tree:
    """The tree of boxes under construction."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self.list = [Box("view", "", -1)]
        known: dict[tuple[int, Group], int] = {}
        for number, node in enumerate(nodes):
            at = 0
            for group in node.path:
                if (at, group) not in known:
                    known[at, group] = self._add(at, group)
                at = known[at, group]
            self.list[at].children.append(number)

    def boxes(self) -> list[Box]:
        """Return all boxes, laid out."""
        self._simplify()
        for number in range(len(self.list)):
            self._fold(number)
        self._renumber()
        first, parents = self._positions()
        for box, edges in zip(self.list, self._edges(parents)):
            box.rows, box.chains = _rows(box.children, edges, first)
        return self.list

    def _add(self, parent: int, group: Group) -> int:
        self.list.append(Box(group.kind, group.name, parent, group.place))
        number = len(self.list) - 1
        self.list[parent].children.append(len(self.nodes) + number)
        return number

    def _simplify(self) -> None:
        """Remove layers around one node, and join layers around one layer, from the inside."""
        count = len(self.nodes)
        for number in range(len(self.list) - 1, 0, -1):
            box = self.list[number]
            if box.kind != "module" or len(box.children) != 1:
                continue
            (only,) = box.children
            inner = self.list[only - count] if only >= count else None
            if inner is not None and inner.kind != "module":
                continue
            siblings = self.list[box.parent].children
            siblings[siblings.index(count + number)] = only
            box.children = []
            if inner is not None:
                inner.name, inner.parent = f"{box.name}.{inner.name}", box.parent

    def _fold(self, number: int) -> None:
        """Group the children of a large box into runs, recursively."""
        box = self.list[number]
        children = box.children
        if len(children) <= MAX_CHILDREN:
            return
        runs = min(RUNS, len(children) // MIN_RUN)
        size = -(-len(children) // runs)
        box.children = []
        for start in range(0, len(children), size):
            run = children[start : start + size]
            inner = self._add(number, Group("run", self._run_name(run)))
            self.list[inner].children = run
            for child in run:
                if child >= len(self.nodes):
                    self.list[child - len(self.nodes)].parent = inner
            self._fold(inner)

    def _run_name(self, run: Sequence[int]) -> str:
        """Return the first and the last of a run, and its most frequent operators: "0:0 \u2026
        0:24: conv \u00d712, relu \u00d712"."""
        count = len(self.nodes)
        ends = [
            self.nodes[one].id if one < count else self.list[one - count].name
            for one in (run[0], run[-1])
        ]
        names = Counter(self.nodes[one].label for one in run if one < count).most_common()
        shown = [f"{name} \u00d7{n}" if n > 1 else name for name, n in names[:MAX_RUN_OPERATORS]]
        return ": ".join(filter(None, [" \u2026 ".join(ends), ", ".join(shown)]))

    def _renumber(self) -> None:
        """Drop empty boxes, and number the others in order of depth: parents come first."""
        count = len(self.nodes)
        order = [0]
        for number in order:  # it grows
            order += [one - count for one in self.list[number].children if one >= count]
        place = {old: new for new, old in enumerate(order)}
        self.list = [self.list[old] for old in order]
        for new, box in enumerate(self.list):
            box.children = [
                one if one < count else count + place[one - count] for one in box.children
            ]
            for one in box.children:
                if one >= count:
                    self.list[one - count].parent = new

    def _positions(self) -> tuple[list[float], list[int]]:
        """Return the place in the order of execution, of boxes that of their first node, and the
        enclosing box. A node that reads nothing (dequantised weights) is just before its first
        reader: a box does not begin with it."""
        count = len(self.nodes)
        first = [*map(float, range(count)), *[float(count)] * len(self.list)]
        index = {node.id: number for number, node in enumerate(self.nodes)}
        for number in range(count - 1, -1, -1):
            for source, _ in self.nodes[number].inputs:
                if not self.nodes[index[source[0]]].inputs:
                    first[index[source[0]]] = number - 0.5
        parents = [0] * (count + len(self.list))
        for number in range(len(self.list) - 1, -1, -1):
            for child in self.list[number].children:
                parents[child] = number
                first[count + number] = min(first[count + number], first[child])
        return first, parents

    def _edges(self, parents: Sequence[int]) -> list[dict[Edge, None]]:
        """Return the edges between the children of each box: an edge of nodes belongs to the
        innermost box around both."""
        count = len(self.nodes)
        depth = [0] * len(self.list)
        for number in range(1, len(self.list)):
            depth[number] = depth[self.list[number].parent] + 1
        index = {node.id: number for number, node in enumerate(self.nodes)}
        edges: list[dict[Edge, None]] = [{} for _ in self.list]
        for reader, node in enumerate(self.nodes):
            for source, _ in node.inputs:
                a, b = index[source[0]], reader
                above, below = parents[a], parents[b]
                while above != below:
                    if depth[above] >= depth[below]:
                        a, above = count + above, self.list[above].parent
                    else:
                        b, below = count + below, self.list[below].parent
                if a != b:
                    edges[above][a, b] = None
        return edges


# ---- rows -------------------------------------------------------------------------------------


def _rows(
    children: Sequence[int], edges: Iterable[Edge], first: Sequence[float]
) -> tuple[list[list[int]], list[list[int]]]:
    """Return the rows and chains of a box."""
    slot = {child: i for i, child in enumerate(children)}
    where = [first[child] for child in children]
    pairs = [(slot[a], slot[b]) for a, b in edges]
    forward = sorted({(a, b) if where[a] <= where[b] else (b, a) for a, b in pairs})
    ranks = _ranks(where, forward)
    rows: list[list[int]] = [[] for _ in range(max(ranks, default=-1) + 1)]
    for i in sorted(range(len(children)), key=where.__getitem__):
        rows[ranks[i]].append(i)
    longest = _longest(forward, ranks, max(MAX_BENDS * len(children), MIN_BENDS))
    chains, bends = [], len(children)
    for a, b in forward:
        passed = range(ranks[a] + 1, ranks[b]) if ranks[b] - ranks[a] <= longest else range(0)
        for row in passed:
            rows[row].append(bends + row - passed.start)
        chains.append([a, *range(bends, bends + len(passed)), b])
        bends += len(passed)
    _order(rows, chains, bends)
    return rows, chains


def _ranks(where: Sequence[float], edges: Sequence[Edge]) -> list[int]:
    """Return the row of each child: below everything that it reads; a child that reads nothing
    stands above its first reader."""
    ranks = [0] * len(where)
    readers: dict[int, list[int]] = {}
    reads = [False] * len(where)
    for a, b in edges:
        readers.setdefault(a, []).append(b)
        reads[b] = True
    for a in sorted(readers, key=where.__getitem__):
        for b in readers[a]:
            ranks[b] = max(ranks[b], ranks[a] + 1)
    for a, below in readers.items():
        if not reads[a]:
            ranks[a] = max(min(ranks[b] for b in below) - 1, 0)
    return ranks


def _longest(edges: Sequence[Edge], ranks: Sequence[int], room: int) -> int:
    """Return the rows that an edge with bends may span, so that all bends have room."""
    spans = Counter(ranks[b] - ranks[a] for a, b in edges)
    used = 0
    for span in range(2, MAX_SPAN + 1):
        used += (span - 1) * spans[span]
        if used > room:
            return span - 1
    return MAX_SPAN


def _order(rows: list[list[int]], chains: Sequence[Sequence[int]], slots: int) -> None:
    """Order the slots of each row by the mean place of their neighbours in the row before, then by
    that in the row after, some times."""
    above: list[list[int]] = [[] for _ in range(slots)]
    below: list[list[int]] = [[] for _ in range(slots)]
    row_of = {slot: number for number, row in enumerate(rows) for slot in row}
    for a, b in _steps(chains):
        if row_of[b] - row_of[a] == 1:
            below[a].append(b)
            above[b].append(a)
    place = [0.0] * slots
    for row in rows:
        _note(row, place)
    for _ in range(SWEEPS):
        for neighbours, sweep in ((above, rows), (below, rows[::-1])):
            for row in sweep:
                if len(row) > 1:
                    row.sort(key=lambda slot: _mean(neighbours[slot], place, place[slot]))
                    _note(row, place)


def _steps(chains: Iterable[Sequence[int]]) -> Iterator[Edge]:
    for chain in chains:
        yield from zip(chain, chain[1:])


def _note(row: Sequence[int], place: list[float]) -> None:
    """Set the places of a row, centred."""
    middle = (len(row) - 1) / 2
    for i, slot in enumerate(row):
        place[slot] = i - middle


def _mean(slots: Sequence[int], place: Sequence[float], otherwise: float) -> float:
    return sum(place[slot] for slot in slots) / len(slots) if slots else otherwise
