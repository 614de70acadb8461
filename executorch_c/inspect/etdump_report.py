"""ETDumps of this runtime, of the official one and of devices: times and values by operator.

    dump = read_etdump("run.etdp", debug_buffer="run.bin", etrecord="model.etrecord")
    print(dump)                   # a table: calls, and times of each operator and node
    dump.blocks[1].rows[0].values # its results as NumPy arrays
    dump.runs[1].outputs          # outputs of a call
    dump.runs[1].events           # all events, as the file has them
    dump.rows_as_dicts()          # the rows of the official Inspector's data frame

Blocks are those of the official Inspector: runs of the same name and events are one. Differences:
an event that a run repeats (a loop) counts each time, runs of a block may have different values
(a row has those of the first run), strides of values are respected, and numbers among the outputs
of a run are outputs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from executorch_c import _files
from executorch_c._names import visible
from executorch_c._paths import read_bytes
from executorch_c._render import text as _text
from executorch_c._render.html import Markup, tag, together
from executorch_c._render.html import table as html_table
from executorch_c.inspect.etdump_events import (
    NO_CHAIN,
    AllocationEvent,
    DebugEvent,
    DelegateId,
    Entry,
    Event,
    ProfileEvent,
    Run,
    TensorSpec,
    runs_of,
)
from executorch_c.inspect.etrecord import FORWARD, EdgeNode, ETRecord, Handles, read_etrecord
from executorch_c.report import Origin, Report
from executorch_c.inspect.where import Where

if TYPE_CHECKING:
    from executorch_c._types import FilePath

TICKS_PER_SECOND = {"ns": 1e9, "us": 1e6, "ms": 1e3, "s": 1.0, "cycles": None}
"""Units of a device's clock; cycles stay cycles."""
CALL = "Method::execute"
OPERATOR_CALL = "OPERATOR_CALL"
"""Event around each operator's own, with the time that the runtime adds."""
OPERATOR_PREFIX = "native_call_"
PERCENTILES = (10, 50, 90)
HEAD = ("", "name", "calls", "min", "avg", "max", "share", "node", "module", "values")
TEXT_COLUMNS = 2
SPANS = ("min", "avg", "max")
MAX_LISTED = 4
"""Maximum number of operators, modules or values in a cell."""
LONGEST_TIME = 1e9
"""Longer times have an exponent in tables."""
OPTIONAL = ("values", "node", "module")
"""Columns that a narrow terminal leaves out, in this order."""


@dataclass(frozen=True)
class EventRow:
    """An event of a block, with the times of all runs; what an ETRecord knows of it."""

    name: str
    """Name in the runtime, or name or number of a delegate's node."""
    chain: int
    instruction: int
    delegate_id: DelegateId
    """Number or name of a delegate's node; None outside of delegates."""
    ticks: tuple[int, ...] = field(repr=False)
    """Durations; empty for an event with values only."""
    starts: tuple[int, ...] = field(repr=False)
    metadata: tuple[bytes, ...] = field(repr=False)
    """What the delegate has added, for each duration."""
    values: tuple[Entry, ...] = field(repr=False)
    """Logged values of the first run: results, of the official runtime's delegates all arguments;
    without a debug buffer, of tensors only dtype and shape."""
    backend: str = ""
    debug_handles: Handles | None = None
    num_outputs: int = 1
    nodes: tuple[EdgeNode, ...] = field(default=(), repr=False)
    """Nodes of the edge program."""

    @property
    def min(self) -> int:
        """Shortest duration."""
        return min(self.ticks, default=0)

    @property
    def max(self) -> int:
        """Longest duration."""
        return max(self.ticks, default=0)

    @property
    def avg(self) -> float:
        """Mean duration."""
        return sum(self.ticks) / (len(self.ticks) or 1)


@dataclass(frozen=True)
class EventBlock:
    """Runs of one name with the same events: loading, or calls."""

    name: str
    bundled_input_index: int | None
    runs: tuple[Run, ...] = field(repr=False)
    rows: tuple[EventRow, ...] = field(repr=False)

    @property
    def outputs(self) -> list[Entry]:
        """Outputs of the first run."""
        return self.runs[0].outputs


