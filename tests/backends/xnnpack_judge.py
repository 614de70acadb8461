"""How close outputs of XNNPACK delegates must be to eager's and to the official runtime's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xnnpack_payload

CLOSE = {
    "float32": (1e-4, 1e-5),
    # torch.testing's, 4 and 2 times: elementwise kernels compute in half precision (up to 3 units
    # in the last place are seen), and sums of up to 27 products round at each step.
    "float16": (4e-3, 2e-3),
    # torch.testing's: one rounding of a sum in float32.
    "bfloat16": (1.6e-2, 1e-5),
}
"""Relative and absolute; the absolute one of float16 is relative to the largest result."""


def assert_close(found: Any, wanted: Any, steps: Sequence[float] = ()) -> None:
    """Within the tolerance of the dtype; where an output has a scale, within one step of it."""
    assert len(found) == len(wanted)
    for i, (a, b) in enumerate(zip(found, wanted, strict=True)):
        assert (a.shape, a.dtype) == (b.shape, b.dtype), f"output {i}"
        if b.dtype.name not in CLOSE:
            np.testing.assert_array_equal(a, b, err_msg=f"output {i}")
            continue
        rtol, atol = CLOSE[b.dtype.name]
        a, b = a.astype(np.float32), b.astype(np.float32)
        if found[i].dtype == np.float16:
            atol *= float(np.abs(b).max(initial=0.0))
        if i < len(steps) and steps[i]:
            rtol, atol = 0.0, steps[i] * 1.0001
        np.testing.assert_allclose(a, b, rtol, atol, err_msg=f"output {i}")


def activation_step(pte: bytes, x: np.ndarray) -> float:
    """What two activations that are rounded to the other side change at most: the step of the
    activations, times the largest weight of 4 bits. In half precision that happens to one in
    thirty: quantising divides numbers of 11 bits, often almost halfway between two results."""
    named: dict[str, bytes] = {}

    def look(payload: xnnpack_payload.Payload, data: dict[str, bytes]) -> xnnpack_payload.Payload:
        named.update(data)
        return payload

    xnnpack_payload.edited(pte, look)
    [scales] = [data for key, data in named.items() if key.startswith("scale_")]
    largest = (np.frombuffer(scales, np.uint16).astype(np.uint32) << 16).view(np.float32).max()
    wide = x.astype(np.float32)
    return float((max(wide.max(), 0) - min(wide.min(), 0)) / 255 * 8 * largest * 2)
