"""Small models with layers that differ in what their quantisation costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

Build = Callable[[], "tuple[nn.Module, tuple[int, ...]]"]


def seeded(model: nn.Module, seed: int = 0) -> nn.Module:
    """Return a model in eval mode whose parameters and statistics are drawn by a seed."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, one in [*model.named_parameters(), *model.named_buffers()]:
            if one.is_floating_point() and one.ndim > 1:
                scale = (2 / one[0].numel()) ** 0.5
                one.copy_(torch.randn(one.shape, generator=generator) * scale)
            elif one.is_floating_point():
                drawn = torch.rand(one.shape, generator=generator)
                one.copy_(0.5 + drawn if "var" in name or "weight" in name else drawn - 0.5)
    return model.eval()


def outlier(model: nn.Module, name: str, channel: int = 1, by: float = 60.0) -> nn.Module:
    """Return a model with one channel of a layer's weights many times larger."""
    layer: Any = model.get_submodule(name)
    with torch.no_grad():
        layer.weight[channel] *= by
    return model


def mlp(*widths: int, act: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    layers: list[nn.Module] = []
    for a, b in zip(widths, widths[1:]):
        layers += [nn.Linear(a, b), act()]
    return nn.Sequential(*layers[:-1])


def convs(*channels: int, act: type[nn.Module] = nn.ReLU, groups: bool = False) -> nn.Sequential:
    layers: list[nn.Module] = []
    for a, b in zip(channels, channels[1:]):
        if groups:
            layers += [nn.Conv2d(a, a, 3, padding=1, groups=a), nn.BatchNorm2d(a), act()]
        layers += [nn.Conv2d(a, b, 1 if groups else 3, bias=False), nn.BatchNorm2d(b), act()]
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels[-1], 10)
    )


class Residual(nn.Module):
    """A convolutional residual block."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1)
        self.second = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(x + self.second(F.relu(self.first(x))))


class ResidualMlp(nn.Module):
    """A residual block of linear layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(x)))


class Attention(nn.Module):
    """Self-attention with one head."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        weights = torch.softmax(self.q(y) @ self.k(y).transpose(1, 2) / 4, -1)
        return x + self.out(weights @ self.v(y))


class Gated(nn.Module):
    """A product of two branches, one of them squeezed."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.value, self.gate = nn.Conv2d(width, width, 3), nn.Conv2d(width, width, 3)
        self.last = nn.Conv2d(width, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.value(x) * torch.sigmoid(self.gate(x)))


class Concatenated(nn.Module):
    """Branches that are concatenated, which share a scale."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(3, 4, 1)
        self.c, self.d = nn.Conv2d(8, 8, 3), nn.Conv2d(8, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.cat([self.a(x), 8 * self.b(x)], 1)
        return self.d(F.relu(self.c(y)))


IMAGE, ROW = (1, 3, 14, 14), (4, 16)
MODELS: dict[str, Build] = {
    "mlp": lambda: (seeded(mlp(16, 32, 32, 32, 8)), ROW),
    "mlp outlier": lambda: (outlier(seeded(mlp(16, 32, 32, 32, 32, 8), 1), "4"), ROW),
    "mlp two outliers": lambda: (
        outlier(outlier(seeded(mlp(16, 24, 24, 24, 24, 8), 2), "2"), "6"),
        ROW,
    ),
    "mlp tanh": lambda: (seeded(mlp(16, 32, 32, 32, 32, 8, act=nn.Tanh), 3), ROW),
    "mlp deep": lambda: (seeded(mlp(16, *[24] * 9, 8), 4), ROW),
    "conv": lambda: (seeded(convs(3, 8, 8, 16), 5), IMAGE),
    "conv outlier": lambda: (outlier(seeded(convs(3, 8, 8, 16), 6), "3"), IMAGE),
    "conv relu6": lambda: (seeded(convs(3, 8, 12, 16, act=nn.ReLU6), 7), IMAGE),
    "conv silu": lambda: (seeded(convs(3, 8, 12, 16, act=nn.SiLU), 8), IMAGE),
    "conv hardswish": lambda: (seeded(convs(3, 8, 8, 8, act=nn.Hardswish), 9), IMAGE),
    "depthwise": lambda: (seeded(convs(3, 8, 12, 16, groups=True), 10), IMAGE),
    "depthwise relu6": lambda: (
        outlier(seeded(convs(3, 8, 12, act=nn.ReLU6, groups=True), 11), "6", 2, 30.0),
        IMAGE,
    ),
    "residual": lambda: (
        seeded(nn.Sequential(nn.Conv2d(3, 6, 3), *(Residual(6) for _ in range(2))), 12),
        IMAGE,
    ),
    "residual pooled": lambda: (
        seeded(
            nn.Sequential(
                nn.Conv2d(3, 6, 3), Residual(6), nn.MaxPool2d(2), Residual(6), nn.Conv2d(6, 4, 1)
            ),
            13,
        ),
        IMAGE,
    ),
    "residual mlp": lambda: (
        seeded(nn.Sequential(nn.Linear(16, 16), *(ResidualMlp(16) for _ in range(3))), 14),
        ROW,
    ),
    "attention": lambda: (
        seeded(nn.Sequential(Attention(16), ResidualMlp(16), nn.Linear(16, 8)), 15),
        (1, 6, 16),
    ),
    "attention outlier": lambda: (
        outlier(seeded(nn.Sequential(Attention(16), Attention(16)), 16), "0.v"),
        (1, 6, 16),
    ),
    "gated": lambda: (seeded(nn.Sequential(nn.Conv2d(3, 6, 3), Gated(6)), 17), IMAGE),
    "concatenated": lambda: (seeded(Concatenated(), 18), IMAGE),
    "transposed": lambda: (
        seeded(
            nn.Sequential(
                nn.Conv2d(3, 6, 3, 2),
                nn.ReLU(),
                nn.Conv2d(6, 8, 3),
                nn.ReLU(),
                nn.ConvTranspose2d(8, 6, 2, 2),
                nn.ReLU(),
                nn.Conv2d(6, 3, 1),
            ),
            19,
        ),
        IMAGE,
    ),
}
"""Models by name, with the shape of their input."""


def made(name: str, calls: int = 4) -> tuple[nn.Module, list[tuple[torch.Tensor, ...]]]:
    """Return a model, and inputs of calls."""
    model, shape = MODELS[name]()
    generator = torch.Generator().manual_seed(99)
    return model, [(torch.randn(shape, generator=generator),) for _ in range(calls)]
