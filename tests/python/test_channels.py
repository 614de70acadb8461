"""Channels of quantised values that quantising does not explain."""

import numpy as np
import pytest

from executorch_c.compare.channels import wrong_channels

SHAPES = [((16, 32), 1), ((2, 8, 6, 6), 1), ((2, 5, 24), 2)]
"""Shapes of a linear layer, a convolution and a layer of sequences, with the axis of channels."""


def quantised(rng, x: np.ndarray, axis: int | None) -> np.ndarray:
    """Return values rounded to 255 steps of the array's range, or of each channel's."""
    others = None if axis is None else tuple(i for i in range(x.ndim) if i != axis)
    step = np.abs(x).max(others, keepdims=True) / 127
    return (np.rint(x / step) * step).astype(np.float32)


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("each", [False, True])
def test_quantising_is_no_wrong_channel(rng, shape, axis: int, each: bool) -> None:
    """Neither with channels of quite different sizes, one of them zero, and outliers."""
    for seed in range(20):
        x = np.random.default_rng(seed).standard_t(3, shape).astype(np.float32)
        sizes = np.exp(2 * np.random.default_rng(seed + 100).standard_normal(shape[axis]))
        sizes[0] = 0
        x *= sizes.reshape([-1 if i == axis else 1 for i in range(x.ndim)]).astype(np.float32)
        with np.errstate(invalid="ignore"):
            near = np.nan_to_num(quantised(rng, x, axis if each else None))
        assert not wrong_channels(near, x)[1].size
        assert not wrong_channels(np.maximum(near, 0), np.maximum(x, 0))[1].size


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("fault", ["swapped", "zero", "negative"])
def test_wrong_channels_are_found(rng, shape, axis: int, fault: str) -> None:
    x = rng.standard_normal(shape, np.float32)
    near = np.moveaxis(quantised(rng, x, None).copy(), axis, 0)
    if fault == "swapped":
        near[[1, 3]] = near[[3, 1]]
    elif fault == "zero":
        near[[1, 3]] = 0
    else:
        near[[1, 3]] *= -1
    found, wrong = wrong_channels(np.moveaxis(near, 0, axis), x)
    assert (found, wrong.tolist()) == (axis, [1, 3])


def test_values_without_channels_are_not_judged(rng) -> None:
    for shape in [(), (9,), (4, 3), (2, 64)]:
        x = rng.standard_normal(shape).astype(np.float32)
        assert not wrong_channels(-np.asarray(x), np.asarray(x))[1].size
    x = rng.standard_normal((8, 8)).astype(np.float32)
    assert not wrong_channels(x[:4], x)[1].size
    assert not wrong_channels(np.full_like(x, np.nan), x)[1].size
