"""Where a program and its model part: an operator that only one of the two has.

After such a place a step agrees with none of the nodes that follow from its sources. It is right,
though, if a node of its kind has its numbers when computed from the step's *direct* sources. Then
the step is that node, and the fault lies before it, in what the node reads and the step does not:

    replaced   a step without a node is where the node reads a node without a step
    removed    the step reads a matched value, the node a later one: no step computes what is
               between
    added      a step without a node, where the node reads a value that an earlier step has

What a program quantises is compared as the numbers that its integers stand for, and from the value
before that where the integers are not known. Rounding hides small differences: a step that agrees
only with the room for it may be far closer on its direct sources, and then it is that node.

A step that is itself wrong (its weights, for example) has other numbers then as well, and nothing
here applies to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from operator import getitem
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c._arrays import as_array
from executorch_c.compare.limits import TIE_DISTANCE
from executorch_c.debug._graphs.evaluator import NOTHING, call
from executorch_c.debug._graphs.layouts import as_tensor, closest, distance, in_shape, sample
from executorch_c.debug._graphs.names import (
    FUSED,
    before_moves,
    dequantizes,
    has_several,
    is_quantizer,
    kind_of,
    operator_of,
)
from executorch_c.debug._graphs.program import Step
from executorch_c.debug._matching.candidates import Candidate
from executorch_c.debug._matching.search import compare, limit_of, may_be
from executorch_c.inspect.families import MOVES

if TYPE_CHECKING:
    from executorch_c._arrays import Array
    from executorch_c.debug._graphs.program import StepSource
    from executorch_c.debug._matching.assignment import Assignment
    from torch.fx import Node

MAX_TRIALS = 32
"""Maximum number of combinations of sources and layouts that are tried as a node's inputs."""

MAX_FUSED = 4
"""Maximum number of operators after a product that one step of a delegate may compute."""

MIN_LIMITED_ELEMENTS = 2
"""Minimum number of elements at the end of a range that show a limit: a single wrong element may be
the largest of a result."""


@dataclass(frozen=True)
class Parting:
    """A place where only the program, or only the model, has an operator."""

    node: Node
    """The node that reads on in the model: its value in the program is `value`."""
    source: StepSource
    """The program's value in the place of the node's."""
    value: Any
    """That value as a tensor in the node's shape."""
    reader: Step
    """The step that reads the value."""
    missing: tuple[Node, ...]
    """The model's operators that no step computes; none if the program has one too many."""
    instead: tuple[Step, ...]
    """Steps that no node computes; none if the program has one too few."""
    limits: tuple[float | None, float | None] | None = None
    """Range to which a delegate's step limits the result of its operator, if it does no more."""


@dataclass
class DirectComputation:
    """A step as a node that is computed from the step's direct sources."""

    candidate: Candidate
    partings: list[Parting] = field(default_factory=list)

    def added(self) -> Iterator[tuple[Node, Parting]]:
        """Yield the partings of operators that only the program has, with each node that reads
        their results."""
        for parting in self.partings:
            if not parting.missing:
                for node in self.candidate.path:
                    if parting.node in node.all_input_nodes:
                        yield node, parting


