"""Faults of flows whose own runtime is not here: what a flow does to a quantised module.

A cell whose results differ is the flow's fault if eager has the same results after the change.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from executorch.exir._serialize._program import deserialize_pte_binary
from executorch.exir.delegate import executorch_call_delegate

from tests.backends.hostile_vulkan import VULKAN
from tests.backends.payloads import Graph

ZERO_POINTS = "zero points of weights are dropped"
CONSTANTS = "constants are dequantised in int8, where 127 + 128 is -1"
TRUNCATED = "zero points that are not integers are truncated"
ACTIVATIONS = "activations are not quantised"
LACKS = "the payload lacks an argument of its call"
OTHER_INTEGERS = "the payload passes other integers to an operator of signed bytes"
BIAS = "the payload passes a bias of integers without its scale"
INT8, INT32, FLOAT32 = 2, 3, 5
"""Datatypes of Vulkan's payloads."""


@dataclass(frozen=True)
class Fault:
    sentence: str
    change: Callable[[Any, bytes], Any]
    """Returns the module, changed in place; takes the program, too."""


def _drop_zero_points(module: Any, _: bytes) -> Any:
    """Set the zero points of torchao's weights to 0."""
    for layer in module.modules():
        zero_point = getattr(getattr(layer, "weight", None), "zero_point", None)
        if isinstance(zero_point, torch.Tensor):
            zero_point.zero_()
    return module


def _truncate_zero_points(module: Any, _: bytes) -> Any:
    """Truncate the zero points of PT2E's weights to integers."""
    for name, buffer in module.named_buffers():
        if name.startswith("_zero_point") and buffer.is_floating_point():
            buffer.trunc_()
    return module


def _changed(change: Callable[[Any, Any], None], module: Any, _: bytes = b"") -> Any:
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


def _graphs(payloads: Iterable[bytes]) -> Iterator[Graph]:
    """Yield the graphs of Vulkan's payloads."""
    return (VULKAN.read(payload)[0] for payload in payloads)


def _numbers(pte: bytes) -> set[float]:
    """Return the floating-point arguments in the payloads of a program of Vulkan."""
    delegates = deserialize_pte_binary(pte).program.backend_delegate_data
    values = [
        value["value"] for g in _graphs(one.data for one in delegates) for value in g["values"]
    ]
    words = [fields["double_val"] for kind, fields in values if kind == "Double" and fields]
    return {struct.unpack("<d", struct.pack("<q", word))[0] for word in words}


def _drop_activations(module: Any, pte: bytes) -> Any:
    """Pass on activations in place of those whose scales are computed, or not in the payloads."""
    for layer in module.modules():
        weight = getattr(layer, "weight", None)
        if getattr(weight, "activation_quantization", None):
            weight.activation_quantization = None
    if not isinstance(module, torch.fx.GraphModule):
        return module
    kept = _numbers(pte)

    def drop(_: Any, node: Any) -> None:
        if not str(node.target).startswith("quantized_decomposed.dequantize_per_tensor"):
            return
        scale, source = node.args[1], node.args[0]
        if source.op == "call_function" and not (isinstance(scale, float) and scale in kept):
            node.replace_all_uses_with(source.args[0])

    return _changed(drop, module)


def in_payloads(program: Any) -> str:
    """Return the fault of a payload of Vulkan in a sentence, nothing without one: fewer inputs than
    the arguments of its call (its own runtime would take an input for the output), or integers that
    an operator of signed bytes is not for."""
    module = program.exported_program().graph_module
    for call in module.graph.find_nodes(op="call_function", target=executorch_call_delegate):
        [graph] = _graphs([getattr(module, call.args[0].target).processed_bytes])
        if len(graph["input_ids"]) < len(call.args) - 1:
            return LACKS
        for node in graph["chain"]:
            values = [graph["values"][i]["value"] for i in node["args"]]
            types = [fields["datatype"] for kind, fields in values if kind == "VkTensor"]
            if "q8ta" in node["name"] and types[0] not in (INT8, FLOAT32):
                return OTHER_INTEGERS
            if "q8ta" in node["name"] and types.count(INT32) > 1:  # one has the sums of weights
                return BIAS
    return ""


FAULTS = {
    "vulkan": (
        Fault(ZERO_POINTS, _drop_zero_points),
        Fault(TRUNCATED, _truncate_zero_points),
        Fault(ACTIVATIONS, _drop_activations),
    ),
    "coreml": (
        Fault(CONSTANTS, partial(_changed, _wrap_constant)),
        Fault(TRUNCATED, _truncate_zero_points),
    ),
}
