"""Norms, poolings, resizing, reductions and decompositions: what comparisons with eager do
not show."""

import numpy as np
import pytest
import torch

from tests.kernels import rows
from tests.kernels.eager import WIDE_UNSIGNED, array
from tests.kernels.more_samples import FILTERS
from tests.op_harness import OpError, Out, run

F = np.float32


def test_softmax_small_results():
    """Results down to subnormal numbers have the accuracy of e^x."""
    x = np.linspace(-103, 0, 4001, dtype=F)
    (output,) = run("aten::_softmax.out", [x, 0, False, Out(x.shape)])
    e = np.exp(x.astype(np.float64))
    wanted = e / e.sum()
    np.testing.assert_allclose(output, wanted, 1e-6, 3e-45)


def test_layer_norm_far_from_zero(rng):
    """A mean far above the deviation loses only the digits of rounding the mean."""
    x = (array(rng, (3, 3000), "float64") + 1000).astype(F)
    outs = [Out(x.shape), Out((3, 1)), Out((3, 1))]
    results = run("aten::native_layer_norm.out", [x, [3000], None, None, 1e-5, *outs])
    wide = torch.from_numpy(x.astype(np.float64))
    wanted = torch.native_layer_norm(wide, [3000], None, None, 1e-5)
    rounding = np.spacing(F(1000))
    for f, w, atol in zip(results, wanted, (rounding, rounding, 2e-7), strict=True):
        np.testing.assert_allclose(f, w.numpy(), 2e-7, atol)


def test_batch_norm_updates_running_statistics(rng):
    x, mean = array(rng, (4, 3, 5), "float32"), array(rng, (3,), "float32")
    var = np.abs(array(rng, (3,), "float32")) + F(0.5)
    rm, rv = torch.from_numpy(mean.copy()), torch.from_numpy(var.copy())
    norm = torch.ops.aten._native_batch_norm_legit
    norm(torch.from_numpy(x), None, None, rm, rv, True, 0.3, 1e-5)
    running = [mean, var]
    run(
        "aten::_native_batch_norm_legit.out",
        [x, None, None, *running, True, 0.3, 1e-5, Out(x.shape), Out((3,)), Out((3,))],
    )
    np.testing.assert_allclose(running[0], rm.numpy(), 1e-6)
    np.testing.assert_allclose(running[1], rv.numpy(), 1e-6)


MAX, AVG = "aten::max_pool2d_with_indices.out", "aten::avg_pool2d.out"
ADAPTIVE = "aten::_adaptive_avg_pool2d.out"


def test_avg_pool_of_the_least_integer():
    x = np.full((1, 1, 1), -(2**63), np.int64)
    (output,) = run(AVG, [x, [1], [], [0], False, True, -1, Out((1, 1, 1), "int64")])
    assert output.item() == -(2**63)


def test_adaptive_large_windows(rng):
    x = (array(rng, (1, 2, 300, 300), "float64") + 100).astype(F)
    (output,) = run(ADAPTIVE, [x, [1, 1], Out((1, 2, 1, 1))])
    np.testing.assert_allclose(output.ravel(), x.astype(float).mean((2, 3)).ravel(), 2e-7)


def test_gradients_of_nothing():
    """An index of -1 means no element, as in eager."""
    x, grad = np.ones((1, 2, 4, 4), F), np.ones((1, 2, 2, 2), F)
    index = np.zeros((1, 2, 2, 2), np.int64)
    lists, out = [[2, 2], [2, 2], [0, 0], [1, 1], False], Out(x.shape)
    name = "aten::max_pool2d_with_indices_backward.grad_input"
    (output,) = run(name, [grad, x, *lists, index - 1, out])
    assert not output.any()
    (output,) = run("aten::_adaptive_avg_pool2d_backward.out", [grad[:, :, :0], x, out])
    assert not output.any()


X = np.ones((1, 2, 5, 5), F)


