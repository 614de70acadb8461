"""softmax, log_softmax and the normalisations against eager."""

import itertools

import numpy as np
import pytest
import torch

from tests.kernels.accuracy import check
from tests.kernels.eager import FLOATING, HALVES, array, channels_last, to_numpy, to_torch
from tests.op_harness import Out, assert_rejected, np_dtype, run

F = np.float32
SOFTMAX = ["aten::_softmax.out", "aten::_log_softmax.out"]
NO_TRAINING = "aten::_native_batch_norm_legit_no_training.out"


@pytest.mark.parametrize("name", SOFTMAX)
@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize(
    "shape", [(), (5,), (3, 40), (2, 3, 37), (2, 7, 3, 20), (0, 3), (3, 0), (2, 3000)]
)
def test_softmax(rng, name, dtype, shape):
    x = np.asarray(array(rng, shape, dtype) * np_dtype(dtype).type(4))
    for dim in range(-max(len(shape), 1), max(len(shape), 1)):
        check(name, [x, dim, False])


@pytest.mark.parametrize("name", SOFTMAX)
@pytest.mark.parametrize("n", [*range(1, 35), 64, 100, 1000, 1023, 1024, 1025, 2049])
def test_softmax_of_rows(rng, name, n):
    """Rows of every remainder of vectors, blocks and batches, with results down to subnormals."""
    x = (array(rng, (19, n), "float32") * F(30)).astype(F)
    x[1] = -np.inf
    x[2, 0], x[3, -1], x[4, n // 2] = np.nan, np.inf, -np.inf
    check(name, [x, 1, False])


@pytest.mark.parametrize("name", SOFTMAX)
@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_softmax_layouts(rng, name, order):
    x = array(rng, (3, 20, 5, 18), "float32", order)
    for dim in range(4):
        for out in ((0, 1, 2, 3), order):
            check(name, [x, dim, False], orders=[out])


@pytest.mark.parametrize("name", SOFTMAX)
@pytest.mark.parametrize("dtype", FLOATING)
def test_softmax_not_finite(name, dtype):
    inf, nan = np.inf, np.nan
    rows = [
        *([inf, 1, 2], [-inf, 1, 2], [-inf] * 3, [nan, 1, 2], [1, nan, inf], [200, 0, -200]),
        *([1e4, 1e4 - 8, 9e3], [-1e4, -1e4 - 8, 0]),
    ]
    x = np.array(rows, np_dtype(dtype))
    wide = np.repeat(x, 7, axis=1)
    for a, dim in (
        (x, 1),
        (wide, 1),
        (np.ascontiguousarray(x.T), 0),
        (np.ascontiguousarray(np.tile(x, (3, 1)).T), 0),
    ):
        check(name, [a, dim, False])


def test_softmax_small_results(rng):
    """Results down to subnormal numbers have the accuracy of e^x."""
    x = np.linspace(-103, 0, 4001, dtype=F)
    (found,) = run("aten::_softmax.out", [x, 0, False, Out(x.shape)])
    e = np.exp(x.astype(np.float64))
    wanted = e / e.sum()
    np.testing.assert_allclose(found, wanted, 1e-6, 3e-45)


NORM_SHAPES = [
    *(((2, 3, 40), 1), ((4, 37), 1), ((2, 3, 4, 5), 2), ((5,), 1), ((2, 5000), 1), ((0, 3), 1)),
    ((2, 3), 2),
]


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("shape, inner", NORM_SHAPES)
@pytest.mark.parametrize("parameters", ["none", "both", "weight", "bias"])
def test_layer_norm(rng, dtype, shape, inner, parameters):
    sizes = shape[len(shape) - inner :]
    for kind in {dtype, "float32"} if dtype in HALVES else {dtype}:
        w, b = array(rng, sizes, kind), array(rng, sizes, kind)
        w = w if parameters in ("both", "weight") else None
        b = b if parameters in ("both", "bias") else None
        args = [array(rng, shape, dtype) + np_dtype(dtype).type(3), list(sizes), w, b, 1e-5]
        check("aten::native_layer_norm.out", args)


def test_layer_norm_far_from_zero(rng):
    """A mean far above the deviation loses only the digits of rounding the mean."""
    x = (array(rng, (3, 3000), "float64") + 1000).astype(F)
    outs = [Out(x.shape), Out((3, 1)), Out((3, 1))]
    results = run("aten::native_layer_norm.out", [x, [3000], None, None, 1e-5, *outs])
    wide = torch.from_numpy(x.astype(np.float64))
    wanted = torch.native_layer_norm(wide, [3000], None, None, 1e-5)
    rounding = np.spacing(F(1000))
    for f, w, atol in zip(results, wanted, (rounding, rounding, 2e-7), strict=True):
        np.testing.assert_allclose(f, w.numpy(), 2e-7, atol)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_layer_norm_layouts(rng, order):
    w = array(rng, (4, 5), "float32", (1, 0))
    args = [array(rng, (2, 3, 4, 5), "float32", order), [4, 5], w, w + 1, 1e-5]
    check("aten::native_layer_norm.out", args, orders=[order])


def test_norm_of_an_empty_tensor():
    x = np.zeros((2, 0), F)
    check("aten::native_layer_norm.out", [x, [0], None, None, 1e-5])
    x = np.zeros((1, 2, 0), F)
    check("aten::native_group_norm.out", [x, None, None, 1, 2, 0, 1, 1e-5])
    check("aten::native_layer_norm.out", [np.zeros(5, F), [5], None, None, -1.0])


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize(
    "shape, groups",
    [((2, 6, 4, 5), 3), ((1, 4, 30), 1), ((3, 4), 4), ((0, 2, 3), 1), ((2, 2, 3, 4, 5), 2)],
)
@pytest.mark.parametrize("affine", [True, False])
def test_group_norm(rng, dtype, shape, groups, affine):
    n, c = shape[:2]
    inner = int(np.prod(shape[2:]))
    for kind in {dtype, "float32"} if dtype in HALVES else {dtype}:
        w, b = (array(rng, (c,), kind), array(rng, (c,), kind)) if affine else (None, None)
        args = [array(rng, shape, dtype), w, b, n, c, inner, groups, 0.1]
        check("aten::native_group_norm.out", args)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_group_norm_layouts(rng, order):
    x = array(rng, (2, 6, 4, 5), "float32", order)
    args = [x, array(rng, (6,), "float32"), None, 2, 6, 20, 2, 1e-5]
    wanted = torch.native_group_norm(to_torch(x).contiguous(), to_torch(args[1]), *args[2:])
    check(
        "aten::native_group_norm.out",
        args,
        orders=[order[::-1]],
        wanted=[to_numpy(t) for t in wanted],
    )


def statistics(rng, dtype, c):
    return [array(rng, (c,), dtype), np.abs(array(rng, (c,), dtype)) + np_dtype(dtype).type(0.5)]


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (4, 3), (1, 20, 7), (0, 3, 4), (2, 3, 2, 3, 4)])
@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm_inference(rng, dtype, shape, affine):
    c = shape[1]
    for kind in {dtype, "float32"} if dtype in HALVES else {dtype}:
        w, b = (array(rng, (c,), kind), array(rng, (c,), kind)) if affine else (None, None)
        args = [array(rng, shape, dtype), w, b, *statistics(rng, kind, c), 0.1, 1e-3]
        check(NO_TRAINING, args)


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_batch_norm_layouts(rng, dtype, order):
    x = array(rng, (2, 20, 4, 5), dtype, order)
    args = [
        x,
        array(rng, (20,), dtype),
        array(rng, (20,), dtype),
        *statistics(rng, dtype, 20),
        0.1,
        1e-3,
    ]
    plain = [np.ascontiguousarray(x), *args[1:]]
    wanted = torch.ops.aten._native_batch_norm_legit_no_training(*map(to_torch, plain))
    for out in ((0, 1, 2, 3), channels_last(4), order):
        check(NO_TRAINING, args, orders=[out], wanted=[to_numpy(t) for t in wanted])


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (4, 3), (3, 20, 7)])
@pytest.mark.parametrize("order", [False, True])
def test_batch_norm_training(rng, dtype, shape, order):
    c = shape[1]
    x = array(rng, shape, dtype, channels_last(len(shape)) if order else None)
    w, b = array(rng, (c,), dtype), array(rng, (c,), dtype)
    check("aten::_native_batch_norm_legit.no_stats_out", [x, w, b, True, 0.1, 1e-3])
    for training in (True, False):
        check(
            "aten::_native_batch_norm_legit.out",
            [x, w, b, *statistics(rng, dtype, c), training, 0.1, 1e-3],
        )


