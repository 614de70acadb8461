"""upsample_nearest2d and upsample_bilinear2d against eager."""

from __future__ import annotations

import numpy as np
import pytest
from eager_compare import FLOATS, channels_last, check, eager, make
from op_harness import OpError, Out, run
from samples_resize import SAMPLES

NEAREST, BILINEAR = "aten::upsample_nearest2d.vec_out", "aten::upsample_bilinear2d.vec_out"
F = np.float32


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("dtype", [*FLOATS, "uint8"])
def test_layouts(rng, name, dtype):
    for args in SAMPLES[name](rng, dtype):
        wanted = eager(name, args)
        for order in (None, channels_last(4), (2, 1, 3, 0)):
            check(name, args, ulps=8, orders=[order], wanted=wanted)


def test_bilinear_of_bytes(rng):
    """Eager's fixed-point weights are at most one off."""
    x = rng.integers(0, 256, (2, 3, 9, 7)).astype(np.uint8)
    for size in ([18, 14], [5, 20], [9, 7]):
        for align in (False, True):
            (wanted,) = eager(BILINEAR, [x, size, align, None])
            (found,) = run(BILINEAR, [x, size, align, None, Out(wanted.shape, "uint8")])
            assert np.abs(found.astype(int) - wanted).max() <= 1


@pytest.mark.parametrize("n", range(1, 40))
def test_every_small_size(rng, n):
    """Source positions are floats: the last place of one near 29 is 16 times that of 1."""
    x = make(rng, "float32", (1, 1, 13, 29))
    check(NEAREST, [x, [n, 3 * n], None], ulps=0)
    check(NEAREST, [x, None, [n / 13, n / 7]], ulps=0)
    check(BILINEAR, [x, [n, 3 * n], False, None], ulps=32)
    check(BILINEAR, [x, [n, 3 * n], True, None], ulps=32)


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
        with pytest.raises(OpError) as caught:
            run(name, changed)
        assert message in str(caught.value)
