"""The walk of `explain`: a graph run node by node on eager's values, and on the program's.

For each value that the program computed there are two gaps: from what eager computes from the start
(total), and from what eager computes from the values that the program had before (own). Nodes that
no value is matched to are run on what is before them, so that an operator of a delegate may stand
for several of the graph.

The tolerance of a value is that of torch.testing.assert_close for its dtype, atol times the root
mean square of the tensor. Where this finds something, the same nodes run in float64, from the last
values on that the program gave: what eager itself is off by at most, times ROUNDINGS, is allowed,
too. So accumulating in another order is no fault, however many terms there are and however much
they cancel out. Values that a delegate quantises may be one step off, of a coarser dtype than the
reference's ROUNDINGS times half a unit in the last place of the largest element. Delegates that
quantise activations at run time do so row by row, graphs of PT2E the whole tensor: there twice what
this rounding makes the graph's own result differ by is allowed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import getitem
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c._arrays import as_array
from executorch_c._gap import Gap, check_not_negative, measure, tolerances
from executorch_c.devtools import _match
from executorch_c.devtools._fed import attribute, call
from executorch_c.devtools._match import Match, Matches
from executorch_c.devtools._reference import Reference, module_of, source_of
from executorch_c.devtools._report import OperatorGap, Verdict, relative

if TYPE_CHECKING:
    from torch.fx import Node

LAST = 1 << 62
"""Where results of the method stand in the order of a trace."""

MISMATCH = 100
"""How many times larger than the total an own gap is where inputs were matched wrongly."""

ROUNDINGS = 16
"""An operator may be off by so many times the reference's own rounding error."""

BOTH_ROUND = 2
"""A delegate may be so many times further from the graph than the graph, for its dynamic
quantisation, is from itself without."""


class _Value:
    """What a node gives, and how to compute it again; values that the program gave have no how."""

    __slots__ = ("causes", "env", "node", "value")

    def __init__(
        self, value: Any, node: Node | None = None, env: dict[Node, _Value] | None = None
    ) -> None:
        self.value, self.node, self.env = value, node, env or {}
        self.causes: frozenset[int] = frozenset()
        """If the program gave it and it is off: the rows that say so, its own and earlier ones."""


def _double(value: Any) -> Any:
    import torch

    if isinstance(value, (list, tuple)):
        return type(value)(map(_double, value))
    if isinstance(value, torch.Tensor) and value.dtype.is_floating_point:
        return value.double()
    return value


def _unrounded(value: _Value) -> _Value | None:
    """What was quantised by a scale found at run time, of what is dequantised by it."""
    if value.node is None or not (_match.operator_of(value.node) or "").startswith("dequantize_"):
        return None
    quantized = value.env.get(value.node.all_input_nodes[0])
    scale = value.node.args[1] if len(value.node.args) > 1 else None
    if quantized is None or quantized.node is None or isinstance(scale, (int, float)):
        return None
    return quantized.env.get(quantized.node.all_input_nodes[0])


def _exactly(value: _Value, known: dict[int, Any], dynamic: bool) -> Any:
    """The same in float64, from the last values on that the program gave; `dynamic`: without the
    rounding of what is quantised at run time."""
    if id(value) not in known:
        source = _unrounded(value) if dynamic else None
        if value.node is None:
            known[id(value)] = _double(value.value)
        elif source is not None:
            known[id(value)] = _exactly(source, known, dynamic)
        else:
            node, env = value.node, value.env

            def argument(before: Node) -> Any:
                plain = env[before].value
                if not _match.is_quantizer(node):
                    return _exactly(env[before], known, dynamic)
                if before is not node.all_input_nodes[0] or not plain.dtype.is_floating_point:
                    return plain  # these take one dtype only
                return _exactly(env[before], known, dynamic).to(plain.dtype)

            known[id(value)] = _double(call(node, argument))
    return known[id(value)]


def _error(value: _Value, output: int | None, dynamic: bool) -> float:
    """How far the reference is from float64 at most; 0 where that cannot tell."""
    import torch

    try:
        exact, rounded = _exactly(value, {}, dynamic), value.value
    except Exception:
        return 0.0  # operators that take one dtype only say so in many ways
    if output is not None:
        exact, rounded = exact[output], rounded[output]
    if not isinstance(exact, torch.Tensor) or not exact.dtype.is_floating_point:
        return 0.0
    error = (exact - rounded.double()).abs()
    error = error[torch.isfinite(error)]
    return float(error.max()) if error.numel() else 0.0


