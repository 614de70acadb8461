"""Operators written in Python: registration, lifetimes, threads, interpreter exit."""

import gc
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import executorch_c
from executorch_c import Runtime, register_operator, unregister_operator
from tests import process
from tests.at_once import run_each
from tests.models import zoo
from tests.python.custom_ops import TWO, UNARY, X, load, nothing_stays, pte, unary
from tests.single_op import Out

__all__ = ["nothing_stays"]  # autouse fixture


# ---- registering -----------------------------------------------------------------------------


def test_a_decorator_gives_the_function() -> None:
    @register_operator(UNARY)
    def fn(x: np.ndarray) -> np.ndarray:
        return x + 1

    assert_array_equal(fn(X), X + 1)
    assert_array_equal(load("t::f.out", X, Out((2, 3)))(X), X + 1)


def test_it_is_listed() -> None:
    names = Runtime.get().operator_registry.operator_names
    program = Runtime.get().load_program(pte("t::f.out", X, Out((2, 3))))
    assert program.requirements()["missing_operators"] == ["t::f.out"]
    with pytest.raises(executorch_c.OperatorMissingError, match="no kernel for t::f.out"):
        program.load_method("forward")
    register_operator(UNARY, lambda x: x)
    (row,) = [row for row in executorch_c.operators() if row["name"] == "t::f.out"]
    assert row["origin"] == "python" and row["schema"] == UNARY and "float32" in row["dtypes"]
    assert {row["origin"] for row in executorch_c.operators()} >= {"builtin", "python"}
    assert Runtime.get().operator_registry.operator_names - names == {"t::f.out"}
    assert program.requirements()["missing_operators"] == []
    assert_array_equal(program.load_method("forward")(X), X)
    with pytest.raises(executorch_c.NotFoundError, match="no operator t::nothing is registered"):
        unregister_operator("t::nothing")
    with pytest.raises(executorch_c.InvalidStateError, match="is built in and cannot be removed"):
        unregister_operator("aten::add.out")


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ("", "schema, character 1 (the end): expected a name"),
        ("t::f.out(Tensor x, flot a) -> ()", "character 20 ('flot a) -> ()'): type 'flot' is not"),
        ("t::f.out(Tensor x) -> Tensor", "not an out variant"),
        ("t::f.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)\0", "character 52: a NUL"),
        ("t::f.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!) é", "unexpected text"),
    ],
)
def test_wrong_schemas(schema: str, says: str) -> None:
    for register in (register_operator, lambda s, fn: register_operator(s)(fn)):
        with pytest.raises(executorch_c.InvalidArgumentError) as caught:
            register(schema, lambda x: x)
        assert says in str(caught.value)


def test_wrong_types() -> None:
    with pytest.raises(TypeError, match="`schema` must be a str, not bytes"):
        register_operator(UNARY.encode(), lambda x: x)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="`fn` must be callable, not int"):
        register_operator(UNARY, 1)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="`name` must be a str"):
        unregister_operator(None)  # type: ignore[arg-type]


def test_parameters_that_do_not_fit() -> None:
    schema = "t::g.out(Tensor x, int n, *, bool b=True, Tensor(a!) out) -> Tensor(a!)"
    wrong: list[tuple[Callable[..., Any], str]] = [
        (lambda x: x, "(x) cannot be called with the arguments of t::g.out, (x, n, *, b): too"),
        (lambda x, n: x, "got an unexpected keyword argument 'b'"),
        (lambda x, n, m, *, b: x, "argument: 'm'"),
        (lambda x, n, *, c, b: x, "argument: 'c'"),
    ]
    for fn, says in wrong:
        with pytest.raises(TypeError) as caught:
            register_operator(schema, fn)
        assert says in str(caught.value) and not isinstance(caught.value, executorch_c.Error)
    with pytest.raises(TypeError, match="takes 'out0' but not 'out1': expected all outs or none"):
        register_operator(TWO, lambda x, out0: x)
    register_operator(schema, lambda *args, **kwargs: args[0] * args[1] * kwargs["b"])
    assert_array_equal(load("t::g.out", X, 3, True, Out((2, 3)))(X), X * 3)


def test_a_function_without_a_signature() -> None:
    assert_array_equal(unary(np.sqrt)(X), np.sqrt(X))


def test_registering_twice() -> None:
    register_operator(UNARY, lambda x: x)
    with pytest.raises(
        executorch_c.AlreadyRegisteredError, match=r"is already registered \(python\)"
    ):
        register_operator(UNARY, lambda x: x + 1)
    register_operator(UNARY, lambda x: x + 2, override=True)
    assert_array_equal(load("t::f.out", X, Out((2, 3)))(X), X + 2)
    unregister_operator("t::f.out")
    assert_array_equal(load("t::f.out", X, Out((2, 3)))(X), X)


