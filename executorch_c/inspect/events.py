"""Events of a trace as the reports of these tools name them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from executorch_c.trace import Event


def named(events: Iterable[Event]) -> Iterator[tuple[Event, str]]:
    """Each event with where it is: "instruction 3", "delegate 0, node 5" (in the order in which
    the delegate runs them), with "chain 1, " in front where there are several."""
    events = list(events)
    several = len({event.chain for event in events if event.chain is not None}) > 1
    nodes = 0
    for event in events:
        nodes = nodes + 1 if event.kind == "node" else 0
        if event.kind == "execute":
            yield event, f"method '{event.name}'"
            continue
        where = f"chain {event.chain}, " if several else ""
        where += "inside, " * (event.depth if event.kind != "node" else 0)
        if event.kind == "node":
            where += f"delegate {event.delegate}, node {nodes - 1}"
        else:
            where += f"instruction {event.instruction}"
        yield event, where
