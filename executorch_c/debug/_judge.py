"""The judge of `explain`: a graph run node by node on eager's values, and on the program's.

For each value that the program computed there are two errors: from what eager computes from the
inputs (accumulated), and from what eager computes from the values that the program had before
(local). Nodes that no value is matched to run on what is before them, so that one operator of a
delegate may stand for several nodes of the graph.

`debug/_local.py` says which local errors are faults.

Accumulated errors have no limit of their own after a fault. Where there is none, the outputs are
judged by the noise of the whole graph; if one is outside, the first value that is outside of its
noise is "unexplained": the program differs, and no operator is wrong on its own inputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from operator import getitem
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c._arrays import Array, as_array
from executorch_c.compare import tolerance
from executorch_c.compare.metrics import ErrorSize, measure_size
from executorch_c.compare.scale import widened
from executorch_c.debug._graphs.evaluator import attribute, call
from executorch_c.debug._graphs.layouts import as_tensor, distance, in_shape, sample
from executorch_c.debug._graphs.names import (
    dequantizes,
    is_quantizer,
    is_random,
    is_read,
    operator_of,
    shape_of,
)
from executorch_c.debug._graphs.reference import Reference, module_of, source_of
from executorch_c.debug._local import (
    Limits,
    Value,
    bias_rounding,
    picked,
    quantized_error,
    random_roundings,
    rules_of,
    run_node,
    unrounded,
)
from executorch_c.debug._matching.matches import Match, Matches
from executorch_c.debug.report import NodeError, Verdict

if TYPE_CHECKING:
    from torch.fx import Node

LAST = 1 << 62
"""Place of the method's results in the order of a trace."""

MISMATCHED = 100.0
"""A local error this many times the accumulated one says that the inputs were matched wrongly."""


@dataclass
class _Candidate:
    node: Node
    ours: list[Any]
    """Tensors of the program in the node's shapes; None where it has none."""
    accumulated: ErrorSize
    local: ErrorSize
    actual: Array
    eager: Array
    shape: tuple[int, ...]
    dtype: str


# ---- the walk ---------------------------------------------------------------------------------


@dataclass
class _Row:
    """A row of the report, with its limits."""

    order: int
    error: NodeError
    match: Match
    node: Node
    actual: Array
    eager: Array


