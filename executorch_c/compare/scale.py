"""Scale of arrays: the magnitude that errors of elements are relative to."""

from __future__ import annotations

import math

import numpy as np

from executorch_c._arrays import Array
from executorch_c.compare.limits import (
    MAX_CHANCE,
    MIN_FINE_SCALE,
    MIN_MASK_RATIO,
    MIN_MASK_SIZE,
    MIN_RUN_ELEMENTS,
    MIN_SLICE_ELEMENTS,
    MIN_SLICE_RATIO,
    MIN_SLICE_SCALE,
)

FEW_ELEMENTS = 256
"""Number of elements that show in most arrays that there are no mask values."""


def widened(array: Array) -> Array:
    """Return an array as float64 or complex128: exact except for large integers."""
    kind = np.complex128 if array.dtype.kind == "c" else np.float64
    wide: Array = array.astype(kind)
    return wide


def magnitudes_of(values: Array) -> Array:
    """Return |values| as float64, 0 where not finite."""
    wide = widened(values)
    in_place = wide.dtype.kind == "f" and wide.ndim > 0  # a number may be no array
    magnitudes: Array = np.abs(wide, out=wide if in_place else None)
    if not are_finite(magnitudes):
        magnitudes = np.where(np.isfinite(magnitudes), magnitudes, 0.0)
    return magnitudes


def are_finite(values: Array) -> bool:
    """Return True if all elements of an array of real numbers are finite."""
    return not values.size or math.isfinite(values.max()) and math.isfinite(values.min())


def mask_values(values: Array) -> Array | None:
    """Return a mask of the mask values of an array (-1e9, finfo.min and the like); None without
    any.

    A mask value is within a factor of 2 of the extreme value of its sign, and MIN_MASK_RATIO times
    larger than all other elements. Small mask values are several and differ by no more than the
    other elements, which a mask was added to: logarithms of small probabilities do.
    """
    if values.dtype.kind not in "fV" or values.size < 2 or _has_middle(values):
        return None
    wide = widened(values)
    finite = np.isfinite(wide)
    mask: Array = np.zeros(wide.shape, bool)
    while True:
        rest = finite & ~mask
        kept = wide[rest]
        if kept.size < 2:
            break
        low, high = float(kept.min()), float(kept.max())
        extreme = low if -low >= high else high
        top = rest & (wide <= low / 2 if extreme == low else wide >= high / 2)
        below = float(np.max(np.abs(wide), where=rest & ~top, initial=0.0))
        ratio = MIN_MASK_RATIO if abs(extreme) >= MIN_MASK_SIZE else 10 * MIN_MASK_RATIO
        if not below or abs(extreme) < ratio * below:
            break
        if abs(extreme) < MIN_MASK_SIZE and not (extreme < 0 and _is_added(wide[top], below)):
            break
        mask |= top
    return mask if mask.any() else None


