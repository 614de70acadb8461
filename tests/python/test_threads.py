"""Threads: methods release the GIL while they run, and serialise their calls."""

import gc
import sys
import threading
import time
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import executorch_c
from tests.at_once import run_all
from tests.python import small_programs


@cache
def long_running(seconds: float = 0.3) -> tuple[executorch_c.Method, np.ndarray]:
    """Return a method that runs for about the given time, and its input."""
    for size in (256, 512, 1024, 2048, 4096):
        method = small_programs.load(small_programs.slow_pte(size), "forward")
        x = np.ones((size, size), np.float32)
        start = time.perf_counter()
        method(x, x)
        if time.perf_counter() - start > seconds:
            return method, x
    raise AssertionError("matrix products are too fast for this test")


def test_the_gil_is_released() -> None:
    method, x = long_running()
    ticks: list[float] = []
    done = threading.Event()

    def tick() -> None:
        while not done.wait(0.001):
            ticks.append(time.perf_counter())

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.perf_counter()
    method(x, x)
    end = time.perf_counter()
    done.set()
    thread.join()
    # With the GIL held, ticks happen only before and after the run.
    middle = [t for t in ticks if start + (end - start) * 0.2 < t < start + (end - start) * 0.8]
    assert len(middle) > 2


def test_methods_of_their_own_at_once() -> None:
    program = executorch_c.Runtime.get().load_program(small_programs.dynamic_pte((64, 64)))

    def work(seed: int) -> Callable[[], None]:
        def run() -> None:
            method = program.load_method("forward", kernels="reference")  # a new one each time
            rng = np.random.default_rng(seed)
            for _ in range(200):
                x = rng.random((int(rng.integers(65)), 64), dtype=np.float32)
                assert_array_equal(method(x, x), x + x)

        return run

    run_all(*(work(seed) for seed in range(8)))


def test_one_method_from_many_threads() -> None:
    method = small_programs.load(small_programs.counter_pte(), "forward")
    seen: list[float] = []

    def run() -> None:
        one = np.ones(2, np.float32)
        for _ in range(300):
            a, b = method(one)
            assert a == b
            seen.append(float(a))

    run_all(*[run] * 8)
    assert sorted(seen) == list(range(1, 2401))


def test_a_waiting_thread_does_not_hold_the_gil() -> None:
    method, x = long_running()
    order: list[str] = []

    def call() -> None:
        method(x, x)
        order.append("call")

    def tick() -> None:
        time.sleep(0.05)
        order.append("tick")

    run_all(call, call, tick)
    assert order[0] == "tick"


def test_loading_a_method_from_many_threads_gives_one() -> None:
    program = executorch_c.Runtime.get().load_program(small_programs.add_pte())
    loaded: list[executorch_c.Method] = []
    run_all(*[lambda: loaded.append(program.load_method("forward"))] * 8)
    assert len(loaded) == 8 and len(set(map(id, loaded))) == 1


def test_a_method_can_call_itself_while_inputs_are_read() -> None:
    method = small_programs.load(small_programs.add_pte(), "forward")
    x = np.ones((2, 2), np.float32)

    class Nested:
        def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
            return method(x, x)  # type: ignore[return-value]

    assert_array_equal(method(Nested(), x), x * 3)


def test_loading_and_freeing_at_once() -> None:
    pte = small_programs.add_pte()
    x = np.ones((2, 2), np.float32)

    def run() -> None:
        for _ in range(50):
            program = executorch_c.Runtime.get().load_program(pte)
            assert_array_equal(program.load_method("forward")(x, x), x * 2)

    run_all(*[run] * 8)


@pytest.mark.parametrize("attribute", ["reset", "memory"])
def test_other_calls_wait_for_a_running_method(attribute: str) -> None:
    method, x = long_running(0.05)
    run_all(*[lambda: method(x, x)] * 2, *[lambda: getattr(method, attribute)()] * 4)


def test_a_call_from_the_garbage_collector_does_not_hang() -> None:
    """Outputs are created while the method is locked; many lists trigger a collection."""
    pte = small_programs.kinds_pte([], [[..., ...], *[[1, 2]] * 100])
    method = small_programs.load(pte, "forward")
    refused: list[executorch_c.InvalidStateError] = []
    x = np.ones(2, np.float32)

    def collecting(phase: str, info: dict[str, int]) -> None:
        try:
            method(x)
        except executorch_c.InvalidStateError as error:
            refused.append(error)

    threshold = gc.get_threshold()
    gc.callbacks.append(collecting)
    gc.set_threshold(1)
    try:
        for _ in range(20):
            plus, (one, two), *ints = method(x)
            assert ints == [[1, 2]] * 100
            assert_array_equal([plus, one, two], [x + 1, x, x])
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(collecting)
    if sys.version_info < (3, 12):  # later versions collect between bytecodes only
        assert "is running in this thread" in str(refused[0])
