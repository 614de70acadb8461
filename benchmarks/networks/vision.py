"""Classifiers of images."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from tests.models.blocks import EFFICIENTNET_B0, MOBILENET_V2, Fn, Stage, conv_bn, inverted, resnet

Made = tuple[nn.Module, tuple[Tensor, ...]]


def image(size: int = 224) -> tuple[Tensor]:
    return (torch.randn(1, 3, size, size),)


def classifier(channels: int, classes: int = 1000) -> list[nn.Module]:
    """Return the mean over positions and a linear layer."""
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]


class Residual(nn.Module):
    """The sum of the input and a function of it."""

    def __init__(self, *body: nn.Module) -> None:
        super().__init__()
        self.body = nn.Sequential(*body)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x)


class Parallel(nn.Module):
    """The concatenated results of several functions of the input."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


# ---- small -----------------------------------------------------------------------------------


def lenet(size: int) -> Made:
    side = (size // 2 - 4) // 2
    net = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.Tanh(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * side * side, 120),
        nn.Tanh(),
        nn.Linear(120, 84),
        nn.Tanh(),
        nn.Linear(84, 10),
    )
    return net, (torch.randn(1, 1, size, size),)


def small_cnn(size: int) -> Made:
    net = nn.Sequential(
        conv_bn(3, 16, 3),
        nn.MaxPool2d(2),
        conv_bn(16, 32, 3),
        nn.MaxPool2d(2),
        conv_bn(32, 64, 3),
        *classifier(64, 10),
    )
    return net, image(size)


def squeezenet(size: int) -> Made:
    """Build SqueezeNet 1.1."""

    def fire(cin: int, squeezed: int, cout: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(cin, squeezed, 1),
            nn.ReLU(),
            Parallel(
                nn.Sequential(nn.Conv2d(squeezed, cout, 1), nn.ReLU()),
                nn.Sequential(nn.Conv2d(squeezed, cout, 3, padding=1), nn.ReLU()),
            ),
        )

    net = nn.Sequential(
        nn.Conv2d(3, 64, 3, 2),
        nn.ReLU(),
        nn.MaxPool2d(3, 2),
        fire(64, 16, 64),
        fire(128, 16, 64),
        nn.MaxPool2d(3, 2),
        fire(128, 32, 128),
        fire(256, 32, 128),
        nn.MaxPool2d(3, 2),
        fire(256, 48, 192),
        fire(384, 48, 192),
        fire(384, 64, 256),
        fire(512, 64, 256),
        nn.Conv2d(512, 1000, 1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    return net, image(size)


# ---- separable convolutions ------------------------------------------------------------------

MOBILENET_V3: list[Stage] = [
    (1, 16, 1, 1, 3),
    (4, 24, 2, 2, 3),
    (3, 40, 3, 2, 5),
    (6, 80, 4, 2, 3),
    (6, 112, 2, 1, 3),
    (6, 160, 3, 2, 5),
]


def mobilenet_v2(size: int = 224) -> Made:
    return inverted(MOBILENET_V2, 1.0, 1000, nn.ReLU6, squeeze=False), image(size)


def mobilenet_v3(size: int = 224) -> Made:
    return inverted(MOBILENET_V3, 1.0, 1000, nn.Hardswish, squeeze=True), image(size)


def efficientnet(size: int = 224) -> Made:
    return inverted(EFFICIENTNET_B0, 1.0, 1000, nn.SiLU, squeeze=True), image(size)


class Gate(nn.Module):
    """Squeeze-excite with hard sigmoids."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weights = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, channels // 4, 1),
            nn.ReLU(),
            nn.Conv2d(channels // 4, channels, 1),
            nn.Hardsigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weights(x)


def lcnet(size: int) -> Made:
    """Build PP-LCNet."""
    layers: list[nn.Module] = [conv_bn(3, 16, 3, nn.Hardswish, 2)]
    cin = 16
    for kernel, cout, stride, gate in (
        (3, 32, 1, False),
        (3, 64, 2, False),
        (3, 64, 1, False),
        (3, 128, 2, False),
        (3, 128, 1, False),
        (3, 256, 2, False),
        *[(5, 256, 1, False)] * 5,
        (5, 512, 2, True),
        (5, 512, 1, True),
    ):
        layers.append(conv_bn(cin, cin, kernel, nn.Hardswish, stride, cin))
        layers += [Gate(cin)] if gate else []
        layers.append(conv_bn(cin, cout, 1, nn.Hardswish))
        cin = cout
    layers += [nn.AdaptiveAvgPool2d(1), nn.Conv2d(512, 1280, 1), nn.Hardswish(), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(1280, 1000)), image(size)


class Shuffled(nn.Module):
    """A unit of ShuffleNetV2: two branches whose channels are interleaved."""

    def __init__(self, cin: int, cout: int, stride: int) -> None:
        super().__init__()
        self.stride, half = stride, cout // 2
        self.right = nn.Sequential(
            conv_bn(cin if stride > 1 else half, half, 1),
            conv_bn(half, half, 3, nn.Identity, stride, half),
            conv_bn(half, half, 1),
        )
        self.left = (
            nn.Sequential(conv_bn(cin, cin, 3, nn.Identity, stride, cin), conv_bn(cin, half, 1))
            if stride > 1
            else nn.Identity()
        )

    def forward(self, x: Tensor) -> Tensor:
        left, right = (x, x) if self.stride > 1 else x.chunk(2, 1)
        y = torch.cat([self.left(left), self.right(right)], 1)
        n, c, h, w = y.shape
        return y.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


def shufflenet(size: int) -> Made:
    layers: list[nn.Module] = [conv_bn(3, 24, 3, stride=2), nn.MaxPool2d(3, 2, 1)]
    cin = 24
    for cout, repeats in ((116, 4), (232, 8), (464, 4)):
        for i in range(repeats):
            layers.append(Shuffled(cin, cout, 1 if i else 2))
            cin = cout
    return nn.Sequential(*layers, conv_bn(464, 1024, 1), *classifier(1024)), image(size)


# ---- dense convolutions ----------------------------------------------------------------------


def resnet18(size: int = 224) -> Made:
    return resnet(64, 1000), image(size)


class Bottleneck(nn.Module):
    """A block of ResNet-50 and RegNet: 1x1, (grouped) 3x3, 1x1, and a shortcut."""

    def __init__(self, cin: int, mid: int, cout: int, stride: int, groups: int = 1) -> None:
        super().__init__()
        self.body = nn.Sequential(
            conv_bn(cin, mid, 1),
            conv_bn(mid, mid, 3, stride=stride, groups=groups),
            conv_bn(mid, cout, 1, nn.Identity),
        )
        same = stride == 1 and cin == cout
        self.shortcut = nn.Identity() if same else conv_bn(cin, cout, 1, nn.Identity, stride)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet50(size: int) -> Made:
    layers: list[nn.Module] = [conv_bn(3, 64, 7, stride=2), nn.MaxPool2d(3, 2, 1)]
    cin = 64
    for i, repeats in enumerate((3, 4, 6, 3)):
        for j in range(repeats):
            layers.append(Bottleneck(cin, 64 << i, 256 << i, 2 if i and not j else 1))
            cin = 256 << i
    return nn.Sequential(*layers, *classifier(cin)), image(size)


def regnet(size: int) -> Made:
    """Build RegNetX-400MF, with groups of 16 channels."""
    layers: list[nn.Module] = [conv_bn(3, 32, 3, stride=2)]
    cin = 32
    for cout, repeats in ((32, 1), (64, 2), (160, 7), (400, 12)):
        for i in range(repeats):
            layers.append(Bottleneck(cin, cout, cout, 1 if i else 2, cout // 16))
            cin = cout
    return nn.Sequential(*layers, *classifier(cin)), image(size)


class DenseLayer(nn.Module):
    """A layer that appends 32 channels to its input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, 128, 1, bias=False),
            nn.BatchNorm2d(128),
            nn.ReLU(),
            nn.Conv2d(128, 32, 3, padding=1, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.layers(x)], 1)


