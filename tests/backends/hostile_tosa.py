"""Payloads of TOSABackend and VgfBackend with one wrong field each, as in hostile_vulkan.py."""

import re
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.backends.payloads import (
    BACKENDS,
    Change,
    Format,
    Graph,
    Row,
    filled,
    roomy,
    rows_of,
    schema,
)

NAN = float("nan")
HUGE = 1 << 30


def tosa_tables() -> dict[str, dict[str, str]]:
    """Each operator is a member of the union, with the fields of its attributes."""
    text = (BACKENDS / "tosa" / "operators.def").read_text()
    rows = re.findall(r"^ETS_\w+\((\d+), (\w+), (\w+)", text, re.M)
    members = {int(number): name for number, name, _ in rows}
    names = [members.get(i, f"_{i}") for i in range(1, max(members) + 1)]
    tables = schema("tosa", {"Attribute": names})
    return tables | {name: tables[attributes] for _, name, attributes in rows}


TOSA = Format(Path(__file__).parent / "tosa_programs", tosa_tables(), "TosaGraph", b"TOSA")


def block(graph: Graph) -> Graph:
    result: Graph = graph["regions"][0]["blocks"][0]
    return result


def node(graph: Graph, op: str) -> Graph:
    return next(o for o in block(graph)["operators"] if o.get("attribute", [""])[0] == op)


def attribute(op: str, **changes: Any) -> Change:
    return lambda graph: node(graph, op)["attribute"][1].update(changes)


def operands(op: str, **changes: Any) -> Change:
    """Replace the names of inputs or outputs; a function gets the list."""

    def change(graph: Graph) -> None:
        result = node(graph, op)
        for key, new in changes.items():
            result[key] = new(result[key]) if callable(new) else new

    return change


def exp(**changes: Any) -> Change:
    return lambda graph: node(graph, "EXP").update(changes)


def tensor(op: str, at: int, /, **changes: Any) -> Change:
    """Change input `at` of an operator, or its result: -1."""

    def change(graph: Graph) -> None:
        result = node(graph, op)
        name = result["outputs"][0] if at < 0 else result["inputs"][at]
        every = block(graph)["tensors"] + block(graph).get("shapes", [])
        next(t for t in every if t["name"] == name).update(changes)

    return change


def of_block(**changes: Any) -> Change:
    return lambda graph: block(graph).update(changes)


def numbers(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}q", *values)


