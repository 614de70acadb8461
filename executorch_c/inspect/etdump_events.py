"""Events of an ETDump, as the file has them: times, allocations, values.

The file and its debug buffer are untrusted: `_core` verifies the tables, this module what they
mean.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from executorch_c import _core, _extras, _flatbuffers
from executorch_c._arrays import Array
from executorch_c.inspect.etdump import KINDS

VERSION = 0
"""The version of the format."""
MAX_RANK = 16
"""Maximum number of dimensions of a tensor."""
MAX_TICK_32 = (1 << 32) - 1
"""Largest time of clocks with 32 bits, which begin again at 0."""
NO_CHAIN = -1
"""Chain of events outside of instructions: loading, a whole call, its outputs."""
RAW_DTYPES = {12: "int8", 13: "uint8", 14: "int32", 22: "uint16"}
"""Dtypes of quantised integers and bits, as stored, by number in the schema."""
SMALL_FLOATS = {
    15: ("bfloat16", "uint16"),
    23: ("float8_e5m2", "uint8"),
    24: ("float8_e4m3fn", "uint8"),
    25: ("float8_e5m2fnuz", "uint8"),
    26: ("float8_e4m3fnuz", "uint8"),
}
"""Dtypes of ml_dtypes by number, and what they are without it."""

DelegateId: TypeAlias = "int | str | None"


@dataclass(frozen=True)
class TensorSpec:
    """A tensor in a debug buffer that was not read."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""
    offset: int
    """Position in the debug buffer."""


Entry: TypeAlias = "Array | TensorSpec | bool | int | float | list[Array | TensorSpec] | None"
"""A logged value; None for kinds that the format names without storing them."""


@dataclass(frozen=True)
class ProfileEvent:
    """A duration: of an operator's call, a delegate's call or node, a whole call, or loading."""

    name: str
    """Name in the runtime ("native_call_add.out", "DELEGATE_CALL"); empty for nodes."""
    chain: int
    """Chain of the instruction; -1 for loading and whole calls."""
    instruction: int
    """Number in the chain, the key of an ETRecord's maps; -1 if the file has none."""
    delegate_id: DelegateId
    """Number or name of a node inside a delegate; None outside."""
    metadata: bytes
    """What the delegate has added."""
    start: int
    """In ticks of the device's clock: nanoseconds in both runtimes on Linux."""
    end: int

    @property
    def duration(self) -> int:
        """Ticks from start to end; a clock of 32 bits may have begun again between them."""
        return self.end - self.start + (MAX_TICK_32 if self.start > self.end else 0)


@dataclass(frozen=True)
class AllocationEvent:
    """An allocation from an allocator that the runtime tracks."""

    allocator: str
    """Name of the allocator; empty if the run lists none of its number."""
    allocator_id: int
    size: int
    """In bytes."""


@dataclass(frozen=True)
class DebugEvent:
    """A logged value: a result of an instruction or node, or an output of the run."""

    name: str
    chain: int
    instruction: int
    delegate_id: DelegateId
    is_output: bool
    """True for an output of the run."""
    value: Entry = field(repr=False)


Event: TypeAlias = "ProfileEvent | AllocationEvent | DebugEvent"


@dataclass(frozen=True)
class Run:
    """A call of a method, or loading, with its events in the order of their ends."""

    name: str
    bundled_input_index: int | None
    """Index of the bundled input that the call ran with."""
    events: tuple[Event, ...] = field(repr=False)

    @property
    def outputs(self) -> list[Entry]:
        """Outputs of the call, if the runtime logged them."""
        return [e.value for e in self.events if isinstance(e, DebugEvent) and e.is_output]


def damaged(where: str, problem: str) -> Exception:
    """Return the error of a file: place, and what is wrong there."""
    return _core.InvalidExternalDataError(f"{where}: {problem}" if where else problem)


def runs_of(data: bytes, debug_buffer: bytes | None) -> tuple[Run, ...]:
    """Return the runs of an ETDump. Raises InvalidExternalDataError."""
    start, end = _core._check_etdump(data)
    root = _flatbuffers.read(data[start:end], _core._file_tables("etdump"), "ETDump")
    version = root.get("version", 0) & MAX_TICK_32
    if version > VERSION:
        raise damaged("", f"the ETDump has version {version}, known are those up to {VERSION}")
    decoder = _Decoder(debug_buffer)
    rows = enumerate(root.get("run_data", []))
    return tuple([decoder.run(row, f"run_data[{index}]") for index, row in rows])


def _delegate_id(table: dict[str, Any]) -> DelegateId:
    number: int = table.get("delegate_debug_id_int", -1)
    return number if number != -1 else table.get("delegate_debug_id_str") or None


