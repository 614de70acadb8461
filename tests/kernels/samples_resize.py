"""Sample arguments of the operators in csrc/kernels/resize, by operator name."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from eager import array

LAYOUTS = [((2, 3, 5, 7), None), ((1, 18, 4, 3), (0, 2, 3, 1)), ((0, 2, 3, 3), None)]
SIZES = [([10, 14], None), ([3, 11], None), ([5, 7], None), ([1, 1], None),
         (None, [2.0, 2.0]), (None, [1.7, 0.6]), (None, [3.0, 1.0])]  # fmt: skip


def nearest(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape, order in LAYOUTS:
        for size, factors in SIZES:
            yield [array(rng, shape, dtype, order), size, factors]


def bilinear(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    if dtype == "uint8":
        return  # eager rounds by fixed-point weights: compared in test_resize.py
    for shape, order in LAYOUTS:
        for size, factors in SIZES:
            for align in (False, True):
                yield [array(rng, shape, dtype, order), size, align, factors]


SAMPLES = {
    "aten::upsample_nearest2d.vec_out": nearest,
    "aten::upsample_bilinear2d.vec_out": bilinear,
}
