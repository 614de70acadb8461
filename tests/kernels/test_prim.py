"""csrc/kernels/prim: numbers against Python, views and rows against NumPy."""

import ctypes
import math
import operator

import numpy as np
import pytest
import torch

from tests.judge import assert_equal
from tests.kernels.eager import ALL, COMPLEX, array, to_torch
from tests.kernels.rows import PYTHON
from tests.kernels.samples_prim import PRIM
from tests.op_harness import OpError, Out, Ret, _Call, library, run

SCALARS = [n for n in PRIM if n.endswith((".Scalar", ".int")) and n.startswith("executorch")]


def wrapped(value: object) -> object:
    """Return Python's integers as int64; ours wrap in arithmetic and saturate in rounding."""
    if type(value) is int:
        return (value + 2**63) % 2**64 - 2**63
    return value


@pytest.mark.parametrize("name", SCALARS)
def test_numbers(name: str, rng: np.random.Generator) -> None:
    op = PYTHON[name.split("::")[1].split(".")[0]]
    rounding = op in (int, math.trunc, math.ceil, round)
    for args in PRIM[name](rng, ""):
        try:
            want = op(*args)
        except ZeroDivisionError:
            if float in map(type, args) or op is operator.truediv:
                continue  # see test_floating_division_by_zero
            with pytest.raises(OpError, match="'b': integer division of .* by zero"):
                run(name, [*args, Ret("int")])
            continue
        found = run(name, [*args, Ret("int")])[0]
        if rounding and abs(want) >= 2**63:
            want = 2**63 - 1 if want > 0 else -(2**63)
        if type(want) is bool and op in (max, min, operator.neg):
            want = int(want)
        want = wrapped(want) if type(want) is not bool or type(found) is bool else int(want)
        assert type(found) is type(want) and found == want, (name, args)


def test_floating_division_by_zero() -> None:
    """As in the official runtime; Python would raise."""
    for name in ("truediv", "floordiv", "mod"):
        for a, want in ((1.0, math.inf), (-1.0, -math.inf), (0.0, math.nan)):
            want = math.nan if name == "mod" else want
            found = run(f"executorch_prim::{name}.Scalar", [a, 0.0, Ret("double")])[0]
            assert_equal(found, want, (name, a))


def test_the_minimum_by_minus_one_wraps() -> None:
    for name in ("floordiv.Scalar", "floordiv.int"):
        assert run(f"executorch_prim::{name}", [-(2**63), -1, Ret("int")]) == [-(2**63)]
    for name in ("mod.Scalar", "mod.int"):
        assert run(f"executorch_prim::{name}", [-(2**63), -1, Ret("int")]) == [0]


@pytest.mark.parametrize("dtype", ALL)
def test_numbers_of_tensors(dtype: str, rng: np.random.Generator) -> None:
    for a, dim in PRIM["aten::sym_size.int"](rng, dtype):
        assert run("aten::sym_size.int", [a, dim, Ret("int")]) == [a.shape[dim]]
    for (a,) in PRIM["aten::sym_numel"](rng, dtype):
        assert run("aten::sym_numel", [a, Ret("int")]) == [a.size]
    for (a,) in PRIM["aten::sym_storage_offset"](rng, dtype):
        assert run("aten::sym_storage_offset", [a, Ret("int")]) == [0]
    for a, dim in PRIM["aten::sym_stride.int"](rng, dtype):
        if -a.ndim <= dim < a.ndim:
            want = to_torch(a).stride(dim)
            assert run("aten::sym_stride.int", [a, dim, Ret("int")]) == [want]
    for a, last in PRIM["aten::sym_is_contiguous"](rng, dtype):
        want = torch.ops.aten.sym_is_contiguous(to_torch(a), last)
        assert run("aten::sym_is_contiguous", [a, last, Ret("bool")]) == [want], (a.shape, last)
    for (a,) in PRIM["aten::_local_scalar_dense"](rng, dtype):
        if dtype in COMPLEX:
            with pytest.raises(OpError, match="'self': dtype complex"):
                run("aten::_local_scalar_dense", [a, Ret("double")])
        else:
            kind = bool if dtype == "bool" else int if "int" in dtype else float
            found = run("aten::_local_scalar_dense", [a, Ret("double")])[0]
            assert type(found) is kind and found == kind(a.reshape(()).item())


@pytest.mark.parametrize(
    ("args", "message"),
    [([np.ones((2, 3)), 2], "dim 2 is out of range"), ([np.ones(()), 0], "'self': has no dim")],
)
def test_missing_sizes(args: list, message: str) -> None:
    for name in ("aten::sym_size.int", "aten::sym_stride.int"):
        with pytest.raises(OpError, match=message):
            run(name, [*args, Ret("int")])


def test_a_number_needs_one_element() -> None:
    with pytest.raises(OpError, match="'self': 2 elements, expected one"):
        run("aten::_local_scalar_dense", [np.ones(2), Ret("double")])


