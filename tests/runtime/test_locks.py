"""Methods with threads, forks and signals: waiting calls, calls that cannot be served, and
interrupted calls."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import executorch_c
from executorch_c import InvalidStateError, Runtime, _backends
from tests.alone import alone
from tests.plans import Plan, build, load, schema
from tests.python.custom_ops import nothing_stays  # noqa: F401  a fixture

SLOW = "locks::slow.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)"
ONES = np.ones(4, np.float32)


class Slow:
    """An operator that signals its call and returns when released."""

    def __init__(self) -> None:
        self.called, self.may_return = threading.Event(), threading.Event()
        self.inside: Callable[[], Any] = lambda: None
        executorch_c.register_operator(SLOW, self)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        self.inside()
        self.called.set()
        assert self.may_return.wait(30)
        return x


@pytest.fixture
def slow() -> Slow:
    return Slow()


def slow_plan(name: str = "forward", shared: bool = False) -> Plan:
    """Return a plan with x through the operator; the planned memory of y is an attribute."""
    plan = Plan(name)
    x, y = plan.input((4,), name="x"), plan.output((4,))
    if shared:
        plan.tensor((4,), at=(2, 0), name="state")
    plan.call("locks::slow.out", x, y)
    return plan


class Running:
    """A call in another thread, which is inside its operator during the block."""

    def __init__(self, method: executorch_c.Method, slow: Slow, x: np.ndarray = ONES) -> None:
        self.thread = threading.Thread(target=lambda: method(x), daemon=True)
        self.slow = slow

    def __enter__(self) -> None:
        self.thread.start()
        assert self.slow.called.wait(30)

    def __exit__(self, *_: object) -> None:
        self.slow.may_return.set()
        self.thread.join(30)
        assert not self.thread.is_alive()


# ---- locks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [False, True])
def test_loading_inside_a_call_does_not_touch_its_lock(slow: Slow, shared: bool) -> None:
    """Earlier, the lock of methods that share memory was acquired twice and released in between."""
    loaded = Runtime.get().load_program(build(slow_plan(shared=shared)))
    method = loaded.load_method("forward")
    slow.inside = lambda: loaded.load_method("forward", seed=1)
    with Running(method, slow):
        done = threading.Event()
        other = threading.Thread(target=lambda: (method.memory(), done.set()))
        other.start()
        assert not done.wait(0.3)
    assert done.wait(30)
    other.join()


def test_loading_does_not_wait_for_a_call(slow: Slow) -> None:
    """State in shared memory exists before any method runs, and is initialised once."""
    loaded = Runtime.get().load_program(build(slow_plan(shared=True)))
    method = loaded.load_method("forward")
    with Running(method, slow):
        assert loaded.load_method("forward", seed=1).attribute_names == ("x", "state")


def test_an_attribute_is_not_an_input_array_of_a_call() -> None:
    """During a call, its input may be a caller's array, which ends with the call."""

    def run() -> bool:
        slow = Slow()
        method = load(build(slow_plan()))
        x = np.full(4, 5, np.float32)
        outputs: list[np.ndarray] = []
        with Running(method, slow, x):
            thread = threading.Thread(target=lambda: outputs.append(method.get_attribute("x")))
            thread.start()
            thread.join(0.2)
            assert thread.is_alive() and not outputs
        thread.join(30)
        return np.shares_memory(outputs[0], x)

    assert not alone(run)


def test_an_attribute_inside_of_a_call(slow: Slow) -> None:
    """An operator sees the method's own memory, even if the call rebinds the tensor."""
    method = load(build(slow_plan()))
    method.set_attribute("x", 3 * ONES)
    outputs: list[np.ndarray] = []
    slow.inside = lambda: outputs.append(method.get_attribute("x"))
    slow.may_return.set()
    x = ONES.copy()
    method(x)
    assert not np.shares_memory(outputs[0], x)
    assert np.shares_memory(outputs[0], method.get_attribute("x"))


def test_setting_an_attribute_waits_for_the_address(slow: Slow) -> None:
    method = load(build(slow_plan()))
    x = ONES.copy()
    with Running(method, slow, x):
        thread = threading.Thread(target=lambda: method.set_attribute("x", 9 * ONES))
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
    thread.join(30)
    np.testing.assert_array_equal(x, ONES)
    np.testing.assert_array_equal(method.get_attribute("x"), 9 * ONES)


