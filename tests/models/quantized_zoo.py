"""Small quantized models through the official flow, without a delegate: PT2E quantisation, static
and dynamic, by tensor and by channel, and patterns of QuantFusionPass. Cached on disk
like the models of the zoo, keyed by this file and by variation.py."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tests import kept, variation
from tests.exports import quantized
from tests.models import blocks
from tests.models.blocks import Classifier, EncoderLayer, MBConv, conv_bn, with_statistics


@dataclass(frozen=True)
class Quantized:
    """A program with one call, eager's outputs, and the limit of each element's error."""

    pte: bytes
    inputs: list[Any]
    wanted: Any
    room: Any


def answered(pte: bytes, model: nn.Module, inputs: tuple[Tensor, ...]) -> Quantized:
    def run() -> list[Any]:
        return [model(*inputs).numpy()]

    (wanted,), step = run(), variation.LAST_PLACES["float32"]
    return Quantized(pte, [i.numpy() for i in inputs], wanted, variation.rooms(run, step)[0])


def convolutions() -> nn.Module:
    """Build convolutions, batch norms, a residual sum, pooling and a linear layer."""
    features = nn.Sequential(conv_bn(3, 8), MBConv(8, 8, 1, 2, 3, nn.ReLU, squeeze=False))
    return with_statistics(Classifier(features, 8, 5))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(20, 30), nn.GELU(), nn.Linear(30, 7))


class Sum(nn.Module):
    """The pattern that QuantFusionPass turns into quantized_decomposed::add."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        ops = torch.ops.quantized_decomposed

        def there_and_back(t: Tensor, scale: float, zero: int) -> Tensor:
            q = ops.quantize_per_tensor.default(t, scale, zero, 0, 255, torch.uint8)
            return ops.dequantize_per_tensor.default(q, scale, zero, 0, 255, torch.uint8)

        return there_and_back(there_and_back(x, 0.05, 100) + there_and_back(y, 0.03, 120), 0.06, 9)


class Tables(nn.Module):
    """Embeddings quantised by torchao to 8, 4 and 2 bits, by row and by group."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes, self.fours, self.twos = (nn.Embedding(10, 64) for _ in range(3))
        self.halves = nn.Embedding(10, 64, dtype=torch.bfloat16)

    def forward(self, at: Tensor) -> Tensor:
        return self.bytes(at) + self.fours(at) * self.twos(at) - self.halves(at).float()


def pt2e(model: nn.Module, inputs: tuple[Tensor, ...], **config: bool) -> Quantized:
    from executorch.exir import EdgeCompileConfig, to_edge

    graph = quantized(model, inputs, **config)
    config_of_edge = EdgeCompileConfig(_check_ir_validity=False)
    edge = to_edge(torch.export.export(graph, inputs), compile_config=config_of_edge)
    return answered(bytes(edge.to_executorch().buffer), graph, inputs)


def fused(model: nn.Module, inputs: tuple[Tensor, ...]) -> Quantized:
    from executorch.exir import EdgeCompileConfig, to_edge
    from executorch.exir.passes.quant_fusion_pass import quant_fusion_and_const_prop_pass

    program = torch.export.export(model.eval(), inputs).run_decompositions({})
    edge = to_edge(program, compile_config=EdgeCompileConfig(_check_ir_validity=False))
    edge._edge_programs["forward"] = quant_fusion_and_const_prop_pass(
        edge._edge_programs["forward"]
    )
    return answered(bytes(edge.to_executorch().buffer), model, inputs)


def tables() -> Quantized:
    from torchao.quantization import IntxWeightOnlyConfig, quantize_
    from torchao.quantization.granularity import PerAxis, PerGroup

    model = Tables()
    for name, dtype, granularity in (
        ("bytes", torch.int8, PerAxis(0)),
        ("fours", torch.int4, PerGroup(32)),
        ("twos", torch.int2, PerGroup(16)),
        ("halves", torch.int4, PerGroup(64)),
    ):
        config = IntxWeightOnlyConfig(weight_dtype=dtype, granularity=granularity)
        quantize_(model, config, lambda _, at, name=name: at == name)
    return fused(model, (torch.tensor([[1, 5, 9], [0, 0, 3]]),))


MODELS: dict[str, Callable[[], Quantized]] = {
    "conv_by_tensor": lambda: pt2e(convolutions(), (torch.randn(2, 3, 8, 8),)),
    "conv_by_channel": lambda: pt2e(
        convolutions(), (torch.randn(2, 3, 8, 8),), is_per_channel=True
    ),
    "mlp_dynamic": lambda: pt2e(mlp(), (torch.randn(3, 20),), is_per_channel=True, is_dynamic=True),
    "mlp_dynamic_by_tensor": lambda: pt2e(mlp(), (torch.randn(3, 20),), is_dynamic=True),
    "attention": lambda: pt2e(EncoderLayer(16, 4), (torch.randn(2, 5, 16),), is_per_channel=True),
    "sum": lambda: fused(Sum(), (torch.randn(3, 4), torch.randn(3, 4))),
    "tables": tables,
}


@torch.no_grad()
def load(name: str) -> Quantized:
    """The model of that name, from the cache where possible."""
    key = kept.digest(
        Path(__file__),
        Path(blocks.__file__),
        Path(variation.__file__),
        packages=("torch", "executorch", "torchao", "numpy"),
    )
    model: Quantized = kept.pickled(f"quantized-{name}-{key}", lambda: make(name))
    return model


def make(name: str) -> Quantized:
    from tests.kernels import quantized_forms  # noqa: F401  (torch's operators and their out forms)

    torch.manual_seed(0)
    return MODELS[name]()
