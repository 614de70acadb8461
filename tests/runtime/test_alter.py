"""Hostile functions of `tracing(alter=)`: one error each; the call and its inputs stay whole."""

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import executorch_c
from executorch_c import InvalidStateError
from tests.plans import Constants, Plan, build

LENGTH = 1 << 20
X = np.ones(LENGTH, np.float32)

Alter = Callable[[Any, np.ndarray], object]


def relus() -> bytes:
    plan = Plan()
    x = plan.input((LENGTH,))
    for _ in range(2):
        y = plan.tensor((LENGTH,))
        plan.call("aten::relu.out", x, y)
        x = y
    plan.call("aten::relu.out", x, plan.output((LENGTH,)))
    return build(plan)


RELUS = relus()


def altered(method: Any, alter: Alter, *inputs: np.ndarray) -> list[Any]:
    with method.tracing(alter=alter):
        outputs = method.execute(inputs)
    return outputs


def load(pte: bytes | Path = RELUS) -> Any:
    program = executorch_c.Runtime.get().load_program(pte)
    return program.load_method("forward", delegate_at_load=False)


@pytest.mark.parametrize(
    "alter",
    [
        lambda _, array: array.resize(1, refcheck=False),
        lambda _, array: array.resize(4 * LENGTH, refcheck=False),
        lambda _, array: array.__setstate__((1, (2,), array.dtype, False, bytes(8))),
    ],
)
def test_memory_of_the_array_is_replaced(alter: Alter) -> None:
    method = load()
    with pytest.raises(ValueError, match="`alter` has resized the array: .*expected the tensor's"):
        altered(method, alter, X)
    np.testing.assert_array_equal(method.execute([X])[0], X)


def test_an_exception_after_a_resize_is_the_one_that_is_raised() -> None:
    def alter(_: Any, array: np.ndarray) -> None:
        array.resize(1, refcheck=False)
        raise KeyError("planted")

    with pytest.raises(KeyError, match="planted"):
        altered(load(), alter, X)


@pytest.mark.parametrize("attribute", ["dtype", "shape", "writeable"])
def test_attributes_of_the_array_change_nothing(attribute: str) -> None:
    def alter(_: Any, array: np.ndarray) -> None:
        if attribute == "dtype":
            array.dtype = np.uint8  # type: ignore[misc]
        elif attribute == "shape":
            array.shape = (-1, 2)
        else:
            array.flags.writeable = False

    np.testing.assert_array_equal(altered(load(), alter, X)[0], X)


def test_a_view_of_an_input_is_read_only() -> None:
    plan = Plan()
    x, view = plan.input((2, 2), at=None), plan.tensor((4,), at=None)
    plan.call("executorch_prim::et_view.default", x, [4], view)
    plan.call("aten::relu.out", view, plan.output((4,)))
    array = np.ones((2, 2), np.float32)

    def alter(_: Any, result: np.ndarray) -> None:
        result[...] = 9

    with pytest.raises(ValueError, match="read-only"):
        altered(load(build(plan)), alter, array)
    assert (array == 1).all()

    def forced(result: Any, array: np.ndarray) -> None:
        array.flags.writeable = True
        array[...] = 9

    assert (altered(load(build(plan)), forced, array)[0] == 9).all()  # of relu
    assert (array == 1).all()


def test_a_view_of_a_constant_is_read_only(tmp_path: Path) -> None:
    """Constants of a file are mapped: a write would end the process."""
    constants, plan = Constants(), Plan()
    constant = plan.constant(constants, np.ones((2, 2), np.float32))
    x, view = plan.input((4,)), plan.tensor((4,), at=None)
    plan.call("executorch_prim::et_view.default", constant, [4], view)
    plan.call("aten::add.out", x, view, 1, plan.output((4,)))
    path = tmp_path / "m.pte"
    path.write_bytes(build(plan, constants=constants))
    method, zeros = load(path), np.zeros(4, np.float32)

    def alter(_: Any, result: np.ndarray) -> None:
        if result.flags.writeable:
            result += 1
        else:
            with pytest.raises(ValueError, match="read-only"):
                result[...] = 9

    assert (altered(method, alter, zeros)[0] == 2).all()
    assert (method.execute([zeros])[0] == 1).all()


def test_calls_of_the_method_are_refused() -> None:
    method = load()
    for call in (
        lambda: method.execute([X]),
        method._trace_stop,
        lambda: method.tracing().__enter__(),
        method.reset,
    ):
        with pytest.raises(InvalidStateError, match="running in this thread"):
            altered(method, lambda *_, call=call: call(), X)  # type: ignore[misc]
    np.testing.assert_array_equal(method.execute([X])[0], X)


def test_the_last_name_of_the_method_is_dropped() -> None:
    methods = [load()]

    def alter(_: Any, __: np.ndarray) -> None:
        methods.clear()
        gc.collect()

    np.testing.assert_array_equal(altered(methods[0], alter, X)[0], X)


def test_a_fork() -> None:
    ends: list[int] = []

    def alter(_: Any, __: np.ndarray) -> None:
        if (child := os.fork()) == 0:
            os._exit(5)
        ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    np.testing.assert_array_equal(altered(load(), alter, X)[0], X)
    assert ends == [5] * 3


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, RecursionError])
def test_exceptions_of_the_interpreter(error: type[BaseException]) -> None:
    calls: list[int] = []

    def alter(*_: Any) -> None:
        calls.append(1)
        raise error

    with pytest.raises(error):
        altered(load(), alter, X)
    assert calls == [1]
