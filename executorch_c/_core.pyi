"""Types of the extension module; executorch_c re-exports all of them."""

import os
from collections.abc import Callable, Sequence
from typing import ClassVar, Literal, final

import numpy as np

from executorch_c._arrays import Array
from executorch_c._types import (
    BundledValue,
    BackendOptions,
    Data,
    DelegateInside,
    DelegateReport,
    MemoryUse,
    MethodStructure,
    OperatorRow,
    OptionValue,
    Out,
    Output,
    ProgramInfo,
    RawEvent,
    Requirements,
    TracedValue,
)
from executorch_c.trace import Tracing

def register_backend(capsule: object, /) -> None:
    """Registers a backend, given as a capsule named "executorch_c.backend"."""
def operators() -> list[OperatorRow]:
    """All operators that programs can call here, sorted by name."""
def register_operators(capsule: object, /) -> None:
    """Registers the operators of a plug-in, given as a capsule named "executorch_c.operators"
    (executorch_c/operator.h says what is in it)."""
def unregister_operator(name: str, /) -> None:
    """Takes an operator ("ns::name.out") away again; what it was put in the place of is back.
    Methods that are loaded keep it. Raises NotFoundError (a KeyError) where none has that name,
    InvalidStateError for a built-in one."""
def _read_bundled(
    data: bytes, /
) -> tuple[int, int, list[tuple[str, list[tuple[list[BundledValue], list[BundledValue]]]]]]: ...
def _scalar_types() -> dict[str, int]: ...
def _parse_schema(
    schema: str, /
) -> tuple[str, tuple[str, ...], tuple[str, ...], tuple[str, ...]]: ...
def _register_operator(
    schema: str, fn: Callable[..., object], takes_outs: bool, override: bool, /
) -> None: ...
def _unregister_all() -> None: ...

@final
class TensorInfo:
    """What a program says about a tensor: an input, output or attribute of a method."""
    def sizes(self) -> tuple[int, ...]:
        """The shape as a tuple; upper bounds where sizes are dynamic."""
    def dtype(self) -> int:
        """The dtype as PyTorch's number for it (6 is float32)."""
    def is_memory_planned(self) -> bool:
        """Whether the program has planned memory for the tensor."""
    def nbytes(self) -> int:
        """The size of the tensor's data in bytes."""
    @property
    def shape(self) -> tuple[int, ...]:
        """The same as sizes()."""
    @property
    def numpy_dtype(self) -> np.dtype[np.generic]:
        """The numpy.dtype of arrays for this tensor. bfloat16 is ml_dtypes.bfloat16 where that
        package is installed, else uint16 (raw bits)."""
    @property
    def dim_order(self) -> tuple[int, ...]:
        """The dimensions, outermost in memory first: (0, 1, 2, 3) is row-major, (0, 2, 3, 1)
        channels-last."""
    @property
    def name(self) -> str | None:
        """The fully qualified name, or None where the file has none."""
    @property
    def is_dynamic(self) -> bool:
        """Whether the shape may change from call to call."""

@final
class MethodMeta:
    """What a program says about a method, without loading it."""
    def name(self) -> str:
        """The name of the method."""
    def num_inputs(self) -> int:
        """The number of inputs."""
    def num_outputs(self) -> int:
        """The number of outputs."""
    def num_attributes(self) -> int:
        """The number of attributes: tensors with a name."""
    def input_tensor_meta(self, index: int) -> TensorInfo:
        """The TensorInfo of an input. Raises IndexError where there is no such tensor."""
    def output_tensor_meta(self, index: int) -> TensorInfo:
        """The TensorInfo of an output. Raises IndexError where there is no such tensor."""
    def attribute_tensor_meta(self, index: int) -> TensorInfo:
        """The TensorInfo of an attribute. Raises IndexError where there is no such tensor."""
    @property
    def inputs(self) -> tuple[tuple[str, TracedValue], ...]:
        """A tuple of (kind, value) for each input: ("Tensor", TensorInfo), or ("Int", 3) with the
        value that the method was traced with, which it needs."""
    @property
    def outputs(self) -> tuple[tuple[str, TracedValue], ...]:
        """A tuple of (kind, value) for each output, like `inputs`."""
    def _repr_html_(self) -> str: ...

