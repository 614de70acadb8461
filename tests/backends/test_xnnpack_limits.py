"""Nodes with parameters and numbers at their limits, beside NumPy, PyTorch or the official runtime.

Windows partly or completely in the padding, of one element, with strides larger than they are;
bounds that are NaN or in the other order; NaN, infinities and zeros with a sign. The linked XNNPACK
refuses some of them, which are computed here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import executorch_c as et
from tests.backends import xnnpack_flow
from tests.backends.xnnpack_graphs import ABSENT, BYTES, NUMPY, Graph, Shape, Tensor
from tests.backends.xnnpack_kinds import argmax, numbers, unary
from tests.backends.xnnpack_series import HAS_SPEED, needs_xnnpack
from tests.openers import Opener

pytestmark = needs_xnnpack

# ---- windows ------------------------------------------------------------------------------------

SIZE = (2, 6, 7, 5)
BARE = (0, 0, 0, 0)
CASES: list[tuple[Shape, Shape, Shape, Shape]] = [
    *(((3, 3), (1, 1), (5, 0, 5, 0), (1, 1)), ((3, 3), (1, 1), (0, 4, 0, 4), (1, 1))),
    *(((2, 3), (2, 1), (3, 5, 4, 3), (1, 1)), ((3, 2), (1, 2), (40, 1, 0, 1), (2, 3))),
    *(((2, 2), (1, 1), (1, 1, 1, 1), (4, 5)), ((6, 7), (1, 1), (5, 6, 5, 6), (1, 1))),
    ((9, 9), (4, 2), (8, 8, 8, 8), (1, 1)),
]
"""Window, stride, padding (top, right, bottom, left), dilation."""
REFUSED: list[tuple[Shape, Shape, Shape, Shape]] = [
    *(((1, 1), (1, 1), BARE, (1, 1)), ((1, 1), (2, 3), BARE, (1, 1))),
    *(((1, 1), (1, 2), (1, 2, 0, 1), (2, 2)), ((2, 2), (3, 3), BARE, (1, 1))),
    *(((1, 3), (2, 1), (0, 1, 0, 1), (1, 1)), ((2, 2), (3, 4), (1, 1, 1, 1), (2, 1))),
    ((6, 7), (9, 9), BARE, (1, 1)),
]
"""Windows of one element, and strides larger than the window: XNNPACK refuses them, ExecuTorch's
runtime does not."""
AVERAGES = [case[:3] for case in CASES if case[3] == (1, 1)]
AVERAGES += [((2, 2), (3, 3), (1, 1, 1, 1)), ((1, 1), (2, 3), (1, 2, 1, 2))]


def windows(
    x: np.ndarray, fill: float, window: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> np.ndarray:
    """Return the elements under each position: [batch, height, width, channels, window]."""
    top, right, bottom, left = padding
    around = [(0, 0), (top, bottom), (left, right), (0, 0)]
    padded = np.pad(x, around, constant_values=x.dtype.type(fill))
    spans = [(k - 1) * d + 1 for k, d in zip(window, dilation, strict=True)]
    views = np.lib.stride_tricks.sliding_window_view(padded, spans, axis=(1, 2))
    views = views[:, :: stride[0], :: stride[1], :, :: dilation[0], :: dilation[1]]
    return views.reshape(*views.shape[:4], -1)


def pool(kind: str, dtype: str, shape: Shape, *sides: Shape, **options: Any) -> Graph:
    graph = Graph()
    graph.pool(kind, graph.input(SIZE, dtype), graph.output(shape, dtype), *sides, **options)
    return graph


def elements(dtype: str) -> np.ndarray:
    """Return an input: most of its numbers are negative, unless they are unsigned."""
    if dtype == "quint8":
        return (10 * numbers(*SIZE) + 30).clip(0, 255).astype(np.uint8)
    return (10 * numbers(*SIZE)).astype(NUMPY[dtype]) - np.asarray(20, NUMPY[dtype])


def name_of(case: Sequence[Shape]) -> str:
    return "-".join("x".join(map(str, part)) for part in case)


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "qint8", "quint8"])
@pytest.mark.parametrize("case", CASES + REFUSED, ids=name_of)
def test_max_pooling(dtype: str, case: tuple[Shape, Shape, Shape, Shape]) -> None:
    """The largest element inside the image; the minimum of the dtype without one."""
    x = elements(dtype)
    least = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    expected = windows(x, least, *case).max(-1)
    (output,) = pool("MaxPooling2d", dtype, expected.shape, *case).run(x)
    np.testing.assert_array_equal(output, expected)


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "qint8", "quint8"])
def test_bounds_of_strided_maxima(dtype: str) -> None:
    """A clamp that the exporter fused into the pooling."""
    x = elements(dtype)
    case = ((2, 1), (1, 2), BARE, (1, 1))
    expected = windows(x, 0, *case).max(-1)
    low, high = {"qint8": (-24, 5), "quint8": (12, 40)}.get(dtype, (-14.0, 2.5))
    scheme = BYTES.get(dtype, Tensor(1.0))
    bounds = tuple((limit - scheme.zero_point) * scheme.scale for limit in (low, high))
    (output,) = pool("MaxPooling2d", dtype, expected.shape, *case, bounds=bounds).run(x)
    np.testing.assert_array_equal(output, expected.clip(low, high))


def test_strided_maxima_of_other_sizes() -> None:
    """A program with dynamic shapes, also with infinity."""
    method = pool("MaxPooling2d", "fp32", (2, 3, 4, 5), (1, 1), (2, 2)).load()
    for size in (SIZE, (1, 1, 1, 5), (2, 5, 6, 5), (1, 6, 3, 5), SIZE):
        x = numbers(*size)
        x.reshape(-1)[:2] = np.inf, -np.inf
        np.testing.assert_array_equal(method.execute([x])[0], x[:, ::2, ::2])


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
@pytest.mark.parametrize("case", AVERAGES, ids=name_of)
def test_average_pooling(dtype: str, case: tuple[Shape, Shape, Shape]) -> None:
    """The mean over the elements inside the image."""
    x = numbers(*SIZE).astype(NUMPY[dtype])
    under = windows(x, 0, *case, (1, 1)).astype(np.float64)
    inside = windows(np.ones_like(x), 0, *case, (1, 1)).sum(-1, dtype=np.float64)
    expected = under.sum(-1) / np.maximum(inside, 1)
    (output,) = pool("AvgPooling2d", dtype, expected.shape, *case).run(x)
    close = 1e-6 if dtype == "fp32" else 4e-3
    np.testing.assert_allclose(output[inside > 0], expected[inside > 0], rtol=close, atol=close)


# ---- nodes that the linked XNNPACK refuses, with the official runtime's numbers ------------------

SAME = 4
"""The flag of padding to the same size."""
IMAGE = (2, 6, 7, 8)
Case = tuple[Graph, list[np.ndarray]]
WEIGHTED = ("Conv2d", "DepthwiseConv2d", "ConvTranspose2d")


def sizes(window: Shape, stride: Shape, flags: int) -> list[int]:
    """Return height and width of a result."""
    sides = zip(IMAGE[1:3], window, stride, strict=True)
    return [-(-n // step) if flags else (n - k) // step + 1 for n, k, step in sides]


def pooled(
    kind: str, window: Shape, stride: Shape, dtype: str = "fp32", flags: int = SAME, **options: Any
) -> Case:
    graph = Graph()
    y = (IMAGE[0], *sizes(window, stride, flags), IMAGE[3])
    ends = graph.input(IMAGE, dtype), graph.output(y, dtype)
    graph.pool(kind, *ends, window, stride, flags=flags, **options)
    return graph, [(10 * numbers(*IMAGE)).astype(NUMPY[dtype])]


def layer(
    kind: str, x: Shape, y: Shape, shape: Shape, dtypes: Sequence[str], **options: Any
) -> Case:
    """Return a layer with a filter of `shape`; dtypes of the input, the filter and the bias."""
    graph = Graph()
    ends = [graph.input(x, dtypes[0]), graph.constant(numbers(*shape), dtypes[1]), ABSENT]
    if dtypes[2] != "none":
        ends[2] = graph.constant(numbers(y[-1], seed=2), dtypes[2])
    add = graph.linear if kind == "FullyConnected" else partial(graph.conv, kind)
    add(*ends, graph.output(y, dtypes[0]), **options)
    return graph, [numbers(*x).astype(NUMPY[dtypes[0]])]


def conv(
    kind: str,
    window: Shape,
    stride: Shape,
    dtypes: Sequence[str] = ("fp32",) * 3,
    flags: int = 0,
) -> Case:
    sides = sizes(window, stride, flags)
    if kind == "ConvTranspose2d":
        sides = [(n - 1) * step + k for n, k, step in zip(IMAGE[1:3], window, stride)]
    is_depthwise = kind == "DepthwiseConv2d"
    shape = (1, *window, 8) if is_depthwise else (6, *window, 8)
    options = {"groups": 8 if is_depthwise else 1, "stride": stride, "flags": flags}
    y = (IMAGE[0], *sides, 8 if is_depthwise else 6)
    return layer(kind, IMAGE, y, shape, dtypes, **options)


def linear(*dtypes: str, **options: Any) -> Case:
    return layer("FullyConnected", (3, 32), (3, 6), (6, 32), dtypes, **options)


def argmax_of_one(read: bool) -> Case:
    values = 10 * numbers(*IMAGE)
    values.reshape(-1)[:4] = np.nan, np.inf, -np.inf, -0.0
    return argmax(1, read)(IMAGE), [values]


def number(kind: str, **fields: Any) -> Case:
    """Return a node of a number."""
    return unary(kind, "fp32", **fields)(()), [np.array(3, np.float32)]


def nothing(offset: int) -> Case:
    """Return a slice without elements."""
    fields = {"num_dims": 2, "offsets": [0, offset], "sizes": [3, 0]}
    make = unary("StaticSlice", "fp32", lambda shape: (3, 0), **fields)
    return make((3, 4)), [numbers(3, 4)]


POOLED: list[tuple[Shape, Shape]] = [((2, 2), (3, 3)), ((1, 1), (2, 2)), ((2, 3), (3, 1))]
HALVES = [("fp16", "fp16", "fp32"), ("fp32", "fp16", "fp32"), ("fp32", "fp16", "fp16")]
NUMBER_PADDING = {"pre_paddings": [], "post_paddings": [], "padding_value": 1.0}
COMPUTED: dict[str, Callable[[], Case]] = {
    **{
        f"{kind} {sides}": partial(make, kind, *sides, flags=SAME)
        for kind, make in (
            *(("MaxPooling2d", pooled), ("AvgPooling2d", pooled)),
            *(("Conv2d", conv), ("DepthwiseConv2d", conv)),
        )
        for sides in POOLED
    },
    "MaxPooling2d of int8": partial(pooled, "MaxPooling2d", (2, 2), (3, 3), "qint8"),
    **{
        f"{kind} {dtypes}": partial(conv, kind, (3, 2), (1, 2), dtypes)
        for kind in WEIGHTED
        for dtypes in HALVES
        if (kind, dtypes[0]) != (WEIGHTED[2], "fp16")
    },
    "Conv2d without a bias": partial(conv, "Conv2d", (3, 2), (1, 2), ("fp16", "fp16", "none")),
    **{f"FullyConnected {dtypes}": partial(linear, *dtypes) for dtypes in HALVES},
    "ArgMaxPooling2d of one element": partial(argmax_of_one, True),
    "padding of a number": partial(number, "StaticConstantPad", **NUMBER_PADDING),
    "slice without elements": partial(nothing, 1),
    "slice without elements at the end": partial(nothing, 4),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_computed(name: str, ours: Opener, official: Opener) -> None:
    graph, inputs = COMPUTED[name]()
    pte = graph.program()
    expected = official(pte)("forward", inputs)
    outputs = ours(pte)("forward", inputs)
    is_half = inputs[0].dtype == np.float16
    limits = {"rtol": 4e-3, "atol": 4e-2} if is_half else {"rtol": 1e-6, "atol": 1e-6}
    for a, e in zip(outputs, expected, strict=True):
        assert a.shape == e.shape and a.dtype == e.dtype
        if not HAS_SPEED and not is_half:  # XNNPACK's SSE kernel rounds each product
            limits["atol"] = 1e-6 * float(np.abs(e).max(initial=1.0))
        np.testing.assert_allclose(a, e, **limits)


def test_maxima_of_one_element_without_indices() -> None:
    """The official runtime ends the process where nothing reads the indices."""
    graph, (x,) = argmax_of_one(False)
    np.testing.assert_array_equal(graph.run(x)[0], x)


def test_the_same_size_of_other_inputs() -> None:
    """The padding depends on the sizes of a call."""
    kinds = {"MaxPooling2d": np.nanmax, "AvgPooling2d": np.nanmean}
    methods = [pooled(kind, (2, 2), (3, 3))[0].load() for kind in kinds]
    for size in (IMAGE, (1, 4, 7, 8), (2, 1, 3, 8), (2, 5, 6, 8), IMAGE):
        x = 10 * numbers(*size)
        more = [max(-(-n // 3) * 3 - 1 - n, 0) for n in size[1:3]]
        (top, left), (bottom, right) = ([m // 2 for m in more], [m - m // 2 for m in more])
        under = windows(x, np.nan, (2, 2), (3, 3), (top, right, bottom, left), (1, 1))
        for method, reduce in zip(methods, kinds.values(), strict=True):
            (output,) = method.execute([x])
            np.testing.assert_allclose(output, reduce(under, -1), rtol=1e-5, atol=1e-5)


REFUSED_BY_BOTH: dict[str, Callable[[], Case]] = {
    **{
        f"{kind}, NaN bounds": partial(pooled, kind, (2, 2), (1, 1), flags=0, bounds=(np.nan, 1.0))
        for kind in ("MaxPooling2d", "AvgPooling2d")
    },
    "FullyConnected, NaN bounds": partial(linear, *("fp32",) * 3, bounds=(np.nan, 1.0)),
    "slice of a number": partial(number, "StaticSlice", num_dims=0, offsets=[], sizes=[]),
}


@pytest.mark.parametrize("name", REFUSED_BY_BOTH)
def test_refused_by_both(name: str, ours: Opener, official: Opener) -> None:
    graph, inputs = REFUSED_BY_BOTH[name]()
    pte = graph.program()
    with pytest.raises(et.Error):
        ours(pte)("forward", inputs)
    with pytest.raises(RuntimeError):
        official(pte)("forward", inputs)


# ---- bounds -------------------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", [(np.nan, np.nan), (np.nan, 1.0), (-1.0, np.nan)])
@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_bounds_that_are_nan(dtype: str, bounds: tuple[float, float]) -> None:
    """All elements are NaN, as with torch.clamp; the official runtime ignores such a bound."""
    x = (10 * numbers(2, 5)).astype(NUMPY[dtype])
    clamp, binary = unary("Clamp", dtype, bounds=bounds)((2, 5)), Graph()
    a, b = binary.input((2, 5), dtype), binary.input((1, 5), dtype)
    binary.binary("Add", a, b, binary.output((2, 5), dtype), bounds=bounds)
    for graph, inputs in ((clamp, [x]), (binary, [x, x[:1]])):
        (output,) = graph.run(*inputs)
        assert output.shape == (2, 5) and np.isnan(output).all()


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "qint8"])
def test_bounds_in_the_other_order(dtype: str) -> None:
    """The result of a clamp is the upper bound, as in eager and in ExecuTorch's runtime."""
    x = np.arange(-7, 8).reshape(3, 5).astype(NUMPY[dtype])
    (output,) = unary("Clamp", dtype, bounds=(1.5, 0.5))((3, 5)).run(x)
    np.testing.assert_array_equal(output, np.full_like(x, 4 if dtype == "qint8" else 0.5))


