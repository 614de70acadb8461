"""Threads of XnnpackBackend: workers that sleep when idle (third_party/workers.c), calls at the
same time, delegates that are repeated, forked processes, which have none of their parent's.

`csrc/testing/test_delegate.c` counts the calls of repeated delegates.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import executorch_c as et
from executorch_c import Method, Runtime
from tests import exports, process
from tests.at_once import run_all
from tests.backends import xnnpack_flow, xnnpack_programs
from tests.backends.xnnpack_graphs import Graph, Shape
from tests.backends.xnnpack_series import needs_speed, needs_xnnpack
from tests.backends.xnnpack_kinds import conv
from tests.backends.xnnpack_payload import BACKEND
from tests.busy import busy

pytestmark = needs_xnnpack


def load(pte: bytes, mode: int | None = None, **options: Any) -> Method:
    """Load a method with a way of sharing workspaces."""
    if mode is not None:
        options["backend_options"] = {BACKEND: {"workspace_sharing_mode": mode}}
    return Runtime.get().load_program(pte).load_method("forward", **options)


def with_workers(method: Method) -> Method:
    if method.num_threads == 1:
        pytest.skip("built without pthreadpool")
    return method


# ---- workers ------------------------------------------------------------------------------------

SHAPE: Shape = (2, 60, 60, 8)


def image() -> tuple[Graph, np.ndarray]:
    graph = conv("Conv2d", "fp32", (3, 3), (1, 1), (1, 1, 1, 1))(SHAPE)
    return graph, np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)


def test_workers_sleep_after_a_call() -> None:
    """Three workers that spin for 20 ms each, as pthreadpool's do, would use 60 ms."""
    graph, x = image()
    method = with_workers(graph.load(num_threads=4))
    used = []
    for _ in range(10):
        method.execute([x])
        before = time.process_time()
        time.sleep(0.05)
        used.append(time.process_time() - before)
    assert sorted(used)[5] < 0.005, used


@pytest.mark.parametrize("hogs", [0, 4])
def test_every_element_in_any_thread(hogs: int) -> None:
    graph, x = image()
    (expected,) = graph.run(x, num_threads=1)
    methods = [graph.load(num_threads=threads) for threads in (2, 5, 40)]
    with busy(hogs):
        for _ in range(5):
            for method in methods:
                np.testing.assert_array_equal(method.execute([x])[0], expected)


def spent() -> dict[str, int]:
    """Return the nanoseconds of CPU that each thread of this process has used."""
    times = {}
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            times[task.name] = int((task / "schedstat").read_text().split()[0])
    return times


@needs_speed
def test_small_products_of_dynamic_shapes_wake_no_thread() -> None:
    """With 64 rows the nodes are worth a second thread, with one they are not: one language model's
    program has both."""
    net = torch.nn.Sequential(*(torch.nn.Linear(128, 128) for _ in range(8)))
    shapes = ({0: torch.export.Dim("n", min=1, max=64)},)
    pte = exports.lowered(net, torch.zeros(4, 128), delegated=True, dynamic_shapes=shapes)
    method = with_workers(load(pte, num_threads=2))
    many, one = np.ones((64, 128), np.float32), np.ones((1, 128), np.float32)
    used = []
    for x in (many, one):
        for _ in range(50):
            method.execute([x])
        time.sleep(0.01)  # workers spin before they sleep
        before, until = spent(), time.thread_time() + 0.5  # many ticks of schedstat
        while time.thread_time() < until:
            method.execute([x])
        used.append(sorted(now - before.get(name, 0) for name, now in spent().items())[-2:])
    (helper, _), (idle, alone) = used
    assert helper > 0, "the pool has a thread"
    assert idle < alone / 20


@pytest.mark.sweep(3)
@pytest.mark.parametrize("mode", range(4))
@pytest.mark.parametrize("shared", [True, False], ids=["one_program", "eight_programs"])
def test_eight_threads_are_as_good_as_one(mode: int, shared: bool) -> None:
    """Eight threads, with methods of one or eight programs, give the results of one thread."""
    lowered = xnnpack_programs.classifier()
    expected = [load(lowered.pte).execute(call.inputs)[0] for call in lowered.calls]
    program = Runtime.get().load_program(lowered.pte)
    options = {BACKEND: {"workspace_sharing_mode": mode}}

    def work() -> None:
        mine = program if shared else Runtime.get().load_program(lowered.pte)
        method = mine.load_method("forward", backend_options=options)
        for _ in range(20):
            for call, each in zip(lowered.calls, expected, strict=True):
                np.testing.assert_array_equal(method.execute(call.inputs)[0], each)

    run_all(*[work] * 8)


# ---- repeated delegates -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recurrent() -> tuple[torch.nn.Module, bytes]:
    """Four steps of an LSTM are delegates with kernel calls between them."""
    torch.manual_seed(0)
    lstm = torch.nn.LSTM(4, 24, batch_first=True)
    return lstm, exports.lowered(lstm, torch.randn(1, 4, 4), delegated=True)


