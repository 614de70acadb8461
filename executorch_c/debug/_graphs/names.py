"""Operators by name: of instructions, of nodes of a graph, of nodes inside delegates.

One operator has many names (`aten::linear.out`, `aten::addmm`, "Fully Connected (NC, F32) GEMM").
`kind` maps all of them to one.
"""

from __future__ import annotations

import re
from functools import lru_cache
from operator import getitem
from typing import TYPE_CHECKING, Any

from executorch_c.inspect.families import MOVES, short, unsuffixed

if TYPE_CHECKING:
    from torch.fx import Node

ALIASES = {
    "et_view": "view_copy",
    "_unsafe_view": "view_copy",
    "_clone_dim_order": "clone",
    "max_pool2d_with_indices": "max_pool2d",
}
"""Operators that the program calls by another name than the graph."""

RANDOM = ("rand", "normal", "bernoulli", "native_dropout")
"""Beginnings of the kinds of operators of random numbers."""

FUSED = {"relu", "hardtanh", "clamp", "_native_batch_norm_legit_no_training"}
"""Operators that a delegate fuses into the node before, except quantisation."""

KINDS = {
    "addmm": "linear",
    "mm": "linear",
    "fullyconnected": "linear",
    "conv1d": "convolution",
    "conv2d": "convolution",
    "depthwiseconv2d": "convolution",
    "dwconv": "convolution",
    "conv3d": "convolution",
    "convtranspose1d": "convolution",
    "convtranspose2d": "convolution",
    "convtranspose3d": "convolution",
    "quantizedmatmul": "linear",
    "layernorm": "layer_norm",
    "rmsnorm": "rms_norm",
    "sdpa": "scaled_dot_product_attention",
    "scaleddotproductattention": "scaled_dot_product_attention",
    "deconvolution": "convolution",
    "batchmatrixmultiply": "bmm",
    "multiply": "mul",
    "subtract": "sub",
    "divide": "div",
    "negate": "neg",
    "squareroot": "sqrt",
    "reciprocalsquareroot": "rsqrt",
    "squaring": "square",
    "maximum": "maximum",
    "minimum": "minimum",
    "relu": "clamp",
    "hardtanh": "clamp",
    "relu6": "clamp",
    "clamp_min": "clamp",
    "leakyrelu": "leaky_relu",
    "maxpooling": "max_pool2d",
    "maxpooling2d": "max_pool2d",
    "max_pool2d_with_indices": "max_pool2d",
    "averagepooling": "avg_pool2d",
    "avgpooling2d": "avg_pool2d",
    "globalaveragepooling": "mean",
    "globalavgpooling2d": "mean",
    "transpose": "permute",
    "permute_copy": "permute",
    "statictranspose": "permute",
    "concatenate": "cat",
    "concatenate2": "cat",
    "concatenate3": "cat",
    "concatenate4": "cat",
    "concatenate5": "cat",
    "ceiling": "ceil",
    "safe_softmax": "softmax",
    "view_copy": "view",
    "et_view": "view",
    "reshape": "view",
    "staticreshape": "view",
    "clone_dim_order": "clone",
    "et_copy_index": "stack",
    "copy": "view",
    "staticslice": "slice",
    "slice_copy": "slice",
    "staticconstantpad": "pad",
    "constantpad": "pad",
    "constant_pad_nd": "pad",
    "conv_with_clamp": "convolution",
    "q8ta_conv2d": "convolution",
    "q8ta_conv2d_pw": "convolution",
    "q8ta_conv2d_dw": "convolution",
    "q8ta_conv2d_transposed": "convolution",
    "q8ta_add": "add",
    "q8ta_relu": "clamp",
    "q8ta_linear": "linear",
    "q8ta_linear_gemv": "linear",
    "linear_q8ta_q8csw": "linear",
    "linear_q4gsw": "linear",
    "linear_dq8ca_q4gsw": "linear",
    "weight_int8pack_mm": "linear",
    "linear_qcs4w": "linear",
    "conv": "convolution",
    "conv_transpose": "convolution",
    "matmul": "bmm",
    "max_pool": "max_pool2d",
    "avg_pool": "avg_pool2d",
    "reduce_mean": "mean",
    "reduce_sum": "sum",
    "reduce_max": "amax",
    "reduce_min": "amin",
    "concat": "cat",
    "real_div": "div",
    "slice_by_index": "slice",
    "pad": "pad",
    "quantize": "convert",
    "dequantize": "convert",
    "rescale": "convert",
    "table": "convert",
    "avg_pool2d": "avg_pool2d",
    "reduce_any": "any",
    "transpose_conv2d": "convolution",
    "depthwise_conv2d": "convolution",
    "tile": "repeat",
    "resizebilinear": "upsample_bilinear2d",
    "staticresizebilinear2d": "upsample_bilinear2d",
}
"""Operators, and nodes as backends call them, that do the same under another name."""


FIRMWARE = re.compile(
    r"quantized_(?P<operator>(?!decomposed)[a-z]\w*?)(_n(cl|lc|chw|hwc))?(_asym8\w*)?"
)
"""Operators of the libraries of microcontrollers and DSPs: "quantized_conv2d_nhwc"."""


