"""Where a program starts to differ from its PyTorch model, and which operator is to blame.

    from executorch_c.devtools import explain

    report = explain("model.pte", model, [x])
    print(report)         # a sentence, and a table of the operators around it
    report.first.module   # "features.3": the layer that is wrong itself
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from executorch_c._core import Method, Program
from executorch_c._programs import method_of, title_of
from executorch_c.devtools._match import Matcher
from executorch_c.devtools._reference import handle_map, reference
from executorch_c.devtools._report import GapReport, OperatorGap, relative
from executorch_c.devtools._walk import Limits, Walk, as_tensor

if TYPE_CHECKING:
    from executorch_c._types import Data
    from executorch_c.devtools._reference import Reference
    from executorch_c.trace import Trace

MAX_BYTES = 1 << 30
"""Bytes of values that are kept of the program's run, unless given."""


def _as_tensors(inputs: Sequence[object]) -> tuple[Any, ...]:
    """The model's arguments as they are nested, arrays as tensors."""
    from torch.utils._pytree import tree_map

    mapped: Sequence[Any] = tree_map(
        lambda leaf: as_tensor(leaf) if isinstance(leaf, np.ndarray) else leaf, inputs
    )
    return tuple(mapped)


@dataclass(frozen=True)
class _Run:
    """A call of the program, and the graph that it is compared with."""

    title: str
    """What to call the program."""
    method: str
    trace: Trace
    inputs: list[Any]
    outputs: Sequence[Any]
    graph: Reference


def _run(
    program: object,
    model: object,
    inputs: Sequence[object],
    method: str,
    kernels: Literal["default", "reference"],
    max_bytes: int,
) -> _Run:
    from torch.utils._pytree import tree_leaves

    data: Any = program  # an ExecutorchProgramManager has the file as `buffer`
    if not isinstance(program, (Method, Program)):
        data = getattr(program, "buffer", program)
    loaded = method_of(data, method, kernels)
    arguments = _as_tensors(inputs)
    flat = tree_leaves(arguments)
    with loaded.tracing(values=True, max_bytes=max_bytes) as trace:
        outputs = loaded.execute(flat)
    return _Run(title_of(program, "program"), loaded.metadata.name(), trace, flat, outputs,
                reference(model, arguments, method))  # fmt: skip


def _dropped(trace: Trace) -> list[str]:
    count = trace.dropped_values + trace.dropped_events
    return [f"{count} values did not fit: give a larger max_bytes"] if count else []


def explain(
    program: Program | Method | Data | object,
    model: object,
    inputs: Sequence[object],
    *,
    method: str = "forward",
    rtol: float | None = None,
    atol: float | None = None,
    kernels: Literal["default", "reference"] = "default",
    max_bytes: int = MAX_BYTES,
    title: str | None = None,
) -> GapReport:
    """Runs a program and its PyTorch model side by side, and says which operator differs first.

    Every value that the program computes, inside of delegates too, is compared twice: with eager's
    value (`total`), and with what eager computes from the values that the *program* had before
    (`own`). An operator is "wrong" where its own gap is out of tolerance; where only the total is,
    behind a wrong operator, it has "carried" the error. That says the same as running the program's
    operator on eager's inputs, and works inside of delegates, too.

    Args:
        program: A path, bytes or file of a .pte, a Program, a loaded Method (whose state is used
            and changed), or an ExecutorchProgramManager.
        model: The nn.Module in eval mode; what torch.export.export returned; an EdgeProgramManager
            that no backend has taken parts of; an ETRecord or its path; an
            ExecutorchProgramManager that has one. For a quantised program this is the converted
            module (for a comparison with the float model see `error_budget`).
        inputs: The positional arguments of the model: tensors or arrays, as the program takes them
            (a reference of another float dtype gets them cast).
        method: Which one to run. A module's `forward` stands for any.
        rtol, atol: An element is off by more than atol + rtol * |expected|. Default: by dtype, by
            the magnitude of the tensor, and by the rounding error that eager itself makes (_walk.py
            has the rule): another order of accumulation stays within it, another formula does not.
        kernels: As for `Program.load_method`.
        title: What to call the program in the report; default: its file's name.
        max_bytes: Of the program's values that are kept; a report says when more were needed.

    Returns a `GapReport`; its notes say how many instructions were matched. Raises ImportError
    without torch and executorch, TypeError and ValueError for a reference that cannot be used.
    """
    limits = Limits(rtol, atol)
    run = _run(program, model, inputs, method, kernels, max_bytes)
    graph = run.graph
    handles = graph.handles or handle_map(program, method)
    matches = Matcher(graph.nodes, handles).match(run.trace.events)
    rows = Walk(graph, matches, limits).run(graph.arguments(run.inputs), run.outputs)
    head = f"{title or run.title}, method '{run.method}', beside PyTorch"
    notes = (matches.summary(), *matches.notes, *graph.notes, *_dropped(run.trace))
    return GapReport(head, tuple(rows), notes)


class ErrorBudget(GapReport):
    """What each layer of a quantised program adds; the largest first."""

    def summary(self) -> str:
        """The layer that adds most, and what arrives at the end."""
        if not self.rows:
            return "nothing could be compared"
        row = self.rows[0]
        assert row.own is not None
        return f"adds most: {row}: {relative(row.own):.1%} of its result"


def error_budget(
    program: Program | Method | Data | object,
    model: object,
    inputs: Sequence[object],
    *,
    method: str = "forward",
    kernels: Literal["default", "reference"] = "default",
    max_bytes: int = MAX_BYTES,
) -> ErrorBudget:
    """How far each layer of a quantised program is from the float model, and what it adds.

    The last value of each layer, as the numbers that it stands for, is compared with the float
    layer's: on the float model's own activations (`total`), and on those that the program had
    before (`own`: what quantising this layer costs). Layers are matched by what they do, in order:
    convolutions, linear layers, products, pools and softmax inside of delegates, all operators
    outside.

    Args:
        model: The float model, as `explain` takes it. All other arguments are those of `explain`.

    Returns a report with a row for each layer, the one that adds most first; none is judged.
    """
    run = _run(program, model, inputs, method, kernels, max_bytes)
    graph = run.graph
    matches = Matcher(graph.nodes, None, numbered=False).match(run.trace.events)
    walk = Walk(graph, matches, Limits(None, None))
    walk.pending.clear()  # values all differ: none was meant for another
    layers: dict[str | None, OperatorGap] = {}
    for row in walk.run(graph.arguments(run.inputs), run.outputs):
        layers[row.module or row.where] = replace(row, verdict="ok")
    rows = sorted(layers.values(), key=lambda row: relative(row.own or row.total), reverse=True)
    head = f"{run.title}, method '{run.method}': error budget beside the float model"
    numbered = tuple(replace(row, index=i) for i, row in enumerate(rows))
    return ErrorBudget(head, numbered, (matches.summary(), *graph.notes, *_dropped(run.trace)))
