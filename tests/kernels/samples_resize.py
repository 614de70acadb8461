"""Sample arguments of the operators in csrc/kernels/resize, by operator name."""

from collections.abc import Iterator

import numpy as np

from tests.dtypes import np_dtype
from tests.kernels.eager import FLOATING, Samples, array


# By number of axes: shapes, layouts, and output sizes.
SHAPES = {
    1: [((2, 3, 7), None), ((1, 9, 3), (0, 2, 1)), ((0, 2, 3), None)],
    2: [((2, 3, 4, 5), None), ((1, 9, 4, 3), (0, 2, 3, 1)), ((0, 2, 3, 3), None)],
    3: [((2, 2, 3, 2, 4), None), ((1, 5, 2, 3, 4), (0, 2, 3, 4, 1)), ((0, 2, 3, 3, 1), None)],
}
SIZES = {
    1: [[14], [3], [7], [1], [11]],
    2: [[8, 10], [3, 11], [4, 5], [1, 1], [5, 2]],
    3: [[6, 4, 8], [3, 5, 3], [3, 2, 4], [1, 1, 1]],
}
FACTORS = [[2.0, 2.0], [1.7, 0.6], [3.0, 1.0]]


def is_computed(size: list | None, dtype: str) -> bool:
    """Return False for bytes that become one pixel: eager fails an internal assertion."""
    return dtype != "uint8" or size != [1, 1]


def antialiased(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    """Yield samples by size, and of axes that keep their size, whatever their factor."""
    yield from by_size(2, True)(rng, dtype)
    for shape, size, factors in (
        ((1, 2, 13, 11), [13, 6], [1.04, 0.55]),
        ((1, 2, 13, 11), [20, 11], [1.6, 1.06]),
        ((2, 3, 13, 11), [13, 11], [1.04, 1.06]),
    ):
        for order in (None, (0, 2, 3, 1)):
            yield [bytes_too(array(rng, shape, dtype, order)), size, False, *factors]


def bytes_too(a: np.ndarray) -> np.ndarray:
    """Return bytes over their whole range."""
    return a * np.uint8(28) if a.dtype == np.uint8 else a


def vec(align: bool) -> Samples:
    """Return a sample function: the forms with sizes or factors."""

    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        for shape, order in SHAPES[2]:
            for size, factors in [*((s, None) for s in SIZES[2]), *((None, f) for f in FACTORS)]:
                for flag in ([False], [True]) if align else ([],):
                    if is_computed(size, dtype):
                        yield [bytes_too(array(rng, shape, dtype, order)), size, *flag, factors]
        for flag in ([False], [True]) if align else ([],):  # a factor that is no quotient of sizes
            yield [bytes_too(array(rng, (1, 1, 13, 110), dtype)), None, *flag, [1.04, 1.04]]

    return samples


def by_size(axes: int, align: bool) -> Samples:
    """Return a sample function: the forms with sizes, and factors that determine the positions."""

    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        for shape, order in SHAPES[axes]:
            for i, size in enumerate(SIZES[axes]):
                for flag in ([False], [True]) if align else ([],):
                    known = [(s + 0.5) / n for s, n in zip(size, shape[2:], strict=True)]
                    factors = known if i == 1 else [None] * axes
                    if is_computed(size, dtype):
                        yield [bytes_too(array(rng, shape, dtype, order)), size, *flag, *factors]

    return samples


def backward(align: bool) -> Samples:
    """Return a sample function: gradients, their sizes, and the sizes of the upsampled input."""

    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        for x, size, *rest in by_size(2, align)(rng, dtype):
            order = np.argsort([-s for s in x.strides], kind="stable")
            grad = array(rng, (*x.shape[:2], *size), dtype, order)
            yield [grad, size, list(x.shape), *rest]

    return samples


def padded(axes: int, least: int) -> Samples:
    """Return a sample function: padding of the batched and the plain form; `least` is the most
    negative one."""

    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        for shape, order in SHAPES[axes]:
            small = min(shape[2:]) - 1
            for pad in ([small, 0], [0, small], [-1, small], [0, 0], [1, least]):
                yield [array(rng, shape, dtype, order), pad * axes]
        yield [array(rng, SHAPES[axes][0][0][1:], dtype), [1, 1] * axes]
        if least > 0:
            yield [array(rng, (2, 3, *[1] * axes), dtype), [2, 3] * axes]

    return samples


def gridded(axes: int) -> Samples:
    """Return a sample function: every mode, padding and alignment, with positions far outside and
    not finite."""

    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        for shape, order in SHAPES[axes]:
            grid = array(rng, (shape[0], *[2] * (axes - 1), 5, axes), dtype)
            if dtype in FLOATING and grid.size:
                grid.flat[0] = 1
                grid.flat[3] = -7.3
            for mode in range(5 - axes):
                for padding in range(3):
                    for align in (False, True):
                        x = array(rng, shape, dtype, order)
                        yield [x, grid, mode, padding, align]
        special = [np.nan, np.inf, -np.inf, -1, 0.25, 0.5, 2, -3.1]
        if dtype in FLOATING:
            grid = np.full((2, *[1] * (axes - 1), len(special), axes), 0.3, np_dtype(dtype))
            grid[..., 0] = special
            for i in range(6 * (5 - axes)):
                x = array(rng, SHAPES[axes][0][0], dtype)
                yield [x, grid, i // 6, i // 2 % 3, i % 2 == 1]

    return samples


SAMPLES: dict[str, Samples] = {
    "aten::upsample_nearest2d.vec_out": vec(False),
    "aten::upsample_bilinear2d.vec_out": vec(True),
    "aten::upsample_linear1d.out": by_size(1, True),
    "aten::upsample_bilinear2d.out": by_size(2, True),
    "aten::upsample_trilinear3d.out": by_size(3, True),
    "aten::upsample_bicubic2d.out": by_size(2, True),
    "aten::upsample_nearest2d_backward.grad_input": backward(False),
    "aten::upsample_bilinear2d_backward.grad_input": backward(True),
    **{f"aten::_upsample_{n}2d_aa.out": antialiased for n in ("bilinear", "bicubic", "lanczos")},
    **{f"aten::upsample_nearest{n}d.out": by_size(n, False) for n in (1, 2, 3)},
    **{f"aten::_upsample_nearest_exact{n}d.out": by_size(n, False) for n in (1, 2, 3)},
    **{f"aten::reflection_pad{n}d.out": padded(n, -1) for n in (1, 2, 3)},
    **{f"aten::grid_sampler_{n}d.out": gridded(n) for n in (2, 3)},
    **{f"aten::replication_pad{n}d.out": padded(n, 5) for n in (1, 2, 3)},
}
