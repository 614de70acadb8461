"""Views of traces: text, notebooks, HTML pages, data frames."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from executorch_c import _extras
from executorch_c._render import text as _text
from executorch_c._render.html import Markup, bar, tag
from executorch_c._render.html import lines as lines_of
from executorch_c._render.html import table as html_table

if TYPE_CHECKING:
    import pandas

    from executorch_c.trace import Event, Trace, Value

HEAD = ("", "name", "shapes", "bytes", "calls", "us", "share")
TEXT_COLUMNS = 3

Key: TypeAlias = tuple[object, ...]


@dataclass
class Line:
    """An instruction or node, aggregated over all runs."""

    where: str
    name: str
    level: int = 0
    """Nesting depth in delegates."""
    shapes: str = ""
    nbytes: int = 0
    """Bytes of input and output tensors, in one call."""
    calls: int = 0
    nanoseconds: int = 0
    """Durations of all its calls."""
    runs: int = 0
    """Number of method calls that executed it."""
    offsets_ns: int = 0
    """Sum of its first start times in these calls."""
    last_run: int = -1

    def add(self, event: Event, started: int) -> None:
        """Add an event, with the start time of its call."""
        self.calls += 1
        self.nanoseconds += event.duration_ns
        if event.run != self.last_run:
            self.runs, self.last_run = self.runs + 1, event.run
            self.offsets_ns += event.start_ns - started


def shapes(event: Event) -> str:
    """Return the shapes of the inputs and outputs, and the numbers among the inputs: "(2, 3), (3,)
    -> (2, 4)"."""

    def one(value: Value) -> str:
        if isinstance(value.data, (bool, int, float)):
            return str(value.data)
        return _text.sizes(value.shape)

    sides = [", ".join(map(one, values)) for values in (event.inputs, event.outputs)]
    return " -> ".join(filter(None, sides))


def dtypes(event: Event) -> str:
    """Return dtypes in the order of `shapes`: "float32, float32 -> bool"."""
    sides = [", ".join(value.dtype for value in values) for values in (event.inputs, event.outputs)]
    return " -> ".join(filter(None, sides))


def nbytes(event: Event) -> int:
    """Return the bytes of an event's input and output tensors."""
    return sum(value.nbytes for value in event.values)


def _line(event: Event, level: int, several_chains: bool) -> Line:
    number = "" if event.kind in ("node", "execute") else str(event.instruction)
    where = f"{event.chain}:{number}" if several_chains and number else number
    name = (event.name or f"node {event.debug_handle}") + " (failed)" * event.failed
    return Line(where, name, level, shapes(event), nbytes(event))


def _merged(trace: Trace) -> tuple[list[Line], Line]:
    """Return a line for each instruction or node, identified by its enclosing events, and a line
    for the calls."""
    lines: dict[Key, Line] = {}
    whole = Line("", "the whole call")
    inside: list[Key] = [()]  # keys of the enclosing delegates, by depth
    nodes = started = 0
    several = len({e.chain for e in trace.events if e.kind != "execute"}) > 1
    for event in trace.events:
        if event.kind == "node":
            key, level, nodes = (*inside[-1], nodes), len(inside) - 1, nodes + 1
        else:
            del inside[event.depth + 1 :]
            key = (*inside[-1], event.kind, event.chain, event.instruction)
            level, nodes = event.depth, 0
            if event.kind == "delegate":
                inside.append(key)
        if event.kind != "execute":
            if key not in lines:
                lines[key] = _line(event, level, several)
            lines[key].add(event, started)
        elif not event.depth:
            started = event.start_ns
            whole.add(event, started)
    return list(lines.values()), whole


def lines(trace: Trace) -> list[Line]:
    """Return all lines: instructions and nodes, the time between them, and the whole call."""
    inner, whole = _merged(trace)
    known = sum(line.nanoseconds for line in inner if not line.level)
    rest = Line(
        "",
        "inputs, outputs, the rest",
        calls=whole.calls,
        nanoseconds=max(whole.nanoseconds - known, 0),
    )
    return [*inner, rest, whole]


def _times(nanoseconds: int, runs: int, total: int | None) -> list[str]:
    """Return the mean time in microseconds and its share of the total; None: not measured."""
    if total is None:
        return ["", ""]
    share = f"{100 * nanoseconds / total:.1f} %" if total else ""
    return [f"{nanoseconds / runs / 1e3:,.1f}", share]


