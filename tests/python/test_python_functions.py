"""Behaviour common to operators and backends written in Python: results, exceptions, registration,
lifetimes, threads, interpreter exit."""

import gc
import traceback
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import executorch_c
from executorch_c import Runtime, register_backend, register_operator
from executorch_c import unregister_backend, unregister_operator
from tests import process
from tests.at_once import run_each
from tests.python import custom_ops, npu_programs
from tests.python.custom_ops import UNARY, X, nothing_stays
from tests.python.npu_programs import nothing_stays as no_backend_stays
from tests.single_op import Out

__all__ = ["no_backend_stays", "nothing_stays"]  # autouse fixtures


class Operators:
    """A function as an operator of a tensor of X's shape."""

    name, says, output = "t::f.out", "t::f.out: the function", "'out'"
    missing, error = "missing_operators", executorch_c.OperatorMissingError

    @staticmethod
    def register(fn: Callable[..., Any], override: bool = True) -> None:
        register_operator(UNARY, fn, override=override)

    @staticmethod
    def unregister() -> None:
        unregister_operator("t::f.out")

    @staticmethod
    def pte() -> bytes:
        return custom_ops.pte("t::f.out", X, Out((2, 3)))


class Backends:
    """A function as the `execute` of a backend's class."""

    name, says, output = npu_programs.ID, "TestNpu: Made.execute", "output 0"
    missing, error = "missing_backends", executorch_c.NotFoundError
    pte = staticmethod(npu_programs.pte)

    @staticmethod
    def register(fn: Callable[..., Any], override: bool = True) -> None:
        backend = npu_programs.class_of(lambda self, inputs: fn(inputs[0]))
        register_backend(backend, override=override)

    @staticmethod
    def unregister() -> None:
        unregister_backend(npu_programs.ID)


BOTH = (Operators, Backends)
each_kind = pytest.mark.parametrize("kind", BOTH)


def load(kind: Any) -> executorch_c.Method:
    return Runtime.get().load_program(kind.pte()).load_method("forward")


def method_of(kind: Any, fn: Callable[..., Any]) -> executorch_c.Method:
    kind.register(fn)
    return load(kind)


# ---- results -----------------------------------------------------------------------------------

WRONG: list[tuple[tuple[Any, ...], Callable[..., Any], type[Exception], str]] = [
    (BOTH, lambda x: x * 1.5j, ValueError, "returned complex64 for {}, expected float32"),
    (BOTH, lambda x: x.astype("f8"), ValueError, "returned float64 for {}, expected float32"),
    (BOTH, lambda x: x.astype("U"), ValueError, "an array of NumPy dtype 'U"),
    (BOTH, lambda x: "text", TypeError, "returned str for {}, expected an array"),
    (BOTH, lambda x: 1.5, TypeError, "returned float for {}, expected an array"),
    (BOTH, lambda x: np.ma.masked_array(x), TypeError, "returned MaskedArray for {}"),
    (BOTH, lambda x: x[0], RuntimeError, "shape (3,) has another rank than the planned (2, 3)"),
    (BOTH, lambda x: x.T, RuntimeError, "for {}: shape (3, 2), but the program fixes it to (2, 3)"),
    (BOTH[:1], lambda x: None, TypeError, "returned None for {}, expected an array"),
    (BOTH[:1], lambda x: [1, 2], TypeError, "returned list for {}, expected an array"),
    (BOTH[:1], lambda x: (x,), TypeError, "returned tuple for {}, expected an array"),
    (BOTH[1:], lambda x: None, TypeError, "returned 0 arrays, but the delegate has 1 outputs"),
    (BOTH[1:], lambda x: (x, x), TypeError, "returned 2 arrays, but the delegate has 1 outputs"),
    (BOTH[1:], lambda x: [None], TypeError, "returned None for {}, expected an array"),
]


@pytest.mark.parametrize(
    ("kind", "fn", "error", "says"), [(kind, *row) for kinds, *row in WRONG for kind in kinds]
)
def test_wrong_results(kind: Any, fn: Any, error: type[Exception], says: str) -> None:
    method = method_of(kind, fn)
    with pytest.raises(executorch_c.Error) as caught:
        method(X)
    assert isinstance(caught.value, error)
    assert f"method 'forward', instruction 0: {kind.says} returned" in str(caught.value)
    assert says.format(kind.output) in str(caught.value)
    assert caught.value.__cause__ is None


