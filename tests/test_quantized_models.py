"""Quantized programs without a delegate: executorch_c beside eager and the official runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("executorch")
pytest.importorskip("torchao")

import quantized_zoo
from conftest import Opener
from executorch_c import Runtime

# Operators that show that a model is what its name says.
USES = {
    "conv_by_tensor": ["dequantize_per_tensor.out", "quantize_per_tensor.out"],
    "conv_by_channel": ["dequantize_per_channel.out", "quantize_per_tensor.out"],
    "mlp_dynamic": ["choose_qparams.Tensor_out", "quantize_per_tensor.Tensor_out",
                    "dequantize_per_tensor.Tensor_out", "dequantize_per_channel.out"],
    "mlp_dynamic_by_tensor": ["choose_qparams.Tensor_out", "dequantize_per_tensor.out"],
    "attention": ["dequantize_per_channel.out"],
    "sum": ["add.out"],
    "tables": ["embedding_byte.out", "embedding_4bit.out", "embedding_2bit.out"],
}  # fmt: skip
each_model = pytest.mark.parametrize("name", quantized_zoo.MODELS)


def check(found: Any, model: quantized_zoo.Quantized) -> None:
    """Equal, but that sums in another order may lie on the other side of a rounding (averages of
    quantised numbers are often ties): one step of the scale, in a row that saw it."""
    assert (found.shape, found.dtype) == (model.wanted.shape, model.wanted.dtype)
    off = np.abs(found - model.wanted)
    assert off.max() <= max(model.step * 1.0001, 1e-6)
    assert (off > 1e-6).mean() < 0.5


@each_model
@pytest.mark.parametrize("kernels", ["default", "reference"])
def test_matches_eager(name: str, kernels: Any) -> None:
    model = quantized_zoo.load(name)
    program = Runtime.get().load_program(model.pte)
    used = program.requirements()["operators"]
    assert {f"quantized_decomposed::{op}" for op in USES[name]} <= set(used)
    (found,) = program.load_method("forward", kernels=kernels).execute(model.inputs)
    check(found, model)


@each_model
def test_matches_official(name: str, official: Opener) -> None:
    import quantized_forms  # noqa: F401  (registers the official kernels)

    model = quantized_zoo.load(name)
    (found,) = official(model.pte)("forward", model.inputs)
    check(found, model)
