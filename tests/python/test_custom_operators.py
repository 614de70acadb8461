"""Operators written in Python: arguments and results of functions."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

import executorch_c
from executorch_c import Runtime, register_operator
from tests.exports import export
from tests.python.custom_ops import TWO, UNARY, X, load, nothing_stays, pte, unary
from tests.python.small_programs import serialize
from tests.dtypes import dtype_id
from tests.plans import BOUNDED, UNBOUND
from tests.single_op import Arg, Optionals, Out, SingleOps

__all__ = ["nothing_stays"]  # autouse fixture


# ---- arguments -------------------------------------------------------------------------------


def test_arguments_in_order_and_by_name() -> None:
    seen: list[Any] = []

    def fn(*args: Any, **kwargs: Any) -> Any:
        seen.append((args, kwargs))
        return args[0]

    register_operator(
        "t::all.out(Tensor x, Tensor? y, Tensor[] zs, Tensor?[] maybe, int n, SymInt[] ns, float f,"
        " float[] fs, bool b, bool[2] bs, str s, Scalar sc, *, ScalarType dtype, ScalarType? none, "
        "MemoryFormat? mf=None, Tensor(a!) out) -> Tensor(a!)",
        fn,
    )
    method = load(
        "t::all.out",
        X,
        None,
        [X, X],
        [X, None],
        3,
        [1, 2],
        2,
        [0.5],
        1,
        [True, False],
        "text",
        4.5,
        dtype_id("bfloat16"),
        None,
        2,
        Out((2, 3)),
    )
    assert_array_equal(method(X, X + 1, X + 2, X + 3), X)
    (((x, y, zs, maybe, n, ns, f, fs, b, bs, s, sc), kwargs),) = seen
    assert_array_equal([x, *zs, maybe[0]], [X, X + 1, X + 2, X + 3])
    assert maybe[1] is None and y is None and isinstance(zs, list)
    assert (n, ns, f, fs, bs, s, sc) == (3, [1, 2], 2.0, [0.5], [True, False], "text", 4.5)
    assert type(f) is float and b is True
    assert kwargs.pop("dtype").name == "bfloat16"
    assert kwargs == {"none": None, "mf": 2}


def test_inputs_are_read_only() -> None:
    def fn(x: np.ndarray) -> Any:
        assert not x.flags.writeable
        x += 1

    with pytest.raises(executorch_c.InternalError, match="read-only") as caught:
        unary(fn)(X)
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "complex64", "bfloat16"])
def test_dtypes(dtype: str) -> None:
    import ml_dtypes

    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    x = np.array([0, 1, 1]).astype(kind)
    method = unary(lambda a: a[::-1], x, Out((3,), dtype))
    found = method(x)
    assert found.dtype == x.dtype
    assert_array_equal(found, x[::-1])


def test_dim_order_is_strides() -> None:
    image = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)
    last = np.ascontiguousarray(image.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    seen = []

    def fn(x: np.ndarray, out: np.ndarray) -> None:
        seen.extend([x.strides, out.strides])
        out[:] = x

    assert_array_equal(unary(fn, last, Out((2, 3, 4, 5), dim_order=(0, 2, 3, 1)))(last), image)
    assert seen == [last.strides] * 2


def test_zero_dimensions_and_nothing() -> None:
    scalar = np.array(3, np.float32)
    assert unary(lambda x: x.sum() * 2, scalar, Out(()))(scalar) == 6
    empty = np.zeros((0, 3), np.float32)
    assert unary(lambda x: x, empty, Out((0, 3)))(empty).shape == (0, 3)


def test_lists_may_be_optional() -> None:
    register_operator(
        "t::opt.out(Tensor?[] xs, *, Tensor(a!) out) -> Tensor(a!)",
        lambda xs: xs[0] if xs[1:] == [None] else xs[1],
    )
    assert_array_equal(load("t::opt.out", Optionals([X, None]), Out((2, 3)))(X), X)


# ---- results ---------------------------------------------------------------------------------


def test_writing_into_out() -> None:
    def fn(x: np.ndarray, *, out: np.ndarray) -> None:
        assert out.flags.writeable and not out.any()
        np.multiply(x, 2, out=out)

    assert_array_equal(unary(fn)(X), X * 2)
    assert_array_equal(unary(lambda x, out: np.add(x, 1, out=out))(X), X + 1)  # returns out
    assert_array_equal(unary(lambda x, out: x + 3)(X), X + 3)  # does not use it


def test_several_outs() -> None:
    args = "t::two.out", X, Out((2, 3)), Out((3,))
    register_operator(TWO, lambda x: (x * 2, x[0]))
    found = load(*args)(X)
    assert_array_equal(found[0], X * 2)
    assert_array_equal(found[1], X[0])

    def write(x: np.ndarray, *, out0: np.ndarray, out1: np.ndarray) -> Any:
        out0[:] = x
        return None, x[1]

    register_operator(TWO, write, override=True)
    found = load(*args)(X)
    assert_array_equal(found[0], X)
    assert_array_equal(found[1], X[1])


def test_a_list_of_outs() -> None:
    schema = "t::split.out(Tensor x, *, Tensor(a!)[] out) -> ()"
    args = "t::split.out", X, [Out((3,)), Out((3,))]
    register_operator(schema, lambda x: [x[0], x[1]])
    assert_array_equal(load(*args)(X), X)

    def write(x: np.ndarray, out: list[np.ndarray]) -> None:
        out[0][:], out[1][:] = x[1], x[0]

    register_operator(schema, write, override=True)
    assert_array_equal(load(*args)(X), X[::-1])


def test_written_arguments() -> None:
    """An argument that the schema marks as written and that is not a result."""
    register_operator(
        "t::up.out(Tensor(a!) cache, Tensor x, *, Tensor(b!) out) -> Tensor(b!)",
        lambda cache, x: cache.__iadd__(x) * 2,
    )
    ops = SingleOps()
    ops.add("t::up.out", Arg(X), Arg(X), Out((2, 3)), name="forward", returns=[0])
    program = Runtime.get().load_program(ops.build())
    out, cache = program.load_method("forward").execute([X, X + 1])
    assert_array_equal(cache, X + X + 1)
    assert_array_equal(out, cache * 2)


def test_a_written_argument_keeps_state() -> None:
    """A written argument is read, too, in any position: its memory is the method's, not the
    result's."""
    register_operator(
        "t::add.out(Tensor x, Tensor(a!) total, *, Tensor(b!) out) -> Tensor(b!)",
        lambda x, total: total.__iadd__(x) * 2,
    )
    ops = SingleOps()
    ops.add("t::add.out", Arg(X), Arg(X), Out((2, 3)), name="forward", returns=[1])
    program = ops.program()
    plan = program.execution_plan[0]
    plan.inputs.pop()
    method = Runtime.get().load_program(serialize(program)).load_method("forward")
    for i in (1, 2, 3):
        out, total = method.execute([X])
        assert_array_equal(total, X * i)
        assert_array_equal(out, X * i * 2)
    method.reset()
    assert_array_equal(method.execute([X + 1])[1], X + 1)


