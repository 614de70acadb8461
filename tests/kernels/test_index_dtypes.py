"""Dtypes of indices, offsets, counts and masks: eager's, in every operator with such an argument,
with equal results for all of them."""

from typing import Any

import numpy as np
import pytest

from tests.kernels.accuracy import check
from tests.kernels.eager import ALL
from tests.kernels.rows import REFUSALS, eager
from tests.op_harness import OpError, Out, run

X = np.arange(12, dtype=np.float32).reshape(3, 4)
IMAGE = X.reshape(1, 1, 3, 4)
GRAD = np.ones((1, 1, 1, 2), np.float32)
EYE = np.eye(3, dtype=np.float32)
POOL = [[2, 2], [2, 2], [0, 0], [1, 1], False]
BAG: list[Any] = [False, 0, False, None, False, -1]


class At:
    """Marks the argument whose dtype varies: ones and zeros of some shape."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)


ROWS, LONG, NONE = At([1, 0, 1]), At([1, 0, 1, 1]), At(np.zeros((0,)))
CELLS = At([[1, 0, 0, 1], [0, 1, 1, 0]])
CALLS: dict[str, list[list[Any]]] = {
    "aten::gather.out": [
        [X, 0, CELLS, False],
        [X[0], 0, At(1), False],
        [X, 0, At(np.zeros((0, 4))), False],
    ],
    "aten::scatter.src_out": [[X, 0, CELLS, X], [X, 0, At(np.zeros((0, 4))), X]],
    "aten::scatter.value_out": [[X, 0, CELLS, 2.0]],
    "aten::scatter.reduce_out": [[X, 0, CELLS, X, "add"]],
    "aten::scatter.value_reduce_out": [[X, 0, CELLS, 2.0, "multiply"]],
    "aten::scatter_add.out": [[X, 0, CELLS, X]],
    "aten::scatter_reduce.two_out": [[X, 0, CELLS, X, "sum", True]],
    "aten::index_reduce.out": [[X, 0, ROWS, X, "prod", True]],
    "aten::index_select.out": [[X, 0, ROWS], [X, 0, At(1)], [X, 0, NONE]],
    "aten::index.Tensor_out": [
        *([X, [ROWS]], [X, [None, LONG]], [X, [ROWS, np.array([3, 0, 1])]]),
        [X, [ROWS, np.array([3, 0, 1], np.int32)]],
        *([X, [np.array([True, False, True]), At(1)]], [X, [At(1)]], [X, [NONE]], [X, [CELLS]]),
        *([X, [At(np.ones((3, 4)))]], [X, [At([1, 0])]], [X, [At(np.zeros((0, 4)))]]),
    ],
    "aten::index_put.out": [
        [X, [ROWS], X[:1], False],
        [X, [ROWS, np.array([3, 0, 1], np.int32)], X[0, :1], True],
        [X, [At(np.ones((3, 4)))], X[0, :1], True],
        [X, [NONE], X[:1], False],
        [X, [At(1)], X[0], True],
        [X, [ROWS, At(1)], X[0, :1], True],
    ],
    "aten::put.out": [[X, ROWS, X[0, :3], False], [X, NONE, X[0, :0], False]],
    "aten::embedding.out": [[X, ROWS, -1, False, False], [X, NONE, -1, False, False]],
    "aten::_embedding_bag.out": [
        [X, ROWS, At([0, 1]), *BAG],
        [X, ROWS, np.array([0, 1]), *BAG],
        [X, ROWS, np.array([0, 1], np.int32), *BAG],
        [X, np.array([2, 1, 0]), At([0, 1]), *BAG],
        [X, np.array([2, 1], np.int32), At([0, 1]), *BAG],
    ],
    "aten::embedding_dense_backward.out": [[X, ROWS, 3, -1, False]],
    "aten::embedding_renorm.out": [[X, ROWS, 1.0, 2.0]],
    "aten::segment_reduce.out": [
        [X, "sum", At([1, 1, 1]), None, None, 0, False, None],
        [X, "sum", None, None, At([0, 1, 1]), 0, True, None],
    ],
    "aten::masked_fill.Scalar_out": [[X, LONG, 2.0]],
    "aten::masked_select.out": [[X, LONG]],
    "aten::masked_scatter.out": [[X, LONG, X]],
    "aten::where.self_out": [[LONG, X, -X]],
    "aten::repeat_interleave.Tensor_out": [[ROWS, None]],
    "aten::searchsorted.Tensor_out": [[X[0, :2], X[0], False, False, None, At([0, 1])]],
    "aten::max_pool2d_with_indices_backward.grad_input": [
        [GRAD, IMAGE, *POOL, At(np.ones((1, 1, 1, 2)))]
    ],
    "aten::adaptive_max_pool2d_backward.grad_input": [[GRAD, IMAGE, At(np.ones((1, 1, 1, 2)))]],
    "aten::lu_unpack.out": [[EYE, At([1, 2, 3]), True, True]],
    "aten::linalg_lu_solve.out": [[EYE, At([1, 2, 3]), EYE, True, False]],
    "aten::linalg_ldl_solve.out": [[EYE, At([1, 2, 3]), EYE, False]],
}


# Here we deviate: eager makes masked_fill of index_put with one value and one mask,
# which takes no uint8 (as the general way does), but a 0-d bool (as the general way does not).
WITH_ONE_VALUE = [X, [np.array([[True], [False], [True]]).repeat(4, 1)], X[0, 1:2], False]


def filled(value: Any, dtype: str) -> Any:
    if isinstance(value, list):
        return [filled(v, dtype) for v in value]
    return value.values.astype(dtype) if isinstance(value, At) else value


def taken_by_eager(name: str, args: list) -> list[np.ndarray] | None:
    try:
        return eager(name, args)
    except REFUSALS:
        return None


@pytest.mark.filterwarnings("ignore")  # eager's own
@pytest.mark.parametrize("name", CALLS)
def test_dtypes(name: str) -> None:
    for call in CALLS[name]:
        tried = {d: filled(call, d) for d in ALL if d != "bfloat16"}
        wanted = {d: taken_by_eager(name, args) for d, args in tried.items()}
        accepted = [d for d in wanted if wanted[d] is not None]
        assert accepted, call
        for dtype, args in tried.items():
            if dtype in accepted:
                check(name, args)
                continue
            outs = [Out(w.shape, w.dtype.name) for w in wanted[accepted[-1]] or []]
            with pytest.raises(OpError):
                run(name, [*args, *outs])
                pytest.fail(f"eager rejects {dtype} in {call}, it accepts {accepted}")


def test_masks_of_one_value() -> None:
    wanted = eager("aten::index_put.out", WITH_ONE_VALUE)[0]
    x, (mask,), value, _ = WITH_ONE_VALUE
    for dtype in ("bool", "uint8"):
        output = run("aten::index_put.out", [x, [mask.astype(dtype)], value, False, Out((3, 4))])[0]
        np.testing.assert_array_equal(output, wanted)