OUT, MUL = "tosa_conv2d_default", "tosa_mul_default"
conv = partial(operands, "CONV2D")
NO_BLOCK = "its block does not exist, or belongs to another node"
RANKS = "input, weight, bias or result have another rank or"
LISTS = "a list of padding, stride or dilation has"
MLP_FP: list[Row] = [
    (attribute("CONV2D", stride=[0, 1]), LISTS),
    (attribute("CONV2D", stride=[1]), LISTS),
    (attribute("CONV2D", dilation=[HUGE, 1]), LISTS),
    (attribute("CONV2D", pad=[-1, 0, 0, 0]), LISTS),
    (attribute("CONV2D", pad=[(1 << 24) - 1, 0, 0, 0]), "the result has other sizes"),
    (tensor("CONV2D", 1, shape=[1 << 15] * 4), "the result has other sizes"),
    (tensor("CONV2D", 1, shape=[HUGE, HUGE, HUGE, HUGE]), "the result has other sizes"),
    (tensor("CONV2D", 1, shape=[32, 64]), RANKS),
    (tensor("CONV2D", 1, shape=[32, 1, 1, 64]), "argument 'weight': 64 input channels,"),
    (tensor("CONV2D", 1, type=4), RANKS),
    (tensor("CONV2D", 2, shape=[7]), "argument 'size': (64,) is not an expansion of"),
    (tensor("CONV2D", 2, shape=[]), RANKS),
    (tensor("CONV2D", -1, shape=[1, 1, 1, 1]), "argument 'size': (1,) is not an"),
    (tensor("CONV2D", -1, shape=[1] * 17), "17 dimensions"),
    (tensor("CONV2D", -1, shape=[-1, 1, 1, 64]), "dimension 0 of"),
    (tensor("CONV2D", -1, type=99), RANKS),
    (tensor("CONV2D", -1, is_unranked=1), "'tosa_conv2d_default' has no"),
    (tensor("CONV2D", 1, data=None), "no elements, or they are defined twice"),
    (tensor("CONV2D", 1, data=b"abc"), "the weight has too few bytes"),
    (tensor("CONV2D", 1, data=None, size=5000), "another file"),
    (tensor("RESHAPE", 1, data=numbers(4, 1, 1, 33)), "argument 'size': shape (4, 1,"),
    (tensor("RESHAPE", 1, data=numbers(1 << 62, 4, 1, 32)), "argument 'size': shape"),
    (tensor("RESHAPE", 1, data=numbers(-1, -1, 1, 32)), "argument 'size': more than"),
    (tensor("RESHAPE", 1, data=b"12"), "the shape has too few bytes"),
    (tensor("RESHAPE", 1, rank=17), "'tosa_const_shape_default' has"),
    (tensor("RESHAPE", 1, rank=-1), "'tosa_const_shape_default' has"),
    (attribute("REDUCE_MAX", axis=2), "aten::amax.out: dim 2 is out of range, expected"),
    (attribute("REDUCE_MAX", axis=-3), "aten::amax.out: dim -3 is out of range,"),
    (attribute("REDUCE_MAX", nan_mode=2), "nan_mode IGNORE is not supported"),
    (attribute("REDUCE_SUM", axis=1 << 30), "dim 1073741824 is out of range, expected"),
    (attribute("CLAMP", min_val=b""), "a bound has too few bytes"),
    (attribute("CLAMP", min_val=struct.pack("<f", NAN)), "min_val is not below max_val"),
    (conv(inputs=["x"]), "CONV2D 'tosa_conv2d_default' (operator 8) has"),
    (conv(inputs=[]), "CONV2D 'tosa_conv2d_default' (operator 8) has 0"),
    (conv(inputs=lambda names: [names[0]] * 5), RANKS),
    (conv(inputs=lambda n: [OUT, *n[1:]]), f"tensor '{OUT}' is read before a call computes it"),
    (conv(inputs=lambda n: [MUL, *n[1:]]), f"tensor '{MUL}' is read before a call computes it"),
    (conv(outputs=[]), "no result"),
    (conv(outputs=lambda n: n * 2), "the result is a constant, an input"),
    (conv(outputs=lambda n: n * 300), "too many results"),
    (conv(outputs=["x"]), RANKS),
    (conv(outputs=["p_a_bias"]), RANKS),
    (operands("SUB", inputs=lambda n: n[:1]), "SUB 'tosa_sub_default' (operator 16)"),
    (operands("SUB", inputs=lambda n: n * 2), "more inputs than the operator has"),
    (operands("CONST", outputs=["x"]), "no elements, or they are defined twice"),
    (of_block(inputs=["x", "x"]), "another input"),
    (of_block(inputs=["p_a_bias"]), "input 0 of the block is a constant or another"),
    (of_block(inputs=[]), "tensor 'x' is read before a call computes it"),
    (of_block(outputs=["tosa_mul_default"] * 2), "2 arguments, the payload has 1"),
    (of_block(outputs=["nothing"]), "'nothing' of the outputs of"),
    (of_block(outputs=["x"]), "shape (4, 32), but the program fixes it to (4, 12)"),
    (of_block(outputs=["tosa_const_shape_default"]), "_shape_default' is not a tensor"),
    (of_block(outputs=[]), "2 arguments, the payload has 1 inputs and 0 outputs"),
    (lambda g: block(g)["operators"].reverse(), "tensor 'tosa_exp_default' is"),
    (
        lambda g: block(g)["tensors"].append(dict(block(g)["tensors"][0])),
        "two tensors or shapes have the",
    ),
    (
        lambda g: block(g)["operators"].append(block(g)["operators"][-1]),
        "the result is a constant, an input or another result,",
    ),
    (lambda g: g["regions"].clear(), "payload: the graph has no"),
    (lambda g: g["regions"][0]["blocks"].append(block(g)), "region 'main' has 2 blocks,"),
    (lambda g: g["version"].update(major=7), "payload: TOSA version 7.0,"),
    (exp(op=250), "operator 17 has the number"),
    (exp(op=-1), "operator 17 has the number"),
    (exp(op=36), "attributes of"),
    (exp(op=69, attribute=["CUSTOM", {}]), "not supported"),
    (exp(op=70, attribute=["COND_IF", {"then_graph": "main", "else_graph": "main"}]), NO_BLOCK),
    (exp(op=71, attribute=["WHILE_LOOP", {"cond_graph": "main", "body_graph": "main"}]), NO_BLOCK),
    (exp(op=70, attribute=["COND_IF", {}]), NO_BLOCK),
]
CNN_INT8: list[Row] = [
    (attribute("CONV2D", stride=[0, 1]), "'stride' has the item 0, expected 1 to"),
    (attribute("CONV2D", stride=[1]), "tosa::conv2d.out: 'stride' has 1 items,"),
    (attribute("CONV2D", dilation=[1, 0]), "'dilation' has the item 0, expected 1 to"),
    (attribute("CONV2D", dilation=[HUGE, HUGE]), "'dilation' has the item"),
    (attribute("CONV2D", pad=[-1] * 4), "'pad' has the item -1, expected 0 to"),
    (attribute("CONV2D", pad=[HUGE * 2 - 1] * 4), "'pad' has the item 2147483647,"),
    (tensor("CONV2D", 1, shape=[8, 3, 3, 4]), "a constant has fewer bytes than its"),
    (tensor("CONV2D", 1, shape=[8, 3, 27]), "a constant has fewer bytes than its"),
    (tensor("CONV2D", 1, shape=[0, 3, 3, 3]), "tosa::conv2d.out: an input of a"),
    (tensor("CONV2D", 1, type=5), "a constant has fewer bytes than its elements need"),
    (tensor("CONV2D", 2, shape=[5]), "tosa::conv2d.out: 'bias' has 5 elements,"),
    (tensor("CONV2D", 3, type=6, data=bytes(4)), "a constant has fewer bytes than"),
    (tensor("CONV2D", 3, shape=[2], data=bytes(2)), "tosa::conv2d.out: 'zero point'"),
    (tensor("CONV2D", -1, type=4), "tosa::conv2d.out: 'out' has dtype 2, expected 3"),
    (attribute("MAX_POOL2D", kernel=[0, 2]), "'kernel' has the item 0, expected 1 to"),
    (attribute("MAX_POOL2D", kernel=[2]), "tosa::max_pool2d.out: 'kernel' has 1"),
    (attribute("MAX_POOL2D", stride=[0, 0]), "'stride' has the item 0, expected 1 to"),
    (attribute("MAX_POOL2D", pad=[-1] * 4), "'pad' has the item -1, expected 0 to"),
    (attribute("MAX_POOL2D", pad=[2, 2, 2, 2]), "a kernel of 2 and a padding of 2"),
    (attribute("TRANSPOSE", perms=[0, 2, 3, 3]), "argument 'dims': dimension 3"),
    (attribute("TRANSPOSE", perms=[0, 2, 3, 4]), "dim 4 is out of range, expected"),
    (attribute("TRANSPOSE", perms=[0, -1, 3, 1]), "argument 'dims': dimension 3"),
    (attribute("TRANSPOSE", perms=list(range(40))), "argument 'dims': 16 dimensions,"),
    (attribute("REDUCE_SUM", axis=4), "dim 4 is out of range, expected [-4, 3]"),
    (attribute("RESCALE", rounding_mode=9), "tosa::rescale.out: 'rounding_mode' is"),
    (
        attribute("RESCALE", input_unsigned=1, output_unsigned=1),
        "'out' has dtype 3, expected int8 or int16 for unsigned",
    ),
    (tensor("RESCALE", 1, data=struct.pack("<i", -5)), "'multiplier' has -5 at index"),
    (tensor("RESCALE", 2, data=struct.pack("<b", 99)), "'shift' has 99 at index 0,"),
    (tensor("RESCALE", 2, data=struct.pack("<b", -1)), "'shift' has -1 at index 0,"),
    (tensor("RESCALE", 2, shape=[0]), "tosa::rescale.out: 'shift' has 0 elements,"),
    (
        tensor("RESCALE", 3, type=5, data=struct.pack("<i", 100000)),
        "'input_zp' is 100000, expected -128 to 127",
    ),
]
TOSA_ROWS = rows_of(mlp_fp=MLP_FP, cnn_int8=CNN_INT8)

