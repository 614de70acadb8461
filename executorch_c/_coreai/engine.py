"""The engine of Core AI in a child process, which a damaged or hostile model may end.

All delegates of this process share one child, and its answers come one at a time. After its end
the next call starts another one, where delegates load their models again (`Engine.generation`). A
forked process gets a child of its own.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from executorch_c._core import AccessFailedError, DelegateInvalidHandleError, InvalidArgumentError
from executorch_c._coreai import answers
from executorch_c._coreai.messages import receive, send

Result = TypeVar("Result")

SECONDS_TO_END = 5.0
"""Time for a process that has closed its socket to end."""
MAX_SECONDS_TO_UNLOAD = 60.0


class Engine:
    """A child process."""

    generations = 0

    def __init__(self) -> None:
        Engine.generations += 1
        self.generation = Engine.generations
        self.models = 0
        self.folder = tempfile.mkdtemp(prefix="executorch_c_coreai_")
        self.pipe, theirs = socket.socketpair()
        paths = [os.path.abspath(path) for path in sys.path]
        try:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", "executorch_c._coreai.child"),
                    *(str(theirs.fileno()), str(os.getpid()), self.folder),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # no Ctrl-C of the terminal
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            )
        except OSError as error:
            self.pipe.close()
            shutil.rmtree(self.folder, ignore_errors=True)
            raise AccessFailedError(
                f"Core AI's engine runs in a process of '{sys.executable}', which cannot be "
                f"started: {error}"
            ) from error
        finally:
            theirs.close()

    def ask(
        self,
        what: str,
        seconds: float,
        request: dict[str, Any],
        arrays: list[np.ndarray],
        read: Callable[[dict[str, Any], list[np.ndarray]], Result],
    ) -> Result:
        """Return what `read` makes of the answer to a message. Raises InvalidArgumentError if that
        is an exception of the engine, and DelegateInvalidHandleError if the process ends, takes
        longer or sends what `read` refuses; it is then closed, as after an exception of another
        kind."""
        deadline = time.monotonic() + seconds
        try:
            self.pipe.settimeout(seconds)
            send(self.pipe, request, arrays)
            reply, results = receive(self.pipe, deadline)
            error = answers.error(reply)
            if error is None:
                return read(reply, results)
        except TimeoutError:
            self.close()
            raise DelegateInvalidHandleError(
                f"Core AI's engine has not ended in {seconds:g} seconds (option "
                f"'timeout_seconds') in {what}; its process was ended, the next call starts "
                "another one"
            ) from None
        except (EOFError, OSError):
            text = self.end()
            raise DelegateInvalidHandleError(
                f"Core AI's engine died in {what}: {text}; the next call starts another process"
            ) from None
        except ValueError as malformed:
            self.close()
            raise DelegateInvalidHandleError(
                f"Core AI's engine sent a malformed answer in {what}: {malformed}; its process was "
                "ended, the next call starts another one"
            ) from malformed
        except BaseException:
            self.close()  # its answer would be that to the next message
            raise
        raise InvalidArgumentError(f"Core AI's engine refused {what}: {error}")

    def end(self) -> str:
        """Close the process that has ended, and return how."""
        try:
            code = self.process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            code = None
        self.close()
        if code is None:
            return "it closed its socket"
        if code >= 0:
            return f"exit status {code}"
        try:
            return f"signal {signal.Signals(-code).name}"
        except ValueError:
            return f"signal {-code}"

    def close(self) -> None:
        """End the process, and remove its files."""
        global _engine
        if _engine is self:
            _engine = None
        self.pipe.close()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


_engine: Engine | None = None
_lock = threading.Lock()


class Model:
    """A model asset of a delegate, loaded into the current engine."""

    def __init__(self) -> None:
        self.generation = 0
        self.number = 0
        self.functions: list[dict[str, Any]] = []

    @property
    def is_loaded(self) -> bool:
        """True if the current engine has the model."""
        return _engine is not None and _engine.generation == self.generation

    def load(self, files: dict[str, bytes], seconds: float) -> None:
        """Load the files of an asset. Raises InvalidArgumentError for the engine's exceptions."""
        global _engine
        with _lock:
            if _engine is None:
                _engine = Engine()
            engine = _engine
            engine.models += 1
            self.generation, self.number = engine.generation, engine.models
            root = Path(engine.folder, str(self.number))
            for name, data in files.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            request = {"do": "load", "model": self.number, "path": f"{root}/model.aimodel"}
            self.functions = engine.ask(
                "the load of the model", seconds, request, [], answers.functions
            )

    def run(
        self, function: str, arrays: list[np.ndarray], seconds: float, trace: bool
    ) -> tuple[list[tuple[str, bool]], list[np.ndarray]]:
        """Return the names of nodes, of a traced call, with whether they have values, and these
        values before the outputs."""
        return self.ask("run", function, seconds, arrays, answers.values, trace=trace)

    def graph(self, function: str, seconds: float) -> dict[str, Any]:
        """Return nodes (names, numbers of values that they read, types) and numbers of outputs."""
        return self.ask("graph", function, seconds, [], answers.graph)

    def ask(
        self,
        do: str,
        function: str,
        seconds: float,
        arrays: list[np.ndarray],
        read: Callable[[dict[str, Any], list[np.ndarray]], Result],
        **more: bool,
    ) -> Result:
        """Return what `read` makes of the engine's answer about a function."""
        what = f"function '{function}'"
        request = {"do": do, "model": self.number, "function": function, **more}
        with _lock:
            if _engine is None or _engine.generation != self.generation:
                raise DelegateInvalidHandleError(f"Core AI's engine ended before {what}")
            return _engine.ask(what, seconds, request, arrays, read)

    def unload(self, seconds: float) -> None:
        """Free the model in the engine, unless a call is running there; the engine is ended if it
        takes longer."""
        if not _lock.acquire(blocking=False):
            return
        try:
            if _engine is not None and _engine.generation == self.generation:
                request = {"do": "unload", "model": self.number}
                limit = min(seconds, MAX_SECONDS_TO_UNLOAD)
                _engine.ask("the end", limit, request, [], lambda *_: None)
        except (DelegateInvalidHandleError, InvalidArgumentError):
            pass
        finally:
            _lock.release()


def _close() -> None:
    if _engine is not None:
        _engine.close()


def _forget() -> None:
    """Leave the engine to the parent, after a fork."""
    global _engine, _lock
    engine, _engine, _lock = _engine, None, threading.Lock()
    if engine is not None:
        engine.pipe.close()
        engine.process.returncode = 0  # the process is no child of this one


atexit.register(_close)
os.register_at_fork(after_in_child=_forget)
