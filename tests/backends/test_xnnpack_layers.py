"""Layers with weights, beside NumPy: floats within a limit by the sum of magnitudes, integers byte
by byte, as in the official runtime, too; the same bits with any number of threads.

The rows have what kernels of our own distinguish (backends/xnnpack/third_party): columns of panels,
rows of a product, groups, windows, tasks of threads, narrow results.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch

from executorch_c import Runtime
from tests.backends.xnnpack_graphs import Channel, Graph, Shape, Tensor
from tests.backends.xnnpack_series import needs_xnnpack

pytestmark = needs_xnnpack

ZERO_IN, ZERO_OUT, SCALE = 3, -4, 0.5
"""Quantisation of inputs and outputs: scales are powers of two, so that ties are exact."""


@dataclass(frozen=True)
class Layer:
    """A node: the shape of its input, the outputs of a group, and its window, as it is padded (top,
    right, bottom, left)."""

    kind: str
    shape: Shape
    count: int = 1
    window: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    bounds: tuple[float, float] | None = None

    @property
    def id(self) -> str:
        sizes = (self.shape, (self.count,), self.window, self.stride, self.padding, self.dilation)
        parts = ["x".join(map(str, size)) for size in (*sizes, (self.groups,))]
        return "-".join([self.kind, *parts, *([f"{self.bounds}"] if self.bounds else [])])

    @property
    def outputs(self) -> int:
        return self.count * self.groups

    @property
    def filter(self) -> Shape:
        """Return the shape of the filter."""
        if self.kind == "FullyConnected":
            return (self.count, self.shape[1])
        if self.kind == "DepthwiseConv2d":
            return (1, *self.window, self.outputs)
        return (self.outputs, *self.window, self.shape[3] // self.groups)

    def graph(self, ends: Any, graph: Graph) -> Graph:
        """Add the node: its ends are input, filter, bias and output."""
        if self.kind == "FullyConnected":
            graph.linear(*ends, bounds=self.bounds)
            return graph
        sides = {"stride": self.stride, "padding": self.padding, "dilation": self.dilation}
        graph.conv(self.kind, *ends, groups=self.groups, bounds=self.bounds, **sides)
        return graph

    def sums(self, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Return sums of products in float64, in which those of integers are exact."""
        x, weight = x.astype(np.float64), weight.astype(np.float64)
        if self.kind == "FullyConnected":
            return x @ weight.T
        if self.kind == "ConvTranspose2d":
            return self.spread(x, weight)
        if self.kind == "DepthwiseConv2d":
            weight = weight.transpose(3, 1, 2, 0)
        top, right, bottom, left = self.padding
        padded = np.pad(x, [(0, 0), (top, bottom), (left, right), (0, 0)])
        spans = [(k - 1) * d + 1 for k, d in zip(self.window, self.dilation, strict=True)]
        views = np.lib.stride_tricks.sliding_window_view(padded, spans, axis=(1, 2))
        (down, across), (tall, wide) = self.stride, self.dilation
        views = views[:, ::down, ::across, :, ::tall, ::wide]
        split = views.reshape(*views.shape[:3], self.groups, -1, *self.window)
        filters = weight.reshape(self.groups, self.count, *self.window, -1)
        sums = np.einsum("nhwgcyx,goyxc->nhwgo", split, filters)
        return sums.reshape(*views.shape[:3], -1)

    def spread(self, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        first, last = torch.from_numpy(x), torch.from_numpy(weight)
        y = torch.conv_transpose2d(
            first.permute(0, 3, 1, 2), last.permute(3, 0, 1, 2), stride=self.stride
        )
        top, right, bottom, left = self.padding
        y = y[:, :, top : y.shape[2] - bottom, left : y.shape[3] - right]
        return y.permute(0, 2, 3, 1).numpy()


# ---- rows ---------------------------------------------------------------------------------------


def conv(
    shape: Shape, count: int, side: int, stride: int = 1, groups: int = 1, **options: Any
) -> Layer:
    """Return a convolution whose padding keeps the size."""
    half = side // 2
    sides = {"window": (side, side), "stride": (stride, stride), "padding": (half,) * 4}
    return Layer("Conv2d", shape, count, groups=groups, **sides, **options)


def linear(rows: int, depth: int, count: int) -> Layer:
    return Layer("FullyConnected", (rows, depth), count)


def transposed(shape: Shape, count: int, stride: int) -> Layer:
    return Layer("ConvTranspose2d", shape, count, (2, 2), (stride, stride))


def depthwise(channels: int, *sides: Any) -> Layer:
    return Layer("DepthwiseConv2d", (2, 13, 12, channels), 1, *sides, groups=channels)


WINDOWS: list[Any] = [
    *(((7, 7), (1, 1), (3, 3, 3, 3)), ((7, 7), (2, 3), (3, 3, 3, 3))),
    *(((7, 7), (1, 1), (6, 6, 6, 6), (2, 2)), ((9, 9), (1, 1), (4, 4, 4, 4))),
    *(((11, 11), (1, 1), (5, 5, 5, 5)), ((6, 6), (1, 2), (2, 3, 3, 2))),
    ((1, 31), (1, 1), (0, 15, 0, 15)),
    ((5, 7), (1, 1), (2, 3, 2, 3)),  # as a general convolution
    ((3, 3), (1, 1), (1, 1, 1, 1)),
    ((3, 3), (1, 1), (1, 1, 1, 0)),  # 11 pixels in a row: 4, 4, 2 and 1
    *(((3, 3), (2, 2), (1, 1, 1, 1)), ((3, 3), (4, 5), (1, 1, 1, 1))),
    *(((3, 3), (1, 1), (2, 2, 2, 2), (2, 2)), ((3, 3), (1, 2), (1, 0, 1, 1))),
    ((2, 4), (1, 1), (0, 1, 1, 2)),  # by the kernel of 9 taps
    *(((5, 5), (1, 1), (2, 2, 2, 2)), ((5, 5), (1, 2), (4, 4, 4, 4), (2, 2))),
    ((1, 7), (1, 1), (0, 3, 0, 3)),  # by the kernel of 9 taps
]
"""Window, stride, padding and dilation of depthwise convolutions."""
CHANNELS = (1, 7, 16, 32, 33, 50, 64, 81, 100)
"""Parts of a tile of 8, 16, 32 or 64 channels, complete ones, and both."""
DEPTHWISE = [depthwise(channels, *sides) for sides in WINDOWS for channels in CHANNELS]

NARROW = (1, 2, 6, 15, 16, 17, 31, 32, 33, 48, 80, 112, 113)
"""Outputs: multiples of 16 and 32, their neighbours, and counts on both sides of each choice of
kernel."""
FLOATS = [
    *DEPTHWISE,
    *(conv((1, 9, 11, 5 * g), n, k, groups=g) for g in (1, 3) for k in (1, 3) for n in NARROW),
    *(transposed((1, 5, 9, 7), n, stride) for stride in (1, 2) for n in NARROW),
    *(linear(rows, 19, n) for rows in (1, 2, 7, 20) for n in NARROW),
    *(  # elements of the result without an input element equal the bias
        Layer("ConvTranspose2d", size, 6, window, stride, padding)
        for window, stride, padding in (
            *(((2, 2), (3, 3), (0, 0, 0, 0)), ((1, 1), (5, 5), (0, 0, 0, 0))),
            ((3, 1), (4, 6), (1, 0, 1, 0)),
        )
        for size in ((1, 1, 1, 8), (2, 1, 1, 8), (1, 1, 3, 8), (1, 4, 4, 8))
    ),
]

COUNTS = (1, 7, 16, 17, 33, 48, 56, 64, 65, 130)
"""Outputs: parts of panels of 16, one to four of them, and what follows four."""
PIXELS = ((1, 1), (1, 2), (1, 3), (2, 2), (1, 5), (2, 3), (1, 7), (5, 9))
"""Pictures of 1 to 7 rows of a product, and of 45: seven rows six times, and three."""
BOUNDS = ((0.0, 6.0), (-20.0, 11.0), (0.0, float("inf")))
INTEGERS = [
    *DEPTHWISE,
    *(conv((1, 5, 9, c), n, k) for k in (1, 3) for n in COUNTS for c in (3, 5, 16, 30)),
    *(conv((1, *size, 6), n, k) for k in (1, 3) for size in PIXELS for n in (5, 24, 40, 64, 96)),
    *(
        conv((2, 8, 7, 5 * groups), n, k, stride, groups)
        for k in (1, 3, 5)
        for groups, stride in ((1, 2), (3, 1), (2, 2))
        for n in (4, 20, 72)
    ),
    *(  # groups of 16 inputs and outputs, which are multiplied four at once; the others alone
        conv((*size, 16 * groups), 16, k, stride, groups, bounds=bounds)
        for k in (1, 3, 5)
        for groups in (3, 4, 5, 6, 11)
        for size, stride, bounds in (
            *(((1, 1, 1), 1, None), ((1, 1, 3), 1, None), ((1, 2, 3), 1, None)),
            ((2, 5, 9), 2, (-9.0, 21.0)),
        )
    ),
    *(  # products that two threads share: by rows, columns, images and groups (speed/tiles.c)
        conv((images, side, side, inputs), n, k, groups=groups)
        for images, side, inputs, n, groups, k in (
            *((1, 7, 160, 400, 1, 1), (1, 7, 64, 130, 1, 3), (1, 14, 400, 16, 25, 3)),
            *((3, 9, 60, 96, 3, 3), (3, 9, 96, 16, 6, 3), (1, 1, 2100, 590, 1, 1)),
            (1, 40, 8, 130, 1, 3),
        )
    ),
    *(conv((1, 5, 9, 12), 80, k, bounds=bounds) for k in (1, 3) for bounds in BOUNDS),
    *(
        linear(rows, depth, n)
        for rows in (1, 2, 3, 5, 7, 20)
        for n in COUNTS
        for depth in (1, 3, 18, 64, 1030)
    ),
    *(transposed((1, 4, 9, 7), n, stride) for stride in (1, 2) for n in COUNTS),
]


def each(layers: list[Layer]) -> Any:
    """Run a test for each layer; by default one of three, of each kind."""
    rows = pytest.mark.parametrize("layer", layers, ids=lambda layer: layer.id)
    return lambda test: pytest.mark.sweep(3)(rows(test))


# ---- floats -------------------------------------------------------------------------------------


def operands(layer: Layer) -> list[np.ndarray]:
    """Return an input, a filter and a bias."""
    rng = np.random.default_rng(layer.outputs)
    shapes = (layer.shape, layer.filter, (layer.outputs,))
    return [rng.standard_normal(shape, np.float32) for shape in shapes]


def run_floats(layer: Layer, x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Return the output, whose bits do not depend on threads."""
    graph, dims = Graph(), layer.sums(x, weight).shape
    ends = [graph.input(x.shape), graph.constant(weight), graph.constant(bias), graph.output(dims)]
    layer.graph(ends, graph)
    one, two = (graph.run(x, num_threads=threads)[0] for threads in (1, 2))
    np.testing.assert_array_equal(one, two)
    return np.asarray(one)


@each(FLOATS)
def test_floats(layer: Layer) -> None:
    x, weight, bias = operands(layer)
    expected = layer.sums(x, weight) + bias
    limit = 1e-6 * (layer.sums(np.abs(x), np.abs(weight)) + np.abs(bias))
    output = run_floats(layer, x, weight, bias)
    assert np.all(np.abs(output - expected) <= limit)
    low, high = (float(q) for q in np.quantile(expected, [0.3, 0.8]))
    clamped = run_floats(replace(layer, bounds=(low, high)), x, weight, bias)
    np.testing.assert_array_equal(clamped, np.clip(output, np.float32(low), np.float32(high)))


@pytest.mark.parametrize("window", [(7, 7), (6, 6), (5, 7), (1, 31), (3, 3), (5, 5)])
def test_infinities_stay_in_their_windows(window: Shape) -> None:
    """A kernel with more taps than the filter would multiply other pixels by zero: NaN."""
    layer = depthwise(40, *next(sides for sides in WINDOWS if sides[0] == window))
    x, weight, bias = operands(layer)
    x[0, 6, 6, 11], x[1, 2, 3, 35] = np.inf, np.nan
    output, expected = run_floats(layer, x, weight, bias), layer.sums(x, weight) + bias
    np.testing.assert_array_equal(np.isnan(output), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(output), np.isinf(expected))


@pytest.mark.parametrize("channels", [1, 15, 16, 17, 40])
def test_batch_norm(channels: int) -> None:
    """A depthwise convolution of floats with one tap: rounded twice, as by XNNPACK's kernel."""
    layer = Layer("DepthwiseConv2d", (1, 5, 3, channels), groups=channels, bounds=(-1.5, 2.0))
    x, weight, bias = operands(layer)
    expected = np.clip(x * weight.reshape(-1) + bias, np.float32(-1.5), np.float32(2))
    np.testing.assert_array_equal(run_floats(layer, x, weight, bias), expected)


# ---- integers -----------------------------------------------------------------------------------


def integers(*shape: int) -> np.ndarray:
    numbers = np.random.default_rng(sum(shape)).integers(-128, 128, shape).astype(np.int8)
    numbers.reshape(-1)[:3] = -128
    return numbers


def check(graph: Graph, *inputs: np.ndarray, expected: np.ndarray) -> None:
    """Run with one and two threads, and in the official runtime."""
    from executorch.runtime import Runtime as Official

    data = graph.program()
    program = Runtime.get().load_program(data)
    for threads in (1, 2):
        (output,) = program.load_method("forward", num_threads=threads).execute(inputs)
        np.testing.assert_array_equal(output, expected)
    method = Official.get().load_program(data).load_method("forward")
    assert method is not None
    (output,) = method.execute([torch.from_numpy(x) for x in inputs])
    np.testing.assert_array_equal(output.numpy(), expected)


def rounded(sums: np.ndarray, factor: np.ndarray | float, bounds: Any = None) -> np.ndarray:
    ends = bounds or (-float("inf"), float("inf"))
    low, high = (round(np.clip(end / SCALE + ZERO_OUT, -128, 127)) for end in ends)
    return np.clip(np.rint(sums * factor) + ZERO_OUT, low, high).astype(np.int8)


@each(INTEGERS)
def test_integers(layer: Layer) -> None:
    x, weight = integers(*layer.shape), integers(*layer.filter)
    if layer.kind == "DepthwiseConv2d":
        x[0, 0, :3], weight[:, 0] = -128, -128  # the largest products of pairs of taps
    bias = np.arange(-300, 300)[: layer.outputs].astype(np.int32)
    # Scales by which results of as many products fill a byte.
    depth = weight.size // layer.outputs
    exponent = -round(np.log2(3000 * np.sqrt(depth) / 50))
    scales = np.ldexp(1.0, exponent + np.arange(layer.outputs) % 3 - 1)
    sums = layer.sums(x.astype(np.int64) - ZERO_IN, weight) + bias
    graph, axis = Graph(), 3 if layer.kind == "DepthwiseConv2d" else 0
    ends = [
        graph.input(x.shape, "qint8", Tensor(SCALE, ZERO_IN)),
        graph.constant(weight, "qcint8", Channel(scales.tolist(), axis)),
        graph.constant(bias, "qcint32", Channel((SCALE * scales).tolist())),
        graph.output(sums.shape, "qint8", Tensor(SCALE, ZERO_OUT)),
    ]
    check(layer.graph(ends, graph), x, expected=rounded(sums, scales, layer.bounds))


@pytest.mark.parametrize("size", [1, 8, 31, 32, 33, 64, 100, 5000])
def test_multiply(size: int) -> None:
    for right in ((3, size), (3, 1), (1, size)):
        a, b = integers(3, size), integers(*right)[:, ::-1].copy()
        graph = Graph()
        ends = [
            graph.input(a.shape, "qint8", Tensor(0.5, ZERO_IN)),
            graph.input(b.shape, "qint8", Tensor(0.25, 5)),
            graph.output(a.shape, "qint8", Tensor(8.0, ZERO_OUT)),
        ]
        graph.binary("Multiply", *ends)
        sums = (a.astype(np.int64) - ZERO_IN) * (b.astype(np.int64) - 5)
        check(graph, a, b, expected=rounded(sums, 2.0**-6))


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 33])
@pytest.mark.parametrize("width", [1, 15, 16, 31, 32, 47, 100])
def test_transpose(width: int, rows: int) -> None:
    x, graph = integers(2, rows, width), Graph()
    y = graph.step(
        "StaticTranspose",
        graph.input(x.shape, "qint8"),
        dims=(2, width, rows),
        dtype="qint8",
        num_dims=3,
        perm=[0, 2, 1],
    )
    graph.show(y)
    check(graph, x, expected=x.transpose(0, 2, 1))
