"""Backends written in Python: calls, results, exceptions, options, registration, processes."""

import gc
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import executorch_c
from executorch_c import BackendCall, register_backend, unregister_backend
from tests import process
from tests.plans import BOUNDED, Constants, Plan, build, schema
from tests.python.npu_programs import ID, Twice, X, class_of, load, nothing_stays, pte, registry


__all__ = ["nothing_stays"]  # autouse fixture


# ---- calls -------------------------------------------------------------------------------------


def test_a_simulator() -> None:
    seen: list[Any] = []

    @register_backend
    class Scale:
        id = ID

        def init(self, payload: bytes, specs: dict[str, bytes], options: dict[str, Any]) -> None:
            seen.extend([payload, specs, options])
            self.scale = np.frombuffer(payload, np.float32)

        def execute(self, inputs: list[np.ndarray]) -> np.ndarray:
            (x,) = inputs
            assert x.dtype == np.float32 and not x.flags.writeable
            return x * self.scale

        def destroy(self) -> None:
            seen.append("destroyed")

        def report(self) -> dict[str, int]:
            return {"scales": len(self.scale)}

    assert ID in registry.registered_backend_names and registry.is_available(ID)
    method = load(pte(np.float32([3]).tobytes(), {"device": b"npu", "empty": b""}))
    assert_array_equal(method(X), X * 3)
    assert seen == [np.float32([3]).tobytes(), {"device": b"npu", "empty": b""}, {}]
    assert method.backend_report()[0]["figures"] == {"scales": 1}
    del method
    gc.collect()
    assert seen[-1] == "destroyed"


def test_each_delegate_has_an_instance() -> None:
    @register_backend
    class Number(Twice):
        instances: list[Any] = []

        def init(self, payload: bytes, specs: Any, options: Any) -> None:
            self.instances.append(self)
            self.number = len(self.instances)

        def execute(self, inputs: list[Any]) -> Any:
            return inputs[0] * self.number

    outputs = load(pte(calls=3)).execute([X])
    for i, y in enumerate(outputs, 1):
        assert_array_equal(y, X * i)


def test_an_instance_serves_all_delegates() -> None:
    class Shared(Twice):
        def __init__(self) -> None:
            self.calls = 0

        def execute(self, inputs: list[Any]) -> Any:
            self.calls += 1
            return inputs[0] + self.calls

    one = Shared()
    assert register_backend(one) is one
    y, z = load(pte(calls=2)).execute([X])
    assert_array_equal(y, X + 1)
    assert_array_equal(z, X + 2)


def test_init_may_return_the_delegate() -> None:
    class Inner:
        def __init__(self, scale: int) -> None:
            self.scale = scale

        def execute(self, inputs: list[Any]) -> Any:
            return [inputs[0] * self.scale]

    register_backend(
        class_of(Twice.execute, lambda self, payload, specs, options: Inner(len(payload)))
    )
    assert_array_equal(load(pte(b"12345"))(X), X * 5)


def test_dtypes_numbers_and_shapes() -> None:
    seen: list[Any] = []

    def execute(self: Any, inputs: list[Any]) -> Any:
        seen.append([type(one).__name__ for one in inputs])
        return inputs[0][inputs[0] > 0].astype(np.int64), np.float32(inputs[1])

    register_backend(class_of(execute))
    plan = Plan()
    x = plan.input((2, 3))
    values = [plan.value(value) for value in (7, 0.5, True, "text", None)]
    y, z = plan.output((6,), "int64", dynamism=BOUNDED), plan.output(())
    plan.append(schema.DelegateCall(plan.delegate(ID, 0), [x, *values, y, z]))
    method = load(build(plan, payloads=[b""]))
    for data in (X, X - 2, X):
        outputs = method.execute([data])
        assert_array_equal(outputs[0], data[data > 0].astype(np.int64))
        assert outputs[1] == 7 and outputs[1].shape == ()
    assert seen[0] == ["ndarray", "int", "float", "bool", "str", "NoneType"]


