"""A process that imports torch once, and forks for each check: a crash, a time limit or what a
model changes in torch ends with the fork.

A small export before the forks fills torch's tables, which takes longer than the imports. It uses
one thread: OpenMP's threads do not survive a fork.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import tempfile
import time
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe, wait
from typing import IO, TYPE_CHECKING, Any

from executorch_c import _processes
from executorch_c._render import json as _json
from executorch_c.suite import one

if TYPE_CHECKING:
    from executorch_c.suite.checks import CheckTask


class Fork:
    """A check in a fork of this process, the leader of a process group."""

    def __init__(self, number: int, task: CheckTask, threads: int) -> None:
        self.number, self.seconds = number, task.seconds
        self.start = time.monotonic()
        self.log = tempfile.TemporaryFile()  # noqa: SIM115  closed by `end`
        self.connection, theirs = Pipe(duplex=False)
        with theirs:
            self.pid = os.fork()
            if not self.pid:
                _run(task, threads, theirs, self.log)
        with suppress(OSError):
            os.setpgid(self.pid, self.pid)

    @property
    def left(self) -> float:
        """Seconds until the time limit."""
        return self.start + self.seconds - time.monotonic()

    def end(self) -> dict[str, Any]:
        """Return the row of a check that has ended, or whose time is over."""
        row: dict[str, Any] | None = None
        if is_late := not self.connection.poll() and self.left <= 0:
            self.kill()
        with suppress(EOFError, OSError, ValueError):
            row = json.loads(self.connection.recv_bytes())
        if row is not None:
            self.kill()  # what it has started, such as the official runtime
        _, status = os.waitpid(self.pid, 0)
        self.kill()
        if row is None:
            about = _processes.ending(os.waitstatus_to_exitcode(status))
            if is_late:
                about = f"not done after {self.seconds:g} s, the time limit"
            last = _processes.last_line(self.log)
            row = {"verdict": "error", "about": f"the check {about}" if not is_late else about}
            row["problems"] = [f"its last line of output: {last}"] if last else []
        self.connection.close()
        self.log.close()
        return {"seconds": time.monotonic() - self.start, **row}

    def kill(self) -> None:
        """End the processes of the group."""
        with suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)


def _run(task: CheckTask, threads: int, connection: Connection, log: IO[bytes]) -> None:
    """Run a check in the fork, send its row, and end the process."""
    status = 1
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # for what the check starts
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
        import torch

        torch.set_num_threads(threads)
        row = one.run_check(task)
        connection.send_bytes(json.dumps(_json.plain(row)).encode())
        status = 0
    except BaseException as error:  # SystemExit of a model, too
        connection.send_bytes(json.dumps(one.error_row(error)).encode())
    finally:
        os._exit(status)


class Server:
    """Begins the checks that come over a connection, and sends their rows."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.forks: list[Fork] = []

    def serve(self) -> None:
        """Serve until the other side closes the connection."""
        while True:
            left = min((fork.left for fork in self.forks), default=None)
            sources = [self.connection, *(fork.connection for fork in self.forks)]
            ready = wait(sources, None if left is None else max(left, 0.0))
            for fork in [f for f in self.forks if f.connection in ready or f.left <= 0]:
                self.forks.remove(fork)
                self.connection.send((fork.number, fork.end()))
            if self.connection in ready:
                request = self.connection.recv()
                if request is None:
                    return
                self.forks.append(Fork(*request))

    def close(self) -> None:
        """End all checks."""
        for fork in self.forks:
            fork.kill()


def warm_up() -> None:
    """Import what checks import, and check a small model."""
    import torch

    from executorch_c.testing import check_model

    with suppress(Exception):  # each check tells what is missing
        model = torch.nn.Linear(2, 2).eval()
        check_model(model, (torch.ones(1, 2),), flow="xnnpack", n_random=0, engines="here")


def main(descriptor: int) -> None:
    """Serve checks on a connection."""
    for number in (signal.SIGINT, signal.SIGTERM):  # the parent's: it closes the connection
        signal.signal(number, signal.SIG_IGN)
    sys.path[:] = map(os.path.abspath, sys.path)  # forks change the working directory
    server = Server(Connection(descriptor))
    try:
        import torch

        torch.set_num_threads(1)
        warm_up()
        gc.collect()
        gc.freeze()  # forks share the pages of what lives
        server.serve()
    except (EOFError, ConnectionError):
        pass
    finally:
        server.close()
        os._exit(0)
