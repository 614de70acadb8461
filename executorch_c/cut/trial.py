"""A part of a graph, lowered again by the flow and compared with eager."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from executorch_c.check.lowering import quiet
from executorch_c.cut import source
from executorch_c.debug import layers
from executorch_c.debug._graphs.names import is_quantizer, kind_of
from executorch_c.debug.places import places_of
from executorch_c.debug.report import EXPORT

if TYPE_CHECKING:
    from executorch_c.cut.graph import Part
    from executorch_c.debug.report import ErrorReport
    from torch.fx import Node

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
    fault: frozenset[str]
    """Operators of the source: the first node of the part that differs has one of them."""
    exported: Any
    program: bytes
    text: str
    """The module in Python."""
    title: str
    """Sentence about the part."""
    reports: tuple[ErrorReport, ...] = field(default=())
    """Of explain, for each sample that was tried."""
    constants: int = 0
    """Number of bytes that are those of the program that was cut."""
    is_own: bool = False
    """True if its nodes are those of the program that was cut."""

    @cached_property
    def shows(self) -> list[bool]:
        """Whether each sample that was tried shows the fault."""
        return [_has_fault(report, self.fault) for report in self.reports]

    @property
    def is_wrong(self) -> bool:
        """True if the sample of the failing call, and one other, show the fault."""
        return sum(self.shows) > 1 and self.shows[0]

    def compared(self) -> Trial:
        """Return the trial with the reports of its samples; where the first matches, of that
        one."""
        reports: list[ErrorReport] = []
        model = self.exported
        for sample in self.samples:
            report = layers.explain(
                model, sample, program=self.program, progress=False, title="cut.pte"
            )
            reports.append(report)
            first, places = report.first, places_of(report)
            if first is not None and first.where != EXPORT and places is not None:
                model = places.graph.program  # decomposed already
            if not _has_fault(reports[0], self.fault):
                break
        return replace(self, reports=tuple(reports))

    def with_program(self, program: bytes, changed: int, title: str) -> Trial:
        """Return the trial of another program of the same part."""
        text = source.module_source(self.part, title)
        return replace(self, program=program, reports=(), constants=changed, title=title, text=text)


def operators_of(nodes: Iterable[Node]) -> frozenset[str]:
    """Return the kinds of operators among nodes, other than quantisation."""
    kinds = (kind_of(node) for node in nodes if not is_quantizer(node))
    return frozenset(filter(None, kinds))


def _has_fault(report: ErrorReport, fault: frozenset[str]) -> bool:
    """Return True if the first node of a report that differs has one of some operators, or it is
    not known which it has."""
    places, first = places_of(report), report.first
    if places is None or first is None:
        return False
    found = operators_of(places.nodes_of(first))
    return not fault or not found or not fault.isdisjoint(found)


def module_of(text: str, constants: dict[str, Any]) -> Any:
    """Return the module of a text with its constants."""
    names: dict[str, Any] = {}
    exec(compile(text, "module.py", "exec"), names)
    module = names["Cut"]()
    for name, value in constants.items():
        setattr(module, name, value)
    return module.eval()


def lowered(part: Part, fault: frozenset[str], lower: Lower, title: str) -> Trial:
    """Return a part as a program, not compared yet. Raises the exceptions of exporting."""
    import torch

    text = source.module_source(part, title)
    samples = samples_of(part)
    module = module_of(text, source.constants_of(part))
    with torch.no_grad(), quiet():
        exported = torch.export.export(module, tuple(samples[0]))
    return Trial(part, samples, fault, exported, lower(exported), text, title)


def of_program(part: Part, fault: frozenset[str], program: bytes, title: str) -> Trial:
    """Return the nodes of a program as a part, not compared yet. Raises the exceptions of
    exporting."""
    fault |= {"permute"} if part.in_nhwc else set()  # after the node, to the program's order
    return replace(lowered(part, fault, lambda _: program, title), is_own=True)


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
