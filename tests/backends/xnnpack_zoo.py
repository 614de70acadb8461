"""One row per node of the delegate's schema and its variants, in float32 and float16.

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
BOTH = ("float32", "float16")
X, IMAGE = (3, 5), (2, 3, 7, 8)
X4, ROWS = (3, 4), {0: {0: 3}}
add = TABLE.add


def fn(function: Any, *args: Any, **options: Any) -> Any:
    """Return a factory of the function with additional arguments."""
    return lambda: lambda *inputs: function(*inputs, *args, **options)


def parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(shape))


class Addmm(nn.Module):
    """A bias, and weights that are not transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.bias, self.weight = parameter(6), parameter(9, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.addmm(self.bias, x, self.weight)


def norm_after(module: nn.Module) -> nn.Module:
    """Append batch norm with non-trivial statistics to a module."""
    norm = nn.BatchNorm2d(5 if isinstance(module, nn.Conv2d) else 3)
    nn.init.uniform_(norm.running_mean, -0.5, 0.5)
    nn.init.uniform_(norm.running_var, 0.5, 1.5)
    nn.init.uniform_(norm.weight, 0.5, 1.5)
    return nn.Sequential(module, norm)


class With(nn.Module):
    """A function of the input and of a parameter or buffer."""

    def __init__(self, function: Any, value: Any) -> None:
        super().__init__()
        self.function, self.value = function, value

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(x, self.value)


def given(function: Any, *shape: int) -> Any:
    return lambda: With(function, parameter(*shape))


# ---- one input, element by element ------------------------------------------------------------

for name, function, kind, draw in (
    ("abs", torch.abs, "XNNAbs", normal),
    ("ceil", torch.ceil, "XNNCeiling", normal),
    ("cos", torch.cos, "XNNCos", normal),
    ("exp", torch.exp, "XNNExp", normal),
    ("floor", torch.floor, "XNNFloor", normal),
    ("hardswish", F.hardswish, "XNNHardswish", normal),
    ("log", torch.log, "XNNLog", positive),
    ("neg", torch.neg, "XNNNegate", normal),
    ("rsqrt", torch.rsqrt, "XNNReciprocalSquareRoot", positive),
    ("sigmoid", torch.sigmoid, "XNNSigmoid", normal),
    ("sin", torch.sin, "XNNSin", normal),
    ("sqrt", torch.sqrt, "XNNSquareRoot", positive),
    ("square", torch.square, "XNNSquare", normal),
    ("tanh", torch.tanh, "XNNTanh", normal),
    ("softmax", partial(torch.softmax, dim=-1), "XNNSoftmax", normal),
    ("leaky_relu", partial(F.leaky_relu, negative_slope=0.2), "XNNLeakyReLU", normal),
    ("relu", torch.relu, "XNNClamp", normal),
    ("relu6", F.relu6, "XNNClamp", normal),
    ("clamp_min", partial(torch.clamp, min=-0.25), "XNNClamp", normal),
    ("clamp_max", partial(torch.clamp, max=0.5), "XNNClamp", normal),
):
    add(name, fn(function), [[X], [(1, 5)]], kind, schemes=BOTH, draw=draw, dims=ROWS)
add("gelu", fn(F.gelu), [[X], [(1, 5)]], "XNNGelu", dims=ROWS)  # the flow does not delegate float16
# A clone inside a graph is removed before lowering, so this row contains nothing else.
add("clone", fn(torch.clone), [X], "XNNCopy", schemes=BOTH)


class EluConfig(GenericNodePartitionerConfig):
    """Partitioner configuration of ELU, which the default partitioner lacks."""

    target_name = "elu.default"

    def supported_precision_types(self) -> list[ConfigPrecisionType]:
        return [ConfigPrecisionType.FP32]

    def get_original_aten(self) -> Any:
        return torch.ops.aten.elu.default


add(
    "elu",
    fn(F.elu, alpha=0.7),
    [[X], [(1, 5)]],
    "XNNELU",
    schemes=BOTH,
    dims=ROWS,
    partitioner={"configs": [EluConfig]},
)
add(
    "prelu",
    lambda: nn.PReLU(3),
    [[IMAGE], [(1, 3, 7, 8)]],
    "XNNPReLU",
    schemes=BOTH,
    dims={0: {0: 2}},
)
add("prelu_one", lambda: nn.PReLU(1), [IMAGE], "XNNPReLU")

# ---- two inputs, with broadcasting and constants ----------------------------------------------

for name, function, kind in (
    *(("add", torch.add, "XNNAdd"), ("sub", torch.sub, "XNNSubtract")),
    *(("mul", torch.mul, "XNNMultiply"), ("div", torch.div, "XNNDiv")),
    *(("maximum", torch.maximum, "XNNMaximum"), ("minimum", torch.minimum, "XNNMinimum")),
):
    draw = positive if name == "div" else normal
    add(
        name,
        fn(function),
        [[X, X], [(2, 5), (2, 5)]],
        kind,
        schemes=BOTH,
        draw=draw,
        dims={0: {0: 3}, 1: {0: 3}},
    )
    add(name + "_broadcast", fn(function), [[(4, 1, 5), (3, 1)]], kind, draw=draw)
    add(name + "_constant", given(function, 1, 5), [[X], [(1, 5)]], kind, draw=draw, dims=ROWS)
add("add_relu", fn(lambda x, y: torch.relu(x + y)), [X, X], "XNNAdd")
add("add_number", fn(lambda x: x + 1.5), [X], "XNNAdd")
add("add_itself", fn(lambda x: x + x), [X], "XNNAdd")
add("two_outputs", fn(lambda x, y: (x + y, x * y)), [[X, X]], "XNNAdd", "XNNMultiply")
add("six_dimensions", fn(torch.mul), [[(2, 1, 3, 1, 2, 2), (1, 3, 1, 2, 1, 2)]], "XNNMultiply")
add("scalar_output", fn(lambda x: x.view([]) * 2.0), [(1,)], "XNNMultiply")

# ---- shapes -----------------------------------------------------------------------------------

add(
    "permute",
    fn(torch.permute, (2, 0, 1)),
    [[(3, 4, 5)], [(2, 4, 5)]],
    "XNNStaticTranspose",
    schemes=BOTH,
    dims=ROWS,
)
add("permute_6", fn(torch.permute, (5, 0, 3, 1, 4, 2)), [(2, 3, 1, 4, 2, 3)], "XNNStaticTranspose")
add(
    "reshape",
    fn(torch.reshape, (-1, 2, 2)),
    [[X4], [(1, 4)]],
    "XNNStaticReshape",
    schemes=BOTH,
    dims=ROWS,
)
add("unsqueeze", fn(torch.unsqueeze, -1), [[X], [(1, 5)]], "XNNStaticReshape", dims=ROWS)
add("slice", fn(lambda x: x[1:, 2:4]), [(4, 5)], "XNNStaticSlice", schemes=BOTH)
add(
    "pad",
    fn(F.pad, (1, 2, 0, 3), value=-1.5),
    [[(2, 3, 4)], [(1, 3, 4)]],
    "XNNStaticConstantPad",
    schemes=BOTH,
    dims={0: {0: 2}},
)
for count in (2, 3, 4, 5, 7):
    kinds = ["XNNConcatenate5", "XNNConcatenate3"] if count > 5 else [f"XNNConcatenate{count}"]
    add(
        f"cat_{count}",
        fn(lambda *each: torch.cat(each, 1)),
        [(2, n, 3) for n in range(1, count + 1)],
        *kinds,
        schemes=BOTH if count == 2 else BOTH[:1],
    )
add("cat_negative_axis", fn(lambda x, y: torch.cat([x, y], -1)), [[X, (3, 2)]], "XNNConcatenate2")
add(
    "bilinear",
    fn(F.interpolate, size=(5, 9), mode="bilinear"),
    [IMAGE],
    "XNNStaticResizeBilinear2D",
    schemes=BOTH,
)
add(
    "bilinear_corners",
    fn(F.interpolate, size=(14, 3), mode="bilinear", align_corners=True),
    [IMAGE],
    "XNNStaticResizeBilinear2D",
)

# ---- matrices ---------------------------------------------------------------------------------

add(
    "linear",
    lambda: nn.Linear(9, 6),
    [[(3, 9)], [(1, 9)]],
    "XNNFullyConnected",
    schemes=(*BOTH,),
    dims=ROWS,
)
add(
    "linear_bf16",
    lambda: nn.Linear(9, 6),
    [[(3, 9)], [(1, 9)]],
    "XNNFullyConnected",
    datatypes=("bf16",),
    schemes=("bfloat16",),
    dims=ROWS,
    partitioner={"enable_bf16": True},
)
add(
    "linear_bf16_no_bias",
    lambda: nn.Linear(9, 6, bias=False),
    [(2, 3, 9)],
    "XNNFullyConnected",
    datatypes=("bf16",),
    schemes=("bfloat16",),
    partitioner={"enable_bf16": True},
)
add(
    "linear_no_bias",
    lambda: nn.Linear(9, 6, bias=False),
    [(3, 9)],
    "XNNFullyConnected",
    schemes=BOTH,
)
add(
    "linear_3d",
    lambda: nn.Linear(9, 6),
    [[(2, 3, 9)], [(2, 1, 9)]],
    "XNNFullyConnected",
    dims={0: {1: 3}},
)
for name, bias in (("linear_parts", True), ("linear_parts_no_bias", False)):
    add(  # weights that are packed in several parts, the last one incomplete
        name,
        lambda bias=bias: nn.Linear(40, 1003, bias=bias),
        [[(3, 40)], [(1, 40)]],
        "XNNFullyConnected",
        schemes=(*BOTH,),
        dims=ROWS,
    )
add("linear_vector", lambda: nn.Linear(9, 6), [(9,)], "XNNFullyConnected")
add("linear_relu", lambda: nn.Sequential(nn.Linear(9, 6), nn.ReLU()), [(3, 9)], "XNNFullyConnected")
add(
    "linear_relu6",
    lambda: nn.Sequential(nn.Linear(9, 6), nn.ReLU6()),
    [(3, 9)],
    "XNNFullyConnected",
)
add("mm", given(torch.mm, 9, 6), [(3, 9)], "XNNFullyConnected")
add("addmm", lambda: Addmm(), [(3, 9)], "XNNFullyConnected")
add(
    "bmm",
    fn(torch.bmm),
    [[(2, 3, 4), (2, 4, 5)], [(1, 3, 4), (1, 4, 5)]],
    "XNNBatchMatrixMultiply",
    schemes=BOTH,
    dims={0: {0: 2}, 1: {0: 2}},
)
add("bmm_constant", given(torch.bmm, 2, 4, 5), [(2, 3, 4)], "XNNBatchMatrixMultiply")

# ---- images -----------------------------------------------------------------------------------

CONV = "XNNConv2d"
BATCH = {0: {0: 2}}
ONE = (1, 3, 7, 8)
for name, make, kind in (
    ("conv", lambda: nn.Conv2d(3, 5, 3), CONV),
    ("conv_padded", lambda: nn.Conv2d(3, 5, (3, 2), (2, 1), (2, 1), (1, 2)), CONV),
    ("conv_groups", lambda: nn.Conv2d(3, 6, 3, groups=3, bias=False), "XNNDepthwiseConv2d"),
    ("depthwise", lambda: nn.Conv2d(3, 3, 3, 2, 1, groups=3), "XNNDepthwiseConv2d"),
    ("conv_1x1", lambda: nn.Conv2d(3, 4, 1), CONV),
    ("conv_transpose", lambda: nn.ConvTranspose2d(3, 4, 3, 2, 1, 1), "XNNConvTranspose2d"),
    ("max_pool", lambda: nn.MaxPool2d(3, 2, 1), "XNNMaxPooling2d"),
    ("avg_pool", lambda: nn.AvgPool2d((2, 3), count_include_pad=False), "XNNAvgPooling2d"),
    ("global_avg_pool", lambda: nn.AdaptiveAvgPool2d(1), "XNNGlobalAvgPooling2d"),
):
    add(name, make, [[IMAGE], [ONE]], kind, "XNNStaticTranspose", schemes=BOTH, dims=BATCH)
add("conv_no_bias", lambda: nn.Conv2d(3, 5, 3, bias=False), [IMAGE], CONV)
add("conv_two_groups", lambda: nn.Conv2d(4, 6, 3, groups=2), [(2, 4, 7, 8)], CONV)
add("conv_relu6", lambda: nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU6()), [IMAGE], CONV)
add("conv_batch_norm", lambda: norm_after(nn.Conv2d(3, 5, 3, bias=False)), [IMAGE], CONV)
add("conv_1d", lambda: nn.Conv1d(3, 5, 3, padding=1), [(2, 3, 9)], CONV)
add(
    "conv_dynamic_size",
    lambda: nn.Conv2d(3, 5, 3, padding=1),
    [[(2, 3, 7, 8)], [(2, 3, 4, 8)]],
    CONV,
    dims={0: {2: 7}},
)
add(
    "conv_transpose_groups",
    lambda: nn.ConvTranspose2d(4, 6, 3, 2, groups=2),
    [(2, 4, 5, 6)],
    "XNNConvTranspose2d",
)
add(
    "conv_chain",
    lambda: nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.ReLU(), nn.Conv2d(8, 4, 1), nn.MaxPool2d(2)),
    [IMAGE],
    CONV,
    "XNNMaxPooling2d",
)
add("batch_norm", lambda: norm_after(nn.Identity()), [IMAGE], "XNNDepthwiseConv2d")
add("max_pool_1x1", lambda: nn.MaxPool2d(1), [IMAGE], "XNNMaxPooling2d")
add("max_pool_ceil", lambda: nn.MaxPool2d(2, 2, ceil_mode=True), [IMAGE], "XNNMaxPooling2d")
add("max_pool_dilated", lambda: nn.MaxPool2d(2, 1, dilation=2), [IMAGE], "XNNMaxPooling2d")
add(
    "avg_pool_padded",
    lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False),
    [IMAGE],
    "XNNAvgPooling2d",
)


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


add("channels_last", ChannelsLast, [[IMAGE], [ONE]], CONV, draw=channels_last, dims=BATCH)
add("channels_last_sum", fn(lambda x, y: x + y), [IMAGE, IMAGE], "XNNAdd", draw=channels_last)
add(
    "to_channels_last",
    fn(lambda x: x.to(memory_format=torch.channels_last) * 2.0),
    [IMAGE],
    "XNNStaticTranspose",
)
for axis in (2, 3):
    add(
        f"argmax_dim_{axis}",
        fn(lambda x, axis: tuple(torch.max(x, axis, keepdim=True)), axis),
        [IMAGE],
        "XNNArgMaxPooling2d",
        partitioner={"configs": [IndexConfig]},
    )
add("max_dim", fn(lambda x: torch.max(x, 3, keepdim=True)[0]), [IMAGE], "XNNMaxPooling2d")
