"""Names of trace events in reports."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from executorch_c.trace import Event


def named(events: Iterable[Event]) -> Iterator[tuple[Event, str]]:
    """Yield each event with its place: "instruction 3", or "delegate 0, node 5" (in order of
    execution), with the prefix "chain 1, " if there are several chains."""
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


def short(where: str) -> str:
    """Return the id of a place of `named`: "3" of "instruction 3", "d0.5" of "delegate 0, node 5",
    "1:3" in chain 1; another text as it is."""
    found = re.fullmatch(
        r"(?:chain (\d+), )?(?:instruction (\d+)|delegate (\d+), node (\d+))(.*)", where
    )
    if not found:
        return where
    chain, instruction, delegate, node, rest = found.groups()
    if instruction is None:
        return f"d{delegate}.{node}{rest}"
    return f"{chain}:{instruction}{rest}" if chain else f"{instruction}{rest}"
