"""The first divergence of a program from its PyTorch model, and its layer.

    from executorch_c.devtools import explain

    report = explain(model, [x], program="model.pte")
    print(report)         # the finding, and a table of the nodes around it
    report.first.module   # "features.3": the layer that is wrong on its own inputs

long: the docstring of explain is its reference
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from executorch_c import _extras
from executorch_c._delegation import DelegateAtLoad
from executorch_c._eager_caches import empty_caches, kept_caches
from executorch_c._names import visible
from executorch_c._order import model_first
from executorch_c._programs import ProgramSource, opened
from executorch_c.compare.limits import MIN_MATCHED_SHARE
from executorch_c.compare.nodes import NodeTolerances
from executorch_c.debug import places
from executorch_c.debug._exported import changed_row
from executorch_c.debug._float_model import about, limits_of, matches_of, quantization_against_float
from executorch_c.debug._graphs.run import MAX_BYTES, Run, as_tensors, run_with_graph
from executorch_c.debug._judge import Walk
from executorch_c.debug._matching.matches import Matches
from executorch_c.debug._matching.values import pair
from executorch_c.debug.failing import failed_row
from executorch_c.debug._many import Inputs, set_of, worst_call
from executorch_c.debug.pages import draw_explained
from executorch_c.debug.report import ErrorReport, NodeError, ReportedCase
from executorch_c.inspect.events import EventPlaces
from executorch_c.progress import Progress


@model_first
def explain(
    model: object,
    inputs: Inputs,
    *,
    program: ProgramSource,
    method: str = "forward",
    rtol: float | None = None,
    atol: float | None = None,
    kernels: Literal["default", "reference"] = "default",
    delegate_at_load: DelegateAtLoad = False,
    max_bytes: int = MAX_BYTES,
    title: str | None = None,
    progress: bool | None = None,
) -> ErrorReport:
    """Return the errors of a program against its PyTorch model, node by node.

    Every value of the program, inside delegates too, has two errors: against eager's value (the
    accumulated error), and against the value that eager computes from the *program's* inputs of
    that node (the local error). A node with a local error is a "source"; a later node whose error
    comes from its inputs alone is "propagated".

    Args:
        model: The nn.Module in eval mode; an ExportedProgram; an EdgeProgramManager without
            delegates; an ETRecord or its path; an ExecutorchProgramManager with an ETRecord. For a
            quantised program: the converted module. A float model is further away than rounding: a
            layer of a quantised program is a fault if its local error is more than quantising
            explains (an SQNR below 10 dB); `quantization_error` ranks what it does explain.
        inputs: The positional arguments of the model: tensors or arrays of the program's dtypes
            (they are cast for a reference of another float dtype). Those of many calls, as for
            `executorch_c.testing.input_set` ("inputs/", a generator): the case whose outputs have
            the largest error is explained, and `report.cases` has all.
        program: A path, bytes or file of a .pte, .ptn or .bpte, a Program, a loaded Method (whose
            state is used and changed), a BundledProgram, or a manager of the official flow.
        method: Name of the method. A module's `forward` is the reference of any method.
        rtol, atol: A node is out of tolerance if |actual - expected| > atol + rtol * |expected|.
            Default: the rounding noise of the node (`executorch_c/compare/tolerance.py` has the
            rule): another order of accumulation is within it, another formula is not.
        kernels: As for `Program.load_method`.
        delegate_at_load: Whether XNNPACK computes the operators that no delegate has, each
            separately. Default: the program runs as written, also where a Method was loaded with
            it: a note says so.
        max_bytes: Maximum bytes of the program's values in memory; a note of the report says if
            values were dropped.
        title: Name of the program in the report; default: its file's name.
        progress: Whether to show progress on stderr. Default: on a terminal.

    Returns an `ErrorReport`; its notes have the number of matched instructions. Its verdict is
    "differ" if a node is a source, or the outputs are out of the noise of the whole graph;
    "inconclusive" if too few nodes are matched, or no value can show an error (inputs of zeros). An
    interrupt (Ctrl-C) during the comparison returns the report so far. Where a program fails in the
    middle, the last row is the place, with the shapes of both sides. If every node is right, the
    graph of the export is compared with eager: its decompositions may change the results. Raises
    ImportError without torch and executorch, TypeError and ValueError for a reference that cannot
    be used.
    """
    _extras.require("explain", "torch", "executorch")
    limits = NodeTolerances(rtol, atol)
    source = opened(program)
    caches = kept_caches if source.method else empty_caches  # a Method has its own state
    cases, rows_of_cases = set_of(inputs), tuple[ReportedCase, ...]()
    if cases is not None:
        with Progress("explain", progress) as say:
            inputs, rows_of_cases = worst_call(
                cases, source, model, method, kernels, delegate_at_load, say
            )
    assert isinstance(inputs, Sequence)
    with Progress("explain", progress) as say, caches():
        say("exporting the model, running the program")
        run = run_with_graph(source, model, inputs, method, kernels, delegate_at_load, max_bytes)
        graph = run.graph
        arguments = graph.arguments(run.inputs)
        say("matching")
        quantization = quantization_against_float(run)
        if quantization is None:
            matches = pair(run.steps(), graph, arguments, run.outputs or (), say.count("matching"))
        else:
            matches = matches_of(run)
            limits = limits_of(quantization, limits)
            matches.notes.append(about(quantization))
        walk = Walk(graph, matches, limits, say.count("comparing"))
        rows = walk.run(arguments, run.outputs)
        if run.failure is not None:
            rows.append(failed_row(run.failure, run.trace, run.view, graph, matches))
        elif not any(row.verdict == "source" for row in rows) and not walk.interrupted:
            say("comparing the export with the model")
            changed = changed_row(graph, model, as_tensors(inputs), walk.noise)
            rows = rows if changed is None else [changed, *rows]
        rows = [replace(row, index=i) for i, row in enumerate(rows)]
    notes = [] if cases is None else cases.notes()
    report = _report(run, matches, walk, rows, title, rows_of_cases, notes)
    seen = EventPlaces(run.trace.events)
    draw_explained(report, source, run.method, graph, matches, seen)
    if report.verdict == "differ":
        places.keep(report, run, walk.places)
    return report


def _report(
    run: Run,
    matches: Matches,
    walk: Walk,
    rows: Sequence[NodeError],
    title: str | None,
    cases: tuple[ReportedCase, ...],
    more: Sequence[str],
) -> ErrorReport:
    head = f"{title or run.title}, method '{visible(run.method)}', compared with PyTorch"
    notes = [matches.summary(), *matches.notes, *run.notes(), *more]
    notes += walk.unshown() if all(row.ok for row in rows) else ()
    reason = ""
    if walk.interrupted or matches.interrupted:
        reason = "interrupted: the nodes so far are within tolerance"
        notes.insert(0, f"interrupted after {len(rows)} nodes")
    elif matches.coverage < MIN_MATCHED_SHARE and not walk.ends:
        reason = f"too little could be compared ({matches.summary()})"
    else:
        reason = walk.uninformative()
    report = ErrorReport(head, tuple(rows), tuple(notes), reason, cases=cases)
    report.set_origins(program=run.origin)
    return report
