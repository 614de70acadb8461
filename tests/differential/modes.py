"""Modes in which eager computes otherwise: in float64, with other numbers where an operator defines
none, and in whole vectors."""

from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from tests import judge, variation
from tests.differential import ways


def name_of(target: Any) -> str:
    """Return the name of an operator, "aten::add"; empty for another function."""
    return getattr(getattr(target, "_schema", None), "name", "")


WIDE = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}
DEVIATIONS = ("aten::std", "aten::var")
VECTOR = 64
"""Elements: a multiple of those of eager's vectors."""


class Exact(variation.Noise):
    """Eager in float64, also where it computes integers in float32; variances of differences from
    the first number, so that those of equal numbers are 0."""

    def __init__(self) -> None:
        super().__init__(0.0, wide=True)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if name_of(func) in DEVIATIONS:
            args = (from_first(*args[:2], **(kwargs or {})), *args[1:])
        result = super().__torch_dispatch__(func, types, args, kwargs)
        narrow = isinstance(result, torch.Tensor) and result.dtype in variation.NARROW
        if not narrow or func._schema.is_mutable or any(r.alias_info for r in func._schema.returns):
            return result
        kwargs = {
            k: torch.float64 if v in variation.NARROW else v for k, v in (kwargs or {}).items()
        }
        near = func(*pytree.tree_map(as_float64, args), **kwargs)
        return near if near.dtype == torch.float64 and near.shape == result.shape else result


def from_first(x: torch.Tensor, dim: Any = None, **_: Any) -> torch.Tensor:
    """Return the differences of numbers from the first one along some dimensions (default: all)."""
    first = x
    for d in dim or range(x.dim()):
        first = first.narrow(d, 0, min(1, x.shape[d]))
    return x - first


def as_float64(value: Any) -> Any:
    """Return a real tensor in float64."""
    real = isinstance(value, torch.Tensor) and not value.is_complex()
    return value.double() if real else value


def widened(value: torch.Tensor) -> torch.Tensor:
    """Return a tensor in float64."""
    return value.to(WIDE.get(value.dtype, value.dtype))


DECOMPOSITIONS = frozenset(
    """
    cholesky cholesky_inverse geqrf linalg_cholesky_ex linalg_eig linalg_inv_ex
    linalg_ldl_factor_ex linalg_lu linalg_lu_factor_ex linalg_matrix_exp linalg_qr _linalg_det
    _linalg_eigh _linalg_slogdet _linalg_solve_ex _linalg_svd
""".split()
)


ELIMINATIONS = frozenset("linalg_ldl_factor_ex linalg_lu linalg_lu_factor_ex linalg_inv_ex".split())
"""Those that divide by what is left of a singular matrix: rounding alone."""


class Undefined(TorchDispatchMode):
    """Eager with other values where an operator defines none: a decomposition of a matrix with NaN
    or infinity, of one for which `info` says that it failed, or, by Gaussian elimination, of a
    singular one; the order of rows with NaN; polynomials of NaN, whose result eager leaves
    unwritten."""

    def __init__(self, other: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.other = other

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = func(*args, **(kwargs or {}))
        name = name_of(func).rpartition("::")[2]
        if "_polynomial_" in name and isinstance(args[0], torch.Tensor):
            failed = args[0].isnan().expand(results.shape)
            return torch.where(failed, self.other(results), results)
        if name not in DECOMPOSITIONS and name != "unique_dim":
            return results
        several = results if isinstance(results, tuple) else (results,)
        finite = args[0].isfinite()
        failed = ~(finite.all(-1).all(-1) if name in DECOMPOSITIONS else finite.all())
        if name in ELIMINATIONS and finite.all():
            failed |= torch.linalg.matrix_rank(args[0].double()) < min(args[0].shape[-2:])
        for result, returned in zip(several, func._schema.returns, strict=True):
            failed |= result > 0 if returned.name == "info" else False
        others = [changed_where(failed, result, self.other) for result in several]
        return type(results)(others) if isinstance(results, tuple) else others[0]


def changed_where(
    failed: torch.Tensor, result: torch.Tensor, other: Callable[[torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """Return a result with other numbers for some matrices of the batch."""
    here = failed.reshape(failed.shape + (1,) * (result.dim() - failed.dim()))
    return torch.where(here, other(result), result)


def negated(result: torch.Tensor) -> torch.Tensor:
    return -result - 1


def undefined(result: torch.Tensor) -> torch.Tensor:
    """Return NaN, of integers other numbers."""
    is_inexact = result.is_floating_point() or result.is_complex()
    return torch.full_like(result, torch.nan) if is_inexact else negated(result)


def counted(result: torch.Tensor) -> torch.Tensor:
    """Return 1, 2, 3 and so on, without the order or the NaN of the result."""
    return torch.arange(1, result.numel() + 1).reshape(result.shape).to(result.dtype)


OTHERS = (undefined, negated, counted)


class Padded(TorchDispatchMode):
    """Eager with operands of whole vectors: the rest of a tensor's elements are computed by another
    loop, which may treat NaN otherwise."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not isinstance(result, torch.Tensor) or func._schema.is_mutable or not result.numel():
            return result
        count, whole = -result.numel() % VECTOR, result.numel() // VECTOR * VECTOR
        try:
            longer = [
                padded(a.expand(result.shape), count) if isinstance(a, torch.Tensor) else a
                for a in args
            ]
            value = func(*longer, **(kwargs or {}))[: result.numel()].reshape(result.shape)
        except Exception:  # not pointwise
            return result
        same = judge.same(*(ways.arrayed(x.reshape(-1)[:whole]) for x in (value, result)))
        return value if same.all() else result


def padded(value: torch.Tensor, count: int) -> torch.Tensor:
    """Return the elements, and the first one several times more."""
    flat = value.reshape(-1)
    return torch.cat([flat, flat[:1].expand(count)])


class Squares(TorchDispatchMode):
    """Eager with the variance of layer norm from the mean of squares, as the portable kernel has
    it: far from eager's where the mean is far from 0."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if name_of(func) != "aten::native_layer_norm":
            return func(*args, **(kwargs or {}))
        x, shape, weight, bias, eps = args
        axes = list(range(x.dim() - len(shape), x.dim()))
        mean = x.mean(axes, keepdim=True)
        rstd = ((x * x).mean(axes, keepdim=True) - mean * mean + eps).rsqrt()
        scaled = (x - mean) * rstd
        scaled = scaled if weight is None else scaled * weight
        return scaled if bias is None else scaled + bias, mean, rstd


class DivisorsOfZero(TorchDispatchMode):
    """Eager with an infinity of the dividend's sign where quotients by 0 are rounded down."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        is_floor = (kwargs or {}).get("rounding_mode") == "floor"
        is_floor |= name_of(func) == "aten::floor_divide"
        if not is_floor or not result.is_floating_point():
            return result
        a, b = (x if isinstance(x, torch.Tensor) else torch.tensor(x) for x in args[:2])
        infinity = torch.where(a.signbit(), -torch.inf, torch.inf).to(result.dtype)
        return torch.where(b == 0, infinity, result)
