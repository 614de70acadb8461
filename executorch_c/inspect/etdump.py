"""ETDump: traces in the file format that the official `executorch.devtools.Inspector` reads.

    with method.tracing(values=True) as trace:
        method.execute([x])
    trace.to_etdump("run.etdp", "run.bin")

    Inspector("run.etdp", debug_buffer_path="run.bin", etrecord="model.etrecord")

A program that was loaded with `enable_etdump=True` traces all calls of its methods until
`program.write_etdump_result_to_file(...)`, except those inside a `tracing()` block.

Files are written with the package `flatbuffers` (extra `devtools`). Names, numbers and the order
of events are those of the official runtime, so that its tables and `calculate_numeric_gap` agree.
Differences:

* values of a failed run, and values that did not fit into the trace, are omitted, by event;
* values are in C order, because the Inspector ignores strides;
* bfloat16 is written as float32 and uint32 as int64, because the Inspector supports neither;
  complex numbers and uint64 are omitted;
* the Inspector treats runs of one name as repetitions with equal values: a run with different
  values (or NaN) is "Execute 2" and so on;
* nodes inside delegates have their debug handles as delegate_debug_id_int, the key of an ETRecord.
  Nodes of XNNPACK are not in ETRecords; their names are "NAME #1", "NAME #2", as in the official
  delegate, with {"debug_handle": N} as delegate metadata.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np

from executorch_c import _core, _extras, _flatbuffers
from executorch_c._arrays import Array
from executorch_c._paths import writing

if TYPE_CHECKING:
    from executorch_c.trace import Event, Trace, Value

Path: TypeAlias = "str | os.PathLike[str]"

KINDS = ("Null", "Int", "Bool", "Float", "Double", "Tensor", "TensorList", "String")
"""Names of ValueType by number."""

CALLS = {
    "kernel": "OPERATOR_CALL",
    "delegate": "DELEGATE_CALL",
    "move": "MOVE_CALL",
    "jump": "JF_CALL",
    "free": "FREE_CALL",
}
"""Names of instructions in the official runtime."""

PRIMS = re.compile(r"executorch_prim::|aten::(sym_\w+|_local_scalar_dense)\b")
"""Operators that have no name and no results in ETDumps of the official runtime."""

READABLE = {
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint16",
    "float16",
    "float32",
    "float64",
    "bool",
}
"""Dtypes that the Inspector supports."""

NAMED_NODES = {"XnnpackBackend"}
"""Backends whose official delegates write node names, not numbers."""

RUN = "Execute"
LOADING = "Default"
"""Names of runs: of calls, and of loading."""
ALIGNMENT = 16
"""Alignment of values in the debug buffer."""

Table: TypeAlias = "dict[str, Any]"
Entry: TypeAlias = "Array | bool | int | float | list[Array]"
"""Content of a debug event."""


@dataclass
class _Row:
    """An event of the file: its duration and results."""

    names: tuple[str, ...]
    """Names of its profile events, from the inner to the outer one."""
    start: int
    end: int
    chain: int = -1
    instruction: int = 0
    handle: int | None = None
    """The debug handle of a node."""
    identifier: str | None = None
    """Name of a node, instead of the handle."""
    entries: list[Entry] = field(default_factory=list)
    is_output: bool = False
    """Index of the run."""

    def signature(self) -> tuple[object, ...]:
        return (
            self.names,
            self.chain,
            self.instruction,
            self.handle,
            self.identifier,
            len(self.entries),
        )


@dataclass
class _Run:
    name: str
    rows: list[_Row]


# ---- a trace as rows --------------------------------------------------------------------------


def _readable(value: Value) -> Array | bool | int | float | None:
    """Return the data in a dtype that the Inspector supports."""
    data = value.data
    if not isinstance(data, np.ndarray):
        return data
    if value.dtype == "bfloat16":  # bfloat16 is the upper half of a float32
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


def _instruction(event: Event) -> _Row:
    is_prim = PRIMS.match(event.name)
    names: tuple[str, ...] = (CALLS[event.kind],)
    if event.kind == "kernel" and not is_prim:
        names = ("native_call_" + event.name.rpartition("::")[2], *names)
    shown = event.kind in ("kernel", "delegate") and not is_prim
    return _Row(
        names,
        event.start_ns,
        event.start_ns + event.duration_ns,
        event.chain or 0,
        event.instruction or 0,
        entries=_entries(event) if shown else [],
    )


def _node(event: Event, backend: str, delegate: _Row, counts: Counter[str]) -> _Row:
    """Return the row of an event inside a delegate, with the index of the delegate's
    instruction."""
    identifier = None
    if event.name and (backend in NAMED_NODES or event.debug_handle is None):
        counts[event.name] += 1
        identifier = f"{event.name} #{counts[event.name]}"
    return _Row(
        ("" if identifier else event.name,),
        event.start_ns,
        event.start_ns + event.duration_ns,
        delegate.chain,
        delegate.instruction,
        event.debug_handle,
        identifier,
        _entries(event),
    )


def _rows(events: Sequence[Event]) -> Iterator[_Row]:
    """Yield the rows of a call, inner events first."""
    call = delegate = None
    backend = ""
    counts: Counter[str] = Counter()
    for event in events:
        if event.kind == "execute":
            call = call or event  # a program in a payload appears as its delegate
        elif delegate and (event.kind == "node" or event.depth):
            yield _node(event, backend, delegate, counts)
        elif event.kind != "node" and not event.depth:
            if delegate:
                yield delegate
            row = _instruction(event)
            delegate = row if event.kind == "delegate" else None
            backend = event.name
            counts.clear()
            if not delegate:
                yield row
    if delegate:
        yield delegate
    if call and not call.failed:
        times = call.start_ns, call.start_ns + call.duration_ns
        yield _Row(("Method::execute",), *times)
        yield _Row((), *times, entries=_entries(call), is_output=True)


def _loading(trace: Trace) -> _Row:
    start = trace.load_start_ns or 0
    return _Row(("Method::init", "Program::load_method"), start, start + trace.load_ns)


def _same(one: Entry, other: Entry) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return np.array_equal(one, other)


def _runs(traces: Sequence[Trace]) -> list[_Run]:
    """Return calls in the order of their start. The module's docstring explains names."""
    calls: dict[tuple[int, int], list[Event]] = {}
    for index, trace in enumerate(traces):
        for event in trace.events:
            calls.setdefault((index, event.run), []).append(event)
    known: dict[tuple[object, ...], list[_Run]] = {}
    runs = [_Run(LOADING, [_loading(trace)]) for trace in traces if trace.load_start_ns is not None]
    for events in sorted(calls.values(), key=lambda call: call[0].start_ns):
        run = _Run(RUN, list(_rows(events)))
        if not run.rows:
            continue
        entries = [entry for row in run.rows for entry in row.entries]
        likes = known.setdefault(tuple(row.signature() for row in run.rows), [])
        for like in likes:
            others = (entry for row in like.rows for entry in row.entries)
            if all(map(_same, entries, others)):
                run.name = like.name
                break
        else:
            run.name += f" {len(likes) + 1}" if likes else ""
            likes.append(run)
        runs.append(run)
    return runs


