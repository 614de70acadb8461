"""Whether a PyTorch model is quantised, and its graph without the rounding of activations."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from executorch_c.debug._graphs.names import is_quantizer, node_before_rounding

INTEGERS = ("torch.int8", "torch.uint8")
"""Dtypes of quantised weights that a module holds itself."""
UNWRAPPED = "UnwrapTensorSubclass"
"""torchao's class of the parts of a tensor after `unwrap_tensor_subclass`."""


def _graphs(model: Any) -> Iterator[Any]:
    """Yield the torch.fx graphs of a GraphModule or ExportedProgram, those of branches as well."""
    module = getattr(model, "graph_module", model)
    for one in module.modules():
        if hasattr(one, "graph") and hasattr(one.graph, "nodes"):
            yield one.graph


def is_quantized_graph(model: Any) -> bool:
    """Return True if a GraphModule or ExportedProgram quantises or dequantises values."""
    return any(is_quantizer(node) for graph in _graphs(model) for node in graph.nodes)


def is_quantized_model(model: Any) -> bool:
    """Return True for a model with quantised weights or activations: a graph with operators that
    quantise, tensors of torchao (also after `unwrap_tensor_subclass`), or weights in 8 bits."""
    if hasattr(model, "graph_module") or not hasattr(model, "modules"):
        return hasattr(model, "graph_module") and is_quantized_graph(model)
    tensors = [*model.parameters(), *model.buffers()]
    if any(type(t).__module__.startswith("torchao.") or hasattr(t, "qdata") for t in tensors):
        return True
    if any(type(module).__name__ == UNWRAPPED for module in model.modules()):
        return True
    if any(str(t.dtype) in INTEGERS and t.ndim > 1 for t in tensors):
        return True
    return is_quantized_graph(model)


def without_rounding(model: Any) -> Any:
    """Return a copy of a GraphModule in which dequantising returns the number that was quantised:
    what the graph computes where activations stay floats. Quantised weights stay."""
    plain = copy.deepcopy(model)
    for graph in _graphs(plain):
        for node in list(graph.nodes):
            if (before := node_before_rounding(node)) is not None:
                node.replace_all_uses_with(before)
        graph.eliminate_dead_code()
    plain.recompile()
    return plain
