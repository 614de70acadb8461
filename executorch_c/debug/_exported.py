"""Graphs that differ from eager before they are lowered: an export, or its decompositions, computes
another result than the model.

The graph of torch.export has eager's operators; the edge dialect has them decomposed. Each
operator's result is a value of the decomposed graph, too. The first that is none is the operator
whose decomposition is wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
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


def changed_row(
    graph: ReferenceGraph, model: Any, inputs: Sequence[Any], noise: GraphNoise | None = None
) -> NodeError | None:
    """Return the row of what the export changed; None if it computes eager's results, and for a
    quantised graph.

    Args:
        graph: The decomposed graph, with what torch.export returned as `source`.
        model: The nn.Module, if known.
        inputs: Its arguments, as they are nested.
        noise: The noise of the graph on these inputs, if it is measured.
    """
    import torch
    from torch.utils._pytree import tree_leaves

    if graph.source is None or any(map(is_quantizer, graph.nodes)):
        return None  # rounding ties of a quantised graph are no change
    with torch.no_grad(), kept_caches():
        flat = list(tree_leaves(tuple(inputs)))
        ends = _ends(graph, flat)
        whole = ReferenceGraph(graph.source)
        if len(whole.outputs) != len(graph.outputs):
            return None  # a model that changes inputs: their new values are outputs of one graph
        try:
            theirs = _ends(whole, flat)
        except NotImplementedError:
            return None
        noise = noise or GraphNoise(graph, graph.arguments(flat), [])
        size = _difference(noise, ends, theirs)
        if size is not None:
            values = [list(_values(one, flat)) for one in (whole, graph)]
            return _row(_first(whole, *values), size)
        if isinstance(model, torch.nn.Module) and (eager := _eager(model, inputs)) is not None:
            size = _difference(noise, ends, eager)
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
    noise: GraphNoise, ours: Mapping[int, Array], theirs: Mapping[int, Array]
) -> ErrorMetrics | None:
    """Return the error of the first output beyond rounding noise; None if there is none."""
    pairs = [
        (i, ours[i], theirs[i])
        for i in ours
        if i in theirs and ours[i].shape == theirs[i].shape and theirs[i].dtype.kind in "fV"
    ]
    for i, mine, wanted in pairs:
        if not tolerance.outside(mine, wanted, tolerance.rounding(mine, wanted)):
            continue
        if count := noise.outside_of_output(i, wanted, mine):
            return measure_size(mine, wanted, mismatched=count)
    return None


def _values(
    graph: ReferenceGraph, inputs: Sequence[Any], wanted: Collection[Any] | None = None
) -> Iterator[_Value]:
    """Yield the results of all nodes, or of some, each a copy: operators may work in place. Weights
    that torchao has quantised, tensors of several parts, are none."""
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
        if wanted is not None and node not in wanted:
            continue
        value = known[node]
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(one, torch.Tensor) and not is_traceable_wrapper_subclass(one):
                yield _Value(node, as_array(one.detach().clone()))


def _ends(graph: ReferenceGraph, inputs: Sequence[Any]) -> dict[int, Array]:
    """Return the outputs of a graph that are tensors, by their numbers."""
    from torch.fx import Node

    places = {i: node for i, node in enumerate(graph.outputs) if isinstance(node, Node)}
    last = {one.node: one.array for one in _values(graph, inputs, set(places.values()))}
    return {i: last[node] for i, node in places.items() if node in last}


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
