"""Comparisons of outputs with expected ones: `executorch_c.testing.compare`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from executorch_c._arrays import Array, as_array
from executorch_c._render import html as _html
from executorch_c._render import text as _text
from executorch_c.compare import shown, tolerance, verdicts
from executorch_c.compare.metrics import ErrorMetrics, Index
from executorch_c.compare.tolerance import CallerTolerances, PerOutput, Tolerance
from executorch_c.compare.unresolved import describe_unresolved
from executorch_c.compare.verdicts import Verdict
from executorch_c.report import JudgedReport

if TYPE_CHECKING:
    from executorch_c.compare.verdicts import Judgement

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

Rule: TypeAlias = Callable[[int, Array, Array], Tolerance]
"""Function that returns the tolerance of an output, from its index, actual and expected values."""


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

    @property
    def ok(self) -> bool:
        """True if the output matches."""
        return self.verdict == "match"

    @property
    def title(self) -> str:
        """ "output 0", "output 0 ('logits')", "output 0 of call 3"."""
        name = f" ('{_text.visible(self.name)}')" if self.name else ""
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
class Comparison(JudgedReport[OutputComparison]):
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

    def summary(self) -> str:
        """Return the verdict in words."""
        return {
            "match": "outputs match",
            "differ": "outputs differ",
            "inconclusive": "inconclusive: the expected outputs are uninformative",
        }[self.verdict]

    def table(self) -> str:
        """Return a row for each output as text."""
        rows = [output.row() for output in self.outputs]
        return _text.table(rows, HEAD, width=_text.width(), optional=OPTIONAL)

    def __str__(self) -> str:
        remarks = [*self.problems(), *self.notes()]
        lines = [self.summary(), self.table(), *map(_text.wrapped, remarks)]
        return "\n".join(filter(None, lines))

    def heading(self) -> str:
        """Return the heading of its page."""
        return "Comparison of outputs"

    def html_table(self, caption: object) -> _html.Markup:
        """Return a row for each output as HTML."""
        rows = [output.row() for output in self.outputs]
        return _html.table(caption, HEAD, rows, TEXT_COLUMNS)

    def sections(self) -> Iterator[_html.Markup]:
        """Yield the parts of its page after the finding."""
        yield self.html_table("outputs")
        yield from (_html.tag("p", note) for note in self.notes())

    def _repr_html_(self) -> str:
        caption = _html.verdict(self.verdict, self.summary().capitalize())
        remarks = (_html.tag("p", line) for line in [*self.problems(), *self.notes()])
        return _html.together(self.html_table(caption), *remarks)

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


class MismatchError(AssertionError):
    """The outputs differ from the expected ones, or the comparison is inconclusive. `comparison`
    has the metrics; `actual` and `expected` are the flat lists of outputs."""

    def __init__(self, comparison: Comparison, actual: object = (), expected: object = ()) -> None:
        super().__init__(str(comparison))
        self.comparison = comparison
        self.actual, self.expected = tuple(flatten(actual)), tuple(flatten(expected))


def is_array(value: object) -> bool:
    """Return True if a value is an array or tensor of any library."""
    return hasattr(value, "__array__") or hasattr(value, "__dlpack__")


def _is_numeric(value: object) -> bool:
    return is_array(value) or isinstance(value, (int, float, complex))


def _brief(value: object) -> str:
    return f"an array ({type(value).__name__})" if is_array(value) else repr(value)


def flatten(values: object) -> list[object]:
    """Return outputs in order: of a single value, (nested) lists, tuples and values of dicts."""
    if isinstance(values, Mapping):
        return [leaf for value in values.values() for leaf in flatten(value)]
    if isinstance(values, (list, tuple)):
        return [leaf for value in values for leaf in flatten(value)]
    return [values]


def compare_output(
    index: int,
    actual: object,
    expected: object,
    rule: Rule,
    *,
    equal_nan: bool = True,
    check_dtype: bool = True,
    name: str | None = None,
) -> OutputComparison:
    """Return one output compared with the expected one, by the tolerance of `rule`."""
    if not (_is_numeric(actual) and _is_numeric(expected)):
        return _compare_objects(index, actual, expected, name)
    a, e = as_array(actual), as_array(expected)
    problem = None
    if a.shape != e.shape:
        problem = f"shape {_text.shape(a.shape)}, expected {_text.shape(e.shape)}"
        return OutputComparison(
            index, a.dtype.name, a.shape, "differ", "", None, None, problem, name
        )
    if check_dtype:
        problem = _dtype_problem(actual, expected, a, e)
    limits = rule(index, a, e)
    judgement: Judgement = verdicts.judge(a, e, limits, equal_nan)
    verdict: Verdict = "differ" if problem is not None else judgement.verdict
    note = ""
    if verdict == "match":
        note = shown.exempted(limits, a, e)
        if not note and limits.kind not in ("quantized", "grid"):
            note = describe_unresolved(a, e)
    return OutputComparison(
        index,
        a.dtype.name,
        a.shape,
        verdict,
        judgement.reason,
        limits,
        replace(judgement.metrics, not_judged=shown.not_judged(limits, a, e)),
        problem,
        name,
        note,
    )


def _dtype_problem(actual: object, expected: object, a: Array, e: Array) -> str | None:
    """Return a sentence if two arrays, or two numbers of Python, have different types."""
    arrays = is_array(actual), is_array(expected)
    if all(arrays) and a.dtype != e.dtype:
        return f"dtype {a.dtype.name}, expected {e.dtype.name}"
    if not any(arrays) and type(actual) is not type(expected):
        return f"type {type(actual).__name__}, expected {type(expected).__name__}"
    return None


def _compare_objects(
    index: int, actual: object, expected: object, name: str | None
) -> OutputComparison:
    """Return the comparison of outputs that are not both numbers: they match if they are equal."""
    same = type(actual) is type(expected) and actual == expected
    problem = None if same else f"{_brief(actual)}, expected {_brief(expected)}"
    verdict: Verdict = "match" if same else "differ"
    if same and expected is None:
        verdict = "inconclusive"
    reason = "the expected output is None" if expected is None else ""
    return OutputComparison(
        index, type(actual).__name__, None, verdict, reason, None, None, problem, name
    )


def count_problem(actual: int, expected: int) -> str | None:
    """Return a sentence if the number of outputs is wrong, else None."""
    return (
        None if actual == expected else f"{_text.plural(actual, 'output')}, expected {expected:,}"
    )


def names_of(values: object, path: str = "") -> list[str | None]:
    """Return the names of outputs in the order of `flatten`: keys of dicts ("logits", "cache.0");
    None for unnamed outputs."""
    if isinstance(values, Mapping):
        return [
            name
            for key, value in values.items()
            for name in names_of(value, f"{path}.{key}" if path else str(key))
        ]
    if isinstance(values, (list, tuple)):
        return [
            name
            for i, value in enumerate(values)
            for name in names_of(value, f"{path}.{i}" if path else "")
        ]
    return [path or None]


def default_rule(rtol: PerOutput, atol: PerOutput, names: Sequence[str | None] = ()) -> Rule:
    """Return the rule for arrays without a model; explicit tolerances follow assert_close.

    Raises ValueError for a negative tolerance.
    """
    return rule_of(CallerTolerances(rtol, atol), names)


def rule_of(limits: CallerTolerances, names: Sequence[str | None] = ()) -> Rule:
    """Return the rule of the caller's tolerances; of outputs without one, that by dtype."""

    def rule(index: int, actual: Array, expected: Array) -> Tolerance:
        mine = limits.of(index, names[index] if index < len(names) else None)
        if mine == (None, None):
            return tolerance.by_dtype(actual, expected)
        return tolerance.of_caller(actual, expected, *mine)

    return rule


