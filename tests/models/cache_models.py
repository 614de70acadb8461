"""Six small models whose attention is kvcache::update_and_attend, with eager's cache for each."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from executorch.extension.llm.cache.reference_cache import (
    CacheConfig,
    ContiguousReferenceCache,
    LayerPolicy,
)
from executorch.extension.llm.cache.update_and_attend import REGISTRY, update_and_attend
from torch import Tensor, nn

WIDTH, HEAD, LENGTH, CAPACITY, VOCABULARY = 32, 8, 6, 16, 32
KEY = "cache_models"


@dataclass(frozen=True)
class Shape:
    """Heads and windows of a model, and what is beside its attention."""

    heads: int = 4
    kv_heads: int = 4
    windows: tuple[int, ...] = (0,)
    """Window of each layer; 0: it keeps all positions."""
    is_fused: bool = False
    """One product makes queries, keys and values."""
    is_gated: bool = False
    """A gated product after the attention."""
    has_tokens: bool = False
    """The input is tokens of an embedding; else its values."""


class Attention(nn.Module):
    """Attention of a layer, between its products."""

    def __init__(self, shape: Shape, layer: int) -> None:
        super().__init__()
        self.layer, self.counts = layer, (shape.heads, shape.kv_heads, shape.kv_heads)
        sizes = [count * HEAD for count in self.counts]
        self.sizes = sizes
        joined = [sum(sizes)] if shape.is_fused else sizes
        self.projections = nn.ModuleList(nn.Linear(WIDTH, size) for size in joined)
        self.out = nn.Linear(sizes[0], WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        parts = torch.cat([f(x) for f in self.projections], -1).split(self.sizes, -1)
        q, k, v = (
            part.view(1, n, count, HEAD).transpose(1, 2)
            for part, count in zip(parts, self.counts, strict=True)
        )
        y = update_and_attend(q, k, v, torch.arange(n)[:, None], self.layer, 0.35, x.dtype)
        return self.out(y.transpose(1, 2).reshape(1, n, -1))


class Model(nn.Module):
    """Layers of attention with a residual, between an embedding and a head."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        make = nn.Embedding(VOCABULARY, WIDTH) if shape.has_tokens else nn.Linear(16, WIDTH)
        self.embed, self.head = make, nn.Linear(WIDTH, 12)
        self.layers = nn.ModuleList(Attention(shape, i) for i in range(len(shape.windows)))
        self.gate = nn.Linear(WIDTH, WIDTH) if shape.is_gated else None

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        for layer in self.layers:
            x = x + layer(x)
        if self.gate is not None:
            x = x * nn.functional.silu(self.gate(x))
        return self.head(x)


MODELS = {
    "attention": Shape(),
    "decoder": Shape(has_tokens=True),
    "grouped": Shape(kv_heads=2, has_tokens=True),
    "fused": Shape(kv_heads=1, is_fused=True),
    "window": Shape(windows=(3,), is_gated=True),
    "layers": Shape(kv_heads=2, windows=(0, 4), has_tokens=True),
}


def make(name: str) -> tuple[nn.Module, list[Tensor]]:
    """Return a model and inputs; the same ones in each process."""
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        model = Model(MODELS[name]).eval()
        for layer in model.modules():
            if isinstance(layer, nn.Linear):
                layer.weight.mul_(torch.randn(len(layer.weight), 1).mul(0.4).exp())
        if MODELS[name].has_tokens:
            return model, [torch.randint(0, VOCABULARY, (1, LENGTH)) for _ in range(4)]
        return model, [torch.randn(1, LENGTH, 16) for _ in range(4)]


@contextmanager
def cache(name: str) -> Iterator[None]:
    """Have an empty cache for a model active in eager's registry."""
    shape = MODELS[name]
    layers = [LayerPolicy.ring(n) if n else LayerPolicy.flat() for n in shape.windows]
    config = CacheConfig(len(layers), shape.kv_heads, HEAD, CAPACITY, layers=layers)
    REGISTRY.install(KEY, ContiguousReferenceCache(config))
    try:
        with REGISTRY.active(KEY):
            yield
    finally:
        REGISTRY.uninstall(KEY)
