"""Rows for VulkanBackend: modules, exported at test time by the official partitioner.

`load` exports a row, or reads it from the cache, with eager's outputs of the lowered module.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests import kept
from tests.exports import lowered, quantized

FLOAT16 = {"force_fp16": True}


class Fn(nn.Module):
    """A function of tensors as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Tensor) -> Any:
        return self.function(*args)


class Counter(nn.Module):
    """A module that adds its input to a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.ones(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        self.total.add_(x)
        return self.total * 2


class Block(nn.Module):
    """An inverted residual of a mobile network."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(8, 16, 1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU6(),
            nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False),
            nn.BatchNorm2d(16),
            nn.Hardswish(),
            nn.Conv2d(16, 8, 1),
            nn.BatchNorm2d(8),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x)


class Transformer(nn.Module):
    """A block of a transformer, without operators that stay outside."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.out = nn.LayerNorm(32), nn.Linear(32, 32)
        self.qkv = nn.Linear(32, 96)
        self.feed = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm(x)).split(32, -1)
        weights = torch.softmax(torch.bmm(q, k.transpose(1, 2)) / 6.0, -1)
        x = x + self.out(torch.bmm(weights, v))
        return x + self.feed(x)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.last = nn.LSTM(6, 8, batch_first=True), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.last(self.inner(x)[0])
        return y


class UNet(nn.Module):
    """Two scales, with a concatenation."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.low = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.up = nn.Conv2d(16, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        high = F.relu(self.down(x))
        low = F.relu(self.low(F.max_pool2d(high, 2)))
        return self.up(torch.cat([high, F.interpolate(low, scale_factor=2)], 1))


@dataclass(frozen=True)
class Row:
    """A module with the operators that must be in its payload."""

    name: str
    make: Callable[[], Callable[..., Any]]
    shapes: Sequence[tuple[int, ...]]
    ops: Sequence[str]
    scheme: str = "float"
    options: Mapping[str, Any] = field(default_factory=dict)
    dims: Mapping[int, Mapping[int, int]] = field(default_factory=dict)
    """Dynamic dimensions by input: their largest sizes."""
    draw: Callable[[tuple[int, ...]], Tensor] = torch.randn
    calls: int = 1
    rtol: float = 1e-5
    steps: int = 0
    """Results that may differ by one quantisation step: their number."""

    @property
    def id(self) -> str:
        return f"{self.name}-{self.scheme}" + ("-fp16" if self.options == FLOAT16 else "")


def integers(shape: tuple[int, ...]) -> Tensor:
    return torch.randint(0, 5, shape)


IMAGE = (1, 3, 8, 8)


def _linear() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 32))


def _image_net() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 12, 3, stride=2, padding=1),
        nn.ReLU(),
    )


def _rotary(name: str) -> nn.Module:
    """Return a function of Llama's example, whose operators the partitioner makes one."""
    from executorch.examples.models.llama import rope

    return Fn(getattr(rope, name))


def _fused(name: str, *arguments: Any) -> nn.Module:
    """Return an operator of the delegate, called by name, as WebGPU's models do."""
    import executorch.backends.vulkan.custom_ops_lib  # noqa: F401

    return Fn(lambda *tensors: getattr(torch.ops.et_vk, name)(*tensors, *arguments))


HEADS = (1, 2, 6, 8)

