"""Nodes that a step of a program may be, and assumptions about it: what `values.py` works with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from executorch_c.debug._graphs.program import Step

if TYPE_CHECKING:
    from torch.fx import Node

Parts: TypeAlias = "list[Any]"
"""A step's outputs as tensors in the shapes of a node's; None for what was not compared."""


@dataclass
class Found:
    """A node that a step may be."""

    node: Node
    parts: Parts
    distance: float
    path: list[Node]
    """Nodes from the step's sources to the node, which is the last."""
    used: set[Node]
    """The nodes of the sources that it is made from."""
    level: int = 0
    """2: it does what the step does; 1: something on the path does."""
    exact: bool = False
    """True where the node depends on all sources."""
    same: list[Node] = field(default_factory=list)
    """All nodes that give these numbers."""
    is_sure: bool = False
    """True where the step's elements are not all equal."""


@dataclass
class Guess:
    """A step that no node agrees with, and the node that it is assumed to be."""

    step: Step
    options: list[Found]
    at: int = 0
    is_sure: bool = True
    """True where the assumption holds without a later step that confirms it."""

    @property
    def found(self) -> Found:
        return self.options[self.at]


@dataclass
class Front:
    """Sources of a step, as nodes of the graph."""

    nodes: list[set[Node]]
    """For each source the nodes that are it."""
    through: set[str] = field(default_factory=set)
    """Kinds of steps on the way that are no node."""
    guesses: list[Step] = field(default_factory=list)
    """Those of the sources that are assumptions."""
    is_open: bool = False

    @property
    def all(self) -> set[Node]:
        return set().union(*self.nodes)
