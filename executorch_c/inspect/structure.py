"""Methods for the tools of this package: readers and writers of each value, in order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from executorch_c._core import Error, OutOfResourcesError, Runtime
from executorch_c._render import text as _text
from executorch_c import _coreai
from executorch_c.inspect import payloads
from executorch_c.inspect.where import Where

if TYPE_CHECKING:
    from executorch_c._core import Program
    from executorch_c._types import (
        DelegateInside,
        MethodStructure,
        StructureInstruction,
        StructureValue,
    )

DEAD = "nobody reads it"
"""In a backend's note on a node that is not run."""

LISTS = ("IntList", "TensorList", "OptionalTensorList")
"""Kinds of values that hold indices of values."""

MAX_DEPTH = 8
"""Maximum nesting depth of programs in payloads."""
MAX_ROWS = 2_000_000
"""Maximum number of values, instructions, items of lists and nodes that a tool reads. A small file
can use one list in each instruction, and one program as the payload of many delegates."""

ROWS_OF_PROGRAM, BYTES_OF_ROW = 100, 64
"""Rows that take as long as opening a method or payload, and bytes that take as long as a row."""


class Budget:
    """The rows that a tool may still read, over all methods of a program."""

    def __init__(self) -> None:
        self.left = MAX_ROWS

    def take(self, rows: int) -> None:
        """Take rows. Raises OutOfResourcesError if fewer are left."""
        self.left -= rows
        if self.left < 0:
            raise OutOfResourcesError(
                f"the program repeats its lists, delegates or payloads: more than {MAX_ROWS:,} "
                "values, instructions and nodes"
            )


@dataclass(frozen=True)
class Instruction:
    """An instruction and its place in the method."""

    at: int
    """Index over all chains."""
    chain: int
    number: int
    row: StructureInstruction
    reads: tuple[int, ...]
    """Values of the arguments, with lists replaced by their items."""
    writes: tuple[int, ...]

    def place(self, depth: int = 0) -> str:
        """Return its place as reports name it (`inspect.events.named`): "instruction 3". `depth` is
        that of the programs in payloads around it."""
        return str(Where(self.number, chain=self.chain, depth=depth))

    @property
    def title(self) -> str:
        """Name of the operator, of the backend, or of the kind of instruction."""
        return self.row["name"] or self.row["kind"]


