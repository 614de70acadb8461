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
from executorch_c.report import about_table

if TYPE_CHECKING:
    from executorch_c._arrays import Array
    from executorch_c.check.result import CheckedCase, CheckResult
    from executorch_c.report import Origin

MAX_SHOWN_CASES = 3
"""Maximum number of cases that str() prints in full; all are in the table and in the page."""
TEXT_COLUMNS = 5
"""Columns of the table of cases that are text."""
STRIP = (48, 320)
"""Largest rows and columns of the picture of an output's error."""


def fragment(result: CheckResult) -> Markup:
    """Return the summary, the table of cases, and the errors."""
    remarks = (tag("p", line) for line in result.remarks())
    required = policies.html_table(result.requirements())
    return together(_cases(result, verdict(result.verdict, result.summary())), *required, *remarks)


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
        inside += [where(*one) for one in _wrong(case.comparison, case.actual, case.expected)]
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


def where(output: OutputComparison, actual: Array, expected: Array) -> Markup:
    """Return where an output differs: elements, and a picture of the error (with matplotlib)."""
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
    return together(body, picture(output, actual, expected))


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
    """Return where the error is (the output as rows of its last axis) and how large, as a PNG in
    HTML; empty without matplotlib or without numbers."""
    errors = _errors(actual, expected)
    shown = errors[np.isfinite(errors) & (errors > 0)]
    if not shown.size or not errors.ndim:
        return Markup()
    try:
        figure = _figures.figure(figsize=(9.5, 2.6), layout="constrained", dpi=110)
    except ImportError:
        return Markup()
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    _draw_strip(figure, left, errors, float(shown.max()))
    logs = np.log10(shown)
    right.hist(logs, bins=min(60, max(5, shown.size // 4)), color="#5b7aa8")
    limits = np.asarray(0.0 if output.tolerance is None else output.tolerance.limit)
    limit = float(np.max(limits, where=np.isfinite(limits), initial=0.0))
    if limit > 0:
        right.axvline(np.log10(limit), color="#b3261e", label=f"largest limit {limit:.2g}")
        right.legend(fontsize=7, frameon=False)
    right.set_xlabel("log10 |difference|", fontsize=8)
    right.set_ylabel("elements", fontsize=8)
    right.yaxis.get_major_locator().set_params(integer=True)
    for axes in (left, right):
        axes.tick_params(labelsize=7)
    return _figures.image(figure, f"error of output {output.index}", "png")


def _errors(actual: Array, expected: Array) -> Array:
    """Return |difference|; infinite where only one of both is finite."""
    with np.errstate(all="ignore"):
        errors = np.abs(actual.astype("complex128") - expected.astype("complex128"))
    same = np.isnan(actual) & np.isnan(expected) if actual.dtype.kind in "fcV" else False
    sizes: Array = np.where(same, 0.0, np.where(np.isnan(errors), np.inf, errors))
    return sizes


def _blocks(rows: Array) -> Array:
    """Return a picture of at most STRIP pixels: the largest element of each block."""
    for axis, most in enumerate(STRIP):
        if rows.shape[axis] > most:
            edges = np.linspace(0, rows.shape[axis], most, endpoint=False).astype(int)
            rows = np.maximum.reduceat(rows, edges, axis=axis)
    return rows


def _draw_strip(figure: Any, axes: Any, errors: Array, top: float) -> None:
    from matplotlib.colors import LogNorm

    rows = errors.reshape(1, -1) if errors.ndim == 1 else errors.reshape(-1, errors.shape[-1])
    image = np.clip(_blocks(rows), top * 1e-6, top)
    extent = (-0.5, rows.shape[1] - 0.5, rows.shape[0] - 0.5, -0.5)
    shown = axes.imshow(
        image,
        aspect="auto",
        interpolation="nearest",
        extent=extent,
        norm=LogNorm(top * 1e-6, top),
        cmap="magma",
    )
    bar = figure.colorbar(shown, ax=axes)
    bar.ax.tick_params(labelsize=7)
    axes.set_xlabel("last axis", fontsize=8)
    axes.set_ylabel("all others" if errors.ndim > 1 else "", fontsize=8)
    for axis, size in ((axes.xaxis, rows.shape[1]), (axes.yaxis, rows.shape[0])):
        axis.get_major_locator().set_params(integer=True)
        if size == 1:
            axis.set_ticks([])
    axes.set_title("|difference| by place", fontsize=9)
