"""Samples of single calls only (test_samples.py), besides those of samples_<family>.py, of which
tests of programs pick some: larger tensors, and more of the cases that loops distinguish."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.dtypes import np_dtype
from tests.kernels.eager import FLOATING, HALVES, DType, Samples, array, in_order, of_self
from tests.kernels.samples_index import ints

Rng = np.random.Generator

# input, weight, options
CONVOLUTIONS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 3, 8, 9), (4, 3, 3, 3), {}),
    ((2, 3, 8, 9), (40, 3, 3, 2), dict(stride=(2, 1), padding=(1, 0))),
    ((1, 5, 7, 50), (3, 5, 1, 5), dict(padding=(3, 2), dilation=(1, 3))),
    ((2, 8, 6, 6), (12, 2, 3, 3), dict(groups=4, padding=1)),
    ((2, 8, 6, 40), (8, 1, 3, 3), dict(groups=8, padding=1)),
    ((1, 4, 9, 9), (8, 1, 5, 3), dict(groups=4, stride=2, padding=(2, 1), dilation=(1, 2))),
    ((2, 64, 5, 7), (33, 64, 1, 1), {}),
    ((2, 6, 5, 7), (8, 6, 1, 1), dict(stride=2)),
    ((1, 300, 3, 3), (5, 300, 3, 3), dict(padding=1)),
    ((1, 2, 4, 4), (3, 2, 3, 3), dict(padding=4)),
    ((1, 1, 1, 1), (1, 1, 1, 1), {}),
    ((0, 2, 3, 3), (3, 2, 3, 3), {}),
    ((2, 0, 3), (3, 0, 2), {}),
    ((1, 0, 3, 3), (2, 0, 3, 3), {}),
    ((2, 3, 40), (5, 3, 4), dict(stride=3, padding=2)),
    ((2, 4, 40), (4, 1, 4), dict(groups=4, dilation=2)),
    ((1, 3, 5, 6, 7), (4, 3, 2, 3, 3), dict(padding=(0, 1, 1), stride=(1, 2, 1))),
    ((1, 4, 5, 6, 7), (4, 1, 2, 3, 3), dict(groups=4, padding=1)),
]
TRANSPOSED: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 3, 5, 6), (3, 4, 3, 3), {}),
    ((2, 3, 5, 6), (3, 4, 2, 2), dict(stride=2)),
    ((2, 3, 5, 6), (3, 4, 4, 3), dict(stride=(2, 3), padding=(1, 0), output_padding=(1, 2))),
    ((1, 4, 5, 6), (4, 2, 3, 3), dict(groups=2, stride=2, padding=1, dilation=2)),
    ((1, 4, 5, 6), (4, 1, 3, 3), dict(groups=4, stride=2, padding=1)),
    ((1, 2, 3, 3), (2, 3, 2, 2), dict(stride=4, output_padding=3)),
    ((1, 2, 1, 1), (2, 3, 1, 1), dict(stride=3)),
    ((1, 20, 1, 2), (20, 300, 3, 3), dict(stride=3)),  # phases of one or two positions
    ((2, 3, 10), (3, 5, 4), dict(stride=3, padding=1, output_padding=1)),
    ((1, 2, 3, 4, 5), (2, 3, 2, 3, 3), dict(stride=(1, 2, 2), padding=1)),
]
WIDE_ROWS = [
    ((1, 2, 4, width), (5, 2, 1, 3), dict(padding=(1, padding), dilation=(1, dilation)))
    for width in (17, 32, 33, 64, 70, 128)
    for padding, dilation in ((0, 1), (1, 1), (2, 3), (16, 1), (40, 1))
]
"""Panels of 32 positions are parts of rows, with padding on either side, or between rows."""


def convolution_of(
    rng: Rng, dtype: str, x: tuple, w: tuple, options: dict[str, Any], transposed: bool = False
) -> list:
    """Return arguments of a convolution with a bias."""
    defaults = {"stride": 1, "padding": 0, "dilation": 1, "output_padding": 0}
    lists = [
        [n] * (len(x) - 2) if isinstance(n, int) else [int(k) for k in n]
        for n in (options.get(key, default) for key, default in defaults.items())
    ]
    groups = options.get("groups", 1)
    bias = array(rng, (w[1] * groups if transposed else w[0],), dtype)
    arrays = [array(rng, x, dtype), array(rng, w, dtype), bias]
    return [*arrays, *lists[:3], transposed, lists[3], groups]


def convolutions(rng: Rng, dtype: str) -> Iterator[list]:
    for i, case in enumerate(CONVOLUTIONS + WIDE_ROWS * (dtype == "float32")):
        args = convolution_of(rng, dtype, *case)
        yield args
        if i % 3 == 0:
            yield [*args[:2], None, *args[3:]]
    yield [*args[:3], [2], [1], [1], False, [0], 1]  # one number for all axes
    for case in TRANSPOSED if dtype == "int64" or dtype in FLOATING else ():
        yield convolution_of(rng, dtype, *case, transposed=True)


SIZES = [
    *((1, 1, 1), (1, 70, 33), (2, 33, 40), (5, 300, 7), (33, 1, 65), (13, 700, 37), (70, 9, 1)),
    *((35, 260, 50), (400, 30, 50), (3, 0, 4), (0, 3, 4), (4, 3, 0)),
]


def products(rng: Rng, dtype: str) -> Iterator[list]:
    """Yield small and large matrices, integers that wrap, infinity and NaN."""
    for m, k, n in [*SIZES, (900, 500, 1100)] if dtype == "float32" else SIZES:
        yield [array(rng, (m, k), dtype), array(rng, (k, n), dtype)]
    if dtype in ("int8", "int64"):
        a = np.full((2, 3), np.iinfo(dtype).max // 2 + 1, dtype)
        yield [a, a.T.copy()]
    if dtype in FLOATING:
        a, b = [[np.inf, 1], [np.nan, 0], [1, 2]], [[1, 0], [1, -np.inf]]
        yield [np.array(m).astype(np_dtype(dtype)) for m in (a, b)]


def sums_of_products(rng: Rng, dtype: str) -> Iterator[list]:
    """Yield every broadcast and pair of factors; operands that a factor of zero hides."""
    fractions = [] if "int" in dtype else [(0.5, 2.5), (1.75, 1), (0.25, 0.5)]
    for shape in ((5, 40), (40,), (5, 1), (1, 40), (), (1,)):
        args = [array(rng, s, dtype) for s in (shape, (5, 9), (9, 40))]
        for beta, alpha in ((1, 1), (2, 3), (0, 1), (1, 0), (True, True), *fractions):
            yield [*args, beta, alpha]
    if dtype in FLOATING:
        a = np.ones((2, 3)).astype(np_dtype(dtype))
        nan = np.full_like(a, np.nan)
        yield [nan[:, :2].copy(), a, a.T.copy(), 0, 1]
        yield [a[0, :2].copy(), nan, a.T.copy(), 1, 0]


def linear(rng: Rng, dtype: str) -> Iterator[list]:
    for shape in ((6,), (1, 6), (5, 6), (2, 3, 6), (2, 0, 6), (2, 3, 4, 6)):
        for bias in (None, (34,), (1,), ()):
            b = None if bias is None else array(rng, bias, dtype)
            yield [array(rng, shape, dtype), array(rng, (34, 6), dtype), b]
        yield [array(rng, shape, dtype), array(rng, (6,), dtype), None]  # a vector of weights


def softmax(rng: Rng, dtype: str) -> Iterator[list]:
    """Yield rows of every remainder of vectors, blocks and batches, with results down to
    subnormals; infinities and NaN."""
    if dtype not in FLOATING:
        return
    kind, inf, nan = np_dtype(dtype).type, np.inf, np.nan
    for shape in ((), (5,), (3, 40), (2, 3, 37), (2, 7, 3, 20), (0, 3), (3, 0), (2, 3000)):
        x = np.asarray(array(rng, shape, dtype) * kind(4))
        for dim in range(-max(len(shape), 1), max(len(shape), 1)):
            yield [x, dim, False]
    for n in [*range(1, 35), 64, 100, 1000, 1023, 1024, 1025, 2049] * (dtype == "float32"):
        x = array(rng, (19, n), dtype) * kind(30)
        x[1] = -inf
        x[2, 0], x[3, -1], x[4, n // 2] = nan, inf, -inf
        yield [x, 1, False]
    rows = [
        *([inf, 1, 2], [-inf, 1, 2], [-inf] * 3, [nan, 1, 2], [1, nan, inf], [200, 0, -200]),
        *([1e4, 1e4 - 8, 9e3], [-1e4, -1e4 - 8, 0]),
    ]
    x = np.array(rows, np_dtype(dtype))
    yield from ([a, 1, False] for a in (x, np.repeat(x, 7, axis=1)))
    yield from ([np.ascontiguousarray(a.T), 0, False] for a in (x, np.tile(x, (3, 1))))


def parameters(rng: Rng, dtype: str, shape: Any) -> Iterator[list[np.ndarray | None]]:
    """Yield weight and bias of a norm, or none, with halves also in float32."""
    for kind in (dtype, "float32") if dtype in HALVES else (dtype,):
        w, b = array(rng, shape, kind), array(rng, shape, kind)
        yield from ([w, b], [None, None])


def layer_norm(rng: Rng, dtype: str) -> Iterator[list]:
    for shape, inner in (
        *(((2, 3, 40), 1), ((4, 37), 1), ((2, 3, 4, 5), 2), ((5,), 1), ((2, 5000), 1), ((0, 3), 1)),
        *(((2, 3), 2), ((2, 0), 1)),
    ):
        sizes = list(shape[len(shape) - inner :])
        for affine in parameters(rng, dtype, sizes):
            x = array(rng, shape, dtype) + np_dtype(dtype).type(3)
            yield [x, sizes, *affine, 1e-5]
            yield [x, sizes, affine[0], None, 1e-5]
            yield [x, sizes, None, affine[1], 1e-5]
    yield [np.zeros(5, np_dtype(dtype)), [5], None, None, -1.0]


def group_norm(rng: Rng, dtype: str) -> Iterator[list]:
    for shape, groups in (
        *(((2, 6, 4, 5), 3), ((1, 4, 30), 1), ((3, 4), 4), ((0, 2, 3), 1), ((2, 2, 3, 4, 5), 2)),
        ((1, 2, 0), 1),
    ):
        sizes = [*shape[:2], int(np.prod(shape[2:])), groups]
        for affine in parameters(rng, dtype, shape[1:2]):
            yield [array(rng, shape, dtype), *affine, *sizes, 0.1]


def batch_norm(rng: Rng, dtype: str) -> Iterator[list]:
    for shape in ((2, 20, 4, 5), (4, 3), (1, 20, 7), (0, 3, 4), (2, 3, 2, 3, 4)):
        for affine in parameters(rng, dtype, shape[1:2]):
            kind = next((a.dtype.name for a in affine if a is not None), dtype)
            mean, var = (array(rng, shape[1:2], kind) for _ in range(2))
            var = abs(var) + np_dtype(kind).type(0.5)
            yield [array(rng, shape, dtype), *affine, mean, var, 0.1, 1e-3]


IMAGE = ((2, 3, 8, 9), None)
WINDOWS = of_self(
    *((*IMAGE, [[5], [1], [2], [2], False]), (*IMAGE, [[1], [2], [0], [1], True])),
    (*IMAGE, [[2, 3], [3, 2], [0, 1], [3, 1], True]),
)


def max_pool(rng: Rng, dtype: str) -> Iterator[list]:
    """Yield padding and dilation of one axis; NaN and infinities."""
    yield from WINDOWS(rng, dtype)
    inf, nan = np.inf, np.nan
    if dtype == "float32":
        x = [[nan, 1, 2, -inf], [3, nan, -inf, -inf], [inf, 5, -inf, -inf], [1, 1, 1, 1]]
        x = np.tile(np.array(x, dtype), (1, 20, 1, 1))
        yield [x, [2, 2], [1, 1], [1, 1], [1, 1], False]
        yield [in_order(x, (0, 2, 3, 1)), [2, 2], [1, 1], [1, 1], [1, 1], False]


def fractional(axes: int) -> Samples:
    """Return a sample function: random windows are rounded as in eager, in every dtype."""

    def samples(rng: Rng, dtype: str) -> Iterator[list]:
        for n in range(6) if dtype in FLOATING else ():
            x = array(rng, (2, 3, 31, 17, 40)[: axes + 2], dtype)
            windows = rng.random((2, 3, axes)).astype(x.dtype)
            yield [x, [3, 4, 2][:axes], [11 + n, 5 + n, 20 + n][:axes], windows]

    return samples


def many_to_few(make: Any, *tails: list) -> Samples:
    """Return a sample function: many elements for few places. Scattered float16 values round once,
    after all additions; elsewhere at each, as in eager."""

    def samples(rng: Rng, dtype: str) -> Iterator[list]:
        for tail in tails if dtype in FLOATING else ():
            self, source = (array(rng, (n, 5), dtype) for n in (7, 200))
            if {"prod", "multiply"} & set(tail):
                self, source = ((1 + a / 8).astype(a.dtype) for a in (self, source))
            yield [*make(self, ints(rng, (200,), 7), source), *tail]

    return samples


def scattered(self: np.ndarray, at: np.ndarray, source: np.ndarray) -> list:
    return [self, 0, at[:, None].repeat(5, 1), source]


def halves(*tail: Any) -> Samples:
    """Return a sample function: means that round to a half at their end (eager sums in float32,
    because float16 lacks range and precision)."""

    def samples(rng: Rng, dtype: str) -> Iterator[list]:
        for numbers in ([2049, 2049, 2049, 2051], [1e5, -1e5, 3], [300, 0, 513]):
            if dtype in ("int64", "float64", "float32"):
                for half in HALVES:
                    yield [np.array(numbers, dtype), *tail, DType(half)]

    return samples


def one_in_a_row(*tail: Any) -> Samples:
    """Return a sample function: one element differs: inside vectors, between them, at the end."""

    def samples(rng: Rng, dtype: str) -> Iterator[list]:
        others = [1, 3] if dtype == "bool" or "int" in dtype else [1, 3, np.nan]
        for n in (31, 64, 75, 1100):
            for at in sorted({0, 5, 17, 31, 40, n // 2, n - 20, n - 1} & set(range(n))):
                for other in others:
                    rest = 2 if dtype != "bool" else other == 1
                    a = np.full((2, n), rest).astype(np_dtype(dtype))
                    a[1, at] = not rest if dtype == "bool" else other
                    yield [a, *tail]

    return samples


def long(*tail: Any) -> Samples:
    """Return a sample function: one result in chunks; the first of equal elements and the first NaN
    win, in any chunk."""

    def samples(rng: Rng, dtype: str) -> Iterator[list]:
        for n in (65_535, 65_536, 200_003) if dtype == "float32" else ():
            a = rng.standard_normal(n).astype(dtype)
            yield [a, *tail]
            for value in (9, np.nan):
                for first in (0, n // 3, n - 40):
                    b = a.copy()
                    b[[first, first + 20, n - 1]] = value
                    yield [b, *tail]

    return samples


def short(*tail: Any) -> Samples:
    """Return a sample function: no, one or few elements: for those, eager accepts some dtypes
    without an order and rejects others."""

    def samples(rng: Rng, dtype: str) -> Iterator[list]:
        for shape in ((), (1,), (0,), (2, 1), (0, 3), (3, 0), (3,)):
            yield [np.arange(np.prod(shape)).reshape(shape).astype(np_dtype(dtype)), *tail]

    return samples


def searches(make: Any) -> Samples:
    """Return a sample function: eager searches rows of any dtype for no elements."""
    return lambda rng, dtype: (
        make(np.ones(a, np_dtype(dtype)), np.ones(v, np_dtype(dtype)))
        for a in ((0,), (3,), (2, 0), (2, 3))
        for v in ((), (0,), (3,), (2, 0), (2, 2))
    )


def of_bytes(*tail: Any) -> Samples:
    """Return a sample function: eager's fixed-point weights, over the range of bytes."""

    def samples(rng: Rng, dtype: str) -> Iterator[list]:
        for shape, order in (((2, 3, 9, 7), None), ((1, 6, 31, 8), (0, 2, 3, 1))):
            x = array(rng, shape, "float64", order) * 90 + 127
            x = np.clip(x, 0, 255).astype(np.uint8, order="K")
            for size in ([18, 14], [5, 20], [9, 7], [2, 3], [62, 5], [1, 4]):
                for align in (False, True) if dtype == "uint8" else ():
                    yield [x, size, align, *tail]

    return samples


