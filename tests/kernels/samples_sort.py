"""Sample arguments of the operators in csrc/kernels/sort, by operator name."""

from collections.abc import Iterator, Sequence

import numpy as np

from tests.dtypes import np_dtype
from tests.kernels.eager import COMPLEX, Samples, array, in_order, with_nan


ROWS: list[tuple[tuple[int, ...], Sequence[int] | None]] = [
    *(((5,), None), ((), None), ((3, 40), None), ((40, 3), (1, 0)), ((4, 9, 3), (2, 0, 1))),
    *(((2, 300), None), ((0, 3), None), ((2, 1), None), ((1000,), None)),
]


def ties(
    rng: np.random.Generator, shape: Sequence[int], dtype: str, order: Sequence[int] | None = None
) -> np.ndarray:
    """Return few different values, with zeros of both signs and infinities."""
    a = array(rng, shape, dtype, order)
    if a.dtype.kind not in "iub":
        few = np.array([-np.inf, -1.5, -0.0, 0.0, 1, 2.5, np.inf]).astype(a.dtype)
        a[...] = few[rng.integers(0, len(few), a.shape)]
    return a


def extremes(dtype: str) -> np.ndarray:
    """Return the ends of the dtype's range."""
    if "int" in dtype:
        i = np.iinfo(dtype)
        return np.array([0, i.max, i.min, 1, i.max - 1, i.min + 1], dtype)
    most = 6e4 if dtype == "float16" else 3e38
    return np.array([0, 1, -1, most, -most, 6e-8, -6e-8, np.inf, -np.inf]).astype(np_dtype(dtype))


def distinct(
    rng: np.random.Generator,
    shape: Sequence[int],
    dim: int,
    dtype: str,
    order: Sequence[int] | None,
) -> np.ndarray:
    """Return no two equal elements along a dimension: the position among equals is undefined."""
    a = np.argsort(rng.random(shape), dim) if shape else np.zeros(())
    a = np.asarray((a % 128).astype(array(rng, (), dtype).dtype))
    return in_order(a, order) if order else a


