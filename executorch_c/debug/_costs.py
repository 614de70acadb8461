"""What the error of each layer costs at the outputs of a model.

The error that a layer of a quantised program adds (its result minus what the float layer computes
from the program's own values) is added to that layer's result in the float model, for one layer at
a time. The distance of the outputs from the float model's is the cost. Errors of layers are
independent, but for saturation, so that the powers of their noise at the outputs add up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c._arrays import as_array
from executorch_c.compare.scale import unmasked, widened
from executorch_c.debug._graphs.evaluator import attribute, call
from executorch_c.debug._judge import Walk

if TYPE_CHECKING:
    from executorch_c._arrays import Array
    from executorch_c.compare.metrics import ErrorSize
    from executorch_c.debug._graphs.reference import Reference
    from executorch_c.debug._judge import _Candidate
    from executorch_c.debug._matching.matches import Match
    from executorch_c.debug.report import NodeError, NodeVerdict
    from torch.fx import Node

Errors = Mapping["Node", Sequence[Any]]
"""Tensors to add to the results of nodes; None for a result without an error."""


class MeasuredWalk(Walk):
    """A walk without limits, which keeps the error that each matched node adds."""

    def __init__(self, graph: Reference, matches: Any) -> None:
        super().__init__(graph, matches, None)
        self.errors: dict[Node, Sequence[Any]] = {}

    def _error(
        self, match: Match, best: _Candidate, accumulated: ErrorSize, verdict: NodeVerdict
    ) -> NodeError:
        value = self.runs.fed[best.node].value
        several = value if isinstance(value, (list, tuple)) else [value]
        self.errors[best.node] = [None if mine is None else _difference(mine, one)
                                  for mine, one in zip(best.ours, several)]  # fmt: skip
        return super()._error(match, best, accumulated, verdict)


def _difference(ours: Any, fed: Any) -> Any:
    """Return the finite differences of floats; None for other numbers."""
    import torch

    if not ours.dtype.is_floating_point:
        return None
    return torch.nan_to_num(ours - fed, nan=0.0, posinf=0.0, neginf=0.0)


class FloatModel:
    """Runs the graph of a model with errors added to the results of its nodes."""

    def __init__(self, graph: Reference, arguments: Mapping[Node, Any]) -> None:
        self.graph, self.arguments = graph, arguments
        self.nodes = graph.nodes
        self.last: dict[Node, list[Node]] = {}
        """Values by the node that reads them last."""
        readers = {one: node for node in self.nodes for one in node.all_input_nodes}
        for value, reader in readers.items():
            self.last.setdefault(reader, []).append(value)
        self.exact = [as_array(one) for one in self._run({})]

    def _run(self, errors: Errors) -> list[Any]:
        """Return the floating-point outputs."""
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
        found = [values[place] for place in outputs]
        return [one for one in found if isinstance(one, torch.Tensor) and one.is_floating_point()]

    def noise(self, errors: Errors) -> float:
        """Return the power of the outputs' error relative to that of the outputs (of several, the
        mean), with errors added; NaN without outputs that can tell."""
        ratios = [_ratio(as_array(mine), exact) for mine, exact in zip(self._run(errors),
                                                                       self.exact)]  # fmt: skip
        known = [ratio for ratio in ratios if not math.isnan(ratio)]
        return sum(known) / len(known) if known else math.nan


def _changed(result: Any, errors: Sequence[Any] | None) -> Any:
    if errors is None:
        return result
    several = isinstance(result, (list, tuple))
    parts = [one if error is None else one + error
             for one, error in zip(result if several else [result], errors)]  # fmt: skip
    return type(result)(parts) if several else parts[0]


def _ratio(actual: Array, exact: Array) -> float:
    """Return the power of the error of finite elements but mask values, relative to theirs."""
    a, e = widened(actual), widened(exact)
    body = unmasked(exact) & np.isfinite(a)
    signal = float(np.sum(np.abs(e[body]) ** 2))
    return float(np.sum(np.abs(a[body] - e[body]) ** 2)) / signal if signal else math.nan


def decibel(noise: float) -> float:
    """Return a relative power of noise as a signal-to-noise ratio in dB."""
    return math.inf if noise == 0 else -10 * math.log10(noise) if noise > 0 else math.nan


@dataclass(frozen=True)
class Costs:
    """The costs of layers by name, in dB; NaN where no output can tell."""

    whole: float
    """SQNR of the outputs with the errors of all layers."""
    alone: dict[str, float]
    """SQNR of the outputs with the errors of one layer."""
    gains: dict[str, float]
    """Increase of the SQNR without the errors of one layer: by the sum of the layers' noise."""


def costs_of(
    model: FloatModel,
    errors: Errors,
    layers: Mapping[str, Collection[Node]],
    progress: Callable[[int, int], None],
) -> Costs:
    """Return what the errors of layers cost.

    Args:
        layers: Nodes by the name of their layer.
        progress: Called with the number of layers done, and of all.
    """
    noise = {}
    for i, (name, nodes) in enumerate(layers.items()):
        progress(i, len(layers))
        noise[name] = model.noise({node: errors[node] for node in nodes})
    total = sum(noise.values())
    gains = {name: decibel(max(1 - one / total, 0.0)) if total > 0 else math.nan
             for name, one in noise.items()}  # fmt: skip
    alone = {name: decibel(one) for name, one in noise.items()}
    return Costs(decibel(model.noise(errors)), alone, gains)
