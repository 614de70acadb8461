"""The Cadence flow: quantised programs whose operators are those of `cadence`."""

from __future__ import annotations

import contextlib
import io
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import typing_extensions

if not hasattr(typing, "override"):  # the flow imports it, which Python has since 3.12
    typing.override = typing_extensions.override  # type: ignore[attr-defined]
from executorch.backends.cadence.aot import compiler
from executorch.backends.cadence.aot import ref_implementations as ref_implementations
from executorch.backends.cadence.aot.quantizer import quantizer as quantizers
from torch import nn

CALLS = 3  # inputs to compare, of 8 that calibrate
WRONG_SIGNS = "quantized_linear", "quantized_fully_connected", "quantized_matmul", "quantized_relu"
"""Operators whose reference rescales by -out_multiplier: 1 << 31 is negative in C++ alone."""


def with_sign(name: str, args: Sequence[Any]) -> tuple[Any, ...]:
    """Return the arguments of an operator with -out_multiplier."""
    packet, _, overload = name.partition(".")
    schema = getattr(getattr(torch.ops.cadence, packet), overload or "default")._schema
    at = [argument.name for argument in schema.arguments].index("out_multiplier")
    return (*args[:at], -args[at], *args[at + 1 :])


class Convolutions(nn.Module):
    def __init__(self, groups: int = 8) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 8, 3, padding=1, groups=groups)
        self.last = nn.Linear(8, 5)
        with torch.no_grad():
            self.norm.running_mean.normal_()
            self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.max_pool2d(self.norm(self.first(x)).relu(), 2, 2)
        return self.last(self.second(x).relu().mean((2, 3)))


class Residual(nn.Module):
    """Sums of quantised images, and a 1-D convolution after a transposed one."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 6, 3, padding=1), nn.Conv2d(6, 6, 3, padding=1)
        self.up = nn.ConvTranspose2d(6, 4, 2, stride=2)
        self.line = nn.Conv1d(4, 5, 3, dilation=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x).relu()
        x = self.up(self.second(x) + x)
        return self.line(nn.functional.avg_pool2d(x, 2, 2).flatten(2))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.queries, self.keys, self.values = (nn.Linear(16, 16) for _ in range(3))
        self.last = nn.Linear(16, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        scores = self.queries(y) @ self.keys(y).transpose(-1, -2)
        return self.last(x + (scores * 0.25).softmax(-1) @ self.values(y)).softmax(-1)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.LSTM(6, 8, batch_first=True)
        self.last = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.inner(x)[0])


@dataclass
class Exported:
    """A program of the flow and its results by other engines."""

    pte: bytes
    inputs: list[torch.Tensor]
    eager: list[torch.Tensor]
    """Outputs of the quantised module, which fuses nothing."""
    step: float
    """The scale of the output; 0 for float outputs."""


def model_of(kind: str) -> tuple[nn.Module, tuple[int, ...]]:
    """Return a model and the shape of its input."""
    torch.manual_seed(2)
    if kind == "mlp":
        return nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 7)), (4, 20)
    made = {"cnn": Convolutions, "residual": Residual, "attention": Attention, "lstm": Recurrent}
    shapes = {"cnn": (1, 3, 12, 12), "residual": (1, 3, 12, 12), "attention": (1, 5, 16),
              "lstm": (1, 4, 6)}  # fmt: skip
    return made[kind](), shapes[kind]


def _last_scale(graph: torch.fx.GraphModule) -> float:
    nodes = [node for node in graph.graph.nodes if "dequantize" in str(node.target)]
    return float(nodes[-1].args[1]) if nodes else 0.0


def export(kind: str, quantizer: str | None) -> Exported:
    """Return a program, quantised by a class of the flow ("CadenceDefaultQuantizer")."""
    model, shape = model_of(kind)
    model = model.eval()
    inputs = [torch.randn(shape) for _ in range(8)]
    eager: Any = model
    with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):
        if quantizer is None:
            program = torch.export.export(model, (inputs[0],), strict=True)
            want = [model(x) for x in inputs[:CALLS]]
        else:
            chosen = getattr(quantizers, quantizer)()
            prepared = compiler.prepare_pt2(model, (inputs[0],), chosen)
            for x in inputs:
                prepared(x)
            eager = compiler.convert_pt2(prepared)
            want = [eager(x) for x in inputs[:CALLS]]  # the passes below change it
            program = torch.export.export(eager, (inputs[0],), strict=True)
            program = compiler.apply_pre_edge_transform_passes(program, chosen)
        made = compiler._lower_ep_to_cadence_gen_etrecord(program)
    step = _last_scale(eager) if quantizer else 0.0
    return Exported(bytes(made.buffer), inputs[:CALLS], want, step)
