"""Six kinds of faults of devices, of random sizes: each changes a result in place."""

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


KINDS = ("bands", "zeros", "stale", "saturating", "halved", "sometimes")
SIMPLE: dict[str, Callable[[tuple[int, ...], np.random.Generator], Fault]] = {
    "bands": bands,
    "zeros": zeros,
    "saturating": saturating,
    "halved": halved,
}
