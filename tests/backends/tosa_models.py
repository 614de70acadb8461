"""Small models of the kinds that the flows of TOSA lower."""

from __future__ import annotations

import torch
from torch import nn


class Inverted(nn.Module):
    """A stem, an inverted residual block and a classifier, as in MobileNetV2."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU6())
        self.block = nn.Sequential(
            nn.Conv2d(8, 16, 1), nn.BatchNorm2d(16), nn.ReLU6(),
            nn.Conv2d(16, 16, 3, 1, 1, groups=16), nn.BatchNorm2d(16), nn.ReLU6(),
            nn.Conv2d(16, 8, 1), nn.BatchNorm2d(8),
        )  # fmt: skip
        self.pool, self.head = nn.AdaptiveAvgPool2d(1), nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        return self.head(self.pool(x + self.block(x)).flatten(1))


class Unet(nn.Module):
    """Two levels: a skip connection around a pool and an upsampling."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.deep = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.up, self.out = nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(16, 2, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skip = self.down(x).relu()
        deep = self.deep(nn.functional.max_pool2d(skip, 2, 2)).relu()
        return self.out(torch.cat([self.up(deep), skip], 1))


class Block(nn.Module):
    """A layer of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(32), nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, length, width = x.shape
        q, k, v = (part.reshape(n, length, 4, 8).transpose(1, 2)
                   for part in self.qkv(self.norm(x)).split(32, -1))  # fmt: skip
        weights = torch.softmax(q @ k.transpose(-1, -2) * 0.35, -1)
        mixed = (weights @ v).transpose(1, 2).reshape(n, length, width)
        return x + nn.functional.gelu(self.out(mixed))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(6, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(x)[0][:, -1])


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 48), nn.Tanh(),
                         nn.Linear(48, 12), nn.Softmax(-1))  # fmt: skip


def cnn() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
                         nn.MaxPool2d(2, 2), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU(),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))  # fmt: skip


MODELS = {
    "mlp": (mlp, (4, 32)),
    "cnn": (cnn, (1, 3, 16, 16)),
    "mobilenet": (Inverted, (1, 3, 16, 16)),
    "unet": (Unet, (1, 3, 16, 16)),
    "transformer": (Block, (2, 6, 32)),
    "lstm": (Recurrent, (1, 5, 6)),
}
"""Classes or functions, and shapes of their input."""


def make(name: str) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    model, shape = MODELS[name]
    return model().eval(), torch.randn(shape)
