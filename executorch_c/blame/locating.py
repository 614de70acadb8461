"""The first node at which a device leaves its program.

The program is run again here (`replay.py`); after each node for which the device has a value, that
takes the place of the program's. So each value of the device is compared with what the payload
computes from the device's own values, and the allowance is the rounding of the nodes between. A
value of other extents than the program's (stale sizes of dynamic shapes) is wrong, and takes no
place.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from executorch_c._render.text import unknown
from executorch_c.blame.arithmetic import Allowance, Spread
from executorch_c.blame.replay import Replay, shaped
from executorch_c.blame.signatures import describe, describe_extents
from executorch_c.compare import tolerance
from executorch_c.compare.metrics import ErrorMetrics, measure_size
from executorch_c.compare.shown import limited

if TYPE_CHECKING:
    from executorch_c._arrays import Array
    from executorch_c._programs import ProgramSource
    from executorch_c.blame.device import DeviceValues
    from executorch_c.blame.places import Place
    from executorch_c.rewrite.points import Dataflow


@dataclass(frozen=True)
class Departure:
    """A value of a device beside what its program computes from the device's values before it."""

    place: Place
    suspects: tuple[Place, ...]
    """The places at which a fault may be, in order: those that this one is computed from and the
    device has no value of, and this one. One: the node is known."""
    error: ErrorMetrics
    """Error of the device; `limit` is what its arithmetic allows, `mismatched` the number of
    elements beyond it."""
    pattern: str = ""
    """Pattern of a wrong value, in words (`signatures.py`)."""

    @property
    def is_right(self) -> bool:
        """True if the device is within its allowance."""
        return not self.error.mismatched


def compare_nodes(
    allowance: Allowance, values: DeviceValues, places: dict[str, Place] | None = None
) -> list[Departure]:
    """Return each value of a device beside the program's, in order of execution.

    Args:
        allowance: Of the program and its inputs.
        places: Its places, if known.

    Raises ValueError as `locate`.
    """
    places = allowance.replay.places() if places is None else places
    whole = {
        name: value
        for name, value in values.values.items()
        if _is_whole(values.source, name, value, places, allowance.replay.varies)
    }
    others = {name: value for name, value in values.values.items() if name not in whole}
    _, _, spreads = allowance.spreads(whole, others.keys())
    flow = allowance.replay.flow
    suspects = _Suspects(flow, places, values.values.keys())
    rows = [
        _departure(places[name], spreads[name], value, suspects.of(name), flow.shapes.get(name))
        for name in places
        if name in spreads and (value := values.values.get(name)) is not None
    ]
    if not rows and values.values:
        raise ValueError(f"{values.source}: the program cannot run with the values of the device")
    return rows


def _is_whole(
    source: str, name: str, value: Array, places: Mapping[str, Place], varies: bool
) -> bool:
    """Return True for a value of the program's size, False for one of other extents, which a
    program whose shapes vary has in another call. Raises ValueError."""
    if name not in places:
        raise ValueError(f"{source}: no result of the program is {unknown(name, places)}")
    shape = places[name].shape
    if value.size == math.prod(shape):
        return True
    if varies and value.ndim == len(shape) and value.size:
        return False
    raise ValueError(
        f"{source}: '{name}' has shape {list(value.shape)}, expected {list(shape)} of "
        f"{places[name].name}"
    )


def _departure(
    place: Place,
    spread: Spread,
    value: Array,
    suspects: Sequence[Place],
    bound: Sequence[int] | None,
) -> Departure:
    is_whole = value.size == spread.exact.size
    actual, exact, limits = spread.beside(shaped(value, place, spread.exact) if is_whole else value)
    wrong = tolerance.outside(actual, exact, limits)
    error = measure_size(actual, exact, mismatched=wrong if is_whole else max(wrong, 1))
    pattern = describe(actual, exact, limits) if wrong else ""
    if not is_whole:
        pattern = describe_extents(value.shape, spread.exact.shape, bound)
    return Departure(place, tuple(suspects), limited(error, limits, actual, exact), pattern)


class _Suspects:
    """The places that a fault may be at, by a wrong place: by dataflow, or all between it and the
    value before it where nodes are fused or run in a loop."""

    def __init__(self, flow: Dataflow, places: Mapping[str, Place], known: Collection[str]) -> None:
        self.flow, self.places, self.known = flow, places, known
        nodes = {name for name, place in places.items() if place.kind == "node"}
        self.is_static = nodes == {one for one in flow.sources if one.startswith("d")}

    def of(self, name: str) -> list[Place]:
        """Return the suspects in order of execution, the place itself last."""
        if self.is_static and name in self.flow.sources:
            sources = self.flow.before(name, self.known)
            return [place for one, place in self.places.items() if one in sources]
        found: list[Place] = []
        for one, place in self.places.items():
            found.append(place)
            if one == name:
                break
            if one in self.known:
                found = []
        return found


def locate(
    program: ProgramSource, inputs: Sequence[object], values: DeviceValues, method: str = "forward"
) -> Departure | None:
    """Return the first place at which a device leaves its program; None if it does not, or not
    where `values` has any.

    Args:
        program: The program that ran on the device, as for `explain`.
        inputs: The inputs of the run, flat.
        values: One run of the device, with values of some nodes or all.
        method: Name of the method.

    Raises ValueError for ids that the program does not have, and for values of other shapes.
    """
    rows = compare_nodes(Allowance(Replay(program, inputs, method)), values)
    return next((row for row in rows if not row.is_right), None)