# ---- VGF ---------------------------------------------------------------------------------------

Bytes = Callable[[bytearray], None]
SPIRV = bytes.fromhex("03022307")
OWN = -1
EXT_INST, CONSTANT, COMPOSITE, TENSOR = 12, 43, 44, 4163
GRAPH_CONSTANT, GRAPH_INPUT, SET_OUTPUT = 4181, 4184, 4185


def section(at: int, offset: int, size: int) -> Bytes:
    """Change offset and size of a section: modules, sequence, resources, constants."""
    return lambda data: struct.pack_into("<QQ", data, 16 + 16 * at, offset, size)


def in_constants(at: int, code: str, number: int) -> Bytes:
    """Change a number of the section of constants."""
    return lambda data: struct.pack_into(code, data, data.index(b"CONST00") + at, number)


def word(at: int, number: int) -> Bytes:
    """Change a word of the module's header."""
    return lambda data: struct.pack_into("<I", data, data.index(SPIRV) + 4 * at, number)


def instruction(data: bytes | bytearray, opcode: int, which: int = 0) -> int:
    """Return the place of an instruction of the module."""
    at = data.index(SPIRV) + 20
    while True:
        result, length = struct.unpack_from("<HH", data, at)
        if result == opcode:
            which -= 1
        if which < 0:
            return at
        at += 4 * length


