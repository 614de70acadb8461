"""Layers of integers by kernels of our own (products.h, multiply.h, thirds.h), compared with NumPy
and the official runtime: the same bytes. Scales are powers of two, so that ties are exact."""

from __future__ import annotations

import os

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("executorch")

import executorch_c as et
from tests.backends.test_xnnpack_windows import windows
from tests.backends.xnnpack_graphs import Channel, Graph, Shape, Tensor

WITHOUT = os.environ.get("EXECUTORCH_C_XNNPACK") == "0"
pytestmark = pytest.mark.skipif(WITHOUT, reason="built without XNNPACK: EXECUTORCH_C_XNNPACK=0")

COUNTS = (1, 7, 16, 17, 33, 48, 56, 64, 65, 130)
"""Output channels: parts of panels of 16, one to four of them, and what follows four."""
PIXELS: tuple[Shape, ...] = ((1, 1), (1, 2), (1, 3), (2, 2), (1, 5), (2, 3), (1, 7), (5, 9))
"""Pictures of 1 to 7 rows of a product, and of 45: seven rows six times, and three."""
ZERO_IN, ZERO_OUT = 3, -4


def check(graph: Graph, *inputs: np.ndarray, expected: np.ndarray) -> None:
    """Run with one and two threads, and in the official runtime."""
    from executorch.runtime import Runtime

    data = graph.program()
    program = et.Runtime.get().load_program(data)
    for threads in (1, 2):
        (found,) = program.load_method("forward", num_threads=threads).execute(list(inputs))
        np.testing.assert_array_equal(found, expected)
    method = Runtime.get().load_program(data).load_method("forward")
    assert method is not None
    (official,) = method.execute([torch.from_numpy(x) for x in inputs])
    np.testing.assert_array_equal(official.numpy(), expected)


def numbers(*shape: int) -> np.ndarray:
    random = np.random.default_rng(sum(shape))
    found = random.integers(-128, 128, shape).astype(np.int8)
    found.reshape(-1)[:3] = -128
    return found


def scales(count: int, depth: int) -> np.ndarray:
    """Return scales of weights so that results of `depth` products fill a byte."""
    around = -round(np.log2(3000 * np.sqrt(depth) / 50))
    return np.ldexp(1.0, around + np.arange(count) % 3 - 1)


def rounded(sums: np.ndarray, factor: np.ndarray | float, bounds: tuple[int, int]) -> np.ndarray:
    found = np.rint(sums * factor) + ZERO_OUT
    return np.clip(found, *bounds).astype(np.int8)