class Walk:
    """Runs a graph twice at once: as it is, and on the values that the program computed."""

    def __init__(
        self,
        graph: Reference,
        matches: Matches,
        limits: Limits | None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Without limits, errors are measured and nothing is judged. `progress` is called with the
        number of nodes done, and of all."""
        self.graph, self.limits, self.progress = graph, limits, progress
        self.eager: dict[Node, Value] = {}
        self.fed: dict[Node, Value] = {}
        self.tainted: set[Node] = set()
        self.rows: list[_Row] = []
        self.last = {match.nodes[-1]: match for match in matches.found}
        self.misshapen = matches.misshapen
        self.uses: dict[Node, int] = {}
        self.settled: dict[Node, Value] = {}
        self.retracted: set[int] = set()
        self.ends: list[tuple[int, Array, Array]] = []
        """Outputs: number, the program's, eager's."""
        self.interrupted = False
        self.quantizes = any(is_quantizer(node) for node in graph.nodes)

    def run(self, arguments: dict[Node, Any], outputs: Sequence[object]) -> list[NodeError]:
        """Return all rows, in the order in which the program computed them."""
        import torch

        with torch.no_grad():
            try:
                self._walk(arguments, outputs)
            except KeyboardInterrupt:
                self.interrupted = True
            rows = [row for i, row in enumerate(self.rows) if i not in self.retracted]
            rows.sort(key=lambda row: row.order)
            sources = [row for row in rows if row.error.verdict == "source"]
            if sources and self.misshapen is not None and self.misshapen.order < sources[0].order:
                rows = sorted([*rows, _misshapen_row(self.misshapen)], key=lambda row: row.order)
            elif not sources:
                rows = [replace(row, error=replace(row.error, verdict="ok")) for row in rows]
                if self.limits is not None and not self.interrupted:
                    rows = self._unexplained(rows, arguments, self.limits)
        return [replace(row.error, index=i) for i, row in enumerate(rows)]

    def _walk(self, arguments: dict[Node, Any], outputs: Sequence[object]) -> None:
        nodes = self.graph.nodes
        self.uses = {node: len(node.users) for node in nodes}
        for match in self.last.values():
            for node in match.nodes:
                self.uses[node] += 1
        for place in self.graph.outputs:
            if place in self.uses:
                self.uses[place] += 1
        for i, node in enumerate(nodes):
            if self.progress is not None:
                self.progress(i, len(nodes))
            if node.op == "output":
                self._outputs(outputs)
                break
            self._compute(node, arguments)
            done = list(node.all_input_nodes)
            if node in self.last:
                self._judge(self.last[node])
                done += self.last[node].nodes
            for one in done:
                self.uses[one] -= 1
            for one in (*done, node):
                if not self.uses[one]:
                    self.eager.pop(one, None)
                    self.fed.pop(one, None)

    def _compute(self, node: Node, arguments: dict[Node, Any]) -> None:
        if node.op == "placeholder":
            self.eager[node] = self.fed[node] = Value(arguments[node])
        elif node.op == "get_attr":
            self.eager[node] = self.fed[node] = Value(attribute(self.graph.module, node))
        else:
            result = run_node(node, self.eager)
            self.eager[node] = self.fed[node] = result
            if any(self.eager[n] is not self.fed[n] for n in node.all_input_nodes):
                self.eager[node] = Value(result.value)  # lets go of its inputs
                self.fed[node] = run_node(node, self.fed)
            if not self.tainted.isdisjoint(node.all_input_nodes):
                self.tainted.add(node)
            self._siblings(node)

    def _siblings(self, node: Node) -> None:
        """Dequantised copies of one quantised value are all the program's."""
        if dequantizes(node):
            known = self.settled.get(node.all_input_nodes[0])
            if known is not None and known.value.dtype == self.fed[node].value.dtype:
                self.fed[node] = known

    # ---- verdicts -------------------------------------------------------------------------

    def _judge(self, match: Match) -> None:
        """Judge a matched value, and go on with it."""
        if any(is_random(node) for node in match.nodes):
            self._adopt(match)
            return
        best = self._best(match)
        if best is not None:
            self._row(match, best)
            self._substitute(match, best)

    def _best(self, match: Match) -> _Candidate | None:
        """Of the nodes that a delegate may have fused, the last that agrees."""
        found = [c for c in (self._candidate(node, match) for node in match.nodes) if c]
        good = [c for c in found if c.local.mismatched == 0]
        if good or not found:
            return good[-1] if good else None
        return min(reversed(found), key=lambda c: c.local.relative)

    def _candidate(self, node: Node, match: Match) -> _Candidate | None:
        """The program's value as the result of a node; the worst of several outputs."""
        import torch

        eager, fed = self.eager[node].value, self.fed[node]
        several = isinstance(eager, (list, tuple))
        results = list(eager) if several else [eager]
        ours: list[Any] = [None] * len(results)
        worst: _Candidate | None = None
        for i, (result, array) in enumerate(zip(results, match.outputs)):
            if array is None or not isinstance(result, torch.Tensor) or not is_read(node, i):
                continue
            output = i if several else None
            shaped = _shaped(array, result, picked(fed.value, output))
            if shaped is None:
                return None
            actual = as_array(shaped)
            local = self._local(match, actual, fed, output)
            ours[i] = shaped.to(result.dtype)
            if worst is None or (local.mismatched or 0, local.relative) > (
                worst.local.mismatched or 0, worst.local.relative
            ):  # fmt: skip
                reference = as_array(result)
                worst = _Candidate(node, ours, measure_size(actual, reference), local, actual,
                                   reference, tuple(result.shape), array.dtype.name)  # fmt: skip
        return worst

    def _local(self, match: Match, actual: Array, fed: Value, output: int | None) -> ErrorSize:
        expected = picked(fed.value, output)
        if self.limits is None:
            return measure_size(actual, expected)
        if not self.limits.given and output is None:
            found = quantized_error(actual, expected, fed)
            if found is not None and found.mismatched:
                found = self._requantized(actual, expected, fed) or found
            if found is not None:
                return found
        rules = rules_of(actual, expected, fed, output)
        return self.limits.differs(actual, expected, rules)

    def _requantized(self, actual: Array, expected: Array, fed: Value) -> ErrorSize | None:
        """Return the error of integers beyond what rounding of the reference explains."""
        before = unrounded(fed)
        if before is None or before.node is None:
            return None
        runs = random_roundings(before, None, 0.0)
        if not runs:
            return None
        exact = as_array(before.value)
        noise = tolerance.measured(exact, exact, runs).limit + bias_rounding(before)
        return quantized_error(actual, expected, fed, noise)

    def _row(self, match: Match, best: _Candidate) -> None:
        tainted = not self.tainted.isdisjoint(match.nodes)
        self.tainted.difference_update(match.nodes)
        verdict: Verdict = "ok"
        accumulated = best.accumulated
        if self.limits is not None and (best.local.mismatched or tainted):
            accumulated = self.limits.differs(
                best.actual, best.eager, iter((tolerance.rounding(best.actual, best.eager),))
            )
            if accumulated.mismatched:
                verdict = "source" if best.local.mismatched else "propagated"
                self.tainted.update(match.nodes[match.nodes.index(best.node) :])
            elif best.local.relative > MISMATCHED * accumulated.relative:
                self.retracted |= self._causes(self.fed[best.node])
        at = match.nodes.index(best.node)
        path = match.path or match.nodes[: at + 1]
        names = [name for n in path if not is_quantizer(n) and (name := operator_of(n))]
        name = f"{match.name} ({', '.join(names)})" if match.inside and names else match.name
        layers = dict.fromkeys(layer for n in path if (layer := module_of(n)))
        error = NodeError(
            0, match.where, name, best.shape, best.dtype, accumulated, best.local, verdict,
            layer_of(match.anchor), source_of(match.anchor),
            parameters=self.graph.parameters_of(path), modules=tuple(layers),
        )  # fmt: skip
        self.rows.append(_Row(match.order, error, match, best.node, best.actual, best.eager))

    def _causes(self, value: Value) -> frozenset[int]:
        """Rows with a fault among those that a value was computed from."""
        seen, queue, found = {id(value)}, [value], set(value.causes)
        while queue:
            value = queue.pop()
            found |= value.causes
            fresh = [before for before in value.env.values() if id(before) not in seen]
            seen.update(map(id, fresh))
            queue += fresh
        return frozenset(found)

    def _substitute(self, match: Match, best: _Candidate) -> None:
        """Go on with the value that the program computed."""
        row, verdict = len(self.rows) - 1, self.rows[-1].error.verdict
        carried = self._causes(self.fed[best.node]) if verdict == "propagated" else frozenset()
        old = self.fed[best.node].value
        if isinstance(old, (list, tuple)):
            kept = [one if mine is None else mine for mine, one in zip(best.ours, old)]
            self.fed[best.node] = Value(type(old)(kept))
        else:
            self.fed[best.node] = Value(best.ours[0])
        self.fed[best.node].causes = carried | ({row} if verdict != "ok" else set())
        if dequantizes(best.node):
            self.settled[best.node.all_input_nodes[0]] = self.fed[best.node]
        at = match.nodes.index(best.node)
        for node in match.nodes[at + 1 :]:  # computed from the value before
            before = self.fed[node]
            env = {n: self.fed.get(n, value) for n, value in before.env.items()}
            if before.node is not None:
                self.fed[node] = Value(call(node, lambda n: env[n].value), node, env)
            if best.node in self.tainted:
                self.tainted.add(node)

    def _adopt(self, match: Match) -> None:
        """Random numbers differ by nature: the reference takes the program's."""
        for node, array in zip(match.nodes[:1], match.outputs):
            value = self.eager[node].value
            if array is not None and getattr(value, "shape", None) == array.shape:
                taken = Value(as_tensor(array).to(value.dtype))
                self.eager[node] = self.fed[node] = taken

    # ---- outputs --------------------------------------------------------------------------

    def _outputs(self, outputs: Sequence[object]) -> None:
        """Judge the method's results that are not the value of a matched operator: none was
        matched to them, or the program goes on after the one that was."""
        from torch.fx import Node

        seen = {n for match in self.last.values() for n in match.nodes}
        for i, (place, output) in enumerate(zip(self.graph.outputs, outputs)):
            if not isinstance(place, Node) or not isinstance(output, np.ndarray):
                continue
            known = {place, *(place.all_input_nodes if place.target is getitem else ())}
            if seen.isdisjoint(known) or not self._is_value(place, output):
                self._judge(Match(LAST, f"output {i}", "result", False, [output], [place], place))
            shaped = _shaped(output, self.eager[place].value, as_array(self.eager[place].value))
            if shaped is not None:
                self.ends.append((i, as_array(shaped), as_array(self.eager[place].value)))

    def _is_value(self, place: Node, output: Array) -> bool:
        """Return whether an output is what the program was found to compute for a node."""
        value = self.fed[place].value
        shaped = _shaped(output, value, as_array(value))
        return shaped is not None and np.array_equal(
            widened(as_array(shaped)), widened(as_array(value)), equal_nan=True
        )

    def _unexplained(
        self, rows: list[_Row], arguments: dict[Node, Any], limits: Limits
    ) -> list[_Row]:
        """Return rows with the first unexplained error, if no operator is wrong."""
        if limits.given or not any(tolerance.outside(a, e, tolerance.rounding(a, e))
                                   for _, a, e in self.ends):  # fmt: skip
            return rows
        noise = _GraphNoise(self.graph, arguments, [row.node for row in rows])
        if not noise.measured:
            return rows
        if not any(self._outside(a, e, noise.ends(i)) for i, a, e in self.ends):
            return rows
        for i, row in enumerate(rows):
            if count := self._outside(row.actual, row.eager, noise.samples(row.node)):
                size = replace(row.error.accumulated, mismatched=count)
                rows[i] = replace(
                    row, error=replace(row.error, verdict="unexplained", accumulated=size)
                )
                break
        return rows

    def _outside(self, actual: Array, eager: Array, runs: Sequence[Array]) -> int:
        """Return how many elements are outside of the graph's noise."""
        if any(run.shape != eager.shape for run in runs):
            return 0
        by_steps = self.quantizes and eager.dtype.kind in "fV"
        rule = (tolerance.of_steps(eager, runs) if by_steps
                else tolerance.measured(actual, eager, runs))  # fmt: skip
        return tolerance.outside(actual, eager, rule)


def _shaped(array: Any, like: Any, near: Array) -> Any:
    """A value of the program in the shape of a node, in the layout nearest to `near`; None where
    it fits in none."""
    value = as_tensor(array)
    if value.dtype.is_floating_point != like.dtype.is_floating_point:
        return None
    made = in_shape(value, like.shape)
    if len(made) < 2:
        return made[0] if made else None
    wanted = sample(near)
    return min(made, key=lambda one: distance(sample(as_array(one)), wanted))


def _misshapen_row(match: Match) -> _Row:
    """Return the row of a value whose shape is not that of its node: all of it is wrong."""
    node = match.nodes[0]
    actual = next(as_array(array) for array in match.outputs if array is not None)
    size = ErrorSize(actual.size, actual.size, math.nan, math.inf, (0, 0), (0, 0))
    layer = layer_of(node)
    error = NodeError(
        0, match.where, match.name, actual.shape, actual.dtype.name, size, size, "source", layer,
        source_of(node), modules=(layer,) if layer else (), expected_shape=shape_of(node),
    )  # fmt: skip
    return _Row(match.order, error, match, node, actual, actual)


@dataclass
class _GraphNoise:
    """Runs of a whole graph with random rounding: the values of some nodes, and the outputs."""

    graph: Reference
    arguments: dict[Node, Any]
    nodes: Sequence[Node]
    runs: list[tuple[dict[Node, Array], list[Array | None]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        from executorch_c.check.noise import samples

        self.runs = samples(self._run, tolerance.SAMPLES) or []

    @property
    def measured(self) -> bool:
        """True if the graph ran."""
        return bool(self.runs)

    def _run(self, mode: Any) -> tuple[dict[Node, Array], list[Array | None]]:
        import torch

        wanted, kept = set(self.nodes), {}
        values: dict[Node, Any] = {}
        inputs = set(self.graph.inputs)
        for node in self.graph.nodes:
            if node.op == "placeholder":
                value = self.arguments[node]
                values[node] = mode.rounded(value) if node in inputs else value
            elif node.op == "get_attr":
                values[node] = attribute(self.graph.module, node)
            elif node.op == "output":
                break
            else:
                with mode:
                    values[node] = call(node, values.__getitem__)
            if node in wanted:
                value = values[node]
                value = value[0] if isinstance(value, (list, tuple)) else value
                kept[node] = as_array(value)
        ends = [as_array(values[place]) if place in values and isinstance(
            values[place], torch.Tensor) else None for place in self.graph.outputs]  # fmt: skip
        return kept, ends

    def samples(self, node: Node) -> list[Array]:
        """Return the values of a node."""
        return [kept[node] for kept, _ in self.runs]

    def ends(self, output: int) -> list[Array]:
        """Return the values of an output."""
        return [found for _, ends in self.runs if (found := ends[output]) is not None]


def layer_of(node: Node) -> str | None:
    """Return the layer of a node; a quantising node has the layer of its input or user."""
    while is_quantizer(node) and node.all_input_nodes:
        before = node.all_input_nodes[0]
        if before.op != "call_function":
            for user in node.users:
                if not is_quantizer(user):
                    return module_of(user)
                if (found := next(iter(user.users), None)) is not None:
                    return module_of(found)
            return None
        node = before
    return module_of(node)