def view(a: np.ndarray, size: list[int], out: Out) -> np.ndarray:
    """Run et_view and read the elements through the output's pointer."""
    call = _Call()
    values = [call.value(v) for v in (a, size, out)]
    args = (ctypes.c_void_p * 3)(*[ctypes.addressof(v) for v in values])
    text = ctypes.create_string_buffer(2048)
    status = library().ec_testing_run_op(
        b"executorch_prim::et_view.default",
        args,
        ctypes.c_size_t(3),
        0,
        text,
        ctypes.c_size_t(2048),
    )
    if status:
        raise OpError(status, text.value.decode())
    t = out._tensor  # type: ignore[attr-defined]
    shape = tuple(t.sizes[: t.rank])
    strides = [s * a.itemsize for s in t.strides[: t.rank]]
    source = ctypes.cast(values[0].payload.p, ctypes.POINTER(type(t))).contents
    assert t.data == source.data and t.capacity == source.capacity
    memory = (ctypes.c_char * max(t.capacity, 1)).from_address(t.data)
    flat = np.frombuffer(memory, a.dtype, a.size) if a.size else np.empty(0, a.dtype)
    return np.lib.stride_tricks.as_strided(flat, shape, strides).copy()


@pytest.mark.parametrize("dtype", ["bool", "float16", "float32", "complex128"])
def test_views(dtype: str, rng: np.random.Generator) -> None:
    for a, size in PRIM["executorch_prim::et_view.default"](rng, dtype):
        want = a.reshape(size)
        assert_equal(view(a, size, Out(want.shape, dtype)), want, (a.shape, size))


def test_views_of_other_layouts(rng: np.random.Generator) -> None:
    """Dense memory in another dim order is viewed if the order permits it."""
    a = array(rng, (2, 3, 4, 5), "float32", (0, 2, 3, 1))
    found = view(a, [2, 3, 20], Out((2, 3, 20), dim_order=(0, 2, 1)))
    assert_equal(found, a.reshape(2, 3, 20), "view")
    thin = array(rng, (2, 3, 1, 1), "float32", (0, 2, 3, 1))
    assert_equal(view(thin, [6], Out((6,))), thin.reshape(6), "thin")
    for size, out in (
        ([2, 3, 20], Out((2, 3, 20))),
        ([120], Out((120,))),
        ([6, 20], Out((6, 20), dim_order=(1, 0))),
    ):
        with pytest.raises(OpError, match="'out': self's memory layout cannot be viewed"):
            view(a, size, out)


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ([5, 5], r"'size': \(5, 5\) does not have self's 24 elements"),
        ([-1, -1], "impossible size -1 of dimension 1"),
        ([-2, 12], "impossible size -2"),
        ([0, -1], "ambiguous"),
        ([7, -1], "does not have self's 24"),
        ([1] * 17, "17 dimensions"),
        ([2**62, 4], "impossible size 4"),
        ([24, 1], "has another rank|rank"),
        ([12], "does not have self's 24"),
    ],
)
def test_views_refused(size: list[int], message: str) -> None:
    with pytest.raises(OpError, match=message):
        view(np.ones((2, 3, 4), "float32"), size, Out((24,)))


def test_views_of_another_dtype_are_refused() -> None:
    with pytest.raises(OpError, match="'out': dtype int32, expected float32"):
        view(np.ones((2, 3), "float32"), [6], Out((6,), "int32"))


@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "complex128"])
def test_rows(dtype: str, rng: np.random.Generator) -> None:
    name = "executorch_prim::et_copy_index.tensor"
    for whole, row, index in PRIM[name](rng, dtype):
        found = run(name, [Out(whole.shape, dtype), row, index])[0]
        assert found.shape == (index + 1, *whole.shape[1:])
        assert_equal(np.asarray(found[index]), row, index)
        assert not found[:index].any()
    column = array(rng, (3, 4), dtype, (1, 0))
    found = run(name, [Out((5, 3, 4), dtype), column, 1])[0]
    assert_equal(found[1], column, "transposed")


@pytest.mark.parametrize(
    ("to", "row", "index", "message"),
    [
        (Out((5, 3)), np.ones(3, "float32"), -1, "'index': -1"),
        (Out((5, 3)), np.ones(3, "float32"), 5, "'copy_to'.*upper bound"),
        (Out((5, 3)), np.ones(3, "float32"), 2**63 - 1, "'index'"),
        (Out((5, 3)), np.ones(3, "float32"), 2**61, "'copy_to'"),
        (Out((5, 3)), np.ones(4, "float32"), 0, r"'copy_from': shape \(4,\), expected a row"),
        (Out((5, 3)), np.ones((1, 3), "float32"), 0, "'copy_from': shape"),
        (Out((5, 3)), np.ones(3, "int32"), 0, "'copy_from': dtype int32, expected float32"),
        (Out((5, 3), dim_order=(1, 0)), np.ones(3, "float32"), 0, "'copy_to': its first dimension"),
        (Out(()), np.ones((), "float32"), 0, "'copy_from': shape"),
    ],
)
def test_rows_refused(to: Out, row: np.ndarray, index: int, message: str) -> None:
    with pytest.raises(OpError, match=message):
        run("executorch_prim::et_copy_index.tensor", [to, row, index])
