"""Moves that XNNPACK does not run (elide.c): those that undo earlier ones, and reshapes of
arguments; in models, and in random graphs beside what lookup.c joins.

A traced call with values runs every node, so its results are those without elision."""

from __future__ import annotations

from collections import Counter
import functools
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from torch import Tensor, nn

from executorch_c import Method, load
from tests.backends.xnnpack_graphs import Graph
from tests.backends.xnnpack_random import Random, Shuffled
from tests.backends.xnnpack_series import needs_xnnpack
from tests.exports import Fn, export

pytestmark = needs_xnnpack
each_way = pytest.mark.parametrize("at_load", [False, True], ids=["exported", "at load"])


def chain(relu: bool) -> nn.Module:
    layers = [nn.Conv1d(3, 8, 3, padding=1), nn.Conv1d(8, 8, 1), nn.Conv1d(8, 4, 3)]
    return nn.Sequential(*(part for layer in layers for part in [layer, nn.ReLU()][: 1 + relu]))


def two_readers(x: Tensor, first: nn.Module, second: nn.Module, third: nn.Module) -> Tensor:
    hidden = first(x)
    return second(hidden) + third(hidden) + hidden


def an_output_inside(x: Tensor, first: nn.Module, second: nn.Module) -> tuple[Tensor, Tensor]:
    hidden = first(x)
    return hidden, second(hidden)


def swapped(x: Tensor, first: nn.Module, second: nn.Module) -> Tensor:
    """Transpositions that do not undo each other, though the shapes are equal."""
    return second(first(x).permute(0, 2, 1))


def flat(x: Tensor) -> Tensor:
    return x.reshape(4, 6)


conv1d, CUBE = partial(nn.Conv1d, 6, 6, 1), (2, 2, 6)
MODELS: dict[str, tuple[nn.Module, tuple[int, ...]]] = {
    "convolutions of a row": (chain(False), (2, 3, 20)),
    "convolutions of a row, clamped": (chain(True), (2, 3, 20)),
    "two readers": (Fn(two_readers, first=conv1d(), second=conv1d(), third=conv1d()), (1, 6, 9)),
    "an output inside": (Fn(an_output_inside, first=conv1d(), second=conv1d()), (1, 6, 9)),
    "a square transposed": (Fn(swapped, first=conv1d(), second=conv1d()), (1, 6, 6)),
    "an input reshaped": (Fn(lambda x, net: net(flat(x)), net=nn.Linear(6, 5)), CUBE),
    "an input reshaped, and read again": (
        Fn(lambda x, net: net(flat(x)) + flat(x).relu(), net=nn.Linear(6, 6)),
        CUBE,
    ),
    "an input reshaped, and read itself": (
        Fn(lambda x, net: (net(flat(x)), x.permute(2, 0, 1).relu()), net=nn.Linear(6, 6)),
        CUBE,
    ),
    "transposed and reshaped twice": (Fn(lambda x: flat(flat(x.relu().t()).t()) * x), (4, 6)),
    "two outputs of one value": (
        Fn(lambda x, net: (net(x).view(2, 10), net(x).view(20)), net=nn.Linear(6, 5)),
        (4, 6),
    ),
    "an output reshaped": (Fn(lambda x, net: net(x).view(2, 10), net=nn.Linear(6, 5)), (4, 6)),
    "an output reshaped, and read again": (
        Fn(lambda x, net: (net(x).view(2, 10), net(x).relu()), net=nn.Linear(6, 5)),
        (4, 6),
    ),
    "only a reshape": (Fn(lambda x: x.relu().view(3, 8)), (4, 6)),
    "a row of one": (chain(True), (1, 3, 3)),
}

ELIDED = {
    # name: transpositions and copies that are left
    "convolutions of a row": (2, 0),
    "convolutions of a row, clamped": (2, 0),
    "an input reshaped": (0, 0),
    "an output reshaped": (0, 0),
}


def opened(model: nn.Module, x: Tensor, at_load: bool, **options: Any) -> Method:
    partitioner = None if at_load else XnnpackPartitioner()
    pte = export(model.eval(), x, partitioner=partitioner, **options)
    return load(pte).load_method("forward", delegate_at_load="always")


