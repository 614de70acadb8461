"""The process that measures one engine, and the connection to it.

Requests are tuples: ("load", engine, task), ("turn", seconds), ("concurrent", calls at once,
seconds). Replies are ("ok", result) or ("error", text).
"""

from __future__ import annotations

import importlib
import os
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from time import perf_counter
from typing import TYPE_CHECKING, Any

from executorch_c import _processes

if TYPE_CHECKING:
    from executorch_c.bench.engines import Task

LIMIT_SECONDS = 600.0
"""Maximum time of loading, and of a call beyond its turn."""


class Failed(Exception):
    """An engine cannot be measured; the message says why."""


class Child:
    """A process with one loaded engine."""

    def __init__(self) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  closed by `close`
        self._process, self._connection = _processes.start("executorch_c.bench.child", self._log)

    def ask(self, *request: Any, seconds: float = 0.0) -> Any:
        """Return the result of a request. Raises Failed."""
        reply = None
        with suppress(EOFError, OSError):
            self._connection.send(request)
            if self._connection.poll(LIMIT_SECONDS + seconds):
                reply = self._connection.recv()
        if reply is None:
            raise Failed(self._ending())
        if reply[0] == "error":
            raise Failed(reply[1])
        return reply[1]

    def _ending(self) -> str:
        with suppress(Exception):
            self._process.wait(1)
        end = _processes.ending(self._process.poll()) or "does not answer"
        last = _processes.last_line(self._log)
        return f"its process {end}" + (f": {last}" if last else "")

    def close(self) -> None:
        """End the process."""
        self._connection.close()
        self._process.kill()
        self._process.wait()
        self._log.close()


def peak_bytes() -> int:
    """Return the largest resident size of this process; 0 where the system does not say."""
    with suppress(OSError), open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    return 0


class _Worker:
    """The engine in this process."""

    def __init__(self) -> None:
        self.make: Callable[[], Callable[[], Any]] | None = None
        self.call: Callable[[], Any] | None = None

    def load(self, engine: str, task: Task) -> dict[str, Any]:
        """Load, call once, and return the times, the peak of memory and the outputs."""
        from executorch_c.bench.engines import ENGINES

        self.make = lambda: ENGINES[engine].load(task)
        start = perf_counter()
        for module in ENGINES[engine].modules:
            importlib.import_module(module)
        imported = perf_counter()
        self.call = self.make()
        loaded = perf_counter()
        outputs = self.call()
        first = perf_counter()
        return {
            "import_seconds": imported - start,
            "load_seconds": loaded - imported,
            "first_seconds": first - loaded,
            "peak_bytes": peak_bytes(),
            "outputs": [_plain(value) for value in outputs],
        }

    def turn(self, seconds: float) -> list[float]:
        """Return the times of calls for some seconds, of at least one."""
        assert self.call is not None
        times: list[float] = []
        until = perf_counter() + seconds
        while not times or perf_counter() < until:
            start = perf_counter()
            self.call()
            times.append(perf_counter() - start)
        return times

    def concurrent(self, count: int, seconds: float) -> float:
        """Return the calls per second of threads with a method each."""
        assert self.make is not None
        calls = [self.make() for _ in range(count)]
        for call in calls:
            call()
        done = [0] * count
        until = perf_counter() + seconds

        def work(at: int) -> None:
            while perf_counter() < until:
                calls[at]()
                done[at] += 1

        start = perf_counter()
        threads = [threading.Thread(target=work, args=(at,)) for at in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sum(done) / (perf_counter() - start)


def _plain(value: Any) -> Any:
    """Return an output as a float64 array; None for one that is no real array."""
    import numpy as np

    if hasattr(value, "detach"):
        value = value.detach().double().numpy()
    with suppress(TypeError, ValueError):
        return np.asarray(value, np.float64)
    return None


def main(descriptor: int) -> None:
    """Answer requests until the connection ends."""
    connection, worker = Connection(descriptor), _Worker()
    while True:
        try:
            name, *arguments = connection.recv()
        except (EOFError, OSError):
            os._exit(0)
        try:
            reply = ("ok", getattr(worker, name)(*arguments))
        except Exception as error:
            reply = ("error", f"{type(error).__name__}: {error}")
        connection.send(reply)
