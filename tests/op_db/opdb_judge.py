"""When an output counts as eager's.

Type, shape and dtype are the same, and so are integers and bools. Floating-point elements are
within the error bound of the judge of all tests (judge.py): of eager's result in float64, in units
of the element itself and of what a change of the arguments by one unit changes. Positions that an
unstable order leaves open are right when they point at eager's values; vectors that are unique but
for their sign or phase are right when one number of magnitude 1 turns each into eager's.
"""

from __future__ import annotations

from typing import Any

import judge
import numpy as np
import variation
from judge import Limit

# Functions whose positions among equal values torch leaves open.
OPEN_ORDER = ("argsort", "sort", "topk", "kthvalue", "median", "nanmedian", "mode")
# Functions whose vectors have any sign or phase, and which outputs are vectors in rows or columns.
OPEN_PHASE = {"linalg.eig": {1: -2}, "linalg.eigh": {1: -2}, "linalg.svd": {0: -2, 2: -1},
              "svd": {0: -2, 2: -2}}  # fmt: skip
LIMIT = variation.LIMIT
"""A function is some operators one after the other, each of which rounds."""


def point_alike(found: np.ndarray, wanted: np.ndarray, values: np.ndarray) -> bool:
    """Whether different positions along some dimension of `values` hold the same elements."""
    if found.dtype != np.int64 or found.shape != wanted.shape or not values.ndim:
        return False
    for dim in range(values.ndim):
        a, b = (t if t.ndim == values.ndim else np.expand_dims(t, dim) for t in (found, wanted))
        fits = a.ndim == values.ndim and all(
            m == n for d, (m, n) in enumerate(zip(a.shape, values.shape, strict=True))
            if d != dim)  # fmt: skip
        if not fits or not all(0 <= t.min() <= t.max() < values.shape[dim] for t in (a, b)):
            continue
        pointed = (np.take_along_axis(values, t, dim) for t in (a, b))
        if judge.difference(*pointed, judge.EXACT) is None:
            return bool((np.diff(np.sort(a, dim), axis=dim) != 0).all())  # no position twice
    return False


def turned(found: np.ndarray, wanted: np.ndarray, axis: int) -> np.ndarray:
    """Vectors along an axis, each times the number of magnitude 1 that brings it nearest."""
    product = (judge.wide(found).conj() * judge.wide(wanted)).sum(axis, keepdims=True)
    size = np.abs(product)
    phase = np.where(size > 0, product / np.where(size > 0, size, 1), 1)
    return np.asarray((judge.wide(found) * phase).astype(found.dtype))


def difference(found: Any, wanted: Any, exact: Any = None, terms: Any = None,
               filled: bool = True) -> str | None:  # fmt: skip
    """Why `found` is not eager's result; None where it is. Without `terms` each element has only
    units of its own; what is not `filled` has a shape and a dtype."""
    if not filled and isinstance(wanted, np.ndarray) and isinstance(found, np.ndarray):
        wanted = found if (found.shape, found.dtype) == (wanted.shape, wanted.dtype) else wanted
    limit = LIMIT if terms is not None else Limit(LIMIT.ulps, stepwise=True)
    return judge.difference(found, wanted, limit, exact, terms)
