"""Chains of float nodes between integers as tables of 256 results (lookup.c): the same bytes as
their nodes, which run alone in two programs: up to the last conversion, and the conversion."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest


from executorch_c import Method
from tests.backends.xnnpack_graphs import Graph, Shape, Tensor
from tests.backends.xnnpack_series import needs_speed

pytestmark = needs_speed

Chain = Callable[[Graph, int], int]
CODES = {"qint8": np.arange(-128, 128, dtype=np.int8), "quint8": np.arange(256, dtype=np.uint8)}
BYTES = CODES["qint8"]
SCALES = (
    (Tensor(0.0259402, 3), Tensor(0.0145531, -102)),
    (Tensor(0.125, -128), Tensor(0.0039215689, -128)),
    (Tensor(3.1e-4, 127), Tensor(2.0, 5)),
    (Tensor(7.5, 0), Tensor(1e-3, -1)),
)
BEFORE, AFTER = SCALES[0]


def number(graph: Graph, value: float, *dims: int) -> int:
    return graph.constant(np.full(dims, value, np.float32))


def silu(graph: Graph, x: int) -> int:
    return graph.step("Multiply", x, graph.step("Sigmoid", x))


def decomposed(graph: Graph, x: int) -> int:
    """Return x * clamp(x + 3, 0, 6) / 6, the form of exported hardswish."""
    gate = graph.step("Clamp", graph.step("Add", x, number(graph, 3.0, 1)), bounds=(0.0, 6.0))
    return graph.step("Div", graph.step("Multiply", gate, x), number(graph, 6.0, 1))


def several(graph: Graph, x: int) -> int:
    y = graph.step("LeakyReLU", graph.step("Tanh", x), negative_slope=0.3)
    return graph.step("ELU", graph.step("Add", y, y), alpha=0.7)


ALONE = (
    "Hardswish Sigmoid Gelu Tanh Exp Abs Square Negate Log Floor SquareRoot ReciprocalSquareRoot"
)
CHAINS: dict[str, Chain] = {
    **{kind: lambda g, x, kind=kind: g.step(kind, x) for kind in ALONE.split()},
    "Clamp": lambda g, x: g.step("Clamp", x, bounds=(-0.5, 1.5)),
    "nothing": lambda g, x: x,
    "silu": silu,
    "decomposed": decomposed,
    "several": several,
}


def tables(method: Method) -> int:
    return int(sum(row["figures"]["tables"] for row in method.backend_report()))


def joined(
    name: str,
    shape: Shape,
    before: Tensor = BEFORE,
    after: Tensor = AFTER,
    dtype: str = "qint8",
    result: str = "qint8",
) -> Graph:
    graph = Graph()
    x, out = graph.input(shape, dtype, before), graph.output(shape, result, after)
    graph.unary("Convert", CHAINS[name](graph, graph.step("Convert", x)), out)
    return graph


def apart(
    name: str,
    before: Tensor = BEFORE,
    after: Tensor = AFTER,
    dtype: str = "qint8",
    result: str = "qint8",
) -> np.ndarray:
    """Return the results of the chain's nodes and of the last conversion, in two programs, for
    each byte."""
    graph, last = Graph(), Graph()
    x = graph.step("Convert", graph.input((256,), dtype, before))
    graph.show(CHAINS[name](graph, x))
    last.unary("Convert", last.input((256,)), last.output((256,), result, after))
    first, second = graph.load(), last.load()
    assert tables(first) == tables(second) == 0
    return np.asarray(second.execute(first.execute([CODES[dtype]]))[0])


@pytest.mark.parametrize("name", CHAINS)
def test_every_input(name: str) -> None:
    for before, after in SCALES:
        expected = apart(name, before, after)
        for threads in (1, 2):
            method = joined(name, (256,), before, after).load(num_threads=threads)
            assert tables(method) == 1
            np.testing.assert_array_equal(method.execute([BYTES])[0], expected)


@pytest.mark.parametrize(
    "dtype, result", [("quint8", "quint8"), ("qint8", "quint8"), ("quint8", "qint8")]
)
def test_unsigned(dtype: str, result: str) -> None:
    zeros = {"qint8": -9, "quint8": 119}
    before, after = Tensor(0.03, zeros[dtype]), Tensor(0.0125, zeros[result])
    for name in ("Hardswish", "silu"):
        method = joined(name, (256,), before, after, dtype, result).load()
        assert tables(method) == 1
        expected = apart(name, before, after, dtype, result)
        assert len(np.unique(expected)) > 64
        np.testing.assert_array_equal(method.execute([CODES[dtype]])[0], expected)


def test_shapes_change() -> None:
    """Rows that are no multiple of a vector, parts for threads, and an empty one, in one method."""
    table = apart("Hardswish")
    for threads in (1, 2):
        method = joined("Hardswish", (3, 5, 7, 3000)).load(num_threads=threads)
        for shape in ((1, 1, 1, 1), (1, 2, 3, 33), (3, 5, 7, 3000), (2, 1, 0, 4), (1, 5, 7, 127)):
            x = np.random.default_rng(len(shape)).integers(-128, 128, shape).astype(np.int8)
            np.testing.assert_array_equal(method.execute([x])[0], table[x.astype(int) + 128])


def test_a_conversion_with_several_readers() -> None:
    """Two chains, and an output, read it; each chain is a table."""
    graph = Graph()
    shown = graph.show(graph.step("Convert", graph.input((256,), "qint8", BEFORE)))
    for name in ("Hardswish", "silu"):
        graph.unary("Convert", CHAINS[name](graph, shown), graph.output((256,), "qint8", AFTER))
    method = graph.load()
    floats, *outputs = method.execute([BYTES])
    assert tables(method) == 2
    exact = (BYTES.astype(np.float32) - BEFORE.zero_point) * np.float32(BEFORE.scale)
    np.testing.assert_array_equal(floats, exact)
    for name, y in zip(("Hardswish", "silu"), outputs, strict=True):
        np.testing.assert_array_equal(y, apart(name))


def reader(graph: Graph, y: int) -> int:
    """Let another node read the result of the chain."""
    graph.unary("Abs", y, graph.output((256,)))
    return y


def second(graph: Graph, y: int) -> int:
    """Add another value of integers."""
    other = graph.input((256,), "qint8", Tensor(0.5, 1))
    return graph.step("Add", y, graph.step("Convert", other))


def long(graph: Graph, y: int) -> int:
    for _ in range(16):
        y = graph.step("Abs", y)
    return y


CHANGES: dict[str, Chain] = {
    "output": lambda graph, y: graph.show(y),
    "reader": reader,
    "second": second,
    "numbers": lambda g, y: g.step("Add", y, g.constant(np.arange(256, dtype=np.float32))),
    "floats": lambda graph, y: graph.step("Add", y, graph.input((256,))),
    "rank": lambda g, y: g.step("Add", y, number(g, 2.0, 1, 1), dims=(1, 256)),
    "long": long,
    "rows": lambda graph, y: graph.step("Softmax", y),  # computes each element from others
}


@pytest.mark.parametrize("name", CHANGES)
def test_no_table(name: str) -> None:
    """Anything else than a function of one integer stays as it is, and right."""
    graph = Graph()
    x = graph.step("Convert", graph.input((256,), "qint8", BEFORE))
    y = CHANGES[name](graph, graph.step("Tanh", x))
    graph.unary("Convert", y, graph.output(graph.dims(y), "qint8", AFTER))
    method = graph.load()
    assert tables(method) == 0
    rng = np.random.default_rng(0)
    arrays = [rng.permutation(BYTES), rng.random(256, np.float32)]
    inputs = [arrays[graph.tensor(index)["datatype"] == 1] for index in graph.inputs]
    with method.tracing(values=True) as trace:
        outputs = method.execute(inputs)
    (again,) = method.execute(inputs)[-1:]
    np.testing.assert_array_equal(outputs[-1], again)
    assert trace.ok and len(np.unique(again)) > 1


@pytest.mark.parametrize("name", ["Hardswish", "decomposed"])
def test_traces_show_every_node(name: str) -> None:
    """With values, each node of a chain has its result; a time belongs to the last node."""
    graph, expected = joined(name, (256,)), apart(name)
    method = graph.load()
    with method.tracing(values=True) as trace:
        (output,) = method.execute([BYTES])
    np.testing.assert_array_equal(output, expected)
    nodes = [event for event in trace.events if event.kind == "node"]
    assert [event.debug_handle for event in nodes] == [n["debug_handle"] for n in graph.nodes]
    shown = nodes[-1].values[-1].data
    exact = (expected.astype(np.float32) - AFTER.zero_point) * np.float32(AFTER.scale)
    np.testing.assert_array_equal(shown, exact)
    with method.tracing() as trace:
        method.execute([BYTES])
    (node,) = [event for event in trace.events if event.kind == "node"]
    assert (node.debug_handle, node.name) == (len(graph.nodes), "Unary Elementwise (NC)")


@pytest.mark.parametrize("shape", [(1, 4, 8, 8), (2, 3, 1, 5), (256, 1)])
def test_beside_moves(shape: Shape) -> None:
    """Moves that are left out before and after a chain (elide.c); a chain after a chain; outputs of
    the integers that a chain reads."""
    flat = (int(np.prod(shape)),)
    graph = Graph()

    def reshape(x: int, dims: Shape, how: Tensor) -> int:
        sizes = {"num_dims": len(dims), "new_shape": list(dims)}
        return graph.step("StaticReshape", x, dims=dims, dtype="qint8", how=how, **sizes)

    def converted(kind: str, x: int, how: Tensor) -> int:
        y = graph.step(kind, graph.step("Convert", x))
        return graph.step("Convert", y, dtype="qint8", how=how)

    x = reshape(graph.input(flat, "qint8", BEFORE), shape, BEFORE)
    result = converted("Hardswish", x, AFTER)
    graph.show(reshape(result, flat, AFTER))
    graph.show(converted("Negate", result, Tensor(AFTER.scale, 102)))
    graph.show(reshape(x, flat, BEFORE))
    method = graph.load()
    integers = np.random.default_rng(0).integers(-128, 128, flat).astype(np.int8)
    first, negated, same = (np.asarray(y) for y in method.execute([integers]))
    assert tables(method) == 2
    np.testing.assert_array_equal(first, apart("Hardswish")[integers.astype(int) + 128])
    np.testing.assert_array_equal(negated.reshape(-1), np.minimum(-first.astype(int), 127))
    np.testing.assert_array_equal(same, integers)
