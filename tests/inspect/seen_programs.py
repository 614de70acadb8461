"""Small programs that cover all features of the inspection tools."""

import functools
from pathlib import Path
from typing import Any

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass

from executorch_c import Program, Runtime
from tests import kept
from tests.backends.demo_programs import nested, seeded
from tests.backends.xnnpack_flow import lower, pt2e
from tests.exports import Fn, manager


class Cnn(torch.nn.Module):
    """A convolution, a residual, a pooling and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.bn = torch.nn.BatchNorm2d(8)
        self.more = torch.nn.Conv2d(8, 8, 3, padding=1)
        self.fc = torch.nn.Linear(8 * 7 * 7, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.bn(self.conv(x)))
        x = x + torch.relu(self.more(x))
        x = torch.nn.functional.max_pool2d(x, 2)
        return torch.softmax(self.fc(x.flatten(1)), dim=-1)


def named(layer: torch.nn.Module) -> torch.nn.Module:
    return Fn(lambda x, linear: linear(x), linear=layer)


def counter() -> torch.nn.Module:
    """Build a state that each call updates."""
    return Fn(lambda x, total: total.add_(x) * 2, total=torch.nn.Buffer(torch.full((4,), 2.0)))


def branches(x: torch.Tensor) -> torch.Tensor:
    """Compute two torch.cond: jumps and moves."""
    x = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x.sin(), [x])
    return torch.cond(x.sum() > 1, lambda x: x * 2, lambda x: x.cos(), [x])


def splits(x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Compute lists of tensors and of numbers, several outputs, an index."""
    a, b = torch.split(x, 2)
    return torch.cat([a, b, x])[i], a.reshape(-1)


def image() -> torch.Tensor:
    return torch.randn(1, 3, 14, 14, generator=torch.Generator().manual_seed(0))


def _dynamic() -> Any:
    rows = torch.export.Dim("rows", min=2, max=16)
    module = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
    return manager(module, torch.randn(3, 4), dynamic_shapes=({0: rows},))


def _methods() -> Any:
    return manager(
        {
            "encode": (torch.nn.Linear(4, 2), (torch.randn(1, 4),)),
            "decode": (torch.nn.Linear(2, 4), (torch.randn(1, 2),)),
        }
    )


def _mixed() -> Any:
    """Export two delegates with an operator between them that is not delegated."""

    def run(x: torch.Tensor, first: Any, last: Any) -> torch.Tensor:
        return torch.clamp(last(torch.erf(torch.relu(first(x))).flatten(1)), -1, 1)

    layers = {"first": torch.nn.Conv2d(3, 4, 3, stride=2), "last": torch.nn.Linear(4 * 36, 5)}
    return manager(Fn(run, **layers), image(), partitioner=XnnpackPartitioner())


def _state() -> Any:
    """Export a program with the initial value of its state in the file."""
    return manager(counter(), torch.ones(4), passes=[InitializedMutableBufferPass(["total"])])


def _external() -> Any:
    """Export a program with its weights in a .ptd."""
    return manager(named(torch.nn.Linear(3, 2)), torch.ones(1, 3), external_constants=True)


def _quantised() -> Any:
    inputs = (image(),)
    module = pt2e(channel=True)(named(torch.nn.Conv2d(3, 4, 3)), inputs, None)
    return lower(torch.export.export(module, inputs))


def _nested() -> Any:
    """Export a program inside a program, with a delegate inside."""

    class Named:
        buffer, _ = nested(seeded((2, 2), (2, 2), (2, 2)))

    return Named


MAKERS = {
    "cnn": lambda: manager(Cnn(), image(), emit_stacktrace=True),
    "cnn_xnnpack": lambda: manager(Cnn(), image(), partitioner=XnnpackPartitioner()),
    "mixed": _mixed,
    "counter": lambda: manager(counter(), torch.ones(4)),
    "branches": lambda: manager(branches, torch.ones(2, 3)),
    "splits": lambda: manager(splits, torch.randn(4, 3), torch.tensor([0, 5])),
    "dynamic": _dynamic,
    "methods": _methods,
    "state": _state,
    "external": _external,
    "quantised": _quantised,
    "nested": _nested,
}
"""Export functions by name; each returns the ExecutorchProgramManager."""


@functools.cache
def exported(name: str) -> Any:
    """Return the ExecutorchProgramManager; `.buffer` has the bytes."""
    torch.manual_seed(0)
    return MAKERS[name]()


def pte_of(name: str) -> bytes:
    """The bytes of the program, from the cache where possible."""
    sources = [Path(maker.__code__.co_filename) for maker in (nested, manager, lower, pte_of)]
    key = kept.digest(*sources, packages=("torch", "executorch", "torchao"))
    return kept.data(f"seen-{name}-{key}.pte", lambda: bytes(exported(name).buffer))


def opened(name: str) -> Program:
    return Runtime.get().load_program(pte_of(name))
