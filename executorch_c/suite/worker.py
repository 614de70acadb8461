"""Runs checks in a process that has imported torch (`server`): one for this process, started by the
first check."""

from __future__ import annotations

import atexit
import os
import subprocess
import tempfile
import threading
from concurrent.futures import Future
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

from executorch_c import _processes

if TYPE_CHECKING:
    from executorch_c.suite.checks import CheckTask


SECONDS_TO_END = 5.0
"""Time for the process to end by itself, before it is killed."""


class Worker:
    """The process, and the checks that it runs."""

    def __init__(self) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  closed with the process
        self._process, self._connection = _processes.start("executorch_c.suite.server", self._log)
        self._waiting: dict[int, Future[dict[str, Any]]] = {}
        self._numbers, self._lock = count(), threading.Lock()
        self._has_ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def submit(self, task: CheckTask, threads: int) -> Future[dict[str, Any]]:
        """Begin a check with a number of threads; the future has its row."""
        future = Future[dict[str, Any]]()
        with self._lock:
            if self._has_ended:
                raise BrokenPipeError
            number = next(self._numbers)
            self._waiting[number] = future
            self._connection.send((number, task, threads))
        return future

    def _read(self) -> None:
        """Set the results of futures until the process ends."""
        with suppress(EOFError, OSError):
            while True:
                number, row = self._connection.recv()
                with self._lock:
                    future = self._waiting.pop(number)
                future.set_result(row)
        self._end()

    def _end(self) -> None:
        """Let checks that wait for the ended process be errors."""
        with self._lock:
            self._has_ended = True
            waiting, self._waiting = self._waiting, {}
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(SECONDS_TO_END)
        end = _processes.ending(self._process.poll()) or "hangs"
        for future in waiting.values():
            about = f"the process that runs the checks {end}"
            future.set_result({"verdict": "error", "about": about, "problems": [], "seconds": 0.0})

    def close(self) -> None:
        """End the process, and its checks."""
        with self._lock, suppress(OSError):
            self._connection.send(None)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(SECONDS_TO_END)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._connection.close()
        self._log.close()


_worker: Worker | None = None
_lock = threading.Lock()


def run(task: CheckTask, threads: int | None = None) -> dict[str, Any]:
    """Return the row of a check: what executors run.

    Args:
        threads: Number of torch's threads. Default: CPUs of the process.
    """
    global _worker
    threads = threads or len(os.sched_getaffinity(0))
    for _ in range(2):
        with _lock:
            if _worker is None:
                _worker = Worker()
            worker = _worker
        try:
            return worker.submit(task, threads).result()
        except OSError:  # it ended before: another one
            with _lock:
                _worker = None if _worker is worker else _worker
    raise RuntimeError("the process that runs checks ends at once")


def close() -> None:
    """End the process of this process, if there is one."""
    global _worker
    with _lock:
        worker, _worker = _worker, None
    if worker is not None:
        worker.close()


def _after_fork() -> None:
    """Leave the parent's process to the parent."""
    global _worker, _lock
    _worker, _lock = None, threading.Lock()


atexit.register(close)
os.register_at_fork(after_in_child=_after_fork)
