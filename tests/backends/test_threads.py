"""Threads of methods: their number, start on first use, sharing, and fork."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import executorch_c
from tests import process
from tests.at_once import run_each
from tests.backends.demo_programs import lowered, seeded

runtime = executorch_c.Runtime.get()
SHAPES = (90, 130), (130, 170)
"""Size of a matrix product that the demo backend parallelises."""


@pytest.fixture(scope="module")
def mm_pte() -> bytes:
    return lowered(torch.mm, seeded(*SHAPES)).buffer()


def load(pte: bytes, **options: Any) -> executorch_c.Method:
    return runtime.load_program(pte).load_method("forward", **options)


def pooled() -> bool:
    """Return True if the package was built with pthreadpool."""
    add = Path(executorch_c.__file__).parent / "examples" / "digits.pte"
    return runtime.load_program(add).load_method("forward", num_threads=2).num_threads == 2


needs_pools = pytest.mark.skipif(not pooled(), reason="built without pthreadpool: one thread")


def test_the_number_is_the_processes_or_the_methods(mm_pte: bytes) -> None:
    cpus = runtime.num_threads
    assert load(mm_pte).num_threads == cpus
    assert 1 <= cpus <= (len(os.sched_getaffinity(0)) if pooled() else 1)
    program = runtime.load_program(mm_pte)
    assert program.load_method("forward", num_threads=None) is program.load_method("forward")
    assert program.load_method("forward", num_threads=1) is not program.load_method("forward")
    try:
        runtime.num_threads = 5
        assert runtime.num_threads == load(mm_pte).num_threads == (5 if pooled() else 1)
        assert load(mm_pte, num_threads=1).num_threads == 1
        assert load(mm_pte, num_threads=np.int64(4)).num_threads == (4 if pooled() else 1)
    finally:
        del runtime.num_threads
    assert runtime.num_threads == cpus


@pytest.mark.parametrize("number", [0, -1, 257, 2**70])
def test_numbers_out_of_range(mm_pte: bytes, number: int) -> None:
    with pytest.raises(ValueError, match=f"between 1 and 256, not {number}"):
        load(mm_pte, num_threads=number)
    with pytest.raises(ValueError, match="between 1 and 256"):
        runtime.num_threads = number


@pytest.mark.parametrize("number", ["2", 2.0, True, [2]])
def test_values_that_are_not_numbers(mm_pte: bytes, number: Any) -> None:
    with pytest.raises(TypeError):
        load(mm_pte, num_threads=number)
    with pytest.raises(TypeError):
        runtime.num_threads = number


def test_results_do_not_depend_on_the_number(mm_pte: bytes) -> None:
    inputs = [x.numpy() for x in seeded(*SHAPES)]
    first = load(mm_pte, num_threads=1)(*inputs)
    np.testing.assert_allclose(first, inputs[0] @ inputs[1], rtol=1e-4, atol=1e-5)
    for number in (2, 3, 8):
        np.testing.assert_array_equal(load(mm_pte, num_threads=number)(*inputs), first)


def test_eight_threads_run_eight_methods(mm_pte: bytes) -> None:
    inputs = [x.numpy() for x in seeded(*SHAPES)]
    methods = [load(mm_pte, num_threads=2) for _ in range(8)]
    expected = methods[0](*inputs)
    wrong: list[int] = []

    def run(number: int) -> None:
        for _ in range(10):
            if not np.array_equal(methods[number](*inputs), expected):
                wrong.append(number)

    run_each(8, run)
    assert not wrong


# ---- in a separate process -----------------------------------------------------------------

HEAD = """
import os, sys, threading, time
import numpy as np
import executorch_c

pte = open(sys.argv[1], "rb").read()
executorch_c.register_backend(__import__("executorch_c._backend_demo").
                              _backend_demo.backends()[0])
def load(threads):
    return executorch_c.Runtime.get().load_program(pte).load_method("forward", num_threads=threads)
def count():
    return len(os.listdir("/proc/self/task"))
def falls_to(number, seconds=10):
    # A thread that was joined stays in /proc for a moment.
    end = time.monotonic() + seconds
    while count() > number and time.monotonic() < end:
        time.sleep(0.01)
    return count() == number
rng = np.random.default_rng(1)
a, b = (rng.random(shape, np.float32) for shape in %r)
before = count()
"""

STARTING = """
methods = [load(3), load(3), load(2), load(1)]
assert count() == before, "loading starts threads"
methods[3](a, b)
assert count() == before, "one thread is enough"
methods[0](a, b)
assert count() == before + 2, count()
methods[1](a, b)
assert count() == before + 2, "methods with the same number share their threads"
methods[2](a, b)
assert count() == before + 3
del methods[:2]
assert falls_to(before + 1), "threads go away with the last method"
"""

FORKING = """
import faulthandler, time
faulthandler.dump_traceback_later(60, exit=True)
methods = [load(3) for _ in range(3)]
expected = methods[0](a, b)
stop = threading.Event()
def busy():
    while not stop.is_set():
        methods[1](a, b)
thread = threading.Thread(target=busy)
thread.start()
def child():
    import signal
    signal.alarm(30)
    ok = count() == 1 and all(np.array_equal(m(a, b), expected) for m in (methods[0], methods[2]))
    started = count()
    grandchild = os.fork()
    if not grandchild:
        os._exit(0 if np.array_equal(methods[0](a, b), expected) else 5)
    code = os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1])
    return code or (0 if ok and started == 3 and np.array_equal(load(2)(a, b), expected) else 4)
for _ in range(5):
    pid = os.fork()
    if not pid:
        os._exit(child())
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code == 0, code
    assert np.array_equal(methods[0](a, b), expected)
stop.set()
thread.join()
"""


@needs_pools
@pytest.mark.parametrize("code", [STARTING, FORKING], ids=["starting", "forking"])
def test_in_a_process(mm_pte: bytes, tmp_path: Path, code: str) -> None:
    file = tmp_path / "mm.pte"
    file.write_bytes(mm_pte)
    root = Path(executorch_c.__file__).parents[1]
    env = {**os.environ, "PYTHONPATH": str(root), "OPENBLAS_NUM_THREADS": "1"}
    code = HEAD % (SHAPES,) + code
    process.python("-W", "ignore", "-c", code, file, env=env, cwd=tmp_path, timeout=120)
