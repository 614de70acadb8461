"""Rows of quantised models: PT2E static and dynamic, torchao's 8da8w and 8da4w, with the official
quantizer and partitioner."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.backends.xnnpack_flow import Rows
from tests.backends.xnnpack_zoo import fn

TABLE = Rows(__file__)
add = TABLE.add
STATIC = ("static", "static_channel")
TENSOR, CHANNEL = ("qint8", "qint32"), ("qcint8", "qcint32")
X, IMAGE, ONE = (3, 16), (2, 3, 7, 8), (1, 3, 7, 8)
ROWS, BATCH = {0: {0: 3}}, {0: {0: 2}}
CONV, LINEAR = "XNNConv2d", "XNNFullyConnected"


def relu_after(module: nn.Module) -> nn.Module:
    return nn.Sequential(module, nn.ReLU())


def there_and_back(x: torch.Tensor, scale: float) -> torch.Tensor:
    """Quantise and dequantise, with zero point 5."""
    ops = torch.ops.quantized_decomposed
    q = ops.quantize_per_tensor.default(x, scale, 5, -128, 127, torch.int8)
    return ops.dequantize_per_tensor.default(q, scale, 5, -128, 127, torch.int8)


# ---- static: weights per tensor and per channel -----------------------------------------------

for scheme, types in (("static", TENSOR), ("static_channel", CHANNEL)):
    for name, make, kind in (
        ("conv", lambda: nn.Conv2d(3, 5, 3), CONV),
        ("conv_padded", lambda: nn.Conv2d(3, 6, (3, 2), (2, 1), (2, 1), (1, 2)), CONV),
        ("conv_relu", lambda: relu_after(nn.Conv2d(3, 5, 3)), CONV),
        ("depthwise", lambda: nn.Conv2d(3, 3, 3, 2, 1, groups=3), "XNNDepthwiseConv2d"),
        ("depthwise_twice", lambda: nn.Conv2d(3, 6, 3, groups=3), "XNNDepthwiseConv2d"),
        ("conv_transpose", lambda: nn.ConvTranspose2d(3, 4, 3, 2, 1, 1), "XNNConvTranspose2d"),
    ):
        add(
            name,
            make,
            [[IMAGE], [ONE]],
            kind,
            "XNNConvert",
            "XNNStaticTranspose",
            schemes=[scheme],
            datatypes=types,
            dims=BATCH,
        )
    for name, make in (
        ("linear", lambda: nn.Linear(16, 6)),
        ("linear_relu", lambda: relu_after(nn.Linear(16, 6))),
    ):
        add(
            name,
            make,
            [[X], [(1, 16)]],
            LINEAR,
            "XNNConvert",
            schemes=[scheme],
            datatypes=types,
            dims=ROWS,
        )
    add(
        "two_convs",
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 1)),
        [IMAGE],
        CONV,
        schemes=[scheme],
        datatypes=types,
    )

static = {"schemes": ["static"], "datatypes": ("qint8",)}
add("linear_no_bias", lambda: nn.Linear(16, 6, bias=False), [X], LINEAR, **static)
add("add", fn(torch.add), [[X, X], [(1, 16)] * 2], "XNNAdd", dims={0: {0: 3}, 1: {0: 3}}, **static)
add("add_broadcast", fn(torch.add), [X, (1, 16)], "XNNAdd", **static)
add("add_relu", fn(lambda x, y: torch.relu(x + y)), [X, X], "XNNAdd", **static)
add("mul", fn(torch.mul), [X, X], "XNNMultiply", **static)
add(
    "sub",
    fn(lambda x, y: there_and_back(there_and_back(x, 0.03) - there_and_back(y, 0.02), 0.04)),
    [X, X],
    "XNNSubtract",
    datatypes=("qint8",),
)  # not annotated by the quantizer
add(
    "clamp",
    fn(lambda x: there_and_back(torch.clamp(there_and_back(x, 0.03), -0.5, 1.0), 0.03)),
    [X],
    "XNNClamp",
    datatypes=("qint8",),
)
add("cat", fn(lambda x, y, z: torch.cat([x, y, z], 1)), [X, X, X], "XNNConcatenate3", **static)
add(
    "max_pool",
    lambda: nn.Sequential(nn.Conv2d(3, 4, 1), nn.MaxPool2d(2)),
    [[IMAGE], [ONE]],
    "XNNMaxPooling2d",
    dims=BATCH,
    **static,
)
add(
    "mean",
    lambda: nn.Sequential(nn.Conv2d(3, 4, 1), nn.AdaptiveAvgPool2d(1)),
    [IMAGE],
    "XNNGlobalAvgPooling2d",
    **static,
)
add("hardtanh", lambda: nn.Sequential(nn.Linear(16, 4), nn.Hardtanh()), [X], LINEAR, **static)
add(
    "reshape",
    lambda: nn.Sequential(nn.Linear(16, 4), nn.Flatten(0)),
    [X],
    "XNNStaticReshape",
    **static,
)
add("permute", lambda: lambda x, y: (x + y).permute(1, 0), [X, X], "XNNStaticTranspose", **static)
add("slice", lambda: lambda x, y: (x + y)[1:, 4:8], [X, X], "XNNStaticSlice", **static)
add(
    "pad",
    lambda: nn.Sequential(nn.ZeroPad2d(1), nn.Conv2d(3, 4, 3)),
    [IMAGE],
    "XNNStaticConstantPad",
    **static,
)
add("residual", lambda: Residual(), [[IMAGE], [ONE]], CONV, "XNNAdd", dims=BATCH, **static)
# One delegate per node, so that quantised values cross delegates.
add(
    "residual_apart",
    lambda: Residual(),
    [IMAGE],
    CONV,
    "XNNAdd",
    partitioner={"per_op_mode": True},
    delegates=None,
    **static,
)

# ---- dynamic: activations quantised by row when they arrive -----------------------------------

DYNAMIC = ("qdint8", "qcint8")
for name, make in (
    ("linear", lambda: nn.Linear(16, 6)),
    ("linear_no_bias", lambda: nn.Linear(16, 6, bias=False)),
    ("linear_relu", lambda: relu_after(nn.Linear(16, 6))),
):
    add(
        name,
        make,
        [[X], [(1, 16)]],
        LINEAR,
        "XNNConvert",
        schemes=["dynamic_channel"],
        datatypes=DYNAMIC,
        dims=ROWS,
    )
add(
    "linear",
    lambda: nn.Linear(16, 6),
    [[X], [(1, 16)]],
    LINEAR,
    "XNNConvert",
    schemes=["dynamic_4bit"],
    datatypes=("qdint8", "qcint4"),
    dims=ROWS,
)
add(
    "conv",
    lambda: nn.Conv2d(3, 5, 3),
    [[ONE]],
    CONV,
    "XNNConvert",
    schemes=["dynamic_channel"],
    datatypes=DYNAMIC,
)
add(
    "conv_transpose",
    lambda: nn.ConvTranspose2d(3, 4, 3, 2),
    [[ONE]],
    "XNNConvTranspose2d",
    schemes=["dynamic_channel"],
    datatypes=DYNAMIC,
)

# ---- torchao ----------------------------------------------------------------------------------

WIDE = [[(3, 64)], [(1, 64)]]
for scheme, types in (
    ("8da8w", DYNAMIC),
    ("8da4w", ("qdint8", "qbint4")),
    ("8da4w_32", ("qdint8", "qbint4")),
    ("8da4w_64", ("qdint8", "qbint4")),
    ("8da4w_32_half", ("qdint8", "qbint4", "fp16")),
):
    add(
        "linear",
        lambda: nn.Linear(64, 6, bias=False),
        WIDE,
        LINEAR,
        "XNNConvert",
        schemes=[scheme],
        datatypes=types,
        dims=ROWS,
    )
add(
    "linear_bias",
    lambda: nn.Linear(64, 6),
    WIDE,
    LINEAR,
    schemes=["8da4w_32"],
    datatypes=("qdint8", "qbint4"),
    dims=ROWS,
)
add(
    "linear_3d",
    lambda: nn.Linear(64, 6),
    [[(2, 3, 64)], [(2, 1, 64)]],
    LINEAR,
    schemes=["8da4w_32"],
    datatypes=("qdint8", "qbint4"),
    dims={0: {1: 3}},
)

# ---- weights that are packed in several parts, the last one incomplete ----

for scheme, types, width in (
    *(("static", TENSOR, 270), ("static_channel", CHANNEL, 270)),
    *(("dynamic_channel", DYNAMIC, 270), ("dynamic_4bit", ("qdint8", "qcint4"), 270)),
    *(("8da8w", DYNAMIC, 270), ("8da4w_32", ("qdint8", "qbint4"), 288)),
    ("8da4w_32_half", ("qdint8", "qbint4", "fp16"), 288),
):
    for name, bias in (("linear_parts", True), ("linear_parts_no_bias", False)):
        add(
            name,
            lambda bias=bias, width=width: nn.Linear(width, 1003, bias=bias),
            [(1, width)],
            LINEAR,
            schemes=[scheme],
            datatypes=types if bias else tuple(kind for kind in types if "int32" not in kind),
        )


class Residual(nn.Module):
    """Two convolutions and a sum, all in quantised arithmetic."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> Any:
        x = F.relu(self.one(x))
        return F.relu(x + self.two(x))
