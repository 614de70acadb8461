"""Workspace sharing between delegates: every mode gives equal results; only memory differs."""

from __future__ import annotations

from typing import Any

import executorch_c
import numpy as np
import pytest
import torch
from tests.at_once import run_each
from tests.exports import export
from tests.resident import resident_bytes
from torch import nn
from tests.backends.xnnpack_graphs import Graph
from tests.backends.xnnpack_series import needs_speed

NONE, PROGRAM, GLOBAL, METHOD = range(4)
ID = "XnnpackBackend"
registry = executorch_c.Runtime.get().backend_registry
pytestmark = pytest.mark.skipif(
    ID not in registry.registered_backend_names, reason="installed without XnnpackBackend"
)


class Split(nn.Module):
    """Two delegates of different size around an operator that is not delegated."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Sequential(nn.Linear(8, 512), nn.ReLU(), nn.Linear(512, 8), nn.Sigmoid())
        self.two = nn.Sequential(nn.Linear(8, 8), nn.Sigmoid(), nn.Linear(8, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.two(torch.cumsum(self.one(x), 1))


def lower(net: nn.Module, x: torch.Tensor) -> tuple[bytes, np.ndarray, np.ndarray]:
    """Return a delegated program, its input and eager's output."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    pte = export(net.eval(), x, partitioner=XnnpackPartitioner())
    return pte, x.numpy(), net(x).detach().numpy()


@pytest.fixture(scope="module")
def made() -> tuple[bytes, np.ndarray, np.ndarray]:
    """Return a program, its input and eager's output."""
    torch.manual_seed(0)
    return lower(Split(), torch.randn(16, 8))


def load(program: Any, mode: int | None = None) -> Any:
    chosen = {} if mode is None else {ID: {"workspace_sharing_mode": mode}}
    return program.load_method("forward", backend_options=chosen, num_threads=1)


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
    torch.manual_seed(0)
    pte, x, expected = lower(Split(), torch.randn(128, 8))
    method = load(executorch_c.Runtime.get().load_program(pte))
    for after, copied in ((64, [0, 0]), (0, [4096, 0])):
        np.testing.assert_allclose(method(ending(x, after)), expected, rtol=1e-4, atol=1e-5)
        assert [each["figures"]["copied_bytes"] for each in method.backend_report()] == copied


@pytest.mark.parametrize("mode", [None, NONE, PROGRAM, GLOBAL, METHOD])
def test_every_mode_computes_the_same(made: Any, mode: int | None) -> None:
    pte, x, expected = made
    program = executorch_c.Runtime.get().load_program(pte)
    methods = [load(program, mode) for _ in range(2)]
    for _ in range(3):
        for method in methods:
            np.testing.assert_allclose(method(x), expected, rtol=1e-5, atol=1e-6)


def test_delegates_of_a_method_need_the_memory_of_the_largest(made: Any) -> None:
    pte, x, _ = made
    program = executorch_c.Runtime.get().load_program(pte)
    apart, together, default = (load(program, mode) for mode in (NONE, METHOD, None))
    for method in (apart, together, default):
        method(x)
    assert len(sizes(apart)) == 2
    assert min(sizes(apart)) < max(sizes(apart))
    assert sizes(together) == sizes(default) == [max(sizes(apart))] * 2


@needs_speed
def test_a_chain_needs_two_buffers() -> None:
    """A value may have the memory of any value that nobody reads any more, the first included."""
    net = nn.Sequential(*(nn.Linear(64, 64) for _ in range(9)))
    pte, x, expected = lower(net, torch.randn(512, 64))
    method = load(executorch_c.Runtime.get().load_program(pte))
    np.testing.assert_allclose(method(x), expected, rtol=1e-4, atol=1e-5)
    value = 512 * 64 * 4
    (found,) = sizes(method)
    assert 2 * value <= found < 3 * value


def test_methods_of_one_program_run_at_once(made: Any) -> None:
    """With the default mode, methods share nothing."""
    pte, x, expected = made
    program = executorch_c.Runtime.get().load_program(pte)
    methods = [load(program) for _ in range(8)]
    wrong: list[int] = []

    def run(at: int) -> None:
        for _ in range(50):
            if not np.allclose(methods[at](x), expected, rtol=1e-5, atol=1e-6):
                wrong.append(at)

    run_each(len(methods), run)
    assert not wrong


def test_the_option_lists_the_expected_values(made: Any) -> None:
    assert registry.get_option(ID, "workspace_sharing_mode") == METHOD
    program = executorch_c.Runtime.get().load_program(made[0])
    with pytest.raises(executorch_c.Error, match="or 3 \\(each method\\)"):
        load(program, 4)


@needs_speed
def test_a_short_prompt_needs_a_part_of_the_memory_of_the_bounds() -> None:
    """Two values of up to 32 MB; the first call has four rows of 4096."""
    graph = Graph()
    x, y = graph.input((2048, 4096)), graph.output((2048, 4096))
    wide, other = graph.value((2048, 4096)), graph.value((2048, 4096))
    graph.unary("Exp", x, wide)
    graph.unary("Sigmoid", wide, other)
    graph.unary("Negate", other, y)
    method = load(executorch_c.Runtime.get().load_program(graph.program()))
    before = resident_bytes("RssAnon")
    for rows in (4, 2048):
        a = np.linspace(-1, 1, rows * 4096, dtype=np.float32).reshape(rows, 4096)
        (found,) = method.execute([a])
        np.testing.assert_allclose(found, -1 / (1 + np.exp(-np.exp(a))), rtol=1e-5)
        if rows == 4:
            assert sizes(method)[0] >= 32 << 20
            assert resident_bytes("RssAnon") - before < 8 << 20
