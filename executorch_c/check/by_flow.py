"""Programs that a flow makes of a model, outside of a check: for `explain` and `cut`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from executorch_c._input_sets import Source
from executorch_c.check import cases as making
from executorch_c.check import flows, methods
from executorch_c.check.flows import Call, Subject
from executorch_c._paths import OwnedPath, read_bytes
from executorch_c._programs import opened
from executorch_c._stages import stage
from executorch_c.progress import Progress


@dataclass(frozen=True)
class Made:
    """A program, the graph that was lowered to it, and an example of its inputs."""

    subject: Subject
    module: Any
    """The float model."""
    example: Call

    @property
    def reference(self) -> Any:
        """The ExportedProgram that was lowered, of a quantised flow the quantised graph's; the
        model where a flow does not tell."""
        return self.module if self.subject.source is None else self.subject.source


def export_of(module: Any, exported: Any, example: Call, dynamic_shapes: Any) -> Any:
    """Return the caller's ExportedProgram, or an export of the model."""
    with stage("export", module):
        return exported if exported is not None else flows.export(module, example, dynamic_shapes)


def make(
    model: Any,
    inputs: Any,
    flow: Any,
    *,
    method: str = "forward",
    dynamic_shapes: Any = None,
    real_inputs: Source = (),
    progress: bool | None = None,
) -> Made:
    """Return the program that a flow makes of a model; the arguments are those of `check_model`.

    Raises what `check_model` raises for them, and the exceptions of exporting.
    """
    module, exported, _ = methods.reference(model, method)
    example = making.example_of(inputs, exported)
    real = making.real_cases(real_inputs, example, module)

    exporter = partial(export_of, module, exported, example, dynamic_shapes)
    with Progress("export", progress) as say, stage("lower", module):
        subject = flows.subject(
            flow,
            None,
            exporter,
            dynamic_shapes=dynamic_shapes,
            samples=flows.Samples(example, real.calls),
            method=method,
            data_path=None,
            say=say,
        )
    return Made(subject, module, example)


def lowered(flow: Any, exported: Any, method: str = "forward") -> bytes:
    """Return the program that a flow, a name or a function, makes of an ExportedProgram: no
    quantisation, the flow's delegates. Raises the exceptions of exporting."""
    result = flow(exported) if callable(flow) else flows._lower(exported, flows.FLOWS[flow], method)
    if isinstance(result, OwnedPath):
        return read_bytes(result)
    if isinstance(result, bytes):
        return result
    return bytes(opened(result).source)  # type: ignore[call-overload, no-any-return]