FLOAT_ROWS = [
    Row("lstm", Recurrent, [(1, 4, 6)], ["aten.sigmoid.default", "aten.tanh.default"]),
    Row(
        "rotary",
        lambda: _rotary("apply_rotary_emb"),
        [(1, 5, 4, 8), (1, 5, 2, 8), (5, 4), (5, 4)],
        ["et_vk.apply_rotary_emb.default"],
    ),
    Row(
        "rotary_hf",
        lambda: _rotary("hf_apply_rotary_emb"),
        [(1, 5, 4, 8), (1, 5, 2, 8), (5, 8), (5, 8)],
        ["et_vk.apply_rotary_emb_hf.default"],
    ),
    Row(
        "rotary_partial",
        lambda: _rotary("hf_apply_rotary_emb"),
        [(1, 5, 4, 8), (1, 5, 2, 8), (5, 6), (5, 6)],
        ["et_vk.apply_rotary_emb_hf.default"],
    ),
    Row(
        "rotary_pairs",
        lambda: _fused("apply_rotary_emb_interleaved"),
        [(2, 3, 8), (3, 8)],
        ["et_vk.apply_rotary_emb_interleaved.default"],
    ),
    Row("sdpa", lambda: _fused("sdpa"), [HEADS] * 3, ["et_vk.sdpa.default"]),
    Row(
        "sdpa_mask",
        lambda: _fused("sdpa", 0.3),
        [*[HEADS] * 3, (1, 1, 6, 6)],
        ["et_vk.sdpa.default"],
    ),
    Row("mlp", _linear, [(4, 64)], ["aten.linear.default", "aten.relu.default"]),
    Row("cnn", _image_net, [IMAGE], ["et_vk.conv_with_clamp.default"]),
    Row(
        "block", Block, [(1, 8, 8, 8)], ["et_vk.conv_with_clamp.default", "aten.hardswish.default"]
    ),
    Row(
        "transformer",
        Transformer,
        [(1, 6, 32)],
        ["aten.native_layer_norm.default", "aten.bmm.default", "aten._softmax.default"],
    ),
    Row("unet", UNet, [IMAGE], ["aten.cat.default", "aten.upsample_nearest2d.vec"]),
    Row(
        "conv1d", lambda: nn.Conv1d(4, 6, 3, padding=1), [(1, 4, 10)], ["aten.convolution.default"]
    ),
    Row(
        "transposed",
        lambda: nn.ConvTranspose2d(3, 5, 3, 2, 1, 1),
        [IMAGE],
        ["aten.convolution.default"],
    ),
    Row(
        "pools",
        lambda: Fn(lambda x: F.avg_pool2d(x, 3, 2, 1) + F.max_pool2d(x, 2)),
        [IMAGE],
        ["aten.avg_pool2d.default"],
    ),
    Row(
        "group_norm", lambda: nn.GroupNorm(2, 4), [(1, 4, 6, 6)], ["aten.native_group_norm.default"]
    ),
    Row(
        "arithmetic",
        lambda: Fn(lambda x, y: (x * y - x / (y * y + 1)).tanh() + x.exp().sqrt()),
        [(2, 3), (2, 3)],
        ["aten.mul.Tensor", "aten.div.Tensor", "aten.tanh.default"],
    ),
    Row(
        "compare",
        lambda: Fn(lambda x, y: torch.where(x > y, x, y * 2)),
        [(2, 3), (2, 3)],
        ["aten.gt.Tensor", "aten.where.self"],
    ),
    Row(
        "reduce",
        lambda: Fn(lambda x: (x.mean(1, True), x.sum(2, True), x.amax(1, True))),
        [(2, 3, 4)],
        ["aten.mean.dim", "aten.sum.dim_IntList", "aten.amax.default"],
    ),
    Row("arg", lambda: Fn(lambda x: x.argmax(-1, True)), [(2, 3, 4)], ["aten.argmax.default"]),
    Row(
        "moves",
        lambda: Fn(lambda x: torch.cat([x.permute(0, 2, 1), x.flip(1)[:, :3]], 2)),
        [(2, 4, 3)],
        ["aten.permute_copy.default", "aten.flip.default"],
    ),
    Row(
        "split",
        lambda: Fn(lambda x: sum(x.split([1, 2, 1], 1)[i].sum(1, True) for i in range(3))),
        [(2, 4, 3)],
        ["aten.split_with_sizes_copy.default"],
    ),
    Row(
        "views",
        lambda: Fn(lambda x: x.view(2, 12).unsqueeze(0).expand(3, 2, 12).repeat(1, 1, 2)),
        [(2, 3, 4)],
        ["aten.expand_copy.default", "aten.repeat.default"],
    ),
    Row(
        "pad",
        lambda: Fn(lambda x: F.pixel_shuffle(F.pad(x, (1, 1, 0, 2)), 2)),
        [(1, 4, 4, 6)],
        ["aten.constant_pad_nd.default", "aten.pixel_shuffle.default"],
    ),
    Row(
        "bilinear",
        lambda: Fn(lambda x: F.interpolate(x, (12, 10), mode="bilinear")),
        [IMAGE],
        ["aten.upsample_bilinear2d.vec"],
    ),
    Row(
        "embedding", lambda: nn.Embedding(5, 8), [(2, 3)], ["aten.embedding.default"], draw=integers
    ),
    Row("rms_norm", lambda: nn.RMSNorm(16, eps=1e-5), [(2, 4, 16)], []),
    Row("dynamic", _linear, [(4, 64)], ["aten.linear.default"], dims={0: {0: 9}}),
    Row(
        "dynamic_views",
        lambda: Fn(lambda x: x.view(x.shape[0] * 2, 8).sum(1)),
        [(3, 16)],
        ["sym_size.int"],
        dims={0: {0: 7}},
    ),
    Row(
        "state",
        Counter,
        [(2, 3)],
        ["aten.add.Tensor"],
        options={"alias_buffer_mutations": True},
        calls=3,
    ),
]

