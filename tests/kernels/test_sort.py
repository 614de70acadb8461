"""csrc/kernels/sort against eager: every operator, dtype and layout."""

import itertools

import numpy as np
import pytest
import torch

from tests.kernels.accuracy import check
from tests.kernels.eager import FLOATING, INTEGRAL, REALB, WIDE_UNSIGNED, array, eager, to_torch
from tests.kernels.rows import LISTS, wanted
from tests.kernels.samples_sort import SAMPLES, ties, with_nan
from tests.op_harness import OpError, Out, run

WITHOUT_BOOL = ("kthvalue", "median", "nanmedian", "searchsorted", "bucketize", "bincount")


def dtypes_of(name: str) -> list[str]:
    if "hist" in name:
        return FLOATING
    if "bincount" in name:
        return [d for d in INTEGRAL if d not in WIDE_UNSIGNED]
    no_bool = name.removeprefix("aten::").split(".")[0] in WITHOUT_BOOL
    return [d for d in REALB if d not in WIDE_UNSIGNED and not (no_bool and d == "bool")]


@pytest.mark.parametrize(("name", "dtype"), [(n, d) for n in SAMPLES for d in dtypes_of(n)])
def test_samples(name: str, dtype: str, rng: np.random.Generator) -> None:
    exact = "histogram" not in name  # edges round like eager's vectors
    for args in SAMPLES[name](rng, dtype):
        if exact or wanted(name, args, dtype) is not None:
            check(name, args, list_out=name in LISTS)


@pytest.mark.parametrize("dtype", WIDE_UNSIGNED)
def test_sort_of_wide_unsigned(dtype: str, rng: np.random.Generator) -> None:
    """Eager lacks these kernels; NumPy is the reference."""
    a = rng.integers(0, np.iinfo(dtype).max, (3, 200), dtype)
    found, at = run("aten::sort.values", [a, 1, False, Out(a.shape, dtype), Out(a.shape, "int64")])
    assert np.array_equal(found, np.sort(a, 1))
    assert np.array_equal(at, np.argsort(a, 1, kind="stable"))


@pytest.mark.parametrize("name", ["median.dim_values", "nanmedian.dim_values", "kthvalue.values"])
def test_positions_of_equal_elements(name: str, rng: np.random.Generator) -> None:
    """The position among equal elements is undefined: it must hold the value."""
    a = with_nan(rng, ties(rng, (6, 300), "float32"))
    args = [a, *([150] if name[0] == "k" else []), 1, True]
    values, at = run(f"aten::{name}", [*args, Out((6, 1)), Out((6, 1), "int64")])
    np.testing.assert_array_equal(values, eager(f"aten::{name}", args)[0])
    np.testing.assert_array_equal(np.take_along_axis(a, at, 1), values)


ORDERS: dict[str, list] = {
    "kthvalue.values": [1, -1, False],
    "mode.values": [-1, False],
    "median.dim_values": [-1, False],
    "nanmedian.dim_values": [-1, False],
    "median.out": [],
    "nanmedian.out": [],
    "sort.values": [-1, False],
    "topk.values": [1, -1, True, True],
    "cummax.out": [-1],
    "cummin.out": [-1],
    "amax.out": [[-1], False],
    "amin.out": [[-1], False],
    "max.dim_max": [-1, False],
    "argmin.out": [-1, False],
    "max.unary_out": [],
}


@pytest.mark.parametrize("dtype", ["bool", "complex64", "complex128", "float32"])
@pytest.mark.parametrize("name", ORDERS)
def test_little_to_order(name: str, dtype: str) -> None:
    """For zero or one element, eager accepts some unordered dtypes and rejects others."""
    for shape in ((), (1,), (0,), (2, 1), (0, 3), (3, 0), (3,)):
        args = [np.arange(np.prod(shape)).reshape(shape).astype(dtype), *ORDERS[name]]
        if wanted(f"aten::{name}", args, dtype) is not None:
            check(f"aten::{name}", args)
            continue
        alone = name in ("median.out", "nanmedian.out", "amax.out", "amin.out", "max.unary_out")
        outs = [Out(shape, dtype), Out(shape, "int64")]
        with pytest.raises(OpError):
            run(f"aten::{name}", [*args, *(outs[1:] if name[:3] == "arg" else outs[: 2 - alone])])
            pytest.fail(f"eager rejects {name} of {dtype} {shape}")


@pytest.mark.parametrize("dtype", ["bool", "complex64", "float32"])
def test_searches_for_no_elements(dtype: str) -> None:
    """Eager searches rows of any dtype for no elements, and others if there is an order."""
    for rows, values in itertools.product(
        [(0,), (3,), (2, 0), (2, 3)], [(), (0,), (3,), (2, 0), (2, 2)]
    ):
        a, v = np.ones(rows, dtype), np.ones(values, dtype)
        for name, args in (
            ("searchsorted", [a, v, False, False, None, None]),
            ("bucketize", [v, a, False, False]),
        ):
            if wanted(f"aten::{name}.Tensor_out", args, dtype) is not None:
                check(f"aten::{name}.Tensor_out", args)
            else:
                with pytest.raises(OpError):
                    run(f"aten::{name}.Tensor_out", [*args, Out(values, "int64")])


def test_mode_of_long_rows(rng: np.random.Generator) -> None:
    a = array(rng, (5, 1000), "int32")
    values, at = run("aten::mode.values", [a, 1, False, Out((5,), "int32"), Out((5,), "int64")])
    assert np.array_equal(values, eager("aten::mode.values", [a, 1, False])[0])
    assert np.array_equal(a[np.arange(5), at], values)


