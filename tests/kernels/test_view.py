"""csrc/kernels/view against eager: every operator, dtype and layout."""

import numpy as np
import pytest

from tests.kernels.accuracy import check
from tests.kernels.eager import ALL, WIDE_UNSIGNED, array, orders
from tests.kernels.samples_view import SAMPLES
from tests.op_harness import OpError, Out, assert_rejected, run

LISTS = {
    "aten::split_copy.Tensor_out",
    "aten::split_with_sizes_copy.out",
    "aten::unbind_copy.int_out",
}
NO_EAGER = {
    "aten::tril.out",
    "aten::flip.out",
    "aten::pixel_shuffle.out",
    "aten::pixel_unshuffle.out",
}
REFUSING = {
    "aten::view_as_real_copy.out",
    "aten::view_as_complex_copy.out",
    "aten::view_copy.dtype_out",
}  # test_rows.py


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("name", [n for n in SAMPLES if n not in REFUSING])
def test_samples(name: str, dtype: str, rng: np.random.Generator) -> None:
    signed = dtype[1:] if name in NO_EAGER and dtype in WIDE_UNSIGNED else dtype
    for args in SAMPLES[name](rng, dtype):
        if signed == dtype:
            check(name, args, list_out=name in LISTS)
            continue
        wanted = check(name, [args[0].astype(signed), *args[1:]])[0]
        found = run(name, [*args, Out(wanted.shape, dtype)])[0]
        assert np.array_equal(found, wanted.astype(dtype))


@pytest.mark.parametrize("order", orders(3))
def test_output_dim_orders(order: tuple, rng: np.random.Generator) -> None:
    for self_order in orders(3):
        a = array(rng, (4, 6, 5), "float32", self_order)
        b = array(rng, (4, 6, 5), "float32", order)
        for name, args in (
            ("permute_copy.out", [a, [2, 0, 1]]),
            ("view_copy.out", [a, [8, 5, 3]]),
            ("expand_copy.out", [array(rng, (4, 1, 5), "float32", self_order), [4, 7, 5], False]),
            ("slice_copy.Tensor_out", [a, 1, 1, 5, 3]),
            ("cat.out", [[a, b], 1]),
            ("stack.out", [[a[0], b[0]], 1]),
            ("repeat.out", [a, [2, 3, 1]]),
            ("roll.out", [a, [7], []]),
            ("flip.out", [a, [0, 2]]),
            ("constant_pad_nd.out", [a, [1, 2, 3, 0], 1.5]),
            ("slice_scatter.out", [a, b[:, :2], 1, 2, 4, 1]),
            ("tril.out", [a, 1]),
            ("pixel_shuffle.out", [a, 2]),
        ):
            check("aten::" + name, args, orders=[order])


def test_fully_cat_to_a_wider_output(rng: np.random.Generator) -> None:
    a, b = array(rng, (2, 3), "float32"), array(rng, (1, 3), "float16")
    found = run("aten::cat.out", [[a, b], 0, Out((3, 3), "float64")])[0]
    assert np.array_equal(found, np.concatenate([a, b]).astype(np.float64))


def test_sixteen_dimensions(rng: np.random.Generator) -> None:
    a = array(rng, (2, 1) * 8, "float32")
    check("aten::permute_copy.out", [a, list(range(15, -1, -1))])
    check("aten::repeat.out", [a, [1, 2] * 8])
    check("aten::flip.out", [a, list(range(16))])
    more = {"unsqueeze_copy.out": [a, 0], "stack.out": [[a], 0], "unfold_copy.out": [a, 0, 1, 1]}
    for name, args in more.items():
        with pytest.raises(OpError, match="16 dimensions"):
            run("aten::" + name, [*args, Out((1,) * 16)])


A = np.arange(6, dtype=np.float32).reshape(2, 3)
Z = np.array(1, np.float32)
BIG = 2**62
ERRORS = [
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
]


@pytest.mark.parametrize(("name", "args", "words"), ERRORS)
def test_errors(name: str, args: list, words: list[str]) -> None:
    assert_rejected("aten::" + name, args, *words)
