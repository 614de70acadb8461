"""The search for a step's node: candidates after its sources, and the one with its numbers.

Nothing here changes the state of matching (`Assignment`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from operator import getitem
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c.compare.limits import (
    BETTER_RATIO,
    EPSILON,
    EQUAL_RATIO,
    INT8_EPSILON,
    TIE_DISTANCE,
)
from executorch_c.compare.tolerance import epsilon_of
from executorch_c.debug._graphs.evaluator import NOTHING
from executorch_c.debug._graphs.layouts import closest, may_fit, sample
from executorch_c.debug._graphs.names import (
    FUSED,
    dequantizes,
    has_several,
    is_quantizer,
    is_read,
    kind_of,
    operator_of,
    outputs_read,
)
from executorch_c.debug._graphs.reference import handles_of
from executorch_c.debug._matching.assignment import PRODUCTS, Assignment
from executorch_c.debug._matching.candidates import Candidate, StepSources, Parts
from executorch_c.inspect.families import MOVES

if TYPE_CHECKING:
    from torch.fx import Node

    from executorch_c._arrays import Array
    from executorch_c.debug._graphs.program import Step

MAX_WRONG_NODES = 8
"""Maximum number of nodes that a wrong step is assumed to be."""


class Search:
    """Finds nodes that may be a step."""

    def __init__(self, state: Assignment) -> None:
        self.state = state
        self._varying: dict[Step, bool] = {}

    # ---- nodes with the step's numbers ----------------------------------------------------

    def agreeing(self, step: Step, front: StepSources) -> Candidate | None:
        """Return the best candidate with the step's numbers."""
        if front.is_open:
            front = StepSources([front.all | self.state.around()], front.through, front.hypotheses)
        equal = list(self._equal(step, front))
        if not equal:
            return None
        sources = front.all
        nearest = _nearest(step, equal)
        best = max(nearest, key=lambda candidate: self._preference(step, candidate, sources))
        if not self._is_credible(step, best, sources):
            return None
        best.same = [
            candidate.node
            for candidate in nearest
            if not has_several(candidate.node)
            and (is_quantizer(candidate.node) or not dequantizes(best.node))
        ]
        return best

    def anywhere(self, step: Step) -> Candidate | None:
        """Return a node that the sources do not lead to, as where equal nodes have been made one:
        its numbers and its kind are the step's."""
        if step.is_open:
            return None
        candidate = self.agreeing(step, StepSources([], is_open=True))
        return (
            candidate
            if candidate is not None and candidate.is_sure and candidate.level == 2
            else None
        )

    def agrees(self, step: Step, node: Node) -> bool:
        """Return True if a node has the step's numbers."""
        value = self.state.values.value(node)
        compared = compare(step, value)
        return compared is not None and compared[0] <= limit_of(step, rounding=_rounding_of(value))

    def _equal(self, step: Step, front: StepSources) -> Iterator[Candidate]:
        """Yield the candidates with the step's numbers: sources, then nodes that follow from them.

        After the first that is credible, only nodes that read an equal one, a quantiser or a
        tuple are looked at: these may be equal, too.
        """
        state, sources = self.state, front.all
        done = False
        passed: set[Node] = set()
        nodes = sorted(sources, key=state.place.__getitem__)
        near = state.near(sources, step, front.through, from_constants=not front.nodes)
        for node in (*nodes, *near):
            if done and passed.isdisjoint(node.all_input_nodes):
                continue
            if is_quantizer(node) or has_several(node):
                passed.add(node)
            candidate = self._candidate(step, node, front)
            if candidate is None:
                continue
            if candidate.distance <= limit_of(step, candidate.path, candidate.rounding):
                yield candidate
                passed.add(node)
                done |= candidate.level > 0 and candidate.is_sure

    def _preference(self, step: Step, candidate: Candidate, sources: set[Node]) -> tuple[Any, ...]:
        """Return the key by which the best of equal candidates is the largest."""
        node = candidate.node
        is_old = node in self.state.taken or (node in sources and not candidate.level)
        tight = is_tight(candidate)
        rounds = step.quantized and dequantizes(node)
        known = not step.handles.isdisjoint(handles_of(node))
        return (
            rounds,
            tight,
            0 if is_old else min(candidate.level, 1),
            is_old != bool(candidate.level),
            candidate.level,
            candidate.exact,
            known,
            0.0 if tight else -candidate.distance,
            -self.state.place[node],
        )

    def _is_credible(self, step: Step, candidate: Candidate, sources: set[Node]) -> bool:
        """Return True if equal numbers are enough: a new node of another kind needs numbers that
        vary and are equal without the room for quantisation on its path."""
        if candidate.level or candidate.node in sources or candidate.node in self.state.taken:
            return True
        limit = limit_of(step, rounding=candidate.rounding)
        return candidate.is_sure and candidate.distance <= limit

    # ---- nodes that a wrong step may be ---------------------------------------------------

    def options(self, step: Step, front: StepSources, sources: set[Node]) -> list[Candidate]:
        """Return the nodes that a wrong step may be: of its kind, computed from all of its sources
        (and no nodes but `sources`), with nodes fused into them; the likeliest first."""
        near = self.state.near(sources, step, front.through, from_constants=not front.nodes)
        options = [
            candidate
            for node in near
            if node not in self.state.taken
            and (candidate := self._candidate(step, node, front, sources)) is not None
            and candidate.level
            and candidate.exact
            and _is_fused(step, candidate, front)
            and (not _holds_sums(step) or _is_integer(self._value(node), node))
        ]
        close = BETTER_RATIO * min((candidate.distance for candidate in options), default=0.0)
        options.sort(
            key=lambda candidate: (
                candidate.distance > close,
                -int(step.quantized and is_quantizer(candidate.node)),
                -candidate.level,
                step.handles.isdisjoint(handles_of(candidate.node)),
                candidate.distance,
            )
        )
        return options[:MAX_WRONG_NODES]

    # ---- one candidate --------------------------------------------------------------------

    def _candidate(
        self, step: Step, node: Node, front: StepSources, others: Iterable[Node] = ()
    ) -> Candidate | None:
        """Return a node as the candidate of a step, from its sources (and other nodes); None where
        it cannot be compared."""
        array = _first(step)
        if array is None or not may_be(step, node, array):
            return None
        value = self._value(node)
        compared = None if value is NOTHING else compare(step, value)
        if compared is None:
            return None
        distance, parts = compared
        path, used = self._origin(node, front, others)
        exact = self._is_exact(front, used)
        if not exact and (firsts := self._firsts(front)) is not None:
            longer, all_used = self._origin(node, firsts, ())
            if self._is_exact(firsts, all_used):
                path, used, exact = longer, all_used, True
        level = self._level(step, node, path)
        if node in front.all and not exact:
            level = 0  # one of the sources, which another one has not changed much
        is_sure = self._varies(step, array)
        rounding = _rounding_of(value)
        return Candidate(node, parts, distance, path, used, level, exact, [], is_sure, rounding)

    def _varies(self, step: Step, array: Array) -> bool:
        """Return True if the elements of a step's output are not all equal."""
        if step not in self._varying:
            self._varying[step] = array.size > 1 and float(np.ptp(sample(array))) > 0
        return self._varying[step]

    def _is_exact(self, front: StepSources, used: set[Node]) -> bool:
        """Return True if all sources are used, or constants."""
        return all(not one.isdisjoint(used) or one <= self.state.constants for one in front.nodes)

    def _firsts(self, front: StepSources) -> StepSources | None:
        """Return a front without nodes that only repeat others; None if it has none.

        A path may end at a repetition that another source has led to: an activation that is
        dequantised by the parameters that a step before has chosen.
        """
        if all(len(one) == 1 for one in front.nodes):
            return None
        nodes = [{min(one, key=self.state.place.__getitem__)} for one in front.nodes]
        return StepSources(nodes, front.through, front.hypotheses, front.is_open)

    def _value(self, node: Node) -> Any:
        """Return the value of a node; of several results None for those that nothing reads."""
        value = self.state.values.value(node)
        if value is NOTHING or not has_several(node):
            return value
        return [one if is_read(node, i) else None for i, one in enumerate(value)]

    def _origin(
        self, node: Node, front: StepSources, others: Iterable[Node]
    ) -> tuple[list[Node], set[Node]]:
        """Return the path from the sources to a node, and the used sources."""
        sources = front.all
        if node in sources:  # equal to another source
            return [node], sources if len(front.nodes) == 1 else {node}
        return self.state.path(node, sources.union(others))

    def _level(self, step: Step, node: Node, path: Sequence[Node]) -> int:
        """Return how far the kinds on a path are the step's (`Candidate.level`)."""
        if node in self.state.taken:
            return 0
        kinds = step.node_kinds
        return 2 if kind_of(node) in kinds else int(any(kind_of(one) in kinds for one in path))