@functools.cache
def model_of(name: str, at_load: bool) -> tuple[Method, list[np.ndarray], list[np.ndarray]]:
    """Return a method, its input and eager's outputs."""
    torch.manual_seed(0)
    model, shape = MODELS[name]
    for part in model.parameters():
        nn.init.normal_(part)
    x = torch.randn(shape)
    outputs = model(x)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    return opened(model, x, at_load), [x.numpy()], [y.detach().numpy() for y in outputs]


@pytest.mark.sweep(3)
@each_way
@pytest.mark.parametrize("name", MODELS)
def test_equals_eager(name: str, at_load: bool) -> None:
    method, inputs, expected = model_of(name, at_load)
    for _ in range(2):
        for output, y in zip(method.execute(inputs), expected, strict=True):
            np.testing.assert_allclose(output, y, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ELIDED)
def test_moves_are_left_out(name: str) -> None:
    """The bits are those of all nodes, which a traced call with values runs."""
    method, inputs, _ = model_of(name, at_load=False)
    with method.tracing() as trace:
        outputs = method.execute(inputs)
    kinds = Counter(e.name.split()[0] for e in trace.events if e.kind == "node")
    assert (kinds["Transpose"], kinds["Copy"]) == ELIDED[name], kinds
    with method.tracing(values=True) as trace:
        method.execute(inputs)
    values = [v.data for e in trace.events if e.kind == "node" for v in e.outputs]
    for y in outputs:
        last = next(v for v in values[::-1] if isinstance(v, np.ndarray) and v.size == y.size)
        np.testing.assert_array_equal(last.ravel(), y.ravel())


@each_way
def test_changing_lengths(at_load: bool) -> None:
    """One of the lengths is 1, where more orders of dimensions are equal."""
    torch.manual_seed(0)
    model, length = chain(True)[:4].eval(), torch.export.Dim("length", min=1, max=20)
    method = opened(model, torch.randn(1, 3, 20), at_load, dynamic_shapes=({2: length},))
    for n in (20, 1, 7, 1, 20, 2):
        x = torch.randn(1, 3, n)
        (output,) = method.execute([x.numpy()])
        np.testing.assert_allclose(output, model(x).detach().numpy(), rtol=1e-5, atol=1e-5)


# ---- graphs that no exporter writes --------------------------------------------------------------


def run(graph: Graph, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Return the outputs of a third call, after a traced one that shows all values."""
    method = graph.load()
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
    """Moves and pointwise nodes give the numbers of NumPy, exactly."""
    for seed in range(first, first + count):
        case = Random(seed)
        outputs = run(case.graph, case.inputs)
        for y, expected in zip(outputs, case.outputs, strict=True):
            np.testing.assert_array_equal(y, expected.array, err_msg=f"seed {seed}", strict=True)


def test_an_output_of_another_shape_that_is_read() -> None:
    """A node that reads the output of a reshape gets the new shape."""
    graph = Graph()
    hidden = graph.step("Abs", graph.input((4, 6)))
    y, z = graph.output((2, 12)), graph.output((2, 12))
    graph.unary("StaticReshape", hidden, y, num_dims=2, new_shape=[2, 12])
    graph.unary("Softmax", y, z)
    numbers = np.arange(24, dtype=np.float32).reshape(4, 6) / 8
    outputs = run(graph, [numbers])
    rows = np.exp(numbers.reshape(2, 12))
    np.testing.assert_array_equal(outputs[0], numbers.reshape(2, 12))
    np.testing.assert_allclose(outputs[1], rows / rows.sum(1, keepdims=True), rtol=1e-6)


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
    outputs = run(graph, [numbers])
    np.testing.assert_array_equal(outputs[0], np.abs(numbers))
    np.testing.assert_array_equal(outputs[1], -np.abs(numbers))


def test_a_chain_of_a_constant() -> None:
    """Integers of the payload begin the chain."""
    graph = Graph()
    numbers = np.arange(-12, 12, dtype=np.int8)
    y = graph.step("Abs", graph.step("Convert", graph.constant(numbers, "qint8")))
    graph.unary("Convert", y, graph.output((24,), "qint8"))
    other = graph.input((2,))
    graph.unary("Abs", other, graph.output((2,)))
    outputs = run(graph, [np.ones(2, np.float32)])
    np.testing.assert_array_equal(outputs[0], np.abs(numbers.astype(int) - 3) + 3)
