"""Dynamic shapes: the results of a method do not depend on earlier calls.

Every kind of node runs with shapes that grow in one dimension while others shrink. The payload of
the method declares the first or the largest of them. The results are bitwise equal to those of a
method built for each shape. Quantisation with fewer parameters than a node reads is rejected.
"""

from __future__ import annotations


import numpy as np
import pytest

import executorch_c as et
from tests.backends.xnnpack_graphs import ABSENT, Channel, Graph
from tests.backends.xnnpack_series import needs_xnnpack
from tests.backends.xnnpack_kinds import KINDS, arguments, integers, numbers, source

pytestmark = needs_xnnpack


def bounds(graphs: list[Graph]) -> dict[int, list[int]]:
    """Return the largest size of each dimension of each argument."""
    first = graphs[0]
    return {
        index: np.max([graph.dims(index) for graph in graphs], axis=0).tolist()
        for index in [*first.inputs, *first.outputs]
    }


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", KINDS)
def test_as_if_each_shape_were_the_first(name: str) -> None:
    make, shapes = KINDS[name]
    graphs = [make(shape) for shape in shapes if len(shape) == len(shapes[0])]
    largest = max(graphs, key=lambda graph: np.prod(graph.dims(graph.inputs[0])))
    reused = [graph.load(bounds(graphs)) for graph in (graphs[0], largest)]
    for graph in graphs:
        inputs = arguments(graph)
        alone = graph.run(*inputs)
        for one in reused:
            for output, expected in zip(one.execute(inputs), alone, strict=True):
                np.testing.assert_array_equal(output, expected)


def test_more_images_than_the_payload_declares() -> None:
    """The first call has more images than the payload declares: an arg max pooling had memory for
    the indices of one image."""
    make, _ = KINDS["ArgMaxPooling2d-2-unread"]
    graph, large = make((1, 4, 4, 8)), make((64, 4, 4, 8))
    (x,) = arguments(large)
    (output,) = graph.load(bounds([graph, large])).execute([x])
    np.testing.assert_array_equal(output, x.reshape(64, 2, 2, 2, 2, 8).max(axis=(2, 4)))


@pytest.mark.parametrize("width", [1, 2, 3, 16])
def test_rows_that_are_apart_are_copied(width: int) -> None:
    """Narrow rows, as of rotary embeddings, with any number of threads: a task has some rows."""
    graph, rows = Graph(), 5003
    x, y = graph.input((rows, width)), graph.input((rows, 2))
    graph.concatenate([y, x, y], graph.output((rows, width + 4)), 1)
    one, other = (
        np.random.default_rng(i).random((rows, n), np.float32) for i, n in ((0, width), (1, 2))
    )
    for threads in (1, 2, 5):
        (output,) = graph.run(one, other, num_threads=threads)
        np.testing.assert_array_equal(output, np.concatenate([other, one, other], 1))


# ---- refused ------------------------------------------------------------------------------------


def layer(kind: str, dims: int) -> Graph:
    """Build a layer whose input is dynamically quantised over the last `dims` dimensions."""
    graph = Graph()
    if kind == "FullyConnected":
        weight = graph.constant(integers(6, 32), "qcint8", Channel([0.01] * 6))
        graph.linear(source(graph, (5, 32), "qdint8", dims), weight, ABSENT, graph.output((5, 6)))
    elif kind == "BatchMatrixMultiply":
        weight = graph.constant(integers(1, 4, 4), "qcint8", Channel([0.01] * 4, 2))
        x = source(graph, (1, 5, 4), "qdint8", dims)
        graph.binary(kind, x, weight, graph.output((1, 5, 4)))
    else:
        weight = graph.constant(integers(3, 1, 1, 2), "qcint8", Channel([0.01] * 3))
        x, bias = source(graph, (5, 4, 4, 2), "qdint8", dims), graph.constant(numbers(3))
        graph.conv(kind, x, weight, bias, graph.output((5, 4, 4, 3)))
    return graph


@pytest.mark.parametrize(
    ("kind", "expected", "others"),
    [
        ("FullyConnected", 1, [2]),
        ("BatchMatrixMultiply", 1, [2, 3]),
        ("Conv2d", 3, [1, 2, 4]),
        ("ConvTranspose2d", 3, [1, 2, 4]),
    ],
)
def test_parameters_for_something_else(kind: str, expected: int, others: list[int]) -> None:
    """A node reads parameters for each row or image: there are fewer for larger groups."""
    graph = layer(kind, expected)
    graph.run(*arguments(graph))
    for dims in others:
        says = f"{kind}.*: an input with dynamic quantisation over {dims} dimensions, "
        with pytest.raises(et.InvalidArgumentError, match=says + f"expected {expected}"):
            layer(kind, dims).load()


@pytest.mark.parametrize("dtype", ["fp32", "qdint8"])
def test_transposed_weights_of_four_bits(dtype: str) -> None:
    """XNNPACK has no packing function for them, but called one."""
    graph = Graph()
    x = source(graph, (3, 32), dtype, 1)
    packed = np.random.default_rng(3).integers(0, 256, (32, 16))
    weight = graph.constant(packed, "qcint4", Channel([0.01] * 32, 1), dims=(32, 32))
    graph.linear(x, weight, ABSENT, graph.output((3, 32)), flags=1)
    with pytest.raises(et.InvalidArgumentError, match="a transposed filter of qcint4"):
        graph.load()
