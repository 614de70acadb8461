"""Upsampling and non-constant padding, compared with eager."""

import numpy as np
import pytest

from tests.kernels import rows
from tests.kernels.accuracy import check
from tests.kernels.eager import FLOATING, array, channels_last
from tests.kernels.samples_resize import SAMPLES
from tests.op_harness import OpError, Out, assert_rejected, run

NEAREST, BILINEAR = "aten::upsample_nearest2d.vec_out", "aten::upsample_bilinear2d.vec_out"
F = np.float32


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("dtype", [*FLOATING, "uint8"])
def test_layouts(rng, name, dtype):
    for args in SAMPLES[name](rng, dtype):
        wanted, rank = rows.wanted(name, args, dtype), args[0].ndim
        if wanted is None or (dtype == "uint8" and "grid" in name):  # eager ignores empty ones
            with pytest.raises(OpError):
                run(name, [*args, Out(args[0].shape, dtype)])
            continue
        for order in (None, channels_last(rank), (*range(2, rank), 0, 1)):
            check(name, args, orders=[order], wanted=wanted)


FILTERS = [
    n
    for n in SAMPLES
    if "backward" not in n and ("linear2d" in n or "cubic" in n or "lanczos" in n)
]


@pytest.mark.parametrize("name", FILTERS)
def test_bytes_are_exact(rng, name):
    """Eager's fixed-point weights, over the range of bytes."""
    none = [] if name.endswith("vec_out") else [None]
    for shape, order in (((2, 3, 9, 7), None), ((1, 6, 31, 8), (0, 2, 3, 1))):
        x = array(rng, shape, "float64", order) * 90 + 127
        x = np.clip(x, 0, 255).astype(np.uint8, order="K")
        for size in ([18, 14], [5, 20], [9, 7], [2, 3], [62, 5], [1, 4]):
            for align in (False, True):
                check(name, [x, size, align, None, *none])


@pytest.mark.parametrize("n", range(1, 40))
def test_every_small_size(rng, n):
    """Source positions are floats: the last place near 29 is 16 times that of 1."""
    x = array(rng, (1, 1, 13, 29), "float32")
    check(NEAREST, [x, [n, 3 * n], None])
    check(NEAREST, [x, None, [n / 13, n / 7]])
    check(BILINEAR, [x, [n, 3 * n], False, None])
    check(BILINEAR, [x, [n, 3 * n], True, None])


@pytest.mark.parametrize("dtype", [*FLOATING, "uint8"])
@pytest.mark.parametrize("width", [1, 2, 3, 16, 29])
def test_doubled_rows(rng, dtype, width):
    """Rows of twice the elements have a loop of their own, those of nearly twice have not."""
    x = array(rng, (2, 3, 5, width), "float64").astype(dtype)
    for order in (None, channels_last(4)):
        for columns in {2 * width, 2 * width - 1, max(2 * width - 2, 1), 2 * width + 2, 4 * width}:
            for rows_out in (5, 10, 13):
                check(NEAREST, [x, [rows_out, columns], None], orders=[order])
        check(
            "aten::_upsample_nearest_exact2d.out", [x, [10, 2 * width], None, None], orders=[order]
        )


X = np.ones((1, 2, 3, 4), F)
O = Out((1, 2, 6, 8))
ERRORS = [
    ([X, None, None, O], "argument 'output_size': expected exactly one of it and 'scale_factors'"),
    ([X, [6, 8], [2.0, 2.0], O], "argument 'output_size': expected exactly one"),
    ([X, [6], None, O], "argument 'output_size': 1 numbers, expected 2"),
    ([X, [0, 8], None, O], "argument 'output_size': found 0, expected positive"),
    ([X, [2**40, 2**40], None, O], "argument 'out'"),
    ([X, None, [2.0, 0.1], O], "argument 'scale_factors': 0.1 times size 4"),
    ([X, None, [-2.0, 2.0], O], "argument 'scale_factors'"),
    ([X, None, [float("nan"), 2.0], O], "argument 'scale_factors'"),
    ([X, None, [float("inf"), 2.0], O], "argument 'scale_factors'"),
    ([X[0], [6, 8], None, O], "argument 'input': shape (2, 3, 4), expected 4 dimensions"),
    ([X[:, :0], [6, 8], None, O], "argument 'input': shape (1, 0, 3, 4)"),
    ([X.astype(int), [6, 8], None, O], "argument 'input': dtype int64"),
    ([X, [6, 8], None, Out((1, 2, 6, 8), "float64")], "argument 'out': dtype float64"),
]


