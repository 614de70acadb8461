"""What a page of graphs shows: views of graphs, values of their nodes, nodes that correspond.

Tools fill these classes; `layout.py`, `data.py` and `document.py` draw whatever they hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Literal, NamedTuple, TypeAlias

NodeOutput: TypeAlias = "tuple[str, int]"
"""A node, and which of its outputs."""

Sources: TypeAlias = "frozenset[NodeOutput]"

DataPlace: TypeAlias = "str | tuple[int, int]"
"""The bytes of a constant: a key of named data, or offset and number of bytes in the file."""


class Group(NamedTuple):
    """A box around nodes."""

    kind: Literal["delegate", "module", "quantized", "run"]
    """A call of a delegate, a layer of the model, an operator between its dequantised inputs and
    its quantised result, or consecutive nodes of a large graph."""
    name: str
    place: str = ""
    """Place of a delegate's call in reports: "instruction 3"."""
    key: str = ""
    """Tells boxes of one name apart."""


@dataclass
class Node:
    """An operator, a node of a delegate, an input or an output."""

    id: str
    label: str
    family: str
    """Name of the operator's family (see executorch_c.operators()), "delegate", "input", "output"
    or "state"."""
    groups: tuple[str, ...]
    """Names of the enclosing delegates, outermost first."""
    attributes: dict[str, str]
    """Numbers and weights by name of the argument; index of the instruction."""
    outputs: list[str] = field(default_factory=list)
    """"float32 (1, 8)" for each."""
    inputs: dict[tuple[NodeOutput, str], int] = field(default_factory=dict)
    """Inputs, with the name of the argument, in order."""
    calls: tuple[str, ...] = ()
    """Places of the calls of these delegates."""
    place: str = ""
    """Place in reports: "instruction 3", "delegate 0, node 5"; empty for nodes that do not run."""
    module: str = ""
    """Path of the layer in the model, "features.3"; empty if unknown."""
    clusters: tuple[Group, ...] = ()
    """Enclosing boxes inside the layer."""
    data: dict[str, DataPlace] = field(default_factory=dict)
    """Bytes of constants by name of the argument, where they are known."""
    delegate: int | None = None
    """Number of the outermost delegate around it, or that it calls."""

    def read(self, sources: Iterable[NodeOutput], name: str) -> None:
        for source in sorted(sources):
            self.inputs.setdefault((source, name), len(self.inputs))

    @property
    def path(self) -> tuple[Group, ...]:
        """Enclosing boxes, outermost first."""
        layers = self.module.split(".") if self.module else []
        return (
            *(
                Group("delegate", *call)
                for call in zip_longest(self.groups, self.calls, fillvalue="")
            ),
            *(Group("module", name) for name in layers),
            *self.clusters,
        )


@dataclass(frozen=True)
class GraphView:
    """A graph of a page."""

    name: str
    """Title of its pane: "program", "eager", the name of a file."""
    nodes: Mapping[str, Node]
    """Nodes by id, in order of execution."""
    note: str = ""
    """Parts that the view omits."""


@dataclass(frozen=True)
class Overlay:
    """Values of nodes, which colour them."""

    name: str
    unit: str
    values: Mapping[str, float | str]
    """Numbers, or names of `categories`, by the node's place or id."""
    total: Literal["sum", "max", "min", "none"] = "max"
    """The value of a box from those of its nodes; "none": it has no value."""
    log: bool = False
    """True for values over several orders of magnitude."""
    categories: tuple[tuple[str, str], ...] = ()
    """Names with their colours, from the least to the most important; empty for numbers."""
    view: str = ""
    """Name of the view; empty for all views."""


@dataclass(frozen=True)
class Link:
    """Nodes of two views that correspond."""

    first: str
    second: str
    """Names of the views."""
    pairs: Sequence[tuple[str, str]]
    """Ids, or places, of nodes."""


@dataclass(frozen=True)
class GraphPage:
    """One page: its views, side by side."""

    title: str
    views: tuple[GraphView, ...]
    overlays: tuple[Overlay, ...] = ()
    links: tuple[Link, ...] = ()
    colours: Mapping[str, str] = field(default_factory=dict)
    """Colour by family of operators."""
    shown: str = ""
    """Name of the overlay that colours the nodes first; empty: by family."""
