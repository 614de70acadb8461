"""Traces: what a method's calls did, instruction by instruction.

    with method.tracing() as trace:
        method.execute([x])
    print(trace)                 # a table: time, shapes and bytes of each instruction
    trace.to_html("run.html")    # the same as a page
    trace.to_chrome("run.json")  # for chrome://tracing or ui.perfetto.dev
    trace.to_dataframe()         # a row for each event, for pandas

With `method.tracing(values=True)` every event has what was computed, as NumPy arrays; with
`ranges=True` the range of whatever it took and gave, and how much of that was NaN or infinite.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from executorch_c import _trace_view
from executorch_c._render import text as _text
from executorch_c.report import Report

if TYPE_CHECKING:
    import pandas
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


class Trace(Report):
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

    @property
    def ok(self) -> bool:
        """Whether no instruction failed."""
        return not any(event.failed for event in self.events)

    def summary(self) -> str:
        """Return the number of calls and their time."""
        return "; ".join(_trace_view.notes(self))

    def table(self) -> str:
        """Instructions and nodes with shapes, bytes, microseconds and share of the call, as text.

        Several calls are one table of means; `calls` says how often in a call, where not once.
        Bytes are those of the tensors that are taken and given.
        """
        return _trace_view.table(self)

    def to_dataframe(self) -> pandas.DataFrame:
        """A pandas.DataFrame with a row for each event.

        Columns are run, kind, name, depth, chain, instruction, delegate, debug_handle (as those of
        Event), start_us (since the first event), duration_us, shapes, dtypes, bytes (of the
        tensors that are taken and given) and failed. Needs pandas (extra `view`).
        """
        return _trace_view.dataframe(self)

    def heading(self) -> str:
        """Return the heading of its page."""
        return f"Trace of '{self.method}'"

    def sections(self) -> Iterator[object]:
        """Yield the parts of its page after the finding: the table with bars for when each
        instruction ran, sums by operator."""
        return _trace_view.sections(self)

    def rows_as_dicts(self) -> list[dict[str, object]]:
        """Return a row for each event, with the columns of `to_dataframe`."""
        columns = _trace_view.columns(self)
        return [dict(zip(columns, row)) for row in zip(*columns.values())]

    def to_chrome(self, path: str | os.PathLike[str]) -> None:
        """Writes a JSON file that chrome://tracing and ui.perfetto.dev show."""
        events = []
        for event in self.events:
            arguments = {
                name: value
                for name in ("run", "chain", "instruction", "delegate", "debug_handle")
                if (value := getattr(event, name)) is not None
            }
            arguments |= {"shapes": _trace_view.shapes(event), "bytes": _trace_view.nbytes(event)}
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
        `devtools`). `executorch_c.inspect.etdump` says what is in it.
        """
        from executorch_c.inspect import etdump

        etdump.write([self], path, debug_buffer_path)

    def __str__(self) -> str:
        return "\n".join([*_trace_view.notes(self), self.table()])

    def __repr__(self) -> str:
        events = _text.plural(len(self.events), "event")
        calls = _text.plural(self.runs, "call")
        return f"<executorch_c.trace.Trace of '{self.method}': {calls}, {events}>"

    def _repr_html_(self) -> str:
        return _trace_view.notebook(self)


class Tracing:
    """What Method.tracing() gives: a context manager."""

    def __init__(self, method: Method, values: bool, ranges: bool, max_bytes: int) -> None:
        self._method, self._values, self._ranges = method, values, ranges
        self._max_bytes = max_bytes
        self._trace: Trace | None = None

    def __enter__(self) -> Trace:
        self._trace = Trace(self._method.metadata.name())  # an error here comes before the start
        self._method._trace_start(self._values, self._max_bytes, self._ranges)
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
