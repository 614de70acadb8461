"""The rounding noise of a whole graph, and the first value of a program that is outside of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c._arrays import Array, as_array
from executorch_c.compare import tolerance
from executorch_c.compare.limits import NOISE_RUNS
from executorch_c.compare.metrics import ErrorMetrics, measure_size
from executorch_c.compare.shown import limited
from executorch_c.compare.tolerance import Tolerance
from executorch_c.debug._graphs.evaluator import attribute, call
from executorch_c.debug._graphs.names import grid_of, is_quantizer, node_before_rounding

if TYPE_CHECKING:
    from torch.fx import Node

    from executorch_c.debug._graphs.reference import ReferenceGraph


MAX_DRAWN_ELEMENTS = 256
"""Maximum number of elements of a value whose roundings to its grid are drawn,"""
GRID_DRAWS = 32
"""and how often."""


class GraphNoise:
    """Runs of a graph with random rounding: the values of some nodes, and the outputs."""

    def __init__(
        self, graph: ReferenceGraph, arguments: Mapping[Node, Any], nodes: Sequence[Node]
    ) -> None:
        """The values of `nodes` are kept."""
        from torch.fx import Node

        ends = [place for place in graph.outputs if isinstance(place, Node)]
        self.before = {
            n: before for n in (*nodes, *ends) if (before := node_before_rounding(n)) is not None
        }
        """Nodes that round to a grid, and those whose value they round."""
        self.graph, self.arguments = graph, arguments
        self.nodes = {*nodes, *self.before.values()}
        self.inputs = set(graph.inputs)
        self.quantizes = any(is_quantizer(node) for node in graph.nodes)
        self._done: list[tuple[dict[Node, Array], list[Array | None]]] = []

    @property
    def runs(self) -> Sequence[tuple[dict[Node, Array], list[Array | None]]]:
        """Values of nodes, and outputs, of each run; empty if random rounding is impossible."""
        return self._first(NOISE_RUNS)

    def _first(self, count: int) -> Sequence[tuple[dict[Node, Array], list[Array | None]]]:
        """Return the first runs, of which the missing ones run now."""
        from executorch_c.noise.rounding import samples

        if len(self._done) < count:
            self._done += samples(self._run, range(len(self._done), count)) or []
        return self._done[:count]

    def error(self, node: Node, actual: Array, eager: Array) -> ErrorMetrics:
        """Return the error of a node's value; elements outside of its noise are mismatched."""
        runs = [kept[node] for kept, _ in self.runs]
        rule = self._rule(node, actual, eager, runs)
        if rule is None:
            return measure_size(actual, eager, mismatched=0)
        size = measure_size(actual, eager, mismatched=tolerance.outside(actual, eager, rule))
        return limited(size, rule, actual, eager)

    def outside_of_output(self, output: int, actual: Array, eager: Array) -> int:
        """Return the number of elements of an output that are outside of its noise; 0 if random
        rounding is impossible."""

        def first(count: int) -> list[Array]:
            runs = self._first(count)
            return [end for _, ends in runs if (end := ends[output]) is not None]

        if self._is_by_steps(eager):
            rule = self._rule(self.graph.outputs[output], actual, eager, first(NOISE_RUNS))
        else:
            rule = tolerance.of_runs(actual, eager, first)
        return 0 if rule is None else tolerance.outside(actual, eager, rule)

    def _rule(
        self, node: object, actual: Array, eager: Array, runs: Sequence[Array]
    ) -> Tolerance | None:
        """Return the tolerance of a node's value; None where the runs have another shape."""
        if not runs or any(run.shape != eager.shape for run in runs):
            return None
        if not self._is_by_steps(eager):
            return tolerance.measured(actual, eager, runs)
        return tolerance.of_steps(eager, [*runs, *self._drawn(node, eager.shape)])

    def _is_by_steps(self, eager: Array) -> bool:
        """Return True if rounding ties are the noise of a value."""
        return self.quantizes and eager.dtype.kind in "fV"

    def _drawn(self, node: Any, shape: tuple[int, ...]) -> Iterator[Array]:
        """Yield values that a node of few elements may round to: the mean of the runs before
        rounding with errors of theirs, drawn at random. Few runs do not show whether an element
        next to a tie goes to its other side."""
        before = self.before.get(node)
        grid = None if before is None else grid_of(node)
        if before is None or grid is None or not 0 < math.prod(shape) <= MAX_DRAWN_ELEMENTS:
            return
        scale, zero, low, high = grid
        values = np.stack([kept[before] for kept, _ in self.runs]).astype(np.float64)
        mean, rng = values.mean(0), np.random.default_rng(0)
        errors = ((values - mean) * math.sqrt(len(values) / (len(values) - 1))).ravel()
        for _ in range(GRID_DRAWS):
            drawn = mean + rng.choice(errors, mean.shape)
            steps = np.clip(np.rint(drawn / scale) + zero, low, high) - zero
            yield (steps * scale).reshape(shape)

    def _run(self, mode: Any) -> tuple[dict[Node, Array], list[Array | None]]:
        """Return the kept values and the outputs of a run that rounds by a mode."""
        import torch

        values: dict[Node, Any] = {}
        kept = {}
        for node, value in self._values(mode, values):
            values[node] = value
            if node in self.nodes:
                kept[node] = as_array(value[0] if isinstance(value, (list, tuple)) else value)
        ends = [values.get(place) for place in self.graph.outputs]
        return kept, [as_array(end) if isinstance(end, torch.Tensor) else None for end in ends]

    def _values(self, mode: Any, values: Mapping[Node, Any]) -> Iterator[tuple[Node, Any]]:
        """Yield nodes and their values, computed from `values`."""
        for node in self.graph.nodes:
            if node.op == "placeholder":
                value = self.arguments[node]
                yield node, mode.rounded(value) if node in self.inputs else value
            elif node.op == "get_attr":
                yield node, attribute(self.graph.module, node)
            elif node.op == "call_function":
                with mode:
                    value = call(node, values.__getitem__)
                yield node, value
