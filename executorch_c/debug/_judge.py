"""The judge of `explain`: a graph run node by node on eager's values, and on the program's.

Each value that the program computed has two errors: from what eager computes from the inputs
(accumulated), and from what eager computes from the values that the program had before (local).
Nodes without a matched value run on the values before them, so that one operator of a delegate may
stand for several nodes of the graph.

`_runs.py` has the values, `_local.py` says which local errors are faults. A fault taints the nodes
that are computed from it: an error of theirs is "propagated" where they are right on their own
inputs.

Accumulated errors have no limit of their own after a fault. Where there is none, the outputs are
judged by the noise of the whole graph (`_graph_noise.py`); if one is outside, the first value that
is outside of its noise is "unexplained": the program differs, and no operator is wrong on its own
inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import getitem
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c._arrays import Array, as_array
from executorch_c.compare import tolerance, verdicts
from executorch_c.compare.arrays import count_problem
from executorch_c.compare.limits import CANCELLATION_RATIO, MISMATCH_RATIO
from executorch_c.compare.metrics import ErrorMetrics, incomparable, measure_size
from executorch_c.compare.nodes import NodeTolerances
from executorch_c.compare.scale import widened
from executorch_c.debug import unmatched
from executorch_c.debug._graph_noise import GraphNoise
from executorch_c.debug._graphs.layouts import nearest
from executorch_c.debug._graphs.names import (
    is_quantizer,
    is_random_node,
    is_read,
    operator_of,
    quantizes,
    shape_of,
)
from executorch_c.debug._graphs.reference import ReferenceGraph, module_of, source_of
from executorch_c.debug._local import local_error, picked
from executorch_c.debug._matching.matches import Match, Matches
from executorch_c.debug._runs import Runs, causes_of
from executorch_c.debug.report import NodeError, NodeVerdict

if TYPE_CHECKING:
    from torch.fx import Node

    from executorch_c.debug._matching.parting import Parting

RESULTS_PLACE = 1 << 62
"""Place of the method's results in the order of a trace."""


@dataclass
class _Candidate:
    """The program's value as the result of a node."""

    node: Node
    ours: list[Any]
    """Tensors of the program in the node's shapes; None for other tensors."""
    local: ErrorMetrics
    actual: Array
    eager: Array
    dtype: str
    """Of the program's value."""

    @property
    def badness(self) -> tuple[int, float]:
        """Sort key of outputs; the worst output has the largest."""
        return self.local.mismatched or 0, self.local.relative


@dataclass
class _Row:
    """A row of the report, with its values."""

    order: int
    error: NodeError
    node: Node
    actual: Array
    eager: Array
    path: Sequence[Node] = ()
    """The nodes that the value stands for, where they are more than `node`."""
    causes: frozenset[int] = frozenset()
    """Of a wrong value: rows with a fault among those that it was computed from."""

    def judged(self, verdict: NodeVerdict) -> _Row:
        """Return the row with another verdict."""
        return replace(self, error=replace(self.error, verdict=verdict))