def _first(step: Step) -> Array | None:
    """Return the first known output of a step."""
    return next((one for one in step.outputs if one is not None), None)


def may_be(step: Step, node: Node, array: Array) -> bool:
    """Return True if a node may be a step by its shape and its number of results, and quantises
    only where the step does."""
    if not may_fit(node, array) or (has_several(node) and not _may_be_tuple(step, node)):
        return False
    return not is_quantizer(node) or step.quantized or step.node_kind == "convert"


def _holds_sums(step: Step) -> bool:
    """Return True for a delegate's integers between two operators: TOSA's sums of int32 and int48,
    operands rescaled for them, and the results of a TABLE of int16."""
    array = _first(step)
    return step.inside and not step.quantized and array is not None and array.dtype.kind in "iu"


def _is_integer(value: Any, node: Node) -> bool:
    """Return True if a node has integers that stand for themselves, as those of argmax."""
    import torch

    first = value[0] if isinstance(value, (list, tuple)) and value else value
    return isinstance(first, torch.Tensor) and not (
        is_quantizer(node) or first.dtype.is_floating_point
    )


def _may_be_tuple(step: Step, node: Node) -> bool:
    """Return True if a step may have all outputs of a node that others read."""
    return not step.inside and max(outputs_read(node), default=0) < len(step.outputs)


