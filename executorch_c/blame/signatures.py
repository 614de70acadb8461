"""Patterns of wrong values, in words: how a device's value differs from the expected one.

Each row of SIGNATURES recognises one; the first that explains every wrong element is the pattern.
None decides a verdict.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c.compare.scale import widened
from executorch_c.compare.tolerance import wrong_elements

if TYPE_CHECKING:
    from executorch_c._arrays import Array
    from executorch_c.compare.tolerance import Tolerance

MIN_ELEMENTS = 4
"""Wrong elements from which a pattern is no accident."""
MAX_SIZE = 1 << 22
"""Elements up to which patterns are searched."""
MAX_RANK = 5
"""Dimensions up to which all orders of dimensions are tried."""
MIN_DENSITY = 0.5
"""Share of wrong elements in a region that names them."""
STRIDES = (2, 4, 8)
"""Distances of wrong elements along a dimension that are tried."""


@dataclass(frozen=True)
class Beside:
    """A wrong value of a device and the expected one, in float64."""

    actual: Array
    exact: Array
    limit: Array
    """Of each element's error."""
    wrong: Array
    """True for elements beyond their limit."""
    dtype: np.dtype[Any]
    """Of the device's value."""

    @property
    def pairs(self) -> tuple[Array, Array, Array]:
        """The wrong elements of `actual`, `exact` and `limit`."""
        return self.actual[self.wrong], self.exact[self.wrong], self.limit[self.wrong]

    def explains(self, expected: Array) -> bool:
        """Return True if all wrong elements are within their limits of other expected values."""
        actual, _, limit = self.pairs
        with np.errstate(all="ignore"):
            return bool((np.abs(actual - expected[self.wrong]) <= limit).all())


def describe(actual: Array, exact: Array, limits: Tolerance) -> str:
    """Return how a value differs from the expected one: "[:, 4:8] of [1, 16, 8], zeros"; the region
    alone, or an empty text, if no pattern fits.

    Args:
        actual, exact: Arrays of one shape.
        limits: Tolerance of each element of `actual`.
    """
    wrong = wrong_elements(actual, exact, limits)
    if not wrong.any() or not actual.ndim or actual.size > MAX_SIZE:
        return ""
    limit = np.broadcast_to(np.asarray(limits.limit, np.float64), exact.shape)
    pair = Beside(widened(actual), widened(exact), limit, wrong, actual.dtype)
    known = (recognise(pair) for recognise in SIGNATURES) if wrong.sum() >= MIN_ELEMENTS else ()
    pattern = next(filter(None, known), "")
    return ", ".join(filter(None, (region_of(wrong), pattern)))


# ---- regions ----------------------------------------------------------------------------------


def region_of(wrong: Array) -> str:
    """Return the smallest part of an array that has all wrong elements, as an index: "[:, 4:8] of
    [1, 16]". Empty for the whole array, and for a part that is mostly right."""
    parts = [_span(wrong, axis) for axis in range(wrong.ndim)]
    if all(part == slice(None) for part in parts) or wrong[tuple(parts)].mean() < MIN_DENSITY:
        return ""
    while parts[-1] == slice(None):
        parts.pop()
    return f"[{', '.join(map(_word, parts))}] of {list(wrong.shape)}"


def _span(wrong: Array, axis: int) -> slice:
    others = tuple(other for other in range(wrong.ndim) if other != axis)
    at = np.flatnonzero(wrong.any(axis=others))
    size, first, last = wrong.shape[axis], int(at[0]), int(at[-1])
    for stride in STRIDES:
        if len(at) > 1 and np.array_equal(at, np.arange(first, size, stride)):
            return slice(first, None, stride)
    return slice(None) if (first, last) == (0, size - 1) else slice(first, last + 1)


def _word(part: slice) -> str:
    if part.step is not None:
        return f"{part.start or ''}::{part.step}"
    return ":" if part == slice(None) else f"{part.start or ''}:{part.stop}"


# ---- patterns ---------------------------------------------------------------------------------


def _not_finite(pair: Beside) -> str:
    actual, exact, _ = pair.pairs
    if not np.isfinite(actual).any():
        names = {"NaN": np.isnan(actual).any(), "infinity": np.isinf(actual).any()}
        return " and ".join(name for name, found in names.items() if found)
    if not np.isfinite(exact).any() and np.isfinite(actual).all():
        return "finite, expected NaN or infinity"
    return ""


def _zeros(pair: Beside) -> str:
    return "zeros" if not pair.pairs[0].any() else ""


def _clamped(pair: Beside) -> str:
    actual, exact, _ = pair.pairs
    for side in (np.abs, np.positive, np.negative):
        ends = side(actual)
        if np.ptp(ends) == 0 and (side(exact) > ends).all() and len(np.unique(exact)) > 1:
            sign = "±" if side is np.abs and len(np.unique(actual)) > 1 else ""
            value = abs(actual[0]) if sign else actual[0]
            return f"clamped at {sign}{value:.6g}"
    return ""


def _times(pair: Beside) -> str:
    actual, exact, _ = pair.pairs
    factor = _slope(actual, exact)
    if len(np.unique(exact)) < MIN_ELEMENTS or not pair.explains(pair.exact * factor):
        return ""
    if math.isclose(factor, -1, abs_tol=1e-3):
        return "the expected values negated"
    return f"the expected values times {factor:.4g}"


