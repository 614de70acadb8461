"""One row per node of the delegate's schema and its variants: in float32, float16 and bfloat16, and
quantised by PT2E (static and dynamic) and torchao (8da8w, 8da4w).

The default partitioner lacks ELU and ArgMaxPooling2d; their rows pass it a configuration. No
exporter writes ScaledDotProductAttention, and the official runtime rejects it:
test_xnnpack_runtime.py writes its payload.
"""

from functools import partial
from typing import Any

import torch
from executorch.backends.xnnpack.partition.config.generic_node_configs import (
    GenericNodePartitionerConfig,
)
from executorch.backends.xnnpack.partition.config.node_configs import MaxDimConfig
from executorch.backends.xnnpack.partition.config.xnnpack_config import ConfigPrecisionType
from torch import nn
from torch.nn import functional as F

from tests.backends.xnnpack_flow import Rows, normal, positive

TABLE = Rows(__file__)
BOTH = {"schemes": ("float32", "float16")}
add = TABLE.add
X, IMAGE, ONE = (3, 5), (2, 3, 7, 8), (1, 3, 7, 8)
ROWS, PAIRS, BATCH = [[X], [(1, 5)]], [[X, X], [(2, 5), (2, 5)]], [[IMAGE], [ONE]]
"""Two calls: with the second one, a dimension is dynamic."""
CONV, DEPTHWISE, LINEAR = "Conv2d", "DepthwiseConv2d", "FullyConnected"


def fn(function: Any, *args: Any, **options: Any) -> Any:
    """Return a factory of the function with additional arguments."""
    return lambda: lambda *inputs: function(*inputs, *args, **options)


def parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(shape))


def then(last: Any, make: Any) -> Any:
    """Return a factory of a module and another one after it."""
    return lambda: nn.Sequential(make(), last())


class Addmm(nn.Module):
    """A bias, and weights that are not transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.bias, self.weight = parameter(6), parameter(9, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.addmm(self.bias, x, self.weight)


def norm(channels: int) -> nn.Module:
    """Return a batch norm with non-trivial statistics."""
    module = nn.BatchNorm2d(channels)
    nn.init.uniform_(module.running_mean, -0.5, 0.5)
    nn.init.uniform_(module.running_var, 0.5, 1.5)
    nn.init.uniform_(module.weight, 0.5, 1.5)
    return module


class With(nn.Module):
    """A function of the input and of a parameter or buffer."""

    def __init__(self, function: Any, value: Any) -> None:
        super().__init__()
        self.function, self.value = function, value

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x, self.value)


def constant(function: Any, *shape: int) -> Any:
    """Return a factory of the function whose second operand is a parameter."""
    return lambda: With(function, parameter(*shape))


class Residual(nn.Module):
    """Two convolutions and a sum, all in quantised arithmetic."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> Any:
        x = F.relu(self.one(x))
        return F.relu(x + self.two(x))


# ---- one input, element by element ------------------------------------------------------------

for name, function, kind, draw in (
    ("abs", torch.abs, "Abs", normal),
    ("ceil", torch.ceil, "Ceiling", normal),
    ("cos", torch.cos, "Cos", normal),
    ("exp", torch.exp, "Exp", normal),
    ("floor", torch.floor, "Floor", normal),
    ("hardswish", F.hardswish, "Hardswish", normal),
    ("log", torch.log, "Log", positive),
    ("neg", torch.neg, "Negate", normal),
    ("rsqrt", torch.rsqrt, "ReciprocalSquareRoot", positive),
    ("sigmoid", torch.sigmoid, "Sigmoid", normal),
    ("sin", torch.sin, "Sin", normal),
    ("sqrt", torch.sqrt, "SquareRoot", positive),
    ("square", torch.square, "Square", normal),
    ("tanh", torch.tanh, "Tanh", normal),
    ("softmax", partial(torch.softmax, dim=-1), "Softmax", normal),
    ("leaky_relu", partial(F.leaky_relu, negative_slope=0.2), "LeakyReLU", normal),
    ("relu", torch.relu, "Clamp", normal),
    ("relu6", F.relu6, "Clamp", normal),
    ("clamp_min", partial(torch.clamp, min=-0.25), "Clamp", normal),
    ("clamp_max", partial(torch.clamp, max=0.5), "Clamp", normal),
):
    add(name, fn(function), ROWS, kind, draw=draw, **BOTH)
