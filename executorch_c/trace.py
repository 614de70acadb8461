"""Traces: what a method's calls did, instruction by instruction.

    with method.tracing() as trace:
        method.execute([x])
    print(trace)                 # a table: time and shapes of each instruction
    trace.to_chrome("run.json")  # for chrome://tracing or ui.perfetto.dev

With `method.tracing(values=True)` every event has what was computed, as NumPy arrays; with
`ranges=True` the range of whatever it took and gave, and how much of that was NaN or infinite.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Literal, TypeAlias

from executorch_c import _text

if TYPE_CHECKING:
    from types import TracebackType

    from executorch_c._core import Method
    from executorch_c._types import Array, RawEvent, RawValue

Kind: TypeAlias = Literal["execute", "kernel", "delegate", "move", "jump", "free", "node"]


@dataclass(frozen=True)
class Range:
    """What numbers a tensor holds; the real and imaginary parts of complex ones."""

    nan: int
    """So many are NaN."""
    positive: int
    """So many are infinite."""
    negative: int
    """So many are negative infinite."""
    first: tuple[int, ...] | None
    """Index of the first in memory that is not finite."""
    low: float
    """The smallest finite one; NaN where there is none."""
    high: float
    """The largest finite one; NaN where there is none."""

    @property
    def finite(self) -> bool:
        """Whether no number is NaN or infinite."""
        return not self.nan + self.positive + self.negative


@dataclass(frozen=True)
class Value:
    """An argument or a result of an event: a tensor, or a number that was computed."""

    name: str
    """Of the operator's argument ("self", "tensors[1]"); empty for delegates and nodes."""
    is_output: bool
    dtype: str
    """That of the program ("float32", "bfloat16"); "int", "float" or "bool" for numbers."""
    shape: tuple[int, ...]
    dim_order: tuple[int, ...]
    nbytes: int
    data: Array | bool | int | float | None = field(repr=False)
    """A read-only array, with tracing(values=True) and for outputs only; a number."""
    slot: int | None = None
    """Its number among the values of the method in the file; None inside of delegates, where
    programs in payloads count their own."""
    range: Range | None = None
    """With tracing(ranges=True)."""


