"""Payloads of Vulkan: outputs are a list of values."""

from __future__ import annotations

from executorch_c.rewrite.flat import Graph, Layout
from executorch_c.rewrite.outputs import Outputs

LAYOUT = Layout(
    {
        "VkGraph": {
            "version": "string",
            "chain": "[OperatorCall]",
            "values": "[VkValue]",
            "input_ids": "[4]",
            "output_ids": "[4]",
            "constants": "[VkBytes]",
            "shaders": "[VkBytes]",
            "storage_type_override": "1",
            "memory_layout_override": "1",
        },
        "VkValue": {
            "value_type": "1",
            "value": "|Null|Int|Double|Bool|VkTensor|IntList|DoubleList|BoolList|ValueList"
            "|String|SymInt",
        },
        "VkTensor": {
            "datatype": "1",
            "dims": "[4]",
            "constant_id": "4",
            "mem_obj_id": "4",
            "storage_type": "1",
            "memory_layout": "1",
            "staging_datatype": "1",
        },
    },
    "VkGraph",
    b"VH00",
)
OWN_MEMORY = -1
"""Memory object of a tensor that shares its memory with no other."""


def with_outputs(payload: bytes, outputs: Outputs) -> bytes:
    """Return the payload with these outputs. Their memory is their own: the delegate copies outputs
    when the graph has run."""
    return LAYOUT.change(payload, lambda graph: _change(graph, outputs))


def _change(graph: Graph, outputs: Outputs) -> None:
    for value in outputs.values:
        graph["values"][value]["value"][1]["mem_obj_id"] = OWN_MEMORY
    for value in outputs.inputs or ():
        graph["values"][value]["value"][1]["mem_obj_id"] = OWN_MEMORY
    if outputs.inputs is not None:
        graph["input_ids"] = [*outputs.inputs]
    if outputs.nodes is not None:
        graph["chain"] = [one for i, one in enumerate(graph["chain"]) if outputs.is_kept(i)]
        graph["output_ids"] = []
    graph["output_ids"] = [*graph["output_ids"], *outputs.values]
