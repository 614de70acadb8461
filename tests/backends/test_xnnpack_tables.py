"""Chains of float nodes between integers as tables of 256 results (lookup.c): the same bytes as
their nodes, which run alone in two programs: up to the last conversion, and the conversion."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("executorch")

import executorch_c as et
from executorch_c import Method
from tests.backends.xnnpack_graphs import Graph, Shape, Tensor
from tests.backends.xnnpack_series import needs_speed

pytestmark = needs_speed

Chain = Callable[[Graph, int, Shape], int]
BYTES = {"qint8": np.arange(-128, 128, dtype=np.int8), "quint8": np.arange(256, dtype=np.uint8)}
SCALES = (
    (Tensor(0.0259402, 3), Tensor(0.0145531, -102)),
    (Tensor(0.125, -128), Tensor(0.0039215689, -128)),
    (Tensor(3.1e-4, 127), Tensor(2.0, 5)),
    (Tensor(7.5, 0), Tensor(1e-3, -1)),
)


def step(graph: Graph, x: int, shape: Shape, kind: str, **fields: object) -> int:
    y = graph.value(shape)
    graph.unary(kind, x, y, **fields)
    return y


def pair(graph: Graph, a: int, b: int, shape: Shape, kind: str) -> int:
    y = graph.value(shape)
    graph.binary(kind, a, b, y)
    return y


def number(graph: Graph, value: float, *dims: int) -> int:
    return graph.constant(np.full(dims, value, np.float32))


def silu(graph: Graph, x: int, shape: Shape) -> int:
    return pair(graph, x, step(graph, x, shape, "Sigmoid"), shape, "Multiply")


def decomposed(graph: Graph, x: int, shape: Shape) -> int:
    """Return x * clamp(x + 3, 0, 6) / 6, the form of exported hardswish."""
    gate = pair(graph, x, number(graph, 3.0, 1), shape, "Add")
    gate = step(graph, gate, shape, "Clamp", bounds=(0.0, 6.0))
    product = pair(graph, gate, x, shape, "Multiply")
    return pair(graph, product, number(graph, 6.0, 1), shape, "Div")


def several(graph: Graph, x: int, shape: Shape) -> int:
    y = step(graph, x, shape, "Tanh")
    y = step(graph, y, shape, "LeakyReLU", negative_slope=0.3)
    return step(graph, pair(graph, y, y, shape, "Add"), shape, "ELU", alpha=0.7)


ALONE = (
    "Hardswish",
    "Sigmoid",
    "Gelu",
    "Tanh",
    "Exp",
    "Abs",
    "Square",
    "Negate",
    "Log",
    "Floor",
    "SquareRoot",
    "ReciprocalSquareRoot",
)
CHAINS: dict[str, Chain] = {
    **{kind: lambda g, x, shape, kind=kind: step(g, x, shape, kind) for kind in ALONE},
    "Clamp": lambda g, x, shape: step(g, x, shape, "Clamp", bounds=(-0.5, 1.5)),
    "nothing": lambda g, x, shape: x,
    "silu": silu,
    "decomposed": decomposed,
    "several": several,
}


def load(graph: Graph, threads: int = 1) -> Method:
    return (
        et.Runtime.get().load_program(graph.program()).load_method("forward", num_threads=threads)
    )


def tables(method: Method) -> int:
    return int(sum(row["figures"]["tables"] for row in method.backend_report()))


def joined(
    name: str,
    shape: Shape,
    before: Tensor,
    after: Tensor,
    dtype: str = "qint8",
    result: str = "qint8",
) -> Graph:
    graph = Graph()
    x, out = graph.input(shape, dtype, before), graph.output(shape, result, after)
    y = CHAINS[name](graph, step(graph, x, shape, "Convert"), shape)
    graph.unary("Convert", y, out)
    return graph


def apart(
    name: str,
    x: np.ndarray,
    before: Tensor,
    after: Tensor,
    dtype: str = "qint8",
    result: str = "qint8",
) -> np.ndarray:
    """Return the results of the chain's nodes and of the last conversion, in two programs."""
    graph = Graph()
    y = CHAINS[name](
        graph, step(graph, graph.input(x.shape, dtype, before), x.shape, "Convert"), x.shape
    )
    graph.tensor(y)["flags"] = 2
    graph.outputs.append(y)
    last = Graph()
    last.unary("Convert", last.input(x.shape), last.output(x.shape, result, after))
    first, second = load(graph), load(last)
    assert tables(first) == tables(second) == 0
    (found,) = second.execute(first.execute([x]))
    assert isinstance(found, np.ndarray)
    return found


