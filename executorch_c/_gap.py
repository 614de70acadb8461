"""How far one array is from another: the measures that `executorch_c.testing` reports."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from executorch_c._arrays import Array

Index = tuple[int, ...]

TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}
"""(rtol, atol) by dtype, those of torch.testing.assert_close; any other dtype must be equal."""


def tolerances(*dtypes: np.dtype[Any]) -> tuple[float, float]:
    """The larger rtol and the larger atol of some dtypes."""
    rows = [TOLERANCES.get(dtype.name, (0.0, 0.0)) for dtype in dtypes]
    return max(r for r, _ in rows), max(a for _, a in rows)


def check_not_negative(**values: float | None) -> None:
    """Raises ValueError for a tolerance or count below 0; None is no value."""
    for name, value in values.items():
        if value is not None and not value >= 0:
            raise ValueError(f"{name} is {value}, expected 0 or more")


@dataclass(frozen=True)
class Gap:
    """How far `actual` is from `expected`, over all elements where both are finite.

    Ratios that no element defines (all of `expected` is zero, no element is finite) are NaN.
    """

    elements: int
    outside: int
    """Elements further away than atol + rtol * |expected|, and all that are NaN or infinite in
    one array only (or of another sign)."""
    max_abs: float
    max_rel: float
    """Largest |actual - expected| / |expected| where expected is not zero."""
    max_ulp: float
    """Largest number of representable values of the coarser dtype between the two; the difference
    for integers; NaN for complex numbers."""
    cosine: float
    """Of the two as vectors."""
    snr_db: float
    """Signal to noise, 20 log10(|expected| / |actual - expected|) over all elements, in decibel;
    infinite where they are equal."""
    argmax: float | None
    """Share of rows (all but the last axis) that are largest at the same place; None where the
    last axis is shorter than 2."""
    first: Index | None
    """Of the first element outside, in C order."""
    worst: Index | None
    """Of the element that is furthest outside, or has the largest difference where none is."""
    actual_at_worst: float | complex | None
    expected_at_worst: float | complex | None
    nan: tuple[int, int]
    """NaNs in actual and in expected."""
    inf: tuple[int, int]
    """Infinities in actual and in expected."""


def _wide(array: Array) -> Array:
    """float64 or complex128, exact for all but huge integers."""
    kind = np.complex128 if array.dtype.kind == "c" else np.float64
    wide: Array = array.astype(kind)
    return wide


def _ordered(array: Array) -> Array:
    """Bits of floating-point numbers as integers in the order of the numbers (-0 is 0)."""
    size = array.dtype.itemsize
    bits = np.ascontiguousarray(array).view(f"i{size}").astype(np.int64)
    lowest = np.int64(-(2 ** (8 * size - 1)))
    ordered: Array = np.where(bits < 0, lowest - bits, bits)
    return ordered


def _ulp(actual: Array, expected: Array, both: Array) -> float:
    """Largest distance in representable values of the coarser dtype."""
    if actual.dtype.kind == "c" or expected.dtype.kind == "c" or not both.any():
        return math.nan if both.size else 0.0
    floats = [a.dtype for a in (actual, expected) if a.dtype.kind in "fV"]
    if not floats:
        return float(np.abs(_wide(actual)[both] - _wide(expected)[both]).max())
    coarse = min(floats, key=lambda dtype: dtype.itemsize)
    a, e = (_ordered(x[both].astype(coarse)) for x in (actual, expected))
    # Distances within float64 may pass 2**63: unsigned arithmetic wraps to the right number.
    wide = np.where(a > e, a.view(np.uint64) - e.view(np.uint64),
                    e.view(np.uint64) - a.view(np.uint64))  # fmt: skip
    return float(wide.max())


def _argmax(actual: Array, expected: Array) -> float | None:
    if not actual.ndim or actual.shape[-1] < 2 or not actual.size or actual.dtype.kind == "c":
        return None
    same = actual.argmax(axis=-1) == expected.argmax(axis=-1)
    return float(np.mean(same))


def _direction(a: Array, e: Array) -> tuple[float, float]:
    """Cosine and signal-to-noise ratio of two vectors."""
    signal, noise, other = (float(np.linalg.norm(v)) for v in (e, a - e, a))
    cosine = float(abs(np.vdot(a / other, e / signal))) if signal and other else math.nan
    if signal and other and a.dtype.kind != "c":
        cosine = float(np.vdot(a / other, e / signal))
    if not noise:
        return cosine if signal else math.nan, math.inf
    return cosine, 20 * math.log10(signal / noise) if signal else -math.inf


def measure(actual: Array, expected: Array, rtol: float, atol: float, equal_nan: bool) -> Gap:
    """Measures two arrays of one shape."""
    a, e = _wide(actual), _wide(expected)
    both = np.isfinite(a) & np.isfinite(e)
    with np.errstate(all="ignore"):
        same = (a == e) | (np.isnan(a) & np.isnan(e) if equal_nan else False)
        gap = np.where(both, np.abs(a - e), np.where(same, 0.0, np.inf))
        size = np.where(np.isfinite(e), np.abs(e), 0.0)
        excess = gap - (atol + rtol * size)
        if actual.dtype.kind in "iu" and expected.dtype.kind in "iu":
            same = actual == expected  # float64 does not tell huge integers apart
        outside = (excess > 0) | (~same & (gap == 0))
        relative = gap[both & (size > 0)] / size[both & (size > 0)]
        cosine, snr = _direction(a[both], e[both])
        ulp = _ulp(actual, expected, both)
    count = int(np.count_nonzero(outside))
    worst = first = None
    if a.size:
        flat = int(np.argmax(excess if count else gap))
        worst = tuple(int(i) for i in np.unravel_index(flat, a.shape))
    if count:
        first = tuple(int(i) for i in np.unravel_index(int(np.argmax(outside)), a.shape))
    return Gap(
        elements=a.size,
        outside=count,
        max_abs=float(gap[both].max()) if both.any() else 0.0 if not a.size else math.nan,
        max_rel=float(relative.max()) if relative.size else math.nan,
        max_ulp=ulp,
        cosine=cosine,
        snr_db=snr,
        argmax=_argmax(a, e),
        first=first,
        worst=worst,
        actual_at_worst=None if worst is None else a[worst].item(),
        expected_at_worst=None if worst is None else e[worst].item(),
        nan=(int(np.isnan(a).sum()), int(np.isnan(e).sum())),
        inf=(int(np.isinf(a).sum()), int(np.isinf(e).sum())),
    )
