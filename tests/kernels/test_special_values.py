"""Pointwise operators and complex products, compared with eager for special values of every dtype:
zeros of both signs, subnormal and largest numbers, infinities and NaN in all pairs, also as parts
of complex numbers; the ends of integers.

Results must be of the same kind (NaN, infinity or zero, with the same sign), or close numbers. If
eager's vectorised and scalar results differ, either is right. The machine must have AVX2; without
it, eager's log2(0j), fmax and fmin of float16 differ.
"""

import itertools
import re
from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest

from tests.dtypes import np_dtype
from tests.judge import EXACT, is_inexact, ulp
from tests.kernels.accuracy import row_of
from tests.kernels.eager import COMPLEX, FLOATING, HALVES, INTS, eager
from tests.kernels.rows import REFUSALS
from tests.kernels.samples_pointwise import SAMPLES
from tests.op_harness import OpError, Out, run, schemas

# Tensor arguments by the schema of the row.
FORMS = {
    "x": r"\(Tensor self, \*, Tensor\(a!\) out\)",
    "xy": r"\(Tensor self, Tensor other, \*, (Scalar alpha=1, )?Tensor\(a!\) out\)",
    "xn": r"\(Tensor self, Scalar (other|exponent), \*, Tensor\(a!\) out\)",
    "nx": r"\(Scalar self, Tensor (other|exponent), \*, Tensor\(a!\) out\)",
}
ROWS = [
    (schema.split("(")[0], form)
    for schema in schemas().values()
    for form, pattern in FORMS.items()
    if schema.split("(")[0] in SAMPLES and re.search(pattern, schema)
]
NUMBERS = [0, 1, 2, 3, -1, -2, 7, 63, 64, 0.5, -0.5, -2.5, -0.0, np.inf, -np.inf, np.nan]
DIVISIONS = ("div", "floor_divide", "fmod", "remainder")
# Dtypes for which eager's vectors are wrong or choose differently; test_exclusions.py proves it.
LEFT_OUT = {
    "aten::acos.out": "complex128",  # loses the signs of zeros
    "aten::erf.out": "bfloat16",  # has no subnormal results
    "aten::fmax.out": "bfloat16",  # the second of two zeros, in other dtypes the first
    "aten::fmin.out": "bfloat16",
}


def ends(dtype: str) -> np.ndarray:
    if dtype == "bool":
        return np.array([False, True])
    if dtype in INTS:
        i = np.iinfo(dtype)
        few = {*range(-9, 10), 15, 16, 31, 32, 63, 64, i.min, i.min + 1, i.max - 1, i.max}
        return np.asarray([n for n in sorted(few) if i.min <= n <= i.max], dtype)
    if dtype in COMPLEX:
        part = np.float32 if dtype == "complex64" else np.float64
        least, most = (1e-42, 1e38) if dtype == "complex64" else (1e-310, 1e308)
        parts = np.asarray([0, -0.0, 1, -1, 2.5, np.inf, -np.inf, np.nan, least, most], part)
        grid = np.empty((parts.size, parts.size), dtype)
        grid.real, grid.imag = parts[:, None], parts
        return grid.ravel()
    f = ml_dtypes.finfo(np_dtype(dtype))
    least, most = float(f.smallest_subnormal), float(f.max)
    few = [
        *(0, -0.0, least, -least, float(f.tiny), 1, -1, 0.5, -0.5, 2.5, -3, most, -most),
        *(np.inf, -np.inf, np.nan),
    ]
    return np.asarray(few).astype(np_dtype(dtype))


def parts(a: np.ndarray) -> np.ndarray:
    """Return real and imaginary parts in the first dimension, as float64."""
    return np.stack([a.real, a.imag] if a.dtype.kind == "c" else [a]).astype(np.float64)


def sizes(z: np.ndarray) -> np.ndarray:
    """Return 1 for numbers with a large part, -1 for numbers with a subnormal part, else 0."""
    magnitude = np.abs(parts(z))
    large = (np.isfinite(magnitude) & (magnitude > 1e30)).any(0)
    small = ((magnitude > 0) & (magnitude < 1e-30)).any(0)
    return np.where(large, 1, np.where(small, -1, 0))


def lossy(args: list) -> np.ndarray | bool:
    """Return a mask of pairs of complex numbers with large or subnormal parts: there, the sign of a
    zero depends on whether eager rounds products before it adds them."""
    both = [sizes(a) for a in args if isinstance(a, np.ndarray) and a.dtype.kind == "c"]
    return both[0] * both[1] != 0 if len(both) == 2 else False


def alike(
    operator: str, result: np.ndarray, wanted: np.ndarray, lossy: np.ndarray | bool = False
) -> np.ndarray:
    """Return a mask of results of one kind that are close: within twice the operator's limit,
    because eager's results have errors, too, in units of the complex number, plus two of the
    smallest numbers. If `lossy`, and next to a subnormal part, a zero may have any sign."""
    name, row = wanted.dtype.name, row_of(operator)
    if not is_inexact(name):
        return result == wanted
    limit = row.limit(name, name in COMPLEX) if row else EXACT
    ulps = 1 if name in HALVES and row else 2 * limit.ulps
    a, b = parts(result), parts(wanted)
    info = ml_dtypes.finfo(wanted.real.dtype)
    known = np.isfinite(b)
    with np.errstate(invalid="ignore", over="ignore"):
        whole = np.hypot(*b) if name in COMPLEX else np.abs(b[0])
        size = np.where(known.all(0), whole, np.abs(b))
        least = 2 * float(info.smallest_subnormal) if row else 0
        near = np.abs(a - b) <= ulps * ulp(size, name) + least
    signed = (a == 0) & (b == 0) & ~((0 < size) & (size < float(info.tiny)) | lossy)
    same = np.where(known, near & (~signed | (np.signbit(a) == np.signbit(b))), a == b)
    return np.asarray((same | (np.isnan(a) & np.isnan(b))).all(0))


