"""Traces: the calls of a method, instruction by instruction.

    with method.tracing() as trace:
        method.execute([x])
    print(trace)                 # the slowest instructions and nodes; totals
    print(trace.table())         # time, shapes and bytes of each instruction
    trace.to_html("run.html")    # the same as a page
    trace.to_chrome("run.json")  # for chrome://tracing or ui.perfetto.dev
    trace.to_dataframe()         # a row for each event, for pandas

With `method.tracing(values=True)` every event has its outputs as NumPy arrays; with `ranges=True`
the ranges of its inputs and outputs, and their counts of NaN and infinity.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, cast

from executorch_c import _trace_lines, _trace_view
from executorch_c._engines import untimed
from executorch_c._names import visible
from executorch_c._paths import writing
from executorch_c._render import text as _text
from executorch_c.report import Report

if TYPE_CHECKING:
    from types import TracebackType

    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from executorch_c._arrays import Array
    from executorch_c._core import Method, Program
    from executorch_c._render.page.model import Node, Overlay
    from executorch_c._trace_lines import By, Sort, Tensor, Total
    from executorch_c._types import FilePath, RawEvent, RawResult, RawValue
    from executorch_c.inspect.etrecord import ETRecord

Kind: TypeAlias = Literal["execute", "kernel", "delegate", "move", "jump", "free", "node"]


@dataclass(frozen=True)
class Range:
    """The range of a tensor's elements; of a complex tensor, of real and imaginary parts."""

    nan: int
    """Number of NaN."""
    positive: int
    """Number of positive infinities."""
    negative: int
    """Number of negative infinities."""
    first: tuple[int, ...] | None
    """Index in memory of the first element that is not finite."""
    low: float
    """Smallest finite element; NaN without one."""
    high: float
    """Largest finite element; NaN without one."""

    @property
    def finite(self) -> bool:
        """True if no element is NaN or infinite."""
        return not self.nan + self.positive + self.negative


@dataclass(frozen=True)
class Value:
    """An input or output of an event: a tensor, or a computed number."""

    name: str
    """Name of the operator's argument ("self", "tensors[1]"); empty for delegates and nodes."""
    is_output: bool
    dtype: str
    """Dtype of the program ("float32", "bfloat16"); "int", "float" or "bool" for numbers."""
    shape: tuple[int, ...]
    dim_order: tuple[int, ...]
    nbytes: int
    data: Array | bool | int | float | None = field(repr=False)
    """A number; or a read-only array, of outputs and with tracing(values=True) only."""
    slot: int | None = None
    """Index of the value in the file's method; None inside delegates, because programs in payloads
    count their own values."""
    range: Range | None = None
    """Range, with tracing(ranges=True)."""


@dataclass(frozen=True)
class Event:
    """An executed instruction, a node inside a delegate, or a whole call ("execute")."""

    run: int
    """Number of the call in this trace, from 0."""
    kind: Kind
    name: str
    """Name of the operator, the backend, the backend's node, or the method."""
    depth: int
    """Nesting depth in programs inside payloads, from 0: such events follow their delegate's."""
    chain: int | None
    instruction: int | None
    """Number in the chain, the key of debug handles in an ETRecord; None for calls."""
    delegate: int | None
    """Index of the delegate in the method."""
    debug_handle: int | None
    """Debug handle of a node, from the exporter."""
    start_ns: int
    """Start, as time.monotonic_ns(); of nodes computed, because backends report durations only."""
    duration_ns: int
    failed: bool
    values: tuple[Value, ...]

    @property
    def inputs(self) -> tuple[Value, ...]:
        """Input tensors."""
        return tuple(value for value in self.values if not value.is_output)

    @property
    def outputs(self) -> tuple[Value, ...]:
        """Computed tensors and numbers. A file does not mark the outputs of a delegate: they are
        the last arguments that no earlier instruction has written."""
        return tuple(value for value in self.values if value.is_output)


@dataclass(frozen=True)
class Result:
    """What `alter` of `method.tracing(alter=)` is called with: the place of a computed tensor."""

    kind: Kind
    name: str
    """Name of the operator, the backend, or the backend's node."""
    depth: int
    chain: int | None
    instruction: int | None
    delegate: int | None
    debug_handle: int | None
    """As in Event."""
    node: int
    """Number of the node in its delegate's call, from 0; 0 outside of delegates."""
    output: int
    """Number of the tensor among the results of the instruction or node."""


Alter: TypeAlias = "Callable[[Result, Array], object]"
"""May change the elements of the array, which is read-only for a view of an input or constant."""


def _value(raw: RawValue) -> Value:
    name, is_output, dtype, shape, dim_order, nbytes, data, slot, extent = raw
    dtype = dtype or type(data).__name__
    span = _range(extent, shape, dim_order) if extent else None
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
        yield Event(
            run,
            kind,
            name,
            depth,
            chain,
            instruction,
            delegate,
            handle,
            start,
            duration,
            failed,
            (*map(_value, values),),
        )