@lru_cache(1024)
def kind(name: str) -> str:
    """Return "add" for "aten::add.out", "linear" for "Fully Connected (NC, F32) GEMM"."""
    if re.fullmatch(r"\w+\.\w+\.\w+", name):  # "aten.add.Tensor", of a graph in a payload
        name = name.replace(".", "::", 1)
    text = short(name) if "::" in name else name.partition(" (")[0]
    text = text.lower().replace(" ", "").strip("_")
    if (match := FIRMWARE.fullmatch(text)) is not None:
        text = match["operator"].replace("fully_connected", "linear")
    return KINDS.get(text, text)


def is_firmware(name: str) -> bool:
    """Return True for an operator on quantised integers that a flow without a delegate calls."""
    return "::" in name and FIRMWARE.fullmatch(short(name)) is not None


@lru_cache(1024)
def base(name: str) -> str:
    """Return "add" for "aten::add.out": the name that all overloads of an operator share."""
    name = unsuffixed(name)
    return ALIASES.get(name, name)


def operator_of(node: Node) -> str | None:
    """Return the base name of a graph node's operator; None without one."""
    return _name_of(node.target) if node.op == "call_function" else None


@lru_cache(4096)
def _name_of(target: Any) -> str | None:
    """Return the base name of an operator; None for a function that is none."""
    schema = getattr(target, "_schema", None)
    return None if schema is None else base(schema.name)


def quantizes(node: Node) -> bool:
    """Return True if a node is a quantize_... operator."""
    return (operator_of(node) or "").startswith("quantize_")


def dequantizes(node: Node) -> bool:
    """Return True if a node is a dequantize_... operator."""
    return (operator_of(node) or "").startswith("dequantize_")


def is_quantizer(node: Node) -> bool:
    """Return True if a node changes only how numbers are stored: quantize_..., dequantize_..."""
    return (operator_of(node) or "").startswith(("quantize_", "dequantize_"))


def node_before_rounding(node: Node) -> Node | None:
    """Return the node whose value a dequantising node has, rounded; None for any other."""
    if not dequantizes(node) or not quantizes(before := node.all_input_nodes[0]):
        return None
    return next(iter(before.all_input_nodes), None)


def grid_of(node: Node) -> tuple[float, int, int, int] | None:
    """Return scale, zero point, least and largest integer of a node that quantises or dequantises
    by numbers of the graph; None for any other."""
    if not is_quantizer(node):
        return None
    numbers = node.args[1:5]
    if len(numbers) < 4 or not all(isinstance(n, (int, float)) for n in numbers):
        return None
    scale, zero, low, high = numbers
    return float(scale), int(zero), int(low), int(high)  # type: ignore[arg-type]


def takes_float64(node: Node) -> bool:
    """Return False for operators of ExecuTorch's language models: with float64 they write an error
    to a log and return memory without values."""
    schemas = (getattr(target, "_schema", None) for target in (node.target, *node.args))
    return not any(schema is not None and schema.name.startswith("llama::") for schema in schemas)


def kind_of(node: Node) -> str | None:
    """Return the kind of a graph node: its operator's, "convert" for quantizers."""
    name = operator_of(node)
    if name is None:
        return None
    return "convert" if is_quantizer(node) else kind(f"::{name}")


def before_moves(node: Node) -> Node:
    """Return the node that has the numbers of a node first: views between the two only move
    them."""
    while operator_of(node) in MOVES and len(node.all_input_nodes) == 1:
        [node] = node.all_input_nodes
    return node


def has_several(node: Node) -> bool:
    """Return True if a node's operator has several results."""
    return isinstance(node.meta.get("val"), (list, tuple))


def outputs_read(node: Node) -> set[int]:
    """Return the outputs of an operator with several that other operators read."""
    return {
        int(user.args[1])  # type: ignore[arg-type]
        for user in node.users
        if user.target is getitem and user.users
    }


def is_read(node: Node, output: int) -> bool:
    """Return True if anything reads an output of an operator with several."""
    reads = outputs_read(node)
    return not reads or output in reads


def twins(node: Node) -> list[Node]:
    """Return a node, and others that dequantise the same tensor by the same operator."""
    if not dequantizes(node):
        return [node]
    users = node.all_input_nodes[0].users
    return [node, *(n for n in users if n is not node and n.target == node.target)]


def is_number(node: Node) -> bool:
    """Return True if the value of a node is a Python number (a size)."""
    import torch

    value = node.meta.get("val")
    return isinstance(value, (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool))


def is_random_operator(name: str) -> bool:
    """Return True for the name of an operator of random numbers: its calls differ."""
    return kind(name).startswith(RANDOM)


def is_random_node(node: Node) -> bool:
    """Return True if two runs of a node differ: random numbers, uninitialised memory."""
    import torch

    tags = getattr(getattr(node.target, "_op", node.target), "tags", ())
    return torch.Tag.nondeterministic_seeded in tags or operator_of(node) == "empty"


def shape_of(node: Node) -> tuple[int, ...] | None:
    """Return the shape of a node's (first) result; None if it is dynamic."""
    value = node.meta.get("val")
    if isinstance(value, (list, tuple)):
        value = value[0] if value else None
    sizes = getattr(value, "shape", None)
    if sizes is None or not all(isinstance(size, int) for size in sizes):
        return None
    return tuple(sizes)
