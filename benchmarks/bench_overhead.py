"""Overhead of one call: adding two 2x2 arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.common import CACHE, OFFICIAL, OURS, Row, Table, alternate, open_official, open_ours
from benchmarks.common import seconds, to_torch


def add_program() -> Path:
    """Return x + y of two 2x2 arrays, exported by the official flow."""
    import torch
    from executorch.exir import to_edge

    class Add(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x + y

    CACHE.mkdir(exist_ok=True)
    path = CACHE / "add_2x2.pte"
    if not path.exists():
        program = torch.export.export(Add(), (torch.ones(2, 2), torch.ones(2, 2)))
        path.write_bytes(to_edge(program).to_executorch().buffer)
    return path


def measure(quick: bool) -> Table:
    path = add_program()
    arrays = [np.full((2, 2), 1, np.float32), np.full((2, 2), 2, np.float32)]
    tensors = to_torch(arrays)
    out = np.empty((2, 2), np.float32)
    official, ours = open_official(path), open_ours(path)
    x, y = arrays
    calls = {
        OFFICIAL: lambda: official.execute(tensors),
        OURS: lambda: ours.execute(arrays),
        "call": lambda: ours(x, y),
        "out": lambda: ours(x, y, out=[out]),
    }
    np.testing.assert_array_equal(calls[OURS]()[0], calls[OFFICIAL]()[0].numpy())
    times = alternate(calls, rounds=5 if quick else 51, batch=2000)
    how = "Median of batches of 2,000 calls, in turn, one process; float32, no delegate."
    note = "official: `execute`"
    rows = [
        Row("`method.execute([x, y])`", times[OFFICIAL], times[OURS], seconds),
        Row("`method(x, y)`", times[OFFICIAL], times["call"], seconds, note),
        Row("`method(x, y, out=[z])`", times[OFFICIAL], times["out"], seconds, note),
    ]
    return Table("Overhead of a call that adds two 2x2 arrays", how, rows)
