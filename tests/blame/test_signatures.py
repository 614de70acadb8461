"""Patterns of wrong values are recognised, and right patterns only."""

from collections.abc import Callable

import numpy as np
import pytest

from executorch_c.blame.signatures import describe, describe_extents
from executorch_c.compare.tolerance import by_dtype

RNG = np.random.default_rng(0)
EXACT = RNG.standard_normal((2, 16, 6)).astype(np.float32)


def put(index: object, value: Callable[[np.ndarray], object]) -> np.ndarray:
    """Return EXACT with other values in a part of it."""
    array = EXACT.copy()
    array[index] = value(EXACT)  # type: ignore[index]
    return array


ROWS = np.s_[:, 4:8]
CASES = {
    "[:, 4:8] of [2, 16, 6], zeros": put(ROWS, lambda x: 0),
    "[:, 4:8] of [2, 16, 6], the expected values times 0.5": put(ROWS, lambda x: x[ROWS] / 2),
    "[:, ::2] of [2, 16, 6], zeros": put(np.s_[:, ::2], lambda x: 0),
    "[1:2] of [2, 16, 6], NaN": put(1, lambda x: np.nan),
    "clamped at ±0.5": np.clip(EXACT, -0.5, 0.5),
    "the expected values negated": -EXACT,
    "the expected values plus 0.25": EXACT + np.float32(0.25),
    "the expected values, shifted by 1 along dimension 1": np.roll(EXACT, 1, 1),
    "[:, 8:16] of [2, 16, 6], the expected values, shifted by 8 along dimension 1": put(
        np.s_[:, 8:], lambda x: x[:, :8]
    ),
    "the expected values, stored with dimensions in the order [0, 2, 1]": EXACT.transpose(
        0, 2, 1
    ).reshape(EXACT.shape),
    "the expected values in another order along dimension 1": EXACT[
        :, np.arange(16).reshape(4, 4)[:, [2, 0, 3, 1]].ravel()
    ],
    "a factor of its own for each slice of dimension 1": EXACT
    * np.linspace(1.1, 2, 16, dtype=np.float32)[:, None],
    "a summand of its own for each slice of dimension 1": EXACT
    + np.linspace(0.1, 2, 16, dtype=np.float32)[:, None],
    "only the bits of bfloat16": (EXACT.view(np.uint32) & 0xFFFF0000).view(np.float32),
    "[:, 4:8] of [2, 16, 6]": put(ROWS, lambda x: RNG.standard_normal((2, 4, 6))),
    "": RNG.standard_normal(EXACT.shape).astype(np.float32),
}


@pytest.mark.parametrize("text", CASES)
def test_patterns(text: str) -> None:
    actual = CASES[text]
    assert describe(actual, EXACT, by_dtype(actual, EXACT)) == text


def test_a_right_value_has_none() -> None:
    assert describe(EXACT, EXACT, by_dtype(EXACT, EXACT)) == ""


def test_halves_saturate() -> None:
    exact = (EXACT * 40000).astype(np.float32)
    actual = np.clip(exact, -65504, 65504)
    assert describe(actual, exact, by_dtype(actual, exact)).endswith("clamped at ±65504")


@pytest.mark.parametrize("seed", range(1, 6))
def test_noise_has_no_pattern(seed: int) -> None:
    actual = EXACT + np.random.default_rng(seed).standard_normal(EXACT.shape).astype(np.float32)
    assert describe(actual, EXACT, by_dtype(actual, EXACT)) == ""


def test_extents() -> None:
    text = "shape [16, 8], expected [5, 8], "
    assert describe_extents((16, 8), (5, 8), (16, 8)) == text + "the upper bound"
    assert describe_extents((16, 8), (5, 8), (32, 8)).startswith(text + "that of another call")
