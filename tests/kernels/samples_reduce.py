"""Sample arguments of the operators in csrc/kernels/reduce, by operator name."""

from collections.abc import Iterator

import numpy as np

from tests.kernels.eager import COMPLEX, FLOATING, DType, Samples, array, with_nan


# Shapes and memory orders for every kind of loop: rows, columns, several reduced
# dimensions, merged or not, sizes around the vector and block lengths, 0-d and empty.
LAYOUTS = [
    *(((), None), ((1,), None), ((5,), None), ((37,), None), ((300, 3), None)),
    *(((3, 300), None), ((3, 300), (1, 0)), ((2, 3, 4, 5), None), ((2, 3, 4, 5), (0, 2, 3, 1))),
    *(((2, 17, 3, 20), (3, 1, 0, 2)), ((2, 0, 3), None), ((1, 4, 1, 35), None)),
    ((5000,), None),
]


def dim_lists(rank: int) -> list:
    lists: list = [None, []]
    lists += [[d] for d in range(-rank, rank)]
    lists += [[0, -1]] if rank > 1 else []
    lists += [[1, 2], [0, 2], [3, 1], [0, 1, 2, 3]] if rank == 4 else []
    return lists


def over_dims(dtypes: list[str | None], nan: bool = False, empty: bool = True) -> Samples:
    """Return a sample function: self, dim list, keepdim and, unless `dtypes` is empty, a dtype."""

    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        for shape, order in LAYOUTS:
            a = array(rng, shape, dtype, order)
            for i, dims in enumerate(dim_lists(len(shape))):
                if not empty and (dims is None or not a.size):
                    continue
                args = [with_nan(rng, a, 0.03) if nan and i % 2 else a, dims, bool(i % 2)]
                yield [*args, None] if dtypes else args
        for other in dtypes:
            yield [array(rng, (3, 20), dtype, (1, 0)), [1], False, DType(str(other))]

    return samples


