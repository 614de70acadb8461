"""Gaps operator by operator: the report of `explain` and `compare_programs`."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from executorch_c import _html, _json, _pictures, _text
from executorch_c._gap import Gap

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Verdict: TypeAlias = Literal["ok", "wrong", "starts", "grows", "carried"]
"""What there is to say of an operator's result:

    ok       it is what it should be, within tolerance
    wrong    the operator itself is off: on the same inputs the reference computes another result
    carried  it is off, the operator is not, as far as one can tell: what it was made from is off

Beside another program, which cannot be run on other inputs, gaps of results are all there is:

    starts   it is off, what it was made from is not
    grows    so is that, but by far less: the operator is wrong, too, or makes errors larger
"""

SHOWN = 12
"""Rows that `print(report)` shows."""


def relative(gap: Gap) -> float:
    """|actual - expected| / |expected| of the two as vectors: noise to signal, no unit.

    0 where they are equal; infinite where only one is finite, or `expected` is all zero.
    """
    if gap.nan[0] != gap.nan[1] or gap.inf[0] != gap.inf[1]:
        return math.inf
    return 0.0 if math.isnan(gap.snr_db) else 10.0 ** (-gap.snr_db / 20)


def gap_dict(gap: Gap) -> dict[str, object]:
    """The fields of a gap, and "relative"."""
    return {**asdict(gap), "relative": relative(gap)}


@dataclass(frozen=True)
class OperatorGap:
    """One operator's result beside the reference's."""

    index: int
    """Its place in the report, from 0; operators are in the order in which they ran."""
    where: str
    """"instruction 3", "delegate 0, node 5"."""
    name: str
    """The operator, or the node as the backend calls it."""
    shape: tuple[int, ...]
    dtype: str
    total: Gap
    """From the reference's result: what this operator and all before it have added."""
    own: Gap | None
    """From what the reference computes on this operator's own inputs: what it adds by itself.
    None where the reference is a program, which cannot be run operator by operator."""
    verdict: Verdict
    module: str | None = None
    """Path of the layer in the model ("features.3.conv")."""
    source: str | None = None
    """Path of the file, ":" and the line in the model that called it."""
    taken: float | None = None
    """Beside another program: the largest relative gap of what this was made from."""
    gain: float | None = None
    """The relative gap, to that; see `compare_programs`."""
    parameters: tuple[str, ...] = ()
    """Names of the model's parameters that it reads ("lstm.weight_hh_l0")."""

    @property
    def ok(self) -> bool:
        """Whether the result is what it should be."""
        return self.verdict == "ok"

    @property
    def line(self) -> str:
        """`source` without directories: "model.py:12", "cell:12" in a notebook, or empty."""
        folder, name = os.path.split(self.source or "")
        is_cell = os.path.basename(folder).startswith("ipykernel_")
        return f"cell:{name.rpartition(':')[2]}" if is_cell else name

    def __str__(self) -> str:
        """"aten::convolution.out of 'features.3' (model.py:12), instruction 7"."""
        layer = f" of '{self.module}'" if self.module else ""
        line = f" ({self.line})" if self.source else ""
        return f"{self.name}{layer}{line}, {self.where}"


def _figure(gap: Gap | None) -> str:
    if gap is None:
        return "-"
    size = relative(gap)
    return f"{size:.1e}" if size else "0"


def _times(gain: float | None) -> str:
    return "-" if gain is None else f"x {gain:.2g}" if gain < 1000 else f"x {gain:.0e}"


def _mean(row: OperatorGap) -> str:
    """What is worth saying of a gap, in words."""
    gap = row.total if row.own is None else row.own
    text = f"{gap.outside:,} of {_text.plural(gap.elements, 'element')} outside tolerance, "
    if math.isnan(gap.max_abs):
        text += "none to compare that is finite"
    else:
        text += f"by up to {gap.max_abs:.4g}"
    for name, (ours, theirs) in (("NaN", gap.nan), ("infinite", gap.inf)):
        if ours != theirs:
            text += f"; {ours:,} {name}, expected {theirs:,}"
    return text


