"""Failed allocations in XnnpackBackend: the call raises, the next call computes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("executorch")

import executorch_c
from tests.backends.xnnpack_graphs import Graph, Shape
from tests.backends.xnnpack_kinds import conv

WITHOUT = os.environ.get("EXECUTORCH_C_XNNPACK") == "0"
pytestmark = [
    pytest.mark.skipif(WITHOUT, reason="built without XNNPACK: EXECUTORCH_C_XNNPACK=0"),
    pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS is a limit on Linux alone"),
]

CODE = """
import resource, sys
import numpy as np, executorch_c
executorch_c.register_backend(__import__("executorch_c._backend_xnnpack")
                              ._backend_xnnpack.backends()[0])
program = executorch_c.Runtime.get().load_program(sys.argv[1])
method = program.load_method("forward", num_threads=1)
small, large, expected = (np.load(path) for path in sys.argv[3:6])
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + int(sys.argv[2])
free = resource.getrlimit(resource.RLIMIT_AS)
def call(x):
    return method.execute([x])[0]
calls = failed = 0
if small.size:
    call(small)
resource.setrlimit(resource.RLIMIT_AS, (limit, free[1]))
for x in (large, large):
    try:
        call(x)
    except MemoryError as error:
        failed += "xnn_" in str(error)  # the others: arrays
resource.setrlimit(resource.RLIMIT_AS, free)
for x in (large, large):
    np.testing.assert_array_equal(call(x), expected)
print(failed)
"""


def chain(shape: Shape) -> Graph:
    """Return a graph with a large intermediate result and a scalar output."""
    graph = Graph()
    x = graph.input(shape)
    for kind in ("Exp", "Negate"):
        y = graph.value(shape)
        graph.unary(kind, x, y)
        x = y
    graph.unary("GlobalAvgPooling2d", x, graph.output((1, 1)))
    return graph


MB = 1 << 20
LARGE: Shape = (1, 2048, 2048, 1)


def failures(folder: Path, graph: Graph, large: Graph, first: np.ndarray, room: int) -> int:
    """Return the number of failed calls of two with `room` bytes; the calls after them must be
    correct."""
    x = np.linspace(-1, 1, int(np.prod(large.tensor(large.inputs[0])["dims"])), dtype=np.float32)
    x = x.reshape(large.tensor(large.inputs[0])["dims"])
    runtime = executorch_c.Runtime.get()
    alone = runtime.load_program(large.program()).load_method("forward", num_threads=1)
    (expected,) = alone.execute([x])
    bounds = {
        index: large.tensor(other)["dims"]
        for index, other in zip(
            [*graph.inputs, *graph.outputs], [*large.inputs, *large.outputs], strict=True
        )
    }
    (folder / "model.pte").write_bytes(graph.program(bounds))
    for name, array in (("first", first), ("large", x), ("expected", expected)):
        np.save(folder / name, array)
    files = [folder / f"{name}.npy" for name in ("first", "large", "expected")]
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CODE, folder / "model.pte", str(room), *files],
        env=env,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return int(done.stdout)


@pytest.mark.parametrize("warm", [False, True], ids=["first", "later"])
def test_the_call_after_a_failed_allocation(tmp_path: Path, warm: bool) -> None:
    """XNNPACK computed in the missing workspace in the next call."""
    graph, large = chain((1, 2, 2, 1)), chain(LARGE)
    small = np.ones((1, 2, 2, 1) if warm else 0, np.float32)
    assert failures(tmp_path, graph, large, small, 8 * MB) == 2
    assert failures(tmp_path, graph, large, small, 2000 * MB) == 0


@pytest.mark.parametrize("room", [1, 2, 4, 8, 16])
def test_any_room(tmp_path: Path, room: int) -> None:
    """Every allocation fails once: element addresses, padding, plans."""
    make = conv("ConvTranspose2d", "fp32", (3, 4), (2, 3), (1, 0, 0, 1))
    failures(
        tmp_path,
        make((2, 5, 6, 8)),
        make((3, 200, 200, 8)),
        np.ones((2, 5, 6, 8), np.float32),
        room * MB,
    )


DECLARED = """
import sys
import numpy as np, executorch_c
executorch_c.register_backend(__import__("executorch_c._backend_xnnpack")
                              ._backend_xnnpack.backends()[0])
