"""Sample arguments of the operators in csrc/kernels/index, by operator name."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tests.dtypes import np_dtype
from tests.kernels.eager import COMPLEX, FLOATING, Samples, array, in_order, of_self, with_nan


def ints(
    rng: np.random.Generator, shape: Any, size: int, wrap: bool = False, dtype: str = "int64"
) -> np.ndarray:
    """Return indices into a dimension of the given size; with `wrap`, negative ones too."""
    return np.asarray(rng.integers(-size if wrap else 0, size, shape)).astype(dtype)


def bools(rng: np.random.Generator, shape: Any, dtype: str = "bool") -> np.ndarray:
    return np.asarray(rng.random(shape) < 0.4).astype(dtype)


def embedding(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape, order, index in (
        *(((10, 7), None, (4,)), ((10, 7), (1, 0), (2, 3)), ((10, 300), None, ())),
        *(((10, 7), None, (0,)), ((1, 1), None, (2, 2)), ((5, 0), None, (3,))),
    ):
        for index_dtype in ("int64", "int32"):
            at = ints(rng, index, shape[0], dtype=index_dtype)
            yield [array(rng, shape, dtype, order), at, -1, False, False]


def index_select(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape, order in (((4, 5, 6), None), ((4, 5, 6), (2, 0, 1)), ((7,), None)):
        for dim in range(-len(shape), len(shape)):
            yield [array(rng, shape, dtype, order), dim, ints(rng, (9,), shape[dim])]
    yield [array(rng, (), dtype), 0, ints(rng, (1,), 1)]
    yield [array(rng, (3, 4), dtype), 1, ints(rng, (), 4, dtype="int32")]
    yield [array(rng, (3, 4), dtype), 1, ints(rng, (0,), 4)]


def selections(rng: np.random.Generator) -> Iterator[tuple[Sequence[int], Any, list]]:
    """Yield shape, memory order and index list of the forms of `x[...]`."""

    def at(shape: Any, size: int, dtype: str = "int64") -> np.ndarray:
        return ints(rng, shape, size, True, dtype)

    yield (4, 5, 6), None, [at((3,), 4)]
    yield (4, 5, 6), (2, 0, 1), [at((3,), 4)]
    yield (4, 5, 6), None, [None, at((2, 3), 5)]
    yield (4, 5, 6), (1, 2, 0), [None, None, at((7,), 6, "int32")]
    yield (4, 5, 6), None, [at((3,), 4), at((3,), 5)]
    yield (4, 5, 6), None, [None, at((2, 1), 5), at((3,), 6, "int32")]
    yield (4, 5, 6), None, [at((3,), 4), None, at((3,), 6)]
    yield (4, 5, 6), (2, 1, 0), [at((2, 1), 4), None, at((1, 3), 6)]
    yield (4, 5, 6), None, [at((3,), 4), at((), 5), at((2, 1), 6)]
    yield (4, 5, 6), None, [at((), 4), None, at((), 6)]
    yield (4, 5, 6), None, [bools(rng, (4,))]
    yield (4, 5, 6), (2, 0, 1), [None, bools(rng, (5, 6), "uint8")]
    yield (4, 5, 6), None, [bools(rng, (4, 5, 6))]
    yield (4, 5, 6), None, [bools(rng, (4, 5)), at((1,), 6)]
    mask = np.array([True, False, True, True])
    yield (4, 5, 6), None, [mask, None, at((3,), 6)]
    yield (4, 5, 6), None, [np.zeros(4, bool)]
    yield (4, 5, 6), None, [at((0,), 4)]
    yield (3, 0, 2), None, [at((2,), 3)]
    yield (0, 3), None, [np.zeros((0,), np.int64)]
    yield (2, 3, 2, 4), (0, 2, 3, 1), [None, at((4,), 3), at((4,), 2)]
    yield (2, 3, 2, 4), (0, 2, 3, 1), [None, at((4,), 3), None, at((4,), 4)]


def index(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape, order, picks in selections(rng):
        yield [array(rng, shape, dtype, order), picks]


def picked_shape(shape: Sequence[int], picks: list) -> tuple[int, ...]:
    """Return the shape of x[picks], in torch's order of dimensions."""
    import torch

    arguments = [None if p is None else torch.from_numpy(p) for p in picks]
    return tuple(torch.ops.aten.index.Tensor(torch.empty(tuple(shape)), arguments).shape)


