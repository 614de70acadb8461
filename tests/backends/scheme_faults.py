"""Faults of flows whose own runtime is not here: what a flow does to a quantised module.

A cell whose results differ is the flow's fault if eager has the same results after the change.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

ZERO_POINTS = "zero points of weights are dropped"
CONSTANTS = "constants are dequantised in int8, where 127 + 128 is -1"
ACTIVATIONS = "activations are not quantised"


@dataclass(frozen=True)
class Fault:
    sentence: str
    change: Callable[[Any], Any]
    """Returns the module, changed in place."""


def _drop_zero_points(module: Any) -> Any:
    """Set the zero points of torchao's weights to 0."""
    for layer in module.modules():
        zero_point = getattr(getattr(layer, "weight", None), "zero_point", None)
        if isinstance(zero_point, torch.Tensor):
            zero_point.zero_()
    return module


def _changed(change: Callable[[Any, Any], None], module: Any) -> Any:
    """Change each node of a graph module."""
    if isinstance(module, torch.fx.GraphModule):
        for node in module.graph.nodes:
            change(module, node)
        module.recompile()
    return module


def _wrap_constant(module: Any, node: Any) -> None:
    """Subtract the zero point of a constant number in int8."""
    if "dequantize_per_tensor" not in str(node.target) or node.args[0].op != "get_attr":
        return
    constant = getattr(module, node.args[0].target)
    exact = constant.to(torch.int32) - node.args[2]
    if constant.numel() == 1 and exact.item():
        wrapped = exact.to(torch.int8).item()
        node.update_arg(1, node.args[1] * wrapped / exact.item())


def _drop_activation(_: Any, node: Any) -> None:
    """Pass on an activation in place of one quantised with a scale of its own."""
    if str(node.target) == "quantized_decomposed.dequantize_per_tensor.tensor":
        node.replace_all_uses_with(node.args[0].args[0])


def _drop_activations(module: Any) -> Any:
    """Pass on activations in place of those that are quantised with scales of their own."""
    for layer in module.modules():
        weight = getattr(layer, "weight", None)
        if getattr(weight, "activation_quantization", None):
            weight.activation_quantization = None
    return _changed(_drop_activation, module)


FAULTS = {
    "vulkan": (
        Fault(ZERO_POINTS, _drop_zero_points),
        Fault(ACTIVATIONS, _drop_activations),
    ),
    "coreml": (Fault(CONSTANTS, partial(_changed, _wrap_constant)),),
}