@pytest.mark.parametrize("style", ["returned", "written"])
def test_shapes_that_depend_on_data(style: str) -> None:
    def returned(x: np.ndarray) -> Any:
        return x[x > 0]

    def written(x: np.ndarray, out: np.ndarray) -> Any:
        assert out.shape == (4,)  # the bound, independently of the last call's output
        found = x[x > 0]
        out[: len(found)] = found
        return out[: len(found)]

    fn = {"returned": returned, "written": written}[style]
    x = np.array([1, -2, 3, -4, 5, -6], np.float32)
    method = unary(fn, x, Out((4,), dynamism=BOUNDED))
    for _ in range(2):
        assert_array_equal(method(x), [1, 3, 5])
        assert_array_equal(method(-abs(x)), [])
    if style == "returned":
        with pytest.raises(executorch_c.NotSupportedError, match="upper bound is 4") as caught:
            method(abs(x))
        assert "t::f.out: the function returned an array for 'out': shape (6,)" in str(caught.value)
    assert_array_equal(method(x), [1, 3, 5])


def test_unbound_outs_grow() -> None:
    out = Out((1,), dynamism=UNBOUND, planned=False)
    method = unary(lambda x: np.concatenate([x] * 50), np.zeros(3, np.float32), out)
    assert_array_equal(method(np.ones(3, np.float32)), np.ones(150))


def test_whatever_strides_and_byte_order() -> None:
    assert_array_equal(unary(lambda x: np.flip(x).copy().T.copy().T)(X), np.flip(X))
    assert_array_equal(unary(lambda x: x.astype(">f4"))(X), X)
    assert_array_equal(unary(lambda x: np.broadcast_to(x[:1], x.shape))(X), X[[0, 0]])