# ---- rows in a file ---------------------------------------------------------------------------


class _Writer:
    """Writer of the FlatBuffer tables in TABLES, and of values in a debug buffer."""

    buffer: IO[bytes] | None = None

    def __init__(self) -> None:
        _extras.require("writing ETDumps", "flatbuffers")
        self.written = 0

    def tensor(self, array: Array) -> Table:
        """A tensor whose data goes into the debug buffer."""
        assert self.buffer
        data = np.ascontiguousarray(array)
        offset = -1  # an empty tensor has no data
        if data.nbytes:
            offset = -(-self.written // ALIGNMENT) * ALIGNMENT
            self.buffer.write(bytes(offset - self.written))
            self.buffer.write(data.tobytes())
            self.written = offset + data.nbytes
        strides = [int(np.prod(array.shape[d + 1 :], dtype=np.int64)) for d in range(array.ndim)]
        return {
            "scalar_type": _core._scalar_types()[data.dtype.name],
            "sizes": array.shape,
            "strides": strides,
            "offset": offset,
        }

    def value(self, entry: Entry, is_output: bool) -> Table:
        if isinstance(entry, np.ndarray):
            kind, fields = "Tensor", {"tensor": self.tensor(entry)}
        elif isinstance(entry, list):
            kind, fields = "TensorList", {"tensor_list": {"tensors": [*map(self.tensor, entry)]}}
        elif isinstance(entry, bool):
            kind, fields = "Bool", {"bool_value": {"bool_val": entry}}
        elif isinstance(entry, int):
            kind, fields = "Int", {"int_value": {"int_val": entry}}
        else:
            kind, fields = "Double", {"double_value": {"double_val": entry}}
        output = {"bool_val": True} if is_output else None
        return {"val": KINDS.index(kind), **fields, "output": output}

    def events(self, row: _Row) -> Iterator[Table]:
        """Return the debug events of a row's values, which precede its profile events."""
        metadata = None
        if row.identifier and row.handle is not None:
            metadata = [*json.dumps({"debug_handle": row.handle}).encode()]
        common = {
            "chain_index": row.chain,
            "instruction_id": row.instruction,
            "delegate_debug_id_int": None if row.identifier else row.handle,
            "delegate_debug_id_str": row.identifier,
        }
        for entry in row.entries if self.buffer else []:
            yield {"debug_event": {**common, "debug_entry": self.value(entry, row.is_output)}}
        for name in row.names:
            times = {"start_time": row.start, "end_time": row.end}
            yield {
                "profile_event": {
                    **common,
                    **times,
                    "name": name or None,
                    "delegate_debug_metadata": metadata,
                }
            }

    def run(self, run: _Run) -> Table:
        events = [event for row in run.rows for event in self.events(row)]
        return {"name": run.name, "events": events}

    def finish(self, runs: Sequence[_Run]) -> bytes:
        values = {"version": 0, "run_data": [*map(self.run, runs)]}
        return _flatbuffers.write(
            values,
            _core._file_tables("etdump"),
            "ETDump",
            "ETDumps",
            identifier=b"ED00",
            is_prefixed=True,
            size=1 << 16,
        )


def write(traces: Sequence[Trace], path: Path, debug_buffer_path: Path | None = None) -> None:
    """Write traces of one or several methods as one ETDump.

    Without `debug_buffer_path`, the ETDump has only times. Raises ImportError (no flatbuffers) and
    OSError.
    """
    write_taken(lambda: traces, path, debug_buffer_path)


def write_taken(take: Callable[[], Sequence[Trace]], path: Path, debug_path: Path | None) -> None:
    """Write traces that are taken once the files are open."""
    writer = _Writer()
    debug_buffer = writing(debug_path, "wb") if debug_path else nullcontext()
    with debug_buffer as writer.buffer, writing(path, "wb") as file:
        file.write(writer.finish(_runs(take())))
