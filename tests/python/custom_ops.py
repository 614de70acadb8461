"""Programs of one Python operator, for the tests of such operators."""

import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import executorch_c
from executorch_c import Runtime, register_operator, unregister_operator
from tests.single_op import Out, SingleOps

UNARY = "t::f.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)"
TWO = "t::two.out(Tensor x, *, Tensor(a!) out0, Tensor(b!) out1) -> (Tensor(a!), Tensor(b!))"
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    """Unregister the operators of a test, in which gc.collect() sees only what the test has made:
    torch alone has objects for a second of it."""
    gc.freeze()
    yield
    gc.unfreeze()
    for row in executorch_c.operators():
        if row["origin"] == "python":
            unregister_operator(row["name"])


def pte(operator: str, *args: Any) -> bytes:
    """Return a program whose method is one call of an operator."""
    ops = SingleOps()
    ops.add(operator, *args, name="forward")
    return ops.build()


def load(operator: str, *args: Any) -> executorch_c.Method:
    """Return the method of such a program."""
    return Runtime.get().load_program(pte(operator, *args)).load_method("forward")


def unary(fn: Callable[..., Any], x: Any = X, out: Out = Out((2, 3))) -> executorch_c.Method:
    """Return a method that calls `fn`, which is unregistered again."""
    register_operator(UNARY, fn)
    method = load("t::f.out", x, out)
    unregister_operator("t::f.out")
    return method