def compare_flat(
    actual: Sequence[object],
    expected: Sequence[object],
    rule: Rule,
    *,
    equal_nan: bool = True,
    check_dtype: bool = True,
    names: Sequence[str | None] = (),
) -> Comparison:
    """Return flat outputs compared with expected ones, by the tolerances of `rule`."""
    rows = [
        compare_output(
            i,
            a,
            e,
            rule,
            equal_nan=equal_nan,
            check_dtype=check_dtype,
            name=names[i] if i < len(names) else None,
        )
        for i, (a, e) in enumerate(zip(actual, expected))
    ]
    return Comparison(tuple(rows), count_problem(len(actual), len(expected)))


def compare(
    actual: object,
    expected: object,
    *,
    rtol: PerOutput = None,
    atol: PerOutput = None,
    equal_nan: bool = True,
    check_dtype: bool = True,
    names: Sequence[str | None] | None = None,
) -> Comparison:
    """Compare outputs with expected ones.

    Args:
        actual: An output, or a list or tuple of them: arrays, torch tensors, numbers, str, None.
        expected: The same; nested lists, tuples and dicts (a model's own output structure) are
            read in order.
        rtol, atol: If one is set, an element matches if |actual - expected| <= atol +
            rtol * |expected|, exactly as in torch.testing.assert_close (the other one has that
            function's default). Default: rtol by dtype (float32 1.3e-6, float16 1e-3, bfloat16
            1.6e-2, float64 1e-12), atol in units of the output's scale around the element (float32
            1e-5, float16 8e-3, bfloat16 6e-2, float64 1e-12); integers and bool must be equal. The
            scale is the RMS of the output's slice, without mask values such as -1e9: a large
            element does not widen the tolerance of others, and small outputs have a small one.
            A dict sets tolerances by index or name of the output: {"logits": 1e-3}.
        equal_nan: NaN equals NaN in the same place.
        check_dtype: Outputs of another dtype differ, and numbers of another type (bool, int,
            float).
        names: Names of the outputs, for reports and tolerances. Default: keys of dicts in
            `expected`.

    Returns a `Comparison`, true if the outputs match. Its verdict is "inconclusive", and it is
    false, without outputs, or if the expected outputs are empty, constant, all zero or all NaN
    (unless rtol or atol is set: then only these decide). Raises TypeError for a value that is
    neither array nor number, ValueError for a negative tolerance.
    """
    flat = flatten(expected)
    known = names_of(expected) if names is None else names
    limits = CallerTolerances(rtol, atol)
    limits.check_names([*known, *[None] * (len(flat) - len(known))])
    return compare_flat(
        flatten(actual),
        flat,
        rule_of(limits, known),
        equal_nan=equal_nan,
        check_dtype=check_dtype,
        names=known,
    )


def of_call(part: Comparison, number: int) -> Comparison:
    """Return the comparison of one of several calls in a row, whose outputs have its number."""
    return replace(part, outputs=tuple(replace(one, call=number) for one in part.outputs))


def joined(parts: Sequence[Comparison]) -> Comparison:
    """Return the outputs of several calls as one comparison."""
    problems = [part.problem for part in parts if part.problem]
    outputs = [output for part in parts for output in part]
    return Comparison(tuple(outputs), "; ".join(problems) or None)


for _public in (OutputComparison, Comparison, MismatchError, compare):
    _public.__module__ = "executorch_c.testing"  # the public name
ErrorMetrics.__module__ = "executorch_c.testing"
