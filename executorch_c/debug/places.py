"""Where the rows of a report of `explain` stand in the graph of the reference: for tools that go on
from there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from executorch_c.debug._graphs.reference import module_of, source_of
from executorch_c.debug.report import EXPORT, ErrorReport, NodeError

if TYPE_CHECKING:
    from executorch_c.debug._graphs.reference import ReferenceGraph
    from executorch_c.debug._graphs.run import Run
    from torch.fx import Node


@dataclass(frozen=True)
class Places:
    """The graph that a program was compared with, and the nodes of each row."""

    graph: ReferenceGraph
    inputs: Sequence[Any]
    """Inputs of the call, flat."""
    nodes: Sequence[Sequence[Node]]
    """Of each row; empty for rows of the export and of a failure."""
    method: str = "forward"

    def nodes_of(self, row: NodeError) -> list[Node]:
        """Return the nodes of a row of the report; of a row without, those of its layer and
        line."""
        known = list(self.nodes[row.index])
        if known or row.module is None and row.source is None:
            return known
        return [
            node
            for node in self.graph.nodes
            if node.op == "call_function"
            and (module_of(node), source_of(node)) == (row.module, row.source)
        ]


def keep(report: ErrorReport, run: Run, nodes: Sequence[Sequence[Node]]) -> None:
    """Keep the places of a report's rows with it; `nodes` are those of the rows that values have,
    in order."""
    rest = iter(nodes)
    has_failed = run.failure is not None
    all_nodes = [
        () if row.where == EXPORT or (has_failed and row is report.rows[-1]) else next(rest)
        for row in report.rows
    ]
    places = Places(run.graph, tuple(run.inputs), tuple(all_nodes), run.method)
    object.__setattr__(report, "_places", places)  # works for frozen classes


def places_of(report: ErrorReport) -> Places | None:
    """Return the places of a report's rows; None of a report that matches, or of two programs."""
    places: Places | None = report._places
    return places
