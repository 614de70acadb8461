"""Quantized programs without a delegate: executorch_c compared with eager and the official
runtime."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torchao")

from executorch_c import Runtime
from tests import judge
from tests.models import quantized_zoo
from tests.openers import Opener

# Operators that must be in each model's program.
USES = {
    "conv_by_tensor": ["dequantize_per_tensor.out", "quantize_per_tensor.out"],
    "conv_by_channel": ["dequantize_per_channel.out", "quantize_per_tensor.out"],
    "mlp_dynamic": [
        "choose_qparams.Tensor_out",
        "quantize_per_tensor.Tensor_out",
        "dequantize_per_tensor.Tensor_out",
        "dequantize_per_channel.out",
    ],
    "mlp_dynamic_by_tensor": ["choose_qparams.Tensor_out", "dequantize_per_tensor.out"],
    "attention": ["dequantize_per_channel.out"],
    "sum": ["add.out"],
    "tables": ["embedding_byte.out", "embedding_4bit.out", "embedding_2bit.out"],
}


def each_model(test: Any) -> Any:
    """Run a test for each model; by default for half of them, the same ones in each test."""
    return pytest.mark.sweep(2)(pytest.mark.parametrize("name", quantized_zoo.MODELS)(test))


def check(found: Any, model: quantized_zoo.Quantized) -> None:
    """Assert equality, except that sums in another order may round to the other side where eager's
    own do (averages of quantised numbers are often ties)."""
    judge.assert_within(found, model.wanted, model.room)


def faults(model: quantized_zoo.Quantized) -> Iterator[tuple[str, np.ndarray]]:
    """Yield wrong results with the dtype and shape of the right one."""
    wanted = model.wanted
    levels = np.diff(np.unique(wanted))
    step = levels[levels > 1e-4].min()
    yield "zeros", np.zeros_like(wanted)
    yield "1 % more", wanted * np.float32(1.01)
    yield "a step more", wanted + step
    yield "a step more in half", wanted + step * (np.arange(wanted.size) % 2).reshape(wanted.shape)
    one = wanted.copy()
    at = np.unravel_index(np.argmin(model.room), wanted.shape)
    one[at] += max(step, 1e-4)
    yield "one element", one


@each_model
def test_faults_are_seen(name: str) -> None:
    model = quantized_zoo.load(name)
    check(model.wanted.copy(), model)
    for fault, result in faults(model):
        with pytest.raises(AssertionError, match="units in the last place"):
            check(result.astype(np.float32), model)
            pytest.fail(f"{fault} is not seen")


@each_model
def test_matches_eager(name: str) -> None:
    model = quantized_zoo.load(name)
    program = Runtime.get().load_program(model.pte)
    used = program.requirements()["operators"]
    assert {f"quantized_decomposed::{op}" for op in USES[name]} <= set(used)
    for kernels in ("default", "reference"):
        (outputs,) = program.load_method("forward", kernels=kernels).execute(model.inputs)
        check(outputs, model)


@each_model
def test_matches_official(name: str, official: Opener) -> None:
    from tests.kernels import quantized_forms  # noqa: F401  (registers the official kernels)

    model = quantized_zoo.load(name)
    (outputs,) = official(model.pte)("forward", model.inputs)
    check(outputs, model)