@pytest.mark.parametrize("ceil_mode", [False, True])
def test_huge_windows(ceil_mode):
    """Padding of half a huge kernel terminates quickly."""
    reach = 2**63 - 4
    for kernel, padding, dilation in ((2**40, 2**39, 1), (2, reach // 2, reach - 1)):
        args = [X, [kernel], [2**60], [padding], [dilation], ceil_mode]
        try:
            output, index = run(MAX, [*args, Out((1, 2, 2, 2)), Out((1, 2, 2, 2), "int64")])
        except OpError as error:
            assert "argument 'kernel_size'" in str(error)
        else:
            assert output.shape == index.shape
    (output,) = run(AVG, [X, [2**40], [2**40], [2**39], False, True, None, Out((1, 2, 1, 1))])
    np.testing.assert_allclose(output.ravel(), 25 / 2.0**80, 1e-6)


@pytest.mark.parametrize("name", [f"aten::_upsample_{name}2d_aa.out" for name in FILTERS])
@pytest.mark.parametrize("size", [[3, 5], [7, 8]])
def test_infinity_beside_an_axis_that_keeps_its_size(rng, name: str, size: list[int]) -> None:
    x = array(rng, (1, 2, 3, 8), "float32")
    x[0, 0, 1, 2] = np.inf
    args = [x, size, False, None, None]
    (right,) = rows.wanted(name, args, "float32")
    (output,) = run(name, [*args, Out(right.shape)])
    np.testing.assert_array_equal(np.isnan(output), np.isnan(right))
    assert np.isinf(right).any() and np.isfinite(right).any()


@pytest.mark.parametrize("dtype", WIDE_UNSIGNED)
def test_extremes_of_wide_unsigned(dtype: str, rng: np.random.Generator) -> None:
    """Eager lacks these kernels; NumPy is the reference."""
    a = array(rng, (5, 40), dtype)
    assert np.array_equal(run("aten::amax.out", [a, [1], False, Out((5,), dtype)])[0], a.max(1))
    output = run("aten::argmin.out", [a, 0, False, Out((40,), "int64")])[0]
    assert np.array_equal(output, a.argmin(0))


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
        output = run("aten::" + name, [a, *ours, Out(shape, out)])[0]
        rtol, atol = (2**-10, 2**-24) if out == "float16" else (1e-6, 0)
        np.testing.assert_allclose(output, wanted.numpy(), rtol, atol)


def test_outputs_of_other_dtypes(rng: np.random.Generator) -> None:
    a = array(rng, (3, 20), "float32")
    output = run("aten::max.unary_out", [a, Out((), "float64")])[0]
    assert output.dtype == np.float64 and output == a.max().astype(np.float64)
    output = run("aten::var.correction_out", [a, [1], 1, False, Out((3,), "float64")])[0]
    np.testing.assert_allclose(output, a.astype(np.float64).var(1, ddof=1), rtol=1e-6)
    output = run("aten::any.out", [a, 1, False, Out((3,), "uint8")])[0]
    assert output.tolist() == [1, 1, 1]


def test_float32_sums_are_exact_to_the_last_bits() -> None:
    """A million times 0.1: a running float32 sum has an error of a percent."""
    a = np.full(1_000_000, 0.1, np.float32)
    output = run("aten::sum.IntList_out", [a, None, False, None, Out((), "float32")])[0]
    assert output == np.float32(a.astype(np.float64).sum())


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
    output = run(f"aten::{name}", [a, *tail, Out(out)])[0]
    for i, row in enumerate(a):
        alone = run(f"aten::{name}", [row[None], *tail, Out((1, *out[1:]))])[0]
        np.testing.assert_array_equal(output[i].view("u4"), alone[0].view("u4"))


def test_not_finite_eigenvalues() -> None:
    args = [np.full((2, 2), np.nan, F), "L", True, Out((2,)), Out((2, 2))]
    for numbers in run("aten::_linalg_eigh.eigenvalues", args):
        assert np.isnan(numbers).all()
