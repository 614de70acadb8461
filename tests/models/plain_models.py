"""Six small models whose operators have one result each, with the names of `flow_models`' layers.

The flow of native packages makes a graph end at an operator of several results (batch or layer
norm, max pooling with indices, split), and a package is one graph.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Residual(nn.Module):
    """A stem, a grouped convolution beside a skip connection, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.mixed = nn.Conv2d(3, 16, 3, 2, 1), nn.Conv2d(16, 16, 3, padding=1, groups=4)
        self.head = nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x).relu()
        return self.head((x + self.mixed(x)).mean((2, 3)))


class Unet(nn.Module):
    """Two levels: a skip connection around a pool and an upsampling."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.deep = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.up, self.out = nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(16, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        skip = self.down(x).relu()
        deep = self.deep(F.avg_pool2d(skip, 2)).relu()
        return self.out(torch.cat([self.up(deep), skip], 1))


class Transformer(nn.Module):
    """RMS norm, attention of four heads, a projection with gelu, a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.out = nn.RMSNorm(32, eps=1e-5), nn.Linear(32, 32)
        self.q, self.k, self.v = (nn.Linear(32, 32) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        n, length, width = x.shape
        y = self.norm(x)
        q, k, v = (f(y).view(n, length, 4, 8).transpose(1, 2) for f in (self.q, self.k, self.v))
        weights = torch.softmax(q @ k.transpose(-1, -2) * 0.35, -1)
        mixed = (weights @ v).transpose(1, 2).reshape(n, length, width)
        return x + F.gelu(self.out(mixed))


class Recurrence(nn.Module):
    """A gated recurrence, step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.state, self.head = nn.Linear(32, 16), nn.Linear(32, 16), nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros_like(x[:, 0])
        for step in range(3):
            both = torch.cat([x[:, step], h], 1)
            gate = self.gate(both).sigmoid()
            h = gate * h + (1 - gate) * self.state(both).tanh()
        return self.head(h)


class Decoder(nn.Module):
    """An embedding and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.middle, self.head = (
            nn.Embedding(32, 32),
            nn.Linear(32, 48),
            nn.Linear(48, 32),
        )

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(F.gelu(self.middle(self.embed(tokens))))


def mlp() -> nn.Module:
    layers = nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 12)
    return nn.Sequential(*layers)


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (mlp, (4, 32)),
    "residual": (Residual, (1, 3, 16, 16)),
    "unet": (Unet, (1, 3, 16, 16)),
    "transformer": (Transformer, (2, 6, 32)),
    "recurrence": (Recurrence, (2, 3, 16)),
    "decoder": (Decoder, (1, 6)),
}


def make(name: str) -> tuple[nn.Module, list[Tensor]]:
    """Return a model and inputs; the same ones in each process."""
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        model, shape = MODELS[name]
        module = model().eval()
        for layer in module.modules():
            if isinstance(layer, (nn.Linear, nn.Conv2d, nn.ConvTranspose2d)):
                ranges = torch.randn(layer.weight.shape[0]).mul(0.4).exp()
                layer.weight.mul_(ranges.reshape(-1, *[1] * (layer.weight.dim() - 1)))
        is_index = name == "decoder"
        draw = (lambda: torch.randint(0, 32, shape)) if is_index else (lambda: torch.randn(shape))
        return module, [draw() for _ in range(8)]
