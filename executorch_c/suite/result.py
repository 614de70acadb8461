"""The result of check_all: a row for each check."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Literal

from executorch_c._paths import read_bytes
from executorch_c._render import html as _html
from executorch_c._render import text as _text
from executorch_c.report import JudgedReport, host, versions
from executorch_c.suite import checks
from executorch_c.suite.baseline import RANKS
from executorch_c.suite.figures import FIGURES

if TYPE_CHECKING:
    from executorch_c._types import FilePath

FORMAT = 1
"""Version of the JSON."""
MAX_NOTES = 4
"""Maximum number of checks that notes name."""
OPTIONAL = ("check s", "size", "power")
"""Columns that narrow tables omit, in this order."""

SuiteVerdict = Literal["match", "inconclusive", "error", "differ"]


@dataclass(frozen=True)
class CheckRow:
    """A check of `check_all`: its verdict and figures."""

    name: str
    """"model:flow", or "model:program"."""
    model: str
    flow: str | None
    """None for an existing program."""
    verdict: SuiteVerdict
    """The verdict of check_model; "error" also for an exception, a crash, and a time limit."""
    about: str
    """The finding in a sentence, or the error."""
    problems: tuple[str, ...] = ()
    """The first sentences about errors."""
    sqnr_db: float | None = None
    """Least signal-to-noise ratio of all outputs, in dB: of a quantised flow against the float
    model, on the example and given inputs; of others against eager, in all cases. None without
    outputs of floats."""
    power: float | None = None
    """Share of the weights of which an error of 1 % would have been found."""
    size_bytes: int | None = None
    """Size of the program."""
    delegated: float | None = None
    """Share of the operators that delegates compute; None if a payload cannot be read."""
    call_ms: float | None = None
    """Time of a call here on the first inputs, in ms: the fastest of several."""
    seconds: float = 0.0
    """Time of the check."""
    line: int | None = None
    """Line of the model in the file of checks."""
    page: str | None = None
    """Path of the page of a check that does not match, if asked for."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> CheckRow:
        """Return a row of plain data, as JSON has it. Raises ValueError."""
        known = {one.name: values[one.name] for one in fields(cls) if one.name in values}
        if missing := {"name", "model", "flow", "verdict", "about"} - set(known):
            raise ValueError(f"a row without {', '.join(sorted(missing))}")
        if known["verdict"] not in RANKS:
            raise ValueError(f"a row with verdict {known['verdict']!r}")
        for figure in FIGURES:
            value = known.get(figure.name)
            if isinstance(value, str):  # infinity, which JSON has not
                known[figure.name] = float(value)
        return cls(**{**known, "problems": tuple(known.get("problems", ()))})


class SuiteError(AssertionError):
    """A check of `check_all` does not match, or got worse; `result` is the SuiteResult."""

    def __init__(self, result: SuiteResult) -> None:
        super().__init__(str(result))
        self.result = result


class SuiteInterrupt(KeyboardInterrupt):
    """`check_all` was interrupted; `result` is the SuiteResult of the checks that were done."""

    def __init__(self, result: SuiteResult) -> None:
        super().__init__(result.summary())
        self.result = result


