"""Programs with other outputs: values of instructions, and values inside delegates.

Extra outputs follow those of the method, which runs as before. A cut runs up to the last
instruction that it needs, and returns the new outputs alone; of a delegate it runs the nodes that
they depend on.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from executorch_c._core import NotSupportedError, _scalar_types
from executorch_c.inspect.structure import Instruction, View
from executorch_c.rewrite import xnnpack
from executorch_c.rewrite.kinds import WRITERS
from executorch_c.rewrite.outputs import CannotBeOutput, Outputs, Writer, needed
from executorch_c.rewrite.places import Places
from executorch_c.rewrite.program import ProgramTables

if TYPE_CHECKING:
    from executorch_c._core import Program
    from executorch_c._types import DelegateInside

UNREADABLE = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    AssertionError,
    StopIteration,
    OverflowError,
    RecursionError,
    struct.error,
)
"""Exceptions of writers for payloads without a table, an entry or an item that all have."""
STATIC, BOUNDED = 0, 1
MAX_ITEM_BYTES = 8
QUANTIZED = ("XnnpackBackend",)
"""Backends whose traces have what integers stand for."""
STORED = {"qint8": "int8", "quint8": "uint8", "qint32": "int32"}
"""Dtypes of quantised values, whose trace has what they stand for."""
MEMORY = 1
"""Planned memory of new outputs."""


@dataclass(frozen=True)
class Point:
    """A value that becomes an output."""

    at: int
    """Index of the instruction over all chains, as `Instruction.at`."""
    value: int
    """Number of the value: in the method, or in the delegate that the instruction calls."""
    is_inside: bool
    """True for a value in a delegate."""
    dtype: str
    sizes: tuple[int, ...]
    """Sizes in the call that the output is for."""


@dataclass(frozen=True)
class Rewritten:
    """A program with other outputs."""

    data: bytes
    """The .pte."""
    outputs: tuple[int | None, ...]
    """Output of the method for each point; None for one that cannot be an output."""
    refusals: tuple[str, ...]
    """Why a point is no output; empty texts for the others."""
    steps: tuple[tuple[float, int] | None, ...]
    """Scale and zero point of integers whose trace has what they stand for; None for others."""


class Rewriter:
    """One change of a method."""

    def __init__(self, program: Program, data: bytes, method: str, is_cut: bool) -> None:
        self.view = View(program, method)
        self.tables = ProgramTables(data, method)
        self.plan = self.tables.plan
        self.places = Places(self.plan, self.view)
        self.is_cut = is_cut
        self.steps: dict[tuple[int, int], tuple[float, int]] = {}
        """Of values by instruction and number."""
        self.is_dynamic = any(
            v["kind"] == "Tensor" and v["dynamism"] != "static" for v in self.view.values
        )
        if is_cut:
            self.plan["outputs"] = []

    # ---- outputs ---------------------------------------------------------------------------

    def add(self, value: int) -> int:
        """Make a value an output of the method; return its number."""
        self.plan["outputs"] = [*self.plan["outputs"], value]
        return len(self.plan["outputs"]) - 1

    def instruction(self, point: Point) -> int:
        """Make the result of an instruction an output."""
        if not self.is_cut:
            self.places.keep(self._lasting(point.value, point, self.view.steps[point.at]))
        return self.add(point.value)

    def opened(self, step: Instruction) -> tuple[int, str, DelegateInside, Writer]:
        """Return the delegate that an instruction calls: number, backend, nodes and writer."""
        number = step.row["delegate"]
        assert number is not None
        backend = self.view.structure["delegates"][number]["id"]
        inside = self.view.inside(number)
        writer = WRITERS.get(backend)
        if writer is None or inside is None or isinstance(inside, str):
            raise CannotBeOutput(
                f"payloads of {backend} have no writer; an ETDump with a debug buffer has values"
            )
        return number, backend, inside, writer

    def call_of(self, step: Instruction) -> dict[str, Any]:
        """Return the table of an instruction's call."""
        row = self.plan["chains"][step.chain]["instructions"][step.number]
        call: dict[str, Any] = row["instr_args"][1]
        return call

    def delegate(self, step: Instruction, points: Sequence[Point]) -> list[int]:
        """Make values inside a delegate outputs of it, and of the method."""
        number, backend, inside, writer = self.opened(step)
        call = self.call_of(step)
        places = {v["id"]: v["argument"] for v in inside["values"] if v["argument"] is not None}
        values = [p.value for p in points if self.is_cut or p.value not in places]
        kept = {
            p.value: self._lasting(call["args"][places[p.value]], p, step)
            for p in points
            if p.value not in values
        }
        nodes = needed(inside, values) if self.is_cut else None
        if backend in QUANTIZED:
            with self._readable(number):
                found = xnnpack.steps(self.tables.payload(number), values)
            self.steps.update(((step.at, value), one) for value, one in found.items())
        if values:
            payload = self.payload(writer, number, Outputs(inside, values, nodes))
            self.tables.set_payload(number, payload)
        slots, new = [], []
        for point in points:
            if point.value in values:
                new.append(self.tensor(point, inside))
                slots.append(new[-1])
            else:
                slots.append(kept[point.value])
                self.places.keep(slots[-1])
        arguments = list(call["args"])
        if self.is_cut:
            written = {value for row in inside["nodes"] for value in row["outputs"]}
            arguments = [
                slot
                for i, slot in enumerate(arguments)
                if not any(at == i and value in written for value, at in places.items())
            ]
        call["args"] = [*arguments, *new]
        return [self.add(slot) for slot in slots]

    def payload(self, writer: Writer, delegate: int, outputs: Outputs) -> bytes:
        with self._readable(delegate):
            return writer(self.tables.payload(delegate), outputs)

    @contextmanager
    def _readable(self, delegate: int) -> Iterator[None]:
        """Raise CannotBeOutput for the exceptions of writers for a payload that they cannot read:
        a backend's engine verifies only what it runs."""
        try:
            yield
        except (CannotBeOutput, NotSupportedError):
            raise
        except UNREADABLE as error:
            backend = self.view.structure["delegates"][delegate]["id"]
            why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise CannotBeOutput(
                f"the payload of {backend} is damaged, or of another version ({why})"
            ) from None

    def _lasting(self, slot: int, point: Point, step: Instruction) -> int:
        """Return a value of the method. Raises CannotBeOutput if something overwrites it."""
        if why := self.places.overwriter(slot, step.at):
            raise CannotBeOutput(why, point.value)
        return slot

    def tensor(self, point: Point, inside: Any) -> int:
        """Add a tensor for a value inside a delegate to the method; return its number."""
        row = next(value for value in inside["values"] if value["id"] == point.value)
        bounds = row["shape"] or point.sizes
        sizes = tuple(map(max, bounds, point.sizes)) if len(bounds) == len(point.sizes) else None
        if sizes is None:
            sizes = point.sizes
        dtype = STORED.get(row["dtype"] or "", point.dtype)
        count = math.prod(sizes) * MAX_ITEM_BYTES
        tensor = {
            "scalar_type": _scalar_types()[dtype],
            "storage_offset": 0,
            "sizes": sizes,
            "dim_order": bytes(range(len(sizes))),
            "requires_grad": 0,
            "data_buffer_idx": 0,
            "allocation_info": self.places.allocation(MEMORY, self.places.reserve(count, MEMORY)),
            "layout": 0,
            "shape_dynamism": BOUNDED if self.is_dynamic or sizes != point.sizes else STATIC,
        }
        self.plan["values"].append({"val": ["Tensor", tensor]})
        return len(self.plan["values"]) - 1

    # ---- cutting ---------------------------------------------------------------------------

    def end_after(self, last: Instruction) -> None:
        """Remove the instructions behind one, and the delegates that nothing calls."""
        self.keep({step.at for step in self.view.steps if step.at <= last.at})

    def keep(self, kept: Collection[int]) -> None:
        """Remove all instructions but these, by `Instruction.at`, and the delegates that nothing
        calls."""
        steps = [step for step in self.view.steps if step.at in kept]
        chains = self.plan["chains"][: 1 + max(step.chain for step in steps)]
        for number, chain in enumerate(chains):
            numbers = [step.number for step in steps if step.chain == number]
            for name in ("instructions", "stacktrace"):
                if name in chain:
                    chain[name] = [chain[name][i] for i in numbers]
        self.plan["chains"] = chains
        calls = [
            one["instr_args"][1]
            for chain in chains
            for one in chain.get("instructions", ())
            if one["instr_args"][0] == "DelegateCall"
        ]
        used = sorted({call.get("delegate_index", 0) for call in calls})
        self.tables.keep_delegates(set(used))
        for call in calls:
            call["delegate_index"] = used.index(call.get("delegate_index", 0))
        delegates = self.plan.get("delegates", [])
        self.plan["delegates"] = [delegates[number] for number in used]


