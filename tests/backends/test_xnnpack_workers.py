"""Pool threads (get_xnnpack/workers.h): they sleep when idle, and results do not depend on
scheduling."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest

pytest.importorskip("executorch")

import executorch_c as et
from busy import busy
from xnnpack_graphs import Graph, Shape
from xnnpack_kinds import conv

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
