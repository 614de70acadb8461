"""Sample arguments of the operators in csrc/kernels/pool, by operator name."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from eager import array

LAYOUTS = [((2, 3, 8, 9), None), ((1, 18, 7, 8), (0, 2, 3, 1)), ((4, 8, 9), None),
           ((0, 3, 8, 9), None)]  # fmt: skip


def max_pool(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape, order in LAYOUTS:
        x = array(rng, shape, dtype, order)
        yield [x, [2, 2], [], [0, 0], [1, 1], False]
        yield [x, [3], [2], [1], [1], True]
        yield [x, [3, 2], [2, 3], [1, 0], [2, 1], True]


def avg_pool(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape, order in LAYOUTS:
        x = array(rng, shape, dtype, order)
        yield [x, [2, 2], [], [0, 0], False, True, None]
        yield [x, [3, 2], [2, 1], [1, 0], True, True, None]
        yield [x, [3], [2], [1], True, False, None]
        yield [x, [3], [2], [1], False, True, 7]


def adaptive(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape, order in LAYOUTS:
        for size in ([1, 1], [3, 4], [10, 8]):
            yield [array(rng, shape, dtype, order), size]


SAMPLES = {
    "aten::max_pool2d_with_indices.out": max_pool,
    "aten::avg_pool2d.out": avg_pool,
    "aten::_adaptive_avg_pool2d.out": adaptive,
}