def positions(*flags: list) -> Samples:
    """Return a sample function: source positions are floats: the last place near 29 is 16 times
    that of 1."""

    def samples(rng: Rng, dtype: str) -> Iterator[list]:
        x = array(rng, (1, 1, 13, 29), dtype)
        for n in range(1, 40) if dtype == "float32" else ():
            yield from ([x, [n, 3 * n], *flag, None] for flag in flags)
            yield from ([x, None, *flag, [n / 13, n / 7]] for flag in flags)

    return samples


def nearest(rng: Rng, dtype: str) -> Iterator[list]:
    """Yield rows of twice the elements, which have a loop of their own, and of nearly twice."""
    yield from positions([])(rng, dtype)
    for width in (1, 2, 3, 16, 29):
        x = array(rng, (2, 3, 5, width), "float64").astype(np_dtype(dtype))
        for n in {2 * width, 2 * width - 1, max(2 * width - 2, 1), 2 * width + 2, 4 * width}:
            yield from ([x, [rows, n], None] for rows in (5, 10, 13))


def exact(rng: Rng, dtype: str) -> Iterator[list]:
    for width in (1, 2, 3, 16, 29):
        x = array(rng, (2, 3, 5, width), "float64").astype(np_dtype(dtype))
        yield [x, [10, 2 * width], None, None]


