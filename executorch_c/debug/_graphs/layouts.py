"""Tensors of a program in the shapes of a graph's nodes: delegates compute in channels-last."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import permutations
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from executorch_c._arrays import as_array
from executorch_c.debug._graphs.names import shape_of

if TYPE_CHECKING:
    from executorch_c._arrays import Array
    from torch.fx import Node

Sample: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"

Places: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

MAX_AXES = 4
"""Maximum number of axes, other than those of size 1, whose orders are tried."""

MAX_SAMPLE_ELEMENTS = 4096
"""Maximum number of elements of a value that matching compares."""

MAX_KNOWN_ELEMENTS = 1 << 22
"""Maximum number of elements of a value of which the places of samples are computed once."""


def elements(shape: Iterable[int]) -> list[int]:
    """Return the sizes other than 1, sorted; layouts and added axes do not change them."""
    return sorted(without_ones(shape))


def fits(node: Node, shape: Sequence[int]) -> bool:
    """Return True if a node may have a shape, in any layout."""
    known = shape_of(node)
    return known is None or elements(known) == elements(shape)


def may_fit(node: Node, array: Array) -> bool:
    """Return True if a node has as many elements as an array, or its size is dynamic."""
    known = shape_of(node)
    return known is None or math.prod(known) == array.size


def as_tensor(array: Any) -> Any:
    """Return a torch.Tensor with a copy of an array's numbers."""
    import torch

    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(np.array(array))


def in_shape(value: Any, shape: Sequence[int]) -> list[Any]:
    """Return a tensor in a node's shape: unchanged, from channels-last, with its axes in another
    order, and with the heads of an attention apart, [N, rows, heads * size] as
    [N, heads, rows, size]; [] if none fits."""
    return [way(value) for way in _ways(tuple(value.shape), tuple(shape))]


@lru_cache(256)
def _ways(own: tuple[int, ...], shape: tuple[int, ...]) -> tuple[Callable[[Any], Any], ...]:
    """Return the functions of `in_shape` for tensors of a shape."""
    if math.prod(own) != math.prod(shape):
        return ()
    ways = list[Callable[[Any], Any]]()
    if own == shape:
        ways.append(lambda value: value)
    if len(own) >= 3 and ((own[0], own[-1], *own[1:-1]) == shape or len(own) != len(shape)):
        ways.append(lambda value: value.movedim(-1, 1).reshape(shape))
    if len(shape) == 4 and own == (shape[0], shape[2], shape[1] * shape[3]):
        heads = (shape[1], shape[3])
        ways.append(lambda value: value.unflatten(2, heads).transpose(1, 2))
    if not ways or len(own) != len(shape):
        ways += _reorderings(own, shape) or [lambda value: value.reshape(shape)]
    return tuple(ways)


def _reorderings(own: tuple[int, ...], shape: tuple[int, ...]) -> list[Callable[[Any], Any]]:
    """Return functions of a tensor with its axes (but those of size 1) in each order that gives a
    shape, its own order first; [] if none does, as where axes are merged, or there are more than
    MAX_AXES."""
    kept, wanted = without_ones(own), without_ones(shape)
    if len(kept) > MAX_AXES:
        return []
    orders = permutations(range(len(kept)))
    fitting = [order for order in orders if tuple(kept[axis] for axis in order) == wanted]
    return [partial(_reordered, order, shape) for order in fitting]


def _reordered(order: tuple[int, ...], shape: tuple[int, ...], value: Any) -> Any:
    return value.squeeze().permute(order).reshape(shape)


def without_ones(shape: Iterable[int]) -> tuple[int, ...]:
    """Return the sizes other than 1, in order."""
    return tuple(size for size in shape if size != 1)


def in_either_order(value: Array, shape: tuple[int, ...]) -> Iterator[Array]:
    """Yield an array in the shape of another: unchanged, and with channels moved either way."""
    views = [value]
    if value.ndim >= 3:
        views += [np.moveaxis(value, -1, 1), np.moveaxis(value, 1, -1)]
    for view in views:
        if without_ones(view.shape) == without_ones(shape):
            yield view.reshape(shape)


