"""The report of `blame`: outputs and nodes of a device beside those of its program here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from executorch_c._render import html as _html
from executorch_c._render import text as _text
from executorch_c._render.figures import NothingToDraw
from executorch_c.blame.verdict import VERDICTS, Fault
from executorch_c.compare import verdicts
from executorch_c.compare.drawn import DrawnOutput, DrawsOutputs
from executorch_c.compare.metrics import ErrorMetrics
from executorch_c.report import JudgedReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from executorch_c.debug.report import ErrorReport

HEAD = (
    "where",
    "operator",
    "shape",
    "verdict",
    "device error",
    "limit",
    "error here",
    "device time",
    "time here",
)
TEXT_COLUMNS = 4
OPTIONAL = ("shape", "time here", "device time")
"""Columns that narrow tables omit."""
MAX_PRINTED_ROWS = 12


@dataclass(frozen=True)
class BlameRow:
    """An output, or the value of a node, of the device."""

    where: str
    """ "output 0", or the id of a place: "d0.3"."""
    name: str
    """Of the operator or node; of an output, of its worst run."""
    shape: tuple[int, ...]
    verdict: str
    """ "ok"; "leaves": beyond what the device's arithmetic allows; "inconclusive"."""
    device: ErrorMetrics
    """Error of the device against the payload here: of a node, on the device's own inputs. `limit`
    is what its arithmetic allows."""
    here: ErrorMetrics | None = None
    """Error of the payload here against the model; None if it is not known."""
    device_seconds: float | None = None
    seconds: float | None = None
    """Times on the device, and here."""
    pattern: str = ""
    """Pattern of a wrong value: "[:, 4:8] of [1, 16], zeros"."""

    @property
    def ok(self) -> bool:
        """True if the device is within its allowance."""
        return self.verdict != "leaves"

    def cells(self) -> list[str]:
        """Return the cells under HEAD."""
        limit = self.device.limit
        return [
            self.where,
            self.name,
            _text.shape(self.shape),
            self.verdict,
            _figure(self.device.relative),
            "" if limit is None else _figure(limit),
            "" if self.here is None else _figure(self.here.relative),
            *("" if t is None else _text.seconds(t) for t in (self.device_seconds, self.seconds)),
        ]


def _figure(value: float) -> str:
    return f"{value:.1e}" if value else "0"


