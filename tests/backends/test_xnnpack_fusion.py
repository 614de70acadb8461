"""Clamps that XNNPACK joins with the node before: bounds on either side of zero."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from tests.exports import export
from torch import nn
from tests.backends.xnnpack_graphs import NUMPY, Graph
from tests.backends.xnnpack_graphs import Tensor as Scheme

from executorch_c import Runtime

NODES = {
    "convolution": (nn.Conv2d(3, 8, 3, padding=1), (1, 3, 8, 8)),
    "depthwise": (nn.Conv2d(8, 8, 3, groups=8), (1, 8, 8, 8)),
    "transposed": (nn.ConvTranspose2d(3, 8, 2, 2), (1, 3, 8, 8)),
    "linear": (nn.Linear(8, 8), (4, 8)),
    "max pooling": (nn.MaxPool2d(2), (1, 3, 8, 8)),
    "average pooling": (nn.AvgPool2d(2), (1, 3, 8, 8)),
    "clamp": (nn.Hardtanh(-2, 0.5), (4, 8)),
}


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "qint8"])
def test_a_clamp_with_its_bounds_in_the_other_order(dtype: str) -> None:
    """Its result is the upper bound, as in eager and in ExecuTorch's runtime."""
    graph, scheme = Graph(), Scheme(0.5, 3) if dtype == "qint8" else None
    x, y = graph.input((3, 5), dtype, scheme), graph.output((3, 5), dtype, scheme)
    graph.unary("Clamp", x, y, bounds=(1.5, 0.5))
    given = np.arange(-7, 8).reshape(3, 5).astype(NUMPY[dtype])
    program = Runtime.get().load_program(graph.program())
    (found,) = program.load_method("forward").execute([given])
    np.testing.assert_array_equal(found, np.full_like(given, 4 if scheme else 0.5))


@pytest.mark.parametrize("bounds", [(0.1, 1.0), (-1.0, -0.1), (-0.5, 0.5), (0.25, float("inf"))])
@pytest.mark.parametrize("partitioner", [XnnpackPartitioner(), None], ids=["exported", "at load"])
@pytest.mark.parametrize("name", NODES)
def test_a_clamp_after_a_node(name: str, partitioner: object, bounds: tuple[float, float]) -> None:
    torch.manual_seed(0)
    node, shape = NODES[name]
    model, x = nn.Sequential(node, nn.Hardtanh(*bounds)).eval(), torch.randn(shape)
    pte = export(model, x, partitioner=partitioner)
    method = Runtime.get().load_program(pte).load_method("forward", delegate_at_load="always")
    assert method.backend_report()[0]["backend"] == "XnnpackBackend"
    (found,) = method.execute([x.numpy()])
    np.testing.assert_allclose(found, model(x).detach().numpy(), rtol=1e-5, atol=1e-6)
