"""The API of the official `executorch.extension.pybindings.portable_lib`, on this runtime.

A test suite of the export flow runs on this runtime with one changed import:

    from executorch_c.portable_lib import _load_for_executorch_from_buffer

Outputs are torch tensors, as in the official module; NumPy arrays where torch is not installed.
Inputs are tensors, numbers, or whatever `Method.execute` takes. Differences: exceptions are
executorch_c's (and RuntimeErrors), methods of a program do not share memory, and outputs always own
their memory, independently of `clone_outputs`.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c import Verification
from executorch_c._core import (
    AccessFailedError,
    Error,
    InvalidArgumentError,
    Method,
    MethodMeta,
    NotSupportedError,
    Program,
    Runtime,
    TensorInfo,
)
from executorch_c.bundled import BundledProgram

if TYPE_CHECKING:
    import torch

    from executorch_c._types import Data
else:
    try:
        import torch
    except ImportError:
        torch = None

__all__ = [
    "BundledModule",
    "ExecuTorchMethod",
    "ExecuTorchModule",
    "ExecuTorchProgram",
    "MethodMeta",
    "TensorInfo",
    "Verification",
]

Inputs = Sequence[object]
"""Inputs of a call; an array or buffer is one input."""


def _as_input(index: int, value: object) -> object:
    """Return a detached tensor on the CPU."""
    if torch is None or not isinstance(value, torch.Tensor):
        return value
    if value.device.type not in ("cpu", "cuda"):
        raise InvalidArgumentError(
            f"input {index} is on device {value.device}, only CPU and CUDA tensors are supported"
        )
    return value.detach().cpu().resolve_conj().resolve_neg()


def _as_inputs(values: Inputs) -> tuple[object, ...]:
    return tuple(_as_input(index, value) for index, value in enumerate(values))


def _as_tensor(data: np.ndarray[Any, np.dtype[Any]]) -> Any:
    """Return a tensor on the memory of an array, with its strides; the array without torch."""
    if torch is None:
        return data
    if data.dtype.name != "bfloat16":
        return torch.from_numpy(data)
    return torch.from_numpy(data.view(np.int16)).view(torch.bfloat16)


def _as_output(value: object) -> Any:
    if isinstance(value, list):
        return [_as_output(item) for item in value]
    return _as_tensor(value) if isinstance(value, np.ndarray) else value


def _run(method: Method, call: object) -> list[Any]:
    """Run a method. Tensors of the caller that the program mutates are updated, as in the official
    runtime."""
    inputs = _one_or_many(call)
    outputs, mutated = method._execute_mutating(_as_inputs(inputs))
    for index, content in mutated:
        tensor = inputs[index]
        if torch is not None and isinstance(tensor, torch.Tensor):
            tensor.detach().copy_(_as_tensor(content))
    return [_as_output(out) for out in outputs]


def _one_or_many(inputs: object) -> Inputs:
    """Return the inputs of a call as a list or tuple: an array or buffer is one input, not one for
    each row."""
    if isinstance(inputs, (list, tuple)):
        return inputs
    is_buffer = isinstance(inputs, (str, bytes, bytearray, memoryview, array))
    return list(inputs) if isinstance(inputs, Sequence) and not is_buffer else [inputs]


class _PortableProgram:
    """Base of the official module and program classes."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._names = sorted(program.method_names)

    def method_meta(self, method_name: str) -> MethodMeta:
        """Return the metadata of a method, without loading it."""
        return self._program.metadata(method_name)

    def has_etdump(self) -> bool:
        """Return True if calls are traced for an ETDump."""
        return self._program.has_etdump

    def write_etdump_result_to_file(self, path: str, debug_buffer_path: str | None = None) -> None:
        """Write the ETDump."""
        self._program.write_etdump_result_to_file(path, debug_buffer_path)


