"""tanh and reciprocal square roots by kernels of our own (third_party/kernels/corrections), beside
NumPy's in float64 and PyTorch's."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import executorch_c as et
from tests.backends.xnnpack_graphs import Graph

WITHOUT = os.environ.get("EXECUTORCH_C_XNNPACK") == "0"
pytestmark = pytest.mark.skipif(WITHOUT, reason="built without XNNPACK: EXECUTORCH_C_XNNPACK=0")
F32 = np.float32
Array = np.ndarray


def run(kind: str, x: Array) -> Array:
    graph = Graph()
    graph.unary(kind, graph.input(x.shape), graph.output(x.shape))
    program = et.Runtime.get().load_program(graph.program())
    (y,) = program.load_method("forward", num_threads=1).execute([x])
    assert isinstance(y, np.ndarray)
    return y


def tanh(x: Array) -> Array:
    return np.tanh(x.astype(np.float64))


def rsqrt(x: Array) -> Array:
    with np.errstate(all="ignore"):
        return 1 / np.sqrt(x.astype(np.float64))


def every(step: int) -> Array:
    """Return each `step`-th normal float, and infinity. XNNPACK counts subnormals as 0."""
    return np.append(np.arange(0x800000, 0x7F800000, step, np.uint32).view(F32), F32("inf"))


def test_every_part_of_the_range_of_tanh() -> None:
    x = every(4099)
    y, right = run("Tanh", x), tanh(x)
    unit = np.spacing(right.astype(F32)).astype(np.float64)
    assert np.all(np.abs(y - right) <= 1.42 * unit)
    bits = y.view(np.int32) - torch.tanh(torch.from_numpy(x)).numpy().view(np.int32)
    assert np.abs(bits).max() <= 1
    np.testing.assert_array_equal((-run("Tanh", -x)).view(np.uint32), y.view(np.uint32))


SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, -1.0, 1.2e-38, 1e-37, -1e-37, 3e38, -3e38)


@pytest.mark.parametrize("count", [1, 3, 4, 5, 8, 15, 16, 17, 33])
@pytest.mark.parametrize(
    "kind, right, low",
    [("Tanh", tanh, -2), ("ReciprocalSquareRoot", rsqrt, 1)],
    ids=["tanh", "rsqrt"],
)
def test_ends(kind: str, right: Callable[[Array], Array], low: float, count: int) -> None:
    """Rows that are no multiple of a vector; NaN, infinity and zeros with a sign in each place."""
    for special in SPECIAL:
        for place in {0, count // 2, count - 1}:
            x = np.linspace(low, 2, count, dtype=F32)
            x[place] = special
            y, wanted = run(kind, x), right(x).astype(F32)
            np.testing.assert_allclose(y, wanted, rtol=2e-7, atol=0)
            assert np.signbit(y[place]) == np.signbit(wanted[place]) or np.isnan(wanted[place])
