"""Payloads of TOSABackend: outputs of the graph's block are names of tensors."""

from __future__ import annotations

from executorch_c.rewrite.flat import Graph, Layout
from executorch_c.rewrite.outputs import Outputs, name_in

LAYOUT = Layout(
    {
        "TosaGraph": {
            "version": "Version",
            "regions": "[TosaRegion]",
            "software_version": "SoftwareVersion",
        },
        "TosaRegion": {"name": "string", "blocks": "[TosaBasicBlock]"},
        "TosaBasicBlock": {
            "name": "string",
            "operators": "[TosaOperator]",
            "tensors": "[TosaTensor]",
            "inputs": "[string]",
            "outputs": "[string]",
            "shapes": "[TosaShape]",
        },
        "TosaOperator": {
            "op": "4",
            "attribute_type": "1",
            "attribute": "Attribute",
            "inputs": "[string]",
            "outputs": "[string]",
            "location": "OpLocation",
        },
    },
    "TosaGraph",
)


def with_outputs(payload: bytes, outputs: Outputs) -> bytes:
    """Return the payload with these outputs."""
    return LAYOUT.change(payload, lambda graph: _change(graph, outputs))


def _change(graph: Graph, outputs: Outputs) -> None:
    block = graph["regions"][0]["blocks"][0]
    new = [name_in(outputs.inside, value) for value in outputs.values]
    kept = [] if outputs.is_cut else block["outputs"]
    inputs = [name_in(outputs.inside, value) for value in outputs.inputs or ()]
    if outputs.inputs is not None:
        block["inputs"] = inputs
    if outputs.is_cut:
        block["operators"] = _needed(block["operators"], new, inputs)
    block["outputs"] = [*kept, *new]


def _needed(operators: list[Graph], names: list[str], inputs: list[str]) -> list[Graph]:
    """Return the operators that some tensors depend on, other than by way of inputs."""
    wanted, kept = set(names), []
    for operator in reversed(operators):
        if not wanted.isdisjoint(operator.get("outputs", ())):
            wanted |= set(operator.get("inputs", ())) - set(inputs)
            kept.append(operator)
    return kept[::-1]
