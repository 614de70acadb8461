"""Nodes with parameters at their limits, which the linked XNNPACK refuses and the official runtime
takes: computed here, with the official runtime's numbers (NaN bounds: PyTorch's)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("executorch")

import executorch_c as et
from tests.openers import Opener
from tests.backends.xnnpack_graphs import ABSENT, NUMPY, Graph, Shape, Tensor
from tests.backends.xnnpack_kinds import numbers

WITHOUT = os.environ.get("EXECUTORCH_C_XNNPACK") == "0"
pytestmark = pytest.mark.skipif(WITHOUT, reason="built without XNNPACK: EXECUTORCH_C_XNNPACK=0")

SAME = 4
"""The flag of padding to the same size."""
SIZE = (2, 6, 7, 8)
Case = tuple[Graph, list[np.ndarray]]
WEIGHTED = ("Conv2d", "DepthwiseConv2d", "ConvTranspose2d")


def same(size: int, stride: int) -> int:
    return -(-size // stride)


def pool(
    kind: str, window: Shape, stride: Shape, dtype: str = "fp32", flags: int = SAME, **options: Any
) -> Case:
    scheme = Tensor(0.5, 3) if dtype == "qint8" else None
    sizes = [same(size, step) for size, step in zip(SIZE[1:3], stride, strict=True)]
    if not flags:
        sizes = [(size - k) // step + 1 for size, k, step in zip(SIZE[1:3], window, stride)]
    graph = Graph()
    x = graph.input(SIZE, dtype, scheme)
    y = graph.output((SIZE[0], *sizes, SIZE[3]), dtype, scheme)
    graph.pool(kind, x, y, window, stride, flags=flags, **options)
    return graph, [(10 * numbers(*SIZE)).astype(NUMPY[dtype])]


def conv(
    kind: str,
    window: Shape,
    stride: Shape,
    dtypes: Shape | tuple[str, ...] = ("fp32",) * 3,
    flags: int = 0,
) -> Case:
    """A convolution; dtypes of the input, the filter and the bias."""
    x_dtype, filter_dtype, bias_dtype = map(str, dtypes)
    count = 8 if kind == "DepthwiseConv2d" else 6
    sizes = [
        (size - 1) * step + k
        if kind == "ConvTranspose2d"
        else same(size, step)
        if flags
        else (size - k) // step + 1
        for size, k, step in zip(SIZE[1:3], window, stride, strict=True)
    ]
    graph = Graph()
    x = graph.input(SIZE, x_dtype)
    shape = (1, *window, 8) if kind == "DepthwiseConv2d" else (6, *window, 8)
    weight = graph.constant(numbers(*shape), filter_dtype)
    bias = graph.constant(numbers(count, seed=2), bias_dtype) if bias_dtype != "none" else ABSENT
    y = graph.output((SIZE[0], *sizes, count), x_dtype)
    channels, groups = ((1, 1), 8) if kind == "DepthwiseConv2d" else ((8, 6), 1)
    graph.conv(
        kind,
        x,
        weight,
        bias,
        y,
        window=window,
        channels=channels,
        groups=groups,
        stride=stride,
        flags=flags,
    )
    return graph, [numbers(*SIZE).astype(NUMPY[x_dtype])]


def linear(x_dtype: str, filter_dtype: str, bias_dtype: str) -> Case:
    graph = Graph()
    x, y = graph.input((3, 32), x_dtype), graph.output((3, 6), x_dtype)
    weight = graph.constant(numbers(6, 32), filter_dtype)
    bias = graph.constant(numbers(6, seed=2), bias_dtype) if bias_dtype != "none" else ABSENT
    graph.linear(x, weight, bias, y)
    return graph, [numbers(3, 32).astype(NUMPY[x_dtype])]


def argmax_of_one(read: bool) -> Case:
    graph = Graph()
    x, y = graph.input(SIZE), graph.output(SIZE)
    indices = graph.output(SIZE, "int32") if read else graph.value(SIZE, "int32")
    graph.node(
        "ArgMaxPooling2d",
        input_id=x,
        output_value_id=y,
        output_index_id=indices,
        pooling_height=1,
        pooling_width=1,
    )
    values = 10 * numbers(*SIZE)
    values.reshape(-1)[:4] = np.nan, np.inf, -np.inf, -0.0
    return graph, [values]


def padded_number() -> Case:
    graph = Graph()
    x, y = graph.input(()), graph.output(())
    graph.node(
        "StaticConstantPad",
        pre_paddings=[],
        post_paddings=[],
        padding_value=1.0,
        input_id=x,
        output_id=y,
    )
    return graph, [np.array(3, np.float32)]


def nothing(offset: int) -> Case:
    """A slice without elements."""
    graph = Graph()
    x, y = graph.input((3, 4)), graph.output((3, 0))
    graph.node(
        "StaticSlice", num_dims=2, offsets=[0, offset], sizes=[3, 0], input_id=x, output_id=y
    )
    return graph, [numbers(3, 4)]


POOLED: list[tuple[Shape, Shape]] = [((2, 2), (3, 3)), ((1, 1), (2, 2)), ((2, 3), (3, 1))]
HALVES = [("fp16", "fp16", "fp32"), ("fp32", "fp16", "fp32"), ("fp32", "fp16", "fp16")]
COMPUTED: dict[str, Callable[[], Case]] = {
    **{
        f"{kind} {w} at {s}": lambda kind=kind, w=w, s=s: pool(kind, w, s)
        for kind in ("MaxPooling2d", "AvgPooling2d")
        for w, s in POOLED
    },
    "MaxPooling2d of int8": lambda: pool("MaxPooling2d", (2, 2), (3, 3), "qint8"),
    **{
        f"{kind} {w} at {s}": lambda kind=kind, w=w, s=s: conv(kind, w, s, flags=SAME)
        for kind in WEIGHTED[:2]
        for w, s in POOLED
    },
    **{
        f"{kind} {dtypes}": lambda kind=kind, dtypes=dtypes: conv(kind, (3, 2), (1, 2), dtypes)
        for kind in WEIGHTED
        for dtypes in HALVES
        if (kind, dtypes[0]) != (WEIGHTED[2], "fp16")
    },
    "Conv2d without a bias": lambda: conv("Conv2d", (3, 2), (1, 2), ("fp16", "fp16", "none")),
    **{f"FullyConnected {dtypes}": lambda dtypes=dtypes: linear(*dtypes) for dtypes in HALVES},
    "ArgMaxPooling2d of one element": lambda: argmax_of_one(True),
    "padding of a number": padded_number,
    "slice without elements": lambda: nothing(1),
    "slice without elements at the end": lambda: nothing(4),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_computed(name: str, ours: Opener, official: Opener) -> None:
    graph, inputs = COMPUTED[name]()
    pte = graph.program()
    expected = official(pte)("forward", inputs)
    found = ours(pte)("forward", inputs)
    is_half = inputs[0].dtype == np.float16
    for a, e in zip(found, expected, strict=True):
        assert a.shape == e.shape and a.dtype == e.dtype
        np.testing.assert_allclose(
            a, e, rtol=4e-3 if is_half else 1e-6, atol=4e-2 if is_half else 1e-6
        )


def test_maxima_of_one_element_without_indices(ours: Opener) -> None:
    """The official runtime ends the process where nothing reads the indices."""
    graph, (x,) = argmax_of_one(False)
    (found,) = ours(graph.program())("forward", [x])
    np.testing.assert_array_equal(found, x)


def test_the_same_size_of_other_inputs() -> None:
    """The padding depends on the sizes of a call."""
    graph, _ = pool("MaxPooling2d", (2, 2), (3, 3))
    averages, _ = pool("AvgPooling2d", (2, 2), (3, 3))
    methods = [
        et.Runtime.get().load_program(one.program()).load_method("forward")
        for one in (graph, averages)
    ]
    for size in (SIZE, (1, 4, 7, 8), (2, 1, 3, 8), (2, 5, 6, 8), SIZE):
        x = 10 * numbers(*size)
        reach = [(same(n, 3) - 1) * 3 + 2 for n in size[1:3]]
        more = [max(r - n, 0) for r, n in zip(reach, size[1:3], strict=True)]
        around = [(0, 0), *((m // 2, m - m // 2) for m in more), (0, 0)]
        padded = np.pad(x, around, constant_values=np.nan)
        views = np.lib.stride_tricks.sliding_window_view(padded, (2, 2), axis=(1, 2))
        views = views[:, ::3, ::3]
        for method, reduce in zip(methods, (np.nanmax, np.nanmean), strict=True):
            (found,) = method.execute([x])
            np.testing.assert_allclose(found, reduce(views, (-1, -2)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("bounds", [(np.nan, np.nan), (np.nan, 1.0), (-1.0, np.nan)])
@pytest.mark.parametrize("dtype", ["fp32", "fp16"])
def test_bounds_that_are_nan(dtype: str, bounds: tuple[float, float], ours: Opener) -> None:
    """All elements are NaN, as with torch.clamp; the official runtime ignores such a bound."""
    x = (10 * numbers(2, 5)).astype(NUMPY[dtype])
    unary, binary = Graph(), Graph()
    a, y = unary.input((2, 5), dtype), unary.output((2, 5), dtype)
    unary.unary("Clamp", a, y, bounds=bounds)
    a, b = binary.input((2, 5), dtype), binary.input((1, 5), dtype)
    binary.binary("Add", a, b, binary.output((2, 5), dtype), bounds=bounds)
    for graph, inputs in ((unary, [x]), (binary, [x, x[:1]])):
        (found,) = ours(graph.program())("forward", inputs)
        assert found.shape == (2, 5) and np.isnan(found).all()


def refused() -> dict[str, Case]:
    """Nodes that both runtimes refuse."""
    cases = {
        f"{kind}, NaN bounds": pool(kind, (2, 2), (1, 1), flags=0, bounds=(np.nan, 1.0))
        for kind in ("MaxPooling2d", "AvgPooling2d")
    }
    graph, inputs = linear("fp32", "fp32", "fp32")
    graph.nodes[0]["output_min_max"] = {"output_min": np.nan, "output_max": 1.0}
    cases["FullyConnected, NaN bounds"] = graph, inputs
    graph = Graph()
    x, y = graph.input(()), graph.output(())
    graph.node("StaticSlice", num_dims=0, offsets=[], sizes=[], input_id=x, output_id=y)
    cases["slice of a number"] = graph, [np.array(3, np.float32)]
    return cases


@pytest.mark.parametrize("name", refused())
def test_refused_by_both(name: str, ours: Opener, official: Opener) -> None:
    graph, inputs = refused()[name]
    pte = graph.program()
    with pytest.raises(et.Error):
        ours(pte)("forward", inputs)
    with pytest.raises(RuntimeError):
        official(pte)("forward", inputs)


def test_nan_in_a_pooling(ours: Opener, official: Opener) -> None:
    """Both lose it where a window has one element (eager keeps it)."""
    graph, (x,) = pool("MaxPooling2d", (1, 1), (1, 1), flags=0)
    x.reshape(-1)[::7] = np.nan
    pte = graph.program()
    (found,), (expected,) = ours(pte)("forward", [x]), official(pte)("forward", [x])
    np.testing.assert_array_equal(found, expected)
    assert not np.isnan(found).any()