def weighted(
    graph: Graph, x: np.ndarray, weight: np.ndarray, bias: np.ndarray, shape: Shape
) -> tuple[list[int], np.ndarray]:
    """Return the ends of a layer, with an input scale of 0.5, and the factors of its sums."""
    count = len(bias)
    factors = scales(count, weight.size // count)
    ends = [
        graph.input(x.shape, "qint8", Tensor(0.5, ZERO_IN)),
        graph.constant(weight, "qcint8", Channel([float(s) for s in factors])),
        graph.constant(bias, "qcint32", Channel([0.5 * float(s) for s in factors])),
        graph.output(shape, "qint8", Tensor(0.5, ZERO_OUT)),
    ]
    return ends, factors


def convolution(
    x: np.ndarray,
    count: int,
    window: int,
    stride: int,
    groups: int,
    bounds: tuple[float, float] | None = None,
) -> None:
    """Check a convolution of groups of `count` outputs each, whose padding keeps the size."""
    inputs, pad = x.shape[3] // groups, window // 2
    weight = numbers(count * groups, window, window, inputs)
    bias = np.arange(-300, 300)[: count * groups].astype(np.int32)
    seen = windows(x, ZERO_IN, (window,) * 2, (stride,) * 2, (pad,) * 4, (1, 1))
    split = (seen.astype(np.int64) - ZERO_IN).reshape(*seen.shape[:3], groups, inputs, -1)
    filters = weight.astype(np.int64).reshape(groups, count, window**2, inputs)
    sums = np.einsum("nhwgck,gokc->nhwgo", split, filters).reshape(*seen.shape[:3], -1) + bias
    graph = Graph()
    ends, factors = weighted(graph, x, weight, bias, sums.shape)
    graph.conv(
        "Conv2d",
        *ends,
        window=(window,) * 2,
        channels=(inputs, count),
        groups=groups,
        stride=(stride,) * 2,
        padding=(pad,) * 4,
        bounds=bounds,
    )
    low, high = bounds or (-float("inf"), float("inf"))
    low, high = (float(np.clip(end / 0.5 + ZERO_OUT, -128, 127)) for end in (low, high))
    check(graph, x, expected=rounded(sums, factors, (round(low), round(high))))


@pytest.mark.parametrize("window", [1, 3])
@pytest.mark.parametrize("count", COUNTS)
def test_columns(count: int, window: int) -> None:
    for inputs in (3, 5, 16, 30):
        convolution(numbers(1, 5, 9, inputs), count, window, 1, 1)


@pytest.mark.parametrize("window", [1, 3])
@pytest.mark.parametrize("size", PIXELS)
def test_rows(size: Shape, window: int) -> None:
    for count in (5, 24, 40, 64, 96):
        convolution(numbers(1, *size, 6), count, window, 1, 1)


@pytest.mark.parametrize("window", [1, 3, 5])
@pytest.mark.parametrize(("groups", "stride"), [(1, 2), (3, 1), (2, 2)])
def test_groups_and_strides(groups: int, stride: int, window: int) -> None:
    for count in (4, 20, 72):
        convolution(numbers(2, 8, 7, 5 * groups), count, window, stride, groups)


@pytest.mark.parametrize("window", [1, 3, 5])
@pytest.mark.parametrize("groups", [3, 4, 5, 6, 11])
def test_groups_of_sixteen_channels(groups: int, window: int) -> None:
    """Groups of 16 inputs and outputs, which are multiplied four at once; the others alone."""
    for shape, stride in (((1, 1, 1), 1), ((1, 1, 3), 1), ((1, 2, 3), 1), ((2, 5, 9), 2)):
        bounds = (-9.0, 21.0) if stride == 2 else None
        convolution(numbers(*shape, 16 * groups), 16, window, stride, groups, bounds)


@pytest.mark.parametrize(
    ("images", "side", "inputs", "count", "groups", "window"),
    [
        (1, 7, 160, 400, 1, 1),
        (1, 7, 64, 130, 1, 3),
        (1, 14, 400, 16, 25, 3),
        (3, 9, 60, 96, 3, 3),
        (3, 9, 96, 16, 6, 3),
        (1, 1, 2100, 590, 1, 1),
        (1, 40, 8, 130, 1, 3),
    ],
)
def test_tasks(images: int, side: int, inputs: int, count: int, groups: int, window: int) -> None:
    """Products that two threads share: by rows, columns, images and groups (speed/tiles.c)."""
    convolution(numbers(images, side, side, inputs), count, window, 1, groups)


@pytest.mark.parametrize("bounds", [(0.0, 6.0), (-20.0, 11.0), (0.0, float("inf"))])
def test_bounds(bounds: tuple[float, float]) -> None:
    for window in (1, 3):
        convolution(numbers(1, 5, 9, 12), 80, window, 1, 1, bounds)


@pytest.mark.parametrize("rows", [1, 2, 3, 5, 7, 20])
@pytest.mark.parametrize("count", COUNTS)
def test_linear(count: int, rows: int) -> None:
    for depth in (1, 3, 18, 64, 1030):
        x, weight = numbers(rows, depth), numbers(count, depth)
        bias = np.arange(-300, 300)[:count].astype(np.int32)
        sums = (x.astype(np.int64) - ZERO_IN) @ weight.astype(np.int64).T + bias
        graph = Graph()
        ends, factors = weighted(graph, x, weight, bias, sums.shape)
        graph.linear(*ends)
        check(graph, x, expected=rounded(sums, factors, (-128, 127)))


@pytest.mark.parametrize("count", COUNTS)
def test_transposed_convolutions(count: int) -> None:
    for stride in (1, 2):
        x, weight = numbers(1, 4, 9, 7), numbers(count, 2, 2, 7)
        bias = np.arange(-300, 300)[:count].astype(np.int32)
        sums = (
            torch.conv_transpose2d(
                torch.from_numpy(x.astype(np.float64) - ZERO_IN).permute(0, 3, 1, 2),
                torch.from_numpy(weight.astype(np.float64)).permute(3, 0, 1, 2),
                torch.from_numpy(bias.astype(np.float64)),
                stride=stride,
            )
            .permute(0, 2, 3, 1)
            .numpy()
        )
        graph = Graph()
        ends, factors = weighted(graph, x, weight, bias, sums.shape)
        graph.conv(
            "ConvTranspose2d", *ends, window=(2, 2), channels=(7, count), stride=(stride, stride)
        )
        check(graph, x, expected=rounded(sums, factors, (-128, 127)))


@pytest.mark.parametrize("size", [1, 8, 31, 32, 33, 64, 100, 5000])
def test_multiply(size: int) -> None:
    for right in ((3, size), (3, 1), (1, size)):
        a, b = numbers(3, size), numbers(*right)[:, ::-1].copy()
        sums = (a.astype(np.int64) - ZERO_IN) * (b.astype(np.int64) - 5)
        graph = Graph()
        ends = [
            graph.input(a.shape, "qint8", Tensor(0.5, ZERO_IN)),
            graph.input(b.shape, "qint8", Tensor(0.25, 5)),
            graph.output(a.shape, "qint8", Tensor(8.0, ZERO_OUT)),
        ]
        graph.binary("Multiply", *ends)
        check(graph, a, b, expected=rounded(sums, 2.0**-6, (-128, 127)))


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 33])
@pytest.mark.parametrize("width", [1, 15, 16, 31, 32, 47, 100])
def test_transpose(width: int, rows: int) -> None:
    x, scheme = numbers(2, rows, width), Tensor(0.5, ZERO_IN)
    graph = Graph()
    graph.node(
        "StaticTranspose",
        input_id=graph.input(x.shape, "qint8", scheme),
        num_dims=3,
        output_id=graph.output((2, width, rows), "qint8", scheme),
        perm=[0, 2, 1],
    )
    check(graph, x, expected=x.transpose(0, 2, 1))


@pytest.mark.parametrize("channels", [1, 15, 16, 17, 40])
def test_batch_norm(channels: int) -> None:
    """A depthwise convolution of floats with one tap: rounded twice, as by XNNPACK's kernel."""
    random = np.random.default_rng(channels)
    x = random.standard_normal((1, 5, 3, channels), np.float32)
    weight, bias = random.standard_normal((2, channels), np.float32)
    graph = Graph()
    ends = [
        graph.input(x.shape),
        graph.constant(weight.reshape(1, 1, 1, -1)),
        graph.constant(bias),
        graph.output(x.shape),
    ]
    graph.conv(
        "DepthwiseConv2d",
        *ends,
        window=(1, 1),
        channels=(1, 1),
        groups=channels,
        bounds=(-1.5, 2.0),
    )
    expected = np.clip(x * weight + bias, np.float32(-1.5), np.float32(2))
    program = et.Runtime.get().load_program(graph.program())
    for threads in (1, 2):
        (found,) = program.load_method("forward", num_threads=threads).execute([x])
        np.testing.assert_array_equal(found, expected)
