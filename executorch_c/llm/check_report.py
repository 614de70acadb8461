"""The report of check_llm."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from executorch_c._render import html as _html
from executorch_c._render import text as _text
from executorch_c.check import engines as _engines
from executorch_c.check.case_source import first_line
from executorch_c._stages import notes_of
from executorch_c.report import JudgedReport

if TYPE_CHECKING:
    from executorch_c.check.engines import OfficialRun
    from executorch_c.compare.logits import LogitTolerance
    from executorch_c.compare.verdicts import Verdict
    from executorch_c.debug.report import ErrorReport
    from executorch_c.llm.agreement import Agreement

Case: TypeAlias = Literal[
    "encoder", "steps", "prefill", "chunks", "turns", "rewind", "reset", "official reset", "context"
]
MEANINGS: dict[Case, str] = {
    "encoder": "the output of the encoder against the reference's",
    "steps": "token by token against the reference",
    "prefill": "a prompt in one call, then steps",
    "chunks": "a prompt in several calls",
    "turns": "a second prompt after generated tokens",
    "rewind": "other tokens after a rewind",
    "reset": "the same prompt after reset()",
    "official reset": "position 0 without a reset of the state, as the official runner resets",
    "context": "all positions to the end of the context",
}


@dataclass(frozen=True)
class Row(_engines.EngineCase):
    """One way to run one prompt."""

    case: Case
    prompt: int
    """Number of the prompt; -1: made of all of them."""
    ids: tuple[int, ...] = field(repr=False)
    """All tokens."""
    positions: tuple[int, ...] = field(repr=False)
    """Positions whose logits were compared."""
    against: str
    """The reference of the logits."""
    agreement: Agreement | None = field(repr=False)
    limit: LogitTolerance | None = field(repr=False)
    skipped: str = ""
    """Why nothing was compared."""
    losses: tuple[float, float] | None = None
    """Mean loss of the program and of the reference, where all positions were compared."""
    error: Exception | None = None
    """The program's exception."""
    official: OfficialRun | None = field(default=None, repr=False)
    """The script in the official runtime; None if that was not asked for, or nothing compared."""

    @property
    def name(self) -> str:
        """The case and its prompt: "steps, prompt 0"."""
        return self.case if self.prompt < 0 else f"{self.case}, prompt {self.prompt}"

    @property
    def verdict(self) -> Verdict | Literal["error"]:
        """ "match", "differ", "error" if the program raised, or "inconclusive" if nothing was
        compared."""
        if self.error is not None:
            return "error"
        if self.agreement is None or not self.positions:
            return "inconclusive"
        return "match" if self.agreement.first is None else "differ"

    @property
    def first(self) -> int | None:
        """The first position that differs."""
        if self.agreement is None or self.agreement.first is None:
            return None
        return self.positions[self.agreement.first]

    def cells(self) -> list[object]:
        """Return the cells of the report's table."""
        place = "" if self.first is None else str(self.first)
        name = "" if self.prompt < 0 else str(self.prompt)
        official = "" if self.official is None else self.official.verdict
        if self.error is not None:
            rest = [""] * (len(HEAD) - 5)
            both = first_line(self.error), _engines.beside_error(self.official)
            return [self.case, name, self.verdict, official, *rest, "; ".join(filter(None, both))]
        if self.agreement is None:
            return [self.case, name, "skipped", *[""] * (len(HEAD) - 4), self.skipped]
        a = self.agreement
        tokens = (
            ["", "", ""]
            if self.case == "encoder"
            else [
                _size(a.divergence.mean()),
                f"{100 * a.same_top.mean():.4g} %",
                f"{100 * a.top5.mean():.4g} %",
            ]
        )
        return [
            self.case,
            name,
            self.verdict,
            official,
            str(len(self.positions)),
            _size(a.relative.max()),
            *tokens,
            place,
            self.against,
        ]

    def as_dict(self) -> dict[str, object]:
        """Return all figures, for JSON and data frames."""
        figures: dict[str, object] = {
            "case": self.case,
            "prompt": self.prompt,
            "verdict": self.verdict,
            "against": self.against,
            "tokens": len(self.ids),
            "positions": len(self.positions),
            "first": self.first,
            "skipped": self.skipped,
            "error": "" if self.error is None else finding(self),
            "official": "" if self.official is None else self.official.verdict,
        }
        if self.agreement is not None:
            a = self.agreement
            figures |= {
                "max_abs": float(a.errors.max()),
                "max_relative": float(a.relative.max()),
                "least_sqnr_db": float(a.sqnr_db.min()),
                "nan": a.nan,
            }
        if self.agreement is not None and self.case != "encoder":
            figures |= {
                "mean_kl": float(a.divergence.mean()),
                "max_kl": float(a.divergence.max()),
                "top1": float(a.same_top.mean()),
                "top5": float(a.top5.mean()),
            }
        if self.losses is not None:
            figures |= {
                "perplexity": _exp(self.losses[0]),
                "reference_perplexity": _exp(self.losses[1]),
            }
        return figures


