"""Parts of an output that are smaller than its tolerance: errors in them do not show."""

from __future__ import annotations

import numpy as np

from executorch_c._arrays import Array
from executorch_c.compare.limits import (
    MIN_RUN_ELEMENTS,
    MIN_SLICE_ELEMENTS,
    MIN_UNRESOLVED_ERROR,
)
from executorch_c.compare.scale import (
    by_run,
    by_slice,
    mask_values,
    of_slices,
    small_slices,
    widened,
)


def describe_unresolved(actual: Array, expected: Array) -> str:
    """Return a sentence about the parts of a matching output that only tolerance lets match: small
    slices (or runs of them) along an axis, with an error of a tenth of their own RMS or more.
    Empty without any."""
    if expected.dtype.kind not in "fcV" or expected.size < 2 * MIN_RUN_ELEMENTS:
        return ""
    wide, masked = widened(expected), mask_values(expected)
    with np.errstate(all="ignore"):
        sizes, errors = np.abs(wide), np.abs(widened(actual) - wide)
    masked = _or_not_finite(masked, sizes, errors)
    peak = float(sizes.max(where=True if masked is None else ~masked, initial=0.0))
    if not peak or not errors.any():
        return ""
    squares, wrong = (_squares(values, peak, masked) for values in (sizes, errors))
    count = squares.size if masked is None else int(np.count_nonzero(~masked))
    whole = float(squares.sum()) / count
    parts = [
        (axis, bad)
        for axis in range(wide.ndim)
        if (bad := _bad_slices(squares, wrong, masked, axis, whole)).any()
    ]
    if not parts:
        return ""
    axis, bad = max(parts, key=lambda pair: float(pair[1].mean()))
    return _sentence(np.where(masked, 0, sizes) if masked is not None else sizes, errors, axis, bad)


def _or_not_finite(masked: Array | None, sizes: Array, errors: Array) -> Array | None:
    """Return a mask of mask values, NaN and infinity; None without any."""
    with np.errstate(all="ignore"):
        finite = np.isfinite(sizes) & np.isfinite(errors)
    if finite.all():
        return masked
    mask: Array = ~finite if masked is None else masked | ~finite
    return mask


def _squares(values: Array, peak: float, masked: Array | None) -> Array:
    with np.errstate(all="ignore"):
        squares: Array = (values / peak) ** 2
    return squares if masked is None else np.where(masked, 0.0, squares)


def _bad_slices(
    squares: Array, wrong: Array, masked: Array | None, axis: int, whole: float
) -> Array:
    """Return a mask of the slices of an axis that are small and not compared; `whole` is the mean
    square of the whole array."""
    size = squares.size // squares.shape[axis]
    kept = of_slices(masked, axis, size)
    sums, errors = by_slice(squares, axis), by_slice(wrong, axis)
    small = small_slices(sums, kept, whole)
    if size < MIN_SLICE_ELEMENTS:
        sums, errors, kept = (by_run(values, small) for values in (sums, errors, kept))
    bad: Array = (
        small & (kept >= MIN_RUN_ELEMENTS) & (sums > 0) & (errors >= MIN_UNRESOLVED_ERROR**2 * sums)
    )
    return bad


def _sentence(sizes: Array, errors: Array, axis: int, bad: Array) -> str:
    """Return a sentence with the first run of slices, its largest number and its largest error."""
    start = int(np.argmax(bad))
    length = int(np.argmin(np.concatenate([bad[start:], [False]])))
    index = [":"] * sizes.ndim
    index[axis] = f"{start}:{start + length}" if length > 1 else f"{start}"
    runs = int(np.count_nonzero(bad[1:] & ~bad[:-1])) + int(bad[0])
    more = f" and {runs - 1} more" if runs > 1 else ""
    part = (slice(None),) * axis + (slice(start, start + length),)
    return (
        f"[{', '.join(index)}]{more} not compared: the largest number is {sizes[part].max():.2g}, "
        f"and an error of {errors[part].max():.2g} is within tolerance"
    )