def test_in_the_place_of_a_builtin() -> None:
    schema = "aten::relu.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)"
    program = Runtime.get().load_program(pte("aten::relu.out", X, Out((2, 3))))
    before = program.load_method("forward")
    with pytest.raises(executorch_c.AlreadyRegisteredError, match="builtin"):
        register_operator(schema, lambda x: x)
    with pytest.raises(executorch_c.InvalidArgumentError, match="has other arguments"):
        register_operator(
            schema.replace("Tensor self", "Tensor self, int n"), lambda x, n: x, override=True
        )
    with pytest.raises(executorch_c.NotSupportedError, match="a part of the runtime"):
        register_operator(
            "executorch_prim::et_view.default(Tensor self, SymInt[] size, *, Tensor(a!) out) -> ()",
            lambda x, n: x,
            override=True,
        )
    register_operator(schema, lambda x: x - 7, override=True)  # a fault
    assert_array_equal(before(X - 2), np.maximum(X - 2, 0))
    assert program.load_method("forward") is before
    after = Runtime.get().load_program(pte("aten::relu.out", X, Out((2, 3)))).load_method("forward")
    reference = program.load_method("forward", kernels="reference")
    unregister_operator("aten::relu.out")
    assert_array_equal(after(X), X - 7)
    assert_array_equal(reference(X), X - 7)
    assert_array_equal(load("aten::relu.out", X, Out((2, 3)))(X - 2), np.maximum(X - 2, 0))


def test_methods_that_share_memory_do_not_wait_for_each_other() -> None:
    exported = zoo.load("shared_state")
    left, right = exported.calls
    program = Runtime.get().load_program(exported.pte)
    other = program.load_method(right)
    add = next(row for row in executorch_c.operators() if row["name"] == "aten::add.out")
    ones = np.ones(4, np.float32)
    register_operator(add["schema"], lambda a, b, *, alpha: other(ones), override=True)
    with pytest.raises(executorch_c.InvalidStateError, match="or one that shares memory with it"):
        program.load_method(left)(ones)


# ---- lifetimes -------------------------------------------------------------------------------


def test_arrays_can_be_kept() -> None:
    kept: list[np.ndarray] = []

    def fn(x: np.ndarray, out: np.ndarray) -> None:
        out[:] = x
        kept.extend([x, out, x[1:], out.T])

    method = unary(fn)
    for i in range(3):
        method(X + i)
    del method
    gc.collect()
    for i in range(3):
        x, out, rows, turned = kept[4 * i : 4 * i + 4]
        assert_array_equal(x, X + i)
        assert_array_equal(out, X + i)
        assert_array_equal(rows, X[1:] + i)
        assert_array_equal(turned, X.T + i)


class Function:
    """A callable that supports weak references."""

    def __init__(self, *held: Any) -> None:
        self.held = list(held)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return x * 2


def test_a_method_keeps_its_function() -> None:
    fn = Function()
    gone = weakref.ref(fn)
    method = unary(fn)
    del fn
    gc.collect()
    assert gone() is not None
    assert_array_equal(method(X), X * 2)
    del method
    gc.collect()
    assert gone() is None


def test_a_registered_function_is_kept_until_it_is_unregistered() -> None:
    fn = Function()
    gone = weakref.ref(fn)
    register_operator(UNARY, fn)
    del fn
    gc.collect()
    assert gone() is not None
    unregister_operator("t::f.out")
    assert gone() is None


def test_a_function_that_refers_to_its_methods_is_collected() -> None:
    fn = Function()
    register_operator(UNARY, fn)
    fn.held += [load("t::f.out", X, Out((2, 3))) for _ in range(2)]
    fn.held.append(Runtime.get().load_program(pte("t::f.out", X, Out((2, 3)))))
    fn.held[-1].load_method("forward")
    method = fn.held[0]
    gone = weakref.ref(fn)
    del fn
    gc.collect()
    assert gone() is not None
    unregister_operator("t::f.out")
    gc.collect()
    assert_array_equal(method(X), X * 2)
    del method
    gc.collect()
    assert gone() is None


def test_unregistering_while_it_runs() -> None:
    def fn(x: np.ndarray) -> np.ndarray:
        unregister_operator("t::f.out")
        return x + 1

    register_operator(UNARY, fn)
    method = load("t::f.out", X, Out((2, 3)))
    del fn
    gc.collect()
    assert_array_equal(method(X), X + 1)
    with pytest.raises(executorch_c.NotFoundError):
        method(X)  # raised inside


