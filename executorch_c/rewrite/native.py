"""Payloads of NativeBackend: outputs of the graph are names of tensors."""

from __future__ import annotations

from executorch_c.rewrite.flat import Graph, Layout
from executorch_c.rewrite.outputs import CannotBeOutput, Outputs, name_in

LAYOUT = Layout(
    {
        "Program": {"version": "string", "methods": "[Method]"},
        "Method": {
            "name": "string",
            "graph": "Graph",
            "constants": "[NamedTensorRef]",
            "output_specs": "[OutputSpec]",
            "mutable_buffers": "[MutableBufferSpec]",
        },
        "Graph": {
            "nodes": "[Node]",
            "inputs": "[string]",
            "outputs": "[string]",
            "tensor_values": "[TensorValue]",
        },
        "TensorValue": {"name": "string", "meta": "TensorMeta"},
        "OutputSpec": {"name": "string", "kind": "1", "target": "string"},
    },
    "Program",
)


def with_outputs(payload: bytes, outputs: Outputs) -> bytes:
    """Return the payload with these outputs."""
    return LAYOUT.change(payload, lambda program: _change(program, outputs))


def _change(program: Graph, outputs: Outputs) -> None:
    method = program["methods"][0]
    graph = method["graph"]
    known = {value["name"] for value in graph["tensor_values"]}
    overwritten = _overwritten(outputs)
    names = [name_in(outputs.inside, value) for value in outputs.values]
    for value, name in zip(outputs.values, names):
        if name not in known:
            raise CannotBeOutput("the graph has no name for it", value)
        if value in overwritten:
            raise CannotBeOutput("an operator in place overwrites it", value)
    if outputs.is_cut:
        graph["nodes"] = [one for i, one in enumerate(graph["nodes"]) if outputs.is_kept(i)]
        graph["outputs"], method["output_specs"] = [], []
    if outputs.inputs is not None:
        graph["inputs"] = [name_in(outputs.inside, value) for value in outputs.inputs]
    graph["outputs"] = [*graph["outputs"], *names]
    specs = method.get("output_specs", [])
    method["output_specs"] = [*specs, *({"name": name} for name in names)]


def _overwritten(outputs: Outputs) -> set[int]:
    """Return the values that operators in place (`aten.relu_.default`), of those that are kept,
    take."""
    rows = outputs.inside["nodes"]
    kept = range(len(rows)) if outputs.nodes is None else outputs.nodes
    names = {number: (rows[number]["name"] or "").split(".") for number in kept}
    in_place = [number for number, parts in names.items() if parts[1:2] and parts[1][-1:] == "_"]
    return {value for number in in_place for value in rows[number]["inputs"][:1]}
