"""Memory of XnnpackBackend: failed allocations, limits, workspaces that delegates share, and packed
weights, of which the third product packs large ones (third_party/kernels/speed/deferred.h)."""

from __future__ import annotations

import gc
import os
import platform
import sys
from collections.abc import Callable
from itertools import chain as chained
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import executorch_c
from executorch_c import Method, Program, Runtime
from tests import process
from tests.at_once import run_all
from tests.backends import xnnpack_flow, xnnpack_programs
from tests.backends.xnnpack_graphs import ABSENT, Graph, Group, Shape, Token
from tests.backends.xnnpack_kinds import conv
from tests.backends.xnnpack_payload import BACKEND, edited
from tests.backends.xnnpack_series import HAS_SPEED, needs_speed, needs_xnnpack
from tests.backends.xnnpack_zoo import TABLE
from tests.exports import lowered
from tests.resident import mapping, resident_bytes

pytestmark = [
    needs_xnnpack,
    pytest.mark.skipif(sys.platform != "linux", reason="/proc and RLIMIT_AS are of Linux"),
]
MB = 1 << 20


def load(
    source: bytes | Path | Program,
    name: str = "forward",
    mode: int | None = None,
    cached: bool = True,
    **options: Any,
) -> Method:
    """Load a method with a way of sharing workspaces, and with or without a cache of weights."""
    program = source if isinstance(source, Program) else Runtime.get().load_program(source)
    chosen = {} if mode is None else {"workspace_sharing_mode": mode}
    backend = {BACKEND: {"weight_cache_enabled": cached, **chosen}}
    return program.load_method(name, backend_options=backend, **options)


def run_code(code: str, file: Path, *arguments: object, **env: str) -> list[str]:
    """Return the words that code prints about a file in another process, in the file's folder."""
    environment = {**os.environ, **env}
    done = process.python("-c", code, file, *arguments, cwd=file.parent, env=environment)
    return done.stdout.split()


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


# ---- packed weights: each call has the bits of weights packed at load ----------------------------

DEFERS = platform.machine() in ("x86_64", "AMD64") and HAS_SPEED
MAX_ROWS = 40
WIDTH, HIDDEN, LAST = 1040, 2003, 300
WEIGHTS = 4 * (WIDTH * HIDDEN + HIDDEN * LAST)
ROWS = (16, 1, 1, 1, 7, MAX_ROWS, 1)
"""Of calls: the third one packs."""
MAX_RESIDENT = 5 * MB
"""The resident part of a file that was read or released: some huge pages."""


class Net(nn.Module):
    """Two layers of more than 1 MB: incomplete last tiles, with and without bias."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, LAST, bias=False)

    def forward(self, x: Any) -> Any:
        return self.last(torch.relu(self.first(x)))


@torch.no_grad()
def make() -> tuple[bytes, Any]:
    torch.manual_seed(0)
    net, x = Net().eval(), torch.randn(16, WIDTH)
    dims = ({0: Dim("rows", min=1, max=MAX_ROWS)},)
    programs = {
        "prefill": torch.export.export(net, (x,), dynamic_shapes=dims),
        "decode": torch.export.export(net, (x[:1],)),
    }
    return bytes(xnnpack_flow.lower(programs).buffer), net(x).numpy()


@pytest.fixture(scope="module")
def pte() -> bytes:
    program, expected = xnnpack_flow.cached("deferred", __file__, make)
    torch.manual_seed(0)
    Net()
    x = torch.randn(16, WIDTH).numpy()
    (output,) = load(program, "prefill").execute([x])
    np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-5)
    return program


@pytest.fixture(scope="module")
def expected(pte: bytes) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return inputs of ROWS, and what weights that were packed at load compute."""
    method, rng = load(pte, "prefill", cached=False), np.random.default_rng(0)
    inputs = [rng.normal(size=(rows, WIDTH)).astype(np.float32) for rows in ROWS]
    return [(x, method.execute([x])[0]) for x in inputs]


def check(method: Method, calls: Any) -> None:
    for x, y in calls:
        np.testing.assert_array_equal(method.execute([x])[0], y)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_each_call_has_the_bits_of_packed_weights(pte: bytes, expected: Any, threads: int) -> None:
    check(load(pte, "prefill", num_threads=threads), expected)


def test_methods_share_the_calls_and_the_weights(pte: bytes, expected: Any) -> None:
    """The second method loads, and runs, before and after the third product; the first one, whose
    bias was packed with the weights, may be gone."""
    single = [call for call in expected if len(call[0]) == 1]
    for before in range(4):
        program = Runtime.get().load_program(pte)
        first, second = load(program, "prefill"), load(program, "decode")
        check(first, expected[:before])
        check(second, single[:1])
        del first
        gc.collect()
        third = load(program, "prefill")
        check(second, single)
        check(third, expected)
        [report] = third.backend_report()
        assert report["figures"]["shared_packed_bytes"] >= WEIGHTS


def test_methods_run_at_the_same_time(pte: bytes, expected: Any) -> None:
    """One of the products that run at once packs, and the others do not read what it has not
    written."""
    for threads in chained.from_iterable(repeat((1, 2), 3)):
        program = Runtime.get().load_program(pte)
        methods = [load(program, "prefill", num_threads=threads) for _ in range(3)]
        run_all(*(lambda method=method: check(method, expected) for method in methods))


