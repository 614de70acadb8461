"""Judge of the operator database: equality of an output with eager's.

Type, shape and dtype must be equal, and so must integers and bools. Floating-point elements must be
within the error bound of the judge of all tests (judge.py) around eager's float64 result, in units
of the element and of its change when the arguments change by one unit. Positions in an unstable
order are right if they refer to eager's values. Vectors that are unique except for sign or phase
are right if a factor of magnitude 1 turns each into eager's.
"""

from typing import Any

import numpy as np

from tests import judge, variation
from tests.judge import Limit

# Functions whose positions among equal values are undefined in torch.
OPEN_ORDER = ("argsort", "sort", "topk", "kthvalue", "median", "nanmedian", "mode")
# Functions whose vectors have any sign or phase: outputs with vectors in rows or columns.
OPEN_PHASE = {
    "linalg.eig": {1: -2},
    "linalg.eigh": {1: -2},
    "linalg.svd": {0: -2, 2: -1},
    "svd": {0: -2, 2: -2},
}
LIMIT = variation.LIMIT
"""A function is a sequence of operators, each of which rounds."""


def point_alike(output: np.ndarray, wanted: np.ndarray, values: np.ndarray) -> bool:
    """Return True if different positions along some dimension of `values` hold equal elements."""
    if output.dtype != np.int64 or output.shape != wanted.shape or not values.ndim:
        return False
    for dim in range(values.ndim):
        a, b = (t if t.ndim == values.ndim else np.expand_dims(t, dim) for t in (output, wanted))
        fits = a.ndim == values.ndim and all(
            m == n for d, (m, n) in enumerate(zip(a.shape, values.shape, strict=True)) if d != dim
        )
        if not fits or not all(0 <= t.min() <= t.max() < values.shape[dim] for t in (a, b)):
            continue
        pointed = (np.take_along_axis(values, t, dim) for t in (a, b))
        if judge.difference(*pointed, judge.EXACT) is None:
            return bool((np.diff(np.sort(a, dim), axis=dim) != 0).all())  # no duplicates
    return False


def turned(output: np.ndarray, wanted: np.ndarray, axis: int) -> np.ndarray:
    """Return vectors along an axis, each multiplied by the number of magnitude 1 that brings it
    nearest."""
    product = (judge.wide(output).conj() * judge.wide(wanted)).sum(axis, keepdims=True)
    size = np.abs(product)
    phase = np.where(size > 0, product / np.where(size > 0, size, 1), 1)
    return np.asarray((judge.wide(output) * phase).astype(output.dtype))


def difference(
    output: Any, wanted: Any, exact: Any = None, terms: Any = None, filled: bool = True
) -> str | None:
    """Return the difference between `output` and eager's result as text; None without one. Without
    `terms`, each element has only its own units; only shape and dtype of outputs that are not
    `filled` are compared."""
    if not filled and isinstance(wanted, np.ndarray) and isinstance(output, np.ndarray):
        wanted = output if (output.shape, output.dtype) == (wanted.shape, wanted.dtype) else wanted
    limit = LIMIT if terms is not None else Limit(LIMIT.ulps, stepwise=True)
    return judge.difference(output, wanted, limit, exact, terms)