def test_a_million_elements(rng: np.random.Generator) -> None:
    for a in (rng.standard_normal(1 << 20), rng.integers(-(2**62), 2**62, 1 << 20)):
        found, at = run(
            "aten::sort.values", [a, 0, True, Out(a.shape, a.dtype.name), Out(a.shape, "int64")]
        )
        wanted, positions = torch.sort(to_torch(a), stable=True, descending=True)
        assert np.array_equal(found, wanted.numpy()) and np.array_equal(at, positions.numpy())


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("kthvalue.values", [0, 0, False]),
        ("kthvalue.values", [4, 0, False]),
        ("kthvalue.values", [1, 2, False]),
        ("sort.values", [1, False]),
        ("mode.values", [-2, False]),
        ("histc.out", [0, 0, 0]),
        ("histc.out", [3, 2, 1]),
        ("histc.out", [3, 0, np.inf]),
        ("bincount.out", [None, 0]),
        ("bucketize.Tensor_out", [np.zeros((3, 1)), False, False]),
        ("searchsorted.Tensor_out", [np.zeros((2, 3)), False, True, "left", None]),
        ("searchsorted.Tensor_out", [np.zeros(3), False, False, "middle", None]),
        ("searchsorted.Tensor_out", [np.zeros(3), False, False, None, np.array([0, 3, 1])]),
        ("searchsorted.Tensor_out", [np.zeros(3), False, False, None, np.array([0, -1, 1])]),
        ("searchsorted.Tensor_out", [np.zeros(3), False, False, None, np.array([0, 1])]),
    ],
)
def test_refusals(name: str, args: list) -> None:
    outs = [Out((3,)), Out((3,), "int64")]
    if name.split(".")[0] in ("bucketize", "searchsorted"):
        outs = outs[1:]
    with pytest.raises(OpError):
        run(f"aten::{name}", [np.zeros(3, np.float32), *args, *outs])


def test_unique_slices_with_nan() -> None:
    """A slice with NaN is unique."""
    a = np.array([[1, np.nan], [0, 2], [1, np.nan], [0, 2]], np.float32)
    outs = [Out((4, 2)), Out((4,), "int64"), Out((4,), "int64")]
    values, inverse, counts = run("aten::unique_dim.out", [a, 0, True, True, True, *outs])
    np.testing.assert_array_equal(values, np.array([[0, 2], [1, np.nan], [1, np.nan]]))
    assert inverse.tolist() == [1, 0, 2, 0] and counts.tolist() == [2, 1, 1]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_even_edges_are_those_of_eager(dtype: str, rng: np.random.Generator) -> None:
    """To the last bit: an edge in the middle of the range is the rounding error of the step."""
    for bins in 1, 2, 41, 100, 121:
        x = np.array([-3, 3, *rng.uniform(-3, 3, 5)], dtype)
        args = [x, bins, None, None, False]
        wanted = eager("aten::histogram.bin_ct_out", args)
        outs = [Out(w.shape, w.dtype.name) for w in wanted]
        found = run("aten::histogram.bin_ct_out", [*args, *outs])
        np.testing.assert_array_equal(found[1], wanted[1])


def test_points_on_edges(rng: np.random.Generator) -> None:
    """A bin contains its left edge, the last bin both edges."""
    a, edges = np.array([0, 0.5, 1, 2, 2, 3], np.float32), np.array([0, 1, 2], np.float32)
    for bins, ends in ([edges], []), ([2], [[0.0, 2.0]]):
        overload = "bin_ct_out" if ends else "bins_tensor_out"
        found = run(
            f"aten::histogram.{overload}", [a, *bins, *ends, None, False, Out((2,)), Out((3,))]
        )
        assert found[0].tolist() == [2, 3] and found[1].tolist() == edges.tolist()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([[3, 3], [0.0, 1.0]], "'range': 2 numbers, expected 4"),
        ([[3], None], "'bins': 1 numbers"),
        ([[3, 2**62], None], "impossible shape"),
        ([[3, -1], None], "'bins': -1 bins"),
        ([[2**32, 2**32], None], "impossible shape"),
        ([[3, 2**63 - 1], None], "'bins'"),
        ([[2, 2], [0.0, 1.0, 3.0, 2.0]], "ends before"),
        ([[2, 2], [0.0, 1.0, 0.0, np.nan]], "finite"),
    ],
)
def test_refused_grids(args: list, says: str) -> None:
    given = [np.zeros((4, 2), np.float32), *args, None, False]
    with pytest.raises(OpError, match=says):
        run("aten::_histogramdd_from_bin_cts.out", [*given, Out((3, 3))])
    with pytest.raises(OpError):
        run("aten::_histogramdd_bin_edges.out", [*given, [Out((4,)), Out((3,))]])


def test_more_unique_elements_than_fit() -> None:
    """The bound is the planned size."""
    outs = [Out((2,)), Out((0,), "int64"), Out((0,), "int64")]
    with pytest.raises(OpError, match="'out0'.*bound"):
        run("aten::_unique2.out", [np.arange(3.0, dtype=np.float32), True, False, False, *outs])


@pytest.mark.parametrize("shape", [(2, 0), ()])
def test_nothing_to_compare(shape: tuple) -> None:
    with pytest.raises(OpError):
        run(
            "aten::unique_dim.out",
            [
                *(np.zeros(shape, np.float32), 0, True, True, True, Out(shape)),
                *(Out((2,), "int64"), Out((2,), "int64")),
            ],
        )


@pytest.mark.parametrize("values", [[-1, 2], [2**63 - 1]])
def test_missing_bins(values: list) -> None:
    with pytest.raises(OpError, match="is not a bin"):
        run("aten::bincount.out", [np.array(values), None, 0, Out((4,), "int64")])
    with pytest.raises(OpError, match="bound"):
        run("aten::bincount.out", [np.array([4]), None, 0, Out((4,), "int64")])
