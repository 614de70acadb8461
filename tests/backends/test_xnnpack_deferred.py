"""Weights of linear layers that the third product packs (third_party/kernels/speed/deferred.h):
each call has the bits of weights packed at load, which those without a cache are."""

from __future__ import annotations

import gc
import platform
import sys
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import executorch_c
import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("executorch")

from tests.backends import xnnpack_flow
from tests.at_once import run_all
from executorch_c import Method, Program, Runtime
from tests.resident import mapping
from torch import nn
from torch.export import Dim
from tests.backends.xnnpack_payload import BACKEND
from tests.backends.xnnpack_series import HAS_SPEED, needs_xnnpack

pytestmark = needs_xnnpack
DEFERS = platform.machine() in ("x86_64", "AMD64") and HAS_SPEED
MB, MOST = 1 << 20, 40
WIDTH, HIDDEN, LAST = 1040, 2003, 300
WEIGHTS = 4 * (WIDTH * HIDDEN + HIDDEN * LAST)
ROWS = (16, 1, 1, 1, 7, MOST, 1)
"""Of calls: the third one packs."""
REST = 5 * MB
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
    dims = ({0: Dim("rows", min=1, max=MOST)},)
    programs = {
        "prefill": torch.export.export(net, (x,), dynamic_shapes=dims),
        "decode": torch.export.export(net, (x[:1],)),
    }
    return bytes(xnnpack_flow.lower(programs).buffer), net(x).numpy()


@pytest.fixture(scope="module")
def pte() -> bytes:
    found: tuple[bytes, Any] = xnnpack_flow.cached("deferred", __file__, make)
    torch.manual_seed(0)
    Net()
    x = torch.randn(16, WIDTH).numpy()
    method = Runtime.get().load_program(found[0]).load_method("prefill")
    np.testing.assert_allclose(method.execute([x])[0], found[1], rtol=1e-4, atol=1e-5)
    return found[0]


def load(program: Program, name: str = "prefill", cached: bool = True, **options: Any) -> Method:
    chosen = {BACKEND: {"weight_cache_enabled": cached}}
    return program.load_method(name, backend_options=chosen, **options)


@pytest.fixture(scope="module")
def expected(pte: bytes) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return inputs of ROWS, and what weights that were packed at load compute."""
    method, rng = load(Runtime.get().load_program(pte), cached=False), np.random.default_rng(0)
    inputs = [rng.normal(size=(rows, WIDTH)).astype(np.float32) for rows in ROWS]
    return [(x, method.execute([x])[0]) for x in inputs]


def check(method: Method, calls: Any) -> None:
    for x, y in calls:
        np.testing.assert_array_equal(method.execute([x])[0], y)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_each_call_has_the_bits_of_packed_weights(pte: bytes, expected: Any, threads: int) -> None:
    check(load(Runtime.get().load_program(pte), num_threads=threads), expected)


def test_methods_share_the_calls_and_the_weights(pte: bytes, expected: Any) -> None:
    """The second method loads, and runs, before and after the third product; the first one, whose
    bias was packed with the weights, may be gone."""
    single = [call for call in expected if len(call[0]) == 1]
    for before in range(4):
        program = Runtime.get().load_program(pte)
        first, second = load(program), load(program, "decode")
        check(first, expected[:before])
        check(second, single[:1])
        del first
        gc.collect()
        third = load(program)
        check(second, single)
        check(third, expected)
        [report] = third.backend_report()
        assert report["figures"]["shared_packed_bytes"] >= WEIGHTS


def test_methods_run_at_the_same_time(pte: bytes, expected: Any) -> None:
    """One of the products that run at once packs, and the others do not read what it has not
    written."""
    for threads in chain.from_iterable(repeat((1, 2), 6)):
        program = Runtime.get().load_program(pte)
        methods = [load(program, num_threads=threads) for _ in range(3)]
        run_all(*(lambda method=method: check(method, expected) for method in methods))


def resident(path: Path) -> int:
    return mapping(path)["Rss"] << 10


@pytest.mark.skipif(sys.platform != "linux", reason="/proc has the pages of mappings")
@pytest.mark.skipif(not DEFERS, reason="this XNNPACK packs at load")
def test_the_third_call_packs_and_releases_the_file(
    pte: bytes, expected: Any, tmp_path: Path
) -> None:
    (tmp_path / "model.pte").write_bytes(pte)
    method = load(Runtime.get().load_program(tmp_path / "model.pte"), num_threads=2)
    found = [resident(tmp_path / "model.pte")]
    for call in expected[:4]:
        check(method, [call])
        found.append(resident(tmp_path / "model.pte"))
    loaded, *unpacked, packed, after = found
    assert loaded < REST
    assert all(size > WEIGHTS for size in unpacked) and len(unpacked) == 2
    assert packed < REST
    assert after < REST


@pytest.mark.skipif(sys.platform != "linux", reason="/proc has the pages of mappings")
def test_without_memory_for_tiles_the_first_call_packs(tmp_path: Path) -> None:
    """Tiles of 16 columns, for three threads, take three times the memory of the weights."""
    width = 120_000
    torch.manual_seed(1)
    net, x = nn.Linear(width, 16).eval(), torch.randn(2, width)
    exported = xnnpack_flow.lower(torch.export.export(net, (x,)))
    (tmp_path / "model.pte").write_bytes(bytes(exported.buffer))
    program = Runtime.get().load_program(tmp_path / "model.pte")
    y = load(program, "forward", cached=False).execute([x.numpy()])[0]
    method = load(program, "forward", num_threads=3, max_bytes=12 * MB)
    for _ in range(4):
        check(method, [(x.numpy(), y)])
        assert resident(tmp_path / "model.pte") < REST


@pytest.mark.parametrize("limit", [WEIGHTS // 2, WEIGHTS - 1])
def test_packed_weights_count_when_they_are_reserved(pte: bytes, limit: int) -> None:
    with pytest.raises(executorch_c.MemoryAllocationFailedError, match="max_bytes="):
        load(Runtime.get().load_program(pte), max_bytes=limit)
