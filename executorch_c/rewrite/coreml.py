"""Payloads of Core ML: outputs are names, in the model's program, its description and in
metadata.json."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from executorch_c.rewrite.outputs import CannotBeOutput, Outputs, name_in
from executorch_c.rewrite.protobuf import Message, varint

# Numbers of fields.
DESCRIPTION, ML_PROGRAM = 2, 502
DESCRIPTION_INPUT, FUNCTION_INPUT, FUNCTION_INPUTS = 1, 2, 1
DESCRIPTION_OUTPUT, DESCRIPTION_FUNCTIONS, FUNCTION_NAME, FUNCTION_OUTPUT = 10, 20, 1, 3
FUNCTIONS, KEY, VALUE, BLOCKS = 2, 1, 2, 3
BLOCK_OUTPUTS, OPERATIONS, OPERATION_INPUTS, OPERATION_OUTPUTS = 2, 3, 2, 3
NAME, TYPE, TENSOR_TYPE, DTYPE, DIMENSIONS, CONSTANT, SIZE = 1, 2, 1, 1, 3, 1, 1
ARGUMENTS, FEATURE_TYPE, MULTI_ARRAY, SHAPE, DATA_TYPE = 1, 3, 5, 1, 2

FEATURES = {10: 65552, 11: 65568, 23: 131104}
"""Types of the model's outputs, by types of its program: float16, float32, int32."""
ALIGNMENT = 256


def with_outputs(payload: bytes, outputs: Outputs) -> bytes:
    """Return the payload with these outputs. A cut leaves operations that nothing reads to the
    compiler of the device, which removes them."""
    new = _names(outputs, outputs.values)
    inputs = None if outputs.inputs is None else _names(outputs, outputs.inputs)
    files = _Directory(payload)
    metadata = json.loads(files.read("metadata.json"))
    model = Message.parse(files.read("model.mlmodel"))
    functions = _functions(model, metadata)
    for name, lists in functions.items():
        _change(model, name, new, inputs, outputs.is_cut)
        if inputs is not None:
            lists["inputNames"] = [*inputs]
        kept = [] if outputs.is_cut else lists["outputNames"]
        lists["outputNames"] = [*kept, *new]
    return files.replaced(
        {"metadata.json": json.dumps(metadata).encode(), "model.mlmodel": model.pack()}
    )


def _names(outputs: Outputs, values: Sequence[int]) -> dict[str, int]:
    """Return values by their names in the payload."""
    return {name_in(outputs.inside, value): value for value in values}


def _functions(model: Message, metadata: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the lists of arguments of the model's only function."""
    methods = metadata.get("methods")
    if not methods:
        program = model.first(ML_PROGRAM)
        assert program is not None
        return {next(program.messages(FUNCTIONS)).texts(KEY)[0]: metadata}
    if len(methods) > 1:
        raise CannotBeOutput("several methods share the Core ML model")
    return dict(methods)


def _change(
    model: Message,
    function: str,
    names: dict[str, int],
    inputs: dict[str, int] | None,
    is_cut: bool,
) -> None:
    program = model.first(ML_PROGRAM)
    assert program is not None
    entries = [e for e in program.messages(FUNCTIONS) if e.texts(KEY) == [function]]
    body, block = entries[0].first(VALUE), entries[0].first(VALUE, BLOCKS, VALUE)
    assert body is not None and block is not None
    results = [o for one in block.messages(OPERATIONS) for o in one.messages(OPERATION_OUTPUTS)]
    values = {v.texts(NAME)[0]: v for v in [*body.messages(FUNCTION_INPUTS), *results]}
    types = {name: value.first(TYPE, TENSOR_TYPE) for name, value in values.items()}
    old = [] if is_cut else block.texts(BLOCK_OUTPUTS)
    block.replace(BLOCK_OUTPUTS, [name.encode() for name in [*old, *names]])
    if is_cut:
        _remove_unread(block, names, inputs or ())
    features = [_feature(name, types.get(name), value) for name, value in names.items()]
    description = model.first(DESCRIPTION)
    assert description is not None
    owners = list(description.messages(DESCRIPTION_FUNCTIONS))
    owner = next((f for f in owners if f.texts(FUNCTION_NAME) == [function]), description)
    number = DESCRIPTION_OUTPUT if owner is description else FUNCTION_OUTPUT
    owner.replace(number, [*([] if is_cut else owner.messages(number)), *features])
    if inputs is not None:
        body.replace(FUNCTION_INPUTS, [values[name] for name in inputs])
        number = DESCRIPTION_INPUT if owner is description else FUNCTION_INPUT
        given = [_feature(name, types.get(name), value) for name, value in inputs.items()]
        owner.replace(number, given)


def _remove_unread(block: Message, names: Iterable[str], inputs: Iterable[str]) -> None:
    """Remove the operations that no output depends on other than by way of inputs; those that write
    state stay."""
    wanted, ends, kept = set(names), set(inputs), []
    for operation in reversed(list(block.messages(OPERATIONS))):
        results = {output.texts(NAME)[0] for output in operation.messages(OPERATION_OUTPUTS)}
        if results and wanted.isdisjoint(results):
            continue
        kept.append(operation)
        for entry in operation.messages(OPERATION_INPUTS):
            argument = entry.first(VALUE)
            for binding in argument.messages(ARGUMENTS) if argument is not None else ():
                wanted |= set(binding.texts(NAME)) - ends
    block.replace(OPERATIONS, kept[::-1])


def _feature(name: str, tensor: Message | None, value: int) -> Message:
    """Return the description of an output."""
    dtype = tensor.numbers(DTYPE)[0] if tensor is not None else 0
    if tensor is None or dtype not in FEATURES:
        raise CannotBeOutput("Core ML has no outputs of its dtype", value)
    sizes = []
    for dimension in tensor.messages(DIMENSIONS):
        constant = dimension.first(CONSTANT)
        sizes += constant.numbers(SIZE) if constant is not None else [-1]
    array = Message()
    if -1 not in sizes:
        array.replace(SHAPE, [b"".join(map(varint, sizes))])
    array.replace(DATA_TYPE, [FEATURES[dtype]])
    kind, feature = Message(), Message()
    kind.replace(MULTI_ARRAY, [array])
    feature.replace(NAME, [name.encode()])
    feature.replace(FEATURE_TYPE, [kind])
    return feature


class _Directory:
    """Files with an index, JSON that is written backwards from the end."""

    def __init__(self, payload: bytes) -> None:
        text = payload[::-1].decode("latin1")
        self.index, _ = json.JSONDecoder().raw_decode(text)
        self.payload = payload

    def read(self, name: str) -> bytes:
        region = next(n for n in self.index["nodes"] if n["name"] == name)["dataRegion"]
        return self.payload[region["offset"] : region["offset"] + region["size"]]

    def replaced(self, files: dict[str, bytes]) -> bytes:
        """Return a payload with other contents of some files."""
        body = bytearray()
        for node in self.index["nodes"]:
            region = node["dataRegion"]
            if not region["size"]:
                continue
            start = region["offset"]
            data = files.get(node["name"], self.payload[start : start + region["size"]])
            body += bytes(-len(body) % ALIGNMENT)
            node["dataRegion"] = {"offset": len(body), "size": len(data)}
            body += data
        return bytes(body) + json.dumps(self.index)[::-1].encode()
