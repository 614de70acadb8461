"""Operators of the Cadence flow, compared with the flow's reference implementations in Python."""

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from tests.backends import cadence_flow
from tests.backends.op_calls import FACTOR, INT16, INT32, INT8, RANDOM, SCALES, UINT16, UINT8
from tests.backends.op_calls import bias, check, method_of, one, operators_of, out_name, real, whole
from tests.backends.op_calls import zero_points
from tests.single_op import Out


def compare(
    name: str, *args: Any, steps: float = 0, call: Sequence[Any] = (), varied: bool = True
) -> None:
    """Compare the operator with the reference, called with other arguments if `call` is given, and
    with the negative multiplier where the reference has the wrong sign."""
    packet, _, overload = name.partition(".")
    if packet.startswith(cadence_flow.WRONG_SIGNS):
        call = cadence_flow.with_sign(name, args)
    reference = getattr(getattr(torch.ops.cadence, packet), overload or "default")
    check(f"cadence::{out_name(name)}", args, reference(*(call or args)), steps, varied)


ATEN = {
    *("_cat_nop.out", "_select_copy_nop.int_out", "_slice_copy_nop.Tensor_out", "rms_norm.out"),
    *("tensor_split.sections_out", "chunk.out", "contiguous.out"),
}


def channels_last(*tensors: torch.Tensor) -> list[torch.Tensor]:
    return [x.movedim(1, -1).contiguous() for x in tensors]


def test_every_operator_of_the_flow_is_a_row() -> None:
    declared = {}
    for schema in torch._C._jit_get_all_schemas():
        name = f"{schema.name}.{schema.overload_name}"
        ours = schema.name.startswith("cadence::") and any(a.is_out for a in schema.arguments)
        if ours or name in {f"aten::{rest}" for rest in ATEN}:
            declared[name] = str(schema).replace(" ", "")
    table = {
        row.split("(")[0]: row.replace(" ", "")
        for row in operators_of("Cadence", "cadence::unknown.out")
    }
    assert len(declared) == 99
    assert set(declared) == set(table)
    for name, schema in table.items():
        assert schema.replace("SymInt", "int") == declared[name].replace("SymInt", "int")


QUANTIZED = {"8s": INT8, "8u": UINT8, "16s": INT16, "16u": UINT16, "32s": INT32}


@pytest.mark.parametrize("suffix", QUANTIZED)
def test_quantize(suffix: str) -> None:
    dtype = QUANTIZED[suffix]
    info = torch.iinfo(dtype)
    x = real(2, 5, 60) * 40
    x.view(-1)[:6] = torch.tensor([0.5, 1.5, -0.5, 2.5, 1e6, -1e6]) * 0.25
    for name in ("quantize_per_tensor", f"quantize_per_tensor_asym{suffix}"):
        for value in (x, x[0, 0, 0], x[:0]):
            compare(name, value, 0.25, 3, info.min, info.max, dtype)
        if suffix != "32s":
            compare(name, x, 0.25, 3, info.min + 3, info.max - 5, dtype)
    y = whole(3, 300, dtype=dtype)
    for name in ("dequantize_per_tensor", f"dequantize_per_tensor_asym{suffix}"):
        compare(name, y, 0.1, 5, info.min, info.max, dtype)


def test_quantize_saturates() -> None:
    """The greatest int32 is the greatest float below 2^31; the reference wraps there."""
    method, inputs = method_of(
        "cadence::quantize_per_tensor.out",
        [torch.tensor([3e9, -3e9, np.nan]), 1.0, 0, -(2**31), 2**31 - 1, INT32],
        Out((3,), "int32"),
    )
    assert_array_equal(method(*inputs), [2**31 - 128, -(2**31), 0])


def test_requantize() -> None:
    for dtype, to in itertools.product(QUANTIZED.values(), (INT8, UINT8, INT16, UINT16)):
        ends = {"low": -2000, "high": 2000} if dtype == INT32 else {}
        x = whole(4, 100, dtype=dtype, **ends)
        scale = 0.01 if dtype in (INT16, UINT16, INT32) else 0.2
        compare("requantize.per_tensor", x, scale, 7, 0.13, 2, to)
        compare("requantize", x, one(scale), one(7), one(0.13), one(2), to)


