"""New outputs of a payload, and why a value cannot be one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from executorch_c._types import DelegateInside


@dataclass(frozen=True)
class Outputs:
    """What a delegate returns."""

    inside: DelegateInside
    """The nodes and values of the payload."""
    values: Sequence[int]
    """Values that become outputs, behind the others."""
    nodes: frozenset[int] | None = None
    """The nodes that are kept, and the new outputs are the only ones; None: all."""
    inputs: Sequence[int] | None = None
    """Values that become the only inputs, before the outputs; None: those of the payload stay."""

    @property
    def is_cut(self) -> bool:
        return self.nodes is not None

    def end(self) -> int:
        """Return the number of operations up to the last node that is kept, for formats whose debug
        handles count them: the listing does not have all that a node depends on."""
        rows = self.inside["nodes"]
        places = (rows[number]["debug_handle"] for number in self.nodes or ())
        return 1 + max((place for place in places if place is not None), default=-1)

    def is_kept(self, place: int) -> bool:
        """Return True if the operation at a place is kept, in formats whose debug handles count
        them: those up to the end; of a part with inputs of its own, no other node."""
        others = {
            row["debug_handle"]
            for number, row in enumerate(self.inside["nodes"])
            if self.inputs is not None and number not in (self.nodes or ())
        }
        return place < self.end() and place not in others


class CannotBeOutput(ValueError):
    """A value that cannot be an output of its payload; the text says why."""

    def __init__(self, text: str, value: int | None = None) -> None:
        """`value`: the value; None: no value of the payload can."""
        super().__init__(text)
        self.value = value


MAX_NAME = 120
"""Characters of a name that a listing has; longer names are cut."""


def name_in(inside: DelegateInside, value: int) -> str:
    """Return the name of a value, for payloads in which values have names."""
    note = next((v["note"] for v in inside["values"] if v["id"] == value), None)
    name = (note or "").split(", ")[0]
    if not name or len(name) >= MAX_NAME:
        raise CannotBeOutput("its name in the payload is unknown", value)
    return name


Writer: TypeAlias = Callable[[bytes, Outputs], bytes]


def needed(inside: DelegateInside, values: Sequence[int]) -> frozenset[int]:
    """Return the nodes that some values depend on."""
    wanted, nodes = set(values), set()
    for number in range(len(inside["nodes"]) - 1, -1, -1):
        row = inside["nodes"][number]
        if not wanted.isdisjoint(row["outputs"]):
            nodes.add(number)
            wanted |= set(row["inputs"])
    return frozenset(nodes)
