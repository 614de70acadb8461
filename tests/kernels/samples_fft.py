"""Sample arguments of the operators in csrc/kernels/fft, by operator name."""

from collections.abc import Iterator

import numpy as np

from tests.kernels.eager import Samples, array


# Every radix, the general one, lengths for convolution, even and odd.
LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 16, 21, 33, 67, 100, 134)
SHAPES = [((6, 5, 9), None), ((6, 5, 9), (2, 0, 1)), ((3, 1, 40), (1, 2, 0))]
DIMS = ([0], [1, 0], [2, 0], [0, 1, 2])


def shapes(rng: np.random.Generator, dtype: str) -> Iterator[tuple[np.ndarray, list[int], int]]:
    for n in LENGTHS:
        yield array(rng, (n,), dtype), [0], 0
        yield array(rng, (7, n), dtype), [1], 1
        yield array(rng, (n, 37), dtype), [0], 2
    for shape, order in SHAPES:
        for dims in DIMS:
            yield array(rng, shape, dtype, order), dims, 1
    yield array(rng, (2, 3, 16, 10), dtype, (0, 2, 3, 1)), [2, 3], 0


def real_to_complex(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for a, dims, norm in shapes(rng, dtype):
        yield [a, dims, norm, True]
        yield [a, dims, norm, False]


def complex_to_complex(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    yield from real_to_complex(rng, dtype)
    yield [array(rng, (2, 3), dtype), [], 0, True]


def complex_to_real(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for a, dims, norm in shapes(rng, dtype):
        n = a.shape[dims[-1]]
        yield [a, dims, norm, 2 * n - 1]
        if n > 1:
            yield [a, dims, norm, 2 * n - 2]


SAMPLES: dict[str, Samples] = {
    "aten::_fft_c2c.out": complex_to_complex,
    "aten::_fft_r2c.out": real_to_complex,
    "aten::_fft_c2r.out": complex_to_real,
}