method = executorch_c.Runtime.get().load_program(sys.argv[1]).load_method("forward")
(y,) = method.execute([np.ones((1, 1, 5, 1), np.float32)])
# Not ru_maxrss, which begins with the size of the parent.
print(y.reshape(-1)[0], open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
"""


def test_declared_shapes_take_no_memory(tmp_path: Path) -> None:
    """A payload of 1 KB declares tensors of 4 GB; its program uses five elements."""
    graph = chain((1, 1 << 15, 1 << 15, 1))
    bounds = {graph.inputs[0]: (1, 1, 5, 1), graph.outputs[0]: (1, 1)}
    (tmp_path / "model.pte").write_bytes(graph.program(bounds))
    done = subprocess.run(
        [sys.executable, "-c", DECLARED, tmp_path / "model.pte"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    value, kilobytes = done.stdout.split()
    np.testing.assert_allclose(float(value), -np.exp(1), rtol=1e-6)
    assert int(kilobytes) < 1_000_000


def test_bytes_of_a_call() -> None:
    """Workspaces count against `max_bytes`; a smaller call fits in, and works afterwards."""
    graph = Graph()
    x, small = graph.input((1, 2, 2, 1)), (1, 2, 2, 2)
    wide, last = graph.value(small), graph.value(small)
    graph.concatenate([x, x], wide, 3)
    graph.unary("Exp", wide, last)
    graph.unary("GlobalAvgPooling2d", last, graph.output((1, 2)))
    program = executorch_c.Runtime.get().load_program(graph.program({x: LARGE}))
    method = program.load_method("forward", num_threads=1, max_bytes=20 * MB)
    with pytest.raises(executorch_c.Error, match=r"max_bytes="):
        method.execute([np.ones(LARGE, np.float32)])
    (y,) = method.execute([np.zeros((1, 2, 2, 1), np.float32)])
    np.testing.assert_allclose(y, [[1, 1]], rtol=1e-6)


def test_bytes_of_packed_weights() -> None:
    """Packed weights count against `max_bytes` of the load."""
    graph = Graph()
    x, y = graph.input((1, 1024)), graph.output((1, 1024))
    weight = graph.constant(np.ones((1024, 1024), np.float32))
    graph.linear(x, weight, graph.constant(np.zeros(1024, np.float32)), y)
    program = executorch_c.Runtime.get().load_program(graph.program())
    with pytest.raises(executorch_c.MemoryAllocationFailedError, match=r"max_bytes="):
        program.load_method("forward", max_bytes=3 * MB)
    (found,) = program.load_method("forward").execute([np.ones((1, 1024), np.float32)])
    np.testing.assert_array_equal(found, np.full((1, 1024), 1024, np.float32))


HUGE = """
import ctypes, mmap, sys, time
import numpy as np, executorch_c
executorch_c.register_backend(__import__("executorch_c._backend_xnnpack")
                              ._backend_xnnpack.backends()[0])
THP_DISABLE, COLLAPSE, MB = 41, 25, 1 << 20  # of prctl, of madvise
c = ctypes.CDLL(None)
def huge():
    return int(open("/proc/self/smaps_rollup").read().split("AnonHugePages:")[1].split()[0]) // 1024
block = mmap.mmap(-1, 4 * MB, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
block.write(bytes(4 * MB))
at = (ctypes.addressof(ctypes.c_char.from_buffer(block)) + 2 * MB - 1) & -2 * MB
if c.madvise(ctypes.c_void_p(at), ctypes.c_size_t(2 * MB), COLLAPSE):
    sys.exit(77)
x = np.random.default_rng(0).normal(size=(1, 2048)).astype(np.float32)
c.prctl(THP_DISABLE, 1, 0, 0, 0)
method = executorch_c.Runtime.get().load_program(sys.argv[1]).load_method("forward")
before, end = huge(), time.monotonic() + 60
c.prctl(THP_DISABLE, 0, 0, 0, 0)  # a long first call may ask for all of them already
expected = method.execute([x])[0]
while huge() < before + 20 and time.monotonic() < end:
    np.testing.assert_array_equal(method.execute([x])[0], expected)
np.testing.assert_array_equal(method.execute([x])[0], expected)
print(huge() - before)
"""


def test_large_weights_move_to_huge_pages(tmp_path: Path) -> None:
    """24 MB of weights, loaded into small pages, are in huge pages after some calls, with the same
    bits."""
    graph = Graph()
    weight = np.random.default_rng(1).normal(size=(3072, 2048)).astype(np.float32)
    bias = graph.constant(np.zeros(3072, np.float32))
    graph.linear(graph.input((1, 2048)), graph.constant(weight), bias, graph.output((1, 3072)))
    (tmp_path / "model.pte").write_bytes(graph.program())
    done = subprocess.run(
        [sys.executable, "-c", HUGE, tmp_path / "model.pte"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    if done.returncode == 77:
        pytest.skip("this kernel has no MADV_COLLAPSE")
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 20
