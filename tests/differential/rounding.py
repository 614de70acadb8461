"""Eager under random rounding of every operator: the errors that a right runtime may have.

Operands move by a last place of the dtype that the operator computes in (float32 for halves),
results by one of their own. An element may differ from eager's by twice the largest change over
the draws; where the changes are not small (an index, a comparison, a sign of infinity that
changes), rounding decides the element, and no value of it is wrong.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from tests import judge, variation

DRAWS, MORE_DRAWS = 6, 40
"""Draws at first, and for results that then are wrong."""
ULPS = 2.0
"""Units in the last place besides the change."""
STAYS = 1 / 3
"""Share of the elements that do not move: two moves make an even number of units otherwise."""
OPEN_ORDER = {
    "aten::topk": 2,
    "aten::kthvalue": 2,
    "aten::mode": 1,
    "aten::median": 1,
    "aten::nanmedian": 1,
    "aten::sort": 1,
}
"""Operators whose positions of equal values are not defined, with the place of the argument dim."""
CANCELLING = ("aten::gelu",)
"""Operators that add 1 to what may be nearly -1, and multiply by half of their argument."""
TERMS = {
    "aten::_log_softmax": 1,
    "aten::log_softmax": 1,
    "aten::igamma": 8,
    "aten::igammac": 8,
    "aten::digamma": 4,
    "aten::polygamma": 4,
    "aten::special_modified_bessel_k0": 2,
}
"""Operators that add terms of this size, also where the result is nearly 0; of the incomplete gamma
functions, in an exponent."""
HALVES = (torch.float16, torch.bfloat16)
BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integers by the size of a float."""
Outputs = list[Any]


class Rounding(variation.Noise):
    """Random rounding of operands and results, in the units of their dtypes."""

    def __init__(self, seed: int) -> None:
        super().__init__(1.0, seed)

    def moved(self, x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or not (x.is_floating_point() or x.is_complex()):
            return x
        self.step = torch.finfo(x.dtype).eps
        stays = torch.rand(x.shape, generator=self.random) < STAYS
        near = torch.where(stays, x, super().moved(x))
        return near if x.is_complex() or not near.isnan().any() else self.other_nan(near)

    def other_nan(self, x: torch.Tensor) -> torch.Tensor:
        """Return the tensor with random bits in each NaN: which they are is not defined."""
        ones = torch.full(x.shape, -1, dtype=BITS[x.element_size()]).view(x.dtype)
        coins = torch.randint(0, 2, x.shape, generator=self.random).bool()
        nans = torch.where(coins, ones, torch.full_like(x, torch.nan))
        return torch.where(x.isnan(), nans, x)

    def operand(self, x: Any) -> Any:
        """Return an operand moved, a half in float32."""
        return self.moved(in_float32(x))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        plain = func(*args, **kwargs)
        if not isinstance(func, torch._ops.OpOverload):
            return plain
        if (
            func._schema.name in OPEN_ORDER
            and len(func._schema.returns) == 2
            and not kwargs.get("stable")
        ):
            return self.reordered(func, args, kwargs)
        if func._schema.name.split("::")[1].rstrip("_") in variation.MOVES:
            return plain
        if func._schema.is_mutable:
            if isinstance(plain, torch.Tensor) and plain.is_floating_point():
                plain.copy_(self.moved(plain))
            return plain
        if any(r.alias_info for r in func._schema.returns):
            return plain
        try:
            near = func(*pytree.tree_map(self.operand, as_summed(args, kwargs)), **kwargs)
        except Exception:  # dtypes that must be equal, and one of them is fixed
            near = plain
        near = pytree.tree_map(lambda n, p: typed(n, p), near, plain)
        if func._schema.name.startswith("aten::upsample") and plain.is_floating_point():
            return self.moved_positions(near)
        if func._schema.name in CANCELLING:
            x = in_float32(args[0])
            near = near + ((self.moved(x) - x) / 2).to(near.dtype)
        if func._schema.name in TERMS:
            terms = torch.full_like(near, TERMS[func._schema.name])
            near = near + (self.moved(terms) - terms)
        return pytree.tree_map(self.moved, near)

    def reordered(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return values and positions for operands in a random order: positions of equal values
        are random."""
        place, x = OPEN_ORDER[func._schema.name], args[0]
        dim = args[place] if len(args) > place else kwargs.get("dim", -1)
        if not x.dim():
            return func(*args, **kwargs)
        order = torch.randperm(x.shape[dim], generator=self.random)
        values, places = func(x.index_select(dim, order), *args[1:], **kwargs)
        return values, order[places]


def as_summed(args: Any, kwargs: Any) -> Any:
    """Return the operands of a call in the floating dtype that it sums integers in."""
    to = kwargs.get("dtype")
    if to is None or not to.is_floating_point:
        return args
    return pytree.tree_map(
        lambda x: (
            x.to(to)
            if isinstance(x, torch.Tensor) and not (x.is_floating_point() or x.is_complex())
            else x
        ),
        args,
    )


def in_float32(x: Any) -> Any:
    """Return a half in float32; other values as they are."""
    return x.float() if isinstance(x, torch.Tensor) and x.dtype in HALVES else x


def typed(near: Any, plain: Any) -> Any:
    """Return a result in the dtype of eager's; eager's, if it has another shape."""
    if not isinstance(plain, torch.Tensor):
        return plain
    return near.to(plain.dtype) if near.shape == plain.shape else plain


class Rooms:
    """The errors that elements of the results of one call may have, with more draws on demand."""

    def __init__(self, run: Callable[[], Outputs], wanted: Outputs) -> None:
        self._run, self.wanted, self._draws = run, wanted, 0
        self._gaps = [np.zeros(np.shape(w)) for w in wanted]
        self._unsettled = [np.zeros(np.shape(w), bool) for w in wanted]
        self._shapes: list[set[tuple[int, ...]]] = [set() for _ in wanted]

    def draw(self, count: int) -> None:
        """Run eager under rounding until there are at least `count` draws."""
        while self._draws < count:
            self._draws += 1
            try:
                with torch.no_grad(), Rounding(self._draws):
                    results = self._run()
            except NotImplementedError:
                raise
            except RuntimeError:  # sizes that depend on rounding do not go together
                continue
            for i, (result, wanted) in enumerate(zip(results, self.wanted, strict=True)):
                self._add(i, result, wanted)

    def _add(self, i: int, result: Any, wanted: Any) -> None:
        if wanted is None:
            return
        if np.shape(result) != np.shape(wanted):
            self._unsettled[i][...] = True
            self._shapes[i].add(np.shape(result))
        elif not judge.is_inexact(wanted.dtype.name):
            self._unsettled[i] |= ~judge.same(result, wanted)
        else:
            gap = judge.distance(result, wanted, wanted.dtype.name)
            self._unsettled[i] |= ~np.isfinite(gap)
            self._gaps[i] = np.maximum(self._gaps[i], np.where(np.isfinite(gap), gap, 0))

    def has_shape(self, i: int, shape: tuple[int, ...]) -> bool:
        """Return True if output i has had this shape instead of eager's under rounding."""
        return shape in self._shapes[i]

    def wrong(self, i: int, found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return masks of the elements of output i that differ by more than rounding explains, and
        of those that rounding decides."""
        wanted = self.wanted[i]
        differs = ~judge.same(found, wanted)
        if judge.is_inexact(wanted.dtype.name):
            room = 2 * self._gaps[i] + ULPS * judge.ulp(wanted, wanted.dtype.name)
            differs &= ~(judge.distance(found, wanted, wanted.dtype.name) <= room)
        return differs & ~self._unsettled[i], differs & self._unsettled[i]
