"""Operators written in Python: arguments, results, registration, lifetimes, threads."""

import gc
import sys
import threading
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

import executorch_c
from executorch_c import Runtime, register_operator, unregister_operator
from tests.at_once import run_each
from tests.dtypes import dtype_id
from tests.exports import export
from tests.models import zoo
from tests.plans import BOUNDED, UNBOUND
from tests.python.custom_ops import TWO, UNARY, X, load, nothing_stays, pte, unary
from tests.python.small_programs import serialize
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
    tensors = X, None, [X, X], [X, None]
    numbers = 3, [1, 2], 2, [0.5], 1, [True, False], "text", 4.5, dtype_id("bfloat16"), None, 2
    method = load("t::all.out", *tensors, *numbers, Out((2, 3)))
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


def test_dim_order_is_strides() -> None:
    image = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)
    last = np.ascontiguousarray(image.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    seen = []

    def fn(x: np.ndarray, out: np.ndarray) -> None:
        seen.extend([x.strides, out.strides])
        out[:] = x

    assert_array_equal(unary(fn, last, Out((2, 3, 4, 5), dim_order=(0, 2, 3, 1)))(last), image)
    assert seen == [last.strides] * 2


def test_lists_may_be_optional() -> None:
    register_operator(
        "t::opt.out(Tensor?[] xs, *, Tensor(a!) out) -> Tensor(a!)",
        lambda xs: xs[0] if xs[1:] == [None] else xs[1],
    )
    assert_array_equal(load("t::opt.out", Optionals([X, None]), Out((2, 3)))(X), X)


# ---- results ---------------------------------------------------------------------------------


def doubled(x: np.ndarray, *, out: np.ndarray) -> None:
    assert out.flags.writeable and not out.any()
    np.multiply(x, 2, out=out)


RESULTS: dict[str, tuple[Callable[..., Any], Any, Any]] = {
    "written into out": (doubled, X, X * 2),
    "out itself": (lambda x, out: np.add(x, 1, out=out), X, X + 1),
    "out unused": (lambda x, out: x + 3, X, X + 3),
    "strides": (lambda x: np.flip(x).copy().T.copy().T, X, np.flip(X)),
    "byte order": (lambda x: x.astype(">f4"), X, X),
    "broadcast": (lambda x: np.broadcast_to(x[:1], x.shape), X, X[[0, 0]]),
    "a torch tensor": (lambda x: torch.from_numpy(x.copy()) * 2, X, X * 2),
    "no signature": (np.sqrt, X, np.sqrt(X)),
    "no dimensions": (lambda x: x.sum() * 2, np.array(3, np.float32), np.float32(6)),
    "no elements": (lambda x: x, np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32)),
    **{
        str(dtype): (lambda x: x[::-1], np.array([0, 1, 1], dtype), np.array([1, 1, 0], dtype))
        for dtype in ("bool", "uint8", "int64", "float16", "complex64", ml_dtypes.bfloat16)
    },
}
"""Functions of an array, and their results."""


@pytest.mark.parametrize("name", RESULTS)
def test_results(name: str) -> None:
    fn, x, expected = RESULTS[name]
    assert_array_equal(unary(fn, x, Out(x.shape, x.dtype.name))(x), expected, strict=True)


def test_several_outs() -> None:
    args = "t::two.out", X, Out((2, 3)), Out((3,))
    register_operator(TWO, lambda x: (x * 2, x[0]))
    outputs = load(*args)(X)
    assert_array_equal(outputs[0], X * 2)
    assert_array_equal(outputs[1], X[0])

    def write(x: np.ndarray, *, out0: np.ndarray, out1: np.ndarray) -> Any:
        out0[:] = x
        return None, x[1]

    register_operator(TWO, write, override=True)
    outputs = load(*args)(X)
    assert_array_equal(outputs[0], X)
    assert_array_equal(outputs[1], X[1])


def test_a_list_of_outs() -> None:
    schema = "t::split.out(Tensor x, *, Tensor(a!)[] out) -> ()"
    args = "t::split.out", X, [Out((3,)), Out((3,))]
    register_operator(schema, lambda x: [x[0], x[1]])
    assert_array_equal(load(*args)(X), X)

    def write(x: np.ndarray, out: list[np.ndarray]) -> None:
        out[0][:], out[1][:] = x[1], x[0]

    register_operator(schema, write, override=True)
    assert_array_equal(load(*args)(X), X[::-1])


@pytest.mark.parametrize("is_input", [True, False])
def test_a_written_argument_keeps_state(is_input: bool) -> None:
    """An argument that the schema marks as written and that is no result is read, too, in any
    position: its memory is the method's, not the result's."""
    register_operator(
        "t::add.out(Tensor x, Tensor(a!) total, *, Tensor(b!) out) -> Tensor(b!)",
        lambda x, total: total.__iadd__(x) * 2,
    )
    ops = SingleOps()
    ops.add("t::add.out", Arg(X), Arg(X), Out((2, 3)), name="forward", returns=[1])
    program = ops.program()
    if not is_input:
        program.execution_plan[0].inputs.pop()
    method = Runtime.get().load_program(serialize(program)).load_method("forward")
    for i in (1, 2, 3):
        out, total = method.execute([X, X * (i - 1)] if is_input else [X])
        assert_array_equal(total, X * i)
        assert_array_equal(out, X * i * 2)
    if not is_input:
        method.reset()
        assert_array_equal(method.execute([X + 1])[1], X + 1)


@pytest.mark.parametrize("style", ["returned", "written"])
def test_shapes_that_depend_on_data(style: str) -> None:
    def returned(x: np.ndarray) -> Any:
        return x[x > 0]

    def written(x: np.ndarray, out: np.ndarray) -> Any:
        assert out.shape == (4,)  # the bound, independently of the last call's output
        positive = x[x > 0]
        out[: len(positive)] = positive
        return out[: len(positive)]

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


# ---- registering -----------------------------------------------------------------------------


def test_a_decorator_gives_the_function() -> None:
    @register_operator(UNARY)
    def fn(x: np.ndarray) -> np.ndarray:
        return x + 1

    assert_array_equal(fn(X), X + 1)
    assert_array_equal(load("t::f.out", X, Out((2, 3)))(X), X + 1)


def test_it_is_listed() -> None:
    names = Runtime.get().operator_registry.operator_names
    register_operator(UNARY, lambda x: x)
    (row,) = [row for row in executorch_c.operators() if row["name"] == "t::f.out"]
    assert row["origin"] == "python" and row["schema"] == UNARY and "float32" in row["dtypes"]
    assert {row["origin"] for row in executorch_c.operators()} >= {"builtin", "python"}
    assert Runtime.get().operator_registry.operator_names - names == {"t::f.out"}
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
    def fn(x: np.ndarray) -> np.ndarray:
        return x * 2

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


def test_the_command_line_names_the_origin(capsys: pytest.CaptureFixture[str]) -> None:
    from executorch_c.cli import main

    register_operator(UNARY, lambda x: x)
    assert main(["operators"]) == 0
    assert "custom (python)" in capsys.readouterr().out
