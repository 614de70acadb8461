"""Differences of the reference runtime, the one on devices, for a program: `remarks`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from executorch_c._render import text as _text
from executorch_c.inspect import dataflow, reference, structure
from executorch_c.inspect.reference import VERSION, Behaviour, Does

if TYPE_CHECKING:
    from executorch_c._core import Program
    from executorch_c.inspect.structure import Instruction, View

MAX_NOTES = 5
"""Maximum number of remarks among the notes of a check."""
VERBS: dict[Does, str] = {
    "lacks": "has no such operator",
    "rejects": "rejects the call",
    "crashes": "ends the process",
    "differs": "computes other numbers than eager",
}
ADVICE: dict[Does, str] = {
    "lacks": "register a kernel on the device, or compute it with other operators",
    "rejects": "avoid it in the model",
    "crashes": "avoid it in the model",
    "differs": "avoid it in the model",
}
COPY_ADVICE = (
    "the flow writes it for a buffer that the model assigns: return the state as an output and "
    "pass it as an input, or keep it in another dtype"
)
FLOW_ADVICE: dict[str, str] = {
    "aten::copy.out": COPY_ADVICE,
    "aten::copy_": COPY_ADVICE,
    "dim_order_ops": "the flow writes it for a copy or conversion (to, clone, contiguous): convert "
    "to a dtype that the runtime takes, or export with EdgeCompileConfig(_skip_dim_order=True)",
    "et_copy": "the flow writes it for the compile spec 'target_device': export without that, or "
    "for a runtime with an allocator of that device",
    "executorch_prim": "the flow writes it for numbers that the model computes of shapes: give "
    "both numbers one type, int or float, or export with static shapes",
    "quantized_decomposed": "the quantiser writes it: delegate the layer to a backend, quantise it "
    "to another dtype, or keep it in float",
}
"""Advice on operators that no model calls, by operator or namespace."""


class RemarkRow(TypedDict):
    """A remark in the JSON of `executorch-c info`."""

    kind: str
    operator: str | None
    value: int | None
    instruction: int | None
    source: str
    calls: int
    certain: bool
    text: str


@dataclass(frozen=True)
class Remark:
    """A difference of the reference runtime, or a read of a value that nothing writes."""

    kind: Does | str
    """What the reference runtime does with an operator, or `dataflow.Suspect.kind`."""
    text: str
    """A sentence without a full stop: which instruction, what happens, what to do."""
    operator: str | None = None
    value: int | None = None
    instruction: int | None = None
    """Index of the first such instruction; None: an output of the method."""
    source: str = ""
    """File and line of the first such instruction; empty without a stack trace."""
    calls: int = 1
    is_certain: bool = True
    """False if it depends on values, or on arguments together."""

    @property
    def is_undefined(self) -> bool:
        """True if outputs depend on memory that nothing writes, in every runtime."""
        return self.kind in ("unwritten", "skipped")

    def row(self) -> RemarkRow:
        """Return the remark for JSON."""
        return {
            "kind": self.kind,
            "operator": self.operator,
            "value": self.value,
            "instruction": self.instruction,
            "source": self.source,
            "calls": self.calls,
            "certain": self.is_certain,
            "text": self.text,
        }


def remarks(program: Program, method: str) -> list[Remark]:
    """Return the remarks on a method: reads of undefined values, then operators, certain ones
    first. A program of too many instructions has none."""
    view = structure.view_of(program, method)
    return [] if view is None else of_view(view)


def of_view(view: View) -> list[Remark]:
    """Return the remarks on the method of a view."""
    reads = [
        Remark(one.kind, str(one), None, one.value, one.instruction, one.source)
        for one in dataflow.suspects(view)
    ]
    return [*reads, *sorted(_of_operators(view), key=lambda one: not one.is_certain)]


def notes(remarks: list[Remark]) -> Iterator[str]:
    """Yield the sentences of the first remarks, and the number of the others."""
    yield from (one.text for one in remarks[:MAX_NOTES])
    if len(remarks) > MAX_NOTES:
        yield (
            f"{len(remarks) - MAX_NOTES} more differences of the official runtime: "
            "`executorch-c info` lists them"
        )


def _of_operators(view: View) -> Iterator[Remark]:
    groups: dict[tuple[str, Does, str], list[tuple[Instruction, Behaviour]]] = {}
    for step in view.steps:
        for row in reference.of_step(view, step):
            groups.setdefault((row.operator, row.does, row.when), []).append((step, row))
    for (operator, does, _), calls in groups.items():
        (step, row), *_ = calls
        count = len({id(call) for call, _ in calls})  # rows may differ in their example only
        text = _sentence(view, step, row, count)
        yield Remark(
            does,
            text,
            operator,
            None,
            step.number,
            structure.source(step),
            count,
            row.is_certain,
        )


def _sentence(view: View, step: Instruction, row: Behaviour, calls: int) -> str:
    place = structure.source(step)
    at = f"instruction {step.number}" + (f", {place}" if place else "")
    more = f", and {_text.plural(calls - 1, 'other call')}" if calls > 1 else ""
    verb = VERBS[row.does]
    return (
        f"{row.operator} ({at}{more}): the official runtime {VERSION} {verb}"
        f"{_condition(view, step, row)}: {_advice(row)}"
    )


def _advice(row: Behaviour) -> str:
    """Return what the user can do about an operator."""
    space = row.operator.partition("::")[0]
    by_operator = FLOW_ADVICE.get(row.operator)
    return by_operator or FLOW_ADVICE.get(space) or ADVICE[row.does]


def _condition(view: View, step: Instruction, row: Behaviour) -> str:
    """Return when a row applies, as the end of a clause."""
    call = reference.call_of(view, step)
    if row.does == "lacks":
        return ""
    if not row.is_certain:
        example = row.example.partition(" -> ")[0]
        return f" for some arguments or values of {call.dtype}, such as ({example})"
    facts = [call.layout] if call.layout != reference.CONTIGUOUS else []
    return f" ({', '.join([call.dtype, *facts, *filter(None, [row.when])])})"
