"""csrc/kernels/reduce against eager: every operator, dtype and layout."""

import numpy as np
import pytest
import torch

from tests.kernels.accuracy import check
from tests.kernels.eager import ALL, FLOATING, REALB, WIDE_UNSIGNED, DType, array, np_dtype, orders
from tests.kernels.samples_reduce import SAMPLES
from tests.op_harness import Out, assert_rejected, dtype_id, run

EXTREMES = [
    n for n in SAMPLES if n.split("::")[1][:4] in ("amax", "amin", "max.", "min.", "argm", "cumm")
]
FRACTIONS = [n for n in SAMPLES if "var" in n or "dist" in n or "logcum" in n]


def dtypes_of(name: str) -> list[str]:
    if name in FRACTIONS:
        return [*FLOATING, "complex64", "complex128"]
    if name in EXTREMES:
        arg = "argm" in name
        return [d for d in REALB if d not in WIDE_UNSIGNED and not (arg and d == "bool")]
    return ALL


@pytest.mark.parametrize(("name", "dtype"), [(n, d) for n in SAMPLES for d in dtypes_of(n)])
def test_samples(name: str, dtype: str, rng: np.random.Generator) -> None:
    for args in SAMPLES[name](rng, dtype):
        check(name, args)


@pytest.mark.parametrize("dtype", WIDE_UNSIGNED)
def test_extremes_of_wide_unsigned(dtype: str, rng: np.random.Generator) -> None:
    """Eager lacks these kernels; NumPy is the reference."""
    a = array(rng, (5, 40), dtype)
    assert np.array_equal(run("aten::amax.out", [a, [1], False, Out((5,), dtype)])[0], a.max(1))
    found = run("aten::argmin.out", [a, 0, False, Out((40,), "int64")])[0]
    assert np.array_equal(found, a.argmin(0))


@pytest.mark.parametrize("name", ["aten::sum.IntList_out", "aten::amax.out", "aten::var.out"])
@pytest.mark.parametrize("order", orders(3))
def test_output_dim_orders(name: str, order: tuple, rng: np.random.Generator) -> None:
    for in_order in orders(3):
        a = array(rng, (4, 20, 3), "float32", in_order)
        tails = {"aten::sum.IntList_out": [True, None], "aten::amax.out": [True]}
        tail = tails.get(name, [True, True])
        check(name, [a, [1], *tail], orders=[order, order])
    check("aten::cumsum.out", [array(rng, (4, 20, 3), "float32", order), 1, None], orders=[order])


@pytest.mark.parametrize(
    ("out", "source"),
    [
        *(("float16", "float32"), ("float64", "float32"), ("int32", "float32")),
        *(("int32", "int64"), ("float32", "int32"), ("bool", "int8"), ("complex64", "float32")),
        ("int32", "bool"),
    ],
)
def test_sums_in_the_dtype_of_the_output(out: str, source: str, rng: np.random.Generator) -> None:
    a = array(rng, (3, 20), source)
    for name, ours, theirs in (
        ("sum.IntList_out", [[1], False, None], ((1,), False)),
        ("prod.int_out", [1, False, None], (1, False)),
        ("cumsum.out", [1, None], (1,)),
    ):
        if name == "cumsum.out" and out == "bool":
            continue  # eager lacks it
        shape = (3, 20) if name == "cumsum.out" else (3,)
        wanted = torch.empty(shape, dtype=getattr(torch, out))
        packet, overload = name.split(".")
        getattr(getattr(torch.ops.aten, packet), overload)(torch.from_numpy(a), *theirs, out=wanted)
        found = run("aten::" + name, [a, *ours, Out(shape, out)])[0]
        rtol, atol = (2**-10, 2**-24) if out == "float16" else (1e-6, 0)
        np.testing.assert_allclose(found, wanted.numpy(), rtol, atol)


def test_outputs_of_other_dtypes(rng: np.random.Generator) -> None:
    a = array(rng, (3, 20), "float32")
    found = run("aten::max.unary_out", [a, Out((), "float64")])[0]
    assert found.dtype == np.float64 and found == a.max().astype(np.float64)
    found = run("aten::var.correction_out", [a, [1], 1, False, Out((3,), "float64")])[0]
    np.testing.assert_allclose(found, a.astype(np.float64).var(1, ddof=1), rtol=1e-6)
    found = run("aten::any.out", [a, 1, False, Out((3,), "uint8")])[0]
    assert found.tolist() == [1, 1, 1]


def test_float32_sums_are_exact_to_the_last_bits() -> None:
    """A million times 0.1: a running float32 sum has an error of a percent."""
    a = np.full(1_000_000, 0.1, np.float32)
    found = run("aten::sum.IntList_out", [a, None, False, None, Out((), "float32")])[0]
    assert found == np.float32(a.astype(np.float64).sum())


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_means_round_to_a_half_at_their_end(half: str) -> None:
    """Eager sums in float32, because float16 lacks range and precision."""
    for a in (
        np.array([2049, 2049, 2049, 2051]),
        np.array([1e5, -1e5, 3]),
        np.array([1e5, -1e5, 3], np.float32),
        np.array([300, 0, 513], np.uint16),
    ):
        check("aten::mean.dtype_out", [a, DType(half)])
        check("aten::mean.out", [a, [0], True, DType(half)])