@final
class Method:
    """A method of a program, loaded by Program.load_method: it runs on NumPy arrays."""
    _load_start_ns: int
    _load_ns: int
    @property
    def _program(self) -> Program: ...
    def execute(self, inputs: object, *, out: Out = None) -> list[Output]:
        """Executes the method with the given inputs."""
    def run(self, inputs: object, *, out: Out = None) -> list[Output]:
        """Executes the method: `execute`, which is the official name, under a short one."""
    def __call__(self, *args: object, out: Out = None) -> Output:
        """Run the method on inputs in the program's order: one output as it is, several as a
        tuple."""
    def _execute_mutating(
        self, inputs: tuple[object, ...], /
    ) -> tuple[list[Output], list[tuple[int, Array]]]: ...
    @property
    def metadata(self) -> MethodMeta:
        """The MethodMeta: inputs, outputs, attributes."""
    @property
    def num_threads(self) -> int:
        """How many threads loops and delegates may use. 1 where the package was built without
        pthreadpool, whatever was asked for."""
    @property
    def attribute_names(self) -> tuple[str, ...]:
        """The names of the attributes, as a tuple of strings."""
    def get_attribute(self, name: str) -> Array:
        """An attribute (a buffer or parameter with a name) as an array on the method's own memory.
        """
    def set_attribute(self, name: str, array: object) -> None:
        """Copies an array of the attribute's dtype and shape into the attribute."""
    def manual_seed(self, seed: int, /) -> None:
        """Starts the random numbers of the method's operators (rand, dropout, ...) anew."""
    def reset(self) -> None:
        """Puts all state (mutable buffers) back to what it was after loading, also what other
        methods of the program share."""
    def memory(self) -> MemoryUse:
        """Bytes that the method holds, as a dictionary: `planned` (arenas), `shared` (of these,
        with other methods), `native` (values and instructions), `scratch` (largest need of a kernel
        so far), `heap` (unbound tensors, copied inputs). Memory of backends is not counted."""
    def tracing(
        self, *, values: bool = False, ranges: bool = False, max_bytes: int = 268435456
    ) -> Tracing:
        """Records what calls of this method do, in a with statement:"""
    def _trace_start(self, values: bool, max_bytes: int, ranges: bool = False, /) -> None: ...
    def _trace_stop(self) -> tuple[list[RawEvent], int, int]: ...
    def _trace_take(self) -> tuple[list[RawEvent], int, int]: ...
    def backend_report(self) -> list[DelegateReport]:
        """What the backends say of the delegates of this method, as a list of a dictionary for
        each, in the file's order: `backend` (its name) and `figures` (a dictionary of ints, whose
        names are the backend's: bytes of packed weights, nodes, ...; empty where it reports
        nothing)."""
    def _repr_html_(self) -> str: ...

@final
class Program:
    """An ExecuTorch program, loaded from binary PTE data by Runtime.load_program."""
    @property
    def method_names(self) -> set[str]:
        """The names of the program's methods, as a new set of strings."""
    @property
    def has_etdump(self) -> bool:
        """Whether it was loaded with enable_etdump=True."""
    def load_method(
        self,
        name: str,
        *,
        kernels: Literal["default", "reference"] = "default",
        seed: int | None = None,
        backend_options: BackendOptions | None = None,
        num_threads: int | None = None,
        max_bytes: int | None = None,
        max_steps: int | None = None,
    ) -> Method:
        """Loads a method from the program."""
    def metadata(self, method_name: str) -> MethodMeta:
        """Gets the MethodMeta of a method without loading it."""
    def requirements(self) -> Requirements:
        """What the program needs, before anything is loaded."""
    def info(self) -> ProgramInfo:
        """All that the file says, as a dictionary of numbers, strings, lists and dictionaries:
        sizes, segments, named data, and for each method inputs, outputs, attributes, planned
        arenas, operators and delegates. `executorch-c info --json` prints it."""
    def _structure(self, method_name: str, /) -> MethodStructure: ...
    def _delegate(self, method_name: str, index: int, /) -> DelegateInside | None: ...
    def _payload(self, method_name: str, index: int, /) -> bytes: ...
    def write_etdump_result_to_file(
        self,
        etdump_path: str | os.PathLike[str],
        debug_buffer_path: str | os.PathLike[str] | None,
    ) -> None:
        """Writes what methods of this program did, loaded with enable_etdump=True, as an ETDump:
        their loading, and calls since the last such file. Values go to debug_buffer_path (or None)
        where debug_buffer_size was given; executorch_c.inspect.etdump says what is in the files."""
    def _repr_html_(self) -> str: ...

