"""Segmentation, detection, restoration, generation, and sets of points."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.networks.vision import image
from tests.models.blocks import MOBILENET_V2, Fn, UNet, conv_bn, inverted

Made = tuple[nn.Module, tuple[Tensor, ...]]


def unet(size: int) -> Made:
    """Build a small U-Net with transposed convolutions."""
    return UNet(16), image(size)


class DeepLab(nn.Module):
    """Dilated convolutions at several rates next to a pooled branch, then interpolation."""

    def __init__(self, channels: int, classes: int = 21) -> None:
        super().__init__()
        self.body = inverted(MOBILENET_V2[:5], 1.0, 10, nn.ReLU6, False).features[:-1]
        self.branches = nn.ModuleList(
            [nn.Conv2d(channels, 128, 1)]
            + [nn.Conv2d(channels, 128, 3, padding=r, dilation=r) for r in (6, 12, 18)]
        )
        self.pooled = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, 128, 1))
        self.head = nn.Sequential(conv_bn(5 * 128, 128, 1), nn.Conv2d(128, classes, 1))

    def forward(self, x: Tensor) -> Tensor:
        size = x.shape[-2:]
        x = self.body(x)
        pooled = F.interpolate(self.pooled(x), x.shape[-2:], mode="nearest")
        logits = self.head(torch.cat([b(x).relu() for b in self.branches] + [pooled.relu()], 1))
        return F.interpolate(logits, size, mode="bilinear", align_corners=False)


def deeplab(size: int) -> Made:
    return DeepLab(96), image(size)


class Ssd(nn.Module):
    """Boxes and scores at four scales of separable convolutions."""

    def __init__(self, classes: int = 21, anchors: int = 6) -> None:
        super().__init__()
        self.classes = classes
        widths, layers = (32, 64, 128, 256, 256), [conv_bn(3, 32, 3, stride=2)]
        for cin, cout in zip(widths, widths[1:], strict=False):
            layers.append(
                nn.Sequential(
                    conv_bn(cin, cin, 3, stride=2, groups=cin),
                    conv_bn(cin, cout, 1),
                    conv_bn(cout, cout, 3, groups=cout),
                    conv_bn(cout, cout, 1),
                )
            )
        self.layers = nn.ModuleList(layers)
        self.boxes = nn.ModuleList(nn.Conv2d(c, anchors * 4, 3, padding=1) for c in widths[1:])
        self.scores = nn.ModuleList(
            nn.Conv2d(c, anchors * classes, 3, padding=1) for c in widths[1:]
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        n, boxes, scores = x.shape[0], [], []
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if i:
                box, score = self.boxes[i - 1](x), self.scores[i - 1](x)
                boxes.append(box.permute(0, 2, 3, 1).reshape(n, -1, 4))
                scores.append(score.permute(0, 2, 3, 1).reshape(n, -1, self.classes))
        return torch.cat(boxes, 1), torch.cat(scores, 1).softmax(-1)


def ssd(size: int) -> Made:
    return Ssd(), image(size)


def super_resolution(size: int) -> Made:
    """Build ESPCN for three times the size."""
    net = nn.Sequential(
        nn.Conv2d(1, 64, 5, padding=2),
        nn.Tanh(),
        nn.Conv2d(64, 32, 3, padding=1),
        nn.Tanh(),
        nn.Conv2d(32, 9, 3, padding=1),
        nn.PixelShuffle(3),
    )
    return net, (torch.randn(1, 1, size, size),)


def autoencoder(size: int) -> Made:
    """Build a convolutional autoencoder for noisy images."""
    net = nn.Sequential(
        nn.Conv2d(3, 32, 3, 2, 1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, 2, 1),
        nn.ReLU(),
        nn.Conv2d(64, 128, 3, 2, 1),
        nn.ReLU(),
        nn.ConvTranspose2d(128, 64, 4, 2, 1),
        nn.ReLU(),
        nn.ConvTranspose2d(64, 32, 4, 2, 1),
        nn.ReLU(),
        nn.ConvTranspose2d(32, 3, 4, 2, 1),
        nn.Sigmoid(),
    )
    return net, image(size)


class Vae(nn.Module):
    """A variational autoencoder that takes its noise as an input."""

    def __init__(self, size: int, latent: int = 32) -> None:
        super().__init__()
        self.encode = nn.Sequential(
            conv_bn(3, 32, 3, nn.LeakyReLU, 2), conv_bn(32, 64, 3, nn.LeakyReLU, 2), nn.Flatten()
        )
        flat = 64 * (size // 4) ** 2
        self.mean, self.spread = nn.Linear(flat, latent), nn.Linear(flat, latent)
        self.expand = nn.Linear(latent, flat)
        self.decode = nn.Sequential(
            nn.Unflatten(1, (64, size // 4, size // 4)),
            nn.Upsample(scale_factor=2),
            conv_bn(64, 32, 3, nn.LeakyReLU),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(32, 3, 3, padding=1),
            nn.Sigmoid(),
        )

    def forward(self, x: Tensor, noise: Tensor) -> Tensor:
        y = self.encode(x)
        return self.decode(self.expand(self.mean(y) + noise * (0.5 * self.spread(y)).exp()))


def vae(size: int) -> Made:
    return Vae(size), (*image(size), torch.randn(1, 32))


def pointnet(points: int) -> Made:
    """Build PointNet's classifier: the same perceptron for each point, and a maximum."""

    def shared(*widths: int) -> list[nn.Module]:
        pairs = zip(widths, widths[1:], strict=False)
        return [
            part for a, b in pairs for part in (nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU())
        ]

    net = nn.Sequential(
        *shared(3, 64, 64, 64, 128, 1024),
        Fn(lambda x: x.amax(2)),
        nn.Linear(1024, 512),
        nn.ReLU(),
        nn.Linear(512, 256),
        nn.ReLU(),
        nn.Linear(256, 40),
    )
    return net, (torch.randn(1, 3, points),)