@pytest.mark.parametrize("name", CHAINS)
def test_every_input(name: str) -> None:
    for before, after in SCALES:
        expected = apart(name, BYTES["qint8"], before, after)
        for threads in (1, 2):
            method = load(joined(name, (256,), before, after), threads)
            assert tables(method) == 1
            np.testing.assert_array_equal(method.execute([BYTES["qint8"]])[0], expected)


@pytest.mark.parametrize(
    "dtype, result", [("quint8", "quint8"), ("qint8", "quint8"), ("quint8", "qint8")]
)
def test_unsigned(dtype: str, result: str) -> None:
    zeros = {"qint8": -9, "quint8": 119}
    before, after = Tensor(0.03, zeros[dtype]), Tensor(0.0125, zeros[result])
    for name in ("Hardswish", "silu"):
        method = load(joined(name, (256,), before, after, dtype, result))
        assert tables(method) == 1
        expected = apart(name, BYTES[dtype], before, after, dtype, result)
        assert len(np.unique(expected)) > 64
        np.testing.assert_array_equal(method.execute([BYTES[dtype]])[0], expected)


def test_shapes_change() -> None:
    """Rows that are no multiple of a vector, parts for threads, and an empty one, in one method."""
    before, after = SCALES[0]
    table = apart("Hardswish", BYTES["qint8"], before, after)
    for threads in (1, 2):
        method = load(joined("Hardswish", (3, 5, 7, 3000), before, after), threads)
        for shape in ((1, 1, 1, 1), (1, 2, 3, 33), (3, 5, 7, 3000), (2, 1, 0, 4), (1, 5, 7, 127)):
            x = np.random.default_rng(len(shape)).integers(-128, 128, shape).astype(np.int8)
            (found,) = method.execute([x])
            np.testing.assert_array_equal(found, table[x.astype(int) + 128])


def test_a_conversion_with_several_readers() -> None:
    """Two chains, and an output, read it; each chain is a table."""
    before, after = SCALES[0]
    graph = Graph()
    x, shown = graph.input((256,), "qint8", before), graph.output((256,))
    graph.unary("Convert", x, shown)
    for name in ("Hardswish", "silu"):
        y = CHAINS[name](graph, shown, (256,))
        graph.unary("Convert", y, graph.output((256,), "qint8", after))
    method = load(graph)
    floats, *found = method.execute([BYTES["qint8"]])
    assert tables(method) == 2
    exact = (BYTES["qint8"].astype(np.float32) - before.zero_point) * np.float32(before.scale)
    np.testing.assert_array_equal(floats, exact)
    for name, y in zip(("Hardswish", "silu"), found, strict=True):
        np.testing.assert_array_equal(y, apart(name, BYTES["qint8"], before, after))


def output(graph: Graph, x: int, y: int) -> int:
    """Make the result of the chain an output, too."""
    graph.tensor(y)["flags"] = 2
    graph.outputs.append(y)
    return y


def reader(graph: Graph, x: int, y: int) -> int:
    """Let another node read it."""
    graph.unary("Abs", y, graph.output((256,)))
    return y


def second(graph: Graph, x: int, y: int) -> int:
    """Add another value of integers."""
    other = step(graph, graph.input((256,), "qint8", Tensor(0.5, 1)), (256,), "Convert")
    return pair(graph, y, other, (256,), "Add")


def numbers(graph: Graph, x: int, y: int) -> int:
    """Add a constant with a number for each element."""
    return pair(graph, y, graph.constant(np.arange(256, dtype=np.float32)), (256,), "Add")


def floats(graph: Graph, x: int, y: int) -> int:
    """Add an input of floats."""
    return pair(graph, y, graph.input((256,)), (256,), "Add")


def rank(graph: Graph, x: int, y: int) -> int:
    """Add a number that adds a dimension."""
    return pair(graph, y, number(graph, 2.0, 1, 1), (1, 256), "Add")