QUANTIZED_ROWS = [
    Row("mlp", _linear, [(4, 64)], ["aten._weight_int8pack_mm.default"], "w8"),
    Row("mlp", _linear, [(4, 64)], ["et_vk.linear_qcs4w.default"], "w4"),
    Row("mlp", _linear, [(4, 64)], [], "8da8w"),
    Row("mlp", _linear, [(4, 64)], ["et_vk.linear_q4gsw.default"], "4w"),
    Row("mlp", _linear, [(4, 64)], ["et_vk.linear_dq8ca_q4gsw.default"], "8da4w"),
    Row("mlp", _linear, [(4, 64)], ["et_vk.q8ta_linear.default"], "static8", steps=2),
    Row("row", _linear, [(1, 64)], ["et_vk.q8ta_linear_gemv.default"], "static8", steps=2),
    Row("cnn", _image_net, [IMAGE], ["et_vk.q8ta_conv2d.default"], "static8", steps=2),
    Row(
        "odd",
        lambda: nn.Sequential(
            nn.Conv2d(3, 5, (3, 2), dilation=(1, 2)), nn.ReLU(), nn.Conv2d(5, 6, 1)
        ),
        [(1, 3, 9, 7)],
        ["et_vk.q8ta_conv2d.default", "et_vk.q8ta_conv2d_pw.default"],
        "static8",
        steps=2,
    ),
    Row("block", Block, [(1, 8, 8, 8)], ["et_vk.q8ta_conv2d_dw.default"], "static8", steps=4),
    Row("unet", UNet, [IMAGE], ["et_vk.q8ta_conv2d.default"], "static8", steps=4),
    Row(
        "transformer", Transformer, [(1, 6, 32)], ["et_vk.q8ta_linear.default"], "static8", steps=4
    ),
    Row("transformer", Transformer, [(1, 6, 32)], ["aten._weight_int8pack_mm.default"], "w8"),
    Row("transformer", Transformer, [(1, 6, 32)], ["et_vk.linear_qcs4w.default"], "w4"),
    Row("transformer", Transformer, [(1, 6, 32)], ["et_vk.linear_q4gsw.default"], "4w"),
    Row("transformer", Transformer, [(1, 6, 32)], ["et_vk.linear_dq8ca_q4gsw.default"], "8da4w"),
    Row("lstm", Recurrent, [(1, 4, 6)], [], "static8", steps=4),
    Row("lstm", Recurrent, [(1, 4, 6)], [], "w8"),
    Row("lstm", Recurrent, [(1, 4, 6)], [], "w4"),
]

HALF_ROWS = [
    Row(row.name, row.make, row.shapes, row.ops, options=FLOAT16, draw=row.draw, rtol=3e-3)
    for row in FLOAT_ROWS
    if row.name in {"mlp", "cnn", "block", "transformer", "unet", "group_norm", "compare", "lstm"}
]
ROWS = [*FLOAT_ROWS, *QUANTIZED_ROWS, *HALF_ROWS]