def _slope(actual: Array, exact: Array) -> float:
    """Return the factor of the least squares."""
    with np.errstate(all="ignore"):
        factor = float(np.einsum("i,i", actual, exact) / np.einsum("i,i", exact, exact))
    return factor if math.isfinite(factor) else 0.0


def _plus(pair: Beside) -> str:
    actual, exact, _ = pair.pairs
    shift = float(np.mean(actual - exact))
    varied = len(np.unique(exact)) >= MIN_ELEMENTS
    return (
        f"the expected values plus {shift:.4g}"
        if varied and pair.explains(pair.exact + shift)
        else ""
    )


def _shifted(pair: Beside) -> str:
    """Elements are those at a distance along a dimension: a window that is off, a slice that is
    computed twice."""
    if len(np.unique(pair.pairs[1])) < MIN_ELEMENTS:
        return ""
    at = tuple(int(i) for i in np.argwhere(pair.wrong)[0])
    for axis, size in enumerate(pair.exact.shape):
        line = np.moveaxis(pair.exact, axis, -1)[at[:axis] + at[axis + 1 :]]
        near = np.abs(line - pair.actual[at]) <= pair.limit[at]
        for source in np.flatnonzero(near):
            shift = at[axis] - int(source)
            if shift and pair.explains(np.roll(pair.exact, shift, axis)):
                shift -= size * round(shift / size)
                return f"the expected values, shifted by {shift} along dimension {axis}"
    return ""


def _transposed(pair: Beside) -> str:
    shape = pair.exact.shape
    wide = [axis for axis, size in enumerate(shape) if size > 1]
    if not 2 <= len(wide) <= MAX_RANK:
        return ""
    for order in itertools.permutations(wide):
        if list(order) == wide:
            continue
        stored = pair.exact.transpose([*order, *(a for a in range(len(shape)) if a not in wide)])
        if pair.explains(stored.reshape(shape)):
            return f"the expected values, stored with dimensions in the order {list(order)}"
    return ""


def _reordered(pair: Beside) -> str:
    limit = float(pair.limit.max())
    if len(np.unique(pair.pairs[1])) < MIN_ELEMENTS:
        return ""
    for axis, size in enumerate(pair.exact.shape):
        if size > 1 and _equal(np.sort(pair.actual, axis), np.sort(pair.exact, axis), limit):
            return f"the expected values in another order along dimension {axis}"
    if _equal(np.sort(pair.actual, None), np.sort(pair.exact, None), limit):
        return "the expected values in another order"
    return ""


def _equal(a: Array, b: Array, limit: float) -> bool:
    return bool((np.abs(a - b) <= limit).all())


def _by_slice(pair: Beside) -> str:
    """Each wrong slice of a dimension has a factor, or a summand, of its own."""
    for axis, size in enumerate(pair.exact.shape):
        if not 1 < size < pair.exact.size / MIN_ELEMENTS:
            continue
        for name, fitted in (("factor", _factors), ("summand", _summands)):
            if pair.explains(fitted(pair, axis)):
                return f"a {name} of its own for each slice of dimension {axis}"
    return ""


def _factors(pair: Beside, axis: int) -> Array:
    others = tuple(other for other in range(pair.exact.ndim) if other != axis)
    with np.errstate(all="ignore"):
        both = np.sum(pair.actual * pair.exact, axis=others, keepdims=True)
        factors: Array = both / np.sum(pair.exact**2, axis=others, keepdims=True)
    return pair.exact * factors


def _summands(pair: Beside, axis: int) -> Array:
    others = tuple(other for other in range(pair.exact.ndim) if other != axis)
    shift: Array = np.mean(pair.actual - pair.exact, axis=others, keepdims=True)
    return pair.exact + shift


def _coarse(pair: Beside) -> str:
    """A float32 has only the bits of a narrower dtype."""
    actual = pair.pairs[0]
    if pair.dtype != np.float32 or len(actual) < 4 * MIN_ELEMENTS:
        return ""
    bits = actual.astype(np.float32).view(np.uint32)
    for name, left_out in (("bfloat16", 16), ("float16", 13)):
        if not (bits & ((1 << left_out) - 1)).any():
            return f"only the bits of {name}"
    return ""


SIGNATURES: Sequence[Callable[[Beside], str]] = (
    _not_finite,
    _zeros,
    _clamped,
    _times,
    _plus,
    _shifted,
    _transposed,
    _reordered,
    _by_slice,
    _coarse,
)


# ---- extents ----------------------------------------------------------------------------------


def describe_extents(
    actual: Sequence[int], exact: Sequence[int], bound: Sequence[int] | None
) -> str:
    """Return how a shape differs from the expected one: "shape [16, 8], expected [5, 8], the upper
    bound"."""
    text = f"shape {list(actual)}, expected {list(exact)}"
    wrong = [axis for axis, (a, e) in enumerate(zip(actual, exact)) if a != e]
    if bound is not None and all(actual[axis] == bound[axis] for axis in wrong):
        return f"{text}, the upper bound"
    return f"{text}, that of another call, unless the run has other inputs"


def common(a: Sequence[int], b: Sequence[int]) -> tuple[slice, ...]:
    """Return the index of the elements that arrays of two shapes both have."""
    return tuple(slice(0, min(pair)) for pair in zip(a, b))
