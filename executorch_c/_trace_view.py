"""Views of traces: text, notebooks, HTML pages, data frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from executorch_c import _extras
from executorch_c._names import visible
from executorch_c._render import text as _text
from executorch_c._render.html import Markup, bar, tag, together
from executorch_c._render.html import lines as lines_of
from executorch_c._render.html import table as html_table
from executorch_c._trace_lines import TOTALS, By, Line, Lines, Sort, lines, nbytes, shapes, times

if TYPE_CHECKING:
    import pandas

    from executorch_c._trace_lines import Tensor, Times, Total
    from executorch_c.trace import Event, Trace, Value

HEAD = ("id", "name", "module", "shapes", "bytes", "calls", "us", "p90", "share")
TEXT_COLUMNS = 4
OPTIONAL = ("bytes", "shapes", "module")
"""Columns that a narrow terminal leaves out, in this order."""
TOP = 12
"""Rows of a summary."""


def dtypes(event: Event) -> str:
    """Return dtypes in the order of `shapes`: "float32, float32 -> bool"."""
    sides = [", ".join(value.dtype for value in values) for values in (event.inputs, event.outputs)]
    return " -> ".join(filter(None, sides))


def _share(nanoseconds: int, total: int) -> str:
    return f"{100 * nanoseconds / total:.1f} %" if total else ""


def _cells(line: Line, runs: int, total: int, is_timed: bool) -> list[str]:
    """Return the cells of HEAD; without times of nodes that have none."""
    spread = times(line.spans.values(), runs)
    p90 = f"{spread.p90:,.1f}" if runs > 1 else ""
    measured = [f"{spread.mean:,.1f}", p90, _share(line.nanoseconds, total)]
    return [
        line.id,
        "  " * line.level + line.name,
        line.module,
        line.shapes,
        f"{line.nbytes:,}" if line.nbytes else "",
        f"{line.calls / runs:g}" if line.calls not in (runs, 0) else "",
        *(measured if is_timed else [""] * 3),
    ]


def _table(trace: Trace, all_lines: Lines, shown: Iterable[Line]) -> list[list[str]]:
    """Return HEAD and the rows of lines, of the rest and of the whole call, without the columns
    that are empty."""
    runs, total = max(trace.runs, 1), all_lines.whole.nanoseconds
    rows = [
        _cells(line, runs, total, all_lines.is_timed or not line.level)
        for line in (*shown, all_lines.rest, all_lines.whole)
    ]
    kept = [c for c, _ in enumerate(HEAD) if any(row[c] for row in rows)]
    return [[row[c] for c in kept] for row in [[*HEAD], *rows]]


def notes(trace: Trace) -> list[str]:
    """Return what a trace has, in sentences: calls, times of loading, what did not fit."""
    text = f"{_text.plural(trace.runs, 'call')} of '{visible(trace.method)}'"
    if trace.runs > 1:
        text += ", times are means of a call"
    if trace.load_ns:
        text += f"; loading took {_text.seconds(trace.load_ns / 1e9)}"
    sentences = [text, *trace.untimed]
    if trace.dropped_events or trace.dropped_values:
        sentences.append(
            f"{trace.dropped_events} events and the data of {trace.dropped_values} values did "
            "not fit: pass a larger max_bytes to tracing()"
        )
    return sentences


def _text_table(rows: list[list[str]], text_columns: Sequence[str]) -> str:
    """Return rows, of which the first is the head, with numbers right-aligned."""
    head = rows[0]
    for column, name in enumerate(head):
        width = max(len(row[column]) for row in rows)
        if name not in text_columns:
            for row in rows:
                row[column] = row[column].rjust(width)
    stripped = [name.strip() for name in head]
    left_out = [head[stripped.index(name)] for name in OPTIONAL if name in stripped]
    return _text.table(rows[1:], head, indent=0, width=_text.width(), optional=left_out)


def table(trace: Trace, top: int | None = None, sort: Sort = "order") -> str:
    """Return the table for a terminal: the first `top` lines in an order, or all."""
    every = lines(trace)
    return _shown(trace, every, every.sorted(sort)[:top], sort)


def _shown(trace: Trace, every: Lines, first: Iterable[Line], sort: Sort) -> str:
    if sort != "order":
        first = [replace(line, level=0) for line in first]
    return _text_table(_table(trace, every, first), HEAD[:TEXT_COLUMNS])


def summary(trace: Trace, top: int | None = TOP, sort: Sort = "time", by: By | None = None) -> str:
    """Return notes, the first lines in an order, and totals: of one kind, or of all."""
    every = lines(trace)
    parts = [*notes(trace)]
    if by is None:
        ordered = every.sorted(sort)
        if top is not None and len(ordered) > top:
            parts.append(f"the first {top} of {len(ordered)} instructions and nodes by {sort}")
        parts.append(_shown(trace, every, ordered[:top], sort))
    kinds = [by] if by is not None else TOTALS
    for kind in kinds:
        rows = _totals(trace, every, kind)[: None if top is None else top + 1]
        if len(rows) > 2 or by is not None:
            parts.append(("" if by else "\n") + _text_table(rows, (kind,)))
    return "\n".join(parts)


def _totals(trace: Trace, every: Lines, by: By) -> list[list[str]]:
    """Return head and rows of totals."""
    runs, total = max(trace.runs, 1), every.whole.nanoseconds
    rows = [
        [
            one.name,
            str(one.lines),
            f"{one.calls / runs:g}",
            f"{one.nanoseconds / runs / 1e3:,.1f}",
            _share(one.nanoseconds, total),
        ]
        for one in every.totals(by)
    ]
    return [[by, "lines", "calls", "us", "share"], *rows]


# ---- HTML -------------------------------------------------------------------------------------


def _caption(trace: Trace) -> Markup:
    return lines_of(*notes(trace))


def notebook(trace: Trace) -> Markup:
    """Return the table for a notebook."""
    every = lines(trace)
    head, *rows = _table(trace, every, every.inner)
    table = html_table(_caption(trace), head, rows, _text_columns(head))
    return together(*trace.pictures(), table)


def _text_columns(head: Iterable[str]) -> int:
    return sum(name in HEAD[:TEXT_COLUMNS] for name in head)


def sections(trace: Trace) -> Iterator[Markup]:
    """Yield the parts of its page: the timeline, instructions with bars of their start and
    duration, totals."""
    yield from trace.pictures()
    every = lines(trace)
    call = max(every.whole.nanoseconds / max(trace.runs, 1), 1)
    bars = [
        bar(
            line.offsets_ns / line.runs / call,
            line.nanoseconds / line.calls / call,
            bool(line.level),
        )
        for line in every.inner
    ]
    head, *body = _table(trace, every, every.inner)
    rows: list[list[object]] = [
        [*cells, bar] for cells, bar in zip(body, [*bars, "", ""], strict=True)
    ]
    yield html_table(_caption(trace), [*head, "when"], rows, _text_columns(head))
    for kind in TOTALS:
        names, *totals = _totals(trace, every, kind)
        if totals:
            yield tag("h2", f"By {kind}")
            caption = "delegates as a whole" if kind == "operator" else ""
            yield html_table(caption, names, totals, 1)


# ---- JSON -------------------------------------------------------------------------------------


def as_dict(trace: Trace) -> dict[str, Any]:
    """Return a trace for JSON: times in microseconds, sizes in bytes."""
    every, runs = lines(trace), max(trace.runs, 1)
    return {
        "ok": trace.ok,
        "summary": trace.summary(),
        "method": trace.method,
        "calls": trace.runs,
        "load_us": trace.load_ns / 1e3,
        "call_us": asdict(times(every.whole.spans.values(), runs)),
        "lines": [_line_dict(line, runs, every) for line in every.inner],
        "totals": {kind: [_total_dict(t, runs) for t in every.totals(kind)] for kind in TOTALS},
        "rows": trace.rows_as_dicts(),
    }


def _line_dict(line: Line, runs: int, every: Lines) -> dict[str, Any]:
    spread: Times = times(line.spans.values(), runs)
    return {
        "id": line.id,
        "kind": line.kind,
        "name": line.name,
        "module": line.module or None,
        "delegate": line.delegate,
        "inputs": [_value_dict(value) for value in line.inputs],
        "outputs": [_value_dict(value) for value in line.outputs],
        "bytes": line.nbytes,
        "calls": line.calls / runs,
        "us": asdict(spread),
        "share": line.nanoseconds / every.whole.nanoseconds if every.whole.nanoseconds else None,
    }


def _value_dict(value: Value | Tensor) -> dict[str, Any]:
    return {"dtype": value.dtype, "shape": None if value.shape is None else [*value.shape]}


def _total_dict(total: Total, runs: int) -> dict[str, Any]:
    return {
        "name": total.name,
        "lines": total.lines,
        "calls": total.calls / runs,
        "us": total.nanoseconds / runs / 1e3,
    }


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
