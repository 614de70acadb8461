"""Runs of a float model with the errors that layers of a quantised program add.

The error of a layer (its result minus what the float layer computes from the program's own values)
is added to that layer's result in the float model, for one layer at a time. The distance of the
outputs from the float model's is the cost (`compare/costs.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from executorch_c._arrays import as_array
from executorch_c.compare.costs import relative_noise
from executorch_c.debug._graphs.evaluator import attribute, call
from executorch_c.debug._judge import Walk

if TYPE_CHECKING:
    from executorch_c.compare.metrics import ErrorMetrics
    from executorch_c.debug._graphs.reference import ReferenceGraph
    from executorch_c.debug._judge import _Candidate
    from executorch_c.debug._matching.matches import Match
    from executorch_c.debug.report import NodeError, NodeVerdict
    from torch.fx import Node

Errors = Mapping["Node", Sequence[Any]]
"""Tensors to add to the results of nodes; None for a result without an error."""


class MeasuredWalk(Walk):
    """A walk without limits, which keeps the error that each matched node adds."""

    def __init__(self, graph: ReferenceGraph, matches: Any) -> None:
        super().__init__(graph, matches, None)
        self.errors: dict[Node, Sequence[Any]] = {}

    def _error(
        self, match: Match, best: _Candidate, accumulated: ErrorMetrics, verdict: NodeVerdict
    ) -> NodeError:
        value = self.runs.rerun[best.node].value
        several = value if isinstance(value, (list, tuple)) else [value]
        self.errors[best.node] = [
            None if mine is None else _difference(mine, one)
            for mine, one in zip(best.ours, several)
        ]
        return super()._error(match, best, accumulated, verdict)


def _difference(ours: Any, theirs: Any) -> Any:
    """Return the finite differences of floats; None for other numbers."""
    import torch

    if not ours.dtype.is_floating_point:
        return None
    return torch.nan_to_num(ours - theirs, nan=0.0, posinf=0.0, neginf=0.0)


class FloatModel:
    """Runs the graph of a model with errors added to the results of its nodes."""

    def __init__(self, graph: ReferenceGraph, arguments: Mapping[Node, Any]) -> None:
        self.graph, self.arguments = graph, arguments
        self.nodes = graph.nodes
        self.last: dict[Node, list[Node]] = {}
        """Values by the node that reads them last."""
        readers = {one: node for node in self.nodes for one in node.all_input_nodes}
        for value, reader in readers.items():
            self.last.setdefault(reader, []).append(value)
        outputs = self._run({})
        self.outputs = [as_array(one) for one in outputs]
        """All outputs that are tensors."""
        self.exact = [as_array(one) for one in _floats(outputs)]

    def _run(self, errors: Errors) -> list[Any]:
        """Return the outputs that are tensors."""
        import torch

        values: dict[Node, Any] = {}
        outputs = [place for place in self.graph.outputs if hasattr(place, "all_input_nodes")]
        with torch.no_grad():
            for node in self.nodes:
                if node.op == "output":
                    break
                if node.op == "placeholder":
                    values[node] = self.arguments[node]
                elif node.op == "get_attr":
                    values[node] = attribute(self.graph.module, node)
                else:
                    values[node] = _changed(call(node, values.__getitem__), errors.get(node))
                for one in self.last.get(node, ()):
                    if one not in outputs:
                        values.pop(one)
        results = [values[place] for place in outputs]
        return [one for one in results if isinstance(one, torch.Tensor)]

    def noise(self, errors: Errors) -> float:
        """Return the power of the outputs' error relative to that of the outputs (of several, the
        mean), with errors added; NaN without outputs that can tell."""
        ratios = [
            relative_noise(as_array(mine), exact)
            for mine, exact in zip(_floats(self._run(errors)), self.exact)
        ]
        known = [ratio for ratio in ratios if not math.isnan(ratio)]
        return sum(known) / len(known) if known else math.nan


def _floats(tensors: Sequence[Any]) -> list[Any]:
    return [one for one in tensors if one.is_floating_point()]


def _changed(result: Any, errors: Sequence[Any] | None) -> Any:
    if errors is None:
        return result
    several = isinstance(result, (list, tuple))
    parts = [
        one if error is None else one + error
        for one, error in zip(result if several else [result], errors)
    ]
    return type(result)(parts) if several else parts[0]