class ExecuTorchModule(_PortableProgram):
    """A program whose methods are loaded at their first call, and keep their state.

    `data_error` is the error of its data file, raised when a method is loaded.
    """

    def __init__(self, program: Program, data_error: Error | None = None) -> None:
        super().__init__(program)
        self._data_error = data_error

    def run_method(
        self, method_name: str, inputs: object = (), clone_outputs: bool = True
    ) -> list[Any]:
        """Run a method on tensors and numbers; return a list of its outputs."""
        if self._data_error is not None:
            raise self._data_error.with_traceback(None)
        return _run(self._program.load_method(method_name), inputs)

    def forward(self, inputs: object = (), clone_outputs: bool = True) -> list[Any]:
        """Return run_method("forward", inputs)."""
        return self.run_method("forward", inputs)

    def __call__(self, inputs: object = (), clone_outputs: bool = True) -> list[Any]:
        return self.run_method("forward", inputs)

    def plan_execute(self, method_name: str, clone_outputs: bool = True) -> list[Any]:
        """Run a method without inputs."""
        return self.run_method(method_name)

    def method_names(self) -> list[str]:
        """Return the names of the methods, sorted."""
        return list(self._names)


class ExecuTorchMethod:
    """A loaded method: set inputs, execute, get outputs."""

    def __init__(self, method: Method) -> None:
        self._method = method
        self._inputs: Inputs = ()
        self._outputs: list[Any] = []

    def set_inputs(self, inputs: object) -> None:
        """Set the inputs of the next execute()."""
        values = list(_one_or_many(inputs))
        _as_inputs(values)  # raises for an invalid input
        self._inputs = values

    def execute(self) -> None:
        """Run the method on the inputs of set_inputs()."""
        self._outputs = _run(self._method, self._inputs)

    def get_outputs(self, clone_outputs: bool = True) -> list[Any]:
        """Return the outputs of the last execute()."""
        return list(self._outputs)

    def call(self, inputs: object = (), clone_outputs: bool = True) -> list[Any]:
        """Set inputs, execute, and return the outputs."""
        self.set_inputs(inputs)
        self.execute()
        return self.get_outputs()

    __call__ = call

    def method_meta(self) -> MethodMeta:
        """Return the metadata of this method."""
        return self._method.metadata

    def get_attribute(self, name: str) -> Any:
        """Return a buffer or parameter by name: the method's memory if mutable, else a copy."""
        content = self._method.get_attribute(name)
        return _as_tensor(content if content.flags.writeable else content.copy())


class ExecuTorchProgram(_PortableProgram):
    """A program whose methods are loaded by the caller."""

    def num_methods(self) -> int:
        """Return the number of methods."""
        return len(self._names)

    def get_method_name(self, method_index: int) -> str:
        """Return the name of a method. Raises RuntimeError for an invalid index."""
        if not 0 <= method_index < len(self._names):
            raise InvalidArgumentError(
                f"method index {method_index}: the program has {len(self._names)} methods"
            )
        return self._names[method_index]

    def load_method(self, method_name: str) -> ExecuTorchMethod:
        """Load a method and return it."""
        return ExecuTorchMethod(self._program.load_method(method_name))


class BundledModule:
    """A bundled program, for _load_for_executorch_from_bundled_program and for verification."""

    def __init__(self, bundled: BundledProgram) -> None:
        self._bundled = bundled

    def verify_result_with_bundled_expected_output(
        self, method_name: str, testset_idx: int, rtol: float = 1e-5, atol: float = 1e-8
    ) -> list[Any]:
        """Run a test case and return the outputs. Raises RuntimeError if they differ."""
        [result] = self._bundled.verify(method_name, testset_idx, rtol=rtol, atol=atol)
        if not result:
            raise RuntimeError(str(result))
        return [_as_output(output) for output in result.outputs]


def _open(
    source: Data,
    data: Data | None,
    enable_etdump: bool,
    debug_buffer_size: int,
    verification: Verification,
) -> Program:
    return Runtime.get().load_program(
        source,
        verification=int(verification),
        data_path=data,
        enable_etdump=enable_etdump,
        debug_buffer_size=debug_buffer_size,
    )


