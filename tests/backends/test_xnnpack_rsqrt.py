"""XNNPACK's reciprocal square root by its plain kernel (kernels/corrections/rsqrt.c)."""

from __future__ import annotations

import os

import numpy as np
import pytest

import executorch_c as et
from tests.backends.xnnpack_graphs import Graph

WITHOUT = os.environ.get("EXECUTORCH_C_XNNPACK") == "0"
pytestmark = pytest.mark.skipif(WITHOUT, reason="built without XNNPACK: EXECUTORCH_C_XNNPACK=0")
F32 = np.float32


@pytest.mark.parametrize("count", [1, 3, 8, 17, 33])
@pytest.mark.parametrize(
    "value", [0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, 1.2e-38, 3e38], ids=str
)
def test_ends_of_the_range(value: float, count: int) -> None:
    """Zeros keep their sign, infinity is 0, negative numbers are NaN."""
    graph = Graph()
    graph.unary("ReciprocalSquareRoot", graph.input((count,)), graph.output((count,)))
    x = np.linspace(1, 2, count, dtype=F32)
    x[count // 2] = value
    method = et.Runtime.get().load_program(graph.program()).load_method("forward")
    (found,) = method.execute([x])
    assert isinstance(found, np.ndarray)
    with np.errstate(all="ignore"):
        right = (1 / np.sqrt(x.astype(np.float64))).astype(F32)
    np.testing.assert_allclose(found, right, rtol=2e-7)