# ---- numbers ------------------------------------------------------------------------------------


def test_nan_in_a_pooling(ours: Opener, official: Opener) -> None:
    """Both lose it where a window has one element (eager keeps it)."""
    graph, (x,) = pooled("MaxPooling2d", (1, 1), (1, 1), flags=0)
    x.reshape(-1)[::7] = np.nan
    pte = graph.program()
    (output,), (expected,) = ours(pte)("forward", [x]), official(pte)("forward", [x])
    np.testing.assert_array_equal(output, expected)
    assert not np.isnan(output).any()


def run(kind: str, x: np.ndarray) -> np.ndarray:
    return np.asarray(unary(kind, "fp32")(x.shape).run(x, num_threads=1)[0])


def tanh(x: np.ndarray) -> np.ndarray:
    return np.tanh(x.astype(np.float64))


def rsqrt(x: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return 1 / np.sqrt(x.astype(np.float64))


def test_every_part_of_the_range_of_tanh() -> None:
    """Normal floats, and infinity. XNNPACK counts subnormals as 0."""
    floats = np.arange(0x800000, 0x7F800000, 4099, np.uint32).view(np.float32)
    x = np.append(floats, np.float32("inf"))
    y, expected = run("Tanh", x), tanh(x)
    unit = np.spacing(expected.astype(np.float32)).astype(np.float64)
    assert np.all(np.abs(y - expected) <= 1.42 * unit)
    bits = y.view(np.int32) - torch.tanh(torch.from_numpy(x)).numpy().view(np.int32)
    assert np.abs(bits).max() <= 1
    np.testing.assert_array_equal((-run("Tanh", -x)).view(np.uint32), y.view(np.uint32))


SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, -1.0, 1.2e-38, 1e-37, -1e-37, 3e38, -3e38)