class Partings:
    """Finds the places where steps part from the graph; changes nothing of the assignment."""

    def __init__(self, state: Assignment) -> None:
        self.state = state

    def direct(self, step: Step) -> DirectComputation | None:
        """Return the node of a step that is right on its direct sources; None if there is none, or
        if they are the node's own."""
        if step.is_open or step.is_part or not step.sources:
            return None
        array = next((one for one in step.outputs if one is not None), None)
        if array is None or array.size < 2 or not float(np.ptp(sample(array))) > 0:
            return None
        front = self.state.front(step, frozenset(self.state.hypotheses))
        if front.is_open or not front.nodes:
            return None
        start = front.all | self.state.front(step).all
        for node in self.state.near(start, step, front.through, from_constants=False):
            if self._is_free(node) and kind_of(node) in step.node_kinds and _may_round(step, node):
                direct = self._as_node(step, node)
                if direct is not None:
                    return direct
        return None

    def at_result(self, step: Step, node: Node) -> Parting | None:
        """Return the parting at a result of the method: a step without a node is where the model
        returns a node without a step."""
        [source] = step.sources
        before, array = source[0], _array(source)
        if isinstance(before, int) or array is None or self._nodes(source) or before.quantized:
            return None
        if before.is_open or before in self.state.hypotheses or not self._is_free(node):
            return None
        value = self.state.values.value(node)
        shaped = None if value is NOTHING or has_several(node) else closest(array, value)
        return None if shaped is None else self._replaced(source, node, shaped[1], step)

    def of_wrong(self, step: Step, candidate: Candidate) -> Parting | None:
        """Return the parting inside a delegate's wrong step: the operators at the start of its path
        are right, and limited to a range by another activation than the one that follows, or by
        one too many."""
        count, limits = self._explained(step, candidate.path)
        if limits is None or len(candidate.parts) != 1 or candidate.parts[0] is None:
            return None
        path, value = list(candidate.path), candidate.parts[0]
        if count == len(path):
            after, value = self._unchanged(candidate.node, value)
            path += after
        before = count
        while before and (kind_of(path[before - 1]) == "clamp" or not _computes(path[before - 1])):
            before -= 1
        if any(kind_of(node) == "clamp" for node in path[before:count]):
            count = before  # the model's own limit is another one
        missing = tuple(filter(_computes, path[count:]))
        return Parting(path[-1], (step, 0), value, step, missing, (step,), limits)

    def _unchanged(self, node: Node, value: Any) -> tuple[list[Node], Any]:
        """Return the nodes up to an activation that alone reads a value of the program, through
        moves, and changes no number of it, with its value; [] and the value if there is none."""
        path: list[Node] = []
        while len((path or [node])[-1].users) == 1:
            [after] = (path or [node])[-1].users
            path.append(after)
            if operator_of(after) in MOVES:
                continue
            values = [value, *self._computed(path, {node: value})]
            same = len(values) > len(path) and values[-1].equal(values[-2])
            return (path, values[-1]) if same and operator_of(after) in FUSED else ([], value)
        return [], value

    # ---- a step as a node ------------------------------------------------------------------

    def _as_node(self, step: Step, node: Node) -> DirectComputation | None:
        """Return a step as a node, from the step's direct sources."""
        array = _array((step, 0))
        if array is None:
            return None
        sources = _sources_before_rounding(step)
        rounded = sources != step.sources or dequantizes(node)
        inputs = [n for n in node.all_input_nodes if n not in self.state.constants]
        inputs = list(dict.fromkeys(map(_before_rounding, inputs))) if rounded else inputs
        first, _ = self.state.path(node, set(inputs))
        for replaced in islice(self._inputs(sources, inputs), MAX_TRIALS):
            values = {one: value for one, (_, value) in replaced.items()}
            for last, path, result in self._results(step, first, values):
                if not may_be(step, last, array):
                    continue
                compared = compare(step, result)
                if compared is None or compared[0] > (
                    TIE_DISTANCE if step.quantized else limit_of(step)
                ):
                    continue
                partings = self._before(step, replaced)
                if partings is None:
                    continue
                distance_of, parts = compared
                candidate = Candidate(last, parts, distance_of, path, set(), 2, True, is_sure=True)
                return DirectComputation(candidate, partings)
        return None

    def _inputs(
        self, sources: Sequence[StepSource], inputs: Sequence[Node]
    ) -> Iterator[dict[Node, tuple[StepSource, Any]]]:
        """Yield inputs of a node that a step's sources replace: for each the source and its value
        in the input's shape. Each source is used, and at least one replaces."""
        known = {source: set(self._nodes(source)) for source in sources}
        known = {
            source: nodes
            for source, nodes in known.items()
            if not nodes or not nodes <= self.state.constants
        }
        kept = {n for n in inputs if any(n in nodes for nodes in known.values())}
        rest = [n for n in inputs if n not in kept]
        free = [source for source, nodes in known.items() if kept.isdisjoint(nodes)]
        if not rest:  # the program may have an operator too many before one of them
            rest = list(inputs) if free else []
        if not rest or not free:
            return
        for order in product(free, repeat=len(rest)):
            if set(order) != set(free):
                continue
            layouts = [self._in_shape(source, n) for source, n in zip(order, rest)]
            for values in product(*layouts):
                yield dict(zip(rest, zip(order, values)))

    def _in_shape(self, source: StepSource, node: Node) -> list[Any]:
        """Return the value of a source in a node's shape, in each layout."""
        array, expected = _array(source), self.state.values.value(node)
        if array is None or not hasattr(expected, "shape"):
            return []
        value = as_tensor(array)
        if value.dtype.is_floating_point != expected.dtype.is_floating_point:
            return []
        return [one.to(expected.dtype) for one in in_shape(value, expected.shape)]

    def _results(
        self, step: Step, first: Sequence[Node], known: Mapping[Node, Any]
    ) -> Iterator[tuple[Node, list[Node], Any]]:
        """Yield a node, and those that a delegate may fuse into it, with the path to each and its
        value; `first` are the nodes from the known ones to the node."""
        path = list(first)
        for _ in range(MAX_FUSED):
            values = self._computed(path, known)
            if len(values) < len(path):
                return
            yield path[-1], list(path), values[-1]
            after = [
                one
                for one in path[-1].users
                if self._is_free(one)
                and (
                    one.target is getitem
                    or operator_of(one) in FUSED
                    or (step.quantized and is_quantizer(one))
                )
            ]
            if not step.inside or len(path[-1].users) != 1 or not after:
                return
            path.append(after[0])

    # ---- what lies before ------------------------------------------------------------------

    def _before(
        self, step: Step, replaced: Mapping[Node, tuple[StepSource, Any]]
    ) -> list[Parting] | None:
        """Return the partings that explain the replaced inputs of a step; None if one is not
        explained."""
        partings: list[Parting] = []
        for node, (source, value) in replaced.items():
            more = self._back(source, node, value, step)
            if more is None:
                return None
            partings += more
        return partings

    def _back(
        self, source: StepSource, node: Node, value: Any, reader: Step
    ) -> list[Parting] | None:
        """Return the partings before a source that stands for a node."""
        before, nodes = source[0], self._nodes(source)
        if nodes:
            path, used = self.state.path(node, set(nodes))
            if node in nodes or not used or not all(map(self._is_free, path)):
                return [] if node in nodes else None
            return [Parting(node, source, value, reader, _operators(path), ())]
        if isinstance(before, int) or before.is_open:
            return None
        if not self._is_free(node):
            return self._added(source, node, value, reader)
        if (copied := self._copied(before)) is not None:
            return self._back(copied, node, value, reader)
        direct = self._as_node(before, node)
        if direct is not None and direct.candidate.node is node:
            return [*direct.partings]
        parting = self._replaced(source, node, value, reader)
        return None if parting is None else [parting]

    def _replaced(self, source: StepSource, node: Node, value: Any, reader: Step) -> Parting | None:
        """Return the parting of a step without a node, in the place of a node without a step."""
        steps, fronts = self._unmatched(source)
        path, used = self.state.path(node, fronts)
        if not used or not all(map(self._is_free, path)):
            return None
        step = source[0]
        assert isinstance(step, Step)
        count, limits = self._explained(step, path[:-1])
        missing = _operators(path[count:])
        if not any(map(_computes, missing)) and any(step.kind not in MOVES for step in steps):
            missing = ()  # the view that follows is right: the program has an operator too many
        return Parting(node, source, value, reader, missing, tuple(steps), limits)

    def _added(
        self, source: StepSource, node: Node, value: Any, reader: Step
    ) -> list[Parting] | None:
        """Return the parting of a step without a node after the step of `node`."""
        steps, fronts = self._unmatched(source)
        return [Parting(node, source, value, reader, (), tuple(steps))] if node in fronts else None

    def _unmatched(self, source: StepSource) -> tuple[list[Step], set[Node]]:
        """Return the steps without a node that lead to a source, in order, and the nodes that those
        start from."""
        steps: set[Step] = set()
        fronts: set[Node] = set()
        queue = [source]
        while queue:
            one = queue.pop()
            if nodes := self._nodes(one):
                fronts.update(nodes)
            elif isinstance(one[0], Step) and one[0] not in steps:
                steps.add(one[0])
                queue += one[0].sources
        return sorted(steps, key=lambda step: step.order), fronts

    def _explained(
        self, step: Step, path: Sequence[Node]
    ) -> tuple[int, tuple[float | None, float | None] | None]:
        """Return how many nodes at the start of a path a delegate's step computes, and the range to
        which it limits their result (None for a side without a limit); 0 and None if it does
        something else."""
        array = _array((step, 0))
        if not step.inside or array is None or array.dtype.kind not in "fV":
            return 0, None
        ours = sample(array)
        low, high = float(np.min(ours)), float(np.max(ours))
        values = self._computed(path)
        for count in range(len(values), 0, -1):
            value = values[count - 1]
            if not hasattr(value, "clamp") or not value.dtype.is_floating_point:
                continue
            compared = closest(array, value.clamp(low, high))
            if compared is None or compared[0] > limit_of(step):
                continue
            beyond = limit_of(step) * max(abs(low), abs(high))
            theirs = sample(as_array(value))
            below, above = theirs < low - beyond, theirs > high + beyond
            if max(np.count_nonzero(below), np.count_nonzero(above)) < MIN_LIMITED_ELEMENTS:
                return 0, None
            return count, (low if below.any() else None, high if above.any() else None)
        return 0, None

    def _computed(self, path: Sequence[Node], known: Mapping[Node, Any] | None = None) -> list[Any]:
        """Return the values of the nodes of a path, computed from those before it and the known
        ones, up to the first that fails."""
        values = dict(known or {})
        for number, node in enumerate(path):
            try:
                values[node] = call(
                    node, lambda n: values[n] if n in values else self.state.values.value(n)
                )
            except Exception:  # the values of a wrong program may be out of an operator's range
                return [values[one] for one in path[:number]]
        return [values[one] for one in path]

    def _copied(self, step: Step) -> StepSource | None:
        """Return the source of a step that changes no number of it; None for other steps."""
        array = _array((step, 0))
        before = _array(step.sources[0]) if len(step.sources) == 1 else None
        if array is None or before is None or before.size != array.size:
            return None
        moved = closest(before, as_tensor(array))
        same = moved is not None and distance(sample(as_array(moved[1])), sample(array)) == 0
        return step.sources[0] if same and not self._nodes(step.sources[0]) else None

    # ---- the assignment --------------------------------------------------------------------

    def _nodes(self, source: StepSource) -> list[Node]:
        """Return the nodes that a source is matched to; those of an assumption do not count."""
        step, number = source
        if isinstance(step, int):
            return [self.state.inputs[step]]
        return [] if step in self.state.hypotheses else self.state.same.get((step, number), [])

    def _is_free(self, node: Node) -> bool:
        """Return True if no step, but one that is an assumption, is matched to a node."""
        owner = self.state.owner(node)
        return node.op == "call_function" and (owner is None or owner in self.state.hypotheses)