def test_nan_and_ties() -> None:
    nan = float("nan")
    a = np.array([[1, nan, 3, nan], [2, 5, 5, 1]], np.float32)
    values, at = run("aten::max.dim_max", [a, 1, False, Out((2,)), Out((2,), "int64")])
    assert np.isnan(values[0]) and values[1] == 5 and at.tolist() == [1, 1]
    long = np.zeros(3000, np.float32)
    long[[1500, 1700, 2900]] = nan
    assert run("aten::argmin.out", [long, None, False, Out((), "int64")])[0] == 1500


@pytest.mark.parametrize("dtype", [d for d in REALB if d not in WIDE_UNSIGNED])
def test_extremes_anywhere_in_a_long_row(dtype: str) -> None:
    """One element differs: inside vectors, between them, at the end; NaN, too."""
    others = [1, 3] if dtype == "bool" or "int" in dtype else [1, 3, float("nan")]
    for n in (31, 64, 75, 1100):
        for at in sorted({0, 5, 17, 31, 40, n // 2, n - 20, n - 1} & set(range(n))):
            for other in others:
                rest = 2 if dtype != "bool" else other == 1
                a = np.full((2, n), rest).astype(np_dtype(dtype))
                a[1, at] = not rest if dtype == "bool" else other
                for name in ("max", "min"):
                    check(f"aten::{name}.dim_{name}", [a, 1, False])
                    check(f"aten::a{name}.out", [a, [1], False])


def test_errors(rng: np.random.Generator) -> None:
    a = array(rng, (2, 3), "float32")
    assert_rejected("aten::sum.IntList_out", [a, [2], False, None, Out((2,))], "dim 2", "[-2, 1]")
    assert_rejected(
        "aten::sum.IntList_out", [a, [1, -1], False, None, Out((2,))], "dim 1", "more than once"
    )
    double = dtype_id("float64")
    assert_rejected("aten::sum.IntList_out", [a, [1], False, double, Out((2,))], "'out'", "float64")
    assert_rejected("aten::sum.IntList_out", [a, [1], False, 99, Out((2,))], "'dtype'", "99")
    assert_rejected(
        "aten::sum.IntList_out", [a, [1], False, None, Out((1,))], "'out'", "upper bound"
    )
    assert_rejected("aten::mean.out", [a, [1], False, None, Out((2,), "int64")], "'out'", "int64")
    assert_rejected(
        "aten::mean.out", [a.astype(np.int32), [1], False, None, Out((2,))], "'self'", "int32"
    )
    assert_rejected(
        "aten::amax.out", [a[:0], [0], False, Out((3,))], "'self'", "dimension 0", "size 0"
    )
    assert_rejected("aten::amax.out", [a, [0], False, Out((3,), "float64")], "'out'", "float64")
    assert_rejected("aten::max.unary_out", [a[:0], Out(())], "'self'", "empty")
    assert_rejected("aten::max.unary_out", [a, Out((), "int32")], "'out'", "int32")
    assert_rejected("aten::argmax.out", [a, 0, False, Out((3,), "int32")], "'out'", "int32")
    z = a.astype(np.complex64)
    assert_rejected("aten::argmax.out", [z, 0, False, Out((3,), "int64")], "'self'", "complex64")
    assert_rejected("aten::any.out", [a, 0, False, Out((3,))], "'out'", "float32")
    assert_rejected(
        "aten::var.out", [a.astype(np.int32), [0], True, False, Out((3,))], "'self'", "int32"
    )


@pytest.mark.parametrize("n", [65_535, 65_536, 200_003])
def test_one_long_result(n: int, rng: np.random.Generator) -> None:
    """Reduced in chunks: the first of equal elements and the first NaN win, in any chunk."""
    a = rng.standard_normal(n).astype(np.float32)
    total, exact = run("aten::mean.dtype_out", [a, None, Out(())])[0], a.astype(np.float64)
    np.testing.assert_allclose(total, exact.mean(), rtol=1e-6)
    np.testing.assert_allclose(
        run("aten::var.out", [a, None, True, False, Out(())])[0], exact.var(ddof=1), rtol=1e-6
    )
    for value in (9, np.nan):
        for first in (0, n // 3, n - 40):
            b = a.copy()
            b[[first, first + 20, n - 1]] = value
            at = run("aten::argmax.out", [b, None, False, Out((), "int64")])[0]
            assert at == first
            np.testing.assert_array_equal(run("aten::max.unary_out", [b, Out(())])[0], value)
    zeros = np.zeros(n)
    assert not run("aten::any.all_out", [zeros, Out((), "bool")])[0]
    zeros[n - 1] = np.nan
    assert run("aten::any.all_out", [zeros, Out((), "bool")])[0]


@pytest.mark.parametrize(
    ("name", "tail"),
    [
        ("sum.IntList_out", [[1], False, None]),
        ("mean.out", [[1], False, None]),
        ("cumsum.out", [1, None]),
        ("cumprod.out", [1, None]),
        ("logcumsumexp.out", [1]),
    ],
)
@pytest.mark.parametrize("shape", [(7, 16), (5, 64), (4, 19), (9, 4112), (3, 5000)])
def test_rows_beside_each_other(
    name: str, tail: list, shape: tuple[int, int], rng: np.random.Generator
) -> None:
    """Several rows at once have the bits of one row."""
    scans = name not in ("sum.IntList_out", "mean.out")
    a = rng.standard_normal(shape).astype("f4")
    out = shape if scans else shape[:1]
    found = run(f"aten::{name}", [a, *tail, Out(out)])[0]
    for i, row in enumerate(a):
        alone = run(f"aten::{name}", [row[None], *tail, Out((1, *out[1:]))])[0]
        np.testing.assert_array_equal(found[i].view("u4"), alone[0].view("u4"))
