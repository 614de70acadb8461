"""Errors node by node: the report of `explain` and `compare_programs`."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, TypeVar

from executorch_c._render import html as _html
from executorch_c._render import text as _text
from executorch_c.compare import cases as _cases
from executorch_c.compare import policies as _policies
from executorch_c.compare import shown, verdicts
from executorch_c.compare.comparison import Comparison
from executorch_c.compare.metrics import ErrorMetrics
from executorch_c.debug.drawn import DrawsNodes
from executorch_c.inspect.where import id_of
from executorch_c.report import JudgedReport

if TYPE_CHECKING:
    from executorch_c._render.page.model import Node, Overlay
    from executorch_c.inspect.events import EventPlaces

NodeVerdict: TypeAlias = Literal["ok", "source", "propagated", "unexplained", "first", "amplified"]
"""Verdict on a node's result:

    ok           within tolerance
    source       wrong on its own inputs: the reference computes another result from them
    propagated   out of tolerance because of its inputs; no local error is known
    unexplained  out of tolerance, though neither the node nor its inputs are wrong: rounding
                 errors have added up, or nodes in between are not matched

Against another program, which cannot run node by node on other inputs:

    first        out of tolerance, with inputs within tolerance
    amplified    the error is much larger than that of the inputs
"""

EXPORT = "export"
"""Place of a row about the export: its graph computes another result than the model."""

MAX_PRINTED_ROWS = 12
"""Number of rows of `print(report)`."""


@dataclass(frozen=True)
class NodeError:
    """The error of one node: an instruction, or a node inside a delegate."""

    index: int
    """Index in the report, from 0, in order of execution."""
    where: str
    """"instruction 3", "delegate 0, node 5"."""
    name: str
    """Name of the operator, or the backend's name of the node."""
    shape: tuple[int, ...]
    dtype: str
    accumulated: ErrorMetrics
    """Error against the reference's result: of this node and of all before it."""
    local: ErrorMetrics | None
    """Error against the reference's result on this node's own inputs: the error that the node adds.
    None if the reference is a program, which cannot run node by node."""
    verdict: NodeVerdict
    module: str | None = None
    """Path of the layer in the model ("features.3.conv")."""
    source: str | None = None
    """Path and line of the model's source, "model.py:12"."""
    inputs_error: float | None = None
    """Against another program: the largest relative error of the node's inputs."""
    gain: float | None = None
    """The node's relative error divided by that; see `compare_programs`."""
    parameters: tuple[str, ...] = ()
    """Names of the model's parameters among its inputs ("lstm.weight_hh_l0")."""
    modules: tuple[str, ...] = ()
    """All layers of a fused node."""
    expected_shape: tuple[int, ...] | None = None
    """Shape of the reference's result, if it differs."""
    problem: str = ""
    """Difference of an output in dtype, or of their number."""
    missing: tuple[str, ...] = ()
    """Operators of the model that no node of the program computes; the value is what the program
    has in their place."""
    instead: tuple[str, ...] = ()
    """Operators of the program that no node of the model is: in the place of `missing`, or one too
    many."""
    before: str = ""
    """Layer before an operator that only the program has."""

    @property
    def ok(self) -> bool:
        """True if the result is within tolerance."""
        return self.verdict == "ok"

    @property
    def judged(self) -> ErrorMetrics:
        """The error that the verdict is about: the local one, where known, but for errors that came
        with the inputs or have added up."""
        inherited = self.verdict in ("propagated", "unexplained")
        return self.accumulated if self.local is None or inherited else self.local

    @property
    def line(self) -> str:
        """`source` without directories: "model.py:12", "cell:12" in a notebook, or empty."""
        folder, name = os.path.split(self.source or "")
        is_cell = os.path.basename(folder).startswith("ipykernel_")
        return f"cell:{name.rpartition(':')[2]}" if is_cell else name

    def __str__(self) -> str:
        """Return "aten::convolution.out of 'features.3' (model.py:12), instruction 7"."""
        layer = f" of '{self.module}'" if self.module else ""
        layer += f" after '{self.before}'" if self.before else ""
        line = f" ({self.line})" if self.source else ""
        name = ", ".join(self.missing or self.instead) or self.name
        return f"{name}{layer}{line}, {self.where}"