def sample(array: Array) -> Sample:
    """Return evenly spaced elements in C order as float64; NaN and infinity as 0."""
    flat = array.reshape(-1)
    return _as_sample(flat[_sampled_places(flat.size)] if flat.size > MAX_SAMPLE_ELEMENTS else flat)


def _as_sample(flat: Array) -> Sample:
    wide: Sample = (np.abs(flat) if flat.dtype.kind == "c" else flat).astype(np.float64)
    finite = np.isfinite(wide)
    kept: Sample = wide if finite.all() else np.where(finite, wide, 0.0)
    return kept


def _samples_in(array: Array, shape: tuple[int, ...]) -> list[Sample]:
    """Return the sample of each view `in_shape` of an array."""
    if array.size <= MAX_KNOWN_ELEMENTS:
        flat = array.reshape(-1)
        return [_as_sample(flat[places]) for places in _places_in(array.shape, shape)]
    return [sample(as_array(one)) for one in in_shape(as_tensor(array), shape)]


@lru_cache(256)
def _places_in(own: tuple[int, ...], shape: tuple[int, ...]) -> list[Places]:
    """Return where the elements of the sample of each view `in_shape` are in an array."""
    import torch

    size = math.prod(own)
    numbers = torch.arange(size).reshape(own)
    views = [one.numpy().reshape(-1) for one in in_shape(numbers, shape)]
    if size > MAX_SAMPLE_ELEMENTS:
        views = [one[_sampled_places(size)] for one in views]
    return views


@lru_cache(64)
def _sampled_places(size: int) -> Places:
    return np.linspace(0, size - 1, MAX_SAMPLE_ELEMENTS).astype(np.int64)


def distance(a: Sample, b: Sample) -> float:
    """Return |a - b| / (|a| + |b|) of two samples: 0 where they are equal, at most 1."""
    both = _norm(a) + _norm(b)
    return _norm(np.subtract(a, b)) / both if both else 0.0


def mean_distance(a: Sample, b: Sample) -> float:
    """Return the mean of |a - b| / (|a| + |b|) of elements: at most 1, of which a few elements that
    are wrong beyond measure are a few."""
    both = np.abs(a) + np.abs(b)
    return float(np.mean(np.divide(np.abs(a - b), both, out=np.zeros_like(both), where=both > 0)))


def _norm(vector: Sample) -> float:
    return math.sqrt(float(np.einsum("i,i->", vector, vector)))


def nearest(array: Array, like: Any, near: Array) -> Any:
    """Return an array as a tensor in the shape of another, in the layout nearest to the values of
    `near`; None for another kind of dtype, or where no layout fits."""
    shape = tuple(like.shape)
    ways = _ways(array.shape, shape) if _is_same_kind(array, like) else ()
    if not ways:
        return None
    best = 0
    if len(ways) > 1:
        wanted = sample(near)
        apart = [mean_distance(one, wanted) for one in _samples_in(array, shape)]
        best = apart.index(min(apart))
    return ways[best](as_tensor(array))


def _is_same_kind(array: Array, like: Any) -> bool:
    is_float = array.dtype.kind == "f" or array.dtype.name == "bfloat16"
    return bool(is_float == like.dtype.is_floating_point)


def closest(array: Array, expected: Any) -> tuple[float, Any] | None:
    """Return the distance of an array from a tensor, and the array as a tensor, in the nearest
    layout; None if no layout fits."""
    shape = tuple(expected.shape)
    ways = _ways(array.shape, shape) if _is_same_kind(array, expected) else ()
    if not ways:
        return None
    wanted, samples, best = sample(as_array(expected)), _samples_in(array, shape), 0
    if len(ways) > 1:
        apart = [mean_distance(one, wanted) for one in samples]
        best = apart.index(min(apart))
    shaped = ways[best](as_tensor(array)).to(expected.dtype)
    return distance(samples[best], wanted), shaped
