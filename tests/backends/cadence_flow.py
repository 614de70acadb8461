"""The Cadence flow: quantised programs whose operators are those of `cadence`."""

import contextlib
import copy
import io
import typing
from collections.abc import Sequence
from typing import Any

import torch
import typing_extensions

if not hasattr(typing, "override"):  # the flow imports it, which Python has since 3.12
    typing.override = typing_extensions.override  # type: ignore[attr-defined]
from executorch.backends.cadence.aot import compiler, ref_implementations as ref_implementations
from executorch.backends.cadence.aot.quantizer import quantizer as quantizers
from torch import nn

WRONG_SIGNS = "quantized_linear", "quantized_fully_connected", "quantized_matmul", "quantized_relu"
"""Operators whose reference rescales by -out_multiplier: 1 << 31 is negative in C++ alone."""


def with_sign(name: str, args: Sequence[Any]) -> tuple[Any, ...]:
    """Return the arguments of an operator with -out_multiplier."""
    packet, _, overload = name.partition(".")
    schema = getattr(getattr(torch.ops.cadence, packet), overload or "default")._schema
    at = [argument.name for argument in schema.arguments].index("out_multiplier")
    return (*args[:at], -args[at], *args[at + 1 :])


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


def export(
    model: nn.Module, inputs: list[torch.Tensor], quantizer: str | None
) -> tuple[Any, bytes]:
    """Return the module that is lowered and its program, quantised by a class of the flow
    ("CadenceDefaultQuantizer") and calibrated on the inputs."""
    eager: Any = model
    with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):
        if quantizer is None:
            program = torch.export.export(model, (inputs[0],), strict=True)
        else:
            chosen = getattr(quantizers, quantizer)()
            prepared = compiler.prepare_pt2(model, (inputs[0],), chosen)
            for x in inputs:
                prepared(x)
            quantized = compiler.convert_pt2(prepared)
            eager = copy.deepcopy(quantized)  # the passes below change it
            program = torch.export.export(quantized, (inputs[0],), strict=True)
            program = compiler.apply_pre_edge_transform_passes(program, chosen)
        result = compiler._lower_ep_to_cadence_gen_etrecord(program)
    return eager, bytes(result.buffer)
