"""A CheckResult as HTML: a fragment for notebooks, a page for files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c import _html, _pictures, _text
from executorch_c._arrays import as_array
from executorch_c.check.result import (
    SEVERAL,
    TEXT_COLUMNS,
    CheckedCase,
    CheckResult,
    worst_elements,
)
from executorch_c.compare.arrays import HEAD as OUTPUT_HEAD
from executorch_c.compare.arrays import Comparison, OutputComparison, differing

if TYPE_CHECKING:
    from executorch_c._arrays import Array

STRIP = (48, 320)
"""Largest rows and columns of the picture of an output's error."""


STYLES = {"match": "good", "differ": "bad", "error": "bad"}
"""Class of a verdict's text; others have none."""


def _verdict(verdict: str, text: str) -> str:
    return f'<span class="{STYLES.get(verdict, "")}">{escape(text)}</span>'


def fragment(result: CheckResult) -> str:
    """The summary, the table of cases, and what is wrong."""
    rows = [case.row() for case in result.cases]
    head = _verdict(result.verdict, result.summary())
    text = _html.table(head, result.head(), rows, TEXT_COLUMNS)
    return text + "".join(f"<p>{escape(line)}</p>" for line in result.remarks())


def page(result: CheckResult, title: str | None = None) -> str:
    """A page of its own: the fragment, facts, and each case with its outputs."""
    facts = _html.table("What was checked", ("", ""), result.facts.items(), 2)
    sections = [fragment(result), facts]
    shown = result.failures[:SEVERAL]
    sections += [_case(case, case in shown) for case in sorted(result.cases, key=_order)]
    return _html.page(title or f"Check of {result.label}", *sections)


Part = tuple[str, Comparison, Sequence[object], Sequence[object]]
"""A heading (may be empty), and outputs beside what they should be."""


def comparisons_page(title: str, *parts: Part) -> str:
    """A page of outputs beside what they should be, call by call."""
    return _html.page(title, *map(_compared, parts))


def _compared(part: Part) -> str:
    name, comparison, actual, expected = part
    text = (f"<h2>{escape(name)}</h2>" if name else "") + outputs(comparison)
    text += "".join(f"<p>{escape(problem)}</p>" for problem in comparison.problems())
    return text + "".join(where(*one) for one in _wrong(comparison, actual, expected))


def _order(case: CheckedCase) -> bool:
    return case.ok


def _case(case: CheckedCase, opened: bool) -> str:
    """One case, open or folded."""
    head = f"{escape(case.name)} &nbsp; {_verdict(case.verdict, case.verdict)} &nbsp; "
    inside = "".join(f"<p>{escape(problem)}</p>" for problem in case.problems())
    inside += _html.table("Inputs", ("", "name", "dtype", "shape", "values"), _inputs(case), 5)
    if case.comparison is not None:
        inside += outputs(case.comparison)
        for one in _wrong(case.comparison, case.actual, case.expected):
            inside += where(*one)
    if case.to_float is not None:
        caption = "against the model before quantising"
        inside += _table(caption, case.to_float)
    state = " open" if opened else ""
    summary = f"<summary><b>{head}</b>{escape(case.shapes())}</summary>"
    return f"<details{state}>{summary}{inside}</details>"


def _inputs(case: CheckedCase) -> Iterator[list[object]]:
    for number, call in enumerate(case.inputs):
        name = f"call {number}" if len(case.inputs) > 1 else ""
        for i, value in enumerate(call):
            yield _text.value_line(i, name, value)


def outputs(comparison: Comparison) -> str:
    """Return the table of a call's outputs."""
    return _table(_verdict(comparison.verdict, comparison.verdict), comparison)


def _table(caption: str, comparison: Comparison) -> str:
    return _html.table(f"Outputs: {caption}", OUTPUT_HEAD, [one.row() for one in comparison], 3)


def _wrong(
    comparison: Comparison, actual: Sequence[object], expected: Sequence[object]
) -> Iterator[tuple[OutputComparison, Array, Array]]:
    """The outputs that differ and can be measured, with both sides."""
    for output, ours, theirs in zip(comparison.outputs, actual, expected):
        if output.verdict == "differ" and output.metrics is not None:
            yield output, as_array(ours), as_array(theirs)


def where(output: OutputComparison, actual: Array, expected: Array) -> str:
    """Where an output differs: elements, and a picture of the error where there is matplotlib."""
    rows = []
    for at, (index, ours, theirs) in enumerate(worst_elements(actual, expected, output)):
        metrics = output.metrics
        place = "first" if metrics and index == metrics.first and at == 0 else ""
        error = abs(ours - theirs)
        rows.append([place, str(index), *differing(ours, theirs), f"{error:.7g}"])
    found = _html.table(f"Output {output.index}: the first difference and the largest ones",
                        ("", "index", "program", "expected", "|difference|"), rows, 2)  # fmt: skip
    return found + picture(output, actual, expected)


def picture(output: OutputComparison, actual: Array, expected: Array) -> str:
    """Where the error is (the output as rows of its last axis) and how large, as a PNG inside of
    HTML; empty without matplotlib or without numbers."""
    errors = _errors(actual, expected)
    shown = errors[np.isfinite(errors) & (errors > 0)]
    if not shown.size or not errors.ndim:
        return ""
    try:
        figure = _pictures.figure(figsize=(9.5, 2.6), layout="constrained", dpi=110)
    except ImportError:
        return ""
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
    return _pictures.image(figure, f"error of output {output.index}", "png")


def _errors(actual: Array, expected: Array) -> Array:
    """|difference|; infinite where only one of both is finite."""
    with np.errstate(all="ignore"):
        errors = np.abs(actual.astype("complex128") - expected.astype("complex128"))
    same = np.isnan(actual) & np.isnan(expected) if actual.dtype.kind in "fcV" else False
    found: Array = np.where(same, 0.0, np.where(np.isnan(errors), np.inf, errors))
    return found


def _blocks(rows: Array) -> Array:
    """A picture of at most STRIP pixels: the largest of each block."""
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
    shown = axes.imshow(image, aspect="auto", interpolation="nearest", extent=extent,
                        norm=LogNorm(top * 1e-6, top), cmap="magma")  # fmt: skip
    bar = figure.colorbar(shown, ax=axes)
    bar.ax.tick_params(labelsize=7)
    axes.set_xlabel("last axis", fontsize=8)
    axes.set_ylabel("all others" if errors.ndim > 1 else "", fontsize=8)
    for axis, size in ((axes.xaxis, rows.shape[1]), (axes.yaxis, rows.shape[0])):
        axis.get_major_locator().set_params(integer=True)
        if size == 1:
            axis.set_ticks([])
    axes.set_title("|difference| by place", fontsize=9)