class Walk:
    """The walk through a graph, from the inputs to the outputs; each match is judged on the way."""

    runs: Runs

    def __init__(
        self,
        graph: ReferenceGraph,
        matches: Matches,
        limits: NodeTolerances | None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Without limits, errors are measured and nothing is judged. `progress` is called with the
        number of nodes done, and of all."""
        self.graph, self.limits, self.progress = graph, limits, progress
        self.misshapen = matches.misshapen
        self.last = {match.nodes[-1]: match for match in matches.pairs}
        """Matches by the node at which they are judged."""
        self.added: dict[Node, list[Parting]] = {}
        """Operators that only the program has, by the nodes that read their results."""
        for direct in (match.direct for match in matches.pairs if match.direct is not None):
            for node, parting in direct.added():
                self.added.setdefault(node, []).append(parting)
        self.causes_of_added: dict[object, frozenset[int]] = {}
        """Rows of these operators, by the program's value."""
        self.tainted: set[Node] = set()
        """Nodes whose values of the program carry a fault."""
        self.varying: set[Node] = set()
        """The inputs, and nodes that depend on them."""
        self.of_state: set[Node] = set()
        """The state, and nodes that depend on it."""
        self.noise: GraphNoise | None = None
        """The noise of the whole graph, if it was needed."""
        self.rows: list[_Row] = []
        self.retracted: set[int] = set()
        """Rows without a fault of their own: their inputs were matched wrongly."""
        self.ends: list[tuple[int, Array, Array]] = []
        """Outputs: number, the program's, eager's."""
        self.misfits: list[_Row] = []
        """Outputs of another shape or dtype, and a wrong number of them."""
        self.interrupted = False
        self.places: list[Sequence[Node]] = []
        """The nodes of each row of the report."""

    def uninformative(self) -> str:
        """Return the reason why no compared value, or no output, can show an error, or an empty
        text."""
        rows = [row.eager for row in self.rows if not self.varying or row.node in self.varying]
        ends = [eager for _, _, eager in self.ends]
        if self.limits is None or self.limits.cover_all:
            return ""
        reason = verdicts.uninformative_ends(ends)
        return reason or verdicts.uninformative_all(chain(rows, ends))

    def unshown(self) -> Iterator[str]:
        """Yield a note if nodes compute zeros from a state of zeros, as before the first call: a
        wrong factor of the state, for example, changes nothing then."""
        rows = [
            row.error
            for row in self.rows
            if row.node in self.of_state
            and row.eager.size
            and not row.eager.any()
            and not row.actual.any()
        ]
        if rows:
            more = f" and {len(rows) - 1} more" if len(rows) > 1 else ""
            yield (
                f"the state is zeros: an error of {rows[0].name}, {rows[0].where}{more} may not "
                "show; compare a loaded method with the model after some calls"
            )

    def run(
        self, arguments: Mapping[Node, Any], outputs: Sequence[object] | None
    ) -> list[NodeError]:
        """Return all rows, in the order in which the program computed them; `outputs` is None for a
        program that failed."""
        import torch

        with torch.no_grad():
            try:
                self._walk(arguments, outputs)
            except KeyboardInterrupt:
                self.interrupted = True
            rows = self._report(arguments)
        self.places = [row.path or (row.node,) for row in rows]
        return [replace(row.error, index=i) for i, row in enumerate(rows)]

    def _walk(self, arguments: Mapping[Node, Any], outputs: Sequence[object] | None) -> None:
        """Compute all nodes, and judge the values that are matched to them."""
        self.runs = Runs(self.graph, arguments, self.last.values())
        nodes = self.graph.nodes
        self.varying.update(self.graph.inputs)
        self.of_state.update(self.graph.state)
        for i, node in enumerate(nodes):
            if not self.varying.isdisjoint(node.all_input_nodes):
                self.varying.add(node)
            if not self.of_state.isdisjoint(node.all_input_nodes):
                self.of_state.add(node)
            if self.progress is not None:
                self.progress(i, len(nodes))
            if node.op == "output":
                self._outputs(outputs) if outputs is not None else None
                break
            self.runs.compute(node)
            for parting in self.added.get(node, ()):
                self._read_added(node, parting)
            if not self.tainted.isdisjoint(node.all_input_nodes):
                self.tainted.add(node)
            match = self.last.get(node)
            if match is not None:
                self._judge(match)
            self.runs.release([*node.all_input_nodes, *(match.nodes if match else ())])
            self.runs.release_unused(node)

    def _report(self, arguments: Mapping[Node, Any]) -> list[_Row]:
        """Return the rows with their last verdicts, which need all of them, in order."""
        self._retract_partings()
        rows = [row for i, row in enumerate(self.rows) if i not in self.retracted]
        sources = [row.order for row in rows if row.error.verdict == "source"]
        if sources and self.misshapen is not None and self.misshapen.order < min(sources):
            rows.append(_misshapen_row(self.misshapen))
        rows.sort(key=lambda row: row.order)
        if sources:
            return rows
        rows = [row.judged("ok") for row in rows]
        if self.limits is None or self.interrupted:
            return rows
        if self.misfits:
            return [*rows, *self.misfits]
        if self.limits.cover_all:
            return rows
        if self.limits.min_sqnr_db is not None:
            return [*rows, *self._results(self.limits)]
        return self._unexplained(rows, arguments)

    def _retract_partings(self) -> None:
        """Retract the partings that a retracted row was computed from: what follows from them is
        not what the program computes."""
        queue = list(self.retracted)
        while queue:
            for cause in self.rows[queue.pop()].causes - self.retracted:
                if self.rows[cause].error.instead:
                    self.retracted.add(cause)
                    queue.append(cause)

    # ---- one match ------------------------------------------------------------------------

    def _judge(self, match: Match) -> None:
        """Judge a matched value, and go on with it."""
        if any(is_random_node(node) for node in match.nodes):
            for node, array in zip(match.nodes[:1], match.outputs):
                if array is not None:
                    self.runs.adopt(node, array)
            return
        best = self._best(match)
        if best is None:
            return
        verdict, accumulated = self._verdict(match, best)
        before = causes_of(self.runs.rerun[best.node]) if verdict != "ok" else frozenset[int]()
        causes = before if verdict == "propagated" else frozenset[int]()
        if verdict != "ok":
            causes |= {len(self.rows)}
        error = self._error(match, best, accumulated, verdict)
        path = _path(match, best)
        row = _Row(match.order, error, best.node, best.actual, best.eager, path, before)
        self.rows.append(row)
        after = match.nodes[match.nodes.index(best.node) + 1 :]
        self.runs.substitute(best.node, best.ours, after, causes)

    def _best(self, match: Match) -> _Candidate | None:
        """Return the last agreeing node of those that a delegate may have fused; without one, the
        nearest."""
        candidates = [c for c in (self._candidate(node, match) for node in match.nodes) if c]
        good = [c for c in candidates if c.local.mismatched == 0]
        if good or not candidates:
            return good[-1] if good else None
        return min(reversed(candidates), key=lambda c: c.local.relative)

    def _candidate(self, node: Node, match: Match) -> _Candidate | None:
        """Return the program's value as the result of a node; the worst of several outputs."""
        import torch

        eager, rerun = self.runs.eager[node].value, self.runs.rerun[node]
        several = isinstance(eager, (list, tuple))
        results = list(eager) if several else [eager]
        ours: list[Any] = [None] * len(results)
        worst: _Candidate | None = None
        for i, (result, array) in enumerate(zip(results, match.outputs)):
            if array is None or not isinstance(result, torch.Tensor) or not is_read(node, i):
                continue
            output = i if several else None
            shaped = nearest(array, result, picked(rerun.value, output))
            if shaped is None:
                return None
            if quantizes(node) and shaped.dtype != result.dtype:
                return None  # a delegate's own integers, of another scale: TOSA's operands of sums
            ours[i] = shaped.to(result.dtype)
            actual = as_array(shaped)
            local = local_error(actual, rerun, output, self.limits)
            one = _Candidate(node, ours, local, actual, as_array(result), array.dtype.name)
            if worst is None or one.badness > worst.badness:
                worst = one
        return worst

    def _verdict(self, match: Match, best: _Candidate) -> tuple[NodeVerdict, ErrorMetrics]:
        """Return the verdict on a value, and its accumulated error; taint the nodes of a wrong
        one."""
        is_tainted = not self.tainted.isdisjoint(match.nodes)
        self.tainted.difference_update(match.nodes)
        if self.limits is None or not (best.local.mismatched or is_tainted):
            return "ok", measure_size(best.actual, best.eager)
        rule = tolerance.rounding(best.actual, best.eager)
        accumulated = self.limits.error(best.actual, best.eager, [rule])
        if not best.local.mismatched and (causes := self._cancelled(best, accumulated)):
            self.retracted |= causes
            return "ok", accumulated
        if accumulated.mismatched:
            self.tainted.update(match.nodes[match.nodes.index(best.node) :])
            return "source" if best.local.mismatched else "propagated", accumulated
        if best.local.relative > MISMATCH_RATIO * accumulated.relative:
            self.retracted |= causes_of(self.runs.rerun[best.node])
        return "ok", accumulated

    def _cancelled(self, best: _Candidate, accumulated: ErrorMetrics) -> frozenset[int]:
        """Return the rows whose errors cancel each other in a value that is computed from them:
        several, all of them far larger than the value's own error; else none."""
        causes = causes_of(self.runs.rerun[best.node])
        rows = [self.rows[i].error for i in causes]
        errors = [
            row.local.relative for row in rows if row.verdict == "source" and row.local is not None
        ]
        is_less = len(errors) > 1 and min(errors) > CANCELLATION_RATIO * accumulated.relative
        return causes if is_less else frozenset()

    def _error(
        self, match: Match, best: _Candidate, accumulated: ErrorMetrics, verdict: NodeVerdict
    ) -> NodeError:
        """Return the row of a match: all operators, layers and parameters on its path."""
        path = _path(match, best)
        names = [name for n in path if not is_quantizer(n) and (name := operator_of(n))]
        name = f"{match.name} ({', '.join(names)})" if match.inside and names else match.name
        layers = tuple(dict.fromkeys(layer for n in path if (layer := module_of(n))))
        # Nodes that a quantiser's passes add have no layer: TOSA's view between mean and linear.
        only = layers[0] if len(layers) == 1 else None
        error = NodeError(
            0,
            match.where,
            name,
            best.eager.shape,
            best.dtype,
            accumulated,
            best.local,
            verdict,
            layer_of(match.anchor) or only,
            source_of(match.anchor),
            parameters=self.graph.parameters_of(path),
            modules=layers,
        )
        return error if match.parting is None else unmatched.parted(error, match.parting)

    def _read_added(self, reader: Node, parting: Parting) -> None:
        """Judge an operator that only the program has, and let a node read its result."""
        rerun, eager = self.runs.rerun[parting.node], self.runs.eager[parting.node]
        if parting.source not in self.causes_of_added:
            error = unmatched.added(parting, rerun.value, eager.value, self.limits)
            self.causes_of_added[parting.source] = frozenset()
            if error.verdict != "ok":
                self.causes_of_added[parting.source] = frozenset((len(self.rows),))
                self.tainted.add(reader)
            values = as_array(parting.value), as_array(eager.value)
            self.rows.append(_Row(parting.instead[-1].order, error, parting.node, *values))
        causes = self.causes_of_added[parting.source]
        self.runs.read_instead(reader, parting.node, parting.value, causes)

    # ---- outputs --------------------------------------------------------------------------

    def _outputs(self, outputs: Sequence[object]) -> None:
        """Judge the method's results that are not the value of a matched operator: none was
        matched to them, or the program goes on after the one that was."""
        from torch.fx import Node

        seen = {n for match in self.last.values() for n in match.nodes}
        problem = count_problem(len(outputs), len(self.graph.outputs))
        if problem:
            place = self.graph.nodes[-1]
            self.misfits.append(_misfit_row("outputs", np.empty(0), place, problem=problem))
        for i, (place, output) in enumerate(zip(self.graph.outputs, outputs)):
            if not isinstance(place, Node) or not isinstance(output, np.ndarray):
                continue
            known = {place, *(place.all_input_nodes if place.target is getitem else ())}
            if seen.isdisjoint(known) or not self._is_value(place, output):
                self._judge(
                    Match(RESULTS_PLACE, f"output {i}", "result", False, [output], [place], place)
                )
            eager = self.runs.eager[place].value
            self.misfits += _misfit(i, output, place, eager)
            self.ends += _end(i, output, eager)

    def _is_value(self, place: Node, output: Array) -> bool:
        """Return True if an output equals the program's value of a node."""
        value = self.runs.rerun[place].value
        shaped = nearest(output, value, as_array(value))
        return shaped is not None and np.array_equal(
            widened(as_array(shaped)), widened(as_array(value)), equal_nan=True
        )

    def _unexplained(self, rows: list[_Row], arguments: Mapping[Node, Any]) -> list[_Row]:
        """Return rows with the first unexplained error, where outputs are outside of the graph's
        noise though no operator is wrong."""
        if not any(tolerance.outside(a, e, tolerance.rounding(a, e)) for _, a, e in self.ends):
            return rows
        noise = self.noise = GraphNoise(self.graph, arguments, [row.node for row in rows])
        if not any(noise.outside_of_output(i, a, e) for i, a, e in self.ends):
            return rows
        for i, row in enumerate(rows):
            size = noise.error(row.node, row.actual, row.eager)
            if size.mismatched:
                error = replace(row.error, verdict="unexplained", accumulated=size)
                return [*rows[:i], replace(row, error=error), *rows[i + 1 :]]
        return rows

    def _results(self, limits: NodeTolerances) -> Iterator[_Row]:
        """Yield a row for each output that is further from the float model's than quantising
        explains."""
        for i, actual, eager in self.ends:
            size = limits.error(actual, eager, (), is_output=True)
            if size.mismatched:
                error = NodeError(
                    0,
                    f"output {i}",
                    "result",
                    actual.shape,
                    actual.dtype.name,
                    size,
                    None,
                    "unexplained",
                )
                yield _Row(RESULTS_PLACE, error, self.graph.nodes[-1], actual, eager)


def _path(match: Match, best: _Candidate) -> Sequence[Node]:
    """Return the nodes that a value stands for."""
    return match.path or match.nodes[: match.nodes.index(best.node) + 1]


def _end(number: int, output: Any, eager: Any) -> list[tuple[int, Array, Array]]:
    """Return an output with its number and eager's; nothing for another shape or kind."""
    shaped = nearest(output, eager, as_array(eager))
    return [] if shaped is None else [(number, as_array(shaped), as_array(eager))]


def _misfit(number: int, output: Array, place: Node, eager: Any) -> list[_Row]:
    """Return a row for an output of another shape, or another dtype than integers have: programs of
    another float dtype, or with quantised outputs, have models of float32."""
    wanted = as_array(eager).dtype
    if output.shape != tuple(eager.shape):
        return [_misfit_row(f"output {number}", output, place, shape=tuple(eager.shape))]
    if eager.dtype.is_floating_point or output.dtype == wanted:
        return []
    problem = f"dtype {output.dtype.name}, expected {wanted.name}"
    return [_misfit_row(f"output {number}", output, place, problem=problem)]


def _misfit_row(
    where: str, output: Array, place: Node, shape: tuple[int, ...] | None = None, problem: str = ""
) -> _Row:
    """Return the row of outputs that cannot be compared."""
    size = incomparable(output.size)
    error = NodeError(
        0,
        where,
        "result",
        output.shape,
        output.dtype.name,
        size,
        None,
        "unexplained",
        expected_shape=shape,
        problem=problem,
    )
    return _Row(RESULTS_PLACE, error, place, output, output)


def _misshapen_row(match: Match) -> _Row:
    """Return the row of a value whose shape is not that of its node: all of it is wrong."""
    node = match.nodes[0]
    actual = next(as_array(array) for array in match.outputs if array is not None)
    size = incomparable(actual.size)
    layer = layer_of(node)
    error = NodeError(
        0,
        match.where,
        match.name,
        actual.shape,
        actual.dtype.name,
        size,
        size,
        "source",
        layer,
        source_of(node),
        modules=(layer,) if layer else (),
        expected_shape=shape_of(node),
    )
    return _Row(match.order, error, node, actual, actual)


def layer_of(node: Node) -> str | None:
    """Return the layer of a node; a quantising node has the layer of its input or user."""
    while is_quantizer(node) and node.all_input_nodes:
        before = node.all_input_nodes[0]
        if before.op != "call_function":
            for user in node.users:
                if not is_quantizer(user):
                    return module_of(user)
                if (reader := next(iter(user.users), None)) is not None:
                    return module_of(reader)
            return None
        node = before
    return module_of(node)
