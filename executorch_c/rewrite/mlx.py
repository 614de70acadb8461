"""Payloads of MLX: outputs are a list of tensors. Tensors are registers, which several nodes write:
a copy keeps the value of one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from executorch_c._core import _scalar_types
from executorch_c.rewrite.flat import Graph, Layout
from executorch_c.rewrite.outputs import CannotBeOutput, Outputs

if TYPE_CHECKING:
    from executorch_c._types import InnerValue

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
    {
        "Instruction": {"op_type": "1", "op": "Copy"},
        "Copy": {"x": "4", "out": "4"},
        "TensorMeta": {"shape": "[ShapeDim]", "scalar_type": "1", "dim_order": "[1]"},
        "ShapeDim": {"value": "4"},
    },
)
DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}
"""Names of dtypes in listings, and here."""
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
        code = {place: one for place, one in code.items() if outputs.is_kept(place)}
        graph["output_map"] = []
    first = [] if outputs.inputs is None else _take_inputs(graph, outputs, registers)
    copies: dict[int | None, list[Graph]] = {}
    for value in outputs.values:
        place = writers.get(value)
        if value not in registers or place not in code:
            raise CannotBeOutput("MLX computes it when it loads the program", value)
        if value in choices:
            raise CannotBeOutput("it is the result of a choice or loop", value)
        fresh = _fresh(graph)
        copies.setdefault(place, []).append(_copy(registers[value], fresh))
        graph["output_map"].append({"idx": fresh, "slot_type": 0})
    rest = [one for place in code for one in (code[place], *copies.get(place, ()))]
    chain["instructions"] = [*first, *rest]


def _copy(source: int, target: int) -> Graph:
    return {"op_type": COPY, "op": {"x": source, "out": target}}


def _meta(row: InnerValue) -> Graph:
    """Return the description of an input."""
    dtype = DTYPES.get(row["dtype"] or "", row["dtype"] or "")
    if dtype not in _scalar_types() or row["shape"] is None:
        raise CannotBeOutput("its dtype is unknown", row["id"])
    sizes = [{"value": size} for size in row["shape"]]
    order = bytes(range(len(sizes)))
    return {"shape": sizes, "scalar_type": _scalar_types()[dtype], "dim_order": order}


def _fresh(graph: Graph) -> int:
    """Add a register; return it."""
    number: int = sum(graph.get(f"num_{kind}_tensors", 0) for kind in COUNTS)
    graph["num_temp_tensors"] = graph.get("num_temp_tensors", 0) + 1
    return number


def _take_inputs(graph: Graph, outputs: Outputs, registers: dict[int, int]) -> list[Graph]:
    """Let values be the graph's inputs, in order; return the copies that give them their values.

    The registers of inputs are the first ones after the constants: without mutable buffers, those
    after them, which nodes write, may be inputs as well.
    """
    assert outputs.inputs is not None
    arguments = {v["id"]: v["argument"] for v in outputs.inside["values"]}
    places = [registers.get(v, -1) for v in outputs.inputs]
    for i, value in enumerate(outputs.inputs):
        if places[i] < 0:
            argument = arguments[value]
            if argument is None:
                raise CannotBeOutput("MLX computes it when it loads the program", value)
            places[i] = graph["input_map"][argument]["idx"]
    passed = [_fresh(graph) for _ in places]
    count = graph.get("num_input_tensors", 0)
    if (more := len(places) - count) > 0:
        if graph.get("num_mutable_buffer_tensors", 0):
            raise CannotBeOutput("MLX's state is behind the registers of inputs")
        taken = min(more, graph.get("num_output_tensors", 0))
        graph["num_input_tensors"] = count + more
        graph["num_output_tensors"] = graph.get("num_output_tensors", 0) - taken
        graph["num_temp_tensors"] = graph.get("num_temp_tensors", 0) - (more - taken)
    begin = graph.get("num_constant_tensors", 0)
    graph["input_map"] = [{"idx": begin + i, "slot_type": 0} for i in range(len(places))]
    if meta := graph.get("tensor_meta"):
        rows = {v["id"]: v for v in outputs.inside["values"]}
        new = [_meta(rows[value]) for value in outputs.inputs]
        graph["tensor_meta"] = [*meta[:begin], *new, *meta[begin + len(new) :]]
    copies = [_copy(begin + i, one) for i, one in enumerate(passed)]
    return copies + [_copy(one, place) for one, place in zip(passed, places)]
