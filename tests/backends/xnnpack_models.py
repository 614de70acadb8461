"""Whole models through the official XNNPACK flow: those of the zoo, in float and quantised.

Small configurations of the well-known families with seeded weights. Operators outside delegates
run on the kernels; `python xnnpack_flow.py xnnpack_models` lists them.
"""

from typing import Any

import torch
from torch import nn

from tests.backends import xnnpack_flow
from tests.backends.xnnpack_flow import Lowered, Row, Rows, normal
from tests.models import zoo_models

TABLE = Rows(__file__, delegates=None)


def of_zoo(name: str, *kinds: str, **options: Any) -> None:
    """Add a row for a model of the zoo, with its inputs."""

    def built() -> Any:
        return zoo_models.MODELS[name].build().methods["forward"]

    TABLE.add(
        name, lambda: built().module, [[()]], *kinds, draw=lambda _: built().calls[0], **options
    )


BLOCKS: list[zoo_models.Stage] = [(1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (4, 40, 1, 2, 5)]
"""Stages of inverted residuals: fewer than in the original families, to shorten exports."""


def inverted(act: Any, squeeze: bool) -> Any:
    return lambda: zoo_models.mb_net(BLOCKS, 0.5, 10, act, squeeze)


def resnet() -> nn.Module:
    """Build a stem, three basic blocks of which one halves the image, and a head."""
    blocks = [zoo_models.BasicBlock(8, 8, 1), zoo_models.BasicBlock(8, 16, 2)]
    return nn.Sequential(
        zoo_models.conv_bn(3, 8, 7, stride=2),
        nn.MaxPool2d(3, 2, 1),
        *blocks,
        zoo_models.BasicBlock(16, 16, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )


class Mlp(nn.Module):
    """The linear layers of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(32, 64), nn.Linear(64, 32), nn.LayerNorm(32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


CONVS = ("XNNConv2d", "XNNDepthwiseConv2d", "XNNAdd", "XNNGlobalAvgPooling2d")
IMAGE, LINEAR = (1, 3, 32, 32), "XNNFullyConnected"

for name, make, kinds in (
    ("mobilenet_v2", inverted(nn.ReLU6, False), CONVS),
    ("mobilenet_v3", inverted(nn.Hardswish, True), (*CONVS, "XNNHardswish", "XNNSigmoid")),
    ("efficientnet", inverted(nn.SiLU, True), (*CONVS, "XNNSigmoid", "XNNMultiply")),
    ("resnet", resnet, ("XNNConv2d", "XNNMaxPooling2d", "XNNAdd")),
):
    TABLE.add(name, make, IMAGE, *kinds, schemes=["float32"])
TABLE.add(
    "mobilenet_v2",
    inverted(nn.ReLU6, False),
    IMAGE,
    *CONVS,
    schemes=["static_channel"],
    datatypes=("qint8", "qcint8", "qcint32"),
)
TABLE.add(
    "mobilenet_v2",
    inverted(nn.ReLU6, False),
    IMAGE,
    *CONVS,
    schemes=["float16"],
    datatypes=("fp16",),
)
TABLE.add("resnet", resnet, IMAGE, "XNNConv2d", schemes=["static"], datatypes=("qint8", "qint32"))
of_zoo("unet", "XNNConvTranspose2d", "XNNConcatenate2", schemes=["float32"])
for scheme, types in (("float32", ()), ("8da8w", ("qdint8", "qcint8"))):
    of_zoo("vit", LINEAR, schemes=[scheme], datatypes=types)
    of_zoo("bert", LINEAR, schemes=[scheme], datatypes=types)
for scheme, types in (("float32", ()), ("8da4w_32", ("qdint8", "qbint4"))):
    of_zoo("llama", LINEAR, schemes=[scheme], datatypes=types)
of_zoo("lstm", LINEAR, "XNNTanh", "XNNSigmoid", schemes=["float32"])
TABLE.add(
    "mlp",
    Mlp,
    [[(5, 32)], [(1, 32)]],
    LINEAR,
    dims={0: {0: 5}},
    draw=normal,
    schemes=["dynamic_channel"],
    datatypes=("qdint8", "qcint8"),
)


def load(row: Row) -> Lowered:
    """Load a row as xnnpack_flow.load does, but permit operators outside delegates."""
    return xnnpack_flow.cached("model-" + row.id, __file__, lambda: xnnpack_flow.export(row))