def test_arguments_and_results_may_be_kept() -> None:
    kept: list[Any] = []

    def execute(self: Any, inputs: list[Any]) -> Any:
        result = inputs[0] * 2
        kept.extend([inputs[0], result])
        return result

    register_backend(class_of(execute))
    method = load()
    x = X.copy()
    first = method(x)
    kept[1][:] = -1
    x[:] = -1
    method(x)
    assert_array_equal(first, X * 2)
    assert_array_equal(kept[0], X)


def test_state_needs_num_outputs() -> None:
    """A delegate that writes a mutable buffer: it is defined before, so that the rule for outputs
    takes it for an input."""
    plan, constants = Plan(), Constants()
    x = plan.input((2, 3))
    state = plan.tensor((2, 3), buffer=constants.add_mutable(np.zeros((2, 3), np.float32)))
    plan.append(schema.DelegateCall(plan.delegate(ID, 0), [x, state]))
    plan.take(state)
    data = build(plan, constants=constants, payloads=[b""])

    class Add(Twice):
        def init(self, payload: bytes, specs: Any, options: Any) -> None:
            self.num_outputs = 1
            self.total = np.zeros((2, 3), np.float32)

        def execute(self, inputs: list[Any]) -> Any:
            (x,) = inputs
            self.total = self.total + x
            return self.total

    register_backend(Add)
    method = load(data)
    assert_array_equal(method(X), X)
    assert_array_equal(method(X), X + X)
    Add.init = lambda self, *args: setattr(self, "num_outputs", 3)  # type: ignore[method-assign]
    with pytest.raises(executorch_c.InvalidProgramError, match="passes 2 arguments, but Add.num_o"):
        load(data)(X)


def test_reset_restores_what_a_delegate_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """get_state() has none of it: the state is the class's own."""

    class Counter(Twice):
        def init(self, payload: bytes, specs: Any, options: Any) -> None:
            self.reset()

        def reset(self) -> None:
            self.total = np.zeros((2, 3), np.float32)

        def execute(self, inputs: list[Any]) -> Any:
            self.total = self.total + inputs[0]
            return self.total

    register_backend(Counter)
    method = load()
    assert_array_equal(method(X), X)
    saved = method.get_state()
    assert saved.size == 0
    assert_array_equal(method(X), X + X)
    method.set_state(saved)
    assert_array_equal(method(X), X + X + X)
    method.reset()
    assert_array_equal(method(X), X)
    seen: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", seen.append)
    monkeypatch.setattr(Counter, "reset", lambda self: 1 / 0)
    method.reset()
    assert [one.exc_type for one in seen] == [ZeroDivisionError]


def test_named_data_and_threads() -> None:
    seen: list[Any] = []

    class Named(Twice):
        def init(self, payload: bytes, specs: Any, options: Any, call: BackendCall) -> None:
            seen.append(call)
            assert call.num_threads == 1 and not call.tracing
            with pytest.raises(executorch_c.NotFoundError, match="no data named 'nothing'"):
                call.named_data("nothing")
            with pytest.raises(TypeError, match="`key` must be a str"):
                call.named_data(1)  # type: ignore[arg-type]

    register_backend(Named)
    load(num_threads=1)
    for use in (
        lambda call: call.named_data("x"),
        lambda call: call.tracing,
        lambda call: call.trace("x"),
        lambda call: call.num_threads,
    ):
        with pytest.raises(executorch_c.InvalidStateError, match="the call of the backend has end"):
            use(seen[0])
    with pytest.raises(TypeError):
        BackendCall()


def test_named_data_of_a_program() -> None:
    plan = Plan()
    x, y = plan.input((2, 3)), plan.output((2, 3))
    plan.append(schema.DelegateCall(plan.delegate(ID, 0), [x, y]))
    data = build(plan, payloads=[b""], named={"weights": X.tobytes()})

    class Named(Twice):
        def init(self, payload: bytes, specs: Any, options: Any, call: BackendCall) -> None:
            self.weights = np.frombuffer(call.named_data("weights"), np.float32).reshape(2, 3)

        def execute(self, inputs: list[Any]) -> Any:
            return inputs[0] + self.weights

    register_backend(Named)
    assert_array_equal(load(data)(X), X + X)


