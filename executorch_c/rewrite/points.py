"""Values of a run that can become outputs: results of instructions, and of nodes in delegates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from executorch_c.inspect.structure import View
from executorch_c.rewrite.method import Point

if TYPE_CHECKING:
    from executorch_c._arrays import Array
    from executorch_c._core import Method, Program
    from executorch_c.trace import Event

DEAD = "nobody reads it"
"""In a backend's note on a node that is not run."""


@dataclass(frozen=True)
class Computed:
    """A value and what the program computes here."""

    id: str
    """Of its place: "d0.3", the result of node 3 of delegate 0; "i7:1", result 1 of instruction 7
    (from 0); "c1.i7" in another chain than the first."""
    name: str
    """Name of the node, or of the operator."""
    point: Point
    data: Array


def computed(program: Program, method: Method, inputs: Sequence[object]) -> list[Computed]:
    """Run a method and return the values that it computes, in order, but those of loops.

    `method` is a method of `program`. Raises the exceptions of the run.
    """
    view = View(program, method.metadata.name())
    with method.tracing(values=True) as trace:
        method.execute(inputs)
    events = [event for event in trace.events if not event.run and not event.depth]
    return [*_walk(view, events)]


def _walk(view: View, events: Sequence[Event]) -> Iterator[Computed]:
    at = {(step.chain, step.number): step.at for step in view.steps}
    calls = Counter((e.chain, e.instruction) for e in events if e.kind in ("kernel", "delegate"))
    for number, event in enumerate(events):
        place = (event.chain or 0, event.instruction or 0)
        if event.kind not in ("kernel", "delegate") or calls[event.chain, event.instruction] > 1:
            continue
        if event.kind == "kernel":
            begin = f"i{place[1]}" if not place[0] else f"c{place[0]}.i{place[1]}"
            slots = [value.slot for value in event.outputs]
            yield from _results(begin, event.name, event, slots, at[place], False)
        else:
            yield from _inside(view, events, number, at[place])


def _inside(view: View, events: Sequence[Event], number: int, at: int) -> Iterator[Computed]:
    """Yield the results of the nodes of a delegate's call."""
    delegate = events[number].delegate or 0
    inside = view.inside(delegate)
    if inside is None or isinstance(inside, str):
        return
    rows = [row for row in inside["nodes"] if DEAD not in (row["note"] or "")]
    end = number + 1
    while end < len(events) and events[end].kind == "node":
        end += 1
    nodes = events[max(end - len(rows), number + 1) : end]
    if len(nodes) != len(rows):
        return
    for i, (event, row) in enumerate(zip(nodes, rows)):
        name = row["name"] or event.name
        yield from _results(f"d{delegate}.{i}", name, event, row["outputs"], at, True)


def _results(
    begin: str, name: str, event: Event, values: Sequence[int | None], at: int, is_inside: bool
) -> Iterator[Computed]:
    for number, (value, slot) in enumerate(zip(event.outputs, values)):
        if slot is not None and isinstance(value.data, np.ndarray):
            point = Point(at, slot, is_inside, value.dtype, value.shape)
            yield Computed(f"{begin}:{number}" if number else begin, name, point, value.data)
