"""Types of the extension module; executorch_c re-exports all of them."""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, Literal, final

import numpy as np

from executorch_c._arrays import Array
from executorch_c._types import (
    BundledValue,
    BackendOptions,
    Buffer,
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
    PassInfo,
    UndelegatedOperator,
)
from executorch_c.trace import Alter, Tracing

def _register_backend(capsule: object, /) -> None: ...
def _register_python_backend(
    id: str,
    name: str,
    version: str | None,
    keys: tuple[str, ...],
    adapter: object,
    override: bool,
    /,
) -> None: ...
def unregister_backend(id: str, /) -> None:
    """Unregister a backend written in Python. Loaded methods keep it. Raises NotFoundError (a
    KeyError: no such backend, or one of a plug-in in C)."""

def operators() -> list[OperatorRow]:
    """Return all operators available to programs, sorted by name."""

def register_operators(capsule: object, /) -> None:
    """Register the operators of a plug-in from a capsule named "executorch_c.operators" (see
    executorch_c/operator.h)."""

def unregister_operator(name: str, /) -> None:
    """Unregister an operator ("ns::name.out"). The operator that it replaced is restored. Loaded
    methods keep it. Raises NotFoundError (a KeyError: no operator of this name),
    InvalidStateError (a built-in one)."""

def _read_bundled(
    data: bytes, /
) -> tuple[int, int, list[tuple[str, list[tuple[list[BundledValue], list[BundledValue]]]]]]: ...
def _file_tables(kind: str, /) -> dict[str, dict[str, str]]: ...
def _check_etdump(data: bytes, /) -> tuple[int, int]: ...
def _scalar_types() -> dict[str, int]: ...
def _parse_schema(
    schema: str, /
) -> tuple[str, tuple[str, ...], tuple[str, ...], tuple[str, ...]]: ...
def _register_operator(
    schema: str, fn: Callable[..., object], takes_outs: bool, override: bool, /
) -> None: ...
def _unregister_all() -> None: ...

@final
class BackendCall:
    """The call of a backend's `init` or `execute`, for functions with a parameter `call`."""
    @property
    def tracing(self) -> bool:
        """True if the call is traced: `trace` then has an effect."""
    @property
    def num_threads(self) -> int:
        """The number of threads of the method, for simulators with threads."""
    def named_data(self, key: str, /) -> bytes:
        """Return data that the payload refers to by name, of the program or of a .ptd file, as
        bytes. Raises NotFoundError (a KeyError)."""
    def trace(
        self,
        name: str,
        /,
        value: np.ndarray | None = None,
        *,
        debug_handle: int | None = None,
        nanoseconds: int = 0,
    ) -> None:
        """Report a node that has run, and the array that it computed, to the trace."""

@final
class TensorInfo:
    """A program's description of a tensor: an input, output or attribute of a method."""
    def sizes(self) -> tuple[int, ...]:
        """Return the shape as a tuple; upper bounds for dynamic sizes."""
    def dtype(self) -> int:
        """Return the dtype as PyTorch's number (6 is float32)."""
    def is_memory_planned(self) -> bool:
        """Return True if the program plans memory for the tensor."""
    def nbytes(self) -> int:
        """Return the size of the tensor's data in bytes."""
    @property
    def shape(self) -> tuple[int, ...]:
        """The same as sizes()."""
    @property
    def numpy_dtype(self) -> np.dtype[np.generic]:
        """The numpy.dtype of arrays for this tensor. bfloat16 and float8 are those of
        ml_dtypes if that package is installed, else uint16 and uint8 (raw bits)."""
    @property
    def dim_order(self) -> tuple[int, ...]:
        """The dimensions, outermost in memory first: (0, 1, 2, 3) is row-major, (0, 2, 3, 1)
        channels-last."""
    @property
    def name(self) -> str | None:
        """The fully qualified name, or None if the file has none."""
    @property
    def is_dynamic(self) -> bool:
        """True if the shape may change from call to call."""

