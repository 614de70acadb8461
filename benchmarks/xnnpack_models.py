"""Models for `xnnpack`: usual sizes, random weights, quantised and delegated by the official flow.

Add one: a function that returns a module and its inputs, and a row in MODELS.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.common import CACHE
from zoo_models import EFFICIENTNET_B0, MOBILENET_V2, Lambda, Stage, mb_net, resnet18  # of tests/

Made = tuple[nn.Module, tuple[Tensor, ...]]

MOBILENET_V3: list[Stage] = [
    (1, 16, 1, 1, 3), (4, 24, 2, 2, 3), (3, 40, 3, 2, 5), (6, 80, 4, 2, 3), (6, 112, 2, 1, 3),
    (6, 160, 3, 2, 5),
]  # fmt: skip


def image(size: int = 224) -> tuple[Tensor]:
    return (torch.randn(1, 3, size, size),)


def mobilenet_v2() -> Made:
    return mb_net(MOBILENET_V2, 1.0, 1000, nn.ReLU6, squeeze=False), image()


def mobilenet_v3() -> Made:
    return mb_net(MOBILENET_V3, 1.0, 1000, nn.Hardswish, squeeze=True), image()


def efficientnet() -> Made:
    return mb_net(EFFICIENTNET_B0, 1.0, 1000, nn.SiLU, squeeze=True), image()


def resnet() -> Made:
    spec = resnet18(224, 64, 1000)
    return spec.module, spec.calls[0]


class DenseLayer(nn.Module):
    """A layer that appends 32 channels to its input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, 128, 1, bias=False),
            nn.BatchNorm2d(128), nn.ReLU(), nn.Conv2d(128, 32, 3, padding=1, bias=False),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.layers(x)], 1)


