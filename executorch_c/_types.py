"""Types of arguments and results, for annotations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Protocol, TypeAlias, TypedDict

if TYPE_CHECKING:
    from executorch_c._arrays import Array
    from executorch_c._core import TensorInfo
    from executorch_c.trace import Kind

Output: TypeAlias = "Array | Any"
"""An output: usually an array, so that `y.shape` type-checks; otherwise a bool, int, float, str,
None or a list of these (the Any)."""
Out: TypeAlias = "Array | Sequence[Array | None] | None"
OptionValue: TypeAlias = "bool | int | float | str"
BackendOptions: TypeAlias = "Mapping[str, Mapping[str, OptionValue]]"
BundledValue: TypeAlias = "tuple[str, tuple[int, ...], tuple[int, ...], int, int] | float"
TracedValue: TypeAlias = "TensorInfo | bool | int | float | str | None"


RawValue: TypeAlias = (
    "tuple[str, bool, str | None, tuple[int, ...], tuple[int, ...], int, "
    "Array | bool | int | float | None, int | None, "
    "tuple[int, int, int, int, float, float] | None]"
)
RawEvent: TypeAlias = (
    "tuple[Kind, str, int, int | None, int | None, int | None, int | None, int, int, bool, "
    "list[RawValue]]"
)
RawResult: TypeAlias = (
    "tuple[Kind, str, int, int | None, int | None, int | None, int | None, int, int, Array]"
)
"""The arguments of trace.Result, and the array."""


class Buffer(Protocol):
    """An object with the buffer protocol."""

    def __buffer__(self, flags: int, /) -> memoryview: ...


FilePath: TypeAlias = "str | PathLike[str]"
Data: TypeAlias = "str | PathLike[str] | bytes | bytearray | memoryview | Buffer | BinaryIO"


class OperatorRow(TypedDict):
    """A row of executorch_c.operators()."""

    name: str
    schema: str
    dtypes: tuple[str, ...]
    family: str
    origin: str
    numbers: Literal["same", "moves", "picks", "exact", "rounds", "sums", "random"]
    terms: str | None
    joins: bool


class Requirements(TypedDict):
    """The result of Program.requirements()."""

    operators: dict[str, int]
    backends: dict[str, int]
    missing_operators: list[str]
    missing_backends: list[str]
    missing_devices: list[str]
    uses_kv_cache: bool


class MemoryUse(TypedDict):
    """The result of Method.memory(), in bytes."""

    planned: int
    shared: int
    native: int
    merged: int
    folded: int
    packed: int
    recorded: int
    scratch: int
    heap: int


class DelegateReport(TypedDict):
    """An item of Method.backend_report(): a delegate of the file (`calls_delegated_at_load` 0), or
    one that replaces calls of operators since the method was loaded."""

    backend: str
    calls_delegated_at_load: int
    delegated_at_load: dict[str, int]
    nested_delegated_at_load: dict[str, int]
    figures: dict[str, int]


class UndelegatedOperator(TypedDict):
    """An item of Method.undelegated(): calls of an operator that were left to its kernel."""

    operator: str
    reason: str
    calls: int


class PassInfo(TypedDict):
    """An item of Method.passes(): a pass over the method, and the calls that it changed."""

    name: str
    purpose: str
    ran: bool
    calls: int


class ValueInfo(TypedDict, total=False):
    """An input, output or attribute; tensors have all keys but `value`."""

    kind: str
    value: bool | int | float | str | None
    name: str | None
    dtype: str
    shape: list[int]
    dim_order: list[int]
    dynamism: Literal["static", "bound", "unbound"]
    is_memory_planned: bool
    nbytes: int


class OperatorUse(TypedDict):
    """An operator that a method calls."""

    name: str
    calls: int
    available: bool


class DelegateUse(TypedDict):
    """A part of a method that a backend runs."""

    id: str
    payload: int
    calls: int
    registered: bool
    available: bool
    lacks: str | None
    """A sentence about what the backend needs, if it is not available; None: unknown."""
    engine: str | None
    """What runs it, as the backend says: "XNNPACK 2024-11-08", "interpreted on the CPU"."""


class MethodInfo(TypedDict):
    """A method in Program.info()."""

    name: str
    inputs: list[ValueInfo]
    outputs: list[ValueInfo]
    attributes: list[ValueInfo]
    arenas: list[int]
    arena_devices: list[str]
    """The device of each arena: "CPU"."""
    operators: list[OperatorUse]
    delegates: list[DelegateUse]
    values: int
    instructions: int
    chains: int
    constant_bytes: int
    encoded_inputs: str | None
    encoded_outputs: str | None
    device: str | None
    """A device of planned memory other than the CPU."""
    uses_kv_cache: bool
    """Calls, in payloads too, need load_method(kv_cache=)."""


class StructureValue(TypedDict, total=False):
    """A value in MethodStructure: `kind`, and `value` or all keys below it (tensors)."""

    kind: str
    value: bool | int | float | str | list[int | None] | list[float] | None
    """A number, text or list; lists of ints and tensors hold indices of values."""
    name: str | None
    dtype: str
    shape: tuple[int, ...]
    dim_order: tuple[int, ...]
    dynamism: Literal["static", "bound", "unbound"]
    nbytes: int
    where: Literal["none", "planned", "state", "constant", "external"]
    """`state`: planned memory with an initial value. `external`: data found by name."""
    arena: int | None
    """Number of the planned memory, from 1; `offset` is in bytes."""
    offset: int
    buffer: int
    """data_buffer_idx of the file."""
    at: int | None
    """Offset of the data in the file."""


Role: TypeAlias = Literal["in", "out", "inout", "return"]
"""Use of an argument by an instruction; "return" repeats an output after all others."""


class StructureInstruction(TypedDict):
    """An instruction in MethodStructure."""

    kind: Literal["kernel", "delegate", "move", "jump", "free"]
    name: str | None
    """Name of the operator or of the backend."""
    available: bool
    delegate: int | None
    destination: int | None
    """Target of a jump: the next instruction if its argument is false."""
    args: list[tuple[int, str | None, Role]]
    """Index of the value, name in the operator's schema, role."""
    stack: list[tuple[str | None, int, str | None, str | None]]
    """File, line, function and source of each frame, if exported."""


