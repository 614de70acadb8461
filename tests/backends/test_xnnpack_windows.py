"""Windows that lie partly or completely in the padding, compared with NumPy.

XNNPACK replaces elements outside the image by elements inside it, and read outside the image for
windows without any.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("executorch")

import executorch_c as et
from tests.backends.xnnpack_graphs import Graph, Shape, Tensor
from tests.backends.xnnpack_kinds import conv, numbers

WITHOUT = os.environ.get("EXECUTORCH_C_XNNPACK") == "0"
pytestmark = pytest.mark.skipif(WITHOUT, reason="built without XNNPACK: EXECUTORCH_C_XNNPACK=0")

SIZE = (2, 6, 7, 5)
SCHEMES = {"qint8": Tensor(0.5, 3), "quint8": Tensor(0.25, 100)}


def run(graph: Graph, x: np.ndarray) -> np.ndarray:
    method = et.Runtime.get().load_program(graph.program()).load_method("forward")
    (found,) = method.execute([x])
    assert isinstance(found, np.ndarray)
    return found


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


def pool(
    kind: str,
    dtype: str,
    shape: Shape,
    window: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    **options: Any,
) -> Graph:
    graph = Graph()
    scheme = SCHEMES.get(dtype)
    x, y = graph.input(SIZE, dtype, scheme), graph.output(shape, dtype, scheme)
    graph.pool(kind, x, y, window, stride, padding, dilation, **options)
    return graph


CASES: list[tuple[Shape, Shape, Shape, Shape]] = [
    ((3, 3), (1, 1), (5, 0, 5, 0), (1, 1)),
    ((3, 3), (1, 1), (0, 4, 0, 4), (1, 1)),
    ((2, 3), (2, 1), (3, 5, 4, 3), (1, 1)),
    ((3, 2), (1, 2), (40, 1, 0, 1), (2, 3)),
    ((2, 2), (1, 1), (1, 1, 1, 1), (4, 5)),
    ((6, 7), (1, 1), (5, 6, 5, 6), (1, 1)),
    ((9, 9), (4, 2), (8, 8, 8, 8), (1, 1)),
]
"""Window, stride, padding (top, right, bottom, left), dilation."""
REFUSED: list[tuple[Shape, Shape, Shape, Shape]] = [
    ((1, 1), (1, 1), (0, 0, 0, 0), (1, 1)),
    ((1, 1), (2, 3), (0, 0, 0, 0), (1, 1)),
    ((1, 1), (1, 2), (1, 2, 0, 1), (2, 2)),
    ((2, 2), (3, 3), (0, 0, 0, 0), (1, 1)),
    ((1, 3), (2, 1), (0, 1, 0, 1), (1, 1)),
    ((2, 2), (3, 4), (1, 1, 1, 1), (2, 1)),
    ((6, 7), (9, 9), (0, 0, 0, 0), (1, 1)),
]
"""Windows of one element, and strides larger than the window: XNNPACK refuses them, ExecuTorch's
runtime does not."""
AVERAGES = [case[:3] for case in CASES if case[3] == (1, 1)]
AVERAGES += [((2, 2), (3, 3), (1, 1, 1, 1)), ((1, 1), (2, 3), (1, 2, 1, 2))]


def elements(dtype: str) -> np.ndarray:
    """Return an input: most of its numbers are negative, unless they are unsigned."""
    if dtype == "quint8":
        return (10 * numbers(*SIZE) + 30).clip(0, 255).astype(np.uint8)
    numpy = {"fp32": "float32", "fp16": "float16", "qint8": "int8"}[dtype]
    return (10 * numbers(*SIZE)).astype(numpy) - np.asarray(20, numpy)


def names(cases: Sequence[Sequence[Shape]]) -> list[str]:
    return ["-".join("x".join(map(str, part)) for part in case) for case in cases]


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "qint8", "quint8"])
@pytest.mark.parametrize(
    ("window", "stride", "padding", "dilation"), CASES + REFUSED, ids=names(CASES + REFUSED)
)
def test_max_pooling(
    dtype: str, window: Shape, stride: Shape, padding: Shape, dilation: Shape
) -> None:
    """The largest element inside the image; the minimum of the dtype without one."""
    x = elements(dtype)
    least = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    expected = windows(x, least, window, stride, padding, dilation).max(-1)
    graph = pool("MaxPooling2d", dtype, expected.shape, window, stride, padding, dilation)
    np.testing.assert_array_equal(run(graph, x), expected)


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "qint8", "quint8"])
def test_bounds_of_strided_maxima(dtype: str) -> None:
    """A clamp that the exporter fused into the pooling."""
    x = elements(dtype)
    window, stride = (2, 1), (1, 2)
    expected = windows(x, 0, window, stride, (0, 0, 0, 0), (1, 1)).max(-1)
    low, high = {"qint8": (-24, 5), "quint8": (12, 40)}.get(dtype, (-14.0, 2.5))
    scheme = SCHEMES.get(dtype, Tensor(1.0))
    bounds = tuple((limit - scheme.zero_point) * scheme.scale for limit in (low, high))
    graph = pool(
        "MaxPooling2d", dtype, expected.shape, window, stride, (0, 0, 0, 0), (1, 1), bounds=bounds
    )
    np.testing.assert_array_equal(run(graph, x), expected.clip(low, high))


def test_strided_maxima_of_other_sizes() -> None:
    """A program with dynamic shapes, also with infinity."""
    graph = pool("MaxPooling2d", "fp32", (2, 3, 4, 5), (1, 1), (2, 2), (0, 0, 0, 0), (1, 1))
    method = et.Runtime.get().load_program(graph.program()).load_method("forward")
    for size in (SIZE, (1, 1, 1, 5), (2, 5, 6, 5), (1, 6, 3, 5), SIZE):
        x = numbers(*size)
        x.reshape(-1)[:2] = np.inf, -np.inf
        np.testing.assert_array_equal(method.execute([x])[0], x[:, ::2, ::2])


@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
@pytest.mark.parametrize(("window", "stride", "padding"), AVERAGES, ids=names(AVERAGES))
def test_average_pooling(dtype: str, window: Shape, stride: Shape, padding: Shape) -> None:
    """The mean over the elements inside the image."""
    x = numbers(*SIZE).astype({"fp32": "float32", "fp16": "float16"}[dtype])
    under = windows(x, 0, window, stride, padding, (1, 1)).astype(np.float64)
    inside = windows(np.ones_like(x), 0, window, stride, padding, (1, 1)).sum(-1, dtype=np.float64)
    expected = under.sum(-1) / np.maximum(inside, 1)
    graph = pool("AvgPooling2d", dtype, expected.shape, window, stride, padding, (1, 1))
    found = run(graph, x)
    close = 1e-6 if dtype == "fp32" else 4e-3
    np.testing.assert_allclose(found[inside > 0], expected[inside > 0], rtol=close, atol=close)


SPREAD: list[Callable[[Shape], Graph]] = [
    conv("ConvTranspose2d", "fp32", (2, 2), (3, 3), (0, 0, 0, 0)),
    conv("ConvTranspose2d", "fp32", (1, 1), (5, 5), (0, 0, 0, 0)),
    conv("ConvTranspose2d", "fp32", (3, 1), (4, 6), (1, 0, 1, 0)),
]


@pytest.mark.parametrize("make", SPREAD, ids=["2x2-3x3", "1x1-5x5", "3x1-4x6"])
@pytest.mark.parametrize("size", [(1, 1, 1, 8), (2, 1, 1, 8), (1, 1, 3, 8), (1, 4, 4, 8)])
def test_strides_larger_than_a_result(make: Callable[[Shape], Graph], size: Shape) -> None:
    """Elements of the result without an input element equal the bias."""
    torch = pytest.importorskip("torch")
    graph = make(size)
    (node,) = (entry["xnode_union"] for entry in graph.nodes)
    weight, bias = numbers(6, node["kernel_height"], node["kernel_width"], 8), numbers(6, seed=2)
    x = numbers(*size)
    expected = torch.nn.functional.conv_transpose2d(
        torch.from_numpy(x).permute(0, 3, 1, 2),
        torch.from_numpy(weight).permute(3, 0, 1, 2),
        torch.from_numpy(bias),
        (node["subsampling_height"], node["subsampling_width"]),
        (node["padding_top"], node["padding_left"]),
    )
    expected = expected.permute(0, 2, 3, 1).numpy()
    np.testing.assert_allclose(run(graph, x), expected, rtol=1e-5, atol=1e-5)
