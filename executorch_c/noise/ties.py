"""Orders that nobody defines: of equal values in an unstable sort, and of topk(sorted=False).

Under random rounding (`noise.py`) these operators return another of the orders that are right, so
that the indices that depend on it are undecided, as are the values that are gathered by them.
Outputs that are results of topk(sorted=False) are sets (`sets.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from executorch_c.inspect.families import unsuffixed

OPERATORS = {"sort", "topk"}
"""Operators with an order of equal values that nobody defines; argsort calls sort."""


def in_another_order(
    func: Callable[..., Any], name: str, args: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """Return the results of an operator of OPERATORS in another order: the indices of equal values
    are rotated, and those of topk(sorted=False) are sorted by value."""
    result = func(*args, **options)
    if options.get("stable") or not args[0].ndim or not args[0].numel():
        return result
    asked = _asked(name, args, options)
    dim = asked.get("dim", -1)
    if name == "sort":
        return type(result)((result[0], _rotated(result[0], result[1], dim)))
    count, size = asked["k"], args[0].shape[dim]
    more = min(count + 1, size)  # the last value may be equal to the first that is left out
    values, indices = torch.topk(args[0], more, dim, asked.get("largest", True))
    indices = _rotated(values, indices, dim).narrow(dim, 0, count)
    return type(result)((values.narrow(dim, 0, count), indices))


def _asked(name: str, args: Sequence[Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an operator of OPERATORS after the tensor, by name."""
    named = {"k": 1, "dim": 2, "largest": 3, "sorted": 4} if name == "topk" else {"dim": 1}
    return {key: args[at] for key, at in named.items() if at < len(args)} | dict(options)


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


class Unsorted(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that keeps the results of topk(sorted=False), and their dim."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.results: list[tuple[Any, int]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = unsuffixed(func._schema.name)
        if name == "topk":
            asked = _asked(name, args, kwargs or {})
            if not asked.get("sorted", True) and args[0].ndim:
                self.results += [(one, asked.get("dim", -1)) for one in result]
        return result