def with_outputs(
    program: Program, data: bytes, points: Iterable[Point], method: str = "forward", *, cut: bool
) -> Rewritten:
    """Return a program with other outputs.

    Args:
        program: The program of `data`, the bytes of a .pte.
        points: The values, in the order of the outputs.
        method: Name of the method, the only one that is written.
        cut: Return only these outputs, of one instruction; without it they follow those of the
            method.

    Raises NotSupportedError if the program cannot be rewritten, ImportError without the package
    flatbuffers.
    """
    points = list(points)
    rewriter = Rewriter(program, data, method, cut)
    outputs: dict[int, int] = {}
    refusals: dict[int, str] = {}
    for at in sorted({point.at for point in points}):
        numbers = [i for i, point in enumerate(points) if point.at == at]
        _add(rewriter, points, numbers, outputs, refusals)
    if cut and outputs:
        rewriter.end_after(rewriter.view.steps[max(points[i].at for i in outputs)])
    elif not outputs:
        why = next(iter(refusals.values()), "no values")
        raise NotSupportedError(f"none of the values can be an output: {why}")
    return Rewritten(
        rewriter.tables.write(),
        tuple(outputs.get(i) for i in range(len(points))),
        tuple(refusals.get(i, "") for i in range(len(points))),
        tuple(rewriter.steps.get((point.at, point.value)) for point in points),
    )


def _add(
    rewriter: Rewriter,
    points: Sequence[Point],
    numbers: Sequence[int],
    outputs: dict[int, int],
    refusals: dict[int, str],
) -> None:
    """Add the points of one instruction, as many as can be outputs."""
    left = [i for i in numbers if points[i].is_inside]
    for i in (i for i in numbers if not points[i].is_inside):
        try:
            outputs[i] = rewriter.instruction(points[i])
        except CannotBeOutput as refusal:
            refusals[i] = str(refusal)
    while left:
        try:
            step = rewriter.view.steps[points[left[0]].at]
            outputs.update(zip(left, rewriter.delegate(step, [points[i] for i in left])))
            return
        except CannotBeOutput as refusal:
            named = [i for i in left if points[i].value == refusal.value] or left
            refusals.update((i, str(refusal)) for i in named)
            left = [i for i in left if i not in named]
