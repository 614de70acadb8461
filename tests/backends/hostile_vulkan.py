"""Payloads of VulkanBackend with one wrong field each: rows for test_hostile_payloads.py.

A row has a recorded program, a change of its graph, and a sentence that the exception must have.
"""

from pathlib import Path
from typing import Any

from tests.backends.payloads import Change, Format, Graph, Row, rows_of, schema

NAN, INF = float("nan"), float("inf")
HUGE = 1 << 30
GRAPH_TYPES = (
    "Null Int Double Bool VkTensor IntList DoubleList BoolList ValueList String SymInt".split()
)


VULKAN = Format(
    Path(__file__).parent / "vulkan_programs",
    schema("vulkan", {"GraphTypes": GRAPH_TYPES}),
    "VkGraph",
    b"VK00",
    b"VH00",
)


def call(graph: Graph, name: str) -> Graph:
    """Return the first call whose operator's name contains this one."""
    return next(c for c in graph["chain"] if name in c["name"])


def args(name: str, at: int, *ids: int) -> Change:
    """Replace arguments of a call from one on; without values, remove the rest."""

    def change(graph: Graph) -> None:
        result = call(graph, name)["args"]
        result[at : at + len(ids) if ids else None] = ids

    return change


UINT8, FLOAT16 = 1, 4
"""Members of VkDataType."""


def staged(datatype: int) -> Change:
    """Let the first output leave the graph in another type."""

    def change(graph: Graph) -> None:
        graph["values"][graph["output_ids"][0]]["value"][1]["staging_datatype"] = datatype

    return change


def value(name: str, at: int, kind: str = "", /, **fields: Any) -> Change:
    """Change fields of a call's argument, or replace it by a value of another kind."""

    def change(graph: Graph) -> None:
        result = graph["values"][call(graph, name)["args"][at]]["value"]
        result[:] = [kind, fields] if kind else [result[0], {**result[1], **fields}]

    return change


def entry(table: str, at: int, **fields: Any) -> Change:
    return lambda graph: graph[table][at].update(fields)


def fields(**changes: Any) -> Change:
    return lambda graph: graph.update(changes)


def items(at: int, *ids: int) -> Change:
    return lambda graph: graph["values"][at]["value"][1].update(items=list(ids))