def check(name: str, args: list) -> None:
    """Check each element of arrays of one length, or that the operator rejects them."""
    n = max(a.size for a in args if isinstance(a, np.ndarray))
    # Long enough for every element to be in a vector.
    long = [np.resize(a, n // 64 * 64 + 128) if isinstance(a, np.ndarray) else a for a in args]
    try:
        wanted = eager(name, long)[0][:n]
    except REFUSALS:
        with pytest.raises(OpError):
            run(name, [*args, Out((n,), "complex128")])
            pytest.fail(f"eager rejects {name} {args}")
        return
    for reference in (False, True):
        output = run(name, [*args, Out((n,), wanted.dtype.name)], reference)[0]
        for i in np.flatnonzero(~alike(name, output, wanted, lossy(args))):
            one = [a[i : i + 1] if isinstance(a, np.ndarray) else a for a in args]
            other = eager(name, one)[0]
            right = alike(name, output[i : i + 1], other, lossy(one))
            assert right, (one, output[i], wanted[i], other)


def calls(name: str, form: str, dtype: str) -> Iterator[list]:
    """Yield arguments without the division that raises SIGFPE in eager: the smallest integer by
    -1."""
    x, integral, stem = ends(dtype), dtype in INTS, name[6:].split(".")[0]
    least = np.iinfo(dtype).min if integral else None
    if form == "x":
        yield [x]
    elif form == "xy":
        a, b = np.repeat(x, x.size), np.tile(x, x.size)
        if integral and stem in (*DIVISIONS, "gcd", "lcm"):
            kept = (a != least) | (b != -1)
            if stem in ("gcd", "lcm"):  # by remainders of magnitudes
                kept = (a != least) & (b != least)
            a, b = a[kept], b[kept]
            yield [a[b != 0], b[b != 0]]
        yield [a, b, *([1] if stem in ("add", "sub") else [])]
    for number in NUMBERS if "n" in form else ():
        kept = x if not (integral and stem in DIVISIONS and number == -1) else x[x != least]
        yield [kept, number] if form == "xn" else [number, kept]


@pytest.mark.parametrize(
    ("name", "form", "dtype"),
    [
        (name, form, dtype)
        for name, form in ROWS
        for dtype in (*INTS, "bool", *FLOATING, *COMPLEX)
        if dtype != LEFT_OUT.get(name)
    ],
)
def test_pointwise(name: str, form: str, dtype: str) -> None:
    for args in calls(name, form, dtype):
        check(name, args)


def pairs(dtype: str) -> np.ndarray:
    """Return pairs of complex numbers, in rows, without parts whose products overflow or lose
    digits: their results depend on whether eager rounds products before it adds them."""
    z = ends(dtype)
    z = z[sizes(z) == 0]
    return np.stack([np.repeat(z, z.size), np.tile(z, z.size)], 1)


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize(
    ("name", "several", "tail"),
    [
        *(("sum.IntList_out", True, [False, None]), ("mean.out", True, [False, None])),
        *(("var.correction_out", True, [1, False]), ("prod.int_out", False, [False, None])),
        *(("cumsum.out", False, [None]), ("cumprod.out", False, [None])),
        ("logcumsumexp.out", False, []),
    ],
)
def test_complex_reductions(name: str, several: bool, tail: list, dtype: str) -> None:
    """Two elements, adjacent or rows apart: as in eager's adjacent ones (in products of rows,
    eager multiplies each row by 1 first, which makes more of them NaN). `several`: dimensions
    are a list."""
    rows = pairs(dtype)
    wanted = eager(f"aten::{name}", [rows, [1] if several else 1, *tail])[0]
    for dim, reference in itertools.product((0, 1), (False, True)):
        a, out = (rows, wanted) if dim else (np.ascontiguousarray(rows.T), wanted.T)
        args = [a, [dim] if several else dim, *tail, Out(out.shape, out.dtype.name)]
        output = run(f"aten::{name}", args, reference)[0]
        off = ~alike(f"aten::{name}", output, out)
        assert not off.any(), (np.nonzero(off), output[off][:5], out[off][:5])


@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_products(dtype: str) -> None:
    """Matrices with one element, and numbers at indices; gradients."""
    a, b = np.ascontiguousarray(pairs(dtype).T)
    check("aten::silu_backward.grad_input", [a, b])
    at, one = np.arange(a.size), np.ones((a.size, 1), dtype)
    for name, args in (
        ("bmm.out", [a.reshape(-1, 1, 1), b.reshape(-1, 1, 1)]),
        ("_trilinear.out", [a[:, None], b[:, None], one, [], [], [], [1], 1]),
        ("scatter_reduce.two_out", [a, 0, at, b, "prod", True]),
        ("scatter_reduce.two_out", [a, 0, at, b, "mean", True]),
    ):
        wanted = eager(f"aten::{name}", args)[0]
        for reference in (False, True):
            output = run(f"aten::{name}", [*args, Out(wanted.shape, dtype)], reference)[0]
            off = ~alike(f"aten::{name}", output, wanted).ravel()
            assert not off.any(), (name, args[-1], a[off][:5], b[off][:5], output[off][:5])