def _figure(error: ErrorMetrics | None) -> str:
    if error is None:
        return "-"
    return f"{error.relative:.1e}" if error.relative else "0"


def _limit(row: NodeError) -> str:
    """Return the limit of the error that the verdict is about, as a relative error."""
    limit = row.judged.limit
    if row.judged.is_integer:
        return "nearest"
    return "" if limit is None else f"{limit:.1e}" if limit else "0"


def _verdict(row: NodeError) -> str:
    return row.verdict + shown.mark(row.judged.not_judged, row.judged.elements)


def _times(gain: float | None) -> str:
    return "" if gain is None else f"{gain:.2g}" if gain < 1000 else f"{gain:.1e}"


def _mean(row: NodeError) -> str:
    """Return an error in words."""
    if row.problem:
        return row.problem
    if row.expected_shape is not None:
        return f"shape {_text.shape(row.shape)}, expected {_text.shape(row.expected_shape)}"
    return _parting(row) + _size(row)


def _parting(row: NodeError) -> str:
    """Return which operators only one side has; empty where both have the same."""
    if row.missing:
        there = f"has {', '.join(row.instead)} there" if row.instead else "has none there"
        return f"no node of the program computes it, which {there}: "
    return "no node of the model computes it: " if row.instead else ""


def _size(row: NodeError) -> str:
    """Return the size of an error in words."""
    error = row.accumulated if row.local is None or row.verdict != "source" else row.local
    text = f"relative error {error.relative:.2g}"
    if error.mismatched:
        text = (
            f"{error.mismatched:,} of {_text.plural(error.elements, 'element')} out of "
            f"tolerance, {text}"
        )
    if not math.isnan(error.max_abs):
        text += f", largest {error.max_abs:.4g}"
    for name, (ours, theirs) in (("NaN", error.nan), ("infinite", error.inf)):
        if ours != theirs:
            text += f"; {ours:,} {name}, expected {theirs:,}"
    return text


R = TypeVar("R", bound="ErrorReport")


@dataclass(frozen=True)
class Column:
    """A column of a report's table."""

    name: str
    cell: Callable[[NodeError], object]
    """Text, or HTML for pages (_html.Markup)."""
    is_text: bool = True
    """Left-aligned; columns of numbers follow."""
    only_html: bool = False


PLACE = (
    Column("", lambda row: str(row.index)),
    Column("where", lambda row: id_of(row.where)),
    Column("operator", lambda row: row.name),
    Column("module", lambda row: row.module or ""),
    Column("source", lambda row: row.line),
    Column("shape", lambda row: _text.shape(row.shape)),
)
"""Place and operator of a node."""
OPTIONAL = ("source", "shape", "accumulated", "worst case")
"""Columns that narrow tables omit."""


CASES_HEAD = ("case", "verdict", "error of the outputs")


@dataclass(frozen=True)
class ReportedCase:
    """One of many cases of a report, of which the worst has its nodes there."""

    name: str
    verdict: verdicts.Verdict | Literal[""]
    """Empty if only the worst case was compared node by node."""
    error: float
    """Largest |actual - expected| / |expected| of the outputs as vectors; infinite if the program
    raises."""
    required: Comparison | None = None
    """The outputs, if requirements decide."""

    def badness(self) -> tuple[bool, float]:
        """Return a key that orders cases by error, the largest last."""
        return self.verdict == "differ", self.error

    def cells(self) -> list[str]:
        """Return the cells of a row under CASES_HEAD."""
        return [self.name, self.verdict, f"{self.error:.1e}" if self.error else "0"]


