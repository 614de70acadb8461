"""Six small models that every flow lowers, with statistics as training leaves them."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from tests.models.blocks import Recurrent

CALLS = 2
"""Inputs to compare, of those that calibrate: the first ones."""
CALIBRATION = 8


class MobileNet(nn.Module):
    """A stem, an inverted residual block and a classifier, as in MobileNetV2."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU6())
        self.block = nn.Sequential(
            *(nn.Conv2d(16, 32, 1), nn.BatchNorm2d(32), nn.ReLU6()),
            *(nn.Conv2d(32, 32, 3, 1, 1, groups=32), nn.BatchNorm2d(32), nn.ReLU6()),
            *(nn.Conv2d(32, 16, 1), nn.BatchNorm2d(16)),
        )
        self.pool, self.head = nn.AdaptiveAvgPool2d(1), nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        return self.head(self.pool(x + self.block(x)).flatten(1))


class Unet(nn.Module):
    """Two levels: a skip connection around a pool and an upsampling."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.deep = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.norm = nn.BatchNorm2d(16)
        self.up, self.out = nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(16, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        skip = self.down(x).relu()
        deep = self.norm(self.deep(nn.functional.max_pool2d(skip, 2, 2))).relu()
        return self.out(torch.cat([self.up(deep), skip], 1))


class Transformer(nn.Module):
    """A layer: layer norm, attention of four heads, a projection with gelu, a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(32), nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        n, length, width = x.shape
        q, k, v = (
            part.reshape(n, length, 4, 8).transpose(1, 2)
            for part in self.qkv(self.norm(x)).split(32, -1)
        )
        weights = torch.softmax(q @ k.transpose(-1, -2) * 0.35, -1)
        mixed = (weights @ v).transpose(1, 2).reshape(n, length, width)
        return x + nn.functional.gelu(self.out(mixed))


def mlp() -> nn.Module:
    layers = nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 12)
    return nn.Sequential(*layers)


def cnn() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2, 2)),
        *(nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)),
    )


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mlp": (mlp, (4, 32)),
    "cnn": (cnn, (1, 3, 16, 16)),
    "mobilenet": (MobileNet, (1, 3, 16, 16)),
    "unet": (Unet, (1, 3, 16, 16)),
    "transformer": (Transformer, (2, 6, 32)),
    "lstm": (lambda: Recurrent(nn.LSTM, 16, 16, 8, layers=1), (1, 5, 16)),
}
"""Classes or functions, and shapes of their input."""


def _train(model: nn.Module, inputs: list[Tensor]) -> None:
    """Give channels different ranges, norms statistics of their own, and outputs the order of 1."""
    last: nn.Linear | nn.Conv2d | None = None
    for layer in model.modules():
        if isinstance(layer, (nn.Linear, nn.Conv2d, nn.ConvTranspose2d)):
            ranges = torch.randn(layer.weight.shape[0]).mul(0.4).exp()
            layer.weight.mul_(ranges.reshape(-1, *[1] * (layer.weight.dim() - 1)))
            last = layer if not isinstance(layer, nn.ConvTranspose2d) else last
        elif isinstance(layer, nn.BatchNorm2d):
            layer.running_mean.normal_(0, 0.3)  # type: ignore[union-attr]
            layer.running_var.uniform_(0.5, 2)  # type: ignore[union-attr]
            layer.weight.uniform_(0.5, 1.5)
            layer.bias.normal_(0, 0.2)
    assert last is not None
    spread = torch.stack([model(x) for x in inputs]).std()
    for parameter in last.parameters():
        parameter.div_(spread)


def make(name: str) -> tuple[nn.Module, list[Tensor]]:
    """Return a model and the inputs that calibrate it; the same ones in each process."""
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        model, shape = MODELS[name]
        module = model().eval()
        inputs = [torch.randn(shape) for _ in range(CALIBRATION)]
        _train(module, inputs)
    return module, inputs
