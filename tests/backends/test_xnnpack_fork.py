"""XnnpackBackend in a forked process, which has none of its parent's threads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import executorch_c
import pytest
import torch
from tests.backends import xnnpack_flow
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower

pytest.importorskip("executorch_c._backend_xnnpack")

CODE = """
import faulthandler, os, signal, sys
import numpy as np
import executorch_c
faulthandler.dump_traceback_later(60, exit=True)
executorch_c.register_backend(__import__("executorch_c._backend_xnnpack")
                              ._backend_xnnpack.backends()[0])
runtime = executorch_c.Runtime.get()
method = runtime.load_program(sys.argv[1]).load_method("forward", num_threads=3)
if method.num_threads == 1:
    sys.exit("built without pthreadpool")
tasks = lambda: len(os.listdir("/proc/self/task"))
x = np.linspace(-1, 1, 200 * 300, dtype=np.float32).reshape(200, 300)
expected = method(x)
assert tasks() >= 3, "on one thread"
for _ in range(2):
    pid = os.fork()
    if not pid:
        signal.alarm(30)
        same = all(np.array_equal(method(x), expected) for _ in range(3))
        os._exit(0 if same and tasks() == 3 else 4)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert np.array_equal(method(x), expected)
"""


BESIDE = """
import faulthandler, os, signal, sys, threading, time
import numpy as np
import executorch_c
faulthandler.dump_traceback_later(60, exit=True)
runtime, file, action = executorch_c.Runtime.get(), sys.argv[1], sys.argv[2]
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

if action == "load":
    del other  # so that its weights are packed again
thread = threading.Thread(target=work)
thread.start()
for _ in range(8):
    time.sleep(0.005)
    pid = os.fork()
    if not pid:
        signal.alarm(10)
        fine = call()
        method = runtime.load_program(file).load_method("small", num_threads=2)
        os._exit(0 if fine and np.array_equal(method.execute([x])[0], expected) else 4)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
ended = True
thread.join()
"""


def test_a_forked_process_has_threads_of_its_own(tmp_path: Path) -> None:
    linear = torch.nn.Linear
    model = torch.nn.Sequential(linear(300, 400), torch.nn.ReLU(), linear(400, 90))
    exported = torch.export.export(model.eval(), (torch.zeros(200, 300),))
    lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    file = tmp_path / "model.pte"
    file.write_bytes(lowered.to_executorch().buffer)
    run(CODE, file)


def run(code: str, file: Path, *args: str) -> None:
    """Run code elsewhere: in the sources, their package would be imported."""
    root = Path(executorch_c.__file__).parents[1]
    env = {**os.environ, "PYTHONPATH": str(root), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, file, *args],
        env=env,
        cwd=file.parent,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def make_methods() -> bytes:
    def net(layers: int) -> torch.nn.Module:
        return torch.nn.Sequential(*(torch.nn.Linear(480, 480) for _ in range(layers))).eval()

    x = torch.zeros(1, 480)
    methods = {
        name: torch.export.export(net(layers), (x,))
        for name, layers in (("small", 1), ("large", 12))
    }
    return bytes(xnnpack_flow.lower(methods).buffer)


@pytest.mark.parametrize("action", ["load", "run"])
def test_another_thread_uses_what_the_method_shares(action: str, tmp_path: Path) -> None:
    """It packs weights of the program (a fork waits), or has the workspace (the child refuses)."""
    (tmp_path / "model.pte").write_bytes(xnnpack_flow.cached("fork", __file__, make_methods))
    run(BESIDE, tmp_path / "model.pte", action)