add("gelu", fn(F.gelu), ROWS, "Gelu")  # the flow does not delegate float16
# A clone inside a graph is removed before lowering, so this row contains nothing else.
add("clone", fn(torch.clone), [X], "Copy", **BOTH)


class EluConfig(GenericNodePartitionerConfig):
    """Partitioner configuration of ELU, which the default partitioner lacks."""

    target_name = "elu.default"

    def supported_precision_types(self) -> list[ConfigPrecisionType]:
        return [ConfigPrecisionType.FP32]

    def get_original_aten(self) -> Any:
        return torch.ops.aten.elu.default


add("elu", fn(F.elu, alpha=0.7), ROWS, "ELU", partitioner={"configs": [EluConfig]}, **BOTH)
add("prelu", lambda: nn.PReLU(3), BATCH, "PReLU", **BOTH)
add("prelu_one", lambda: nn.PReLU(1), [IMAGE], "PReLU")

# ---- two inputs, with broadcasting and constants ----------------------------------------------

for name, function, kind in (
    *(("add", torch.add, "Add"), ("sub", torch.sub, "Subtract")),
    *(("mul", torch.mul, "Multiply"), ("div", torch.div, "Div")),
    *(("maximum", torch.maximum, "Maximum"), ("minimum", torch.minimum, "Minimum")),
):
    draw = positive if name == "div" else normal
    add(name, fn(function), PAIRS, kind, draw=draw, **BOTH)
    add(name + "_broadcast", fn(function), [[(4, 1, 5), (3, 1)]], kind, draw=draw)
    add(name + "_constant", constant(function, 1, 5), ROWS, kind, draw=draw)
add("add_relu", fn(lambda x, y: torch.relu(x + y)), [X, X], "Add")
add("add_number", fn(lambda x: x + 1.5), [X], "Add")
add("add_itself", fn(lambda x: x + x), [X], "Add")
add("two_outputs", fn(lambda x, y: (x + y, x * y)), [[X, X]], "Add", "Multiply")
add("six_dimensions", fn(torch.mul), [[(2, 1, 3, 1, 2, 2), (1, 3, 1, 2, 1, 2)]], "Multiply")
add("scalar_output", fn(lambda x: x.view([]) * 2.0), [(1,)], "Multiply")

# ---- shapes -----------------------------------------------------------------------------------

MOVED = [[(3, 4, 5)], [(2, 4, 5)]]
add("permute", fn(torch.permute, (2, 0, 1)), MOVED, "StaticTranspose", **BOTH)
add("permute_6", fn(torch.permute, (5, 0, 3, 1, 4, 2)), [(2, 3, 1, 4, 2, 3)], "StaticTranspose")
add("reshape", fn(torch.reshape, (-1, 2, 2)), [[(3, 4)], [(1, 4)]], "StaticReshape", **BOTH)
add("unsqueeze", fn(torch.unsqueeze, -1), ROWS, "StaticReshape")
add("slice", fn(lambda x: x[1:, 2:4]), [(4, 5)], "StaticSlice", **BOTH)
PAD = fn(F.pad, (1, 2, 0, 3), value=-1.5)
add("pad", PAD, [[(2, 3, 4)], [(1, 3, 4)]], "StaticConstantPad", **BOTH)
for count in (2, 3, 4, 5, 7):
    kinds = ["Concatenate5", "Concatenate3"] if count > 5 else [f"Concatenate{count}"]
    parts = [(2, n, 3) for n in range(1, count + 1)]
    options = BOTH if count == 2 else {}
    add(f"cat_{count}", fn(lambda *each: torch.cat(each, 1)), parts, *kinds, **options)
add("cat_negative_axis", fn(lambda x, y: torch.cat([x, y], -1)), [[X, (3, 2)]], "Concatenate2")
RESIZE, BILINEAR = "StaticResizeBilinear2D", partial(F.interpolate, mode="bilinear")
add("bilinear", fn(BILINEAR, size=(5, 9)), [IMAGE], RESIZE, **BOTH)
add("bilinear_corners", fn(BILINEAR, size=(14, 3), align_corners=True), [IMAGE], RESIZE)

# ---- matrices ---------------------------------------------------------------------------------