def sort(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    """Yield samples without ties: eager's plain sort is not stable."""
    if dtype == "bool":
        yield [np.array([[True, False], [False, True]]), 1, True]
        return
    for a, dim, descending in of_rows(False, nan=True)(rng, dtype):
        yield [a, dim, descending]
    yield [extremes(dtype), 0, False]
    yield [np.zeros((0, 3), extremes(dtype).dtype), 1, True]


def sort_stable(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape, order in ROWS:
        for dim in range(-len(shape), max(len(shape), 1)):
            for descending in (False, True):
                yield [ties(rng, shape, dtype, order), True, dim, descending]
                yield [with_nan(rng, ties(rng, shape, dtype, order)), True, dim, descending]
    yield [np.concatenate([extremes(dtype)] * 20), True, 0, True]
    yield [extremes(dtype), None, 0, False]


def of_rows(k: bool, nan: bool = False) -> Samples:
    """Return a sample function: self, optionally k, a dimension, keepdim; at most one NaN a row."""

    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        for shape, order in ROWS:
            for dim in range(-len(shape), max(len(shape), 1)):
                n = shape[dim] if shape else 1
                if n > 128 or n == 0:
                    continue
                a = distinct(rng, shape, dim, dtype, order)
                if nan and n > 1 and "float" in dtype and dim % 2:
                    np.moveaxis(a, dim, 0)[1] = np.nan
                for keepdim in (False, True):
                    for at in sorted({1, (n + 1) // 2, n}) if k else (None,):
                        yield [a, *([at] if k else []), dim, keepdim]

    return samples


def mode(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    """Yield rows short enough for eager's sort to be stable."""
    for shape, order in ROWS:
        for dim in range(-len(shape), max(len(shape), 1)):
            if not shape or 0 < shape[dim] <= 16:
                yield [ties(rng, shape, dtype, order), dim, bool(dim % 2)]


def of_all(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape, order in ROWS:
        a = ties(rng, shape, dtype, order)
        if a.size or dtype in ("float32", "float64"):
            yield [a]
            yield [with_nan(rng, a)]


FLAGS = [(False, False), (True, True), (True, False), (False, True)]


def unique(sort: bool) -> Samples:
    """Return a sample function: self, optionally `sorted`, and two flags."""

    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        for shape, order in ROWS:
            a = ties(rng, shape, dtype, order)
            for inverse, counts in FLAGS:
                a = ties(rng, shape, dtype, order) if sort else with_nan(rng, a)
                if sort and a.dtype.kind not in "iub" and a.size > 1:
                    a[(0,) * a.ndim] = np.nan  # one: eager's order among equals is undefined
                yield [a, *([True] if sort else []), inverse, counts]
        yield [np.concatenate([extremes(dtype)] * 20), *([False] if sort else []), True, True]

    return samples


def few(
    rng: np.random.Generator, shape: Sequence[int], dtype: str, order: Sequence[int] | None
) -> np.ndarray:
    """Return slices with many duplicates."""
    return array(rng, shape, "bool", order).astype(np_dtype(dtype), order="K")


def unique_dim(sort: bool) -> Samples:
    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        for shape, order in (
            *(((9, 2), None), ((2, 9), None), ((60, 3), (1, 0)), ((3, 2, 2), (2, 0, 1))),
            *(((30,), None), ((0, 2), None), ((1, 1), None), ((5, 1, 2), None)),
        ):
            for dim in range(-len(shape), len(shape)):
                if shape[0] or dim % len(shape) == 0:
                    for flags in FLAGS[:2]:
                        a = few(rng, shape, dtype, order)
                        yield [a, dim, *([True] if sort else []), *flags]

    return samples


def unique_consecutive(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for args in unique(False)(rng, dtype):
        yield [*args, None]
    for a, dim, *flags in unique_dim(False)(rng, dtype):
        yield [a, *flags, dim]


def searchsorted(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    if dtype in COMPLEX:
        yield [array(rng, (7,), dtype), array(rng, (5,), dtype), False, False, None, None]
        return
    for rows, values, order in (
        *(((7,), (5,), None), ((7,), (), None), ((7,), (3, 4), (1, 0)), ((2, 9), (2, 4), None)),
        *(((2, 9), (2, 4), (1, 0)), ((2, 3, 5), (2, 3, 40), None), ((0,), (3,), None)),
        ((3,), (0,), None),
    ):
        a, v = ties(rng, rows, dtype), with_nan(rng, ties(rng, values, dtype, order))
        at = np.argsort(a.astype(float) if dtype != "bool" else a, -1)
        ordered = np.take_along_axis(a, at, -1)
        yield [ordered, v, False, False, None, None]
        yield [ordered, v, True, True, None, None]
        yield [ordered, v, False, False, "right", None]
        yield [ordered, v.astype(np.float32), False, False, "left", None]
        yield [a, v, False, True, "right", at]
        yield [a, v, False, False, None, None]


def searchsorted_scalar(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for value in (3, 2.5, -100):
        bounds = np.sort(array(rng, (9,), "int8")).astype(np_dtype(dtype))
        yield [bounds, value, False, False, None, None]
        yield [bounds, value, True, False, "right", None]


def bucketize(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for rows, values, *flags, _, sorter in searchsorted(rng, dtype):
        if rows.ndim == 1 and sorter is None:
            yield [values, rows, *flags]


def bucketize_scalar(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for bounds, value, *flags, _, _ in searchsorted_scalar(rng, dtype):
        yield [value, bounds, *flags]


def histc(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape, order in ((50,), None), ((7, 9), (1, 0)), ((), None), ((0,), None):
        for bins, low, high in (100, 0, 0), (4, -1, 1), (3, 0.25, 2), (1, 0, 3), (7, 2, 2):
            a = array(rng, shape, dtype, order)
            yield [a, bins, low, high]
            if low != high:
                yield [with_nan(rng, a), bins, low, high]
    yield [np.full((300,), 2).astype(np_dtype(dtype)), 3, 0, 0]


def weights_of(rng: np.random.Generator, shape: Sequence[int], dtype: str) -> np.ndarray | None:
    return np.asarray(np.abs(array(rng, shape, dtype))) if rng.random() < 0.5 else None


RANGES: list[list[float] | None] = [None, [-1.0, 1.0], [0.25, 2.0], None, [2.0, 2.0]]
HISTOGRAMS = list(zip((100, 4, 3, 1, 7), RANGES, strict=True))


def histogram(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    """Yield points on edges, beyond them and NaN, if the range is given."""
    for shape, order in ((50,), None), ((7, 9), (1, 0)), ((), None), ((0,), None):
        for bins, ends in HISTOGRAMS:
            for density in (False, True):
                a = array(rng, shape, dtype, order)
                w = weights_of(rng, shape, dtype)
                yield [a if ends is None else with_nan(rng, a), bins, ends, w, density]
    quarters = (rng.integers(-9, 9, (3, 200)) / 4).astype(np_dtype(dtype))
    yield [quarters, 16, [-2.0, 2.0], None, False]
    yield [quarters, 0, None, None, False]
    yield [quarters, 4, [2.0, -2.0], None, False]
    yield [quarters, 4, [0.0, np.inf], None, False]
    yield [with_nan(rng, quarters), 4, None, None, False]
    yield [quarters, 4, None, np.ones((3, 199), np_dtype(dtype)), False]
    yield [quarters, 4, None, np.ones((3, 200), np.int32), False]


def edges(rng: np.random.Generator, dtype: str, count: int) -> np.ndarray:
    return np.sort(rng.integers(-8, 8, count) / 4).astype(np_dtype(dtype))


def histogram_bins(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for a, bins, ends, w, density in histogram(rng, dtype):
        if bins > 0 and ends is not None:
            yield [a, edges(rng, dtype, bins + 1), w, density]
    a = array(rng, (9,), dtype)
    for bins in np.zeros((0,)), np.zeros((1,)), np.zeros((2, 2)), np.array([3, -1, 2, 0, 1]):
        yield [a, bins.astype(np_dtype(dtype)), None, False]
    yield [a, np.arange(3), None, False]


def grid_edges(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    """Yield points in rows; `histogram_bins` supplies some arguments."""
    for shape, order in ((60, 2), None), ((4, 5, 3), (2, 0, 1)), ((0, 2), None), ((9, 1), None):
        for limits in (None, [-1.0, 1.0, 0.25, 2.0, 3.0, 3.0][: 2 * shape[-1]]):
            for density in (False, True):
                a, w = array(rng, shape, dtype, order), weights_of(rng, shape[:-1], dtype)
                if limits:
                    a = with_nan(rng, a)
                yield [a, [4, 1, 3][: shape[-1]], limits, w, density]
    a = array(rng, (6, 2), dtype)
    yield [a, [3], None, None, False]
    yield [a, [3, 0], None, None, False]
    yield [a, [3, 3], [0.0, 1.0], None, False]
    yield [a, [3, 3], None, array(rng, (6, 1), dtype), False]
    yield [a[0], [3, 3], None, None, False]


def bin_edges(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    """Yield edges; eager makes edges of integers, too, but no histogram with them."""
    if "float" in dtype:
        yield from grid_edges(rng, dtype)


def grid_tensors(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for a, bins, limits, w, density in grid_edges(rng, dtype):
        if limits:
            yield [a, [edges(rng, dtype, max(n, 1) + 1) for n in bins], w, density]


def bincount(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    if dtype == "bool" or "int" not in dtype:
        yield [array(rng, (5,), dtype), None, 0]
        return
    for n in (30, 1, 0):
        a = rng.integers(0, 9, n).astype(dtype)
        for least in (0, 5, 20):
            yield [a, None, least]
            for weights in ("float32", "float64", "float16", "int32"):
                yield [a, array(rng, (n,), weights), least]


SAMPLES: dict[str, Samples] = {
    "aten::sort.values": sort,
    "aten::sort.values_stable": sort_stable,
    "aten::kthvalue.values": of_rows(True),
    "aten::median.out": of_all,
    "aten::median.dim_values": of_rows(False, nan=True),
    "aten::nanmedian.out": of_all,
    "aten::nanmedian.dim_values": of_rows(False, nan=True),
    "aten::mode.values": mode,
    "aten::_unique2.out": unique(True),
    "aten::unique_dim.out": unique_dim(True),
    "aten::unique_consecutive.out": unique_consecutive,
    "aten::searchsorted.Tensor_out": searchsorted,
    "aten::searchsorted.Scalar_out": searchsorted_scalar,
    "aten::bucketize.Tensor_out": bucketize,
    "aten::bucketize.Scalar_out": bucketize_scalar,
    "aten::histc.out": histc,
    "aten::bincount.out": bincount,
    "aten::histogram.bin_ct_out": histogram,
    "aten::histogram.bins_tensor_out": histogram_bins,
    "aten::_histogramdd_bin_edges.out": bin_edges,
    "aten::_histogramdd_from_bin_cts.out": grid_edges,
    "aten::_histogramdd_from_bin_tensors.out": grid_tensors,
}