def not_finite(make: Any) -> Samples:
    """Return a sample function: rows with NaN and infinities."""

    def samples(rng: Rng, dtype: str) -> Iterator[list]:
        a = array(rng, (6, 11), "float32")
        a[1, 3], a[2, 10], a[4, 0] = np.nan, np.inf, -np.inf
        for p in (0.0, 1.0, 2.0, 3.5, np.inf) if dtype == "float32" else ():
            yield make(a, p)

    return samples


DEEP = (2, 1) * 8  # the largest rank
# Sizes around the tile, with dimensions before, between and after the transposed.
TILES = [
    (shape, order, [None])
    for shape in ((15, 17), (16, 32), (3, 33, 50), (2, 33, 3, 18), (20, 2, 30, 5))
    for order in (range(len(shape))[::-1], (*range(1, len(shape)), 0))
]
# Every row length that is moved without a call for each row, and lengths around it.
SLICES = [((2, 5, width + 3), None, [2, 2, 2 + width, 1]) for width in range(1, 80)]
ENDS = [
    *((-1, "uint8"), (-255, "uint8"), (127, "int8"), (65504, "float16")),
    *((np.inf, "float16"), (np.nan, "bfloat16"), (3.0e38, "bfloat16")),
    *((2, "bool"), (0.5, "bool"), (2**63 - 1, "int64"), (-1, "uint64"), (2**63 - 1, "float32")),
]
"""Numbers that just fit a dtype; refused_moves.py has such as do not."""