def _table(trace: Trace, entries: list[Line]) -> tuple[list[str], list[list[str]]]:
    """Return head and rows, without the column `calls` if all counts are 1."""
    runs = max(trace.runs, 1)
    total = entries[-1].nanoseconds
    is_timed = any(line.level and line.nanoseconds for line in entries)
    rows = [
        [
            line.where,
            "  " * line.level + line.name,
            line.shapes,
            f"{line.nbytes:,}" if line.nbytes else "",
            f"{line.calls / runs:g}" if line.calls not in (runs, 0) else "",
            *_times(line.nanoseconds, runs, total if is_timed or not line.level else None),
        ]
        for line in entries
    ]
    kept = [c for c, name in enumerate(HEAD) if name != "calls" or any(row[c] for row in rows)]
    return [HEAD[c] for c in kept], [[row[c] for c in kept] for row in rows]


def notes(trace: Trace) -> list[str]:
    times = f"{_text.plural(trace.runs, 'call')} of '{trace.method}'"
    if trace.runs > 1:
        times += ", times are means of a call"
    if trace.load_ns:
        times += f"; loading took {_text.seconds(trace.load_ns / 1e9)}"
    sentences = [times]
    if trace.dropped_events or trace.dropped_values:
        sentences.append(
            f"{trace.dropped_events} events and the data of {trace.dropped_values} values did "
            "not fit: pass a larger max_bytes to tracing()"
        )
    return sentences


def table(trace: Trace) -> str:
    """Return the table for a terminal."""
    head, body = _table(trace, lines(trace))
    rows = [head, *body]
    for column in range(TEXT_COLUMNS, len(head)):
        width = max(len(row[column]) for row in rows)
        for row in rows:
            row[column] = row[column].rjust(width)
    return _text.table(rows[1:], rows[0], indent=0, width=_text.width())


def _caption(trace: Trace) -> Markup:
    return lines_of(*notes(trace))


def _unbroken(head: list[str], rows: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """Return text with no-break spaces between numbers and units."""
    return head, [[cell.replace(" %", "\u00a0%") for cell in row] for row in rows]


def notebook(trace: Trace) -> Markup:
    """Return the table for a notebook."""
    return html_table(_caption(trace), *_unbroken(*_table(trace, lines(trace))), TEXT_COLUMNS)


# ---- a page -----------------------------------------------------------------------------------


def _by_name(trace: Trace, entries: list[Line]) -> list[list[str]]:
    """Return calls and time of each operator and backend, slowest first."""
    runs, total = max(trace.runs, 1), entries[-1].nanoseconds
    sums: dict[str, list[int]] = {}
    for line in entries[:-2]:
        if not line.level:
            entry = sums.setdefault(line.name, [0, 0])
            entry[0] += line.calls
            entry[1] += line.nanoseconds
    return [
        [
            name,
            f"{calls / runs:g}",
            *_times(ns, runs, total),
        ]
        for name, (calls, ns) in sorted(sums.items(), key=lambda item: -item[1][1])
    ]


def sections(trace: Trace) -> Iterator[Markup]:
    """Yield the parts of its page: instructions with bars of their start and duration, sums by
    operator."""
    entries = lines(trace)
    call = max(entries[-1].nanoseconds / max(trace.runs, 1), 1)
    bars = [
        bar(
            line.offsets_ns / line.runs / call,
            line.nanoseconds / line.calls / call,
            bool(line.level),
        )
        for line in entries[:-2]
    ]
    head, body = _unbroken(*_table(trace, entries))
    rows: list[list[object]] = [
        [*cells, bar] for cells, bar in zip(body, [*bars, "", ""], strict=True)
    ]
    sums = _unbroken(["name", "calls", "us", "share"], _by_name(trace, entries))
    yield html_table(_caption(trace), [*head, "when"], rows, TEXT_COLUMNS)
    yield tag("h2", "By operator")
    yield html_table("delegates as a whole", *sums, 1)


# ---- rows -------------------------------------------------------------------------------------


def columns(trace: Trace) -> dict[str, list[object]]:
    """Return the columns of Trace.to_dataframe."""
    start = min((event.start_ns for event in trace.events), default=0)
    plain = ("run", "kind", "name", "depth", "chain", "instruction", "delegate", "debug_handle")
    return {
        **{name: [getattr(event, name) for event in trace.events] for name in plain},
        "start_us": [(event.start_ns - start) / 1e3 for event in trace.events],
        "duration_us": [event.duration_ns / 1e3 for event in trace.events],
        "shapes": [shapes(event) for event in trace.events],
        "dtypes": [dtypes(event) for event in trace.events],
        "bytes": [nbytes(event) for event in trace.events],
        "failed": [event.failed for event in trace.events],
    }


def dataframe(trace: Trace) -> pandas.DataFrame:
    """Return the data frame of Trace.to_dataframe."""
    frame = _extras.data_frame(columns(trace))
    numbers = ("chain", "instruction", "delegate", "debug_handle")
    return frame.astype(dict.fromkeys(numbers, "Int64"))  # pandas is optional
