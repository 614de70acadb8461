"""Reads of a method that get no defined value: of what no instruction has written, and of what was
moved and overwritten.

    for read in dataflow.suspects(View(program, "forward")):
        print(read)

Two analyses over the instructions and their jumps. *Definite assignment*: a tensor is defined if it
is an input, a constant or state, if an instruction has written it (a delegate: if its payload has
the output), or if one has written the memory in the plan that contains it or that it contains:
exporters omit the instructions of views. Reading state before it is written is not reported.
*Moves*: this runtime copies, the reference runtime lets both values have the source's memory, which
the plan gives to other tensors.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from executorch_c.inspect import structure

if TYPE_CHECKING:
    from executorch_c.inspect.structure import Instruction, View

MAX_VISITS = 20_000_000
"""Maximum number of pairs of moves and instructions: a method with more is not examined."""
SHARED_FROM = 2
"""First planned memory that methods may share."""


@dataclass(frozen=True)
class Suspect:
    """A read without a defined value."""

    kind: Literal["unwritten", "skipped", "moved", "move viewed"]
    """`unwritten`: nothing writes the value. `skipped`: jumps lead past what writes it. In the
    reference runtime only, `moved`: its memory was overwritten after a move; `move viewed`: a view
    of the target of a move has memory that nothing writes."""
    method: str
    value: int
    reader: Instruction | None
    """The first instruction that reads it; None: an output of the method."""
    output: int | None = None
    """Index of the output, without a reader."""
    argument: str | None = None
    """The reader's argument."""
    writer: Instruction | None = None
    """Of `moved`, the instruction that overwrites the memory; of `skipped`, one that is skipped."""
    move: Instruction | None = None

    @property
    def is_of_reference(self) -> bool:
        """True if only the reference runtime computes other numbers."""
        return self.kind in ("moved", "move viewed")

    @property
    def instruction(self) -> int | None:
        """Index of the reader in its chain."""
        return None if self.reader is None else self.reader.number

    @property
    def source(self) -> str:
        """File and line of the reader; empty without a stack trace."""
        return "" if self.reader is None else structure.source(self.reader)

    def __str__(self) -> str:
        return _TEXTS[self.kind](self)

    def _reads(self) -> str:
        if self.reader is None:
            return f"output {self.output} is %{self.value}"
        argument = f" ({self.argument})" if self.argument else ""
        at = f", {self.source}" if self.source else ""
        return f"{_named(self.reader)}{at} reads %{self.value}{argument}"


def _named(step: Instruction) -> str:
    return f"instruction {step.number}, {step.title},"


def _unwritten(one: Suspect) -> str:
    if one.reader is None:
        what = f"output {one.output} (%{one.value})"
    else:
        at = f", {one.source}" if one.source else ""
        argument = f" as {one.argument}" if one.argument else ""
        what = f"%{one.value}, which {_named(one.reader)}{at} reads{argument}"
    return (
        f"nothing writes {what}: the result depends on what the memory contains (zeros here). "
        "The export lost the value, as it does with the carry of torch.scan, and with inputs "
        "of XNNPACK that are only dequantised: write that part of the model in another "
        "way"
    )


def _skipped(one: Suspect) -> str:
    assert one.writer is not None
    return (
        f"{one._reads()}, which {_named(one.writer)} writes, unless a jump leads past it: "
        "write that part of the model in another way"
    )


def _moved(one: Suspect) -> str:
    assert one.writer is not None and one.move is not None
    return (
        f"{one._reads()}, which instruction {one.move.number} moved from %{one.move.reads[0]} "
        f"and whose memory {_named(one.writer)} writes before: a move of the official runtime "
        "does not copy (executorch #21490), so that it computes other numbers; here a move "
        "copies. Clone the result of each torch.cond in the model"
    )


def _move_viewed(one: Suspect) -> str:
    assert one.move is not None
    return (
        f"{one._reads()}, a view of what instruction {one.move.number} moves: the official "
        "runtime does not copy (executorch #21490), so that nothing writes its memory; here a "
        "move copies. Clone the result of each torch.cond in the model"
    )


_TEXTS = {
    "unwritten": _unwritten,
    "skipped": _skipped,
    "moved": _moved,
    "move viewed": _move_viewed,
}


def suspects(view: View) -> Iterator[Suspect]:
    """Yield the reads of a method without a defined value, the first of each value."""
    flow = DataFlow(view)
    yield from _Assignment(flow).suspects()
    yield from _moves(flow)


# ---- control flow and memory -------------------------------------------------------------------


