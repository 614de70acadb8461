"""Error metrics of two arrays.

Rules of limits are in `tolerance.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from executorch_c._arrays import Array
from executorch_c.compare.scale import unmasked, widened

Index = tuple[int, ...]
MIN_SNR_DB = -6000.0
"""Signal-to-noise ratio below which the error is infinite: a larger one is no float64."""


@dataclass(frozen=True)
class ErrorMetrics:
    """Error of `actual` against `expected`, over all elements where both are finite.

    `measure_size` leaves the fields from `max_rel` on at their defaults: they are too expensive for
    every value of a program. `shown.limited` sets `limit` and `not_judged`. Ratios are NaN if
    undefined (all of `expected` is zero, or no element is finite).
    """

    elements: int
    mismatched: int | None
    """Elements whose error exceeds their limit, and elements that are NaN or infinite in one array
    only (or infinite with another sign); None without a limit."""
    max_abs: float
    """Largest |actual - expected|."""
    relative: float
    """|actual - expected| / |expected| of the two as vectors (noise to signal, dimensionless): 0 if
    they are equal; infinite if NaN or infinities differ, or expected is all zero and actual is
    not."""
    nan: tuple[int, int]
    """Count of NaN in actual and in expected."""
    inf: tuple[int, int]
    """Count of infinities in actual and in expected."""
    limit: float | None = None
    """Largest `relative` within tolerance; None if there is none, or none was needed."""
    not_judged: int = 0
    """Elements that differ and that rounding, ties or quantising decide: the verdict ignores
    them."""
    is_integer: bool = False
    """True for integers (or what they stand for) that must be the nearest ones: no error is
    allowed but another neighbour next to a tie."""
    max_rel: float = math.nan
    """Largest |actual - expected| / |expected| where expected is not zero."""
    max_ulp: float = math.nan
    """Largest number of representable values of the coarser dtype between the two; the difference
    for integers; NaN for complex numbers."""
    cosine: float = math.nan
    """Cosine similarity of the two as vectors, without mask values (such as -1e9)."""
    snr_db: float = math.nan
    """Signal-to-noise ratio, 20 log10(|expected| / |actual - expected|) over all elements but mask
    values, in decibel; inf if they are equal, -inf if expected is zero and actual is not."""
    argmax: float | None = None
    """Share of rows (all axes but the last) with the same argmax; None where the last axis is
    shorter than 2."""
    first: Index | None = None
    """Index of the first mismatched element, in C order."""
    worst: Index | None = None
    """Index of the element that exceeds its limit most, or has the largest error where none
    does."""
    actual_at_worst: float | complex | None = None
    expected_at_worst: float | complex | None = None


def rms(values: Array) -> float:
    """Return the root mean square of an array; 0 for an empty one."""
    if not values.size:
        return 0.0
    flat = values.reshape(-1)
    # Scaled, so that squares neither overflow nor underflow. einsum, because a dot product starts
    # BLAS threads, which spin.
    if flat.dtype.kind in "cV":
        flat = np.abs(flat)
    peak = max(abs(float(flat.max())), abs(float(flat.min())))
    if not peak or not math.isfinite(peak):
        return peak
    flat = flat / peak
    return peak * math.sqrt(float(np.einsum("i,i->", flat, flat)) / flat.size)


def _ordered(array: Array) -> Array:
    """Return the bits of floating-point numbers as integers in the order of the numbers (-0 is
    0)."""
    size = array.dtype.itemsize
    bits = np.ascontiguousarray(array).view(f"i{size}").astype(np.int64)
    lowest = np.int64(-(2 ** (8 * size - 1)))
    ordered: Array = np.where(bits < 0, lowest - bits, bits)
    return ordered


def errors_of(actual: Array, expected: Array) -> Array:
    """Return |actual - expected| as float64, computed exactly for integers of one kind."""
    kinds = actual.dtype.kind + expected.dtype.kind
    if kinds not in ("ii", "uu"):
        errors = widened(actual)
        if kinds != "ff":
            wide: Array = np.abs(errors - widened(expected))
            return wide
        errors -= expected  # in place, in float64
        return np.abs(errors, out=errors if errors.ndim else None)
    a, e = (x.astype(np.int64 if kinds == "ii" else np.uint64) for x in (actual, expected))
    return _apart(a, e).astype(np.float64)


def _apart(a: Array, e: Array) -> Array:
    """Return |a - e| of 64-bit integers: unsigned arithmetic wraps to the right number."""
    apart: Array = np.where(
        a > e, a.view(np.uint64) - e.view(np.uint64), e.view(np.uint64) - a.view(np.uint64)
    )
    return apart


@np.errstate(all="ignore")
def _ulp(actual: Array, expected: Array, both: Array) -> float:
    """Return the largest distance in representable values of the coarser dtype."""
    if actual.dtype.kind == "c" or expected.dtype.kind == "c" or not both.any():
        return math.nan if both.size else 0.0
    floats = [a.dtype for a in (actual, expected) if a.dtype.kind in "fV"]
    if not floats:
        return float(errors_of(actual, expected)[both].max())
    coarse = min([*floats, np.dtype(np.float64)], key=lambda dtype: dtype.itemsize)
    a, e = (_ordered(x[both].astype(coarse)) for x in (actual, expected))
    return float(_apart(a, e).max())


def argmax_agreement(actual: Array, expected: Array) -> float | None:
    """Return the share of rows with the same argmax; None where rows have one element or none."""
    if not actual.ndim or actual.shape[-1] < 2 or not actual.size or actual.dtype.kind == "c":
        return None
    same = actual.argmax(axis=-1) == expected.argmax(axis=-1)
    return float(np.mean(same))


def _direction(a: Array, e: Array) -> tuple[float, float]:
    """Return cosine similarity and signal-to-noise ratio of two vectors."""
    count = math.sqrt(max(e.size, 1))
    signal, noise, other = (rms(v) * count for v in (e, a - e, a))
    cosine = math.nan
    if signal and other:
        product = np.einsum("i,i->", np.conj(a / other), e / signal)
        cosine = float(abs(product)) if a.dtype.kind == "c" else float(product)
    if not noise:
        return cosine, math.inf
    return cosine, 20 * (math.log10(signal) - math.log10(noise)) if signal else -math.inf


def _largest(values: Array) -> Index | None:
    """Return the index of the first of the largest elements; None of an empty array."""
    if not values.size:
        return None
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(values)), values.shape))


def measure(
    actual: Array,
    expected: Array,
    limit: Array | float,
    equal_nan: bool,
    undecided: Array | None = None,
) -> ErrorMetrics:
    """Return the metrics of two arrays of one shape.

    Args:
        actual, expected: Arrays of numbers of one shape; their dtypes may differ.
        limit: Maximum error of a matching element: a scalar, or an array of one per element. NaN
            and infinities match no other value, also under an infinite limit.
        equal_nan: NaN matches NaN in the same place.
        undecided: Elements that match whatever they are.
    """
    a, e = widened(actual), widened(expected)
    both = np.isfinite(a) & np.isfinite(e)
    with np.errstate(all="ignore"):
        same = (a == e) | (np.isnan(a) & np.isnan(e) if equal_nan else False)
        error = np.where(both, errors_of(actual, expected), np.where(same, 0.0, np.inf))
        size = np.where(np.isfinite(e), np.abs(e), 0.0)
        if actual.dtype.kind in "iu" and expected.dtype.kind in "iu":
            same = actual == expected  # float64 rounds large integers
        right = same | (np.isfinite(error) & (error > 0) & (error <= limit))
        outside = ~right if undecided is None else ~(right | undecided)
        excess = np.where(outside, np.where(np.isfinite(error), error - limit, np.inf), -np.inf)
        relative = error[both & (size > 0)] / size[both & (size > 0)]
        compared = both & unmasked(expected)
        cosine, snr = _direction(a[compared], e[compared])
    count = int(np.count_nonzero(outside))
    worst = _largest(excess if count else error)
    nan, inf = _special(a, e)
    return ErrorMetrics(
        elements=a.size,
        mismatched=count,
        max_abs=float(error[both].max()) if both.any() else 0.0 if not a.size else math.nan,
        relative=_relative(snr, nan, inf),
        nan=nan,
        inf=inf,
        max_rel=float(relative.max()) if relative.size else math.nan,
        max_ulp=_ulp(actual, expected, both),
        cosine=cosine,
        snr_db=snr,
        argmax=argmax_agreement(a, e),
        first=_largest(outside) if count else None,
        worst=worst,
        actual_at_worst=None if worst is None else a[worst].item(),
        expected_at_worst=None if worst is None else e[worst].item(),
    )


def _special(a: Array, e: Array) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the counts of NaN in both arrays, and of infinities."""
    nan, inf = ((int(f(a).sum()), int(f(e).sum())) for f in (np.isnan, np.isinf))
    return nan, inf


