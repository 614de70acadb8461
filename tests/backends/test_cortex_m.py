"""Operators of the Cortex-M flow, compared with the flow's reference implementations in Python."""

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from numpy.testing import assert_array_equal

import executorch_c
from executorch_c import Method, Runtime
from executorch_c.testing import check_model
from tests.single_op import Out, SingleOps

pytest.importorskip("tosa_serializer", reason="the flow needs tosa-tools (extra `arm`)")
from tests.backends import cortex_m_flow  # noqa: F401

NHWC = (0, 2, 3, 1)
SCRATCH = torch.zeros(1, dtype=torch.int8)
RANDOM = torch.Generator().manual_seed(5)


def whole(*shape: int, low: int = -128, high: int = 128, dtype: Any = torch.int8) -> torch.Tensor:
    """Return random integers."""
    return torch.randint(low, high, shape, generator=RANDOM).to(dtype)


def image(*shape: int) -> torch.Tensor:
    """Return a random int8 tensor in channels-last layout."""
    return whole(*shape).to(memory_format=torch.channels_last)


def factors(count: int) -> list[torch.Tensor]:
    """Return random multipliers and shifts of `count` channels."""
    return [
        whole(count, low=2**30, high=2**31, dtype=torch.int32),
        whole(count, low=-12, high=-5, dtype=torch.int32),
    ]


def method_of(name: str, args: Sequence[Any], out: Out) -> tuple[Method, list[Any]]:
    """Return a method that calls one operator, and its inputs."""
    ops = SingleOps()
    ops.add(f"cortex_m::{name}.out", *args, out, name="forward")
    program = Runtime.get().load_program(ops.build())
    return program.load_method("forward"), ops.inputs["forward"]


def dilated(weight: torch.Tensor, dilation: Sequence[int]) -> torch.Tensor:
    """Return weights [O, H, W, I] with zeros between the taps."""
    o, h, w, i = weight.shape
    wide = torch.zeros(o, (h - 1) * dilation[0] + 1, (w - 1) * dilation[1] + 1, i)
    wide[:, :: dilation[0], :: dilation[1]] = weight
    return wide.to(weight.dtype)


def compare(name: str, *args: Any, nhwc: bool = False, steps: int = 0) -> None:
    """Compare the operator with the reference: `steps` is the largest difference allowed."""
    functional = args
    if "transpose" not in name and "conv2d" in name:  # torch dilates no convolution of int32
        functional = (args[0], dilated(args[1], args[5]), *args[2:5], [1, 1], *args[6:])
    if name.endswith("quantize_per_tensor"):
        functional = (*args[:5], {1: torch.int8, 2: torch.int16}[args[5]])
    want = getattr(torch.ops.cortex_m, name).default(*functional)
    order = NHWC if nhwc else None
    out = Out(tuple(want.shape), str(want.dtype).split(".")[1], order)
    method, inputs = method_of(name, args, out)
    got = np.asarray(method(*inputs))
    assert got.dtype == want.numpy().dtype
    assert len(np.unique(got)) > 3 or got.size < 4  # a result that says something
    difference = np.abs(got.astype(np.float64) - want.numpy().astype(np.float64))
    assert difference.max(initial=0) <= steps


def test_every_operator_of_the_flow_is_a_row() -> None:
    text = files("executorch.backends.cortex_m.ops").joinpath("operators.yaml").read_text()
    declared = {row["func"] for row in yaml.safe_load(text)}
    Runtime.get()
    with pytest.raises(executorch_c.Error):  # the first unknown operator loads plug-ins
        method_of("unknown", [], Out((1,)))
    rows = [row["schema"] for row in executorch_c.operators() if row["origin"] == "Cortex-M"]
    names = {schema.split("(")[0] for schema in rows}
    assert names == {schema.split("(")[0] for schema in declared} and len(rows) == 23
    for schema in declared:
        assert schema.replace(" ", "") in {row.replace(" ", "") for row in rows}


@pytest.mark.parametrize("dtype", [torch.int8, torch.int16])
def test_quantize(dtype: torch.dtype) -> None:
    info, number = torch.iinfo(dtype), 1 if dtype == torch.int8 else 2
    x = torch.randn(2, 5, 3, 4, generator=RANDOM) * 40
    x.view(-1)[:4] = torch.tensor([0.5, 1.5, -0.5, 1e9]) * 0.25
    for value in (x, x.to(memory_format=torch.channels_last), x[0, 0, 0, 0], x[:0]):
        order = NHWC if value.dim() == 4 and value.numel() else None
        args = (value, 0.25, 3, info.min, info.max)
        want = torch.ops.cortex_m.quantize_per_tensor(*args, dtype)
        method, inputs = method_of(
            "quantize_per_tensor", [*args, number], Out(tuple(value.shape), str(dtype)[6:], order)
        )
        assert_array_equal(method(*inputs), want.numpy())
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
    compare("quantized_mul", a, 4, b, -9, 2, 2**31 - 1, 3, nhwc=True)  # saturates


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
        method, inputs = method_of(name, a, Out((3,)))
        assert_array_equal(method(*inputs), np.array(want, np.float32))