@dataclass(frozen=True)
class SuiteResult(JudgedReport[CheckRow]):
    """The result of check_all. Prints as a table, in a notebook too; iterates over its rows;
    bool() is `ok`."""

    title: str
    """Path of the file of checks."""
    rows: tuple[CheckRow, ...]
    names: tuple[str, ...]
    """Names of all checks in the file: more than `rows` if only some ran."""
    shard: str = ""
    """The part that ran: "2/4"; empty for all."""
    worse: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What got worse since the baseline, by check."""
    new: tuple[str, ...] = ()
    """Checks that the baseline does not have."""
    gone: tuple[str, ...] = ()
    """Checks of the baseline that are not in the file."""
    interrupted: bool = False
    """True if checks were left out by an interrupt: `unfinished` has their names."""
    date: str = field(
        default_factory=lambda: datetime.now(timezone.utc).isoformat(timespec="seconds")
    )

    @property
    def verdict(self) -> SuiteVerdict:
        """The worst verdict of all rows: "differ", "error", "inconclusive", "match". "differ" also
        if all match and something got worse; "inconclusive" without rows; at best "error" if
        interrupted."""
        if self.worse:
            return "differ"
        verdicts = [row.verdict for row in self.rows]
        worst: SuiteVerdict = max(verdicts, key=RANKS.index, default="inconclusive")
        return "error" if self.interrupted and worst != "differ" else worst

    @property
    def unfinished(self) -> tuple[str, ...]:
        """Names of the checks of an interrupted run (of its part) that have no row."""
        names = self.names
        if self.shard:
            kept = checks.names_of_part(names, checks.shard_of(self.shard))
            names = tuple(name for name in names if name in kept)
        done = {row.name for row in self.rows}
        return tuple(name for name in names if self.interrupted and name not in done)

    @property
    def failures(self) -> tuple[CheckRow, ...]:
        """Rows that do not match, or got worse."""
        return tuple(row for row in self if row.verdict != "match" or row.name in self.worse)

    def state(self, row: CheckRow) -> str:
        """Return the verdict of a row; "worse" if it matches, and something got worse."""
        return "worse" if row.verdict == "match" and row.name in self.worse else row.verdict

    def why(self, row: CheckRow) -> str:
        """Return why a row is a failure, in a sentence; empty if it is none."""
        parts = [row.about] if row.verdict != "match" else []
        if row.name in self.worse:
            said = "" if self.state(row) == "worse" else "worse: "
            parts.append(said + ", ".join(self.worse[row.name]))
        return "; ".join(parts)

    def summary(self) -> str:
        """Return the counts of verdicts, and of what got worse."""
        counts = Counter[str](row.verdict for row in self.rows)
        parts = [f"{counts[name]} {name}" for name in reversed(RANKS) if counts[name]]
        text = f"{_text.plural(len(self.rows), 'check')}: {', '.join(parts) or 'none ran'}"
        if self.worse:
            text += f"; {len(self.worse)} got worse"
        if self.interrupted:
            text += f"; interrupted: {len(self.unfinished):,} not done"
        part = f", part {self.shard} of {len(self.names)}" if self.shard else ""
        return f"{text} ({self.title}{part})"

    def problems(self) -> list[str]:
        """Return a sentence for each failure, and notes."""
        lines = []
        for row in self.failures:
            lines.append(f"{row.name}: {self.state(row)}: {self.why(row)}")
            lines += [f"{row.name}: {one}" for one in row.problems]
        lines += _notes(self.new, "not in the baseline")
        return lines + _notes(self.gone, "in the baseline only")

    def head(self) -> tuple[str, ...]:
        """Return the names of the columns of `cells`."""
        worse = ("worse",) if self.worse else ()
        return ("check", "verdict", *(figure.title for figure in FIGURES), *worse)

    def cells(self) -> list[list[str]]:
        """Return the texts of a row for each check."""
        lines = []
        for row in self.rows:
            values = [(figure, getattr(row, figure.name)) for figure in FIGURES]
            texts = ["" if value is None else figure.text(value) for figure, value in values]
            worse = [", ".join(self.worse.get(row.name, ()))] if self.worse else []
            lines.append([row.name, row.verdict, *texts, *worse])
        return lines

    def table(self) -> str:
        """Return a row for each check as text."""
        optional = ("worse", *OPTIONAL)
        return _text.table(
            self.cells(), self.head(), width=_text.width(), optional=optional, whole=("check",)
        )

    def __str__(self) -> str:
        return "\n".join([self.summary(), self.table(), *map(_text.wrapped, self.problems())])

    def __repr__(self) -> str:
        return f"<executorch_c.testing.SuiteResult: {self.summary()}>"

    def _html_table(self) -> _html.Markup:
        rows: _html.Rows = [
            [cells[0], _html.verdict(cells[1], cells[1]), *cells[2:]] for cells in self.cells()
        ]
        return _html.table("", *_html.without_empty(list(self.head()), rows, 2))

    def _repr_html_(self) -> str:
        return _html.lines(_html.verdict(self.verdict, self.summary()), self._html_table())

    def heading(self) -> str:
        """Return the heading of its page."""
        return f"Checks of {self.title}"

    def sections(self) -> Iterator[_html.Markup]:
        """Yield the parts of its page after the finding."""
        yield self._html_table()
        yield _html.tag("p", f"{versions()}, {host()}, {self.date}")

    def rows_as_dicts(self) -> list[dict[str, object]]:
        """Return a row for each check, with the names of the fields of CheckRow, and "worse"."""
        return [
            {**asdict(row), "problems": list(row.problems), "worse": self._worse(row)}
            for row in self.rows
        ]

    def _worse(self, row: CheckRow) -> list[str]:
        return list(self.worse.get(row.name, ()))

    def as_dict(self) -> dict[str, Any]:
        """Return {"format", "title", "verdict", "ok", "summary", "shard",
        "interrupted", "names", "units", "versions", "host", "date", "rows": [...]}: numbers, with
        their units by field."""
        return {
            "format": FORMAT,
            "title": self.title,
            "verdict": self.verdict,
            "ok": self.ok,
            "summary": self.summary(),
            "shard": self.shard,
            "interrupted": self.interrupted,
            "names": list(self.names),
            "new": list(self.new),
            "gone": list(self.gone),
            "units": {figure.name: figure.unit for figure in FIGURES},
            "versions": versions(),
            "host": host(),
            "date": self.date,
            "rows": self.rows_as_dicts(),
        }

    def raise_if_wrong(self) -> SuiteResult:
        """Raise SuiteError (an AssertionError with the table) unless the verdict is "match"; return
        the result itself."""
        if not self.ok:
            __tracebackhide__ = True  # pytest shows the line of the test
            raise SuiteError(self)
        return self


def _notes(names: Sequence[str], what: str) -> list[str]:
    """Return a note for each name, or a single one for more than MAX_NOTES."""
    if len(names) <= MAX_NOTES:
        return [f"note: '{name}' is {what}" for name in names]
    listed = ", ".join(f"'{name}'" for name in names[:MAX_NOTES])
    return [f"note: {len(names):,} checks are {what}: {listed}, .."]


def read(path: FilePath) -> SuiteResult:
    """Return a result from its JSON. Raises ValueError for another file, and OSError."""
    name = os.fspath(path)
    data = read_bytes(path)
    try:
        text = data.decode()
        found = json.loads(text)
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise ValueError("no JSON of check-all")
        rows = tuple(CheckRow.of(row) for row in found["rows"])
        return SuiteResult(
            found["title"],
            rows,
            tuple(found["names"]),
            found["shard"],
            interrupted=bool(found.get("interrupted")),
            date=found["date"],
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{name!s}: not a result of check-all --json: {why}") from None


for _public in (CheckRow, SuiteError, SuiteInterrupt, SuiteResult):
    _public.__module__ = "executorch_c.testing"  # where users find them
