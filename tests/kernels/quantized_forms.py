"""torch's quantized_decomposed operators: loads them, and defines what has no definition there.

Importing this module registers the out forms with torch too (those of the official kernels, which
end the process on arguments that they do not take: only their schemas are used here).
"""

from __future__ import annotations

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
    """float64: (weight - zero point) * scale, by row, or by groups of a row's columns."""
    count = scales.shape[1] if scales.dim() == 2 else 1
    group = -(-weight.shape[1] // count)
    at = torch.arange(weight.shape[1]) // group

    def spread(t: torch.Tensor) -> torch.Tensor:
        return (t if t.dim() == 2 else t.unsqueeze(1)).double()[:, at]

    plain = weight.double() if zeros is None else weight.double() - spread(zeros)
    return plain * spread(scales)


@torch.library.impl("quantized_decomposed::mixed_mm", "CompositeExplicitAutograd")
def mixed_mm(input: torch.Tensor, weight: torch.Tensor, weight_scales: torch.Tensor,
             weight_zero_points: torch.Tensor | None) -> torch.Tensor:  # fmt: skip
    """The product with the dequantised weight, whose rows have scales."""
    plain = dequantized(weight, weight_scales, weight_zero_points)
    return (input.double() @ plain).to(input.dtype)


@torch.library.impl("quantized_decomposed::mixed_linear", "CompositeExplicitAutograd")
def mixed_linear(input: torch.Tensor, weight: torch.Tensor, weight_scales: torch.Tensor,
                 weight_zero_points: torch.Tensor | None,
                 dtype: torch.dtype | None = None) -> torch.Tensor:  # fmt: skip
    """The same with the transposed weight, whose rows have scales for each group of columns."""
    plain = dequantized(weight, weight_scales, weight_zero_points)
    return (input.double() @ plain.T).to(dtype or input.dtype)


@torch.library.register_fake("quantized_decomposed::mixed_mm")
def _(input: torch.Tensor, weight: torch.Tensor, *_: Any) -> torch.Tensor:
    return input.new_empty(input.shape[0], weight.shape[1])


@torch.library.register_fake("quantized_decomposed::mixed_linear")
def _(input: torch.Tensor, weight: torch.Tensor, scales: torch.Tensor, zeros: Any,
      dtype: torch.dtype | None = None) -> torch.Tensor:  # fmt: skip
    return input.new_empty(input.shape[0], weight.shape[0], dtype=dtype or input.dtype)


def functional(name: str) -> Any:
    """The operator that returns what the out form `quantized_decomposed::...` writes."""
    packet, _, overload = name.removeprefix("quantized_decomposed::").partition(".")
    form = overload.removesuffix("out").removesuffix("_").lower()
    return getattr(getattr(OPS, packet), form or "default")
