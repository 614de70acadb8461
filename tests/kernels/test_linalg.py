"""Matrix products against eager."""

import itertools

import numpy as np
import pytest

from tests.kernels.accuracy import check
from tests.kernels.eager import COMPLEX, FLOATING, INTS, array
from tests.op_harness import Out, assert_rejected

DTYPES = [*INTS, *FLOATING, *COMPLEX]
SIZES = [
    *((1, 1, 1), (1, 70, 33), (2, 33, 40), (5, 300, 7), (33, 1, 65), (13, 700, 37), (70, 9, 1)),
    *((400, 30, 50), (3, 0, 4), (0, 3, 4), (4, 3, 0)),
]
ORDERS = [(0, 1), (1, 0)]
PAIRS = list(itertools.product(itertools.permutations(range(3)), repeat=2))


def matrix(rng, dtype, shape, order=(0, 1)):
    return array(rng, shape, dtype, order)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
def test_mm(rng, dtype, size):
    m, k, n = size
    check("aten::mm.out", [array(rng, (m, k), dtype), array(rng, (k, n), dtype)])


@pytest.mark.parametrize("orders", list(itertools.product(ORDERS, ORDERS, ORDERS)))
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int16"])
@pytest.mark.parametrize("size", [(1, 40, 33), (2, 40, 33), (35, 260, 1), (35, 260, 50)])
def test_mm_layouts(rng, dtype, size, orders):
    m, k, n = size
    a, b = matrix(rng, dtype, (m, k), orders[0]), matrix(rng, dtype, (k, n), orders[1])
    check("aten::mm.out", [a, b], orders=[orders[2]])


def test_mm_many_blocks(rng):
    a, b = array(rng, (900, 500), "float32"), array(rng, (500, 1100), "float32")
    check("aten::mm.out", [a, b])


def test_mm_integers_wrap():
    a = np.full((2, 3), 2**62 + 1, np.int64)
    check("aten::mm.out", [a, a.T.copy()])
    b = np.full((2, 3), 127, np.int8)
    check("aten::mm.out", [b, b.T.copy()])


def test_mm_not_finite():
    a = np.array([[np.inf, 1.0], [np.nan, 0.0], [1.0, 2.0]], np.float32)
    b = np.array([[1.0, 0.0], [1.0, -np.inf]], np.float32)
    check("aten::mm.out", [a, b])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "size", [(3, 5, 7, 4), (2, 1, 40, 33), (4, 50, 20, 1), (0, 2, 3, 4), (2, 3, 0, 4)]
)
def test_bmm(rng, dtype, size):
    b, m, k, n = size
    check("aten::bmm.out", [array(rng, (b, m, k), dtype), array(rng, (b, k, n), dtype)])


@pytest.mark.parametrize("orders", PAIRS)
def test_bmm_layouts(rng, orders):
    a = array(rng, (3, 14, 20), "float32", orders[0])
    b = array(rng, (3, 20, 35), "float32", orders[1])
    check("aten::bmm.out", [a, b], orders=[orders[0]])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 40), (40,), (5, 1), (1, 40), (), (1,)])
def test_addmm(rng, dtype, shape):
    args = [array(rng, shape, dtype), array(rng, (5, 9), dtype), array(rng, (9, 40), dtype)]
    for beta, alpha in ((1, 1), (2, 3), (0, 1), (1, 0), (True, True)):
        check("aten::addmm.out", [*args, beta, alpha])


@pytest.mark.parametrize("dtype", ["int32", "bfloat16", "float32", "complex64"])
def test_addmm_fractions(rng, dtype):
    args = [array(rng, (3, 4), dtype), array(rng, (3, 9), dtype), array(rng, (9, 4), dtype)]
    for beta, alpha in ((0.5, 2.5), (1.75, 1), (0.25, 0.5)):
        check("aten::addmm.out", [*args, beta, alpha])


def test_addmm_ignores_operands_scaled_by_zero():
    a, nan = np.ones((2, 3), np.float32), np.full((2, 2), np.nan, np.float32)
    args = [nan, a, a.T.copy()]
    check("aten::addmm.out", [*args, 0, 1])
    args = [np.ones(2, np.float32), a * np.float32(np.nan), a.T.copy()]
    check("aten::addmm.out", [*args, 1, 0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(6,), (1, 6), (5, 6), (2, 3, 6), (2, 0, 6)])
@pytest.mark.parametrize("bias", [None, (34,), (1,), ()])
def test_linear(rng, dtype, shape, bias):
    args = [
        array(rng, shape, dtype),
        array(rng, (34, 6), dtype),
        None if bias is None else array(rng, bias, dtype),
    ]
    check("aten::linear.out", args)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
