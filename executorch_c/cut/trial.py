"""A part of a graph, lowered again by the flow and compared with eager."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from executorch_c.check.lowering import quiet
from executorch_c.cut import source
from executorch_c.debug import layers

if TYPE_CHECKING:
    from executorch_c.cut.graph import Part
    from executorch_c.debug.report import ErrorReport

SAMPLES = 3
"""Number of inputs that a part is tried on: those of the failing call, and the same numbers in
another order."""

Lower = Callable[[Any], bytes]
"""Returns the program that a flow makes of an ExportedProgram."""


@dataclass(frozen=True)
class Trial:
    """A part as a program."""

    part: Part
    samples: Sequence[Sequence[Any]]
    exported: Any
    program: bytes
    text: str
    """The module in Python."""
    reports: tuple[ErrorReport, ...] = field(default=())
    """Of explain, for each sample that was tried."""
    constants: int = 0
    """Number of bytes that are those of the program that was cut."""

    @property
    def shown(self) -> int:
        """Number of samples that show the fault."""
        return sum(report.verdict == "differ" for report in self.reports)

    @cached_property
    def is_wrong(self) -> bool:
        """True if the sample of the failing call, and one other, show the fault."""
        return bool(self.reports) and self.reports[0].verdict == "differ" and self.shown > 1

    def compared(self) -> Trial:
        """Return the trial with the reports of its samples; where the first matches, of that
        one."""
        reports: list[ErrorReport] = []
        for sample in self.samples:
            report = layers.explain(
                self.exported, sample, program=self.program, progress=False, title="cut.pte"
            )
            reports.append(report)
            if report.verdict != "differ" and len(reports) == 1:
                break
        return replace(self, reports=tuple(reports))

    def with_program(self, program: bytes, changed: int) -> Trial:
        """Return the trial of another program of the same part."""
        return replace(self, program=program, reports=(), constants=changed)


def module_of(text: str, constants: dict[str, Any]) -> Any:
    """Return the module of a text with its constants."""
    names: dict[str, Any] = {}
    exec(compile(text, "module.py", "exec"), names)
    module = names["Cut"]()
    for name, value in constants.items():
        setattr(module, name, value)
    return module.eval()


def lowered(part: Part, lower: Lower, title: str) -> Trial:
    """Return a part as a program. Raises the exceptions of exporting."""
    import torch

    text = source.module_source(part, title)
    samples = samples_of(part)
    module = module_of(text, source.constants_of(part))
    with torch.no_grad(), quiet():
        exported = torch.export.export(module, tuple(samples[0]))
    return Trial(part, samples, exported, lower(exported), text)


def samples_of(part: Part) -> list[list[Any]]:
    """Return the inputs of a part: the values of the failing call, and the same numbers in another
    order, by seed."""
    import torch

    values = [v.detach().clone().contiguous() for v in part.values]
    samples = [values]
    for seed in range(1, SAMPLES):
        generator = torch.Generator().manual_seed(seed)
        samples.append([_shuffled(value, generator) for value in values])
    return samples


def _shuffled(value: Any, generator: Any) -> Any:
    import torch

    order = torch.randperm(value.numel(), generator=generator)
    return value.reshape(-1)[order].reshape(value.shape)
