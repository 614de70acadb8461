"""Ids of the results inside a program: of nodes of delegates, and of instructions. They are

d0.3    delegate 0, node 3 in order of execution, as "delegate 0, node 3" of other reports
i7      instruction 7, outside of delegates
i7:1    its second result
c1.i7   of chain 1, where a method has several
d0.3@2  the result of the third time (from 0) that the node runs in a call: in a loop.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """A result of a node or instruction."""

    id: str
    name: str
    """Name of the node in its backend, or of the operator."""
    backend: str
    """Name of the delegate; empty outside of delegates."""
    chain: int
    instruction: int
    delegate: int | None
    debug_handle: int | None
    """Of a node, from the exporter; not always distinct."""
    output: int
    """Number of the result."""
    shape: tuple[int, ...]
    dtype: str
