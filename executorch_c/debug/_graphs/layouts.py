"""Tensors of a program in the shapes of a graph's nodes: delegates compute in channels-last."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import permutations
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from executorch_c._arrays import as_array
from executorch_c.debug._graphs.names import shape_of

if TYPE_CHECKING:
    from executorch_c._arrays import Array
    from torch.fx import Node

Sample: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"

MAX_AXES = 4
"""Maximum number of axes, other than those of size 1, whose orders are tried."""

MAX_SAMPLE_ELEMENTS = 4096
"""Maximum number of elements of a value that matching compares."""


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
    shape = tuple(shape)
    if value.numel() != math.prod(shape):
        return []
    views = []
    if tuple(value.shape) == shape:
        views.append(value)
    if value.ndim >= 3:
        first = value.movedim(-1, 1)
        if tuple(first.shape) == shape or value.ndim != len(shape):
            views.append(first.reshape(shape))
    if len(shape) == 4 and tuple(value.shape) == (shape[0], shape[2], shape[1] * shape[3]):
        views.append(value.unflatten(2, (shape[1], shape[3])).transpose(1, 2))
    if not views or value.ndim != len(shape):
        views += _reordered(value, shape) or [value.reshape(shape)]
    return views


def _reordered(value: Any, shape: tuple[int, ...]) -> list[Any]:
    """Return a tensor with its axes (but those of size 1) in each order that gives a shape, its own
    order first; [] if none does, as where axes are merged, or there are more than MAX_AXES."""
    kept, wanted = value.squeeze(), without_ones(shape)
    if kept.ndim > MAX_AXES:
        return []
    orders = permutations(range(kept.ndim))
    return [
        kept.permute(order).reshape(shape)
        for order in orders
        if tuple(kept.shape[axis] for axis in order) == wanted
    ]


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
    if flat.size > MAX_SAMPLE_ELEMENTS:
        flat = flat[_sampled_places(flat.size)]
    wide: Sample = (np.abs(flat) if flat.dtype.kind == "c" else flat).astype(np.float64)
    finite = np.isfinite(wide)
    kept: Sample = wide if finite.all() else np.where(finite, wide, 0.0)
    return kept


@lru_cache(64)
def _sampled_places(size: int) -> np.ndarray[Any, np.dtype[np.int64]]:
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
    views = _views(array, like)
    if len(views) < 2:
        return views[0] if views else None
    wanted = sample(near)
    return min(views, key=lambda one: mean_distance(sample(as_array(one)), wanted))


def _views(array: Array, like: Any) -> list[Any]:
    """Return an array as a tensor in the shape of another, in each layout that fits; [] for another
    kind of dtype."""
    value = as_tensor(array)
    is_same_kind = value.dtype.is_floating_point == like.dtype.is_floating_point
    return in_shape(value, like.shape) if is_same_kind else []


def closest(array: Array, expected: Any) -> tuple[float, Any] | None:
    """Return the distance of an array from a tensor, and the array as a tensor, in the nearest
    layout; None if no layout fits."""
    views = _views(array, expected)
    if not views:
        return None
    wanted, samples = sample(as_array(expected)), [sample(as_array(one)) for one in views]
    apart = [mean_distance(one, wanted) for one in samples] if len(views) > 1 else [0.0]
    best = apart.index(min(apart))
    return distance(samples[best], wanted), views[best].to(expected.dtype)
