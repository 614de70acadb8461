"""Payloads of MLX: outputs are a list of tensors. Tensors are registers, which several nodes write:
a copy keeps the value of one."""

from __future__ import annotations

import re

from executorch_c.rewrite.flat import Graph, Layout
from executorch_c.rewrite.outputs import CannotBeOutput, Outputs

LAYOUT = Layout(
    {
        "MLXGraph": {
            "version": "string",
            "num_constant_tensors": "4",
            "num_input_tensors": "4",
            "num_output_tensors": "4",
            "num_mutable_buffer_tensors": "4",
            "num_temp_tensors": "4",
            "num_values": "4",
            "instruction_chains": "[InstructionChain]",
            "main_chain_idx": "4",
            "init_chain_idx": "4",
            "input_map": "[SlotVariant]",
            "output_map": "[SlotVariant]",
            "mutable_buffer_map": "[SlotVariant]",
            "named_slots": "[NamedSlot]",
            "tensor_meta": "[TensorMeta]",
        },
        "InstructionChain": {"instructions": "[Instruction]"},
        "SlotVariant": {"idx": "4", "slot_type": "1"},
    },
    "MLXGraph",
    b"MLX0",
    {"Instruction": {"op_type": "1", "op": "Copy"}, "Copy": {"x": "4", "out": "4"}},
)
COPY = 2
"""Number of IdCopyNode in the union of nodes."""
COUNTS = ("constant", "input", "output", "mutable_buffer", "temp")
"""Kinds of tensors, in the order of their numbers."""
REGISTER = re.compile(r"\btensor (\d+)$")
"""In the note on a value: its register."""


def with_outputs(payload: bytes, outputs: Outputs) -> bytes:
    """Return the payload with these outputs."""
    return LAYOUT.change(payload, lambda graph: _change(graph, outputs))


def _registers(outputs: Outputs) -> dict[int, int]:
    """Return the registers of values."""
    found = {v["id"]: REGISTER.search(v["note"] or "") for v in outputs.inside["values"]}
    return {value: int(match[1]) for value, match in found.items() if match}


def _change(graph: Graph, outputs: Outputs) -> None:
    chain = graph["instruction_chains"][graph.get("main_chain_idx", 0)]
    rows, code = outputs.inside["nodes"], dict(enumerate(chain["instructions"]))
    writers = {value: row["debug_handle"] for row in rows for value in row["outputs"]}
    choices = {value for row in rows if row["name"] in ("If", "Scan") for value in row["outputs"]}
    registers = _registers(outputs)
    if outputs.is_cut:
        end = outputs.end()
        code = {place: one for place, one in code.items() if place < end}
        graph["output_map"] = []
    copies: dict[int | None, list[Graph]] = {}
    for value in outputs.values:
        place = writers.get(value)
        if value not in registers or place not in code:
            raise CannotBeOutput("MLX computes it when it loads the program", value)
        if value in choices:
            raise CannotBeOutput("it is the result of a choice or loop", value)
        fresh = sum(graph.get(f"num_{kind}_tensors", 0) for kind in COUNTS)
        graph["num_temp_tensors"] = graph.get("num_temp_tensors", 0) + 1
        copy = {"op_type": COPY, "op": {"x": registers[value], "out": fresh}}
        copies.setdefault(place, []).append(copy)
        graph["output_map"].append({"idx": fresh, "slot_type": 0})
    chain["instructions"] = [one for place in code for one in (code[place], *copies.get(place, ()))]