class DataFlow:
    """The instructions of a method with their successors, and the places of its tensors. The time
    after the last instruction is `end`."""

    def __init__(self, view: View) -> None:
        self.view, self.steps, self.end = view, view.steps, len(view.steps)
        self.outputs = [
            (number, item)
            for number, index in enumerate(view.structure["outputs"])
            for item in view.items(index)
            if view.is_tensor(item)
        ]
        lengths = [len(rows) for rows in view.structure["chains"]]
        self._starts = [sum(lengths[:chain]) for chain in range(len(lengths) + 1)]
        self.has_jumps = any(step.row["kind"] == "jump" for step in self.steps)
        self.writers = defaultdict[int, list["Instruction"]](list)
        self.readers = defaultdict[int, list["Instruction"]](list)
        self.lost = {index for step in self.steps for index in _lost(view, step)}
        for step in self.steps:
            for index in filter(view.is_tensor, dict.fromkeys(step.writes)):
                if index not in self.lost:
                    self.writers[index].append(step)
            for index in filter(view.is_tensor, dict.fromkeys(step.reads)):
                self.readers[index].append(step)

    def next(self, at: int) -> Iterator[int]:
        """Yield the instructions that may run after one."""
        step = self.steps[at]
        destination = step.row["destination"]
        if destination is not None:
            bounds = self._starts[step.chain], self._starts[step.chain + 1]
            yield min(bounds[0] + destination, bounds[1])
        if self.view.goes_on(step):
            yield at + 1

    def after(self, start: int, stops: Iterable[int] = ()) -> set[int]:
        """Return the instructions that may run after one, before any of `stops` has run again."""
        ends, seen, left = set(stops), set[int](), list(self.next(start))
        while left:
            at = left.pop()
            if at in seen:
                continue
            seen.add(at)
            if at < self.end and at not in ends:
                left += self.next(at)
        return seen

    def place(self, index: int) -> tuple[int, int, int] | None:
        """Return arena, begin and end of a tensor in planned memory; None elsewhere."""
        value = self.view.values[index]
        if value["kind"] != "Tensor" or value["arena"] is None or not value["nbytes"]:
            return None
        return value["arena"], value["offset"], value["offset"] + value["nbytes"]

    def argument(self, step: Instruction, index: int) -> str | None:
        """Return the name of the argument by which an instruction reads a value."""
        return next(
            (
                name
                for argument, name, role in step.row["args"]
                if role in ("in", "inout") and index in self.view.items(argument)
            ),
            None,
        )


def _lost(view: View, step: Instruction) -> set[int]:
    """Return the outputs of a delegate that no value of its payload is: its exporter has lost
    them."""
    inside = None if step.row["delegate"] is None else view.inside(step.row["delegate"])
    if not isinstance(inside, dict):
        return set()
    known = {value["argument"] for value in inside["values"]} - {None}
    return {
        item
        for position, (index, _, role) in enumerate(step.row["args"])
        if known and role == "out" and position not in known
        for item in view.items(index)
    }


def _overlap(a: tuple[int, int, int] | None, b: tuple[int, int, int] | None) -> bool:
    return a is not None and b is not None and a[0] == b[0] and a[1] < b[2] and b[1] < a[2]


def _contains(a: tuple[int, int, int], b: tuple[int, int, int]) -> bool:
    return a[0] == b[0] and a[1] <= b[1] and b[2] <= a[2]


# ---- definite assignment -----------------------------------------------------------------------


