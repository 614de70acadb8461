"""Indices of equal values: an unstable sort may return them in any order.

Under random rounding (`noise.py`) these operators return another of the orders that are right, so
that the indices that depend on it are undecided, as are the values that are gathered by them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

OPERATORS = {"sort", "topk"}
"""Operators with an order of equal values that nobody defines; argsort calls sort."""


def in_another_order(
    func: Callable[..., Any], name: str, args: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """Return the results of an operator of OPERATORS, with the indices of equal values rotated."""
    result = func(*args, **options)
    if options.get("stable") or not args[0].ndim or not args[0].numel():
        return result
    named = {"k": 1, "dim": 2, "largest": 3, "sorted": 4} if name == "topk" else {"dim": 1}
    asked = {key: args[at] for key, at in named.items() if at < len(args)} | dict(options)
    dim = asked.get("dim", -1)
    if name == "sort":
        return _made(result, _rotated(result[0], result[1], dim))
    if not asked.get("sorted", True):
        return result
    count, size = asked["k"], args[0].shape[dim]
    more = min(count + 1, size)  # the last value may be equal to the first that is left out
    values, indices = torch.topk(args[0], more, dim, asked.get("largest", True))
    return _made(result, _rotated(values, indices, dim).narrow(dim, 0, count))


def _made(result: Any, indices: Any) -> Any:
    """Return a result with other indices."""
    return type(result)((result[0], indices))


def _rotated(values: Any, indices: Any, dim: int) -> Any:
    """Return indices in which those of a run of equal values are each the next one's; the last of a
    run has the first one's."""
    size = values.shape[dim]
    if size < 2:
        return indices
    values, indices = values.movedim(dim, -1), indices.movedim(dim, -1)
    places = torch.arange(size).expand(values.shape)
    same = values[..., 1:] == values[..., :-1]
    no = torch.zeros_like(same[..., :1])
    begins = torch.where(torch.cat([no, same], -1), 0, places).cummax(-1).values
    following = torch.where(torch.cat([same, no], -1), places + 1, begins)
    return indices.gather(-1, following).movedim(-1, dim)
