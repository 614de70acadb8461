"""The fewest layers to keep in float: a search over sets of layers.

Noise of layers adds up only roughly: a layer in float between quantised ones still reads rounded
inputs, so that two neighbours gain more than each of them alone. The search therefore goes both
ways: layers are quantised again while that loses least, sets grow by the layers that gain most,
then layers are exchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Protocol

Set = frozenset[str]
MAX_TRIED = 12
"""Maximum number of layers that a step tries, the likeliest first."""
MAX_KEPT = 6
"""Maximum number of sets of a size that grow."""
MAX_STARTS = 3
"""Maximum number of sets with a layer less from which layers are exchanged."""


class Result(Protocol):
    """Result of a set of layers in float."""

    @property
    def noise(self) -> float: ...
    @property
    def ok(self) -> bool: ...


class Search:
    """Sets of layers that were measured, and the search for a small one.

    Args:
        covers: The layers that stay in float with each, itself included.
        measure: Returns what a set of layers in float reaches.
        max_sets: Maximum number of measured sets; the best one known then is the result.
        say: Called with the number of measured sets and the maximum.
    """

    def __init__(
        self,
        covers: Mapping[str, Collection[str]],
        measure: Callable[[Set], Result],
        max_sets: int,
        say: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        self.covers, self._measure, self.max_sets, self._say = covers, measure, max_sets, say
        self.known: dict[Set, Result] = {}

    @property
    def is_spent(self) -> bool:
        """True if no further set may be measured."""
        return len(self.known) >= self.max_sets

    def result(self, names: Iterable[str]) -> Result:
        """Return the result of layers in float, and of those that they cover."""
        kept = self.closed(names)
        if kept not in self.known:
            self._say(len(self.known), max(self.max_sets, len(self.known) + 1))
            self.known[kept] = self._measure(kept)
        return self.known[kept]

    def size(self, names: Iterable[str]) -> int:
        """Return the number of layers that stay in float."""
        return len(self.closed(names))

    def closed(self, names: Iterable[str]) -> Set:
        """Return layers, and those that stay in float with them."""
        return frozenset(one for name in names for one in self.covers[name])

    def fewest(self) -> Set | None:
        """Return the smallest set found that reaches the target; None if all layers in float do
        not."""
        everything = frozenset(self.covers)
        if self.result(()).ok:
            return frozenset()
        if not self.result(everything).ok:
            return None
        costs = self._costs()
        order = [*costs]
        self.max_sets += len(self.known)  # those of the order do not count
        best = self._pruned(self._bracket(order), costs)
        grown = self._grown(order, self.size(best))
        if grown is not None:
            best = min(best, self._pruned(grown, costs), key=self._rank)
        while (smaller := self._exchanged(best, order)) is not None:
            best = self._pruned(smaller, costs)
        return self.closed(best)

    def likeliest(self, kept: Set) -> Set:
        """Return a set with one layer more, the one that leaves the least noise, and those that it
        covers."""
        rest = [name for name in self.covers if name not in kept]
        larger = (self.closed(kept | {name}) for name in rest)
        return min(larger, key=self._noise, default=kept)

    def smaller(self, kept: Set) -> list[Set]:
        """Return sets with one layer less, and without those that cover it, those with the least
        noise first."""
        sets = {kept - {one for one in kept if name in self.covers[one]} for name in kept}
        return sorted(sets, key=lambda one: (self._noise(one), sorted(one)))

    def _noise(self, names: Iterable[str]) -> float:
        noise = self.result(names).noise
        return math.inf if math.isnan(noise) else noise

    def _rank(self, names: Set) -> tuple[int, float]:
        return self.size(names), self._noise(names)

    def _costs(self) -> dict[str, float]:
        """Return what layers cost, the most expensive first: the noise of the layer alone, and what
        the whole noise loses without it."""
        whole, everything = self._noise(()), frozenset(self.covers)
        cost = {
            name: self._noise(everything - {name}) + max(whole - self._noise({name}), 0.0)
            for name in self.covers
        }
        return dict(sorted(cost.items(), key=lambda item: -item[1]))

    def _width(self, steps: int) -> int:
        """Return how many layers each of some steps may try."""
        return min(MAX_TRIED, (self.max_sets - len(self.known)) // max(steps, 1))

    def _bracket(self, order: Sequence[str]) -> Set:
        """Return the shortest beginning of an order that reaches the target, by halving."""
        low, high = 0, len(order)  # the first `high` reach it
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.result(order[:middle]).ok else (middle, high)
        return frozenset(order[:high])

    def _grown(self, order: Sequence[str], limit: int) -> Set | None:
        """Return a set that grew layer by layer, of the sets of a size those with the least noise,
        until it reached the target; None if it is not smaller than a limit."""
        beam: list[Set] = [frozenset()]
        if self._width(limit) < MAX_TRIED:
            return None
        for _ in range(1, limit):
            larger = {}
            for kept in beam:
                for name in [one for one in order if one not in kept][:MAX_TRIED]:
                    if self.is_spent:
                        return None
                    larger[kept | {name}] = self._noise(kept | {name})
            beam = sorted(larger, key=larger.__getitem__)[:MAX_KEPT]
            for kept in beam:
                if self.result(kept).ok and self.size(kept) < limit:
                    return kept
        return None

    def _pruned(self, kept: Set, costs: Mapping[str, float]) -> Set:
        """Return a set without the layers that the target does not need."""
        lost = {name: costs[name] for name in kept}
        """Noise without each, when it was last measured."""
        width = max(1, self._width(2 * len(kept)))
        while not self.is_spent:
            tried = sorted(kept, key=lost.__getitem__)
            smaller = None
            for count, name in enumerate(tried):
                if self.is_spent or (smaller is not None and count >= width):
                    break
                one = kept - {name}
                lost[name] = self._noise(one)
                if self.result(one).ok and (smaller is None or lost[name] < self._noise(smaller)):
                    smaller = one
            if smaller is None:
                break
            kept = smaller
        return kept

    def _exchanged(self, kept: Set, order: Sequence[str]) -> Set | None:
        """Return a smaller set: one layer less, then layers exchanged one by one while the noise
        falls; None if none was found."""
        starts = [kept - {name} for name in sorted(kept)]
        for one in sorted(starts, key=self._noise)[:MAX_STARTS]:
            better: Set | None = one
            while better is not None and not self.is_spent:
                one = better
                if self.size(one) < self.size(kept) and self.result(one).ok:
                    return one
                better = next(self._better(one, kept, order), None)
        return None

    def _better(self, one: Set, kept: Set, order: Sequence[str]) -> Iterator[Set]:
        """Yield sets with one layer exchanged, of less noise, and smaller than the known one."""
        removed = sorted(one, key=lambda name: self._noise(one - {name}))[:MAX_TRIED]
        added = [name for name in order if name not in one][:MAX_TRIED]
        for name, other in product(["", *removed], added):
            if self.is_spent:
                return
            changed = one - {name} | {other}
            if self.size(changed) < self.size(kept) and self._noise(changed) < self._noise(one):
                yield changed
