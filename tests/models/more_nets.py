"""Small architectures on which right programs are hard to judge: deep, long, with cancellation and
ties. They join those of `nets.py`."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.models import nets


class Deep(nn.Module):
    """Forty residual layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(40))
        self.norms = nn.ModuleList(nn.LayerNorm(16) for _ in range(40))
        self.head = nn.Linear(16, 6)

    def forward(self, x: Tensor) -> Tensor:
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = x + F.gelu(layer(norm(x)))
        return self.head(x)


@nets.net
def deep() -> tuple[nn.Module, nets.Inputs]:
    return Deep(), (torch.randn(4, 16),)


class LongSequence(nn.Module):
    """Attention over 512 steps, and the mean of all."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)
        self.norm = nn.LayerNorm(16)
        self.out = nn.Linear(16, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        y = self.out(x + F.scaled_dot_product_attention(q, k, v))
        return y, y.mean(1)


@nets.net
def long_sequence() -> tuple[nn.Module, nets.Inputs]:
    return LongSequence(), (torch.randn(1, 512, 16),)


class Cancelling(nn.Module):
    """Differences of numbers a thousand times as large, and a variance about a large mean."""

    def __init__(self) -> None:
        super().__init__()
        self.near, self.head = nn.Linear(16, 16), nn.Linear(16, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.near(x)
        large = y + 100.0
        difference = large - large.mean(-1, keepdim=True)
        return self.head(difference), F.layer_norm(large, (16,))


@nets.net
def cancelling() -> tuple[nn.Module, nets.Inputs]:
    return Cancelling(), (torch.randn(4, 16),)


class Ties(nn.Module):
    """Equal maxima, halves that are rounded, and comparisons with equal numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.head = nn.Linear(12, 12), nn.Linear(12, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        scores = self.head(torch.relu(self.hidden(x)))
        twice = torch.cat([scores, scores], -1)
        steps = torch.round(x * 4) / 8
        return twice.softmax(-1), torch.round(steps), twice.amax(-1) - scores.amax(-1) + steps[:, 0]


@nets.net
def ties() -> tuple[nn.Module, nets.Inputs]:
    return Ties(), (torch.randn(8, 12),)
