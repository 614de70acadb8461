"""The process of the second engine: calls of a program in the official runtime.

`executorch_c.check.official` starts it and sends requests: ("load", program, data, threads), where
True stands for bytes that follow as messages of their own, then
("run", method, calls, names, seconds) for each case, ("replay", steps, seconds) for each plan of a
language model, ("trace", method, calls, size, seconds) and ("forget",). Replies are pickled tuples,
the first item is a word; "load" and "forget" have none.
A tensor is (dtype, shape, order of its dimensions in memory, bytes).

The runtime is imported without `executorch.runtime`, which imports the whole exporter.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Any

GRACE_SECONDS = 5.0
"""Seconds beyond the time limit after which the process ends itself: its parent may be gone."""
KERNELS = (
    ("kernels/quantized", "*quantized_ops_aot_lib.*"),
    ("extension/llm/custom_ops", "*custom_ops_aot_lib.*"),
)
"""Folders and names of the wheel's libraries with further operators."""


def packed(tensor: Any) -> tuple[str, tuple[int, ...], tuple[int, ...], bytes]:
    """Return a torch tensor as a tuple of plain values."""
    import torch

    order = sorted(range(tensor.dim()), key=lambda i: (-tensor.stride(i), i))
    flat = tensor.detach().permute(order).contiguous().reshape(-1)
    flat = flat.as_strided((len(flat),), (1,))  # a single element may have another stride
    return (
        str(tensor.dtype).removeprefix("torch."),
        tuple(tensor.shape),
        tuple(order),
        flat.view(torch.uint8).numpy().tobytes(),
    )


def unpacked(dtype: str, shape: Sequence[int], order: Sequence[int], data: bytes) -> Any:
    """Return the tensor of a tuple of `packed`."""
    import torch

    flat = torch.empty(0, dtype=getattr(torch, dtype))
    if data:
        flat = torch.frombuffer(bytearray(data), dtype=getattr(torch, dtype))
    inverse = sorted(range(len(order)), key=lambda i: order[i])
    return flat.reshape([shape[i] for i in order]).permute(inverse)


def wire(value: Any) -> Any:
    """Return a value to send: a tensor is packed."""
    return packed(value) if hasattr(value, "detach") else value


def unwired(value: Any) -> Any:
    """Return a value that was received: a packed tensor is a tensor again."""
    return unpacked(*value) if isinstance(value, tuple) else value


def _bindings() -> Any:
    """Return the official runtime's extension module, with all operators of its wheel."""
    import torch

    try:
        import executorch.extension.pybindings._C as bindings
    except ImportError:
        import executorch.extension.pybindings.portable_lib as bindings
    extension = Path(bindings.__file__ or "").resolve()
    root = next(one for one in extension.parents if one.name == "executorch")
    for folder, name in KERNELS:
        for library in (root / folder).glob(name):
            with suppress(OSError):  # another platform's
                torch.ops.load_library(library)  # type: ignore[no-untyped-call]
    return bindings


class ChildProgram:
    """A program, from its bytes or file, and its data file."""

    def __init__(self, bindings: Any, program: bytes | str, data: bytes | str | None) -> None:
        self._bindings, self._program = bindings, program
        self._file = None
        if isinstance(data, bytes):
            self._file = NamedTemporaryFile(suffix=".ptd")  # noqa: SIM115
            self._file.write(data)
            self._file.flush()
            data = self._file.name
        self._data = data

    def fresh(self, **options: Any) -> Any:
        """Return the program anew: its state is the initial one."""
        load = (
            self._bindings._load_program
            if isinstance(self._program, str)
            else self._bindings._load_program_from_buffer
        )
        options.setdefault("enable_etdump", False)
        options.setdefault("debug_buffer_size", 0)
        verification = self._bindings.Verification.InternalConsistency
        return load(
            self._program, program_verification=verification, data_path=self._data, **options
        )

    def run(self, method: str, calls: Sequence[Sequence[Any]], names: Sequence[str]) -> list[Any]:
        """Return the outputs of calls in a row from the initial state, each with the values of
        buffers by name."""
        program = self.fresh()
        loaded = program.load_method(method)
        results = []
        for inputs in calls:
            outputs = loaded([unwired(value) for value in inputs])
            state = [loaded.get_attribute(name).clone() for name in names]
            results.append([wire(value) for value in [*outputs, *state]])
        return results

    def replay(self, steps: Sequence[tuple[str, Sequence[Any], int]]) -> list[Any]:
        """Return the last rows of the first output of calls (method, inputs, number of rows) in a
        row; a step without a method returns to the initial state."""
        methods: dict[str, Any] = {}
        results = []
        program = self.fresh()
        for name, inputs, rows in steps:
            if not name:
                methods, program = {}, self.fresh()
                continue
            if name not in methods:
                methods[name] = program.load_method(name)
            output = methods[name]([unwired(value) for value in inputs])[0]
            if rows:
                results.append(wire(output[..., -rows:, :].clone()))
        return results

    def trace(self, method: str, calls: Sequence[Sequence[Any]], size: int) -> tuple[bytes, bytes]:
        """Return an ETDump of calls in a row from the initial state, and the values in it."""
        program = self.fresh(enable_etdump=True, debug_buffer_size=size)
        loaded = program.load_method(method)
        for inputs in calls:
            loaded([unwired(value) for value in inputs])
        with TemporaryDirectory() as folder:
            files = Path(folder) / "run.etdp", Path(folder) / "run.bin"
            program.write_etdump_result_to_file(*map(str, files))
            return files[0].read_bytes(), files[1].read_bytes()


def _limit(seconds: float) -> None:
    """Let the process end after some seconds; 0: never."""
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _serve(connection: Connection, bindings: Any) -> None:
    """Reply to requests until the other side closes the connection."""
    loaded: ChildProgram | None = None
    while True:
        word, *request = connection.recv()
        if word == "forget":
            loaded = None
            continue
        try:
            if word == "load":
                loaded = None
                *follows, threads = request
                program, data = (connection.recv_bytes() if one is True else one for one in follows)
                if bindings._threadpool_get_thread_count() != threads:
                    bindings._unsafe_reset_threadpool(threads)
                loaded = ChildProgram(bindings, program, data)
                continue
            assert loaded is not None, "no program"
            _limit(request[-1] + GRACE_SECONDS)
            if word == "run":
                reply: tuple[Any, ...] = ("ran", loaded.run(*request[:-1]))
            elif word == "replay":
                reply = ("ran", loaded.replay(*request[:-1]))
            else:
                reply = ("traced", *loaded.trace(*request[:-1]))
        except Exception as error:
            reply = ("refused", type(error).__name__, str(error))
        _limit(0)
        if word != "load":
            connection.send(reply)


def main(descriptor: int) -> None:
    """Serve requests on a connection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's: it closes the connection
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    with Connection(descriptor) as connection, suppress(EOFError, ConnectionError):
        try:
            import torch

            torch.set_num_threads(1)
            bindings = _bindings()
        except Exception as error:
            connection.send(("failed", type(error).__name__, str(error)))
            return
        connection.send(("ready", list(bindings._get_operator_names())))
        _serve(connection, bindings)
    sys.stdout.flush()
    os._exit(0)  # destructors of several libraries at exit are not needed