def mean(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    if dtype in FLOATING + COMPLEX:
        yield from over_dims(["float64"] if dtype in FLOATING else ["complex128"])(rng, dtype)
    else:
        yield [array(rng, (3, 20), dtype), [1], False, DType("float32")]


def mean_all(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape, order in LAYOUTS:
        a = array(rng, shape, dtype, order)
        yield [a, None if dtype in FLOATING + COMPLEX else DType("float32")]


def one(a: np.ndarray) -> np.ndarray:
    """Return values around 1, whose products stay in range."""
    a = a.copy(order="K")
    if a.dtype.kind not in "iub":
        a = np.asarray((a / 8 + 1).astype(a.dtype))
    return a


def prod_dim(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape, order in LAYOUTS:
        for d in range(len(shape)):
            if shape[d] < 100:
                yield [one(array(rng, shape, dtype, order)), d, bool(d % 2), None]
    wide = DType("complex64" if dtype in COMPLEX else "float64")
    yield [array(rng, (3, 4), dtype), -1, False, wide]
    yield [array(rng, (), dtype), -1, False, None]


def prod_all(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape, order in LAYOUTS[:4] + LAYOUTS[10:12]:
        yield [one(array(rng, shape, dtype, order)), None]
    yield [array(rng, (3, 4), dtype), DType("complex64" if dtype in COMPLEX else "int32")]


def only_self(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape, order in LAYOUTS:
        a = array(rng, shape, dtype, order)
        if a.size:
            yield [a]
            yield [with_nan(rng, a, 0.03)]
            yield [np.zeros_like(a)]


def any_all(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    yield from only_self(rng, dtype)
    yield [array(rng, (2, 0), dtype)]


def over_dim(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    """Yield self, one dim, keepdim, with NaN and many ties."""
    for shape, order in LAYOUTS:
        a = array(rng, shape, dtype, order)
        for d in range(-len(shape), max(len(shape), 1)):
            if shape and shape[d] == 0:
                continue
            yield [with_nan(rng, a, 0.03) if d % 2 else a, d, bool(d % 2)]


def any_dim(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    yield from over_dim(rng, dtype)
    yield [array(rng, (2, 0), dtype), 1, False]
    yield [np.zeros((3, 4), array(rng, (), dtype).dtype), 1, False]


def position(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    yield from over_dim(rng, dtype)
    for shape, order in LAYOUTS:
        a = array(rng, shape, dtype, order)
        if a.size:
            yield [with_nan(rng, a, 0.03), None, True]
            yield [a, None, False]


def cumsum(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape, order in LAYOUTS:
        for d in range(-len(shape), max(len(shape), 1)):
            yield [array(rng, shape, dtype, order), d, None]
    yield [array(rng, (3, 4), dtype), 0, DType("complex64" if dtype in COMPLEX else "float64")]
    yield [array(rng, (3, 4), dtype), 0, DType("complex64" if dtype in COMPLEX else "int16")]


def cumprod(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for self, dim, to in cumsum(rng, dtype):
        yield [one(self), dim, to]


def logcumsumexp(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape, order in LAYOUTS:
        for d in range(-len(shape), max(len(shape), 1)):
            a = array(rng, shape, dtype, order)
            if "float" in dtype and a.size > 2 and d % 2:
                a[rng.random(shape) < 0.2] = -np.inf
                a[rng.random(shape) < 0.01] = np.inf
                a = with_nan(rng, a, 0.03)
            yield [a, d]


def running(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape, order in LAYOUTS:
        if not shape and dtype in COMPLEX:
            continue  # eager copies a single number of any dtype
        for d in range(-len(shape), max(len(shape), 1)):
            a = array(rng, shape, dtype, order)
            yield [with_nan(rng, a, 0.03) if d % 2 else a, d]


def dist(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for a, b, order in (
        *(((3, 4), (3, 4), None), ((3, 1), (4,), None), ((), (7,), None), ((), (), None)),
        *(((2, 300), (2, 300), (1, 0)), ((0, 2), (2,), None)),
    ):
        of_none = (2, 0, 1, 1.5)
        for p in of_none if 0 in a else (*of_none, 3, -1, float("inf"), -float("inf")):
            yield [array(rng, a, dtype, order), array(rng, b, dtype), p]
    yield [array(rng, (3,), dtype), array(rng, (3,), "complex64"), 2]
    yield [with_nan(rng, array(rng, (90,), dtype)), array(rng, (90,), dtype), float("inf")]


def var(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for i, (self, dims, keepdim) in enumerate(over_dims([])(rng, dtype)):
        yield [self, dims, bool(i % 3), keepdim]


def var_correction(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for i, (self, dims, keepdim) in enumerate(over_dims([])(rng, dtype)):
        yield [self, dims, (None, 0, 1, 2.5)[i % 4], keepdim]


SAMPLES: dict[str, Samples] = {
    "aten::sum.IntList_out": lambda rng, dtype: over_dims(
        ["complex128"] if dtype in COMPLEX else ["float32", "float16", "int64", "int8", "bool"]
    )(rng, dtype),
    "aten::mean.out": mean,
    "aten::mean.dtype_out": mean_all,
    "aten::amax.out": over_dims([], nan=True, empty=False),
    "aten::amin.out": over_dims([], nan=True, empty=False),
    "aten::any.out": any_dim,
    "aten::any.all_out": any_all,
    "aten::any.dims_out": over_dims([], nan=True),
    "aten::max.dim_max": over_dim,
    "aten::min.dim_min": over_dim,
    "aten::max.unary_out": only_self,
    "aten::min.unary_out": only_self,
    "aten::argmax.out": position,
    "aten::argmin.out": position,
    "aten::prod.out": prod_all,
    "aten::prod.int_out": prod_dim,
    "aten::cumsum.out": cumsum,
    "aten::cumprod.out": cumprod,
    "aten::logcumsumexp.out": logcumsumexp,
    "aten::cummax.out": running,
    "aten::cummin.out": running,
    "aten::dist.out": dist,
    "aten::var.out": var,
    "aten::var.correction_out": var_correction,
    "aten::var_mean.correction_out": var_correction,
}
