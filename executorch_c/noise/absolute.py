"""Rounding errors that are not relative to an operator's result.

A small difference of large numbers has the error of these; a logarithm has the relative error of
its argument; a resampled picture has the error of the positions at which it is read; a norm has
that of the mean that it subtracts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

from executorch_c.noise.sums import Terms

DIFFERENCES = {"elu", "gelu", "log_softmax", "_log_softmax", "mish", "softplus"}
"""Functions whose results may be small differences of numbers as large as the argument."""

RESIZES = {
    "upsample_linear1d",
    "upsample_bilinear2d",
    "upsample_bicubic2d",
    "upsample_trilinear3d",
    "_upsample_bilinear2d_aa",
    "_upsample_bicubic2d_aa",
}
"""Operators that read their argument at computed positions, between its elements."""

MEANS = {
    "native_layer_norm": -1,
    "native_group_norm": 0,
    "native_batch_norm": 1,
    "_native_batch_norm_legit": 1,
}
"""Norms that return the mean and the reciprocal deviation, and the axis of these: -1 if they have
the result's dimensions, 0 for groups."""

SAMPLERS = {"grid_sampler_2d", "grid_sampler_3d", "grid_sampler"}
"""Operators that read their argument at positions of another."""


def errors_of(
    name: str, func: Callable[..., Any], args: Any, result: Any, terms: Terms | None, growth: Any
) -> Iterator[tuple[Any, bool]]:
    """Yield the sizes of such errors of a call's result, in machine epsilons, and whether these are
    float32's where the result is a half.

    Args:
        growth: Error of the sum that is computed, in machine epsilons.
    """
    if name in DIFFERENCES:
        yield args[0].abs(), False
    if terms is not None and terms.is_logarithm:
        yield torch.as_tensor(growth), terms.in_float32
    if name in RESIZES:
        scales = name.endswith("_aa")
        axes = [at for at in range(2, result.ndim) if not _is_aligned(args, result, at, scales)]
        yield from ((_of_positions(func, args, result, axis), True) for axis in axes)
    if name in SAMPLERS:
        for axis in range(args[1].shape[-1]):
            yield _of_grid(func, args, result, axis), False
    if name in MEANS and terms is not None:
        yield _of_mean(result, MEANS[name]) * growth, terms.in_float32
    if name == "_euclidean_dist":
        yield _of_squares(args, result), True


def _is_aligned(args: Any, result: Any, axis: int, scales: bool) -> bool:
    """Return True if the positions along an axis have few binary places: they are exact.

    Args:
        scales: True if the weights depend on the ratio of the sizes, too.
    """
    ends = 1 if args[2] else 0
    before, after = args[0].shape[axis] - ends, result.shape[axis] - ends
    common = max(math.gcd(before, after), 1)
    sizes = (before, after) if scales else (after,)
    return all(size // common & (size // common - 1) == 0 for size in sizes)


def _of_positions(func: Callable[..., Any], args: Any, result: Any, axis: int) -> Any:
    """Return the positions along an axis, times the change of the result from one place of the
    argument to the next."""
    before, after = args[0].shape[axis], result.shape[axis]
    places = (torch.arange(before) + 1).clamp(max=before - 1)
    change = func(args[0].index_select(axis, places), *args[1:]) - result
    shape = [-1 if i == axis else 1 for i in range(result.ndim)]
    places = torch.arange(after) * (before / after)
    return change.abs() * places.view(shape)


def _of_grid(func: Callable[..., Any], args: Any, result: Any, axis: int) -> Any:
    """Return the positions along an axis of a grid, times the change of the result from one place
    of the argument to the next."""
    grid, size = args[1], args[0].shape[-1 - axis]
    step = torch.zeros_like(grid)
    step[..., axis] = 2 / size
    places = ((grid[..., axis] + 1) * (size / 2)).abs().unsqueeze(1)
    return (func(args[0], grid + step, *args[2:]) - result).abs() * places


def _of_squares(args: Any, result: Any) -> Any:
    """Return the error of distances that are computed from products: those of points near to each
    other are small differences of squares."""
    squares = [side.float().square().sum(-1) for side in args[:2]]
    total = squares[0].unsqueeze(-1) + squares[1].unsqueeze(-2)
    unit = torch.finfo(torch.float32).eps
    near = result.float()
    return ((near.square() + unit * total).sqrt() - near) / unit


def _of_mean(results: Any, axis: int) -> Any:
    """Return the quotients of the means and the deviations by which a norm divides."""
    out, mean, reciprocal = results
    quotient = (mean.float() * reciprocal.float()).abs()
    if axis < 0:
        return quotient
    if axis:
        return quotient.view(1, -1, *[1] * (out.ndim - 2))
    channels = quotient.repeat_interleave(out.shape[1] // quotient.shape[-1], -1)
    return channels.view(*out.shape[:2], *[1] * (out.ndim - 2))
