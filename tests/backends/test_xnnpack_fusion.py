"""Clamps that XNNPACK joins with the node before: bounds on either side of zero."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from exports import export
from torch import nn

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


@pytest.mark.parametrize("bounds", [(0.1, 1.0), (-1.0, -0.1), (-0.5, 0.5), (0.25, float("inf"))])
@pytest.mark.parametrize("partitioner", [XnnpackPartitioner(), None], ids=["delegated", "claimed"])
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
