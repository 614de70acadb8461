"""Programs in forked processes, some dozens each: a crash or a leak costs those at most."""

import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from tests.differential import causes, graphs, programs, ways
from tests.differential.programs import Report

CHUNK = 200
"""Programs of a process."""
MAX_SECONDS = 600
"""Time limit of a program."""


def prepare() -> None:
    """Import the exporter before processes are forked."""
    import executorch.backends.xnnpack.partition.xnnpack_partitioner  # noqa: F401
    from tests import exporter_speed
    from executorch import exir  # noqa: F401

    torch.set_num_threads(1)
    torch._C._set_warnAlways(False)
    graphs.operators()
    exporter_speed.apply()
    exporter_speed.keep_imports()


def explained(seed: int, process: ways.Official | None) -> Report:
    """Return the report of a seed, with the causes of differences."""
    report, trial, differences = programs.of_seed(seed, process)
    seen: dict[Any, str] = {}  # proofs take time, and ways have the same differences
    for d in differences:
        place = (d.output, d.text)
        if place not in seen:
            seen[place] = causes.cause(trial, d)
        report.differences.append(
            {
                "way": d.way,
                "call": d.call,
                "output": d.output,
                "text": d.text,
                "cause": seen[place],
            }
        )
    return report


def shrunk(seed: int) -> str:
    """Return the source of the smallest graph of a seed that differs."""
    graph, process = graphs.make(seed), ways.Official()
    return "" if graph is None else programs.shrunk(graph, process).source()


class Worker:
    """A process with its seeds."""

    def __init__(self, seeds: Sequence[int], with_official: bool) -> None:
        self.left = list(seeds)
        self.reader, writer = Pipe(duplex=False)
        self.started = time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                self.reader.close()
                _work(self.left, with_official, writer)
                status = 0
            finally:
                os._exit(status)
        writer.close()

    def reports(self) -> Iterator[Report]:
        """Yield the report that the process has written, or that of its end."""
        try:
            line = self.reader.recv()
        except EOFError:
            _, status = os.waitpid(self.pid, 0)
            self.reader.close()
            if self.left:
                yield self.died(status)
            return
        self.started = time.monotonic()
        self.left.pop(0)
        yield Report(**json.loads(line))

    def died(self, status: int) -> Report:
        """Return the report of the seed at which the process ended."""
        how = f"exit code {os.waitstatus_to_exitcode(status)}"
        if os.WIFSIGNALED(status):
            how = signal.Signals(os.WTERMSIG(status)).name
        self.started, seed = time.monotonic(), self.left.pop(0)
        return Report(seed, "crashed", about=how)

    def stop(self) -> None:
        """Kill the process."""
        os.kill(self.pid, signal.SIGKILL)


def _work(seeds: Sequence[int], with_official: bool, writer: Connection) -> None:
    torch.set_num_threads(1)
    process = ways.Official() if with_official else None
    for seed in seeds:
        writer.send(json.dumps(asdict(explained(seed, process))))
    if process is not None:
        process.close()


def run(
    seeds: Sequence[int], jobs: int = 1, with_official: bool = True, seconds: float | None = None
) -> Iterator[Report]:
    """Yield the report of each seed, from at most `jobs` processes, until the time is over."""
    end = None if seconds is None else time.monotonic() + seconds
    chunks = [list(seeds[i : i + CHUNK]) for i in range(0, len(seeds), CHUNK)]
    active: list[Worker] = []
    try:
        while chunks or active:
            while chunks and len(active) < jobs:
                active.append(Worker(chunks.pop(0), with_official))
            ready: Any = wait([w.reader for w in active], 1.0)
            for worker in [w for w in active if w.reader in ready]:
                count = len(worker.left)
                yield from worker.reports()
                if worker.reader.closed:
                    active.remove(worker)
                    if worker.left and count > len(worker.left):
                        chunks.insert(0, worker.left)  # after the seed that crashed
            for worker in active:
                if time.monotonic() - worker.started > MAX_SECONDS:
                    worker.stop()
            if end is not None and time.monotonic() > end:
                return
    finally:
        for worker in active:
            worker.stop()
            os.waitpid(worker.pid, 0)