def test_traces() -> None:
    class Traced(Twice):
        def execute(self, inputs: list[Any], *, call: BackendCall) -> Any:
            half = inputs[0] + 1
            call.trace("add", half, debug_handle=4, nanoseconds=1000)
            call.trace("mul", (half * 2).T, debug_handle=5)
            call.trace("nothing")
            for wrong in (
                lambda: call.trace("x", np.array(["text"]), debug_handle=1),
                lambda: call.trace("x", debug_handle="y"),  # type: ignore[arg-type]
                lambda: call.trace("x", debug_handle=-1),
            ):
                if call.tracing:
                    with pytest.raises((TypeError, OverflowError)):
                        wrong()
            return half * 2

    register_backend(Traced)
    method = load()
    assert_array_equal(method(X), (X + 1) * 2)
    with method.tracing(values=True) as trace:
        method(X)
    nodes = [event for event in trace.events if event.kind == "node"]
    assert [event.name for event in nodes] == ["add", "mul", "nothing", "x", "x", "x"][: len(nodes)]
    assert [event.debug_handle for event in nodes[:3]] == [4, 5, None]
    assert nodes[0].duration_ns == 1000
    assert_array_equal(nodes[0].outputs[-1].data, X + 1)
    assert_array_equal(nodes[1].outputs[-1].data, ((X + 1) * 2).T)


# ---- exceptions --------------------------------------------------------------------------------


def test_an_exception_of_init_is_the_cause() -> None:
    destroyed: list[str] = []

    class Second(Twice):
        count = 0

        def init(self, payload: bytes, specs: Any, options: Any) -> None:
            Second.count += 1
            if Second.count == 2:
                raise executorch_c.NotSupportedError("format 7")

        def destroy(self) -> None:
            destroyed.append("destroyed")

    register_backend(Second)
    with pytest.raises(executorch_c.NotSupportedError) as caught:
        load(pte(calls=2))
    says = "delegate 1: TestNpu: Second.init raised NotSupportedError: format 7"
    assert says in str(caught.value)
    assert str(caught.value.__cause__) == "format 7"
    assert destroyed == ["destroyed"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_interrupts_of_init_come_through(error: type[BaseException]) -> None:
    def fails(self: Any, *args: Any) -> Any:
        raise error

    register_backend(class_of(Twice.execute, fails))
    with pytest.raises(error):
        load()


def test_an_exception_of_destroy_has_no_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    caught: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: caught.append(repr(what.exc_value)))

    def destroy(self: Any) -> None:
        raise ValueError("still busy")

    register_backend(type("Made", (Twice,), {"destroy": destroy}))
    method = load()
    del method
    gc.collect()
    assert caught == ["ValueError('still busy')"]


@pytest.mark.parametrize("figures", [{"x": "y"}, {3: 4}, 5])
def test_a_wrong_report_has_no_caller(figures: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    caught: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: caught.append(repr(what.exc_value)))
    register_backend(type("Made", (Twice,), {"report": lambda self: figures}))
    (row,) = load().backend_report()
    assert row["figures"] == {} and "TypeError" in caught[0]


def test_loads_without_an_end() -> None:
    data = pte()
    register_backend(class_of(Twice.execute, lambda self, *args: load(data)))
    with pytest.raises(executorch_c.Error) as caught:
        load(data)
    error: BaseException | None = caught.value
    while error is not None and error.__cause__ is not None:
        error = error.__cause__
    assert isinstance(error, RecursionError)


