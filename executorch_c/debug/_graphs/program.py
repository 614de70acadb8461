"""A run of a program as a graph: the results of each instruction, and of each node inside
delegates, with their sources.

The trace has the values. Slots of an instruction's arguments lead to the steps that wrote them;
inside delegates the backend's description of the payload does. A step without either is `open`: any
step before it may be a source.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from executorch_c.debug._graphs.names import is_firmware, kind
from executorch_c.inspect.structure import DEAD

if TYPE_CHECKING:
    from executorch_c._arrays import Array
    from executorch_c._types import DelegateInside
    from executorch_c.inspect.structure import View
    from executorch_c.trace import Event

NO_HANDLE = 0xFFFF
"""Debug handle of XnnpackBackend's nodes without an operator of the model."""

WITHOUT_BIAS = (
    *("_weight_int8pack_mm", "linear_qcs4w"),
    *("Conv1D", "Conv2D", "Conv3D", "ConvTranspose", "QuantizedMatmul"),
)
"""Products of Vulkan's and MLX's payloads that have no bias: an addition follows."""

MATMUL = "MatMul "
"""Begins OpenVINO's note on a product of two values."""


@dataclass(frozen=True, eq=False)
class Step:
    """An instruction or node that has run, and the tensors that it computed."""

    order: int
    """Of its event in the trace."""
    where: str
    name: str
    kind: str
    """Kind of the operator, by `names.kind`."""
    inside: bool
    """True inside a delegate."""
    outputs: tuple[Array | None, ...]
    sources: tuple[StepSource, ...]
    is_open: bool = False
    """True if it may have further sources."""
    handles: frozenset[int] = frozenset()
    quantized: bool = False
    """True if a delegate, or an operator of a DSP's library, holds it as quantised integers."""
    is_part: bool = False
    """True for a product whose bias is added by the step after it: the model may have one node for
    both, which is that step's."""
    multiplies: bool = False
    """True for a product that has the name of the operator after it, as OpenVINO's of attention."""

    @property
    def node_kind(self) -> str:
        """The kind of a graph node that does the same; instructions that quantise are "convert"."""
        return "convert" if self.kind.startswith(("quantize_", "dequantize_")) else self.kind

    @property
    def path_kinds(self) -> set[str]:
        """Kinds of graph nodes that a step computes if no single node is its own."""
        return {self.node_kind, "bmm"} if self.multiplies else {self.node_kind}

    @property
    def node_kinds(self) -> set[str | None]:
        """All such kinds: a linear layer may be a product of matrices, or a convolution of TOSA; a
        sum of integers may be a difference, whose second factor is negative (Cortex-M)."""
        if self.name == "CONV2D":
            return {self.node_kind, "linear", "bmm"}
        if self.node_kind == "add" and self.quantized:
            return {self.node_kind, "sub"}
        return {self.node_kind, "bmm"} if self.node_kind == "linear" else {self.node_kind}

    @property
    def counts(self) -> bool:
        """True if a report counts it: an instruction, or a node with a debug handle."""
        return not self.inside or bool(self.handles)


StepSource: TypeAlias = "tuple[Step | int, int]"
"""A step and the number of its output; or the number of an input of the method, and 0."""


@dataclass
class _Delegate:
    """A call of a delegate while its nodes are read."""

    order: int
    event: Event
    inside: DelegateInside | None
    nodes: list[tuple[int, Event]] = field(default_factory=list)


