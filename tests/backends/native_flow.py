"""The flow of NativeBackend: graphs of torch's operators by name."""

import warnings
from pathlib import Path
from typing import Any

import torch
from executorch.backends.native import get_default_compile_config
from executorch.backends.native.partitioner import NativePartitioner
from executorch.backends.native.passes import get_default_passes
from executorch.exir import to_edge_transform_and_lower
from torch import nn

from tests.models.blocks import EncoderLayer, MBConv, Recurrent, UNet


def lower(
    model: nn.Module, inputs: tuple[Any, ...], *, tag: str | None = None, dynamic_shapes: Any = None
) -> Any:
    """Return a program; with a tag, its constants belong into data files."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        exported = torch.export.export(model.eval(), inputs, dynamic_shapes=dynamic_shapes)
        return lower_exported(exported, tag=tag)


def lower_exported(exported: Any, *, tag: str | None = None) -> Any:
    """Return the program of an ExportedProgram."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        edge = to_edge_transform_and_lower(
            exported,
            transform_passes=get_default_passes(),
            partitioner=[NativePartitioner(external_constants_tag=tag)],
            compile_config=get_default_compile_config(),
        )
        return edge.to_executorch()


def export(model: nn.Module, inputs: tuple[Any, ...], **options: Any) -> bytes:
    """Return the bytes of a program that holds its constants."""
    return bytes(lower(model, inputs, **options).buffer)


def export_whole(model: nn.Module, inputs: tuple[Any, ...]) -> bytes:
    """Return the bytes of a program that is one delegate, without a partitioner: torch.cond is
    lowered with the nodes around it."""
    from executorch.backends.native.preprocess import NativeBackend
    from executorch.exir.backend.backend_api import to_backend

    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        edge = to_edge_transform_and_lower(
            torch.export.export(model.eval(), inputs),
            transform_passes=get_default_passes(),
            compile_config=get_default_compile_config(),
        )
        return bytes(to_backend(NativeBackend.__name__, edge.exported_program(), []).buffer())


def write(folder: Path, model: nn.Module, inputs: tuple[Any, ...]) -> None:
    """Write a program and its data file, native_weights.ptd."""
    program = lower(model, inputs, tag="native_weights")
    (folder / "model.pte").write_bytes(bytes(program.buffer))
    program.write_tensor_data_to_file(str(folder))


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.depthwise, self.last = nn.Conv2d(8, 8, 3, groups=8), nn.Linear(8, 5)
        with torch.no_grad():
            self.norm.running_mean.normal_()
            self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.max_pool2d(self.norm(self.first(x)).relu(), 2)
        return self.last(nn.functional.gelu(self.depthwise(x)).mean((2, 3))).softmax(-1)


class Mixed(nn.Module):
    """Results of several dtypes, lists and tuples of results."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        top, at = x.topk(3, dim=-1)
        first, second = torch.split(y, [2, 3], dim=1)
        least, where = x.min(dim=1)
        flags = (x > 0) & (x < 1)
        whole = (x * 10).to(torch.int32).div(3, rounding_mode="floor")
        kept = torch.where(flags, x, torch.full_like(x, 2.0)).clamp(min=0, max=1.5)
        return (
            *(top, at, first.sum(1), second.prod(1), least, where, whole, kept.any(dim=0)),
            *(x.float().std(dim=1), x.cumsum(1), x[:, [0, 2, 1]]),
        )


class Counter(nn.Module):
    """State: a sum over calls, and a cache that is written in place."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.register_buffer("cache", torch.zeros(4, 3))

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        self.cache[at] = x * 2
        return self.cache.sum(0) + self.total


def choose(flag: Any, left: Any, right: Any, x: torch.Tensor) -> Any:
    """Return the result of torch.cond with one operand."""
    return torch.cond(flag, left, right, (x,))


class Branches(nn.Module):
    """torch.cond with layers in its branches, and an operand that a branch returns."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.left, self.right = nn.Linear(4, 5), nn.Linear(5, 3), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> Any:
        y = self.first(x)
        return torch.cond(
            x.sum() > 0,
            lambda z: (self.left(z).relu(), z.sin(), z + z),
            lambda z: (self.right(z).tanh(), z.cos(), z.clone()),
            (y,),
        )


class Nested(nn.Module):
    """torch.cond in a branch of another, and one after it."""

    def forward(self, x: torch.Tensor) -> Any:
        def inner(z: torch.Tensor) -> Any:
            return choose(z.sum() > 8, lambda q: q.cos(), lambda q: q.exp(), z)

        y = choose(x.sum() > 0, inner, lambda z: z.tanh(), x)
        return choose(y.sum() > 4, lambda z: z * z, lambda z: z.abs(), y)


class Chosen(nn.Module):
    def forward(self, x: torch.Tensor, flag: torch.Tensor) -> Any:
        return choose(flag, lambda z: z.sin(), lambda z: z.cos(), x)


def models() -> dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]]:
    """Return models and inputs by name."""
    torch.manual_seed(0)
    layers = nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 7)
    return {
        "mlp": (nn.Sequential(*layers), (torch.randn(4, 20),)),
        "cnn": (Convolutions(), (torch.randn(2, 3, 12, 12),)),
        "mobile": (MBConv(4, 4, 1, 3, 3, nn.ReLU6, squeeze=True), (torch.randn(1, 4, 8, 8),)),
        "unet": (UNet(), (torch.randn(1, 3, 8, 8),)),
        "attention": (
            nn.Sequential(nn.Embedding(30, 16), EncoderLayer(16, 2, -1e9)),
            (torch.randint(0, 30, (2, 7)),),
        ),
        "lstm": (Recurrent(nn.LSTM, 6, 8, 3), (torch.randn(1, 4, 6),)),
        "mixed": (Mixed(), (torch.randn(4, 6), torch.randn(3, 5))),
        "counter": (Counter(), (torch.randn(3), torch.tensor([1]))),
    }
