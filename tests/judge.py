"""The judge of all tests: correctness of a result, element by element.

A number is right if one of these conditions holds:

* it is the wanted one (a NaN is any NaN);
* it lies within its error bound of the exact value: some units in its own last place, and some
  units of the sum of magnitudes of its terms, in the dtype that the operator computes in;
* it is no farther from the exact value than the wanted one is.

The exact value comes from a wider dtype (or from exact arithmetic), the wanted one from eager. No
bound is relative to 1, to the largest element of an array, or to a share of the elements: a small
result is judged by its own last place. `test_judges.py` plants faults that the judge must find.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

HALVES = ("float16", "bfloat16")
PARTS = {"complex64": "float32", "complex128": "float64"}


@dataclass(frozen=True)
class Limit:
    """Rounding allowed to an operator: `ulps` units in the last place of the result (0.5 is correct
    rounding), and `units` times the dtype's epsilon of the sum of magnitudes, its `terms`.

    float16 and bfloat16 are computed in float32 and rounded once at the end: there, both are units
    of float32, plus `halves` units in the last place of the half for the last rounding. `stepwise`:
    several operators, each of which rounds to the half, so that both are units of the half.
    """

    ulps: float = 0.5
    units: float = 0.0
    halves: float = 0.5
    stepwise: bool = False


STEP = 2.0**-28
"""Relative change of arguments, far above the last places of float64."""
ROUNDED = Limit()
"""One correct rounding."""
EXACT = Limit(0, 0, 0)
"""Bitwise equality."""


def info(dtype: str) -> Any:
    """Return the limits of a floating-point dtype, or of the parts of a complex one."""
    name = PARTS.get(dtype, dtype)
    return ml_dtypes.finfo(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def is_inexact(dtype: str) -> bool:
    """Return True if elements of the dtype are rounded."""
    return "float" in dtype or "complex" in dtype


def ulp(x: Any, dtype: str) -> np.ndarray:
    """Return the distance of the dtype's numbers around |x|; for subnormal numbers the smallest."""
    result = info(dtype)
    size = np.clip(np.abs(np.asarray(x)).astype(np.float64), float(result.tiny), float(result.max))
    return np.asarray(np.ldexp(1.0, np.frexp(size)[1] - 1 - result.nmant))


def wide(a: Any) -> np.ndarray:
    """Return an array as float64 or complex128."""
    a = np.asarray(a)
    return a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)


def bound(exact: np.ndarray, dtype: str, limit: Limit, terms: Any = None) -> np.ndarray:
    """Return the largest error that each element of a result in `dtype` may have."""
    computed = "float32" if dtype in HALVES and not limit.stepwise else dtype
    # Both parts of a complex number are rounded.
    size = np.minimum(np.abs(wide(exact)), float(info(dtype).max))
    room = limit.ulps * ulp(size, computed) * (2**0.5 if dtype in PARTS else 1)
    if dtype in HALVES:
        room = room + limit.halves * ulp(exact, dtype)
    if limit.units:
        if terms is None:
            raise ValueError("units of magnitudes, and no magnitudes")
        room = room + limit.units * float(info(computed).eps) * np.abs(wide(terms))
    return np.asarray(room)


def signs(rng: np.random.Generator, like: np.ndarray) -> np.ndarray:
    """Return random numbers of magnitude 1, for complex dtypes in any quadrant."""
    return rng.choice([1, -1, 1j, -1j] if like.dtype.kind == "c" else [1.0, -1.0], like.shape)


def is_wide(value: Any) -> bool:
    """Return True for an array of float64 or complex128."""
    return isinstance(value, np.ndarray) and value.dtype in (np.float64, np.complex128)


def slopes(
    results: Sequence[Any], moved: Callable[[int, float], Sequence[Any]], draws: int
) -> list[Any]:
    """Return the change of results relative to a relative step: None for those that are not wide
    arrays; 0 at discontinuities, where a smaller step gives another change. `moved` returns the
    results by a seed and a step."""
    most = [np.zeros(r.shape) if is_wide(r) else None for r in results]
    for seed in range(draws):
        gaps = []
        for step in (STEP, STEP / 16):
            with np.errstate(all="ignore"):
                gaps.append(
                    [
                        np.abs(o - r) / step if is_wide(r) and np.shape(o) == r.shape else None
                        for o, r in zip(moved(seed, step), results, strict=True)
                    ]
                )
        for m, far, near in zip(most, *gaps, strict=True):
            if m is not None and far is not None and near is not None:
                with np.errstate(invalid="ignore"):
                    smooth = np.abs(far - near) <= 0.5 * np.maximum(far, near)
                np.maximum(m, np.where(smooth & np.isfinite(far), far, 0), out=m)
    return most


def changes(
    function: Callable[[Callable[[np.ndarray], np.ndarray]], list[Any]], draws: int = 12
) -> list[np.ndarray | None]:
    """Return the change of results relative to a relative change of the arguments: the terms of a
    function. `function` receives the factors of its arguments, arrays of float64 or complex128, and
    returns the results."""

    def moved(seed: int, step: float) -> list[Any]:
        rng = np.random.default_rng(seed)
        return function(lambda a: a * (1 + step * signs(rng, a)))

    return slopes(function(lambda a: a), moved, draws)


