"""Tolerances of XNNPACK outputs compared with eager and the official runtime."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests import judge

UNITS = {"float32": 32, "float16": 2, "bfloat16": 1}
"""Limit in units in the last place of the largest element, for outputs without a measured
variation."""


def room_of(wanted: np.ndarray) -> Any:
    if wanted.dtype.name not in UNITS:
        return None
    largest = np.abs(judge.wide(wanted)).max(initial=0.0)
    return UNITS[wanted.dtype.name] * judge.ulp(largest, wanted.dtype.name)


def assert_close(found: Any, wanted: Any, rooms: Sequence[Any] = ()) -> None:
    """Assert that each element is within its limit; `xnnpack_flow.Call` has the measured ones."""
    assert len(found) == len(wanted)
    for i, (a, b) in enumerate(zip(found, wanted, strict=True)):
        judge.assert_within(a, b, rooms[i] if rooms else room_of(b), f"output {i}")