def test_a_tensor_is_a_result() -> None:
    assert_array_equal(unary(lambda x: torch.from_numpy(x.copy()) * 2)(X), X * 2)


WRONG: list[tuple[Callable[..., Any], type[Exception], str]] = [
    (lambda x: x * 1.5j, ValueError, "the function returned complex64 for 'out', expected float32"),
    (lambda x: x.astype("f8"), ValueError, "returned float64 for 'out', expected float32"),
    (lambda x: x.astype("U"), ValueError, "an array of NumPy dtype 'U"),
    (lambda x: None, TypeError, "the function returned None for 'out', expected an array"),
    (lambda x: [1, 2], TypeError, "the function returned list for 'out', expected an array"),
    (lambda x: (x,), TypeError, "the function returned tuple for 'out', expected an array"),
    (lambda x: 1.5, TypeError, "the function returned float for 'out', expected an array"),
    (lambda x: np.ma.masked_array(x), TypeError, "returned MaskedArray for 'out'"),
    (lambda x: x[0], RuntimeError, "shape (3,) has another rank than the planned (2, 3)"),
    (lambda x: x.T, RuntimeError, "shape (3, 2), but the program fixes it to (2, 3)"),
]


@pytest.mark.parametrize(("fn", "error", "says"), WRONG)
def test_wrong_results(fn: Callable[..., Any], error: type[Exception], says: str) -> None:
    method = unary(fn)
    with pytest.raises(executorch_c.Error) as caught:
        method(X)
    assert isinstance(caught.value, error)
    assert "method 'forward', instruction 0: t::f.out: the function returned" in str(caught.value)
    assert says in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("result", "says"),
    [
        ((X, X, X), "tuple of another length"),
        (X, "numpy.ndarray"),
        (None, "None"),
        ([X, X], "list"),
    ],
)
def test_wrong_number_of_results(result: Any, says: str) -> None:
    register_operator(TWO, lambda x: result)
    method = load("t::two.out", X, Out((2, 3)), Out((2, 3)))
    says = f"returned {says}, expected a tuple of 2"
    with pytest.raises(executorch_c.InvalidTypeError, match=says):
        method(X)


def test_a_shrunk_out() -> None:
    def fn(x: np.ndarray, out: np.ndarray) -> None:
        out.shape = (6,)

    with pytest.raises(executorch_c.NotSupportedError, match="another rank"):
        unary(fn)(X)


# ---- exceptions ------------------------------------------------------------------------------


def test_an_exception_is_the_cause() -> None:
    def fn(x: np.ndarray) -> Any:
        raise LookupError("no such thing")

    method = unary(fn)
    for _ in range(2):
        with pytest.raises(executorch_c.InternalError) as caught:
            method(X)
        says = "method 'forward', instruction 0: t::f.out: the function raised LookupError: no such"
        assert str(caught.value).startswith(says)
        cause = caught.value.__cause__
        assert type(cause) is LookupError and caught.value.__context__ is cause
        assert cause.__traceback__ is not None
        assert cause.__traceback__.tb_frame.f_code.co_name == "fn"
    assert_array_equal(unary(lambda x: x)(X), X)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError("much"), executorch_c.MemoryAllocationFailedError),
        (Unprintable(), executorch_c.InternalError),
        (ValueError("\ud800"), executorch_c.InternalError),
    ],
)
def test_kinds_of_exceptions(error: Exception, expected: type[Exception]) -> None:
    def fn(x: np.ndarray) -> Any:
        raise error

    with pytest.raises(expected) as caught:
        unary(fn)(X)
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    "code", [1 << 32, 1 << 31, 1 << 63, 1 << 64, -1, 0, "x", None, 1.5, 0x23 + (1 << 32)]
)
def test_invalid_codes(code: Any) -> None:
    """A code that is 0 modulo 2 ** 32 was treated as success."""

    class Wrong(executorch_c.Error):
        pass

    Wrong.code = code

    def fn(x: np.ndarray) -> Any:
        raise Wrong("this must not be lost")

    with pytest.raises(executorch_c.InternalError, match="this must not be lost"):
        unary(fn)(X)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_interrupts_come_through(error: type[BaseException]) -> None:
    def fn(x: np.ndarray) -> Any:
        raise error

    with pytest.raises(error) as caught:
        unary(fn)(X)
    assert caught.value.__cause__ is None


