"""Steps that the caller of a delegate computes alone, and larger ones that threads share
(third_party/kernels/speed/alone.c): the same bits for any number of threads, and eager's values."""

from __future__ import annotations

import os

import executorch_c as et
import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("executorch")

from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower

WITHOUT = os.environ.get("EXECUTORCH_C_XNNPACK") == "0"
pytestmark = pytest.mark.skipif(WITHOUT, reason="built without XNNPACK: EXECUTORCH_C_XNNPACK=0")

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
        turned = torch.cat([-halves[1], halves[0]], -1)
        return x * y - turned, torch.sigmoid(x + y)


@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
def test_the_same_bits_for_any_number_of_threads(
    shapes: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    generator = torch.Generator().manual_seed(len(shapes[0]))
    inputs = tuple(torch.randn(shape, generator=generator) for shape in shapes)
    module = Steps().eval()
    if shapes[0][-1] % 2:
        module.forward = lambda x, y: (x * y - x, torch.sigmoid(x + y))
    exported = torch.export.export(module, inputs)
    lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    program = et.load(lowered.to_executorch().buffer)
    arrays, wanted = [x.numpy() for x in inputs], module(*inputs)
    found = [program.load_method("forward", num_threads=n).execute(arrays) for n in (1, 2, 3)]
    for outputs in found:
        for y, expected, first in zip(outputs, wanted, found[0], strict=True):
            assert np.array_equal(y, first)
            np.testing.assert_allclose(y, expected.numpy(), rtol=1e-5, atol=1e-6)
