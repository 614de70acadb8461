"""Programs of the XNNPACK flow in bfloat16 (`enable_bf16`), whose nodes XNNPACK lacks in part: they
are computed in float32, or in int8 where activations are quantised, and give eager's results,
rounded to bfloat16."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from executorch_c import InvalidProgramError, Runtime
from tests import exports
from tests.backends import xnnpack_flow, xnnpack_payload

EPSILON = 2.0**-7
LIMIT = 2 * EPSILON
"""Relative to the largest result: eager rounds each step, a delegate the last one."""


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return nn.functional.scaled_dot_product_attention(q, k, v)


PICTURE, MATRIX = (1, 8, 9, 9), (3, 4)
LAYERS: dict[str, tuple[Callable[[], nn.Module], list[tuple[int, ...]]]] = {
    "linear": (lambda: nn.Linear(64, 32), [(4, 64)]),
    "convolution": (lambda: nn.Conv2d(8, 16, 3, padding=1), [PICTURE]),
    "depthwise": (lambda: nn.Conv2d(8, 8, 3, groups=8), [PICTURE]),
    "transposed": (lambda: nn.ConvTranspose2d(8, 4, 3, stride=2), [PICTURE]),
    "norm": (lambda: nn.Sequential(nn.Conv2d(8, 4, 3), nn.BatchNorm2d(4)), [PICTURE]),
    "max_pool": (lambda: nn.MaxPool2d(2), [PICTURE]),
    "average_pool": (lambda: nn.AvgPool2d(2), [PICTURE]),
    "prelu": (lambda: nn.PReLU(8), [PICTURE]),
    "upsample": (lambda: nn.UpsamplingBilinear2d(scale_factor=2), [PICTURE]),
    "relu": (nn.ReLU, [MATRIX]),
    "leaky_relu": (nn.LeakyReLU, [MATRIX]),
    "hardswish": (nn.Hardswish, [MATRIX]),
    "gelu": (nn.GELU, [MATRIX]),
    "sigmoid": (nn.Sigmoid, [MATRIX]),
    "tanh": (nn.Tanh, [MATRIX]),
    "softmax": (lambda: nn.Softmax(-1), [MATRIX]),
    "mlp": (lambda: nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8)), [MATRIX]),
}
FUNCTIONS: dict[str, tuple[Callable[..., Tensor], list[tuple[int, ...]]]] = {
    **{
        name: (getattr(torch, name), [MATRIX, MATRIX])
        for name in "add sub mul div maximum minimum".split()
    },
    **{
        name: (getattr(torch, name), [MATRIX])
        for name in "abs neg ceil floor square exp sin cos".split()
    },
    "sqrt": (lambda x: (x * x).sqrt(), [MATRIX]),
    "clamp": (lambda x: x.clamp(-0.5, 0.5), [MATRIX]),
    "mean": (lambda x: x.mean((2, 3), keepdim=True), [PICTURE]),
    "bmm": (torch.bmm, [(2, 3, 4), (2, 4, 5)]),
    "permute": (lambda x: x.permute(1, 0) + 1, [MATRIX]),
    "view": (lambda x: x.view(4, 3) + 1, [MATRIX]),
    "slice": (lambda x: x[:, 1:3] + 1, [MATRIX]),
    "cat": (lambda x, y: torch.cat([x, y]), [MATRIX, MATRIX]),
    "pad": (lambda x: nn.functional.pad(x, (1, 1)), [MATRIX]),
    "attention": (attention, [(1, 2, 4, 8)] * 3),
}


def lower(module: nn.Module, inputs: tuple[Tensor, ...]) -> bytes:
    """Return a program whose partitioner takes bfloat16."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    return exports.lowered(module, *inputs, partitioner=[XnnpackPartitioner(enable_bf16=True)])


def difference(program: bytes, module: Any, inputs: tuple[Tensor, ...]) -> float:
    """Return the difference from eager, relative to the largest result."""
    expected = module(*inputs).float().numpy()
    actual = Runtime.get().load_program(program).load_method("forward").execute(list(inputs))[0]
    assert str(actual.dtype) == "bfloat16"
    return float(np.abs(actual.astype(np.float32) - expected).max() / np.abs(expected).max())


@pytest.mark.parametrize("name", [*LAYERS, *FUNCTIONS])
def test_equals_eager(name: str) -> None:
    torch.manual_seed(0)
    if name in LAYERS:
        make, shapes = LAYERS[name]
        module: Any = make()
    else:
        function, shapes = FUNCTIONS[name]
        module = exports.Fn(function)
    module = module.eval().requires_grad_(False).bfloat16()
    inputs = tuple(torch.randn(shape).bfloat16() for shape in shapes)
    program = lower(module, inputs)
    assert xnnpack_payload.payloads(program)
    assert difference(program, module, inputs) <= LIMIT


TORCHAO = xnnpack_flow.torchao("int4", 32, torch.bfloat16)
PT2E = xnnpack_flow.pt2e(channel=True, dynamic=True)
PT2E_INT4 = xnnpack_flow.pt2e(channel=True, dynamic=True, bits=4)
MLP = (lambda: nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 32)), (1, 64))
DYNAMIC: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], Any, str]] = {
    "torchao-linear": (lambda: nn.Linear(64, 32), (4, 64), TORCHAO, "qbint4"),
    "torchao-mlp": (*MLP, TORCHAO, "qbint4"),
    "pt2e-linear": (lambda: nn.Linear(64, 32), (1, 64), PT2E, "qcint8"),
    "pt2e-int4": (lambda: nn.Linear(64, 32), (1, 64), PT2E_INT4, "qcint4"),
    "pt2e-mlp": (*MLP, PT2E, "qcint8"),
    "pt2e-convolution": (lambda: nn.Conv2d(8, 16, 3, padding=1), PICTURE, PT2E, "qcint8"),
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_dynamic_quantisation_equals_eager(name: str) -> None:
    make, shape, quantize, weights = DYNAMIC[name]
    torch.manual_seed(0)
    model = make().eval().requires_grad_(False).bfloat16()
    inputs = (torch.randn(shape).bfloat16(),)
    quantized = quantize(copy.deepcopy(model), inputs, None)
    program = lower(quantized, inputs)
    types = {kind for payload in xnnpack_payload.payloads(program) for kind in payload.datatypes}
    assert {"bf16", "qdint8", weights} <= types
    assert difference(program, quantized, inputs) <= LIMIT
    next(layer for layer in model.modules() if hasattr(layer, "weight")).weight[0] *= 1.25
    assert difference(program, quantize(model, inputs, None), inputs) > LIMIT


def test_scales_of_rows_in_bfloat16_are_refused() -> None:
    """The flow writes torchao's scales of rows as they are, where a payload's are float32."""
    model, inputs = nn.Linear(64, 32).bfloat16(), (torch.randn(4, 64).bfloat16(),)
    program = lower(xnnpack_flow.torchao("int8", None, torch.bfloat16)(model, inputs, None), inputs)
    with pytest.raises(InvalidProgramError, match="16 scales, expected 32"):
        Runtime.get().load_program(program).load_method("forward")