@dataclass(frozen=True)
class ErrorReport(DrawsNodes, JudgedReport[NodeError]):
    """Errors of a program against a reference, node by node.

    Prints as a short table, in a notebook too; iterates over all rows in order of execution;
    `bool(report)` is `report.ok`.
    """

    title: str
    """Name of the program and of its reference."""
    rows: tuple[NodeError, ...]
    notes: tuple[str, ...] = field(default=())
    """Coverage, and values that were left out."""
    reason: str = ""
    """Reason of an inconclusive verdict."""
    unlocated: str = ""
    """Reason why the first divergence of outputs that differ is not known."""
    required: Comparison | None = None
    """The outputs, if requirements decide."""
    cases: tuple[ReportedCase, ...] = ()
    """All cases, if the report is about the worst of many."""

    _places: ClassVar[Any] = None
    """The graph of the reference and the nodes of each row (`debug.places.Places`), of reports of
    explain that differ."""
    _seen: ClassVar[EventPlaces | None] = None
    SOME: ClassVar[str] = "nodes: the first that is off and those with the largest errors"
    """Description of the rows of `shown`."""

    @property
    def verdict(self) -> verdicts.Verdict:
        """ "match", "differ", or "inconclusive": nothing, or too little, could be compared."""
        if known := [case.verdict for case in self.cases if case.verdict]:
            return verdicts.combined(known)
        return self.by_default if self.required is None else self.required.verdict

    def changed(self: R, **fields: Any) -> R:
        """Return the report with other fields, of the same programs."""
        report = replace(self, **fields)
        report.set_origins(**self._origins)
        if self._drawing.make is not None:
            report.set_graph(self._drawing.make)
        report.set_event_places(self._seen)
        return report

    def set_event_places(self, seen: EventPlaces | None) -> None:
        """Set the places of the rows' events inside delegates, of the second of two programs."""
        object.__setattr__(self, "_seen", seen)  # works for frozen classes

    def overlays(self, nodes: Iterable[Node]) -> Sequence[Overlay]:
        """Return the verdicts and errors of nodes; of two programs, on the second's graph."""
        from executorch_c.debug.pages import errors
        from executorch_c.inspect.events import placed

        return tuple(placed(errors(self.rows), self.graph_places(nodes)))

    def graph_places(self, nodes: Iterable[Node]) -> Mapping[str, str]:
        """Return the places of nodes on the program's graph by those of rows."""
        return {} if self._seen is None else self._seen.on(nodes)

    def output_error(self) -> float:
        """Return the largest relative error of the outputs."""
        ends = [row for row in self.rows if row.where.startswith("output")]
        return max((row.accumulated.relative for row in ends), default=0.0)

    @property
    def by_default(self) -> verdicts.Verdict:
        """The verdict by tolerances, of all nodes."""
        if any(not row.ok for row in self.rows):
            return "differ"
        return "match" if self.rows and not self.reason else "inconclusive"

    @property
    def first(self) -> NodeError | None:
        """The first divergence: the first source; without one, the first result out of
        tolerance."""
        bad = [row for row in self.rows if not row.ok]
        return next((row for row in bad if row.verdict == "source"), bad[0] if bad else None)

    def __getitem__(self, index: int) -> NodeError:
        return self.rows[index]

    def worst(self, count: int = MAX_PRINTED_ROWS) -> list[NodeError]:
        """Return the rows with the largest errors (local ones, where known), largest first."""

        def size(row: NodeError) -> tuple[float, float]:
            return (row.local or row.accumulated).relative, row.accumulated.relative

        return sorted(self.rows, key=size, reverse=True)[:count]

    def summary(self) -> str:
        """Return the finding in a sentence or two."""
        if self.required is None:
            return self.finding()
        word = {"match": "match", "differ": "differ"}.get(self.verdict, "are inconclusive")
        return f"outputs {word}{_policies.beside(self.by_default)}; {self.finding()}"

    def about_cases(self) -> str:
        """Return how many cases there are, and which one the nodes are of; empty for one case."""
        if not self.cases:
            return ""
        worst = max(self.cases, key=ReportedCase.badness)
        wrong = sum(case.verdict == "differ" for case in self.cases)
        counts = f": {wrong:,} differ" if any(case.verdict for case in self.cases) else ""
        return (
            f"{_text.plural(len(self.cases), 'case')}{counts}; the nodes are those of the worst, "
            f"case {worst.name}, with a relative error of {worst.error:.1e}"
        )

    def finding(self) -> str:
        """Return the finding about the nodes."""
        first = self.first
        count = _text.plural(len(self.rows), "node")
        if first is None:
            if self.by_default == "inconclusive":
                return f"inconclusive: {self.reason or 'nothing could be compared'}"
            return f"{count} compared, every one is within tolerance"
        if self.unlocated:
            return (
                f"cannot locate: {self.unlocated}; {first}: {_mean(first)}; run explain on the "
                "candidate with its PyTorch model, which needs no pairs"
            )
        if first.where == EXPORT:
            return f"the export changed it: {first}: {_size(first)}"
        if first.verdict == "source":
            return f"first divergence: {first}: {_mean(first)}{self._more(first)}"
        if first.problem or (first.name == "result" and first.expected_shape is not None):
            return (
                f"the outputs differ, though every node that was matched is right on its own "
                f"inputs: {first.where}: {_mean(first)}"
            )
        if first.verdict == "unexplained":
            return (
                "the outputs differ by more than rounding explains, though every node that was "
                f"matched is right on its own inputs; first divergence: {first}: "
                f"{_mean(first)}"
            )
        return f"first divergence: {first}: {_mean(first)}"

    def _more(self, first: NodeError) -> str:
        """Return other layers of the node, its parameters, and other sources, in words."""
        more = ""
        others = [name for name in first.modules if name != first.module]
        if others:
            more += f"; it also computes {', '.join(others)}"
        usual = {f"{first.module}.weight", f"{first.module}.bias"}
        if first.parameters and not usual.issuperset(first.parameters):
            more += f"; it reads {', '.join(first.parameters)}"
        count = sum(row.verdict == "source" for row in self.rows) - 1
        if count:
            more += f"; {_text.plural(count, 'node')} after it wrong as well"
        return more

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns of the table; errors are relative (noise to signal), "gain" is the error of a
        result divided by those of its inputs."""
        more = [Column("local", lambda row: _figure(row.local), False)] if self.has_local() else []
        more.append(Column("limit", _limit, False))
        if any(row.gain is not None for row in self.rows):
            more.append(Column("gain", lambda row: _times(row.gain), False))
        name = "accumulated" if self.has_local() else "error"
        return (
            *PLACE,
            Column("verdict", _verdict),
            Column(name, lambda row: _figure(row.accumulated), False),
            *more,
        )

    def has_local(self) -> bool:
        """Return True if a node has a local error."""
        return any(row.local is not None for row in self.rows)

    def head(self) -> list[str]:
        """Return the names of the columns of `cells`."""
        return [column.name for column in self.columns if not column.only_html]

    def cells(self, rows: Sequence[NodeError]) -> list[list[str]]:
        """Return rows as text, a cell for each of `head`."""
        shown = [column for column in self.columns if not column.only_html]
        return [[str(column.cell(row)) for column in shown] for row in rows]

    def _table(self, caption: object, rows: Sequence[NodeError]) -> _html.Markup:
        columns = self.columns
        cells: _html.Rows = [[column.cell(row) for column in columns] for row in rows]
        left = sum(column.is_text for column in columns)
        head = [column.name for column in columns]
        return _html.table(caption, *_html.without_empty(head, cells, left))

    def shown(self, count: int = MAX_PRINTED_ROWS) -> list[NodeError]:
        """Return the first row that is off, the one before it, and the worst ones, in order."""
        keep = {row.index for row in self.worst(count)}
        if self.first is not None:
            near = {self.first.index, max(self.first.index - 1, 0)}
            keep = near | set(sorted(keep - near)[: max(count - len(near), 0)])
        return [row for row in self.rows if row.index in keep]

    def table(
        self, top: int | None = MAX_PRINTED_ROWS, sort: Literal["order", "error"] = "order"
    ) -> str:
        """Return rows as a table of text.

        Args:
            top: Maximum number of rows, by `shown`; None for all.
            sort: By order of execution, or by error, the largest first.
        """
        rows = list(self.rows) if top is None else self.shown(top)
        if sort == "error":
            rows = self.worst(len(self.rows) if top is None else top)
        lines = []
        if rows:
            lines.append(
                _text.table(
                    self.cells(rows),
                    self.head(),
                    width=_text.width(),
                    optional=OPTIONAL,
                    whole=("module",),
                )
            )
        if len(rows) < len(self.rows):
            lines.append(f"  ({len(rows)} of {len(self.rows):,} {self.SOME})")
        return "\n".join(lines)

    def _lines(self) -> list[str]:
        return [self.title, self.summary(), *self.notes]

    def text(
        self, top: int | None = MAX_PRINTED_ROWS, sort: Literal["order", "error"] = "order"
    ) -> str:
        """Return the report as text: title, finding, `table(top, sort)`, notes."""
        lines = [self.title, _text.wrapped(self.summary()), self.table(top, sort)]
        lines += [_policies.text_table(self.requirements()), self.cases_table()]
        lines.append(_text.wrapped(self.about_cases()))
        return "\n".join([*filter(None, lines), *map(_text.wrapped, self.notes)])

    def requirements(self) -> list[_policies.Row]:
        """Return a row for each requirement and output."""
        if any(case.required is not None for case in self.cases):
            return _cases.requirements((case.name, case.required) for case in self.cases)
        return [] if self.required is None else _policies.summarized(self.required.requirements())

    def cases_table(self) -> str:
        """Return a row for each case as text, of many those with the largest errors."""
        if not self.cases:
            return ""
        shown = _cases.worst_of(self.cases)
        table = _text.table([case.cells() for case in shown], CASES_HEAD, width=_text.width())
        return "\n".join([table, *_cases.left_out(len(shown), len(self.cases))])

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.summary()}>"

    def _caption(self) -> _html.Markup:
        title, summary, *notes = self._lines()
        finding = _html.verdict(self.verdict, summary)
        return _html.lines(_html.tag("b", title), finding, *notes)

    def _repr_html_(self) -> str:
        required = _policies.html_table(self.requirements())
        pictures = self.pictures(next(iter(self.PLOTS))) if self.rows else ()
        return _html.together(self._table(self._caption(), self.shown()), *required, *pictures)

    CAPTION: ClassVar[str] = "all nodes; errors are |actual - expected| / |expected|"
    """Caption of the table of a page."""

    def heading(self) -> str:
        """Return the heading of its page."""
        return self.title

    def sections(self) -> Iterator[object]:
        """Yield the parts of its page after the finding: the nodes that are wrong, their picture,
        all nodes, notes."""
        wrong = [row for row in self.rows if not row.ok]
        yield from _policies.html_table(self.requirements())
        if self.cases:
            rows = [case.cells() for case in self.cases]
            yield _html.table(self.about_cases(), CASES_HEAD, rows, 2)
        if wrong and len(wrong) < len(self.rows):
            yield self._table("nodes out of tolerance", wrong)
        yield from self.pictures(next(iter(self.PLOTS)))
        yield self._table(self.CAPTION, self.rows)
        yield from self.notes

    def rows_as_dicts(self) -> list[dict[str, object]]:
        """Return a row for each node: where, operator, layer, verdict, errors (relative ones
        and the largest)."""
        return [
            {
                "index": row.index,
                "where": row.where,
                "name": row.name,
                "module": row.module,
                "source": row.source,
                "shape": row.shape,
                "dtype": row.dtype,
                "verdict": row.verdict,
                "accumulated": row.accumulated.relative,
                "local": None if row.local is None else row.local.relative,
                "limit": row.judged.limit,
                "not_judged": row.judged.not_judged,
                "gain": row.gain,
                "mismatched": row.accumulated.mismatched,
                "max_abs": row.accumulated.max_abs,
            }
            for row in self.rows
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return all figures: {"title", "verdict", "ok", "summary", "notes", "first", "rows"}.

        A row has the fields of NodeError, errors those of ErrorMetrics; "first" is the index of a
        row.
        """
        first = self.first
        return {
            "title": self.title,
            "verdict": self.verdict,
            "ok": self.ok,
            "by_default": None if self.required is None else self.by_default,
            "requirements": [asdict(row) for row in self.requirements()],
            "cases": [
                {"case": case.name, "verdict": case.verdict or None, "error": case.error}
                for case in self.cases
            ],
            "summary": self.summary(),
            "notes": list(self.notes),
            "first": None if first is None else first.index,
            "rows": [asdict(row) for row in self.rows],
        }
