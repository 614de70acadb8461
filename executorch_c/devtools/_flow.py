"""Which values of a trace were made from which: through slots of the method, and inside of
delegates by debug handles of the nodes that their backend describes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING

from executorch_c import Error
from executorch_c.devtools._structure import View

if TYPE_CHECKING:
    from executorch_c._core import Program
    from executorch_c._types import DelegateInside
    from executorch_c.trace import Event

    Sources = frozenset[int]

NOTHING: Sources = frozenset()


class Flow:
    """Sources of values by number, which `numbers` gives: (place of the event, number of the
    output) of those that are looked at. Where what a node takes is not known, all values of its
    delegate before it may be its sources."""

    def __init__(
        self, program: Program, method: str, events: Sequence[Event],
        numbers: dict[tuple[int, int], int],
    ) -> None:  # fmt: skip
        self.program, self.method = program, method
        self.events, self.numbers = events, numbers
        self.sources: dict[int, Sources] = {}
        self.slots: dict[int | None, Sources] = {}
        """Of what stands in the method's values now."""
        self.bases = View(program, method).bases
        for place, event in enumerate(events):
            if event.depth == 0 and event.kind not in ("node", "execute"):
                self._event(place, event)

    def of(self, slot: int | None) -> Sources:
        """Of a value of the method, which may be a view of another."""
        if slot in self.slots or slot is None:
            return self.slots.get(slot, NOTHING)
        return self.slots.get(self.bases.get(slot), NOTHING)

    def _event(self, place: int, event: Event) -> None:
        taken = [self.of(value.slot) for value in event.inputs]
        before = NOTHING.union(*taken)
        nodes = list(takewhile(lambda e: e.kind == "node", self.events[place + 1 :]))
        given = self._nodes(place + 1, event, nodes, taken) if nodes else None
        for i, value in enumerate(event.outputs):
            number = self.numbers.get((place, i))
            if number is not None:
                self.sources[number] = before
                self.slots[value.slot] = frozenset((number,))
            else:
                self.slots[value.slot] = before if given is None else given[i]

    def _nodes(
        self, place: int, delegate: Event, nodes: Sequence[Event], taken: list[Sources]
    ) -> list[Sources]:
        """Sources of nodes, and of the delegate's outputs."""
        inside = self._inside(delegate)
        ran = {} if inside is None else _ran(inside, nodes)
        if inside is not None and ran is not None:
            made = self._walk(place, inside, ran, dict(enumerate(taken)))
            arguments = {value["argument"]: value["id"] for value in inside["values"]}
            ids = [arguments.get(len(taken) + i) for i in range(len(delegate.outputs))]
            if None not in ids:
                return [made.get(one, NOTHING) for one in ids if one is not None]
        seen = NOTHING.union(*taken)
        for at, node in enumerate(nodes, place):
            mine = [n for i in range(len(node.outputs))
                    if (n := self.numbers.get((at, i))) is not None]  # fmt: skip
            self.sources.update((number, seen) for number in mine)
            seen |= frozenset(mine)
        return [seen] * len(delegate.outputs)

    def _inside(self, delegate: Event) -> DelegateInside | None:
        try:
            return self.program._delegate(self.method, delegate.delegate or 0)
        except Error:
            return None

    def _walk(
        self, place: int, inside: DelegateInside, ran: dict[int, int], taken: dict[int, Sources]
    ) -> dict[int, Sources]:
        """Sources of a delegate's values by id, of nodes that ran or were fused with one before."""
        made = {value["id"]: taken[value["argument"]] for value in inside["values"]
                if value["argument"] in taken}  # fmt: skip
        for i, node in enumerate(inside["nodes"]):
            before = NOTHING.union(*(made.get(one, NOTHING) for one in node["inputs"]))
            at = ran.get(i)
            for k, output in enumerate(node["outputs"]):
                number = None if at is None else self.numbers.get((place + at, k))
                if number is not None:
                    self.sources[number] = before
                made[output] = before if number is None else frozenset((number,))
        return made


def _ran(inside: DelegateInside, nodes: Sequence[Event]) -> dict[int, int] | None:
    """Which described node is which traced one. Several with one handle are those in order, if
    there are as many; None where there are not."""
    described: dict[int | None, list[int]] = {}
    traced: dict[int | None, list[int]] = {}
    for i, one in enumerate(inside["nodes"]):
        described.setdefault(one["debug_handle"], []).append(i)
    for i, event in enumerate(nodes):
        traced.setdefault(event.debug_handle, []).append(i)
    found = dict[int, int]()
    for handle, places in traced.items():
        known = described.get(handle, [])
        if len(known) != len(places):
            return None
        found.update(zip(known, places))
    return found
