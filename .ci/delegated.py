"""Writes delegated.bpte, by which .ci/bare sees that XnnpackBackend is right: a convolution, a
linear layer and a softmax by the official XNNPACK flow, with eager PyTorch's outputs.

    python .ci/delegated.py
"""

from __future__ import annotations

from pathlib import Path

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from torch import nn

from executorch_c.bundled import BundledProgram

torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 8 * 8, 5), nn.Softmax(-1)
).eval()
x = torch.randn(2, 1, 8, 8)
edge = to_edge_transform_and_lower(
    torch.export.export(net, (x,)), partitioner=[XnnpackPartitioner()]
)
program = edge.to_executorch().buffer
bundled = BundledProgram(program, {"forward": [([x], [net(x).detach()])]})
bundled.save(Path(__file__).with_suffix(".bpte"))
