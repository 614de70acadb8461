"""Models of the simulated devices: those of `flow_models`, and two with several outputs."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from tests.models import flow_models


class Heads(nn.Module):
    """A depthwise convolution, and two heads: probabilities, and a difference of two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.depth = nn.Conv2d(3, 12, 1), nn.Conv2d(12, 12, 3, 1, 1, groups=12)
        self.label, self.left, self.right = (nn.Linear(12, 8) for _ in range(3))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = nn.functional.hardtanh(self.depth(self.stem(x)), 0.0, 6.0)
        x = nn.functional.avg_pool2d(x, 16).flatten(1)
        return torch.softmax(self.label(x), -1), self.left(x) - self.right(x)


class Branches(nn.Module):
    """Two branches that do not depend on each other, and their sum."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(24, 32), nn.Linear(24, 32)
        self.c, self.d = nn.Linear(32, 16), nn.Linear(32, 16)

    def forward(self, x: Tensor) -> Tensor:
        left, right = torch.sigmoid(self.a(x)), self.b(x).relu()
        return self.c(left) + self.d(right)


class Last(nn.Module):
    """The last output of a model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        result = self.model(x)
        return result[-1] if isinstance(result, tuple) else result


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    **flow_models.MODELS,
    "heads": (Heads, (1, 3, 16, 16)),
    "branches": (Branches, (4, 24)),
}
"""Classes or functions, and shapes of their input."""
