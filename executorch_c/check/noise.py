"""Rounding noise of a PyTorch model: Monte Carlo arithmetic.

Each operator's floating-point result is multiplied by 1 + e, e uniform within one machine epsilon
of its dtype. The spread of the outputs over a few such runs is what another order of summation, a
fused operator or another approximation of a function may change in them: large where a model
amplifies rounding, nothing where it is exact. (D. S. Parker, Monte Carlo Arithmetic, 1997.)
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode

from executorch_c.compare import tolerance
from executorch_c.inspect.families import unsuffixed

EXACT = {
    "alias", "arange", "as_strided", "cat", "chunk", "clone", "constant_pad_nd", "copy",
    "detach", "embedding", "empty", "empty_like", "expand_copy", "eye", "fill", "flip", "full",
    "full_like", "gather", "index", "index_copy", "index_put", "index_select", "lift_fresh_copy",
    "masked_fill", "max_pool2d_with_indices", "max_pool2d", "neg", "ones", "ones_like",
    "permute_copy", "relu", "repeat", "roll", "scalar_tensor", "select_copy", "slice_copy",
    "slice_scatter", "sort", "split_with_sizes_copy", "squeeze_copy", "stack", "topk",
    "unsqueeze_copy", "view_copy", "where", "zeros", "zeros_like", "hardtanh", "clamp", "abs",
    "maximum", "minimum", "_to_copy", "tril", "triu",
}  # fmt: skip
"""Operators that do not round: they move, select or clamp numbers."""


CANCELS = {"elu", "gelu", "log_softmax", "_log_softmax", "mish", "softplus"}
"""Functions whose results may be small differences of numbers as large as the argument."""

POOL = (1 << 20) + 7
"""Random numbers that are drawn once; each tensor takes a stretch of them."""

GROWTH = 0.35
"""Sums of n terms round like one operation with GROWTH * sqrt(n) times the epsilon: the error of
adding up one after the other, which another implementation may do."""


@cache
def _pool() -> Any:
    """Return uniform numbers in [-1, 1], as float32."""
    generator = torch.Generator().manual_seed(0)
    return torch.rand(POOL, generator=generator).mul_(2).sub_(1)


def _is_whole(leaf: Any) -> bool:
    """Return True if all numbers of a real tensor are whole."""
    if leaf.is_complex():
        return False
    few = leaf.reshape(-1)[:16]
    return torch.equal(few, few.round()) and torch.equal(leaf, leaf.round())


def _terms(name: str, args: Any, result: Any) -> tuple[int, int | None]:
    """Return the number of terms of an operator's sums, and the argument that holds them."""
    tensors = [i for i, arg in enumerate(args) if isinstance(arg, torch.Tensor)]
    if not tensors or not args[tensors[0]].numel():
        return 1, None
    if name in ("convolution", "_convolution", "mkldnn_convolution", "convolution_overrideable"):
        transposed = len(args) > 6 and bool(args[6])
        weight = args[1]
        return max(weight.numel() // max(weight.shape[1 if transposed else 0], 1), 1), 0
    if name in ("mm", "bmm", "matmul", "linear", "mv", "dot", "mkldnn_linear"):
        return args[0].shape[-1], 0
    if name in ("addmm", "baddbmm", "addmv", "addbmm"):
        return args[1].shape[-1], 1
    if "attention" in name:
        return max(args[0].shape[-1], args[1].shape[-2]), 0
    if "softmax" in name or name in ("cumsum", "cumprod", "logcumsumexp"):
        return args[0].shape[args[1]] if args[0].ndim else 1, None
    if name in ("native_layer_norm", "native_group_norm", "batch_norm", "rms_norm"):
        return args[0].numel() // max(args[0].shape[0], 1), None
    first = result[0] if isinstance(result, (tuple, list)) and result else result
    if isinstance(first, torch.Tensor) and first.numel() and len(tensors) == 1:
        return max(args[tensors[0]].numel() // first.numel(), 1), tensors[0]
    return 1, None


class RandomRounding(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode in which operators round at random.

    Args:
        seed: Seed of the random errors.
        epsilon: Minimum relative error; default: the machine epsilon of each result's dtype. Larger
            if the program computes in a coarser dtype than the model.
    """

    def __init__(self, seed: int, epsilon: float = 0.0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._pool = _pool()
        self._at = seed * 104_729 % POOL
        self._ties_at, self._side = seed // 2 * 15_485_863 % POOL, 1 - 2 * (seed % 2)
        self._epsilon = epsilon

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = unsuffixed(func._schema.name)
        if name.startswith("quantize_"):
            return func(*self._near_ties(*args), **(kwargs or {}))
        result = func(*args, **(kwargs or {}))
        aliases = [one.alias_info for one in func._schema.returns]
        if name in EXACT or any(a is not None and not a.is_write for a in aliases):
            return result
        terms, place = _terms(name, args, result)
        growth = max(GROWTH * math.sqrt(terms), 1.0)
        if any(a is not None for a in aliases):  # in place
            for leaf in _pytree.tree_leaves(result):
                if self._rounds(leaf):
                    leaf.copy_(self.rounded(leaf, growth))
            return result
        if growth > 1 and place is not None:
            again = [self.rounded(arg, growth) if i == place else arg for i, arg in enumerate(args)]
            result = func(*again, **(kwargs or {}))
        if name in CANCELS:
            return result + (self.rounded(args[0]) - args[0]) + (self.rounded(result) - result)
        return _pytree.tree_map(lambda leaf: self.rounded(leaf, growth), result)

    def _near_ties(self, values: Any, scale: Any, *rest: Any) -> Any:
        """Return arguments of a quantising operator, with values that may round the other way near
        a tie, as in integer arithmetic. The next seed shifts each the other way: one of two runs
        rounds an exact tie (a weight at the end of its channel's range) to the other neighbour."""
        step = float(scale if isinstance(scale, (int, float)) else scale.mean())
        own, self._at = self._at, self._ties_at
        random = self._random(values.numel()).view(values.shape)
        self._ties_at, self._at = self._at, own
        return values + random * (self._side * tolerance.TIE * step), scale, *rest

    @staticmethod
    def _rounds(leaf: Any) -> bool:
        return isinstance(leaf, torch.Tensor) and (leaf.is_floating_point() or leaf.is_complex())

    def _random(self, count: int) -> Any:
        """Return uniform numbers in [-1, 1], as float32."""
        if count > POOL:
            return self._pool.repeat(-(-count // POOL))[:count]
        if self._at + count > POOL:
            self._at = (self._at * 31 + 7) % (POOL - count + 1)
        found = self._pool[self._at : self._at + count]
        self._at += count
        return found

    def rounded(self, leaf: Any, growth: float = 1.0) -> Any:
        """Return a tensor with random relative errors of up to `growth` epsilons; anything else as
        it is, and so whole numbers: they are exact, and quantising goes by way of them."""
        if not self._rounds(leaf) or not leaf.numel() or _is_whole(leaf):
            return leaf
        if leaf.is_complex():
            parts = [self.rounded(part, growth) for part in (leaf.real, leaf.imag)]
            return torch.complex(*parts)
        error = max(torch.finfo(leaf.dtype).eps, self._epsilon) * growth
        random = self._random(leaf.numel()).view(leaf.shape)
        if leaf.dtype in (torch.float16, torch.bfloat16):
            wide = leaf.float()
            found = torch.addcmul(wide, wide, random, value=error).to(leaf.dtype)
        else:
            found = torch.addcmul(leaf, leaf, random.to(leaf.dtype), value=error)
        return torch.where(found.isfinite(), found, leaf)  # masks: finfo.min or -inf stays


def samples(
    run: Callable[[RandomRounding], Any], count: int, epsilon: float = 0.0
) -> list[Any] | None:
    """Return the results of runs of a model with random rounding; None where it cannot run so.

    Args:
        run: Calls the model under a mode, from the same state each time.
        count: Number of runs.
        epsilon: As for RandomRounding.

    A model with operators that no dispatch mode can see (torch.cond and the like) raises under
    one; it has no measured noise.
    """
    found = []
    for seed in range(count):
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                found.append(run(RandomRounding(seed, epsilon)))
        except (RuntimeError, NotImplementedError, AssertionError, TypeError):
            torch._dynamo.reset()  # a failure of torch.cond's compiler stays for plain calls
            return None
    return found
