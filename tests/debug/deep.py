"""Models of the tests of explain: an image classifier, and a quantised model of 50 layers,
optionally with one wrong scale, in both flows."""

import copy
from collections.abc import Sequence
from functools import cache
from typing import Any

import executorch.kernels.quantized  # noqa: F401  the out variants of quantize and dequantize
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import EdgeCompileConfig, to_edge, to_edge_transform_and_lower
from torch import Tensor, nn

from executorch_c.devtools import ErrorReport, explain
from tests.backends import xnnpack_flow

FLOWS = ["portable", "xnnpack"]

LAYERS, BAD = 50, 31
"""Index of the layer with the wrong scale."""

INPUTS = (torch.linspace(-2, 2, 32).sin().reshape(4, 8),)


class Merge(nn.Module):
    """Concatenation of two halves of the channels, optionally swapped."""

    def __init__(self, swap: bool) -> None:
        super().__init__()
        self.swap = swap

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return torch.cat([y, x] if self.swap else [x, y], 1)


class Net(nn.Module):
    """Layers of an image classifier, with a fused activation and a skip connection."""

    def __init__(self, swap: bool = False) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.blocks = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1) for _ in range(3))
        self.side = nn.Conv2d(8, 8, 1)
        self.merge = Merge(swap)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 5))

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.max_pool2d(self.stem(x), 2)
        for block in self.blocks:
            x = x + nn.functional.relu6(block(x))
        x = self.merge(x, self.side(x)).mean((2, 3))
        return torch.softmax(self.head(self.norm(x)), -1)


IMAGE = (torch.linspace(-2, 2, 2 * 3 * 12 * 12).sin().reshape(2, 3, 12, 12) * 1.5,)


@torch.no_grad()
def lower(model: nn.Module, inputs: Sequence[Tensor], flow: str, **options: Any) -> Any:
    """Return the ExecutorchProgramManager of the official flow."""
    exported = torch.export.export(model, tuple(inputs))
    config = EdgeCompileConfig(_check_ir_validity=False)
    if flow == "portable":
        return to_edge(exported, compile_config=config, **options).to_executorch()
    return to_edge_transform_and_lower(
        exported, partitioner=[XnnpackPartitioner()], compile_config=config, **options
    ).to_executorch()


def explained(
    good: Any, bad: nn.Module, x: Sequence[Tensor], flow: str = "portable", **options: Any
) -> ErrorReport:
    """Return the report on the program of one model, compared with another model."""
    pte = lower(bad, x, flow).buffer
    return explain(good, x, program=pte, progress=False, **options)


@cache
def model(count: int = LAYERS) -> nn.Module:
    """Return the float32 model; a layer is a linear layer "7.0" and its activation "7.1"."""
    torch.manual_seed(0)
    layers = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(count)))
    for layer in layers:
        nn.init.orthogonal_(layer[0].weight, gain=1.3)
    return layers.eval()


@cache
def quantized(count: int = LAYERS, wrong: int = BAD) -> tuple[nn.Module, nn.Module]:
    """Return the quantised model, and the same with the weight scale of one layer multiplied by
    1.5."""
    own = copy.deepcopy(model(count))  # quantisation rounds the weights of its model
    good = xnnpack_flow.SCHEMES["static"](own, INPUTS, None)
    bad = copy.deepcopy(good)
    weights = [
        n
        for n in bad.graph.nodes
        if "dequantize_per_tensor" in str(n.target) and n.all_input_nodes[0].op == "get_attr"
    ]
    assert len(weights) == count
    node = next(
        n
        for n in weights
        if f"{wrong}.0"
        in [path for path, _ in next(iter(n.users)).meta["nn_module_stack"].values()]
    )
    node.args = (node.args[0], node.args[1] * 1.5, *node.args[2:])
    bad.recompile()
    return good, bad


@cache
def edge() -> Any:
    """Return the edge program of the good quantised model, which `explain` would otherwise export
    each time."""
    exported = torch.export.export(quantized()[0], INPUTS)
    return to_edge(exported, compile_config=EdgeCompileConfig(_check_ir_validity=False))


def programs(flow: str, count: int = LAYERS, wrong: int = BAD) -> tuple[bytes, bytes]:
    """Return the programs of both models."""

    def make() -> list[bytes]:
        return [lower(graph, INPUTS, flow).buffer for graph in quantized(count, wrong)]

    good, bad = xnnpack_flow.cached(f"deep-{flow}-{count}-{wrong}", __file__, make)
    return good, bad
