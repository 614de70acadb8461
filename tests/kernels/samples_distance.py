"""Sample arguments of the operators in csrc/kernels/distance, by operator name."""

from collections.abc import Iterator

import numpy as np

from tests.kernels.eager import Samples, array


NORMS = (0.0, 1.0, 2.0, 3.5, float("inf"))
# Shapes and memory orders of both operands.
PAIRS = [
    *(((3, 4), None, (5, 4), None), ((1, 1), None, (1, 1), None)),
    *(((3, 19), None, (2, 19), (1, 0)), ((3, 0), None, (2, 0), None)),
    *(((0, 4), None, (2, 4), None), ((2, 1, 3, 4), None, (6, 5, 4), None)),
    ((2, 3, 9), (2, 1, 0), (2, 3, 9), (1, 0, 2)),
]


def cdist(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for p in NORMS:
        for shape, order, other, other_order in PAIRS:
            a, b = array(rng, shape, dtype, order), array(rng, other, dtype, other_order)
            yield [a, b, p, None if shape[0] == 3 else 2]


def pdist(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for p in NORMS:
        for shape in ((7, 5), (2, 19), (0, 3), (3, 0)):
            yield [array(rng, shape, dtype), p]
        if dtype in ("float32", "float64"):  # without pairs, eager ignores the dtype
            yield [array(rng, (1, 3), dtype), p]


SAMPLES: dict[str, Samples] = {"aten::_cdist_forward.out": cdist, "aten::_pdist_forward.out": pdist}
