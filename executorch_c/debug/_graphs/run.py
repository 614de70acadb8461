"""A run of a program, and the graph of its PyTorch model: the start of explain and
quantization_error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from executorch_c._programs import ProgramSource, method_of, opened, title_of
from executorch_c.debug._claimed import TracedCall, traced
from executorch_c.debug._graphs.layouts import as_tensor
from executorch_c.debug._graphs.reference import reference_of
from executorch_c.debug._graphs.program import Steps
from executorch_c.debug._graphs.rowwise import quantized_by_row
from executorch_c.inspect.structure import View

if TYPE_CHECKING:
    from executorch_c._core import Method
    from executorch_c.debug._graphs.reference import Reference
    from executorch_c.report import Origin
    from executorch_c.trace import Event, Trace

MAX_BYTES = 1 << 30
"""Default of the maximum bytes of kept values of a program's run."""


def _as_tensors(inputs: Sequence[object]) -> tuple[Any, ...]:
    """Return the model's arguments with the same nesting, and tensors in place of arrays."""
    from torch.utils._pytree import tree_map

    mapped: Sequence[Any] = tree_map(
        lambda leaf: as_tensor(leaf) if isinstance(leaf, np.ndarray) else leaf, inputs
    )
    return tuple(mapped)


@dataclass(frozen=True)
class Run:
    """A call of the program, and the graph that it is compared with."""

    title: str
    """Name of the program in reports."""
    method: str
    loaded: Method
    view: View
    """Structure of the program."""
    inputs: list[Any]
    call: TracedCall
    graph: Reference
    origin: Origin
    """The program's file."""

    @property
    def trace(self) -> Trace:
        """The trace of the call."""
        return self.call.trace

    @property
    def outputs(self) -> Sequence[Any]:
        """The outputs of the traced call."""
        return self.call.outputs

    def steps(self, events: Iterable[Event] | None = None) -> Steps:
        """Return the steps of the trace, or of events in its place."""
        steps = Steps(self.view, self.inputs)
        steps.read(self.trace.events if events is None else events)
        return steps

    def dropped(self) -> list[str]:
        """Return a note about values that did not fit."""
        count = self.trace.dropped_values + self.trace.dropped_events
        return [f"{count} values did not fit: give a larger max_bytes"] if count else []


def run_with_graph(
    program: ProgramSource,
    model: object,
    inputs: Sequence[object],
    method: str,
    kernels: Literal["default", "reference"],
    max_bytes: int,
) -> Run:
    """Run a program and export its reference; arguments are those of `explain`.

    Raises the exceptions of loading, running and exporting.
    """
    from torch.utils._pytree import tree_leaves

    source = opened(program)
    loaded = method_of(source, method, kernels)
    arguments = _as_tensors(inputs)
    flat = tree_leaves(arguments)
    call = traced(loaded, flat, max_bytes)
    name = loaded.metadata.name()
    view = View(loaded._program, name)
    operators = [event.name for event in call.trace.events]
    graph = quantized_by_row(reference_of(model, arguments, method).unrolled(flat), operators)
    return Run(title_of(program, "program"), name, loaded, view, flat, call, graph, source.origin)