@dataclass(frozen=True)
class Column:
    """One of a report's table."""

    name: str
    cell: Callable[[OperatorGap], object]
    """Text, or what pages show in its place (_html.Markup)."""
    is_text: bool = True
    """Set to the left; numbers come after all such columns."""
    only_html: bool = False


PLACE = (
    Column("", lambda row: str(row.index)),
    Column("where", lambda row: row.where),
    Column("operator", lambda row: row.name),
    Column("module", lambda row: row.module or ""),
    Column("source", lambda row: row.line),
    Column("shape", lambda row: _text.shape(row.shape)),
)
"""Where and what an operator is."""


@dataclass(frozen=True)
class GapReport:
    """How far results are from a reference, operator by operator.

    Prints as a short table, in a notebook too; iterates over all rows in order of execution;
    `bool(report)` is `report.ok`.
    """

    title: str
    """What was compared with what."""
    rows: tuple[OperatorGap, ...]
    notes: tuple[str, ...] = field(default=())
    """What a reader should know: how much could be compared, what was left out."""

    SOME: ClassVar[str] = "operators: the first that is off and those with the largest gaps"
    """Which rows `shown` gives."""

    @property
    def ok(self) -> bool:
        """Whether every result is what it should be."""
        return all(row.ok for row in self.rows)

    @property
    def first(self) -> OperatorGap | None:
        """The first operator that is wrong itself; without one, the first whose result is off."""
        bad = [row for row in self.rows if not row.ok]
        return next((row for row in bad if row.verdict == "wrong"), bad[0] if bad else None)

    def __bool__(self) -> bool:
        return self.ok

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> OperatorGap:
        return self.rows[index]

    def __iter__(self) -> Iterator[OperatorGap]:
        return iter(self.rows)

    def worst(self, count: int = SHOWN) -> list[OperatorGap]:
        """Rows with the largest gaps (own ones, where known), largest first."""

        def size(row: OperatorGap) -> tuple[float, float]:
            return relative(row.own or row.total), relative(row.total)

        return sorted(self.rows, key=size, reverse=True)[:count]

    def summary(self) -> str:
        """The finding in a sentence or two."""
        first = self.first
        count = _text.plural(len(self.rows), "operator")
        if first is None:
            return f"{count} compared, none is off" if self.rows else "nothing could be compared"
        if first.verdict == "wrong":
            others = sum(row.verdict == "wrong" for row in self.rows) - 1
            more = f"; {_text.plural(others, 'operator')} after it also wrong" if others else ""
            usual = {f"{first.module}.weight", f"{first.module}.bias"}
            if first.parameters and not usual.issuperset(first.parameters):
                more = f"; it reads {', '.join(first.parameters)}{more}"
            return f"wrong itself: {first}: {_mean(first)}{more}"
        cause = "" if first.own is None else "no operator is wrong on its own inputs; "
        return f"{cause}the first result that is off: {first}: {_mean(first)}"

    @property
    def columns(self) -> tuple[Column, ...]:
        """Of the table; "total" and "own" are relative gaps (noise to signal), "gain" is
        that of a result to those of what it was made from."""
        more = [Column("own", lambda row: _figure(row.own), False)] if self._own() else []
        if any(row.gain is not None for row in self.rows):
            more.append(Column("gain", lambda row: _times(row.gain), False))
        return (*PLACE, Column("verdict", lambda row: row.verdict),
                Column("total", lambda row: _figure(row.total), False), *more)  # fmt: skip

    def _own(self) -> bool:
        return any(row.own is not None for row in self.rows)

    def head(self) -> list[str]:
        """Names of the columns of `cells`."""
        return [column.name for column in self.columns if not column.only_html]

    def cells(self, rows: Sequence[OperatorGap]) -> list[list[str]]:
        """Rows as text, a cell for each of `head`."""
        shown = [column for column in self.columns if not column.only_html]
        return [[str(column.cell(row)) for column in shown] for row in rows]

    def _table(self, caption: str, rows: Sequence[OperatorGap]) -> str:
        """HTML."""
        columns = self.columns
        cells: _html.Rows = [[column.cell(row) for column in columns] for row in rows]
        left = sum(column.is_text for column in columns)
        head = [column.name for column in columns]
        return _html.table(caption, *_html.without_empty(head, cells, left))

    def shown(self, count: int = SHOWN) -> list[OperatorGap]:
        """The first that is off, the one before it, and the worst ones, in order."""
        keep = {row.index for row in self.worst(count)}
        if self.first is not None:
            near = {self.first.index, max(self.first.index - 1, 0)}
            keep = near | set(sorted(keep - near)[: count - len(near)])
        return [row for row in self.rows if row.index in keep]

    def _lines(self) -> list[str]:
        return [self.title, self.summary(), *self.notes]

    def __str__(self) -> str:
        rows = self.shown()
        lines = [self.title, self.summary()]
        if rows:
            lines.append(_text.table(self.cells(rows), self.head()))
        if len(rows) < len(self.rows):
            lines.append(f"  ({len(rows)} of {len(self.rows):,} {self.SOME})")
        return "\n".join([*lines, *self.notes])

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.summary()}>"

    def _caption(self) -> str:
        style = "" if self.ok else ' class="bad"'
        title, summary, *notes = map(escape, self._lines())
        return "<br>".join([f"<b>{title}</b>", f"<span{style}>{summary}</span>", *notes])

    def _repr_html_(self) -> str:
        return self._table(self._caption(), self.shown())

    def plot(self) -> Figure:
        """A picture of the relative gap of each operator, logarithmic, total and own.

        Returns a matplotlib Figure, which a notebook shows. Raises ImportError without matplotlib.
        """
        figure = _pictures.figure(figsize=(9, 3.5), layout="constrained")
        axes = figure.add_subplot()
        finite = [x for row in self.rows for gap in (row.total, row.own) if gap is not None
                  if 0 < (x := relative(gap)) < math.inf]  # fmt: skip
        low, high = min(finite, default=1e-8) / 3, max(finite, default=1.0) * 3
        at = [row.index for row in self.rows]

        def line(gaps: Sequence[Gap | None], style: str, label: str) -> None:
            sizes = [math.nan if gap is None else min(max(relative(gap), low), high)
                     for gap in gaps]  # fmt: skip
            axes.plot(at, sizes, style, label=label, markersize=4, linewidth=1)

        line([row.total for row in self.rows], "o-", "total")
        if self._own():
            line([row.own for row in self.rows], "s", "own")
        if self.first is not None:
            label = self.first.module or self.first.where
            axes.axvline(self.first.index, color="tab:red", linestyle="--", label=label)
        axes.set(yscale="log", ylim=(low / 2, high * 2), xlabel="operator",
                 ylabel="|ours - reference| / |reference|", title=self.title)  # fmt: skip
        axes.grid(True, axis="y", alpha=0.3)
        axes.legend(loc="upper left")
        return figure

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Writes a page with the summary, the picture (with matplotlib) and all rows."""
        caption = "gaps are |ours - reference| / |reference|"
        self._write(path, "gap of each operator", caption)

    def _write(self, path: str | os.PathLike[str], picture: str, caption: str) -> None:
        """The page; what the picture and the table are about."""
        sections = [f"<p>{escape(line)}</p>" for line in self._lines()[1:]]
        try:
            sections.append(_pictures.image(self.plot(), picture))
        except ImportError:
            pass  # the table has the same figures
        sections.append(self._table(caption, self.rows))
        with open(path, "w", encoding="utf-8") as file:
            file.write(_html.page(self.title, *sections))

    def as_dict(self) -> dict[str, object]:
        """All figures: {"title", "ok", "summary", "notes", "first", "rows": [...]}.

        A row has the fields of OperatorGap, gaps those of Gap and "relative"; "first" is the index
        of a row.
        """
        rows = []
        for row in self.rows:
            cells = asdict(row)
            for name, gap in (("total", row.total), ("own", row.own)):
                if gap is not None:
                    cells[name] = gap_dict(gap)
            rows.append(cells)
        first = self.first
        return {"title": self.title, "ok": self.ok, "summary": self.summary(),
                "notes": list(self.notes), "first": None if first is None else first.index,
                "rows": rows}  # fmt: skip

    def to_json(self) -> str:
        """`as_dict` as JSON; infinite figures are "inf", NaN is null."""
        return _json.dumps(self.as_dict())