def _open_module(
    source: Data,
    data: Data | None,
    enable_etdump: bool,
    debug_buffer_size: int,
    verification: Verification,
) -> ExecuTorchModule:
    """Open a program. With an invalid data file, its metadata can be read, and its methods do not
    load."""
    rest = (enable_etdump, debug_buffer_size, verification)
    try:
        return ExecuTorchModule(_open(source, data, *rest))
    except AccessFailedError:
        raise
    except Error as error:
        if data is None:
            raise
        return ExecuTorchModule(_open(source, None, *rest), error)


def _load_for_executorch(
    program_path: str,
    data_path: str | None = None,
    enable_etdump: bool = False,
    debug_buffer_size: int = 0,
    program_verification: Verification = Verification.InternalConsistency,
) -> ExecuTorchModule:
    """Return a program from a file, and its .ptd if given."""
    return _open_module(
        program_path, data_path, enable_etdump, debug_buffer_size, program_verification
    )


def _load_for_executorch_from_buffer(
    buffer: bytes,
    data_map_buffer: bytes | None = None,
    enable_etdump: bool = False,
    debug_buffer_size: int = 0,
    program_verification: Verification = Verification.InternalConsistency,
) -> ExecuTorchModule:
    """Return a program from bytes, and the bytes of its .ptd if given."""
    return _open_module(
        buffer, data_map_buffer, enable_etdump, debug_buffer_size, program_verification
    )


def _load_bundled_program_from_buffer(
    buffer: bytes, non_const_pool_size: int = 16384
) -> BundledModule:
    """Return a bundled program from the bytes of a .bpte."""
    return BundledModule(BundledProgram.load(buffer))


def _load_for_executorch_from_bundled_program(
    module: BundledModule,
    data_map_buffer: bytes | None = None,
    data_path: str | None = None,
    enable_etdump: bool = False,
    debug_buffer_size: int = 0,
) -> ExecuTorchModule:
    """Return the program of a bundled program."""
    data = data_map_buffer if data_map_buffer is not None else data_path
    return _open_module(
        module._bundled.program_data,
        data,
        enable_etdump,
        debug_buffer_size,
        Verification.InternalConsistency,
    )


def _load_program(
    path: str,
    enable_etdump: bool = False,
    debug_buffer_size: int = 0,
    program_verification: Verification = Verification.Minimal,
    data_path: str | None = None,
) -> ExecuTorchProgram:
    """Return a program from a file; the caller loads its methods."""
    return ExecuTorchProgram(
        _open(path, data_path, enable_etdump, debug_buffer_size, program_verification)
    )


def _load_program_from_buffer(
    buffer: bytes,
    enable_etdump: bool = False,
    debug_buffer_size: int = 0,
    program_verification: Verification = Verification.Minimal,
    data_path: str | None = None,
) -> ExecuTorchProgram:
    """Return a program from bytes; the caller loads its methods."""
    return ExecuTorchProgram(
        _open(buffer, data_path, enable_etdump, debug_buffer_size, program_verification)
    )


def _load_for_executorch_from_data_loader(*args: object, **kwargs: object) -> ExecuTorchModule:
    """Raise: C++ data loaders of the official runtime are not supported."""
    raise NotSupportedError(
        "a PyDataLoader holds a C++ object of the official runtime: "
        "pass the program as a path or as bytes"
    )


def _get_operator_names() -> list[str]:
    """Return the names of all operators."""
    return sorted(Runtime.get().operator_registry.operator_names)


def _get_registered_backend_names() -> list[str]:
    """Return the names of all backends."""
    return Runtime.get().backend_registry.registered_backend_names


def _is_available(backend_name: str) -> bool:
    """Return True if a backend is available."""
    return Runtime.get().backend_registry.is_available(backend_name)


def _create_profile_block(name: str) -> None:
    """Ignore the request: the old profiler is disabled, as in the official wheel."""


def _dump_profile_results() -> bytes:
    """Return the results of the old profiler: none."""
    return b""


def _reset_profile_results() -> None:
    """Reset the old profiler."""


def _threadpool_get_thread_count() -> int:
    """Return the number of threads of methods that are loaded from now on."""
    return Runtime.get().num_threads


def _unsafe_reset_threadpool(num_threads: int) -> None:
    """Set the number of threads. Loaded methods keep theirs, so this is safe here."""
    Runtime.get().num_threads = num_threads
