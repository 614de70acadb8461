"""Operators of the Cortex-M flow, compared with the flow's reference implementations in Python."""

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from numpy.testing import assert_array_equal

from executorch_c.testing import check_model
from tests.backends.op_calls import bias, check, method_of, operators_of, real, whole
from tests.single_op import Out

pytest.importorskip("tosa_serializer", reason="the flow needs tosa-tools (extra `arm`)")
from tests.backends import cortex_m_flow  # noqa: F401

NHWC = (0, 2, 3, 1)
SCRATCH = torch.zeros(1, dtype=torch.int8)


def image(*shape: int) -> torch.Tensor:
    """Return a random int8 tensor in channels-last layout."""
    return whole(*shape).to(memory_format=torch.channels_last)


def factors(count: int) -> list[torch.Tensor]:
    """Return random multipliers and shifts of `count` channels."""
    return [
        whole(count, low=2**30, high=2**31 - 1, dtype=torch.int32),
        whole(count, low=-12, high=-6, dtype=torch.int32),
    ]


def dilated(weight: torch.Tensor, dilation: Sequence[int]) -> torch.Tensor:
    """Return weights [O, H, W, I] with zeros between the taps."""
    o, h, w, i = weight.shape
    wide = torch.zeros(o, (h - 1) * dilation[0] + 1, (w - 1) * dilation[1] + 1, i)
    wide[:, :: dilation[0], :: dilation[1]] = weight
    return wide.to(weight.dtype)


def compare(name: str, *args: Any, nhwc: bool = False, steps: int = 0, varied: bool = True) -> None:
    """Compare the operator with the reference: `steps` is the largest difference allowed."""
    functional = args
    if "transpose" not in name and "conv2d" in name:  # torch dilates no convolution of int32
        functional = (args[0], dilated(args[1], args[5]), *args[2:5], [1, 1], *args[6:])
    if name.endswith("quantize_per_tensor"):
        functional = (*args[:5], {1: torch.int8, 2: torch.int16}[args[5]])
    expected = getattr(torch.ops.cortex_m, name).default(*functional)
    check(f"cortex_m::{name}.out", args, expected, steps, varied, NHWC if nhwc else None)


def test_every_operator_of_the_flow_is_a_row() -> None:
    text = files("executorch.backends.cortex_m.ops").joinpath("operators.yaml").read_text()
    declared = {row["func"] for row in yaml.safe_load(text)}
    rows = operators_of("Cortex-M", "cortex_m::unknown.out")
    names = {schema.split("(")[0] for schema in rows}
    assert names == {schema.split("(")[0] for schema in declared} and len(rows) == 23
    for schema in declared:
        assert schema.replace(" ", "") in {row.replace(" ", "") for row in rows}


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16])
def test_quantize(dtype: torch.dtype) -> None:
    info, number = torch.iinfo(dtype), 1 if dtype == torch.int8 else 2
    x = real(2, 5, 3, 4) * 40
    x.view(-1)[:4] = torch.tensor([0.5, 1.5, -0.5, 1e9]) * 0.25
    for value in (x, x.to(memory_format=torch.channels_last), x[0, 0, 0, 0], x[:0]):
        order = NHWC if value.dim() == 4 and value.numel() else None
        args = (value, 0.25, 3, info.min, info.max)
        want = torch.ops.cortex_m.quantize_per_tensor(*args, dtype)
        check("cortex_m::quantize_per_tensor.out", [*args, number], want, varied=False, order=order)
    compare("dequantize_per_tensor", whole(3, 7, dtype=dtype), 0.1, -5, info.min, info.max, number)