NINE = [[(3, 9)], [(1, 9)]]
BFLOAT = {"schemes": ("bfloat16",), "partitioner": {"enable_bf16": True}}
layer, bare = partial(nn.Linear, 9, 6), partial(nn.Linear, 9, 6, bias=False)
add("linear", layer, NINE, LINEAR, **BOTH)
add("linear_bf16", layer, NINE, LINEAR, **BFLOAT)
add("linear_bf16_no_bias", bare, [(2, 3, 9)], LINEAR, **BFLOAT)
add("linear_no_bias", bare, [(3, 9)], LINEAR, **BOTH)
add("linear_3d", layer, [[(2, 3, 9)], [(2, 1, 9)]], LINEAR)
for name, bias in (("linear_parts", True), ("linear_parts_no_bias", False)):
    # weights that are packed in several parts, the last one incomplete
    parts = partial(nn.Linear, 40, 1003, bias=bias)
    add(name, parts, [[(3, 40)], [(1, 40)]], LINEAR, **BOTH)
add("linear_vector", layer, [(9,)], LINEAR)
add("linear_relu", then(nn.ReLU, layer), [(3, 9)], LINEAR)
add("linear_relu6", then(nn.ReLU6, layer), [(3, 9)], LINEAR)
add("mm", constant(torch.mm, 9, 6), [(3, 9)], LINEAR)
add("addmm", Addmm, [(3, 9)], LINEAR)
PRODUCTS = [[(2, 3, 4), (2, 4, 5)], [(1, 3, 4), (1, 4, 5)]]
add("bmm", fn(torch.bmm), PRODUCTS, "BatchMatrixMultiply", **BOTH)
add("bmm_constant", constant(torch.bmm, 2, 4, 5), [(2, 3, 4)], "BatchMatrixMultiply")

# ---- images -----------------------------------------------------------------------------------

for name, make, kind in (
    ("conv", lambda: nn.Conv2d(3, 5, 3), CONV),
    ("conv_padded", lambda: nn.Conv2d(3, 5, (3, 2), (2, 1), (2, 1), (1, 2)), CONV),
    ("conv_groups", lambda: nn.Conv2d(3, 6, 3, groups=3, bias=False), DEPTHWISE),
    ("depthwise", lambda: nn.Conv2d(3, 3, 3, 2, 1, groups=3), DEPTHWISE),
    ("conv_1x1", lambda: nn.Conv2d(3, 4, 1), CONV),
    ("conv_transpose", lambda: nn.ConvTranspose2d(3, 4, 3, 2, 1, 1), "ConvTranspose2d"),
    ("max_pool", lambda: nn.MaxPool2d(3, 2, 1), "MaxPooling2d"),
    ("avg_pool", lambda: nn.AvgPool2d((2, 3), count_include_pad=False), "AvgPooling2d"),
    ("global_avg_pool", lambda: nn.AdaptiveAvgPool2d(1), "GlobalAvgPooling2d"),
):
    add(name, make, BATCH, kind, "StaticTranspose", **BOTH)
unbiased = partial(nn.Conv2d, 3, 5, 3, bias=False)
padded = partial(nn.Conv2d, 3, 5, 3, padding=1)
strided = partial(nn.ConvTranspose2d, 4, 6, 3, 2, groups=2)
add("conv_no_bias", unbiased, [IMAGE], CONV)
add("conv_two_groups", lambda: nn.Conv2d(4, 6, 3, groups=2), [(2, 4, 7, 8)], CONV)
add("conv_relu6", then(nn.ReLU6, partial(nn.Conv2d, 3, 5, 3)), [IMAGE], CONV)
add("conv_batch_norm", then(partial(norm, 5), unbiased), [IMAGE], CONV)
add("conv_1d", lambda: nn.Conv1d(3, 5, 3, padding=1), [(2, 3, 9)], CONV)
add("conv_dynamic_size", padded, [[(2, 3, 7, 8)], [(2, 3, 4, 8)]], CONV)
add("conv_transpose_groups", strided, [(2, 4, 5, 6)], "ConvTranspose2d")
add(
    "conv_chain",
    lambda: nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.Conv2d(8, 4, 1), nn.MaxPool2d(2)),
    [IMAGE],
    *(CONV, "MaxPooling2d"),
)
add("batch_norm", then(partial(norm, 3), nn.Identity), [IMAGE], DEPTHWISE)
add("max_pool_1x1", lambda: nn.MaxPool2d(1), [IMAGE], "MaxPooling2d")
add("max_pool_ceil", lambda: nn.MaxPool2d(2, 2, ceil_mode=True), [IMAGE], "MaxPooling2d")
add("max_pool_dilated", lambda: nn.MaxPool2d(2, 1, dilation=2), [IMAGE], "MaxPooling2d")
AVERAGES = partial(nn.AvgPool2d, 3, 2, 1, count_include_pad=False)
add("avg_pool_padded", AVERAGES, [IMAGE], "AvgPooling2d")


