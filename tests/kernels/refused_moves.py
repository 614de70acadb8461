"""Calls of operators that move elements, sort, reduce or make tensors, which are refused, with the
words of the message."""

from typing import Any

import numpy as np

from tests.dtypes import dtype_id
from tests.op_harness import Out, Ret

F = np.float32
BIG = 2**62
NAN = float("nan")
Rows = list[tuple[str, list[Any], str | list[str]]]


def ones(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.ones(shape, dtype)


A = np.arange(6, dtype=F).reshape(2, 3)
Z = np.array(1, F)
VIEWS: Rows = [
    ("permute_copy.out", [A, [0, 0], Out((2, 3))], ["'dims'", "dimension 0", "more than once"]),
    ("permute_copy.out", [A, [0], Out((2, 3))], ["'dims'", "expected 2"]),
    ("permute_copy.out", [A, [1, 0], Out((3, 2), "float64")], ["'out'", "float64", "float32"]),
    ("permute_copy.out", [A, [1, 0], Out((3, 1))], ["'out'", "(3, 2)", "upper bound is 3"]),
    ("permute_copy.out", [A, [1, 0], Out((6,))], ["'out'", "rank"]),
    ("t_copy.out", [A[None], Out((1, 3, 2))], ["'self'", "at most 2"]),
    ("view_copy.out", [A, [4, 2], Out((4, 2))], ["'size'", "(4, 2)", "6 elements"]),
    ("view_copy.out", [A, [-1, -1], Out((4, 2))], ["'size'", "more than one"]),
    ("view_copy.out", [A[:0], [0, -1], Out((0, 2))], ["'size'", "-1 is ambiguous"]),
    ("view_copy.out", [A, [-1, 4], Out((4, 2))], ["'size'", "(-1, 4)"]),
    ("view_copy.out", [A, [BIG, BIG, 4], Out((4, 2, 1))], ["'size'"]),
    ("view_copy.out", [A, [-2, -3], Out((2, 3))], ["'size'"]),
    ("expand_copy.out", [A, [2, 4], False, Out((2, 4))], ["'size'", "(2, 4)", "(2, 3)"]),
    ("expand_copy.out", [A, [-1, 2, 3], False, Out((2, 4, 1))], ["'size'"]),
    ("expand_copy.out", [A, [3], False, Out((3,))], ["'size'", "expected 2"]),
    ("expand_copy.out", [A[:1], [BIG, 3], False, Out((2, 3))], ["'out'", "impossible"]),
    ("unsqueeze_copy.out", [A, 3, Out((2, 3, 1))], ["dim 3", "[-3, 2]"]),
    ("squeeze_copy.dims_out", [A, [0, -2], Out((2, 3))], ["'dim'", "more than once"]),
    ("slice_copy.Tensor_out", [A, 0, 0, 1, 0, Out((1, 3))], ["'step'", "positive"]),
    ("slice_copy.Tensor_out", [A, 2, 0, 1, 1, Out((1, 3))], ["dim 2"]),
    ("slice_copy.Tensor_out", [Z, 0, 0, 1, 1, Out(())], ["'self'", "0-d"]),
    ("select_copy.int_out", [A, 1, 3, Out((2,))], ["'index'", "3", "dimension 1 of size 3"]),
    ("narrow_copy.out", [A, 1, 2, 2, Out((2, 2))], ["'length'", "dimension 1 has 3"]),
    ("narrow_copy.out", [A, 1, 4, 0, Out((2, 2))], ["'start'", "4"]),
    ("narrow_copy.out", [A, 1, 0, -1, Out((2, 2))], ["'length'", "-1"]),
    ("split_copy.Tensor_out", [A, 0, 1, [Out((2, 3))]], ["'split_size'", "parts of 0"]),
    ("split_copy.Tensor_out", [A, 2, 1, [Out((2, 2))]], ["'out'", "1 tensors, expected 2"]),
    ("split_copy.Tensor_out", [A, 2, 1, [Out((2, 2)), Out((2, 1), "int8")]], ["item 1", "int8"]),
    ("split_with_sizes_copy.out", [A, [1, 1], 1, [Out((2, 1))] * 2], ["'split_sizes'", "leave 1"]),
    ("split_with_sizes_copy.out", [A, [4, -1], 1, [Out((2, 1))] * 2], ["'split_sizes'", "part 0"]),
    ("split_with_sizes_copy.out", [A, [1, 2], 1, [Out((2, 1)), Out((2, 1))]], ["'out', item 1"]),
    ("unbind_copy.int_out", [A, 0, [Out((3,))]], ["'out'", "expected 2"]),
    ("cat.out", [[A, A[:, :2]], 0, Out((4, 3))], ["'tensors'", "item 1", "(2, 2)", "(2, 3)"]),
    ("cat.out", [[A, Z], 0, Out((4, 3))], ["'tensors'", "item 1", "0-d"]),
    ("cat.out", [[A, A], 2, Out((4, 3))], ["dim 2"]),
    ("cat.out", [[A, A], 0, Out((4, 3), "int64")], ["'out'", "int64"]),
    ("cat.out", [[], 0, Out((4, 3))], ["'tensors'", "at least one"]),
    ("stack.out", [[A, A[:1]], 0, Out((2, 2, 3))], ["'tensors'", "item 1", "(1, 3)"]),
    ("repeat.out", [A, [2], Out((4, 3))], ["'repeats'", "expected 2"]),
    ("repeat.out", [A, [2, -1], Out((4, 3))], ["'repeats'", "-1"]),
    ("repeat.out", [A, [BIG, BIG], Out((4, 3))], ["'repeats'"]),
    ("flip.out", [A, [0, -2], Out((2, 3))], ["'dims'", "more than once"]),
    ("roll.out", [A, [1, 2], [0], Out((2, 3))], ["'shifts'", "2 shifts for 1"]),
    ("roll.out", [A, [1, 2], [], Out((2, 3))], ["'shifts'", "expected 1"]),
    ("slice_scatter.out", [A, A[:1], 0, 0, 2, 1, Out((2, 3))], ["'src'", "(1, 3)", "(2, 3)"]),
    ("select_scatter.out", [A, A[0], 0, 2, Out((2, 3))], ["'index'", "2"]),
    ("constant_pad_nd.out", [A, [1], 0, Out((2, 3))], ["'pad'", "pairs"]),
    ("constant_pad_nd.out", [A, [1] * 6, 0, Out((2, 3))], ["'pad'", "2 dimensions"]),
    ("constant_pad_nd.out", [A, [-2, -2], 0, Out((2, 3))], ["'pad'", "dimension 1 of size 3"]),
    ("constant_pad_nd.out", [A, [-4, 3], 0, Out((2, 3))], ["'pad'"]),
    ("constant_pad_nd.out", [A, [2**63 - 1, 2**63 - 1], 0, Out((2, 3))], ["'pad'"]),
    ("tril.out", [A[0], 0, Out((3,))], ["'self'", "at least 2"]),
    ("as_strided_copy.out", [A, [2, 2], [3, 3], 2, Out((2, 2))], ["'self'", "6 elements"]),
    ("as_strided_copy.out", [A, [2, 2], [1, -1], 2, Out((2, 2))], ["'stride'", "-1"]),
    ("as_strided_copy.out", [A, [BIG, 2], [BIG, 1], 0, Out((2, 2))], ["'self'"]),
    ("as_strided_copy.out", [A, [1], [1], 2**63 - 1, Out((1,))], ["'self'"]),
    ("diagonal_copy.out", [A, 0, 1, -1, Out((2,))], ["'dim2'", "twice"]),
    ("pixel_shuffle.out", [A[None], 2, Out((1, 4, 6))], ["'self'", "1 channels"]),
    ("pixel_shuffle.out", [A[None], 0, Out((1, 4, 6))], ["'upscale_factor'", "positive"]),
    ("pixel_shuffle.out", [A[None], BIG, Out((1, 4, 6))], ["'self'"]),
    ("pixel_unshuffle.out", [A[None], 2, Out((4, 1, 1))], ["'self'", "width 3"]),
    ("unfold_copy.out", [A, 1, 4, 1, Out((2, 1, 4))], ["'size'", "windows of 4"]),
    *(
        (f"{name}.out", [ones(*(2, 1) * 8), *tail, Out((1,) * 16)], "16 dimensions")
        for name, tail in (("unsqueeze_copy", [0]), ("unfold_copy", [0, 1, 1]))
    ),
    ("stack.out", [[ones(*(2, 1) * 8)], 0, Out((1,) * 16)], "16 dimensions"),
    ("clone.out", [A, None, Out((2, 3), "int32")], "'out': dtype int32, expected one of float32"),
    ("clone.out", [A, None, Out((6,))], ["'out'", "rank"]),
    ("copy.out", [A, ones(3, 2), False, Out((2, 3))], "'src': shape (3, 2) does not broadcast to"),
    ("copy_", [Out((3, 4)), ones(2, 3, 4), False], "'src': shape (2, 3, 4)"),
]
INDICES = "'indices'"
A = np.arange(12, dtype=F).reshape(3, 4)
AT = np.array([0, 3])
LOW = np.array([-4])
SHORT = np.array([1], np.int16)
PLACE = ["index 3", "dimension 0 of size 3"]
B, BYTES, TOO_LARGE = A.astype("u1"), Out((3, 4), "uint8"), "300 does not fit dtype uint8"
REDUCED_AT, OUT, BOOLS = "scatter_reduce.two_out", Out((3,)), Out((3, 4), "bool")
COMPLEX, PLACES = Out((3, 4), "complex64"), AT[None, :1]
BAG: list[Any] = [False, 1, False, None, False, -1]


def bags(at: list, starts: list) -> list:
    n = len(starts)
    outs = [Out((n, 2)), *(Out((k,), "int64") for k in (2, n, n))]
    return [np.zeros((4, 2), F), np.array(at), np.array(starts), *BAG, *outs]


def segments(lengths: list | None, offsets: list | None) -> list:
    arguments = [None if v is None else np.array(v, np.int64) for v in (lengths, None, offsets)]
    return [np.zeros(4, F), "sum", *arguments, 0, False, None, Out((2,))]


INDEXED: Rows = [
    ("embedding.out", [A, AT, -1, False, False, Out((2, 4))], [INDICES, *PLACE]),
    ("embedding.out", [A, np.array([-1]), -1, False, False, Out((1, 4))], [INDICES, "index -1"]),
    ("embedding.out", [A, SHORT, -1, False, False, Out((1, 4))], ["'indices'", "int16"]),
    ("embedding.out", [A[0], AT, -1, False, False, Out((2, 4))], ["'weight'", "expected 2"]),
    ("embedding.out", [A, AT[:1], -1, False, False, Out((1, 4), "int8")], ["'out'", "int8"]),
    ("index_select.out", [A, 0, AT, Out((2, 4))], ["'index'", *PLACE]),
    ("index_select.out", [A, 0, AT[None], Out((2, 4))], ["'index'", "2 dimensions"]),
    ("index_select.out", [np.array(1.0), 0, AT, Out((), "float64")], ["'index'", "exactly one"]),
    ("index.Tensor_out", [A, [AT], Out((2, 4))], [INDICES, *PLACE]),
    ("index.Tensor_out", [A, [LOW], Out((1, 4))], ["'indices'", "index -4"]),
    ("index.Tensor_out", [A, [None, np.array([4])], Out((3, 1))], ["index 4", "dimension 1 of"]),
    ("index.Tensor_out", [A, [SHORT], Out((1, 4))], ["'indices'", "int16"]),
    ("index.Tensor_out", [A, [AT, AT, AT], Out((1, 4))], ["'indices'"]),
    ("index.Tensor_out", [A, [AT - 1, np.arange(3)], Out((3,))], [INDICES, "(3,)", "(2,)"]),
    ("index.Tensor_out", [A, [np.array([True])], Out((1, 4))], ["mask of shape (1,)", "(3, 4)"]),
    ("index.Tensor_out", [A, [np.ones((3, 4, 1), bool)], Out((1, 4))], ["mask of shape (3, 4, 1)"]),
    ("index.Tensor_out", [A, [], Out((1, 4))], ["'indices'", "empty"]),
    ("index.Tensor_out", [A, [AT[:1]], Out((1, 4), "float64")], ["'out'", "float64"]),
    ("index_put.out", [A, [AT], A[:1], False, Out((3, 4))], [INDICES, *PLACE]),
    ("index_put.out", [A, [AT[:1]], A[:1, :3], False, Out((3, 4))], ["'values'", "(1, 3)"]),
    ("index_put.out", [A, [AT[:1]], A.astype(int), False, Out((3, 4))], ["'values'", "int64"]),
    ("index_put_", [A, [AT], A[:1], True], [INDICES, *PLACE]),
    ("gather.out", [A, 0, AT[None], False, Out((1, 2))], ["'index'", *PLACE]),
    ("gather.out", [A, 0, np.zeros((5, 5), int), False, Out((5, 5))], ["(5, 5)", "(3, 4)"]),
    ("gather.out", [A, 0, AT, False, Out((2,))], ["'index'", "(2,)"]),
    ("gather.out", [A, 0, SHORT[None], False, Out((1, 1))], ["'index'", "int16"]),
    ("scatter.src_out", [A, 0, AT[None], A, Out((3, 4))], ["'index'", *PLACE]),
    ("scatter.src_out", [A, 0, AT[None, :1], A[:0], Out((3, 4))], ["'index'", "(1, 1)", "(0, 4)"]),
    ("scatter.src_out", [A, 0, AT[None, :1], A.astype(int), Out((3, 4))], ["'src'", "int64"]),
    ("scatter.value_out", [A, 1, LOW[None], 1.0, Out((3, 4))], ["'index'", "index -4"]),
    ("scatter_add.out", [A, 2, AT[None], A, Out((3, 4))], ["dim 2"]),
    ("nonzero.out", [A, Out((12, 2), "int32")], ["'out'", "int32"]),
    ("masked_select.out", [A, A, Out((12,))], ["'mask'", "float32"]),
    ("masked_select.out", [A, A[:, :3] > 0, Out((12,))], ["'mask'", "(3, 3)", "(3, 4)"]),
    ("masked_scatter.out", [A, A > 1, A[0], Out((3, 4))], ["'source'", "4 elements for 10"]),
    ("topk.values", [A, 5, 1, True, True, Out((3,)), Out((3,), "int64")], ["'k'", "4 elements"]),
    ("topk.values", [A > 1, 1, 0, True, True, Out((4,)), Out((4,), "int64")], ["'self'", "bool"]),
    ("topk.values", [A, 1, 0, True, True, Out((1, 4)), Out((1, 4), "int8")], ["'indices'", "int8"]),
    ("repeat_interleave.Tensor_out", [LOW, None, Out((4,), "int64")], ["'repeats'", "-4"]),
    ("repeat_interleave.Tensor_out", [AT, 4, Out((4,), "int64")], ["'output_size'", "sum to 3"]),
    ("masked_scatter.out", [A, A > 1, A.astype(int), Out((3, 4))], ["'source'", "int64"]),
    ("scatter.value_out", [B, 0, AT[None], 300, BYTES], ["'value'", TOO_LARGE]),
    ("index_put.out", [B, [A > 1], np.array(300), False, BYTES], ["'values'", TOO_LARGE]),
    ("index_put.out", [A, [A > 1], np.array([1, 2]), False, Out((3, 4))], ["'values'", "int64"]),
    ("index_put.out", [A, [A > 1], np.array(1), True, Out((3, 4))], ["'values'", "int64"]),
    ("nonzero.out", [np.array([1, 0, 1], bool), Out((1, 1), "int64")], ["'out'", "bound is 1"]),
    ("masked_select.out", [A[0], A[0] > 1, Out((1,))], ["'out'", "upper bound is 1"]),
    ("index.Tensor_out", [A[0], [A[0] > 1], Out((1,))], ["'out'", "upper bound is 1"]),
    ("_embedding_bag.out", bags([1, 4], [0]), "index 4 is out of range for dimension 0 of size 4"),
    ("_embedding_bag.out", bags([-1, 1], [0]), "index -1 is out of range"),
    ("_embedding_bag.out", bags([1, 2], [1]), "begins with 1"),
    ("_embedding_bag.out", bags([1, 2], [0, 3]), "bag 0 is"),
    ("_embedding_bag.out", bags([1, 2], [0, 2, 1]), "bag 1 is"),
    ("_embedding_bag.out", bags([1, 2], [0, -1]), "bag 0 is"),
    ("segment_reduce.out", segments([2, 1], None), "the sum is 3, expected 4"),
    ("segment_reduce.out", segments([5, -1], None), "5 at position 0"),
    ("segment_reduce.out", segments([4, -1], None), "-1 at position 1"),
    ("segment_reduce.out", segments(None, [0, 5]), "5 at position 1"),
    ("segment_reduce.out", segments(None, [2, 1]), "1 at position 1"),
    ("segment_reduce.out", segments(None, [-1, 4]), "-1 at position 0"),
    ("segment_reduce.out", segments(None, []), "empty, expected at least one offset"),
    *(
        (name, [A[0, :3], 0, np.array([0, at]), A[0, :2], "prod", True, OUT], f"index {at} is out")
        for name in (REDUCED_AT, "index_reduce.out")
        for at in (3, -1)
    ),
    *(
        (name, [A, 0, np.zeros((2, 3), dtype), *tail, Out(shape)], f"'index': dtype {dtype}")
        for dtype in ("uint8", "int16", "bool", "float32", "complex64")
        for name, tail, shape in (
            ("gather.out", [False], (2, 3)),
            ("scatter_add.out", [A], (3, 4)),
            ("scatter.value_out", [2.0], (3, 4)),
        )
    ),
    (REDUCED_AT, [A > 1, 0, PLACES, A > 1, "mean", True, BOOLS], "the mean of bool is not defined"),
    (REDUCED_AT, [A + 0j, 0, PLACES, A + 0j, "amax", True, COMPLEX], "is not ordered"),
]
A = ones(2, 3)
DOUBLE = dtype_id("float64")
REDUCED: Rows = [
    ("sum.IntList_out", [A, [2], False, None, Out((2,))], ["dim 2", "[-2, 1]"]),
    ("sum.IntList_out", [A, [1, -1], False, None, Out((2,))], ["dim 1", "more than once"]),
    ("sum.IntList_out", [A, [1], False, DOUBLE, Out((2,))], ["'out'", "float64"]),
    ("sum.IntList_out", [A, [1], False, 99, Out((2,))], ["'dtype'", "99"]),
    ("sum.IntList_out", [A, [1], False, None, Out((1,))], ["'out'", "upper bound"]),
    ("mean.out", [A, [1], False, None, Out((2,), "int64")], ["'out'", "int64"]),
    ("mean.out", [A.astype("int32"), [1], False, None, Out((2,))], ["'self'", "int32"]),
    ("amax.out", [A[:0], [0], False, Out((3,))], ["'self'", "dimension 0", "size 0"]),
    ("amax.out", [A, [0], False, Out((3,), "float64")], ["'out'", "float64"]),
    ("max.unary_out", [A[:0], Out(())], ["'self'", "empty"]),
    ("max.unary_out", [A, Out((), "int32")], ["'out'", "int32"]),
    ("argmax.out", [A, 0, False, Out((3,), "int32")], ["'out'", "int32"]),
    ("argmax.out", [A.astype("c8"), 0, False, Out((3,), "int64")], ["'self'", "complex64"]),
    ("any.out", [A, 0, False, Out((3,))], ["'out'", "float32"]),
    ("var.out", [A.astype("int32"), [0], True, False, Out((3,))], ["'self'", "int32"]),
]


def grid(bins: list, ends: list | None) -> list:
    return [np.zeros((4, 2), F), bins, ends, None, False]


X, V, THREE = np.zeros(3, F), np.zeros(3), np.arange(3, dtype=F)
PAIR = [Out((3,)), Out((3,), "int64")]
UNIQUE = [Out((2,), "int64"), Out((2,), "int64")]
SEARCH = "searchsorted.Tensor_out"
GRIDS: list[tuple[list, list | None, str]] = [
    ([3, 3], [0.0, 1.0], "'range': 2 numbers, expected 4"),
    ([3], None, "'bins': 1 numbers"),
    ([3, 2**62], None, "impossible shape"),
    ([3, -1], None, "'bins': -1 bins"),
    ([2**32, 2**32], None, "impossible shape"),
    ([3, 2**63 - 1], None, "'bins'"),
    ([2, 2], [0.0, 1.0, 3.0, 2.0], "ends before"),
    ([2, 2], [0.0, 1.0, 0.0, NAN], "finite"),
]
SORTED: Rows = [
    *(("kthvalue.values", [X, *tail, False, *PAIR], "") for tail in ([0, 0], [4, 0], [1, 2])),
    ("sort.values", [X, 1, False, *PAIR], ""),
    ("mode.values", [X, -2, False, *PAIR], ""),
    *(("histc.out", [X, *tail, PAIR[0]], "") for tail in ([0, 0, 0], [3, 2, 1], [3, 0, np.inf])),
    ("bincount.out", [X, None, 0, PAIR[1]], ""),
    ("bincount.out", [np.array([-1, 2]), None, 0, Out((4,), "int64")], "is not a bin"),
    ("bincount.out", [np.array([2**63 - 1]), None, 0, Out((4,), "int64")], "is not a bin"),
    ("bincount.out", [np.array([4]), None, 0, Out((4,), "int64")], "bound"),
    ("bucketize.Tensor_out", [X, np.zeros((3, 1)), False, False, PAIR[1]], ""),
    (SEARCH, [X, np.zeros((2, 3)), False, True, "left", None, PAIR[1]], ""),
    (SEARCH, [X, V, False, False, "middle", None, PAIR[1]], ""),
    *(
        (SEARCH, [X, V, False, False, None, np.array(order), PAIR[1]], "")
        for order in ([0, 3, 1], [0, -1, 1], [0, 1])
    ),
    *(("_histogramdd_from_bin_cts.out", [*grid(b, r), Out((3, 3))], says) for b, r, says in GRIDS),
    *(("_histogramdd_bin_edges.out", [*grid(b, r), [PAIR[0]] * 2], "") for b, r, _ in GRIDS),
    ("_unique2.out", [THREE, True, False, False, Out((2,)), *UNIQUE], ["'out0'", "bound"]),
    *(
        ("unique_dim.out", [np.zeros(shape, F), 0, True, True, True, Out(shape), *UNIQUE], "")
        for shape in ((2, 0), ())
    ),
]
UNFIT = " does not fit dtype "
MADE: Rows = [
    *(
        (f"{name}_indices.out", [*size, Out((2, 4), "int64")], words)
        for name in ("tril", "triu")
        for size, words in (
            ([2**40, 2**40, 0], "is too large"),
            ([2**62, 1, 0], "is too large"),
            ([0, 2**63 - 1, -(2**63)], "is too large"),
            ([2**20, 2**20, 0], "upper bound"),
        )
    ),
    ("resize_", [Out((2, 3), initial=np.ones((2, 3))), [3, 3], None, None], "upper bound"),
    ("resize_", [Out((2, 3), initial=np.ones((2, 3))), [6], None, None], "another rank"),
    ("resize.out", [V, [-1], None, Out((3,), "float64")], "'size'"),
    ("resize.out", [V, [2**62, 4], 0, Out((3, 3), "float64")], "'size'"),
    *(
        ("resize.out", [V, size, last, Out((3,) * len(size), "float64")], "'memory_format'")
        for size, last in (([3], 2), ([3], 1), ([3, 1], 3))
    ),
    *(
        ("full.out", [[2], value, Out((2,), dtype)], ["'fill_value': ", UNFIT + dtype])
        for value, dtype in (
            *((300, "int8"), (-129, "int8"), (256, "uint8"), (-256, "uint8"), (1e10, "int32")),
            *((NAN, "int64"), (float("inf"), "int16"), (70000, "float16")),
            *((1e39, "float32"), (-1e39, "bfloat16"), (2**40, "int32"), (2**40, "uint32")),
            (1e39, "complex64"),
        )
    ),
    ("arange.start_out", [0, 5, 0, Out((4,), "int64")], "zero"),
    ("arange.start_out", [5, 0, 1, Out((4,), "int64")], "does not lead from 5 to 0"),
    ("arange.start_out", [0, float("inf"), 1, Out((4,), "int64")], "unsupported range"),
    ("arange.start_out", [0, 2**40, 1, Out((4,), "int64")], "upper bound"),
    ("fill.Tensor_out", [np.ones(3), np.ones(1), Out((3,), "float64")], "'value': has dimensions"),
    ("fill.Scalar_out", [np.ones(3), 1, Out((3,), "int32")], "dtype int32, expected float64"),
    ("full.out", [[-1], 1, Out((3,))], "'out'"),
    ("zeros.out", [[1] * 20, Out((3,))], "'out'"),
]
MAT = [Out((5, 3)), ones(3)]
SYMBOLS = ("sym_size.int", "sym_stride.int")
VIEW, ROW = "executorch_prim::et_view.default", "executorch_prim::et_copy_index.tensor"
PRIM: Rows = [
    *((name, [ones(2, 3), 2, Ret("int")], "dim 2 is out") for name in SYMBOLS),
    *((name, [ones(), 0, Ret("int")], "'self': has no dim") for name in SYMBOLS),
    ("_local_scalar_dense", [np.ones(2), Ret("double")], "'self': 2 elements, expected one"),
    ("_local_scalar_dense", [ones(1, dtype="c8"), Ret("double")], "'self': dtype complex"),
    ("_local_scalar_dense", [ones(1, dtype="c16"), Ret("double")], "'self': dtype complex"),
    *(
        (f"executorch_prim::{name}", [a, 0, Ret("int")], ["'b': integer division of ", " by zero"])
        for name in ("floordiv.Scalar", "floordiv.int", "mod.Scalar", "mod.int")
        for a in (1, -(2**63))
    ),
    *(
        (VIEW, [ones(2, 3, 4), size, Out((24,))], words)
        for size, words in (
            ([5, 5], "'size': (5, 5) does not have self's 24 elements"),
            ([-1, -1], "impossible size -1 of dimension 1"),
            ([-2, 12], "impossible size -2"),
            ([0, -1], "ambiguous"),
            ([7, -1], "does not have self's 24"),
            ([1] * 17, "17 dimensions"),
            ([2**62, 4], "impossible size 4"),
            ([24, 1], "rank"),
            ([12], "does not have self's 24"),
        )
    ),
    (VIEW, [A, [6], Out((6,), "int32")], "dtype int32, expected float32"),
    (ROW, [*MAT, -1], "'index': -1"),
    (ROW, [*MAT, 5], ["'copy_to'", "upper bound"]),
    (ROW, [*MAT, 2**63 - 1], "'index'"),
    (ROW, [*MAT, 2**61], "'copy_to'"),
    (ROW, [MAT[0], ones(4), 0], "'copy_from': shape (4,), expected a row"),
    (ROW, [MAT[0], ones(1, 3), 0], "'copy_from': shape"),
    (ROW, [MAT[0], ones(3, dtype="int32"), 0], "'copy_from': dtype int32, expected float32"),
    (ROW, [Out((5, 3), dim_order=(1, 0)), ones(3), 0], "'copy_to': its first dimension"),
    (ROW, [Out(()), ones(), 0], "'copy_from': shape"),
]
REFUSED: Rows = [*VIEWS, *INDEXED, *REDUCED, *SORTED, *MADE, *PRIM]
