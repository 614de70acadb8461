"""Matches of a program's values with nodes of the reference's graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from executorch_c._render import text as _text

if TYPE_CHECKING:
    from executorch_c._arrays import Array
    from executorch_c.debug._matching.parting import DirectComputation, Parting
    from torch.fx import Node


@dataclass
class Match:
    """A value of the program, and its candidate nodes."""

    order: int
    """Index of its event in the trace."""
    where: str
    name: str
    inside: bool
    """True inside a delegate."""
    outputs: list[Array | None]
    """One for each output of the operator; of a delegate's node, its only one."""
    nodes: list[Node]
    """An instruction's node, or candidates in order of execution, each fed by the one before."""
    anchor: Node
    """The node whose layer is reported."""
    path: Sequence[Node] = ()
    """Nodes that the operator computes, up to `nodes[-1]`; if unknown, the candidates."""
    parting: Parting | None = None
    """The value is the program's where it lacks an operator of the model."""
    direct: DirectComputation | None = None
    """The nodes read values that only the program has."""


@dataclass
class Matches:
    """All matches of a call, and the coverage."""

    pairs: list[Match] = field(default_factory=list)
    instructions: int = 0
    nodes: int = 0
    matched: tuple[int, int] = (0, 0)
    """Number of matched instructions, and of matched nodes inside delegates."""

    @property
    def coverage(self) -> float:
        """Share of instructions and nodes that are matched; 1 if there are none."""
        count = self.instructions + self.nodes
        return sum(self.matched) / count if count else 1.0

    notes: list[str] = field(default_factory=list)
    misshapen: Match | None = None
    """The first step whose result has another shape than its node."""
    interrupted: bool = False
    """True if Ctrl-C ended the matching before the last value."""

    def summary(self) -> str:
        """Return "matched 30 of 32 instructions, 12 of 12 nodes in delegates"."""
        outside, inside = self.matched
        parts = []
        if self.instructions:
            count = _text.plural(self.instructions, "instruction")
            parts.append(f"{outside:,} of {count}")
        if self.nodes:
            parts.append(f"{inside:,} of {_text.plural(self.nodes, 'node')} in delegates")
        return "matched " + (", ".join(parts) or "nothing: the program has no operators")
