"""The state of matching: the nodes of a graph that have the values of a program's steps."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from operator import getitem
from typing import TYPE_CHECKING, Any

from executorch_c.debug._graphs.evaluator import Evaluator
from executorch_c.debug._graphs.names import is_number, kind_of, twins
from executorch_c.debug._graphs.program import Step
from executorch_c.debug._matching.candidates import Candidate, StepSources, Hypothesis

if TYPE_CHECKING:
    from torch.fx import Node

    from executorch_c.debug._graphs.reference import ReferenceGraph
    from executorch_c.debug._matching.parting import Parting

MAX_CANDIDATES = 64
"""Maximum number of candidates after a step's sources, in the graph's order."""

PRODUCTS = {"linear", "convolution", "bmm"}
"""Kinds that are not on the path to a step of another kind."""

ANY = {"", "scaled_dot_product_attention"}
"""Kinds of steps that may contain several products."""


class Assignment:
    """Nodes with values of the program.

    `put` and `withdraw` are the only functions that change it; `front`, `near` and `path` read it.
    """

    def __init__(self, graph: ReferenceGraph, arguments: Mapping[Node, Any]) -> None:
        self.nodes = graph.nodes
        self.inputs = graph.inputs
        self.place = {node: i for i, node in enumerate(self.nodes)}
        self.constants = _constants(self.nodes, set(self.inputs))
        self.values = Evaluator(graph.module, arguments, self.place)
        """Values of nodes: the program's where `put` has set them, otherwise computed from them."""
        self.same: dict[tuple[Step, int], list[Node]] = {}
        """Nodes of each output of a matched step."""
        self.taken: dict[Node, Step] = {}
        """Steps of nodes."""
        self.hypotheses: dict[Step, Hypothesis] = {}
        """Assumptions: steps of which `same` and `taken` may be withdrawn."""
        self.last = 0
        """Place of the last node that `put` has set."""

    # ---- changes --------------------------------------------------------------------------

    def put(self, step: Step, candidate: Candidate) -> None:
        """Set the value of a node to the step's."""
        node = candidate.node
        self.taken[node] = step
        old = self.values.value(node)
        value = candidate.parts[0]
        if isinstance(old, (list, tuple)):
            value = type(old)(
                [new if new is not None else one for new, one in zip(candidate.parts, old)]
            )
            for number in range(len(step.outputs)):
                self.same[step, number] = _readers_of(node, number)
        else:
            self.same[step, 0] = list(dict.fromkeys([*twins(node), *candidate.same]))
        for one in twins(node):
            self.values.set(one, value)
        self.last = self.place[node]

    def set_parted(self, parting: Parting) -> None:
        """Set the value of a node to the program's, where the program lacks an operator. Another
        reader of that value may be at this node, or at the one that it is matched to."""
        source = parting.source
        if isinstance(source[0], Step):
            for node in (parting.node, *parting.missing):
                self.taken.setdefault(node, source[0])
            self.same[source[0], source[1]] = [
                *self.same.get((source[0], source[1]), []),
                parting.node,
            ]
        self.values.set(parting.node, parting.value)
        self.last = self.place[parting.node]

    def withdraw(self, hypothesis: Hypothesis) -> None:
        """Undo `put` of an assumption, where no other step has taken the node."""
        node = hypothesis.candidate.node
        if self.taken.get(node) is hypothesis.step:
            for one in twins(node):
                if one in self.values.fixed:
                    self.values.unset(one)
            del self.taken[node]
        for number in range(len(hypothesis.step.outputs)):
            self.same.pop((hypothesis.step, number), None)

    # ---- questions ------------------------------------------------------------------------

    def owner(self, node: Node) -> Step | None:
        """Return the step of a node, or of its tuple."""
        whole: Any = node.args[0] if node.target is getitem else node
        return self.taken.get(node) or self.taken.get(whole)

    def front(self, step: Step, skipped: frozenset[Step] = frozenset()) -> StepSources:
        """Return the nodes of a step's sources; for a source without a node, those of its sources.

        Args:
            skipped: Steps that count as steps without a node.
        """
        front = StepSources([], is_open=step.is_open)
        queue, seen = list(step.sources), set(step.sources)
        while queue:
            source, number = queue.pop()
            if isinstance(source, int):
                front.nodes.append({self.inputs[source]})
                continue
            nodes = self.same.get((source, number))
            if nodes and source not in skipped:
                front.nodes.append(set(nodes))
                if source in self.hypotheses:
                    front.hypotheses.append(source)
                continue
            front.through |= source.path_kinds
            front.is_open |= source.is_open
            fresh = [one for one in source.sources if one not in seen]
            seen.update(fresh)
            queue += fresh
        return front

    def around(self) -> set[Node]:
        """Return the inputs, and the nodes with values near the last one: possible sources of a
        step whose sources are unknown."""
        near = self.nodes[max(self.last - MAX_CANDIDATES, 0) : self.last + MAX_CANDIDATES]
        return {*self.inputs, *(node for node in near if node in self.values.fixed)}

    def near(
        self, start: Iterable[Node], step: Step, through: set[str], from_constants: bool
    ) -> Iterator[Node]:
        """Yield the nodes that follow from some nodes and constants alone, nearest first, at most
        MAX_CANDIDATES without a value; nodes with a value are yielded, but not followed.

        Args:
            through: Kinds of steps on the way that have no node.
            from_constants: Begin at the operators on constants, too.
        """
        kinds = step.path_kinds | through
        following = _OperatorQueue(self, start, products=not kinds.isdisjoint(PRODUCTS | ANY))
        if from_constants:
            following.push(self.constants)
        count = 0
        while following.queue and count < MAX_CANDIDATES:
            node = following.pop()
            yield node
            if node not in self.taken:
                count += node.target is not getitem
                following.add(node)

    def path(self, node: Node, front: set[Node]) -> tuple[list[Node], set[Node]]:
        """Return the nodes between a node and its sources, in order, and the used sources."""
        path, used, queue = {node}, set(), [node]
        while queue:
            for before in queue.pop().all_input_nodes:
                if before in front:
                    used.add(before)
                elif before not in path and before not in self.constants:
                    path.add(before)
                    queue.append(before)
        return sorted(path, key=self.place.__getitem__), used