def _exp(loss: float) -> float:
    return math.exp(min(loss, 700.0)) if not math.isnan(loss) else math.nan


def _size(value: Any) -> str:
    return f"{float(value):.1e}" if value else "0"


HEAD = (
    "case",
    "prompt",
    "verdict",
    "official",
    "positions",
    "error",
    "KL",
    "top 1",
    "top 5",
    "first",
    "against",
)


@dataclass(frozen=True)
class LLMReport(JudgedReport[Row]):
    """Agreement of a text program with its reference and with itself, case by case."""

    title: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    fault: str = ""
    """The faulty part, file or runtime, in a sentence; empty if nothing differs."""
    token: str = ""
    """The token at which the first difference shows, in words."""
    explanation: ErrorReport | None = field(default=None, repr=False)
    """The layers at the first difference, from `explain`."""

    @property
    def verdict(self) -> Verdict | Literal["error"]:
        """The worst verdict of the rows that compared something, in any engine, "differ" if the
        program raised; "error" if only the official runtime fails, by refusing the program."""
        verdicts = [row.verdict for row in self.rows if row.agreement is not None]
        theirs = [row.official.verdict for row in self.rows if row.official is not None]
        if not all(row.ok_here for row in self.rows) or "differ" in theirs:
            return "differ"
        if "error" in theirs:
            return "error"
        return "match" if "match" in verdicts else "inconclusive"

    @property
    def first(self) -> Row | None:
        """The first row that differs, or in which the program raised."""
        return next((row for row in self.rows if not row.ok_here), None)

    def __getitem__(self, case: str) -> Row:
        """Return the first row of a case. Raises KeyError."""
        for row in self.rows:
            if row.case == case:
                return row
        raise KeyError(case)

    def problems(self) -> list[str]:
        """Return a sentence for each row that differs, and for results that are wrong in the
        official runtime only."""
        wrong = [sentence(row) for row in self.rows if not row.ok_here]
        bad = [row for row in self.rows if row.official is not None and not row.official.ok]
        return [*wrong, *_engines.remarks_on_runs(bad)]

    def summary(self) -> str:
        """Return the finding in a few sentences."""
        compared = [row for row in self.rows if row.agreement is not None]
        positions = sum(len(row.positions) for row in compared)
        first = self.first
        if first is None:
            what = f"{_text.plural(len(compared), 'case')}, {_text.plural(positions, 'position')}"
            if not compared:
                return "inconclusive: nothing could be compared"
            worst = max(float(row.agreement.relative.max()) for row in compared if row.agreement)
            what += f", largest error {worst:.1e} of the logits' RMS"
            theirs = _engines.summary(self.rows)
            return f"{self.verdict}: {what}{' in this runtime' if theirs else ''}{theirs}"
        bad = sum(not row.ok_here for row in self.rows)
        count = len(compared) + sum(row.error is not None for row in self.rows)
        parts = [
            f"differ: {bad} of {_text.plural(count, 'case')}; {sentence(first)}",
            self.token,
            self.fault,
        ]
        if self.explanation is not None and self.explanation.first is not None:
            parts.append(f"first divergence inside: {self.explanation.first}")
        return "; ".join(filter(None, parts))

    def cells(self) -> list[list[object]]:
        """Return the cells of a row for each case; without the official runtime's verdicts, if it
        ran none."""
        return _engines.shown_verdicts(HEAD, [row.cells() for row in self.rows])

    def table(self) -> str:
        """Return a row for each case as text."""
        return _text.table(
            self.cells(), HEAD, width=_text.width(), optional=("top 5", "against", "prompt")
        )

    def rows_as_dicts(self) -> list[dict[str, object]]:
        """Return a row for each case."""
        return [row.as_dict() for row in self.rows]

    def as_dict(self) -> dict[str, Any]:
        """Return all figures, for JSON."""
        inner = None if self.explanation is None else self.explanation.as_dict()
        return {
            **super().as_dict(),
            "verdict": self.verdict,
            "notes": list(self.notes),
            "fault": self.fault,
            "token": self.token,
            "explanation": inner,
        }

    def heading(self) -> str:
        """Return the heading of its page."""
        return f"Check of {self.title}"

    def sections(self) -> Iterator[object]:
        """Yield the parts of its page after the finding."""
        yield _html.table("cases", HEAD, self.cells(), 1)
        meanings = list(MEANINGS.items())
        yield _html.table("meaning of the cases", ("case", "meaning"), meanings, 2)
        for note in self.notes:
            yield _html.tag("p", note)
        if self.explanation is not None:
            yield from self.explanation.sections()

    def __str__(self) -> str:
        parts = [
            self.title,
            _text.wrapped(self.summary()),
            self.table(),
            *map(_text.wrapped, self.notes),
        ]
        if self.explanation is not None:
            parts.append(str(self.explanation))
        return "\n".join(filter(None, parts))

    def __repr__(self) -> str:
        return f"<LLMReport: {self.summary()}>"

    def _repr_html_(self) -> str:
        finding = _html.verdict(self.verdict, self.summary())
        return _html.table(_html.lines(finding, *self.notes), HEAD, self.cells(), 1)


