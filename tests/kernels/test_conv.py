"""convolution against eager: 1 to 3 dimensions, groups, transposed, every layout."""

import itertools

import numpy as np
import pytest
import torch

from tests.kernels.accuracy import check
from tests.kernels.eager import FLOATING, INTS, array, channels_last, eager, to_numpy
from tests.op_harness import Out, assert_rejected, run

NAME = "aten::convolution.out"
F = np.float32


def convolve(args: list) -> list[np.ndarray]:
    """Return eager's result in a dtype that it supports for every kind of convolution, cast
    back."""
    dtype = args[0].dtype.name
    if dtype in ("int64", "float64"):
        wide = args
    else:
        kind = np.float64 if dtype in FLOATING else np.int64
        wide = [a.astype(kind) if isinstance(a, np.ndarray) else a for a in args]
    wide = [
        torch.from_numpy(np.ascontiguousarray(a)) if isinstance(a, np.ndarray) else a for a in wide
    ]
    return [to_numpy(torch.convolution(*wide)).astype(args[0].dtype)]


def arguments(
    rng,
    dtype,
    x,
    w,
    bias=True,
    stride=1,
    padding=0,
    dilation=1,
    transposed=False,
    output_padding=0,
    groups=1,
    orders=(None, None),
):
    n = len(x) - 2
    channels = w[1] * groups if transposed else w[0]
    lists = [
        list(v) if isinstance(v, tuple) else [v] * n
        for v in (stride, padding, dilation, output_padding)
    ]
    return [
        array(rng, x, dtype, orders[0]),
        array(rng, w, dtype, orders[1]),
        array(rng, (channels,), dtype) if bias else None,
        *lists[:3],
        transposed,
        lists[3],
        groups,
    ]


def compare(args, order=None):
    check(NAME, args, orders=[order], wanted=convolve(args))


# input, weight, options
CASES = [
    ((1, 3, 8, 9), (4, 3, 3, 3), {}),
    ((2, 3, 8, 9), (40, 3, 3, 2), dict(stride=(2, 1), padding=(1, 0))),
    ((1, 5, 7, 50), (3, 5, 1, 5), dict(padding=(3, 2), dilation=(1, 3))),
    ((2, 8, 6, 6), (12, 2, 3, 3), dict(groups=4, padding=1)),
    ((2, 8, 6, 40), (8, 1, 3, 3), dict(groups=8, padding=1)),
    ((1, 4, 9, 9), (8, 1, 5, 3), dict(groups=4, stride=2, padding=(2, 1), dilation=(1, 2))),
    ((2, 64, 5, 7), (33, 64, 1, 1), {}),
    ((2, 6, 5, 7), (8, 6, 1, 1), dict(stride=2)),
    ((1, 300, 3, 3), (5, 300, 3, 3), dict(padding=1)),
    ((1, 2, 4, 4), (3, 2, 3, 3), dict(padding=4)),
    ((1, 1, 1, 1), (1, 1, 1, 1), {}),
    ((2, 2, 3, 3), (3, 2, 3, 3), {}),
    ((0, 2, 3, 3), (3, 2, 3, 3), {}),
    ((2, 3, 40), (5, 3, 4), dict(stride=3, padding=2)),
    ((2, 4, 40), (4, 1, 4), dict(groups=4, dilation=2)),
    ((1, 3, 5, 6, 7), (4, 3, 2, 3, 3), dict(padding=(0, 1, 1), stride=(1, 2, 1))),
    ((1, 4, 5, 6, 7), (4, 1, 2, 3, 3), dict(groups=4, padding=1)),
    ((1, 3, 5, 6), (3, 4, 3, 3), dict(transposed=True)),
    ((2, 3, 5, 6), (3, 4, 2, 2), dict(transposed=True, stride=2)),
    (
        (2, 3, 5, 6),
        (3, 4, 4, 3),
        dict(transposed=True, stride=(2, 3), padding=(1, 0), output_padding=(1, 2)),
    ),
    ((1, 4, 5, 6), (4, 2, 3, 3), dict(transposed=True, groups=2, stride=2, padding=1, dilation=2)),
    ((1, 4, 5, 6), (4, 1, 3, 3), dict(transposed=True, groups=4, stride=2, padding=1)),
    ((1, 2, 3, 3), (2, 3, 2, 2), dict(transposed=True, stride=4, output_padding=3)),
    ((1, 2, 1, 1), (2, 3, 1, 1), dict(transposed=True, stride=3)),
    ((2, 3, 10), (3, 5, 4), dict(transposed=True, stride=3, padding=1, output_padding=1)),
    ((1, 2, 3, 4, 5), (2, 3, 2, 3, 3), dict(transposed=True, stride=(1, 2, 2), padding=1)),
]
IDS = [f"{x}-{w}-{'-'.join(o)}" for x, w, o in CASES]