def test_copies_count_towards_max_bytes() -> None:
    register_backend(Twice)
    data = pte(b"x" * 4_000_000)
    with pytest.raises(executorch_c.MemoryAllocationFailedError, match="payload of 4000000 bytes"):
        load(data, max_bytes=1_000_000)
    plan = Plan()
    x, y = plan.input((1000, 1000)), plan.output((1000, 1000))
    plan.append(schema.DelegateCall(plan.delegate(ID, 0), [x, x, x, y]))
    method = load(build(plan, payloads=[b""]), max_bytes=10_000_000)
    with pytest.raises(executorch_c.MemoryAllocationFailedError, match="max_bytes"):
        method(np.zeros((1000, 1000), np.float32))
    load(build(plan, payloads=[b""]), max_bytes=20_000_000)(np.zeros((1000, 1000), np.float32))


# ---- options -----------------------------------------------------------------------------------


class Options(Twice):
    options = {"scale": 1.0, "count": 1, "flag": False, "mode": "fast"}
    seen: dict[str, Any] = {}

    def init(self, payload: bytes, specs: Any, options: dict[str, Any]) -> None:
        Options.seen = options


def test_options() -> None:
    register_backend(Options)
    assert registry.option_keys(ID) == ["scale", "count", "flag", "mode"]
    load()
    assert Options.seen == Options.options
    load(backend_options={ID: {"scale": 2, "mode": "slow"}})
    assert Options.seen == {"scale": 2.0, "count": 1, "flag": False, "mode": "slow"}
    assert type(Options.seen["scale"]) is float
    registry.set_option(ID, "mode", "safe")
    registry.set_option(ID, "count", 5)
    load(backend_options={ID: {"flag": True}})
    assert Options.seen == {"scale": 1.0, "count": 5, "flag": True, "mode": "safe"}
    options = [registry.get_option(ID, key) for key in ("scale", "count", "flag", "mode")]
    assert options == [1.0, 5, False, "safe"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"speed": 1}, "unknown option 'speed', expected 'scale', 'count', 'flag', 'mode'"),
        ({"count": 1.5}, "option 'count': expected int, not float"),
        ({"count": True}, "option 'count': expected int, not bool"),
        ({"mode": 1}, "option 'mode': expected str, not int"),
    ],
)
def test_wrong_options(options: dict[str, Any], says: str) -> None:
    register_backend(Options)
    with pytest.raises(executorch_c.InvalidArgumentError) as caught:
        load(backend_options={ID: options})
    assert says in str(caught.value)
    ((key, value),) = options.items()
    if key == "speed":
        for use in (
            lambda: registry.set_option(ID, key, value),
            lambda: registry.get_option(ID, key),
        ):
            with pytest.raises(executorch_c.NotFoundError, match="no option 'speed'; it has 'scal"):
                use()
    else:
        with pytest.raises(executorch_c.InvalidArgumentError, match="option "):
            registry.set_option(ID, key, value)


# ---- registration ------------------------------------------------------------------------------


def test_names_of_other_backends() -> None:
    with pytest.raises(executorch_c.AlreadyRegisteredError, match="another backend"):
        register_backend(type("Mine", (Twice,), {"id": "XnnpackBackend"}))
    for name in (ID, "XnnpackBackend", "nothing"):
        with pytest.raises(executorch_c.NotFoundError, match="no backend written in Python"):
            unregister_backend(name)
    with pytest.raises(TypeError, match="`id` must be a str"):
        unregister_backend(1)  # type: ignore[arg-type]
    register_backend(class_of(Twice.execute, lambda self, *args: unregister_backend(ID)))
    assert_array_equal(load()(X), X * 2)


WRONG_CLASSES = [
    (3, 'expected a capsule named "executorch_c.backend", or a class with id, init and execute'),
    (type("A", (), {"id": "A"}), "got A without init, execute"),
    (type("A", (Twice,), {"id": 3}), "A.id must be a printable str, not 3"),
    (type("A", (Twice,), {"id": ""}), "A.id must be a printable str"),
    (type("A", (Twice,), {"id": "a\0b"}), "A.id must be a printable str"),
    (type("A", (Twice,), {"execute": lambda self: 1}), "cannot be called with (self, inputs)"),
    (type("A", (Twice,), {"init": lambda self, payload: 1}), "(self, payload, specs, options)"),
    (type("A", (Twice,), {"options": [1]}), "A.options must be a mapping, not list"),
    (type("A", (Twice,), {"options": {"a b": 1}}), "A.options: 'a b' is not an option name"),
    (type("A", (Twice,), {"options": {"a": None}}), "A.options['a'] must be a bool, int, float"),
]


