"""Ids of the results inside a program: of nodes of delegates, and of instructions. They are

d0.3    delegate 0, node 3 in order of execution, as "delegate 0, node 3" of other reports
i7      instruction 7, outside of delegates
i7:1    its second result
c1.i7   of chain 1, where a method has several
d0.3@2  the result of the third time (from 0) that the node runs in a call: in a loop.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from executorch_c._arrays import Array
    from executorch_c.trace import Result


@dataclass(frozen=True)
class Place:
    """A result of a node or instruction."""

    id: str
    name: str
    """Name of the node in its backend, or of the operator."""
    kind: str
    """ "node" inside a delegate; "delegate" for a result of all of it, "kernel", "move"."""
    chain: int
    instruction: int
    delegate: int | None
    debug_handle: int | None
    """Of a node, from the exporter; not always distinct."""
    output: int
    """Number of the result."""
    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        """Return "d0.3 (conv)"."""
        return f"{self.id} ({self.name})"


class Numbering:
    """Ids of the results of one call, in the order in which `alter` of a trace sees them."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def place(self, result: Result, array: Array) -> Place:
        """Return the place of the next result."""
        chain, instruction = result.chain or 0, result.instruction or 0
        if result.kind == "node":
            name = f"d{result.delegate}.{result.node}"
        else:
            name = f"{'c' + str(chain) + '.' if chain else ''}i{instruction}"
            name = f"{'in.' * result.depth}{name}"  # of a program inside a payload
        name += f":{result.output}" if result.output else ""
        times = self._counts[name]
        self._counts[name] += 1
        return Place(
            f"{name}@{times}" if times else name,
            result.name,
            result.kind,
            chain,
            instruction,
            result.delegate,
            result.debug_handle,
            result.output,
            array.shape,
            array.dtype.name,
        )
