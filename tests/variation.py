"""Variation of eager's own results: runs of a module with random rounding of every operator.

`Noise` changes the operands and results of each operator by a relative step, up or down at random,
like rounding. (Operands, because the error of a sum is relative to its terms.) The resulting
variation is the effect of another order of arithmetic, fused products or another library, so the
judge's limits are in units of it. In float64 with a small step, it is the sensitivity of each
element of each result (`terms`). In the dtypes of the model with a step of one last place, it is
the limit of each element's error (`rooms`). In quantised models, it is 0 except near rounding ties.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from executorch_c.noise.sums import EXACT
from tests import judge

DRAWS = 8
NARROW = (torch.float32, torch.float16, torch.bfloat16)
MOVES = EXACT | {name.removesuffix("_copy") for name in EXACT} | {"lift_fresh", "pad", "reshape"}
"""Operators that only move or compare numbers, by the names of eager models, too."""


class Noise(TorchDispatchMode):
    """Random rounding of operands and results. With `wide`, a model's conversions to float32 become
    conversions to float64."""

    supports_higher_order_operators = True

    def __init__(self, step: float, seed: int = 0, wide: bool = False) -> None:
        super().__init__()
        self.step, self.wide = step, wide
        self.random = torch.Generator().manual_seed(seed)

    def moved(self, x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or not (x.is_floating_point() or x.is_complex()):
            return x
        moves = (torch.randint(0, 2, x.shape, generator=self.random) * 2 - 1).to(x.dtype)
        if x.is_complex():
            moves = moves * (1j ** torch.randint(0, 2, x.shape, generator=self.random)).to(x.dtype)
        return x * (1 + self.step * moves)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not isinstance(func, torch._ops.OpOverload):  # control flow
            return func(*args, **kwargs)
        if self.wide and kwargs.get("dtype") in NARROW:
            kwargs = {**kwargs, "dtype": torch.float64}
        moves = func._schema.name.split("::")[1] in MOVES or func._schema.is_mutable
        moves = moves or any(r.alias_info for r in func._schema.returns)
        if not moves and self.step:
            args = pytree.tree_map(self.moved, args)
        results = func(*args, **kwargs)
        if moves or not self.step:
            return results
        if func._schema.name.startswith("aten::upsample"):
            results = self.moved_positions(results)
        return pytree.tree_map(self.moved, results)

    def moved_positions(self, x: torch.Tensor) -> torch.Tensor:
        """Return positions that are rounded, with neighbours weighted by the fraction: their error
        is the position times the elements around."""
        pool = getattr(torch.nn.functional, f"max_pool{x.dim() - 2}d")
        around = pool(x.abs(), 3, 1, 1) * max(x.shape[2:])
        return x + (self.moved(around) - around)


def arrays(outputs: Any) -> list[Any]:
    """Return flat tensors as arrays."""
    return [
        x.detach().resolve_conj().resolve_neg().numpy() if isinstance(x, torch.Tensor) else x
        for x in pytree.tree_leaves(outputs)
    ]


def exactly(run: Callable[[], Any], step: float = 0.0, seed: int = 0) -> Any:
    """Return the results of a run in float64, without the model's conversions to float32."""
    with torch.no_grad(), torch.compiler.set_stance("force_eager"), Noise(step, seed, wide=True):
        return run()


@torch.no_grad()
def terms(run: Callable[[], Any], exact: list[Any], draws: int = DRAWS) -> list[Any]:
    """Return the change of the results of a run in float64, relative to the step (judge.slopes)."""
    return judge.slopes(exact, lambda seed, step: arrays(exactly(run, step, seed)), draws)


LAST_PLACES = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23}


@torch.no_grad()
def rooms(
    run: Callable[[], list[np.ndarray]], step: float, ulps: float = 2, draws: int = 16
) -> list[Any]:
    """Return the allowed errors of a run's array results: twice the change when each operator is
    off by a step, and units in the last place. None for integers."""
    wanted = run()
    items = [np.zeros(w.shape) if judge.is_inexact(w.dtype.name) else None for w in wanted]
    for seed in range(draws):
        with Noise(step, seed):
            others = run()
        for room, other, w in zip(items, others, wanted, strict=True):
            if room is not None:
                gap = judge.distance(other, w, w.dtype.name)
                np.maximum(room, np.where(np.isfinite(gap), 2 * gap, 0), out=room)
    return [
        None if room is None else room + ulps * judge.ulp(w, w.dtype.name)
        for room, w in zip(items, wanted, strict=True)
    ]


LIMIT = judge.Limit(2, 4, stepwise=True)
"""Limits for results of several operators: units in their own last place, and of their
variation."""


def doubled(value: Any) -> Any:
    """Return copies of modules and tensors in float64."""
    if isinstance(value, torch.nn.Module):
        return copy.deepcopy(value).double()
    if isinstance(value, torch.Tensor):
        return value.detach().double() if value.is_floating_point() else value.detach().clone()
    return value


@torch.no_grad()
def assert_eager(
    found: Sequence[Any], function: Callable[..., Any], *inputs: Any, limit: judge.Limit = LIMIT
) -> None:
    """Assert that flat outputs are eager's: of a module, or of a function of its inputs alone."""
    wanted = arrays(copy.deepcopy(function)(*copy.deepcopy(inputs)))
    wide = doubled(function)

    def run() -> Any:
        return wide(*map(doubled, inputs))

    exact = arrays(exactly(run))
    assert len(found) == len(wanted)
    for i, (f, w, e, t) in enumerate(zip(found, wanted, exact, terms(run, exact), strict=True)):
        f = f if isinstance(f, np.ndarray) or not isinstance(f, torch.Tensor) else f.numpy()
        where = f"output {i}"
        if t is None:
            judge.assert_right(f, w, where, judge.EXACT)
        else:
            judge.assert_right(f, w, where, limit, e, t)