def operand(opcode: int, at: int, number: int, which: int = 0) -> Bytes:
    """Change a word of an instruction; OWN: the id of its result."""

    def change(data: bytearray) -> None:
        start = instruction(data, opcode, which)
        own = struct.unpack_from("<I", data, start + 8)[0]
        struct.pack_into("<I", data, start + 4 * at, own if number == OWN else number)

    return change


def same_operand(opcode: int, at: int, other: int, other_at: int) -> Bytes:
    """Copy the last instruction's word that another instruction has."""

    def change(data: bytearray) -> None:
        source = instruction(data, other) + 4 * other_at
        target = instruction(data, opcode) + 4 * at
        data[target : target + 4] = data[source : source + 4]

    return change


MAX = (1 << 32) - 1
VGF_MLP_FP: list[tuple[Bytes, str]] = [
    (section(0, 1 << 40, 8), "payload: section 0 is not"),
    (section(1, (1 << 64) - 8, 16), "payload: section 1 is not"),
    (section(3, 16, (1 << 64) - 1), "payload: section 3 is not"),
    (section(0, 0, 4), "modules: 4 bytes"),
    (section(1, 0, 64), "model sequence: offset"),
    (in_constants(8, "<Q", 0), "the graph's constant 0 is not"),
    (in_constants(8, "<Q", (1 << 64) - 1), "the graph's constant 0 is not"),
    (in_constants(16 + 4, "<i", 3), "constant 0 is sparse"),
    (in_constants(16 + 8, "<Q", 4), "the weight has too few bytes"),
    (in_constants(16 + 16, "<Q", (1 << 64) - 4), "constant 0 is not within its"),
    (word(3, MAX), "525 words are not a SPIR-V"),
    (word(3, 2), "SPIR-V: an id is out of range,"),
    (word(5, 0), "SPIR-V: an instruction is"),
    (word(5, 0xFFFF0011), "SPIR-V: an instruction is"),
    (operand(EXT_INST, 1, 0), "SPIR-V: a value's type is not a"),
    (operand(EXT_INST, 1, MAX), "SPIR-V: a value's type is not a"),
    (operand(EXT_INST, 2, MAX), "SPIR-V: an id is out of range,"),
    (operand(EXT_INST, 4, 200), "SPIR-V: an operator that TOSA"),
    (operand(EXT_INST, 4, 69), "SPIR-V: an attribute is not"),
    (operand(EXT_INST, 5, OWN), "SPIR-V: an input is not a"),
    (operand(EXT_INST, 5, MAX), "SPIR-V: an input is not defined"),
    (operand(EXT_INST, 5, 0, 1), "SPIR-V: an attribute is not"),
    (operand(EXT_INST, 6, 0, 1), "SPIR-V: an attribute is not"),
    (operand(EXT_INST, 0, EXT_INST | 5 << 16), "SPIR-V: an instruction is"),
    (operand(TENSOR, 2, 0), "SPIR-V: a value's type is not a"),
    (operand(TENSOR, 3, 0), "SPIR-V: a value's type is not a"),
    (operand(TENSOR, 4, 0), "SPIR-V: a tensor's shape is not"),
    (operand(COMPOSITE, 3, OWN), "SPIR-V: a tensor's size is not"),
    (operand(COMPOSITE, 3, MAX), "SPIR-V: a tensor's size is not"),
    (operand(CONSTANT, 3, MAX), "SPIR-V: a value's type is not a"),
    (operand(CONSTANT, 3, HUGE, 1), "SPIR-V: a constant is too large"),
    (operand(GRAPH_CONSTANT, 3, 99), "the graph's constant 99 is not"),
    (operand(GRAPH_CONSTANT, 3, MAX), "the graph's constant 4294967295"),
    (operand(GRAPH_CONSTANT, 1, 0), "SPIR-V: a value's type is not a"),
    (operand(GRAPH_INPUT, 2, MAX), "SPIR-V: an id is out of range,"),
    (operand(SET_OUTPUT, 1, MAX), "SPIR-V: an output of the graph"),
    (same_operand(SET_OUTPUT, 1, GRAPH_INPUT, 2), "shape (4, 32), but the program"),
    (same_operand(GRAPH_INPUT, 2, EXT_INST, 2), "SPIR-V: an id is out of range,"),
]
VGF_ROWS = rows_of(vgf_mlp_fp=VGF_MLP_FP)


def edited_vgf(name: str, change: Bytes) -> bytes:
    pte, at, payload = roomy((TOSA.folder / f"{name}.pte").read_bytes())
    data = bytearray(payload)
    change(data)
    return filled(pte, at, bytes(data))
