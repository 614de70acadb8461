"""Results inside a program, under the ids of `inspect/where.py`: of nodes of delegates, and of
instructions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from executorch_c.inspect.where import Where

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
        self._counts: Counter[Where] = Counter()

    def place(self, result: Result, array: Array) -> Place:
        """Return the place of the next result."""
        is_node = result.kind == "node"
        where = Where(
            None if is_node else result.instruction or 0,
            result.delegate if is_node else None,
            result.node if is_node else None,
            0 if is_node else result.chain or 0,
            result.output,
            depth=result.depth,
        )
        times = self._counts[where]
        self._counts[where] += 1
        return Place(
            replace(where, times=times).id,
            result.name,
            result.kind,
            result.chain or 0,
            result.instruction or 0,
            result.delegate,
            result.debug_handle,
            result.output,
            array.shape,
            array.dtype.name,
        )