@dataclass(frozen=True, repr=False)
class ETDump(Report):
    """The contents of an ETDump. `print(dump)` shows times by operator."""

    path: str
    runs: tuple[Run, ...]
    blocks: tuple[EventBlock, ...]
    time_scale: str
    """Unit of ticks: "ns", "us", "ms", "s" or "cycles"."""

    @property
    def ok(self) -> bool:
        """True: a file that can be read has no errors."""
        return True

    def summary(self) -> str:
        """Return the numbers of runs and events."""
        events = sum(len(run.events) for run in self.runs)
        return f"{_text.plural(len(self.runs), 'run')} with {_text.plural(events, 'event')}"

    def heading(self) -> str:
        """Return the heading of its page."""
        return f"ETDump {os.path.basename(self.path)}"

    def table(self) -> str:
        """Return a table for each block: calls, shortest, mean and longest time, share of the
        block's calls; with an ETRecord, edge operators and modules.

        Events around an operator's own ("OPERATOR_CALL") are left out; a delegate's nodes follow
        its call.
        """
        return "\n\n".join(map(self._block_table, self.blocks))

    def sections(self) -> Iterator[Markup]:
        """Yield a table for each block, and sums by operator."""
        yield from self._tables()
        unit, ticks = self._unit()
        rows = [
            [name, len(spans), *(_time(value / ticks) for value in _statistics(spans))]
            for name, spans in self._spans_of_operators().items()
        ]
        head = ["name", "calls", f"sum {unit}", *(f"{name} {unit}" for name in SPANS)]
        yield tag("h2", "By operator")
        yield html_table("delegates as a whole", head, rows, 1)

    def rows_as_dicts(self) -> list[dict[str, object]]:
        """Return a row for each event, with the columns of the official Inspector's data frame
        (`debug_data` as shapes or numbers), number of calls, chain, instruction and handles."""
        return [self._row(block, row) for block in self.blocks for row in block.rows]

    def __str__(self) -> str:
        return f"{self.path}: {self.summary()}\n\n{self.table()}"

    def __repr__(self) -> str:
        return f"<executorch_c.inspect.ETDump {self.path!r}: {self.summary()}>"

    def _repr_html_(self) -> str:
        return together(*self._tables())

    def _tables(self) -> Iterator[Markup]:
        for block in self.blocks:
            yield html_table(_title(block), self._head(), self._cells(block), TEXT_COLUMNS)

    def _spans_of_operators(self) -> dict[str, list[int]]:
        """Return the durations of each operator and delegate in all blocks, slowest first."""
        spans: dict[str, list[int]] = {}
        for block in self.blocks:
            for row in _in_order(block.rows):
                if row.delegate_id is None and row.chain != NO_CHAIN:
                    spans.setdefault(_shown_name(row), []).extend(row.ticks)
        return dict(sorted(spans.items(), key=lambda item: -sum(item[1])))

    def _block_table(self, block: EventBlock) -> str:
        head, rows = self._head(), self._cells(block)
        for column, name in enumerate(head):
            is_number = name in ("calls", "share") or name.startswith(SPANS)
            if is_number and any(row[column] for row in rows):
                width = max(len(row[column]) for row in [head, *rows])
                for row in [head, *rows]:
                    row[column] = row[column].rjust(width)
        table = _text.table(rows, head, width=_text.width(), optional=OPTIONAL)
        return f"{_title(block)}\n{table}"

    def _unit(self) -> tuple[str, float]:
        """Return the unit of tables, and ticks in it."""
        ticks = TICKS_PER_SECOND[self.time_scale]
        return ("cycles", 1.0) if ticks is None else ("us", ticks / 1e6)

    def _head(self) -> list[str]:
        unit, _ = self._unit()
        return [f"{name} {unit}" if name in SPANS else name for name in HEAD]

    def _cells(self, block: EventBlock) -> list[list[str]]:
        ticks = self._unit()[1]
        total = sum(sum(row.ticks) for row in block.rows if row.name == CALL)
        return [
            [
                _place(row),
                "  " * (row.delegate_id is not None) + _shown_name(row),
                f"{len(row.ticks):,}",
                *(_time(value / ticks) for value in (row.min, row.avg, row.max)),
                f"{100 * sum(row.ticks) / total:.1f} %" if total else "",
                _listed(node.operator for node in row.nodes),
                _listed(dict.fromkeys(node.module for node in row.nodes if node.module)),
                _listed(map(_shown, row.values)),
            ]
            for row in _in_order(block.rows)
        ]

    def _row(self, block: EventBlock, row: EventRow) -> dict[str, object]:
        ticks = TICKS_PER_SECOND[self.time_scale]
        unit, scale = ("cycles", 1.0) if ticks is None else ("ms", ticks / 1e3)
        raw = [tick / scale for tick in row.ticks]
        known = bool(raw)
        percentiles = np.percentile(raw, PERCENTILES) if known else ()
        times = {f"p{p} ({unit})": float(v) for p, v in zip(PERCENTILES, percentiles)}
        return {
            "event_block_name": block.name,
            "event_name": row.name,
            "calls": len(raw),
            "raw": raw,
            **times,
            f"avg ({unit})": float(np.mean(raw)) if known else None,
            f"min ({unit})": min(raw, default=None),
            f"max ({unit})": max(raw, default=None),
            "op_types": [node.operator for node in row.nodes],
            "delegate_debug_identifier": row.delegate_id,
            "stack_traces": {node.name: node.stack_trace for node in row.nodes},
            "module_hierarchy": {node.name: node.modules for node in row.nodes},
            "is_delegated_op": row.delegate_id is not None,
            "delegate_backend_name": row.backend or None,
            "debug_data": [_shown(value) for value in row.values],
            "start_time": [*row.starts],
            "bundled_input_index": block.bundled_input_index,
            "chain": row.chain,
            "instruction": row.instruction,
            "debug_handles": None if row.debug_handles is None else [*row.debug_handles],
        }


