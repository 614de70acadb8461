"""Payloads of VgfBackend: a container of a SPIR-V graph, its bindings, and its resources."""

from __future__ import annotations

import struct
from typing import Any

from executorch_c import _flatbuffers
from executorch_c.rewrite.outputs import CannotBeOutput, Outputs
from executorch_c.rewrite.spirv import Module, Value

TABLES: _flatbuffers.Tables = {
    "Modules": {"modules": "[Module]"},
    "Module": {
        "type": "1",
        "name": "string",
        "entry_point": "string",
        "code_type": "1",
        "code": "|Spirv",
    },
    "Spirv": {"words": "[4]"},
    "Sequence": {
        "segments": "[Segment]",
        "inputs": "[Slot]",
        "outputs": "[Slot]",
        "input_names": "[string]",
        "output_names": "[string]",
    },
    "Segment": {
        "type": "1",
        "name": "string",
        "module_index": "4",
        "set_infos": "[Set]",
        "inputs": "[Slot]",
        "outputs": "[Slot]",
        "constants": "[4]",
        "dispatch_shape": "[4]",
        "push_constant_ranges": "[PushConstants]",
        "graph_constants": "[GraphConstant]",
    },
    "Slot": {"binding": "4", "mrt_index": "4"},
    "Set": {"slots": "[Slot]"},
    "Resources": {"entries": "[Entry]"},
    "Entry": {
        "vk_descriptor_type": "4",
        "vk_format": "4",
        "category": "1",
        "description": "Description",
    },
    "Description": {"shape": "[8]", "strides": "[8]"},
}
"""Tables of a container (0.5) in the order of its sections, but for what stays as it is."""
ROOTS = ("Modules", "Sequence", "Resources")
SECTIONS_AT, HEADER, ALIGNMENT = 16, 128, 16
"""Place of the offsets and sizes of four sections, end of the header, alignment of sections."""
ROWS_AT, ROW = 16, 24
"""Place of the rows in the section of constants, each of which begins with its resource."""
TENSOR = 1000460000
"""VK_DESCRIPTOR_TYPE_TENSOR_ARM."""
INPUT, OUTPUT, CONSTANT = 0, 1, 3
"""Categories of resources."""
FORMATS = {
    "qint8": 14,
    "int8": 14,
    "int16": 75,
    "fp16": 76,
    "int32": 99,
    "fp32": 100,
    "int64": 111,
    "bool": TENSOR,
}
"""VkFormat by dtype: VK_FORMAT_R8_SINT, R16_SINT, R16_SFLOAT, R32_SINT, R32_SFLOAT, R64_SINT,
R8_BOOL_ARM."""


class Container:
    """The sections of a payload."""

    def __init__(self, payload: bytes) -> None:
        self.header = payload[:HEADER]
        places = struct.unpack_from("<8Q", payload, SECTIONS_AT)
        self.sections = [payload[at : at + size] for at, size in zip(places[::2], places[1::2])]
        self.tables = [
            _flatbuffers.read(section, TABLES, root, is_complete=True)
            for root, section in zip(ROOTS, self.sections)
        ]
        self.sequence, self.resources = self.tables[1:]
        (self.segment,) = self.sequence["segments"]
        module = self.tables[0]["modules"][self.segment.get("module_index", 0)]
        self.code: dict[str, Any] = module["code"][1]

    def write(self) -> bytes:
        """Return the payload."""
        parts = [
            _flatbuffers.write(table, TABLES, root, "payloads", kept=section)
            for table, root, section in zip(self.tables, ROOTS, self.sections)
        ]
        body, places = bytearray(), []
        for part in (*parts, self.sections[-1]):
            body += bytes(-len(body) % ALIGNMENT)
            places += [HEADER + len(body), len(part)]
            body += part
        header = bytearray(self.header)
        struct.pack_into("<8Q", header, SECTIONS_AT, *places)
        return bytes(header + body)

    def set_interface(self, inputs: list[dict[str, Any]], outputs: list[dict[str, Any]]) -> None:
        """Bind other resources than constants, by their rows: bindings of set 0, inputs first."""
        entries = self.resources["entries"]
        kept = [i for i, one in enumerate(entries) if one.get("category", 0) == CONSTANT]
        self._move_constants({old: new for new, old in enumerate(kept)})
        new = [one | {"category": INPUT} for one in inputs]
        new += [one | {"category": OUTPUT} for one in outputs]
        self.resources["entries"] = [*(entries[i] for i in kept), *new]
        slots = [{"binding": i, "mrt_index": len(kept) + i} for i in range(len(new))]
        bound = {"inputs": slots[: len(inputs)], "outputs": slots[len(inputs) :]}
        self.segment |= bound | {"set_infos": [{"slots": slots}]}
        self.sequence |= bound
        self.sequence["input_names"] = [f"input_{i}" for i in range(len(inputs))]
        self.sequence["output_names"] = [f"output_{i}" for i in range(len(outputs))]

    def _move_constants(self, places: dict[int, int]) -> None:
        """Give constants the new numbers of their resources."""
        section = bytearray(self.sections[-1])
        count = struct.unpack_from("<Q", section, 8)[0] if len(section) >= ROWS_AT else 0
        for at in range(ROWS_AT, ROWS_AT + ROW * count, ROW):
            struct.pack_into("<I", section, at, places[struct.unpack_from("<I", section, at)[0]])
        self.sections[-1] = bytes(section)


def _resource(outputs: Outputs, value: int) -> dict[str, Any]:
    row = next(row for row in outputs.inside["values"] if row["id"] == value)
    vk_format = FORMATS.get(row["dtype"] or "")
    if vk_format is None or row["shape"] is None:
        raise CannotBeOutput(f"a tensor of {row['dtype']} is no resource", value)
    return {
        "vk_descriptor_type": TENSOR,
        "vk_format": vk_format,
        "description": {"shape": [*row["shape"]], "strides": []},
    }


def with_outputs(payload: bytes, outputs: Outputs) -> bytes:
    """Return the payload with these outputs."""
    container = Container(payload)
    module = Module(container.code["words"])
    tensors = _tensors(module, outputs)
    numbers = {tensor.id: value for value, tensor in tensors.items()}
    new = [tensors[value] for value in outputs.values]
    before = module.inputs
    inputs = before if outputs.inputs is None else [tensors[value] for value in outputs.inputs]
    results = new if outputs.is_cut else [*module.outputs, *new]
    module.set_interface(inputs, results)
    if outputs.is_cut:
        module.keep_needed()
    container.set_interface(
        [_resource(outputs, numbers[one.id]) for one in inputs],
        [_resource(outputs, numbers[one.id]) for one in results],
    )
    container.code["words"] = module.words()
    return container.write()


def _tensors(module: Module, outputs: Outputs) -> dict[int, Value]:
    """Return the tensors of the graph by their numbers in the listing: nodes are operators in
    order, and the first arguments are the inputs."""
    found: dict[int, Value] = {}
    results = module.results
    for row in outputs.inside["nodes"]:
        at = row["debug_handle"]
        if at is not None and row["outputs"]:
            found[row["outputs"][0]] = results[at]
    for value in outputs.inside["values"]:
        at = value["argument"]
        if at is not None and at < len(module.inputs) and value["id"] not in found:
            found[value["id"]] = module.inputs[at]
    return found
