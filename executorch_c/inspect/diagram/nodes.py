"""Nodes of a method's graph, with the outputs that each reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

NodeOutput: TypeAlias = "tuple[str, int]"
"""A node, and which of its outputs."""

Sources: TypeAlias = "frozenset[NodeOutput]"


@dataclass
class Node:
    """An operator, a node of a delegate, an input or an output."""

    id: str
    label: str
    family: str
    """Name of the operator (see executorch_c.operators()), "delegate", "input", "output" or
    "state"."""
    groups: tuple[str, ...]
    """Names of the enclosing delegates, outermost first."""
    attributes: dict[str, str]
    """Numbers and weights by name of the argument; index of the instruction."""
    outputs: list[str] = field(default_factory=list)
    """"float32 (1, 8)" for each."""
    inputs: dict[tuple[NodeOutput, str], int] = field(default_factory=dict)
    """Inputs, with the name of the argument, in order."""

    def read(self, sources: Iterable[NodeOutput], name: str) -> None:
        for source in sorted(sources):
            self.inputs.setdefault((source, name), len(self.inputs))
