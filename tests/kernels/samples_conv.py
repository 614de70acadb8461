"""Sample arguments of the operators in csrc/kernels/conv, by operator name."""

from collections.abc import Iterator

import numpy as np

from tests.kernels.eager import array, eager

# input, weight, stride, padding, dilation, transposed, output_padding, groups
CASES = [
    ((2, 3, 6, 7), (5, 3, 3, 2), [2, 1], [1, 0], [1, 1], False, [0, 0], 1),
    ((1, 8, 5, 5), (4, 8, 1, 1), [1, 1], [0, 0], [1, 1], False, [0, 0], 1),
    ((1, 4, 6, 6), (8, 1, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 4),
    ((1, 4, 9), (6, 2, 3), [2], [2], [1], False, [0], 2),
    ((1, 2, 4, 5, 6), (3, 2, 2, 3, 3), [1, 1, 2], [0, 1, 1], [1, 1, 1], False, [0, 0, 0], 1),
]
# eager has these for int64 and floating point only
MORE_CASES = [
    ((2, 3, 8, 9), (4, 3, 3, 3), [1, 2], [2, 1], [2, 3], False, [0, 0], 1),
    ((1, 3, 4, 5), (3, 4, 3, 2), [2, 3], [1, 0], [1, 1], True, [1, 0], 1),
    ((1, 4, 4, 5), (4, 1, 3, 3), [2, 2], [1, 1], [1, 1], True, [1, 1], 4),
    ((1, 3, 7), (3, 2, 4), [3], [1], [2], True, [2], 1),
    ((1, 2, 2, 3, 4), (2, 3, 2, 2, 3), [1, 2, 2], [0, 0, 1], [1, 1, 1], True, [0, 1, 0], 1),
]
BACKWARD_CASES = [
    ((2, 6, 5, 6), (4, 3, 2, 3), [2, 1], [1, 2], [1, 2], False, [0, 0], 2),
    ((2, 4, 4, 3), (4, 3, 3, 2), [2, 1], [0, 1], [2, 1], True, [1, 0], 2),
    ((1, 5, 7, 7), (5, 1, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 5),
    ((0, 3, 6), (2, 3, 3), [1], [1], [1], False, [0], 1),
    ((3, 2, 9), (3, 2, 2), [3], [0], [1], False, [0], 1),
]


def convolution(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    all_cases = dtype == "int64" or "float" in dtype
    for i, (x, w, *rest) in enumerate(CASES + MORE_CASES if all_cases else CASES):
        order = (0, *range(2, len(x)), 1) if i % 2 else None
        channels = w[1] * rest[-1] if rest[3] else w[0]
        bias = array(rng, (channels,), dtype) if i % 3 else None
        yield [array(rng, x, dtype, order), array(rng, w, dtype, order), bias, *rest]


def backward(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for i, (x, w, *rest) in enumerate(CASES + MORE_CASES + BACKWARD_CASES):
        if "int" in dtype and (max(rest[2]) == 1 or rest[3]):
            continue  # eager has dilated ones only
        order = (0, *range(2, len(x)), 1) if i % 2 else None
        wide = [np.ones(s, "float32") for s in (x, w)]
        (forward,) = eager("aten::convolution.out", [*wide, None, *rest])
        grad = array(rng, forward.shape, dtype, order)
        mask = [(i + d) % 4 > 0 for d in range(3)]
        arrays = [array(rng, x, dtype, order), array(rng, w, dtype, order if i % 3 else None)]
        yield [grad, *arrays, [forward.shape[1]], *rest, mask]


SAMPLES = {"aten::convolution.out": convolution, "aten::convolution_backward.out": backward}