@pytest.mark.parametrize("shape", [(3, 40), (2, 3, 5, 17), (9,)])
def test_linear(shape: tuple[int, ...]) -> None:
    x, w = whole(*shape), whole(11, shape[-1])
    sums = whole(11, low=-5000, high=5000, dtype=torch.int32)
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
    both = [-3, 5], [-120, 110]
    for n, c, o, groups, kernel, stride, padding, dilation in (
        (2, 6, 8, 1, (3, 3), [1, 1], [1, 1], [1, 1]),
        (1, 6, 9, 3, (2, 3), [2, 1], [0, 2], [1, 2]),
        (1, 70, 3, 1, (1, 1), [1, 2], [0, 0], [1, 1]),
    ):
        bias = whole(o, low=-3000, high=3000, dtype=torch.int32)
        for b in (bias, None):
            args = (
                whole(o, *kernel, c // groups),
                b,
                stride,
                padding,
                dilation,
                *both[0],
                *factors(o),
                *both[1],
                SCRATCH,
            )
            x = image(n, c, 9, 7)
            compare("quantized_conv2d", x, *args, nhwc=True)
            compare("quantized_conv2d", x.contiguous(), *args)
            compare("quantized_conv2d_nhwc", x.permute(0, 2, 3, 1).contiguous(), *args)


def test_depthwise_convolutions() -> None:
    for c, multiplier, stride, padding, dilation in (
        (70, 1, [1, 1], [1, 1], [1, 1]),
        (5, 2, [2, 1], [0, 2], [1, 2]),
    ):
        o = c * multiplier
        bias = whole(o, low=-3000, high=3000, dtype=torch.int32)
        args = (
            whole(1, 3, 2, o),
            bias,
            stride,
            padding,
            dilation,
            multiplier,
            -3,
            5,
            *factors(o),
            -120,
            110,
            SCRATCH,
        )
        x = image(2, c, 9, 7)
        compare("quantized_depthwise_conv2d", x, *args, nhwc=True)
        compare("quantized_depthwise_conv2d", x.contiguous(), *args)
        compare("quantized_depthwise_conv2d_nhwc", x.permute(0, 2, 3, 1).contiguous(), *args)


def test_transposed_convolutions() -> None:
    for stride, padding, extra, dilation in (
        ([1, 1], [0, 0], [0, 0], [1, 1]),
        ([2, 3], [1, 2], [1, 0], [1, 1]),
        ([2, 2], [0, 1], [0, 1], [2, 1]),
    ):
        bias = whole(4, low=-3000, high=3000, dtype=torch.int32)
        args = (
            whole(4, 3, 2, 6),
            bias,
            stride,
            padding,
            extra,
            dilation,
            -3,
            5,
            *factors(4),
            -120,
            110,
            SCRATCH,
            SCRATCH,
        )
        x = image(2, 6, 5, 4)
        compare("quantized_transpose_conv2d", x, *args, nhwc=True)
        compare("quantized_transpose_conv2d_nhwc", x.permute(0, 2, 3, 1).contiguous(), *args)


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
        compare("quantized_avg_pool2d_nhwc", x.permute(0, 2, 3, 1).contiguous(), *args)
        limits = (-128, 127) if kernel == [9, 7] else (-90, 80)
        args = (kernel, stride, padding, [1, 1], False, 3, 3, *limits)
        compare("quantized_max_pool2d", x, *args, nhwc=True)
        compare("quantized_max_pool2d_nhwc", x.permute(0, 2, 3, 1).contiguous(), *args)


X = whole(1, 4, 6, 6)
WEIGHT, SHIFTS = whole(2, 3, 3, 4), torch.tensor([40, 0], dtype=torch.int32)


@pytest.mark.parametrize(
    "name, args, sentence",
    [
        ("minimum", [whole(3), whole(4)], "3 and 4 elements in dimension -1, which do not broadc"),
        ("minimum", [whole(3), torch.zeros(3)], "'other' has float32 .*, expected int8"),
        ("quantized_activation", [whole(3), whole(255)], "'lut' has 255 elements, expected 256"),
        ("transpose", [whole(3, 4), [0, 0]], "'perm' has the item 0, expected each dimension once"),
        ("pad", [whole(3, 4), [0, 0, -1, 0], [0] * 4, 0], "'pre_pad' has -1 for dimension 0"),
        ("softmax", [whole(3, 4), 1, 0, 0, 1, 1, 0], "'output_zero_point' is 0, expected -128"),
        ("quantized_mul", [X, 2**40, X, 0, 0, 1, 1], "'self_zero_point' is 1099511627776"),
        ("quantized_mul", [X, 0, X, 0, 0, 1, 99], "multiplier 1 and shift 99, expected an"),
        (
            "quantized_linear",
            [whole(3, 4), whole(2, 5), None, None, 0, 0, 0, [1], [1], 1, 0],
            "'input' has 4 features, 'weights' have 5",
        ),
        (
            "quantized_linear",
            [whole(3, 4), whole(2, 4), None, None, 0, 0, 0, [], [1], 1, 0],
            "'requantize_multipliers' has 0 and 'requantize_shifts' 1 items",
        ),
        (
            "quantized_conv2d",
            [X, WEIGHT, None, [1, 1], [0, 0], [1, 1], 0, 0, SHIFTS, SHIFTS, 0, 1, SCRATCH],
            "'requantize_shifts' has 40 for channel 0",
        ),
        (
            "quantized_conv2d",
            [X, WEIGHT, None, [0, 1], [0, 0], [1, 1], 0, 0, SHIFTS, SHIFTS, 0, 1, SCRATCH],
            "'stride' has the item 0, expected 1 to",
        ),
        (
            "quantized_conv2d",
            [
                *(X, WEIGHT[..., :3], None, [1, 1], [0, 0], [1, 1], 0, 0, SHIFTS % 2),
                *(SHIFTS % 2, 0, 1, SCRATCH),
            ],
            "4 channels, 'weight' takes 3",
        ),
        (
            "quantized_conv2d",
            [X, WEIGHT, None, [1, 1], [0, 0], [9, 1], 0, 0, SHIFTS % 2, SHIFTS % 2, 0, 1, SCRATCH],
            "a kernel of 3 x 3 does not fit an input of 6 x 6",
        ),
        (
            "quantized_max_pool2d",
            [X, [2, 2], [1, 1], [0, 0], [1, 1], False, 1, 2, 0, 9],
            "the zero points 1 of the input and 2 of the output differ",
        ),
        (
            "quantized_max_pool2d",
            [X, [2, 2], [1, 1], [2, 0], [1, 1], False, 1, 1, 0, 9],
            "a padding of 2 is more than half of the window's 2",
        ),
    ],
)
def test_bad_arguments(name: str, args: list[Any], sentence: str) -> None:
    method, inputs = method_of(name, args, Out((1, 2, 4, 4), "int8"))
    for _ in range(2):  # the method stays usable
        with pytest.raises(executorch_c.Error, match=sentence):
            method(*inputs)


def test_check_model() -> None:
    torch.manual_seed(4)
    layers = torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(512, 6)
    model = torch.nn.Sequential(*layers).eval()
    inputs = [(torch.randn(1, 3, 10, 10),) for _ in range(4)]
    result = check_model(model, inputs[0], flow="cortex-m", real_inputs=inputs[1:])
    assert result.ok, str(result)


def test_check_model_finds_a_wrong_operator() -> None:
    """A linear operator that is off by three steps."""
    schema = next(
        row["schema"]
        for row in executorch_c.operators()
        if row["name"] == "cortex_m::quantized_linear.out"
    )

    def wrong(x: Any, w: Any, bias: Any, sums: Any, *rest: Any) -> Any:
        args = [None if v is None else torch.tensor(v) for v in (x, w, bias, sums)]
        out = torch.ops.cortex_m.quantized_linear(
            *args, *rest[:3], *map(list, rest[3:5]), *rest[5:]
        )
        return np.minimum(out.numpy().astype(int) + 3, 127).astype(np.int8)

    torch.manual_seed(4)
    model, x = torch.nn.Sequential(torch.nn.Linear(20, 30)).eval(), torch.randn(4, 20)
    executorch_c.register_operator(schema, wrong, override=True)
    try:
        result = check_model(model, (x,), flow="cortex-m")
    finally:
        executorch_c.unregister_operator("cortex_m::quantized_linear.out")
    assert not result.ok
    assert check_model(model, (x,), flow="cortex-m").ok


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
