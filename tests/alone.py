"""Run functions that may crash, hang or exhaust memory in a forked process with limits."""

import contextlib
import faulthandler
import os
import pickle
import resource
import select
import signal
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")


def address_space() -> int:
    """Return the size of this process's address space in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def child(run: Callable[[], object], memory: int, writer: int) -> None:
    """Run a function, write its result or traceback to a pipe, and end the process."""
    answer: tuple[bool, object] = (False, "no answer")
    with contextlib.suppress(BaseException):
        faulthandler.disable()
        limit = address_space() + memory
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        try:
            answer = (True, run())
        except BaseException:  # noqa: BLE001  told to the parent
            answer = (False, traceback.format_exc())
        with os.fdopen(writer, "wb") as pipe:
            pickle.dump(answer, pipe)
    os._exit(0)


def alone(run: Callable[[], Result], *, seconds: float = 60, memory: int = 4 << 30) -> Result:
    """Run a function in a forked process and return its result. Fail if a signal ends the process.

    `seconds` limits its run time, `memory` the growth of its address space in bytes.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        child(run, memory, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        in_time = bool(select.select([pipe], [], [], seconds)[0])
        if not in_time:
            os.kill(pid, signal.SIGKILL)
        data = pipe.read()
    _, status = os.waitpid(pid, 0)
    assert in_time, f"ran for more than {seconds} seconds"
    assert not os.WIFSIGNALED(status), f"ended by {signal.Signals(os.WTERMSIG(status)).name}"
    done, result = pickle.loads(data)
    assert done, result
    return result
