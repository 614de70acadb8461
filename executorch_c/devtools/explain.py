"""Where a program starts to differ from its PyTorch model, and which operator is to blame.

    from executorch_c.devtools import explain

    report = explain("model.pte", model, [x])
    print(report)         # a sentence, and a table of the operators around it
    report.first.module   # "features.3": the layer that is wrong itself
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from executorch_c._core import Method, Program, Runtime
from executorch_c.devtools._match import Matcher
from executorch_c.devtools._reference import handle_map, reference
from executorch_c.devtools._report import GapReport, OperatorGap, relative
from executorch_c.devtools._walk import Limits, Walk, as_tensor

if TYPE_CHECKING:
    from executorch_c._types import Data
    from executorch_c.trace import Trace

MAX_BYTES = 1 << 30
"""Bytes of values that are kept of the program's run, unless given."""


def _flat(inputs: Sequence[object]) -> list[Any]:
    """Leaves of the model's arguments; arrays as tensors."""
    from torch.utils._pytree import tree_leaves

    return tree_leaves(_as_tensors(inputs))


def _as_tensors(inputs: Sequence[object]) -> tuple[Any, ...]:
    """The model's arguments as they are nested, arrays as tensors."""
    from torch.utils._pytree import tree_map

    mapped: Sequence[Any] = tree_map(
        lambda leaf: as_tensor(leaf) if isinstance(leaf, np.ndarray) else leaf, inputs
    )
    return tuple(mapped)


def _load(
    program: object, name: str, kernels: Literal["default", "reference"]
) -> tuple[Method, str]:
    """The method, and what to call the program."""
    title = "program"
    if isinstance(program, Method):
        return program, title
    if isinstance(program, (str, os.PathLike)):
        title = os.path.basename(os.fspath(program))
    if not isinstance(program, Program):
        # An ExecutorchProgramManager has the file as `buffer`.
        data: Any = getattr(program, "buffer", program)
        program = Runtime.get().load_program(data)
    return program.load_method(name, kernels=kernels), title


def _traced(method: Method, inputs: Sequence[Any], max_bytes: int) -> tuple[Trace, Sequence[Any]]:
    with method.tracing(values=True, max_bytes=max_bytes) as trace:
        outputs = method.execute(inputs)
    return trace, outputs


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
    loaded, name = _load(program, method, kernels)
    flat = _flat(inputs)
    trace, outputs = _traced(loaded, flat, max_bytes)
    graph = reference(model, _as_tensors(inputs), method)
    matches = Matcher(graph.nodes, graph.handles or handle_map(program, method)).match(trace.events)
    rows = Walk(graph, matches, limits).run(graph.arguments(flat), outputs)
    head = f"{title or name}, method '{loaded.metadata.name()}', beside PyTorch"
    notes = (matches.summary(), *matches.notes, *graph.notes, *_dropped(trace))
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
    loaded, name = _load(program, method, kernels)
    flat = _flat(inputs)
    trace, outputs = _traced(loaded, flat, max_bytes)
    graph = reference(model, _as_tensors(inputs), method)
    matches = Matcher(graph.nodes, None, numbered=False).match(trace.events)
    walk = Walk(graph, matches, Limits(None, None))
    walk.pending.clear()  # values all differ: none was meant for another
    layers: dict[str | None, OperatorGap] = {}
    for row in walk.run(graph.arguments(flat), outputs):
        layers[row.module or row.where] = replace(row, verdict="ok")
    rows = sorted(layers.values(), key=lambda row: relative(row.own or row.total), reverse=True)
    head = f"{name}, method '{loaded.metadata.name()}': error budget beside the float model"
    numbered = tuple(replace(row, index=i) for i, row in enumerate(rows))
    return ErrorBudget(head, numbered, (matches.summary(), *graph.notes, *_dropped(trace)))
