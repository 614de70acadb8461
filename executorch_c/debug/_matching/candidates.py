"""Candidates for the node of a program's step, and assumptions about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from executorch_c.debug._graphs.program import Step

if TYPE_CHECKING:
    from torch.fx import Node

Parts: TypeAlias = "list[Any]"
"""A step's outputs as tensors in the shapes of a node's; None for outputs not compared."""


@dataclass
class Candidate:
    """A candidate for the match of a step."""

    node: Node
    parts: Parts
    distance: float
    path: list[Node]
    """Nodes from the step's sources to the node, inclusive."""
    used: set[Node]
    """Nodes of the sources that it depends on."""
    level: int = 0
    """2: its kind is the step's; 1: a node on the path has the step's kind."""
    exact: bool = False
    """True if the node depends on all sources."""
    same: list[Node] = field(default_factory=list)
    """All nodes with these numbers."""
    is_sure: bool = False
    """True if the step's elements are not all equal."""
    rounding: float = 0.0
    """Machine epsilon of the node's coarsest result: MLX computes in float32 what the graph has in
    bfloat16."""


@dataclass
class Hypothesis:
    """An assumption: a step without an agreeing node, and its candidates."""

    step: Step
    options: list[Candidate]
    at: int = 0
    is_sure: bool = True
    """True if the assumption holds without a later step that confirms it."""

    @property
    def candidate(self) -> Candidate:
        return self.options[self.at]


@dataclass
class StepSources:
    """Sources of a step, as nodes of the graph."""

    nodes: list[set[Node]]
    """For each source its matched nodes."""
    through: set[str] = field(default_factory=set)
    """Kinds of steps on the path without a node."""
    hypotheses: list[Step] = field(default_factory=list)
    """Sources that are assumptions."""
    is_open: bool = False

    @property
    def all(self) -> set[Node]:
        return set().union(*self.nodes)
