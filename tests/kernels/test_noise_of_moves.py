"""Operators that move or select numbers have no rounding noise: `check_model` would take it for
room that a wrong program may use."""

from typing import Any

import numpy as np
import pytest
import torch

from executorch_c import operators
from executorch_c.inspect.families import unsuffixed
from executorch_c.noise import ties
from executorch_c.noise.rounding import RandomRounding
from executorch_c.noise.sums import EXACT, TABLE
from tests.kernels.eager import called, to_torch
from tests.kernels.rows import REFUSALS, pick, tables


def floats(values: Any) -> list[np.ndarray]:
    """Return the float32 arrays of a result."""
    leaves = torch.utils._pytree.tree_leaves(values)
    return [
        one.numpy()
        for one in leaves
        if isinstance(one, torch.Tensor) and one.dtype == torch.float32
    ]


def run(name: str, args: list) -> list[np.ndarray]:
    """Return the float results of eager."""
    return floats(called(name, [to_torch(arg) for arg in args]))


def moves() -> list[str]:
    """Return the operators on float32 that do not round, and have samples; those with ties have a
    test of their own. The elements of empty tensors are undefined."""
    names = EXACT - set(TABLE) - set(ties.OPERATORS)
    names -= {"empty", "empty_permuted", "empty_strided", "new_empty_strided"}
    floating = {row["name"] for row in operators() if "float32" in row["dtypes"]}
    return [
        name
        for name in sorted(floating.intersection(tables()))
        if name.startswith("aten::") and unsuffixed(name) in names
    ]


@pytest.mark.parametrize("name", moves())
@torch.no_grad()
def test_moves_have_no_noise(name: str) -> None:
    ran = 0
    for args in pick(name, "float32"):
        try:
            outputs = run(name, args)
        except REFUSALS:
            continue
        ran += 1
        for seed in range(1, 3):
            with RandomRounding(seed):
                noisy = run(name, args)
            for one, other in zip(outputs, noisy, strict=True):
                np.testing.assert_array_equal(other, one)
    assert ran