def _weights(module: Any, inputs: tuple[Any, ...], **config: Any) -> Any:
    from executorch.backends.vulkan.quantizer import vulkan_quantizer as vulkan

    settings = vulkan.get_symmetric_quantization_config(**config)
    return quantized(module, inputs, vulkan.VulkanQuantizer().set_global(settings))


def _static(module: Any, inputs: tuple[Any, ...]) -> Any:
    from executorch.backends.xnnpack.quantizer import xnnpack_quantizer as xnnpack

    settings = xnnpack.get_symmetric_quantization_config(is_per_channel=True)
    return quantized(module, inputs, xnnpack.XNNPACKQuantizer().set_global(settings))


def _torchao(module: Any, dynamic: bool) -> Any:
    from torchao.quantization import quant_api
    from torchao.quantization.granularity import PerGroup
    from torchao.utils import unwrap_tensor_subclass

    if dynamic:
        config = quant_api.Int8DynamicActivationIntxWeightConfig(
            weight_dtype=torch.int4, weight_granularity=PerGroup(16)
        )
    else:
        config = quant_api.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(16))
    quant_api.quantize_(module, config)
    return unwrap_tensor_subclass(module)


SCHEMES: dict[str, Callable[[Any, tuple[Any, ...]], Any]] = {
    "float": lambda module, inputs: module,
    "w8": lambda module, inputs: _weights(module, inputs, is_dynamic=False, weight_bits=8),
    "w4": lambda module, inputs: _weights(module, inputs, is_dynamic=False, weight_bits=4),
    "8da8w": lambda module, inputs: _weights(module, inputs, is_dynamic=True, weight_bits=8),
    "4w": lambda module, inputs: _torchao(module, False),
    "8da4w": lambda module, inputs: _torchao(module, True),
    "static8": _static,
}


@dataclass
class Loaded:
    """An exported row: its program, and the inputs and eager's outputs of each call."""

    pte: bytes
    calls: list[tuple[list[np.ndarray], list[np.ndarray]]]


def lower(
    module: Any, inputs: tuple[Any, ...], options: Mapping[str, Any], dims: Any = None
) -> bytes:
    """Return the program of a module, lowered by VulkanPartitioner."""
    from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner

    partitioner = [VulkanPartitioner(dict(options))]
    return lowered(module, *inputs, dynamic_shapes=dims, partitioner=partitioner)


def _arrays(values: Any) -> list[np.ndarray]:
    flat = values if isinstance(values, (tuple, list)) else [values]
    return [value.detach().numpy().copy() for value in flat]


def _dims(row: Row) -> Any:
    if not row.dims:
        return None
    dims = tuple(
        {
            d: torch.export.Dim(f"d{i}_{d}", min=1, max=most)
            for d, most in row.dims.get(i, {}).items()
        }
        for i in range(len(row.shapes))
    )
    return (dims,) if isinstance(row.make(), Fn) else dims


def _size(bound: int | None, size: int, most: bool) -> int:
    """Return the largest or smallest size of a dimension."""
    return size if bound is None else bound if most else 1


def _export(row: Row) -> Loaded:
    logging.getLogger().setLevel(logging.WARNING)
    torch.manual_seed(0)
    made = row.make()
    module = (made if isinstance(made, nn.Module) else Fn(made)).eval()
    inputs = tuple(row.draw(shape) for shape in row.shapes)
    module = SCHEMES[row.scheme](module, inputs)
    pte = lower(module, inputs, row.options, _dims(row))
    sizes = [row.shapes] * row.calls
    if row.dims:
        for most in (True, False):
            sizes.append(
                [
                    tuple(_size(row.dims.get(i, {}).get(d), n, most) for d, n in enumerate(shape))
                    for i, shape in enumerate(row.shapes)
                ]
            )
    calls = []
    with torch.no_grad():
        for shapes in sizes:
            given = tuple(row.draw(shape) for shape in shapes)
            calls.append((_arrays(given), _arrays(module(*given))))
    return Loaded(pte, calls)


def load(row: Row) -> Loaded:
    key = kept.digest(Path(__file__), packages=("torch", "executorch", "torchao"))
    return kept.pickled(f"vulkan-{row.id}-{key}", lambda: _export(row))
