"""Pooling and its gradients against eager."""

import itertools

import numpy as np
import pytest

from tests.kernels.accuracy import check
from tests.kernels.eager import FLOATING, INTS, array, channels_last, eager
from tests.op_harness import OpError, Out, assert_rejected, run

MAX, AVG = "aten::max_pool2d_with_indices.out", "aten::avg_pool2d.out"
ADAPTIVE = "aten::_adaptive_avg_pool2d.out"
F = np.float32

# kernel, stride, padding, dilation, ceil_mode
MAX_CASES = [
    *(([2, 2], [], [0], [1], False), ([3], [2], [1], [1], False)),
    *(([3, 2], [2, 3], [1, 0], [1, 2], True), ([2, 3], [3, 2], [0, 1], [3, 1], True)),
    *(([5, 5], [1], [2], [1], False), ([1], [2], [0], [1], True)),
    ([3], [1], [0], [2, 2], False),
]
SHAPES = [(2, 3, 8, 9), (6, 8, 9), (1, 20, 8, 11), (0, 3, 8, 9)]


@pytest.mark.parametrize("dtype", [*INTS, *FLOATING])
@pytest.mark.parametrize("case", MAX_CASES)
def test_max_pool(rng, dtype, case):
    for shape in SHAPES:
        check(MAX, [array(rng, shape, dtype), *case])


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
@pytest.mark.parametrize("case", MAX_CASES[:4])
def test_max_pool_layouts(rng, order, case):
    for dtype in ("float32", "bfloat16", "int64"):
        x = array(rng, (2, 20, 8, 9), dtype, order)
        wanted = eager(MAX, [np.ascontiguousarray(x), *case])
        check(MAX, [x, *case], orders=[order, channels_last(4)], wanted=wanted)
        check(MAX, [x, *case], orders=[channels_last(4)], wanted=wanted)


@pytest.mark.parametrize("last", [False, True])
def test_max_pool_not_finite(last):
    inf, nan = np.inf, np.nan
    x = np.array([[nan, 1, 2, -inf], [3, nan, -inf, -inf], [inf, 5, -inf, -inf], [1, 1, 1, 1]], F)
    x = np.tile(x, (1, 20, 1, 1))
    if last:
        x = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    check(MAX, [x, [2, 2], [1, 1], [1, 1], [1, 1], False])


# kernel, stride, padding, ceil_mode, count_include_pad, divisor_override
AVG_CASES = [
    ([2, 2], [], [0], False, True, None),
    ([3], [2], [1], True, True, None),
    ([3, 2], [2, 3], [1, 0], True, False, None),
    ([3, 3], [2, 2], [1, 1], True, False, 5),
    ([3, 3], [1, 2], [1, 1], False, True, -2),
    ([1], [3], [0], True, True, None),
    ([8, 9], [1], [0], False, True, None),
]


@pytest.mark.parametrize("dtype", [*FLOATING, "int64"])
@pytest.mark.parametrize("case", AVG_CASES)
def test_avg_pool(rng, dtype, case):
    for shape in SHAPES:
        check(AVG, [array(rng, shape, dtype), *case])


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
@pytest.mark.parametrize("case", AVG_CASES[:4])
def test_avg_pool_layouts(rng, order, case):
    for dtype in ("float32", "bfloat16", "int64"):
        x = array(rng, (2, 20, 8, 9), dtype, order)
        wanted = eager(AVG, [np.ascontiguousarray(x), *case])
        check(AVG, [x, *case], orders=[order], wanted=wanted)
        check(AVG, [x, *case], orders=[channels_last(4)], wanted=wanted)


def test_avg_pool_of_the_least_integer():
    x = np.full((1, 1, 1), -(2**63), np.int64)
    (found,) = run(AVG, [x, [1], [], [0], False, True, -1, Out((1, 1, 1), "int64")])
    assert found.item() == -(2**63)


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("size", [[1, 1], [2, 3], [8, 9], [13, 20], [0, 2], [7, 1]])
def test_adaptive(rng, dtype, size):
    for shape in SHAPES:
        check(ADAPTIVE, [array(rng, shape, dtype), size])
    x = array(rng, (2, 20, 8, 9), dtype, channels_last(4))
    wanted = eager(ADAPTIVE, [np.ascontiguousarray(x), size])
    for order in (None, channels_last(4), (3, 1, 0, 2)):
        check(ADAPTIVE, [x, size], orders=[order], wanted=wanted)