@pytest.mark.parametrize("args, message", ERRORS)
def test_errors(args, message):
    for name, changed in ((NEAREST, args), (BILINEAR, [*args[:2], False, *args[2:]])):
        assert_rejected(name, changed, message)


PADDING = [
    ("reflection_pad1d", (2, 3, 4), [4, 0], "(4, 0), expected less than the size 4"),
    ("reflection_pad2d", (2, 3, 4), [0, 0, 0, 3], "(0, 3), expected less than the size 3"),
    ("replication_pad1d", (2, 3, 4), [-2, -2], "(-2, -2) leave too little of size 4"),
    ("replication_pad2d", (2, 3, 4), [-2, -2, -2, -1], "no elements are left"),
    ("replication_pad3d", (2, 1, 1, 1), [-1, 0, -1, 0, -1, 0], "no elements are left"),
    ("replication_pad1d", (2, 3, 4), [2**63 - 1, 1], "leave too little of size 4"),
    ("replication_pad1d", (2, 3, 4), [2**62, 2**61], "argument 'out'"),
    ("replication_pad1d", (2, 3, 4), [1], "argument 'padding': 1 numbers, expected 2"),
    ("replication_pad1d", (2, 0, 4), [1, 1], "shape (2, 0, 4), expected no 0"),
    ("replication_pad2d", (2, 3, 4, 5, 6), [1] * 4, "expected 3 to 4 dimensions"),
]


@pytest.mark.parametrize("name, shape, pad, message", PADDING)
def test_padding_errors(name, shape, pad, message):
    x = np.ones(shape, F)
    assert_rejected(f"aten::{name}.out", [x, pad, Out(shape)], message)


@pytest.mark.parametrize("name", ["replication_pad2d", "reflection_pad2d"])
def test_padding_that_leaves_one_axis_empty(name):
    """Eager accepts it in two and three dimensions, not in one."""
    (wanted,) = check(f"aten::{name}.out", [np.ones((2, 3, 4), F), [-2, -2, 0, 0]])
    assert wanted.shape == (2, 3, 0)


GRIDS = [
    ("grid_sampler_3d", (2, 3, 4, 5, 6), (2, 1, 1, 1, 3), [2, 0], "mode': unknown mode 2"),
    ("grid_sampler_2d", (2, 3, 4, 5), (2, 1, 1, 2), [3, 0], "'interpolation_mode': unknown mode 3"),
    (
        "grid_sampler_2d",
        (2, 3, 4, 5),
        (2, 1, 1, 2),
        [0, -1],
        "'padding_mode': unknown padding mode -1",
    ),
    ("grid_sampler_2d", (2, 3, 4, 5), (1, 1, 1, 2), [0, 0], "'grid': shape (1, 1, 1, 2), expected"),
    ("grid_sampler_2d", (2, 3, 4, 5), (2, 1, 1, 3), [0, 0], "batch 2 and 2 coordinates"),
    ("grid_sampler_2d", (2, 3, 0, 5), (2, 1, 1, 2), [0, 0], "'input': shape (2, 3, 0, 5)"),
    ("grid_sampler_2d", (2, 3, 4), (2, 1, 1, 2), [0, 0], "'input': shape (2, 3, 4)"),
]


@pytest.mark.parametrize("name, shape, grid, modes, message", GRIDS)
def test_grid_errors(name, shape, grid, modes, message):
    args = [np.ones(shape, F), np.ones(grid, F), *modes, True, Out(shape)]
    assert_rejected(f"aten::{name}.out", args, message)


@pytest.mark.parametrize("name", [n for n in FILTERS if "_aa" in n and "backward" not in n])
@pytest.mark.parametrize("size", [[3, 5], [7, 8]])
def test_infinity_beside_an_axis_that_keeps_its_size(rng, name: str, size: list[int]) -> None:
    x = array(rng, (1, 2, 3, 8), "float32")
    x[0, 0, 1, 2] = np.inf
    args = [x, size, False, None, None]
    (right,) = rows.wanted(name, args, "float32")
    (found,) = run(name, [*args, Out(right.shape)])
    np.testing.assert_array_equal(np.isnan(found), np.isnan(right))
    assert np.isinf(right).any() and np.isfinite(right).any()