def _relative(snr_db: float, nan: tuple[int, int], inf: tuple[int, int]) -> float:
    """Return the relative error of a signal-to-noise ratio; infinite if only one array has NaN, or
    infinities, or the error is larger than any number."""
    if nan[0] != nan[1] or inf[0] != inf[1] or snr_db < MIN_SNR_DB:
        return math.inf
    return 0.0 if math.isnan(snr_db) else float(10.0 ** (-snr_db / 20))


def incomparable(elements: int) -> ErrorMetrics:
    """Return the error of an output that cannot be compared: all of it is wrong."""
    return ErrorMetrics(elements, max(elements, 1), math.nan, math.inf, (0, 0), (0, 0))


def measure_size(actual: Array, expected: Array, mismatched: int | None = None) -> ErrorMetrics:
    """Return the size of the error of two arrays of one shape."""
    if mismatched == 0 and np.array_equal(actual, expected):
        return ErrorMetrics(actual.size, 0, 0.0, 0.0, (0, 0), (0, 0))
    a, e = (x if x.dtype in (np.float32, np.float64) else widened(x) for x in (actual, expected))
    with np.errstate(all="ignore"):
        error = (a - e).reshape(-1)
        signal, noise = rms(e), rms(error)
    nan = inf = (0, 0)
    if not math.isfinite(noise):
        both = np.isfinite(a) & np.isfinite(e)
        nan, inf = _special(a, e)
        same = bool(((a == e) | (np.isnan(a) & np.isnan(e)) | both).all())
        error = error[both.reshape(-1)]
        signal = rms(np.where(both, e, 0)) * math.sqrt(a.size / max(error.size, 1))
        noise = rms(error) if same else math.inf
    max_abs = float(np.abs(error).max()) if error.size else math.nan if a.size else 0.0
    relative = noise / signal if signal else (0.0 if not noise else math.inf)
    return ErrorMetrics(a.size, mismatched, max_abs, relative, nan, inf)
