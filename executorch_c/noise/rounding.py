"""Rounding noise of a PyTorch model: Monte Carlo arithmetic.

Each operator's floating-point result is multiplied by 1 + e, e uniform within one machine epsilon
of its dtype. The spread of the outputs over a few such runs is what another order of summation, a
fused operator or another approximation of a function may change in them: large where a model
amplifies rounding, nothing where it is exact. (D. S. Parker, Monte Carlo Arithmetic, 1997.)
"""

from __future__ import annotations

import cmath
import math
import warnings
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any

import torch
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

from executorch_c.compare.limits import ROUNDING_EPSILONS, SUM_GROWTH, TIE_STEPS
from executorch_c.inspect.families import unsuffixed
from executorch_c.noise import ties
from executorch_c.noise.absolute import errors_of
from executorch_c.noise.sums import EXACT, HALVES, PRODUCTS, TABLE, WIDE_EPSILON, Terms, terms_of

CONVERSIONS = {"_to_copy": 0, "_to_dim_order_copy": 0, "copy": 1}
"""Operators that round where the result's dtype is narrower than that of the argument at this
position."""

POOL_NUMBERS = (1 << 20) + 7
"""Random numbers that are drawn once; each tensor takes a stretch of them."""


@cache
def _pool() -> Any:
    """Return uniform numbers in [-1, 1], as float32."""
    generator = torch.Generator().manual_seed(0)
    return torch.rand(POOL_NUMBERS, generator=generator).mul_(2).sub_(1)


def _is_whole(leaf: Any) -> bool:
    """Return True if all numbers of a real tensor are whole, and small enough for fractions."""
    if leaf.is_complex():
        return False
    if leaf[(0,) * leaf.ndim].item() % 1:
        return False  # most tensors are seen not to be by one number
    few = leaf[(0,) * (leaf.ndim - 1)][:16] if leaf.ndim else leaf
    if not torch.equal(few, few.round()) or not torch.equal(leaf, leaf.round()):
        return False
    return float(leaf.abs().max()) * torch.finfo(leaf.dtype).eps < 1


def _finite(moved: Any, before: Any) -> Any:
    """Return moved numbers, and those before where these are not finite: finfo.min or -inf of
    masks."""
    total = moved.sum(dtype=torch.float32 if moved.dtype in HALVES else moved.dtype)
    if cmath.isfinite(total.item()):
        return moved  # all are, seen in a fifth of the time of looking at each
    return torch.where(moved.isfinite(), moved, before.to(moved.dtype))


@cache
def _traits_of(func: Any) -> tuple[str, bool, bool]:
    """Return the name of an operator, whether it writes to an argument, and whether its result is a
    view of one."""
    aliases = [one.alias_info for one in func._schema.returns if one.alias_info is not None]
    writes = any(one.is_write for one in aliases)
    return unsuffixed(func._schema.name), writes, any(not one.is_write for one in aliases)


def _largest(growth: Any) -> float:
    """Return the largest element of a number or tensor."""
    return float(growth.max()) if isinstance(growth, torch.Tensor) else growth


def _growth_of(terms: Terms | None) -> Any:
    """Return the error of sums in machine epsilons of the dtype that they are accumulated in: a
    number, or a tensor with that of each element of the result (0 where it is copied)."""
    if terms is None:
        return 1.0
    if not isinstance(terms.count, torch.Tensor):
        return max(SUM_GROWTH * math.sqrt(terms.count) / (2 if terms.is_root else 1), 1.0)
    errors = (SUM_GROWTH * terms.count.sqrt()).clamp(min=1.0)
    return torch.where(terms.count > 0, errors, 0.0)


def _narrows(name: str, args: Any, result: Any) -> bool:
    """Return True for a conversion to a narrower dtype."""
    if name not in CONVERSIONS or not result.is_floating_point():
        return False
    source = args[CONVERSIONS[name]]
    if not source.is_floating_point():
        return False
    return bool(torch.finfo(source.dtype).eps < torch.finfo(result.dtype).eps)


def _is_half(value: Any) -> bool:
    """Return True for a half tensor, or its dtype."""
    dtype = value.dtype if isinstance(value, torch.Tensor) else value
    return isinstance(dtype, torch.dtype) and dtype in HALVES


def _widened(value: Any) -> Any:
    """Return a half tensor, or its dtype, as float32; anything else unchanged."""
    if not _is_half(value):
        return value
    return torch.float32 if isinstance(value, torch.dtype) else value.float()


