"""Requirements of the caller's on outputs: "cosine>=0.999", "logits:top5>=0.99", "p99_abs<=1e-2".

An output with a requirement has its verdict by it, in place of the tolerance's: "match" if all of
its requirements hold. A metric that is not defined (NaN) never holds. `METRICS` is the table of
metrics.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np

from executorch_c._arrays import Array
from executorch_c._render import html as _html
from executorch_c._render import text as _text
from executorch_c.compare.metrics import errors_of, measure, rms
from executorch_c.compare.scale import widened

Function: TypeAlias = "Callable[[Array, Array], float]"
"""Returns a metric of actual and expected values."""

RELATIONS: Final[dict[str, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
SYNTAX = "[OUTPUT:]METRIC>=VALUE or [OUTPUT:]METRIC<=VALUE"
_REQUIREMENT = re.compile(
    r"(?:(?P<output>.+):)?(?P<metric>[^:<>=]+)(?P<relation>>=|<=|>|<)(?P<limit>[^<>=]+)"
)
_PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d+)?)_abs")
_TOP = re.compile(r"top(\d{1,4})")
HEAD = ("requirement", "output", "value", "limit", "verdict", "case")


# ---- formulas ---------------------------------------------------------------------------------


def _rows(values: Array) -> Array:
    """Return values as rows of their last axis."""
    return values.reshape(-1, values.shape[-1]) if values.ndim else values.reshape(1, 1)


def _absolute(reduce: Callable[[Array], Any]) -> Function:
    """Return the metric of |actual - expected|; 0 of empty outputs."""
    return lambda a, e: float(reduce(errors_of(a, e))) if a.size else 0.0


def _psnr_db(actual: Array, expected: Array) -> float:
    """Return the ratio of the largest |expected| to the RMS error, in decibel."""
    noise = rms(widened(actual) - widened(expected))
    peak = float(np.abs(widened(expected)).max()) if expected.size else 0.0
    if not noise:
        return math.inf
    return 20 * math.log10(peak / noise) if peak else -math.inf


def _of_measure(name: str) -> Function:
    """Return a field of `ErrorMetrics` as a metric."""
    return lambda a, e: float(getattr(measure(a, e, math.inf, True), name))


def _equal(actual: Array, expected: Array) -> float:
    return float(np.mean(actual == expected)) if actual.size else 1.0


def _top(count: int) -> Function:
    """Return the share of rows whose largest expected element is among the `count` largest actual
    ones; NaN of rows that are not longer than that."""

    def share(actual: Array, expected: Array) -> float:
        a, e = _rows(actual), _rows(expected)
        if a.shape[-1] <= count or not a.size or a.dtype.kind == "c":
            return math.nan
        at = e.argmax(axis=-1)[:, None]
        larger = (a > np.take_along_axis(a, at, -1)).sum(axis=-1)
        return float(np.mean(larger < count))

    return share


def _kl(actual: Array, expected: Array) -> float:
    """Return KL(softmax(expected) || softmax(actual)) over the last axis, in nats, the mean of all
    rows."""
    if not actual.size or actual.dtype.kind == "c":
        return math.nan
    a, e = (_log_softmax(_rows(widened(values))) for values in (actual, expected))
    return float(np.mean(np.sum(np.exp(e) * (e - a), axis=-1)))


def _log_softmax(rows: Array) -> Array:
    shifted = rows - rows.max(axis=-1, keepdims=True)
    logarithms: Array = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return logarithms


# ---- metrics ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Metric:
    """A metric of an output."""

    name: str
    about: str
    """Formula, with a for actual and e for expected values."""
    function: Function
    is_better_large: bool | None = None
    """None of a caller's metric: its requirement says so."""
    is_share: bool = False
    """True for a share of rows: of several cases, the share in all their rows."""

    def __call__(self, actual: Array, expected: Array) -> float:
        """Return the metric; NaN if NaN or infinities of the two differ, or it is not defined.

        Raises TypeError for a caller's metric that returns no number.
        """
        if self.is_better_large is None:
            value = self.function(actual, expected)
            try:
                return float(value)
            except (TypeError, ValueError):
                raise TypeError(
                    f"metric '{self.name}' returns a {type(value).__name__}, expected a number"
                ) from None
        a, e = widened(actual), widened(expected)
        finite = np.isfinite(a) & np.isfinite(e)
        if not finite.all():
            same = (a == e) | (np.isnan(a) & np.isnan(e))
            if not same[~finite].all():
                return math.nan
            actual, expected = (np.where(finite, x, np.zeros_like(x)) for x in (actual, expected))
        with np.errstate(all="ignore"):
            return float(self.function(actual, expected))


def _table(*rows: Metric) -> dict[str, Metric]:
    return {row.name: row for row in rows}