class _Decoder:
    """Tables as events; paths are for errors."""

    def __init__(self, debug_buffer: bytes | None) -> None:
        self.buffer = debug_buffer
        self.dtypes = {number: name for name, number in _core._scalar_types().items()} | RAW_DTYPES

    def run(self, table: dict[str, Any], path: str) -> Run:
        index = table.get("bundled_input_index", -1)
        allocators = [row.get("name", "") for row in table.get("allocators", [])]
        events = [
            event
            for number, row in enumerate(table.get("events", []))
            for event in self.events(row, allocators, f"{path}.events[{number}]")
        ]
        return Run(table.get("name", ""), None if index == -1 else index, tuple(events))

    def events(
        self, table: dict[str, Any], allocators: Sequence[str], path: str
    ) -> Iterator[Event]:
        if "profile_event" in table:
            yield self.profile_event(table["profile_event"], f"{path}.profile_event")
        if "allocation_event" in table:
            row = table["allocation_event"]
            number = row.get("allocator_id", 0)  # they count from 1
            name = allocators[number - 1] if 0 < number <= len(allocators) else ""
            yield AllocationEvent(name, number, row.get("allocation_size", 0) & (1 << 64) - 1)
        if "debug_event" in table:
            yield self.debug_event(table["debug_event"], f"{path}.debug_event")

    def profile_event(self, table: dict[str, Any], path: str) -> ProfileEvent:
        start, end = (table.get(name, 0) & (1 << 64) - 1 for name in ("start_time", "end_time"))
        if start > max(end, MAX_TICK_32):
            raise damaged(path, f"it ends at {end}, before its start at {start}")
        return ProfileEvent(
            table.get("name", ""),
            table.get("chain_index", 0),
            table.get("instruction_id", -1),
            _delegate_id(table),
            table.get("delegate_debug_metadata", b""),
            start,
            end,
        )

    def debug_event(self, table: dict[str, Any], path: str) -> DebugEvent:
        entry = table.get("debug_entry")
        if entry is None:
            raise damaged(path, "it has no debug_entry")
        # The official runtime marks tensors among the outputs, but not numbers.
        chain = table.get("chain_index", 0)
        marked = bool(entry.get("output", {}).get("bool_val", 0))
        return DebugEvent(
            table.get("name", ""),
            chain,
            table.get("instruction_id", -1),
            _delegate_id(table),
            marked or chain == NO_CHAIN,
            self.value(entry, f"{path}.debug_entry"),
        )

    def value(self, table: dict[str, Any], path: str) -> Entry:
        number = table.get("val", 0)
        if not 0 <= number < len(KINDS):
            raise damaged(path, f"value of kind {number}, known are 0 to {len(KINDS) - 1}")
        kind = KINDS[number]
        name = {"TensorList": "tensor_list", "Tensor": "tensor"}.get(kind, f"{kind.lower()}_value")
        if kind in ("Null", "String"):
            return None
        if name not in table:
            raise damaged(path, f"a value of kind {kind} without {name}")
        row = table[name]
        if kind == "Tensor":
            return self.tensor(row, f"{path}.{name}")
        if kind == "TensorList":
            rows = enumerate(row.get("tensors", []))
            return [self.tensor(item, f"{path}.{name}.tensors[{i}]") for i, item in rows]
        if kind in ("Float", "Double"):
            integer, real = ("<i", "<f") if kind == "Float" else ("<q", "<d")
            bits = struct.pack(integer, row.get(f"{kind.lower()}_val", 0))
            return float(struct.unpack(real, bits)[0])
        content = row.get(f"{kind.lower()}_val", 0)
        return bool(content) if kind == "Bool" else int(content)

    def dtype(self, number: int, path: str) -> tuple[str, np.dtype[Any]]:
        """Return the name and the NumPy dtype of a scalar type."""
        if number in SMALL_FLOATS:
            name, raw = SMALL_FLOATS[number]
            if not _extras.is_installed("ml_dtypes"):
                return name, np.dtype(raw)
            return name, np.dtype(getattr(_extras.load(name, "ml_dtypes"), name, raw))
        if number not in self.dtypes:
            raise damaged(path, f"dtype {number} is unknown")
        return self.dtypes[number], np.dtype(self.dtypes[number])

    def tensor(self, table: dict[str, Any], path: str) -> Array | TensorSpec:
        name, dtype = self.dtype(table.get("scalar_type", 0), path)
        sizes, offset = table.get("sizes", []), table.get("offset", 0)
        strides = table.get("strides", [])
        if len(sizes) > MAX_RANK or len(strides) != len(sizes):
            raise damaged(
                path,
                f"{len(sizes)} sizes and {len(strides)} strides, expected as many of both, at "
                f"most {MAX_RANK}",
            )
        if min([*sizes, *strides], default=0) < 0:
            raise damaged(path, f"negative sizes or strides: {sizes}, {strides}")
        if math.prod(size or 1 for size in sizes) > np.iinfo(np.intp).max // dtype.itemsize:
            raise damaged(path, f"sizes {sizes} are too large")
        if self.buffer is None:
            return TensorSpec(name, tuple(sizes), tuple(strides), offset)
        if 0 in sizes:
            return np.empty(sizes, dtype)
        extent = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides))
        if offset < 0 or offset + extent * dtype.itemsize > len(self.buffer):
            raise damaged(
                path,
                f"{extent * dtype.itemsize} bytes at {offset} of the debug buffer, which has "
                f"{len(self.buffer)}: it is of another run, or was cut off",
            )
        if math.prod(sizes) > extent:
            raise damaged(path, f"strides {strides} let elements of sizes {sizes} overlap")
        used = [stride if size > 1 else 1 for size, stride in zip(sizes, strides)]
        steps = [stride * dtype.itemsize for stride in used]
        array: Array = np.ndarray(sizes, dtype, self.buffer, offset, steps)
        return array