@pytest.mark.parametrize("dtype", [INT8, UINT8])
def test_add_and_mul(dtype: torch.dtype) -> None:
    variant = "s" if dtype == INT8 else "u"
    a = whole(2, 3, 4, 300, dtype=dtype)
    shapes = (2, 3, 4, 300), (3, 1, 300), (4, 1)
    for b in (*(whole(*shape, dtype=dtype) for shape in shapes), whole(1, dtype=dtype)[0]):
        for x, y in ((a, b), (b, a)):
            affine = (x, 0.07, 5, y, 0.11, -3, 0.2, 4)
            compare("quantized_add.per_tensor", *affine)
            compare("quantized_mul.per_tensor", *affine)
            name = f"asym8{variant}xasym8{variant}_asym8{variant}"
            compare(f"quantized_add_{name}.per_tensor", *affine)
            tensors = (x, one(0.07), one(5), y, one(0.11), one(-3), 0.2, 4)
            compare("quantized_add", *tensors)
            want = torch.ops.cadence.quantized_mul.per_tensor(*affine)
            check("cadence::quantized_mul.out", tensors, want)


def test_add_and_mul_of_a_scalar() -> None:
    """They have no reference: the scalar is the other operand, in float."""
    x = whole(3, 200)
    floats = (x.float() - 5) * 0.07
    for scalar in (2.5, -3):
        for name, want in (("add", floats + scalar), ("mul", floats * scalar)):
            want = torch.ops.cadence.quantize_per_tensor(want, 0.2, 4, -128, 127, INT8)
            args = x, one(0.07), one(5), scalar, 0.2, 4
            check(f"cadence::quantized_{name}_Scalar.out", args, want)


def test_relu() -> None:
    factor = 1_500_000_000, 0
    for dtype in (INT8, UINT8, INT16):
        x, info = whole(3, 301, dtype=dtype), torch.iinfo(dtype)
        for zero in (info.min, 3):
            compare("quantized_relu.per_tensor", x, zero, -4 if info.min else 6, *factor)
        compare("quantized_relu", x, one(3), 4, one(factor[0]), one(factor[1]))
    compare("quantized_relu_asym8s_asym8s.per_tensor", whole(9, 9), 3, 4, *factor)
    compare("quantized_relu_asym8u_asym8u.per_tensor", whole(9, 9, dtype=UINT8), 130, 4, *factor)


def test_where_and_masks() -> None:
    compare("where_Scalar", real(3, 70) > 0, 2.5, -1.25, varied=False)
    compare("sdpa_bitwise_mask_gen", real(3, 4, 16) > 0, 0.0)
    compare("sdpa_bitwise_mask_gen", real(3, 4, 16), 0.25)


# ---- products -------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(3, 40), (2, 3, 5, 17), (1, 9), (1, 2, 70)])
@pytest.mark.parametrize("dtypes", [(INT8, INT8), (UINT8, UINT8), (INT16, INT8)])
def test_linear(shape: tuple[int, ...], dtypes: tuple[torch.dtype, torch.dtype]) -> None:
    x, w = whole(*shape, dtype=dtypes[0]), whole(45, shape[-1], dtype=dtypes[1])
    zeros = zero_points(dtypes[0])
    names = ["quantized_linear", *(["quantized_fully_connected"] if shape[0] == 1 else [])]
    shift = FACTOR[1] - (2 if dtypes[0] != INT16 else 4)
    for name in names:
        args = x, w, bias(45), zeros[0], zeros[1], FACTOR[0], shift, 7, None
        compare(f"{name}.per_tensor", *args)
        tensors = x, w, bias(45), zeros[0], one(zeros[1]), one(FACTOR[0]), one(shift), 7, None
        compare(name, *tensors)
        if dtypes[0] == dtypes[1]:
            v = "s" if dtypes[0] == INT8 else "u"
            compare(f"{name}_asym8{v}xasym8{v}_asym8{v}.per_tensor", *args)


def test_linear_rounds_large_sums_once() -> None:
    """Sums above 2^24: the reference adds in float32, in an order of its own."""
    x, w = whole(4, 3000, dtype=INT16), whole(9, 3000)
    compare("quantized_linear.per_tensor", x, w, bias(9), 0, 0, 2_000_000_000, -9, 0, None, steps=1)


