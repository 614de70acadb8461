"""convolution against eager: 1 to 3 dimensions, groups, transposed, every layout."""

import numpy as np
import pytest

from tests.kernels.accuracy import check
from tests.kernels.eager import FLOATING, INTS, eager, in_order
from tests.kernels.more_samples import CONVOLUTIONS, TRANSPOSED, convolution_of
from tests.kernels.rows import in_wider
from tests.op_harness import Out, run

NAME = "aten::convolution.out"
F = np.float32


def some_bias(seed: int, args: list) -> list:
    """Return the arguments of a convolution without the bias for an even seed."""
    return [*args[:2], args[2] if seed % 2 else None, *args[3:]]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("weight", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("case", TRANSPOSED, ids=str)
def test_weights_that_are_not_finite(rng, case, weight, dtype):
    """A transposed convolution does not multiply the padding."""
    w = case[1]
    for place in ((0,) * len(w), (w[0] - 1,) + tuple(size - 1 for size in w[1:])):
        args = convolution_of(rng, dtype, *case, transposed=True)
        args[1][place] = weight
        (right,) = in_wider(NAME, args)
        (output,) = run(NAME, [*args, Out(right.shape, dtype)])
        for kind in (np.isnan, np.isposinf, np.isneginf):
            np.testing.assert_array_equal(kind(output.astype(F)), kind(right.astype(F)))


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
    options = dict(stride=strides, padding=pads, dilation=dilations, groups=channels)
    x, w = (2, channels, *sizes), (channels * each, 1, *kernel)
    args = some_bias(seed, convolution_of(rng, "float32", x, w, options))
    check(NAME, args, wanted=in_wider(NAME, args))
    args[1][0, 0, ..., 0] = np.inf
    plain = run(NAME, [*args, Out(in_wider(NAME, args)[0].shape)], reference=True)[0]
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
    x, w = (1 + seed % 2, channels, *sizes), (out, channels // groups, *kernel)
    options = dict(padding=pads, dilation=dilations, groups=groups)
    return some_bias(seed, convolution_of(rng, "float32", x, w, options))


@pytest.mark.parametrize("seed", range(20))
def test_lines_in_place(seed):
    """Products read inputs whose rows follow one another in place, with masks for the padding: the
    sums have the bits of packed ones, which other inputs (channels between rows) have."""
    args = random_lines(seed)
    whole = [np.rint(2 * a) if isinstance(a, np.ndarray) else a for a in args]
    wanted, axes = in_wider(NAME, whole), args[0].ndim - 2
    check(NAME, whole, orders=[None], wanted=wanted)
    (output,) = run(NAME, [*args, Out(wanted[0].shape)])
    order = (0, *range(2, axes + 1), 1, axes + 1)
    args[0] = in_order(args[0], order)
    (packed,) = run(NAME, [*args, Out(wanted[0].shape)])
    assert output.tobytes() == packed.tobytes()


def small_images(seed: int) -> list:
    """Return arguments with few positions for each image, and as many output channels."""
    rng = np.random.default_rng(seed)
    groups, kernel = 1 + seed % 5 // 4, [int(n) for n in rng.integers(1, 4, 2)]
    sizes = [int(n) for n in rng.integers(3, 15, 2)]
    x = (int(rng.integers(1, 10)), groups * int(rng.integers(1, 60)), *sizes)
    w = (groups * int(rng.integers(20, 100)), x[1] // groups, *kernel)
    options = dict(padding=[k // 2 if seed % 3 else 0 for k in kernel], groups=groups)
    return some_bias(seed, convolution_of(rng, "float32", x, w, options))


@pytest.mark.parametrize("seed", range(20))
def test_small_images(seed):
    """Transposed products, of several images at once, have the bits of those of packed rows, which
    inputs without adjacent columns have."""
    args = small_images(seed)
    whole = [np.rint(2 * a) if isinstance(a, np.ndarray) else a for a in args]
    (wanted,) = in_wider(NAME, whole)
    check(NAME, whole, orders=[None], wanted=[wanted])
    (output,) = run(NAME, [*args, Out(wanted.shape)])
    for order in ((0, 2, 1, 3), (1, 0, 2, 3), (0, 3, 1, 2)):
        other = [in_order(args[0], order), *args[1:]]
        (same,) = run(NAME, [*other, Out(wanted.shape)])
        assert output.tobytes() == same.tobytes(), order


@pytest.mark.parametrize("reference", [True, False])
def test_a_transposed_convolution_without_width(rng, reference: bool) -> None:
    """Eager's, in float32 only."""
    options = {"stride": 2, "padding": 1}
    args = convolution_of(rng, "float32", (3, 8, 4, 1), (8, 3, 2, 2), options, transposed=True)
    (right,) = eager(NAME, args)
    (output,) = run(NAME, [*args, Out(right.shape)], reference)
    assert output.shape == right.shape and not right.size


@pytest.mark.parametrize("dtype", [*INTS, *FLOATING])
def test_channels_last(rng, dtype: str) -> None:
    """Positions of all channels, in every dtype."""
    for i in (1, 3, 4, 6):
        args = convolution_of(rng, dtype, *CONVOLUTIONS[i])
        last = [in_order(a, (0, 2, 3, 1)) for a in args[:2]]
        check(NAME, [*last, *args[2:]], orders=[(0, 2, 3, 1)], wanted=in_wider(NAME, args))