def densenet(size: int = 224) -> Made:
    """Build DenseNet-121."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    ]
    channels = 64
    for block, count in enumerate((6, 12, 24, 16)):
        if block:
            layers += [
                nn.BatchNorm2d(channels),
                nn.ReLU(),
                nn.Conv2d(channels, channels // 2, 1),
                nn.AvgPool2d(2),
            ]
            channels //= 2
        for _ in range(count):
            layers.append(DenseLayer(channels))
            channels += 32
    layers += [nn.BatchNorm2d(channels), nn.ReLU(), *classifier(channels)]
    return nn.Sequential(*layers), image(size)


# ---- large kernels and attention -------------------------------------------------------------


def convnext(size: int) -> Made:
    from transformers import ConvNextConfig, ConvNextModel

    net = ConvNextModel(ConvNextConfig(layer_scale_init_value=0.5))
    return Fn(lambda x, net: net(x).pooler_output, net=net), image(size)


class Scale(nn.Module):
    """A factor for each channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.rand(channels, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * x


def fastvit(size: int) -> Made:
    """Build FastViT-T8 after reparametrisation: depthwise mixers and large kernels."""

    def block(c: int) -> list[nn.Module]:
        return [
            nn.Conv2d(c, c, 3, padding=1, groups=c),
            Residual(
                nn.Conv2d(c, c, 7, padding=3, groups=c),
                nn.Conv2d(c, 3 * c, 1),
                nn.GELU(),
                nn.Conv2d(3 * c, c, 1),
                Scale(c),
            ),
        ]

    def down(cin: int, cout: int) -> list[nn.Module]:
        return [
            nn.Conv2d(cin, cout, 7, 2, 3, groups=cin),
            nn.GELU(),
            nn.Conv2d(cout, cout, 1),
            nn.GELU(),
        ]

    c = 48
    layers: list[nn.Module] = [
        nn.Conv2d(3, c, 3, 2, 1),
        nn.GELU(),
        nn.Conv2d(c, c, 3, 2, 1, groups=c),
        nn.GELU(),
        nn.Conv2d(c, c, 1),
        nn.GELU(),
    ]
    for i, repeats in enumerate((2, 2, 4, 2)):
        if i:
            layers += down(c, 2 * c)
            c *= 2
        for _ in range(repeats):
            layers += block(c)
    layers += [nn.Conv2d(c, 2 * c, 3, padding=1, groups=c), Gate(2 * c), nn.GELU()]
    return nn.Sequential(*layers, *classifier(2 * c)), image(size)


class ChannelNorm(nn.LayerNorm):
    """Layer norm over the channels of an image."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ChannelAttention(nn.Module):
    """Attention between channels, and a multilayer perceptron, of EdgeNeXt."""

    def __init__(self, channels: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.qkv = nn.LayerNorm(channels), nn.Linear(channels, 3 * channels)
        self.out = nn.Linear(channels, channels)
        self.mlp = nn.Sequential(
            nn.LayerNorm(channels),
            nn.Linear(channels, 4 * channels),
            nn.GELU(),
            nn.Linear(4 * channels, channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        x = x.flatten(2).transpose(1, 2)
        qkv = self.qkv(self.norm(x)).view(n, h * w, 3, self.heads, c // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 4, 1).unbind(0)
        q, k = nn.functional.normalize(q, dim=-1), nn.functional.normalize(k, dim=-1)
        mixed = (q @ k.transpose(-2, -1)).softmax(-1) @ v
        x = x + self.out(mixed.permute(0, 3, 1, 2).reshape(n, h * w, c))
        x = x + self.mlp(x)
        return x.transpose(1, 2).reshape(n, c, h, w)


def edgenext(size: int) -> Made:
    """Build EdgeNeXt-XX-small: depthwise encoders with layer norm, and attention of channels."""

    def encoder(c: int, kernel: int) -> nn.Module:
        return Residual(
            nn.Conv2d(c, c, kernel, padding=kernel // 2, groups=c),
            ChannelNorm(c, eps=1e-6),
            nn.Conv2d(c, 4 * c, 1),
            nn.GELU(),
            nn.Conv2d(4 * c, c, 1),
            Scale(c),
        )

    layers: list[nn.Module] = [nn.Conv2d(3, 24, 4, 4), ChannelNorm(24, eps=1e-6)]
    cin = 24
    for i, (c, repeats) in enumerate(((24, 2), (48, 2), (88, 6), (168, 2))):
        if i:
            layers += [ChannelNorm(cin, eps=1e-6), nn.Conv2d(cin, c, 2, 2)]
        layers += [encoder(c, 3 + 2 * i) for _ in range(repeats - 1 if i else repeats)]
        layers += [ChannelAttention(c)] if i else []
        cin = c
    return nn.Sequential(*layers, *classifier(cin)), image(size)


def mobilevit(size: int) -> Made:
    from transformers import MobileViTConfig, MobileViTModel

    net = MobileViTModel(
        MobileViTConfig(
            image_size=size,
            hidden_sizes=[64, 80, 96],
            neck_hidden_sizes=[16, 16, 24, 48, 64, 80, 320],
            expand_ratio=2.0,
        )
    )
    return Fn(lambda x, net: net(x).pooler_output, net=net), image(size)


def deit_tiny(size: int = 224) -> Made:
    from transformers import ViTConfig, ViTModel

    net = ViTModel(
        ViTConfig(
            hidden_size=192,
            intermediate_size=768,
            num_hidden_layers=12,
            num_attention_heads=3,
            image_size=size,
        )
    )
    return Fn(lambda x, net: net(x).pooler_output, net=net), image(size)


def swin(size: int) -> Made:
    from transformers import SwinConfig, SwinModel

    net = SwinModel(SwinConfig(image_size=size, window_size=4 if size % 224 else 7))
    return Fn(lambda x, net: net(x).pooler_output, net=net), image(size)


def mlp_mixer(size: int) -> Made:
    width, tokens = 256, (size // 16) ** 2

    def mlp(n: int, hidden: int) -> list[nn.Module]:
        return [nn.Linear(n, hidden), nn.GELU(), nn.Linear(hidden, n)]

    transpose: Callable[[], nn.Module] = lambda: Fn(lambda x: x.transpose(1, 2))  # noqa: E731
    layers: list[nn.Module] = [nn.Conv2d(3, width, 16, 16), nn.Flatten(2), transpose()]
    for _ in range(8):
        layers += [
            Residual(nn.LayerNorm(width), transpose(), *mlp(tokens, 128), transpose()),
            Residual(nn.LayerNorm(width), *mlp(width, 1024)),
        ]
    mean = Fn(lambda x: x.mean(1))
    return nn.Sequential(*layers, nn.LayerNorm(width), mean, nn.Linear(width, 1000)), image(size)