def index_put(accumulate: bool) -> Samples:
    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        for shape, order, picks in selections(rng):
            part = picked_shape(shape, picks)
            # eager rejects one value with a uint8 mask
            picks = [p.astype(bool) if p is not None and p.dtype == np.uint8 else p for p in picks]
            self = array(rng, shape, dtype, order)
            for values in (part, part[1:], (), (1,) * len(part)):
                yield [self, picks, array(rng, values, dtype), accumulate]

    return samples


def fills(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    """Yield one number for a mask, which may have another dtype and its own dimensions."""
    a = array(rng, (4, 5, 6), dtype, (2, 0, 1))
    for mask in (
        *([bools(rng, (4, 5))], [None, bools(rng, (5, 6))], [bools(rng, (4, 5, 6))]),
        *([np.asarray(True)], [np.asarray(False)], [bools(rng, (4,)), None]),
    ):
        for value in (np.asarray(2.75), np.asarray([[3]]), np.asarray([True]), np.float16([2.5])):
            yield [a, mask, value, False]
        yield [a, mask, array(rng, (1,), dtype), False]


def both_puts(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    yield from index_put(False)(rng, dtype)
    yield from index_put(True)(rng, dtype)
    yield from fills(rng, dtype)


def gather(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape, dim, at, order in (
        *(((4, 5), 0, (7, 5), None), ((4, 5), 1, (4, 9), (1, 0)), ((4, 5), -2, (2, 3), None)),
        *(((3, 4, 5), 1, (3, 2, 5), (2, 0, 1)), ((), 0, (), None), ((), 0, (3,), None)),
        *(((3,), 0, (), None), ((3, 4), 0, (0, 9), None), ((600,), 0, (1300,), None)),
    ):
        for index_dtype in ("int64", "int32"):
            size = shape[dim] if shape else 1
            index = ints(rng, at, size, dtype=index_dtype)
            yield [array(rng, shape, dtype, order), dim, index, False]


def scattered(unique: bool) -> Samples:
    """Return a sample function: self, dim, index, src; with `unique`, each place is written
    once."""

    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        for shape, dim, at, src, order in (
            *(((4, 5), 0, (3, 5), (3, 5), None), ((4, 5), 1, (2, 4), (4, 5), (1, 0))),
            *(((3, 4, 5), -2, (3, 2, 5), (3, 3, 6), (2, 0, 1)), ((), 0, (), (), None)),
            *(((7,), 0, (5,), (6,), None), ((3, 4), 0, (0, 4), (1, 4), None)),
        ):
            size = shape[dim] if shape else 1
            index = ints(rng, at, size)
            if unique and shape and index.size:
                whole = [size if d == dim % len(shape) else n for d, n in enumerate(at)]
                shuffled = np.argsort(rng.random(whole), dim)
                index = np.ascontiguousarray(shuffled[tuple(slice(n) for n in at)])
            yield [array(rng, shape, dtype, order), dim, index, array(rng, src, dtype)]

    return samples


def scatter_value(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for self, dim, at, _ in scattered(False)(rng, dtype):
        yield [self, dim, at, True if dtype == "bool" else 3]
        if "float" in dtype:
            yield [self, dim, at.astype(np.int32), 0.1]


def near_one(a: np.ndarray) -> np.ndarray:
    """Return values near 1, whose products stay in range."""
    return a if a.dtype.kind in "iub" else np.asarray((a / 8 + 1).astype(a.dtype, order="K"))


def scatter_plain(value: bool) -> Samples:
    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        for self, dim, at, src in scattered(False)(rng, dtype):
            for how in ("add", "multiply"):
                yield [near_one(self), dim, at, 2 if value else near_one(src), how]

    return samples


REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


def scatter_reduce(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for self, dim, at, src in scattered(False)(rng, dtype):
        for how in REDUCTIONS:
            for with_self in (True, False):
                source = with_nan(rng, src) if how[0] == "a" else near_one(src)
                yield [near_one(self), dim, at, source, how, with_self]


def index_reduce(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    if dtype == "bool" or dtype in COMPLEX:
        return  # eager supports them for some reductions
    for shape, dim, n, order in (
        *(((4, 5), 0, 7, None), ((4, 5), -1, 3, (1, 0)), ((3, 4, 5), 1, 6, (2, 0, 1))),
        *(((6,), 0, 9, None), ((3, 4), 0, 0, None), ((), 0, 1, None)),
    ):
        size = shape[dim] if shape else 1
        whole = [n if d == dim % len(shape) else k for d, k in enumerate(shape)]
        for how in REDUCTIONS[1:]:
            for with_self in (True, False):
                index = ints(rng, (n,), size, dtype="int64" if with_self else "int32")
                src = array(rng, whole, dtype)
                src = with_nan(rng, src) if how[0] == "a" else near_one(src)
                yield [near_one(array(rng, shape, dtype, order)), dim, index, src, how, with_self]


def nonzero(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    shapes = [((7,), None), ((3, 4), None), ((3, 4, 5), (2, 0, 1)), ((), None), ((0, 3), None)]
    for shape, order in shapes:
        a = array(rng, shape, dtype, order)
        a[rng.random(shape) < 0.5] = 0
        yield [a]
        yield [np.zeros_like(a)]


def masked_select(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape, mask, order in (
        *(((3, 4), (3, 4), None), ((3, 4), (4,), (1, 0)), ((3, 1), (1, 5), None)),
        *(((), (2, 3), None), ((2, 3), (), None), ((0, 3), (3,), None)),
        ((3, 4, 5), (3, 1, 5), (2, 0, 1)),
    ):
        yield [array(rng, shape, dtype, order), bools(rng, mask)]


def masked_scatter(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for self, mask in masked_select(rng, dtype):
        yield [self, mask, array(rng, (3, 30), dtype)]
        yield [self, mask, array(rng, (9, 11), dtype, (1, 0))]


def topk(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    """Yield samples without and with ties, which have eager's order. Nothing is taken from several
    elements only: eager does not resize a 0-d output."""
    for shape, order, dim in (
        *(((5,), None, 0), ((3, 40), None, -1), ((40, 3), (1, 0), 0), ((4, 9, 3), (2, 0, 1), 1)),
        ((), None, 0),
    ):
        a = np.argsort(rng.random(shape), dim) if shape else np.zeros(())
        a = np.asarray(a.astype(array(rng, (), dtype).dtype))
        a = in_order(a, order) if order else a
        for k in (0, 1, 3, shape[dim]) if shape else (1,):
            for largest in (True, False):
                yield [a, k, dim, largest, True]
    yield from tied(rng, dtype)


def tied(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    """Yield samples of topk with equal elements: of a scan (k up to n / 64), of parts that are
    sorted by insertion, of more; and NaN."""
    few = rng.integers(0, 4, 1000).astype(np_dtype(dtype))
    equal, median = np.ones_like(few), np.tile(np.arange(250), 4).astype(np_dtype(dtype))
    for a in (few, equal, median):
        for n, k in ((3, 2), (20, 5), (20, 20), (100, 1), (100, 51), (1000, 15), (1000, 900)):
            for largest, is_sorted in ((True, True), (False, True), (True, False)):
                yield [a[:n], k, -1, largest, is_sorted]
    if dtype in FLOATING:
        few[rng.random(1000) < 0.1] = np.nan
        yield from ([few, k, 0, largest, True] for k in (9, 70, 990) for largest in (True, False))


def repeat_interleave(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape in ((5,), (0,), (1,)):
        repeats = rng.integers(0, 4, shape).astype(dtype)
        yield [repeats, None]
        yield [repeats, int(repeats.sum())]


def put(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape, order, index in (
        *(((3, 4), None, [0, 5, -1]), ((3, 4), (1, 0), [7, 2, -12]), ((), None, [0, -1])),
        *(((2, 3, 4), (2, 0, 1), [[23, -23], [4, 9]]), ((4,), None, []), ((0, 2), None, [])),
    ):
        at = np.array(index, np.int64)
        for accumulate in (False, True):
            yield [array(rng, shape, dtype, order), at, array(rng, at.shape, dtype), accumulate]
    twice = np.array([[1, 1, 2]])
    yield [array(rng, (3,), dtype), twice, array(rng, (3, 1), dtype), True]


def embedding_renorm(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for order in (None, (1, 0)):
        for norm in (2.0, 1.0, 3.5, 0.0, np.inf, -np.inf):
            indices = np.array([[4, 1], [4, -1]])
            yield [array(rng, (6, 5), dtype, order), indices, 1.25, float(norm)]
    yield [array(rng, (6, 5), dtype), np.array([], np.int64), 1.0, 2.0]
    yield [array(rng, (6, 5), dtype), np.array([3, 0], np.int32), 0.5, 2.0]


def embedding_bag(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for rows, width, n, order in ((10, 3, 12, None), (5, 40, 7, (1, 0)), (4, 2, 0, None)):
        weight = array(rng, (rows, width), dtype, order)
        for index_dtype in ("int64", "int32"):
            at = ints(rng, (n,), rows, dtype=index_dtype)
            starts = np.sort(np.append(ints(rng, (3,), n + 1), 0)).astype(index_dtype)
            factors = array(rng, (n,), dtype)
            for mode in (0, 1, 2):
                for padding in (-1, rows - 1):
                    yield [weight, at, starts, False, mode, False, None, False, padding]
                if n:
                    ends = np.append(starts, at.dtype.type(n))
                    yield [weight, at, ends, False, mode, False, None, True, -1]
            yield [weight, at, starts, False, 0, False, factors, False, 0]


def embedding_dense_backward(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    if dtype not in FLOATING:
        return
    for shape, rows in (((6,), 4), ((2, 5), 7), ((), 2), ((0,), 3)):
        at = ints(rng, shape, rows)
        for padding, scale in ((-1, False), (1, True)):
            yield [array(rng, (*shape, 9), dtype), at, rows, padding, scale]


def segment_reduce(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape, axis, order in (
        *(((9,), 0, None), ((9, 4), 0, (1, 0)), ((2, 7, 3), 1, None), ((2, 3, 5), -1, None)),
        ((6, 0), 0, None),
    ):
        front, n = shape[: axis % len(shape)], shape[axis]
        offsets = np.zeros((*front, 4), np.int64)
        offsets[..., 1:3] = np.sort(ints(rng, (*front, 2), n + 1), -1)
        offsets[..., 3] = n
        for how in ("sum", "mean", "max", "min", "prod"):
            for start in (None, 2):
                data = array(rng, shape, dtype, order)
                data = with_nan(rng, data) if how[0] == "m" else near_one(data)
                yield [data, how, np.diff(offsets), None, None, axis, False, start]
                yield [data, how, None, None, offsets, axis, False, start]


STATIC = [((3, 4), None), ((3, 4), (1, 0)), ((), None), ((0, 2), None), ((9,), None)]
SAMPLES: dict[str, Samples] = {
    "aten::embedding.out": embedding,
    "aten::index_select.out": index_select,
    "aten::index.Tensor_out": index,
    "aten::index_put.out": both_puts,
    "aten::index_put_": both_puts,
    "aten::gather.out": gather,
    "aten::scatter.src_out": scattered(True),
    "aten::scatter.value_out": scatter_value,
    "aten::scatter_add.out": scattered(False),
    "aten::scatter.reduce_out": scatter_plain(False),
    "aten::scatter.value_reduce_out": scatter_plain(True),
    "aten::scatter_reduce.two_out": scatter_reduce,
    "aten::index_reduce.out": index_reduce,
    "aten::_embedding_bag.out": embedding_bag,
    "aten::_embedding_bag_forward_only.out": embedding_bag,
    "aten::embedding_dense_backward.out": embedding_dense_backward,
    "aten::segment_reduce.out": segment_reduce,
    "aten::nonzero.out": nonzero,
    "aten::masked_select.out": masked_select,
    "aten::masked_scatter.out": masked_scatter,
    "aten::topk.values": topk,
    "aten::repeat_interleave.Tensor_out": repeat_interleave,
    "aten::put.out": put,
    "aten::nonzero_static.out": of_self(
        *(
            (*layout, [size, fill])
            for layout in (
                ((3, 4), None),
                ((3, 4), (1, 0)),
                ((), None),
                ((0, 2), None),
                ((9,), None),
            )
            for size, fill in ((0, -1), (2, -1), (20, 7))
        )
    ),
    "aten::embedding_renorm.out": embedding_renorm,
}
