"""The official runtime in a process of its own, which stays for later checks.

`acquire` returns a process, a waiting one or a new one, at once: it imports the runtime meanwhile.
A crash or a hang ends the process, never the check: the next call starts another.
"""

from __future__ import annotations

import atexit
import os
import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Literal

from executorch_c import _extras, _processes

START_SECONDS = 120.0
"""Maximum time of the imports, on a busy machine."""
END_SECONDS = 2.0
"""Time for a process to end by itself, before it is killed."""
MAX_LOG_BYTES = 1 << 16
"""Bytes of the log that are read."""
LOG_LINE = re.compile(r"^\[[\w.]+:\d+\] (.*)$", re.M)
"""A line of the runtime's log: [file.cpp:12] text."""
CALL_FAILED = re.compile(r"KernelCall failed at instruction \d+:(\d+) in operator ([\w:]+\.?\w*)")
CHECK_FAILED = re.compile(r"^Check failed \((.*?)\): ?(.*)$")

Program = bytes | str
"""The bytes of a program or the path of its file."""


class Unavailable(Exception):
    """The official runtime cannot run here; the message says why."""


@dataclass(frozen=True)
class Reply:
    """What became of the calls of a case."""

    outcome: Literal["ran", "refused", "crashed", "timeout"]
    outputs: list[Any]
    """Outputs of each call, packed (`official_child.packed`): a list, or the rows of `replay`."""
    about: str = ""
    """A phrase: the error, or how the process ended."""


def version() -> str:
    """Return the version of the installed executorch; empty if it is not known."""
    with suppress(metadata.PackageNotFoundError):
        return metadata.version("executorch")
    return ""


def missing() -> str | None:
    """Return why this Python cannot start the official runtime; None if it can."""
    if why := _processes.missing():
        return why
    if not _extras.is_installed("executorch") or not _extras.is_installed("torch"):
        return "executorch is not installed"
    return None


