"""Small models for CoreMLBackend, whose operators the recorded programs do not have."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as f
from torch import Tensor

LAST, ROWS = torch.tensor([[2, 0, 1, 3]] * 3), torch.tensor([2, 0])

MODELS: dict[str, Callable[[Tensor], Any]] = {
    "extremes": lambda x: (x.argmax(1), x.argmin(0), x.topk(2, 1)[0], x.argsort(1)),
    "gather": lambda x: x.gather(1, LAST) + x[:, LAST[0]],
    "select": lambda x: x.index_select(0, ROWS),
    "scatter": lambda x: x.scatter(1, LAST, x) + x.scatter_add(1, LAST, x),
    "sums": lambda x: (x.cumsum(1), x.prod(1), x.logsumexp(1), x.norm(dim=1), x.abs().sum(0)),
    "parts": lambda x: (x.split(2, 1), torch.stack([x, x]), x.repeat(2, 3), x[:, 1:3]),
    "points": lambda x: (f.gelu(x), x.abs().log(), x.abs().rsqrt(), f.silu(x), f.softplus(x)),
    "points2": lambda x: (f.leaky_relu(x), f.hardsigmoid(x), x.clamp(0, 1), f.elu(x), 1 / x),
    "norms": lambda x: f.layer_norm(x, (4,)) + f.group_norm(x[None], 3)[0],
    "resize": lambda x: f.interpolate(x[None, None], scale_factor=2.0, mode="nearest"),
    "bilinear": lambda x: f.interpolate(x[None, None], size=(6, 5), mode="bilinear"),
    "pad": lambda x: f.pad(x[None, None], (1, 2, 1, 1), mode="reflect"),
    "pool": lambda x: f.avg_pool2d(x[None, None], 2, 1),
    "transposed": lambda x: f.conv_transpose2d(x[None, None], torch.ones(1, 2, 2, 2)),
    "attention": lambda x: f.scaled_dot_product_attention(x[None], x[None], x[None]),
    "product": lambda x: x @ x.T,
}


class _Model(torch.nn.Module):
    def __init__(self, compute: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.compute = compute

    def forward(self, x: Tensor) -> Any:
        return self.compute(x)


def programs() -> Iterator[tuple[str, bytes]]:
    """Yield name and bytes of each program."""
    from tests.models import coreml_zoo

    for name, compute in MODELS.items():
        exported = torch.export.export(_Model(compute).eval(), (torch.randn(3, 4),))
        yield name, bytes(coreml_zoo.lower(exported, 17, False))
