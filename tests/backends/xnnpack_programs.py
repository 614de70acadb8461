"""Special programs with XNNPACK delegates: methods that share weights, constants in a data file.

They are cached like the rows of the zoo."""

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import torch
from executorch.exir.passes import external_constants_pass
from torch import nn

from tests.backends import xnnpack_flow
from tests.backends.xnnpack_flow import Lowered, Rows
from tests.exports import Fn

T = TypeVar("T")


def cached(make: Callable[..., T]) -> Callable[..., T]:
    """Return the function with a cache of its result by its arguments, which are names."""

    @functools.wraps(make)
    def load(*names: str) -> T:
        key = "-".join([make.__name__, *names])
        program: T = xnnpack_flow.cached(key, __file__, torch.no_grad()(lambda: make(*names)))
        return program

    return load


class Classifier(nn.Module):
    """Convolutions, and a linear layer after a reshape that is not delegated."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3))
        self.pool, self.last = nn.AdaptiveAvgPool2d(1), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.pool(self.convs(x)).flatten(1)).softmax(-1)


TABLE = Rows(__file__, delegates=None, is_whole=False)
BATCHES = [[(n, 3, 6, 6)] for n in (8, 3, 3, 7, 1, 8)]
TABLE.add("classifier", Classifier, BATCHES, "Conv2d", "FullyConnected")


def classifier() -> Lowered:
    """Return the program of the classifier, for 1 to 8 images; it has two delegates."""
    return TABLE.load("classifier-float32")


def eager_classifier() -> Classifier:
    """Return the exported eager model: inputs are drawn before it is created."""
    torch.manual_seed(0)
    for shapes in BATCHES:
        xnnpack_flow.normal(*shapes)
    return Classifier().eval()


class Layers(nn.Module):
    """Two linear layers, 1 MB of weights."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(256, 512), nn.Linear(512, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(x)))


WEIGHTS = 2 * 256 * 512
"""Number of elements of the matrices of `Layers`."""


@cached
def two_methods(scheme: str = "float32") -> tuple[bytes, dict[str, Any]]:
    """Return a program with methods prefill and decode that share weights, and an input and output
    of each by name."""
    torch.manual_seed(0)
    inputs = {"prefill": torch.randn(6, 256), "decode": torch.randn(1, 256)}
    net = xnnpack_flow.SCHEMES[scheme](Layers().eval(), (inputs["prefill"],), None)
    programs = {name: torch.export.export(net, (x,)) for name, x in inputs.items()}
    pte = bytes(xnnpack_flow.lower(programs).buffer)
    return pte, {name: (x.numpy(), net(x).numpy()) for name, x in inputs.items()}


class Tied(nn.Module):
    """A layer whose weights are used with two biases, and without bias."""

    def __init__(self) -> None:
        super().__init__()
        self.plain = nn.Linear(64, 64, bias=False)
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 64)
        self.first.weight = self.second.weight = self.plain.weight

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.plain(x), self.first(x), self.second(x)


@cached
def tied(scheme: str) -> tuple[bytes, Any, list[Any]]:
    """Return a program whose linear layers share weights and differ in biases, with input and
    outputs."""
    torch.manual_seed(0)
    x = torch.randn(3, 64)
    net = xnnpack_flow.SCHEMES[scheme](Tied().eval(), (x,), None)
    program = xnnpack_flow.lower(torch.export.export(net, (x,)))
    return bytes(program.buffer), x.numpy(), [y.numpy() for y in net(x)]


@cached
def with_data_file() -> tuple[bytes, bytes, Any, Any]:
    """Return a program, its .ptd, an input and its output."""
    torch.manual_seed(0)
    net, x = Fn(nn.Linear(8, 4)).eval(), torch.randn(3, 8)
    graph = torch.export.export(net, (x,)).module()
    external_constants_pass.delegate_external_constants_pass_unlifted(graph, lambda node: "weights")
    program = xnnpack_flow.lower(torch.export.export(graph, (x,)))
    with tempfile.TemporaryDirectory() as folder:
        program.write_tensor_data_to_file(folder)
        [file] = Path(folder).glob("*.ptd")
        return bytes(program.buffer), file.read_bytes(), x.numpy(), net(x).numpy()
