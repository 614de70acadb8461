"""Worker processes, one per runtime, that time programs of one instruction on request.

After a call, threads of the official runtime's pool spin for a while and would take the other
runtime's core; and the official runtime ends its process for an unsupported dtype.
"""

from __future__ import annotations

import multiprocessing
import statistics
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

from benchmarks.common import OFFICIAL, OURS, open_official

LEAST = 20e-6  # seconds between two reads of the clock
REST = 2e-3  # seconds for a pool to fall asleep
_calls: dict[Path, tuple[Any, list[Any]]] = {}


def _begin(threads: int) -> None:
    from executorch.extension.pybindings import portable_lib

    portable_lib._unsafe_reset_threadpool(threads)


def _open(runtime: str, path: Path, inputs: list[Any], threads: int) -> tuple[Any, list[Any]]:
    if runtime == OFFICIAL:
        from tests.kernels.eager import to_torch

        return open_official(path, "op_0").execute, [to_torch(v) for v in inputs]
    from executorch_c import Runtime

    method = Runtime.get().load_program(path).load_method("op_0", num_threads=threads)
    return method.execute, inputs


def _time(call: Any, inputs: list[Any], count: int) -> float:
    start = perf_counter()
    for _ in range(count):
        call(inputs)
    return (perf_counter() - start) / count


def _turn(runtime: str, path: Path, inputs: list[Any] | None, threads: int, budget: float) -> float:
    """Return the median seconds of a call, over `budget` seconds; NaN if the runtime rejects it."""
    if inputs is not None:
        _calls.clear()
        _calls[path] = _open(runtime, path, inputs, threads)
    call, values = _calls[path]
    try:
        once = min(_time(call, values, 1) for _ in range(3))
    except RuntimeError:
        return float("nan")
    batch = max(1, round(LEAST / once))
    rounds = max(3, int(budget / (batch * once)))
    return statistics.median(_time(call, values, batch) for _ in range(rounds))


class Workers:
    """Both runtimes with pools of `threads` threads, each in its process."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.pools: dict[str, ProcessPoolExecutor] = {}

    def _pool(self, runtime: str) -> ProcessPoolExecutor:
        if runtime not in self.pools:
            spawn = multiprocessing.get_context("spawn")
            begin, args = (_begin, (self.threads,)) if runtime == OFFICIAL else (None, ())
            self.pools[runtime] = ProcessPoolExecutor(1, spawn, begin, args)
        return self.pools[runtime]

    def time(
        self, path: Path, inputs: list[Any], budget: float, turns: int
    ) -> dict[str, float] | None:
        """Return the minimum of several turns of each, in turn, in seconds per call; None if one
        rejects the arguments, or the official runtime ends its process."""
        times = {OFFICIAL: float("inf"), OURS: float("inf")}
        for i in range(turns):
            for runtime in (OFFICIAL, OURS):
                job = self._pool(runtime).submit(
                    _turn, runtime, path, None if i else inputs, self.threads, budget / turns / 2
                )
                try:
                    took = job.result()
                except BrokenProcessPool:
                    if runtime == OURS:
                        raise
                    self.pools.pop(runtime).shutdown()
                    return None
                if took != took:
                    return None
                times[runtime] = min(times[runtime], took)
                sleep(REST)
        return times

    def close(self) -> None:
        for pool in self.pools.values():
            pool.shutdown()
