"""Trace events: their names in reports, their values on a graph."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from executorch_c._render.page.model import Node, Overlay
from executorch_c.inspect.where import Where

if TYPE_CHECKING:
    from executorch_c.trace import Event

Total: TypeAlias = Literal["sum", "max", "min", "none"]


def named(events: Iterable[Event]) -> Iterator[tuple[Event, str]]:
    """Yield each event with its place in words (`where.py`): "delegate 0, node 5"."""
    nodes = 0
    for event in events:
        nodes = nodes + 1 if event.kind == "node" else 0
        if event.kind == "execute":
            yield event, f"method '{event.name}'"
            continue
        if event.kind == "node":
            yield event, str(Where(None, event.delegate, nodes - 1, event.chain or 0))
        else:
            chain = event.chain or 0
            yield event, str(Where(event.instruction, chain=chain, depth=event.depth))


def overlays(events: Iterable[Event], nodes: Iterable[Node]) -> Iterator[Overlay]:
    """Yield the mean time of a call by place of the graph's nodes; of events with ranges, the
    magnitude, minimum and maximum of the results, and their number of NaN and infinities; of events
    with values, their mean."""
    times: dict[str, float] = {}
    found: dict[str, dict[str, float]] = {name: {} for name, _ in VALUES}
    listed = list(events)
    place_of = EventPlaces(listed).on(nodes)
    for event, where in named(listed):
        place = place_of.get(where, "") if event.kind == "node" else where
        if event.kind == "execute" or not place:
            continue
        times[place] = times.get(place, 0) + event.duration_ns / 1e3
        for name, value in _figures(event):
            found[name][place] = value
    runs = max((event.run + 1 for event in listed), default=1)
    if times:
        yield Overlay("time", "us", {at: time / runs for at, time in times.items()}, total="sum")
    for name, total in VALUES:
        values = found[name]
        if name == NOT_FINITE and any(values.values()):
            yield Overlay(name, "elements", values, total=total)
        elif name != NOT_FINITE and values:
            yield Overlay(name, "", values, total=total, log=name == "largest value")


NOT_FINITE = "NaN and infinities"
VALUES: tuple[tuple[str, Total], ...] = (
    ("largest value", "max"),
    ("minimum", "min"),
    ("maximum", "max"),
    ("mean", "none"),
    (NOT_FINITE, "sum"),
)
"""Overlays of the results' finite elements, with the value of a box."""


def _figures(event: Event) -> Iterator[tuple[str, float]]:
    """Yield the values of an event's results, by overlay."""
    ranges = [value.range for value in event.outputs if value.range is not None]
    ends = [(one.low, one.high) for one in ranges if not math.isnan(one.low)]
    if ends:
        yield "largest value", max(abs(end) for pair in ends for end in pair)
        yield "minimum", min(low for low, _ in ends)
        yield "maximum", max(high for _, high in ends)
    if ranges:
        wrong = sum(one.nan + one.positive + one.negative for one in ranges)
        yield NOT_FINITE, float(wrong)
    sums = [_finite_sum(value.data) for value in event.outputs if hasattr(value.data, "shape")]
    count = sum(number for _, number in sums)
    if ranges and count:
        yield "mean", sum(total for total, _ in sums) / count


def _finite_sum(array: Any) -> tuple[float, int]:
    """Return the sum and the number of the finite elements of an array."""
    import numpy as np

    if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        return 0.0, 0
    numbers = array.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    return float(finite.sum()), finite.size


class EventPlaces:
    """Places of a trace's events inside delegates, for graphs: a graph counts the nodes of the
    payload, a trace those that have run.

    A backend may leave out nodes that move nothing: the events are then a part of the nodes, in
    order, found by their debug handles. A delegate whose events are no such part has no place.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self._handles: dict[str, dict[str, int | None]] = {}
        for event, where in named(events):
            if event.kind == "node":
                delegate = where.partition(", node ")[0]
                self._handles.setdefault(delegate, {})[where] = event.debug_handle

    def on(self, nodes: Iterable[Node]) -> dict[str, str]:
        """Return the place of the graph's node by that of each event; empty without a node."""
        known: dict[str, list[tuple[str, int | None]]] = {}
        for node in nodes:
            delegate, is_inner, _ = node.place.partition(", node ")
            if is_inner:
                handle = node.attributes.get("debug handle")
                known.setdefault(delegate, []).append((node.place, int(handle) if handle else None))
        places: dict[str, str] = {}
        for delegate, handles in self._handles.items():
            places.update(dict.fromkeys(handles, ""))
            places.update(_part(handles, known.get(delegate, [])))
        return places


def placed(overlays: Iterable[Overlay], places: Mapping[str, str]) -> Iterator[Overlay]:
    """Yield overlays with the graph's places in place of those of events."""
    for one in overlays:
        values = {places.get(at, at): value for at, value in one.values.items()}
        values.pop("", None)
        yield replace(one, values=values)


def _part(
    handles: dict[str, int | None], nodes: list[tuple[str, int | None]]
) -> Iterator[tuple[str, str]]:
    """Yield the places of events with those of their nodes; nothing if one has no node. Events
    without a handle may be beside those of the nodes: times of a backend's own steps."""
    steps = [where for where, handle in handles.items() if handle is None]
    if len(handles) > len(nodes) == len(handles) - len(steps):
        handles = {where: handle for where, handle in handles.items() if handle is not None}
    if len(handles) == len(nodes):
        yield from zip(handles, (place for place, _ in nodes))
        return
    rest = iter(nodes)
    pairs = [
        (where, next((place for place, own in rest if own == handle), ""))
        for where, handle in handles.items()
    ]
    if all(place for _, place in pairs):
        yield from pairs
