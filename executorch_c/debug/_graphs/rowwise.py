"""Quantised layers as XnnpackBackend computes them: by row, and with scales of bfloat16.

A graph of PT2E finds one scale for a tensor (`quantized_decomposed.choose_qparams.tensor`);
XNNPACK finds one for each row of a linear layer and for each image of a convolution, which is
closer to the float model. The scales of groups of weights are float32 in the graph, and bfloat16
in XNNPACK's payloads. The reference of a delegated program does the same here, so that a difference
is a fault again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from executorch_c.debug._graphs.names import base, dequantizes, operator_of

if TYPE_CHECKING:
    from torch.fx import Node

    from executorch_c.debug._graphs.reference import ReferenceGraph

DYNAMIC = "QD8"
"""XNNPACK's name of a dynamically quantised input, in the names of its operators."""


BY_GROUP, BY_CHANNEL = "QB4W", "QC4W"
"""XNNPACK's names of weights of 4 bits with scales of groups, and of channels, likewise."""
FOUR_BITS = 7
"""Largest integer of 4 bits."""
GROUPED = {"dequantize_affine": (2, 6), "dequantize_per_channel_group": (1, 4)}
"""Operators that dequantise groups: places of the scales and of the largest integer among their
arguments."""


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
        minima = x.amin(over, keepdim=True).clamp(max=0)
        maxima = x.amax(over, keepdim=True).clamp(min=0)
        inverse = torch.where(maxima == minima, 1.0, (high - low) / (maxima - minima))
        from_least, from_most = minima * inverse, maxima * inverse
        errors = (low + from_least) + (high + from_most)
        zero = torch.where(errors > 0, low - from_least, high - from_most)
        return 1 / inverse, _beside_ties(zero.clamp(low, high), high - low).round()

    return choose


def _quantize(x: Any, scale: Any, zero: Any, low: int, high: int, dtype: Any) -> Any:
    steps = x / scale
    return _beside_ties(steps, steps.abs()).round().add(zero).clamp(low, high).to(dtype)


def _beside_ties(steps: Any, most: Any) -> Any:
    """Return numbers of steps before they are rounded; under random rounding, on either side of a
    tie: a scale of run time is rounded itself, and moves all of them. `most` is the largest number
    of steps that they are computed from."""
    from executorch_c.noise.rounding import current

    mode = current()
    return steps if mode is None else mode.beside_ties(steps, most)


def _dequantize(x: Any, scale: Any, zero: Any, *_: Any) -> Any:
    return (x.to(scale.dtype) - zero) * scale


def _readers(node: Node) -> set[Node]:
    """Return the nodes that quantise or dequantise by the results of a `choose_qparams` node."""
    return {user for part in node.users for user in part.users}


def _reads_images(node: Node) -> bool:
    """Return True if a convolution reads a tensor that a `choose_qparams` node quantises."""
    dequantized = filter(dequantizes, _readers(node))
    return any(operator_of(user) == "convolution" for one in dequantized for user in one.users)


def as_xnnpack(reference: ReferenceGraph, operators: Sequence[str]) -> ReferenceGraph:
    """Return a reference that computes as the program's delegates do.

    Args:
        reference: The graph of a quantised model, or any other.
        operators: Names of the program's instructions and of the nodes in its delegates.
    """
    if any(BY_GROUP in name for name in operators):
        both = any(BY_CHANNEL in name for name in operators)
        reference = _with_short_scales(reference, least=2 if both else 1)
    return quantized_by_row(reference, operators)


def _with_short_scales(reference: ReferenceGraph, least: int) -> ReferenceGraph:
    """Return a reference in which the scales of weights of 4 bits are rounded to bfloat16, where a
    row has at least a number of groups."""
    import torch

    module = torch.fx.GraphModule(reference.module, copy.deepcopy(reference.module.graph))
    for node in module.graph.nodes:
        places = GROUPED.get(operator_of(node) or "")
        if places is None or node.kwargs or node.args[places[1]] > FOUR_BITS:
            continue
        if node.args[0].op in ("placeholder", "get_attr"):
            node.target = _RowOperator(
                node.target, _dequantize_groups(node.target, places[0], least)
            )
    return replace(reference, flat=module)


def _dequantize_groups(target: Any, place: int, least: int) -> Callable[..., Any]:
    """Return an operator that dequantises; scales of `least` groups in a row are bfloat16."""

    def compute(weight: Any, *rest: Any) -> Any:
        import torch

        scales = rest[place - 1]
        if scales.numel() >= least * weight.shape[0]:
            short = scales.to(torch.bfloat16).to(scales.dtype)
            rest = (*rest[: place - 1], short, *rest[place:])
        return target(weight, *rest)

    return compute


def quantized_by_row(reference: ReferenceGraph, operators: Sequence[str]) -> ReferenceGraph:
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
