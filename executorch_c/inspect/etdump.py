"""ETDump: traces in the file format that the official `executorch.devtools.Inspector` reads.

    with method.tracing(values=True) as trace:
        method.execute([x])
    trace.to_etdump("run.etdp", "run.bin")

    Inspector("run.etdp", debug_buffer_path="run.bin", etrecord="model.etrecord")

A program that was loaded with `enable_etdump=True` records all calls of its methods until
`program.write_etdump_result_to_file(...)`, except those inside of a `tracing()` block.

Files are written with the package `flatbuffers` (extra `devtools`). Names, numbers and the order
of events are those of the official runtime, so that tables and numeric gaps look the same; what
differs:

* values of a run that failed, and those that did not fit into the trace, are left out, all of an
  event or none;
* values are in C order, which is how the Inspector reads them whatever their strides say;
* bfloat16 is written as float32 and uint32 as int64, which hold the same numbers, as the Inspector
  knows neither; complex numbers and uint64 are left out;
* the Inspector takes runs of one name for repetitions with the same values: a run with other
  values (or NaN, which equals nothing) is "Execute 2" and so on;
* nodes inside of delegates have their debug handles as delegate_debug_id_int, by which an ETRecord
  knows them. It does not know those of XNNPACK, which are "NAME #1", "NAME #2" as those of the
  official delegate, with {"debug_handle": N} as their delegate metadata.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

import numpy as np

from executorch_c import _core, _flatbuffers
from executorch_c._arrays import Array
from executorch_c.trace import Event, Trace, Value

if TYPE_CHECKING:
    from executorch_c._core import Method

Path: TypeAlias = "str | os.PathLike[str]"

TABLES = {
    "ETDump": "version:Uint32 run_data",
    "RunData": "name bundled_input_index:Int32=-1 allocators events",
    "Event": "profile_event allocation_event debug_event",
    "ProfileEvent": "name chain_index:Int32 instruction_id:Int32=-1 delegate_debug_id_int:Int32=-1 "
    "delegate_debug_id_str delegate_debug_metadata start_time:Uint64 end_time:Uint64",
    "DebugEvent": "chain_index:Uint64 instruction_id:Int32=-1 debug_entry "
    "delegate_debug_id_int:Int32=-1 delegate_debug_id_str name",
    "Value": "val:Int8 tensor tensor_list int_value float_value double_value bool_value output",
    "Tensor": "scalar_type:Int8 sizes strides offset:Int64",
    "TensorList": "tensors",
    "Int": "int_val:Int64",
    "Bool": "bool_val:Bool",
    "Double": "double_val:Float64",
}
"""Fields of etdump_schema_flatcc.fbs by their numbers: NAME:TYPE=DEFAULT; of offsets the name."""

KINDS = ("Null", "Int", "Bool", "Float", "Double", "Tensor", "TensorList", "String")
"""ValueType by its numbers."""

CALLS = {
    "kernel": "OPERATOR_CALL",
    "delegate": "DELEGATE_CALL",
    "move": "MOVE_CALL",
    "jump": "JF_CALL",
    "free": "FREE_CALL",
}
"""Names of instructions in the official runtime."""

PRIMS = re.compile(r"executorch_prim::|aten::(sym_\w+|_local_scalar_dense)\b")
"""Operators without name and results in ETDumps of the official runtime."""

READABLE = {
    "uint8", "int8", "int16", "int32", "int64", "uint16", "float16", "float32", "float64", "bool",
}  # fmt: skip
"""Dtypes that the Inspector reads."""

NAMED_NODES = {"XnnpackBackend"}
"""Backends whose official delegates write names of nodes, not numbers."""

RUN = "Execute"
LOADING = "Default"
"""Names of runs."""
ALIGNMENT = 16
"""Of values in the debug buffer."""

Entry: TypeAlias = "Array | bool | int | float | list[Array]"
"""Content of a debug event."""


@dataclass
class _Record:
    """An event of the file: its duration and results."""

    names: tuple[str, ...]
    """A profile event each, from the inner to the outer one."""
    start: int
    end: int
    chain: int = -1
    instruction: int = 0
    handle: int | None = None
    """The debug handle of a node."""
    identifier: str | None = None
    """Name of a node, in place of the handle."""
    entries: list[Entry] = field(default_factory=list)
    is_output: bool = False
    """Of the run."""

    def signature(self) -> tuple[object, ...]:
        return (self.names, self.chain, self.instruction, self.handle, self.identifier,
                len(self.entries))  # fmt: skip


@dataclass
class _Run:
    name: str
    records: list[_Record]


# ---- what a trace says, as records ------------------------------------------------------------


def _readable(value: Value) -> Array | bool | int | float | None:
    """The data as the Inspector can read it."""
    data = value.data
    if not isinstance(data, np.ndarray):
        return data
    if value.dtype == "bfloat16":  # the upper half of a float32
        bits: Array = np.ascontiguousarray(data).view(np.uint16).reshape(data.shape)
        wide: Array = (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return wide
    if value.dtype == "uint32":
        return data.astype(np.int64)
    return data if value.dtype in READABLE else None


def _entries(event: Event) -> list[Entry]:
    """Return the results of an event, lists of tensors as one entry; empty if one is missing."""
    entries: list[Entry] = []
    last = ""
    for value in event.outputs:
        data = _readable(value)
        if event.failed or data is None:
            return []
        in_list = re.fullmatch(r"(.*)\[\d+\]", value.name)
        if not in_list or not isinstance(data, np.ndarray):
            entries.append(data)
        elif in_list[1] == last and isinstance(entries[-1], list):
            entries[-1].append(data)
        else:
            entries.append([data])
        last = in_list[1] if in_list else ""
    return entries


def _instruction(event: Event) -> _Record:
    is_prim = PRIMS.match(event.name)
    names: tuple[str, ...] = (CALLS[event.kind],)
    if event.kind == "kernel" and not is_prim:
        names = ("native_call_" + event.name.rpartition("::")[2], *names)
    told = event.kind in ("kernel", "delegate") and not is_prim
    return _Record(names, event.start_ns, event.start_ns + event.duration_ns, event.chain or 0,
                   event.instruction or 0, entries=_entries(event) if told else [])  # fmt: skip


def _node(event: Event, backend: str, delegate: _Record, counts: Counter[str]) -> _Record:
    """An event inside a delegate, with the number of the delegate's instruction."""
    identifier = None
    if event.name and (backend in NAMED_NODES or event.debug_handle is None):
        counts[event.name] += 1
        identifier = f"{event.name} #{counts[event.name]}"
    return _Record(("" if identifier else event.name,), event.start_ns,
                   event.start_ns + event.duration_ns, delegate.chain, delegate.instruction,
                   event.debug_handle, identifier, _entries(event))  # fmt: skip


