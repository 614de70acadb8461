"""Programs of the export tutorial for the demo backends, by the official flow.

test_demo.py uses them, and tests/fuzz/make_programs.py takes them as seeds.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from executorch.exir import EdgeCompileConfig, to_edge
from executorch.exir.backend.backend_api import to_backend
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.test.backend_with_compiler_demo import BackendWithCompilerDemo
from executorch.exir.backend.test.demos.rpc.executor_backend_partitioner import (
    ExecutorBackendPartitioner,
)
from executorch.exir.backend.test.demos.rpc.executor_backend_preprocess import ExecutorBackend
from executorch.exir.backend.test.op_partitioner_demo import AddMulPartitionerDemo
from torch import Tensor, nn

from tests.exports import Fn
from tests.models import blocks

COMPILER = BackendWithCompilerDemo.__name__
EXECUTOR = ExecutorBackend.__name__
SIN_INPUTS = (torch.ones(1),)


def seeded(*shapes: tuple[int, ...]) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(3)
    return tuple(torch.randn(shape, generator=generator) for shape in shapes)


def edge_program(module: nn.Module, inputs: tuple[Tensor, ...], **options: Any) -> Any:
    config = EdgeCompileConfig(_check_ir_validity=False)
    return to_edge(torch.export.export(module, inputs, **options), compile_config=config)


def lowered(
    fn: Callable[..., Any],
    inputs: tuple[Tensor, ...],
    specs: Sequence[CompileSpec] = (),
    backend: str = COMPILER,
) -> Any:
    """Return the edge program with the whole function as one delegate."""
    return to_backend(backend, edge_program(Fn(fn), inputs).exported_program(), list(specs))


def composite(inner: nn.Module, inputs: tuple[Tensor, ...]) -> bytes:
    """Return a program that only calls a lowered module."""
    module = blocks.Fn(lambda x, lowered: lowered(x), lowered=inner)
    return edge_program(module, inputs, strict=True).to_executorch().buffer


def nested(inputs: tuple[Tensor, ...]) -> tuple[bytes, Callable[..., Tensor]]:
    """Return an ExecutorBackend program that contains a BackendWithCompilerDemo delegate, and the
    eager function."""

    def fn(a: Tensor, x: Tensor, b: Tensor) -> Tensor:
        a = x - b
        return torch.mm(a, x) + b

    edge = edge_program(Fn(fn), inputs).to_backend(AddMulPartitionerDemo())
    return edge.to_backend(ExecutorBackendPartitioner()).to_executorch().buffer, fn


def taylor_sin(x: Tensor) -> Tensor:
    return x - x**3 / 6


def mm_add_sub(a: Tensor, x: Tensor, b: Tensor) -> Tensor:
    """Compute two mm+add pairs around a sub that is not delegated, as in the tutorial."""
    y = torch.mm(a, x)
    z = y + b
    a = z - a
    y = torch.mm(a, x)
    return y + b


THREE = (2, 2), (2, 2), (2, 2)
"""Shapes of the inputs of `mm_add_sub`."""


def sin() -> bytes:
    return lowered(torch.sin, SIN_INPUTS).buffer()


def partitioned() -> Any:
    """Return the edge program of the tutorial, of which two parts are delegates."""
    return edge_program(Fn(mm_add_sub), seeded(*THREE)).to_backend(AddMulPartitionerDemo())


def programs() -> dict[str, bytes]:
    """Return one program of each kind, by name."""
    return {
        "sin": sin(),
        "mm_add": partitioned().to_executorch().buffer,
        "executor": composite(
            lowered(nn.Linear(4, 3), seeded((5, 4)), backend=EXECUTOR), seeded((5, 4))
        ),
        "nested": nested(seeded(*THREE))[0],
    }