def test_calls_leak_nothing() -> None:
    boom = ValueError("boom")

    def fn(x: np.ndarray, out: np.ndarray) -> Any:
        if x[0, 0]:
            raise boom
        out[:] = x

    method = unary(fn)

    def some() -> None:
        for _ in range(100):
            method(X)
            with pytest.raises(executorch_c.InternalError):
                method(X + 1)
            boom.__traceback__ = None

    def grown() -> int:
        """Return the blocks that a thousand calls leave; other threads allocate, too."""
        gc.collect()
        before = sys.getallocatedblocks()
        for _ in range(10):
            some()
        gc.collect()
        return sys.getallocatedblocks() - before

    some()
    fns = sys.getrefcount(fn)
    assert min(grown() for _ in range(3)) < 50
    assert sys.getrefcount(fn) == fns


def test_registering_leaks_nothing() -> None:
    fn = Function()

    def some() -> None:
        for _ in range(50):
            register_operator(UNARY, fn)
            with pytest.raises(executorch_c.AlreadyRegisteredError):
                register_operator(UNARY, fn)
            load("t::f.out", X, Out((2, 3)))
            unregister_operator("t::f.out")

    program = pte("t::f.out", X, Out((2, 3)))
    register_operator(UNARY, fn)
    Runtime.get().load_program(program).load_method("forward")
    unregister_operator("t::f.out")
    some()
    gc.collect()
    before = sys.getrefcount(fn)
    some()
    gc.collect()
    assert sys.getrefcount(fn) == before


# ---- threads ---------------------------------------------------------------------------------


def test_eight_threads() -> None:
    """Threads with their own methods and a shared one, failing functions, and changing
    registrations."""
    common = unary(lambda x: x + 1)
    own = "t::own{}.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)"

    def run(i: int) -> None:
        for round in range(40):
            register_operator(own.format(i), lambda x: x * i if x[0, 0] == 0 else 1 / 0)
            mine = load(f"t::own{i}.out", X, Out((2, 3)))
            unregister_operator(f"t::own{i}.out")
            assert_array_equal(mine(X), X * i)
            assert_array_equal(common(X + round), X + round + 1)
            with pytest.raises(executorch_c.InternalError, match="TypeError|returned float|Zero"):
                mine(X + 1)

    run_each(8, run)


def test_registering_while_others_load() -> None:
    program = pte("t::f.out", X, Out((2, 3)))

    def run(i: int) -> None:
        for _ in range(60):
            if i % 2:
                register_operator(UNARY, Function(), override=True)
                unregister_operator("t::f.out")
            else:
                try:
                    method = Runtime.get().load_program(program).load_method("forward")
                except executorch_c.OperatorMissingError:
                    continue
                assert_array_equal(method(X), X * 2)

    run_each(8, run)


def test_other_methods_run_without_the_gil() -> None:
    """A function that waits for another thread's method does not block that method."""
    inner, done = unary(lambda x: x * 3), threading.Event()

    def fn(x: np.ndarray) -> np.ndarray:
        assert done.wait(30)
        return x

    outer = unary(fn)

    def run(i: int) -> None:
        if i == 0:
            assert_array_equal(outer(X), X)
        else:
            assert_array_equal(inner(X), X * 3)
            done.set()

    run_each(2, run)


# ---- the interpreter -------------------------------------------------------------------------


AT_EXIT = """
import sys
import numpy as np
from executorch_c import Runtime, register_operator
method = None
def fn(x):
    return x if method else x
register_operator({schema!r}, fn)
method = Runtime.get().load_program(open(sys.argv[1], "rb").read()).load_method("forward")
class Last:
    def __init__(self): self.method, self.x = method, np.ones((2, 3), np.float32)
    def __del__(self): print(self.method(self.x).sum())
last = Last()
{more}
print(method(last.x).sum())
"""


@pytest.mark.parametrize(
    "more",
    ["", "fn.last = last", "sys.keep = last", "import atexit; atexit.register(last.__del__)"],
)
def test_the_end_of_the_interpreter(tmp_path: Path, more: str) -> None:
    path = tmp_path / "f.pte"
    path.write_bytes(pte("t::f.out", X, Out((2, 3))))
    code = AT_EXIT.format(schema=UNARY, more=more)
    done = process.python("-c", code, path, cwd=Path(executorch_c.__file__).parents[1])
    assert done.stdout.splitlines()[0] == "6.0"


def test_the_command_line_names_the_origin(capsys: pytest.CaptureFixture[str]) -> None:
    from executorch_c.cli import main

    register_operator(UNARY, lambda x: x)
    assert main(["operators"]) == 0
    assert "custom (python)" in capsys.readouterr().out
