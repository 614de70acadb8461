"""Nodes of MLX at the edges of their dtypes and shapes, as rows of mlx_rows.py."""

from typing import Any

import numpy as np

from tests.backends.mlx_nodes import integer
from tests.backends.mlx_references import F, H, I32, I64, U8, U32, Array, floats, ints
from tests.backends.mlx_rows import BOOLS, Row, X

U64 = np.uint64
BIG = np.array([[2**63, 5, 2**64 - 1], [2**63 - 1, 0, 2**63 + 7]], U64)
OTHER = np.array([[2**63 - 1, 2**63, 7], [2**63, 3, 2**63 + 7]], U64)
FINITE = np.array([1, -1, 2.5, -2.5, 7.5, -7], F)
DIVISORS = np.array([np.inf, np.inf, -np.inf, 2, -2.5, 2.5], F)


def added(x: Array, indices: Array, updates: Array, axis: int) -> Array:
    """Return the result of ScatterAdd: all shapes broadcast, except that of `x` in the axis."""
    updates = updates.reshape(updates.shape[-x.ndim :])
    indices, updates = np.broadcast_arrays(indices, updates)
    sizes = list(np.broadcast_shapes(x.shape[:axis], indices.shape[:axis]))
    shape = [*sizes, x.shape[axis], *x.shape[axis + 1 :]]
    result = np.broadcast_to(x, shape).copy()
    places = list(np.indices(indices.shape))
    places[axis] = indices
    np.add.at(result, tuple(places), updates.astype(x.dtype))
    return result


def scattered(x: Array, indices: Array, updates: Array, axis: int, **more: Any) -> Row:
    inputs = [x, indices, updates]
    return Row(
        "ScatterAdd",
        inputs,
        lambda *t: added(*t, axis),
        {"axis": axis},
        "x indices updates",
        **more,
    )


ROWS = [
    # uint64 from 2 ** 63 on
    *(
        Row(name, [BIG, OTHER], f, names="a b", dtype=dtype)
        for name, f, dtype in (
            ("Less", np.less, bool),
            ("LessEqual", np.less_equal, bool),
            ("Greater", np.greater, bool),
            ("GreaterEqual", np.greater_equal, bool),
            ("Equal", np.equal, bool),
            ("Maximum", np.maximum, U64),
            ("Minimum", np.minimum, U64),
            ("FloorDivide", np.floor_divide, U64),
            ("Remainder", np.remainder, U64),
            ("Divide", np.divide, F),
            ("Add", np.add, U64),
        )
    ),
    Row("Maximum", [BIG, ints(2, 3, low=0).astype(U8)], np.maximum, names="a b", dtype=U64),
    *(
        Row(name, [BIG], f, dtype=dtype)
        for name, f, dtype in (
            ("Abs", np.abs, None),
            ("Sign", np.sign, None),
            ("Floor", lambda x: x, None),
            ("Max", np.max, None),
            ("Min", np.min, None),
            ("Median", lambda x: np.median(x.astype(np.float64)), F),
            ("Sqrt", lambda x: np.sqrt(x.astype(np.float64)), F),
        )
    ),
    Row("Sort", [BIG], lambda x: np.sort(x, 1), {"axis": 1}),
    Row("Argsort", [BIG], lambda x: np.argsort(x, 1), {"axis": 1}, dtype=U32),
    Row("Partition", [BIG], lambda x: np.sort(x, 0), {"kth": integer(1), "axis": 0}),
    Row("Argmax", [BIG], lambda x: x.argmax(1), {"axis": 1}, dtype=U32),
    Row("Argmin", [BIG], lambda x: x.argmin(0), {"axis": 0}, dtype=U32),
    Row("Clip", [BIG, OTHER[0, 2], OTHER[0, 1]], np.clip, names="x a_min a_max"),
    Row("AsType", [BIG], lambda x: x, {"scalar_type": 6}, dtype=F),
    Row(
        "AsType", [np.array([2.0**63, 1.5e19, 3.0], F)], lambda x: x, {"scalar_type": 29}, dtype=U64
    ),
    Row("Sum", [X], np.sum, {"axes": []}),
    # bools as numbers
    *(Row(name, [BOOLS], lambda x: x) for name in ("Floor", "Ceil", "Trunc", "Round", "Abs")),
    Row("Argmax", [BOOLS], lambda x: x.argmax(0), {"axis": 0}, dtype=U32),
    Row("Clip", [BOOLS, np.array(False)], np.minimum, names="x a_max"),
    Row("Round", [ints(3, 4) * 7], lambda x: np.round(x / 10) * 10, {"decimals": -1}),
    # quotients of floats
    Row(
        "FloorDivide",
        [FINITE, DIVISORS],
        lambda a, b: np.floor(a / b),
        names="a b",
    ),
    # indices and updates that broadcast
    scattered(X, np.array([[0], [2], [-1]]), floats(3, 4), 0),
    scattered(X, np.array([[1, 0, 2, 1]], I32), floats(3, 4), 0),
    scattered(X, np.array([[0, 3], [1, 1], [2, -4]], np.int16), floats(1, 1), 1),
    scattered(X, np.array([[0, 3], [1, 1], [2, 2]], U8), floats(2), 1),
    scattered(X, np.array([[0, 3, 3]]), floats(1, 3, 1, 3)[:, :, 0], 1),
    scattered(X[:1], np.array([[0, 3], [1, 1]]), floats(2, 2), 1),
    scattered(X.astype(H), np.array([[0, 0, 1]] * 3), floats(3, 3), 1, limit=3e-3),
    scattered(BIG, np.array([[0, 0, 2]] * 2), OTHER, 1),
    scattered(ints(2, 3).astype(I64), np.array([[0, 0, 2]] * 2), floats(2, 3), 1),
]
