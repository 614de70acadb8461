"""Division with a rest and by integers: exact, for every sign, near multiples."""

import numpy as np
import pytest

from tests.judge import assert_equal
from tests.kernels.eager import INTEGRAL, eager
from tests.op_harness import Out, run


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_divisors_of_the_least_integer(dtype: str) -> None:
    """Eager raises SIGFPE for some of these, so only magnitudes are known: that of the smallest
    integer overflows and stays negative."""
    least = np.iinfo(dtype).min
    a, b = np.full(4, least, dtype), np.asarray([-1, 0, 6, least], dtype)
    gcd, lcm = (run(f"aten::{n}.out", [a, b, Out((4,), dtype)])[0].tolist() for n in ("gcd", "lcm"))
    assert [abs(n) for n in gcd] == [1, -least, 2, -least]
    assert lcm == [least, 0, least, least]


COUNT = 16_000  # pairs of each kind


def divided(name: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return libm's exact remainder of a division, and the quotient derived from it."""
    with np.errstate(all="ignore"):
        rest = np.fmod(a, b)
        if name.startswith("floor"):
            return eager(f"aten::{name}", [a, b])[0]
        other_side = (rest != 0) & ((b < 0) != (rest < 0)) & name.startswith("remainder")
        return np.where(other_side, rest + b, rest)


@pytest.mark.parametrize("name", ["fmod.Tensor_out", "remainder.Tensor_out", "floor_divide.out"])
@pytest.mark.parametrize("dtype, limit", [("float32", 29), ("float64", 53)])
def test_division_with_rest(name: str, dtype: str, limit: int, rng: np.random.Generator) -> None:
    """Bitwise equal to libm: all bit patterns, quotients at and near integers, up to the limit of
    the fast loop and beyond; subnormal numbers."""
    kind = np.dtype(dtype).type
    raw = rng.integers(0, 2**64, (2, COUNT), dtype=np.uint64, endpoint=False)
    bits = (raw >> (64 - 8 * kind().nbytes)).astype(f"u{kind().nbytes}").view(dtype)
    tiny, huge = np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max
    ends = np.asarray(
        [
            *(0, -0.0, 1, -1, 3, 0.1, tiny, 5 * tiny, -np.finfo(dtype).tiny, huge, np.inf),
            *(-np.inf, np.nan),
        ],
        dtype,
    )
    y = rng.standard_normal(COUNT).astype(dtype)
    with np.errstate(all="ignore"):
        whole = np.floor(2 ** rng.uniform(0, limit + 2, y.size)) * rng.choice([-1, 1], y.size)
        x = (y * whole).astype(dtype)
        small = (rng.integers(-(2**20), 2**20, (2, COUNT // 4)) * tiny).astype(dtype)
        pairs = [
            *(bits, (x, y), (np.nextafter(x, kind(np.inf)), y), (np.nextafter(x, kind(0)), y)),
            *(small, np.meshgrid(ends, ends)),
        ]
    a, b = (np.concatenate([np.ravel(pair[k]) for pair in pairs]) for k in (0, 1))
    for args in ([a, b], [a, b[COUNT : COUNT + 1]], [a[COUNT : COUNT + 1], b]):
        want, (vectors,) = divided(name, *args), eager(f"aten::{name}", args)
        # For quotients out of range, eager's vectorised fmod returns NaN, its scalar one does not.
        lost = np.isnan(vectors) & ~np.isnan(want)
        assert_equal(np.where(lost, want, vectors), want, name)
        assert not lost.any() or name[0] in "fr"
        for reference in (True, False):
            output = run(f"aten::{name}", [*args, Out(a.shape, dtype)], reference)[0]
            assert_equal(output, want, (name, reference))


@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("dtype", INTEGRAL)
def test_integer_division_near_multiples(
    dtype: str, reference: bool, rng: np.random.Generator
) -> None:
    """Quotients that would round up to the next integer, with divisors of every length and sign;
    the smallest number divided by -1 wraps."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    bits = np.iinfo(dtype).bits
    y = rng.integers(low, high, 20_001, dtype, endpoint=True)
    y = y >> rng.integers(0, bits, y.size, dtype)
    y[y == 0] = 1
    with np.errstate(all="ignore"):
        q = np.floor_divide(rng.integers(low, high, y.size, dtype, endpoint=True), y)
        x = (q * y + rng.integers(-1, 2, y.size).astype(dtype)).astype(dtype)
        y[9:4000:3] = rng.integers(-9 if low else 1, 10, y[9:4000:3].size)
        y[y == 0] = 7
        if low:
            x[10:90], y[10:30] = low, -1
        for a, b in ((x, y), (x[::2], y[1::2]), (x[:-1], y[7:8]), (x[7:8], y)):
            for name, want in (
                ("floor_divide.out", np.floor_divide),
                ("fmod.Tensor_out", np.fmod),
                ("remainder.Tensor_out", np.remainder),
            ):
                n = max(a.size, b.size)
                a, b = (v[: n // 2 * 2] if v.size > 1 else v for v in (a, b))
                expected = want(a, b)
                output = run(f"aten::{name}", [a, b, Out(expected.shape, dtype)], reference)[0]
                np.testing.assert_array_equal(output, expected, f"{name} {a.strides} {b.strides}")
