"""Graphs that differ from eager before they are lowered: an export, or its decompositions, computes
another result than the model.

The graph of torch.export has eager's operators; the edge dialect has them decomposed. Each
operator's result is a value of the decomposed graph, too. The first that is none is the operator
whose decomposition is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from executorch_c._arrays import as_array
from executorch_c._eager_caches import kept_caches
from executorch_c._modules import fresh
from executorch_c.compare import tolerance
from executorch_c.compare.limits import MAX_DECOMPOSITION_DISTANCE
from executorch_c.compare.metrics import ErrorMetrics, measure_size
from executorch_c.debug._graph_noise import GraphNoise
from executorch_c.debug._graphs.evaluator import attribute, call
from executorch_c.debug._graphs.layouts import distance, elements, sample
from executorch_c.debug._graphs.names import is_quantizer, operator_of
from executorch_c.debug._graphs.reference import ReferenceGraph, module_of, source_of
from executorch_c.debug.report import EXPORT, NodeError
from executorch_c.inspect.families import MOVES

if TYPE_CHECKING:
    from torch.fx import Node

    from executorch_c._arrays import Array


@dataclass(frozen=True)
class _Value:
    """A result of a node."""

    node: Node
    array: Array
    """As it was before a later operator changed it in place."""


def changed_row(graph: ReferenceGraph, model: Any, inputs: Sequence[Any]) -> NodeError | None:
    """Return the row of what the export changed; None if it computes eager's results, and for a
    quantised graph.

    Args:
        graph: The decomposed graph, with what torch.export returned as `source`.
        model: The nn.Module, if known.
        inputs: Its arguments, as they are nested.
    """
    import torch
    from torch.utils._pytree import tree_leaves

    if graph.source is None or any(map(is_quantizer, graph.nodes)):
        return None  # rounding ties of a quantised graph are no change
    with torch.no_grad(), kept_caches():
        flat = list(tree_leaves(tuple(inputs)))
        decomposed = list(_values(graph, flat))
        ends = dict(_ends(graph, decomposed))
        whole = ReferenceGraph(graph.source)
        if len(whole.outputs) != len(graph.outputs):
            return None  # a model that changes inputs: their new values are outputs of one graph
        try:
            exported = list(_values(whole, flat))
        except NotImplementedError:
            return None
        theirs = dict(_ends(whole, exported))
        size = _difference(graph, flat, ends, theirs)
        if size is not None:
            return _row(_first(whole, exported, decomposed), size)
        if isinstance(model, torch.nn.Module) and (eager := _eager(model, inputs)) is not None:
            size = _difference(graph, flat, ends, eager)
            if size is not None:
                return _row(None, size)
    return None


def _eager(model: Any, inputs: Sequence[Any]) -> dict[int, Array] | None:
    """Return the outputs of a module, if it changes no input."""
    from torch.utils import _pytree

    arguments = _pytree.tree_map(
        lambda leaf: leaf.clone() if hasattr(leaf, "clone") else leaf, tuple(inputs)
    )
    before = [leaf._version for leaf in _pytree.tree_leaves(arguments) if hasattr(leaf, "_version")]
    leaves = _pytree.tree_leaves(fresh(model)(*arguments))
    after = [leaf._version for leaf in _pytree.tree_leaves(arguments) if hasattr(leaf, "_version")]
    if before != after:
        return None
    return {i: as_array(leaf) for i, leaf in enumerate(leaves) if hasattr(leaf, "dtype")}


def _difference(
    graph: ReferenceGraph, inputs: Sequence[Any], ours: dict[int, Array], theirs: dict[int, Array]
) -> ErrorMetrics | None:
    """Return the error of the first output beyond rounding noise; None if there is none."""
    pairs = [
        (i, ours[i], theirs[i])
        for i in ours
        if i in theirs and ours[i].shape == theirs[i].shape and theirs[i].dtype.kind in "fV"
    ]
    off = [pair for pair in pairs if tolerance.outside(*pair[1:], tolerance.rounding(*pair[1:]))]
    if not off:
        return None
    noise = GraphNoise(graph, graph.arguments(inputs), [])
    for i, mine, wanted in off:
        count = noise.outside_of_output(i, wanted, mine) if noise.runs else 0
        if count:
            return measure_size(mine, wanted, mismatched=count)
    return None


def _values(graph: ReferenceGraph, inputs: Sequence[Any]) -> Iterator[_Value]:
    """Yield the results of all nodes, each a copy: operators may work in place. Weights that
    torchao has quantised, tensors of several parts, are none."""
    import torch
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    known = {
        node: value.clone() if isinstance(value, torch.Tensor) else value
        for node, value in graph.arguments(inputs).items()
    }
    for node in graph.nodes:
        if node.op == "get_attr":
            known[node] = attribute(graph.module, node)
        elif node.op == "call_function":
            known[node] = call(node, known.__getitem__)
        if node.op == "output":
            return
        value = known[node]
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(one, torch.Tensor) and not is_traceable_wrapper_subclass(one):
                yield _Value(node, as_array(one.detach().clone()))


def _ends(graph: ReferenceGraph, values: Sequence[_Value]) -> Iterator[tuple[int, Array]]:
    """Yield the outputs of a graph, with their numbers."""
    last = {value.node: value.array for value in values}
    for number, node in enumerate(graph.outputs):
        if not isinstance(node, (int, float, bool, str, type(None))) and node in last:
            yield number, last[node]


def _first(
    whole: ReferenceGraph, exported: Sequence[_Value], decomposed: Sequence[_Value]
) -> Node | None:
    """Return the first operator of the exported graph whose result is no value of the decomposed
    one."""
    by_size: dict[tuple[int, ...], list[Any]] = {}
    for value in decomposed:
        by_size.setdefault(tuple(elements(value.array.shape)), []).append(sample(value.array))
    for value in exported:
        name = operator_of(value.node)
        if name is None or name in MOVES or value.array.dtype.kind not in "fV":
            continue
        mine = sample(value.array)
        same = by_size.get(tuple(elements(value.array.shape)), [])
        if not any(distance(mine, one) <= MAX_DECOMPOSITION_DISTANCE for one in same):
            return _decomposed(value.node, [one.node for one in decomposed])
    ends = [value.node for value in exported if value.node in whole.outputs]
    return _decomposed(ends[0], [one.node for one in decomposed]) if ends else None


def _decomposed(node: Node, nodes: Sequence[Node]) -> Node:
    """Return the node, if `nodes` do not have its operator, or the last before it that they do not
    have: eager's result of that one may be its input, as of a resize to the same size."""
    kept = {(operator_of(one), source_of(one)) for one in nodes}
    queue = [node]
    while queue:
        one = queue.pop(0)
        if one.op == "call_function" and (operator_of(one), source_of(one)) not in kept:
            return one
        queue += one.all_input_nodes
    return node


def _row(node: Node | None, size: ErrorMetrics) -> NodeError:
    """Return the row of an operator that the export changes; None: of the whole graph."""
    name = "the graph" if node is None else operator_of(node) or str(node.target)
    return NodeError(
        0,
        EXPORT,
        name,
        (),
        "",
        size,
        size,
        "source",
        None if node is None else module_of(node),
        None if node is None else source_of(node),
    )