def test_float_linear() -> None:
    for shape in ((3, 40), (2, 3, 17)):
        x, w = real(*shape), real(33, shape[-1])
        compare("fully_connected", x, w, real(33), steps=1e-5)
        compare("fully_connected", x, w, None, steps=1e-5)
    for shape in ((17,), (1, 17), (3, 1, 17)):
        weights = whole(17, 33), 0.02, whole(33), 0.03
        compare("quantized_w8a32_linear", real(*shape), *weights, steps=2e-5)


@pytest.mark.parametrize("transposed", [False, True])
def test_matmul(transposed: bool) -> None:
    pairs = ((4, 33), (33, 6)), ((3, 4, 33), (3, 33, 6)), ((2, 3, 4, 9), (3, 9, 40))
    for a, b in (*pairs, ((4, 9), (2, 9, 5))):
        shape = (*b[:-2], b[-1], b[-2]) if transposed else b
        for dtype, v in ((INT8, "s"), (UINT8, "u")):
            x, y = whole(*a, dtype=dtype), whole(*shape, dtype=dtype)
            zeros = zero_points(dtype)
            args = x, zeros[0], y, zeros[1], None, *FACTOR, 3, transposed
            compare("quantized_matmul", *args)
            compare(f"quantized_matmul_asym8{v}xasym8{v}_asym8{v}", *args)
    zero = torch.zeros(6, dtype=INT32)
    y = whole(6, 33) if transposed else whole(33, 6)
    compare("quantized_matmul", whole(4, 33), 0, y, 12, zero, *FACTOR, 3, transposed)


# ---- convolutions ---------------------------------------------------------------------------

CONVOLUTIONS = [
    # channels, out, groups, kernel, stride, padding, dilation
    (6, 8, 1, (3, 3), (1, 1), (1, 1), (1, 1)),
    (6, 9, 3, (2, 3), (2, 1), (0, 2), (1, 2)),
    (5, 10, 5, (3, 3), (1, 2), (2, 1), (2, 1)),
    (40, 3, 1, (1, 1), (1, 2), (0, 0), (1, 1)),
]