@final
class BackendRegistry:
    """The registry of backends that are available to the runtime."""
    @property
    def registered_backend_names(self) -> list[str]:
        """The names of all registered backends, as a list of strings."""
    def is_available(self, backend_name: str) -> bool:
        """Whether a backend ("XnnpackBackend") is registered and can run on this machine."""
    def set_option(self, backend_name: str, key: str, value: OptionValue) -> None:
        """Sets an option of a backend for the whole process."""
    def get_option(self, backend_name: str, key: str) -> OptionValue:
        """The value of an option of the process. Raises like set_option."""
    def option_keys(self, backend_name: str) -> list[str]:
        """The names of a backend's options of the process, as a list of strings."""

@final
class OperatorRegistry:
    """The registry of operators that programs can call."""
    @property
    def operator_names(self) -> set[str]:
        """The names of all operators ("aten::add.out"), as a new set of strings."""

@final
class Runtime:
    """An instance of the ExecuTorch runtime environment."""
    @property
    def backend_registry(self) -> BackendRegistry:
        """Registry for querying available hardware backends."""
    @property
    def operator_registry(self) -> OperatorRegistry:
        """Registry for querying available operators/kernels."""
    @property
    def num_threads(self) -> int:
        """How many threads methods may use that are loaded from now on, unless load_method says
        otherwise: by default the number of CPUs of its affinity, at most its CPU quota; `del`
        restores that. Of the process, like the runtime. 1 where the package was built without
        pthreadpool."""
    @num_threads.setter
    def num_threads(self, value: int) -> None: ...
    @num_threads.deleter
    def num_threads(self) -> None: ...
    @classmethod
    def get(cls) -> Runtime:
        """Gets the Runtime singleton."""
    def load_program(
        self,
        data: Data,
        *,
        verification: int = 1,
        data_path: Data | Sequence[Data] | None = None,
        enable_etdump: bool = False,
        debug_buffer_size: int = 0,
        mlock: bool | Literal["try"] = False,
        share_mutable_buffers: bool = True,
    ) -> Program:
        """Loads an ExecuTorch program from a PTE binary."""
    def _repr_html_(self) -> str: ...

class Error(RuntimeError):
    """An error of the runtime, with ExecuTorch's number as `code`; base of all below."""

    code: ClassVar[int]
    status: ClassVar[str]

class AccessFailedError(Error): ...
class AlreadyLoadedError(Error): ...
class AlreadyRegisteredError(Error): ...
class DelegateInvalidCompatibilityError(Error): ...
class DelegateInvalidHandleError(Error): ...
class DelegateMemoryAllocationFailedError(Error, MemoryError): ...
class EndOfMethodError(Error): ...
class InternalError(Error): ...
class InvalidArgumentError(Error, ValueError): ...
class InvalidExternalDataError(Error, ValueError): ...
class InvalidProgramError(Error, ValueError): ...
class InvalidStateError(Error): ...
class InvalidTypeError(Error, TypeError): ...
class MemoryAllocationFailedError(Error, MemoryError): ...
class NotFoundError(Error, KeyError): ...
class NotImplementedInRuntimeError(Error, NotImplementedError): ...
class NotSupportedError(Error): ...
class OperatorMissingError(Error, LookupError): ...
class OutOfResourcesError(Error): ...
class RegistrationExceedingMaxError(Error): ...
