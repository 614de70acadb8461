"""Depthwise convolutions by kernels of our own (kernels/speed/depthwise.c), compared with NumPy."""

from __future__ import annotations

import os

import numpy as np
import pytest

pytest.importorskip("executorch")

import executorch_c as et
from tests.backends.test_xnnpack_windows import windows
from tests.backends.xnnpack_graphs import Channel, Graph, Shape, Tensor

WITHOUT = os.environ.get("EXECUTORCH_C_XNNPACK") == "0"
pytestmark = pytest.mark.skipif(WITHOUT, reason="built without XNNPACK: EXECUTORCH_C_XNNPACK=0")

CASES: dict[str, tuple[Shape, Shape, Shape, Shape]] = {
    "7x7": ((7, 7), (1, 1), (3, 3, 3, 3), (1, 1)),
    "7x7-strided": ((7, 7), (2, 3), (3, 3, 3, 3), (1, 1)),
    "7x7-dilated": ((7, 7), (1, 1), (6, 6, 6, 6), (2, 2)),
    "9x9": ((9, 9), (1, 1), (4, 4, 4, 4), (1, 1)),
    "11x11": ((11, 11), (1, 1), (5, 5, 5, 5), (1, 1)),
    "6x6": ((6, 6), (1, 2), (2, 3, 3, 2), (1, 1)),
    "1x31": ((1, 31), (1, 1), (0, 15, 0, 15), (1, 1)),
    "5x7": ((5, 7), (1, 1), (2, 3, 2, 3), (1, 1)),  # as a general convolution
    "3x3": ((3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    "3x3-odd": ((3, 3), (1, 1), (1, 1, 1, 0), (1, 1)),  # 11 pixels in a row: 4, 4, 2 and 1
    "3x3-strided": ((3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    "3x3-far": ((3, 3), (4, 5), (1, 1, 1, 1), (1, 1)),
    "3x3-dilated": ((3, 3), (1, 1), (2, 2, 2, 2), (2, 2)),
    "3x3-step": ((3, 3), (1, 2), (1, 0, 1, 1), (1, 1)),
    "2x4": ((2, 4), (1, 1), (0, 1, 1, 2), (1, 1)),  # by the kernel of 9 taps
    "5x5": ((5, 5), (1, 1), (2, 2, 2, 2), (1, 1)),
    "5x5-dilated": ((5, 5), (1, 2), (4, 4, 4, 4), (2, 2)),
    "1x7": ((1, 7), (1, 1), (0, 3, 0, 3), (1, 1)),  # by the kernel of 9 taps
}
CHANNELS = (1, 7, 16, 32, 33, 50, 64, 81, 100)
"""Parts of a tile of 8, 16, 32 or 64 channels, complete ones, and both."""


def run(graph: Graph, x: np.ndarray, threads: int = 1) -> np.ndarray:
    program = et.Runtime.get().load_program(graph.program())
    (found,) = program.load_method("forward", num_threads=threads).execute([x])
    assert isinstance(found, np.ndarray)
    return found


def graph_of(
    case: str,
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray,
    out: Shape,
    bounds: tuple[float, float] | None = None,
) -> Graph:
    window, stride, padding, dilation = CASES[case]
    graph, count = Graph(), x.shape[3]
    if x.dtype == np.int8:
        scales = [0.01 + 0.001 * i for i in range(count)]
        ends = [
            graph.input(x.shape, "qint8", Tensor(0.5, 3)),
            graph.constant(weight, "qcint8", Channel(scales, 3)),
            graph.constant(bias, "qcint32", Channel([0.5 * s for s in scales])),
            graph.output(out, "qint8", Tensor(0.75, -4)),
        ]
    else:
        ends = [
            graph.input(x.shape),
            graph.constant(weight),
            graph.constant(bias),
            graph.output(out),
        ]
    options = {} if bounds is None else {"bounds": bounds}
    graph.conv(
        "DepthwiseConv2d",
        *ends,
        window=window,
        channels=(1, 1),
        groups=count,
        stride=stride,
        padding=padding,
        dilation=dilation,
        **options,
    )
    return graph


def expected(case: str, x: np.ndarray, weight: np.ndarray, fill: float = 0) -> np.ndarray:
    """Return the sums over the windows, without the bias, in float64 or int64."""
    window, stride, padding, dilation = CASES[case]
    seen = windows(x, fill, window, stride, padding, dilation)
    wide = np.int64 if x.dtype == np.int8 else np.float64
    taps = weight.reshape(-1, weight.shape[3]).T.astype(wide)
    found: np.ndarray = np.einsum("nhwck,ck->nhwc", seen.astype(wide) - wide(fill), taps)
    return found


def made(case: str, channels: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(channels)
    shape = (1, *CASES[case][0], channels)
    return tuple(
        random.standard_normal(s, np.float32) for s in ((2, 13, 12, channels), shape, (channels,))
    )


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("case", CASES)
def test_filters(case: str, channels: int) -> None:
    x, weight, bias = made(case, channels)
    right = expected(case, x, weight) + bias
    room = 1e-6 * (expected(case, np.abs(x), np.abs(weight)) + np.abs(bias))
    graph = graph_of(case, x, weight, bias, right.shape)
    found = run(graph, x)
    assert np.all(np.abs(found - right) <= room)
    np.testing.assert_array_equal(found, run(graph, x, threads=2))
    low, high = (float(q) for q in np.quantile(right, [0.3, 0.8]))
    clamped = run(graph_of(case, x, weight, bias, right.shape, (low, high)), x)
    np.testing.assert_array_equal(clamped, np.clip(found, np.float32(low), np.float32(high)))


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("case", CASES)
def test_filters_in_int8(case: str, channels: int) -> None:
    random = np.random.default_rng(channels)
    x = random.integers(-128, 128, (2, 13, 12, channels)).astype(np.int8)
    x[0, 0, :3] = -128
    weight = random.integers(-127, 128, (1, *CASES[case][0], channels)).astype(np.int8)
    weight[:, 0] = -128
    bias = random.integers(-4000, 4000, channels).astype(np.int32)
    sums = expected(case, x, weight, fill=3) + bias
    scales = np.float32(0.5) * (0.01 + 0.001 * np.arange(channels)).astype(np.float32)
    scaled = sums * (scales.astype(np.float64) / 0.75)
    right = np.clip(np.rint(scaled) - 4, -128, 127)
    graph = graph_of(case, x, weight, bias, sums.shape)
    found = run(graph, x)
    # The scale is rounded to float32: halves may round to the other side.
    tie = np.abs(np.abs(scaled - np.rint(scaled)) - 0.5) < 1e-3
    np.testing.assert_array_equal(found[~tie], right[~tie])
    assert np.all(np.abs(found - right) <= 1) and tie.mean() < 0.1
    np.testing.assert_array_equal(found, run(graph, x, threads=2))


@pytest.mark.parametrize("case", ["7x7", "6x6", "5x7", "1x31", "3x3", "5x5"])
def test_infinities_stay_in_their_windows(case: str) -> None:
    """A kernel with more taps than the filter would multiply other pixels by zero: NaN."""
    x, weight, bias = made(case, 40)
    x[0, 6, 6, 11], x[1, 2, 3, 35] = np.inf, np.nan
    right = expected(case, x, weight) + bias
    found = run(graph_of(case, x, weight, bias, right.shape), x)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(right))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(right))