def test_add_and_mul() -> None:
    a, b, channel = image(2, 8, 4, 3), image(2, 8, 4, 3), image(1, 8, 1, 1)
    add = (-3, 1_073_741_824, 0), (7, 1_954_321_000, -1), (1, 1_500_000_000, -18)
    for x, y, nhwc in (
        (a, b, True),
        (a, channel, True),
        (whole(5, 3), whole(5, 3), False),
        (a.contiguous(), b, True),
        (whole(1)[0], whole(1)[0], False),
    ):
        compare("quantized_add", x, *add[0], y, *add[1], *add[2], -100, 90, nhwc=nhwc)
        compare("quantized_mul", x, 4, y, -9, 2, 1_700_000_000, -6, nhwc=nhwc)
    compare("quantized_mul", a, 4, b, -9, 2, 2**31 - 1, 3, nhwc=True, varied=False)  # saturates


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16])
def test_div(dtype: torch.dtype) -> None:
    info = torch.iinfo(dtype)
    a, b = (whole(6, 50, low=info.min, high=info.max, dtype=dtype) for _ in range(2))
    b[0, :5] = 3  # the zero point: a quotient of 0
    compare("quantized_div", a, -2, b, 3, 5, 17.3)


def test_table_minimum_maximum() -> None:
    compare("quantized_activation", image(1, 6, 5, 4), whole(256), nhwc=True)
    for dtype in (torch.int8, torch.int16, torch.int32, torch.float32):
        a, b = whole(4, 5, 6, dtype=dtype), whole(5, 1, dtype=dtype)
        for name in ("minimum", "maximum"):
            compare(name, a, b)
            compare(name, a, whole(1, dtype=dtype))
    a = torch.tensor([1.0, torch.nan, 3.0]), torch.tensor([torch.nan, 2.0, 1.0])
    for name, want in (("minimum", [np.nan, np.nan, 1]), ("maximum", [np.nan, np.nan, 3])):
        method, inputs = method_of(f"cortex_m::{name}.out", a, Out((3,)))
        assert_array_equal(method(*inputs), np.array(want, np.float32))


@pytest.mark.parametrize("shape", [(3, 40), (2, 3, 5, 17), (9,)])
def test_linear(shape: tuple[int, ...]) -> None:
    x, w = whole(*shape), whole(11, shape[-1])
    sums = bias(11, 5000)
    rest = [[1_600_000_000], [-8], 120, -128]
    compare("quantized_linear", x, w, sums, None, 5, -3, 7, *rest)  # DSP
    compare("quantized_linear", x, w, None, None, 5, 0, 7, *rest)
    compare("quantized_linear", x, w, None, sums[None], 5, -3, 7, *rest)  # MVE


def test_batch_matmul() -> None:
    args = whole(3, 4, 33), -7, whole(3, 6, 33), 12, 3, 1_300_000_000, -8, SCRATCH
    compare("quantized_batch_matmul", *args)


def test_softmax() -> None:
    for x, dim in ((whole(4, 30), -1), (whole(2, 7, 3), 1), (whole(2, 7, 3), 0)):
        compare("softmax", x, dim, 4, -128, 1_250_000_000, 22, -248, steps=1)


def test_transpose_and_pad() -> None:
    for dtype in (torch.int8, torch.int16, torch.int32, torch.float32):
        compare("transpose", whole(2, 3, 4, 5, dtype=dtype), [0, 2, 3, 1])
        compare("transpose", whole(4, 5, dtype=dtype), [1, 0])
        compare("pad", whole(3, 4, dtype=dtype), [0, 0, 1, 2], [0, 0, 0, 3], 9)
    compare("pad", whole(2, 3, 4, 5), [0, 1, 2, 3], [1, 0, 2, 0], -7)
    compare("pad", image(2, 3, 4, 5), [0, 1, 2, 3], [1, 0, 2, 0], -7, nhwc=True)


