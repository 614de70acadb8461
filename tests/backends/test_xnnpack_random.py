"""Random graphs of moves and pointwise nodes: the numbers of NumPy, exactly, with all that
elide.c leaves out and lookup.c joins."""

from __future__ import annotations


import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("executorch")

import executorch_c as et
from tests.backends.xnnpack_graphs import Graph, Tensor
from tests.backends.xnnpack_series import needs_xnnpack
from tests.backends.xnnpack_random import Random, Shuffled

pytestmark = needs_xnnpack


def run(graph: Graph, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Return the outputs of a second call, after a traced one that shows all values."""
    method = et.Runtime.get().load_program(graph.program()).load_method("forward")
    first = method.execute(inputs)
    with method.tracing(values=True):
        shown = method.execute(inputs)
    again = method.execute(inputs)
    for a, b, c in zip(first, shown, again, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)
    return [np.asarray(y) for y in again]


@pytest.mark.parametrize(
    "first, count", [(0, 150), pytest.param(10_000, 3000, marks=pytest.mark.heavy)]
)
def test_random_graphs(first: int, count: int) -> None:
    for seed in range(first, first + count):
        made = Random(seed)
        found = run(made.graph, made.inputs)
        for y, want in zip(found, made.outputs, strict=True):
            np.testing.assert_array_equal(y, want.array, err_msg=f"seed {seed}", strict=True)


def test_an_output_of_another_shape_that_is_read() -> None:
    """A node that reads the output of a reshape gets the new shape."""
    graph = Graph()
    x, hidden = graph.input((4, 6)), graph.value((4, 6))
    graph.unary("Abs", x, hidden)
    y, z = graph.output((2, 12)), graph.output((2, 12))
    graph.unary("StaticReshape", hidden, y, num_dims=2, new_shape=[2, 12])
    graph.unary("Softmax", y, z)
    numbers = np.arange(24, dtype=np.float32).reshape(4, 6) / 8
    found = run(graph, [numbers])
    rows = np.exp(numbers.reshape(2, 12))
    np.testing.assert_array_equal(found[0], numbers.reshape(2, 12))
    np.testing.assert_allclose(found[1], rows / rows.sum(1, keepdims=True), rtol=1e-6)


def test_an_output_that_an_earlier_value_repeats() -> None:
    """A value listed before the output, of which it has the elements again."""
    graph = Shuffled()
    again, turned = graph.value((4, 6)), graph.value((6, 4))
    x, hidden, y = graph.input((4, 6)), graph.value((4, 6)), graph.output((4, 6))
    graph.unary("Abs", x, hidden)
    graph.unary("Copy", hidden, y)
    graph.unary("StaticTranspose", y, turned, num_dims=2, perm=[1, 0])
    graph.unary("StaticTranspose", turned, again, num_dims=2, perm=[1, 0])
    graph.unary("Negate", again, graph.output((4, 6)))
    numbers = np.arange(-12, 12, dtype=np.float32).reshape(4, 6)
    found = run(graph, [numbers])
    np.testing.assert_array_equal(found[0], np.abs(numbers))
    np.testing.assert_array_equal(found[1], -np.abs(numbers))


def test_a_chain_of_a_constant() -> None:
    """Integers of the payload begin the chain."""
    graph = Graph()
    how = Tensor(0.5, 3)
    numbers = np.arange(-12, 12, dtype=np.int8)
    constant = graph.constant(numbers, "qint8", how)
    x, y, z = graph.value((24,)), graph.value((24,)), graph.output((24,), "qint8", how)
    graph.unary("Convert", constant, x)
    graph.unary("Abs", x, y)
    graph.unary("Convert", y, z)
    other = graph.input((2,))
    graph.unary("Abs", other, graph.output((2,)))
    found = run(graph, [np.ones(2, np.float32)])
    np.testing.assert_array_equal(found[0], np.abs(numbers.astype(int) - 3) + 3)
