"""A run of a program, and the graph of its PyTorch model: the start of explain and
quantization_error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from executorch_c._delegation import DelegateAtLoad, trace_notes
from executorch_c._core import Error, InvalidStateError
from executorch_c._eager_caches import check_active_cache
from executorch_c._programs import ProgramSource, method_of, opened, title_of
from executorch_c._stages import stage
from executorch_c.debug._graphs.layouts import as_tensor
from executorch_c.debug._graphs.reference import reference_of
from executorch_c.debug._graphs.program import Steps
from executorch_c.debug._graphs.rowwise import as_xnnpack
from executorch_c.debug.failing import failed_event
from executorch_c.inspect.structure import View

if TYPE_CHECKING:
    from executorch_c._core import Method
    from executorch_c.debug._graphs.reference import ReferenceGraph
    from executorch_c.report import Origin
    from executorch_c.trace import Event, Trace

MAX_BYTES = 1 << 30
"""Default of the maximum bytes of kept values of a program's run."""


def as_tensors(inputs: Sequence[object]) -> tuple[Any, ...]:
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
    trace: Trace
    """Trace of the call, with values."""
    outputs: Sequence[Any] | None
    """None if the program failed."""
    failure: Error | None
    """Its exception then."""
    graph: ReferenceGraph
    origin: Origin
    """The program's file."""

    def steps(self, events: Iterable[Event] | None = None) -> Steps:
        """Return the steps of the trace, or of events in its place."""
        steps = Steps(self.view, self.inputs)
        run = (event for event in self.trace.events if event.kind == "execute" or not event.failed)
        steps.read(run if events is None else events)
        return steps

    def notes(self) -> Iterator[str]:
        """Yield notes about the graph, values that did not fit, and operators that were delegated
        at load."""
        yield from self.graph.notes
        if count := self.trace.dropped_values + self.trace.dropped_events:
            yield f"{count} values did not fit; pass a larger `max_bytes`"
        yield from trace_notes(self.loaded)


def run_with_graph(
    program: ProgramSource,
    model: object,
    inputs: Sequence[object],
    method: str,
    kernels: Literal["default", "reference"],
    delegate_at_load: DelegateAtLoad,
    max_bytes: int,
) -> Run:
    """Run a program and export its reference; arguments are those of `explain`.

    Raises the exceptions of loading and exporting, of a program that fails before its first
    instruction, and of a missing KV cache.
    """
    from torch.utils._pytree import tree_leaves

    source = opened(program)
    loaded = method_of(source, method, kernels, "each" if delegate_at_load else False)
    arguments = as_tensors(inputs)
    flat = tree_leaves(arguments)
    outputs, failure = None, None
    with loaded.tracing(values=True, max_bytes=max_bytes) as trace:
        try:
            outputs = loaded.execute(flat)
        except Error as error:
            failure = error
    if failure is not None and failed_event(trace) is None:
        raise failure
    name = loaded.metadata.name()
    view = View(loaded._program, name)
    operators = [event.name for event in trace.events]
    graph = as_xnnpack(reference_of(model, arguments, method).unrolled(flat), operators)
    if any(getattr(node.target, "namespace", "") == "kvcache" for node in graph.nodes):
        with stage("eager"):
            check_active_cache()
    if isinstance(failure, InvalidStateError):  # the caller's, who passed no KV cache
        raise failure
    return Run(
        title_of(program, "program"),
        name,
        loaded,
        view,
        flat,
        trace,
        outputs,
        failure,
        graph,
        source.origin,
    )