def long(graph: Graph, x: int, y: int) -> int:
    for _ in range(16):
        y = step(graph, y, (256,), "Abs")
    return y


def rows(graph: Graph, x: int, y: int) -> int:
    """Compute each element from others."""
    return step(graph, y, (256,), "Softmax")


@pytest.mark.parametrize("change", [output, reader, second, numbers, floats, rank, long, rows])
def test_no_table(change: Callable[[Graph, int, int], int]) -> None:
    """Anything else than a function of one integer stays as it is, and right."""
    before, after = SCALES[0]
    graph = Graph()
    x = step(graph, graph.input((256,), "qint8", before), (256,), "Convert")
    y = change(graph, x, step(graph, x, (256,), "Tanh"))
    dims = tuple(graph.tensor(y)["dims"])
    graph.unary("Convert", y, graph.output(dims, "qint8", after))
    method = load(graph)
    assert tables(method) == 0
    random = np.random.default_rng(0)
    given = {"int8": random.permutation(BYTES["qint8"]), "float32": random.random(256, np.float32)}
    inputs = [
        given["float32" if graph.tensor(i)["datatype"] == 1 else "int8"] for i in graph.inputs
    ]
    with method.tracing(values=True) as trace:
        found = method.execute(inputs)
    (again,) = method.execute(inputs)[-1:]
    np.testing.assert_array_equal(found[-1], again)
    assert trace.ok and len(np.unique(again)) > 1


@pytest.mark.parametrize("name", ["Hardswish", "decomposed"])
def test_traces_show_every_node(name: str) -> None:
    """With values, each node of a chain has its result; a time belongs to the last node."""
    before, after = SCALES[0]
    graph = joined(name, (256,), before, after)
    method = load(graph)
    expected = apart(name, BYTES["qint8"], before, after)
    with method.tracing(values=True) as trace:
        (found,) = method.execute([BYTES["qint8"]])
    np.testing.assert_array_equal(found, expected)
    nodes = [event for event in trace.events if event.kind == "node"]
    assert [event.debug_handle for event in nodes] == [n["debug_handle"] for n in graph.nodes]
    shown = nodes[-1].values[-1].data
    exact = (expected.astype(np.float32) - after.zero_point) * np.float32(after.scale)
    np.testing.assert_array_equal(shown, exact)
    with method.tracing() as trace:
        method.execute([BYTES["qint8"]])
    (node,) = [event for event in trace.events if event.kind == "node"]
    assert (node.debug_handle, node.name) == (len(graph.nodes), "Unary Elementwise (NC)")


@pytest.mark.parametrize("shape", [(1, 4, 8, 8), (2, 3, 1, 5), (256, 1)])
def test_beside_moves(shape: Shape) -> None:
    """Moves that are left out before and after a chain (elide.c); a chain after a chain; outputs of
    the integers that a chain reads."""
    before, after = SCALES[0]
    flat = (int(np.prod(shape)),)
    graph = Graph()

    def reshape(x: int, y: int, dims: Shape) -> int:
        graph.node(
            "StaticReshape", input_id=x, output_id=y, num_dims=len(dims), new_shape=list(dims)
        )
        return y

    given = reshape(graph.input(flat, "qint8", before), graph.value(shape, "qint8", before), shape)
    result = graph.value(shape, "qint8", after)
    floats = step(graph, step(graph, given, shape, "Convert"), shape, "Hardswish")
    graph.unary("Convert", floats, result)
    reshape(result, graph.output(flat, "qint8", after), flat)
    floats = step(graph, step(graph, result, shape, "Convert"), shape, "Negate")
    graph.unary("Convert", floats, graph.output(shape, "qint8", Tensor(after.scale, 102)))
    reshape(given, graph.output(flat, "qint8", before), flat)
    method = load(graph)
    x = np.random.default_rng(0).integers(-128, 128, flat).astype(np.int8)
    first, negated, same = (np.asarray(y) for y in method.execute([x]))
    assert tables(method) == 2
    table = apart("Hardswish", BYTES["qint8"], before, after)
    np.testing.assert_array_equal(first, table[x.astype(int) + 128])
    np.testing.assert_array_equal(negated.reshape(-1), np.minimum(-first.astype(int), 127))
    np.testing.assert_array_equal(same, x)