class Steps:
    """Reads the events of the first call."""

    def __init__(self, view: View | None, inputs: Sequence[object]) -> None:
        """`view` knows the program, `inputs` are the arguments of the call."""
        self.view = view
        self.inputs = inputs
        self.written: dict[int, StepSource] = {}
        self.steps: list[Step] = []
        self.results: dict[int, StepSource] = {}
        """Sources of the method's outputs, by index."""

    def read(self, events: Iterable[Event]) -> list[Step]:
        """Return all steps, in order."""
        pending: _Delegate | None = None
        for order, event in enumerate(events):
            if event.run or event.depth:
                continue
            if event.kind == "node" and pending is not None:
                pending.nodes.append((order, event))
                continue
            if pending is not None:
                self._delegate(pending)
                pending = None
            if event.kind == "execute":
                self._begin(event)
            elif event.kind == "delegate":
                inside = self.view.inside(event.delegate or 0) if self.view else None
                known = None if isinstance(inside, str) else inside
                pending = _Delegate(order, event, known)
            elif event.kind == "kernel":
                self._kernel(order, event)
            elif event.kind == "move":
                self._move(event)
        if pending is not None:
            self._delegate(pending)
        slots = self.view.structure["outputs"] if self.view is not None else []
        sources = {number: self.source_of(slot) for number, slot in enumerate(slots)}
        self.results = {number: source for number, source in sources.items() if source is not None}
        return self.steps

    def source_of(self, slot: int | None) -> StepSource | None:
        """Return the writer of a value; None if there is none, or it is unknown."""
        seen = set()
        while slot is not None and slot not in self.written and self.view and slot not in seen:
            seen.add(slot)
            slot = self.view.bases.get(slot)
        return None if slot is None else self.written.get(slot)

    def _begin(self, event: Event) -> None:
        slots = [value.slot for value in event.inputs]
        tensors = [i for i, value in enumerate(self.inputs) if hasattr(value, "shape")]
        if event.failed and not slots and self.view is not None:
            known = self.view.structure["inputs"]
            slots = [known[i] for i in tensors if i < len(known)]
        if len(slots) == len(tensors):
            for number, slot in zip(tensors, slots):
                if slot is not None:
                    self.written[slot] = (number, 0)

    def _sources(self, slots: Iterable[int | None]) -> tuple[tuple[StepSource, ...], bool]:
        """Return the known writers of some slots, and whether a writer is unknown."""
        sources: list[StepSource] = []
        unknown = False
        for slot in slots:
            source = self.source_of(slot)
            if source is not None:
                sources.append(source)
            else:  # in a known program a value that nothing has written is a constant, or state
                unknown |= self.view is None or slot is None
        return tuple(dict.fromkeys(sources)), unknown

    def _add(self, step: Step, slots: Sequence[int | None]) -> None:
        self.steps.append(step)
        for number, slot in enumerate(slots):
            if slot is not None:
                self.written[slot] = (step, number)

    def _kernel(self, order: int, event: Event) -> None:
        sources, unknown = self._sources(value.slot for value in event.inputs)
        where = f"instruction {event.instruction}"
        if kind(event.name) == "stack":  # one row after the other, until it is whole
            before = next((self.source_of(value.slot) for value in event.outputs), None)
            if before is not None and isinstance(before[0], Step) and before[0].where == where:
                self.steps.remove(before[0])
                sources = (*before[0].sources, *sources)
        outputs = tuple(tensors(event))
        first = outputs[0] if outputs else None
        integers = first is not None and first.dtype.kind in "iu" and is_firmware(event.name)
        step = Step(
            order,
            where,
            event.name,
            kind(event.name),
            False,
            outputs,
            sources,
            unknown,
            quantized=integers,
        )
        self._add(step, [value.slot for value in event.outputs])

    def _move(self, event: Event) -> None:
        for operand, result in zip(event.inputs, event.outputs):
            source = self.source_of(operand.slot)
            if source is not None and result.slot is not None:
                self.written[result.slot] = source

    # ---- delegates ------------------------------------------------------------------------

    def _delegate(self, call: _Delegate) -> None:
        """Add the steps of a delegate's nodes, and set the writers of its outputs."""
        slots = [value.slot for value in call.event.values]
        sources, unknown = self._sources(value.slot for value in call.event.inputs)
        results = {i for i, value in enumerate(call.event.values) if value.is_output}
        inner = self._nodes(call, slots, sources)
        for position in sorted(results):
            slot, data = slots[position], call.event.values[position].data
            if position in inner and slot is not None:
                self.written[slot] = inner[position]
            elif not inner:
                where = f"delegate {call.event.delegate}"
                step = Step(
                    call.order,
                    where,
                    call.event.name,
                    "",
                    True,
                    (data if isinstance(data, np.ndarray) else None,),
                    (*sources, *((s, 0) for s in self._own(call))),
                    True,
                )
                self._add(step, [slot])

    def _own(self, call: _Delegate) -> list[Step]:
        """Return the steps of a delegate's nodes."""
        first = call.order
        return [s for s in self.steps[-len(call.nodes) :] if call.nodes and s.order > first]

    def _nodes(
        self, call: _Delegate, slots: Sequence[int | None], sources: tuple[StepSource, ...]
    ) -> dict[int, StepSource]:
        """Add the steps of a delegate; return the writers of its outputs, by position of the
        argument."""
        events, rows = call.nodes, []
        if call.inside is not None:
            rows = [row for row in call.inside["nodes"] if DEAD not in (row["note"] or "")]
            events = events[: len(rows)] if len(events) >= len(rows) else []
        if not rows or not events:
            self._unknown(call, sources)
            return {}
        assert call.inside is not None
        writers: dict[int, StepSource] = {}
        integers = {v["id"] for v in call.inside["values"] if (v["dtype"] or "").startswith("q")}
        parts = _without_bias(call.inside)
        for value in call.inside["values"]:
            at = value["argument"]
            source = self.source_of(slots[at]) if at is not None and at < len(slots) else None
            if source is not None:
                writers[value["id"]] = source
        for number, ((order, event), row) in enumerate(zip(events, rows)):
            step = self._node(
                call,
                number,
                order,
                event,
                row["name"] or event.name,
                tuple(dict.fromkeys(writers[i] for i in row["inputs"] if i in writers)),
                quantized=not integers.isdisjoint(row["outputs"]),
                is_part=not parts.keys().isdisjoint(row["outputs"]),
                product=next((parts[i] for i in row["inputs"] if i in parts), None),
                multiplies=(row["note"] or "").startswith(MATMUL),
            )
            writers.update((value, (step, o)) for o, value in enumerate(row["outputs"]))
        return {
            v["argument"]: writers[v["id"]]
            for v in call.inside["values"]
            if v["argument"] is not None and v["id"] in writers
        }

    def _unknown(self, call: _Delegate, sources: tuple[StepSource, ...]) -> None:
        for number, (order, event) in enumerate(call.nodes):
            self._node(call, number, order, event, event.name, sources, is_open=True)

    def _node(
        self,
        call: _Delegate,
        number: int,
        order: int,
        event: Event,
        name: str,
        sources: tuple[StepSource, ...],
        quantized: bool = False,
        is_open: bool = False,
        is_part: bool = False,
        product: str | None = None,
        multiplies: bool = False,
    ) -> Step:
        handle, where = event.debug_handle, f"delegate {call.event.delegate}, node {number}"
        step = Step(
            order,
            where,
            event.name,
            product or kind(name),
            True,
            tuple(tensors(event)),
            sources,
            is_open,
            frozenset() if handle in (None, NO_HANDLE) else frozenset((handle or 0,)),
            quantized,
            is_part,
            multiplies,
        )
        self.steps.append(step)
        return step