def test_a_call_inside_a_call() -> None:
    inner = unary(lambda x: x * 2)
    assert_array_equal(unary(lambda x: inner(x) + 1)(X), X * 2 + 1)

    def fails(x: np.ndarray) -> Any:
        return inner(x[0])

    with pytest.raises(executorch_c.InvalidArgumentError, match="raised InvalidArgumentError"):
        unary(fails)(X)


def test_calls_without_an_end() -> None:
    """A function that recursively runs its own program in a new method."""
    program = pte("t::f.out", X, Out((2, 3)))

    def load_again(x: np.ndarray) -> Any:
        return Runtime.get().load_program(program).load_method("forward")(x)

    register_operator(UNARY, load_again)
    with pytest.raises(executorch_c.InternalError) as caught:
        load_again(X)
    error: BaseException | None = caught.value
    while error is not None and error.__cause__ is not None:
        error = error.__cause__
    assert isinstance(error, RecursionError)


@pytest.mark.parametrize("call", ["execute", "reset", "memory"])
def test_a_method_cannot_call_itself(call: str) -> None:
    methods: list[executorch_c.Method] = []

    def fn(x: np.ndarray) -> Any:
        getattr(methods[0], call)(*[[x]] * (call == "execute"))
        return x

    methods.append(unary(fn))
    with pytest.raises(executorch_c.InvalidStateError, match="is running in this thread"):
        methods[0](X)


# ---- programs of the official flow -----------------------------------------------------------


def test_an_exported_program_is_eager() -> None:
    """torch.library operators of both kinds, exported, and computed here with NumPy: torch's own
    decorator for the functional, with an out variant; and both by define."""

    @torch.library.custom_op("tcustom::cube", mutates_args=())
    def cube(x: torch.Tensor, n: int = 2, mode: str = "a") -> torch.Tensor:
        return x**3 + n * (mode == "b")

    cube.register_fake(lambda x, n=2, mode="a": torch.empty_like(x))
    library = torch.library.Library("tcustom", "FRAGMENT")
    schemas = {
        "cube": "(Tensor x, SymInt n=2, str mode='a', *, Tensor(a!) out) -> Tensor(a!)",
        "stats": "(Tensor x, Tensor? w, Tensor[] more, float[]? scale=None, *, bool neg=False, "
        "Tensor(a!) out0, Tensor(b!) out1) -> (Tensor(a!), Tensor(b!))",
    }

    def stats(x: Any, w: Any, more: Any, scale: Any = None, *, neg: bool = False) -> Any:
        total = x * scale[0] - more[0] if w is None else x + w
        return (-total if neg else total), total.sum(1)

    library.define(
        "stats(Tensor x, Tensor? w, Tensor[] more, float[]? scale=None, *, "
        "bool neg=False) -> (Tensor, Tensor)"
    )
    library.impl("stats", stats, "CompositeExplicitAutograd")
    functions = {
        "cube": lambda x, n, mode: x**3 + np.float32(n * (mode == "b")),
        "stats": lambda x, w, more, scale, *, neg: stats(
            x, w, more, None if scale is None else np.float32(scale), neg=neg
        ),
    }
    for name, schema in schemas.items():
        library.define(f"{name}.out{schema}")
        library.impl(f"{name}.out", lambda *a, **k: None, "CompositeExplicitAutograd")
        register_operator(str(getattr(torch.ops.tcustom, name).out._schema), functions[name])

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
            a, b = torch.ops.tcustom.stats(x, None, [y], [2.0], neg=True)
            c, d = torch.ops.tcustom.stats(a + 1, y, [])
            return torch.ops.tcustom.cube(c, 5, "b"), b, torch.ops.tcustom.cube(d)

    x, y = torch.randn(4, 3), torch.randn(4, 3)
    rows = torch.export.Dim("rows", min=2, max=8)
    program = Runtime.get().load_program(export(Model(), x, y, dynamic_shapes=({0: rows},) * 2))
    assert set(program.requirements()["operators"]) >= {"tcustom::cube.out", "tcustom::stats.out"}
    for n in (4, 8, 2):
        x, y = torch.randn(n, 3), torch.randn(n, 3)
        outputs = tuple(map(torch.from_numpy, program.load_method("forward").execute([x, y])))
        torch.testing.assert_close(outputs, Model()(x, y), rtol=1e-5, atol=1e-5)