@dataclass(frozen=True)
class BlameReport(DrawsOutputs, JudgedReport[BlameRow]):
    """Who is at fault where a device computes something else than the model.

    Prints as a short table, in a notebook too; iterates over the rows: outputs, then nodes.
    """

    title: str
    fault: Fault
    """ "export", "lowering", "device", "nondeterministic", "precision" or "match";
    "inconclusive"."""
    rows: tuple[BlameRow, ...]
    finding: str
    """The finding in a sentence or two."""
    first: str | None = None
    """The first place at which the device, or with the verdicts "export" and "lowering" the
    program, is wrong; None if it is not known. With "match" and "precision", the outputs do not
    show it."""
    suspects: tuple[str, ...] = ()
    """Places at which a fault of the device may be, in order; several where it has no value of
    them."""
    notes: tuple[str, ...] = ()
    payload: ErrorReport | None = field(default=None, repr=False)
    """The report of `explain` on the payload; None without a model."""
    outputs: tuple[DrawnOutput, ...] = field(default=(), repr=False)
    """Each output of its worst run beside the payload's here, for plots; the worst is the first."""

    PLOTS: ClassVar[Mapping[str, str]] = {
        "errors": "error of each output and node of the device",
        **DrawsOutputs.PLOTS,
    }

    @property
    def verdict(self) -> verdicts.Verdict:
        """ "match" for "match" and "precision", "inconclusive", else "differ"."""
        return VERDICTS[self.fault]

    def summary(self) -> str:
        """Return the finding in a sentence or two."""
        return f"{self.fault}: {self.finding}"

    def shown(self, count: int | None = MAX_PRINTED_ROWS) -> list[BlameRow]:
        """Return rows for a short table, in order: those that leave first, then the largest
        errors."""
        if count is None or len(self.rows) <= count:
            return list(self.rows)
        order = sorted(
            range(len(self.rows)),
            key=lambda i: (self.rows[i].ok, i if not self.rows[i].ok else 0, -_size(self.rows[i])),
        )
        return [self.rows[i] for i in sorted(order[:count])]

    def table(self, top: int | None = MAX_PRINTED_ROWS, sort: str = "order") -> str:
        """Return rows as text.

        Args:
            top: Maximum number of rows; None for all.
            sort: "order" of execution, or "error", the largest first.
        """
        rows = self.shown(top)
        if sort == "error":
            rows = sorted(self.rows, key=_size, reverse=True)[:top]
        lines = [
            _text.table([row.cells() for row in rows], HEAD, width=_text.width(), optional=OPTIONAL)
        ]
        if len(rows) < len(self.rows):
            lines.append(f"  ({len(rows)} of {len(self.rows):,} rows)")
        return "\n".join(lines)

    def text(self, top: int | None = MAX_PRINTED_ROWS, sort: str = "order") -> str:
        """Return the report as text: title, finding, `table(top, sort)`, notes."""
        lines = [self.title, _text.wrapped(self.summary()), self.table(top, sort)]
        return "\n".join([*filter(None, lines), *map(_text.wrapped, self.notes)])

    def __str__(self) -> str:
        return self.text()

    def heading(self) -> str:
        """Return the heading of its page."""
        return self.title

    def _plot_errors(self, ax: Axes | None = None) -> Figure:
        """Draw the error of the device at each output and node, the error here, and the limit."""
        from executorch_c.plotting import nodes

        series: dict[str, list[float | None]]
        series = {"device": [row.device.relative for row in self.rows]}
        here = [None if row.here is None else row.here.relative for row in self.rows]
        if here != [None] * len(here):
            series["here"] = here
        names = [f"{row.where} {row.name}".rstrip() for row in self.rows]
        wrong = (i for i, row in enumerate(self.rows) if not row.ok and row.where[:6] != "output")
        limits = [row.device.limit or None for row in self.rows]
        return nodes.node_errors(names, series, limits=limits, first=next(wrong, None), ax=ax)

    def _drawn(self, output: int | None = None) -> DrawnOutput:
        """Return an output to draw: of an index, or the worst."""
        known = (one for one in self.outputs if output in (None, one.index))
        found = next(known, None)
        if found is None:
            raise NothingToDraw(f"no output {'' if output is None else output} of the device")
        return found

    def _repr_html_(self) -> str:
        finding = _html.verdict(self.verdict, self.summary())
        caption = _html.lines(_html.tag("b", self.title), finding, *self.notes)
        pictures = () if self.ok else self.pictures("errors", "output")
        return _html.together(self._html_table(caption, self.shown()), *pictures)

    def _html_table(self, caption: object, rows: Sequence[BlameRow]) -> _html.Markup:
        cells: _html.Rows = [list[object](row.cells()) for row in rows]
        return _html.table(caption, *_html.without_empty(list(HEAD), cells, TEXT_COLUMNS))

    def sections(self) -> Iterator[object]:
        """Yield the parts of its page after the finding: plots, the table, notes, and the payload's
        own nodes where it is at fault."""
        yield from self.pictures("errors", "output")
        yield self._html_table("outputs and nodes of the device", self.rows)
        yield from self.notes
        if self.payload is not None and not self.payload.ok:
            yield from self.payload.sections()

    def rows_as_dicts(self) -> list[dict[str, object]]:
        """Return a row for each output and node; times are in seconds."""
        return [
            {
                "where": row.where,
                "name": row.name,
                "shape": row.shape,
                "verdict": row.verdict,
                "device_error": row.device.relative,
                "limit": row.device.limit,
                "mismatched": row.device.mismatched,
                "error_here": None if row.here is None else row.here.relative,
                "device_seconds": row.device_seconds,
                "seconds": row.seconds,
                "pattern": row.pattern,
            }
            for row in self.rows
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return all figures: {"title", "fault", "verdict", "ok", "summary", "first", "suspects",
        "notes", "rows"}."""
        return {
            "title": self.title,
            "fault": self.fault,
            "verdict": self.verdict,
            "ok": self.ok,
            "summary": self.summary(),
            "first": self.first,
            "suspects": list(self.suspects),
            "notes": list(self.notes),
            "rows": self.rows_as_dicts(),
        }


def _size(row: BlameRow) -> float:
    limit = row.device.limit
    return row.device.relative / limit if limit else row.device.relative
