"""csrc/kernels/create against eager's out= forms."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from eager import ALL, REALB, WIDE_UNSIGNED, compare, to_numpy, to_torch
from op_harness import OpError, Out, run
from samples_copy import CREATED

EMPTY = ("aten::empty.out", "dim_order_ops::_empty_dim_order.out")


def expected(name: str, args: list, dtype: str) -> np.ndarray | None:
    """Eager's result in an output of that dtype; None where eager refuses."""
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
@pytest.mark.parametrize("name", [n for n in CREATED if n not in EMPTY])
def test_samples(name: str, dtype: str, rng: np.random.Generator) -> None:
    for args in CREATED[name](rng, dtype):
        if "arange" in name and dtype not in REALB:
            continue
        want = expected(name, args, dtype)
        if want is not None:
            found = run(name, [*args, Out(want.shape, dtype)])[0]
            compare(found, want, "arange" not in name, (name, args))
        elif dtype not in WIDE_UNSIGNED:
            with pytest.raises(OpError):
                run(name, [*args, Out((int(abs(args[-1])) + 1,), dtype)])


@pytest.mark.parametrize("name", EMPTY)
def test_empty_only_sizes(name: str, rng: np.random.Generator) -> None:
    for size, tail in CREATED[name](rng, "float32"):
        bound = tuple(n + 1 for n in size)
        assert run(name, [size, tail, Out(bound)])[0].shape == tuple(size)


@pytest.mark.parametrize(("value", "dtype"), [
    (300, "int8"), (-129, "int8"), (256, "uint8"), (-256, "uint8"), (1e10, "int32"),
    (float("nan"), "int64"), (float("inf"), "int16"), (70000, "float16"), (1e39, "float32"),
    (-1e39, "bfloat16"), (2**40, "int32"), (2**40, "uint32"), (1e39, "complex64"),
])  # fmt: skip
def test_numbers_that_do_not_fit(value: float, dtype: str) -> None:
    assert expected("aten::full.out", [[2], value], dtype) is None
    with pytest.raises(OpError, match=f"'fill_value': .* does not fit dtype {dtype}"):
        run("aten::full.out", [[2], value, Out((2,), dtype)])


@pytest.mark.parametrize(("value", "dtype"), [
    (-1, "uint8"), (-255, "uint8"), (127, "int8"), (65504, "float16"), (float("inf"), "float16"),
    (float("nan"), "bfloat16"), (3.0e38, "bfloat16"), (2, "bool"), (0.5, "bool"),
    (2**63 - 1, "int64"), (-1, "uint64"), (2**63 - 1, "float32"),
])  # fmt: skip
def test_numbers_that_just_fit(value: float, dtype: str) -> None:
    want = expected("aten::full.out", [[2], value], dtype)
    compare(run("aten::full.out", [[2], value, Out((2,), dtype)])[0], want, True, value)


def test_refusals(rng: np.random.Generator) -> None:
    for bounds, message in (((0, 5, 0), "zero"), ((5, 0, 1), "does not lead from 5 to 0"),
                            ((0, float("inf"), 1), "unsupported range"),
                            ((0, 2**40, 1), "upper bound")):  # fmt: skip
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
