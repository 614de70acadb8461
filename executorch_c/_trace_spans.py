"""Spans of a traced call, for its timeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from executorch_c.plotting.calls import Span

if TYPE_CHECKING:
    from executorch_c.trace import Event


def median_run(events: Iterable[Event]) -> int:
    """Return the number of the call of median time, of an even number the faster; 0 without any."""
    times = [e.duration_ns for e in events if e.kind == "execute" and not e.depth]
    order = sorted(range(len(times)), key=lambda run: times[run])
    return order[(len(order) - 1) // 2] if order else 0


def spans(events: Sequence[Event], run: int) -> list[Span]:
    """Return the instructions of a call, and the nodes inside delegates where they have times."""
    here = [event for event in events if event.run == run]
    start = here[0].start_ns if here else 0
    is_timed = any(event.duration_ns for event in here if event.kind == "node")
    return [
        Span(path, (event.start_ns - start) / 1e3, event.duration_ns / 1e3)
        for path, event in _paths(here)
        if is_timed or event.kind != "node"
    ]


def _paths(events: Iterable[Event]) -> Iterator[tuple[tuple[str, ...], Event]]:
    """Yield events with their names from outside, without calls."""
    outer: list[str] = []
    for event in events:
        if event.kind == "execute":
            continue
        if event.kind == "node":
            yield (*outer, event.name or f"node {event.debug_handle}"), event
            continue
        del outer[event.depth :]
        name = f"d{event.delegate} {event.name}" if event.kind == "delegate" else event.name
        yield (*outer, name or event.kind), event
        if event.kind == "delegate":
            outer.append(name)
