"""COND_IF and WHILE_LOOP of TOSABackend equal Arm's reference model; deep nests are refused."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tosa_reference_model")
import tosa_serializer as ts

from executorch_c import Error, Runtime
from tests.backends.tosa_graphs import Graph

D, PROPAGATE = ts.DType, ts.NanPropagationMode.PROPAGATE
SHAPE = (2, 3)
Block = Callable[[Graph, list[str]], None]


def add_block(g: Graph, name: str, inputs: Sequence[Any], build: Block) -> None:
    """Add a region with inputs of shapes and dtypes."""
    g.writer.startRegion(name)
    g.writer.addBasicBlock(name)
    inner = Graph(writer=g.writer)
    build(inner, [inner.input(*one) for one in inputs])


def counted(tensors: int) -> list[Any]:
    """Return the arguments of a loop: a counter and tensors."""
    return [((1,), D.INT32), *[(SHAPE, D.INT32)] * tensors]


def below(rounds: int) -> Block:
    def build(g: Graph, inputs: list[str]) -> None:
        limit = g.const((1,), D.INT32, [rounds])
        g.apply("GREATER", [limit, inputs[0]], (1,), D.BOOL)

    return build


def count(g: Graph, counter: str, **options: bool) -> str:
    return g.apply("ADD", [counter, g.const((1,), D.INT32, [1])], (1,), D.INT32, **options)


# ---- bodies of loops --------------------------------------------------------------------------


def double(g: Graph, inputs: list[str]) -> None:
    """i + 1, x + x + 3, with values between them that memory could be shared with."""
    i, x = inputs
    count(g, i)
    three = g.const((1, 1), D.INT32, [3])
    twice = g.apply("ADD", [x, x], SHAPE, D.INT32, final=False)
    g.apply("ADD", [twice, three], SHAPE, D.INT32)


def fibonacci(g: Graph, inputs: list[str]) -> None:
    """i + 1, b, a + b: an input is an output, at another place."""
    i, a, b = inputs
    count(g, i)
    g.writer.addOutputTensor(g.writer.currRegion.currBasicBlock.getTensorByName(b))
    g.apply("ADD", [a, b], SHAPE, D.INT32)


def swap(g: Graph, inputs: list[str]) -> None:
    """i + 1, b, a: both are read before they are written."""
    i, a, b = inputs
    count(g, i)
    for name in (b, a):
        g.writer.addOutputTensor(g.writer.currRegion.currBasicBlock.getTensorByName(name))


def grow(g: Graph, inputs: list[str]) -> None:
    """i + 1, step, x + step: step is the same in all rounds."""
    i, step, x = inputs
    count(g, i)
    g.writer.addOutputTensor(g.writer.currRegion.currBasicBlock.getTensorByName(step))
    more = g.apply("ADD", [x, step], SHAPE, D.INT32, final=False)
    one = g.const((1, 1), D.INT32, [1])
    values = [more]
    for _ in range(5):  # they are all needed, after the last reader of `step`
        values.append(g.apply("SUB", [values[-1], one], SHAPE, D.INT32, final=False))
    for value in values[1:5]:
        is_last = value == values[4]
        more = g.apply("MAXIMUM", [more, value], SHAPE, D.INT32, PROPAGATE, final=is_last)


BODIES = {
    "double": (double, lambda v: [v[0] + v[0] + 3]),
    "fibonacci": (fibonacci, lambda v: [v[1], v[0] + v[1]]),
    "swap": (swap, lambda v: [v[1], v[0]]),
    "grow": (grow, lambda v: [v[0], v[0] + v[1]]),
}


def loop(body: Block, rounds: int, tensors: int, unread: int = -1) -> Graph:
    """Return x + 1 as the tensors of a loop, whose results are the graph's but for `unread`."""
    g = Graph()
    counter = g.input((1,), D.INT32)
    one = g.const((1, 1), D.INT32, [1])
    values = [
        g.apply("ADD", [g.input(SHAPE, D.INT32), one], SHAPE, D.INT32, final=False)
        for _ in range(tensors)
    ]
    outs = []
    for index, (shape, dtype) in enumerate(counted(tensors)):
        make = g.writer.addIntermediate if index == unread else g.writer.addOutput
        outs.append(make(list(shape), dtype).name)
        g.outputs += [(shape, dtype)] * (index != unread)
    g.add("WHILE_LOOP", [counter, *values], outs, "test", "body")
    add_block(g, "test", counted(tensors), below(rounds))
    add_block(g, "body", counted(tensors), body)
    return g


