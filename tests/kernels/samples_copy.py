"""Sample arguments of the operators in csrc/kernels/copy and csrc/kernels/create."""

from collections.abc import Iterator

import numpy as np

from tests.kernels.eager import ALL, Samples, array, fixed, of_self


LAYOUTS = [
    *(((), None), ((1,), None), ((7,), None), ((2, 0, 3), None), ((3, 300), (1, 0))),
    *(((2, 3, 4, 5), (0, 2, 3, 1)), ((2, 17, 3), (2, 0, 1)), ((1, 40, 1, 50), (3, 2, 1, 0))),
]


SIZES, NUMBERS = ([], [0], [3, 5], [2, 3, 4, 5]), (0, 3, -1, 2.5, True)


def in_layouts(*tails: list) -> Samples:
    """Return a sample function: self in every layout, followed by each tail."""
    return of_self(*((shape, order, tail) for shape, order in LAYOUTS for tail in tails))


def copy(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for other in ALL:
        if not (other.startswith("complex") and not dtype.startswith("complex")):
            yield [array(rng, (3, 40), dtype), array(rng, (40,), other), False]
    for shape, order in LAYOUTS:
        a = array(rng, shape, dtype, order)
        yield [a, array(rng, shape, dtype), False]
        yield [a, array(rng, (), dtype), False]
        yield [a, array(rng, shape[-1:], dtype), True]


def fill_tensor(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for other in ("bool", "int64", "float32", dtype):
        for shape, order in LAYOUTS:
            yield [array(rng, shape, dtype, order), array(rng, (), other)]


def arange_start(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for bounds in ((0, 5, 1), (5, 0, -2), (2, 2, 1), (3, 600, 2), (-4, 9, 3), (0, True, 1)):
        yield list(bounds)
    if "int" not in dtype:
        for bounds in ((0, 1, 0.1), (0.5, 3, 1), (1, -1, -0.25), (0, 40, 0.5)):
            yield list(bounds)


STRIDED = [
    *([[], []], [[0, 2], [2, 1]], [[3, 5], [1, 3]], [[2, 3, 4], [12, 4, 1]]),
    *([[2, 3], [1]], [[2, 3], [-1, 1]]),
]
SAME_SIZE = [(shape, order, [list(shape), last]) for shape, order in LAYOUTS for last in (None, 0)]
# Smaller or equal sizes: eager leaves the elements beyond undefined.
RESIZED_TO = [
    *SAME_SIZE,
    *(
        ((2, 3, 4), order, [size, None])
        for order in (None, (2, 0, 1))
        for size in ([24], [4, 5], [2, 3, 3], [], [0, 7], [1, 2, 3, 4])
    ),
    *(
        (shape, order, [[1, 2, 3, 4], 2])
        for shape in ((1, 4, 3, 2), (2, 3, 2, 2))
        for order in (None, (0, 2, 3, 1))
    ),
    *(((5, 4, 3), None, [[1, 2, 3, 4, 2], 3]), ((3,), None, [[3], 2]), ((3,), None, [[3], 1])),
]
TRIANGLES = fixed(
    *(
        [rows, cols, offset]
        for rows, cols in ((3, 4), (4, 3), (1, 1), (0, 3), (3, 0), (40, 30))
        for offset in (0, 1, -1, 2, -2, 5, -5, 100, -100)
    ),
    *([2, 3, 2**62], [2, 3, -(2**62)], [-1, 2, 0], [2, -1, 0]),
)
FREQUENCIES = fixed([7, 1.0], [8, 0.5], [1, -2.0], [0, 1.0], [1000, 1e-3], [5, 3.5])

COPIES: dict[str, Samples] = {
    "aten::clone.out": in_layouts([None]),
    "aten::alias_copy.out": in_layouts([]),
    "aten::detach_copy.out": in_layouts([]),
    "aten::lift_fresh_copy.out": in_layouts([]),
    "aten::_to_copy.out": in_layouts([False, None]),
    "aten::copy.out": copy,
    "aten::copy_": copy,
    "dim_order_ops::_to_dim_order_copy.out": in_layouts([False, None]),
    "dim_order_ops::_clone_dim_order.out": in_layouts([False, None]),
    "et_copy::_h2d_copy.out": in_layouts([]),
    "et_copy::_d2h_copy.out": in_layouts([]),
}

CREATED: dict[str, Samples] = {
    "aten::full.out": fixed(*([size, number] for number in NUMBERS for size in SIZES)),
    "aten::zeros.out": fixed(*([size] for size in SIZES)),
    "aten::ones.out": fixed(*([size] for size in SIZES)),
    "aten::empty.out": fixed(*([size, None] for size in SIZES)),
    "dim_order_ops::_empty_dim_order.out": fixed(*([size, None] for size in SIZES)),
    "aten::empty_permuted.out": fixed(
        *([[], []], [[0], [0]], [[3, 5], [1, 0]], [[2, 3, 4], [1, 2, 0]]),
        *([[2, 3], order] for order in ([0], [0, 0], [0, 2], [-1, 0])),
    ),
    "aten::empty_strided.out": fixed(*STRIDED),
    "aten::new_empty_strided.out": of_self(*(((4,), None, rest) for rest in STRIDED)),
    **{f"aten::fft_{n}freq.out": FREQUENCIES for n in ("fft", "rfft")},
    "aten::tril_indices.out": TRIANGLES,
    "aten::triu_indices.out": TRIANGLES,
    "aten::full_like.out": in_layouts(*([number, None] for number in NUMBERS)),
    "aten::fill.Scalar_out": in_layouts(*([number] for number in NUMBERS)),
    "aten::fill.Tensor_out": fill_tensor,
    "aten::scalar_tensor.out": fixed(*([number] for number in NUMBERS)),
    "aten::arange.out": fixed([0], [1], [5], [300], [4.5], [True]),
    "aten::arange.start_out": arange_start,
}

RESIZED: dict[str, Samples] = {
    "aten::resize.out": of_self(*RESIZED_TO),
    "aten::resize_": of_self(*SAME_SIZE, ((2, 3, 4, 5), None, [[2, 3, 4, 5], 2])),
}