# ---- exceptions --------------------------------------------------------------------------------


@each_kind
def test_an_exception_is_the_cause(kind: Any) -> None:
    def fails(x: np.ndarray) -> Any:
        raise LookupError("no such thing")

    method = method_of(kind, fails)
    for _ in range(2):
        with pytest.raises(executorch_c.InternalError) as caught:
            method(X)
        says = f"method 'forward', instruction 0: {kind.says} raised LookupError: no such thing"
        assert str(caught.value).startswith(says)
        cause = caught.value.__cause__
        assert type(cause) is LookupError and caught.value.__context__ is cause
        assert traceback.extract_tb(cause.__traceback__)[-1].name == "fails"
    assert_array_equal(method_of(kind, lambda x: x)(X), X)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


@each_kind
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError("much"), executorch_c.MemoryAllocationFailedError),
        (Unprintable(), executorch_c.InternalError),
        (ValueError("\ud800"), executorch_c.InternalError),
        (KeyboardInterrupt(), KeyboardInterrupt),
        (SystemExit(), SystemExit),
    ],
)
def test_kinds_of_exceptions(kind: Any, error: BaseException, expected: type[Exception]) -> None:
    def fails(x: np.ndarray) -> Any:
        raise error

    method = method_of(kind, fails)
    with pytest.raises(expected) as caught:
        method(X)
    is_interrupt = not isinstance(error, Exception)
    assert caught.value.__cause__ is (None if is_interrupt else error)


@each_kind
@pytest.mark.parametrize(
    "code", [1 << 32, 1 << 31, 1 << 63, 1 << 64, -1, 0, "x", None, 1.5, 0x23 + (1 << 32)]
)
def test_invalid_codes(kind: Any, code: Any) -> None:
    """A code that is 0 modulo 2 ** 32 is no success."""

    class Wrong(executorch_c.Error):
        pass

    Wrong.code = code

    def fails(x: np.ndarray) -> Any:
        raise Wrong("this must not be lost")

    method = method_of(kind, fails)
    with pytest.raises(executorch_c.InternalError, match="this must not be lost"):
        method(X)


@each_kind
def test_a_call_inside_a_call(kind: Any) -> None:
    inner = method_of(kind, lambda x: x * 2)
    assert_array_equal(method_of(kind, lambda x: inner(x) + 1)(X), X * 2 + 1)
    method = method_of(kind, lambda x: inner(x[0]))
    with pytest.raises(executorch_c.InvalidArgumentError, match="raised InvalidArgumentError"):
        method(X)


@each_kind
def test_calls_without_an_end(kind: Any) -> None:
    """A function that recursively runs its own program in a new method."""
    method = method_of(kind, lambda x: load(kind)(x))
    with pytest.raises(executorch_c.InternalError) as caught:
        method(X)
    error: BaseException | None = caught.value
    while error is not None and error.__cause__ is not None:
        error = error.__cause__
    assert isinstance(error, RecursionError)


@each_kind
@pytest.mark.parametrize("call", ["execute", "reset", "memory"])
def test_a_method_cannot_call_itself(kind: Any, call: str) -> None:
    methods: list[executorch_c.Method] = []

    def fn(x: np.ndarray) -> Any:
        getattr(methods[0], call)(*[[x]] * (call == "execute"))
        return x

    methods.append(method_of(kind, fn))
    with pytest.raises(executorch_c.InvalidStateError, match="is running in this thread"):
        methods[0](X)


# ---- registration ------------------------------------------------------------------------------


@each_kind
def test_registering_and_unregistering(kind: Any) -> None:
    program = Runtime.get().load_program(kind.pte())
    assert program.requirements()[kind.missing] == [kind.name]
    with pytest.raises(kind.error, match=kind.name):
        program.load_method("forward")
    kind.register(lambda x: x * 2)
    assert program.requirements()[kind.missing] == []
    before = program.load_method("forward")
    with pytest.raises(executorch_c.AlreadyRegisteredError, match="registered"):
        kind.register(lambda x: x, override=False)
    kind.register(lambda x: x * 3)
    assert_array_equal(load(kind)(X), X * 3)
    kind.unregister()
    if kind is Operators:  # the function that it has overridden
        assert_array_equal(load(kind)(X), X * 2)
        kind.unregister()
    assert_array_equal(before(X), X * 2)
    with pytest.raises(kind.error, match=kind.name):
        load(kind)
    with pytest.raises(executorch_c.NotFoundError):
        kind.unregister()
    assert_array_equal(method_of(kind, lambda x: x + 1)(X), X + 1)


