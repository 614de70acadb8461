"""Match the values of two programs of one model.

Two programs of one model differ in what their flow fused, split or moved. Values are matched along
the data flow: the inputs of both are the same; a value of the candidate program, whose sources are
known as values of the baseline, is one of the few that follow from these there, and among them the
one with the same numbers. Where no value has the same numbers, it is the nearest of those of the
same kind that are computed from all of the same sources, or of what follows from these alone (a
convolution may be fused with what comes after it). The work grows with the number of values.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from executorch_c._arrays import Array
from executorch_c.compare.limits import EQUAL_RATIO, MAX_PAIR_DISTANCE
from executorch_c.debug._graphs.layouts import distance, sample, without_ones
from executorch_c.debug._graphs.names import kind
from executorch_c.inspect.families import MOVES

MAX_CANDIDATES = 48
"""Maximum number of candidates after a value's sources, in the baseline's order."""

INPUT = -1
"""The class of the method's inputs."""

MOVING = {kind(f"::{name}") for name in MOVES}
"""Kinds of operators that move numbers; of these, the ones that leave all of them count."""

CASTS = {kind(f"::{name}") for name in ("_to_copy", "_to_dim_order_copy")}
"""Kinds of operators that round numbers to another dtype."""


@dataclass(frozen=True, eq=False)
class ComputedValue:
    """A computed value of a program."""

    where: str
    name: str
    data: Array
    precision: float
    """Machine epsilon of the coarsest dtype of this value and its sources."""
    quantized: bool
    """True if the coarsest values are quantised integers."""
    sources: frozenset[int] | None = frozenset()
    """Numbers of its source values; empty if all sources are inputs or constants."""

    @cached_property
    def views(self) -> list[tuple[tuple[int, ...], Array]]:
        """Shapes and samples: unchanged, and channels-last as channels-first."""
        arrays = [self.data]
        if self.data.ndim >= 3:
            arrays.append(np.moveaxis(self.data, -1, 1))
        return [(view.shape, sample(view)) for view in arrays]

    @cached_property
    def kind(self) -> str:
        """Kind of the operator, by one name."""
        return kind(self.name)

    @cached_property
    def varies(self) -> bool:
        """True if its elements are not all equal, so that equal numbers identify it."""
        values = self.views[0][1]
        return bool(values.size > 1 and np.ptp(values) > 0)


def apart(a: ComputedValue, b: ComputedValue) -> float | None:
    """Return the distance of two values in the layouts with the smallest distance; None if no
    layout fits."""
    if a.data.size != b.data.size or (a.data.dtype.kind == "b") != (b.data.dtype.kind == "b"):
        return None
    best: float | None = None
    for i, (shape, x) in enumerate(a.views):
        for j, (other, y) in enumerate(b.views):
            if i + j > 1 or without_ones(shape) != without_ones(other):
                continue
            error = distance(x, y)
            best = error if best is None else min(best, error)
    return best


class _DataFlow:
    """The data flow of a program: its values by number, and the values computed from them.

    Values with the same numbers (a transposed copy, two dequantised copies of one tensor) are one
    class: a value that follows from one of them follows from each. Moved and cast inputs are
    inputs.
    """

    def __init__(self, values: Sequence[ComputedValue]) -> None:
        self.values = values
        self.classes: list[int] = []
        """The first value with the same numbers, by number; INPUT for moved and cast
        inputs."""
        self.users: dict[int, list[int]] = {}
        """Values that are computed from a class."""
        self.sources: list[frozenset[int]] = []
        """Classes that a value is computed from, but inputs."""
        same: dict[tuple[object, ...], int] = {}
        for number, value in enumerate(values):
            sources = frozenset(self.classes[one] for one in value.sources or ()) - {INPUT}
            self.sources.append(sources)
            for one in sources or {INPUT}:
                self.users.setdefault(one, []).append(number)
            self.classes.append(self._class(number, sources, same))

    def _class(
        self, number: int, sources: frozenset[int], same: dict[tuple[object, ...], int]
    ) -> int:
        value = self.values[number]
        if not sources and value.kind in MOVING | CASTS:
            return INPUT
        if value.kind in MOVING:
            if len(sources) == 1 and apart(self.values[(only := next(iter(sources)))], value) == 0:
                return only
        if not value.varies:
            return number
        values = value.views[0][1]
        return same.setdefault((sources, value.data.shape, values.tobytes()), number)

    def near(self, start: frozenset[int]) -> Iterator[int]:
        """Yield values that follow from others alone, nearest first; with no others, from
        inputs."""
        inside = {self.classes[one] for one in start} - {INPUT}
        queue, queued = list[int](), set[int]()

        def push(one: int) -> None:
            for number in self.users.get(one, ()):
                if number not in queued and self.sources[number] <= inside:
                    queued.add(number)
                    heapq.heappush(queue, number)

        for one in sorted(inside):
            push(one)
        if not inside:
            push(INPUT)
        for _ in range(MAX_CANDIDATES):
            if not queue:
                return
            number = heapq.heappop(queue)
            yield number
            inside.add(self.classes[number])
            push(self.classes[number])


def _ancestors(
    sources: Callable[[int], Iterable[int]], start: Iterable[int], known: Container[int]
) -> set[int]:
    """Return the nearest known values among some values and those that they are computed from."""
    ancestors, seen, queue = set[int](), set(start), list(start)
    while queue:
        one = queue.pop()
        if one in known:
            ancestors.add(one)
            continue
        fresh = set(sources(one)) - seen
        seen |= fresh
        queue += fresh
    return ancestors


