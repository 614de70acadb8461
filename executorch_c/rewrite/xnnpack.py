"""Payloads of XNNPACK: a value is an output by its flags and its number among the arguments."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from executorch_c.rewrite.flat import Graph, Layout
from executorch_c.rewrite.outputs import CannotBeOutput, Outputs

LAYOUT = Layout(
    {
        "Graph": {
            "version": "string",
            "nodes": "[Node]",
            "values": "[Value]",
            "num_externs": "4",
            "input_ids": "[4]",
            "output_ids": "[4]",
            "constant_buffer": "[Buffer]",
            "mem_buffer_sizes": "[4]",
            "constant_data": "[ConstantData]",
        },
        "Value": {"value_type": "1", "value": "|Tensor|QuantizedTensor"},
        "QuantizedTensor": {
            "tensor": "Tensor",
            "quantization_type": "1",
            "quantization": "|PerChannel|PerTensor|PerToken|PerGroup",
        },
        "PerTensor": {"scale": "4", "zero_point": "4"},
        "Tensor": {
            "datatype": "2",
            "num_dims": "4",
            "dims": "[4]",
            "buffer": "4",
            "external_id": "4",
            "flags": "4",
            "id": "4",
            "dynamic_datatype": "2",
        },
    },
    "Graph",
    b"XH00",
)
INPUT, OUTPUT = 1, 2
INTERNAL = -1
"""Number among the arguments of a value that is none."""


def tensor(value: Graph) -> Graph:
    """Return the tensor of a value."""
    kind, fields = value["value"]
    result: Graph = fields["tensor"] if kind == "QuantizedTensor" else fields
    return result


def steps(payload: bytes, values: Sequence[int]) -> dict[int, tuple[float, int]]:
    """Return scale and zero point of the values that are quantised by tensor."""
    found = {}
    for value in LAYOUT.read(payload)["values"]:
        kind, fields = value["value"]
        number = tensor(value).get("id", 0)
        if number in values and kind == "QuantizedTensor" and "quantization" in fields:
            scheme, numbers = fields["quantization"]
            if scheme == "PerTensor":
                bits = struct.pack("<i", numbers.get("scale", 0))
                found[number] = (struct.unpack("<f", bits)[0], numbers.get("zero_point", 0))
    return found


def with_outputs(payload: bytes, outputs: Outputs) -> bytes:
    """Return the payload with these outputs."""
    dynamic = {v["id"] for v in outputs.inside["values"] if (v["dtype"] or "").startswith("qd")}
    for value in outputs.values:
        if value in dynamic:
            raise CannotBeOutput("XNNPACK computes its scales at run time", value)
    return LAYOUT.change(payload, lambda graph: _change(graph, outputs))


def _change(graph: Graph, outputs: Outputs) -> None:
    tensors = {one.get("id", 0): one for one in map(tensor, graph["values"])}
    if outputs.nodes is not None:
        graph["nodes"] = [n for i, n in enumerate(graph["nodes"]) if i in outputs.nodes]
        ends = OUTPUT if outputs.inputs is None else INPUT | OUTPUT
        for one in tensors.values():
            if one.get("flags", 0) & ends:
                one |= {"flags": one["flags"] & ~ends, "external_id": INTERNAL}
    for number, value in enumerate(outputs.inputs or ()):
        one = tensors[value]
        one |= {"flags": one.get("flags", 0) | INPUT, "external_id": number}
    arguments = [one for one in tensors.values() if one.get("flags", 0) & (INPUT | OUTPUT)]
    first = 1 + max((one.get("external_id", 0) for one in arguments), default=-1)
    for number, value in enumerate(outputs.values):
        one = tensors[value]
        one |= {"flags": one.get("flags", 0) | OUTPUT, "external_id": first + number}
    graph["num_externs"] = first + len(outputs.values)
    if outputs.inputs is not None:
        graph["input_ids"] = [*outputs.inputs]
    kept = [] if outputs.is_cut else graph.get("output_ids", [])
    graph["output_ids"] = [*kept, *outputs.values]
