"""The rounding noise of a whole graph, and the first value of a program that is outside of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from executorch_c._arrays import Array, as_array
from executorch_c.compare import tolerance
from executorch_c.compare.metrics import ErrorSize, measure_size
from executorch_c.compare.tolerance import Tolerance
from executorch_c.debug._graphs.evaluator import attribute, call
from executorch_c.debug._graphs.names import is_quantizer
from executorch_c.debug._limits import limited

if TYPE_CHECKING:
    from torch.fx import Node

    from executorch_c.debug._graphs.reference import Reference


class GraphNoise:
    """Runs of a graph with random rounding: the values of some nodes, and the outputs."""

    def __init__(
        self, graph: Reference, arguments: Mapping[Node, Any], nodes: Sequence[Node]
    ) -> None:
        """The values of `nodes` are kept."""
        from executorch_c.check.noise import samples

        self.graph, self.arguments, self.nodes = graph, arguments, set(nodes)
        self.inputs = set(graph.inputs)
        self.quantizes = any(is_quantizer(node) for node in graph.nodes)
        self.runs: list[tuple[dict[Node, Array], list[Array | None]]] = (
            samples(self._run, range(tolerance.SAMPLES)) or []
        )
        """Values of nodes, and outputs, of each run; empty if random rounding is impossible."""

    def error(self, node: Node, actual: Array, eager: Array) -> ErrorSize:
        """Return the error of a node's value; elements outside of its noise are mismatched."""
        rule = self._rule(actual, eager, [kept[node] for kept, _ in self.runs])
        if rule is None:
            return measure_size(actual, eager, mismatched=0)
        size = measure_size(actual, eager, mismatched=tolerance.outside(actual, eager, rule))
        return limited(size, rule, actual, eager)

    def outside_of_output(self, output: int, actual: Array, eager: Array) -> int:
        """Return the number of elements of an output that are outside of its noise."""
        runs = [found for _, ends in self.runs if (found := ends[output]) is not None]
        rule = self._rule(actual, eager, runs)
        return 0 if rule is None else tolerance.outside(actual, eager, rule)

    def _rule(self, actual: Array, eager: Array, runs: Sequence[Array]) -> Tolerance | None:
        """Return the tolerance of a value; None where the runs have another shape."""
        if any(run.shape != eager.shape for run in runs):
            return None
        by_steps = self.quantizes and eager.dtype.kind in "fV"
        return (tolerance.of_steps(eager, runs) if by_steps
                else tolerance.measured(actual, eager, runs))  # fmt: skip

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
