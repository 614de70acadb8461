"""Whole models through the official XNNPACK flow: those of the zoo, in float and quantised.

Small configurations of the well-known families with seeded weights. Operators outside delegates
run on the kernels; `python -m tests.backends.xnnpack_flow xnnpack_models` lists them.
"""

from typing import Any

import torch
from torch import nn

from tests.backends.xnnpack_flow import Rows
from tests.models import blocks, zoo_models

TABLE = Rows(__file__, delegates=None, is_whole=False)


def of_zoo(name: str) -> tuple[Any, Any]:
    """Return a model of the zoo, and its inputs, as functions."""

    def built() -> Any:
        return zoo_models.MODELS[name].build().methods["forward"]

    return lambda: built().module, lambda _: built().calls[0]


BLOCKS: list[blocks.Stage] = [(1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (4, 40, 1, 2, 5)]
"""Stages of inverted residuals: fewer than in the original families, to shorten exports."""


def inverted(act: Any, squeeze: bool) -> Any:
    return lambda: blocks.with_statistics(blocks.inverted(BLOCKS, 0.5, 10, act, squeeze))


def resnet() -> nn.Module:
    """Build a stem, three basic blocks of which one halves the image, and a head."""
    return blocks.with_statistics(blocks.resnet(8, 10, (1, 2)))


class Mlp(nn.Module):
    """The linear layers of a transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(32, 64), nn.Linear(64, 32), nn.LayerNorm(32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


CONVS, FLOAT = ("Conv2d", "DepthwiseConv2d", "Add", "GlobalAvgPooling2d"), ("float32",)
IMAGE, LINEAR = (1, 3, 32, 32), "FullyConnected"

for name, make, kinds, schemes in (
    ("mobilenet_v2", inverted(nn.ReLU6, False), CONVS, ("float32", "static_channel", "float16")),
    ("mobilenet_v3", inverted(nn.Hardswish, True), (*CONVS, "Hardswish", "Sigmoid"), FLOAT),
    ("efficientnet", inverted(nn.SiLU, True), (*CONVS, "Sigmoid", "Multiply"), FLOAT),
    ("resnet", resnet, ("Conv2d", "MaxPooling2d", "Add"), ("float32", "static")),
):
    TABLE.add(name, make, IMAGE, *kinds, schemes=schemes)
for name, kinds, schemes in (
    ("unet", ("ConvTranspose2d", "Concatenate2"), FLOAT),
    ("vit", (LINEAR,), ("float32", "8da8w")),
    ("bert", (LINEAR,), ("float32", "8da8w")),
    ("llama", (LINEAR,), ("float32", "8da4w_32")),
    ("lstm", (LINEAR, "Tanh", "Sigmoid"), FLOAT),
):
    make, calls = of_zoo(name)
    TABLE.add(name, make, [[()]], *kinds, schemes=schemes, draw=calls)
TABLE.add("mlp", Mlp, [[(5, 32)], [(1, 32)]], LINEAR, schemes=["dynamic_channel"])