class _Assignment:
    """Values that are defined before each instruction, as bits of whole numbers by index."""

    def __init__(self, flow: DataFlow) -> None:
        self.flow, self.view = flow, flow.view
        self.tensors = [i for i in range(len(self.view.values)) if self.view.is_tensor(i)]
        self.inputs = [
            item
            for index in self.view.structure["inputs"]
            for item in self.view.items(index)
            if self.view.is_tensor(item)
        ]
        self.views = self._views()
        self.entry = 0
        for index in self.tensors:
            if self._is_initial(index):
                self.entry |= 1 << index
        for index in self.inputs:
            self.entry |= self._bits(index)
        self.written = [0] * (flow.end + 1)
        for step in flow.steps:
            every = not step.row["available"] and step.row["kind"] == "kernel"
            for index in {*step.writes, *(step.reads if every else ())} - flow.lost:
                if self.view.is_tensor(index):
                    self.written[step.at] |= self._bits(index)

    def _is_initial(self, index: int) -> bool:
        """Return True for constants, and for memory that something else than the instructions may
        fill: an initial value, an attribute by name, another method."""
        value = self.view.values[index]
        if value["where"] in ("constant", "external", "state") or value["name"] is not None:
            return True
        if not value["nbytes"]:
            return True
        several = len(self.view.program.method_names) > 1
        return several and value["arena"] is not None and value["arena"] >= SHARED_FROM

    def _views(self) -> dict[int, list[int]]:
        """Return tensors without a writer by each tensor whose memory contains theirs, or is
        contained: views that the exporter omitted."""
        flow, views = self.flow, defaultdict[int, list[int]](list)
        open_ = [i for i in flow.readers if i not in flow.writers and i not in self.inputs]
        open_ += [i for _, i in flow.outputs if i not in flow.writers and i not in self.inputs]
        bases = sorted({*flow.writers, *self.inputs})
        by_place = defaultdict[tuple[int, int, int], list[int]](list)
        for base in bases:
            if (place := flow.place(base)) is not None:
                by_place[place].append(base)
        for index in dict.fromkeys(open_):
            own = flow.place(index)
            if own is None or index in flow.lost or self._is_initial(index):
                continue
            for place, same in by_place.items():
                if _contains(place, own) or _contains(own, place):
                    for base in same:
                        views[base].append(index)
        return views

    def _bits(self, index: int) -> int:
        bits = 1 << index
        for other in self.views.get(index, ()):
            bits |= 1 << other
        return bits

    def before(self, every: bool) -> list[int]:
        """Return the values that are defined before each instruction, on all paths to it (`every`)
        or on some path."""
        flow = self.flow
        known: list[int | None] = [None] * (flow.end + 1)
        known[0] = self.entry
        left = [0]
        while left:
            at = left.pop()
            now = known[at]
            assert now is not None
            if at == flow.end:
                continue
            after = now | self.written[at]
            for target in flow.next(at):
                old = known[target]
                new = after if old is None else (old & after if every else old | after)
                if new != old:
                    known[target] = new
                    left.append(target)
        return [-1 if bits is None else bits for bits in known]  # -1: never reached

    def suspects(self) -> Iterator[Suspect]:
        """Yield reads of values that are not defined on each path."""
        always, ever = self.before(True), self.before(False)
        seen = set[int]()
        reads = [
            (step.at, index)
            for step in self.flow.steps
            for index in step.reads
            if step.row["kind"] != "free"
        ]
        reads += [(self.flow.end, index) for _, index in self.flow.outputs]
        for at, index in reads:
            if index in seen or not self.view.is_tensor(index) or always[at] >> index & 1:
                continue
            one = self._suspect(at, index, bool(ever[at] >> index & 1))
            if one is not None:
                seen.add(index)
                yield one

    def _suspect(self, at: int, index: int, sometimes: bool) -> Suspect | None:
        """Return a suspect; None for state: memory that a later instruction writes, for the next
        call."""
        writers = self.flow.writers.get(index, [])
        before = [step for step in writers if step.at < at]
        if writers and not (sometimes and before):
            return None
        if sometimes and not writers:
            return None  # a view of what some path writes
        if at == self.flow.end:
            output = next(number for number, item in self.flow.outputs if item == index)
            reader, argument = None, None
        else:
            output, reader = None, self.flow.steps[at]
            argument = self.flow.argument(reader, index)
        return Suspect(
            "skipped" if writers else "unwritten",
            self.view.method,
            index,
            reader,
            output,
            argument,
            before[0] if before else None,
        )


# ---- moves -------------------------------------------------------------------------------------


def _moves(flow: DataFlow) -> Iterator[Suspect]:
    """Yield the first read of each moved value after its source's memory has been overwritten."""
    moves = [step for step in flow.steps if step.row["kind"] == "move"]
    moves = [step for step in moves if flow.view.is_tensor(step.reads[0])]
    if len(moves) * (flow.end + 1) > MAX_VISITS:
        return
    seen = set[int]()
    for move in moves:
        target = move.writes[0]
        if target in seen:
            continue
        one = _overwritten(flow, move) or _viewed(flow, move)
        if one is not None:
            seen.add(target)
            yield one


def _overwritten(flow: DataFlow, move: Instruction) -> Suspect | None:
    (source,), (target,) = move.reads, move.writes
    own = flow.place(source)
    others = [step.at for step in flow.writers[target]]
    lives = flow.after(move.at, others)
    reads = [step for step in flow.readers[target] if step.at in lives]
    last = [number for number, item in flow.outputs if item == target and flow.end in lives]
    if own is None or not (reads or last):
        return None
    for at in sorted(lives - {flow.end}):
        writer = flow.steps[at]
        if at in others or not any(_overlap(flow.place(i), own) for i in writer.writes):
            continue
        later = flow.after(at, others)
        reader = next((step for step in reads if step.at in later), None)
        if reader is None and not (last and flow.end in later):
            continue
        return Suspect(
            "moved",
            flow.view.method,
            target,
            reader,
            None if reader else last[0],
            flow.argument(reader, target) if reader else None,
            writer,
            move,
        )
    return None


def _viewed(flow: DataFlow, move: Instruction) -> Suspect | None:
    """Return the read of a view of a move's target that no instruction creates."""
    (target,) = move.writes
    own = flow.place(target)
    if own is None or any(step.row["kind"] != "move" for step in flow.writers[target]):
        return None
    lives = flow.after(move.at)
    inputs = {item for index in flow.view.structure["inputs"] for item in flow.view.items(index)}
    for index, readers in flow.readers.items():
        if index in flow.writers or index in inputs or flow.place(index) != own:
            continue
        reader = next((step for step in readers if step.at in lives), None)
        if reader is not None and not _is_filled(flow, own, move, reader):
            return Suspect(
                "move viewed",
                flow.view.method,
                index,
                reader,
                None,
                flow.argument(reader, index),
                None,
                move,
            )
    return None


def _is_filled(
    flow: DataFlow, place: tuple[int, int, int], move: Instruction, reader: Instruction
) -> bool:
    """Return True if an instruction that computes writes the memory between a move and a reader."""
    return any(
        step.row["kind"] != "move"
        and move.at < step.at < reader.at
        and any(_overlap(flow.place(i), place) for i in step.writes)
        for step in flow.steps
    )