def _constants(inside: DelegateInside) -> set[int]:
    """Return the constants, and what nodes compute of them alone."""
    ids = {value["id"] for value in inside["values"] if value["constant"]}
    for row in inside["nodes"]:
        if row["inputs"] and ids.issuperset(row["inputs"]):
            ids |= set(row["outputs"])
    return ids


def _without_bias(inside: DelegateInside) -> dict[int, str]:
    """Return the results of products without a bias that one addition of a constant reads, with the
    kinds of the products."""
    constants = _constants(inside)
    kinds: dict[int, str] = {}
    for row in inside["nodes"]:
        if any(name in (row["name"] or "") for name in WITHOUT_BIAS):
            readers = [
                other
                for other in inside["nodes"]
                if not set(row["outputs"]).isdisjoint(other["inputs"])
            ]
            if len(readers) == 1 and kind(readers[0]["name"] or "") == "add":
                if constants.intersection(readers[0]["inputs"]):
                    kinds |= dict.fromkeys(row["outputs"], kind(row["name"] or ""))
    return kinds


def tensors(event: Event) -> Iterator[Array | None]:
    """Yield the output tensors of an event; None for numbers, and for values without data."""
    for value in event.outputs:
        yield value.data if isinstance(value.data, np.ndarray) else None


class Origins:
    """The sources of values.

    `numbers` has the numbers of these values by (place of the event, number of the output). A value
    without a number counts as a part of the values that read it. The sources of an open node are
    all nodes of its delegate before it.
    """

    def __init__(self, steps: Iterable[Step], numbers: Mapping[tuple[int, int], int]) -> None:
        self.numbers = numbers
        self.of_value: dict[int, frozenset[int]] = {}
        self._of_step: dict[Step, frozenset[int]] = {}
        self._first: dict[Step, int] = {}
        seen: Counter[int] = Counter()
        """Outputs by event: a delegate without described nodes is one step."""
        delegate, opened = "", frozenset[int]()
        for step in steps:
            self._first[step] = seen[step.order]
            seen[step.order] += len(step.outputs)
            contents = frozenset[int]().union(*map(self.of, step.sources))
            own = {n for i in range(len(step.outputs)) if (n := self._number(step, i)) is not None}
            if step.inside and step.is_open:
                here = step.where.partition(",")[0]
                delegate, opened = here, opened if here == delegate else frozenset()
                contents |= opened
                opened |= own
            else:
                delegate = ""
            self._of_step[step] = contents
            self.of_value.update((number, contents) for number in own)

    def _number(self, step: Step, output: int) -> int | None:
        return self.numbers.get((step.order, self._first.get(step, 0) + output))

    def of(self, source: StepSource | None) -> frozenset[int]:
        """Return a source itself where it has a number, or the values that it was computed from."""
        step, output = source or (0, 0)
        if isinstance(step, int):
            return frozenset()  # an input
        number = self._number(step, output)
        if number is not None:
            return frozenset((number,))
        return self._of_step.get(step, frozenset())
