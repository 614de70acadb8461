"""Programs of a delegate of "TestNpu", and classes for it, for the tests of Python backends."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import executorch_c
from executorch_c import Runtime, unregister_backend
from tests.plans import Plan, build, schema

ID = "TestNpu"
X = np.arange(6, dtype=np.float32).reshape(2, 3)
registry = Runtime.get().backend_registry


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    yield
    for name in (ID, "Other"):
        if name in registry.registered_backend_names:
            unregister_backend(name)


def pte(
    payload: bytes = b"",
    specs: dict[str, bytes] | None = None,
    calls: int = 1,
    out: tuple[int, ...] = (2, 3),
    dtype: str = "float32",
    **options: Any,
) -> bytes:
    """Return a program with a delegate for each call; each reads the input."""
    plan = Plan()
    x = plan.input((2, 3))
    for _ in range(calls):
        rows = [schema.CompileSpec(key, value) for key, value in (specs or {}).items()]
        delegate = plan.delegate(ID, 0, rows)
        y = plan.output(out, dtype, **options)
        plan.append(schema.DelegateCall(delegate, [x, y]))
    return build(plan, payloads=[payload])


def load(data: bytes | None = None, **options: Any) -> executorch_c.Method:
    return Runtime.get().load_program(data or pte()).load_method("forward", **options)


class Twice:
    id = ID

    def init(self, payload: bytes, specs: dict[str, bytes], options: dict[str, Any]) -> Any:
        pass

    def execute(self, inputs: list[Any]) -> Any:
        return inputs[0] * 2


def class_of(execute: Any, init: Any = None) -> type:
    """Return a class with these functions."""
    return type("Made", (Twice,), {"execute": execute, **({"init": init} if init else {})})
