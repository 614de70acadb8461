"""Pool threads (third_party/workers.c): they sleep when idle, and results do not depend on
scheduling."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("executorch")

import executorch_c as et
import torch
from tests.busy import busy
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from tests.exports import export
from tests.backends.xnnpack_graphs import Graph, Shape
from tests.backends.xnnpack_kinds import conv

WITHOUT = os.environ.get("EXECUTORCH_C_XNNPACK") == "0"
pytestmark = pytest.mark.skipif(WITHOUT, reason="built without XNNPACK: EXECUTORCH_C_XNNPACK=0")

SHAPE: Shape = (2, 60, 60, 8)


def method(graph: Graph, threads: int) -> et.Method:
    program = et.Runtime.get().load_program(graph.program())
    return program.load_method("forward", num_threads=threads)


def image() -> tuple[Graph, np.ndarray]:
    graph = conv("Conv2d", "fp32", (3, 3), (1, 1), (1, 1, 1, 1))(SHAPE)
    return graph, np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)


def test_workers_sleep_after_a_call() -> None:
    """Three workers that spin for 20 ms each, as pthreadpool's do, would use 60 ms."""
    graph, x = image()
    one = method(graph, 4)
    if one.num_threads == 1:
        pytest.skip("built without pthreadpool")
    used = []
    for _ in range(10):
        one.execute([x])
        before = time.process_time()
        time.sleep(0.05)
        used.append(time.process_time() - before)
    assert sorted(used)[5] < 0.005, used


@pytest.mark.parametrize("hogs", [0, 4])
def test_every_element_in_any_thread(hogs: int) -> None:
    graph, x = image()
    (expected,) = method(graph, 1).execute([x])
    methods = [method(graph, threads) for threads in (2, 5, 40)]
    with busy(hogs):
        for _ in range(20):
            for one in methods:
                (found,) = one.execute([x])
                np.testing.assert_array_equal(found, expected)


def spent() -> dict[str, int]:
    """Return the nanoseconds of CPU that each thread of this process has used."""
    found = {}
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            found[task.name] = int((task / "schedstat").read_text().split()[0])
    return found


def test_small_products_of_dynamic_shapes_wake_no_thread() -> None:
    """With 64 rows the nodes are worth a second thread, with one they are not: one language model's
    program has both."""
    net = torch.nn.Sequential(*(torch.nn.Linear(128, 128) for _ in range(8)))
    shapes = ({0: torch.export.Dim("n", min=1, max=64)},)
    pte = export(net, torch.zeros(4, 128), dynamic_shapes=shapes, partitioner=XnnpackPartitioner())
    method = et.Runtime.get().load_program(pte).load_method("forward", num_threads=2)
    if method.num_threads == 1:
        pytest.skip("built without pthreadpool")
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