class StructureDelegate(TypedDict):
    """A delegate in MethodStructure: the location of its payload."""

    id: str
    where: Literal["segment", "inline"]
    index: int
    at: int | None
    size: int
    specs: list[tuple[str, bytes]]


class MethodStructure(TypedDict):
    """The result of Program._structure()."""

    name: str
    inputs: list[int]
    outputs: list[int]
    arenas: list[int]
    values: list[StructureValue]
    chains: list[list[StructureInstruction]]
    delegates: list[StructureDelegate]


class InnerValue(TypedDict):
    """A value inside a delegate, as its backend describes it."""

    id: int
    argument: int | None
    constant: bool
    dtype: str | None
    note: str | None
    shape: tuple[int, ...] | None
    nbytes: int


class InnerNode(TypedDict):
    """A node inside a delegate; inputs and outputs are ids of values."""

    debug_handle: int | None
    name: str | None
    note: str | None
    inputs: list[int]
    outputs: list[int]


class DelegateInside(TypedDict):
    """The result of Program._delegate()."""

    values: list[InnerValue]
    nodes: list[InnerNode]


class SegmentInfo(TypedDict):
    """A segment of a file."""

    offset: int
    size: int


class NamedData(TypedDict):
    """Data with a key; source -1 is the program, else the index of the data file."""

    key: str
    size: int
    source: int


class ProgramInfo(TypedDict):
    """The result of Program.info()."""

    file_size: int
    program_size: int
    segment_base: int
    header_length: int
    version: int
    segments: list[SegmentInfo]
    named_data: list[NamedData]
    methods: list[MethodInfo]