CONV, POOL, Q8 = "conv_with_clamp", "max_pool2d", "q8ta_conv2d"
CNN: list[Row] = [
    (args(CONV, 0, 99), "value 99 does not exist, or has no content; the graph"),
    (args(CONV, 0, -1), "value -1 does not exist, or has no content; the graph"),
    (args(CONV, 11, 5), "value 5 is not a tensor"),
    (args(CONV, 11), "node 0 (et_vk.conv_with_clamp.default) has 11 values,"),
    (args(CONV, 0, 13), "value 13 is read before a call computes it"),
    (args(CONV, 0, 20), "value 20 is read before a call computes it"),
    (args(CONV, 11, 4), "value 13 is read before a call computes it"),
    (args(CONV, 11, 0), "value 13 is read before a call computes it"),
    (args(CONV, 1, 10), "argument 'weight' is not a tensor"),
    (value(CONV, 0, dims=[1 << 16] * 4), "input 0: value 4 is too large"),
    (value(CONV, 0, dims=[1, 3, HUGE, HUGE]), "input 0: value 4 is too large"),
    (value(CONV, 0, dims=[1] * 17), "17 dimensions"),
    (value(CONV, 0, dims=[1, 3, 16]), "method 'forward', input 0: shape (1, 3, 16, 16)"),
    (value(CONV, 0, dims=[1, -3, 16, 16]), "input 0: dimension 1 of value 4 has 4294967293"),
    (value(CONV, 0, datatype=77), "input 0: value 4 has the unknown datatype 77"),
    (value(CONV, 0, datatype=3), "argument 'weight': dtype float32, expected int32 as in"),
    (value(CONV, 1, dims=[8, 3, 3, 3000]), "fewer bytes than its elements need"),
    (value(CONV, 1, dims=[1 << 15] * 4), "value 0 is too large"),
    (value(CONV, 1, dims=[8, 3, 9]), "argument 'weight': shape (8, 3, 9), expected 4"),
    (value(CONV, 1, dims=[4, 6, 3, 3]), "argument 'weight': 6 input channels, expected 3"),
    (value(CONV, 1, dims=[0, 3, 3, 3]), "argument 'weight': 0 output channels, expected a"),
    (value(CONV, 1, constant_id=4), "constant 4, the graph has 4 of them"),
    (value(CONV, 1, constant_id=(1 << 31) - 1), "constant 2147483647, the graph has 4 of"),
    (value(CONV, 1, datatype=4), "argument 'weight': dtype float16, expected float32 as"),
    (value(CONV, 2, dims=[7]), "argument 'bias': 7 elements, expected one for each of 8"),
    (value(CONV, 3, items=[0, 1]), "argument 'stride': found (0, 1), expected positive"),
    (value(CONV, 4, items=[1 << 62, 1 << 62]), "argument 'input': size 16 in dimension 2"),
    (value(CONV, 5, items=[1 << 62, 1]), "argument 'input': size 16 in dimension 2 gives"),
    (value(CONV, 8, int_val=0), "argument 'groups': found 0, expected a positive number"),
    (value(CONV, 8, int_val=3), "argument 'weight': 3 input channels, expected 1"),
    (value(CONV, 8, int_val=1 << 62), "argument 'groups': 4611686018427387904, expected a"),
    (value(CONV, 11, dims=[1, 8, 4, 4]), "argument 'out': shape (1, 8, 16, 16) has 2048"),
    (value(CONV, 11, datatype=2), "argument 'out': dtype int8, expected float32 as in"),
    (value(POOL, 1, items=[1 << 40, 2]), "argument 'kernel_size': size 1099511627776 with"),
    (entry("chain", 0, name="et_vk.conv2d_q8ta_q8csw.default"), "1.0 and 1.1 wrote this operator"),
    (items(22, 22, 21), "item 0 of value list 22 is a list,"),
    (items(22, 20, 20), "value 20 is two of its results"),
    (items(22, 20), "node 1 (aten.max_pool2d_with_indices.default) has 6"),
    (items(22, *[21] * 5000), "value 21 is two of its results"),
    (fields(input_ids=[4, 4]), "2 arguments, the payload has 2 inputs and 1 outputs"),
    (fields(input_ids=[]), "value 4 is read before a call computes it"),
    (fields(input_ids=[0]), "input 0 is a constant"),
    (fields(input_ids=[5]), "value 5 is not a tensor"),
    (fields(input_ids=[13]), "value 4 is read before a call computes it"),
    (fields(output_ids=[27, 27]), "2 arguments, the payload has 1 inputs and 2 outputs: V"),
    (fields(output_ids=[]), "2 arguments, the payload has 1 inputs and 0 outputs"),
    (fields(output_ids=[4]), "shape (1, 3, 16, 16), but the program fixes it to (1,"),
    (fields(output_ids=[0]), "shape (8, 3, 3, 3), but the program fixes it to (1, 16,"),
    (staged(UINT8), "output 0 is float32 in the program, the payload narrows it to uint8"),
    (staged(FLOAT16), "output 0 is float32 in the program, the payload narrows it to float16"),
    (fields(output_ids=[99]), "output 0: value 99 does not exist, or has no"),
    (fields(chain=[]), "output 0: value 27 is read before a call computes it"),
    (lambda g: g["chain"].reverse(), "value 20 is read before a call computes it"),
    (lambda g: g["chain"].pop(1), "value 20 is read before a call computes it"),
    (entry("constants", 0, offset=0, length=HUGE), "does not fit"),
    (entry("constants", 0, offset=-2, length=4), "does not fit"),
    (entry("constants", 0, offset=16, length=-8), "does not fit"),
    (entry("constants", 0, named_key="none"), "constant 'none' is neither in the program nor"),
]
CNN_XQ8: list[Row] = [
    (value(Q8, 1, double_val=0.0), "argument 'scale' is not a positive number"),
    (value(Q8, 1, double_val=-1.0), "argument 'scale' is not a positive number"),
    (value(Q8, 6, double_val=NAN), "argument 'output_scale' is not a positive number"),
    (value(Q8, 6, double_val=INF), "argument 'output_scale' is not a positive number"),
    (value(Q8, 7, int_val=1000), "zero point 1000 of an int8 input, expected -128 to"),
    (value(Q8, 2, int_val=1 << 40), "3 channels in 1099511627776 groups do not fit"),
    (value(Q8, 9, items=[9, 9]), "3 channels in 1 groups do not fit weights with rows"),
    (value(Q8, 10, items=[0, 1]), "'stride' has the item 0, expected 1 to 2147483647"),
    (value(Q8, 11, items=[-1, 1]), "'padding' has the item -1, expected 0 to"),
    (value(Q8, 12, items=[0, 1]), "'dilation' has the item 0, expected 1 to 2147483647"),
    (value(Q8, 13, int_val=0), "3 channels in 0 groups do not fit weights with rows of"),
    (value(Q8, 13, int_val=5), "3 channels in 5 groups do not fit weights with rows of"),
    (value(Q8, 14, string_val="activation 'rulu', expected 'none' or 'relu'"), "rulu"),
    (value(Q8, 5, datatype=2), "et_vk::q8ta_conv2d.out: argument 5 has dtype 1,"),
]
LIN_4W: list[Row] = [
    (value("q4gsw", 3, int_val=0), "group_size 0, expected a divisor of the 64"),
    (value("q4gsw", 3, int_val=-32), "group_size -32, expected a divisor of the 64"),
    (value("q4gsw", 3, int_val=48), "group_size 48, expected a divisor of the 64"),
    (value("q4gsw", 3, int_val=1 << 62), "group_size 4611686018427387904, expected a"),
    (value("q4gsw", 2, dims=[1, 64]), "scales for groups of 32 do not fit 64 channels"),
    (value("q4gsw", 1, dims=[64, 8]), "rows of 64 elements, the weight has rows of 16"),
]
MLP_8DA8W: list[Row] = [
    (value("dequantize_per_channel", 3, int_val=2), "dim 2 is out of range,"),
    (value("dequantize_per_channel", 1, dims=[12]), "argument 'scales': 12"),
    (value("linear", 1, dims=[64, 16]), "argument 'out': shape (64, 32) has 2048"),
    (args("prepack", 0, 2, 99), "value 99 does not exist, or has no"),
    (args("prepack", 0, 14, 3), "argument 'out': shape (4, 32) has another rank"),
]
VULKAN_ROWS = rows_of(cnn=CNN, cnn_xq8=CNN_XQ8, lin_4w=LIN_4W, mlp_8da8w=MLP_8DA8W)
