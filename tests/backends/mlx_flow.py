"""The flow of MLX: models, and their programs."""

import warnings
from typing import Any

import torch
from torch import nn

from executorch_c.check import lowering, mlx_bindings
from tests.models.blocks import EncoderLayer

mlx_bindings.install()

from executorch.backends.mlx import custom_ops  # noqa: E402, F401  torch.ops.mlx
from executorch.backends.mlx.custom_kernel_ops import gated_delta_rule  # noqa: E402, F401

Inputs = tuple[Any, ...]


def export(model: nn.Module, inputs: Inputs, **options: Any) -> bytes:
    """Return the bytes of a program."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        exported = torch.export.export(model.eval(), inputs, **options)
        return bytes(lowering.mlx(exported, "forward").buffer)


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.depthwise, self.up = nn.Conv2d(4, 4, 3, groups=4), nn.ConvTranspose2d(4, 2, 2, 2)
        self.line = nn.Conv1d(2, 3, 3, padding=2, dilation=2)
        with torch.no_grad():
            self.norm.running_mean.normal_()
            self.norm.running_var.uniform_(0.5, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.max_pool2d(self.norm(self.first(x)).relu(), 2)
        return self.line(self.up(self.depthwise(x)).flatten(2)).softmax(-1)


class Decoder(nn.Module):
    """A layer of a language model: rotation, and keys and values in mutable buffers."""

    def __init__(self, capacity: int = 8) -> None:
        super().__init__()
        self.embedding, self.norm = nn.Embedding(32, 16), nn.RMSNorm(16, eps=1e-5)
        self.q, self.k, self.v = nn.Linear(16, 16), nn.Linear(16, 8), nn.Linear(16, 8)
        self.out = nn.Linear(16, 32, bias=False)
        self.capacity = capacity
        self.register_buffer("keys", torch.zeros(1, 2, capacity, 4))
        self.register_buffer("values", torch.zeros(1, 2, capacity, 4))

    def forward(self, tokens: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        start = position[0].item()
        torch._check(start >= 0)
        torch._check(start + tokens.shape[1] <= self.capacity)
        x = self.norm(self.embedding(tokens))
        count = x.shape[1]
        q, k, v = (f(x).view(1, count, -1, 4).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k = (torch.ops.mlx.rope(t, 4, start, False, 1e4, 1.0, None) for t in (q, k))
        torch.ops.mlx.kv_cache_update(self.keys, k, start)
        torch.ops.mlx.kv_cache_update(self.values, v, start)
        y = torch.ops.mlx.custom_sdpa(q, self.keys, self.values, start, is_causal=True, scale=0.5)
        return self.out(y.transpose(1, 2).reshape(1, count, 16))


class Greedy(nn.Module):
    """A choice by the temperature: the branch for 0 needs no random numbers."""

    def forward(self, x: torch.Tensor, temperature: torch.Tensor) -> torch.Tensor:
        top_k, top_p = torch.tensor(4), torch.tensor(1.0)
        return torch.ops.mlx.sample(x * 2, temperature, top_k, top_p, torch.tensor(1))


class Scanned(nn.Module):
    """A loop over time with a state that it carries."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(1, 2, 3, 4))

    def forward(self, q: torch.Tensor, v: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        return torch.ops.mlx.gated_delta_rule(q, q * 0.5, v, gate, gate * 0.5, self.state, False)


def quantized(model: nn.Module, **config: Any) -> nn.Module:
    """Return a model with packed weights."""
    from executorch.extension.llm.export.quantize import quantize_model_

    quantize_model_(model, **config)
    return model


def models() -> dict[str, tuple[nn.Module, Inputs]]:
    """Return models and inputs by name."""
    torch.manual_seed(0)

    def layers() -> nn.Sequential:
        return nn.Sequential(nn.Linear(12, 20), nn.GELU(), nn.LayerNorm(20), nn.Linear(20, 7))

    packed = nn.Sequential(nn.Embedding(16, 64), nn.Linear(64, 32), nn.Linear(32, 8, bias=False))
    config = {"qlinear_config": "4w", "qlinear_group_size": 32}
    config |= {"qembedding_config": "4w", "qembedding_group_size": 32}
    return {
        "mlp": (layers(), (torch.randn(3, 12),)),
        "mlp_fp16": (layers().half(), (torch.randn(3, 12).half(),)),
        "cnn": (Convolutions(), (torch.randn(1, 3, 8, 8),)),
        "attention": (
            nn.Sequential(nn.Embedding(30, 16), EncoderLayer(16, 2, -1e9)),
            (torch.randint(0, 30, (2, 5)),),
        ),
        "decoder": (Decoder(), (torch.tensor([[1, 5, 9]]), torch.tensor([0]))),
        "greedy": (Greedy(), (torch.randn(2, 9), torch.tensor(0.0))),
        "packed_4w": (quantized(packed, **config), (torch.tensor([[1, 3, 15]]),)),
        "scan": (
            Scanned(),
            (torch.randn(1, 5, 2, 4), torch.randn(1, 5, 2, 3), torch.rand(1, 5, 2)),
        ),
    }