def channels_last(*shapes: tuple[int, ...]) -> Any:
    return tuple(x.to(memory_format=torch.channels_last) for x in normal(*shapes))


class ChannelsLast(nn.Module):
    """Input and output in channels-last order (the flow rejects such weights)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


class IndexConfig(MaxDimConfig):
    """max.dim with its indices, which the default configuration does not delegate."""

    def check_constraints(self, node: torch.fx.Node, ep: Any) -> bool:
        return True


DOUBLE = fn(lambda x: x.to(memory_format=torch.channels_last) * 2.0)
add("channels_last", ChannelsLast, BATCH, CONV, draw=channels_last)
add("channels_last_sum", fn(lambda x, y: x + y), [IMAGE, IMAGE], "Add", draw=channels_last)
add("to_channels_last", DOUBLE, [IMAGE], "StaticTranspose")
for axis in (2, 3):
    largest = fn(lambda x, axis: tuple(torch.max(x, axis, keepdim=True)), axis)
    options = {"partitioner": {"configs": [IndexConfig]}}
    add(f"argmax_dim_{axis}", largest, [IMAGE], "ArgMaxPooling2d", **options)
add("max_dim", fn(lambda x: torch.max(x, 3, keepdim=True)[0]), [IMAGE], "MaxPooling2d")

# ---- static: weights per tensor and per channel -----------------------------------------------

X, STATIC = (3, 16), {"schemes": ["static"]}
ROWS = [[X], [(1, 16)]]
layer, bare = partial(nn.Linear, 16, 6), partial(nn.Linear, 16, 6, bias=False)


def there_and_back(x: torch.Tensor, scale: float) -> torch.Tensor:
    """Quantise and dequantise, with zero point 5."""
    ops = torch.ops.quantized_decomposed
    q = ops.quantize_per_tensor.default(x, scale, 5, -128, 127, torch.int8)
    return ops.dequantize_per_tensor.default(q, scale, 5, -128, 127, torch.int8)


def difference(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return there_and_back(there_and_back(x, 0.03) - there_and_back(y, 0.02), 0.04)


def clamped(x: torch.Tensor) -> torch.Tensor:
    return there_and_back(torch.clamp(there_and_back(x, 0.03), -0.5, 1.0), 0.03)


for scheme in ("static", "static_channel"):
    for name, make, kind in (
        ("conv", lambda: nn.Conv2d(3, 5, 3), CONV),
        ("conv_padded", lambda: nn.Conv2d(3, 6, (3, 2), (2, 1), (2, 1), (1, 2)), CONV),
        ("conv_relu", then(nn.ReLU, partial(nn.Conv2d, 3, 5, 3)), CONV),
        ("depthwise", lambda: nn.Conv2d(3, 3, 3, 2, 1, groups=3), DEPTHWISE),
        ("depthwise_twice", lambda: nn.Conv2d(3, 6, 3, groups=3), DEPTHWISE),
        ("conv_transpose", lambda: nn.ConvTranspose2d(3, 4, 3, 2, 1, 1), "ConvTranspose2d"),
    ):
        add(name, make, BATCH, kind, "Convert", "StaticTranspose", schemes=[scheme])
    add("linear", layer, ROWS, LINEAR, "Convert", schemes=[scheme])
    add("linear_relu", then(nn.ReLU, layer), ROWS, LINEAR, "Convert", schemes=[scheme])
    twice = lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 1))  # noqa: E731
    add("two_convs", twice, [IMAGE], CONV, schemes=[scheme])

small, narrow = partial(nn.Conv2d, 3, 4, 1), partial(nn.Linear, 16, 4)
for name, make, calls, *kinds in (
    ("linear_no_bias", bare, [X], LINEAR),
    ("add", fn(torch.add), [[X, X], [(1, 16)] * 2], "Add"),
    ("add_broadcast", fn(torch.add), [X, (1, 16)], "Add"),
    ("add_relu", fn(lambda x, y: torch.relu(x + y)), [X, X], "Add"),
    ("mul", fn(torch.mul), [X, X], "Multiply"),
    ("cat", fn(lambda x, y, z: torch.cat([x, y, z], 1)), [X, X, X], "Concatenate3"),
    ("max_pool", then(partial(nn.MaxPool2d, 2), small), BATCH, "MaxPooling2d"),
    ("mean", then(partial(nn.AdaptiveAvgPool2d, 1), small), [IMAGE], "GlobalAvgPooling2d"),
    ("hardtanh", then(nn.Hardtanh, narrow), [X], LINEAR),
    ("reshape", then(partial(nn.Flatten, 0), narrow), [X], "StaticReshape"),
    ("permute", fn(lambda x, y: (x + y).permute(1, 0)), [X, X], "StaticTranspose"),
    ("slice", fn(lambda x, y: (x + y)[1:, 4:8]), [X, X], "StaticSlice"),
    (
        "pad",
        then(partial(nn.Conv2d, 3, 4, 3), partial(nn.ZeroPad2d, 1)),
        [IMAGE],
        "StaticConstantPad",
    ),
    ("residual", Residual, BATCH, CONV, "Add"),
):
    add(name, make, calls, *kinds, **STATIC)
# One delegate per node, so that quantised values cross delegates.
APART = {"partitioner": {"per_op_mode": True}, "delegates": None}
add("residual_apart", Residual, [IMAGE], CONV, "Add", **APART, **STATIC)
# The quantizer does not annotate these.
add("sub_int8", fn(difference), [X, X], "Subtract", datatypes=("qint8",))
add("clamp_int8", fn(clamped), [X], "Clamp", datatypes=("qint8",))

FOUR_BITS = {"schemes": ["static_4bit"]}
add("linear", layer, ROWS, LINEAR, "Convert", **FOUR_BITS)
add("linear_no_bias", bare, ROWS, LINEAR, "Convert", **FOUR_BITS)

# ---- dynamic: activations quantised by row when they arrive -----------------------------------

DYNAMIC = {"schemes": ["dynamic_channel"]}
add("linear", layer, ROWS, LINEAR, "Convert", **DYNAMIC)
add("linear_no_bias", bare, ROWS, LINEAR, "Convert", **DYNAMIC)
add("linear_relu", then(nn.ReLU, layer), ROWS, LINEAR, "Convert", **DYNAMIC)
add("linear", layer, ROWS, LINEAR, "Convert", schemes=["dynamic_4bit"])
add("conv", lambda: nn.Conv2d(3, 5, 3), [[ONE]], CONV, "Convert", **DYNAMIC)
add("conv_transpose", lambda: nn.ConvTranspose2d(3, 4, 3, 2), [ONE], "ConvTranspose2d", **DYNAMIC)

# ---- torchao ----------------------------------------------------------------------------------

WIDE, GROUPS = [[(3, 64)], [(1, 64)]], {"schemes": ["8da4w_32"]}
TORCHAO = ("8da8w", "8da4w", "8da4w_32", "8da4w_64", "8da4w_32_half")
layer, bare = partial(nn.Linear, 64, 6), partial(nn.Linear, 64, 6, bias=False)
add("linear", bare, WIDE, LINEAR, "Convert", schemes=TORCHAO)
add("linear_bias", layer, WIDE, LINEAR, **GROUPS)
add("linear_3d", layer, [[(2, 3, 64)], [(2, 1, 64)]], LINEAR, **GROUPS)

# ---- weights that are packed in several parts, the last one incomplete ----

for schemes, width in (
    (("static", "static_channel", "dynamic_channel", "dynamic_4bit", "8da8w"), 270),
    (("8da4w_32", "8da4w_32_half"), 288),
):
    parts = partial(nn.Linear, width, 1003)
    add("linear_parts", parts, [(1, width)], LINEAR, schemes=schemes)
    bare = partial(nn.Linear, width, 1003, bias=False)
    add("linear_parts_no_bias", bare, [(1, width)], LINEAR, schemes=schemes)

# ---- a chain of nodes, for test_xnnpack_hostile.py ----

add("chain", fn(lambda x, y: (x.exp() + y).tanh()), [(2, 3), (2, 3)], "Exp", "Add", "Tanh")