def test_convolutions() -> None:
    for n, c, o, groups, kernel, *steps in (
        (2, 6, 8, 1, (3, 3), [1, 1], [1, 1], [1, 1]),
        (1, 6, 9, 3, (2, 3), [2, 1], [0, 2], [1, 2]),
        (1, 70, 3, 1, (1, 1), [1, 2], [0, 0], [1, 1]),
    ):
        x, weight = image(n, c, 9, 7), whole(o, *kernel, c // groups)
        for sums in (bias(o), None):
            args = weight, sums, *steps, -3, 5, *factors(o), -120, 110, SCRATCH
            compare("quantized_conv2d", x, *args, nhwc=True)
            compare("quantized_conv2d", x.contiguous(), *args)
            compare("quantized_conv2d_nhwc", x.permute(NHWC).contiguous(), *args)


def test_depthwise_convolutions() -> None:
    for c, multiplier, *steps in ((70, 1, [1, 1], [1, 1], [1, 1]), (5, 2, [2, 1], [0, 2], [1, 2])):
        o = c * multiplier
        weight, x = whole(1, 3, 2, o), image(2, c, 9, 7)
        args = weight, bias(o), *steps, multiplier, -3, 5, *factors(o), -120, 110, SCRATCH
        compare("quantized_depthwise_conv2d", x, *args, nhwc=True)
        compare("quantized_depthwise_conv2d", x.contiguous(), *args)
        compare("quantized_depthwise_conv2d_nhwc", x.permute(NHWC).contiguous(), *args)


def test_transposed_convolutions() -> None:
    for steps in (
        ([1, 1], [0, 0], [0, 0], [1, 1]),
        ([2, 3], [1, 2], [1, 0], [1, 1]),
        ([2, 2], [0, 1], [0, 1], [2, 1]),
    ):
        weight, x = whole(4, 3, 2, 6), image(2, 6, 5, 4)
        args = weight, bias(4), *steps, -3, 5, *factors(4), -120, 110, SCRATCH, SCRATCH
        compare("quantized_transpose_conv2d", x, *args, nhwc=True)
        compare("quantized_transpose_conv2d_nhwc", x.permute(NHWC).contiguous(), *args)


def test_pooling() -> None:
    x = image(2, 5, 9, 7)
    for kernel, stride, padding, ceil in (
        ([3, 2], [2, 2], [1, 0], False),
        ([2, 3], [2, 2], [0, 1], True),
        ([3], [1], [0], False),
        ([9, 7], [1, 1], [0, 0], False),
    ):
        args = (kernel, stride, padding, ceil, -4, 1_610_000_000, -5, SCRATCH)
        compare("quantized_avg_pool2d", x, *args, nhwc=True)
        compare("quantized_avg_pool2d_nhwc", x.permute(NHWC).contiguous(), *args)
        limits = (-128, 127) if kernel == [9, 7] else (-90, 80)
        args = (kernel, stride, padding, [1, 1], False, 3, 3, *limits)
        compare("quantized_max_pool2d", x, *args, nhwc=True)
        compare("quantized_max_pool2d_nhwc", x.permute(NHWC).contiguous(), *args)


def test_check_model() -> None:
    torch.manual_seed(4)
    layers = torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(512, 6)
    model = torch.nn.Sequential(*layers).eval()
    inputs = [(torch.randn(1, 3, 10, 10),) for _ in range(4)]
    result = check_model(model, inputs[0], flow="cortex-m", real_inputs=inputs[1:])
    assert result.ok, str(result)


class Difference(torch.nn.Module):
    """A difference of equal numbers, and a sum with it."""

    def __init__(self) -> None:
        super().__init__()
        self.head = torch.nn.Linear(12, 5)

    def forward(self, x: Any) -> Any:
        scores = self.head(x)
        twice = torch.cat([scores, scores], -1)
        return twice.amax(-1) - scores.amax(-1) + x[:, 0]


def test_a_difference_is_a_sum_with_a_negative_factor() -> None:
    """`explain` took the difference, a `quantized_add` of zeros, for the sum after it, and the sum
    for its operand, from which it differs where it is clamped."""
    torch.manual_seed(4)
    inputs = [(torch.randn(8, 12),) for _ in range(4)]
    result = check_model(Difference(), inputs[0], flow="cortex-m", real_inputs=inputs[1:])
    assert result.ok, str(result)
    for case in result.cases:
        report = result.explain(case)
        sums = [row for row in report.rows if row.name == "cortex_m::quantized_add.out"]
        assert len(sums) == 2 and report.ok, str(report)
