"""Moves that XNNPACK does not run: those that undo earlier ones, and reshapes of arguments.

A traced call with values runs every node, so its results are those without elision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from tests.exports import export
from torch import Tensor, nn

from executorch_c import Method, Runtime

Made = tuple[nn.Module, tuple[int, ...]]


class Net(nn.Module):
    """A function of an input and modules."""

    def __init__(self, function: Callable[..., Any], *parts: nn.Module) -> None:
        super().__init__()
        self.function = function
        self.parts = nn.ModuleList(parts)

    def forward(self, x: Tensor) -> Any:
        return self.function(x, *self.parts)


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


def conv1d() -> nn.Module:
    return nn.Conv1d(6, 6, 1)


MODELS: dict[str, Made] = {
    "convolutions of a row": (chain(False), (2, 3, 20)),
    "convolutions of a row, clamped": (chain(True), (2, 3, 20)),
    "two readers": (Net(two_readers, conv1d(), conv1d(), conv1d()), (1, 6, 9)),
    "an output inside": (Net(an_output_inside, conv1d(), conv1d()), (1, 6, 9)),
    "a square transposed": (Net(swapped, conv1d(), conv1d()), (1, 6, 6)),
    "an input reshaped": (Net(lambda x, net: net(x.view(4, 6)), nn.Linear(6, 5)), (2, 2, 6)),
    "an input reshaped, and read again": (
        Net(lambda x, net: net(x.view(4, 6)) + x.view(4, 6).relu(), nn.Linear(6, 6)),
        (2, 2, 6),
    ),
    "an input reshaped, and read itself": (
        Net(lambda x, net: (net(x.view(4, 6)), x.permute(2, 0, 1).relu()), nn.Linear(6, 6)),
        (2, 2, 6),
    ),
    "transposed and reshaped twice": (
        Net(lambda x: x.relu().t().reshape(4, 6).t().reshape(4, 6) * x),
        (4, 6),
    ),
    "two outputs of one value": (
        Net(lambda x, net: (net(x).view(2, 10), net(x).view(20)), nn.Linear(6, 5)),
        (4, 6),
    ),
    "an output reshaped": (Net(lambda x, net: net(x).view(2, 10), nn.Linear(6, 5)), (4, 6)),
    "an output reshaped, and read again": (
        Net(lambda x, net: (net(x).view(2, 10), net(x).relu()), nn.Linear(6, 5)),
        (4, 6),
    ),
    "only a reshape": (Net(lambda x: x.relu().view(3, 8)), (4, 6)),
    "a row of one": (chain(True), (1, 3, 3)),
}

ELIDED = {
    # name: transpositions and copies that are left
    "convolutions of a row": (2, 0),
    "convolutions of a row, clamped": (2, 0),
    "an input reshaped": (0, 0),
    "an output reshaped": (0, 0),
}


def load(name: str, at_load: bool) -> tuple[Method, list[np.ndarray], list[np.ndarray]]:
    torch.manual_seed(0)
    model, shape = MODELS[name]
    for part in model.parameters():
        nn.init.normal_(part)
    x = torch.randn(shape)
    pte = export(model.eval(), x, partitioner=None if at_load else XnnpackPartitioner())
    method = Runtime.get().load_program(pte).load_method("forward", delegate_at_load="always")
    outputs = model(x)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    return method, [x.numpy()], [y.detach().numpy() for y in outputs]


def run_all_nodes(method: Method, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Return the last values of the delegate that have the outputs' shapes, from a run of all
    nodes."""
    with method.tracing(values=True) as trace:
        outputs = method.execute(inputs)
    found = [v.data for e in trace.events if e.kind == "node" for v in e.outputs]
    return [
        next(f for f in found[::-1] if isinstance(f, np.ndarray) and f.size == y.size)
        for y in outputs
    ]


@pytest.mark.parametrize("at_load", [False, True], ids=["exported", "at load"])
@pytest.mark.parametrize("name", MODELS)
def test_equals_eager(name: str, at_load: bool) -> None:
    method, inputs, expected = load(name, at_load)
    for _ in range(2):
        for found, y in zip(method.execute(inputs), expected, strict=True):
            np.testing.assert_allclose(found, y, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ELIDED)
def test_moves_are_left_out(name: str) -> None:
    method, inputs, _ = load(name, at_load=False)
    with method.tracing() as trace:
        method.execute(inputs)
    kinds = Counter(e.name.split()[0] for e in trace.events if e.kind == "node")
    assert (kinds["Transpose"], kinds["Copy"]) == ELIDED[name], kinds


@pytest.mark.parametrize("name", ELIDED)
def test_the_bits_are_those_of_all_nodes(name: str) -> None:
    method, inputs, _ = load(name, at_load=False)
    outputs = method.execute(inputs)
    for found, y in zip(run_all_nodes(method, inputs), outputs, strict=True):
        np.testing.assert_array_equal(found.ravel(), y.ravel())


def test_a_square_keeps_its_transpositions() -> None:
    method, inputs, expected = load("a square transposed", at_load=False)
    np.testing.assert_allclose(method.execute(inputs)[0], expected[0], rtol=1e-5, atol=1e-5)
    assert not np.allclose(expected[0], expected[0].transpose(0, 2, 1))


@pytest.mark.parametrize("partitioner", [XnnpackPartitioner(), None], ids=["exported", "at load"])
def test_changing_lengths(partitioner: object) -> None:
    """One of the lengths is 1, where more orders of dimensions are equal."""
    torch.manual_seed(0)
    model, x = chain(True)[:4].eval(), torch.randn(1, 3, 20)
    length = torch.export.Dim("length", min=1, max=20)
    pte = export(model, x, partitioner=partitioner, dynamic_shapes=({2: length},))
    method = Runtime.get().load_program(pte).load_method("forward", delegate_at_load="always")
    for n in (20, 1, 7, 1, 20, 2):
        x = torch.randn(1, 3, n)
        found = method.execute([x.numpy()])[0]
        np.testing.assert_allclose(found, model(x).detach().numpy(), rtol=1e-5, atol=1e-5)
