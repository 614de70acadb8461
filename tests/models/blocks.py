"""Parts of architectures: blocks of convolutions, of attention, of recurrence."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Fn(nn.Module):
    """A module around a function of its inputs and of submodules, parameters (`nn.Parameter`) and
    buffers (`nn.Buffer`); those of a closure would stay the original's in a copy."""

    def __init__(self, function: Callable[..., Any], **parts: nn.Module | Tensor) -> None:
        super().__init__()
        self.function, self.names = function, list(parts)
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *args: Any) -> Any:
        return self.function(*args, *[getattr(self, name) for name in self.names])


def conv_bn(
    cin: int,
    cout: int,
    kernel: int = 3,
    act: Callable[[], nn.Module] = nn.ReLU,
    stride: int = 1,
    groups: int = 1,
) -> nn.Sequential:
    """Build a convolution, batch norm and activation."""
    conv = nn.Conv2d(cin, cout, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(cout), act())


def with_statistics(model: nn.Module) -> nn.Module:
    """Return the model, whose batch norms get statistics that are not the identity's."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.1, 0.1)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
    return model


class Classifier(nn.Module):
    """Features, global average pool, linear head."""

    def __init__(self, features: nn.Module, channels: int, classes: int) -> None:
        super().__init__()
        self.features, self.pool = features, nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.pool(self.features(x)).flatten(1))


class BasicBlock(nn.Module):
    """Two convolutions and a shortcut."""

    def __init__(self, cin: int, cout: int, stride: int) -> None:
        super().__init__()
        self.conv1 = conv_bn(cin, cout, stride=stride)
        self.conv2 = conv_bn(cout, cout, act=nn.Identity)
        same = stride == 1 and cin == cout
        self.down = nn.Identity() if same else conv_bn(cin, cout, 1, nn.Identity, stride)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.conv2(self.conv1(x)) + self.down(x))


class MBConv(nn.Module):
    """Inverted residual, optionally with squeeze and excitation."""

    def __init__(
        self,
        cin: int,
        cout: int,
        stride: int,
        expand: int,
        kernel: int,
        act: Callable[[], nn.Module],
        squeeze: bool,
    ) -> None:
        super().__init__()
        mid = cin * expand
        self.residual = stride == 1 and cin == cout
        self.expand = conv_bn(cin, mid, 1, act) if expand > 1 else nn.Identity()
        self.depthwise = conv_bn(mid, mid, kernel, act, stride, mid)
        self.squeeze = (
            nn.Sequential(
                nn.AdaptiveAvgPool2d(1),
                nn.Conv2d(mid, max(1, cin // 4), 1),
                nn.SiLU(),
                nn.Conv2d(max(1, cin // 4), mid, 1),
                nn.Sigmoid(),
            )
            if squeeze
            else None
        )
        self.project = conv_bn(mid, cout, 1, nn.Identity)

    def forward(self, x: Tensor) -> Tensor:
        y = self.depthwise(self.expand(x))
        if self.squeeze is not None:
            y = y * self.squeeze(y)
        y = self.project(y)
        return x + y if self.residual else y


Stage = tuple[int, int, int, int, int]
"""(expansion, channels, repeats, first stride, kernel) of each stage."""

MOBILENET_V2: list[Stage] = [
    *((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 32, 3, 2, 3), (6, 64, 4, 2, 3), (6, 96, 3, 1, 3)),
    *((6, 160, 3, 2, 3), (6, 320, 1, 1, 3)),
]
EFFICIENTNET_B0: list[Stage] = [
    *((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3)),
    *((6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)),
]


def inverted(
    stages: Sequence[Stage],
    width: float,
    classes: int,
    act: Callable[[], nn.Module],
    squeeze: bool,
    multiple: int = 4,
) -> Classifier:
    """Build a stem, stages of inverted residuals and a head; numbers of channels are multiples of
    a number."""

    def scaled(channels: int) -> int:
        return max(multiple, int(channels * width + multiple // 2) // multiple * multiple)

    cin = scaled(32)
    layers: list[nn.Module] = [conv_bn(3, cin, 3, act, 2)]
    for expand, channels, repeats, stride, kernel in stages:
        for i in range(repeats):
            step = stride if i == 0 else 1
            layers.append(MBConv(cin, scaled(channels), step, expand, kernel, act, squeeze))
            cin = scaled(channels)
    head = scaled(1280)
    return Classifier(nn.Sequential(*layers, conv_bn(cin, head, 1, act)), head, classes)


def resnet(width: int, classes: int, depths: Sequence[int] = (2, 2, 2, 2)) -> Classifier:
    """Build a ResNet of basic blocks; 18 layers by default."""
    layers: list[nn.Module] = [conv_bn(3, width, 7, stride=2), nn.MaxPool2d(3, 2, 1)]
    cin = width
    for stage, depth in enumerate(depths):
        for i in range(depth):
            cout = width << stage
            layers.append(BasicBlock(cin, cout, 2 if stage and not i else 1))
            cin = cout
    return Classifier(nn.Sequential(*layers), cin, classes)


class ShuffleUnit(nn.Module):
    """Split, two branches, concatenation, shuffle of channels."""

    def __init__(self, cin: int, cout: int, stride: int) -> None:
        super().__init__()
        self.stride, half = stride, cout // 2
        first = cin if stride > 1 else half
        if stride > 1:
            self.branch1 = nn.Sequential(
                *conv_bn(cin, cin, 3, nn.Identity, stride, cin), *conv_bn(cin, half, 1)
            )
        self.branch2 = nn.Sequential(
            *conv_bn(first, half, 1),
            *conv_bn(half, half, 3, nn.Identity, stride, half),
            *conv_bn(half, half, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        if self.stride > 1:
            y = torch.cat((self.branch1(x), self.branch2(x)), 1)
        else:
            kept, rest = x.chunk(2, 1)
            y = torch.cat((kept, self.branch2(rest)), 1)
        n, c, h, w = y.shape
        return y.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


class DenseBlock(nn.Module):
    """A block whose layers read the outputs of all earlier layers."""

    def __init__(self, cin: int, growth: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.BatchNorm2d(cin + i * growth),
                nn.ReLU(),
                nn.Conv2d(cin + i * growth, growth, 3, padding=1, bias=False),
            )
            for i in range(layers)
        )

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.cat((x, layer(x)), 1)
        return x


class ConvNextBlock(nn.Module):
    """Large depthwise kernel, layer norm over channels, two linear layers, layer scale."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.up, self.down = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)
        self.scale = nn.Parameter(torch.full((channels,), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.scale * self.down(F.gelu(self.up(y)))
        return x + y.permute(0, 3, 1, 2)


class UNet(nn.Module):
    """Two levels down, two levels up by transposed convolution, skip connections."""

    def __init__(
        self, width: int = 8, classes: int = 2, last: Callable[[], nn.Module] = nn.Sigmoid
    ) -> None:
        super().__init__()
        w = width
        self.down = nn.ModuleList([conv_bn(3, w), conv_bn(w, 2 * w)])
        self.middle = conv_bn(2 * w, 4 * w)
        up = nn.ConvTranspose2d(4 * w, 2 * w, 2, 2), nn.ConvTranspose2d(2 * w, w, 4, 2, 1)
        self.up = nn.ModuleList(up)
        self.merge = nn.ModuleList([conv_bn(4 * w, 2 * w), conv_bn(2 * w, w)])
        self.head, self.last = nn.Conv2d(w, classes, 1), last()

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for block in self.down:
            x = block(x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.middle(x)
        for up, merge in zip(self.up, self.merge, strict=True):
            x = merge(torch.cat([up(x), skips.pop()], 1))
        return self.last(self.head(x))


class Recurrent(nn.Module):
    """A recurrent layer and a head on its last state, or on all."""

    def __init__(
        self,
        cell: type[nn.LSTM] | type[nn.GRU],
        inputs: int = 12,
        hidden: int = 16,
        outputs: int = 6,
        layers: int = 2,
        of_all: bool = False,
    ) -> None:
        super().__init__()
        self.rnn = cell(inputs, hidden, num_layers=layers, batch_first=True)
        self.head, self.of_all = nn.Linear(hidden, outputs), of_all

    def forward(self, x: Tensor) -> Tensor:
        states = self.rnn(x)[0]
        return self.head(states if self.of_all else states[:, -1])


class Accumulator(nn.Module):
    """The sum of all inputs so far, times a factor."""

    def __init__(self, *shape: int, factor: float = 2) -> None:
        super().__init__()
        self.factor = factor
        self.register_buffer("total", torch.zeros(shape))

    def forward(self, x: Tensor) -> Tensor:
        self.total.add_(x)
        return self.total * self.factor


class Attention(nn.Module):
    """Multi-head attention, optionally with an additive mask of -1e9, -1e4 or finfo.min."""

    def __init__(self, dim: int, heads: int, mask: float | None = None) -> None:
        super().__init__()
        self.heads, self.mask = heads, mask
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        n, t, d = x.shape
        qkv = self.qkv(x).view(n, t, 3, self.heads, d // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(-2, -1) / math.sqrt(d // self.heads)
        if self.mask is not None:
            scores = scores + torch.full((t, t), self.mask).triu(1)
        y = scores.softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(n, t, d))


class EncoderLayer(nn.Module):
    """Attention and two linear layers, normalised before each."""

    def __init__(self, dim: int, heads: int, mask: float | None = None) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(dim), Attention(dim, heads, mask)
        self.norm2 = nn.LayerNorm(dim)
        self.fc1, self.fc2 = nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class Vit(nn.Module):
    """Patches, position embedding, encoder, head on the first token."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 32, 8, 8)
        self.token = nn.Parameter(torch.randn(1, 1, 32) * 0.1)
        self.position = nn.Parameter(torch.randn(1, 17, 32) * 0.1)
        self.layers = nn.Sequential(*(EncoderLayer(32, 4) for _ in range(3)))
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), 1) + self.position
        return self.head(self.norm(self.layers(x))[:, 0])


class Gpt(nn.Module):
    """A causal language model, optionally with a masked vocabulary entry in its output."""

    def __init__(self, mask: float, masked: float | None = None, vocabulary: int = 50) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(vocabulary, 32), nn.Embedding(16, 32)
        self.layers = nn.Sequential(*(EncoderLayer(32, 4, mask) for _ in range(2)))
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, vocabulary, bias=False)
        self.masked = masked

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids) + self.place(torch.arange(ids.shape[1]))
        y = self.head(self.norm(self.layers(x)))
        if self.masked is not None:
            keep = torch.ones(y.shape[-1])
            keep[0] = 0
            y = y.masked_fill(keep == 0, self.masked)
        return y


class RmsNorm(nn.Module):
    """Root mean square norm."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class LlamaLayer(nn.Module):
    """Rotary attention with grouped queries, gated linear unit."""

    def __init__(self, dim: int, heads: int, groups: int) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, dim // heads
        self.norm1, self.norm2 = RmsNorm(dim), RmsNorm(dim)
        self.q, self.o = (nn.Linear(dim, dim, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(dim, groups * self.size, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(dim, 2 * dim, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * dim, dim, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        n, t, d = x.shape
        y = self.norm1(x)

        def turned(z: Tensor, heads: int) -> Tensor:
            z = z.view(n, t, heads, self.size).transpose(1, 2)
            a, b = z.chunk(2, -1)
            return z * cos + torch.cat((-b, a), -1) * sin

        q, k = turned(self.q(y), self.heads), turned(self.k(y), self.groups)
        v = self.v(y).view(n, t, self.groups, self.size).transpose(1, 2)
        k, v = (z.repeat_interleave(self.heads // self.groups, 1) for z in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(n, t, d))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """Two layers with untied weights."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(60, 32)
        self.layers = nn.ModuleList(LlamaLayer(32, 4, 2) for _ in range(2))
        self.norm, self.head = RmsNorm(32), nn.Linear(32, 60, bias=False)
        angles = torch.outer(torch.arange(16.0), 1 / 10000 ** (torch.arange(0, 8, 2) / 8))
        self.register_buffer("cos", torch.cat((angles, angles), -1).cos())
        self.register_buffer("sin", torch.cat((angles, angles), -1).sin())

    def forward(self, ids: Tensor) -> Tensor:
        t = ids.shape[1]
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, self.cos[:t], self.sin[:t])
        return self.head(self.norm(x))


class KvCache(nn.Module):
    """Attention over a cache that grows by one position a call."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.register_buffer("k", torch.zeros(1, 8, 16))
        self.register_buffer("v", torch.zeros(1, 8, 16))

    def forward(self, x: Tensor, position: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        self.k.index_copy_(1, position, k)
        self.v.index_copy_(1, position, v)
        scores = q @ self.k.transpose(1, 2) / 4
        seen = torch.arange(8) <= position
        scores = torch.where(seen, scores, torch.tensor(-1e9))
        return self.out(scores.softmax(-1) @ self.v)