def test_adaptive_large_windows(rng):
    x = (array(rng, (1, 2, 300, 300), "float64") + 100).astype(F)
    (found,) = run(ADAPTIVE, [x, [1, 1], Out((1, 2, 1, 1))])
    np.testing.assert_allclose(found.ravel(), x.astype(float).mean((2, 3)).ravel(), 2e-7)


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("dtype", FLOATING)
def test_fractional_windows(rng, axes, dtype):
    """Random windows are rounded as in eager, in every dtype."""
    for n in range(6):
        x = array(rng, (2, 3, 31, 17, 40)[: axes + 2], dtype)
        samples = rng.random((2, 3, axes)).astype(x.dtype)
        size = [11 + n, 5 + n, 20 + n][:axes]
        args = [x, [3, 4, 2][:axes], size, samples]
        check(f"aten::fractional_max_pool{axes}d.output", args)


def test_fractional_errors(rng):
    x, samples = array(rng, (1, 2, 5, 5), "float32"), np.full((1, 2, 2), 0.5, F)
    args = [x, [2, 2], [3, 3], samples, *[Out((1, 2, 3, 3), d) for d in ("float32", "int64")]]
    for changes, message in [
        ({3: samples * F(1e30)}, "'random_samples': the number at (0, 0, 1) puts a window"),
        ({3: samples * F(-1e30)}, "'random_samples': the number at (0, 0, 1) puts a window"),
        ({3: samples * np.nan}, "'random_samples': the number at (0, 0, 1) puts a window"),
        ({3: samples[:, :1]}, "argument 'random_samples': shape (1, 1, 2), expected (1, 2, 2)"),
        ({3: samples.astype("float64")}, "argument 'random_samples': dtype float64"),
        ({1: [2]}, "argument 'kernel_size': 1 numbers, expected 2"),
        ({1: [2, 4]}, "argument 'kernel_size': found 4"),
        ({1: [0, 2]}, "argument 'kernel_size': found 0"),
        ({2: [2**62, 3]}, "argument 'kernel_size': found 2"),
        ({2: [3]}, "argument 'output_size': found (3,)"),
    ]:
        changed = [changes.get(i, a) for i, a in enumerate(args)]
        assert_rejected("aten::fractional_max_pool2d.output", changed, message)
    x3, samples3 = array(rng, (1, 2, 4, 4, 4), "float32"), np.full((1, 2, 3), 0.5, F)
    outs = [Out((1, 2, 3, 2, 2), d) for d in ("float32", "int64")]
    with pytest.raises(OpError, match="'kernel_size': found 2"):  # as in eager
        run("aten::fractional_max_pool3d.output", [x3, [2] * 3, [3, 2, 2], samples3, *outs])


def test_backward_errors(rng):
    """Inconsistent shapes, and indices from a file."""
    x, grad = np.ones((1, 2, 4, 4), F), np.ones((1, 2, 2, 2), F)
    index = np.zeros((1, 2, 2, 2), np.int64)
    lists, out = [[2, 2], [2, 2], [0, 0], [1, 1], False], Out(x.shape)
    name = "aten::max_pool2d_with_indices_backward.grad_input"
    (found,) = run(name, [grad, x, *lists, index - 1, out])
    assert not found.any()  # -1 means no element, as in eager
    for args, message in [
        ([grad, x, *lists, index + 16, out], "'indices': index 16, expected one of a plane"),
        ([grad, x, *lists, index - 2, out], "argument 'indices': index -2"),
        ([grad[..., :1], x, *lists, index, out], "argument 'grad_output': shape (1, 2, 2, 1)"),
        ([grad, x, *lists, index[:, :1], out], "argument 'indices': shape (1, 1, 2, 2)"),
        ([grad, x, [2, 2], [1, 1], *lists[2:], index, out], "expected (1, 2, 3, 3)"),
        ([grad.astype("float64"), x, *lists, index, out], "argument 'grad_output': dtype float64"),
    ]:
        assert_rejected(name, args, message)
    for args, message in [
        ([grad[:, :1], x, out], "'grad_output': shape (1, 1, 2, 2), expected (1, 2, 2, 2)"),
        ([grad[0], x, out], "argument 'grad_output': shape (2, 2, 2), expected 4 dimensions"),
    ]:
        assert_rejected("aten::_adaptive_avg_pool2d_backward.out", args, message)
    (found,) = run("aten::_adaptive_avg_pool2d_backward.out", [grad[:, :, :0], x, out])
    assert not found.any()


def test_pool3d_layouts(rng):
    """Adjacent channels, planes with gaps, and one-element windows of huge planes."""
    for dtype in ("float32", "bfloat16", "int64"):
        for order in ((0, 2, 3, 4, 1), (4, 3, 2, 1, 0), (1, 0, 3, 4, 2)):
            x = array(rng, (2, 6, 4, 5, 6), dtype, order)
            case = [[2, 3, 2], [1, 2, 2], [1, 1, 0], [2, 1, 3], True]
            plain = np.ascontiguousarray(x)
            name = "aten::max_pool3d_with_indices.out"
            check(name, [x, *case], orders=[order], wanted=eager(name, [plain, *case]))
            if dtype != "bfloat16":
                name, rest = "aten::avg_pool3d.out", [*case[:3], True, False, None]
                check(name, [x, *rest], orders=[order], wanted=eager(name, [plain, *rest]))


