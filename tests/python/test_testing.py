"""executorch_c.testing: what counts as different, the figures, and what the reports say."""

from __future__ import annotations

import math
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import executorch_c
from executorch_c.testing import MismatchError, assert_matches, compare

EXAMPLES = Path(executorch_c.__file__).parent / "examples"
DIGITS = EXAMPLES / "digits.pte"
FLOATS = ["float16", ml_dtypes.bfloat16, "float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("dtype", [*FLOATS, "int8", "int64", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (5,), (2, 3, 4)])
def test_equal_arrays_match(
    dtype: object, shape: tuple[int, ...], rng: np.random.Generator
) -> None:
    x = rng.integers(0, 2, shape).astype(dtype)  # type: ignore[call-overload]
    comparison = compare(x, x.copy())
    assert comparison
    [one] = comparison
    assert one.gap is not None and one.gap.outside == 0
    assert one.gap.max_abs == 0
    assert "outputs match" in str(comparison)


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_limit_is_that_of_torch(dtype: object, rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch")
    expected = rng.standard_normal(2000).astype(dtype)  # type: ignore[call-overload]
    for scale in (1e-8, 1e-6, 1e-5, 1e-3, 1e-2):
        actual = (expected.astype("complex128" if expected.dtype.kind == "c" else "float64")
                  + rng.uniform(0, scale, 2000)).astype(expected.dtype)  # fmt: skip

        def tensor(array: np.ndarray) -> object:
            if array.dtype == ml_dtypes.bfloat16:
                return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
            return torch.from_numpy(array)

        try:
            torch.testing.assert_close(tensor(actual), tensor(expected))
            close = True
        except AssertionError:
            close = False
        assert compare(actual, expected).ok is close
        assert compare(tensor(actual), tensor(expected)).ok is close


def test_figures() -> None:
    expected = np.array([[1.0, 2.0, 4.0], [8.0, 0.0, 1.0]], np.float32)
    actual = expected.copy()
    actual[0, 1] = 2.5
    actual[1, 2] = 9
    [one] = compare(actual, expected, rtol=0.1, atol=0)
    gap = one.gap
    assert gap is not None
    assert (gap.outside, gap.elements) == (2, 6)
    assert (gap.first, gap.worst) == ((0, 1), (1, 2))
    assert (gap.actual_at_worst, gap.expected_at_worst) == (9, 1)
    assert (gap.max_abs, gap.max_rel, gap.argmax) == (8, 8, 0.5)
    assert gap.max_ulp == 3 * 2**23 + 2**20  # from 1 to 8 three binades, to 9 an eighth of one
    a, e = actual.ravel().astype("f8"), expected.ravel().astype("f8")
    assert gap.cosine == pytest.approx(a @ e / np.sqrt((a @ a) * (e @ e)))
    assert gap.snr_db == pytest.approx(20 * math.log10(np.linalg.norm(e) / np.linalg.norm(a - e)))


def test_ulp_counts_representable_values() -> None:
    one = np.float32(1)
    cases = [(np.nextafter(one, 2), one, 1), (np.float32(-0.0), np.float32(0), 0),
             (np.nextafter(np.float32(0), -one), np.nextafter(np.float32(0), one), 2)]  # fmt: skip
    for a, e, ulp in cases:
        [result] = compare(np.asarray(a), np.asarray(e))
        assert result.gap is not None and result.gap.max_ulp == ulp
    lowest, highest = np.finfo("f8").min, np.finfo("f8").max
    [result] = compare(np.array([lowest]), np.array([highest]))
    assert result.gap is not None
    assert result.gap.max_ulp == pytest.approx(2 * (2047 * 2**52 - 1))


@pytest.mark.parametrize(
    ("actual", "expected", "ok"),
    [
        ([np.nan, 1], [np.nan, 1], True),
        ([np.nan, 1], [0, 1], False),
        ([0, 1], [np.nan, 1], False),
        ([np.inf, -np.inf], [np.inf, -np.inf], True),
        ([np.inf], [-np.inf], False),
        ([3e38], [np.inf], False),
        ([np.nan], [np.inf], False),
    ],
)
def test_nan_and_infinity(actual: list[float], expected: list[float], ok: bool) -> None:
    comparison = compare(np.array(actual, "f4"), np.array(expected, "f4"))
    assert comparison.ok is ok


def test_nan_may_count_as_different() -> None:
    x = np.array([np.nan], np.float32)
    assert not compare(x, x, equal_nan=False)


def test_huge_integers_are_told_apart() -> None:
    big = np.array([2**62], np.int64)
    assert compare(big, big)
    assert not compare(big + 1, big)


@pytest.mark.parametrize(
    ("actual", "expected", "text"),
    [
        (np.zeros((2, 3), "f4"), np.zeros((3, 2), "f4"), "shape [2, 3], expected [3, 2]"),
        (np.zeros(2, "f4"), np.zeros(2, "f8"), "dtype float32, expected float64"),
        ([np.zeros(2)], [np.zeros(2), np.zeros(2)], "1 output, expected 2"),
        (None, np.zeros(2), "None, expected an array (ndarray)"),
        ("a", "b", "'a', expected 'b'"),
        (np.array([1, 5], "i8"), np.array([1, 4], "i8"), "worst at (1,): 5, expected 4"),
    ],
)
def test_what_differs_is_said(actual: object, expected: object, text: str) -> None:
    comparison = compare(actual, expected)
    assert not comparison
    assert text in str(comparison)
    assert "outputs differ" in str(comparison)
    assert "Outputs differ" in comparison._repr_html_()


def test_structures_are_read_in_order() -> None:
    x, y = np.ones(2, "f4"), np.zeros(3, "f4")
    assert compare([x, y, 3, None], {"a": x, "b": (y, [3, None])})
    assert not compare([x, y], {"b": y, "a": x})


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="rtol is -1, expected 0 or more"):
        compare(1.0, 1.0, rtol=-1)
    with pytest.raises(TypeError, match="expected an array of numbers"):
        compare(np.array(["a"]), np.array(["a"]))


def test_a_program_matches() -> None:
    with np.load(EXAMPLES / "digits.npz") as data:
        images, expected = data["inputs"], data["expected"]
    program = executorch_c.Runtime.get().load_program(DIGITS)
    for source in (DIGITS, DIGITS.read_bytes(), program, program.load_method("forward")):
        comparison = assert_matches(source, [images], expected, atol=1e-4)
        assert comparison[0].gap is not None and comparison[0].gap.argmax == 1.0


def test_a_wrong_answer_is_an_assertion_error() -> None:
    with np.load(EXAMPLES / "digits.npz") as data:
        images, expected = data["inputs"], data["expected"].copy()
    expected[3, 7] += 1
    with pytest.raises(MismatchError, match=r"output 0: 1 of .* worst at \(3, 7\)") as caught:
        assert_matches(DIGITS, [images], [expected], atol=1e-4)
    assert isinstance(caught.value, AssertionError)
    assert caught.value.comparison[0].gap.outside == 1  # type: ignore[union-attr]