METRICS: Final = _table(
    Metric("max_abs", "max |a - e|", _absolute(np.max), False),
    Metric("mean_abs", "mean |a - e|", _absolute(np.mean), False),
    Metric(
        "p99_abs",
        "99th percentile of |a - e|; likewise p50_abs, p99.9_abs, ...",
        _absolute(lambda x: np.percentile(x, 99)),
        False,
    ),
    Metric("rmse", "sqrt(mean |a - e|^2)", _absolute(rms), False),
    Metric("max_rel", "max |a - e| / |e| where e is not 0", _of_measure("max_rel"), False),
    Metric(
        "max_ulp",
        "largest number of representable values between a and e",
        _of_measure("max_ulp"),
        False,
    ),
    Metric("relative_l2", "|a - e| / |e| of the two as vectors", _of_measure("relative"), False),
    Metric(
        "sqnr_db",
        "20 log10(|e| / |a - e|), in dB, without mask values",
        _of_measure("snr_db"),
        True,
    ),
    Metric("psnr_db", "20 log10(max |e| / rmse), in dB", _psnr_db, True),
    Metric("cosine", "a . e / (|a| |e|), without mask values", _of_measure("cosine"), True),
    Metric("equal", "share of elements with a = e", _equal, True),
    Metric("top1", "share of rows (of the last axis) with the same argmax", _top(1), True, True),
    Metric(
        "top5",
        "share of rows whose argmax of e is among the 5 largest of a; likewise top3, ...",
        _top(5),
        True,
        True,
    ),
    Metric("kl", "mean KL(softmax(e) || softmax(a)) over the last axis, in nats", _kl, False),
)
"""Metrics by name."""
ALIASES: Final = {"snr_db": "sqnr_db", "sqnr": "sqnr_db", "psnr": "psnr_db", "argmax": "top1"}


def metric_of(name: str, metrics: Mapping[str, Function] | None = None) -> Metric:
    """Return a metric by name: the caller's, one of METRICS, pNN_abs or topN. Raises ValueError."""
    own = metrics or {}
    if name in own:
        return Metric(name, "the caller's", own[name])
    name = ALIASES.get(name, name)
    if name in METRICS:
        return METRICS[name]
    if found := _PERCENTILE.fullmatch(name):
        percent = float(found[1])
        function = _absolute(lambda errors: np.percentile(errors, percent))
        return replace(METRICS["p99_abs"], name=name, function=function)
    if (found := _TOP.fullmatch(name)) and int(found[1]):
        return replace(METRICS["top5"], name=name, function=_top(int(found[1])))
    raise ValueError(f"no metric {_text.unknown(name, [*own, *METRICS])}")


# ---- requirements -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Requirement:
    """A limit of a metric, or a metric of the caller's without a limit."""

    text: str
    output: str | None
    """Name or index of the output; None: all floating-point outputs, or all outputs of a program
    without one."""
    metric: Metric
    relation: str = ""
    """">=", "<=", ">" or "<"; empty without a limit."""
    limit: float = math.nan

    def holds(self, value: float) -> bool:
        """Return True if a value is within the limit; NaN is not."""
        return not self.relation or bool(RELATIONS[self.relation](value, self.limit))

    def is_about(self, index: int, name: str | None) -> bool:
        """Return True if the requirement names this output, or none."""
        return self.output is None or self.output in (name, str(index))


def parse(text: str, metrics: Mapping[str, Function] | None = None) -> Requirement:
    """Return the requirement of "[OUTPUT:]METRIC>=VALUE". Raises ValueError.

    Args:
        metrics: Metrics of the caller's by name.
    """
    match = _REQUIREMENT.fullmatch("".join(text.split()))
    if match is None:
        raise ValueError(f"requirement {text!r}: expected {SYNTAX}")
    metric = _metric_in(text, match["metric"], metrics)
    written = match["limit"]
    try:
        limit = float(re.sub("(?i)db$", "", written))
    except ValueError:
        limit = math.nan
    if math.isnan(limit):
        raise ValueError(f"requirement {text!r}: {written} is no number")
    relation = match["relation"]
    if metric.is_better_large is not None and metric.is_better_large != (relation[0] == ">"):
        better, other = ("larger", ">=") if metric.is_better_large else ("smaller", "<=")
        raise ValueError(
            f"requirement {text!r}: {better} is better of {metric.name}, expected {other}"
        )
    return Requirement(match[0], match["output"], metric, relation, limit)


def _metric_in(text: str, name: str, metrics: Mapping[str, Function] | None) -> Metric:
    try:
        return metric_of(name, metrics)
    except ValueError as error:
        raise ValueError(f"requirement {text!r}: {error}") from None


@dataclass(frozen=True)
class Measured:
    """A metric of one output, beside its limit."""

    requirement: str
    """As it is written; of a metric without a limit, its name."""
    metric: str
    value: float
    """NaN if the metric is not defined."""
    relation: str
    """">=", "<=", ">" or "<"; empty without a limit."""
    limit: float
    ok: bool
    """True if the value is within the limit, or has none."""
    rows: int = 0
    """Number of rows of a share; 0 of other metrics."""

    def why(self) -> str:
        """Return "cosine is 0.9981, >= 0.999 is required"."""
        value = "not defined (NaN)" if math.isnan(self.value) else f"{self.value:.6g}"
        return f"{self.metric} is {value}, {self.relation} {self.limit:g} is required"


