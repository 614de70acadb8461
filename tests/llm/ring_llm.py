"""A decoder with a ring of keys: its logits depend on how a sequence is divided into calls, because
a call overwrites entries that its own tokens would read."""

from functools import cache
from typing import Any

import torch
from torch import nn

WINDOW, WIDTH, VOCABULARY, CONTEXT = 8, 16, 50, 40


class Ring(nn.Module):
    """A layer of attention over the last tokens. `fault` "late": keys are one place off."""

    def __init__(self, fault: str = "") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fault = fault
        self.emb = nn.Embedding(VOCABULARY, WIDTH)
        self.q, self.k = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.register_buffer("keys", torch.zeros(WINDOW, WIDTH))
        self.register_buffer("at", torch.full((WINDOW,), -1, dtype=torch.int64))

    def forward(self, tokens: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        x = self.emb(tokens)[0]
        now = position + torch.arange(tokens.shape[1])
        place = (now + 1 if self.fault == "late" else now) % WINDOW
        self.keys.index_copy_(0, place, self.k(x))
        self.at.index_copy_(0, now % WINDOW, now)
        seen = (self.at >= 0) & (self.at <= now[:, None]) & (self.at > now[:, None] - WINDOW)
        scores = (self.q(x) @ self.keys.T).masked_fill(~seen, float("-inf"))
        return ((x + scores.softmax(-1) @ self.keys) @ self.emb.weight.T)[None]


def model(fault: str = "") -> Any:
    return Ring(fault).eval().requires_grad_(False)


@cache
def program(fault: str = "") -> bytes:
    """Return the program of a model, by the official flow."""
    from executorch.exir import ExecutorchBackendConfig, to_edge
    from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass

    sizes = {1: torch.export.Dim("n", min=1, max=WINDOW)}
    example = torch.zeros(1, 3, dtype=torch.int64), torch.tensor([0])
    exported = torch.export.export(model(fault), example, dynamic_shapes=(sizes, None))
    names = {"get_max_seq_len": WINDOW, "get_max_context_len": CONTEXT, "use_kv_cache": True}
    config = ExecutorchBackendConfig(passes=[InitializedMutableBufferPass(["at"])])
    return bytes(to_edge(exported, constant_methods=names).to_executorch(config).buffer)