class Matching:
    """Pairs of values of a baseline and a candidate."""

    def __init__(
        self, baseline: Sequence[ComputedValue], candidate: Sequence[ComputedValue]
    ) -> None:
        self.a, self.b = _DataFlow(baseline), _DataFlow(candidate)
        self.same: dict[int, int] = {}
        """Value of the baseline by number of a value of the candidate; several may have one."""
        self.taken: dict[int, tuple[int, float]] = {}
        """Paired values of the baseline: the candidate's number, and the distance."""

    def run(self) -> list[tuple[int, int]]:
        """Return pairs (baseline, candidate), each value at most once, in the candidate's order."""
        for number in range(len(self.b.values)):
            match = self._find(number)
            if match is None:
                continue
            error, one = match
            self.same[number] = one
            if one not in self.taken or self._is_better(one, number, error):
                self.taken[one] = number, error
        return sorted(
            ((one, number) for one, (number, _) in self.taken.items()), key=lambda pair: pair[1]
        )

    def _is_better(self, one: int, number: int, error: float) -> bool:
        """Return True if a value is nearer to one of the baseline than the one that it has: the
        baseline has fused what the candidate computes step by step."""
        before, known = self.taken[one]
        return error < known and known > self._limit(one, self.b.values[before])

    def _front(self, number: int) -> frozenset[int]:
        """Return the baseline's values that a value of the candidate is computed from."""
        values = self.b.values
        start = values[number].sources or ()
        known = _ancestors(lambda one: values[one].sources or (), start, self.same)
        return frozenset(self.same[one] for one in known)

    def _find(self, number: int) -> tuple[float, int] | None:
        """Return the distance and number of the baseline's value that a candidate's value is."""
        value, front = self.b.values[number], self._front(number)
        pairs: list[tuple[float, int]] = []
        for one in (*sorted(front), *self.a.near(front)):
            error = apart(self.a.values[one], value)
            if error is not None:
                pairs.append((error, one))
        if not pairs:
            return None
        if not value.varies:  # zeros equal zeros: only values of the same kind correspond
            pairs = [pair for pair in pairs if self.a.values[pair[1]].kind == value.kind]
        near = [pair for pair in pairs if pair[0] <= self._limit(pair[1], value)]
        if near:
            limit = EQUAL_RATIO * max(min(near)[0], self._precision(min(near)[1], value))
            return max(
                (pair for pair in near if pair[0] <= limit),
                key=lambda pair: self._preference(pair, value, front),
            )
        return self._nearest(pairs, value, front)

    def _precision(self, one: int, value: ComputedValue) -> float:
        return max(self.a.values[one].precision, value.precision)

    def _limit(self, one: int, value: ComputedValue) -> float:
        """Return the largest distance of equal values: half of their digits agree."""
        return math.sqrt(self._precision(one, value)) / 2

    def _preference(
        self, pair: tuple[float, int], value: ComputedValue, front: frozenset[int]
    ) -> tuple[bool, bool, float, int]:
        error, one = pair
        fresh = one not in self.taken and one not in front
        return self.a.values[one].kind == value.kind, fresh, -round(error, 6), -one

    def _nearest(
        self, candidates: list[tuple[float, int]], value: ComputedValue, front: frozenset[int]
    ) -> tuple[float, int] | None:
        """Return the pair of a value whose numbers differ: the nearest of the values of its kind
        and those that follow from one of them alone; or the one that this value's source was
        paired with, if nearer."""
        open_ = [(e, one) for e, one in candidates if one not in self.taken and one not in front]
        starts = {
            one
            for _, one in open_
            if self.a.values[one].kind == value.kind
            and (not front or front <= self._part_before(one, front))
        }
        for _, one in sorted(open_, key=lambda pair: pair[1]):
            sources = self.a.values[one].sources or frozenset()
            if one not in starts and sources and sources <= starts:
                starts.add(one)

        def least(pairs: Iterable[tuple[float, int]]) -> tuple[float, int] | None:
            return min(
                pairs,
                default=None,
                key=lambda pair: (pair[0], self.a.values[pair[1]].kind != value.kind, -pair[1]),
            )

        best = least((e, one) for e, one in open_ if one in starts)
        best = best or least(
            (e, one)
            for e, one in candidates
            if one in front and one in self.taken and e < self.taken[one][1]
        )
        best = best or least((e, one) for e, one in open_ if e <= MAX_PAIR_DISTANCE / 4)
        if best is None or best[0] > MAX_PAIR_DISTANCE:
            fused = self._fused(value, front, starts)
            best = least((e, one) for e, one in open_ if one in fused)
        return best

    def _fused(self, value: ComputedValue, front: frozenset[int], starts: set[int]) -> set[int]:
        """Return the first value of a kind that is computed from a front and nothing else, and
        those that follow from it alone up to the next of the kind; numbers do not matter."""
        classes = {self.a.classes[one] for one in front} - {INPUT}
        fused = set[int]()
        for one in sorted(starts):
            same = self.a.values[one].kind == value.kind
            if same == bool(fused):
                if same:
                    break
                continue
            if fused or self.a.sources[one] == classes:
                fused.add(one)
        return fused

    def _part_before(self, one: int, front: frozenset[int]) -> frozenset[int]:
        """Return the part of a front that a value of the baseline is computed from."""
        values = self.a.values
        start = values[one].sources or ()
        return frozenset(_ancestors(lambda number: values[number].sources or (), start, front))


def match(
    baseline: Sequence[ComputedValue], candidate: Sequence[ComputedValue]
) -> list[tuple[int, int]]:
    """Return pairs of values that correspond, by number, in the candidate's order."""
    return Matching(baseline, candidate).run()


def sources_between(
    sources: Mapping[int, frozenset[int]], start: frozenset[int], rows: Mapping[int, int]
) -> set[int]:
    """Return the rows that a value was computed from: those of its sources, or of theirs."""
    return {rows[one] for one in _ancestors(lambda one: sources.get(one, ()), start, rows)}