@final
class MethodMeta:
    """A program's description of a method, which need not be loaded."""
    def name(self) -> str:
        """Return the name of the method."""
    def num_inputs(self) -> int:
        """Return the number of inputs."""
    def num_outputs(self) -> int:
        """Return the number of outputs."""
    def num_attributes(self) -> int:
        """Return the number of attributes (named tensors)."""
    def input_tensor_meta(self, index: int) -> TensorInfo:
        """Return the TensorInfo of an input. Raises IndexError if it is not a tensor."""
    def output_tensor_meta(self, index: int) -> TensorInfo:
        """Return the TensorInfo of an output. Raises IndexError if it is not a tensor."""
    def attribute_tensor_meta(self, index: int) -> TensorInfo:
        """Return the TensorInfo of an attribute. Raises IndexError for an invalid index."""
    @property
    def inputs(self) -> tuple[tuple[str, TracedValue], ...]:
        """A tuple of (kind, value) for each input: ("Tensor", TensorInfo), or ("Int", 3) with
        the traced value, which each call must repeat."""
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
    @property
    def _delegate_at_load(self) -> bool | Literal["always", "each"]: ...
    def execute(self, inputs: object, *, out: Out = None) -> list[Output]:
        """Execute the method with the given inputs."""
    def run(self, inputs: object, *, out: Out = None) -> list[Output]:
        """Execute the method: a short name for `execute`, the official one."""
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
        """The number of threads for loops and delegates. Always 1 if the package was built
        without pthreadpool."""
    @property
    def attribute_names(self) -> tuple[str, ...]:
        """The names of the attributes, as a tuple of strings."""
    def get_attribute(self, name: str) -> Array:
        """Return a named buffer or parameter as an array on the method's memory."""
    def set_attribute(self, name: str, array: object) -> None:
        """Copy an array of the attribute's dtype and shape into the attribute."""
    def get_state(self) -> Array:
        """Return a copy of all state (mutable buffers) as a one-dimensional array of uint8: the
        memory that a call reads before it overwrites it, including state shared with other methods
        of the program. Its length is constant; its order is that of this loaded method."""
    def set_state(self, state: Buffer | Array, /) -> None:
        """Restore the state from the result of get_state(), or another contiguous buffer."""
    def manual_seed(self, seed: int, /) -> None:
        """Reseed the random generator of the method's operators (rand, dropout, ...)."""
    def reset(self) -> None:
        """Reset all state (mutable buffers) to that after loading, including state shared with
        other methods of the program."""
    def memory(self) -> MemoryUse:
        """Return the bytes held by the method as a dictionary: `planned` (arenas), `shared` (the
        part shared with other methods), `native` (values and instructions), `merged` (of copies
        whose operand and result share it), `folded` (constants computed at load), `packed`
        (weights of products, packed in the first call), `recorded`
        (loops of small calls, recorded in the first call), `scratch` (the largest scratch memory
        of a kernel so far), `heap` (unbound tensors, copied inputs).
        Memory of backends is not included."""
    def tracing(
        self,
        *,
        values: bool = False,
        ranges: bool = False,
        max_bytes: int = 268435456,
        alter: Alter | None = None,
    ) -> Tracing:
        """Record the calls of this method, in a with statement:"""
    def _trace_start(
        self,
        values: bool,
        max_bytes: int,
        ranges: bool = False,
        alter: Callable[..., object] | None = None,
        /,
    ) -> None: ...
    def _trace_stop(self) -> tuple[list[RawEvent], int, int]: ...
    def _trace_drain(self) -> tuple[list[RawEvent], int, int]: ...
    def backend_report(self) -> list[DelegateReport]:
        """Return statistics of this method's delegates, reported by their backends: a list of
        dictionaries in the file's order, then those made at load, with `backend` (its name),
        `calls_delegated_at_load` (the number of operator calls that it replaces; 0 for one in the
        file), `delegated_at_load` (these calls by operator, a dictionary),
        `nested_delegated_at_load` (of an interpreted delegate: calls of its payload's program that
        were delegated at load, by backend: a dictionary) and `figures` (a dictionary of ints with
        names defined by the backend: bytes of packed weights, nodes, ...; empty if it reports
        none)."""
    def passes(self) -> list[PassInfo]:
        """Return the passes that planned the calls of this method: a list of dictionaries in
        their order, with `name`, `purpose` (a few words), `ran` (False if
        load_method(passes=...) left it out, or the method does not meet its conditions) and
        `calls` (the number of instructions that execute differently because of it). A traced
        call executes the instructions."""
    def undelegated(self) -> list[UndelegatedOperator]:
        """Return why calls of operators were not delegated when the method was loaded: a list of
        dictionaries with `operator`, `reason` (a few words) and `calls`. Empty unless the method
        was loaded with delegate_at_load. Calls that are computed at load are not in it."""
    def _repr_html_(self) -> str: ...