def test_batch_norm_updates_running_statistics(rng):
    x, (mean, var) = array(rng, (4, 3, 5), "float32"), statistics(rng, "float32", 3)
    rm, rv = torch.from_numpy(mean.copy()), torch.from_numpy(var.copy())
    norm = torch.ops.aten._native_batch_norm_legit
    norm(torch.from_numpy(x), None, None, rm, rv, True, 0.3, 1e-5)
    running = [np.ascontiguousarray(mean), np.ascontiguousarray(var)]
    run(
        "aten::_native_batch_norm_legit.out",
        [x, None, None, *running, True, 0.3, 1e-5, Out(x.shape), Out((3,)), Out((3,))],
    )
    np.testing.assert_allclose(running[0], rm.numpy(), 1e-6)
    np.testing.assert_allclose(running[1], rv.numpy(), 1e-6)


X = np.ones((2, 4), F)
V = np.ones(4, F)
OUTS = [Out((2, 4)), Out((2, 1)), Out((2, 1))]
BN_OUTS = [Out((2, 4)), Out((0,)), Out((0,))]
GROUP = "aten::native_group_norm.out"
LAYER = "aten::native_layer_norm.out"
ERRORS = [
    ("aten::_softmax.out", [X, 2, False, Out((2, 4))], "dim 2 is out of range, expected [-2, 1]"),
    ("aten::_softmax.out", [X, 1, True, Out((2, 4))], "argument 'half_to_float'"),
    ("aten::_softmax.out", [X, 1, False, Out((2, 4), "float64")], "argument 'out': dtype float64"),
    ("aten::_softmax.out", [X, 1, False, Out((2, 3))], "argument 'out'"),
    (
        "aten::_log_softmax.out",
        [X.astype(int), 1, False, Out((2, 4))],
        "argument 'self': dtype int64",
    ),
    (LAYER, [X, [], None, None, 1e-5, *OUTS], "argument 'normalized_shape': found ()"),
    (LAYER, [X, [2], None, None, 1e-5, *OUTS], "argument 'normalized_shape': found (2,)"),
    (LAYER, [X, [1, 2, 4], None, None, 1e-5, *OUTS], "argument 'normalized_shape'"),
    (LAYER, [X, [4], np.ones(3, F), None, 1e-5, *OUTS], "argument 'weight': shape (3,)"),
    (LAYER, [X, [4], None, np.ones((4, 1), F), 1e-5, *OUTS], "argument 'bias': shape (4, 1)"),
    (LAYER, [X, [4], np.ones(4), None, 1e-5, *OUTS], "argument 'weight': dtype float64"),
    (LAYER, [X, [4], None, None, 1e-5, OUTS[0], Out((2,)), OUTS[2]], "argument 'out1'"),
    (LAYER, [X, [4], None, None, 1e-5, *OUTS[:2], Out((2, 1), "int64")], "argument 'out2': dtype"),
    (GROUP, [X, None, None, 2, 4, 1, 3, 1e-5, *OUTS], "argument 'group': 3, expected"),
    (GROUP, [X, None, None, 2, 4, 1, 0, 1e-5, *OUTS], "argument 'group': 0, expected"),
    (GROUP, [X, None, None, 2, 4, 2, 1, 1e-5, *OUTS], "argument 'input': 8 elements"),
    (GROUP, [X, None, None, 2**40, 2**40, 2**40, 1, 1e-5, *OUTS], "argument 'input': 8 elements"),
    (GROUP, [X, None, None, -2, -4, 1, 1, 1e-5, *OUTS], "argument 'group'"),
    (GROUP, [X, np.ones(2, F), None, 2, 4, 1, 1, 1e-5, *OUTS], "argument 'weight': shape (2,)"),
    (
        NO_TRAINING,
        [X, V, V, V, np.ones(3, F), 0.1, 1e-5, *BN_OUTS],
        "argument 'running_var': shape (3,), expected (4,)",
    ),
    (NO_TRAINING, [X, V, np.ones(4), V, V, 0.1, 1e-5, *BN_OUTS], "argument 'bias': dtype float64"),
    (NO_TRAINING, [V, V, V, V, V, 0.1, 1e-5, *BN_OUTS], "argument 'input': shape (4,)"),
    (NO_TRAINING, [X.astype(int), V, V, V, V, 0.1, 1e-5, *BN_OUTS], "argument 'input': dtype"),
    (
        "aten::_native_batch_norm_legit.no_stats_out",
        [np.ones((0, 4), F), V, V, True, 0.1, 1e-5, Out((0, 4)), Out((4,)), Out((4,))],
        "argument 'input': no elements",
    ),
]


@pytest.mark.parametrize("name, args, message", ERRORS)
def test_errors(name, args, message):
    assert_rejected(name, args, message)
