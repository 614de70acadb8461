"""When an output counts as eager's.

Shape and dtype are the same, and so are integers and bools. Floating-point elements are within
`torch.testing.assert_close`'s default tolerances of eager's, or no farther from what eager computes
in float64 than eager itself is (in units of the tensor's largest error): where eager loses digits,
a runtime that loses no more is right, too. Positions that an unstable order leaves open are right
when they point at eager's values; vectors that are unique but for their sign or phase are compared
by magnitude.
"""

from __future__ import annotations

from typing import Any

import torch


# Functions whose positions among equal values torch leaves open.
OPEN_ORDER = ("argsort", "sort", "topk", "kthvalue", "median", "nanmedian", "mode")
# Functions whose vectors have any sign or phase.
OPEN_PHASE = ("linalg.eig", "linalg.eigh", "linalg.svd", "svd")


def is_inexact(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def is_close(found: torch.Tensor, wanted: torch.Tensor) -> bool:
    """assert_close's defaults for the dtype, NaN equal to NaN."""
    try:
        torch.testing.assert_close(found, wanted, equal_nan=True)
    except AssertionError:
        return False
    return True


def is_as_exact(found: torch.Tensor, wanted: torch.Tensor, exact: torch.Tensor) -> bool:
    """Whether no element is farther from `exact` than twice eager's largest error."""
    wide = exact.dtype
    finite = exact.isfinite() & wanted.isfinite()
    if not torch.equal(found.isfinite(), wanted.isfinite()) or not finite.any():
        return False
    if not is_close(found[~finite], wanted[~finite]):
        return False
    error = (wanted.to(wide) - exact)[finite].abs().max()
    return bool((found.to(wide) - exact)[finite].abs().max() <= 2 * error)


def point_alike(found: torch.Tensor, wanted: torch.Tensor, values: torch.Tensor) -> bool:
    """Whether different positions along some dimension of `values` hold the same elements."""
    if found.dtype != torch.int64 or found.shape != wanted.shape or not values.dim():
        return False
    for dim in range(values.dim()):
        each = [t if t.dim() == values.dim() else t.unsqueeze(dim) for t in (found, wanted)]
        fits = each[0].dim() == values.dim() and all(
            a == b for d, (a, b) in enumerate(zip(each[0].shape, values.shape, strict=True))
            if d != dim)  # fmt: skip
        if not fits or not all(0 <= int(t.min()) <= int(t.max()) < values.shape[dim] for t in each):
            continue
        if is_close(*(values.gather(dim, t) for t in each)):
            ordered = each[0].sort(dim).values
            return bool((ordered.diff(dim=dim) != 0).all())  # no position twice
    return False


def difference(found: Any, wanted: Any, exact: Any = None, filled: bool = True) -> str | None:
    """Why `found` is not eager's result; None where it is."""
    if not isinstance(wanted, torch.Tensor):
        same = type(found) is type(wanted) and (found == wanted or found != found)
        return None if same else f"{found!r}, eager {wanted!r}"
    if not isinstance(found, torch.Tensor):
        return f"{type(found).__name__}, eager a tensor"
    if found.shape != wanted.shape:
        return f"shape {tuple(found.shape)}, eager {tuple(wanted.shape)}"
    if found.dtype != wanted.dtype:
        return f"{found.dtype}, eager {wanted.dtype}"
    if not filled or is_close(found, wanted):
        return None
    if is_inexact(wanted) and exact is not None and exact.shape == wanted.shape:
        if is_as_exact(found, wanted, exact):
            return None
    return describe(found, wanted)


def describe(found: torch.Tensor, wanted: torch.Tensor) -> str:
    """The first elements that differ most."""
    if is_inexact(wanted):
        wide = torch.complex128 if wanted.is_complex() else torch.float64
        found, wanted = found.to(wide), wanted.to(wide)
        gap = torch.nan_to_num((found - wanted).abs(), nan=torch.inf)
        gap = torch.where(found == wanted, 0.0, gap)
        gap = torch.where(found.isnan() & wanted.isnan(), 0.0, gap)
    else:
        gap = (found != wanted).double()
    at = int(gap.flatten().argmax())
    wrong = int((gap > 0).sum())
    values = f"{found.flatten()[at].item()}, eager {wanted.flatten()[at].item()}"
    return f"{wrong} of {wanted.numel()} elements, worst [{at}]: {values}"
