"""Rows for VulkanBackend: modules, exported at test time by the official partitioner. Models in
each scheme are in backends/flow_matrix.py.

`load` exports a row, or reads it from the cache, with eager's outputs of the lowered module.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests import kept
from tests.exports import lowered, quantized
from tests.models import blocks
from tests.models.blocks import Accumulator, Fn

FLOAT16 = {"force_fp16": True}


@dataclass(frozen=True)
class Row:
    """A module with the operators that must be in its payload."""

    name: str
    make: Callable[[], nn.Module]
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


def _row(
    name: str,
    make: Callable[[], nn.Module],
    shapes: Sequence[Any],
    ops: str,
    *scheme: str,
    **o: Any,
) -> Row:
    """Return a row; operators are of aten where they name no namespace."""
    names = [op if op.startswith(("et_vk.", "sym_")) else f"aten.{op}" for op in ops.split()]
    return Row(name, make, shapes, names, *scheme, **o)


HEADS, PAIR, CUBE = (1, 2, 6, 8), [(2, 3), (2, 3)], [(2, 3, 4)]
QUERIES = [(1, 5, 4, 8), (1, 5, 2, 8)]
ROPE, PAIRS = "et_vk.apply_rotary_emb", "apply_rotary_emb_interleaved"
ROPE_HF, SDPA, CONV = f"{ROPE}_hf.default", "et_vk.sdpa.default", "convolution.default"
AVERAGE, REDUCED = "avg_pool2d.default", "mean.dim sum.dim_IntList amax.default"
PADDED, BILINEAR = "constant_pad_nd.default pixel_shuffle.default", "upsample_bilinear2d.vec"
ALIASED = {"alias_buffer_mutations": True}

ROTARY = [*QUERIES, (5, 4), (5, 4)]


def _rows(x: Tensor) -> Tensor:
    return x.view(x.shape[0] * 2, 8).sum(1)


def _moves(x: Tensor) -> Tensor:
    return torch.cat([x.permute(0, 2, 1), x.flip(1)[:, :3]], 2)


def _split(x: Tensor) -> Any:
    return sum(x.split([1, 2, 1], 1)[i].sum(1, True) for i in range(3))


def _views(x: Tensor) -> Tensor:
    return x.view(2, 12).unsqueeze(0).expand(3, 2, 12).repeat(1, 1, 2)


def _arithmetic(x: Tensor, y: Tensor) -> Tensor:
    return (x * y - x / (y * y + 1)).tanh() + x.exp().sqrt()


FUNCTIONS: list[tuple[str, Callable[..., Any], Sequence[Any], str]] = [
    ("hardswish", F.hardswish, CUBE, "hardswish.default"),
    ("nearest", lambda x: F.interpolate(x, scale_factor=2), [IMAGE], "upsample_nearest2d.vec"),
    ("pools", lambda x: F.avg_pool2d(x, 3, 2, 1) + F.max_pool2d(x, 2), [IMAGE], AVERAGE),
    ("arithmetic", _arithmetic, PAIR, "mul.Tensor div.Tensor tanh.default"),
    ("compare", lambda x, y: torch.where(x > y, x, y * 2), PAIR, "gt.Tensor where.self"),
    ("reduce", lambda x: (x.mean(1, True), x.sum(2, True), x.amax(1, True)), CUBE, REDUCED),
    ("arg", lambda x: x.argmax(-1, True), CUBE, "argmax.default"),
    ("moves", _moves, [(2, 4, 3)], "permute_copy.default flip.default cat.default"),
    ("split", _split, [(2, 4, 3)], "split_with_sizes_copy.default"),
    ("views", _views, CUBE, "expand_copy.default repeat.default"),
    ("pad", lambda x: F.pixel_shuffle(F.pad(x, (1, 1, 0, 2)), 2), [(1, 4, 4, 6)], PADDED),
    ("bilinear", lambda x: F.interpolate(x, (12, 10), mode="bilinear"), [IMAGE], BILINEAR),
]

FLOAT_ROWS = [
    _row("rotary", lambda: _rotary("apply_rotary_emb"), ROTARY, f"{ROPE}.default"),
    *(
        _row(name, lambda: _rotary("hf_apply_rotary_emb"), [*QUERIES, size, size], ROPE_HF)
        for name, size in (("rotary_hf", (5, 8)), ("rotary_partial", (5, 6)))
    ),
    _row("rotary_pairs", lambda: _fused(PAIRS), [(2, 3, 8), (3, 8)], f"et_vk.{PAIRS}.default"),
    _row("sdpa", lambda: _fused("sdpa"), [HEADS] * 3, SDPA),
    _row("sdpa_mask", lambda: _fused("sdpa", 0.3), [*[HEADS] * 3, (1, 1, 6, 6)], SDPA),
    _row("mlp", _linear, [(4, 64)], "linear.default relu.default"),
    _row("cnn", _image_net, [IMAGE], "et_vk.conv_with_clamp.default"),
    _row("conv1d", lambda: nn.Conv1d(4, 6, 3, padding=1), [(1, 4, 10)], CONV),
    _row("transposed", lambda: nn.ConvTranspose2d(3, 5, 3, 2, 1, 1), [IMAGE], CONV),
    _row("group_norm", lambda: nn.GroupNorm(2, 4), [(1, 4, 6, 6)], "native_group_norm.default"),
    *(_row(name, partial(Fn, function), *rest) for name, function, *rest in FUNCTIONS),
    _row("embedding", lambda: nn.Embedding(5, 8), [(2, 3)], "embedding.default", draw=integers),
    _row("rms_norm", lambda: nn.RMSNorm(16, eps=1e-5), [(2, 4, 16)], ""),
    _row("dynamic", _linear, [(4, 64)], "linear.default", dims={0: {0: 9}}),
    _row("dynamic_views", lambda: Fn(_rows), [(3, 16)], "sym_size.int", dims={0: {0: 7}}),
    _row("state", lambda: Accumulator(2, 3), [(2, 3)], "add.Tensor", options=ALIASED, calls=3),
]


def _odd() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 5, (3, 2), dilation=(1, 2)), nn.ReLU(), nn.Conv2d(5, 6, 1))


DEPTHWISE = partial(nn.Conv2d, 8, 8, 3, padding=1, groups=8)
CONV_PW = "et_vk.q8ta_conv2d.default et_vk.q8ta_conv2d_pw.default"
STATIC: list[tuple[str, Callable[[], nn.Module], Sequence[Any], str]] = [
    ("mlp", _linear, [(4, 64)], "et_vk.q8ta_linear.default"),
    ("row", _linear, [(1, 64)], "et_vk.q8ta_linear_gemv.default"),
    ("cnn", _image_net, [IMAGE], "et_vk.q8ta_conv2d.default"),
    ("odd", _odd, [(1, 3, 9, 7)], CONV_PW),
    ("depthwise", DEPTHWISE, [(1, 8, 8, 8)], "et_vk.q8ta_conv2d_dw.default"),
]
QUANTIZED_ROWS = [
    *(
        _row("mlp", _linear, [(4, 64)], op, scheme)
        for scheme, op in (
            *(("w8", "_weight_int8pack_mm.default"), ("w4", "et_vk.linear_qcs4w.default")),
            *(("8da8w", ""), ("4w", "et_vk.linear_q4gsw.default")),
            ("8da4w", "et_vk.linear_dq8ca_q4gsw.default"),
        )
    ),
    *(_row(*row, "static8", steps=2) for row in STATIC),
]

HALF_ROWS = [
    Row(row.name, row.make, row.shapes, row.ops, options=FLOAT16, draw=row.draw, rtol=3e-3)
    for row in FLOAT_ROWS
    if row.name in {"mlp", "cnn", "group_norm", "compare"}
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
        {d: torch.export.Dim(f"d{i}_{d}", min=1, max=n) for d, n in row.dims.get(i, {}).items()}
        for i in range(len(row.shapes))
    )
    return (dims,) if isinstance(row.make(), Fn) else dims


def _sized(row: Row, index: int, largest: bool) -> tuple[int, ...]:
    """Return the shape of an input with the largest or smallest sizes."""
    bounds = row.dims.get(index, {})
    return tuple(
        size if d not in bounds else bounds[d] if largest else 1
        for d, size in enumerate(row.shapes[index])
    )


def _export(row: Row) -> Loaded:
    logging.getLogger().setLevel(logging.WARNING)
    torch.manual_seed(0)
    module: Any = row.make().eval()
    inputs = tuple(row.draw(shape) for shape in row.shapes)
    module = SCHEMES[row.scheme](module, inputs)
    pte = lower(module, inputs, row.options, _dims(row))
    sizes = [row.shapes] * row.calls
    if row.dims:
        for largest in (True, False):
            sizes.append([_sized(row, i, largest) for i in range(len(row.shapes))])
    calls = []
    with torch.no_grad():
        for shapes in sizes:
            drawn = tuple(row.draw(shape) for shape in shapes)
            calls.append((_arrays(drawn), _arrays(module(*drawn))))
    return Loaded(pte, calls)


def load(row: Row) -> Loaded:
    key = kept.digest(
        Path(__file__), Path(blocks.__file__), packages=("torch", "executorch", "torchao")
    )
    return kept.pickled(f"vulkan-{row.id}-{key}", lambda: _export(row))
