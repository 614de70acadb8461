"""XnnpackBackend in a forked process, which has none of its parent's threads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import executorch_c
import pytest
import torch
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


def test_a_forked_process_has_threads_of_its_own(tmp_path: Path) -> None:
    linear = torch.nn.Linear
    model = torch.nn.Sequential(linear(300, 400), torch.nn.ReLU(), linear(400, 90))
    exported = torch.export.export(model.eval(), (torch.zeros(200, 300),))
    lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    file = tmp_path / "model.pte"
    file.write_bytes(lowered.to_executorch().buffer)
    root = Path(executorch_c.__file__).parents[1]
    env = {**os.environ, "PYTHONPATH": str(root), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", CODE, file], env=env, cwd=tmp_path,
                          capture_output=True, text=True, timeout=120)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