def _has_middle(values: Array) -> bool:
    """Return True if one of a few elements is neither a mask value nor small enough beside one, as
    in most arrays: they have no mask values."""
    if values.dtype.kind != "f":
        return False
    peak = max(abs(float(values.max())), abs(float(values.min())))
    few = np.abs(widened(values.reshape(-1)[:: max(values.size // FEW_ELEMENTS, 1)]))
    return math.isfinite(peak) and bool(((few < peak / 2) & (few * MIN_MASK_RATIO > peak)).any())


def _is_added(top: Array, below: float) -> bool:
    """Return True if values are one number plus elements of at most `below`."""
    return top.size > 1 and float(np.ptp(top)) <= 2 * below


def unmasked(values: Array) -> Array:
    """Return a mask of the finite elements that are not mask values."""
    finite, masked = np.isfinite(widened(values)), mask_values(values)
    return finite if masked is None else finite & ~masked


def scale_of(magnitudes: Array, masked: Array | None, *, fine: bool = False) -> Array:
    """Return the scale around each element: the magnitude that its error is relative to.

    The scale is the RMS of the elements of its slice (all elements with the same index on one
    axis), in the slice where it is smallest; of fewer than MIN_SLICE_ELEMENTS elements, only slices
    count that are too small for MAX_CHANCE. It is at least MIN_SLICE_SCALE of the RMS of the whole.
    Mask values count only for mask values.

    Args:
        magnitudes: Non-negative float64.
        masked: Result of `mask_values` of the output.
        fine: For errors whose noise is measured: slices smaller than MIN_SLICE_SCALE keep their own
            scale (down to MIN_FINE_SCALE), runs of such slices with few elements, too.
    """
    body = magnitudes if masked is None else np.where(masked, 0.0, magnitudes)
    count = body.size if masked is None else int(body.size - np.count_nonzero(masked))
    peak = float(body.max(initial=0.0))
    if not peak or not count:
        scale: Array = np.zeros(body.shape)
    else:
        squares = body / peak
        squares *= squares
        whole = float(squares.sum()) / count
        floor = (MIN_FINE_SCALE if fine else MIN_SLICE_SCALE) ** 2 * whole
        scale = np.asarray(peak * math.sqrt(max(whole, floor)))
        for axis in range(body.ndim if body.ndim > 1 or fine else 0):
            size = body.size // max(body.shape[axis], 1)
            if body.shape[axis] < 2 or (size < 2 and not fine):
                continue
            sums, kept = by_slice(squares, axis), of_slices(masked, axis, size)
            if size < MIN_SLICE_ELEMENTS and fine:
                small = small_slices(sums, kept, whole)
                sums, kept = by_run(sums, small), by_run(kept, small)
            means = sums / np.maximum(kept, 1)
            counts = kept >= (
                MIN_RUN_ELEMENTS if size < MIN_SLICE_ELEMENTS and fine else MIN_SLICE_ELEMENTS
            )
            if not fine:
                counts |= _not_by_chance(means / whole, kept)
            means = np.where(counts, means, whole)
            shape = [-1 if at == axis else 1 for at in range(body.ndim)]
            scale = np.minimum(scale, (peak * np.sqrt(np.maximum(means, floor))).reshape(shape))
        if scale.shape != body.shape:
            scale = np.broadcast_to(scale, body.shape).copy()
    if masked is not None:
        scale = np.where(masked, magnitudes, scale)
    return scale


def _not_by_chance(ratios: Array, kept: Array | int) -> Array:
    """Return a mask of the slices that are small with a probability of at most MAX_CHANCE.

    Args:
        ratios: Mean square of each slice, relative to the whole's.
        kept: Number of elements that count, of each slice.
    """
    with np.errstate(all="ignore"):
        mask: Array = (
            (np.asarray(kept) >= 2)
            & (ratios >= MIN_SLICE_RATIO**2)
            & (ratios ** (np.asarray(kept) / 2) <= MAX_CHANCE)
        )
    return mask


def by_slice(values: Array, axis: int) -> Array:
    """Return the sums of the slices of an axis."""
    sums: Array = values.sum(axis=tuple(i for i in range(values.ndim) if i != axis))
    return sums


def of_slices(masked: Array | None, axis: int, size: int) -> Array | int:
    """Return the number of elements that count, of each slice of an axis; `size` without masks."""
    return size if masked is None else by_slice(~masked, axis)


def small_slices(sums: Array, kept: Array | int, whole: float) -> Array:
    """Return a mask of small slices: RMS below MIN_SLICE_SCALE times the RMS of the whole array.

    Args:
        sums: Sum of squares of each slice.
        kept: Number of elements that count, of each slice.
        whole: Mean square of the whole array.
    """
    small: Array = (np.asarray(kept) > 0) & (sums < MIN_SLICE_SCALE**2 * whole * kept)
    return small


def by_run(values: Array | int, small: Array) -> Array:
    """Return the sum of the values of each slice's run, its adjacent small slices; 0 for a slice
    that is not small."""
    run = np.cumsum(np.concatenate([[False], small[1:] != small[:-1]]))
    sums: Array = np.bincount(run, np.where(small, values, 0))[run]
    return sums
