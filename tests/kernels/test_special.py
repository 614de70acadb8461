"""csrc/kernels/special against eager, over the whole range of each function."""

from typing import Any

import mpmath
import numpy as np
import pytest

from tests.judge import Limit, changes, describe, wrong
from tests.kernels.eager import eager
from tests.kernels.samples_special import POLYNOMIALS, SAMPLES
from tests.op_harness import Out, run

FIRST = {n: next(samples(np.random.default_rng(0), "float32")) for n, samples in SAMPLES.items()}
ONE_OPERAND = [n for n, args in FIRST.items() if len(args) == 1]
POLYGAMMA = "aten::polygamma.out"
WIDE = ["float32", "float64"]


def points(dtype: str) -> np.ndarray:
    """Return both signs of all magnitudes, the bounds of the approximations, infinities and NaN."""
    rng = np.random.default_rng(0)
    bounds = [0, np.inf, np.nan, 1e-30, 1e30, 2, 2.09, 4, 5, 8, 10, 26.6, 50, 103.892, 0.46875]
    positive = [
        *(10.0 ** rng.uniform(-8, 8, 99), rng.uniform(0, 30, 300), rng.uniform(0, 1, 99)),
        *(np.arange(30), np.arange(30) + 0.5, bounds),
    ]
    a = np.concatenate(positive).astype(dtype)
    return np.concatenate([a, -a])


def igamma(a: float, x: float) -> Any:
    """Return the regularised incomplete gamma function, exactly."""
    return mpmath.gammainc(a, 0, x, regularized=True)


def igammac(a: float, x: float) -> Any:
    """Return 1 - igamma(a, x), exactly."""
    return mpmath.gammainc(a, x, mpmath.inf, regularized=True)


EXACTLY = {"aten::igamma.out": igamma, "aten::igammac.out": igammac}
"""Functions for which eager's float64 has an error of 1e-9 if the parameter is above 20."""


def assert_close(name: str, args: list) -> None:
    """Assert that results are within some units in the last place, plus the effect of the
    arguments' last places (near a zero of the function), or as near to float64 as eager's."""
    wanted = eager(name, args)[0]
    output = run(name, [*args, Out(wanted.shape, wanted.dtype.name)])[0]
    wide = [a.astype(np.float64) if isinstance(a, np.ndarray) else a for a in args]
    exact = eager(name, wide)[0] if wanted.dtype == np.float32 else None
    off = wrong(output, wanted, Limit(ulps=64), exact)
    if off.any():  # of the others nobody asks, and eager takes seconds for some of them

        def changed(change: Any) -> list:
            return eager(name, [change(a)[off] if isinstance(a, np.ndarray) else a for a in wide])

        with np.errstate(all="ignore"):
            terms = np.nan_to_num(changes(changed, draws=2)[0], nan=0.0, posinf=0.0)
        limit, nearest = Limit(ulps=64, units=64), None if exact is None else exact[off]
        off[off] = wrong(output[off], wanted[off], limit, nearest, terms)
    for at in zip(*np.nonzero(off)) if name in EXACTLY else ():
        right = EXACTLY[name](*(float(a[at]) for a in wide))
        off[at] = not abs(output[at] - right) <= 64 * np.finfo(output.dtype).eps * abs(right)
    assert not off.any(), describe(output, wanted, off, exact)


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("name", ONE_OPERAND)
def test_whole_range(name: str, dtype: str) -> None:
    assert_close(name, [points(dtype)])


@pytest.mark.sweep(5)
@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("n", [0, 1, 2, 3, 4])
def test_polygamma(n: int, dtype: str) -> None:
    assert_close(POLYGAMMA, [n, points(dtype)])


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("name", ["aten::igamma.out", "aten::igammac.out"])
def test_incomplete_gamma(name: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    a = points(dtype)
    near = (a * (1 + rng.uniform(-0.3, 0.3, a.shape))).astype(dtype)
    assert_close(name, [a, near])
    assert_close(name, [a, rng.permutation(a)])


@pytest.mark.parametrize("dtype", WIDE)
def test_zeta(dtype: str) -> None:
    x = points(dtype)
    q = np.random.default_rng(0).permutation(x[np.abs(x) < 1000])
    assert_close("aten::special_zeta.out", [x[: q.size], q])
    whole = np.full(q.shape, 4, dtype)
    assert_close("aten::special_zeta.out", [whole, q])


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name: str, dtype: str) -> None:
    """Degrees up to the limit of the recurrence in the dtype; invalid degrees. NaN is left out: for
    some degrees, eager returns uninitialised memory."""
    x = points(dtype)
    x = x[(np.abs(x) < 3) | (np.abs(x) > 1e3)]
    for n in (-1, 0, 1, 2, 3, 4, 5, 2.5, np.inf, -np.inf, np.nan):
        assert_close(f"aten::special_{name}.out", [x, np.full(x.shape, n, dtype)])
    inside = x[np.abs(x) < 0.99]
    inside = (inside + 1) / 2 if "shifted" in name else inside
    for n in (6, 7, 8, 9, 12):
        assert_close(f"aten::special_{name}.out", [inside, np.full(inside.shape, n, dtype)])


@pytest.mark.parametrize("name", ["igamma", "igammac"])
def test_ends_of_incomplete_gamma_functions(name: str) -> None:
    """All of eager's conditions, including NaN with an infinite parameter."""
    ends = np.asarray([0, 1, 2.5, np.inf, -1, -np.inf, np.nan])
    assert_close(f"aten::{name}.out", [np.repeat(ends, ends.size), np.tile(ends, ends.size)])


def test_incomplete_gamma_functions_of_the_least_parameter() -> None:
    """They tend to 1 and 0; eager's power series is 0 times infinity."""
    a, x = np.full(3, 5e-324), np.asarray([5e-324, 0.5, 8])
    assert run("aten::igamma.out", [a, x, Out((3,), "float64")])[0].tolist() == [1, 1, 1]
    assert run("aten::igammac.out", [a, x, Out((3,), "float64")])[0].tolist() == [0, 0, 0]


def test_the_sign_of_zero() -> None:
    """Bessel's J1 is odd."""
    x = np.array([-0.0, 0.0], np.float32)
    (output,) = run("aten::special_bessel_j1.out", [x, Out(x.shape)])
    assert np.signbit(output).tolist() == [True, False]
