"""A program that runs again and again on the same inputs, its results changed on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c._core import Error
from executorch_c._programs import ProgramSource, method_info, method_of
from executorch_c.blame.places import Numbering, Place
from executorch_c.inspect.scales import scales_of_outputs
from executorch_c.rewrite.points import Dataflow

if TYPE_CHECKING:
    from executorch_c._arrays import Array
    from executorch_c._core import Method
    from executorch_c.trace import Event, Result, Trace

MAX_BYTES = 1 << 30
"""Maximum bytes of a trace."""

PROFILED = {"OpenvinoBackend": {"profile": True}}
"""Options of backends whose engines report nodes."""

Change = Callable[[Place, "Array"], object]
"""Sees the result of a place, and may change it."""


class Replay:
    """Runs of a method, each from its first state, on the same inputs."""

    def __init__(
        self, program: ProgramSource, inputs: Sequence[object], method: str = "forward"
    ) -> None:
        self.method: Method = method_of(program, method)
        self.inputs = list(inputs)
        self.info = method_info(self.method._program, self.method.metadata.name())
        values = [*self.info["inputs"], *self.info["outputs"]]
        self.varies = any(one.get("dynamism", "static") != "static" for one in values)
        """True for a program with dynamic shapes."""

    @cached_property
    def flow(self) -> Dataflow:
        """The dataflow between results."""
        return Dataflow(self.method._program, self.method.metadata.name())

    @cached_property
    def scales(self) -> list[float | None]:
        """The scale of each output that is dequantised from 8 bits, or None."""
        return scales_of_outputs(self.method._program, self.method.metadata.name())

    def run(self, change: Change | None = None, ranges: bool = False) -> tuple[list[Any], Trace]:
        """Return the outputs of a run, and its trace without values.

        Args:
            change: Sees each result, in order, and may change it.
            ranges: The trace has the arguments of nodes.
        """
        self.method.reset()
        numbering = Numbering()

        def alter(result: Result, array: Array) -> None:
            if change is not None and result.kind != "move":
                change(numbering.place(result, array), array)

        with self.method.tracing(
            alter=None if change is None else alter, ranges=ranges, max_bytes=MAX_BYTES
        ) as trace:
            outputs = self.method.execute(self.inputs)
        return outputs, trace

    def timed(self) -> Trace:
        """Return the trace of a run that nothing changes, with the times of its nodes."""
        self.method.reset()
        with self.method.tracing(values=True, max_bytes=MAX_BYTES) as trace:
            self.method.execute(self.inputs)
        return trace

    def profile(self) -> list[Event]:
        """Return the nodes that engines report of a run: those of payloads that nothing here reads;
        [] where no engine does."""
        try:
            method = self.method._program.load_method(
                self.info["name"], backend_options=PROFILED, delegate_at_load=False
            )
            with method.tracing() as trace:
                method.execute(self.inputs)
        except Error:
            return []
        return [event for event in trace.events if event.kind == "node"]

    def places(self) -> dict[str, Place]:
        """Return the places of all results by id, in order of execution."""
        seen: dict[str, Place] = {}
        self.run(lambda place, array: seen.setdefault(place.id, place))
        return seen


def shaped(value: Array, place: Place, like: Array) -> Array:
    """Return a value of a place in the program's shape and dtype. Raises ValueError."""
    if value.size != like.size:
        raise ValueError(
            f"{place}: the value has shape {list(value.shape)}, expected {list(like.shape)}"
        )
    result: Array = np.asarray(value).reshape(like.shape).astype(like.dtype)
    return result
