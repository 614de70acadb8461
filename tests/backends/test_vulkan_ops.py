"""Operators of backends/operators/vulkan against their formulas, called as programs call them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from executorch_c import Runtime
from tests import single_op
from tests.single_op import Out

Case = tuple[str, list[Any], list[Any]]
CHANCE = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return CHANCE.standard_normal(shape).astype(np.float32)


def bytes_(*shape: int) -> np.ndarray:
    return CHANCE.integers(-128, 128, shape).astype(np.int8)


def dq(q: np.ndarray, scale: float, zero: int) -> np.ndarray:
    return (q.astype(np.float32) - np.float32(zero)) * np.float32(scale)


def q8(y: Any, scale: float, zero: int) -> np.ndarray:
    rounded = np.rint(np.asarray(y, np.float32) * np.float32(1 / scale)) + np.float32(zero)
    return np.clip(rounded, -128, 127).astype(np.int8)


def nibbles(packed: np.ndarray, high_first: bool) -> np.ndarray:
    """Return the signed 4-bit numbers of bytes."""
    pair = [packed >> 4, packed & 15] if high_first else [packed & 15, packed >> 4]
    return (np.stack(pair, -1).reshape(len(packed), -1).astype(np.int32) - 8).astype(np.float32)


def run(op: str, args: list[Any], outs: list[Any]) -> list[np.ndarray]:
    ops = single_op.SingleOps()
    ops.add(op, *args, *(Out(out.shape, out.dtype.name) for out in outs))
    method = Runtime.get().load_program(ops.build()).load_method("op_0")
    return method.execute(ops.inputs["op_0"])


def pointwise() -> list[Case]:
    x = np.float32([-4, -3, -1, -0.5, 0, 0.4, 2, 3, 7, np.nan])
    t = torch.from_numpy(x)
    return [
        ("aten::hardswish.out", [x], [F.hardswish(t)]),
        ("aten::hardsigmoid.out", [x], [F.hardsigmoid(t)]),
        ("aten::hardshrink.out", [x, 0.5], [F.hardshrink(t)]),
    ]


def linear() -> list[Case]:
    x, w, s, bias = normal(3, 12), bytes_(5, 12), abs(normal(5)), normal(8)
    packed = CHANCE.integers(0, 256, (5, 8)).astype(np.uint8)
    groups = abs(normal(3, 8))
    low = nibbles(packed, False)[:, :12] * groups.T[:5].repeat(4, 1)
    high = nibbles(packed[:, :6], True) * s[:, None]
    sums, rows, zeros = np.zeros(8, np.int32), abs(normal(3)) / 50, np.int64([3, -5, 0])
    turned = np.stack([dq(q8(x[i], rows[i], zeros[i]), rows[i], zeros[i]) for i in range(3)])
    flat = dq(q8(x, 0.05, 4), 0.05, 4) @ (w * s[:, None]).T + bias[:5]
    by_row = [x, rows, zeros, packed, sums, groups, 4, bias]
    return [
        ("aten::_weight_int8pack_mm.out", [x, w, s], [x @ (w * s[:, None]).T]),
        ("et_vk::linear_qcs4w.out", [x, packed[:, :6].copy(), s], [x @ high.T]),
        ("et_vk::linear_q4gsw.out", [x, packed, groups, 4, bias], [x @ low.T + bias[:5]]),
        ("et_vk::linear_q4gsw.out", [x[0], packed, groups, 4, None], [low @ x[0]]),
        ("et_vk::linear_dq8ca_q4gsw.out", by_row, [turned @ low.T + bias[:5]]),
        ("et_vk::linear_q8ta_q8csw.out", [x, 0.05, 4, w, sums, s, bias], [flat]),
    ]


def static_linear() -> list[Case]:
    x, w, s, bias = bytes_(3, 12), bytes_(5, 12), abs(normal(8)) / 100, normal(8)
    y = dq(x, 0.02, -3) @ (w * s[:5, None]).T + bias[:5]
    args = [x, 0.02, -3, w, np.zeros(8, np.int32), s, 0.1, 7, bias]
    expected = {"none": y, "relu": np.maximum(y, 0)}
    return [
        ("et_vk::q8ta_linear.out", [*args, act], [q8(expected[act], 0.1, 7)]) for act in expected
    ]


def embedding() -> list[Case]:
    w, indices = CHANCE.integers(0, 256, (4, 6)).astype(np.uint8), np.int64([[3, 0], [1, 3]])
    scales, cases = abs(normal(4, 3)), list[Case]()
    for is_linear in (False, True):
        table = nibbles(w, not is_linear) * scales.repeat(4, 1)
        args = [w, scales, 4, indices, is_linear]
        cases.append(("et_vk::embedding_q4gsw.out", args, [table[indices]]))
    return cases


def convolution() -> list[Case]:
    x, sums, bias = bytes_(2, 4, 7, 6), np.zeros(8, np.int32), normal(8)
    scales, values = abs(normal(8)) / 100, torch.from_numpy(dq(x, 0.03, 2))
    out, cases = (0.07, -4), list[Case]()
    for groups, kernel, stride, padding, dilation in [
        (1, (3, 2), (2, 1), (1, 0), (1, 2)),
        (2, (1, 1), (1, 1), (0, 0), (1, 1)),
    ]:
        w = bytes_(6, kernel[0] * kernel[1] * 4 // groups + 2)
        used = w[:, : kernel[0] * kernel[1] * 4 // groups].reshape(6, *kernel, 4 // groups)
        filters = torch.from_numpy((used * scales[:6, None, None, None]).transpose(0, 3, 1, 2))
        y = F.conv2d(values, filters, torch.from_numpy(bias[:6]), stride, padding, dilation, groups)
        steps = [[*part] for part in (kernel, stride, padding, dilation)]
        args = [x, 0.03, 2, w, sums, scales, *out, bias, *steps, groups, "relu"]
        cases.append(("et_vk::q8ta_conv2d.out", args, [q8(y.relu(), *out)]))
    w = bytes_(3, 3, 8)
    filters = torch.from_numpy((w[..., :4] * scales[:4]).transpose(2, 0, 1)[:, None].copy())
    y = F.conv2d(values, filters, None, 1, 1, 1, 4)
    steps = [[3, 3], [1, 1], [1, 1], [1, 1]]
    args = [x, 0.03, 2, w, sums, scales, *out, None, *steps, 4, "none"]
    cases.append(("et_vk::q8ta_conv2d_dw.out", args, [q8(y, *out)]))
    w = bytes_(6, 3 * 2 * 4)
    used = w.reshape(6, 3, 2, 4) * scales[:6, None, None, None]
    filters = torch.from_numpy(used.transpose(3, 0, 1, 2).copy())
    y = F.conv_transpose2d(values, filters, torch.from_numpy(bias[:6]), 2, 1, (1, 0))
    steps = [[3, 2], [2, 2], [1, 1], [1, 0], [1, 1]]
    args = [x, 0.03, 2, w, sums, scales, *out, bias, *steps, 1, "none"]
    cases.append(("et_vk::q8ta_conv2d_transposed.out", args, [q8(y, *out)]))
    return cases


def bytewise() -> list[Case]:
    a, b, x = bytes_(2, 3, 4), bytes_(3, 1), bytes_(1, 8, 2, 3)
    shuffled = F.pixel_shuffle(torch.from_numpy(dq(x, 0.05, 1)), 2)
    total = dq(a, 0.1, 3) + np.float32(2) * dq(b, 0.2, -4)
    positive = q8(np.maximum(dq(a, 0.1, 3), 0), 0.05, -128)
    return [
        ("et_vk::q8ta_add.out", [a, b, 0.1, 3, 0.2, -4, 0.15, 5, 2.0], [q8(total, 0.15, 5)]),
        ("et_vk::q8ta_relu.out", [a, 0.1, 3, 0.05, -128], [positive]),
        ("et_vk::q8ta_pixel_shuffle.out", [x, 0.05, 1, 10.0, -2, 2], [q8(shuffled, 0.1, -2)]),
    ]


def language() -> list[Case]:
    """Operators with a reference of the flow, which gets the same arguments."""
    import executorch.backends.vulkan.custom_ops_lib  # noqa: F401

    w, q, k, v = normal(8), normal(2, 3, 4, 8), normal(2, 3, 5, 8), normal(2, 3, 5, 6)
    xq, xk, image = normal(1, 3, 2, 8), normal(1, 3, 4, 8), normal(1, 2, 3, 4)
    cases = list[Case]()
    for name, *args in (
        ("rms_norm", normal(2, 3, 8), w, 1e-5),
        ("sdpa", q, k, v, normal(4, 5), 0.3),
        ("sdpa", q, k, v, None, None),
        ("apply_rotary_emb", xq, xk, normal(3, 4), normal(3, 4)),
        ("apply_rotary_emb_hf", xq, xk, normal(9, 6), normal(9, 6), 4),
        ("apply_rotary_emb_interleaved", normal(2, 3, 8), normal(3, 8)),
        ("grid_priors", image, 8, 0.5),
    ):
        tensors = [torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in args]
        expected = getattr(torch.ops.et_vk, name)(*tensors)
        results = list(expected) if isinstance(expected, (tuple, list)) else [expected]
        cases.append((f"et_vk::{name}.out", args, results))
    return cases


def affine() -> list[Case]:
    import torchao.quantization.pt2e.quantize_pt2e  # noqa: F401

    ao, x, cases = torch.ops.torchao, normal(4, 12), list[Case]()
    t, ends = torch.from_numpy(x), (-128, 127)
    for block, mapping, keep in [([1, 12], "ASYMMETRIC", False), ([2, 4], "SYMMETRIC", True)]:
        dtypes = torch.float32, torch.int32
        chosen = ao.choose_qparams_affine(t, mapping, block, torch.int8, *ends, 1e-6, *dtypes, keep)
        q = ao.quantize_affine(t, block, *chosen, torch.int8, *ends)
        y = ao.dequantize_affine(q, block, *chosen, torch.int8, *ends)
        scale, zeros = chosen[0], chosen[1].to(torch.int64)
        cases += [
            ("et_vk::choose_qparams_affine.out", [x, mapping, block, *ends, 1e-6], [*chosen]),
            ("et_vk::quantize_affine.out", [x, block, scale, zeros, *ends], [q]),
            ("et_vk::dequantize_affine.out", [q, block, scale, zeros], [y]),
        ]
    return cases


FAMILIES: dict[str, Callable[[], list[Case]]] = {
    f.__name__: f
    for f in (pointwise, linear, static_linear, embedding, convolution, bytewise, language, affine)
}


@pytest.mark.parametrize("family", FAMILIES)
def test_formulas(family: str) -> None:
    for op, args, expected in FAMILIES[family]():
        wanted = [np.asarray(out) for out in expected]
        outputs = run(op, args, wanted)
        for actual, want in zip(outputs, wanted, strict=True):
            assert actual.dtype == want.dtype and actual.shape == want.shape, op
            if want.dtype == np.int8:
                off = np.abs(actual.astype(int) - want)
                assert off.max() <= 1 and np.mean(off > 0) < 0.01, (op, off.max())
            else:
                np.testing.assert_allclose(actual, want, rtol=2e-5, atol=2e-5, err_msg=op)


def test_every_row_has_a_formula() -> None:
    import executorch_c

    tested = {op for family in FAMILIES.values() for op, _, _ in family()}
    names = {op["name"] for op in executorch_c.operators() if "et_vk::" in op["name"]}
    assert names <= tested, names - tested