@pytest.mark.parametrize("dtype", ["float32", "int64", "bfloat16"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_cases(rng, dtype, bias, case):
    x, w, options = case
    compare(arguments(rng, dtype, x, w, bias, **options))


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_channels_last(rng, case, which):
    """Channels-last input, input and weight, or output, or all of them."""
    x, w, options = case
    last = channels_last(len(x))
    orders = (None if which == 2 else last, last if which in (1, 3) else None)
    args = arguments(rng, "float32", x, w, orders=orders, **options)
    compare(args, last if which >= 2 else None)


@pytest.mark.parametrize("width", [17, 32, 33, 64, 70, 128])
@pytest.mark.parametrize("padding, dilation", [(0, 1), (1, 1), (2, 3), (16, 1), (40, 1)])
def test_wide_rows(rng, width, padding, dilation):
    """Panels of 32 positions are parts of rows, with padding on either side, or between rows."""
    if width + 2 * padding > 2 * dilation:
        compare(
            arguments(
                rng,
                "float32",
                (1, 2, 4, width),
                (5, 2, 1, 3),
                padding=(1, padding),
                dilation=(1, dilation),
            )
        )


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
@pytest.mark.parametrize(
    "case",
    [CASES[1], CASES[3], CASES[4], CASES[6], CASES[19], CASES[21]],
    ids=lambda case: str(case[2]),
)
def test_any_layout(rng, case, order):
    x, w, options = case
    others = order[2:] + order[:2]
    compare(arguments(rng, "float32", x, w, orders=(order, others), **options), others)
    compare(arguments(rng, "float32", x, w, **options), order)


@pytest.mark.parametrize("order", [(0, 2, 3, 4, 1), (4, 3, 2, 1, 0), (1, 3, 0, 4, 2)])
@pytest.mark.parametrize("case", [c for c in CASES if len(c[0]) == 5], ids=lambda c: str(c[2]))
def test_any_layout_3d(rng, case, order):
    x, w, options = case
    compare(arguments(rng, "float32", x, w, orders=(order, order), **options), order)


@pytest.mark.parametrize("dtype", [*INTS, *FLOATING])
def test_every_dtype(rng, dtype):
    for case in (CASES[1], CASES[3], CASES[4], CASES[6], CASES[19]):
        x, w, options = case
        last = channels_last(len(x))
        compare(arguments(rng, dtype, x, w, **options))
        compare(arguments(rng, dtype, x, w, orders=(last, last), **options), last)


def test_large_phases_with_few_rows(rng):
    """The transposed product with phases of one or two positions."""
    args = arguments(
        rng,
        "float32",
        (1, 20, 1, 2),
        (20, 300, 3, 3),
        transposed=True,
        stride=3,
        orders=(channels_last(4), None),
    )
    compare(args, channels_last(4))


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("weight", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("case", [c for c in CASES if c[2].get("transposed")], ids=str)
def test_weights_that_are_not_finite(rng, case, weight, dtype):
    """A transposed convolution does not multiply the padding."""
    x, w, options = case
    for place in ((0,) * len(w), (w[0] - 1,) + tuple(size - 1 for size in w[1:])):
        args = arguments(rng, dtype, x, w, **options)
        args[1][place] = weight
        (right,) = convolve(args)
        (found,) = run(NAME, [*args, Out(right.shape, dtype)])
        for kind in (np.isnan, np.isposinf, np.isneginf):
            np.testing.assert_array_equal(kind(found.astype(F)), kind(right.astype(F)))


@pytest.mark.parametrize("seed", range(40))
def test_depthwise_rows(seed):
    """Any width, kernel, padding and dilation; paddings are not multiplied by infinite weights."""
    rng = np.random.default_rng(seed)
    axes = int(rng.integers(1, 4))
    kernel, pads, dilations = (rng.integers(low, 4, axes) for low in (1, 0, 1))
    strides = [*rng.integers(1, 3, axes - 1), 1]
    sizes = [int(rng.integers(1, 9)) for _ in range(axes - 1)] + [int(rng.integers(1, 75))]
    sizes = [max(n, (k - 1) * d + 1) for n, k, d in zip(sizes, kernel, dilations, strict=True)]
    channels, each = int(rng.integers(2, 5)), int(rng.integers(1, 3))
    x = rng.standard_normal((2, channels, *sizes)).astype(F)
    w = rng.standard_normal((channels * each, 1, *kernel)).astype(F)
    bias = rng.standard_normal(channels * each).astype(F) if seed % 2 else None
    rest = [[int(n) for n in numbers] for numbers in (strides, pads, dilations)]
    args = [x, w, bias, *rest, False, [0] * axes, channels]
    compare(args)
    w[0, 0, ..., 0] = np.inf
    plain = run(NAME, [*args, Out(convolve(args)[0].shape)], reference=True)[0]
    np.testing.assert_array_equal(
        np.isnan(run(NAME, [*args, Out(plain.shape)])[0]), np.isnan(plain)
    )


def random_lines(seed: int) -> list:
    """Return arguments whose output rows are as wide as those of the input, except in some."""
    rng = np.random.default_rng(seed)
    axes, groups = 2 if seed % 4 else 1 + seed // 4 % 3, int(rng.integers(1, 3))
    kernel = [*rng.integers(1, 4, axes - 1), int(rng.choice([1, 3, 5]))]
    dilations = rng.integers(1, 4, axes)
    pads = [*rng.integers(0, 5, axes - 1), (kernel[-1] - 1) * dilations[-1] // 2 + (seed % 8 == 7)]
    pads = [
        n if i in (0, axes - 1) else (kernel[i] - 1) * dilations[i] // 2 for i, n in enumerate(pads)
    ]
    sizes = [int(rng.integers(7, 12)) for _ in range(axes - 1)] + [int(rng.integers(1, 75))]
    sizes = [
        max(n, (k - 1) * d + 1 - 2 * p)
        for n, k, d, p in zip(sizes, kernel, dilations, pads, strict=True)
    ]
    channels, out = groups * int(rng.integers(1, 31)), groups * int(rng.integers(3, 30))
    x = rng.standard_normal((1 + seed % 2, channels, *sizes)).astype(F)
    w = rng.standard_normal((out, channels // groups, *kernel)).astype(F)
    bias = rng.standard_normal(out).astype(F) if seed % 2 else None
    rest = [[int(n) for n in numbers] for numbers in (pads, dilations)]
    return [x, w, bias, [1] * axes, *rest, False, [0] * axes, groups]


@pytest.mark.parametrize("seed", range(20))
def test_lines_in_place(seed):
    """Products read inputs whose rows follow one another in place, with masks for the padding: the
    sums have the bits of packed ones, which other inputs (channels between rows) have."""
    args = random_lines(seed)
    whole = [np.rint(2 * a) if isinstance(a, np.ndarray) else a for a in args]
    wanted, axes = convolve(whole), args[0].ndim - 2
    check(NAME, whole, orders=[None], wanted=wanted)
    (found,) = run(NAME, [*args, Out(wanted[0].shape)])
    order = (0, *range(2, axes + 1), 1, axes + 1)
    args[0] = array_of(args[0], order)
    (packed,) = run(NAME, [*args, Out(wanted[0].shape)])
    assert found.tobytes() == packed.tobytes()


def small_images(seed: int) -> list:
    """Return arguments with few positions for each image, and as many output channels."""
    rng = np.random.default_rng(seed)
    groups, kernel = 1 + seed % 5 // 4, [int(n) for n in rng.integers(1, 4, 2)]
    sizes = [int(n) for n in rng.integers(3, 15, 2)]
    x = rng.standard_normal((int(rng.integers(1, 10)), groups * int(rng.integers(1, 60)), *sizes))
    out = groups * int(rng.integers(20, 100))
    w = rng.standard_normal((out, x.shape[1] // groups, *kernel))
    bias = rng.standard_normal(out).astype(F) if seed % 2 else None
    pads = [k // 2 if seed % 3 else 0 for k in kernel]
    return [x.astype(F), w.astype(F), bias, [1, 1], pads, [1, 1], False, [0, 0], groups]


@pytest.mark.parametrize("seed", range(20))
def test_small_images(seed):
    """Transposed products, of several images at once, have the bits of those of packed rows, which
    inputs without adjacent columns have."""
    args = small_images(seed)
    whole = [np.rint(2 * a) if isinstance(a, np.ndarray) else a for a in args]
    (wanted,) = convolve(whole)
    check(NAME, whole, orders=[None], wanted=[wanted])
    (found,) = run(NAME, [*args, Out(wanted.shape)])
    for order in ((0, 2, 1, 3), (1, 0, 2, 3), (0, 3, 1, 2)):
        other = [array_of(args[0], order), *args[1:]]
        (same,) = run(NAME, [*other, Out(wanted.shape)])
        assert found.tobytes() == same.tobytes(), order


def array_of(x: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
    """Return a copy with this order of dimensions in memory."""
    return np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))


def test_one_number_for_all_axes(rng):
    args = arguments(rng, "float32", (1, 3, 8, 9), (4, 3, 3, 3), padding=1, stride=2)
    for i in (3, 4, 5, 7):
        args[i] = args[i][:1]
    compare(args)


X, W = np.ones((1, 4, 5, 5), F), np.ones((6, 4, 3, 3), F)
BASE = [X, W, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, Out((1, 6, 3, 3))]
HUGE = 2**62
ERRORS = [
    ({0: np.ones((4, 5), F)}, "argument 'input': shape (4, 5), expected 3 to 5 dimensions"),
    ({0: np.ones((1, 4, 5, 5), bool)}, "argument 'input': dtype bool"),
    ({1: np.ones((6, 4, 3), F)}, "argument 'weight': shape (6, 4, 3), expected 4 dimensions"),
    ({1: np.ones((6, 4, 3, 3))}, "argument 'weight': dtype float64, expected float32"),
    ({1: np.ones((6, 3, 3, 3), F)}, "argument 'weight': 3 input channels, expected 4"),
    ({1: np.ones((6, 4, 0, 3), F)}, "argument 'weight': kernel of size 0"),
    ({1: np.ones((6, 4, 6, 3), F)}, "argument 'input': size 5 in dimension 2 gives no output"),
    ({1: np.ones((0, 4, 3, 3), F)}, "argument 'weight': 0 output channels"),
    ({2: np.ones(5, F)}, "argument 'bias': 5 elements, expected one for each of 6 channels"),
    ({2: np.ones((6, 1), F)}, "argument 'bias': shape (6, 1), expected 1 dimensions"),
    ({2: np.ones(6)}, "argument 'bias': dtype float64"),
    ({3: [0, 1]}, "argument 'stride': found (0, 1), expected positive numbers"),
    ({3: [-1]}, "argument 'stride': found (-1,), expected positive"),
    ({3: [1, 1, 1]}, "argument 'stride': 3 numbers, expected 1 or 2"),
    ({3: []}, "argument 'stride': 0 numbers"),
    ({4: [-1, 0]}, "argument 'padding': found (-1, 0), expected non-negative"),
    ({4: [HUGE, HUGE]}, "argument 'input': size 5"),
    ({4: [HUGE // 2, HUGE // 2]}, "argument 'out'"),
    ({5: [0, 0]}, "argument 'dilation': found (0, 0)"),
    ({5: [HUGE, HUGE]}, "argument 'input': size 5"),
    ({5: [3, 1]}, "argument 'input': size 5"),
    ({7: [-1, 0]}, "argument 'output_padding'"),
    ({8: 0}, "argument 'groups': found 0, expected a positive number"),
    ({8: -2}, "argument 'groups'"),
    ({8: 3}, "argument 'groups': 3, expected a divisor of the 4 channels"),
    ({8: 2}, "argument 'weight': 4 input channels, expected 2"),
    ({8: 4, 1: np.ones((6, 1, 3, 3), F)}, "argument 'weight': 6 output channels, expected a mult"),
    ({9: Out((1, 6, 3, 2))}, "argument 'out'"),
    ({9: Out((6, 3, 3))}, "argument 'out': shape (6, 3, 3), expected 4 dimensions"),
    ({9: Out((1, 6, 3, 3), "float64")}, "argument 'out': dtype float64"),
    ({6: True}, "argument 'weight': 6 input channels, expected 4"),
    ({6: True, 1: np.ones((4, 2, 3, 3), F), 7: [1, 0]}, "argument 'output_padding': found 1"),
    ({6: True, 1: np.ones((4, 2, 3, 3), F), 3: [HUGE, 1]}, "argument 'input': size 5"),
    ({6: True, 1: np.ones((4, 2, 3, 3), F), 4: [9, 9]}, "argument 'input': size 5"),
]


@pytest.mark.parametrize("changes, message", ERRORS, ids=[m for _, m in ERRORS])
@pytest.mark.parametrize("reference", [False, True])
def test_errors(changes, message, reference):
    args = [changes.get(i, a) for i, a in enumerate(BASE)]
    assert_rejected(NAME, args, message, reference=reference)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_backward_layouts(rng, axes, transposed):
    """Random strides, padding, groups and dim orders; the gradients have different layouts."""
    for _ in range(6):
        groups, batch = (int(rng.integers(1, 4)) for _ in range(2))
        stride, dilation, kernel = (rng.integers(1, 4, axes).tolist() for _ in range(3))
        padding, size = rng.integers(0, 3, axes).tolist(), rng.integers(7, 10, axes).tolist()
        extra = [int(s > 1) if transposed else 0 for s in stride]
        a, b = (groups * int(rng.integers(1, 4)) for _ in range(2))
        orders = [tuple(rng.permutation(axes + 2).tolist()) for _ in range(5)]
        x = array(rng, (batch, a, *size), "float64", orders[0])
        w_shape = (a, b // groups, *kernel) if transposed else (b, a // groups, *kernel)
        w = array(rng, w_shape, "float64", orders[1])
        rest = [stride, padding, dilation, transposed, extra, groups]
        plain = [np.ascontiguousarray(t) for t in (x, w)]
        (forward,) = eager("aten::convolution.out", [*plain, None, *rest])
        grad = array(rng, forward.shape, "float64", orders[2])
        mask = [True] * 3
        given = [np.ascontiguousarray(grad), *plain, [b], *rest, mask]
        wanted = eager("aten::convolution_backward.out", given)
        args = [grad, x, w, [b], *rest, mask]
        check(
            "aten::convolution_backward.out",
            args,
            orders=[orders[3], orders[4], None],
            wanted=wanted,
        )


def test_backward_errors(rng):
    x, w, grad = (array(rng, s, "float32") for s in ((1, 2, 5), (3, 2, 2), (1, 3, 4)))
    outs = [Out(t.shape) for t in (x, w)] + [Out((3,))]
    base = [grad, x, w, [3], [1], [0], [1], False, [0], 1, [True] * 3, *outs]
    for changes, message in [
        ({0: grad[..., :3]}, "argument 'grad_output': shape (1, 3, 3), expected (1, 3, 4)"),
        ({0: grad[0]}, "argument 'grad_output': shape (3, 4)"),
        ({0: grad.astype("float64")}, "argument 'grad_output': dtype float64"),
        ({2: w[:, :1]}, "argument 'weight': 1 input channels"),
        ({9: 0}, "argument 'groups': found 0"),
        ({10: [True]}, "argument 'output_mask': 1 bools, expected 3"),
        ({12: Out((3, 2, 1))}, "argument 'out1'"),
        ({13: Out((3,), "float64")}, "argument 'out2': dtype float64"),
    ]:
        args = [changes.get(i, a) for i, a in enumerate(base)]
        assert_rejected("aten::convolution_backward.out", args, message)


@pytest.mark.parametrize(
    ("x", "w", "options"),
    [
        ((2, 0, 3), (3, 0, 2), {}),
        ((1, 0, 3, 3), (2, 0, 3, 3), {}),
        ((2, 0, 3, 4), (3, 0, 2, 2), {"bias": False}),
        ((3, 8, 4, 1), (8, 3, 2, 2), {"transposed": True, "stride": 2, "padding": 1}),
    ],
    ids=str,
)
def test_results_without_elements(rng, x: tuple, w: tuple, options: dict) -> None:
    """No channels give no channels; a transposed convolution may have no width."""
    args = arguments(rng, "float32", x, w, **options)
    (right,) = eager(NAME, args)
    for reference in (True, False):
        (found,) = run(NAME, [*args, Out(right.shape)], reference)
        assert found.shape == right.shape and not right.size
