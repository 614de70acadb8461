"""Channels of a quantised program's values that are not the float model's.

Quantising errs about as much in each channel of a layer: a step of one scale, or of the channel's
own. Channels that are swapped, or that have another channel's scale or bias, err many times as much
as the others, and by about as much as their signal; the SQNR of the whole layer may hide them.
"""

from __future__ import annotations

import numpy as np

from executorch_c._arrays import Array
from executorch_c.compare.limits import (
    CHANNEL_ERROR_FACTOR,
    CHANNEL_MIN_SQNR_DB,
    MIN_CHANNEL_ELEMENTS,
    MIN_CHANNELS,
)
from executorch_c.compare.scale import unmasked, widened


def wrong_channels(actual: Array, expected: Array) -> tuple[int, Array]:
    """Return the axis and the numbers of the channels that quantising does not explain.

    Args:
        actual: A value of the quantised program, of floats.
        expected: The float model's, of the same shape, with channels in dimension 1 or the last.

    Returns:
        The axis, and ascending numbers (int64) of at most half of its channels; none for values of
        few channels, of few elements a channel, or without finite numbers.
    """
    if actual.shape != expected.shape or expected.dtype.kind not in "fV" or actual.ndim < 2:
        return 0, np.zeros(0, np.int64)
    a, e = widened(actual), widened(expected)
    body = np.isfinite(a) & np.isfinite(e) & unmasked(expected)
    error, signal = np.where(body, a - e, 0.0) ** 2, np.where(body, e, 0.0) ** 2
    for axis in dict.fromkeys((1, actual.ndim - 1)):
        count = actual.shape[axis]
        if count < MIN_CHANNELS or actual.size < count * MIN_CHANNEL_ELEMENTS:
            continue
        others = tuple(i for i in range(actual.ndim) if i != axis)
        errors, signals = np.sqrt(error.sum(others)), np.sqrt(signal.sum(others))
        usual = float(np.median(errors[errors > 0])) if errors.any() else 0.0
        wrong = (errors > CHANNEL_ERROR_FACTOR * usual) & (
            errors > signals * 10 ** (-CHANNEL_MIN_SQNR_DB / 20)
        )
        if wrong.any():
            return axis, np.flatnonzero(wrong)
    return 0, np.zeros(0, np.int64)


def mismatched(actual: Array, expected: Array) -> int:
    """Return the number of elements of wrong channels."""
    axis, wrong = wrong_channels(actual, expected)
    return wrong.size * (actual.size // actual.shape[axis]) if wrong.size else 0