@pytest.mark.parametrize("case", CONVOLUTIONS)
@pytest.mark.parametrize("dtype", [INT8, UINT8])
def test_convolutions_2d(case: Any, dtype: torch.dtype) -> None:
    c, o, groups, kernel, stride, padding, dilation = case
    x, w = whole(2, c, 9, 7, dtype=dtype), whole(o, c // groups, *kernel, dtype=dtype)
    v = "s" if dtype == INT8 else "u"
    zero, weight_zero = zero_points(dtype)
    steps = list(stride), list(padding), list(dilation), groups, zero
    rest = *steps, weight_zero, *SCALES, *FACTOR
    tensors = *steps, one(weight_zero), one(SCALES[0]), *SCALES[1:], one(FACTOR[0]), one(FACTOR[1])
    last = channels_last(x, w)
    for layout, (image, weight) in (("nchw", (x, w)), ("nhwc", last)):
        sums = bias(o)
        compare(f"quantized_conv2d_{layout}.per_tensor", image, weight, sums, *rest)
        compare(f"quantized_conv2d_{layout}", image, weight, sums, *tensors)
        for kind in ("", "_dilated", "_depthwise"):
            name = f"quantized_conv2d_{layout}{kind}_asym8{v}xsym8{v}_asym8{v}.per_tensor"
            compare(name, image, weight, sums, *rest)
    compare("quantized_conv2d_depthwise_nhwc", *last, bias(o), *rest)
    if groups == c:  # weights [height, width, out]
        flat = w[:, 0].permute(1, 2, 0).contiguous()
        compare("quantized_conv2d_nhwc.per_tensor", last[0], flat, bias(o), *rest)
        compare("quantized_conv2d_depthwise_nhwc", last[0], flat, bias(o), *rest)


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolutions_1d(case: Any) -> None:
    c, o, groups, (kernel, _), (stride, _), (padding, _), (dilation, _) = case
    x, w = whole(2, c, 19), whole(o, c // groups, kernel)
    last = channels_last(x, w)
    steps = [stride], [padding], [dilation], groups, 7
    rest = *steps, 3, *SCALES, *FACTOR
    tensors = *steps, one(3), one(SCALES[0]), *SCALES[1:], one(FACTOR[0]), one(FACTOR[1])
    for layout, (image, weight) in (("ncl", (x, w)), ("nlc", last)):
        compare(f"quantized_conv1d_{layout}.per_tensor", image, weight, bias(o), *rest)
        compare(f"quantized_conv1d_{layout}", image, weight, bias(o), *tensors)
        if groups == c:
            name = f"quantized_depthwise_conv1d_{layout}.per_tensor"
            compare(name, image, weight, bias(o), *rest)
    two = [9, stride], [9, padding], [9, dilation], groups, 7, 3, *SCALES, *FACTOR
    compare("quantized_conv2d_nchw.per_tensor", x, w, bias(o), *two)
    compare("quantized_conv2d_nhwc.per_tensor", *last, bias(o), *two)
    if groups == c:
        flat = w[:, 0].permute(1, 0).contiguous()
        compare("quantized_conv2d_nhwc.per_tensor", last[0], flat, bias(o), *two)


def test_float_convolutions() -> None:
    for case in CONVOLUTIONS:
        c, o, groups, kernel, stride, padding, dilation = case
        for space in (1, 2, 3):
            parts = [[*part, 1][:space] for part in (kernel, stride, dilation)]
            pad = [*padding, 0][:space]
            x, w = real(2, c, *(9, 7, 4)[:space]), real(o, c // groups, *parts[0])
            compare(f"conv{space}d", x, w, real(o), parts[1], pad, parts[2], groups, steps=2e-5)
    weights = whole(3, 12, 8), 0.02, whole(12), 0.03
    compare("quantized_w8a32_conv", real(2, 9, 8), *weights, steps=1e-5)


TRANSPOSED = [
    # channels, out, groups, kernel, stride, padding, dilation, output_padding
    (6, 4, 1, (3, 2), (1, 1), (0, 0), (1, 1), (0, 0)),
    (6, 4, 2, (3, 2), (2, 3), (1, 2), (1, 1), (1, 0)),
    (4, 4, 4, (2, 3), (2, 2), (0, 1), (2, 1), (0, 1)),
]


@pytest.mark.parametrize("case", TRANSPOSED)
def test_transposed_convolutions(case: Any) -> None:
    """The quantised ones have no reference: that of the float operator, on integers, rescaled as
    others are."""
    c, o, groups, kernel, *sides = case
    rest = [list(part) for part in sides] + [groups]
    x, w, b = real(2, c, 5, 4), real(o // groups, c, *kernel), real(o)
    reference = torch.ops.cadence.transposed_convolution
    one_d = [part[:1] for part in rest[:4]]
    line, filters = x[..., 0].contiguous(), w[..., 0].contiguous()
    compare("transposed_convolution", line, filters, b, *one_d, groups, False, steps=1e-5)
    compare("transposed_convolution", x, w, b, *rest, False, steps=1e-5)
    *last, want = channels_last(x, w, reference(x, w, b, *rest))
    check("cadence::transposed_convolution.out", [*last, b, *rest, True], want, 1e-5)
    x, w, b = whole(2, c, 5, 4), whole(o // groups, c, *kernel), bias(o)
    sums = reference(x.float() - 7, w.float() - 3, b.float(), *rest)
    want = torch.ops.cadence.quantize_per_tensor(sums * 0.0004, 0.05, 6, -128, 127, INT8)
    args = x, w, b, *rest, 7, one(3), one(0.0004), 0.05, 6, one(FACTOR[0]), one(FACTOR[1])
    check("cadence::quantized_transposed_conv.out", [*args, False], want)


@pytest.mark.parametrize("last", [False, True])
def test_im2row(last: bool) -> None:
    images = (whole(2, 3, 6, 5), 4), (whole(2, 3, 6, 5, dtype=UINT8), 130), (real(2, 3, 6, 5), 0)
    for x, zero in (*images, (whole(2, 3, 9), -3)):
        image = x.movedim(1, -1).contiguous() if last else x
        kernel = [1, 3] if x.dim() == 3 else [3, 2]
        padding = [0, 1] if x.dim() == 3 else [1, 1]
        args = image, kernel, [1, 2], padding, [1, 2]
        compare("im2row.per_tensor", *args, zero, last)
        compare("im2row", *args, one(zero), last)
        compare("im2row", *args, whole(2, dtype=INT32, low=0, high=100), last)
        rest = [0, 1] if x.dim() == 3 else [1, 0]
        args = image, kernel, [1, 2], padding, [2, 3], rest
        compare("transposed_im2row", *args, one(zero), last)


# ---- pooling, normalisation -----------------------------------------------------------------

POOLS = [
    ([3, 2], [2, 2], [1, 0], [1, 1], False),
    ([2, 3], [2, 2], [0, 1], [1, 1], True),
    ([3, 3], [1, 1], [1, 1], [2, 1], False),
    ([9, 7], [1, 1], [0, 0], [1, 1], False),
]


@pytest.mark.parametrize("pool", POOLS)
def test_max_pool(pool: Any) -> None:
    for dtype in (INT8, UINT8, torch.float32):
        x = real(2, 5, 9, 7) if dtype == torch.float32 else whole(2, 5, 9, 7, dtype=dtype)
        compare("quantized_max_pool2d_nchw", x, *pool)
        compare("quantized_max_pool2d_nhwc", *channels_last(x), *pool)


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("counts", [False, True])
def test_avg_pool(pool: Any, counts: bool) -> None:
    """The reference is called by itself: torch.ops leaves out arguments that equal the schema's
    default, and the reference has another default for count_include_pad."""
    kernel, stride, padding, _, ceil = pool
    for divisor in (None, 70):
        args = kernel, stride, padding, ceil, counts, divisor
        signed, unsigned = whole(2, 5, 9, 7), whole(2, 5, 9, 7, dtype=UINT8)
        images = (signed, one(-7), 0), (real(2, 5, 9, 7), None, 1e-6), (unsigned, one(131), 0)
        for x, zero, steps in images:
            want = cadence_flow.ref_implementations.avg_pool2d(x, *args, zero, False)
            check("cadence::avg_pool2d.out", [x, *args, zero, False], want, steps)
            last, want = channels_last(x, want)
            check("cadence::avg_pool2d.out", [last, *args, zero, True], want, steps)


def test_layer_norm() -> None:
    """One step: the reference normalises in float32."""
    for dtype in (INT8, UINT8):
        x = whole(3, 4, 50, dtype=dtype)
        for shape in ([50], [4, 50]):
            w, b = real(*shape), real(*shape)
            args = shape, w, b, 1e-5, 0.03, 4
            compare("quantized_layer_norm.per_tensor", x, 0.07, 9, *args, steps=1)
            compare("quantized_layer_norm", x, one(0.07), one(9), *args, steps=1)


def test_rms_norm() -> None:
    x, w = real(3, 4, 50), real(50)
    for weight, eps in ((w, 1e-5), (None, None), (w, 0.1)):
        want = torch.nn.functional.rms_norm(x, [50], weight, eps)
        check("aten::rms_norm.out", [x, [50], weight, eps], want, 1e-5)


def test_softmax() -> None:
    """One step: the reference computes in float32."""
    mask, pos = torch.ones(8, 1, dtype=INT32), torch.zeros(1, dtype=torch.int64)
    for dtype in (INT8, UINT8, INT16):
        for shape, dim in (((4, 30), -1), ((2, 7, 3), 1), ((2, 7, 3), 0)):
            x = whole(*shape, dtype=dtype)
            scale = 0.05 if dtype != INT16 else 0.0002
            out = 1 / 256, -128 if dtype == INT8 else 0
            args = x, mask, dim, 0, pos, scale, 4, *out
            compare("quantized_softmax.per_tensor", *args, steps=1, call=(x, None, *args[2:]))
            want = torch.ops.cadence.quantized_softmax.per_tensor(x, None, *args[2:])
            tensors = x, mask, dim, 0, pos, one(scale), one(4), one(out[0]), one(out[1])
            check("cadence::quantized_softmax.out", tensors, want, 1)
    for dim in (0, 1, -1):
        compare("_softmax_f32_f32", real(4, 7, 9), dim, None, steps=1e-6)


# ---- transformers, recurrent, images --------------------------------------------------------


def turned(x: torch.Tensor, sines: torch.Tensor, cosines: torch.Tensor) -> torch.Tensor:
    """Return heads [1, positions, heads, features] with their halves turned."""
    a, b = x.chunk(2, -1)
    s, c = sines[:, None], cosines[:, None]
    return torch.cat([a * c - b * s, a * s + b * c], -1)


def test_rope() -> None:
    x, sines, cosines = real(1, 6, 3, 10), real(9, 5), real(9, 5)
    pos = torch.tensor([3, 0, 8, -1, 2, 2])
    compare("rope", x, sines, cosines, pos)
    compare("rope", x.reshape(1, 6, 3, 5, 2), sines, cosines, pos.to(INT32))
    compare("rope", x, sines[:6], cosines[:6], None)
    # The reference joins the halves of the whole tensor and not those of each head.
    single = real(1, 1, 1, 10)
    compare("rope_rotate_stacked_halves", single, sines[:1], cosines[:1], None)
    name = "cadence::rope_rotate_stacked_halves.out"
    check(name, [x, sines, cosines, pos], turned(x, sines[pos], cosines[pos]))
    y = whole(1, 6, 3, 10)
    want = turned((y.float() - 3) * 0.05, sines[:6], cosines[:6])
    want = torch.ops.cadence.quantize_per_tensor(want, 0.1, 5, -128, 127, INT8)
    args = [y, sines, cosines, None, 0.05, 3, 0.1, 5]
    check("cadence::quantized_rope_rotate_stacked_halves.out", args, want)


def test_embedding() -> None:
    indices = torch.tensor([[3, 0], [11, 3]])
    for dtype in (INT8, UINT8):
        w = whole(12, 8, dtype=dtype)
        for groups in ((12,), (12, 2)):
            scales = torch.rand(groups, generator=RANDOM) + 0.1
            for zeros in (whole(*groups, dtype=dtype), None):
                floats = w.float().reshape(12, -1, 8 // (groups[1:] or (1,))[0])
                shift = 0 if zeros is None else zeros.float().reshape(12, -1, 1)
                want = ((floats - shift) * scales.reshape(12, -1, 1)).reshape(12, 8)[indices]
                args = w, scales, zeros, indices, False
                check("cadence::quantized_embedding_byte.out", args, want)
                if zeros is not None:
                    compare("quantized_embedding_byte", *args)


def test_gru() -> None:
    weights = whole(24, 9), 0.01, whole(24, 8), 0.02, whole(24), 0.03, whole(24)
    compare("quantized_w8a32_gru", real(1, 9), real(1, 8), *weights, steps=1e-6)
    want = torch.ops.cadence.quantized_w8a32_gru(x := real(1, 9), h := real(1, 8), *weights)
    check("cadence::quantized_w8a32_gru.out", [x[None], h[None], *weights], want[:, :, :1], 1e-6)


SHAPES = [(7, 7), (9, 4), (4, 9), (2, 3, 6, 5), (1, 1), (3, 0), (2, 0, 4), (300, 5)]
SINGULAR: dict[str, Callable[[], torch.Tensor]] = {
    "zeros": lambda: torch.zeros(5, 3),
    "ones": lambda: torch.ones(4, 6),
    "two columns": lambda: torch.eye(5)[:, [3, 1]],
    "of rank two": lambda: real(8, 2) @ real(2, 6),
    "tiny": lambda: real(6, 6) * 1e-30,
    "huge": lambda: real(5, 4) * 1e30,
    "scaled": lambda: real(5, 5) * torch.tensor([1e9, 1, 1e-9, 0, 1]),
}


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("matrix", [*SHAPES, *SINGULAR], ids=str)
def test_svd(matrix: Any, full: bool) -> None:
    """Signs of vectors are free: the product is compared, and the vectors up to their signs; those
    of a singular matrix are any basis."""
    is_singular = matrix in SINGULAR
    a = SINGULAR[matrix]() if is_singular else real(*matrix)
    want = torch.ops.cadence.linalg_svd(a, full)
    outs = [Out(tuple(part.shape), "float32") for part in want]
    method, inputs = method_of("cadence::linalg_svd.out", [a, full, True, None], *outs)
    u, s, vh = (torch.from_numpy(np.array(part)).double() for part in method.execute(inputs))
    close = partial(torch.testing.assert_close, rtol=0)
    largest = float(want[1].max()) if want[1].numel() else 0.0
    close(s, want[1].double(), rtol=1e-6, atol=2e-6 * largest)
    k, unit = min(a.shape[-2:]), max(float(s.max()), 1e-37) if is_singular else 1
    product = u[..., :k] * s[..., None, :] @ vh[..., :k, :]
    close(product / unit, a.double() / unit, atol=1e-6 if is_singular else 2e-6)
    for basis in (u.mT @ u, vh @ vh.mT):
        close(basis, torch.eye(basis.shape[-1]).double().expand_as(basis), atol=1e-6)
    if not is_singular:
        left = torch.linalg.svd(a.double(), full_matrices=False).U
        same = (left * u[..., :k]).sum(-2).abs()
        close(same, torch.ones_like(same), atol=1e-6)


def packed(numbers: Sequence[int]) -> list[int]:
    """Return 22 numbers of 29 bits as 80 bytes, the lowest bit first."""
    bits = sum((value & (2**29 - 1)) << 29 * i for i, value in enumerate(numbers))
    return list(bits.to_bytes(80, "little"))


def test_boxes() -> None:
    """It has no reference: the sample points of the device's image unit, in 1/65536 pixels."""
    rois = torch.tensor([[0, 1.5, 2.0, 9.25, 7.0], [0, 0, 0, 4, 3]])
    height, width, ratio = 3, 5, 2
    want = []
    for _, left, top, right, bottom in rois.tolist():
        numbers, tail = [], []
        for begin, end, size, axis in ((left, right, width, 0), (top, bottom, height, 1)):
            tile = size * ratio
            step = (end - begin) / tile
            numbers.append(round((begin - 0.5 + step / 2) * 65536))
            strides, shape = [0] * 6, [width * ratio, height * ratio, 1, 1, 1, 2]
            strides[axis], strides[axis + 2] = round(step * 65536), round(step * tile * 65536)
            sums = [strides[0]]
            for i in range(1, 6):
                sums.append(strides[i] - strides[i - 1] * shape[i - 1] + sums[-1])
            tail += sums + sums[-1:] * 4
        want.append(packed(numbers + tail))
    args = [rois, height, width, ratio, True]
    check("cadence::roi_align_box_processor.out", args, torch.tensor(want, dtype=UINT8))


# ---- copies and parts -----------------------------------------------------------------------


def test_copies() -> None:
    for x in (whole(3, 7), real(2, 3, 4), whole(9, dtype=UINT16), real(3) > 0):
        for name in ("idma_copy", "idma_load", "idma_store"):
            compare(name, x, 1, 2, varied=False)
        check("cadence::idma_wait.out", [x, 1], x, varied=False)
        check("aten::contiguous.out", [x, 0], x, varied=False)


def test_parts() -> None:
    x = whole(4, 5, 6)
    for dim in (0, 1, -1):
        parts = x, whole(4, 5, 6), x
        check("aten::_cat_nop.out", [[*parts], dim], torch.cat(parts, dim))
        for index in (0, -1):
            check("aten::_select_copy_nop.int_out", [x, dim, index], x.select(dim, index))
        for start, end, step in ((None, None, 1), (1, -1, 1), (0, 99, 2), (2, 1, 1)):
            want = torch.ops.aten.slice_copy(x, dim, start, end, step)
            check("aten::_slice_copy_nop.Tensor_out", [x, dim, start, end, step], want)
        split = ("tensor_split.sections", x.tensor_split(3, dim))
        for name, parts in (("chunk", x.chunk(3, dim)), split):
            outs = [Out(tuple(part.shape), "int8") for part in parts]
            method, inputs = method_of(f"aten::{out_name(name)}", [x, 3, dim], outs)
            for got, part in zip(method.execute(inputs), parts, strict=True):
                assert_array_equal(got, part.numpy())
