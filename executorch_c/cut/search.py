"""The smallest part of a graph that shows a fault: it grows from the source by its neighbours, and
shrinks again from both ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from executorch_c.cut.graph import Part, Whole

if TYPE_CHECKING:
    from executorch_c.cut.trial import Trial
    from torch.fx import Node

Try = Callable[[Part], "Trial | None"]
"""Returns the trial of a part; None for one that cannot be exported."""


def smallest(whole: Whole, source: Iterable[Node], attempt: Try, deadline: float) -> Trial | None:
    """Return the trial of the smallest part that shows the fault; None if there is none before the
    deadline (of time.monotonic)."""
    for nodes in _growing(whole, source):
        trial = attempt(Part(whole, nodes))
        if trial is not None and trial.is_wrong:
            return _shrunk(trial, frozenset(whole.closed(source)), attempt, deadline)
        if time.monotonic() > deadline:
            return None
    return None


def _growing(whole: Whole, source: Iterable[Node]) -> Iterator[frozenset[Node]]:
    """Yield sets of nodes around the source, each once: it alone, with what reads it, with what it
    reads, with both, and twice as far each time, up to the whole graph."""
    start = whole.closed(source)
    if not Part(whole, start).size:  # quantisation alone
        start = whole.around(start)
    sets = [start]
    yield start
    for inputs, users in ((False, True), (True, False)):
        sets.append(whole.around(start, inputs, users))
        if sets[-1] not in sets[:-1]:
            yield sets[-1]
    nodes, steps = start, 1
    while True:
        for _ in range(steps):
            nodes = whole.around(nodes)
        if nodes not in sets:
            yield nodes
        elif nodes == sets[-1]:
            break
        sets.append(nodes)
        steps *= 2 if len(sets) > 5 else 1
    everything = whole.closed(whole.operators)
    if everything not in sets:
        yield everything


def _shrunk(trial: Trial, kept: frozenset[Node], attempt: Try, deadline: float) -> Trial:
    """Return the trial without the nodes at its ends that the fault does not need: first half of
    them, then fewer."""
    whole, step = trial.part.whole, max(len(trial.part.nodes) // 2, 1)
    while step and time.monotonic() < deadline:
        for is_start in (True, False):
            nodes = _without(trial.part, kept, step, is_start)
            if nodes == trial.part.nodes or time.monotonic() > deadline:
                continue
            smaller = attempt(Part(whole, nodes))
            if smaller is not None and smaller.is_wrong:
                trial = smaller
                break
        else:
            step //= 2
    return trial


def _without(part: Part, kept: frozenset[Node], count: int, is_start: bool) -> frozenset[Node]:
    """Return the nodes of a part without some at its start or end; the source stays."""
    order = [node for node in part.order if node in part.nodes]
    ends = [node for node in (order if is_start else reversed(order)) if node not in kept]
    left = part.nodes - set(ends[:count])
    return part.whole.closed(left)