def _rounding(value: _Value, output: int | None, inside: bool) -> float:
    """What a program may be off by because both sides round."""
    allowed = ROUNDINGS * _error(value, output, dynamic=False)
    return max(allowed, BOTH_ROUND * _error(value, output, dynamic=True)) if inside else allowed


def _scale(array: Any) -> float:
    """Root mean square of what is finite."""
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    wide = np.abs(wide[np.isfinite(wide)])
    return float(np.sqrt(np.mean(wide**2))) if wide.size else 0.0


EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23}
"""What the next number after 1 is larger by."""


def _half_ulp(actual: Any, expected: Any) -> float:
    """The rounding error of a program that computes in a coarser dtype than the reference."""
    if actual.dtype.itemsize >= expected.dtype.itemsize or actual.dtype.name not in EPSILON:
        return 0.0
    size = np.abs(expected[np.isfinite(expected)].astype(np.float64))
    return EPSILON[actual.dtype.name] / 2 * float(size.max(initial=0.0))


@dataclass(frozen=True)
class Limits:
    """What is within tolerance: the caller's numbers, or those of the dtype."""

    rtol: float | None
    atol: float | None

    def __post_init__(self) -> None:
        check_not_negative(rtol=self.rtol, atol=self.atol)

    def gap(self, actual: Any, expected: Any, step: float, rounding: Callable[[], float]) -> Gap:
        """Measures; `step` is that of quantised numbers, `rounding` is asked if it matters."""
        rtol, atol = tolerances(actual.dtype, expected.dtype)
        atol = atol * _scale(expected) + step * 1.001
        rtol = rtol if self.rtol is None else self.rtol
        atol = atol if self.atol is None else self.atol
        gap = measure(actual, expected, rtol, atol, True)
        if gap.outside and self.atol is None and not step:
            error = max(rounding(), ROUNDINGS * _half_ulp(actual, expected))
            gap = measure(actual, expected, rtol, max(atol, error), True)
        return gap


def _step(node: Node) -> float:
    """The largest scale of a node that quantises or dequantises by one that the graph holds."""
    if not _match.is_quantizer(node):
        return 0.0
    scale = node.args[1] if len(node.args) > 1 else None
    return float(scale) if isinstance(scale, (int, float)) else 0.0


def _layer(node: Node) -> str | None:
    """The layer of a node; those that quantise belong to what they quantise, or feed."""
    while _match.is_quantizer(node) and node.all_input_nodes:
        before = node.all_input_nodes[0]
        if before.op != "call_function":
            for user in node.users:
                if not _match.is_quantizer(user):
                    return module_of(user)
                if (found := next(iter(user.users), None)) is not None:
                    return module_of(found)
            return None
        node = before
    return module_of(node)


@dataclass
class _Candidate:
    node: Node
    ours: list[Any]
    """Tensors of the program in the node's shapes; None where it has none."""
    total: Gap
    own: Gap
    shape: tuple[int, ...]
    dtype: str