@pytest.mark.parametrize(("backend", "says"), WRONG_CLASSES)
def test_wrong_classes(backend: Any, says: str) -> None:
    with pytest.raises(TypeError) as caught:
        register_backend(backend)
    assert says in str(caught.value)


# ---- lifetimes ---------------------------------------------------------------------------------


def test_a_forked_process() -> None:
    register_backend(Twice)
    method = load()
    method(X)
    pid = os.fork()
    if not pid:
        right = np.array_equal(method(X), X * 2) and np.array_equal(load()(X), X * 2)
        os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_an_entry_point_may_be_a_class(tmp_path: Path) -> None:
    (tmp_path / "npu_simulator.py").write_text(
        "class Npu:\n"
        "    id = 'TestNpu'\n"
        "    def init(self, payload, specs, options): pass\n"
        "    def execute(self, inputs): return inputs[0] + 1\n"
    )
    info = tmp_path / "npu_simulator-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: npu_simulator\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[executorch_c.backends]\nnpu = npu_simulator:Npu\n")
    (tmp_path / "x.pte").write_bytes(pte())
    code = (
        "import numpy, executorch_c; "
        "print(executorch_c.load('x.pte').load_method('forward')(numpy.ones((2, 3), 'f4')))"
    )
    root = str(Path(executorch_c.__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), root])}
    done = process.python("-c", code, cwd=tmp_path, env=env)
    assert done.stdout.split() == "[[2. 2. 2.] [2. 2. 2.]]".split()


def loads_in_a_new_process(pte: bytes, folder: Path) -> list[str]:
    """Load a program after `register_backend`, and return the lines that were printed: "init" for
    each payload that the class prepared, and the error, if any."""
    (folder / "model.pte").write_bytes(pte)
    code = f"""
import executorch_c
class Counted:
    id = {ID!r}
    def init(self, payload, specs, options):
        print("init")
    def execute(self, inputs):
        return inputs[0]
executorch_c.register_backend(Counted)
try:
    executorch_c.load("model.pte").load_method("forward")
except executorch_c.Error as error:
    print(error)
"""
    run = process.python("-c", code, cwd=folder)
    return run.stdout.splitlines()


def test_a_first_load_prepares_each_delegate_once(tmp_path: Path) -> None:
    """Calls that may be delegated need plug-ins that are not registered yet; a class was before."""
    plan = Plan()
    x, y, z = plan.input((64, 128)), plan.tensor((64, 128)), plan.output((64, 128))
    plan.append(schema.DelegateCall(plan.delegate(ID, 0), [x, y]))
    plan.call("aten::add.out", y, y, 1, z)
    assert loads_in_a_new_process(build(plan, payloads=[b""]), tmp_path) == ["init"]


@pytest.mark.parametrize(("second", "inits"), [("VulkanBackend", 1), ("Nowhere", 0)])
def test_all_backends_are_found_before_any_prepares(
    second: str, inits: int, tmp_path: Path
) -> None:
    """A second delegate's backend is discovered last, or not at all."""
    plan = Plan()
    x, y, z = plan.input((2, 3)), plan.tensor((2, 3)), plan.output((2, 3))
    plan.append(schema.DelegateCall(plan.delegate(ID, 0), [x, y]))
    plan.append(schema.DelegateCall(plan.delegate(second, 1), [y, z]))
    *lines, message = loads_in_a_new_process(build(plan, payloads=[b"", b"?"]), tmp_path)
    assert lines == ["init"] * inits and "delegate 1" in message and second in message
