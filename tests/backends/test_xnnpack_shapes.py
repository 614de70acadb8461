"""Dynamic shapes: the results of a method do not depend on earlier calls.

Every kind of node runs with shapes that grow in one dimension while others shrink. The payload of
the method declares the first or the largest of them. The results are bitwise equal to those of a
method built for each shape. Quantisation with fewer parameters than a node reads is rejected.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

pytest.importorskip("executorch")

import executorch_c as et
from tests.backends.xnnpack_graphs import ABSENT, NUMPY, Channel, Graph, Token
from tests.backends.xnnpack_kinds import KINDS, integers, numbers
from tests.backends.xnnpack_payload import datatypes

WITHOUT = os.environ.get("EXECUTORCH_C_XNNPACK") == "0"
pytestmark = pytest.mark.skipif(WITHOUT, reason="built without XNNPACK: EXECUTORCH_C_XNNPACK=0")


def method(pte: bytes) -> et.Method:
    return et.Runtime.get().load_program(pte).load_method("forward")


def arguments(graph: Graph) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    found = []
    for index in graph.inputs:
        tensor = graph.tensor(index)
        dtype = NUMPY[datatypes()[tensor["datatype"]]]
        x = 3 * rng.normal(size=tensor["dims"])
        found.append((10 * abs(x) if dtype in ("int8", "uint8") else x).astype(dtype))
    return found


def bounds(graphs: list[Graph]) -> dict[int, list[int]]:
    """Return the largest size of each dimension of each argument."""
    first = graphs[0]
    return {
        index: np.max([graph.tensor(index)["dims"] for graph in graphs], axis=0).tolist()
        for index in [*first.inputs, *first.outputs]
    }


@pytest.mark.parametrize("name", KINDS)
def test_as_if_each_shape_were_the_first(name: str) -> None:
    make, shapes = KINDS[name]
    graphs = [make(shape) for shape in shapes if len(shape) == len(shapes[0])]
    largest = max(graphs, key=lambda graph: np.prod(graph.tensor(graph.inputs[0])["dims"]))
    reused = [method(graph.program(bounds(graphs))) for graph in (graphs[0], largest)]
    for graph in graphs:
        inputs = arguments(graph)
        alone = method(graph.program()).execute(inputs)
        for one in reused:
            for found, expected in zip(one.execute(inputs), alone, strict=True):
                np.testing.assert_array_equal(found, expected)


def test_more_images_than_the_payload_declares() -> None:
    """The first call has more images than the payload declares: an arg max pooling had memory for
    the indices of one image."""
    make, _ = KINDS["ArgMaxPooling2d-2-unread"]
    graph, large = make((1, 4, 4, 8)), make((64, 4, 4, 8))
    (x,) = arguments(large)
    (found,) = method(graph.program(bounds([graph, large]))).execute([x])
    np.testing.assert_array_equal(found, x.reshape(64, 2, 2, 2, 2, 8).max(axis=(2, 4)))


# ---- refused ------------------------------------------------------------------------------------


def quantised(shape: tuple[int, ...], dims: int) -> tuple[Graph, int]:
    graph = Graph()
    value = graph.value(shape, "qdint8", Token(dims))
    graph.unary("Convert", graph.input(shape), value)
    return graph, value


def linear(dims: int) -> Graph:
    graph, x = quantised((5, 32), dims)
    weight = graph.constant(integers(6, 32), "qcint8", Channel([0.01] * 6))
    graph.linear(x, weight, ABSENT, graph.output((5, 6)))
    return graph


def matmul(dims: int) -> Graph:
    graph, x = quantised((1, 5, 4), dims)
    weight = graph.constant(integers(1, 4, 4), "qcint8", Channel([0.01] * 4, 2))
    graph.binary("BatchMatrixMultiply", x, weight, graph.output((1, 5, 4)))
    return graph


def conv(kind: str, dims: int) -> Graph:
    graph, x = quantised((5, 4, 4, 2), dims)
    weight = graph.constant(integers(3, 1, 1, 2), "qcint8", Channel([0.01] * 3))
    bias = graph.constant(numbers(3))
    y = graph.output((5, 4, 4, 3))
    graph.conv(kind, x, weight, bias, y, window=(1, 1), channels=(2, 3))
    return graph


MANY = [
    ("FullyConnected", linear, 1, [2]),
    ("BatchMatrixMultiply", matmul, 1, [2, 3]),
    ("Conv2d", lambda dims: conv("Conv2d", dims), 3, [1, 2, 4]),
    ("ConvTranspose2d", lambda dims: conv("ConvTranspose2d", dims), 3, [1, 2, 4]),
]


@pytest.mark.parametrize(("kind", "make", "expected", "others"), MANY, ids=[m[0] for m in MANY])
def test_parameters_for_something_else(
    kind: str, make: Any, expected: int, others: list[int]
) -> None:
    """A node reads parameters for each row or image: there are fewer for larger groups."""
    graph = make(expected)
    method(graph.program()).execute(arguments(graph))
    for dims in others:
        says = f"{kind}.*: an input with dynamic quantisation over {dims} dimensions, "
        with pytest.raises(et.InvalidArgumentError, match=says + f"expected {expected}"):
            method(make(dims).program())


@pytest.mark.parametrize("dtype", ["fp32", "qdint8"])
def test_transposed_weights_of_four_bits(dtype: str) -> None:
    """XNNPACK has no packing function for them, but called one."""
    graph, x = quantised((3, 32), 1) if dtype == "qdint8" else (Graph(), 0)
    if dtype == "fp32":
        x = graph.input((3, 32))
    packed = np.random.default_rng(3).integers(0, 256, (32, 16))
    weight = graph.constant(packed, "qcint4", Channel([0.01] * 32, 1), dims=(32, 32))
    graph.linear(x, weight, ABSENT, graph.output((3, 32)), flags=1)
    with pytest.raises(et.InvalidArgumentError, match="a transposed filter of qcint4"):
        method(graph.program())


@pytest.mark.parametrize("width", [1, 2, 3, 16])
def test_rows_that_are_apart_are_copied(width: int) -> None:
    """Narrow rows, as of rotary embeddings, with any number of threads: a task has some rows."""
    graph, rows = Graph(), 5003
    x, y = graph.input((rows, width)), graph.input((rows, 2))
    graph.concatenate([y, x, y], graph.output((rows, width + 4)), 1)
    program = et.Runtime.get().load_program(graph.program())
    one, other = (
        np.random.default_rng(i).random((rows, n), np.float32) for i, n in ((0, width), (1, 2))
    )
    for threads in (1, 2, 5):
        found = program.load_method("forward", num_threads=threads).execute([one, other])
        np.testing.assert_array_equal(found[0], np.concatenate([other, one, other], 1))
