"""torch's quantized_decomposed operators, with definitions for those that lack one.

Importing this module registers the out forms with torch too (of the official kernels, of
which only the schemas are used: they end the process on unsupported arguments).
"""

from typing import Any

import executorch.kernels.quantized  # noqa: F401
import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401
from executorch.exir.passes._quant_patterns_and_replacements import (
    get_quant_patterns_and_replacements,
)

OPS = torch.ops.quantized_decomposed
get_quant_patterns_and_replacements({})  # binds add to the pattern that it stands for


def dequantized(
    weight: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor | None
) -> torch.Tensor:
    """Return (weight - zero point) * scale in float64, by row or by groups of a row's columns."""
    count = scales.shape[1] if scales.dim() == 2 else 1
    group = -(-weight.shape[1] // count)
    at = torch.arange(weight.shape[1]) // group

    def spread(t: torch.Tensor) -> torch.Tensor:
        return (t if t.dim() == 2 else t.unsqueeze(1)).double()[:, at]

    plain = weight.double() if zeros is None else weight.double() - spread(zeros)
    return plain * spread(scales)


def check_scales(input: torch.Tensor, scales: torch.Tensor) -> None:
    """Raise RuntimeError for scales in another dtype than the input's, as the portable operator
    does; the exporter has the schema only."""
    if scales.dtype != input.dtype:
        raise RuntimeError(f"scales in {scales.dtype}, expected {input.dtype} as the input")


@torch.library.impl("quantized_decomposed::mixed_mm", "CompositeExplicitAutograd")
def mixed_mm(
    input: torch.Tensor,
    weight: torch.Tensor,
    weight_scales: torch.Tensor,
    weight_zero_points: torch.Tensor | None,
) -> torch.Tensor:
    """Return the product with the dequantised weight, whose rows have scales."""
    check_scales(input, weight_scales)
    plain = dequantized(weight, weight_scales, weight_zero_points)
    return (input.double() @ plain).to(input.dtype)


@torch.library.impl("quantized_decomposed::mixed_linear", "CompositeExplicitAutograd")
def mixed_linear(
    input: torch.Tensor,
    weight: torch.Tensor,
    weight_scales: torch.Tensor,
    weight_zero_points: torch.Tensor | None,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """Return the product with the transposed weight, whose rows have scales for each group of
    columns."""
    check_scales(input, weight_scales)
    plain = dequantized(weight, weight_scales, weight_zero_points)
    return (input.double() @ plain.T).to(dtype or input.dtype)


@torch.library.register_fake("quantized_decomposed::mixed_mm")
def _(input: torch.Tensor, weight: torch.Tensor, *_: Any) -> torch.Tensor:
    return input.new_empty(input.shape[0], weight.shape[1])


@torch.library.register_fake("quantized_decomposed::mixed_linear")
def _(
    input: torch.Tensor,
    weight: torch.Tensor,
    scales: torch.Tensor,
    zeros: Any,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    return input.new_empty(input.shape[0], weight.shape[0], dtype=dtype or input.dtype)


def functional(name: str) -> Any:
    """Return the functional operator of the out form `quantized_decomposed::...`."""
    packet, _, overload = name.removeprefix("quantized_decomposed::").partition(".")
    form = overload.removesuffix("out").removesuffix("_").lower()
    return getattr(getattr(OPS, packet), form or "default")