def read_etdump(
    path: FilePath,
    debug_buffer: FilePath | None = None,
    *,
    etrecord: FilePath | ETRecord | None = None,
    method: str | None = None,
    time_scale: str = "ns",
) -> ETDump:
    """Return the contents of an ETDump: of this runtime, of the official one, or of a device.

    Args:
        path: The file.
        debug_buffer: The file with the values of tensors; without it, they have dtype and shape.
        etrecord: An ETRecord of the program, or its path: its operators and modules name events.
        method: The method of the ETRecord, because an ETDump does not say which one ran. Default:
            "forward", or the only one.
        time_scale: Unit of the device's clock: "ns", "us", "ms", "s" or "cycles".

    Needs no other package than NumPy; ml_dtypes for bfloat16 (as uint16 without it) and float8 (as
    uint8). Raises InvalidExternalDataError for another or a damaged file, or a debug buffer that
    values lie outside of, with the name of the file; ValueError, OSError.
    """
    if time_scale not in TICKS_PER_SECOND:
        known = ", ".join(map(repr, TICKS_PER_SECOND))
        raise ValueError(f"time_scale is {time_scale!r}, expected one of {known}")
    data = read_bytes(path)
    buffer = None if debug_buffer is None else read_bytes(debug_buffer)
    if etrecord is not None and not isinstance(etrecord, ETRecord):
        etrecord = read_etrecord(etrecord)
    if etrecord is not None:
        method = _method_of(etrecord, method)
    with _files.named_after(path):
        runs = runs_of(data, buffer)
    dump = ETDump(str(path), runs, tuple(_blocks(runs, etrecord, method)), time_scale)
    dump.set_origins(ETDump=Origin(path, len(data)))
    return dump


def _method_of(record: ETRecord, method: str | None) -> str:
    known = [*record.debug_handles]
    default = known[0] if len(known) == 1 else FORWARD
    name = default if method is None else method
    if name not in known:
        listed = ", ".join(known) or "none"
        raise ValueError(f"{record.path} has no method {name!r}, but {listed}: pass `method`")
    return name


# ---- blocks -----------------------------------------------------------------------------------


@dataclass
class _Group:
    """Events of an instruction, or of a node inside its delegate, in one run."""

    profile: dict[str, list[ProfileEvent]] = field(default_factory=dict)
    """By name."""
    debug: list[DebugEvent] = field(default_factory=list)


def _grouped(events: Iterable[Event]) -> dict[tuple[object, ...], EventRow]:
    """Return the rows of a run by what identifies them in other runs."""
    groups: dict[tuple[int, int, DelegateId], _Group] = {}
    for event in events:
        if isinstance(event, AllocationEvent) or isinstance(event, DebugEvent) and event.is_output:
            continue
        group = groups.setdefault((event.chain, event.instruction, event.delegate_id), _Group())
        if isinstance(event, ProfileEvent):
            group.profile.setdefault(event.name, []).append(event)
        else:
            group.debug.append(event)
    rows: dict[tuple[object, ...], EventRow] = {}
    for (chain, instruction, delegate_id), group in groups.items():
        values = tuple([event.value for event in group.debug])
        logged = group.debug[0].name if group.debug else None
        for name, times in (group.profile or {logged or "": []}).items():
            rows[chain, instruction, delegate_id, name, logged, bool(times)] = EventRow(
                str(delegate_id) if delegate_id is not None else name or logged or "",
                chain,
                instruction,
                delegate_id,
                tuple([event.duration for event in times]),
                tuple([event.start for event in times]),
                tuple([event.metadata for event in times]),
                values,
            )
    return rows


