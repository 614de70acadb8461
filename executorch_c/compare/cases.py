"""Comparisons of many cases: the result of `executorch_c.testing.validate`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from executorch_c._render import html as _html
from executorch_c._render import text as _text
from executorch_c._render.figures import NothingToDraw
from executorch_c.compare import policies as _policies
from executorch_c.compare import verdicts
from executorch_c.compare.comparison import FIGURES, Comparison
from executorch_c.compare.drawn import DrawnOutput, DrawsOutputs, drawn_output
from executorch_c.compare.requiring import settled
from executorch_c.compare.verdicts import Verdict
from executorch_c.report import JudgedReport

HEAD = ("case", "verdict", *FIGURES)
OPTIONAL = ("ulp", "max rel", "cosine", "argmax")
TEXT_COLUMNS = 2
MAX_PRINTED_CASES = 20
"""Maximum number of cases in a table of text: all are in the page and in the JSON."""
MAX_PRINTED_PROBLEMS = 3
"""Maximum number of cases whose problems str() prints."""


@dataclass(frozen=True)
class ComparedCase:
    """The outputs of one case, compared with the expected ones."""

    name: str
    comparison: Comparison | None
    """None if the program raises."""
    error: Exception | None = None
    actual: tuple[object, ...] = field(default=(), repr=False)
    """Outputs that do not match."""
    expected: tuple[object, ...] = field(default=(), repr=False)
    path: str | None = None
    """The file of the inputs."""

    @property
    def verdict(self) -> Verdict | Literal["error"]:
        """The verdict on the outputs; "error": the program raised."""
        return "error" if self.comparison is None else self.comparison.verdict

    @property
    def ok(self) -> bool:
        """True if the outputs match."""
        return self.verdict == "match"

    def problems(self) -> list[str]:
        """Return a sentence for each error."""
        if self.comparison is None:
            return [f"{type(self.error).__name__}: {self.error}"]
        return self.comparison.problems()

    def row(self) -> list[str]:
        """Return the cells of a row under HEAD: figures of the worst output."""
        worst = None if self.comparison is None else self.comparison.worst()
        figures = [""] * len(FIGURES) if worst is None else worst.row()[-len(FIGURES) :]
        return [self.name, self.verdict, *figures]

    def badness(self) -> tuple[int, float]:
        """Return a key that orders cases by error, the largest last."""
        if self.comparison is None:
            return 2, 0.0
        return (0 if self.ok else 1), self.comparison.noise_db()


@dataclass(frozen=True)
class CaseComparisons(DrawsOutputs, JudgedReport[ComparedCase]):
    """All cases of a validation. Prints as a table, in a notebook too; bool() is `ok`."""

    ROWS = "cases"

    title: str
    method: str
    cases: tuple[ComparedCase, ...]
    notes: tuple[str, ...] = ()
    """Cases and files that were left out."""

    @property
    def verdict(self) -> Verdict:
        """ "match", "differ" (or the program raises), or "inconclusive" if no case is decisive."""
        kinds = (case.verdict for case in self.cases)
        return verdicts.combined("differ" if kind == "error" else kind for kind in kinds)

    def __getitem__(self, index: int) -> ComparedCase:
        return self.cases[index]

    @property
    def failures(self) -> tuple[ComparedCase, ...]:
        """Cases that differ, or in which the program raises."""
        return tuple(case for case in self.cases if case.verdict in ("differ", "error"))

    def by_default(self) -> Verdict | None:
        """Return the verdict by tolerances; None without requirements."""
        return by_default(case.comparison for case in self.cases)

    def requirements(self) -> list[_policies.Row]:
        """Return a row for each requirement and output: the worst value of all cases, or the share
        in all of them."""
        return requirements((case.name, case.comparison) for case in self.cases)

    def summary(self) -> str:
        """Return the finding in one line."""
        counts = Counter(case.verdict for case in self.cases)
        bad = counts["differ"] + counts["error"]
        if bad:
            text = f"{bad} of {_text.plural(len(self.cases), 'case')} differ"
        elif counts["match"]:
            text = f"{_text.plural(counts['match'], 'case')} match"
        else:
            text = f"inconclusive: none of {_text.plural(len(self.cases), 'case')} is decisive"
        if counts["inconclusive"] and (bad or counts["match"]):
            text += f", {counts['inconclusive']} inconclusive"
        return text + _policies.beside(self.by_default())

    def problems(self) -> list[str]:
        """Return a sentence for each error of the first cases that fail, and notes."""
        wrong = self.failures or tuple(case for case in self.cases if not case.ok)
        shown = wrong[:MAX_PRINTED_PROBLEMS]
        lines = [f"{case.name}: {line}" for case in shown for line in case.problems()]
        if len(wrong) > len(shown):
            lines.append(f"... and {len(wrong) - len(shown):,} more")
        noted = [f"{case.name}: {note}" for case in self.cases for note in _notes(case)]
        return [*lines, *noted[:1], *(f"note: {note}" for note in self.notes)]

    def table(self) -> str:
        """Return a row for each case as text, of many those with the largest errors."""
        shown = worst_of(self.cases)
        lines = [
            _text.table(
                [case.row() for case in shown], HEAD, width=_text.width(), optional=OPTIONAL
            )
        ]
        return "\n".join([*lines, *left_out(len(shown), len(self.cases))])

    def __str__(self) -> str:
        tables = [self.table(), _policies.text_table(self.requirements())]
        problems = map(_text.wrapped, self.problems())
        return "\n".join(filter(None, [self.summary(), *tables, *problems]))

    def __repr__(self) -> str:
        return f"<executorch_c.testing.CaseComparisons: {self.summary()}>"

    def _drawn(self, output: int | None = None, case: ComparedCase | None = None) -> DrawnOutput:
        """Return an output to draw: of an index, or the one with the largest error; of a case that
        differs, by default the worst."""
        known = [one for one in self.cases if one.actual and (case is None or one is case)]
        if not known:
            raise NothingToDraw("outputs are kept of cases that differ, and there is none")
        one = max(known, key=ComparedCase.badness)
        assert one.comparison is not None
        return drawn_output(one.comparison, one.actual, one.expected, output, one.name)

    def heading(self) -> str:
        """Return the heading of its page."""
        return self.title

    def _html_table(self, caption: object) -> _html.Markup:
        return _html.table(caption, HEAD, [case.row() for case in self.cases], TEXT_COLUMNS)

    def sections(self) -> Iterator[_html.Markup]:
        """Yield the parts of its page after the finding: the cases, a picture of the worst, those
        that differ."""
        yield self._html_table("cases")
        yield from self.pictures("output")
        yield from _policies.html_table(self.requirements())
        for case in self.failures:
            if case.comparison is not None:
                yield case.comparison.html_table(case.name)

    def _repr_html_(self) -> str:
        caption = _html.verdict(self.verdict, self.summary())
        remarks = (_html.tag("p", line) for line in self.problems())
        required = _policies.html_table(self.requirements())
        pictures = self.pictures("output")
        return _html.together(self._html_table(caption), *required, *remarks, *pictures)

    def as_dict(self) -> dict[str, Any]:
        """Return {"verdict", "ok", "by_default", "requirements", "notes", "cases": [{"name",
        "verdict", "problems", "figures"}]}."""
        return {
            "verdict": self.verdict,
            "ok": self.ok,
            "by_default": self.by_default(),
            "requirements": [asdict(row) for row in self.requirements()],
            "notes": list(self.notes),
            "cases": self.rows_as_dicts(),
        }

    def rows_as_dicts(self) -> list[dict[str, object]]:
        """Return a row for each case: name, verdict, problems, the worst figures of its outputs."""
        return [
            {
                "case": case.name,
                "verdict": case.verdict,
                "why": "; ".join(case.problems()),
                **({} if case.comparison is None else case.comparison.figures()),
            }
            for case in self.cases
        ]

    def raise_if_wrong(self) -> CaseComparisons:
        """Raise AssertionError with the table unless the verdict is "match"; return the result
        itself."""
        if not self.ok:
            __tracebackhide__ = True  # pytest shows the line of the test
            raise AssertionError(str(self))
        return self


def _notes(case: ComparedCase) -> list[str]:
    return [] if case.comparison is None else case.comparison.notes()


def settled_cases(cases: Sequence[ComparedCase]) -> tuple[ComparedCase, ...]:
    """Return cases with requirements on shares (top5) decided by the rows of all."""
    known = iter(settled([case.comparison for case in cases if case.comparison is not None]))
    return tuple(
        case if case.comparison is None else replace(case, comparison=next(known)) for case in cases
    )


def by_default(comparisons: Iterable[Comparison | None]) -> Verdict | None:
    """Return the verdict of several cases by tolerances; None without requirements."""
    known = [(one.by_default(), one.verdict) for one in comparisons if one is not None]
    if all(by_tolerance is None for by_tolerance, _ in known):
        return None
    return verdicts.combined(by_tolerance or verdict for by_tolerance, verdict in known)


def requirements(cases: Iterable[tuple[str, Comparison | None]]) -> list[_policies.Row]:
    """Return a row for each requirement and output of several cases."""
    return _policies.summarized(
        row for name, one in cases if one is not None for row in one.requirements(name)
    )


def worst_of(cases: Sequence[Any], count: int = MAX_PRINTED_CASES) -> list[Any]:
    """Return the cases with the largest `badness`, in their order."""
    order = sorted(range(len(cases)), key=lambda i: cases[i].badness(), reverse=True)
    return [cases[i] for i in sorted(order[:count])]


def left_out(shown: int, count: int) -> list[str]:
    """Return a line about the cases that a table leaves out; nothing if it has all."""
    if shown == count:
        return []
    return [f"  ({shown} of {count:,} cases: those with the largest errors)"]


for _public in (ComparedCase, CaseComparisons):
    _public.__module__ = "executorch_c.testing"  # the public name