def resident(path: Path) -> int:
    return mapping(path)["Rss"] << 10


@pytest.mark.skipif(not DEFERS, reason="this XNNPACK packs at load")
def test_the_third_call_packs_and_releases_the_file(
    pte: bytes, expected: Any, tmp_path: Path
) -> None:
    (tmp_path / "model.pte").write_bytes(pte)
    method = load(tmp_path / "model.pte", "prefill", num_threads=2)
    pages = [resident(tmp_path / "model.pte")]
    for call in expected[:4]:
        check(method, [call])
        pages.append(resident(tmp_path / "model.pte"))
    loaded, *unpacked, packed, after = pages
    assert loaded < MAX_RESIDENT
    assert all(size > WEIGHTS for size in unpacked) and len(unpacked) == 2
    assert packed < MAX_RESIDENT
    assert after < MAX_RESIDENT


def test_without_memory_for_tiles_the_first_call_packs(tmp_path: Path) -> None:
    """Tiles of 16 columns, for three threads, take three times the memory of the weights."""
    width = 120_000
    torch.manual_seed(1)
    net, x = nn.Linear(width, 16).eval(), torch.randn(2, width)
    (tmp_path / "model.pte").write_bytes(lowered(net, x, delegated=True))
    program = Runtime.get().load_program(tmp_path / "model.pte")
    y = load(program, "forward", cached=False).execute([x.numpy()])[0]
    method = load(program, "forward", num_threads=3, max_bytes=12 * MB)
    for _ in range(4):
        check(method, [(x.numpy(), y)])
        assert resident(tmp_path / "model.pte") < MAX_RESIDENT


@pytest.mark.parametrize("limit", [WEIGHTS // 2, WEIGHTS - 1])
def test_packed_weights_count_when_they_are_reserved(pte: bytes, limit: int) -> None:
    with pytest.raises(executorch_c.MemoryAllocationFailedError, match="max_bytes="):
        load(pte, "prefill", max_bytes=limit)


def test_scales_of_groups_leave_memory_when_they_are_packed(tmp_path: Path) -> None:
    graph, rng = Graph(), np.random.default_rng(0)
    rows = 1 << 16
    quantized = graph.step("Convert", graph.input((1, 1024)), dtype="qdint8", how=Token(1))
    scales = np.repeat(rng.uniform(0.001, 0.01, rows), 32)  # 4 MB
    packed = rng.integers(0, 256, (rows, 512))
    weight = graph.constant(packed, "qbint4", Group(scales, 32, 0), dims=(rows, 1024))
    graph.linear(quantized, weight, ABSENT, graph.output((1, rows)))
    (tmp_path / "model.pte").write_bytes(graph.program())
    method = load(tmp_path / "model.pte")
    [report] = method.backend_report()
    assert report["figures"]["packed_bytes"] >= 32 * MB
    assert resident(tmp_path / "model.pte") < 3 * MB  # at most a huge page
    (y,) = method.execute([np.ones((1, 1024), np.float32)])
    assert np.isfinite(y).all() and y.std() > 0


HUGE = """
import ctypes, mmap, sys, time
import numpy as np, executorch_c
THP_DISABLE, COLLAPSE, MB = 41, 25, 1 << 20  # of prctl, of madvise
c = ctypes.CDLL(None)
def huge():
    return int(open("/proc/self/smaps_rollup").read().split("AnonHugePages:")[1].split()[0]) // 1024
block = mmap.mmap(-1, 4 * MB, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
block.write(bytes(4 * MB))
at = (ctypes.addressof(ctypes.c_char.from_buffer(block)) + 2 * MB - 1) & -2 * MB
has_collapse = not c.madvise(ctypes.c_void_p(at), ctypes.c_size_t(2 * MB), COLLAPSE)
x = np.random.default_rng(0).normal(size=(1, 2048)).astype(np.float32)
c.prctl(THP_DISABLE, 1, 0, 0, 0)
method = executorch_c.Runtime.get().load_program(sys.argv[1]).load_method("forward")
before, end = huge(), time.monotonic() + (60 if has_collapse else 1)
c.prctl(THP_DISABLE, 0, 0, 0, 0)  # a long first call may ask for all of them already
expected = method.execute([x])[0]
while huge() < before + 20 and time.monotonic() < end:
    np.testing.assert_array_equal(method.execute([x])[0], expected)
np.testing.assert_array_equal(method.execute([x])[0], expected)
print(huge() - before if has_collapse else 'no MADV_COLLAPSE')
"""


def test_large_weights_move_to_huge_pages(tmp_path: Path) -> None:
    """24 MB of weights, loaded into small pages, are in huge pages after some calls, with the same
    bits."""
    graph = Graph()
    weight = np.random.default_rng(1).normal(size=(3072, 2048)).astype(np.float32)
    bias = graph.constant(np.zeros(3072, np.float32))
    graph.linear(graph.input((1, 2048)), graph.constant(weight), bias, graph.output((1, 3072)))
    (tmp_path / "model.pte").write_bytes(graph.program())
    megabytes, *_ = run_code(HUGE, tmp_path / "model.pte")
    if megabytes == "no":
        pytest.skip("this kernel has no MADV_COLLAPSE")
    assert int(megabytes) >= 20
