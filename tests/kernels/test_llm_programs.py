"""Small decoders through the official flow: their logits at every step, compared with eager's."""

from collections.abc import Callable
from typing import Any

import executorch.extension.llm.custom_ops.custom_ops  # noqa: F401  (torch.ops.llama)
import numpy as np
import pytest
import torch

from executorch_c import Program, Runtime
from tests.exports import export
from tests.llm.small_llm import recurrent

VOCABULARY, DIM, HEADS, KV_HEADS, CONTEXT, LONGEST = 40, 32, 4, 2, 24, 7
HEAD = DIM // HEADS
STEPS = [5, 1, 1, 7, 2, 1, 1, 1, 4, 1]  # tokens of each call: together as many as CONTEXT
LIMIT = 1e-5  # logits are about 1


class Attention(torch.nn.Module):
    """One layer; `kind` is the cache: by position, by index in a ring, int8, or a state."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self.q, self.out = torch.nn.Linear(DIM, DIM), torch.nn.Linear(DIM, DIM)
        self.k, self.v = (torch.nn.Linear(DIM, KV_HEADS * HEAD) for _ in range(2))
        size = CONTEXT // 2 if kind == "ring" else CONTEXT
        shape = (1, size, KV_HEADS, HEAD)
        for name in ("keys", "values"):
            dtype = torch.int8 if kind == "int8" else torch.float32
            self.register_buffer(name, torch.zeros(shape, dtype=dtype))
            self.register_buffer(f"{name}_scales", torch.ones((*shape[:3], 1)))
        self.register_buffer("state", torch.zeros(1, KV_HEADS, HEAD, HEAD))
        self.register_buffer("ends", torch.zeros(size, dtype=torch.int64))

    def forward(self, x: torch.Tensor, pos: torch.Tensor) -> torch.Tensor:
        n = x.shape[1]
        q = self.q(x).view(1, n, HEADS, HEAD)
        k, v = (layer(x).view(1, n, KV_HEADS, HEAD) for layer in (self.k, self.v))
        start = pos[0].item()
        torch._check(start >= 0)
        torch._check(start < CONTEXT)
        return self.out(getattr(self, f"by_{self.kind}")(q, k, v, start, pos).reshape(1, n, DIM))

    def by_position(self, q: Any, k: Any, v: Any, start: int, pos: Any) -> torch.Tensor:
        torch.ops.llama.update_cache(k, self.keys, start)
        torch.ops.llama.update_cache(v, self.values, start)
        return torch.ops.llama.custom_sdpa(q, self.keys, self.values, start, None, 0, True)

    def by_ring(self, q: Any, k: Any, v: Any, start: int, pos: Any) -> torch.Tensor:
        at = torch.arange(q.shape[1]) + start
        places = at % self.ends.shape[0]
        self.ends.index_copy_(0, places, at + 1)  # 0: empty
        torch.ops.llama.update_cache_with_indices(k, self.keys, start, places[None])
        torch.ops.llama.update_cache_with_indices(v, self.values, start, places[None])
        seen = self.ends[None] - 1
        hidden = (seen < 0) | (seen > at[:, None]) | (seen <= at[:, None] - 5)
        mask = torch.zeros(hidden.shape).masked_fill(hidden, -torch.inf)
        return torch.ops.llama.custom_sdpa(q, self.keys, self.values, 0, mask, 0, False)

    def by_int8(self, q: Any, k: Any, v: Any, start: int, pos: Any) -> torch.Tensor:
        parts = []
        for t, name in ((q, ""), (k, "keys"), (v, "values")):
            scales = t.abs().amax(-1, keepdim=True).clamp(min=1e-6) / 127
            whole = (t / scales).round().to(torch.int8)
            if name:
                cache, kept = getattr(self, name), getattr(self, f"{name}_scales")
                torch.ops.llama.update_cache(whole, cache, start)
                torch.ops.llama.update_cache(scales, kept, start)
                whole, scales = cache, kept
            parts.append((whole, torch.zeros_like(scales, dtype=torch.int8), scales))
        parameters = [p for part in parts for p in part[1:]]
        return torch.ops.llama.custom_quantized_sdpa(
            *(p[0] for p in parts), start, None, 0.0, True, None, *parameters, False
        )

    def by_state(self, q: Any, k: Any, v: Any, start: int, pos: Any) -> torch.Tensor:
        return recurrent(q, k, v, self.state)


class Decoder(torch.nn.Module):
    """Two layers of attention between an embedding and logits of all positions."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = torch.nn.Embedding(VOCABULARY, DIM)
        self.layers = torch.nn.ModuleList(Attention(kind) for _ in range(2))
        self.head = torch.nn.Linear(DIM, VOCABULARY)

    def forward(self, tokens: torch.Tensor, pos: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = x + layer(torch.nn.functional.rms_norm(x, (DIM,)), pos)
        return self.head(x)


KINDS = ("position", "ring", "int8", "state")
USED = {
    "position": ["custom_sdpa", "update_cache"],
    "int8": ["custom_quantized_sdpa"],
    "ring": ["update_cache_with_indices"],
    "state": ["gated_delta_rule"],
}


def program_of(kind: str) -> Program:
    tokens, pos = torch.zeros(1, 4, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)
    shapes = {"tokens": {1: torch.export.Dim("n", min=1, max=LONGEST)}, "pos": None}
    return Runtime.get().load_program(export(Decoder(kind), tokens, pos, dynamic_shapes=shapes))


def differences(kind: str, execute: Callable[[list[Any]], Any]) -> list[float]:
    """Return the largest difference from eager's logits for each call."""
    eager, rng, found, at = Decoder(kind), np.random.default_rng(0), [], 0
    for n in STEPS:
        tokens, pos = rng.integers(0, VOCABULARY, (1, n)), np.array([at])
        with torch.no_grad():
            wanted = eager(torch.from_numpy(tokens), torch.from_numpy(pos)).numpy()
        logits = execute([tokens, pos])[0]
        assert np.isfinite(wanted).all() and logits.shape == wanted.shape
        found.append(float(np.abs(logits - wanted).max()))
        at += n
    assert at == CONTEXT
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_every_step(kind: str) -> None:
    program = program_of(kind)
    assert {f"llama::{n}.out" for n in USED[kind]} <= set(program.requirements()["operators"])
    for kernels in ("default", "reference"):
        method = program.load_method("forward", kernels=kernels)
        assert max(differences(kind, method.execute)) < LIMIT


@pytest.mark.parametrize("kind", KINDS)
def test_a_lost_step_is_seen(kind: str) -> None:
    """Planted fault: one call does not reach the caches, so that later logits differ."""
    method, calls = program_of(kind).load_method("forward"), []

    def forget(inputs: list[Any]) -> Any:
        calls.append(inputs)
        if len(calls) == 2:
            return [np.zeros((1, inputs[0].shape[1], VOCABULARY), np.float32)]
        return method.execute(inputs)

    assert max(differences(kind, forget)[2:]) > 10 * LIMIT


def test_beyond_the_context() -> None:
    """A call that does not fit is an error, and leaves the caches as they are."""
    method = program_of("position").load_method("forward")
    one, at = np.zeros((1, 1), np.int64), np.zeros(1, np.int64)
    first = method.execute([one, at])[0].copy()
    for start, n in ((CONTEXT, 1), (CONTEXT - 1, 2), (-1, 1), (2**62, 1)):
        with pytest.raises(Exception, match=r"update_cache.*start_pos.*positions in \[0, 24\)"):
            method.execute([np.zeros((1, n), np.int64), np.array([start])])
    np.testing.assert_array_equal(method.execute([one, at])[0], first)
