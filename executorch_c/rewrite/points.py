"""Values of a run that can become outputs: results of instructions, and of nodes in delegates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from executorch_c.inspect.scales import scale_of
from executorch_c.inspect.structure import Instruction, View
from executorch_c.inspect.where import Where
from executorch_c.rewrite.method import Point

if TYPE_CHECKING:
    from executorch_c._arrays import Array
    from executorch_c._core import Method, Program
    from executorch_c._types import DelegateInside, InnerNode
    from executorch_c.trace import Event

DEAD = "nobody reads it"
"""In a backend's note on a node that is not run."""


@dataclass(frozen=True)
class Computed:
    """A value and what the program computes here."""

    id: str
    """Of its place (`inspect/where.py`)."""
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
            begin = Where(place[1], chain=place[0])
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
    rows = rows_of(inside)
    end = number + 1
    while end < len(events) and events[end].kind == "node":
        end += 1
    nodes = events[number + 1 : min(number + 1 + len(rows), end)]
    if len(nodes) != len(rows):
        return
    for i, (event, row) in enumerate(zip(nodes, rows)):
        name = row["name"] or event.name
        yield from _results(Where(None, delegate, i), name, event, row["outputs"], at, True)


def _results(
    place: Where, name: str, event: Event, values: Sequence[int | None], at: int, is_inside: bool
) -> Iterator[Computed]:
    for number, (value, slot) in enumerate(zip(event.outputs, values)):
        if slot is not None and isinstance(value.data, np.ndarray):
            point = Point(at, slot, is_inside, value.dtype, value.shape)
            yield Computed(replace(place, result=number).id, name, point, value.data)


class Dataflow:
    """What the values of a method depend on, by the ids of their places."""

    def __init__(self, program: Program, method: str) -> None:
        self.sources: dict[str, set[str]] = {}
        """Results that an id is computed from, directly."""
        self.shapes: dict[str, Sequence[int] | None] = {}
        """Shapes in the file, by id; the upper bounds of those that vary."""
        self.scales: dict[str, float] = {}
        """Scales of 8-bit quantised results of nodes in delegates, by id."""
        self.view = View(program, method)
        self._writers: dict[int, set[str]] = {}
        for step in self.view.steps:
            self._step(step)

    def _of(self, slot: int) -> set[str]:
        """Return the results that a value of the method has, or is a view of."""
        while slot not in self._writers and slot in self.view.bases:
            slot = self.view.bases[slot]
        return self._writers.get(slot, set())

    def _step(self, step: Instruction) -> None:
        sources = set().union(*map(self._of, step.reads))
        number = step.row["delegate"]
        inside = None if number is None else self.view.inside(number)
        if number is None or inside is None or isinstance(inside, str):
            for i, slot in enumerate(step.writes):
                one = Where(step.number, chain=step.chain, result=i).id
                self.sources[one] = sources
                self.shapes[one] = self.view.values[slot].get("shape")
                self._writers[slot] = {one} if step.row["kind"] != "move" else sources
            return
        slots = [argument[0] for argument in step.row["args"]]
        writers = self._nodes(number, inside, slots)
        for value in inside["values"]:
            at = value["argument"]
            if at is not None and at < len(slots) and value["id"] in writers:
                self._writers[slots[at]] = writers[value["id"]]

    def _nodes(
        self, delegate: int, inside: DelegateInside, slots: Sequence[int]
    ) -> dict[int, set[str]]:
        """Add the nodes of a delegate; return the results that its values are, by number."""
        arguments = {v["id"]: v["argument"] for v in inside["values"]}
        shapes = {v["id"]: v["shape"] for v in inside["values"]}
        scales = {v["id"]: scale_of(v) for v in inside["values"]}
        writers: dict[int, set[str]] = {
            value: self._of(slots[at])
            for value, at in arguments.items()
            if at is not None and at < len(slots)
        }
        for number, row in enumerate(rows_of(inside)):
            sources = set().union(*(writers.get(value, set()) for value in row["inputs"]))
            for i, value in enumerate(row["outputs"]):
                one = Where(None, delegate, number, result=i).id
                self.sources[one] = sources
                self.shapes[one] = shapes.get(value)
                if scale := scales.get(value):
                    self.scales[one] = scale
                writers[value] = {one}
        return writers

    def before(self, one: str, ends: Collection[str] = ()) -> set[str]:
        """Return the ids of all that a value depends on, and its own; not what it depends on only
        by way of `ends`."""
        found, left = {one}, [one]
        while left:
            new = self.sources.get(left.pop(), set()) - found
            new = {source for source in new if source not in ends}
            found |= new
            left += new
        return found


def is_run(row: InnerNode) -> bool:
    """Return True for a node of a delegate that runs."""
    return DEAD not in (row["note"] or "")


def rows_of(inside: DelegateInside) -> list[InnerNode]:
    """Return the nodes of a delegate that run."""
    return [row for row in inside["nodes"] if is_run(row)]


def left_out(program: Program, method: str, values: Collection[str]) -> dict[str, str]:
    """Return the nodes in delegates without a value in a run, by id, and why.

    `values` are the ids of those with one.
    """
    view = View(program, method)
    found: dict[str, str] = {}
    for delegate in range(len(view.structure["delegates"])):
        inside = view.inside(delegate)
        if inside is None or isinstance(inside, str):
            continue
        for number in range(len(rows_of(inside))):
            place = Where(None, delegate, number).id
            if place not in values:
                found[place] = "it is a part of another node, or runs in a loop"
    return found
