"""Delegates give the same bits for any number of threads, and eager's values: steps that the caller
computes alone (third_party/kernels/speed/alone.c), weights of linear layers that all threads pack
in parts (parts.c)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import executorch_c as et
import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("executorch")

from tests.backends import xnnpack_flow
from tests.backends import xnnpack_quantized_zoo
from tests.backends import xnnpack_zoo
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from tests.exports import export
from tests.backends.xnnpack_flow import Row
from tests.backends.xnnpack_judge import assert_close

WITHOUT = os.environ.get("EXECUTORCH_C_XNNPACK") == "0"
pytestmark = pytest.mark.skipif(WITHOUT, reason="built without XNNPACK: EXECUTORCH_C_XNNPACK=0")


def outputs(pte: bytes, inputs: Sequence[Any], **options: Any) -> list[Any]:
    """Return the outputs of calls with one thread, whose bits more threads give, too."""
    found = []
    for threads in (1, 2, 3, 6):
        method = et.load(pte).load_method("forward", num_threads=threads, backend_options=options)
        found.append([method.execute(arrays) for arrays in inputs])
        for ours, first in zip(found[-1], found[0], strict=True):
            assert all(np.array_equal(x, y) for x, y in zip(ours, first, strict=True)), threads
    return found[0]


ALONE = 1 << 13
"""Floats of the largest step that the caller computes alone."""
SHAPES = {
    "row": ((ALONE,), (ALONE,)),
    "longer-row": ((ALONE + 1,), (ALONE + 1,)),
    "1d": ((256, 32), (32,)),
    "1d-longer": ((257, 32), (32,)),
    "2d": ((16, 16, 32), (16, 1, 32)),
    "3d": ((4, 8, 8, 33), (1, 8, 1, 33)),
    "4d": ((2, 4, 8, 8, 17), (2, 1, 8, 1, 17)),
    "5d": ((2, 3, 4, 5, 6, 17), (1, 3, 1, 5, 1, 17)),
}


class Steps(torch.nn.Module):
    def forward(self, x, y):
        halves = torch.chunk(x, 2, -1)
        turned = torch.cat([-halves[1], halves[0]], -1) if x.shape[-1] % 2 == 0 else x
        return x * y - turned, torch.sigmoid(x + y)


@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
def test_small_steps(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    generator = torch.Generator().manual_seed(len(shapes[0]))
    inputs = tuple(torch.randn(shape, generator=generator) for shape in shapes)
    module = Steps().eval()
    pte = export(module, *inputs, partitioner=XnnpackPartitioner())
    (found,) = outputs(pte, [[x.numpy() for x in inputs]])
    for y, expected in zip(found, module(*inputs), strict=True):
        np.testing.assert_allclose(y, expected.numpy(), rtol=1e-5, atol=1e-6)


ROWS = [
    row
    for row in (*xnnpack_zoo.TABLE.rows, *xnnpack_quantized_zoo.TABLE.rows)
    if row.name.startswith("linear_parts")
]


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_weights_packed_in_parts(row: Row, cached: bool) -> None:
    lowered = xnnpack_flow.load(row)
    options = {"weight_cache_enabled": cached}
    inputs = [call.inputs for call in lowered.calls]
    found = outputs(lowered.pte, inputs, XnnpackBackend=options)
    for call, ours in zip(lowered.calls, found, strict=True):
        assert_close(ours, call.outputs, call.rooms)