class RandomRounding(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode in which operators round at random.

    Args:
        seed: Seed of the random errors.
        epsilon: Minimum relative error; default: the machine epsilon of each result's dtype. Larger
            if the program computes in a coarser dtype than the model.
    """

    def __init__(self, seed: int, epsilon: float = 0.0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._pool, self._seed = _pool(), seed
        self._at = seed * 104_729 % POOL_NUMBERS
        self._ties_at, self._side = seed // 2 * 15_485_863 % POOL_NUMBERS, 1 - 2 * (seed % 2)
        self._epsilon = epsilon
        self._was_fused: list[bool] = []

    def __enter__(self) -> RandomRounding:
        """Enter the mode, in which torch computes layers of transformers by their parts: the one
        operator that it has for a layer would round once."""
        self._was_fused.append(torch.backends.mha.get_fastpath_enabled())
        torch.backends.mha.set_fastpath_enabled(False)
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        torch.backends.mha.set_fastpath_enabled(self._was_fused.pop())

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        (name, writes, is_view), kwargs = _traits_of(func), kwargs or {}
        if is_view and not writes:
            return func(*args, **kwargs)
        if name.startswith("quantize_"):
            return func(*self._near_ties(*args), **kwargs)
        if name in ties.OPERATORS and self._seed:
            return ties.in_another_order(func, name, args, kwargs)
        if not writes and (product := self._product(name, func, args, kwargs)) is not None:
            return product
        before = (args[0].clone(), *args[1:]) if writes and name in TABLE else args
        result = func(*args, **kwargs)
        if is_view:
            return result
        terms = terms_of(name, func._schema, before, kwargs, result)
        if terms is None and name in EXACT and not _narrows(name, args, result):
            return result
        noisy = self._noisy(name, partial(func, **kwargs), before, result, terms)
        if not writes:
            return noisy
        for leaf, other in zip(*map(_pytree.tree_leaves, (result, noisy)), strict=True):
            if self._rounds(leaf):
                leaf.copy_(other)
        return result

    def _product(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        """Return the result of a sum of products with random errors, by one call instead of two;
        None of other operators, of halves, and of sums with the error of one rounding."""
        is_row = name in PRODUCTS and func._schema.name.startswith("aten::")
        if not is_row or any(map(_is_half, (*args, *kwargs.values()))):
            return None
        terms = terms_of(name, func._schema, args, kwargs, None)  # the arguments have the number
        growth = _growth_of(terms)
        if terms is None or growth <= 1:
            return None
        product = self._of_wrong_terms(partial(func, **kwargs), args, terms, growth)
        return _pytree.tree_map(
            lambda leaf: self._result(leaf, leaf, growth, terms.in_float32), product
        )

    def _noisy(self, name: str, func: Any, args: Any, result: Any, terms: Terms | None) -> Any:
        """Return the result of a call with random errors."""
        growth = _growth_of(terms)
        in_float32 = terms is not None and terms.in_float32
        errors = list(errors_of(name, func, args, result, terms, growth))
        exact = result
        if terms is not None and terms.held and _largest(growth) > 1:
            exact = self._of_wrong_terms(func, args, terms, growth)
        if terms is not None and terms.is_logarithm:
            growth = 1.0
        if isinstance(result, torch.Tensor):
            noisy = self._result(exact, result, growth, in_float32)
        else:
            noisy = _pytree.tree_map(
                lambda leaf, like: self._result(leaf, like, growth, in_float32), exact, result
            )
        for size, is_wide in errors:
            leaf = noisy[0] if isinstance(noisy, tuple) else noisy
            unit = self._unit(leaf.dtype, is_wide)
            moved = leaf + self._random(leaf.numel()).view(leaf.shape) * unit * size
            leaf.copy_(_finite(moved, leaf))
        return noisy

    def _of_wrong_terms(self, func: Any, args: Any, terms: Terms, growth: Any) -> Any:
        """Return the result of a call whose sums have terms with random errors; of halves, in
        float32 if they are accumulated in it."""
        error = _largest(growth)
        is_exact = all(_is_whole(arg) for arg in args if self._rounds(arg) and arg.numel())
        again = []
        is_wide = terms.in_float32 and any(
            map(_is_half, _pytree.tree_leaves((args, func.keywords)))
        )
        for i, arg in enumerate(args):
            value = _pytree.tree_map(_widened, arg) if is_wide else arg
            if i in terms.held and self._rounds(arg):
                unit = self._unit(arg.dtype, terms.in_float32)
                value = self._moved(value, error * unit, is_exact=is_exact)
            again.append(value)
        kwargs = func.keywords
        kwargs = _pytree.tree_map(_widened, kwargs) if is_wide else kwargs
        return func.func(*again, **kwargs)

    def _unit(self, dtype: Any, in_float32: bool) -> float:
        """Return the machine epsilon of the dtype that a result is computed in."""
        if in_float32:
            return WIDE_EPSILON if dtype in HALVES else float(torch.finfo(dtype).eps)
        return max(float(torch.finfo(dtype).eps), self._epsilon)

    def _result(self, leaf: Any, like: Any, growth: Any, in_float32: bool) -> Any:
        """Return a result with random errors of its sums and of its rounding to the dtype of
        `like`."""
        if not self._rounds(like):
            return like
        once = self._unit(like.dtype, in_float32=False)
        error = growth * self._unit(like.dtype, in_float32)
        if isinstance(error, torch.Tensor):
            error = torch.where(error > 0, error.clamp(min=once), 0.0)
        else:
            error = max(error, once)
        return self._moved(leaf, error, like.dtype)

    def _near_ties(self, values: Any, scale: Any, *rest: Any) -> Any:
        """Return arguments of a quantising operator, with values that may round the other way near
        a tie, as in integer arithmetic. The next seed shifts each the other way: one of two runs
        rounds an exact tie (a weight at the end of its channel's range) to the other neighbour."""
        step = float(scale if isinstance(scale, (int, float)) else scale.mean())
        return values + self._sides_of(values) * (TIE_STEPS * step), scale, *rest

    def beside_ties(self, values: Any, limit: Any) -> Any:
        """Return numbers of steps before they are rounded, each moved to one side by the roundings
        of its scale and its own, and by the next seed to the other side: one of two runs rounds a
        number that is this near a tie to the other neighbour.

        Args:
            limit: The largest number (or those) that they are computed from, in steps.
        """
        room = 2 * ROUNDING_EPSILONS * float(torch.finfo(values.dtype).eps)
        return values + self._sides_of(values).sign() * (room * limit)

    def _sides_of(self, values: Any) -> Any:
        """Return uniform numbers in [-1, 1] in the shape of values; the next seed has them with the
        other sign."""
        own, self._at = self._at, self._ties_at
        random = self._random(values.numel()).view(values.shape)
        self._ties_at, self._at = self._at, own
        return random * self._side

    @staticmethod
    def _rounds(leaf: Any) -> bool:
        return isinstance(leaf, torch.Tensor) and (leaf.is_floating_point() or leaf.is_complex())

    def _random(self, count: int) -> Any:
        """Return uniform numbers in [-1, 1], as float32."""
        if count > POOL_NUMBERS:
            return self._pool.repeat(-(-count // POOL_NUMBERS))[:count]
        if self._at + count > POOL_NUMBERS:
            self._at = (self._at * 31 + 7) % (POOL_NUMBERS - count + 1)
        values = self._pool[self._at : self._at + count]
        self._at += count
        return values

    def rounded(self, leaf: Any) -> Any:
        """Return a tensor with random relative errors of up to an epsilon; anything else
        unchanged, and so whole numbers: they are exact, and quantising goes by way of them."""
        return self._result(leaf, leaf, 1.0, in_float32=False)

    def _moved(self, leaf: Any, error: Any, dtype: Any = None, is_exact: bool | None = None) -> Any:
        """Return a tensor with random relative errors of up to `error` (a number, or a tensor with
        that of each element), in `dtype` (default: its own).

        Args:
            is_exact: Whether the numbers are exact; default: whole numbers are. Products of whole
                numbers with others are not.
        """
        dtype = dtype or leaf.dtype
        if not leaf.numel() or (_is_whole(leaf) if is_exact is None else is_exact):
            return leaf.to(dtype)
        if leaf.is_complex():
            return torch.complex(*(self._moved(part, error) for part in (leaf.real, leaf.imag)))
        wide = leaf.float() if leaf.dtype in HALVES else leaf
        random = self._random(leaf.numel()).view(leaf.shape).to(wide.dtype)
        if isinstance(error, torch.Tensor):
            moved = wide + wide * random * error
        else:
            moved = torch.addcmul(wide, wide, random, value=error)
        return _finite(moved.to(dtype), leaf)


def current() -> RandomRounding | None:
    """Return the mode of random rounding in which operators run now; None outside of one."""
    mode = _get_current_dispatch_mode()
    return mode if isinstance(mode, RandomRounding) else None


def samples(
    run: Callable[[RandomRounding], Any], seeds: Iterable[int], epsilon: float = 0.0
) -> list[Any] | None:
    """Return the results of runs of a model with random rounding; None where it cannot run so.

    Args:
        run: Calls the model under a mode, from the same state each time.
        seeds: Seeds of the random errors, one for each run.
        epsilon: As for RandomRounding.

    A model with operators that no dispatch mode can see (torch.cond and the like) raises under
    one; it has no measured noise.
    """
    runs = []
    for seed in seeds:
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                runs.append(run(RandomRounding(seed, epsilon)))
        except (RuntimeError, NotImplementedError, AssertionError, TypeError):
            torch._dynamo.reset()  # a failure of torch.cond's compiler stays for plain calls
            return None
    return runs