def same(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return a mask of equal elements, NaN included (complex ones: part by part)."""
    if wanted.dtype.kind == "c":
        return same(found.real, wanted.real) & same(found.imag, wanted.imag)
    if not is_inexact(wanted.dtype.name):
        return np.asarray(found == wanted)
    a, b = wide(found), wide(wanted)
    return np.asarray((a == b) | (np.isnan(a) & np.isnan(b)))


def distance(found: np.ndarray, exact: np.ndarray, dtype: str) -> np.ndarray:
    """Return |found - exact|; infinite if one is NaN, or only one is infinite. For real numbers,
    infinity is the successor of the largest number, so that the end of the range is judged like any
    other place."""
    a, b = wide(found), wide(exact)
    with np.errstate(invalid="ignore", over="ignore"):
        if a.dtype.kind != "c" and dtype != "float64":
            end = np.ldexp(1.0, np.frexp(float(info(dtype).max))[1])
            beyond = np.isinf(a) & np.isfinite(b)
            a = np.where(beyond, np.copysign(np.maximum(end, np.abs(b)), a), a)
        gap = np.where(a == b, 0.0, np.abs(a - b))
    return np.asarray(np.where(np.isnan(gap), np.inf, gap))


def wrong(
    found: np.ndarray,
    wanted: np.ndarray,
    limit: Limit = ROUNDED,
    exact: Any = None,
    terms: Any = None,
) -> np.ndarray:
    """Return a mask of wrong elements. Without an exact value, the wanted one replaces it."""
    kept = same(found, wanted)
    name = wanted.dtype.name
    if limit == EXACT or not is_inexact(name) or kept.all():
        return ~kept
    reference = wide(wanted if exact is None else exact)
    error = distance(found, reference, name)
    kept |= error <= bound(reference, name, limit, terms)
    if exact is not None:
        kept |= (error <= distance(wanted, reference, name)) & np.isfinite(error)
    return np.asarray(~kept)


def zero_signs(a: np.ndarray) -> np.ndarray:
    """Return a mask of negative zeros, of both parts of complex numbers."""
    if a.dtype.kind == "c":
        return np.stack([zero_signs(a.real), zero_signs(a.imag)])
    if not is_inexact(a.dtype.name):
        return np.zeros(a.shape, bool)
    return np.signbit(wide(a)) & (a == 0)


def describe(found: np.ndarray, wanted: np.ndarray, off: np.ndarray, exact: Any = None) -> str:
    """Return the number of wrong elements, and the worst of them."""
    reference = wide(wanted if exact is None else exact)
    error = np.asarray(off, dtype=np.float64)
    if is_inexact(wanted.dtype.name):
        unit = ulp(reference, wanted.dtype.name)
        with np.errstate(over="ignore"):
            error = np.where(off, distance(found, reference, wanted.dtype.name) / unit, 0.0)
    at = np.unravel_index(int(np.argmax(np.where(off, error, -1))), off.shape)
    place = tuple(int(i) for i in at)
    value = "" if exact is None else f", exact {reference[at]!r}"
    return (
        f"{int(off.sum())} of {off.size} elements, worst at {place}: found {found[at]!r}, "
        f"wanted {wanted[at]!r}{value}: {error[at]:.3g} units in the last place"
    )


def both_nan(a: Any, b: Any) -> bool:
    """Return True if both are Python's NaN."""
    return isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b)


def difference(
    found: Any, wanted: Any, limit: Limit = ROUNDED, exact: Any = None, terms: Any = None
) -> str | None:
    """Return the difference between `found` and `wanted` as text; None without one."""
    if not isinstance(wanted, np.ndarray):
        alike = type(found) is type(wanted) and (found == wanted or both_nan(found, wanted))
        return None if alike else f"found {found!r}, wanted {wanted!r}"
    if not isinstance(found, np.ndarray):
        return f"found {type(found).__name__}, wanted an array"
    if found.shape != wanted.shape:
        return f"found shape {found.shape}, wanted {wanted.shape}"
    if found.dtype != wanted.dtype:
        return f"found dtype {found.dtype}, wanted {wanted.dtype}"
    off = wrong(found, wanted, limit, exact, terms)
    return describe(found, wanted, off, exact) if off.any() else None


def assert_equal(found: Any, wanted: Any, where: object = "", signs: bool = True) -> None:
    """Assert equal type, shape, dtype and elements, NaN included; with `signs`, also of zeros."""
    message = difference(found, wanted, EXACT)
    if message is None and signs and isinstance(wanted, np.ndarray):
        off = zero_signs(found) != zero_signs(wanted)
        message = f"another sign of {int(off.sum())} zeros" if off.any() else None
    assert message is None, f"{message}; of {where}"


def assert_right(
    found: Any,
    wanted: Any,
    where: object = "",
    limit: Limit = ROUNDED,
    exact: Any = None,
    terms: Any = None,
) -> None:
    """Assert that `difference` finds none."""
    message = difference(found, wanted, limit, exact, terms)
    assert message is None, f"{message}; of {where}"


def assert_within(found: Any, wanted: np.ndarray, room: Any, where: object = "") -> None:
    """Assert that elements are within `room` of the wanted ones, or equal if it is None; NaN and
    infinities must be equal."""
    message = difference(found, wanted, EXACT)
    if message and room is not None and getattr(found, "dtype", None) == wanted.dtype:
        if found.shape == wanted.shape:
            off = ~same(found, wanted) & ~(distance(found, wanted, wanted.dtype.name) <= room)
            message = describe(found, wanted, off) if off.any() else None
    assert message is None, f"{message}; of {where}"
