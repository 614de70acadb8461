"""Sample arguments of the operators in csrc/kernels/copy and csrc/kernels/create."""

from collections.abc import Callable, Iterator

import numpy as np

from tests.kernels.eager import ALL, array

Samples = Callable[[np.random.Generator, str], Iterator[list]]

LAYOUTS = [
    *(((), None), ((1,), None), ((7,), None), ((2, 0, 3), None), ((3, 300), (1, 0))),
    *(((2, 3, 4, 5), (0, 2, 3, 1)), ((2, 17, 3), (2, 0, 1)), ((1, 40, 1, 50), (3, 2, 1, 0))),
]


def copies(*tail: object) -> Samples:
    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        for shape, order in LAYOUTS:
            yield [array(rng, shape, dtype, order), *tail]

    return samples


def copy(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for other in ALL:
        if not (other.startswith("complex") and not dtype.startswith("complex")):
            yield [array(rng, (3, 40), dtype), array(rng, (40,), other), False]
    for shape, order in LAYOUTS:
        a = array(rng, shape, dtype, order)
        yield [a, array(rng, shape, dtype), False]
        yield [a, array(rng, (), dtype), False]
        yield [a, array(rng, shape[-1:], dtype), True]


def full(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for value in (0, 3, -1, 2.5, True):
        for shape in ([], [0], [3, 5], [2, 3, 4, 5]):
            yield [shape, value]


def shapes(*tail: object) -> Samples:
    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        for shape in ([], [0], [3, 5], [2, 3, 4, 5]):
            yield [shape, *tail]

    return samples


def full_like(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape, order in LAYOUTS:
        for value in (0, 3, -1, 2.5, True):
            yield [array(rng, shape, dtype, order), value, None]


def fill_scalar(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for args in full_like(rng, dtype):
        yield args[:2]


def fill_tensor(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for other in ("bool", "int64", "float32", dtype):
        for shape, order in LAYOUTS:
            yield [array(rng, shape, dtype, order), array(rng, (), other)]


def scalar_tensor(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for value in (0, 3, -1, 2.5, True):
        yield [value]


def frequencies(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for n, step in ((7, 1.0), (8, 0.5), (1, -2.0), (0, 1.0), (1000, 1e-3), (5, 3.5)):
        yield [n, step]


def arange(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for end in (0, 1, 5, 300, 4.5, True):
        yield [end]


def arange_start(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for bounds in ((0, 5, 1), (5, 0, -2), (2, 2, 1), (3, 600, 2), (-4, 9, 3), (0, True, 1)):
        yield list(bounds)
    if "int" not in dtype:
        for bounds in ((0, 1, 0.1), (0.5, 3, 1), (1, -1, -0.25), (0, 40, 0.5)):
            yield list(bounds)


def empty_permuted(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for size, order in (([], []), ([0], [0]), ([3, 5], [1, 0]), ([2, 3, 4], [1, 2, 0])):
        yield [size, order]
    yield from ([[2, 3], [0]], [[2, 3], [0, 0]], [[2, 3], [0, 2]], [[2, 3], [-1, 0]])


def empty_strided(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for size, strides in (([], []), ([0, 2], [2, 1]), ([3, 5], [1, 3]), ([2, 3, 4], [12, 4, 1])):
        yield [size, strides]
    yield from ([[2, 3], [1]], [[2, 3], [-1, 1]])


def new_empty_strided(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for args in empty_strided(rng, dtype):
        yield [array(rng, (4,), dtype), *args]


def resize(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    """Yield smaller or equal sizes: eager leaves the elements beyond undefined."""
    for shape, order in LAYOUTS:
        for last in (None, 0):
            yield [array(rng, shape, dtype, order), list(shape), last]
    for order in (None, (2, 0, 1)):
        for size in ([24], [4, 5], [2, 3, 3], [], [0, 7], [1, 2, 3, 4]):
            yield [array(rng, (2, 3, 4), dtype, order), size, None]
    for shape in ((1, 4, 3, 2), (2, 3, 2, 2)):
        yield [array(rng, shape, dtype), [1, 2, 3, 4], 2]
        yield [array(rng, shape, dtype, (0, 2, 3, 1)), [1, 2, 3, 4], 2]
    yield [array(rng, (5, 4, 3), dtype), [1, 2, 3, 4, 2], 3]
    yield from ([array(rng, (3,), dtype), [3], 2], [array(rng, (3,), dtype), [3], 1])


def resize_in_place(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    """Yield tensors of one size, with another memory format."""
    for shape, order in LAYOUTS:
        for last in (None, 0):
            yield [array(rng, shape, dtype, order), list(shape), last]
    yield [array(rng, (2, 3, 4, 5), dtype), [2, 3, 4, 5], 2]


def triangles(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for rows, cols in ((3, 4), (4, 3), (1, 1), (0, 3), (3, 0), (40, 30)):
        for offset in (0, 1, -1, 2, -2, 5, -5, 100, -100):
            yield [rows, cols, offset]
    yield from ([2, 3, 2**62], [2, 3, -(2**62)], [-1, 2, 0], [2, -1, 0])


COPIES: dict[str, Samples] = {
    "aten::clone.out": copies(None),
    "aten::alias_copy.out": copies(),
    "aten::detach_copy.out": copies(),
    "aten::lift_fresh_copy.out": copies(),
    "aten::_to_copy.out": copies(False, None),
    "aten::copy.out": copy,
    "aten::copy_": copy,
    "dim_order_ops::_to_dim_order_copy.out": copies(False, None),
    "dim_order_ops::_clone_dim_order.out": copies(False, None),
    "et_copy::_h2d_copy.out": copies(),
    "et_copy::_d2h_copy.out": copies(),
}

CREATED: dict[str, Samples] = {
    "aten::full.out": full,
    "aten::zeros.out": shapes(),
    "aten::ones.out": shapes(),
    "aten::empty.out": shapes(None),
    "dim_order_ops::_empty_dim_order.out": shapes(None),
    "aten::empty_permuted.out": empty_permuted,
    "aten::empty_strided.out": empty_strided,
    "aten::new_empty_strided.out": new_empty_strided,
    **{f"aten::fft_{n}freq.out": frequencies for n in ("fft", "rfft")},
    "aten::tril_indices.out": triangles,
    "aten::triu_indices.out": triangles,
    "aten::full_like.out": full_like,
    "aten::fill.Scalar_out": fill_scalar,
    "aten::fill.Tensor_out": fill_tensor,
    "aten::scalar_tensor.out": scalar_tensor,
    "aten::arange.out": arange,
    "aten::arange.start_out": arange_start,
}

RESIZED: dict[str, Samples] = {"aten::resize.out": resize, "aten::resize_": resize_in_place}
