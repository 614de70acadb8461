"""Architectures for the proof of verdicts: seeded, small, with initial or trained-like weights.

Fresh weights are PyTorch's initial ones (batch norm is close to the identity). Trained-like weights
have the statistics of trained networks: batch norm with means, variances and scales that differ by
channel, channels of different magnitude, outputs of a few units. Small outputs and fresh batch
norm hide faults; both kinds are therefore tested.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.models.blocks import EFFICIENTNET_B0, MOBILENET_V2, Classifier, ConvNextBlock, DenseBlock
from tests.models.blocks import EncoderLayer, Gpt, KvCache, Llama, Recurrent, RmsNorm, ShuffleUnit
from tests.models.blocks import UNet, Vit, conv_bn, inverted, resnet

Inputs = tuple[Any, ...]
Build = Callable[[], "tuple[nn.Module, Inputs]"]


def image(size: int, count: int = 1) -> Inputs:
    return (torch.randn(count, 3, size, size),)


def ids(vocabulary: int, length: int) -> Inputs:
    return (torch.randint(0, vocabulary, (1, length)),)


def drawn(*shape: int) -> Inputs:
    return (torch.randn(shape),)


# ---- convolutional ----------------------------------------------------------------------------


def mlp() -> nn.Module:
    layers: list[nn.Module] = []
    for cin, cout, act in ((24, 48, nn.ReLU), (48, 48, nn.GELU), (48, 32, nn.Tanh)):
        layers += [nn.Linear(cin, cout), act()]
    return nn.Sequential(*layers, nn.LayerNorm(32), nn.Linear(32, 10))


def shufflenet(channels: tuple[int, ...], size: int, classes: int) -> tuple[nn.Module, Inputs]:
    """Build ShuffleNetV2."""
    layers: list[nn.Module] = [conv_bn(3, channels[0], stride=2), nn.MaxPool2d(3, 2, 1)]
    cin = channels[0]
    for cout, repeats in zip(channels[1:-1], (4, 8, 4)):
        layers.append(ShuffleUnit(cin, cout, 2))
        layers += [ShuffleUnit(cout, cout, 1) for _ in range(repeats - 1)]
        cin = cout
    layers.append(conv_bn(cin, channels[-1], 1))
    features = nn.Sequential(*layers)
    return Classifier(features, channels[-1], classes), image(size)


def densenet() -> nn.Module:
    features = nn.Sequential(
        *(conv_bn(3, 8), DenseBlock(8, 6, 4), conv_bn(32, 16, 1), nn.AvgPool2d(2)),
        *(DenseBlock(16, 6, 4), nn.BatchNorm2d(40), nn.ReLU()),
    )
    return Classifier(features, 40, 10)


def convnext() -> nn.Module:
    features = nn.Sequential(
        *(nn.Conv2d(3, 16, 4, 4), ConvNextBlock(16), ConvNextBlock(16)),
        *(nn.Conv2d(16, 24, 2, 2), ConvNextBlock(24), ConvNextBlock(24)),
    )
    return Classifier(features, 24, 10)


def autoencoder() -> nn.Module:
    """Build an autoencoder with leaky ReLU, upsampling and sigmoid."""
    return nn.Sequential(
        *(nn.Conv2d(1, 8, 3, 2, 1), nn.LeakyReLU(0.1), nn.Conv2d(8, 16, 3, 2, 1)),
        *(nn.LeakyReLU(0.1), nn.Conv2d(16, 16, 3, padding=1), nn.ELU()),
        *(nn.Upsample(scale_factor=2), nn.Conv2d(16, 8, 3, padding=1), nn.Hardswish()),
        *(nn.Upsample(scale_factor=2), nn.Conv2d(8, 1, 3, padding=1), nn.Sigmoid()),
    )


# ---- sequences, several outputs ---------------------------------------------------------------


class Speech(nn.Module):
    """Strided convolutions over time and encoder layers, with two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(20, 32, 3, padding=1), nn.Conv1d(32, 32, 3, 2, 1)
        self.layers = nn.Sequential(*(EncoderLayer(32, 4) for _ in range(2)))
        self.head, self.length = nn.Linear(32, 12), nn.Linear(32, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = F.gelu(self.conv2(F.gelu(self.conv1(x)))).transpose(1, 2)
        x = self.layers(x)
        return self.head(x).log_softmax(-1), self.length(x).squeeze(-1)


class Detector(nn.Module):
    """A shared trunk with outputs for boxes, scores and classes (integers)."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(
            conv_bn(3, 8, stride=2), conv_bn(8, 16, stride=2), conv_bn(16, 16)
        )
        self.boxes, self.scores = nn.Conv2d(16, 4, 1), nn.Conv2d(16, 5, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = self.trunk(x)
        scores = self.scores(y).flatten(2).transpose(1, 2)
        best, classes = scores.softmax(-1).max(-1)
        return self.boxes(y).flatten(2).transpose(1, 2).exp(), best, classes


class Appending(nn.Module):
    """Attention over caches that the runner holds."""

    def __init__(self, layers: Sequence[Any]) -> None:
        super().__init__()
        self.qkv = nn.ModuleList(nn.Linear(16, 32) for _ in layers)
        self.out = nn.ModuleList(nn.Linear(16, 16) for _ in layers)

    def forward(self, x: Tensor) -> Tensor:
        attend = torch.ops.kvcache.update_and_attend.default
        positions = torch.arange(x.shape[1])[:, None]
        for layer, (qkv, out) in enumerate(zip(self.qkv, self.out, strict=True)):
            q, k, v = qkv(x).unflatten(-1, (-1, 4)).transpose(1, 2).split([4, 2, 2], 1)
            history = attend(q, k, v, positions, layer, 0.5, x.dtype)
            x = x + F.gelu(out(history.transpose(1, 2).flatten(2)))
        return x


CAPACITY = 8
"""Positions of a cache."""
CACHE = "nets"
"""Key of the cache of `appending` in ExecuTorch's registry."""


def appending() -> nn.Module:
    """Build a network whose cache, empty, becomes the active one of ExecuTorch's registry."""
    from executorch.extension.llm.cache import reference_cache as reference
    from executorch.extension.llm.cache.update_and_attend import REGISTRY

    from tests.llm import kv_cache_out  # noqa: F401  (the overload)

    layers = [reference.LayerPolicy.flat(), reference.LayerPolicy.ring(3)]
    config = reference.CacheConfig(2, 2, 4, CAPACITY, layers=layers)
    REGISTRY.install(CACHE, reference.ContiguousReferenceCache(config))
    REGISTRY._active = CACHE
    return Appending(layers)


# ---- hard to judge: deep, long, with cancellation and ties ------------------------------------


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


FLOAT_MIN = float(torch.finfo(torch.float32).min)
NETS: dict[str, Build] = {
    "mlp": lambda: (mlp(), drawn(4, 24)),
    "resnet18": lambda: (resnet(8, 10), image(48)),
    "mobilenet_v2": lambda: (inverted(MOBILENET_V2, 0.25, 10, nn.ReLU6, False, 8), image(48)),
    "efficientnet_b0": lambda: (inverted(EFFICIENTNET_B0, 0.25, 10, nn.SiLU, True, 8), image(48)),
    "shufflenet_v2": lambda: shufflenet((8, 16, 32, 64, 96), 64, 10),
    "densenet": lambda: (densenet(), image(24, count=2)),
    "convnext": lambda: (convnext(), image(48)),
    "unet": lambda: (UNet(8, 4, nn.Identity), image(32)),
    "autoencoder": lambda: (autoencoder(), (torch.rand(2, 1, 28, 28),)),
    "lstm": lambda: (Recurrent(nn.LSTM), drawn(2, 5, 12)),
    "gru": lambda: (Recurrent(nn.GRU), drawn(2, 5, 12)),
    "vit": lambda: (Vit(), image(32)),
    "gpt": lambda: (Gpt(FLOAT_MIN), ids(50, 9)),
    "gpt_masked_logit": lambda: (Gpt(-1e9, masked=-1e9), ids(50, 9)),
    "llama": lambda: (Llama(), ids(60, 7)),
    "kv_cache": lambda: (KvCache(), (torch.randn(1, 1, 16), torch.tensor([3]))),
    "appending": lambda: (appending(), drawn(1, CAPACITY, 16)),
    "speech": lambda: (Speech(), drawn(1, 20, 24)),
    "detector": lambda: (Detector(), image(32)),
    "deep": lambda: (Deep(), drawn(4, 16)),
    "long_sequence": lambda: (LongSequence(), drawn(1, 512, 16)),
    "cancelling": lambda: (Cancelling(), drawn(4, 16)),
    "ties": lambda: (Ties(), drawn(8, 12)),
}
"""Architectures, with inputs that are drawn after their weights."""

# ---- weights ----------------------------------------------------------------------------------


@torch.no_grad()
def train_like(model: nn.Module, seed: int = 0) -> None:
    """Give a model weights with the statistics of trained ones, in place."""
    generator = torch.Generator().manual_seed(seed)

    def normal(like: Tensor) -> Tensor:
        return torch.randn(like.shape, generator=generator)

    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.copy_(normal(module.running_mean) * 0.4)
            module.running_var.copy_((normal(module.running_var) * 0.6).exp())
            module.weight.copy_((normal(module.weight) * 0.3).exp())
            module.bias.copy_(normal(module.bias) * 0.3)
        elif isinstance(module, (nn.Conv1d, nn.Conv2d, nn.Linear, nn.ConvTranspose2d)):
            channels = torch.randn(module.weight.shape[0], generator=generator)
            shape = [-1] + [1] * (module.weight.ndim - 1)
            fan = module.weight[0].numel()
            scale = math.sqrt(1.6 / fan) * (channels * 0.4).exp().view(shape)
            module.weight.copy_(normal(module.weight) * scale)
            if module.bias is not None:
                module.bias.copy_(normal(module.bias) * 0.2)
        elif isinstance(module, (nn.LayerNorm, RmsNorm)):
            module.weight.copy_((normal(module.weight) * 0.3).exp())
            if getattr(module, "bias", None) is not None:
                module.bias.copy_(normal(module.bias) * 0.2)


class Scaled(nn.Module):
    """A model whose (first) output is multiplied by a number: tiny or huge outputs."""

    def __init__(self, model: nn.Module, factor: float) -> None:
        super().__init__()
        self.model, self.factor = model, factor

    def forward(self, *args: Any) -> Any:
        outputs = self.model(*args)
        if isinstance(outputs, tuple):
            return (outputs[0] * self.factor, *outputs[1:])
        return outputs * self.factor


HALVES = {"float16": torch.float16, "bfloat16": torch.bfloat16}


def build(name: str, weights: str = "trained", factor: float = 1.0, seed: int = 0) -> Any:
    """Return (model in eval mode, example inputs) of an architecture; `weights`: "fresh",
    "trained", or the dtype of trained ones and of the inputs, a half."""
    torch.manual_seed(seed)
    model, inputs = NETS[name]()
    if weights != "fresh":
        train_like(model, seed)
    if weights in HALVES:
        dtype = HALVES[weights]
        model = model.to(dtype)
        inputs = tuple(x.to(dtype) if x.is_floating_point() else x for x in inputs)
    model.eval()
    return (model if factor == 1.0 else Scaled(model, factor).eval()), inputs


def real(name: str) -> tuple[nn.Module, Inputs]:
    """Return an architecture in its real size, with trained-like weights."""
    torch.manual_seed(0)
    models: dict[str, Build] = {
        "resnet18": lambda: (resnet(64, 1000), image(224)),
        "mobilenet_v2": lambda: (inverted(MOBILENET_V2, 1.0, 1000, nn.ReLU6, False), image(224)),
        "efficientnet_b0": lambda: (
            inverted(EFFICIENTNET_B0, 1.0, 1000, nn.SiLU, True),
            image(224),
        ),
        "shufflenet_v2": lambda: shufflenet((24, 116, 232, 464, 1024), 224, 1000),
    }
    model, inputs = models[name]()
    return model.eval(), inputs