@pytest.mark.parametrize("out", [(0, 1, 2, 3), (2, 0, 3, 1)])
def test_linear_layouts(rng, order, out):
    args = [
        array(rng, (2, 3, 4, 5), "float32", order),
        array(rng, (7, 5), "float32", (1, 0)),
        array(rng, (7,), "float32"),
    ]
    check("aten::linear.out", args, orders=[out])


def test_linear_vector_weight(rng):
    for shape in ((5,), (3, 5), (2, 3, 5)):
        args = [array(rng, shape, "float32"), array(rng, (5,), "float32"), None]
        check("aten::linear.out", args)


F = np.float32
ERRORS = [
    (
        "aten::mm.out",
        [np.ones((2, 3), F), np.ones((2, 3), F), Out((2, 3))],
        "argument 'mat2': 2 rows, expected 3",
    ),
    (
        "aten::mm.out",
        [np.ones((2, 3), F), np.ones((3, 2)), Out((2, 2))],
        "argument 'mat2': dtype float64, expected float32 as in 'self'",
    ),
    (
        "aten::mm.out",
        [np.ones((2, 3), bool), np.ones((3, 2), bool), Out((2, 2), "bool")],
        "argument 'self': dtype bool",
    ),
    (
        "aten::mm.out",
        [np.ones((2, 3), F), np.ones((3, 2), F), Out((2, 2), "float64")],
        "argument 'out': dtype float64, expected float32",
    ),
    (
        "aten::mm.out",
        [np.ones((2, 3), F), np.ones((3,), F), Out((2, 2))],
        "argument 'mat2': shape (3,), expected 2 dimensions",
    ),
    ("aten::mm.out", [np.ones((2, 3), F), np.ones((3, 2), F), Out((2, 1))], "argument 'out'"),
    (
        "aten::bmm.out",
        [np.ones((2, 2, 3), F), np.ones((1, 3, 2), F), Out((2, 2, 2))],
        "argument 'mat2': batch of 1, expected 2 as in 'self'",
    ),
    (
        "aten::addmm.out",
        [np.ones((2, 3), F), np.ones((2, 3), F), np.ones((3, 2), F), 1, 1, Out((2, 2))],
        "argument 'self': shape (2, 3), expected one that",
    ),
    (
        "aten::addmm.out",
        [np.ones(2), np.ones((2, 3), F), np.ones((3, 2), F), 1, 1, Out((2, 2))],
        "argument 'self': dtype float64",
    ),
    (
        "aten::addmv.out",
        [np.ones(2, F), np.ones((2, 3), F), np.ones(2, F), 1, 1, Out((2,))],
        "argument 'vec': 2 elements, expected 3",
    ),
    (
        "aten::addmv.out",
        [np.ones(3, F), np.ones((2, 3), F), np.ones(3, F), 1, 1, Out((2,))],
        "argument 'self': 3 elements, expected 2",
    ),
    (
        "aten::_trilinear.out",
        [np.ones((2, 3), F), np.ones((2, 4), F), np.ones(3, F), [], [], [0], [1], 0, Out((2,))],
        "argument 'i2': 4 in dimension 1, expected 3",
    ),
    (
        "aten::_trilinear.out",
        [np.ones((2, 3), F), np.ones((2, 3), F), np.ones(3, F), [], [], [0], [1, -1], 0, Out((2,))],
        "argument 'sumdim': dimension 1 is given",
    ),
    (
        "aten::linear.out",
        [np.ones((2, 3), F), np.ones((4, 2), F), None, Out((2, 4))],
        "argument 'weight': 2 columns, expected 3",
    ),
    (
        "aten::linear.out",
        [np.ones((2, 3), F), np.ones((4, 3), F), np.ones(3, F), Out((2, 4))],
        "argument 'bias': 3 elements, expected 4",
    ),
    (
        "aten::linear.out",
        [np.ones((2, 3), F), np.ones((4, 3), F), None, Out((4,))],
        "argument 'out': shape (4,), expected 2 dimensions",
    ),
    (
        "aten::linear.out",
        [np.ones((), F), np.ones((4, 3), F), None, Out((4,))],
        "argument 'input': shape (), expected 1 to 16",
    ),
]


@pytest.mark.parametrize("name, args, message", ERRORS)
@pytest.mark.parametrize("reference", [False, True])
def test_errors(name, args, message, reference):
    assert_rejected(name, args, message, reference=reference)