@pytest.mark.parametrize("count", [1, 3, 4, 5, 8, 15, 16, 17, 33])
@pytest.mark.parametrize(
    "kind, exact, low",
    [("Tanh", tanh, -2), ("ReciprocalSquareRoot", rsqrt, 1)],
    ids=["tanh", "rsqrt"],
)
def test_ends(kind: str, exact: Callable[..., np.ndarray], low: float, count: int) -> None:
    """Rows that are no multiple of a vector; NaN, infinity and zeros with a sign in each place."""
    for special in SPECIAL:
        for place in {0, count // 2, count - 1}:
            x = np.linspace(low, 2, count, dtype=np.float32)
            x[place] = special
            y, expected = run(kind, x), exact(x).astype(np.float32)
            np.testing.assert_allclose(y, expected, rtol=2e-7, atol=0)
            assert np.signbit(y[place]) == np.signbit(expected[place]) or np.isnan(expected[place])


def test_rows_of_4_bits_of_odd_length() -> None:
    """Of statically quantised layers; the official runtime's results are wrong."""
    torch.manual_seed(0)
    model, x = torch.nn.Linear(7, 5).eval(), torch.randn(2, 7)
    quantized = xnnpack_flow.pt2e(channel=True, bits=4)(model, (x,), None)
    exported = torch.export.export(quantized, (x,), strict=True)
    method = et.load(bytes(xnnpack_flow.lower(exported).buffer)).load_method("forward")
    np.testing.assert_array_equal(method(x.numpy()), quantized(x).numpy())
