"""Packed weights of XnnpackBackend: large ones are packed by a product, the third one or the first
(third_party/kernels/speed/deferred.h). Each call has the bits of weights packed at load, in tiles
of 4 bits (groups.c) those of XNNPACK's own functions."""

from __future__ import annotations

import gc
import platform
import sys
from dataclasses import dataclass
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
from executorch_c import Method, Runtime
from tests import plans
from tests.at_once import run_all
from tests.backends import xnnpack_flow
from tests.backends.xnnpack_graphs import ABSENT, Graph, Group, Token
from tests.backends.xnnpack_layers import Sizes, write
from tests.backends.xnnpack_methods import load, run_code
from tests.backends.xnnpack_payload import BACKEND
from tests.backends.xnnpack_series import HAS_SPEED, needs_xnnpack
from tests.exports import lowered
from tests.resident import mapping, resident_bytes

pytestmark = [
    needs_xnnpack,
    pytest.mark.skipif(sys.platform != "linux", reason="/proc is of Linux"),
]
MB = 1 << 20
DEFERS = platform.machine() in ("x86_64", "AMD64") and HAS_SPEED
MAX_ROWS = 40
ROWS = (16, 1, 1, 1, 7, MAX_ROWS, 1)
"""Of calls: the third one packs."""
MAX_RESIDENT = 5 * MB
"""The resident part of a file that was read or released: some huge pages."""


class Net(nn.Module):
    """Two layers of more than 1 MB: incomplete last tiles, with and without bias."""

    width = 1040

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(self.width, 2003), nn.Linear(2003, 300, bias=False)

    def forward(self, x: Any) -> Any:
        return self.last(torch.relu(self.first(x)))


@torch.no_grad()
def make() -> tuple[bytes, Any]:
    torch.manual_seed(0)
    net, x = Net().eval(), torch.randn(16, Net.width)
    dims = ({0: Dim("rows", min=1, max=MAX_ROWS)},)
    programs = {
        "prefill": torch.export.export(net, (x,), dynamic_shapes=dims),
        "decode": torch.export.export(net, (x[:1],)),
    }
    return bytes(xnnpack_flow.lower(programs).buffer), net(x).numpy()


def float32() -> bytes:
    program, expected = xnnpack_flow.cached("deferred", __file__, make)
    torch.manual_seed(0)
    Net()
    x = torch.randn(16, Net.width).numpy()
    (output,) = load(program, "prefill").execute([x])
    np.testing.assert_allclose(output, expected, rtol=1e-4, atol=1e-5)
    return program


SCHEMES = {
    "float32": Sizes(0, Net.width, 0, 0),
    "qbint4": Sizes(1, 2048, 4096, 4107, has_bias=True),
    "qcint4": Sizes(1, 2048, 4096, 4107, dtype="qcint4"),
    "qcint8": Sizes(1, 2048, 2048, 2059, dtype="qcint8", has_bias=True),
}
"""Programs with the methods "prefill" and "decode" and incomplete last tiles. The float32 one is
exported, the others are written."""


@dataclass(frozen=True)
class Case:
    """A program, the bytes of its large weights, and what weights that were packed at load compute
    of inputs of ROWS."""

    path: Path
    weights: int
    unpacked: int
    calls: list[tuple[np.ndarray, np.ndarray]]


def unpacked_calls(scheme: str) -> int:
    """Return the number of calls that do not keep what they pack."""
    is_fast = scheme == "float32" or "avx512bw" in Path("/proc/cpuinfo").read_text()
    return 2 if is_fast and scheme in ("float32", "qbint4") else 0


@pytest.fixture(scope="module", params=SCHEMES)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    path, sizes = tmp_path_factory.mktemp(request.param) / "model.pte", SCHEMES[request.param]
    if sizes.blocks:
        write(path, sizes, {"prefill": MAX_ROWS, "decode": 1})
        weights = sizes.weights // (1 if sizes.dtype == "qcint8" else 2)
    else:
        path.write_bytes(float32())
        weights = 4 * (Net.width * 2003 + 2003 * 300)
    method, rng = load(path, "prefill", cached=False), np.random.default_rng(0)
    inputs = [rng.normal(size=(rows, sizes.width)).astype(np.float32) for rows in ROWS]
    calls = [(x, method.execute([x])[0]) for x in inputs]
    return Case(path, weights, unpacked_calls(request.param), calls)


def check(method: Method, calls: Any) -> None:
    for x, y in calls:
        np.testing.assert_array_equal(method.execute([x])[0], y)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_each_call_has_the_bits_of_packed_weights(case: Case, threads: int) -> None:
    check(load(case.path, "prefill", num_threads=threads), case.calls)