def test_setting_an_attribute_inside_of_a_call_is_refused(slow: Slow) -> None:
    method = load(build(slow_plan()))
    slow.inside = lambda: method.set_attribute("x", ONES)
    slow.may_return.set()
    with pytest.raises(InvalidStateError, match="is running in this thread"):
        method(ONES)
    slow.inside = lambda: None
    np.testing.assert_array_equal(method(ONES), ONES)


def test_an_attribute_that_is_an_output_is_up_to_date() -> None:
    """Such an output is not written only to the caller's array."""
    plan = Plan()
    x, y = plan.input((4,)), plan.output((4,), name="y")
    plan.call("aten::add.out", x, x, 1, y)
    method = load(build(plan))
    result = method(ONES)
    np.testing.assert_array_equal(method.get_attribute("y"), 2 * ONES)
    np.testing.assert_array_equal(result, 2 * ONES)


# ---- forks -----------------------------------------------------------------------------------


def exit_code(run: Callable[[], bool], seconds: int = 20) -> int:
    """Return the exit code of a child process that runs a function: 0 for True, negative for a
    signal."""
    pid = os.fork()
    if pid == 0:
        signal.alarm(seconds)
        code = 2
        try:
            code = 0 if run() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def refused(call: Callable[[], object]) -> bool:
    try:
        call()
    except InvalidStateError as error:
        return "when this process was forked: load its program again" in str(error)
    return False


@pytest.mark.parametrize("shared", [False, True])
def test_a_method_running_in_another_thread_at_the_fork(slow: Slow, shared: bool) -> None:
    """The running thread does not exist in the child, so a call there can only raise."""
    pte = build(slow_plan(shared=shared), slow_plan("other", shared=shared))
    loaded = Runtime.get().load_program(pte)
    method, other = loaded.load_method("forward"), loaded.load_method("other")

    def child() -> bool:
        slow.may_return.set()
        calls = [
            method.memory,
            method.reset,
            lambda: method(ONES),
            lambda: method.manual_seed(1),
            lambda: method.get_attribute("x"),
            lambda: method.set_attribute("x", ONES),
            method.tracing().__enter__,
            method.backend_report,
        ]
        done = all(refused(call) for call in calls)
        done = done and refused(lambda: other(ONES)) == shared
        again = Runtime.get().load_program(pte).load_method("forward")
        return done and bool((again(ONES) == ONES).all())

    with Running(method, slow):
        assert exit_code(child) == 0
    np.testing.assert_array_equal(method(ONES), ONES)


def test_a_fork_inside_of_a_call(slow: Slow) -> None:
    """The thread that runs the method is the child's only thread: the call continues in both
    processes."""
    method = load(build(slow_plan()))
    slow.may_return.set()
    children: list[int] = []

    def fork() -> None:
        if not children:
            children.append(os.fork())

    slow.inside = fork

    def run() -> tuple[int, float]:
        output = method(ONES)
        if children[0] == 0:
            os._exit(0 if (method(2 * output) == 2).all() else 1)
        return os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]), float(output.sum())

    assert alone(run) == (0, 4.0)


def test_methods_at_rest_are_free_in_a_forked_process(slow: Slow) -> None:
    slow.may_return.set()
    method = load(build(slow_plan()))
    method(ONES)
    for _ in range(3):
        assert exit_code(lambda: bool((method(ONES) == ONES).all())) == 0


def test_forks_while_operators_come_and_go() -> None:
    """A child does not find the tables locked by a thread that it does not have."""
    stop = threading.Event()

    def come_and_go() -> None:
        while not stop.is_set():
            executorch_c.register_operator(SLOW, lambda x: x)
            executorch_c.unregister_operator("locks::slow.out")

    def child() -> bool:
        plan = Plan()
        x = plan.input((4,))
        plan.call("aten::add.out", x, x, 1, plan.output((4,)))
        return bool((load(build(plan))(ONES) == 2).all())

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        assert [exit_code(child) for _ in range(10)] == [0] * 10
    finally:
        stop.set()
        thread.join()


def test_a_plug_in_search_of_another_thread_at_the_fork() -> None:
    """The lock has no owner in the child, which searches itself."""
    taken, enough = threading.Event(), threading.Event()

    def search() -> None:
        with _backends._lock:
            taken.set()
            enough.wait(30)

    thread = threading.Thread(target=search)
    thread.start()
    assert taken.wait(30)
    try:
        assert exit_code(lambda: _backends.discover() is None) == 0
    finally:
        enough.set()
        thread.join()