class Process:
    """A process with the official runtime."""

    def __init__(self) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  closed by `close`
        self._process, self._connection = _processes.start(
            "executorch_c.check.official_child", self._log
        )
        self._owner = os.getpid()
        self._is_busy = False
        self._operators: frozenset[str] | None = None

    @property
    def is_usable(self) -> bool:
        """True if the process waits for a request, and belongs to this one."""
        mine = self._owner == os.getpid() and not self._is_busy
        return mine and self._process.poll() is None

    def operators(self) -> frozenset[str]:
        """Return the names of its operators, after its start. Raises Unavailable."""
        if self._operators is None:
            reply = self._received(START_SECONDS)
            if reply is None or reply[0] != "ready":
                raise Unavailable(self._why_not(reply))
            self._operators = frozenset(reply[1])
        return self._operators

    def _why_not(self, reply: Any) -> str:
        if reply is not None:
            return f"executorch's bindings cannot be imported: {reply[1]}: {reply[2]}"
        last = _processes.last_line(self._log)
        end = _processes.ending(self._process.poll())
        self.close()
        return f"its process {end or 'did not start'}" + (f": {last}" if last else "")

    def _received(self, seconds: float) -> Any:
        """Return the next message; None if the process has ended or the time is over."""
        with suppress(EOFError, OSError):
            if self._connection.poll(seconds):
                return self._connection.recv()
        return None

    def load(self, program: Program, data: Program | None, threads: int) -> None:
        """Send a program: once for all its cases. Raises Unavailable."""
        self.operators()
        given = program, data
        try:
            follows = (isinstance(one, bytes) or one for one in given)
            self._connection.send(("load", *follows, threads))
            for one in given:
                if isinstance(one, bytes):
                    self._connection.send_bytes(one)  # without a pickled copy
        except OSError as error:
            raise Unavailable(f"its process ended: {error}") from error

    def forget(self) -> None:
        """Let the process free the program."""
        with suppress(OSError):
            self._connection.send(("forget",))

    def submit(
        self, method: str, calls: Sequence[Any], names: Sequence[str], seconds: float
    ) -> None:
        """Begin to run calls from the initial state; `reply` has their outputs."""
        self._begin("run", method, calls, names, seconds)

    def replay(self, steps: Sequence[tuple[str, Sequence[Any], int]], seconds: float) -> None:
        """Begin to run calls of several methods (`official_child.ChildProgram.replay`); `reply` has
        the rows that are kept."""
        self._begin("replay", steps, seconds)

    def _begin(self, *request: Any) -> None:
        """Send a request whose reply may take its time."""
        self._is_busy = True
        os.ftruncate(self._log.fileno(), 0)  # the offset is shared with the process
        os.lseek(self._log.fileno(), 0, os.SEEK_SET)
        with suppress(OSError):
            self._connection.send(request)

    def reply(self, seconds: float) -> Reply:
        """Return the outputs of the calls that were submitted, or how they failed."""
        message = self._received(seconds)
        if message is not None:
            self._is_busy = False
            if message[0] == "ran":
                return Reply("ran", message[1])
            return Reply("refused", [], _refusal(message[2], self.log()))
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0.5)
        status, log = self._process.poll(), self.log()
        self.close()
        if status is None or -status == signal.SIGALRM:
            return Reply("timeout", [])
        return Reply("crashed", [], _refusal(_processes.ending(status), log))

    def trace(
        self, method: str, calls: Sequence[Any], size: int, seconds: float
    ) -> tuple[bytes, bytes] | None:
        """Return an ETDump of calls from the initial state, and the values in it; None if the
        process fails at it. `size`: bytes of the values."""
        self._is_busy = True
        with suppress(OSError):
            self._connection.send(("trace", method, calls, size, seconds))
        message = self._received(seconds)
        if message is None:
            self.close()
            return None
        self._is_busy = False
        return (message[1], message[2]) if message[0] == "traced" else None

    def log(self) -> str:
        """Return what the process has written to its log."""
        return os.pread(self._log.fileno(), MAX_LOG_BYTES, 0).decode(errors="replace")

    def close(self) -> None:
        """End the process, and wait for it. In a fork of its owner: close files only."""
        self._connection.close()
        if self._owner == os.getpid():
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(0 if self._operators is None else END_SECONDS)
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
        self._log.close()


def _refusal(error: str, log: str) -> str:
    """Return an error with the operator, instruction and reason from the runtime's log."""
    lines = LOG_LINE.findall(log)
    failed = [match for line in lines if (match := CALL_FAILED.search(line))]
    where = [f"{failed[0][2]}, instruction {failed[0][1]}"] if failed else []
    checks = [match for line in lines if (match := CHECK_FAILED.match(line))]
    reason = next((match[2] for match in checks if match[2]), None)
    if reason is None and checks:
        reason = f"not {checks[0][1]}"
    if reason is None and not failed:
        reason = lines[-1] if lines else None
    return ": ".join([*where, *filter(None, [reason, error])])


# ---- processes of this Python process -----------------------------------------------------------

_idle: list[Process] = []
"""Processes that wait for a check: one, rarely more."""
_lock = threading.Lock()


def acquire() -> Process:
    """Return a process: a waiting one, or a new one, which imports the runtime meanwhile. Raises
    Unavailable."""
    why = missing()
    if why is not None:
        raise Unavailable(why)
    with _lock:
        while _idle:
            process = _idle.pop()
            if process.is_usable:
                return process
            process.close()
    try:
        return Process()
    except OSError as error:
        raise Unavailable(f"its process does not start: {error}") from error


def release(process: Process) -> None:
    """Keep a process for the next check; another than the first ends."""
    with _lock:
        if process.is_usable and not _idle:
            _idle.append(process)
            return
    process.close()


def _close_all() -> None:
    while _idle:
        _idle.pop().close()


def _after_fork() -> None:
    """Forget the parent's processes in a fork."""
    global _lock
    _lock = threading.Lock()
    _close_all()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_after_fork)
