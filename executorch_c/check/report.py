"""A CheckResult as HTML: a fragment for notebooks, a page for files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c._arrays import as_array
from executorch_c._render import figures as _figures
from executorch_c._render import text as _text
from executorch_c._render.html import Markup, page, table, tag, together, verdict
from executorch_c.check.engines import OfficialRun
from executorch_c.compare import policies, verdicts
from executorch_c.compare.comparison import Comparison, OutputComparison, differing
from executorch_c.plotting import outputs as _output_plots
from executorch_c.report import about_table

if TYPE_CHECKING:
    from executorch_c._arrays import Array
    from executorch_c.check.result import CheckedCase, CheckResult
    from executorch_c.report import Origin

MAX_SHOWN_CASES = 3
"""Maximum number of cases that str() prints in full; all are in the table and in the page."""
TEXT_COLUMNS = 5
"""Columns of the table of cases that are text."""


def fragment(result: CheckResult) -> Markup:
    """Return the summary, the table of cases, and the errors."""
    remarks = (tag("p", line) for line in result.remarks())
    required = policies.html_table(result.requirements())
    differs = any(case.actual for case in result.failures)
    pictures = result.pictures("output") if differs else ()
    cases = _cases(result, verdict(result.verdict, result.summary()))
    return together(cases, *required, *remarks, *pictures)


def _cases(result: CheckResult, caption: object) -> Markup:
    return table(caption, result.head(), result.rows(), TEXT_COLUMNS)


def sections(result: CheckResult) -> Iterator[Markup]:
    """Yield the parts of its page: cases, each case with its outputs, facts."""
    shown = result.failures[:MAX_SHOWN_CASES]
    yield _cases(result, "cases")
    yield from policies.html_table(result.requirements())
    for case in sorted(result.cases, key=_order):
        yield _case(case, case in shown)
    if not result.failures:
        yield result.power.section()
    yield together(tag("h2", "What was checked"), table("", ("", ""), result.facts.items(), 2))


Part = tuple[str, Comparison, Sequence[object], Sequence[object]]
"""A heading (may be empty), outputs, and the expected ones."""


def comparisons_page(title: str, *parts: Part, origin: Origin | None = None) -> str:
    """Return a page of outputs compared with expected ones, call by call."""
    whole = verdicts.combined(comparison.verdict for _, comparison, _, _ in parts)
    about = [about_table("program", origin)] if origin is not None else []
    return page(title, tag("p", verdict(whole)), *map(_compared, parts), *about)


def _compared(part: Part) -> Markup:
    name, comparison, actual, expected = part
    problems = (tag("p", problem) for problem in comparison.problems())
    places = (where(*one) for one in _wrong(comparison, actual, expected))
    return together(tag("h2", name) if name else "", outputs(comparison), *problems, *places)


def _order(case: CheckedCase) -> bool:
    return case.ok


def _case(case: CheckedCase, is_open: bool) -> Markup:
    """Return a case, open or closed."""
    inside = [tag("p", problem) for problem in case.problems()]
    inside.append(table("Inputs", ("", "name", "dtype", "shape", "values"), _inputs(case), 5))
    if case.comparison is not None:
        inside.append(outputs(case.comparison))
        wrong = _wrong(case.comparison, case.actual, case.expected)
        inside += [where(*one, is_drawn=is_open) for one in wrong]
    if case.official is not None:
        inside += _official(case.official)
    if case.to_float is not None:
        inside.append(case.to_float.html_table("Outputs: against the model before quantising"))
    head = tag("b", case.name, NARROW, verdict(case.verdict), NARROW)
    return tag("details", tag("summary", head, case.shapes()), *inside, open=is_open)


def _official(run: OfficialRun) -> Iterator[Markup]:
    """Yield the finding of the official runtime: its problems, and its outputs if any differs."""
    yield tag("p", "In the official runtime: ", verdict(run.verdict))
    yield from (tag("p", problem) for problem in run.problems())
    if run.comparison is not None and not run.ok:
        yield run.comparison.html_table("Outputs of the official runtime")


NARROW = Markup(" &nbsp; ")


def _inputs(case: CheckedCase) -> Iterator[list[object]]:
    for number, call in enumerate(case.inputs):
        name = f"call {number + 1}" if len(case.inputs) > 1 else ""
        for i, value in enumerate(call):
            yield _text.value_line(i, name, value)


def outputs(comparison: Comparison) -> Markup:
    """Return the table of a call's outputs."""
    return comparison.html_table(together("Outputs: ", verdict(comparison.verdict)))


def _wrong(
    comparison: Comparison, actual: Sequence[object], expected: Sequence[object]
) -> Iterator[tuple[OutputComparison, Array, Array]]:
    """Yield the outputs that differ and can be measured, with both sides."""
    for output, ours, theirs in zip(comparison.outputs, actual, expected):
        if output.verdict == "differ" and output.metrics is not None:
            yield output, as_array(ours), as_array(theirs)


def where(
    output: OutputComparison, actual: Array, expected: Array, is_drawn: bool = True
) -> Markup:
    """Return where an output differs: elements, and a picture, unless many others have one."""
    rows = []
    for at, (index, ours, theirs) in enumerate(worst_elements(actual, expected, output)):
        metrics = output.metrics
        place = "first" if metrics and index == metrics.first and at == 0 else ""
        error = abs(ours - theirs)
        rows.append([place, str(index), *differing(ours, theirs), f"{error:.7g}"])
    body = table(
        f"Output {output.index}: the first difference and the largest ones",
        ("", "index", "program", "expected", "|difference|"),
        rows,
        2,
    )
    return together(body, picture(output, actual, expected)) if is_drawn else body


def worst_elements(
    actual: Array, expected: Array, output: OutputComparison, count: int = 5
) -> list[tuple[tuple[int, ...], Any, Any]]:
    """Return (index, actual, expected) of the first and the worst elements out of tolerance."""
    metrics, limits = output.metrics, output.tolerance
    if metrics is None or limits is None or output.verdict != "differ":
        return []
    wide = "complex128" if "c" in (actual.dtype.kind, expected.dtype.kind) else "float64"
    a, e = actual.astype(wide), expected.astype(wide)
    with np.errstate(all="ignore"):
        excess = np.abs(a - e) - np.where(np.isfinite(limits.limit), limits.limit, 0)
    differ = ~((a == e) | (np.isnan(a) & np.isnan(e)))
    excess = np.where(np.isnan(excess), np.where(differ, np.inf, -np.inf), excess).ravel()
    count = min(count, metrics.mismatched or excess.size, excess.size)
    order = np.argpartition(-excess, count - 1)[:count]
    order = order[np.argsort(-excess[order], kind="stable")]
    indices: list[tuple[int, ...]] = [metrics.first] if metrics.first is not None else []
    for flat in order:
        index = tuple(int(i) for i in np.unravel_index(int(flat), a.shape))
        if index not in indices:
            indices.append(index)
    return [(index, a[index].item(), e[index].item()) for index in indices]


def picture(output: OutputComparison, actual: Array, expected: Array) -> Markup:
    """Return an output beside the expected one as an image; a sentence without matplotlib."""
    limit = None if output.tolerance is None else output.tolerance.limit
    try:
        drawn = _output_plots.output(actual, expected, limit=limit)
    except ImportError as error:
        return tag("p", f"No pictures: {error}")
    return _figures.image(drawn, f"error of output {output.index}", "png")