class Trace(Report):
    """The events of all calls in a `with method.tracing() as trace` block.

    It is empty until the block ends. `print(trace)` shows the table.
    """

    def __init__(self, method: str) -> None:
        self.method = method
        self.events: tuple[Event, ...] = ()
        """Events in the order of their starts."""
        self.dropped_events = 0
        """Number of events that did not fit into max_bytes."""
        self.dropped_values = 0
        """Number of outputs without data, or missing, for the same reason."""
        self.load_start_ns: int | None = None
        """Start of loading the method, as time.monotonic_ns()."""
        self.load_ns = 0
        """Duration of loading, in nanoseconds."""
        self.untimed: tuple[str, ...] = ()
        """A sentence for each backend whose times here are not those of a device."""
        self.modules: dict[str, str] = {}
        """Modules of the model by id of an instruction or node, from `name_nodes`."""
        self.node_values: dict[str, tuple[tuple[Tensor, ...], tuple[Tensor, ...]]] = {}
        """Inputs and outputs of nodes in delegates by id, from `name_nodes`."""

    def _fill(self, method: Method, raw: tuple[list[RawEvent], int, int]) -> None:
        rows, self.dropped_events, self.dropped_values = raw
        # Not tuple(): CPython's leaks its items when it cannot grow.
        self.events = (*_events(rows),)
        self.load_start_ns, self.load_ns = method._load_start_ns, method._load_ns
        methods = method._program.info()["methods"]
        self.untimed = tuple(
            t for one in methods if one["name"] == self.method for t in untimed(one)
        )

    @property
    def runs(self) -> int:
        """Number of calls."""
        return self.events[-1].run + 1 if self.events else 0

    @property
    def ok(self) -> bool:
        """True if no instruction failed."""
        return not any(event.failed for event in self.events)

    def summary(self) -> str:
        """Return the number of calls and their time."""
        return "; ".join(_trace_view.notes(self))

    def table(self, top: int | None = None, sort: Sort = "order") -> str:
        """Return instructions and nodes as text: module, shapes, bytes, microseconds, share.

        Several calls are one table of means and 90th percentiles; `calls` is the number of
        executions per call. Bytes are those of input and output tensors.

        Args:
            top: Maximum number of rows; default: all.
            sort: "order" of execution; "time" or "bytes", largest first. By time, the nodes of a
                delegate and the rest of its time stand for the delegate.
        """
        return _trace_view.table(self, top, sort)

    def totals(self, by: By = "operator") -> list[Total]:
        """Return lines, calls and nanoseconds of each operator, module or delegate, largest first.

        Operators count delegates as a whole. Modules are known after `name_nodes`; what has none
        is left out.
        """
        return _trace_lines.lines(self).totals(by)

    def name_nodes(
        self,
        program: Program | None = None,
        etrecord: ETRecord | FilePath | None = None,
        modules: Mapping[str, str] | None = None,
    ) -> None:
        """Name instructions and nodes by what is known of the program.

        Args:
            program: Its payloads have the shapes of nodes in delegates; of dynamic shapes the upper
                bounds.
            etrecord: An ETRecord of the export, or its path: modules.
            modules: Modules by the place of an instruction or node, as reports have it: "i3" or
                "instruction 3", "d0.5" or "delegate 0, node 5".

        Raises InvalidExternalDataError for a damaged ETRecord.
        """
        from executorch_c.inspect.where import id_of

        inner = _trace_lines.lines(self).inner
        if program is not None:
            from executorch_c.inspect.structure import view_of

            view = view_of(program, self.method)
            if view is not None:
                self.node_values |= _trace_lines.values_of_nodes(view, inner)
        if etrecord is not None:
            from executorch_c.inspect.etrecord import ETRecord, read_etrecord

            record = etrecord if isinstance(etrecord, ETRecord) else read_etrecord(etrecord)
            self.modules |= _trace_lines.modules_of_record(record, self.method, inner)
        self.modules |= {id_of(where): name for where, name in (modules or {}).items()}

    def to_dataframe(self) -> pandas.DataFrame:
        """Return a pandas.DataFrame with a row for each event.

        Columns are run, kind, name, depth, chain, instruction, delegate, debug_handle (as in
        Event), start_us (since the first event), duration_us, shapes, dtypes, bytes (of input and
        output tensors) and failed. Needs pandas (extra `view`).
        """
        return _trace_view.dataframe(self)

    def overlays(self, nodes: Iterable[Node]) -> Sequence[Overlay]:
        """Return the mean time of each instruction and node in a call; with tracing(ranges=True)
        the magnitude, minimum and maximum of its results, with values=True, too, their mean."""
        from executorch_c.inspect import events

        return tuple(events.overlays(self.events, nodes))

    def graph_places(self, nodes: Iterable[Node]) -> Mapping[str, str]:
        """Return the places of nodes on the program's graph by those of events."""
        from executorch_c.inspect import events

        return events.EventPlaces(self.events).on(nodes)

    def heading(self) -> str:
        """Return the heading of its page."""
        return f"Trace of '{visible(self.method)}'"

    def sections(self) -> Iterator[object]:
        """Return the parts of its page after the finding: the table with bars of start and
        duration, sums by operator."""
        return _trace_view.sections(self)

    def as_dict(self) -> dict[str, object]:
        """Return the trace for JSON: "lines" are instructions and nodes, with times of a call in
        microseconds; "totals" those of operators, modules and delegates; "rows" are events."""
        return _trace_view.as_dict(self)

    def rows_as_dicts(self) -> list[dict[str, object]]:
        """Return a row for each event, with the columns of `to_dataframe`."""
        columns = _trace_view.columns(self)
        return [dict(zip(columns, row)) for row in zip(*columns.values())]

    PLOTS: ClassVar[Mapping[str, str]] = {"timeline": "what runs when in a call"}

    def _plot_timeline(self, ax: Axes | None = None, run: int | None = None) -> Figure:
        """Draw a call: a row for each operator, those inside a delegate below it. Default: the call
        of median time."""
        from executorch_c import _trace_spans
        from executorch_c.plotting import calls

        shown = _trace_spans.median_run(self.events) if run is None else run
        if run is not None and not 0 <= run < self.runs:
            raise IndexError(f"run {run}: the trace has {_text.plural(self.runs, 'call')}")
        title = f"call {shown + 1} of {self.runs}" if self.runs else "no calls"
        title += ", of median time" if run is None and self.runs > 2 else ""
        return calls.timeline(_trace_spans.spans(self.events, shown), title=title, ax=ax)

    def to_chrome(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON file for chrome://tracing and ui.perfetto.dev."""
        events = []
        for event in self.events:
            arguments = {
                name: value
                for name in ("run", "chain", "instruction", "delegate", "debug_handle")
                if (value := getattr(event, name)) is not None
            }
            arguments |= {"shapes": _trace_lines.shapes(event)}
            arguments |= {"bytes": _trace_lines.nbytes(event)}
            events.append(
                {
                    "name": event.name or event.kind,
                    "cat": event.kind,
                    "ph": "X",
                    "pid": 0,
                    "tid": 0,
                    "ts": event.start_ns / 1e3,
                    "dur": event.duration_ns / 1e3,
                    "args": arguments,
                }
            )
        with writing(path) as file:
            json.dump({"traceEvents": events, "displayTimeUnit": "ns"}, file)

    def to_etdump(
        self, path: str | os.PathLike[str], debug_buffer_path: str | os.PathLike[str] | None = None
    ) -> None:
        """Write an ETDump for the official Inspector, and a debug buffer with the values.

        Without `debug_buffer_path`, the ETDump has only times. Needs the package flatbuffers (extra
        `devtools`). `executorch_c.inspect.etdump` describes its contents.
        """
        from executorch_c.inspect import etdump

        etdump.write([self], path, debug_buffer_path)

    def __str__(self) -> str:
        return _trace_view.summary(self)

    def __repr__(self) -> str:
        events = _text.plural(len(self.events), "event")
        calls = _text.plural(self.runs, "call")
        return f"<executorch_c.trace.Trace of '{visible(self.method)}': {calls}, {events}>"

    def _repr_html_(self) -> str:
        return _trace_view.notebook(self)


class Tracing:
    """The context manager of Method.tracing()."""

    def __init__(
        self, method: Method, values: bool, ranges: bool, max_bytes: int, alter: Alter | None
    ) -> None:
        self._method, self._values, self._ranges = method, values, ranges
        self._max_bytes, self._alter = max_bytes, alter
        self._trace: Trace | None = None
        self._error: BaseException | None = None

    def _altered(self, *raw: object) -> None:
        """Call `alter`; keep its exception, because C code calls this function: with an exception
        alone, if it cannot make or take the array."""
        if len(raw) == 1 and isinstance(raw[0], BaseException):
            self._error = self._error or raw[0]
            return
        known = cast("RawResult", raw)
        if self._alter is not None and self._error is None:
            try:
                self._alter(Result(*known[:-1]), known[-1])
            except BaseException as error:
                self._error = error

    def __enter__(self) -> Trace:
        self._trace = Trace(self._method.metadata.name())  # raises before tracing starts
        alter = None if self._alter is None else self._altered
        self._method._trace_start(self._values, self._max_bytes, self._ranges, alter)
        return self._trace

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._trace is not None
        self._trace._fill(self._method, self._method._trace_stop())
        if self._error is not None:
            raise self._error


def _tracing(what: tuple[Method, bool, bool, int, Alter | None]) -> Tracing:
    """Return the context manager: C calls it for Method.tracing()."""
    return Tracing(*what)


def _write_recorded(what: tuple[Sequence[Method], FilePath, FilePath | None]) -> None:
    """Write the ETDump: C calls it for Program.write_etdump_result_to_file."""
    from executorch_c.inspect import etdump

    methods, path, debug_path = what
    for name, value in (("etdump_path", path), ("debug_buffer_path", debug_path or "")):
        if not isinstance(value, (str, os.PathLike)):  # open() takes an int for a descriptor
            raise TypeError(f"{name} must be a str or os.PathLike, not {type(value).__name__}")

    def take() -> list[Trace]:
        traces = [Trace(method.metadata.name()) for method in methods]
        for trace, method in zip(traces, methods):
            trace._fill(method, method._trace_drain())
        return traces

    etdump.write_taken(take, path, debug_path)