class View:
    """One method of a program: instructions in order, with the values that they read and write.

    Raises OutOfResourcesError for a program of more rows than `budget` has left.
    """

    def __init__(
        self, program: Program, method: str, depth: int = 0, budget: Budget | None = None
    ) -> None:
        self.program = program
        self.method = method
        self.depth = depth
        self.budget = budget or Budget()
        self.structure: MethodStructure = program._structure(method)
        self.values = self.structure["values"]
        self.budget.take(ROWS_OF_PROGRAM + len(self.values))
        self.steps = tuple(self._steps())
        self._inside: dict[int, DelegateInside | str | None] = {}
        self._nested: dict[int, list[View]] = {}

    def _steps(self) -> Iterator[Instruction]:
        at = 0
        for chain, rows in enumerate(self.structure["chains"]):
            for number, row in enumerate(rows):
                reads, writes = [], []
                for index, _, role in row["args"]:
                    if role in ("in", "inout"):
                        reads += self.items(index)
                    if role in ("out", "inout"):
                        writes += self.items(index)
                self.budget.take(1 + len(reads) + len(writes))
                yield Instruction(at, chain, number, row, tuple(reads), tuple(writes))
                at += 1

    def items(self, index: int) -> list[int]:
        """Return the values of an argument: the value, or the items of a list."""
        value = self.values[index]
        if value["kind"] not in LISTS:
            return [index]
        listed = value["value"]
        assert isinstance(listed, list)
        return [item for item in listed if isinstance(item, int)]

    def is_tensor(self, index: int) -> bool:
        return self.values[index]["kind"] == "Tensor"

    @cached_property
    def computed(self) -> frozenset[int]:
        """Return the values that change: written by an instruction, or inputs."""
        written = {index for step in self.steps for index in step.writes}
        return frozenset(written | set(self.structure["inputs"]))

    @cached_property
    def targets(self) -> frozenset[tuple[int, int]]:
        """Return the chain and index of every jump target."""
        jumps = ((step.chain, step.row["destination"]) for step in self.steps)
        return frozenset((chain, number) for chain, number in jumps if number is not None)

    def goes_on(self, step: Instruction) -> bool:
        """Return True if the next instruction may run after this one. A jump on a constant false is
        always taken."""
        if step.row["kind"] != "jump":
            return True
        (condition,) = step.reads
        value = self.values[condition]
        return condition in self.computed or value["kind"] == "Tensor" or bool(value["value"])

    @cached_property
    def bases(self) -> dict[int, int]:
        """Return views and their bases: tensors without a writer, at the place in memory of a
        tensor with one. Exporters omit the instructions that create such views."""
        here: dict[tuple[int, int], int] = {}
        known = set(self.structure["inputs"])
        bases: dict[int, int] = {}
        for index in self.structure["inputs"]:
            self._note_place(here, index)
        for step in self.steps:
            for index in step.reads:
                place = self._place(index)
                if index not in known and place in here and self.values[index]["nbytes"]:
                    bases[index] = here[place]
                known.add(index)
            for index in step.writes:
                known.add(index)
                self._note_place(here, index)
        for index in self.structure["outputs"]:
            for item in self.items(index):
                if item not in known and (place := self._place(item)) in here:
                    bases[item] = here[place]
        return bases

    def _place(self, index: int) -> tuple[int, int]:
        value = self.values[index]
        if value["kind"] != "Tensor" or value["where"] != "planned":
            return (0, index)
        assert value["arena"] is not None
        return value["arena"], value["offset"]

    def _note_place(self, here: dict[tuple[int, int], int], index: int) -> None:
        place = self._place(index)
        if place[0]:
            here[place] = index

    def inside(self, delegate: int) -> DelegateInside | str | None:
        """Return a delegate's nodes; an error message for an invalid payload; None without a
        description."""
        if delegate not in self._inside:
            self._inside[delegate] = self._read_inside(delegate)
        return self._inside[delegate]

    def _read_inside(self, delegate: int) -> DelegateInside | str | None:
        try:
            inside = self.program._delegate(self.method, delegate)
            row = self.structure["delegates"][delegate]
            if inside is None and row["id"] == "CoreAIBackend":
                payload = self.program._payload(self.method, delegate)
                inside = _coreai.described(payload, self.program._named_data)
        except Error as error:
            return str(error)
        if inside is not None:
            self.budget.take(len(inside["values"]) + len(inside["nodes"]))
        return inside

    def facts(self, delegate: int) -> list[tuple[str, str]]:
        """Return what the payload of a backend without an engine shows: names and texts."""
        row = self.structure["delegates"][delegate]
        if row["id"] not in payloads.READERS:
            return []
        self.budget.take(ROWS_OF_PROGRAM + row["size"] // BYTES_OF_ROW)
        payload = self.program._payload(self.method, delegate)
        return payloads.facts(row["id"], payload, self.program._named_data)

    def nested(self, delegate: int) -> list[View]:
        """Return the methods of a payload that is a program."""
        if delegate not in self._nested:
            self._nested[delegate] = self._read_nested(delegate)
        return self._nested[delegate]

    def _read_nested(self, delegate: int) -> list[View]:
        payload = self.program._payload(self.method, delegate)
        self.budget.take(ROWS_OF_PROGRAM + len(payload) // BYTES_OF_ROW)
        if payload[4:8] != b"ET12" or self.depth >= MAX_DEPTH:
            return []
        try:
            program = Runtime.get().load_program(payload)
            return [
                View(program, name, self.depth + 1, self.budget)
                for name in sorted(program.method_names)
            ]
        except OutOfResourcesError:
            raise
        except Error:
            return []


def view_of(program: Program, method: str) -> View | None:
    """Return a view of a method; None of one of too many rows."""
    try:
        return View(program, method)
    except OutOfResourcesError:
        return None


def methods(program: Program, method: str | None) -> list[View]:
    """Return views of one method, or of all, sorted by name."""
    names = sorted(program.method_names) if method is None else [method]
    budget = Budget()
    return [View(program, name, budget=budget) for name in names]


Frame: TypeAlias = "tuple[str | None, int, str | None, str | None]"


def frame(step: Instruction) -> Frame:
    """Return the source of an instruction with a stack trace: the innermost frame outside torch."""
    stack = step.row["stack"]
    own = [f for f in stack if f[0] and "/torch/" not in f[0].replace("\\", "/")]
    return (own or stack)[-1]


def source(step: Instruction) -> str:
    """Return file and line of an instruction: "model.py:12"; empty without a stack trace."""
    if not step.row["stack"]:
        return ""
    file, line, _, _ = frame(step)
    name = (file or "?").replace("\\", "/").rpartition("/")[2]
    return f"{name}:{line}"


# ---- text ------------------------------------------------------------------------------------


def shape(sizes: tuple[int, ...] | None, dynamism: str = "static") -> str:
    """Return a shape: "(1, 3)"; "(<=1, <=3)" with upper bounds; "(?)" if unknown."""
    if sizes is None:
        return "(?)"
    return _text.sizes(sizes, "" if dynamism == "static" else "<=")


def place(value: StructureValue) -> str:
    """Return a place in planned memory: "arena 1 @ 64"; otherwise an empty text."""
    return f"arena {value['arena']} @ {value['offset']}" if value["arena"] else ""


def home(value: StructureValue) -> str:
    """Return the place of a tensor's data: "arena 1 @ 64", "constant, file @ 0x40", ..."""
    if value["where"] == "planned":
        return place(value)
    data = "" if value["at"] is None else f"file @ {value['at']:#x}"
    if value["where"] == "state":
        return f"{place(value)}, first {data or 'external data'}"
    return {"constant": f"constant, {data}", "external": "external data"}.get(value["where"], "")


def tensor(value: StructureValue) -> str:
    """Return the type of a tensor: "float32 (1, 3)", with the dimension order if it is not the
    default."""
    order = list(value["dim_order"])
    note = f" order {order}" if order != sorted(order) else ""
    return f"{value['dtype']} {shape(value['shape'], value['dynamism'])}{note}"