@dataclass(frozen=True)
class Event:
    """An instruction that ran, a node inside of a delegate, or a whole call ("execute")."""

    run: int
    """Which call of the method in this trace, from 0."""
    kind: Kind
    name: str
    """The operator, the backend, the node as the backend calls it, or the method."""
    depth: int
    """0, or how deep in programs inside of payloads: such events follow that of their delegate."""
    chain: int | None
    instruction: int | None
    """Its number in the chain, which is what debug handles of an ETRecord go by. None for calls."""
    delegate: int | None
    """The delegate's number in the method."""
    debug_handle: int | None
    """Of a node: what the exporter gave it."""
    start_ns: int
    """As time.monotonic_ns(). Nodes tell how long they took: here they follow one another."""
    duration_ns: int
    failed: bool
    values: tuple[Value, ...]

    @property
    def inputs(self) -> tuple[Value, ...]:
        """The tensors that it took."""
        return tuple(value for value in self.values if not value.is_output)

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The tensors and numbers that it computed. A file does not say which arguments of a
        delegate are outputs: these are the last ones that nothing before has written."""
        return tuple(value for value in self.values if value.is_output)


def _value(raw: RawValue) -> Value:
    name, is_output, dtype, shape, dim_order, nbytes, data, slot, found = raw
    dtype = dtype or type(data).__name__
    span = _range(found, shape, dim_order) if found else None
    return Value(name, is_output, dtype, shape, dim_order, nbytes, data, slot, span)


def _range(
    raw: tuple[int, int, int, int, float, float], shape: tuple[int, ...], order: tuple[int, ...]
) -> Range:
    nan, positive, negative, at, low, high = raw
    index = [0] * len(shape)
    for axis in reversed(order):
        index[axis], at = at % max(shape[axis], 1), at // max(shape[axis], 1)
    first = tuple(index) if nan + positive + negative else None
    if low > high:
        low = high = math.nan
    return Range(nan, positive, negative, first, low, high)


def _events(rows: list[RawEvent]) -> Iterator[Event]:
    run = -1
    for kind, name, depth, *numbers, start, duration, failed, values in rows:
        run += kind == "execute" and depth == 0
        chain, instruction, delegate, handle = numbers
        yield Event(run, kind, name, depth, chain, instruction, delegate, handle, start, duration,
                    failed, tuple(map(_value, values)))  # fmt: skip


Key: TypeAlias = tuple[object, ...]


@dataclass
class _Row:
    """The events of one instruction or node, over all runs."""

    event: Event
    level: int
    calls: int = 0
    nanoseconds: int = 0


class Trace:
    """What the calls inside of a `with method.tracing() as trace` block did.

    It is empty until the block ends. `print(trace)` shows the table.
    """

    def __init__(self, method: str) -> None:
        self.method = method
        self.events: tuple[Event, ...] = ()
        """In the order in which they began."""
        self.dropped_events = 0
        """So many events did not fit into max_bytes."""
        self.dropped_values = 0
        """So many outputs have no data, or are missing, for the same reason."""
        self.load_start_ns: int | None = None
        """When loading the method began, as time.monotonic_ns()."""
        self.load_ns = 0
        """How long loading took."""

    def _fill(self, method: Method, raw: tuple[list[RawEvent], int, int]) -> None:
        rows, self.dropped_events, self.dropped_values = raw
        self.events = tuple(_events(rows))
        self.load_start_ns, self.load_ns = method._load_start_ns, method._load_ns

    @property
    def runs(self) -> int:
        """How many calls it has."""
        return self.events[-1].run + 1 if self.events else 0

    def _rows(self) -> list[_Row]:
        """Events of the same instruction or node, which the events around them tell apart."""
        rows: dict[Key, _Row] = {}
        inside: list[Key] = [()]  # keys of the delegates that are around, by depth
        nodes = 0
        for event in self.events:
            if event.kind == "node":
                key, level, nodes = (*inside[-1], nodes), len(inside) - 1, nodes + 1
            else:
                del inside[event.depth + 1 :]
                key = (*inside[-1], event.kind, event.chain, event.instruction)
                level, nodes = event.depth, 0
                if event.kind == "delegate":
                    inside.append(key)
            row = rows.setdefault(key, _Row(event, level))
            row.calls += 1
            row.nanoseconds += event.duration_ns
        return list(rows.values())

    def _cells(self) -> list[list[str]]:
        rows = self._rows()
        runs = max(self.runs, 1)
        calls = [row for row in rows if row.event.kind == "execute" and row.event.depth == 0]
        total = sum(row.nanoseconds for row in calls)
        inner = [row for row in rows if row.event.kind != "execute"]
        direct = sum(r.nanoseconds for r in inner if r.event.depth == 0 and r.event.kind != "node")
        chains = len({row.event.chain for row in inner}) > 1

        def cells(where: str, name: str, shapes: str, count: int, nanoseconds: int) -> list[str]:
            share = f"{100 * nanoseconds / total:.1f} %" if total else ""
            times = f"{count / runs:g}" if count != runs else ""
            return [where, name, shapes, times, f"{nanoseconds / runs / 1e3:,.1f}", share]

        table = []
        for row in inner:
            event = row.event
            number = "" if event.kind == "node" else str(event.instruction)
            where = f"{event.chain}:{number}" if chains and number else number
            name = "  " * row.level + (event.name or f"node {event.debug_handle}")
            table.append(cells(where, name + " (failed)" * event.failed, _shapes(event), row.calls,
                               row.nanoseconds))  # fmt: skip
        table.append(cells("", "inputs, outputs, the rest", "", runs, max(total - direct, 0)))
        table.append(cells("", "the whole call", "", runs, total))
        return table

    def _notes(self) -> list[str]:
        times = f"{_text.plural(self.runs, 'call')} of '{self.method}'"
        notes = [times + (", times are means of a call" if self.runs > 1 else "")]
        if self.dropped_events or self.dropped_values:
            notes.append(
                f"{self.dropped_events} events and the data of {self.dropped_values} values did "
                "not fit: give tracing() a larger max_bytes"
            )
        return notes

    def table(self) -> str:
        """Instructions and nodes with shapes, microseconds and share of the call, as text.

        Several calls are one table of means; `calls` says how often in a call, where not once.
        """
        rows = [list(_HEAD), *self._cells()]
        if not any(row[3] for row in rows[1:]):
            rows[0][3] = ""
        for column in (3, 4, 5):
            width = max(len(row[column]) for row in rows)
            for row in rows:
                row[column] = row[column].rjust(width)
        return "\n".join([*self._notes(), _text.table(rows[1:], rows[0], indent=0)])

    def to_chrome(self, path: str | os.PathLike[str]) -> None:
        """Writes a JSON file that chrome://tracing and ui.perfetto.dev show."""
        events = []
        for event in self.events:
            arguments = {
                name: value
                for name in ("run", "chain", "instruction", "delegate", "debug_handle")
                if (value := getattr(event, name)) is not None
            }
            arguments["shapes"] = _shapes(event)
            events.append({
                "name": event.name or event.kind, "cat": event.kind, "ph": "X", "pid": 0, "tid": 0,
                "ts": event.start_ns / 1e3, "dur": event.duration_ns / 1e3, "args": arguments,
            })  # fmt: skip
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events, "displayTimeUnit": "ns"}, file)

    def to_etdump(
        self,
        path: str | os.PathLike[str],
        debug_buffer_path: str | os.PathLike[str] | None = None,
    ) -> None:
        """Writes an ETDump for the official Inspector, and the values in a debug buffer.

        Without `debug_buffer_path` it has times only. Needs the package flatbuffers (extra
        `devtools`). `executorch_c.devtools.etdump` says what is in it.
        """
        from executorch_c.devtools import etdump

        etdump.write([self], path, debug_buffer_path)

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        events = _text.plural(len(self.events), "event")
        calls = _text.plural(self.runs, "call")
        return f"<executorch_c.trace.Trace of '{self.method}': {calls}, {events}>"

    def _repr_html_(self) -> str:
        from executorch_c import _html

        caption = "<br>".join(escape(note) for note in self._notes())
        return _html.table(caption, _HEAD, self._cells(), text_columns=3)


_HEAD = ("", "name", "shapes", "calls", "us", "share")


def _shapes(event: Event) -> str:
    """"(2, 3), (3) -> (2, 4)": tensors taken and given, numbers given."""

    def one(value: Value) -> str:
        if isinstance(value.data, (bool, int, float)):
            return str(value.data)
        return f"({', '.join(map(str, value.shape))})"

    sides = [", ".join(map(one, values)) for values in (event.inputs, event.outputs)]
    return " -> ".join(filter(None, sides))


class Tracing:
    """What Method.tracing() gives: a context manager."""

    def __init__(self, method: Method, values: bool, ranges: bool, max_bytes: int) -> None:
        self._method, self._values, self._ranges = method, values, ranges
        self._max_bytes = max_bytes
        self._trace: Trace | None = None

    def __enter__(self) -> Trace:
        self._method._trace_start(self._values, self._max_bytes, self._ranges)
        self._trace = Trace(self._method.metadata.name())
        return self._trace

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._trace is not None
        self._trace._fill(self._method, self._method._trace_stop())


def _tracing(what: tuple[Method, bool, bool, int]) -> Tracing:
    """Method.tracing() in C comes here."""
    return Tracing(*what)
