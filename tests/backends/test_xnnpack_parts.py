"""Weights of linear layers that all threads pack in parts (third_party/kernels/speed/parts.c): the
same bits for any number of threads, and eager's values."""

from __future__ import annotations

import os

import executorch_c as et
import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("executorch")

from tests.backends import xnnpack_flow
from tests.backends import xnnpack_quantized_zoo
from tests.backends import xnnpack_zoo

from tests.backends.xnnpack_flow import Row
from tests.backends.xnnpack_judge import assert_close

WITHOUT = os.environ.get("EXECUTORCH_C_XNNPACK") == "0"
pytestmark = pytest.mark.skipif(WITHOUT, reason="built without XNNPACK: EXECUTORCH_C_XNNPACK=0")
ROWS = [
    row
    for row in (*xnnpack_zoo.TABLE.rows, *xnnpack_quantized_zoo.TABLE.rows)
    if row.name.startswith("linear_parts")
]


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_the_same_bits_for_any_number_of_threads(row: Row, cached: bool) -> None:
    lowered = xnnpack_flow.load(row)
    found = []
    for threads in (1, 2, 3, 6):
        method = et.load(lowered.pte).load_method(
            "forward",
            num_threads=threads,
            backend_options={"XnnpackBackend": {"weight_cache_enabled": cached}},
        )
        found.append([method.execute(call.inputs) for call in lowered.calls])
    for call, outputs in zip(lowered.calls, found[0], strict=True):
        assert_close(outputs, call.outputs, call.rooms)
    for other in found[1:]:
        for outputs, expected in zip(other, found[0], strict=True):
            assert all(np.array_equal(x, y) for x, y in zip(outputs, expected, strict=True))
