"""Backends written in Python: options, registration, lifetimes, threads, interpreter exit."""

import gc
import os
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import executorch_c
from executorch_c import Runtime, register_backend, unregister_backend
from tests import process
from tests.plans import Plan, build, schema
from tests.python.npu_programs import ID, Twice, X, load, made, nothing_stays, pte, registry

__all__ = ["nothing_stays"]  # autouse fixture


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
    found = [registry.get_option(ID, key) for key in ("scale", "count", "flag", "mode")]
    assert found == [1.0, 5, False, "safe"]


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


def test_registering_twice() -> None:
    register_backend(Twice)
    with pytest.raises(executorch_c.AlreadyRegisteredError, match="Twice is registered as 'TestN"):
        register_backend(Twice)
    before = load()
    register_backend(made(lambda self, inputs: inputs[0] * 3), override=True)
    assert_array_equal(load()(X), X * 3)
    assert_array_equal(before(X), X * 2)
    with pytest.raises(executorch_c.AlreadyRegisteredError, match="another backend"):
        register_backend(type("Mine", (Twice,), {"id": "XnnpackBackend"}))


def test_unregistering() -> None:
    loaded = Runtime.get().load_program(pte())
    assert loaded.requirements()["missing_backends"] == [ID]
    register_backend(Twice)
    assert loaded.requirements()["missing_backends"] == []
    method = load()
    unregister_backend(ID)
    assert ID not in registry.registered_backend_names and not registry.is_available(ID)
    assert_array_equal(method(X), X * 2)
    with pytest.raises(executorch_c.NotFoundError, match="'TestNpu' is not registered"):
        loaded.load_method("forward", seed=1)
    for name in (ID, "XnnpackBackend", "nothing"):
        with pytest.raises(executorch_c.NotFoundError, match="no backend written in Python"):
            unregister_backend(name)
    with pytest.raises(TypeError, match="`id` must be a str"):
        unregister_backend(1)  # type: ignore[arg-type]
    register_backend(Twice)
    assert_array_equal(load()(X), X * 2)


def test_unregistering_during_a_call() -> None:
    def execute(self: Any, inputs: list[Any]) -> Any:
        unregister_backend(ID)
        gc.collect()
        return inputs[0]

    register_backend(made(execute))
    assert_array_equal(load()(X), X)
    register_backend(made(Twice.execute, lambda self, *args: unregister_backend(ID)))
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


def test_a_cycle_is_collected() -> None:
    """A delegate that refers to the method that runs it."""
    dead: list[Any] = []

    class Cycle(Twice):
        def init(self, payload: bytes, specs: Any, options: Any) -> None:
            dead.append(weakref.ref(self))
            self.method: Any = None

    register_backend(Cycle)
    method = load()
    dead[0]().method = method
    unregister_backend(ID)
    del method
    gc.collect()
    assert dead[0]() is None


def test_the_class_is_freed() -> None:
    one = made(Twice.execute)
    dead = weakref.ref(one)
    register_backend(one)
    unregister_backend(ID)
    del one
    gc.collect()
    assert dead() is None


def test_threads() -> None:
    register_backend(Twice)
    wrong: list[Any] = []

    def run(number: int) -> None:
        for _ in range(30):
            if not np.array_equal(load()(X + number), (X + number) * 2):
                wrong.append(number)

    workers = [threading.Thread(target=run, args=(i,)) for i in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_registering_while_loading() -> None:
    """Loads meet a backend that comes and goes: each runs or says that it is not there."""
    register_backend(Twice)
    stop, wrong = threading.Event(), []

    def run() -> None:
        while not stop.is_set():
            try:
                if not np.array_equal(load()(X), X * 2):
                    wrong.append("result")
            except executorch_c.NotFoundError:
                pass

    workers = [threading.Thread(target=run) for _ in range(4)]
    for worker in workers:
        worker.start()
    for _ in range(200):
        unregister_backend(ID)
        register_backend(Twice)
    stop.set()
    for worker in workers:
        worker.join()
    assert not wrong


def test_a_forked_process() -> None:
    register_backend(Twice)
    method = load()
    method(X)
    pid = os.fork()
    if not pid:
        right = np.array_equal(method(X), X * 2) and np.array_equal(load()(X), X * 2)
        os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


EXIT = """
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


@pytest.mark.parametrize(
    "more",
    [
        "",
        "sys.cycle = [method]; sys.cycle.append(sys.cycle)",
        "Noisy.method = method",
        "raise SystemExit",
    ],
)
def test_the_end_of_the_interpreter(more: str, tmp_path: Path) -> None:
    path = tmp_path / "x.pte"
    path.write_bytes(pte())
    done = process.python("-c", EXIT.format(more=more), path, cwd=tmp_path)
    assert done.stdout in ("", "destroyed\n") and not done.stderr


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
    *found, message = loads_in_a_new_process(build(plan, payloads=[b"", b"?"]), tmp_path)
    assert found == ["init"] * inits and "delegate 1" in message and second in message