@final
class Program:
    """An ExecuTorch program, loaded from binary PTE data by Runtime.load_program."""
    @property
    def method_names(self) -> set[str]:
        """The names of the program's methods, as a new set of strings."""
    @property
    def has_etdump(self) -> bool:
        """True if the program was loaded with enable_etdump=True."""
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
        delegate_at_load: bool | Literal["always", "each"] | None = None,
        passes: Iterable[str] | None = None,
        kv_cache: KVCache | None = None,
    ) -> Method:
        """Load a method from the program."""
    def metadata(self, method_name: str) -> MethodMeta:
        """Return the MethodMeta of a method without loading it."""
    def requirements(self) -> Requirements:
        """Return the operators and backends that the program needs, without loading it."""
    def info(self) -> ProgramInfo:
        """Return the contents of the file as a dictionary of numbers, strings, lists and
        dictionaries: sizes, segments, named data, and for each method inputs, outputs,
        attributes, planned arenas, operators and delegates. `executorch-c info --json` prints
        it."""
    def _structure(self, method_name: str, /) -> MethodStructure: ...
    def _delegate(self, method_name: str, index: int, /) -> DelegateInside | None: ...
    def _payload(self, method_name: str, index: int, /) -> bytes: ...
    def _named_data(self, key: str, /) -> bytes | None: ...
    def write_etdump_result_to_file(
        self, etdump_path: str | os.PathLike[str], debug_buffer_path: str | os.PathLike[str] | None
    ) -> None:
        """Write an ETDump of this program, loaded with enable_etdump=True: the loading of its
        methods, and calls since the last such file. Values go to debug_buffer_path (or None) if
        debug_buffer_size was set; see executorch_c.inspect.etdump for the contents of the files."""
    def _repr_html_(self) -> str: ...

@final
class KVCache:
    """Keys and values of a program whose attention is kvcache::update_and_attend."""
    def __new__(
        cls,
        capacity: int,
        *,
        n_layers: int | None = None,
        n_kv_heads: int | None = None,
        head_dim: int | None = None,
        dtype: object = "float32",
        window: int | Sequence[int | None] | None = None,
    ) -> KVCache: ...
    @property
    def capacity(self) -> int:
        """The maximum number of positions."""
    @property
    def dtype(self) -> str:
        """The dtype of stored keys and values, a str."""
    @property
    def window(self) -> int | list[int | None] | None:
        """The positions that a query sees: None for all; a list, one for each layer."""
    @property
    def length(self) -> int:
        """The number of stored positions."""
    @property
    def nbytes(self) -> int:
        """The memory of all layers that calls have used so far."""
    def reset(self) -> None:
        """Forget all positions."""
    def rewind(self, length: int, /) -> None:
        """Forget the positions from `length` on."""
    def copy(self) -> KVCache:
        """Return a cache with the same settings and positions, and its own memory."""

@final
class BackendRegistry:
    """The registry of backends that are available to the runtime."""
    @property
    def registered_backend_names(self) -> list[str]:
        """The names of all registered backends, as a list of strings."""
    def is_available(self, backend_name: str) -> bool:
        """Return True if a backend ("XnnpackBackend") is registered and available."""
    def set_option(self, backend_name: str, key: str, value: OptionValue) -> None:
        """Set an option of a backend for the whole process."""
    def get_option(self, backend_name: str, key: str) -> OptionValue:
        """Return the value of an option of the process. Raises the errors of set_option."""
    def option_keys(self, backend_name: str) -> list[str]:
        """Return the names of a backend's process options as a list of strings."""

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
        """The number of threads of methods loaded from now on, unless load_method overrides it.
        The default is the number of CPUs of the process's affinity, limited to its CPU quota;
        `del` restores it. The setting belongs to the process. Always 1 if the package was built
        without pthreadpool."""
    @num_threads.setter
    def num_threads(self, value: int) -> None: ...
    @num_threads.deleter
    def num_threads(self) -> None: ...
    @classmethod
    def get(cls) -> Runtime:
        """Return the Runtime singleton."""
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
        """Load an ExecuTorch program from a PTE binary."""
    def _repr_html_(self) -> str: ...

class Error(RuntimeError):
    """An error of the runtime, with ExecuTorch's number as `code`; base of all below."""

    code: ClassVar[int]
    status: ClassVar[str]

class AccessFailedError(Error, FileNotFoundError): ...
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
