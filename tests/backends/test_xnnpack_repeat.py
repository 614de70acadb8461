"""Delegates that are repeated: results of every call, with traces, resets and errors between them.

`csrc/testing/test_delegate.c` counts the calls.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from executorch_c import Method, Runtime

pytest.importorskip("executorch_c._backend_xnnpack")


@pytest.fixture(scope="module")
def recurrent() -> tuple[torch.nn.Module, bytes]:
    """Four steps of an LSTM are delegates with kernel calls between them."""
    torch.manual_seed(0)
    lstm = torch.nn.LSTM(4, 24, batch_first=True).eval()
    exported = torch.export.export(lstm, (torch.randn(1, 4, 4),))
    lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    return lstm, lowered.to_executorch().buffer


def loaded(program: bytes, **options: object) -> Method:
    return Runtime.get().load_program(program).load_method("forward", **options)  # type: ignore


@pytest.mark.parametrize("threads", [1, 2])
def test_results_of_each_call(recurrent: tuple[torch.nn.Module, bytes], threads: int) -> None:
    model, program = recurrent
    method = loaded(program, num_threads=threads)
    for seed in range(6):
        x = torch.randn(1, 4, 4, generator=torch.Generator().manual_seed(seed))
        if seed == 3:
            with method.tracing(values=True) as trace:
                method.execute([x.numpy()])
            assert any(event.delegate is not None for event in trace.events)
        if seed == 4:
            method.reset()
        found = method.execute([x.numpy()])
        y, (h, c) = model(x)
        for one, expected in zip(found, (y, h, c), strict=True):
            np.testing.assert_allclose(one, expected.detach().numpy(), rtol=1e-5, atol=1e-6)
        for one, first in zip(found, loaded(program).execute([x.numpy()]), strict=True):
            np.testing.assert_array_equal(one, first)


def test_two_methods_that_share_a_workspace(recurrent: tuple[torch.nn.Module, bytes]) -> None:
    _, program = recurrent
    options = {"XnnpackBackend": {"workspace_sharing_mode": 2}}
    methods = [loaded(program, backend_options=options) for _ in range(2)]
    x = np.linspace(-1, 1, 16, dtype=np.float32).reshape(1, 4, 4)
    expected = loaded(program).execute([x])
    for method in methods * 3:
        for one, first in zip(method.execute([x]), expected, strict=True):
            np.testing.assert_array_equal(one, first)
