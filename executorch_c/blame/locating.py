"""The first node at which a device leaves its program.

The program is run again here (`replay.py`); after each node for which the device has a value, that
takes the place of the program's. So each value of the device is compared with what the payload
computes from the device's own values, and the allowance is the rounding of the nodes between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from executorch_c._programs import ProgramSource
    from executorch_c.blame.device import DeviceValues
    from executorch_c.blame.places import Place


@dataclass(frozen=True)
class Departure:
    """A value of a device that its program does not compute from the values before it."""

    place: Place
    """The first place with a wrong value."""
    suspects: tuple[Place, ...]
    """The places at which the fault may be, in order: this one, and those directly before it for
    which the device has no value. One: the node is known."""
    device_error: float
    """Largest |device - expected|, relative to the RMS of what is expected."""
    limit: float
    """The largest error that the device's arithmetic allows, in the same unit."""


def locate(
    program: ProgramSource, inputs: Sequence[object], values: DeviceValues, method: str = "forward"
) -> Departure | None:
    """Return the first place at which a device leaves its program; None if it does not, or not
    where `values` has any.

    Args:
        program: The program that ran on the device, as for `explain`. Its nodes may be fewer than
            those of `values`: other ids are an error.
        inputs: The inputs of the run, flat.
        values: One run of the device, with values of some nodes or all.
        method: Name of the method.

    Raises ValueError for ids that the program does not have, and for values of other shapes.
    """
    raise NotImplementedError
