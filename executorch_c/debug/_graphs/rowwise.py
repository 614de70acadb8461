"""Dynamic quantisation by row, as XnnpackBackend computes it.

A graph of PT2E finds one scale for a tensor (`quantized_decomposed.choose_qparams.tensor`);
XNNPACK finds one for each row of a linear layer and for each image of a convolution, which is
closer to the float model. The reference of a delegated program does the same here, so that a
difference is a fault again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from executorch_c.debug._graphs.names import base, dequantizes, operator_of

if TYPE_CHECKING:
    from executorch_c.debug._graphs.reference import Reference
    from torch.fx import Node

DYNAMIC = "QD8"
"""XNNPACK's name of a dynamically quantised input, in the names of its operators."""


class _RowOperator:
    """An operator of the graph, computed in another way under the same schema."""

    def __init__(self, target: Any, compute: Callable[..., Any]) -> None:
        self._schema, self._op = target._schema, getattr(target, "_op", target)
        self.__name__, self._compute = str(target), compute

    def __call__(self, *args: Any) -> Any:
        return self._compute(*args)


def _choose_qparams(axes: int) -> Callable[..., Any]:
    """Return `choose_qparams` by index of the first `axes` axes (negative: counted from the last).

    The zero point is the one of the two ends' with the smaller error, clamped and rounded, and
    the range includes 0 (XNNPACK, `xnn_f32_qd8_asymmetric_quantization_params`).
    """

    def choose(x: Any, low: int, high: int, *_: Any) -> tuple[Any, Any]:
        import torch

        over = list(range(axes % x.ndim, x.ndim))
        least = x.amin(over, keepdim=True).clamp(max=0)
        most = x.amax(over, keepdim=True).clamp(min=0)
        inverse = torch.where(most == least, 1.0, (high - low) / (most - least))
        from_least, from_most = least * inverse, most * inverse
        errors = (low + from_least) + (high + from_most)
        zero = torch.where(errors > 0, low - from_least, high - from_most)
        return 1 / inverse, zero.clamp(low, high).round()

    return choose


def _quantize(x: Any, scale: Any, zero: Any, low: int, high: int, dtype: Any) -> Any:
    return (x / scale).round().add(zero).clamp(low, high).to(dtype)


def _dequantize(x: Any, scale: Any, zero: Any, *_: Any) -> Any:
    return (x.to(scale.dtype) - zero) * scale


def _readers(node: Node) -> set[Node]:
    """Return the nodes that quantise or dequantise by the results of a `choose_qparams` node."""
    return {user for part in node.users for user in part.users}


def _reads_images(node: Node) -> bool:
    """Return True if a convolution reads a tensor that a `choose_qparams` node quantises."""
    dequantized = filter(dequantizes, _readers(node))
    return any(operator_of(user) == "convolution" for one in dequantized for user in one.users)


def quantized_by_row(reference: Reference, operators: Sequence[str]) -> Reference:
    """Return a reference that quantises by row if the program's delegates do.

    Args:
        reference: The graph of a dynamically quantised model, or any other.
        operators: Names of the program's instructions and of the nodes in its delegates.
    """
    import torch

    kernels = {base(name) for name in operators if "::" in name}
    if not any(DYNAMIC in name for name in operators) or "choose_qparams" in kernels:
        return reference  # kernels quantise by tensor
    graph = copy.deepcopy(reference.module.graph)
    module = torch.fx.GraphModule(reference.module, graph)
    for node in graph.nodes:
        if operator_of(node) == "choose_qparams":
            axes = 1 if _reads_images(node) else -1
            node.target = _RowOperator(node.target, _choose_qparams(axes))
            for reader in _readers(node):
                compute = _dequantize if dequantizes(reader) else _quantize
                reader.target = _RowOperator(reader.target, compute)
    return replace(reference, flat=module)
