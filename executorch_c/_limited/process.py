"""The side of this process: starts a process with limits at the first request, keeps it, and starts
another after one has ended.

Forks of this process start their own. No module of the user's is imported. Ctrl-C in a terminal,
which reaches both processes, ends the request here.
"""

from __future__ import annotations

import atexit
import marshal
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import weakref
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from executorch_c import _extras, _processes
from executorch_c._limited import child

SECONDS_TO_START = 60.0
"""Time by the clock of the imports, on a busy machine."""
SECONDS_TO_END = 5.0
"""Time by the clock of a process that has closed its connection to end."""
CLOCK_FACTOR = 10.0
"""Time by the clock for each second of processor time: other processes run, too."""
ENVIRONMENT = {
    "LD_PRELOAD": "",  # sanitizers and allocators that reserve more memory than the limit
    "MALLOC_ARENA_MAX": "1",
    "RAYON_NUM_THREADS": "1",
    "RUST_BACKTRACE": "0",
    "TOKENIZERS_PARALLELISM": "false",
}


@dataclass(frozen=True)
class Limits:
    """Limits of a request."""

    seconds: float
    """Processor time; by the clock, `CLOCK_FACTOR` times as much."""
    memory: int
    """Bytes of address space in addition to those after the imports."""
    reply: int
    """Bytes of a reply."""


class Refused(Exception):
    """The service raised an exception: its type's name and its message."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"

    @property
    def kind(self) -> str:
        """Return the name of the exception's type."""
        return str(self.args[0])

    @property
    def message(self) -> str:
        """Return the exception's message."""
        return str(self.args[1])


class Ended(Exception):
    """The request had no answer: a phrase, "needs more than 512 MB of memory"."""


class LimitedProcess:
    """A process for the requests of a service. Threads wait for each other.

    Args:
        service: A Python file with `answer(request)`, which imports only packages and the standard
            library.
        packages: Packages that it imports.
        limits: Limits of a request.
        setup: A first request to each process that is started; None for none. It is kept.
    """

    def __init__(
        self, service: Path, packages: tuple[str, ...], limits: Limits, setup: Any = None
    ) -> None:
        self.service, self.packages, self.limits, self.setup = service, packages, limits, setup
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: socket.socket | None = None
        self._lock = threading.Lock()
        _all.add(self)

    def ask(self, request: object) -> str | bytes:
        """Return the service's answer to a value of marshal's types.

        Raises Refused for an exception of the service, Ended if it exceeds a limit or its process
        crashes, OSError if none can be started.
        """
        with self._lock:
            try:
                if self._process is None or self._process.poll() is not None:
                    self._start()
                return self._answer(request)
            except Refused:
                raise
            except BaseException:  # the next request must not get this one's answer
                self._close()
                raise

    def close(self) -> None:
        """End the process, if there is one. The next request starts another."""
        with self._lock:
            self._close()

    # ---- the process --------------------------------------------------------------------------

    def _start(self) -> None:
        if why := _processes.missing():
            raise OSError(f"a process with limits cannot be started: {why}")
        self._close()
        folders = list(dict.fromkeys(map(_extras.folder_of, self.packages)))
        environment = {**os.environ, **ENVIRONMENT}
        with _starting:
            self._pipe, theirs = socket.socketpair()
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-X", "utf8", child.__file__]
                    + [str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    env=environment,
                )
        try:
            first = self._exchange(
                (folders, self.packages, str(self.service), self.limits.memory), SECONDS_TO_START
            )
        except (Refused, Ended) as error:
            raise OSError(f"a process with limits cannot be started: {error}") from error
        assert first == "ready"
        if self.setup is not None:
            self._answer(self.setup)

    def _close(self) -> None:
        process, pipe = self._process, self._pipe
        self._process = self._pipe = None
        if pipe is not None:
            pipe.close()
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()

    def __del__(self) -> None:
        self._close()

    def _forget(self) -> None:
        """Leave the process to the parent, after a fork."""
        process, pipe = self._process, self._pipe
        self._process = self._pipe = None
        self._lock = threading.Lock()
        if pipe is not None:
            pipe.close()
        if process is not None:
            process.returncode = 0  # it is no child of this process

    # ---- messages -----------------------------------------------------------------------------

    def _answer(self, request: object) -> str | bytes:
        """Return the answer to a request."""
        seconds = self.limits.seconds
        return self._exchange((seconds, request), seconds * CLOCK_FACTOR)

    def _exchange(self, value: object, seconds: float) -> str | bytes:
        """Send a frame and return the answer."""
        end = time.monotonic() + seconds
        try:
            self._send(value, end)
            (size,) = struct.unpack("<Q", self._read(8, end))
            if not 1 <= size <= 1 + self.limits.reply:
                raise Ended(f"gives more than {self.limits.reply:,} bytes")
            data = self._read(size, end)
        except TimeoutError:
            raise Ended(f"needs more than {seconds:g} s") from None
        except (EOFError, OSError):
            raise Ended(self._ending()) from None
        tag, data = data[:1], data[1:]
        if tag == child.MEMORY:
            raise Ended(f"needs more than {self.limits.memory >> 20:,} MB of memory")
        if tag == child.BYTES:
            return data
        text = data.decode("utf-8", "surrogatepass")
        if tag == child.TEXT:
            return text
        kind, _, message = text.partition("\0")
        raise Refused(kind, message)

    def _ending(self) -> str:
        """Return how the process ended, as a phrase."""
        assert self._process is not None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(SECONDS_TO_END)
        status = self._process.poll()
        if status == -signal.SIGPROF:
            return f"needs more than {self.limits.seconds:g} s of processor time"
        return f"its process {_processes.ending(status) or 'closed its connection'}"

    def _send(self, value: Any, end: float) -> None:
        assert self._pipe is not None
        data = marshal.dumps(value)
        self._pipe.settimeout(max(end - time.monotonic(), 0.001))
        self._pipe.sendall(struct.pack("<Q", len(data)), socket.MSG_NOSIGNAL)
        self._pipe.sendall(data, socket.MSG_NOSIGNAL)

    def _read(self, size: int, end: float) -> bytes:
        assert self._pipe is not None
        data = bytearray()
        while len(data) < size:
            self._pipe.settimeout(max(end - time.monotonic(), 0.001))
            part = self._pipe.recv(min(size - len(data), 1 << 20))
            if not part:
                raise EOFError
            data += part
        return bytes(data)


_all: weakref.WeakSet[LimitedProcess] = weakref.WeakSet()
_starting = threading.Lock()
"""Held while a process starts: a fork at that time would keep its connection open."""


def _close_all() -> None:
    for one in list(_all):
        one._close()


def _after_fork() -> None:
    _starting.release()
    for one in list(_all):
        one._forget()


atexit.register(_close_all)
os.register_at_fork(
    before=_starting.acquire, after_in_parent=_starting.release, after_in_child=_after_fork
)
