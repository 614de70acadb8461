"""Runs of a device: outputs, and values of nodes where the device has logged them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from executorch_c._arrays import Array


@dataclass(frozen=True)
class DeviceValues:
    """One run of a device."""

    source: str
    """Where it comes from, for messages: the file, and the run in it."""
    outputs: tuple[Array | None, ...]
    """Outputs of the method, in order; None for one that the device has not returned."""
    values: Mapping[str, Array] = field(default_factory=dict)
    """Values of nodes by the id of their place (`places.py`): "d0.3", "i7", "i7:1"."""
    seconds: float | None = None
    """Duration of the call on the device."""
    node_seconds: Mapping[str, float] = field(default_factory=dict)
    """Durations of nodes and instructions on the device, by id."""
