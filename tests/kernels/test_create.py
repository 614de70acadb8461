"""csrc/kernels/create against eager's out= forms."""

import numpy as np
import pytest
import torch

from tests.judge import assert_equal
from tests.kernels.accuracy import compare
from tests.kernels.eager import ALL, REALB, WIDE_UNSIGNED, array, to_numpy, to_torch
from tests.kernels.rows import UNFILLED
from tests.kernels.samples_copy import CREATED
from tests.op_harness import OpError, Out, run

INDICES = ("aten::tril_indices.out", "aten::triu_indices.out")


def expected(name: str, args: list, dtype: str) -> np.ndarray | None:
    """Return eager's result in an output of the given dtype; None if eager rejects it."""
    packet, overload = name.removeprefix("aten::").split(".")
    op = getattr(getattr(torch.ops.aten, packet), overload)
    named = {s.name: v for s, v in zip(op._schema.arguments, args, strict=False) if s.kwarg_only}
    values = [to_torch(a) for a in args[: len(args) - len(named)]]
    out = torch.empty(0, dtype=getattr(torch, dtype))
    try:
        return to_numpy(op(*values, **named, out=out))
    except RuntimeError:
        return None


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("name", [n for n in CREATED if n not in UNFILLED])
def test_samples(name: str, dtype: str, rng: np.random.Generator) -> None:
    for args in CREATED[name](rng, dtype):
        if "arange" in name and dtype not in REALB:
            continue
        want = expected(name, args, dtype)
        if want is not None:
            found = run(name, [*args, Out(want.shape, dtype)])[0]
            compare(name, args, [found], [want])
        elif dtype not in WIDE_UNSIGNED:
            with pytest.raises(OpError):
                out = (2, 9) if name in INDICES else (int(abs(args[-1])) + 1,)
                run(name, [*args, Out(out, dtype)])


@pytest.mark.parametrize("name", UNFILLED)
def test_empty_only_sizes(name: str, rng: np.random.Generator) -> None:
    for args in CREATED[name](rng, "float32"):
        size = args[-2]
        refused = name.startswith("aten::") and expected(name, args, "float32") is None
        bound = tuple(n + 1 for n in size)
        if refused:
            with pytest.raises(OpError, match="'(physical_layout|stride)'"):
                run(name, [*args, Out(bound)])
        else:
            assert run(name, [*args, Out(bound)])[0].shape == tuple(size)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("name", INDICES)
def test_indices_of_any_layout(name: str, order: tuple, rng: np.random.Generator) -> None:
    for args in CREATED[name](rng, "int64"):
        want = expected(name, args, "int64")
        if want is not None:
            out = Out(want.shape, "int64", order)
            assert_equal(run(name, [*args, out])[0], want, args)


def test_too_many_indices() -> None:
    for name in INDICES:
        for size in ([2**40, 2**40, 0], [2**62, 1, 0], [0, 2**63 - 1, -(2**63)]):
            with pytest.raises(OpError, match="is too large"):
                run(name, [*size, Out((2, 4), "int64")])
        with pytest.raises(OpError, match="upper bound"):
            run(name, [2**20, 2**20, 0, Out((2, 4), "int64")])


def test_resize_larger(rng: np.random.Generator) -> None:
    """Elements that fit are kept, in memory order, followed by zeros (undefined in eager)."""
    a = array(rng, (3, 5), "int32", (1, 0))
    want = np.zeros(24, "int32")
    want[:15] = a.T.ravel()
    found = run("aten::resize.out", [a, [4, 6], None, Out((4, 6), "int32")])[0]
    assert_equal(found, want.reshape(4, 6), "resize")


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_resize_in_place(order: tuple, rng: np.random.Generator) -> None:
    """The tensor keeps its dim order; its elements are eager's."""
    for size in ([2, 3, 4], [1, 3, 3], [4, 3, 2], [0, 3, 4]):
        a = array(rng, (2, 3, 4), "float32", order)
        self = Out(a.shape, "float32", order, initial=a)
        want = to_numpy(torch.ops.aten.resize(torch.from_numpy(a), size))
        assert_equal(run("aten::resize_", [self, size, None, None])[0], want, size)
    with pytest.raises(OpError, match="upper bound"):
        run("aten::resize_", [Out((2, 3), initial=np.ones((2, 3))), [3, 3], None, None])
    with pytest.raises(OpError, match="another rank"):
        run("aten::resize_", [Out((2, 3), initial=np.ones((2, 3))), [6], None, None])


def test_resize_refusals(rng: np.random.Generator) -> None:
    for size, last in (([3], 2), ([3], 1), ([-1], None), ([3, 1], 3), ([2**62, 4], 0)):
        with pytest.raises(OpError, match="'(size|memory_format)'"):
            run("aten::resize.out", [np.ones(3), size, last, Out((3,) * len(size), "float64")])


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        *((300, "int8"), (-129, "int8"), (256, "uint8"), (-256, "uint8"), (1e10, "int32")),
        *((float("nan"), "int64"), (float("inf"), "int16"), (70000, "float16")),
        *((1e39, "float32"), (-1e39, "bfloat16"), (2**40, "int32"), (2**40, "uint32")),
        (1e39, "complex64"),
    ],
)
def test_numbers_that_do_not_fit(value: float, dtype: str) -> None:
    assert expected("aten::full.out", [[2], value], dtype) is None
    with pytest.raises(OpError, match=f"'fill_value': .* does not fit dtype {dtype}"):
        run("aten::full.out", [[2], value, Out((2,), dtype)])


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        *((-1, "uint8"), (-255, "uint8"), (127, "int8"), (65504, "float16")),
        *((float("inf"), "float16"), (float("nan"), "bfloat16"), (3.0e38, "bfloat16")),
        *((2, "bool"), (0.5, "bool"), (2**63 - 1, "int64"), (-1, "uint64")),
        (2**63 - 1, "float32"),
    ],
)
def test_numbers_that_just_fit(value: float, dtype: str) -> None:
    want = expected("aten::full.out", [[2], value], dtype)
    assert_equal(run("aten::full.out", [[2], value, Out((2,), dtype)])[0], want, value)


def test_refusals(rng: np.random.Generator) -> None:
    for bounds, message in (
        ((0, 5, 0), "zero"),
        ((5, 0, 1), "does not lead from 5 to 0"),
        ((0, float("inf"), 1), "unsupported range"),
        ((0, 2**40, 1), "upper bound"),
    ):
        with pytest.raises(OpError, match=message):
            run("aten::arange.start_out", [*bounds, Out((4,), "int64")])
    with pytest.raises(OpError, match="'value': has dimensions"):
        run("aten::fill.Tensor_out", [np.ones(3), np.ones(1), Out((3,), "float64")])
    with pytest.raises(OpError, match="'out': dtype int32, expected float64"):
        run("aten::fill.Scalar_out", [np.ones(3), 1, Out((3,), "int32")])
    with pytest.raises(OpError, match="'out'"):
        run("aten::full.out", [[-1], 1, Out((3,))])
    with pytest.raises(OpError, match="'out'"):
        run("aten::zeros.out", [[1] * 20, Out((3,))])