def inputs_of(tensors: int, start: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [
        np.array([start], np.int32),
        *(rng.integers(-9, 9, SHAPE).astype(np.int32) for _ in range(tensors)),
    ]


@pytest.mark.parametrize("delegation", [False, "always"])
@pytest.mark.parametrize("rounds", [0, 1, 5])
@pytest.mark.parametrize("name", BODIES)
def test_a_loop_equals_the_reference_model(name: str, rounds: int, delegation: bool | str) -> None:
    body, step = BODIES[name]
    tensors = len(step([np.zeros(1), np.zeros(1)]))
    g, inputs = loop(body, rounds, tensors), inputs_of(tensors)
    program = Runtime.get().load_program(g.program())
    method = program.load_method("forward", delegate_at_load=delegation)
    expected = [x + 1 for x in inputs[1:]]
    for _ in range(rounds):
        expected = step(expected)
    for _ in range(2):  # nothing is left of the first call
        outputs = method.execute(inputs)
        for actual, wanted in zip(outputs, [np.array([rounds]), *expected], strict=True):
            np.testing.assert_array_equal(actual, wanted)
    for actual, wanted in zip(outputs, g.reference(*inputs), strict=True):
        np.testing.assert_array_equal(actual, wanted.reshape(actual.shape))


def test_a_value_that_all_rounds_read_keeps_its_memory() -> None:
    """Nothing reads it after the loop."""
    g, inputs = loop(grow, 3, 2, unread=1), inputs_of(2)
    outputs = g.run(*inputs)[1]
    np.testing.assert_array_equal(outputs, inputs[2] + 1 + 3 * (inputs[1] + 1))
    np.testing.assert_array_equal(outputs, g.reference(*inputs)[1])


def test_a_loop_in_a_loop() -> None:
    """Rounds of three doublings."""

    def outer(g: Graph, inputs: list[str]) -> None:
        i, x = inputs
        count(g, i)
        inner = [
            g.writer.addIntermediate([1], D.INT32).name,
            g.writer.addOutput(list(SHAPE), D.INT32).name,
        ]
        g.add("WHILE_LOOP", [g.const((1,), D.INT32, [0]), x], inner, "test2", "body2")

    g, inputs = loop(outer, 4, 1), inputs_of(1)
    add_block(g, "test2", counted(1), below(3))
    add_block(g, "body2", counted(1), double)
    expected = inputs[1] + 1
    for _ in range(12):
        expected = 2 * expected + 3
    np.testing.assert_array_equal(g.run(*inputs)[1], expected)
    np.testing.assert_array_equal(g.reference(*inputs)[1], expected)


def test_a_trace_has_a_loop_once() -> None:
    method = Runtime.get().load_program(loop(double, 5, 1).program()).load_method("forward")
    with method.tracing(values=True) as trace:
        outputs = method.execute(inputs_of(1))
    nodes = [event for event in trace.events if event.kind == "node"]
    assert [event.name for event in nodes] == ["ADD", "WHILE_LOOP"]
    np.testing.assert_array_equal(nodes[-1].outputs[0].data, outputs[1])


def test_a_loop_without_an_end_is_an_error() -> None:
    with pytest.raises(Error, match="loops for ever"):
        loop(swap, 2**31 - 1, 2).run(*inputs_of(2, -(2**31)))


# ---- branches ---------------------------------------------------------------------------------


@pytest.mark.parametrize("truth", [True, False])
def test_a_branch_equals_the_reference_model(truth: bool) -> None:
    """The graph doubles its input, or subtracts 3 and takes the absolute value."""

    def double(g: Graph, inputs: list[str]) -> None:
        g.apply("ADD", inputs * 2, SHAPE, D.INT32)

    def other(g: Graph, inputs: list[str]) -> None:
        three = g.const((1, 1), D.INT32, [3])
        less = g.apply("SUB", [*inputs, three], SHAPE, D.INT32, final=False)
        g.apply("ABS", [less], SHAPE, D.INT32)

    g = Graph()
    operands = [g.input((), D.BOOL), g.input(SHAPE, D.INT32)]
    g.apply("COND_IF", operands, SHAPE, D.INT32, "double", "other")
    for build in (double, other):
        add_block(g, build.__name__, [(SHAPE, D.INT32)], build)
    inputs = [np.array(truth), np.arange(-2, 4, dtype=np.int32).reshape(SHAPE)]
    outputs = g.run(*inputs)[0]
    np.testing.assert_array_equal(outputs, g.reference(*inputs)[0])
    np.testing.assert_array_equal(outputs, 2 * inputs[1] if truth else abs(inputs[1] - 3))


def nest(depth: int) -> Graph:
    """Return COND_IFs inside each other."""
    g = Graph()
    arguments = [((), D.BOOL), ((1,), D.INT8)]

    def choose(g: Graph, operands: list[str], level: int = 0) -> None:
        names = f"then{level}", f"else{level}"
        g.apply("COND_IF", [operands[0], *operands], (1,), D.INT8, *names)

    def absolute(g: Graph, operands: list[str]) -> None:
        g.apply("ABS", operands[1:], (1,), D.INT8)

    choose(g, [g.input(*one) for one in arguments])
    for level in range(depth):
        inner = partial(choose, level=level + 1) if level + 1 < depth else absolute
        add_block(g, f"then{level}", arguments, inner)
        add_block(g, f"else{level}", arguments, absolute)
    return g


def test_blocks_inside_each_other() -> None:
    inputs = [np.array(True), np.array([-3], np.int8)]
    np.testing.assert_array_equal(nest(64).run(*inputs)[0], [3])
    for depth in (65, 20_000):  # the stack of a thread has room for some thousand
        with pytest.raises(Error, match=r"COND_IF .*more than 64 blocks inside each other"):
            nest(depth).run(*inputs)