def test_methods_share_the_calls_and_the_weights(case: Case) -> None:
    """The second method loads, and runs, before and after the third product; the first one, whose
    bias was packed with the weights, may be gone."""
    single = [call for call in case.calls if len(call[0]) == 1]
    for before in range(4):
        program = Runtime.get().load_program(case.path)
        first, second = load(program, "prefill"), load(program, "decode")
        check(first, case.calls[:before])
        check(second, single[:1])
        del first
        gc.collect()
        third = load(program, "prefill")
        check(second, single)
        check(third, case.calls)
        shared = [each["figures"]["shared_packed_bytes"] for each in third.backend_report()]
        assert sum(shared) >= case.weights


def test_methods_run_at_the_same_time(case: Case) -> None:
    """One of the products that run at once packs, and the others do not read what it has not
    written."""
    for threads in chained.from_iterable(repeat((1, 2), 3)):
        program = Runtime.get().load_program(case.path)
        methods = [load(program, "prefill", num_threads=threads) for _ in range(3)]
        run_all(*(lambda method=method: check(method, case.calls) for method in methods))


def resident(path: Path) -> int:
    return mapping(path)["Rss"] << 10


@pytest.mark.skipif(not DEFERS, reason="this XNNPACK packs at load")
def test_a_call_packs_and_releases_the_file(case: Case) -> None:
    before, pages = resident_bytes("RssAnon"), list[int]()
    method = load(case.path, "prefill", num_threads=2)
    assert resident_bytes("RssAnon") - before < case.weights // 2
    for call in case.calls[:4]:
        check(method, [call])
        pages.append(resident(case.path))
    assert all(size > case.weights for size in pages[: case.unpacked])
    assert all(size < MAX_RESIDENT for size in pages[case.unpacked :])


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


@pytest.mark.skipif(not DEFERS, reason="this XNNPACK packs at load")
def test_data_at_the_end_of_a_page_stays_in_the_file(tmp_path: Path) -> None:
    """XNNPACK may read beyond its end, where the file goes on. One of 32 files has such weights."""
    weight = np.ones((1024, 1024), np.float32)
    for before in range(32):
        graph = Graph()
        graph.data(bytes(128 * before + 1), "before")
        index = graph.data(weight.tobytes(), "weight")
        graph.data(bytes(128), "after")
        value = graph.value(weight.shape, constant_buffer_idx=index)
        x, y = graph.input((1, 1024)), graph.output((1, 1024))
        graph.linear(x, value, ABSENT, y)
        plan = plans.Plan()
        args = [int(add((1, 1024))) for add in (plan.input, plan.output)]
        plan.append(plans.schema.DelegateCall(plan.delegate(BACKEND, 0), args))
        plans.write(tmp_path / "model.pte", plan, payloads=[graph.payload()], named=graph.named)
        resident_before = resident_bytes("RssAnon")
        method = load(tmp_path / "model.pte")
        assert resident_bytes("RssAnon") - resident_before < MB
        assert method.execute([np.ones((1, 1024), np.float32)])[0][0, 0] == 1024


@pytest.mark.parametrize("part", [0.5, 0.99])
def test_packed_weights_count_when_they_are_reserved(case: Case, part: float) -> None:
    with pytest.raises(executorch_c.MemoryAllocationFailedError, match="max_bytes="):
        load(case.path, "prefill", max_bytes=int(part * case.weights))


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


def groups(rows: int, columns: int, group: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return random bytes of 4-bit weights, scales of groups and biases."""
    rng = np.random.default_rng(columns + group)
    scales = rng.uniform(0.001, 0.01, (rows, columns // group))
    return rng.integers(0, 256, (rows, columns // 2)), scales, rng.normal(size=rows)


@pytest.mark.parametrize(
    ("columns", "group"), [(32, 32), (96, 32), (160, 160), (192, 64), (416, 32), (768, 256)]
)
def test_tiles_of_4_bits_are_packed_as_by_xnnpack(columns: int, group: int) -> None:
    """XNNPACK packs what is not a whole tile of 16 channels."""
    weights, scales, biases = groups(48, columns, group)
    x = np.random.default_rng(0).normal(size=(17, columns)).astype(np.float32)

    def run(rows: slice) -> np.ndarray:
        graph, count = Graph(), len(biases[rows])
        tokens = graph.step("Convert", graph.input(x.shape), dtype="qdint8", how=Token(1))
        how = Group(scales[rows].ravel().tolist(), group, 0)
        weight = graph.constant(weights[rows], "qbint4", how, dims=(count, columns))
        bias = graph.constant(biases[rows].astype(np.float32))
        graph.linear(tokens, weight, bias, graph.output((len(x), count)))
        return np.asarray(graph.run(x)[0])

    whole = run(slice(48))
    for first in range(0, 48, 12):
        part = slice(first, first + 12)
        np.testing.assert_array_equal(run(part), whole[:, part])


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
