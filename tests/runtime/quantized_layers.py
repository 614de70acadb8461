"""Quantised layers and networks in eager, and their programs."""

from collections.abc import Callable
from typing import Any

import executorch.kernels.quantized  # noqa: F401  (out forms of quantized_decomposed)
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from executorch_c import Method, Runtime
from executorch_c.check.flows import FLOWS
from tests import exports

OPS = torch.ops.quantized_decomposed


Model = Callable[..., Any]


def load(pte: bytes, how: Any = "always", **options: Any) -> Method:
    return Runtime.get().load_program(pte).load_method("forward", delegate_at_load=how, **options)


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape) + seed))


def figure(method: Method, name: str) -> int:
    return sum(row["figures"][name] for row in method.backend_report())


def quantized(
    model: nn.Module, inputs: tuple[Tensor, ...], flow: str = "xnnpack-int8", **config: Any
) -> nn.Module:
    """Return the graph that the official quantizer makes, calibrated on the inputs."""
    return exports.quantized(model, inputs, None if config else FLOWS[flow].quantizer(), **config)


def program(
    graph: nn.Module, *inputs: Tensor, delegated: bool = False, shapes: Any = None
) -> bytes:
    """Export a quantised graph."""
    return exports.lowered(graph, *inputs, delegated=delegated, dynamic_shapes=shapes)


class Mobile(nn.Module):
    """An inverted residual block with a gate, as mobile networks have it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.stem, self.norm = nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8)
        self.wide, self.deep = nn.Conv2d(8, 24, 1), nn.Conv2d(24, 24, 3, 1, 1, groups=24)
        self.down, self.up = nn.Conv2d(24, 6, 1), nn.Conv2d(6, 24, 1)
        self.thin, self.head = nn.Conv2d(24, 8, 1), nn.Linear(8, 20)
        nn.init.uniform_(self.norm.running_mean, -1, 1)
        nn.init.uniform_(self.norm.running_var, 0.5, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = F.hardswish(self.norm(self.stem(x)))
        y = F.relu6(self.deep(F.relu(self.wide(x))))
        y = y * F.hardsigmoid(self.up(F.relu(self.down(F.adaptive_avg_pool2d(y, 1)))))
        x = F.max_pool2d(x + self.thin(y), 3, 2, 1)
        return self.head(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


class Joined(nn.Module):
    """Branches that are joined, enlarged, and split."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.first, self.second = (
            nn.Conv2d(4, 6, 3, padding=1),
            nn.Conv2d(4, 5, (1, 3), padding=(0, 1)),
        )
        self.grouped, self.up = nn.Conv2d(11, 11, 1), nn.ConvTranspose2d(11, 4, 3, 2, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.cat([F.relu(self.first(x)), self.second(x)], 1)
        y = self.up(F.relu(self.grouped(y)))
        return torch.cat([y, F.interpolate(x, scale_factor=2, mode="bilinear")], 1)


class Attention(nn.Module):
    """A block of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.qkv, self.out, self.norm = nn.Linear(16, 48), nn.Linear(16, 16), nn.LayerNorm(16)
        self.wide, self.thin = nn.Linear(16, 40), nn.Linear(40, 16)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm(x)).view(2, 5, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
        y = torch.softmax(q @ k.transpose(-1, -2) / 8**0.5, -1) @ v
        x = x + self.out(y.transpose(1, 2).reshape(2, 5, 16))
        return x + self.thin(F.gelu(self.wide(x)))


def step_of(graph: nn.Module) -> float:
    """Return the scale of the last quantisation of a graph."""
    every: Any = graph.graph
    nodes = [node for node in every.nodes if "dequantize_per_tensor" in str(node.target)]
    return float(nodes[-1].args[1])


def there(x: Tensor, scale: float = 0.05, zero: int = 3) -> Tensor:
    return OPS.quantize_per_tensor.default(x, scale, zero, -128, 127, torch.int8)


def back(q: Tensor, scale: float = 0.05, zero: int = 3) -> Tensor:
    return OPS.dequantize_per_tensor.default(q, scale, zero, -128, 127, torch.int8)


def fake(x: Tensor, scale: float = 0.05, zero: int = 3) -> Tensor:
    """Quantise and dequantise."""
    return back(there(x, scale, zero), scale, zero)


class Weights(nn.Module):
    """Dequantised weights of a layer, per channel."""

    def __init__(self, layer: nn.Module, axis: int = 0) -> None:
        super().__init__()
        self.layer, self.axis = layer, axis
        weight = layer.weight.detach()
        rest = [d for d in range(weight.dim()) if d != axis]
        self.scales = nn.Buffer(weight.abs().amax(rest) / 127)
        self.zeros = nn.Buffer(torch.zeros(len(self.scales), dtype=torch.int64))
        codes = OPS.quantize_per_channel.default(
            weight, self.scales, self.zeros, axis, -127, 127, torch.int8
        )
        self.codes = nn.Buffer(codes)
        self.bias = nn.Buffer(layer.bias.detach())

    def weight(self) -> Tensor:
        return OPS.dequantize_per_channel.default(
            self.codes, self.scales, self.zeros, self.axis, -127, 127, torch.int8
        )

    def forward(self, x: Tensor) -> Tensor:
        with_weights = {"weight": self.weight(), "bias": self.bias}
        return torch.func.functional_call(self.layer, with_weights, (x,))


def layer(make: Callable[[], nn.Module], axis: int = 0) -> Weights:
    torch.manual_seed(7)
    return Weights(make(), axis)


LINEAR = layer(lambda: nn.Linear(12, 10))


CONV = layer(lambda: nn.Conv2d(4, 6, 3, padding=1))


DEEP = layer(lambda: nn.Conv2d(4, 8, 3, groups=4))


GROUPED = layer(lambda: nn.Conv2d(4, 6, (1, 3), (2, 1), groups=2))


ROW = layer(lambda: nn.Conv1d(4, 6, 3, 2, 1))


UP = layer(lambda: nn.ConvTranspose2d(4, 3, 3, 2), axis=1)


UP_BY_GROUPS = layer(lambda: nn.ConvTranspose2d(4, 6, 3, 2, groups=2), axis=1)