X = np.ones((1, 2, 5, 5), F)
OUTS = [Out((1, 2, 2, 2)), Out((1, 2, 2, 2), "int64")]
BASE_MAX = [X, [2, 2], [2, 2], [0, 0], [1, 1], False, *OUTS]
BASE_AVG = [X, [2, 2], [2, 2], [0, 0], False, True, None, OUTS[0]]
HUGE = 2**62
ERRORS = [
    (MAX, {0: np.ones((5, 5), F)}, "argument 'self': shape (5, 5), expected 3 to 4 dimensions"),
    (MAX, {0: np.ones((1, 0, 5, 5), F)}, "argument 'self': shape (1, 0, 5, 5), expected no 0"),
    (MAX, {0: np.ones((1, 2, 5, 5), bool)}, "argument 'self': dtype bool"),
    (MAX, {1: []}, "argument 'kernel_size': found ()"),
    (MAX, {1: [2, 2, 2]}, "argument 'kernel_size': 3 numbers, expected 1 or 2"),
    (MAX, {1: [0, 2]}, "argument 'kernel_size': found (0, 2), expected positive numbers"),
    (MAX, {1: [7, 7]}, "argument 'kernel_size': size 7 with padding 0"),
    (MAX, {1: [HUGE, 1]}, "argument 'kernel_size': size"),
    (MAX, {2: [0]}, "argument 'stride': found (0,), expected positive"),
    (MAX, {3: [-1, 0]}, "argument 'padding': found (-1, 0), expected non-negative"),
    (MAX, {3: [2, 2]}, "padding at most half of it"),
    (MAX, {4: [0, 1]}, "argument 'dilation': found (0, 1)"),
    (MAX, {4: [2**63 - 1]}, "argument 'kernel_size'"),
    (MAX, {1: [2**63 - 1], 2: [HUGE]}, "argument 'kernel_size'"),
    (MAX, {6: Out((1, 2, 2, 2), "float64")}, "argument 'out': dtype float64"),
    (MAX, {6: Out((1, 2, 2, 1))}, "argument 'out'"),
    (MAX, {7: Out((1, 2, 2, 2), "int32")}, "argument 'indices': dtype int32"),
    (MAX, {7: Out((1, 2, 2, 1), "int64")}, "argument 'indices'"),
    (AVG, {6: 0}, "argument 'divisor_override': found 0"),
    (AVG, {0: np.ones((1, 2, 5, 5), np.int32)}, "argument 'self': dtype int32"),
    (AVG, {3: [2, 2]}, "padding at most half"),
    (AVG, {2: [-1, 1]}, "argument 'stride'"),
]


@pytest.mark.parametrize("name, changes, message", ERRORS)
def test_errors(name, changes, message):
    args = [changes.get(i, a) for i, a in enumerate(BASE_MAX if name == MAX else BASE_AVG)]
    assert_rejected(name, args, message)


ADAPTIVE_ERRORS = [
    ({1: [2]}, "argument 'output_size': found (2,), expected 2"),
    ({1: [-1, 2]}, "argument 'output_size': found (-1, 2)"),
    ({1: [2**40, 2**40]}, "argument 'out'"),
    ({0: np.ones((1, 2, 0, 5), F)}, "argument 'self': shape (1, 2, 0, 5)"),
    ({0: np.ones((1, 2, 5, 5), np.int64)}, "argument 'self': dtype int64"),
]


@pytest.mark.parametrize("changes, message", ADAPTIVE_ERRORS)
def test_adaptive_errors(changes, message):
    args = [changes.get(i, a) for i, a in enumerate([X, [2, 2], OUTS[0]])]
    assert_rejected(ADAPTIVE, args, message)


@pytest.mark.parametrize("ceil_mode", [False, True])
def test_huge_windows(ceil_mode):
    """Padding of half a huge kernel terminates quickly."""
    reach = 2**63 - 4
    for kernel, padding, dilation in ((2**40, 2**39, 1), (2, reach // 2, reach - 1)):
        args = [X, [kernel], [2**60], [padding], [dilation], ceil_mode]
        try:
            found, index = run(MAX, [*args, Out((1, 2, 2, 2)), Out((1, 2, 2, 2), "int64")])
        except OpError as error:
            assert "argument 'kernel_size'" in str(error)
        else:
            assert found.shape == index.shape
    (found,) = run(AVG, [X, [2**40], [2**40], [2**39], False, True, None, Out((1, 2, 1, 1))])
    np.testing.assert_allclose(found.ravel(), 25 / 2.0**80, 1e-6)
