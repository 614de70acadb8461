"""Sample arguments of the operators in csrc/kernels/view, by operator name."""

from collections.abc import Iterator, Sequence

import numpy as np

from tests.kernels.eager import COMPLEX, FLOATING, DType, Samples, array, of_self


NHWC = (0, 2, 3, 1)
PERMUTED = [
    *(((2, 3, 4, 5), None, [[0, 2, 3, 1]]), ((2, 3, 4, 5), NHWC, [[0, 3, 1, 2]])),
    *(((40, 50), None, [[1, 0]]), ((40, 50), (1, 0), [[1, 0]]), ((40, 50), None, [[-2, -1]])),
    *(((), None, [[]]), ((3,), None, [[0]]), ((2, 0, 3), None, [[2, 0, 1]])),
    *(((3, 1, 33, 2), None, [[3, 2, 1, 0]]), ((16, 16, 16), (2, 0, 1), [[1, 2, 0]])),
]
SLICES = [
    *(((5, 7), None, [0, None, None, 1]), ((5, 7), (1, 0), [1, 1, 6, 2])),
    *(((5, 7), None, [-1, -3, 100, 1]), ((5, 7), None, [0, 4, 2, 1])),
    *(((5, 7), None, [1, -100, -1, 3]), ((2, 3, 4, 5), NHWC, [1, 1, 3, 1])),
    *(((7,), None, [0, 6, 9223372036854775807, 9223372036854775807]), ((0, 3), None, [0, 0, 2, 1])),
    ((5, 7), None, [0, -9223372036854775808, 2, 1]),
]


def joined(dims: Sequence[int], shapes: Sequence[Sequence], other: bool) -> Samples:
    """Return a sample function: lists of tensors; with `other`, one more of another dtype."""

    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        for dim in dims:
            for list_of_shapes in shapes:
                yield [[array(rng, s, dtype, o) for s, o in list_of_shapes], dim]
        if other and not (dtype.startswith("uint") and dtype != "uint8"):
            wide = "complex64" if dtype in COMPLEX else "float32"
            pair = [array(rng, (2, 3), dtype), array(rng, (2, 3), wide, (1, 0))]
            yield [pair, 0]
            yield [pair[::-1], 1]

    return samples