def large(*tail: Any, symmetric: bool = False) -> Samples:
    def samples(rng: Rng, dtype: str) -> Iterator[list]:
        if dtype in ("float32", "complex64"):
            a = array(rng, (70, 70), dtype)
            yield [a + a.T if symmetric else a, *tail]

    return samples


def reflections(rng: Rng, dtype: str) -> Iterator[list]:
    """Yield NaN: a column of one element has no reflection (LAPACK's larfg), not even of NaN."""
    yield from large()(rng, dtype)
    for shape in ((4, 5), (5, 5), (5, 3), (1, 3)) if dtype == "float32" else ():
        a = array(rng, shape, dtype)
        a[-1, -1] = np.nan
        yield [a]


def products_of_reflections(rng: Rng, dtype: str) -> Iterator[list]:
    """Yield NaN and infinity: column i is 1 - tau at the diagonal, whatever is below (orgqr)."""
    for value in (np.nan, np.inf) if dtype == "float32" else ():
        for count in (1, 2, 3):
            v = array(rng, (5, 3), dtype)
            v[3, count - 1] = value
            yield [v, array(rng, (count,), dtype)]


def triangles(rng: Rng, dtype: str) -> Iterator[list]:
    """Yield a reflection of negative zero: LAPACK takes its sign for positive."""
    yield from large("reduced")(rng, dtype)
    if dtype == "float32":
        yield [np.array([[-0.0, 1], [-1, 0], [0, 2]], dtype), "complete"]