class _OperatorQueue:
    """A queue of the operators whose inputs are known, in the graph's order."""

    def __init__(self, assignment: Assignment, start: Iterable[Node], products: bool) -> None:
        """`products` says whether operators of PRODUCTS follow."""
        self.place, self.constants = assignment.place, assignment.constants
        self.products = products
        self.known = set(start)
        self.queue: list[tuple[int, Node]] = []
        self.queued: set[Node] = set()
        for node in list(self.known):
            self.push(node.users)

    def add(self, node: Node) -> None:
        """Make a node known: its users may follow."""
        self.known.add(node)
        self.push(node.users)

    def push(self, nodes: Iterable[Node]) -> None:
        """Queue those of some nodes that follow."""
        for node in nodes:
            if node not in self.queued and node not in self.known and self._follows(node):
                self.queued.add(node)
                heapq.heappush(self.queue, (self.place[node], node))

    def pop(self) -> Node:
        """Return the next node."""
        return heapq.heappop(self.queue)[1]

    def _follows(self, node: Node) -> bool:
        if node.op != "call_function" or node not in self.place:
            return False
        if not self.products and kind_of(node) in PRODUCTS:
            return False
        return all(
            before in self.known or before in self.constants or is_number(before)
            for before in node.all_input_nodes
        )


def _constants(nodes: Iterable[Node], inputs: set[Node]) -> set[Node]:
    """Return the nodes that depend on no user input."""
    constants: set[Node] = set()
    for node in nodes:
        if node not in inputs and all(before in constants for before in node.all_input_nodes):
            constants.add(node)
    return constants


def _readers_of(node: Node, output: int) -> list[Node]:
    """Return the nodes that take one output out of a tuple."""
    return [user for user in node.users if user.target is getitem and user.args[1] == output]
