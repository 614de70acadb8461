"""Kinds of faults of devices, of random sizes: each changes a result in place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.blame.devices import Fault


def _axis(shape: tuple[int, ...], rng: np.random.Generator) -> int:
    """Return a dimension of at least two; of the largest size without one."""
    wide = [axis for axis, size in enumerate(shape) if size >= 2]
    return int(rng.choice(wide)) if wide else int(np.argmax(shape))


def _part(size: int, rng: np.random.Generator) -> slice:
    """Return a random band: an eighth to a half of a dimension."""
    length = max(1, int(size * rng.uniform(1 / 8, 1 / 2)))
    start = int(rng.integers(0, size - length + 1))
    return slice(start, start + length)


def _put(array: np.ndarray, index: tuple[slice, ...], values: np.ndarray) -> None:
    if array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        values = np.clip(np.rint(values), limits.min, limits.max)
    array[index] = values.astype(array.dtype)


def bands(shape: tuple[int, ...], rng: np.random.Generator) -> Fault:
    """Some rows, columns or channels are wrong: scaled, moved, or noise."""
    axis = _axis(shape, rng)
    part = _part(shape[axis], rng)
    index = (*(slice(None) for _ in range(axis)), part)
    kind, seed = int(rng.integers(3)), int(rng.integers(2**31))
    factor = float(rng.choice([rng.uniform(0, 0.9), rng.uniform(1.1, 2)]))
    shift = int(rng.integers(1, max(2, shape[axis])))

    def change(array: np.ndarray) -> None:
        values = array.astype(np.float64)
        if kind == 0:
            result = values[index] * factor
        elif kind == 1:
            result = np.roll(values, shift, axis)[index]
        else:
            scale = np.sqrt(np.mean(values**2))
            result = scale * np.random.default_rng(seed).standard_normal(values[index].shape)
        _put(array, index, result)

    return change


def zeros(shape: tuple[int, ...], rng: np.random.Generator) -> Fault:
    """A block is zero."""
    axis = _axis(shape, rng)
    index = (*(slice(None) for _ in range(axis)), _part(shape[axis], rng))

    def change(array: np.ndarray) -> None:
        array[index] = 0

    return change


def stale(shape: tuple[int, ...], rng: np.random.Generator, old: np.ndarray) -> Fault:
    """The last part of a dimension has the values of an earlier call, of another size."""
    differs = [a for a in range(len(shape)) if old.ndim == len(shape) and old.shape[a] != shape[a]]
    axis = differs[0] if differs else _axis(shape, rng)
    size = shape[axis]
    start = size - max(1, int(size * rng.uniform(1 / 8, 3 / 4)))
    index = (*(slice(None) for _ in range(axis)), slice(start, size))

    def change(array: np.ndarray) -> None:
        if old.ndim == array.ndim and all(a >= b for a, b in zip(old.shape, array.shape)):
            array[index] = old[tuple(slice(0, n) for n in array.shape)][index]

    return change


def saturating(shape: tuple[int, ...], rng: np.random.Generator) -> Fault:
    """Values are clamped to a limit that some of them exceed."""
    share = float(rng.uniform(0.5, 0.98))

    def change(array: np.ndarray) -> None:
        values = array.astype(np.float64)
        limit = float(np.quantile(np.abs(values), share))
        _put(array, (slice(None),), np.clip(values, -limit, limit))

    return change


def halved(shape: tuple[int, ...], rng: np.random.Generator) -> Fault:
    """All values are halved."""

    def change(array: np.ndarray) -> None:
        _put(array, (slice(None),), array.astype(np.float64) / 2)

    return change


# ---- other kinds ------------------------------------------------------------------------------


def transposed(shape: tuple[int, ...], rng: np.random.Generator) -> Fault:
    """The layout is wrong: two dimensions are stored in the other order."""
    wide = [axis for axis, size in enumerate(shape) if size >= 2]
    order = list(range(len(shape)))
    if len(wide) >= 2:
        a, b = rng.choice(wide, 2, replace=False)
        order[a], order[b] = order[b], order[a]

    def change(array: np.ndarray) -> None:
        array[...] = array.transpose(order).reshape(array.shape).copy()

    return change


def channels(shape: tuple[int, ...], rng: np.random.Generator) -> Fault:
    """Channels have a wrong scale, or a wrong bias."""
    axis = 1 if len(shape) > 2 else len(shape) - 1
    sizes = [size if a == axis else 1 for a, size in enumerate(shape)]
    by_factor, numbers = bool(rng.integers(2)), rng.uniform(-0.5, 0.5, sizes)

    def change(array: np.ndarray) -> None:
        values = array.astype(np.float64)
        scale = np.sqrt(np.mean(values**2))
        result = values * (1 + numbers) if by_factor else values + numbers * scale
        _put(array, (slice(None),), result)

    return change


def shifted(shape: tuple[int, ...], rng: np.random.Generator) -> Fault:
    """A window is off by one."""
    axis, by = _axis(shape, rng), int(rng.choice([-1, 1]))

    def change(array: np.ndarray) -> None:
        array[...] = np.roll(array, by, axis)

    return change


def not_finite(shape: tuple[int, ...], rng: np.random.Generator) -> Fault:
    """Large values are NaN or infinite; of integers, the smallest one."""
    share, value = float(rng.uniform(0.5, 0.98)), float(rng.choice([np.nan, np.inf]))

    def change(array: np.ndarray) -> None:
        sizes = np.abs(array.astype(np.float64))
        large = sizes > np.quantile(sizes, share)
        array[large] = value if array.dtype.kind == "f" else np.iinfo(array.dtype).min

    return change


def truncated(shape: tuple[int, ...], rng: np.random.Generator) -> Fault:
    """Results are rounded to zero, to fewer bits."""
    bits = int(rng.integers(3, 8))

    def change(array: np.ndarray) -> None:
        values = array.astype(np.float64)
        scale = 2.0 ** np.floor(np.log2(np.abs(values).max() or 1.0)) / 2**bits
        _put(array, (slice(None),), np.trunc(values / scale) * scale)

    return change


def wrapping(shape: tuple[int, ...], rng: np.random.Generator) -> Fault:
    """Sums wrap: an accumulator has too few bits."""
    share = float(rng.uniform(0.8, 0.99))

    def change(array: np.ndarray) -> None:
        values = array.astype(np.float64)
        limit = float(np.quantile(np.abs(values), share)) or 1.0
        _put(array, (slice(None),), (values + limit) % (2 * limit) - limit)

    return change


def repeated(shape: tuple[int, ...], rng: np.random.Generator) -> Fault:
    """A thread computes the slice of another one."""
    axis = _axis(shape, rng)
    length = max(1, shape[axis] // int(rng.choice([2, 3, 4])))
    count = max(shape[axis] // length, 1)
    source, target = (int(i) for i in rng.choice(max(count, 2), 2, replace=False))
    before = (slice(None),) * axis
    taken = (*before, slice(source * length, (source + 1) * length))
    given = (*before, slice(target * length, (target + 1) * length))

    def change(array: np.ndarray) -> None:
        part, place = array[taken].copy(), array[given]
        if place.shape == part.shape:
            place[...] = part

    return change


def previous(shape: tuple[int, ...], rng: np.random.Generator, old: np.ndarray) -> Fault:
    """All values are those of the call before."""

    def change(array: np.ndarray) -> None:
        if old.ndim == array.ndim and all(a >= b for a, b in zip(old.shape, array.shape)):
            array[...] = old[tuple(slice(0, n) for n in array.shape)]

    return change


def lanes(shape: tuple[int, ...], rng: np.random.Generator) -> Fault:
    """Lanes of four are in another order."""
    axis = _axis(shape, rng)
    order = np.arange(shape[axis])
    width = min(4, shape[axis])
    whole = shape[axis] // width * width
    order[:whole] = order[:whole].reshape(-1, width)[:, rng.permutation(width)].ravel()

    def change(array: np.ndarray) -> None:
        array[...] = np.take(array, order, axis)

    return change


def negated(shape: tuple[int, ...], rng: np.random.Generator) -> Fault:
    """The operands of a subtraction are swapped."""

    def change(array: np.ndarray) -> None:
        _put(array, (slice(None),), -array.astype(np.float64))

    return change


def coarse_weights(shape: tuple[int, ...], rng: np.random.Generator) -> Fault:
    """Weights are truncated to bfloat16: results are smaller by 0.2 % on average, and off by as
    much of the RMS."""
    noise = np.random.default_rng(int(rng.integers(2**31))).standard_normal(shape)

    def change(array: np.ndarray) -> None:
        values = array.astype(np.float64)
        scale = np.sqrt(np.mean(values**2))
        _put(array, (slice(None),), values * (1 - 2.0**-9) + 2.0**-9 * scale * noise)

    return change


KINDS = ("bands", "zeros", "stale", "saturating", "halved", "sometimes")
"""Those of the limits that `blame` keeps."""
SIMPLE: dict[str, Callable[[tuple[int, ...], np.random.Generator], Fault]] = {
    "bands": bands,
    "zeros": zeros,
    "saturating": saturating,
    "halved": halved,
}
FINE = "coarse weights"
"""A kind whose changes are small."""
OTHERS: dict[str, Callable[[tuple[int, ...], np.random.Generator], Fault]] = {
    "transposed": transposed,
    "channels": channels,
    "shifted": shifted,
    "not finite": not_finite,
    "truncated": truncated,
    "wrapping": wrapping,
    "repeated": repeated,
    "lanes": lanes,
    "negated": negated,
    FINE: coarse_weights,
}
STALE: dict[str, Callable[[tuple[int, ...], np.random.Generator, np.ndarray], Fault]] = {
    "stale": stale,
    "previous": previous,
}
"""Kinds that have values of an earlier call."""
EXTENTS = "extents"
"""From a place on, results have the extents of the upper bound."""
OTHER_KINDS = (*OTHERS, "previous", EXTENTS)
