"""Memory of XnnpackBackend: failed allocations, limits, and workspaces that delegates share."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import executorch_c
from executorch_c import Program, Runtime
from tests.backends import xnnpack_programs
from tests.backends.xnnpack_graphs import Graph, Shape
from tests.backends.xnnpack_kinds import conv
from tests.backends.xnnpack_methods import load, run_code
from tests.backends.xnnpack_payload import edited
from tests.backends.xnnpack_series import needs_speed, needs_xnnpack
from tests.backends.xnnpack_zoo import TABLE
from tests.exports import lowered
from tests.resident import resident_bytes

pytestmark = [
    needs_xnnpack,
    pytest.mark.skipif(sys.platform != "linux", reason="/proc and RLIMIT_AS are of Linux"),
]
MB = 1 << 20


# ---- failed allocations: the call raises, the next call computes ---------------------------------

CODE = """
import resource, sys
import numpy as np, executorch_c
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
    x = graph.step("Negate", graph.step("Exp", graph.input(shape)))
    graph.unary("GlobalAvgPooling2d", x, graph.output((1, 1)))
    return graph


LARGE: Shape = (1, 2048, 2048, 1)


def failures(folder: Path, graph: Graph, large: Graph, first: np.ndarray, free: int) -> int:
    """Return the number of failed calls of two with `free` bytes; the calls after them must be
    correct."""
    shape = large.dims(large.inputs[0])
    x = np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    (expected,) = large.run(x, num_threads=1)
    ends = ([*one.inputs, *one.outputs] for one in (graph, large))
    bounds = {index: large.dims(other) for index, other in zip(*ends, strict=True)}
    (folder / "model.pte").write_bytes(graph.program(bounds))
    files = []
    for name, array in (("first", first), ("large", x), ("expected", expected)):
        files.append(folder / f"{name}.npy")
        np.save(files[-1], array)
    env = {"OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
    (count,) = run_code(CODE, folder / "model.pte", free, *files, **env)
    return int(count)


@pytest.mark.parametrize("warm", [False, True], ids=["first", "later"])
def test_the_call_after_a_failed_allocation(tmp_path: Path, warm: bool) -> None:
    """XNNPACK computed in the missing workspace in the next call."""
    graph, large = chain((1, 2, 2, 1)), chain(LARGE)
    small = np.ones((1, 2, 2, 1) if warm else 0, np.float32)
    assert failures(tmp_path, graph, large, small, 8 * MB) == 2
    assert failures(tmp_path, graph, large, small, 2000 * MB) == 0


@pytest.mark.sweep(2)
@pytest.mark.parametrize("megabytes", [1, 2, 4, 8, 16])
def test_any_free_memory(tmp_path: Path, megabytes: int) -> None:
    """Every allocation fails once: element addresses, padding, plans."""
    make = conv("ConvTranspose2d", "fp32", (3, 4), (2, 3), (1, 0, 0, 1))
    first = np.ones((2, 5, 6, 8), np.float32)
    failures(tmp_path, make(first.shape), make((3, 200, 200, 8)), first, megabytes * MB)


DECLARED = """
import sys
import numpy as np, executorch_c
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
    value, kilobytes = run_code(DECLARED, tmp_path / "model.pte")
    np.testing.assert_allclose(float(value), -np.exp(1), rtol=1e-6)
    assert int(kilobytes) < 1_000_000


def test_bytes_of_a_call() -> None:
    """Workspaces count against `max_bytes`; a smaller call fits in, and works afterwards."""
    graph = Graph()
    x, wide = graph.input((1, 2, 2, 1)), graph.value((1, 2, 2, 2))
    graph.concatenate([x, x], wide, 3)
    graph.unary("GlobalAvgPooling2d", graph.step("Exp", wide), graph.output((1, 2)))
    method = graph.load({x: LARGE}, num_threads=1, max_bytes=20 * MB)
    with pytest.raises(executorch_c.Error, match=r"max_bytes="):
        method.execute([np.ones(LARGE, np.float32)])
    (y,) = method.execute([np.zeros((1, 2, 2, 1), np.float32)])
    np.testing.assert_allclose(y, [[1, 1]], rtol=1e-6)


# ---- repetitions --------------------------------------------------------------------------------


def assert_constant(action: Callable[[], object], times: int, slack: int = MB) -> None:
    """Assert that `times` repetitions after a warm-up grow the process by less than `slack`."""
    for _ in range(max(times // 5, 20)):
        action()
    gc.collect()
    before = resident_bytes("RssAnon")
    for _ in range(times):
        action()
    gc.collect()
    assert resident_bytes("RssAnon") - before < slack


@pytest.mark.parametrize("times", [1_000, pytest.param(10_000, marks=pytest.mark.large)])
def test_calls_do_not_grow_memory(times: int) -> None:
    program = xnnpack_programs.classifier()
    method = load(program.pte)
    calls = iter(range(times * 2))

    def call() -> None:
        method.execute(program.calls[next(calls) % len(program.calls)].inputs)

    assert_constant(call, times)


@pytest.mark.sweep(2)
@pytest.mark.parametrize("mode", range(4))
def test_loading_does_not_grow_memory(mode: int) -> None:
    program = xnnpack_programs.classifier()

    def once() -> None:
        method = load(program.pte, mode=mode)
        method.execute(program.calls[1].inputs)

    assert_constant(once, 100)


def test_loading_in_vain_does_not_grow_memory() -> None:
    pte = edited(TABLE.load("linear-float32").pte, lambda p, named: p, drop_named=True)

    def once() -> None:
        with pytest.raises(executorch_c.Error):
            load(pte)

    assert_constant(once, 300)


# ---- workspaces ---------------------------------------------------------------------------------

NONE, PROGRAM, GLOBAL, METHOD = range(4)


class Split(nn.Module):
    """Two delegates of different size around an operator that is not delegated."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Sequential(nn.Linear(8, 512), nn.ReLU(), nn.Linear(512, 8), nn.Sigmoid())
        self.two = nn.Sequential(nn.Linear(8, 8), nn.Sigmoid(), nn.Linear(8, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.two(torch.cumsum(self.one(x), 1))


def split(rows: int) -> tuple[Program, np.ndarray, np.ndarray]:
    """Return a program of two delegates, its input and eager's output."""
    torch.manual_seed(0)
    return delegated(Split(), torch.randn(rows, 8))


def delegated(net: nn.Module, x: torch.Tensor) -> tuple[Program, np.ndarray, np.ndarray]:
    program = Runtime.get().load_program(lowered(net, x, delegated=True))
    return program, x.numpy(), net(x).detach().numpy()


def sizes(method: Any) -> list[int]:
    return [each["figures"]["workspace_bytes"] for each in method.backend_report()]


def ending(x: np.ndarray, after: int) -> np.ndarray:
    """Return a copy that ends `after` bytes after the end of a page."""
    memory = np.empty(x.nbytes + 8192, np.uint8)
    start = (after - memory.ctypes.data - x.nbytes) % 4096
    placed = memory[start : start + x.nbytes].view(x.dtype).reshape(x.shape)
    placed[...] = x
    return placed


def test_planned_inputs_are_not_copied() -> None:
    """XNNPACK may read beyond an input: a caller's array at the end of a page is copied. So was
    planned memory, where tensors of whole pages follow one another."""
    program, x, expected = split(128)
    method = load(program, num_threads=1)
    for after, copied in ((64, [0, 0]), (0, [4096, 0])):
        np.testing.assert_allclose(method(ending(x, after)), expected, rtol=1e-4, atol=1e-5)
        assert [each["figures"]["copied_bytes"] for each in method.backend_report()] == copied


def test_delegates_of_a_method_need_the_memory_of_the_largest() -> None:
    program, x, expected = split(16)
    apart, together, default = (load(program, mode=mode) for mode in (NONE, METHOD, None))
    for method in (apart, together, default):
        np.testing.assert_allclose(method(x), expected, rtol=1e-5, atol=1e-6)
    assert len(sizes(apart)) == 2
    assert min(sizes(apart)) < max(sizes(apart))
    assert sizes(together) == sizes(default) == [max(sizes(apart))] * 2


@needs_speed
def test_a_chain_needs_two_buffers() -> None:
    """A value may have the memory of any value that nobody reads any more, the first included."""
    net = nn.Sequential(*(nn.Linear(64, 64) for _ in range(9)))
    program, x, expected = delegated(net, torch.randn(512, 64))
    method = load(program, num_threads=1)
    np.testing.assert_allclose(method(x), expected, rtol=1e-4, atol=1e-5)
    value = 512 * 64 * 4
    (size,) = sizes(method)
    assert 2 * value <= size < 3 * value


def test_a_short_prompt_needs_a_part_of_the_memory_of_the_bounds() -> None:
    """Two values of up to 32 MB; the first call has four rows of 4096."""
    graph = Graph()
    wide = graph.step("Exp", graph.input((2048, 4096)))
    graph.unary("Negate", graph.step("Sigmoid", wide), graph.output((2048, 4096)))
    method = graph.load(num_threads=1)
    before = resident_bytes("RssAnon")
    for rows in (4, 2048):
        a = np.linspace(-1, 1, rows * 4096, dtype=np.float32).reshape(rows, 4096)
        (output,) = method.execute([a])
        np.testing.assert_allclose(output, -1 / (1 + np.exp(-np.exp(a))), rtol=1e-5)
        if rows == 4:
            assert sizes(method)[0] >= 32 * MB
            assert resident_bytes("RssAnon") - before < 8 * MB
