"""How close outputs of XNNPACK delegates must be to eager's and to the official runtime's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import judge
import numpy as np

UNITS = {"float32": 32, "float16": 2, "bfloat16": 1}
"""Last places of the largest element, for outputs of which it is not known how far eager's vary."""


def room_of(wanted: np.ndarray) -> Any:
    if wanted.dtype.name not in UNITS:
        return None
    largest = np.abs(judge.wide(wanted)).max(initial=0.0)
    return UNITS[wanted.dtype.name] * judge.ulp(largest, wanted.dtype.name)


def assert_close(found: Any, wanted: Any, rooms: Sequence[Any] = ()) -> None:
    """Each element within its room, those of `xnnpack_flow.Call` where they are given."""
    assert len(found) == len(wanted)
    for i, (a, b) in enumerate(zip(found, wanted, strict=True)):
        judge.assert_within(a, b, rooms[i] if rooms else room_of(b), f"output {i}")