def compare(step: Step, value: Any) -> tuple[float, Parts] | None:
    """Return the distance of a step from a value, and its outputs in the value's shapes."""
    import torch

    values = list(value) if isinstance(value, (list, tuple)) else [value]
    parts: Parts = [None] * len(values)
    worst = -1.0
    for i, (array, expected) in enumerate(zip(step.outputs, values)):
        if array is None or not isinstance(expected, torch.Tensor):
            continue
        best = closest(array, expected)
        if best is None:
            return None
        worst, parts[i] = max(worst, best[0]), best[1]
    return (worst, parts) if worst >= 0 else None


def limit_of(step: Step, path: Sequence[Node] = (), rounding: float = 0.0) -> float:
    """Return the largest distance |a - b| / (|a| + |b|) of equal values; `rounding` is the machine
    epsilon of the node's."""
    coarsest = max(_rounding(step), rounding)
    if step.quantized or any(map(is_quantizer, path)):
        coarsest = INT8_EPSILON
    return math.sqrt(coarsest) / 2


def _rounding(step: Step) -> float:
    """Return the machine epsilon of a step's coarsest result, that of float32 at least."""
    dtypes = [array.dtype for array in step.outputs if array is not None]
    return max([EPSILON["float32"], *map(epsilon_of, dtypes)])


def _rounding_of(value: Any) -> float:
    """Return the machine epsilon of the coarsest of a node's results; 0 for integers."""
    import torch

    results = value if isinstance(value, (list, tuple)) else [value]
    dtypes = [str(one.dtype) for one in results if isinstance(one, torch.Tensor)]
    return max((EPSILON.get(dtype.removeprefix("torch."), 0.0) for dtype in dtypes), default=0.0)


def is_tight(candidate: Candidate) -> bool:
    """Return True if a candidate has the step's numbers without the room of quantisation."""
    return candidate.distance <= math.sqrt(EPSILON["float32"]) / 2


def _nearest(step: Step, equal: Sequence[Candidate]) -> list[Candidate]:
    """Return candidates without those that are further off than others by more than rounding: a
    convolution alone, where batch norm that is nearly the identity is fused into it."""
    rounding = max(_rounding(step), *(candidate.rounding for candidate in equal))
    if step.quantized or any(is_quantizer(n) for candidate in equal for n in candidate.path):
        rounding = TIE_DISTANCE
    limit = EQUAL_RATIO * max(min(candidate.distance for candidate in equal), rounding)
    return [candidate for candidate in equal if candidate.distance <= limit]


def operator_on(step: Step, path: Sequence[Node]) -> Node:
    """Return the node on a path that a step is: the first of its kind, or the last node.

    A step that rounds the results of others (TOSA's RESCALE of a product, a TABLE of a function)
    is the product on its path, or the first operator, rather than the quantizers around it.
    """
    if step.node_kind == "convert":
        operators = [node for node in path if not is_quantizer(node)]
        products = [node for node in operators if kind_of(node) in PRODUCTS]
        if operators:
            return (products or operators)[0]
    return next((node for node in path if kind_of(node) in step.node_kinds), path[-1])


def _is_fused(step: Step, candidate: Candidate, front: StepSources) -> bool:
    """Return True if a delegate fuses all nodes after the operator into one."""
    operator = operator_on(step, candidate.path)
    rounds = step.node_kind == "convert" and not PRODUCTS.isdisjoint(front.through)
    if rounds and kind_of(operator) not in PRODUCTS:
        return False  # no graph node has the value of the product
    after = candidate.path[candidate.path.index(operator) + 1 :]
    sums = sum(kind_of(node) == "add" for node in after)
    return sums <= (step.node_kind in PRODUCTS) and all(
        is_quantizer(n)
        or n.target is getitem
        or operator_of(n) in FUSED | MOVES
        or kind_of(n) in ("add", "clamp")
        for n in after
    )
