"""Many cases in a comparison of nodes: the worst one, for `explain` and `compare_programs`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from executorch_c._arrays import as_array
from executorch_c._core import Error
from executorch_c._eager_caches import empty_caches
from executorch_c._input_sets import InputCase, InputSet, Source, input_set, is_set
from executorch_c._programs import ProgramSource, method_info, method_of, name_in, opened
from executorch_c.compare.metrics import measure_size
from executorch_c.compare.requiring import settled
from executorch_c.debug.report import ErrorReport, ReportedCase

if TYPE_CHECKING:
    from executorch_c._delegation import DelegateAtLoad
    from executorch_c._types import MethodInfo

Inputs: TypeAlias = "Sequence[object] | Source"
"""Inputs of one call, or those of many (`is_set`)."""


def set_of(inputs: Inputs) -> InputSet | None:
    """Return inputs of many calls as a set; None for those of one call."""
    return input_set(inputs) if is_set(inputs) else None


def calls(cases: InputSet, program: ProgramSource, method: str) -> Iterator[tuple[str, list[Any]]]:
    """Yield the name and the arguments of each case."""
    source = opened(program)
    name = name_in(source, method)
    about = method_info(source.program, name)
    for case in cases.checked(lambda case: case.for_program(about)):
        yield case.name, _arguments(case, about)


def _arguments(case: InputCase, about: MethodInfo) -> list[Any]:
    if case.path is not None or isinstance(case.value, Mapping):
        return case.for_program(about)
    return list(case.value) if isinstance(case.value, (tuple, list)) else [case.value]


def exported_once(model: object, inputs: Sequence[object]) -> object:
    """Return the ExportedProgram of a module, so that not each case exports it; other references
    as they are."""
    import torch

    if not isinstance(model, torch.nn.Module):
        return model
    from executorch_c.debug._graphs.reference import reference_of
    from executorch_c.debug._graphs.run import as_tensors

    graph = reference_of(model, as_tensors(inputs), "forward")
    return graph.program if graph.source is None else graph.source


def of_inputs(
    inputs: Inputs,
    program: ProgramSource,
    method: str,
    compare: Callable[[Sequence[Any]], ErrorReport],
) -> ErrorReport:
    """Return the report of one call; of many the report of the worst case, one that differs with
    the largest error of its outputs, with a row for each case."""
    cases = set_of(inputs)
    if cases is None:
        assert isinstance(inputs, Sequence)
        return compare(inputs)
    worst, worst_key, rows = None, (False, -math.inf), list[ReportedCase]()
    for name, values in calls(cases, program, method):
        report = compare(values)
        error = report.output_error()
        row = ReportedCase(name, report.verdict, error, report.required)
        key = row.verdict == "differ", error
        if worst is None or key > worst_key:
            worst, worst_key = report, key
            shown = len(rows)
        rows.append(row)
    assert worst is not None  # an empty set raises
    title = f"{worst.title}, case {rows[shown].name}"
    notes = (*worst.notes, *cases.notes())
    return worst.changed(title=title, notes=notes, cases=tuple(_settled(rows)))


def _settled(rows: Sequence[ReportedCase]) -> list[ReportedCase]:
    """Return cases with requirements on shares (top5) decided by the rows of all."""
    known = iter(settled([row.required for row in rows if row.required is not None]))
    results = []
    for row in rows:
        if row.required is not None:
            required = next(known)
            row = replace(row, required=required, verdict=required.verdict)
        results.append(row)
    return results


def worst_call(
    cases: InputSet,
    program: ProgramSource,
    model: object,
    method: str,
    kernels: Any,
    delegate_at_load: DelegateAtLoad,
    say: Callable[[str], None],
) -> tuple[list[Any], tuple[ReportedCase, ...]]:
    """Return the arguments of the case whose outputs have the largest error against the model, and
    a row for each case. A case in which the program raises is the worst; before errors of floats
    come outputs of integers and bools that differ.

    Raises the exceptions of exporting the model.
    """
    from torch.utils._pytree import tree_leaves

    from executorch_c.debug._costs import FloatModel
    from executorch_c.debug._graphs.reference import reference_of
    from executorch_c.debug._graphs.run import as_tensors

    loaded = method_of(program, method, kernels, "each" if delegate_at_load else False)
    graph, rows, worst = None, list[ReportedCase](), None
    largest = (False, -math.inf)
    for name, inputs in calls(cases, program, method):
        say(f"case {name}")
        arguments = as_tensors(inputs)
        graph = graph or reference_of(model, arguments, method)
        flat = tree_leaves(arguments)
        with empty_caches():
            expected = FloatModel(graph.unrolled(flat), graph.arguments(flat)).outputs
        loaded.reset()
        key = _badness(loaded, flat, expected)
        rows.append(ReportedCase(name, "", key[1]))
        if worst is None or key > largest:
            worst, largest = inputs, key
    loaded.reset()
    assert worst is not None  # an empty set raises
    return worst, tuple(rows)


def _badness(method: Any, inputs: Sequence[Any], expected: Sequence[Any]) -> tuple[bool, float]:
    """Return a key that orders cases, the worst last: whether outputs of integers or bools differ,
    and the largest relative error of all."""
    try:
        outputs = method.execute(list(inputs))
    except Error:
        return True, math.inf
    arrays = [as_array(one) for one in outputs if isinstance(one, np.ndarray)]
    if [one.shape for one in arrays] != [one.shape for one in expected]:
        return True, math.inf
    pairs = list(zip(arrays, expected))
    whole = [(a, e) for a, e in pairs if e.dtype.kind in "biu"]
    differ = any(not np.array_equal(a, e) for a, e in whole)
    return differ, max((measure_size(a, e).relative for a, e in pairs), default=0.0)