class Walk:
    """Runs a graph twice at once: as it is, and on the values that the program computed."""

    def __init__(self, graph: Reference, matches: Matches, limits: Limits) -> None:
        self.graph, self.limits = graph, limits
        self.eager: dict[Node, _Value] = {}
        self.fed: dict[Node, _Value] = {}
        self.tainted: set[Node] = set()
        self.rows: list[tuple[int, OperatorGap]] = []
        self.last = {match.nodes[-1]: match for match in matches.found}
        self.uses: dict[Node, int] = {}
        self.settled: dict[Node, tuple[Node, _Value]] = {}
        self.retracted: set[int] = set()
        self.pending: dict[tuple[object, ...], set[int]] = defaultdict(set)
        for match in matches.found:
            self.pending[match.key].add(id(match))

    def run(self, arguments: dict[Node, Any], outputs: Sequence[object]) -> list[OperatorGap]:
        """All rows, in the order in which the program computed them."""
        import torch

        with torch.no_grad():
            self._walk(arguments, outputs)
        kept = [pair for i, pair in enumerate(self.rows) if i not in self.retracted]
        rows = [row for _, row in sorted(kept, key=lambda pair: pair[0])]
        if not any(row.verdict == "wrong" for row in rows):
            rows = [replace(row, verdict="ok") for row in rows]
        return [replace(row, index=i) for i, row in enumerate(rows)]

    def _walk(self, arguments: dict[Node, Any], outputs: Sequence[object]) -> None:
        nodes = self.graph.nodes
        self.uses = {node: len(node.users) for node in nodes}
        for match in self.last.values():
            for node in match.nodes:
                self.uses[node] += 1
        for node in nodes:
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
            self.eager[node] = self.fed[node] = _Value(arguments[node])
        elif node.op == "get_attr":
            self.eager[node] = self.fed[node] = _Value(attribute(self.graph.module, node))
        else:
            result = _run(node, self.eager)
            self.eager[node] = self.fed[node] = result
            if any(self.eager[n] is not self.fed[n] for n in node.all_input_nodes):
                self.eager[node] = _Value(result.value)  # lets go of what it was made from
                self.fed[node] = _run(node, self.fed)
            if not self.tainted.isdisjoint(node.all_input_nodes):
                self.tainted.add(node)
            self._siblings(node)

    def _siblings(self, node: Node) -> None:
        """Dequantised copies of one quantised value are all the program's."""
        if (operator := _match.operator_of(node)) and operator.startswith("dequantize_"):
            known = self.settled.get(node.all_input_nodes[0])
            if known is not None and known[1].value.dtype == self.fed[node].value.dtype:
                self.fed[node] = known[1]

    # ---- verdicts -------------------------------------------------------------------------

    def _judge(self, match: Match) -> None:
        """Says of a matched value what it is, and goes on with it."""
        if any(_is_random(node) for node in match.nodes):
            self._adopt(match)
            return
        best = self._best(match)
        if best is None:
            return
        if best.own.outside:
            best = self._swapped(match) or best
        self.pending[match.key].discard(id(match))
        self._row(match, best)
        self._substitute(match, best)

    def _best(self, match: Match) -> _Candidate | None:
        """Of what a delegate may have fused, the end is likelier than what it passes through."""
        found = [c for c in (self._candidate(node, match) for node in match.nodes) if c]
        good = [c for c in found if not c.own.outside]
        if good or not found:
            return good[-1] if good else None
        return min(reversed(found), key=lambda c: _size(c.own))

    def _swapped(self, match: Match) -> _Candidate | None:
        """Before something is called wrong: whether another value was meant."""
        for other in self.last.values():
            if id(other) in self.pending[match.key] and other is not match:
                match.swap(other)
                best = self._best(match)
                if best is not None and not best.own.outside:
                    return best
                match.swap(other)
        return None

    def _candidate(self, node: Node, match: Match) -> _Candidate | None:
        """The program's value as what a node gives; the worst of several outputs."""
        import torch

        eager, fed = self.eager[node].value, self.fed[node]
        several = isinstance(eager, (list, tuple))
        results = list(eager) if several else [eager]
        ours: list[Any] = [None] * len(results)
        worst: _Candidate | None = None
        for i, (result, array) in enumerate(zip(results, match.outputs)):
            if array is None or not isinstance(result, torch.Tensor) or not _match.is_read(node, i):
                continue
            gaps = self._gaps(node, array, result, fed, i if several else None, match.inside)
            if gaps is None:
                return None
            ours[i], total, own = gaps
            if worst is None or _size(own) > _size(worst.own):
                worst = _Candidate(node, ours, total, own, tuple(result.shape), array.dtype.name)
        return worst

    def _gaps(
        self, node: Node, array: Any, eager: Any, fed: _Value, output: int | None, inside: bool
    ) -> tuple[Any, Gap, Gap] | None:
        """The program's value in the shape of a node, its total gap and its own."""
        value = _match.as_tensor(array)
        if value.dtype.is_floating_point != eager.dtype.is_floating_point:
            return None
        rounds = (_match.operator_of(node) or "").startswith("quantize_")
        step = _step(node) if inside else float(rounds)
        theirs = as_array(eager)
        onward = as_array(fed.value if output is None else fed.value[output])
        made = [
            (shaped, self.limits.gap(as_array(shaped), onward, step,
                                     lambda: _rounding(fed, output, inside)))
            for shaped in _match.layouts(value, eager.shape)
        ]  # fmt: skip
        if not made:
            return None
        shaped, own = min(made, key=lambda pair: _size(pair[1]))
        total = self.limits.gap(as_array(shaped), theirs, step, lambda: 0.0)
        return shaped.to(eager.dtype), total, own

    def _row(self, match: Match, best: _Candidate) -> None:
        carried = not self.tainted.isdisjoint(match.nodes)
        self.tainted.difference_update(match.nodes)
        verdict: Verdict = "ok"
        if best.total.outside:
            verdict = "wrong" if best.own.outside else "carried" if carried else "ok"
            if verdict != "ok":
                self.tainted.update(match.nodes[match.nodes.index(best.node) :])
        elif best.own.outside and relative(best.own) > MISMATCH * relative(best.total):
            self._retract(self.fed[best.node])
        at = match.nodes.index(best.node)
        path = match.path or match.nodes[: at + 1]
        fused = [_match.operator_of(n) for n in path if not _match.is_quantizer(n)]
        names = [name for name in fused if name]
        name = f"{match.name} ({', '.join(names)})" if match.inside and names else match.name
        self.rows.append((match.order, OperatorGap(
            0, match.where, name, best.shape, best.dtype, best.total, best.own, verdict,
            _layer(match.anchor), source_of(match.anchor),
            parameters=self.graph.parameters_of(path),
        )))  # fmt: skip

    def _retract(self, value: _Value) -> None:
        """What an operator made is right though its inputs are not: those were matched wrongly."""
        self.retracted |= self._causes(value)

    def _causes(self, value: _Value) -> frozenset[int]:
        """Rows that are off among those that a value was made from, and what these carry."""
        seen, queue, found = {id(value)}, [value], set(value.causes)
        while queue:
            value = queue.pop()
            found |= value.causes
            fresh = [before for before in value.env.values() if id(before) not in seen]
            seen.update(map(id, fresh))
            queue += fresh
        return frozenset(found)

    def _substitute(self, match: Match, best: _Candidate) -> None:
        """From here on the graph goes on with what the program computed."""
        row, verdict = len(self.rows) - 1, self.rows[-1][1].verdict
        carried = self._causes(self.fed[best.node]) if verdict == "carried" else frozenset()
        old = self.fed[best.node].value
        if isinstance(old, (list, tuple)):
            kept = [one if mine is None else mine for mine, one in zip(best.ours, old)]
            self.fed[best.node] = _Value(type(old)(kept))
        else:
            self.fed[best.node] = _Value(best.ours[0])
        self.fed[best.node].causes = carried | ({row} if verdict != "ok" else set())
        if _match.is_quantizer(best.node):
            self.settled[best.node.all_input_nodes[0]] = (best.node, self.fed[best.node])
        at = match.nodes.index(best.node)
        for node in match.nodes[at + 1 :]:  # computed from what was there before
            before = self.fed[node]
            env = {n: self.fed.get(n, value) for n, value in before.env.items()}
            if before.node is not None:
                self.fed[node] = _Value(call(node, lambda n: env[n].value), node, env)
            if best.node in self.tainted:
                self.tainted.add(node)

    def _adopt(self, match: Match) -> None:
        """Random numbers differ by nature: the reference takes the program's."""
        for node, array in zip(match.nodes[:1], match.outputs):
            value = self.eager[node].value
            if array is not None and getattr(value, "shape", None) == array.shape:
                taken = _Value(_match.as_tensor(array).to(value.dtype))
                self.eager[node] = self.fed[node] = taken

    def _outputs(self, outputs: Sequence[object]) -> None:
        """Results of the method that no operator was matched to."""
        from torch.fx import Node

        seen = {n for match in self.last.values() for n in match.nodes}
        for i, (place, output) in enumerate(zip(self.graph.outputs, outputs)):
            if not isinstance(place, Node) or not isinstance(output, np.ndarray):
                continue
            known = {place, *(place.all_input_nodes if place.target is getitem else ())}
            if seen.isdisjoint(known):
                where = f"output {i}"
                self._judge(Match(LAST, where, "result", False, [output], [place], place, ()))


def _run(node: Node, env: dict[Node, _Value]) -> _Value:
    inputs = {n: env[n] for n in node.all_input_nodes}
    return _Value(call(node, lambda n: inputs[n].value), node, inputs)


def _size(gap: Gap) -> tuple[bool, float]:
    """To order gaps by."""
    return bool(gap.outside), relative(gap)


def _is_random(node: Node) -> bool:
    import torch

    tags = getattr(getattr(node.target, "_op", node.target), "tags", ())
    return torch.Tag.nondeterministic_seeded in tags or _match.operator_of(node) == "empty"
