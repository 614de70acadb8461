"""Where a program starts to differ from its PyTorch model, and which layer is the source.

    from executorch_c.devtools import explain

    report = explain("model.pte", model, [x])
    print(report)         # the finding, and a table of the nodes around it
    report.first.module   # "features.3": the layer that is wrong itself

long: the docstring of explain says all that it does
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from executorch_c import _extras
from executorch_c._programs import ProgramSource
from executorch_c.debug._graphs.run import MAX_BYTES, Run, run_beside
from executorch_c.debug._judge import Walk
from executorch_c.debug._local import Limits
from executorch_c.debug._matching.matches import Matches
from executorch_c.debug._matching.values import pair
from executorch_c.debug.report import ErrorReport, NodeError
from executorch_c.progress import Progress

LEAST_COVERAGE = 0.25
"""Share of matched nodes below which a report without a fault is inconclusive."""


def explain(
    program: ProgramSource,
    model: object,
    inputs: Sequence[object],
    *,
    method: str = "forward",
    rtol: float | None = None,
    atol: float | None = None,
    kernels: Literal["default", "reference"] = "default",
    max_bytes: int = MAX_BYTES,
    title: str | None = None,
    progress: bool | None = None,
) -> ErrorReport:
    """Run a program and its PyTorch model side by side, and find the first divergence.

    Every value that the program computes, inside delegates too, is compared twice: with eager's
    value (the accumulated error), and with what eager computes from the values that the *program*
    had before (the local error). A node with a local error is a "source"; a node after it whose
    result is off only because its inputs are is "propagated". That says the same as running the
    program's operators on eager's inputs, and works inside delegates, too.

    Args:
        program: A path, bytes or file of a .pte or .bpte, a Program, a loaded Method (whose state
            is used and changed), a BundledProgram, or a manager of the official flow.
        model: The nn.Module in eval mode; what torch.export.export returned; an EdgeProgramManager
            that no backend has taken parts of; an ETRecord or its path; an
            ExecutorchProgramManager that has one. For a quantised program this is the converted
            module (for a comparison with the float model see `quantization_error`).
        inputs: The positional arguments of the model: tensors or arrays, as the program takes them
            (a reference of another float dtype gets them cast).
        method: Which one to run. A module's `forward` stands for any.
        rtol, atol: A node is off where |actual - expected| > atol + rtol * |expected|. Default:
            by what rounding does to the node (`executorch_c/compare/tolerance.py` has the rule):
            another order of accumulation stays within it, another formula does not.
        kernels: As for `Program.load_method`.
        max_bytes: Most bytes of the program's values that are kept; a report says when more were
            needed.
        title: Name of the program in the report; default: its file's name.
        progress: Whether to show progress on stderr. Default: on a terminal.

    Returns an `ErrorReport`; its notes say how many instructions were matched. Its verdict is
    "differ" where a node is a source, or the outputs are off by more than rounding explains;
    "inconclusive" where too little could be matched to tell. An interrupt (Ctrl-C) during the
    comparison ends it with the report so far. Raises ImportError without torch and executorch,
    TypeError and ValueError for a reference that cannot be used.
    """
    _extras.require("explain", "torch", "executorch")
    limits = Limits(rtol, atol)
    with Progress("explain", progress) as say:
        say("exporting the model, running the program")
        run = run_beside(program, model, inputs, method, kernels, max_bytes)
        graph = run.graph
        arguments = graph.arguments(run.inputs)
        say("matching")
        matches = pair(run.steps(), graph, arguments, run.outputs, say.count("matching"))
        walk = Walk(graph, matches, limits, say.count("comparing"))
        rows = walk.run(arguments, run.outputs)
    return _report(run, matches, walk, rows, title)


def _report(
    run: Run, matches: Matches, walk: Walk, rows: Sequence[NodeError], title: str | None
) -> ErrorReport:
    head = f"{title or run.title}, method '{run.method}', compared with PyTorch"
    notes = [matches.summary(), *matches.notes, *run.graph.notes, *run.dropped()]
    reason = ""
    if walk.interrupted or matches.interrupted:
        reason = "interrupted: the nodes so far are within tolerance"
        notes.insert(0, f"interrupted after {len(rows)} nodes")
    elif matches.coverage < LEAST_COVERAGE and not walk.ends:
        reason = f"too little could be compared ({matches.summary()})"
    report = ErrorReport(head, tuple(rows), tuple(notes), reason)
    report.made_from(program=run.origin)
    return report
