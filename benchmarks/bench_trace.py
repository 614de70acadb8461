"""Traces: the cost of a traced call, and of a call after tracing has ended."""

from __future__ import annotations

import statistics
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.common import CACHE, OFFICIAL, OURS, Calls, Row, Table, alternate, open_official
from benchmarks.common import open_ours, seconds, to_torch

INSTRUCTIONS = 64
SHAPE = (2, 2)


def chain_program() -> Path:
    """Return a chain of many cheap instructions, exported by the official flow."""
    import torch
    from executorch.exir import to_edge

    class Chain(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for i in range(INSTRUCTIONS):
                x = torch.neg(x) if i % 2 else torch.abs(x)
            return x

    CACHE.mkdir(exist_ok=True)
    path = CACHE / f"chain_{INSTRUCTIONS}.pte"
    if not path.exists():
        program = torch.export.export(Chain(), (torch.ones(SHAPE),))
        path.write_bytes(to_edge(program).to_executorch().buffer)
    return path


def paired(calls: Calls, rounds: int, batch: int) -> dict[str, float]:
    """Measure like alternate, but return the minimum of each: noise only adds time."""
    best = dict.fromkeys(calls, float("inf"))
    for i in range(rounds):
        names = list(calls) if i % 2 else list(reversed(calls))
        for name in names:
            start = perf_counter()
            for _ in range(batch):
                calls[name]()
            best[name] = min(best[name], (perf_counter() - start) / batch)
    return best


def cost_when_off(path: Path, inputs: list[Any], quick: bool) -> str:
    """Return the time of a method after tracing compared with one that was never traced, and of two
    of the latter."""
    never, also_never, ended = (open_ours(path) for _ in range(3))
    with ended.tracing(values=True):
        ended.execute(inputs)
    calls: Calls = {
        "never": lambda: never.execute(inputs),
        "also never": lambda: also_never.execute(inputs),
        "ended": lambda: ended.execute(inputs),
    }
    ratios: dict[str, list[float]] = {"also never": [], "ended": []}
    for _ in range(3 if quick else 15):
        times = paired(calls, 10, 200)
        for name, all_of_them in ratios.items():
            all_of_them.append(times[name] / times["never"])
    shown = {name: [*sorted(values)] for name, values in ratios.items()}
    spans = {
        name: f"{statistics.median(values):.3f} ({values[0]:.3f} to {values[-1]:.3f})"
        for name, values in shown.items()
    }
    return (
        f"Without a trace: a method whose trace has ended takes {spans['ended']} times as long as "
        f"one that was never traced; two that were never traced differ by {spans['also never']}."
    )


def official_recording(path: Path) -> Any:
    from executorch.runtime import Runtime

    program = Runtime.get().load_program(path, enable_etdump=True)
    return program, program.load_method("forward")  # the program owns the dump


def measure(quick: bool) -> Table:
    path = chain_program()
    inputs = [np.linspace(-1, 1, 4, dtype=np.float32).reshape(SHAPE)]
    tensors = to_torch(inputs)
    official, ours, traced = open_official(path), open_ours(path), open_ours(path)
    _program, recording = official_recording(path)
    calls: Calls = {
        OFFICIAL: lambda: official.execute(tensors),
        OURS: lambda: ours.execute(inputs),
        "official traced": lambda: recording.execute(tensors),
        "traced": lambda: traced.execute(inputs),
    }
    alternate(calls, 1)  # first calls
    with traced.tracing():
        times = paired(calls, 5 if quick else 31, 50)
    off, on = (times[OFFICIAL], times[OURS]), (times["official traced"], times["traced"])
    adds = [(b - a) / INSTRUCTIONS for a, b in zip(off, on, strict=True)]
    return Table(
        f"A call of {INSTRUCTIONS} instructions on 2x2 arrays, with and without a trace",
        "Best of batches, in turn, one process; times only, no values; official: enable_etdump.",
        [
            Row("not traced", *off, seconds),
            Row("traced", *on, seconds),
            Row("cost of tracing per instruction", *adds, seconds),
        ],
        notes=[cost_when_off(path, inputs, quick)],
    )
