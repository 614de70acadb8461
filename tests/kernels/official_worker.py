"""Run many methods of a program with the official runtime, in processes that may crash.

A server on stdin and stdout: it imports the runtime once and forks a child for the calls. If the
child dies, the server records the call and forks another child for the next calls. Requests
and answers are pickles: (pte, [(method, inputs)]) and, for each call, ("ran", outputs),
("refused", text) or ("died", number of the signal).
"""

import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, BinaryIO

import ml_dtypes
import numpy as np

SECONDS = 60
Answer = tuple[str, Any]


def packed(value: Any) -> Any:
    """Return an array that is not contiguous as a contiguous one and the axes that lay it out:
    pickling loses layouts."""
    if not isinstance(value, np.ndarray) or value.flags.c_contiguous:
        return value
    order = sorted(range(value.ndim), key=lambda i: -value.strides[i])
    return np.ascontiguousarray(value.transpose(order)), tuple(np.argsort(order))


def to_tensor(value: Any) -> Any:
    import torch

    if isinstance(value, tuple):
        array, axes = value
        return to_tensor(array).permute([int(axis) for axis in axes])
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(value.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(value)


def to_array(value: Any) -> Any:
    import torch

    if not isinstance(value, torch.Tensor):
        return value
    if value.dtype == torch.bfloat16:
        return value.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return value.numpy().copy()


def call(program: Any, name: str, inputs: list[Any], log: BinaryIO) -> Answer:
    start = log.seek(0, os.SEEK_END)
    try:
        outputs = program.load_method(name).execute([to_tensor(v) for v in inputs])
        return "ran", [to_array(v) for v in outputs]
    except Exception as error:
        log.seek(start)
        return "refused", f"{failed_check(log.read())}{type(error).__name__}: {error}"


def failed_check(log: bytes) -> str:
    """Return the first check that failed, as the runtime logs it; empty without one."""
    result = re.search(r"Check failed \((.*)\):", log.decode(errors="replace"))
    return f"{result[1]}; " if result else ""


def child(writer: int, pte: bytes, calls: list[tuple[str, list[Any]]]) -> None:
    """Run calls silently, each with a time limit of some seconds."""
    log = tempfile.TemporaryFile()
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)
    from executorch.runtime import Runtime

    program = Runtime.get().load_program(pte)
    with os.fdopen(writer, "wb") as pipe:
        for name, inputs in calls:
            signal.alarm(SECONDS)
            pickle.dump(call(program, name, inputs, log), pipe)
            pipe.flush()


def answers(pipe: BinaryIO) -> list[Answer]:
    """Return the results that a child wrote before it ended."""
    rows = []
    try:
        while True:
            rows.append(pickle.load(pipe))
    except (EOFError, pickle.UnpicklingError):
        return rows


def run(pte: bytes, calls: list[tuple[str, list[Any]]]) -> list[Answer]:
    done: list[Answer] = []
    while len(done) < len(calls):
        reader, writer = os.pipe()
        process = os.fork()
        if process == 0:
            try:
                child(writer, pte, calls[len(done) :])
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            done += answers(pipe)
        _, status = os.waitpid(process, 0)
        if len(done) < len(calls):
            code = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
            done.append(("died", code))
    return done


def serve() -> None:
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    import executorch.extension.llm.custom_ops.custom_ops  # noqa: F401  (registers its kernels)
    import executorch.kernels.quantized  # noqa: F401  (its, too)
    import executorch.runtime  # noqa: F401  (once, not in every child)

    while True:
        try:
            pte, calls = pickle.load(requests)
        except EOFError:
            return
        pickle.dump(run(pte, calls), replies)
        replies.flush()


class Official:
    """The official runtime, in a process that forks one for each program."""

    def __init__(self) -> None:
        command = [sys.executable, str(Path(__file__).resolve())]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.worker = subprocess.Popen(command, **pipes, stderr=subprocess.DEVNULL)

    def __call__(self, pte: bytes, calls: list[tuple[str, list[Any]]]) -> list[Answer]:
        assert self.worker.stdin and self.worker.stdout
        sent = [(name, [packed(v) for v in inputs]) for name, inputs in calls]
        pickle.dump((pte, sent), self.worker.stdin)
        self.worker.stdin.flush()
        return pickle.load(self.worker.stdout)

    def close(self) -> None:
        assert self.worker.stdin
        self.worker.stdin.close()
        self.worker.wait(60)


if __name__ == "__main__":
    serve()