@pytest.mark.parametrize("threads", [1, 2])
def test_results_of_each_call(recurrent: tuple[torch.nn.Module, bytes], threads: int) -> None:
    """Results of every call, with traces and resets between them."""
    model, program = recurrent
    method = load(program, num_threads=threads)
    for seed in range(6):
        x = torch.randn(1, 4, 4, generator=torch.Generator().manual_seed(seed))
        if seed == 3:
            with method.tracing(values=True) as trace:
                method.execute([x.numpy()])
            assert any(event.delegate is not None for event in trace.events)
        if seed == 4:
            method.reset()
        outputs = method.execute([x.numpy()])
        y, (h, c) = model(x)
        for output, expected in zip(outputs, (y, h, c), strict=True):
            np.testing.assert_allclose(output, expected.detach().numpy(), rtol=1e-5, atol=1e-6)
        for output, first in zip(outputs, load(program).execute([x.numpy()]), strict=True):
            np.testing.assert_array_equal(output, first)


def test_two_methods_that_share_a_workspace(recurrent: tuple[torch.nn.Module, bytes]) -> None:
    _, program = recurrent
    methods = [load(program, mode=2) for _ in range(2)]
    x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(1, 4, 4)
    expected = load(program).execute([x])
    for method in methods * 3:
        for output, first in zip(method.execute([x]), expected, strict=True):
            np.testing.assert_array_equal(output, first)


# ---- forked processes ---------------------------------------------------------------------------

HEAD = """
import faulthandler, os, signal, sys, threading, time
import numpy as np
import executorch_c
faulthandler.dump_traceback_later(60, exit=True)
runtime, file = executorch_c.Runtime.get(), sys.argv[1]

def fork(seconds, call):
    pid = os.fork()
    if not pid:
        signal.alarm(seconds)
        os._exit(0 if call() else 4)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""
OWN = """
method = runtime.load_program(file).load_method("forward", num_threads=3)
if method.num_threads == 1:
    sys.exit("built without pthreadpool")
tasks = lambda: len(os.listdir("/proc/self/task"))
x = np.linspace(-1, 1, 200 * 300, dtype=np.float32).reshape(200, 300)
expected = method(x)
assert tasks() >= 3, "on one thread"
for _ in range(2):
    fork(30, lambda: all(np.array_equal(method(x), expected) for _ in range(3)) and tasks() == 3)
assert np.array_equal(method(x), expected)
"""
BESIDE = """
action = sys.argv[2]
mode = {"XnnpackBackend": {"workspace_sharing_mode": 1 if action == "run" else 3}}
program = runtime.load_program(file)
load = lambda name: program.load_method(name, num_threads=2, backend_options=mode)
method, other, ended = load("small"), load("large"), False
x = np.linspace(-1, 1, 480, dtype=np.float32).reshape(1, 480)
(expected,) = method.execute([x])

def work():
    while not ended:
        if action == "load":
            load("large")
        else:
            other.execute([x])

def call():
    try:
        return np.array_equal(method.execute([x])[0], expected)
    except executorch_c.InvalidStateError as error:
        return action == "run" and "shares this one's workspace" in str(error)

def both():
    fine = call()
    method = runtime.load_program(file).load_method("small", num_threads=2)
    return fine and np.array_equal(method.execute([x])[0], expected)

if action == "load":
    del other  # so that its weights are packed again
thread = threading.Thread(target=work)
thread.start()
for _ in range(8):
    time.sleep(0.005)
    fork(10, both)
ended = True
thread.join()
"""


def run(code: str, file: Path, *args: str) -> None:
    """Run code in another process, which has no threads of this one, and not in the sources, whose
    package would be imported."""
    path = Path(et.__file__).parents[1]
    env = {**os.environ, "PYTHONPATH": str(path), "OPENBLAS_NUM_THREADS": "1"}
    process.python("-W", "ignore", "-c", HEAD + code, file, *args, env=env, cwd=file.parent)


def test_a_forked_process_has_threads_of_its_own(tmp_path: Path) -> None:
    linear = torch.nn.Linear
    model = torch.nn.Sequential(linear(300, 400), torch.nn.ReLU(), linear(400, 90))
    file = tmp_path / "model.pte"
    file.write_bytes(exports.lowered(model, torch.zeros(200, 300), delegated=True))
    run(OWN, file)


def make_methods() -> bytes:
    x = torch.zeros(1, 480)
    methods = {}
    for name, layers in (("small", 1), ("large", 12)):
        net = torch.nn.Sequential(*(torch.nn.Linear(480, 480) for _ in range(layers)))
        methods[name] = torch.export.export(net.eval(), (x,))
    return exports.lowered(methods, delegated=True)


@pytest.mark.parametrize("action", ["load", "run"])
def test_another_thread_uses_what_the_method_shares(action: str, tmp_path: Path) -> None:
    """It packs weights of the program (a fork waits), or has the workspace (the child refuses)."""
    (tmp_path / "model.pte").write_bytes(xnnpack_flow.cached("fork", __file__, make_methods))
    run(BESIDE, tmp_path / "model.pte", action)
