"""Models for Core ML: the operators that coremltools emits, and programs lowered from them."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.models.blocks import Accumulator, Recurrent


class UNet(nn.Module):
    """conv, silu, group norm, conv_transpose, concat, both upsamplings."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1, stride=2)
        self.norm, self.up = nn.GroupNorm(2, 16), nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.out = nn.Conv2d(16, 4, 3, padding=1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a = F.silu(self.a(x))
        b = F.silu(self.norm(self.b(a)))
        near = F.interpolate(b, scale_factor=2.0, mode="nearest")
        wide = F.interpolate(b, scale_factor=2.0, mode="bilinear", align_corners=False)
        return self.out(torch.cat([a, self.up(b)], 1)), near + wide


class Gru(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(8, 12, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor) -> Any:
        return self.gru(x)[0]


class Transformer(nn.Module):
    """Embedding, attention with a causal mask (one operator on iOS 18)."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.norm = nn.Embedding(50, 32), nn.LayerNorm(32)
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.norm(self.table(tokens))
        n, length, width = x.shape
        q, k, v = (
            part.reshape(n, length, 4, 8).transpose(1, 2) for part in self.qkv(x).chunk(3, -1)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(n, length, width))


class Sums(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        root = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        pair = torch.stack([root[..., :16], torch.cos(root[..., ::2])], -1).flatten(-2)
        return (
            *(pair, x.cumsum(-1), x.amax(-1), x.sum(-1, keepdim=True), x.prod(-1), x.var(-1)),
            *(x.norm(dim=-1), F.normalize(x, dim=1), x.min(-1)[0], (x > 0).any(-1)),
            *(x.argmax(-1, keepdim=True), x.topk(3, -1)[0], x.sort(-1)[0]),
            *(x.argmin(0), x.argsort(1), x.logsumexp(-1), x.logsumexp((0, 2), keepdim=True)),
            *((90 * x).logsumexp(1), (x.abs() / -0.0).logsumexp(0)),
        )


class Moves(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return (
            F.pad(x, (1, 2, 0, 1), value=0.5),
            F.pad(x, (1, 1, 1, 1), mode="reflect"),
            F.pad(x, (1, 1, 1, 1), mode="replicate"),
            x.repeat(1, 1, 2, 1),
            x[:, :, 1:3, ::2],
            x.flip(-1),
            torch.roll(x, 1, -1),
            F.pixel_shuffle(x, 2),
            x.expand(2, -1, -1, -1).contiguous(),
            *x.split([1, 3], 1),
            *x.unbind(1),
            x.permute(0, 2, 3, 1),
            torch.einsum("bcij,bcjk->bcik", x, x),
        )


PLACES = torch.tensor([[2, 0, 1]] * 4)


class Indices(nn.Module):
    def forward(self, x: Tensor, i: Tensor) -> tuple[Tensor, ...]:
        return (
            *(x.gather(1, i), x.index_select(0, i[:, 0]), F.one_hot(i, 8).float()),
            *(x.scatter(1, PLACES, x[:, :3]), x.scatter_add(1, i, x[:, :3])),
            *(torch.where(x > 0, x, -x), x.masked_fill(x > 0, 1.0), (x > 0) & (x < 1)),
        )


class Activations(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return (
            *(F.elu(x), F.softplus(x), F.hardsigmoid(x), F.mish(x), F.gelu(x), F.softsign(x)),
            *(torch.log(x.abs() + 1), x.clamp(min=0.1), x % 2.0, torch.floor_divide(x, 0.7)),
            *(F.prelu(x, torch.tensor([0.2])), F.leaky_relu(x), x.sign() * x.ceil()),
            *(torch.atan2(x, x + 1), torch.full_like(x, 2) + x, x.tril()),
            *(F.hardswish(x), F.relu6(x), F.log_softmax(x, -1)),
        )


class Windows(nn.Module):
    """Windows of one, two and three dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.three = nn.Conv1d(3, 4, 3, padding=1), nn.Conv3d(3, 4, 3, padding=1)
        self.back1 = nn.ConvTranspose1d(4, 3, 4, stride=2, padding=1, output_padding=1)
        self.back2 = nn.ConvTranspose2d(3, 6, 3, stride=2, padding=1, groups=3)
        self.norm = nn.InstanceNorm2d(3, affine=True)

    def forward(self, a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        wide = F.interpolate(c, size=(12, 12), mode="bilinear", align_corners=True)
        return (
            *(self.back1(F.avg_pool1d(self.one(a), 2, 2)), F.max_pool1d(self.one(a), 2, 2)),
            *(F.avg_pool3d(self.three(b), 2, 2), F.max_pool3d(self.three(b), 2, 2)),
            *(self.back2(c), F.avg_pool2d(c, 3, 2, 1), wide, self.norm(c)),
            F.avg_pool2d(c, 3, 2, 1, count_include_pad=False),
            F.adaptive_avg_pool2d(c, 1),
            *(F.max_pool2d(c, 3, 2, 1, ceil_mode=True), F.local_response_norm(c, 3)),
        )


class Cache(nn.Module):
    """A cache that is written at a computed position."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(1, 6, 8))

    def forward(self, x: Tensor, position: Tensor) -> Tensor:
        self.keys[:, position] = x
        return self.keys.sum(1)


def lstm() -> nn.Module:
    return Recurrent(nn.LSTM, 8, 12, 4, layers=1, of_all=True)


def state() -> nn.Module:
    """Build a model whose state Core ML keeps in float16: the test's inputs are small integers."""
    return Accumulator(4, 8)


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape)


@dataclass(frozen=True)
class Row:
    make: Callable[[], nn.Module]
    inputs: Callable[[], tuple[Tensor, ...]]
    ios: int = 17
    half: bool = False

    @property
    def id(self) -> str:
        return f"{self.make.__name__.lower()}-ios{self.ios}{'-fp16' if self.half else ''}"


ROWS = [
    Row(UNet, lambda: (draw(1, 3, 16, 16),)),
    Row(UNet, lambda: (draw(1, 3, 16, 16),), 18, half=True),
    Row(lstm, lambda: (draw(2, 5, 8),)),
    Row(Gru, lambda: (draw(2, 4, 8),)),
    Row(Transformer, lambda: (torch.randint(0, 50, (2, 6)),)),
    Row(Transformer, lambda: (torch.randint(0, 50, (2, 6)),), 18),
    Row(Sums, lambda: (draw(2, 6, 32),)),
    Row(Moves, lambda: (draw(1, 4, 6, 6),)),
    Row(Indices, lambda: (draw(4, 8), torch.randint(0, 4, (4, 3)))),
    Row(Activations, lambda: (draw(4, 8),)),
    Row(Windows, lambda: (draw(1, 3, 8), draw(1, 3, 4, 4, 4), draw(1, 3, 8, 8))),
    Row(state, lambda: (torch.arange(32.0).reshape(4, 8),), 18),
    Row(Cache, lambda: (torch.arange(8.0).reshape(1, 1, 8), torch.tensor([2])), 18),
]


def lower(
    programs: Any,
    ios: int = 17,
    half: bool = False,
    weights: Any = None,
    shared: bool = False,
    more: Any = None,
) -> bytes:
    """Return the program of an ExportedProgram, or of several methods by name."""
    import coremltools as ct
    from executorch.backends.apple.coreml.compiler import CoreMLBackend
    from executorch.backends.apple.coreml.compiler.coreml_preprocess import (
        MULTIMETHOD_WEIGHT_SHARING_STRATEGY as STRATEGY,
    )
    from executorch.backends.apple.coreml.partition import CoreMLPartitioner
    from executorch.exir import to_edge_transform_and_lower

    specs = CoreMLBackend.generate_compile_specs(
        minimum_deployment_target=getattr(ct.target, f"iOS{ios}"),
        compute_precision=ct.precision.FLOAT16 if half else ct.precision.FLOAT32,
        op_linear_quantizer_config=weights,
    )
    if shared:
        specs.append(
            CoreMLBackend.generate_multimethod_weight_sharing_strategy_compile_spec(
                STRATEGY.POSITIONAL
            )
        )
    specs.extend(more or ())
    partitioner = CoreMLPartitioner(compile_specs=specs, lower_full_graph=more is not None)
    each = (
        {name: [partitioner] for name in programs} if isinstance(programs, dict) else [partitioner]
    )
    return bytes(to_edge_transform_and_lower(programs, partitioner=each).to_executorch().buffer)


Step = Callable[[Any], Any]
"""A change of coremltools' model before it is written."""


def palettize(joint: bool = False, **options: Any) -> Step:
    from coremltools.optimize import coreml as tools

    config = tools.OpPalettizerConfig(weight_threshold=0, **options)
    return lambda model: tools.palettize_weights(
        model, tools.OptimizationConfig(global_config=config), joint_compression=joint
    )


def decompress(model: Any) -> Any:
    from coremltools.optimize import coreml as tools

    return tools.decompress_weights(model)


@contextmanager
def converting(steps: Iterable[Step]) -> Iterator[None]:
    """Have coremltools' models go through steps before they are written."""
    from executorch.backends.apple.coreml.compiler import CoreMLBackend

    original, steps = CoreMLBackend._convert_to_mlmodel, list(steps)

    def converted(*args: Any, **options: Any) -> Any:
        model = original(*args, **options)
        for step in steps:
            model = step(model)
        return model

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CoreMLBackend, "_convert_to_mlmodel", staticmethod(converted))
        yield