def determinants(rng: Rng, dtype: str) -> Iterator[list]:
    for value in (np.inf, -np.inf, 0.0) if dtype == "float32" else ():
        yield [np.array([[value, 1], [0, -2]], dtype)]


def inverses(rng: Rng, dtype: str) -> Iterator[list]:
    """Yield a singular matrix after another one, unchecked."""
    if dtype == "float32":
        yield [np.stack([np.eye(2, dtype=dtype), np.ones((2, 2), dtype)]), False]


RANKED = {
    **dict.fromkeys(("mode.values", "median.dim_values", "nanmedian.dim_values"), [-1, False]),
    **dict.fromkeys(("sort.values", "argmin.out"), [-1, False]),
    **dict.fromkeys(("amin.out", "amax.out"), [[-1], False]),
    **dict.fromkeys(("median.out", "nanmedian.out", "min.unary_out"), []),
    **dict.fromkeys(("cummax.out", "cummin.out"), [-1]),
    **{"kthvalue.values": [1, -1, False], "topk.values": [1, -1, True, True]},
}
FILTERS = ("bilinear", "bicubic", "lanczos")

MORE: dict[str, Samples] = {
    f"aten::{name}": samples
    for name, samples in {
        **{name: short(*tail) for name, tail in RANKED.items()},
        **{f"{m}.dim_{m}": one_in_a_row(1, False) for m in ("max", "min")},
        **{f"a{m}.out": one_in_a_row([1], False) for m in ("max", "min")},
        "full.out": lambda rng, dtype: ([[2], number] for number, of in ENDS if of == dtype),
        "convolution.out": convolutions,
        "mm.out": products,
        "addmm.out": sums_of_products,
        "linear.out": linear,
        **dict.fromkeys(("_softmax.out", "_log_softmax.out"), softmax),
        "native_layer_norm.out": layer_norm,
        "native_group_norm.out": group_norm,
        "_native_batch_norm_legit_no_training.out": batch_norm,
        "max_pool2d_with_indices.out": max_pool,
        "avg_pool2d.out": of_self((*IMAGE, [[3, 3], [1, 2], [1, 1], False, True, -2])),
        "_adaptive_avg_pool2d.out": lambda rng, dtype: (
            [array(rng, IMAGE[0], dtype), size] for size in ([0, 2], [13, 20]) if dtype in FLOATING
        ),
        **{f"fractional_max_pool{n}d.output": fractional(n) for n in (2, 3)},
        "scatter_add.out": many_to_few(scattered, []),
        "scatter.reduce_out": many_to_few(scattered, ["add"], ["multiply"]),
        "scatter_reduce.two_out": many_to_few(
            scattered, ["sum", True], ["prod", False], ["mean", True]
        ),
        "index_reduce.out": many_to_few(
            lambda self, at, source: [self, 0, at, source], ["prod", True], ["mean", False]
        ),
        "index_put.out": many_to_few(lambda self, at, source: [self, [at, None], source], [True]),
        "embedding_dense_backward.out": many_to_few(
            lambda self, at, source: [source, at, 7, -1], [False], [True]
        ),
        "mean.dtype_out": lambda rng, dtype: (*halves()(rng, dtype), *long(None)(rng, dtype)),
        "mean.out": halves([0], True),
        "var.out": long(None, True, False),
        "argmax.out": lambda rng, dtype: (
            *short(-1, False)(rng, dtype),
            *long(None, False)(rng, dtype),
        ),
        "max.unary_out": lambda rng, dtype: (*short()(rng, dtype), *long()(rng, dtype)),
        "any.all_out": lambda rng, dtype: (
            [a * np.array(n, a.dtype)] for (a,) in long()(rng, dtype) for n in (0, 1)
        ),
        "searchsorted.Tensor_out": searches(lambda a, v: [a, v, False, False, None, None]),
        "bucketize.Tensor_out": searches(lambda a, v: [v, a, False, False]),
        "upsample_nearest2d.vec_out": nearest,
        "upsample_bilinear2d.vec_out": lambda rng, dtype: (
            *positions([False], [True])(rng, dtype),
            *of_bytes(None)(rng, dtype),
        ),
        "_upsample_nearest_exact2d.out": exact,
        **{f"upsample_{n}2d.out": of_bytes(None, None) for n in FILTERS[:2]},
        **{f"_upsample_{n}2d_aa.out": of_bytes(None, None) for n in FILTERS},
        **{
            f"{n}_pad2d.out": lambda rng, dtype: iter(
                [[array(rng, (2, 3, 4), dtype), [-2, -2, 0, 0]]]
            )
            for n in ("replication", "reflection")
        },
        "_cdist_forward.out": not_finite(lambda a, p: [a, a[::-1].copy(), p, None]),
        "_pdist_forward.out": not_finite(lambda a, p: [a, p]),
        "slice_copy.Tensor_out": of_self(*SLICES),
        "clone.out": of_self(*TILES),
        "permute_copy.out": of_self((DEEP, None, [list(range(15, -1, -1))])),
        "repeat.out": of_self((DEEP, None, [[1, 2] * 8])),
        "flip.out": of_self((DEEP, None, [list(range(16))])),
        "_linalg_eigh.eigenvalues": large("L", True),
        "_linalg_svd.U": large(False, True, None),
        "linalg_eig.out": large(),
        "linalg_qr.out": triangles,
        "_linalg_slogdet.sign": determinants,
        "linalg_inv_ex.inverse": inverses,
        "linalg_householder_product.out": products_of_reflections,
        "linalg_lu_factor_ex.out": large(True, False),
        "geqrf.a": reflections,
        "linalg_ldl_factor_ex.out": large(False, False, symmetric=True),
    }.items()
}
