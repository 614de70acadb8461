"""The first node at which a device leaves its program.

The program is run again here (`replay.py`); after each node for which the device has a value, that
takes the place of the program's. So each value of the device is compared with what the payload
computes from the device's own values, and the allowance is the rounding of the nodes between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from executorch_c._render.text import unknown
from executorch_c.blame.arithmetic import Allowance
from executorch_c.blame.replay import Replay, shaped
from executorch_c.compare import tolerance
from executorch_c.compare.metrics import ErrorMetrics, measure_size
from executorch_c.compare.shown import limited

if TYPE_CHECKING:
    from executorch_c._programs import ProgramSource
    from executorch_c.blame.device import DeviceValues
    from executorch_c.blame.places import Place


@dataclass(frozen=True)
class Departure:
    """A value of a device beside what its program computes from the device's values before it."""

    place: Place
    suspects: tuple[Place, ...]
    """The places at which a fault may be, in order: those directly before this one for which the
    device has no value, and this one. One: the node is known."""
    error: ErrorMetrics
    """Error of the device; `limit` is what its arithmetic allows, `mismatched` the number of
    elements beyond it."""

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
    for name, value in values.values.items():
        if name not in places:
            raise ValueError(
                f"{values.source}: no result of the program is {unknown(name, places)}"
            )
        if value.size != _size(places[name]):
            raise ValueError(
                f"{values.source}: '{name}' has shape {list(value.shape)}, expected "
                f"{list(places[name].shape)} of {places[name].name}"
            )
    _, _, spreads = allowance.spreads(values.values)
    rows: list[Departure] = []
    suspects: list[Place] = []
    for name, place in places.items():
        suspects.append(place)
        if name not in spreads:
            continue
        spread = spreads[name]
        actual = shaped(values.values[name], place, spread.exact)
        actual, exact, limits = spread.beside(actual)
        error = measure_size(actual, exact, mismatched=tolerance.outside(actual, exact, limits))
        rows.append(Departure(place, tuple(suspects), limited(error, limits, actual, exact)))
        suspects = []
    if not rows and values.values:
        raise ValueError(f"{values.source}: the program cannot run with the values of the device")
    return rows


def _size(place: Place) -> int:
    size = 1
    for extent in place.shape:
        size *= extent
    return size


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