def _records(events: Sequence[Event]) -> Iterator[_Record]:
    """The records of a call, inner ones first."""
    call = delegate = None
    backend = ""
    counts: Counter[str] = Counter()
    for event in events:
        if event.kind == "execute":
            call = call or event  # of programs in payloads there is the delegate
        elif delegate and (event.kind == "node" or event.depth):
            yield _node(event, backend, delegate, counts)
        elif event.kind != "node" and not event.depth:
            if delegate:
                yield delegate
            record = _instruction(event)
            delegate = record if event.kind == "delegate" else None
            backend = event.name
            counts.clear()
            if not delegate:
                yield record
    if delegate:
        yield delegate
    if call and not call.failed:
        times = call.start_ns, call.start_ns + call.duration_ns
        yield _Record(("Method::execute",), *times)
        yield _Record((), *times, entries=_entries(call), is_output=True)


def _loading(trace: Trace) -> _Record:
    start = trace.load_start_ns or 0
    return _Record(("Method::init", "Program::load_method"), start, start + trace.load_ns)


def _same(one: Entry, other: Entry) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return np.array_equal(one, other)


def _runs(traces: Sequence[Trace]) -> list[_Run]:
    """Calls in the order in which they began. What a name means: see the module."""
    calls: dict[tuple[int, int], list[Event]] = {}
    for index, trace in enumerate(traces):
        for event in trace.events:
            calls.setdefault((index, event.run), []).append(event)
    known: dict[tuple[object, ...], list[_Run]] = {}
    runs = [_Run(LOADING, [_loading(trace)]) for trace in traces if trace.load_start_ns is not None]
    for events in sorted(calls.values(), key=lambda call: call[0].start_ns):
        run = _Run(RUN, list(_records(events)))
        if not run.records:
            continue
        entries = [entry for record in run.records for entry in record.entries]
        likes = known.setdefault(tuple(record.signature() for record in run.records), [])
        for like in likes:
            others = (entry for record in like.records for entry in record.entries)
            if all(map(_same, entries, others)):
                run.name = like.name
                break
        else:
            run.name += f" {len(likes) + 1}" if likes else ""
            likes.append(run)
        runs.append(run)
    return runs


# ---- records in a file ------------------------------------------------------------------------