def _array(source: StepSource) -> Array | None:
    """Return the value of a step's output."""
    step, number = source
    if isinstance(step, int) or number >= len(step.outputs):
        return None
    return step.outputs[number]


def _sources_before_rounding(step: Step) -> tuple[StepSource, ...]:
    """Return the sources of a step, before conversions whose results are not known: those of
    activations that are quantised as they come."""

    def before(source: StepSource) -> StepSource:
        one = source[0]
        if isinstance(one, int) or one.node_kind != "convert" or _array(source) is not None:
            return source
        return one.sources[0] if len(one.sources) == 1 else source

    return tuple(dict.fromkeys(map(before, step.sources)))


def _before_rounding(node: Node) -> Node:
    """Return the node whose value a node dequantises, or a moved copy of it; any other itself."""
    one = before_moves(node)
    if not is_quantizer(one):
        return node
    while is_quantizer(one) and one.all_input_nodes:
        one = one.all_input_nodes[0]
    return one


def _may_round(step: Step, node: Node) -> bool:
    """Return True if a step may be a node as far as that one quantises: an instruction is the node
    itself; a delegate's conversion, the number that its integers stand for."""
    return not is_quantizer(node) or not step.inside or (step.quantized and dequantizes(node))


def _computes(node: Node) -> bool:
    """Return True for a node that computes numbers: it neither moves nor rounds them."""
    name = operator_of(node)
    return name is not None and name not in MOVES and not is_quantizer(node)


def _operators(path: Sequence[Node]) -> tuple[Node, ...]:
    """Return the nodes on a path that compute numbers; all if none does."""
    some = tuple(filter(_computes, path))
    return some or tuple(path)
