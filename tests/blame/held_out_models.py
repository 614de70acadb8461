"""Models that `blame` was not fitted on, and what a device computes instead at one layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from tests import kept
from tests.blame import units
from tests.blame.units import Unit


class Residual(nn.Module):
    """Padded convolutions with relu6, an average pool that counts its padding, and a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.deep = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3, padding=1)
        self.act, self.head = nn.Hardtanh(0.0, 6.0), nn.Linear(8, 6)
        self.pads, self.counts = (1, 1, 1, 1), True

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.stem(nn.functional.pad(x, self.pads)) * 4)
        pooled = nn.functional.avg_pool2d(x, 3, 2, 1, count_include_pad=self.counts)
        x = pooled + self.deep(pooled)
        return self.head(x.mean((2, 3)))


class Upsampler(nn.Module):
    """A convolution, a bilinear upsampling, a convolution and a sigmoid."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 2, 3, padding=1)
        self.aligned = False

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x).relu()
        x = nn.functional.interpolate(
            x, scale_factor=2.0, mode="bilinear", align_corners=self.aligned
        )
        return torch.sigmoid(self.last(x))


class Attention(nn.Module):
    """One head of attention, with a layer norm and a square projection."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.norm = nn.Linear(16, 48), nn.LayerNorm(16)
        self.square, self.out = nn.Linear(16, 16), nn.Linear(16, 8)
        self.axis = -1

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).split(16, -1)
        weights = torch.softmax(q @ k.transpose(1, 2) * 0.5, self.axis)
        return self.out(torch.tanh(self.square(self.norm(x + weights @ v))))


class Mixer(nn.Module):
    """Layers over positions and over channels in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.positions, self.channels = nn.Linear(8, 8), nn.Linear(12, 12)
        self.norm, self.head = nn.LayerNorm(12), nn.Linear(12, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.positions(x.transpose(1, 2)).transpose(1, 2)
        return self.head(nn.functional.silu(self.channels(self.norm(x))).mean(1))


class Gated(nn.Module):
    """Two convolutions over time, one of which gates the other."""

    def __init__(self) -> None:
        super().__init__()
        self.value, self.gate = nn.Conv2d(4, 10, (1, 3)), nn.Conv2d(4, 10, (1, 3))
        self.out, self.slope = nn.Conv2d(14, 6, 1), 0.1

    def forward(self, x: Tensor) -> Tensor:
        mixed = self.value(x) * torch.sigmoid(self.gate(x))
        joined = torch.cat([nn.functional.leaky_relu(mixed, self.slope), x[..., 1:-1]], 1)
        return self.out(joined).flatten(2).amax(-1)


class Loud(nn.Module):
    """Values beyond the largest half, and a norm that makes them small."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.out = nn.Linear(16, 24), nn.LayerNorm(24), nn.Linear(24, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.norm(self.first(x) * 1e5))


class Quiet(nn.Module):
    """Values some of which are denormal, and large again after them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.out = nn.Linear(16, 24), nn.Linear(24, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.tanh(self.first(x) * 1e-38) * 1e38)


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "residual": (Residual, (3, 3, 12, 12)),
    "upsampler": (Upsampler, (2, 3, 8, 8)),
    "attention": (Attention, (2, 8, 16)),
    "mixer": (Mixer, (3, 8, 12)),
    "gated": (Gated, (4, 4, 1, 16)),
    "loud": (Loud, (4, 16)),
    "quiet": (Quiet, (4, 16)),
}
"""Classes, and shapes of their input."""
LIMITS = ("loud", "quiet")
"""Models for the limits of float32."""


def _swap(model: nn.Module, layer: str) -> None:
    weight = model.get_parameter(f"{layer}.weight")
    weight.copy_(weight.clone().t())


def _shift(model: nn.Module) -> None:
    """Read convolutions' weights from the next column on."""
    weight = model.get_parameter("deep.weight")
    weight.copy_(weight.clone().roll(1, -1))


OPERATORS: dict[str, tuple[str, Callable[[nn.Module], None]]] = {
    "relu6 as relu": ("residual", lambda model: setattr(model, "act", nn.ReLU())),
    "padding off by one": ("residual", lambda model: setattr(model, "pads", (2, 0, 1, 1))),
    "average without padding": ("residual", lambda model: setattr(model, "counts", False)),
    "taps in another order": ("residual", _shift),
    "corners aligned": ("upsampler", lambda model: setattr(model, "aligned", True)),
    "softmax over a wrong axis": ("attention", lambda model: setattr(model, "axis", 1)),
    "transposed weights": ("attention", lambda model: _swap(model, "square")),
    "transposed weights over positions": ("mixer", lambda model: _swap(model, "positions")),
    "norm without its bias": ("mixer", lambda model: model.get_parameter("norm.bias").zero_()),
    "another slope": ("gated", lambda model: setattr(model, "slope", 0.3)),
}
"""Kinds of faults of an operator: the model, and what its device computes instead."""


@dataclass(frozen=True)
class HeldOut(Unit):
    """A program of these models."""

    fault: str = ""
    """Kind of the fault that its program has."""

    @property
    def varies(self) -> None:
        return None

    def pte(self) -> bytes:
        sources, packages = [units.RECIPE, Path(__file__)], ("torch", "executorch")
        digest = kept.digest(self, *sources, packages=packages)
        return kept.data(f"blame/{digest}.pte", self._export)

    def _export(self) -> bytes:
        with torch.random.fork_rng(), torch.no_grad():
            torch.manual_seed(self.seed + 100)
            build, shape = MODELS[self.model]
            model = build().eval()
            for name, one in model.named_parameters():
                if "norm" in name:
                    one.add_(torch.randn_like(one) * 0.3)
            if self.fault:
                OPERATORS[self.fault][1](model)
            return units.LOWER[self.scheme](model, [torch.randn(shape) for _ in range(4)]).pte

    def inputs(self, seed: int, extent: int | None = None) -> list[np.ndarray]:
        dtype = np.float16 if self.scheme == "mlx-fp16" else np.float32
        return [np.random.default_rng(seed).standard_normal(MODELS[self.model][1]).astype(dtype)]