class _Writer:
    """Tables of TABLES in a FlatBuffer, and values in a debug buffer."""

    buffer: BinaryIO | None = None

    def __init__(self) -> None:
        self.builder = _flatbuffers.builder(1 << 16, "ETDumps")
        self.written = 0

    def table(self, kind: str, /, **values: Any) -> int:
        """A table with these fields; None leaves one out."""
        fields = TABLES[kind].split()
        self.builder.StartObject(len(fields))
        for number, spec in enumerate(fields):
            key, _, scalar = spec.partition(":")
            value = values.pop(key, None)
            if value is None:
                continue
            scalar, _, default = scalar.partition("=")
            prepend = getattr(self.builder, f"Prepend{scalar or 'UOffsetTRelative'}Slot")
            prepend(number, value, int(default or 0))
        assert not values, f"{kind} has no {values}"
        offset: int = self.builder.EndObject()
        return offset

    def vector(self, offsets: Sequence[int]) -> int:
        return _flatbuffers.offsets(self.builder, offsets)

    def text(self, text: str | None) -> int | None:
        return self.builder.CreateSharedString(text) if text else None

    def numbers(self, numbers: Sequence[int]) -> int:
        vector: int = self.builder.CreateNumpyVector(np.array(numbers, np.int64))
        return vector

    def tensor(self, array: Array) -> int:
        """A tensor whose data goes into the debug buffer."""
        assert self.buffer
        data = np.ascontiguousarray(array)
        offset = -1  # nothing to read
        if data.nbytes:
            offset = -(-self.written // ALIGNMENT) * ALIGNMENT
            self.buffer.write(bytes(offset - self.written))
            self.buffer.write(data.tobytes())
            self.written = offset + data.nbytes
        strides = [int(np.prod(array.shape[d + 1 :], dtype=np.int64)) for d in range(array.ndim)]
        sizes, steps = self.numbers(array.shape), self.numbers(strides)
        return self.table("Tensor", scalar_type=_core._scalar_types()[data.dtype.name], sizes=sizes,
                          strides=steps, offset=offset)  # fmt: skip

    def value(self, entry: Entry, is_output: bool) -> int:
        if isinstance(entry, np.ndarray):
            kind, fields = "Tensor", {"tensor": self.tensor(entry)}
        elif isinstance(entry, list):
            tensors = self.table("TensorList", tensors=self.vector([*map(self.tensor, entry)]))
            kind, fields = "TensorList", {"tensor_list": tensors}
        elif isinstance(entry, bool):
            kind, fields = "Bool", {"bool_value": self.table("Bool", bool_val=entry)}
        elif isinstance(entry, int):
            kind, fields = "Int", {"int_value": self.table("Int", int_val=entry)}
        else:
            kind, fields = "Double", {"double_value": self.table("Double", double_val=entry)}
        output = self.table("Bool", bool_val=True) if is_output else None
        return self.table("Value", val=KINDS.index(kind), **fields, output=output)

    def events(self, record: _Record) -> Iterator[int]:
        """Debug events of what a record has, before its profile events."""
        metadata = None
        if record.identifier and record.handle is not None:
            text = json.dumps({"debug_handle": record.handle})
            metadata = self.builder.CreateByteVector(text.encode())
        common = {
            "instruction_id": record.instruction,
            "delegate_debug_id_int": None if record.identifier else record.handle,
            "delegate_debug_id_str": self.text(record.identifier),
        }
        for entry in record.entries if self.buffer else []:
            value = self.value(entry, record.is_output)
            event = self.table("DebugEvent", chain_index=record.chain % 2**64, debug_entry=value,
                               **common)  # fmt: skip
            yield self.table("Event", debug_event=event)
        for name in record.names:
            text_offset = self.text(name)
            event = self.table(
                "ProfileEvent", name=text_offset, chain_index=record.chain, start_time=record.start,
                end_time=record.end, delegate_debug_metadata=metadata, **common,
            )  # fmt: skip
            yield self.table("Event", profile_event=event)

    def run(self, run: _Run) -> int:
        events = [offset for record in run.records for offset in self.events(record)]
        name, rows = self.text(run.name), self.vector(events)
        return self.table("RunData", name=name, events=rows)

    def finish(self, runs: Sequence[_Run]) -> bytes:
        rows = self.vector([*map(self.run, runs)])
        root = self.table("ETDump", version=0, run_data=rows)
        self.builder.FinishSizePrefixed(root, file_identifier=b"ED00")
        return bytes(self.builder.Output())


def write(traces: Sequence[Trace], path: Path, debug_buffer_path: Path | None = None) -> None:
    """Writes traces of one or several methods as one ETDump.

    Without `debug_buffer_path` it has times only. Raises ImportError (no flatbuffers), OSError.
    """
    _write(lambda: traces, path, debug_buffer_path)


def _write(take: Callable[[], Sequence[Trace]], path: Path, debug_path: Path | None) -> None:
    """Takes the traces once files are open."""
    writer = _Writer()
    debug_buffer = open(debug_path, "wb") if debug_path else nullcontext()
    with debug_buffer as writer.buffer, open(path, "wb") as file:
        file.write(writer.finish(_runs(take())))


def _write_recorded(what: tuple[Sequence[Method], Path, Path | None]) -> None:
    """Program.write_etdump_result_to_file comes here."""
    methods, path, debug_path = what

    def take() -> list[Trace]:
        traces = [Trace(method.metadata.name()) for method in methods]
        for trace, method in zip(traces, methods):
            trace._fill(method, method._trace_take())
        return traces

    _write(take, path, debug_path)
