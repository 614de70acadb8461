"""The column of ops.def that says what becomes of numbers, on the samples of each operator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
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

ROWS = {row["name"]: row for row in operators() if "float32" in row["dtypes"]}
MOVING = [
    name
    for name in sorted(ROWS.keys() & tables().keys())
    if ROWS[name]["numbers"] in ("same", "moves", "picks") and name.startswith("aten::")
]
DEFAULTS = {
    "aten::constant_pad_nd.out": {0.0},
    "aten::clamp.out": {float("nan")},
    "aten::hardtanh.out": {-1.0, 1.0},
}
"""Numbers that an operator has without an argument."""


def floats(values: Any) -> list[np.ndarray]:
    """Return the float32 arrays of a result."""
    leaves = torch.utils._pytree.tree_leaves(values)
    return [
        one.numpy()
        for one in leaves
        if isinstance(one, torch.Tensor) and one.dtype == torch.float32
    ]


def numbers(args: Any) -> set[float]:
    """Return all numbers of tensors, lists and scalars."""
    if isinstance(args, torch.Tensor):
        return set(args.double().flatten().tolist()) if not args.is_complex() else set()
    if isinstance(args, (list, tuple)):
        return set().union(*map(numbers, args))
    return {float(np.float32(args))} if isinstance(args, (int, float)) else set()


def calls(name: str) -> Iterator[tuple[list, list[np.ndarray]]]:
    """Yield the arguments that eager accepts, with its float32 results."""
    for sample in pick(name, "float32"):
        args = [to_torch(arg) for arg in sample]
        with suppress(*REFUSALS):
            yield args, floats(called(name, args))


@pytest.mark.parametrize("name", MOVING)
@torch.no_grad()
def test_results_have_numbers_of_arguments(name: str) -> None:
    kind, ran = ROWS[name]["numbers"], 0
    for args, results in calls(name):
        first = next(arg for arg in args if isinstance(arg, (torch.Tensor, list)))
        allowed = numbers(args if kind == "picks" else first) | DEFAULTS.get(name, set())
        for result in results:
            output = result.astype(float).ravel()
            assert {x for x in output.tolist() if x == x} <= allowed
            if kind == "same" and isinstance(first, torch.Tensor) and first.numel() == output.size:
                np.testing.assert_array_equal(result.ravel(), first.numpy().ravel())
        ran += bool(results)
    assert ran


def test_operators_of_no_family_that_computes_have_the_other_words() -> None:
    words = {row["numbers"] for row in operators()}
    assert words == {"same", "moves", "picks", "exact", "rounds", "sums", "random"}
    assert all((row["terms"] is None) == (row["numbers"] != "sums") for row in operators())
    assert {row["family"] for row in operators() if row["numbers"] == "random"} == {"random"}
    assert {row["family"] for row in operators() if row["joins"]} == {"pointwise"}


def moves() -> list[str]:
    """Return the operators on float32 that do not round, and have samples; those with ties have a
    test of their own. The elements of empty tensors are undefined."""
    names = EXACT - set(TABLE) - set(ties.OPERATORS)
    names -= {"empty", "empty_permuted", "empty_strided", "new_empty_strided"}
    return [
        name
        for name in sorted(ROWS.keys() & tables().keys())
        if name.startswith("aten::") and unsuffixed(name) in names
    ]


@pytest.mark.parametrize("name", moves())
@torch.no_grad()
def test_moves_have_no_noise(name: str) -> None:
    """`check_model` would take their noise for room that a wrong program may use."""
    ran = 0
    for args, outputs in calls(name):
        ran += 1
        for seed in range(1, 3):
            with RandomRounding(seed):
                noisy = floats(called(name, args))
            for one, other in zip(outputs, noisy, strict=True):
                np.testing.assert_array_equal(other, one)
    assert ran
