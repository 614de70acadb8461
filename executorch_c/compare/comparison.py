"""Results of comparisons: an output, and all outputs of a call."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from executorch_c._names import visible
from executorch_c._render import html as _html
from executorch_c._render.figures import NothingToDraw
from executorch_c._render import text as _text
from executorch_c.compare import policies as _policies
from executorch_c.compare import shown, verdicts
from executorch_c.compare.drawn import DrawnOutput, DrawsOutputs, drawn_output
from executorch_c.compare.metrics import ErrorMetrics, Index
from executorch_c.compare.policies import Measured
from executorch_c.compare.tolerance import Tolerance
from executorch_c.compare.verdicts import Verdict
from executorch_c.report import JudgedReport

FIGURES = ("mismatched", "max abs", "limit", "max rel", "ulp", "cosine", "SNR dB", "argmax")
HEAD = ("output", "dtype", "shape", *FIGURES)
TEXT_COLUMNS = 3
OPTIONAL = ("ulp", "max rel", "argmax", "cosine")
"""Columns that narrow tables omit, in this order."""

WORST: dict[str, Callable[[list[float]], float]] = {
    "max_abs": max,
    "max_rel": max,
    "max_ulp": max,
    "snr_db": min,
    "cosine": min,
}
"""Function that selects the worst of several values, by metric."""


def number(value: float | complex | None) -> str:
    """Return a metric as text; "-" where it is not defined."""
    return "-" if value is None or value != value else f"{value:.4g}"


def differing(a: float | complex | None, b: float | complex | None) -> tuple[str, str]:
    """Return two numbers as text, with enough digits to differ."""
    if a is None or b is None:
        return number(a), number(b)
    for digits in range(7, 18):
        texts = f"{a:.{digits}g}", f"{b:.{digits}g}"
        if texts[0] != texts[1] or a == b or (a != a and b != b):
            break
    return texts


def _at(index: Index | None) -> str:
    return _text.sizes(index or ())


@dataclass(frozen=True)
class OutputComparison:
    """One output compared with the expected one."""

    index: int
    dtype: str
    """NumPy's name of the dtype, or the Python type of an output other than an array."""
    shape: tuple[int, ...] | None
    verdict: Verdict
    """"match", "differ", or "inconclusive": the expected output cannot show an error."""
    reason: str
    """Reason of an inconclusive verdict, or of "differ" without an element out of tolerance; or
    empty."""
    tolerance: Tolerance | None
    """The limits; None if no metric applies."""
    metrics: ErrorMetrics | None
    """None if the error is undefined: `problem` has the reason (or both are equal objects)."""
    problem: str | None
    """Difference in shape, dtype or type; None without one."""
    name: str | None = None
    """Name of the output, if known."""
    note: str = ""
    """Parts of a matching output that are smaller than the tolerance and were not compared; or
    empty."""
    call: int = 0
    """Number of the call, from 1, of several in a row; 0 of a single one."""
    requirements: tuple[Measured, ...] = ()
    """Metrics that the caller requires or shows."""
    by_default: Verdict | None = None
    """The verdict by tolerance, if requirements decide; else None."""

    @property
    def ok(self) -> bool:
        """True if the output matches."""
        return self.verdict == "match"

    @property
    def title(self) -> str:
        """ "output 0", "output 0 ('logits')", "output 0 of call 3"."""
        name = f" ('{visible(self.name)}')" if self.name else ""
        return f"output {self.index}{name}" + (f" of call {self.call}" if self.call else "")

    def why(self) -> str:
        """Return a sentence: the difference and its place, or the reason of an inconclusive
        verdict."""
        if self.problem is not None:
            return f"{self.title}: {self.problem}"
        if self.verdict == "inconclusive" or (self.verdict == "differ" and self.reason):
            return f"{self.title}: {self.reason}"
        if self.verdict == "match" or self.metrics is None or self.tolerance is None:
            return ""
        return f"{self.title}: {_mismatch(self.metrics, self.tolerance)}"

    def remark(self) -> str:
        """Return a sentence about parts that were not compared, or an empty text."""
        return f"{self.title}{self.note}" if self.note else ""

    @property
    def plain_title(self) -> str:
        """`title` without the number of the call."""
        return replace(self, call=0).title

    def badness(self) -> tuple[bool, float]:
        """Return a key that orders outputs by error, the largest last."""
        snr = math.nan if self.metrics is None else self.metrics.snr_db
        return self.verdict == "differ", -snr if snr == snr else math.inf

    def row(self) -> list[str]:
        """Return the cells of a table with HEAD."""
        shape = "" if self.shape is None else _text.shape(self.shape)
        head = [f"{self.index} {self.name or ''}".strip(), self.dtype, shape]
        metrics = self.metrics
        if metrics is None:
            cell = "equal" if self.problem is None else "see below"
            return [*head, cell, *[""] * (len(FIGURES) - 1)]
        argmax = "" if metrics.argmax is None else f"{metrics.argmax:.2%}"
        limit = "" if self.tolerance is None else shown.limit_of(self.tolerance, metrics)
        mismatched = f"{metrics.mismatched:,}{shown.mark(metrics.not_judged, metrics.elements)}"
        numbers = [metrics.max_rel, metrics.max_ulp, metrics.cosine, metrics.snr_db]
        return [*head, mismatched, number(metrics.max_abs), limit, *map(number, numbers), argmax]


