"""tanh by kernels of our own (tanh.h), compared with NumPy's in float64 and with PyTorch's."""

from __future__ import annotations

import os

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import executorch_c as et
from tests.backends.xnnpack_graphs import Graph

WITHOUT = os.environ.get("EXECUTORCH_C_XNNPACK") == "0"
pytestmark = pytest.mark.skipif(WITHOUT, reason="built without XNNPACK: EXECUTORCH_C_XNNPACK=0")
F32 = np.float32
Array = np.ndarray


def every(step: int) -> Array:
    """Return each `step`-th normal float, and infinity. XNNPACK counts subnormals as 0."""
    return np.append(np.arange(0x800000, 0x7F800000, step, np.uint32).view(F32), F32("inf"))


def tanh(x: Array) -> Array:
    graph = Graph()
    graph.unary("Tanh", graph.input(x.shape), graph.output(x.shape))
    program = et.Runtime.get().load_program(graph.program())
    (found,) = program.load_method("forward", num_threads=1).execute([x])
    assert isinstance(found, np.ndarray)
    return found


def test_every_part_of_the_range() -> None:
    x = every(4099)
    found, right = tanh(x), np.tanh(x.astype(np.float64))
    unit = np.spacing(right.astype(F32)).astype(np.float64)
    assert np.all(np.abs(found - right) <= 1.42 * unit)
    bits = found.view(np.int32) - torch.tanh(torch.from_numpy(x)).numpy().view(np.int32)
    assert np.abs(bits).max() <= 1
    np.testing.assert_array_equal((-tanh(-x)).view(np.uint32), found.view(np.uint32))


@pytest.mark.parametrize("count", [1, 3, 4, 5, 8, 15, 16, 17, 33])
def test_ends(count: int) -> None:
    """Rows that are no multiple of a vector; NaN, infinity and zeros with a sign in each place."""
    for special in (np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-37, -1e-37, 3e38, -3e38):
        for place in {0, count // 2, count - 1}:
            x = np.linspace(-2, 2, count, dtype=F32)
            x[place] = special
            found, right = tanh(x), np.tanh(x.astype(np.float64)).astype(F32)
            np.testing.assert_allclose(found, right, rtol=2e-7, atol=0)
            assert np.signbit(found[place]) == np.signbit(right[place]) or np.isnan(special)