def _blocks(
    runs: Iterable[Run], etrecord: ETRecord | None, method: str | None
) -> Iterator[EventBlock]:
    blocks: dict[tuple[object, ...], list[tuple[Run, list[EventRow]]]] = {}
    for run in runs:
        rows = _grouped(run.events)
        key = (run.name, run.bundled_input_index, *rows)
        blocks.setdefault(key, []).append((run, [*rows.values()]))
    for members in blocks.values():
        first = members[0][0]
        merged = [
            _merged(rows_of_event)
            for rows_of_event in zip(*(rows for _, rows in members), strict=True)
        ]
        if etrecord is not None and method is not None:
            merged = [_named(row, etrecord, method) for row in merged]
        same_runs = tuple([run for run, _ in members])
        yield EventBlock(first.name, first.bundled_input_index, same_runs, tuple(merged))


def _merged(rows: tuple[EventRow, ...]) -> EventRow:
    """Return one row with the times of all."""
    return replace(
        rows[0],
        ticks=tuple([tick for row in rows for tick in row.ticks]),
        starts=tuple([start for row in rows for start in row.starts]),
        metadata=tuple([data for row in rows for data in row.metadata]),
    )


def _named(row: EventRow, record: ETRecord, method: str) -> EventRow:
    """Return a row with what the ETRecord knows of it."""
    if row.chain == NO_CHAIN or record.handles_at(method, row.instruction) is None:
        return row
    delegate = record.delegates.get(method, {}).get(row.instruction)
    handles = record.handles_at(method, row.instruction, row.delegate_id)
    nodes = record.nodes_of(method, handles or ())
    return replace(
        row,
        backend=delegate.backend if delegate else "",
        debug_handles=handles,
        num_outputs=record.num_outputs.get(method, {}).get(row.instruction, 1),
        nodes=nodes,
    )


# ---- tables -----------------------------------------------------------------------------------


def _title(block: EventBlock) -> str:
    calls = _text.plural(len(block.runs), "run")
    index = block.bundled_input_index
    return f"{visible(block.name)}: {calls}" + ("" if index is None else f", bundled input {index}")


def _in_order(rows: Iterable[EventRow]) -> list[EventRow]:
    """Return the rows of a table: a delegate's call before its nodes, operators without the event
    around them."""
    groups: dict[tuple[int, int], list[EventRow]] = {}
    for row in rows:
        groups.setdefault((row.chain, row.instruction), []).append(row)
    shown = []
    for group in groups.values():
        outer = [row for row in group if row.delegate_id is None]
        operators = [row for row in outer if row.name != OPERATOR_CALL]
        shown += [*(operators or outer), *(row for row in group if row.delegate_id is not None)]
    return shown


def _place(row: EventRow) -> str:
    """Return the id of an instruction; empty for nodes and calls."""
    if row.delegate_id is not None or row.instruction < 0 or row.chain == NO_CHAIN:
        return ""
    return Where(row.instruction, chain=row.chain).id


def _listed(texts: Iterable[str]) -> str:
    """Return the first texts of a cell."""
    first = [*islice(texts, MAX_LISTED + 1)]
    return ", ".join(first[:MAX_LISTED]) + ", ..." * (len(first) > MAX_LISTED)


def _shown_name(row: EventRow) -> str:
    """Return the operator without the runtime's prefix; of a delegate's call the backend, if an
    ETRecord knows it."""
    is_call = row.backend and row.delegate_id is None
    return row.backend if is_call else row.name.removeprefix(OPERATOR_PREFIX)


def _statistics(spans: list[int]) -> tuple[float, ...]:
    """Return sum, minimum, mean and maximum."""
    return sum(spans), min(spans, default=0), sum(spans) / max(len(spans), 1), max(spans, default=0)


def _time(value: float) -> str:
    return f"{value:,.1f}" if value < LONGEST_TIME else f"{value:.4g}"


def _shown(value: Entry) -> str:
    """Return the shape of a tensor, or a number."""
    if isinstance(value, (np.ndarray, TensorSpec)):
        return _text.sizes(value.shape)
    return f"[{', '.join(map(_shown, value))}]" if isinstance(value, list) else _text.scalar(value)