def sentence(row: Row) -> str:
    """Return what differs in a row."""
    where = f"'{row.case}' ({MEANINGS[row.case]})" + (
        f", prompt {row.prompt}" if row.prompt >= 0 else ""
    )
    return f"{where}: {finding(row)}"


def finding(row: Row) -> str:
    """Return how many positions of a row differ, the first, and its error; or the exception of the
    program, its stage, and what to do."""
    if row.error is not None:
        parts = [
            f"{type(row.error).__name__}: {row.error}",
            *notes_of(row.error),
            _engines.beside_error(row.official),
        ]
        return "; ".join(filter(None, parts))
    assert row.agreement is not None
    a, at, is_encoder = row.agreement, row.agreement.first, row.case == "encoder"
    assert at is not None
    count = int(np.count_nonzero(a.bad))
    if a.nan:
        what = "numbers" if is_encoder else "logits"
        return f"{a.nan:,} {what} are NaN, first at position {row.first}"
    more = "" if is_encoder else f" and KL divergence {a.divergence[at]:.3g}"
    return (
        f"{count} of {_text.plural(len(row.positions), 'position')} differ, first "
        f"{row.first} with error {a.errors[at]:.4g}{more}, compared with {row.against}"
    )


def perplexities(rows: Sequence[Row]) -> str:
    """Return the perplexity of program and reference over rows of known losses, with a 95 %
    confidence interval of their ratio if there are several; empty without any."""
    known = [row.losses for row in rows if row.losses and not any(map(math.isnan, row.losses))]
    if not known:
        return ""
    ours, theirs = np.array(known).T
    text = (
        f"perplexity of the prompts: program {_exp(ours.mean()):.4g}, reference "
        f"{_exp(theirs.mean()):.4g}"
    )
    if len(known) < 2:
        return text
    delta = ours - theirs
    half = 1.96 * delta.std(ddof=1) / math.sqrt(len(known))
    low, high = math.exp(delta.mean() - half), math.exp(delta.mean() + half)
    return f"{text}, ratio {math.exp(delta.mean()):.5g} (95 % confidence {low:.5g} to {high:.5g})"