def _mismatch(metrics: ErrorMetrics, limits: Tolerance) -> str:
    """Return the difference, with its place and size, as a sentence."""
    actual, expected = differing(metrics.actual_at_worst, metrics.expected_at_worst)
    count = metrics.mismatched or 0
    text = (
        f"{count:,} of {_text.plural(metrics.elements, 'element')} "
        f"({count / max(metrics.elements, 1):.2%}) differ by more than "
        f"{limits.about()}; worst at {_at(metrics.worst)}: {actual}, expected {expected}; "
        f"first at {_at(metrics.first)}"
    )
    for name, (ours, theirs) in (("NaN", metrics.nan), ("infinite", metrics.inf)):
        if ours != theirs:
            text += f"; {ours:,} are {name}, expected {theirs:,}"
    return text


@dataclass(frozen=True)
class Comparison(DrawsOutputs, JudgedReport[OutputComparison]):
    """All outputs of a call compared with the expected ones.

    Prints as a table, in a notebook too; `bool(comparison)` is `comparison.ok`; iterates over its
    outputs.
    """

    ROWS = "outputs"

    outputs: tuple[OutputComparison, ...]
    problem: str | None = None
    """Difference in the number of outputs, or another that is of no output; None without one."""
    reason: str = "no outputs"
    """Reason for empty `outputs`."""
    actual: tuple[object, ...] = field(default=(), repr=False, compare=False)
    """The compared outputs, for plots; a comparison of `compare` has them."""
    expected: tuple[object, ...] = field(default=(), repr=False, compare=False)

    @property
    def verdict(self) -> Verdict:
        """ "match", "differ", or "inconclusive" if no output is conclusive."""
        if self.problem is not None:
            return "differ"
        return verdicts.combined(output.verdict for output in self.outputs)

    def __repr__(self) -> str:
        count = _text.plural(len(self.outputs), "output")
        return f"<executorch_c.testing.Comparison: {count}, {self.verdict}>"

    def __getitem__(self, index: int) -> OutputComparison:
        return self.outputs[index]

    def worst(self) -> OutputComparison | None:
        """Return the output with the largest error; of equal ones, the first."""
        outputs = [one for one in self.outputs if one.metrics is not None or not one.ok]
        return max(outputs, key=OutputComparison.badness, default=None)

    def noise_db(self) -> float:
        """Return the noise of the worst output relative to the signal, in decibel: the larger, the
        worse; infinite for an output without metrics."""
        worst = self.worst()
        return -math.inf if worst is None else worst.badness()[1]

    def figures(self) -> dict[str, float]:
        """Return the worst metrics over all outputs: max_abs, max_rel, max_ulp, snr_db, cosine;
        undefined metrics are omitted."""
        measured = [output.metrics for output in self.outputs if output.metrics is not None]
        figures = {}
        for name, worst in WORST.items():
            known = [value for one in measured if (value := getattr(one, name)) == value]
            if known:
                figures[name] = worst(known)
        return figures

    def problems(self) -> list[str]:
        """Return a sentence for each output that differs or is inconclusive: of several calls in
        a row for those of the first call, and the numbers of the other calls."""
        whole = [self.problem] if self.problem else []
        if not self.outputs and not whole:
            whole = [f"nothing was compared: {self.reason}"]
        wrong = [one for one in self.outputs if one.verdict == "differ"]
        wrong = wrong or [one for one in self.outputs if not one.ok]
        calls = sorted({one.call for one in wrong})
        whole += [one.why() for one in self.outputs if not one.ok and one.call in calls[:1]]
        more = ", ".join(map(str, calls[1:]))
        return [*whole, f"likewise in calls {more}"] if more else whole

    def first_call(self) -> int:
        """Return the number, from 1, of the first of several calls in a row that differs; 0 if
        there is none."""
        return next((one.call for one in self.outputs if one.verdict == "differ"), 0)

    def notes(self) -> list[str]:
        """Return a sentence for each matching output with parts that were not compared."""
        return [f"note: {output.remark()}" for output in self.outputs if output.note]

    def warn(self, stacklevel: int) -> None:
        """Give the notes as warnings."""
        for note in self.notes():
            warnings.warn(note, stacklevel=stacklevel)

    def requirements(self, case: str = "") -> Iterator[tuple[str, str, Measured]]:
        """Yield (case, output, metric) of each requirement: rows of `policies.summarized`."""
        for output in self.outputs:
            for one in output.requirements:
                yield case, output.plain_title, one

    def by_default(self) -> Verdict | None:
        """Return the verdict by tolerances; None without requirements."""
        if all(output.by_default is None for output in self.outputs):
            return None
        by_tolerance = (output.by_default or output.verdict for output in self.outputs)
        return "differ" if self.problem is not None else verdicts.combined(by_tolerance)

    def summary(self) -> str:
        """Return the verdict in words."""
        text = {
            "match": "outputs match",
            "differ": "outputs differ",
            "inconclusive": "inconclusive: the expected outputs are uninformative",
        }[self.verdict]
        return text + _policies.beside(self.by_default())

    def requirements_table(self) -> str:
        """Return a row for each requirement as text; empty without any."""
        return _policies.text_table(_policies.summarized(self.requirements()))

    def table(self) -> str:
        """Return a row for each output as text."""
        rows = [output.row() for output in self.outputs]
        return _text.table(rows, HEAD, width=_text.width(), optional=OPTIONAL)

    def __str__(self) -> str:
        remarks = [*self.problems(), *self.notes()]
        tables = [self.table(), self.requirements_table()]
        return "\n".join(filter(None, [self.summary(), *tables, *map(_text.wrapped, remarks)]))

    def _drawn(self, output: int | None = None) -> DrawnOutput:
        """Return an output to draw: that of an index, or the one with the largest error."""
        if self.outputs and not self.actual:
            raise NothingToDraw("this comparison has not kept its outputs: `compare` keeps them")
        return drawn_output(self, self.actual, self.expected, output)

    def heading(self) -> str:
        """Return the heading of its page."""
        return "Comparison of outputs"

    def html_table(self, caption: object) -> _html.Markup:
        """Return a row for each output as HTML."""
        rows = [output.row() for output in self.outputs]
        return _html.table(caption, HEAD, rows, TEXT_COLUMNS)

    def sections(self) -> Iterator[_html.Markup]:
        """Yield the parts of its page after the finding: outputs, and a picture of the worst."""
        yield self.html_table("outputs")
        yield from self.pictures("output")
        yield from _policies.html_table(_policies.summarized(self.requirements()))
        yield from (_html.tag("p", note) for note in self.notes())

    def _repr_html_(self) -> str:
        caption = _html.verdict(self.verdict, self.summary().capitalize())
        remarks = (_html.tag("p", line) for line in [*self.problems(), *self.notes()])
        required = _policies.html_table(_policies.summarized(self.requirements()))
        pictures = self.pictures("output") if self.verdict == "differ" else ()
        return _html.together(self.html_table(caption), *required, *remarks, *pictures)

    def as_dict(self) -> dict[str, Any]:
        """Return {"verdict", "ok", "problems", "notes", "outputs": [{"index", "dtype", "metrics":
        {...}, ...}]}."""
        outputs = []
        for output in self:
            row = {"ok": output.ok, **asdict(replace(output, tolerance=None))}
            if (limits := output.tolerance) is not None:
                row["tolerance"] = {
                    **{name: getattr(limits, name) for name in ("kind", "rtol", "atol")},
                    "about": limits.about(),
                }
            outputs.append(row)
        return {
            "verdict": self.verdict,
            "ok": self.ok,
            "by_default": self.by_default(),
            "problems": self.problems(),
            "notes": self.notes(),
            "outputs": outputs,
        }

    def rows_as_dicts(self) -> list[dict[str, object]]:
        """Return a row for each output: index, name, dtype, shape, verdict, its metrics."""
        rows = []
        for one in self:
            metrics = (
                {}
                if one.metrics is None
                else {
                    name: getattr(one.metrics, name) for name in ("elements", "mismatched", *WORST)
                }
            )
            rows.append(
                {
                    "output": one.index,
                    "name": one.name,
                    "dtype": one.dtype,
                    "shape": one.shape,
                    "verdict": one.verdict,
                    "why": one.why(),
                    **metrics,
                }
            )
        return rows


def of_call(part: Comparison, number: int) -> Comparison:
    """Return the comparison of one of several calls in a row, whose outputs have its number."""
    return replace(part, outputs=tuple(replace(one, call=number) for one in part.outputs))


def joined(parts: Sequence[Comparison]) -> Comparison:
    """Return the outputs of several calls as one comparison."""
    problems = [part.problem for part in parts if part.problem]
    outputs = [output for part in parts for output in part]
    return Comparison(tuple(outputs), "; ".join(problems) or None)


for _public in (OutputComparison, Comparison, ErrorMetrics):
    _public.__module__ = "executorch_c.testing"  # the public name