@dataclass(frozen=True)
class Policies:
    """The requirements of a check, and metrics that it shows."""

    requirements: tuple[Requirement, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.requirements)

    def check_names(self, names: Sequence[str | None]) -> None:
        """Raise ValueError for a requirement on an unknown output."""
        known = [*map(str, range(len(names))), *filter(None, names)]
        for one in self.requirements:
            if one.output is not None and one.output not in known:
                raise ValueError(
                    f"requirement {one.text!r}: no output {_text.unknown(one.output, known)}"
                )

    def of(self, outputs: Sequence[tuple[int, str | None, Any]]) -> list[list[Requirement]]:
        """Return the requirements on each output, of (index, name, dtype or None)."""
        floats = [dtype is not None and dtype.kind in "fcV" for _, _, dtype in outputs]
        results = []
        for (index, name, dtype), is_float in zip(outputs, floats):
            fits = dtype is not None and (is_float or not any(floats))
            results.append(
                [
                    one
                    for one in self.requirements
                    if one.is_about(index, name) and (fits or one.output is not None)
                ]
            )
        return results


def policies_of(
    require: str | Iterable[str] | None, metrics: Mapping[str, Function] | None = None
) -> Policies:
    """Return the policies of the arguments `require` and `metrics`. Raises ValueError, and
    TypeError for metrics that are no functions."""
    texts = [require] if isinstance(require, str) else list(require or ())
    for name, function in (metrics or {}).items():
        if not callable(function):
            raise TypeError(
                f"`metrics[{name!r}]` is a {type(function).__name__}, expected a function"
            )
    requirements = [parse(text, metrics) for text in texts]
    limited = {one.metric.name for one in requirements}
    shown = [
        Requirement(name, None, metric_of(name, metrics))
        for name in metrics or ()
        if name not in limited
    ]
    return Policies((*requirements, *shown))


def measured(requirement: Requirement, actual: Array, expected: Array) -> Measured:
    """Return the metric of a requirement for one output."""
    value = requirement.metric(actual, expected)
    rows = 0
    if requirement.metric.is_share and actual.ndim and actual.shape[-1]:
        rows = actual.size // actual.shape[-1]
    return Measured(
        requirement.text,
        requirement.metric.name,
        value,
        requirement.relation,
        requirement.limit,
        requirement.holds(value),
        rows,
    )


# ---- several cases ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A requirement on an output over all cases: the worst value, or the share in all rows."""

    requirement: str
    output: str
    value: float
    limit: str
    """">= 0.999"; empty without a limit."""
    ok: bool
    case: str
    """Name of the case with the worst value."""

    def cells(self) -> list[str]:
        """Return the cells of a row under HEAD."""
        verdict = ("match" if self.ok else "differ") if self.limit else ""
        value = "NaN" if math.isnan(self.value) else f"{self.value:.6g}"
        return [self.requirement, self.output, value, self.limit, verdict, self.case]


def summarized(values: Iterable[tuple[str, str, Measured]]) -> list[Row]:
    """Return a row for each requirement and output, of (case, output, metric)."""
    groups: dict[tuple[str, str], list[tuple[str, Measured]]] = {}
    for case, output, one in values:
        groups.setdefault((one.requirement, output), []).append((case, one))
    return [_summary(output, group) for (_, output), group in groups.items()]


def _summary(output: str, group: Sequence[tuple[str, Measured]]) -> Row:
    sign = -1 if group[0][1].relation.startswith(">") else 1

    def badness(item: tuple[str, Measured]) -> float:
        return math.inf if math.isnan(item[1].value) else sign * item[1].value

    case, worst = max(group, key=badness)
    value, ok = worst.value, all(one.ok for _, one in group)
    if sum(one.rows for _, one in group) and worst.rows:
        value = share([one for _, one in group])
        ok = within(worst, value)
    limit = f"{worst.relation} {worst.limit:g}" if worst.relation else ""
    return Row(worst.requirement, output, value, limit, ok, case)


def share(parts: Sequence[Measured]) -> float:
    """Return a share in the rows of several cases; NaN if one is NaN."""
    return sum(one.value * one.rows for one in parts) / max(sum(one.rows for one in parts), 1)


def within(one: Measured, value: float) -> bool:
    """Return True if a value is within the limit of a metric."""
    return not one.relation or bool(RELATIONS[one.relation](value, one.limit))


def text_table(rows: Sequence[Row]) -> str:
    """Return the requirements as a table of text; empty without any."""
    if not rows:
        return ""
    return _text.table([row.cells() for row in rows], HEAD, width=_text.width(), optional=("case",))


def html_table(rows: Sequence[Row]) -> Iterator[_html.Markup]:
    """Yield the requirements as a table of HTML; nothing without any."""
    if rows:
        yield _html.table("Requirements", HEAD, [row.cells() for row in rows], 2)


def beside(by_default: str | None) -> str:
    """Return ", by requirement (by default: differ)"; empty without requirements."""
    return "" if by_default is None else f", by requirement (by default: {by_default})"