def densenet() -> Made:
    """Build DenseNet-121."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64),
                               nn.ReLU(), nn.MaxPool2d(3, 2, 1)]  # fmt: skip
    channels = 64
    for block, count in enumerate((6, 12, 24, 16)):
        if block:
            layers += [nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, channels // 2, 1),
                       nn.AvgPool2d(2)]  # fmt: skip
            channels //= 2
        for _ in range(count):
            layers.append(DenseLayer(channels))
            channels += 32
    layers += [nn.BatchNorm2d(channels), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(channels, 1000)), image()


def deit_tiny() -> Made:
    from transformers import ViTConfig, ViTModel

    net = ViTModel(ViTConfig(hidden_size=192, intermediate_size=768, num_hidden_layers=12,
                             num_attention_heads=3))  # fmt: skip
    return Lambda(lambda x: net(x).pooler_output, net=net), image()


def bert_mini() -> Made:
    from transformers import BertConfig, BertModel

    net = BertModel(BertConfig(hidden_size=256, intermediate_size=1024, num_hidden_layers=4,
                               num_attention_heads=4))  # fmt: skip
    ids, mask = torch.randint(0, 30000, (1, 128)), torch.ones(1, 128, dtype=torch.int64)
    return Lambda(lambda x, m: net(x, m, return_dict=False)[0], net=net), (ids, mask)


def llama(length: int) -> Made:
    from transformers import LlamaConfig, LlamaForCausalLM

    net = LlamaForCausalLM(LlamaConfig(
        vocab_size=4096, hidden_size=288, intermediate_size=768, num_hidden_layers=6,
        num_attention_heads=6, num_key_value_heads=6, max_position_embeddings=256,
    ))  # fmt: skip
    return Lambda(lambda x: net(x, use_cache=False).logits, net=net), (
        torch.randint(0, 4096, (1, length)),
    )


def recurrent(cell: type[nn.LSTM] | type[nn.GRU]) -> Made:
    net = cell(32, 64, batch_first=True)
    return Lambda(lambda x: net(x)[0], net=net), (torch.randn(1, 16, 32),)


# ---- quantisation ----------------------------------------------------------------------------


def float32(module: nn.Module, inputs: tuple[Tensor, ...]) -> nn.Module:
    return module


def static_int8(module: nn.Module, inputs: tuple[Tensor, ...]) -> nn.Module:
    """Quantise with XNNPACKQuantizer: activations by calibration, weights per channel."""
    from executorch.backends.xnnpack.quantizer import xnnpack_quantizer
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    config = xnnpack_quantizer.get_symmetric_quantization_config(is_per_channel=True)
    graph = torch.export.export(module, inputs).module()
    graph = prepare_pt2e(graph, xnnpack_quantizer.XNNPACKQuantizer().set_global(config))
    graph(*inputs)
    return convert_pt2e(graph)


def dynamic(bits: int) -> Callable[[nn.Module, tuple[Tensor, ...]], nn.Module]:
    """Quantise with torchao: activations of linear layers to int8 per token; 4-bit weights by
    groups."""

    def quantize(module: nn.Module, inputs: tuple[Tensor, ...]) -> nn.Module:
        from torchao.quantization import Int8DynamicActivationIntxWeightConfig, quantize_
        from torchao.quantization.granularity import PerAxis, PerGroup

        config = Int8DynamicActivationIntxWeightConfig(
            weight_dtype=getattr(torch, f"int{bits}"),
            weight_granularity=PerAxis(0) if bits == 8 else PerGroup(32),
        )
        quantize_(module, config)
        return module

    return quantize


SCHEMES = {
    "fp32": float32, "int8": static_int8, "8da8w": dynamic(8), "8da4w": dynamic(4),
}  # fmt: skip


# ---- programs --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Model:
    """A model under a scheme; `sequence` marks transformers and recurrent models."""

    name: str
    make: Callable[[], Made]
    scheme: str = "fp32"
    sequence: bool = False

    @property
    def title(self) -> str:
        return f"{self.name}, {self.scheme}"


MODELS = (
    Model("mobilenet_v2", mobilenet_v2),
    Model("mobilenet_v2", mobilenet_v2, "int8"),
    Model("mobilenet_v3", mobilenet_v3),
    Model("efficientnet_b0", efficientnet),
    Model("resnet18", resnet),
    Model("resnet18", resnet, "int8"),
    Model("densenet121", densenet),
    Model("deit_tiny", deit_tiny, sequence=True),
    Model("deit_tiny", deit_tiny, "8da8w", sequence=True),
    Model("bert_mini", bert_mini, sequence=True),
    Model("bert_mini", bert_mini, "8da8w", sequence=True),
    Model("llama_15m, 64 tokens", lambda: llama(64), sequence=True),
    Model("llama_15m, 64 tokens", lambda: llama(64), "8da4w", sequence=True),
    Model("llama_15m, 1 token", lambda: llama(1), "8da4w", sequence=True),
    Model("lstm", lambda: recurrent(nn.LSTM), sequence=True),
    Model("gru", lambda: recurrent(nn.GRU), sequence=True),
)


@torch.no_grad()
def export(model: Model, path: Path) -> None:
    """Write the program and its inputs."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import EdgeCompileConfig, to_edge_transform_and_lower

    torch.manual_seed(0)
    module, inputs = model.make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = SCHEMES[model.scheme](module.eval(), inputs)
        edge = to_edge_transform_and_lower(
            torch.export.export(module, inputs),
            partitioner=[XnnpackPartitioner()],
            compile_config=EdgeCompileConfig(_check_ir_validity=False),
        )
        program = edge.to_executorch().buffer
    np.savez(path.with_suffix(".npz"), *(x.numpy() for x in inputs))
    part = path.with_suffix(".part")
    part.write_bytes(program)
    part.replace(path)


def program(model: Model) -> tuple[Path, list[Any]]:
    """Return a model's file and inputs; export it if this file or the packages have changed."""
    packages = [version(name) for name in ("torch", "executorch", "torchao", "transformers")]
    key = hashlib.sha256(Path(__file__).read_bytes() + repr(packages).encode()).hexdigest()[:8]
    title = model.title.replace(", ", "-").replace(" ", "_")
    CACHE.mkdir(exist_ok=True)
    path = CACHE / f"xnnpack-{title}-{key}.pte"
    if not path.exists():
        export(model, path)
    with np.load(path.with_suffix(".npz")) as file:
        return path, [file[name] for name in file.files]