def cat(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    both = [[((2, 3), None), ((2, 3), (1, 0)), ((2, 3), None)], [((2, 3), None)]]
    yield from joined([0, 1, -1], both, True)(rng, dtype)
    uneven = [
        array(rng, s, dtype, o)
        for s, o in [((2, 1, 4), None), ((2, 5, 4), (2, 0, 1)), ((2, 0, 4), None)]
    ]
    yield [uneven, 1]
    yield [[array(rng, (0,), "float32" if dtype in FLOATING else dtype), *uneven], -2]
    yield [[array(rng, (0,), dtype), array(rng, (0,), dtype)], 0]
    for dim in (0, 1, -1):
        yield [[array(rng, (2, 3, 2, 4), dtype) for _ in range(2)], dim]
    yield [[array(rng, (3,), dtype), array(rng, (0,), dtype), array(rng, (4,), dtype)], 0]


def written(*cases: tuple[Sequence[int], Sequence[int], list]) -> Samples:
    """Return a sample function: self, src with its own shape and another dtype, and the rest."""

    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        for shape, part, rest in cases:
            order = tuple(reversed(range(len(shape))))
            yield [array(rng, shape, dtype), array(rng, part, dtype), *rest]
            yield [array(rng, shape, dtype, order), array(rng, part, "int32"), *rest]

    return samples


def padded(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    value = {"bool": True}.get(dtype, 3)
    for shape, order, pad in (
        *(((2, 3, 4), None, [1, 2]), ((2, 3, 4), (2, 1, 0), [1, 2, 0, 1, 3, 0])),
        *(((), None, []), ((4, 5), None, [-1, 2, 1, -2]), ((4, 5), (1, 0), [-2, -3])),
        *(((4, 5), None, [-5, 7]), ((4, 5), None, [7, -5]), ((0, 3), None, [1, 1, 2, 0])),
        ((1, 2, 3, 4), NHWC, [1, 1, 1, 1]),
    ):
        yield [array(rng, shape, dtype, order), pad, value]
    if dtype in FLOATING:
        yield [array(rng, (2, 3), dtype), [1, 1], float("-inf")]
        yield [array(rng, (2, 3), dtype), [1, 1], 0.1]


SAMPLES: dict[str, Samples] = {
    "aten::permute_copy.out": of_self(*PERMUTED),
    "aten::transpose_copy.int_out": of_self(
        *(((2, 3, 4, 5), None, [1, -1]), ((2, 3, 4, 5), NHWC, [1, 3]), ((64, 48), None, [0, 1])),
        *(((), None, [0, -1]), ((4,), None, [0, 0])),
    ),
    "aten::t_copy.out": of_self(
        ((), None, []), ((4,), None, []), ((33, 40), None, []), ((3, 4), (1, 0), [])
    ),
    "aten::view_copy.out": of_self(
        *(((2, 3, 4), None, [[6, 4]]), ((2, 3, 4), None, [[-1]])),
        *(((2, 3, 4), (2, 0, 1), [[4, -1]]), ((2, 3, 4, 5), NHWC, [[2, 3, 20]])),
        *(((), None, [[1, 1]]), ((1, 1), None, [[]]), ((0, 3), None, [[-1, 3]])),
        *(((0, 3), None, [[5, 0]]), ((6,), None, [[2, 3]])),
    ),
    "aten::expand_copy.out": of_self(
        *(((3, 1), None, [[3, 4], False]), ((3, 1), None, [[2, -1, 4], False])),
        *(((), None, [[2, 3], False]), ((1, 3), None, [[0, 3], False])),
        *(((2, 1, 4), (2, 1, 0), [[2, 5, 4], False]), ((4,), None, [[300, 4], False])),
    ),
    "aten::unsqueeze_copy.out": of_self(
        ((), None, [0]), ((3, 4), None, [-1]), ((3, 4), (1, 0), [0]), ((3, 4), None, [-3])
    ),
    "aten::squeeze_copy.dim_out": of_self(
        ((), None, [-1]), ((3, 1, 4), None, [1]), ((3, 1, 4), (2, 1, 0), [-2]), ((3, 1), None, [0])
    ),
    "aten::squeeze_copy.dims_out": of_self(
        ((), None, [[0]]),
        ((1, 3, 1, 4), None, [[0, 1, -2]]),
        ((1, 1), None, [[1, 0]]),
        ((3, 1), None, [[]]),
    ),
    "aten::slice_copy.Tensor_out": of_self(*SLICES),
    "aten::select_copy.int_out": of_self(
        ((3, 4, 5), None, [0, 1]),
        ((3, 4, 5), (2, 1, 0), [1, -1]),
        ((3,), None, [-1, -3]),
        ((3, 0), None, [0, 2]),
    ),
    "aten::narrow_copy.out": of_self(
        ((5, 6), None, [0, 1, 3]),
        ((5, 6), (1, 0), [-1, -2, 2]),
        ((5,), None, [0, 5, 0]),
        ((5, 6), None, [1, 0, 6]),
    ),
    "aten::split_copy.Tensor_out": of_self(
        ((5, 6), None, [2, 0]),
        ((5, 6), (1, 0), [6, -1]),
        ((5, 6), None, [9, 1]),
        ((0, 3), None, [0, 0]),
    ),
    "aten::split_with_sizes_copy.out": of_self(
        ((5, 6), None, [[2, 3], 0]),
        ((5, 6), (1, 0), [[1, 0, 5], -1]),
        ((2, 6, 3), None, [[3, 3], 1]),
    ),
    "aten::unbind_copy.int_out": of_self(
        ((3, 4), None, [0]), ((3, 4), (1, 0), [-1]), ((2,), None, [0]), ((3, 0), None, [0])
    ),
    "aten::cat.out": cat,
    "aten::stack.out": joined(
        [0, 1, -1, -2],
        [[((2, 3), None), ((2, 3), (1, 0))], [((2, 3), None)], [((0, 2), None)] * 3],
        True,
    ),
    "aten::repeat.out": of_self(
        *(((2, 3), None, [[2, 3]]), ((2, 3), (1, 0), [[4, 1, 5]]), ((), None, [[7]])),
        *(((), None, [[]]), ((3,), None, [[2, 0]]), ((1, 1), None, [[33, 65]])),
        ((0, 2), None, [[3, 3]]),
    ),
    "aten::flip.out": of_self(
        *(((3, 4), None, [[0]]), ((3, 4), (1, 0), [[-1, 0]]), ((3, 4), None, [[]])),
        *(((), None, [[0]]), ((2, 0), None, [[0, 1]]), ((2, 33, 3), None, [[1]])),
    ),
    "aten::roll.out": of_self(
        *(((3, 4), None, [[1], [0]]), ((3, 4), (1, 0), [[-1, 5], [0, 1]])),
        *(((3, 4), None, [[5], []]), ((3, 4), (1, 0), [[-2], []])),
        *(((3, 4), None, [[1, 2], [1, 1]]), ((0, 2), None, [[1], [0]])),
        *(((2, 3, 4), None, [[1, 1, 1], [0, 1, 2]]), ((), None, [[1], []])),
    ),
    "aten::slice_scatter.out": written(
        ((4, 5), (2, 5), [0, 1, 3, 1]),
        ((4, 5), (4, 2), [1, 1, None, 2]),
        ((4, 5), (0, 5), [0, 3, 1, 1]),
        ((4, 5), (4, 5), [0, None, None, 1]),
    ),
    "aten::select_scatter.out": written(
        ((4, 5), (5,), [0, -1]), ((4, 5), (4,), [1, 2]), ((3,), (), [0, 0])
    ),
    "aten::diagonal_scatter.out": written(
        ((3, 4), (3,), [1, 0, 1]),
        ((3, 4), (2,), [-1, 0, 1]),
        ((2, 3, 4), (3, 2), [0, -1, 0]),
        ((3, 4), (0,), [9, 0, 1]),
    ),
    "aten::as_strided_scatter.out": written(
        ((3, 4), (2, 2), [[2, 2], [1, 4], 1]),
        ((3, 4), (3,), [[3], [5], None]),
        ((12,), (), [[], [], 11]),
        ((2, 3), (0, 2), [[0, 2], [9, 9], 40]),
    ),
    "aten::constant_pad_nd.out": padded,
    "aten::tril.out": of_self(
        *(((4, 4), None, [0]), ((3, 5), None, [1]), ((5, 3), (1, 0), [-2]), ((2, 3, 4), None, [0])),
        *(((3, 3), None, [9]), ((3, 3), None, [-9]), ((0, 3), None, [0]), ((2, 0), None, [0])),
    ),
    "aten::as_strided_copy.out": of_self(
        *(((12,), None, [[3, 2], [4, 1], 1]), ((3, 4), None, [[2, 2], [1, 1], None])),
        *(((3, 4), None, [[], [], 11]), ((3, 4), None, [[5, 2], [0, 3], 0])),
        ((3, 4), None, [[0], [9], 40]),
    ),
    "aten::diagonal_copy.out": of_self(
        *(((3, 4), None, [0, 0, 1]), ((3, 4), (1, 0), [1, 0, 1]), ((3, 4), None, [-2, 0, 1])),
        *(((3, 4), None, [9, 0, 1]), ((2, 3, 4), None, [1, -1, 0]), ((3, 4), None, [-3, 0, 1])),
    ),
    "aten::pixel_shuffle.out": of_self(
        *(((1, 8, 3, 2), None, [2]), ((2, 1, 9, 2, 3), None, [3]), ((4, 2, 2), (2, 0, 1), [2])),
        *(((0, 4, 2, 2), None, [2]), ((3, 2, 2), None, [1])),
    ),
    "aten::pixel_unshuffle.out": of_self(
        ((1, 2, 6, 4), None, [2]), ((2, 1, 3, 6), (2, 1, 0, 3), [3])
    ),
    "aten::view_as_real_copy.out": of_self(
        *(((3, 4), None, []), ((3, 4), (1, 0), []), ((), None, []), ((2, 0), None, [])),
        ((2, 3, 4, 5), NHWC, []),
    ),
    "aten::view_as_complex_copy.out": of_self(
        *(((3, 4, 2), None, []), ((3, 4, 2), (1, 0, 2), []), ((2,), None, []), ((0, 2), None, [])),
        *(((3, 3), None, []), ((3, 2), (1, 0), []), ((), None, [])),
        ((2, 5, 3, 2), (3, 0, 2, 1), []),
    ),
    "aten::view_copy.dtype_out": of_self(
        *[
            (shape, order, [DType(to)])
            for shape, order in (
                *(((3, 8), None), ((8, 3), (1, 0)), ((2, 3, 16), (1, 0, 2)), ((), None)),
                *(((0, 8), None), ((2, 4, 3, 5), NHWC), ((5,), None)),
            )
            for to in ("uint8", "float16", "int32", "float64", "complex64")
        ]
    ),
    "aten::unfold_copy.out": of_self(
        *(((7,), None, [0, 3, 2]), ((4, 5), (1, 0), [1, 2, 1]), ((4, 5), None, [0, 4, 9])),
        *(((3,), None, [0, 0, 2]), ((), None, [0, 1, 1])),
    ),
}
