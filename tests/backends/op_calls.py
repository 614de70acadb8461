"""Calls of single operators of libraries, compared with references; random arguments."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

import executorch_c
from executorch_c import Method, Runtime
from tests.dtypes import DTYPES
from tests.single_op import Out, SingleOps

RANDOM = torch.Generator().manual_seed(5)
INT8, UINT8, INT16, UINT16, INT32 = torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32
FACTOR = 1_500_000_000, -7
"""out_multiplier and out_shift: 0.0055."""
SCALES = 0.0004, 0.05, 6
"""bias_scale, out_scale, out_zero_point"""


def whole(*shape: int, dtype: Any = INT8, low: int | None = None, high: int | None = None) -> Any:
    """Return random integers in the range of the dtype, or of int8 for a floating-point dtype."""
    info = torch.iinfo(INT8 if dtype.is_floating_point else dtype)
    low, high = info.min if low is None else low, info.max if high is None else high
    return torch.randint(low, high + 1, shape, generator=RANDOM).to(dtype)


def real(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=RANDOM)


def bias(count: int, limit: int = 3000) -> torch.Tensor:
    return whole(count, dtype=INT32, low=-limit, high=limit)


def zero_points(dtype: torch.dtype) -> tuple[int, int]:
    """Return zero points of an input and of weights in the middle of the dtype's range."""
    return (131, 125) if dtype == UINT8 else (7, 3)


def one(value: Any) -> torch.Tensor:
    """Return a tensor with one int32 or float32 element."""
    return torch.tensor([value], dtype=torch.float32 if isinstance(value, float) else INT32)


def number(value: Any) -> Any:
    """Return an argument as a program stores it."""
    return DTYPES[str(value)[6:]] if isinstance(value, torch.dtype) else value


def method_of(name: str, args: Sequence[Any], *outs: Any) -> tuple[Method, list[Any]]:
    """Return a method that calls one operator, and its inputs."""
    ops = SingleOps()
    ops.add(name, *map(number, args), *outs, name="forward")
    return Runtime.get().load_program(ops.build()).load_method("forward"), ops.inputs["forward"]


def out_name(name: str) -> str:
    """Return the name of an operator's out variant."""
    return f"{name}_out" if "." in name else f"{name}.out"


def check(
    name: str,
    args: Sequence[Any],
    expected: torch.Tensor,
    steps: float = 0,
    varied: bool = True,
    order: Sequence[int] | None = None,
) -> None:
    """Run an operator and compare it: `steps` is the largest difference allowed."""
    out = Out(tuple(expected.shape), str(expected.dtype)[6:], order)
    method, inputs = method_of(name, args, out)
    result = np.asarray(method(*inputs))
    assert result.dtype == expected.numpy().dtype and result.shape == tuple(expected.shape)
    if varied and result.size > 8:
        assert len(np.unique(result)) > (3 if result.size > 30 else 1)  # one that says something
    difference = np.abs(result.astype(np.float64) - expected.numpy().astype(np.float64))
    assert difference.max(initial=0) <= steps


def operators_of(library: str, unknown: str) -> list[str]:
    """Return the schemas of a library's operators; the unknown one makes plug-ins load."""
    with pytest.raises(executorch_c.Error):
        method_of(unknown, [], Out((1,)))
    return [row["schema"] for row in executorch_c.operators() if row["origin"] == library]