@each_kind
def test_unregistering_while_it_runs(kind: Any) -> None:
    def fn(x: np.ndarray) -> np.ndarray:
        kind.unregister()
        gc.collect()
        return x + 1

    method = method_of(kind, fn)
    del fn
    gc.collect()
    assert_array_equal(method(X), X + 1)
    with pytest.raises(executorch_c.NotFoundError):
        method(X)  # raised inside


# ---- lifetimes ---------------------------------------------------------------------------------


class Function:
    """A callable that supports weak references."""

    def __init__(self) -> None:
        self.held: list[Any] = []

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return x * 2


@each_kind
def test_a_function_lives_as_long_as_its_registration_and_its_methods(kind: Any) -> None:
    fn = Function()
    dead = weakref.ref(fn)
    method = method_of(kind, fn)
    del fn
    gc.collect()
    assert_array_equal(method(X), X * 2)
    del method
    gc.collect()
    assert dead() is not None
    method = load(kind)
    kind.unregister()
    gc.collect()
    assert_array_equal(method(X), X * 2)
    del method
    gc.collect()
    assert dead() is None


@each_kind
def test_a_function_that_refers_to_its_methods_is_collected(kind: Any) -> None:
    fn = Function()
    dead = weakref.ref(fn)
    kind.register(fn)
    fn.held += [load(kind), load(kind), Runtime.get().load_program(kind.pte())]
    fn.held[-1].load_method("forward")
    method = fn.held[0]
    del fn
    kind.unregister()
    gc.collect()
    assert_array_equal(method(X), X * 2)
    del method
    gc.collect()
    assert dead() is None


@each_kind
def test_registering_while_others_load(kind: Any) -> None:
    """Loads meet a function that comes and goes: each runs or says that it is not there."""
    program = kind.pte()

    def run(i: int) -> None:
        for _ in range(60):
            if i == 0:
                kind.register(Function())
                kind.unregister()
            else:
                try:
                    method = Runtime.get().load_program(program).load_method("forward")
                except kind.error:
                    continue
                assert_array_equal(method(X), X * 2)

    run_each(8, run)


# ---- the interpreter ---------------------------------------------------------------------------

OPERATOR_EXIT = f"""
import sys
import numpy as np
from executorch_c import Runtime, register_operator
method = None
def fn(x):
    return x if method else x
register_operator({UNARY!r}, fn)
method = Runtime.get().load_program(open(sys.argv[1], "rb").read()).load_method("forward")
class Last:
    def __init__(self): self.method, self.x = method, np.ones((2, 3), np.float32)
    def __del__(self): print(self.method(self.x).sum())
last = Last()
{{more}}
print(method(last.x).sum())
"""

BACKEND_EXIT = """
import sys
from executorch_c import Runtime, register_backend

class Noisy:
    id = "TestNpu"
    def init(self, payload, specs, options): pass
    def execute(self, inputs): return inputs[0]
    def destroy(self): print("destroyed")

register_backend(Noisy)
program = Runtime.get().load_program(open(sys.argv[1], "rb").read())
method = program.load_method("forward")
{more}
"""

CYCLE = "sys.cycle = [method]; sys.cycle.append(sys.cycle)"
ENDS: dict[Any, tuple[str, tuple[str, ...], set[str]]] = {
    Operators: (
        OPERATOR_EXIT,
        ("", "fn.last = last", "sys.keep = last", "import atexit; atexit.register(last.__del__)"),
        {"6.0"},
    ),
    Backends: (
        BACKEND_EXIT,
        ("", CYCLE, "Noisy.method = method", "raise SystemExit"),
        {"", "destroyed"},
    ),
}
"""For each kind a script, statements at its end, and its first line of output."""


@pytest.mark.parametrize(
    ("kind", "more"), [(kind, more) for kind, (_, ends, _) in ENDS.items() for more in ends]
)
def test_the_end_of_the_interpreter(kind: Any, more: str, tmp_path: Path) -> None:
    script, _, outputs = ENDS[kind]
    path = tmp_path / "f.pte"
    path.write_bytes(kind.pte())
    cwd = Path(executorch_c.__file__).parents[1]
    done = process.python("-c", script.format(more=more), path, cwd=cwd)
    assert done.stdout.partition("\n")[0] in outputs
    assert kind is Operators or not done.stderr
