"""Sample arguments of csrc/kernels/view/fold.c, by operator name, for
tests/kernels/test_rows.py."""

from collections.abc import Iterator

import numpy as np

from tests.kernels.eager import array, eager, of_self

# kernel, dilation, padding, stride
WINDOWS = [
    [[2, 2], [1, 1], [0, 0], [1, 1]],
    [[2, 3], [2, 1], [1, 2], [1, 2]],
    [[1, 2], [1, 1], [3, 4], [3, 2]],
    [[3, 1], [1, 3], [2, 0], [2, 5]],
]
IMAGES = [
    ((2, 3, 4, 5), None),
    ((1, 2, 5, 4), (0, 2, 3, 1)),
    ((2, 5, 6), (1, 2, 0)),
    ((0, 2, 4, 4), None),
    ((1, 1, 3, 3), None),
]


def col2im(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape, order in IMAGES:
        for lists in WINDOWS:
            (columns,) = eager("aten::im2col.out", [np.ones(shape, "float32"), *lists])
            moved = np.argsort(order)[-columns.ndim :].argsort() if order else None
            yield [array(rng, columns.shape, dtype, moved), list(shape[-2:]), *lists]


def unfold_backward(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for sizes, dim, size, step in (
        *(([7], 0, 3, 2), ([4, 5], 1, 2, 1), ([4, 5], 0, 4, 9), ([2, 6, 3], -2, 4, 1)),
        *(([3], 0, 0, 2), ([], 0, 1, 1), ([0, 4], 1, 2, 1)),
    ):
        shape = np.empty(sizes).shape
        windows = [*shape, size]
        if sizes:
            windows[dim if dim >= 0 else dim - 1] = (shape[dim] - size) // step + 1
        for order in (None, range(len(windows))[::-1]):
            yield [array(rng, windows, dtype, order), sizes, dim, size, step]


SAMPLES = {
    "aten::im2col.out": of_self(*((*image, lists) for image in IMAGES for lists in WINDOWS)),
    "aten::col2im.out": col2im,
    "aten::unfold_backward.out": unfold_backward,
}