# ---- signals ---------------------------------------------------------------------------------


class Alarm(Exception):
    """The exception of a signal handler."""


def interrupted(run: Callable[[], object], after: float = 0.3) -> float:
    """Return the time that a call continued after a signal whose handler raises."""

    def handler(*_: object) -> None:
        raise Alarm("it is time")

    def child() -> float:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, after)
        start = time.perf_counter()
        with pytest.raises(Alarm, match="it is time") as info:
            run()
        assert info.value.__cause__ is None
        return time.perf_counter() - start - after

    # A late interruption is late each time, a machine that stood still is not.
    return min(alone(child) for _ in range(3))


def endless(shape: tuple[int, ...] = (4,), inside: int = 0) -> bytes:
    """Return x + x forever, nested in the given number of programs."""
    plan = Plan()
    x, y = plan.input(shape), plan.output(shape)
    if inside:
        number = plan.delegate("ExecutorBackend", 0)
        plan.append(schema.DelegateCall(number, [x, y]))
        return build(plan, payloads=[endless(shape, inside - 1)])
    plan.call("aten::exp.out", x, y)
    plan.jump_false(False, 0)
    return build(plan)


@pytest.mark.parametrize("shape", [(4,), (1000,), (1000, 1000)])
@pytest.mark.parametrize("inside", [0, 2])
def test_a_signal_ends_a_long_call(shape: tuple[int, ...], inside: int) -> None:
    method = load(endless(shape, inside))
    assert interrupted(lambda: method(np.ones(shape, np.float32))) < 2


def test_a_signal_ends_a_call_that_is_traced() -> None:
    method = load(endless())

    def run() -> None:
        with method.tracing(max_bytes=1000):
            method(ONES)

    assert interrupted(run) < 2


@pytest.mark.parametrize("call", ["execute", "reset", "memory", "get_attribute"])
def test_a_signal_ends_waiting_for_another_thread(call: str) -> None:
    def run() -> None:
        slow = Slow()
        method = load(build(slow_plan()))
        threading.Thread(target=lambda: method(ONES), daemon=True).start()
        assert slow.called.wait(30)
        arguments = {"execute": ([ONES],), "get_attribute": ("x",)}.get(call, ())
        getattr(method, call)(*arguments)

    assert interrupted(run) < 2


def test_a_handler_without_an_exception_does_not_interrupt() -> None:
    def run() -> int:
        handled: list[float] = []
        signal.signal(signal.SIGALRM, lambda *_: handled.append(time.perf_counter()))
        plan = Plan()
        x, i, done = plan.input((1000,)), plan.value(0), plan.value(False)
        plan.call("aten::exp.out", x, plan.output((1000,)))
        plan.call("executorch_prim::add.Scalar", i, 1, i)
        plan.call("executorch_prim::ge.Scalar", i, 400_000, done)
        plan.jump_false(done, 0)
        method = load(build(plan))
        signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)  # the call takes from 0.1 s
        np.testing.assert_allclose(method(np.zeros(1000, np.float32)), np.ones(1000))
        return len(handled)

    assert alone(run) > 0


def test_a_method_is_as_before_after_a_signal() -> None:
    def run() -> None:
        plan = Plan()
        x, go, y = plan.input((4,)), plan.input((), "bool"), plan.output((4,))
        plan.call("aten::mul.Scalar_out", x, 2.0, y)
        plan.call("executorch_prim::add.Scalar", plan.value(1), 1, 0)  # work without an end
        plan.jump_false(go, 0)
        method = load(build(plan))
        signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(Alarm))
        for _ in range(3):
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(Alarm):
                method(ONES, np.array(False))
            np.testing.assert_array_equal(method(3 * ONES, np.array(True)), 6 * ONES)

    alone(run)


def test_other_threads_do_not_handle_signals() -> None:
    """A call in another thread continues; the main thread is interrupted while it waits."""

    def run() -> bool:
        slow = Slow()
        method = load(build(slow_plan()))
        results: list[np.ndarray] = []
        done = threading.Event()
        thread = threading.Thread(target=lambda: (results.append(method(ONES)), done.set()))
        thread.start()
        assert slow.called.wait(30)
        signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(Alarm))
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(Alarm):
            done.wait(30)
        slow.may_return.set()
        assert done.wait(30)
        return bool((results[0] == ONES).all())

    assert alone(run)


@pytest.fixture(autouse=True)
def no_alarm() -> Iterator[None]:
    yield
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
