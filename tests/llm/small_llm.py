"""Small decoders and tokenizers for the tests of executorch_c.llm, through the official flow."""

from pathlib import Path
from typing import Any

import executorch.extension.llm.custom_ops.custom_ops  # noqa: F401  (torch.ops.llama)
import numpy as np
import torch

from executorch_c.llm import LLMReport
from tests import kept
from tests.exports import manager

VOCABULARY, DIM, HEADS, KV_HEADS = 320, 32, 4, 2
HEAD = DIM // HEADS
CONTEXT, LONGEST, RING, WINDOW = 48, 15, 24, 9  # RING: window and longest call together
BOS, EOS = 1, (2, 3)
KINDS = ("position", "ring", "recurrent", "none")
TEXT = "The quick brown fox jumps over the lazy dog. Ein Größenmaß für Übermut: süß! 日本語 🙂 " * 4


def recurrent(q: Any, k: Any, v: Any, buffer: torch.Tensor) -> torch.Tensor:
    """Return the gated delta rule of all heads, and update the state in `buffer`."""
    k = k / (1 + k.norm(dim=-1, keepdim=True))
    q, k, v = (t.transpose(1, 2).contiguous() for t in (q, k, v))
    decay, beta = torch.sigmoid(k[..., 0]), torch.sigmoid(k[..., 1])
    out, state = torch.ops.llama.gated_delta_rule(q, k, v, decay, beta, buffer)
    buffer.copy_(state)
    return out.transpose(1, 2)


class Attention(torch.nn.Module):
    """Attention of one layer.

    `kind` is the cache: by position, of int8, by index in a ring, a recurrent state, or none.
    `fault` "forgets" attends to the tokens of the call alone, as in a decoder whose export traced
    the path of a first prompt.
    """

    def __init__(self, kind: str, fault: str) -> None:
        super().__init__()
        self.kind, self.fault = kind, fault
        self.q, self.out = torch.nn.Linear(DIM, DIM), torch.nn.Linear(DIM, DIM)
        self.k, self.v = (torch.nn.Linear(DIM, KV_HEADS * HEAD) for _ in range(2))
        size = RING if kind == "ring" else CONTEXT
        for name in ("keys", "values") if kind in ("position", "ring", "int8") else ():
            dtype = torch.int8 if kind == "int8" else torch.float32
            self.register_buffer(name, torch.zeros(1, size, KV_HEADS, HEAD, dtype=dtype))
            if kind == "int8":
                self.register_buffer(f"{name}_scales", torch.ones(1, size, KV_HEADS, 1))
        if kind == "ring":
            self.register_buffer("ends", torch.zeros(size, dtype=torch.int64))
        if kind == "recurrent":
            self.register_buffer("state", torch.zeros(1, KV_HEADS, HEAD, HEAD))

    def forward(self, x: torch.Tensor, start: Any) -> torch.Tensor:
        n = x.shape[1]
        q = self.q(x).view(1, n, HEADS, HEAD)
        k, v = (layer(x).view(1, n, KV_HEADS, HEAD) for layer in (self.k, self.v))
        if self.fault == "forgets":
            result = torch.ops.llama.custom_sdpa(q, k, v, 0, None, 0, True)
        else:
            result = getattr(self, f"by_{self.kind}")(q, k, v, start)
        return self.out(result.reshape(1, n, DIM))

    def by_none(self, q: Any, k: Any, v: Any, start: Any) -> torch.Tensor:
        return torch.ops.llama.custom_sdpa(q, k, v, 0, None, 0, True)

    def by_position(self, q: Any, k: Any, v: Any, start: Any) -> torch.Tensor:
        torch.ops.llama.update_cache(k, self.keys, start)
        torch.ops.llama.update_cache(v, self.values, start)
        return torch.ops.llama.custom_sdpa(q, self.keys, self.values, start, None, 0, True)

    def by_int8(self, q: Any, k: Any, v: Any, start: Any) -> torch.Tensor:
        parts = []
        for t, name in ((q, ""), (k, "keys"), (v, "values")):
            scales = t.abs().amax(-1, keepdim=True).clamp(min=1e-6) / 127
            whole = (t / scales).round().to(torch.int8)
            if name:
                cache, kept_scales = getattr(self, name), getattr(self, f"{name}_scales")
                torch.ops.llama.update_cache(whole, cache, start)
                torch.ops.llama.update_cache(scales, kept_scales, start)
                whole, scales = cache, kept_scales
            parts.append((whole, torch.zeros_like(scales, dtype=torch.int8), scales))
        parameters = [p for part in parts for p in part[1:]]
        return torch.ops.llama.custom_quantized_sdpa(
            *(p[0] for p in parts), start, None, 0.0, True, None, *parameters, False
        )

    def by_ring(self, q: Any, k: Any, v: Any, start: Any) -> torch.Tensor:
        at = torch.arange(q.shape[1]) + start
        places = at % RING
        self.ends.index_copy_(0, places, at + 1)  # 0: empty
        torch.ops.llama.update_cache_with_indices(k, self.keys, start, places[None])
        torch.ops.llama.update_cache_with_indices(v, self.values, start, places[None])
        seen = self.ends[None] - 1
        hidden = (seen < 0) | (seen > at[:, None]) | (seen <= at[:, None] - WINDOW)
        mask = torch.zeros(hidden.shape).masked_fill(hidden, -torch.inf)
        return torch.ops.llama.custom_sdpa(q, self.keys, self.values, 0, mask, 0, False)

    def by_recurrent(self, q: Any, k: Any, v: Any, start: Any) -> torch.Tensor:
        return recurrent(q, k, v, self.state)


class Decoder(torch.nn.Module):
    """Two layers between an embedding and logits of the last position, or of all."""

    def __init__(self, kind: str = "position", every: bool = False, fault: str = "") -> None:
        super().__init__()
        generator = torch.random.get_rng_state()
        torch.manual_seed(0)
        self.kind, self.every = kind, every
        self.embed = torch.nn.Embedding(VOCABULARY, DIM)
        self.layers = torch.nn.ModuleList(Attention(kind, fault) for _ in range(2))
        self.up, self.down = torch.nn.Linear(DIM, 64), torch.nn.Linear(64, DIM)
        self.head = torch.nn.Linear(DIM, VOCABULARY)
        with torch.no_grad():
            self.head.weight.mul_(3)  # logits of a trained model: peaked
            if fault == "nan":
                self.up.weight[3, 5] = torch.nan
            if fault == "scale":
                self.down.weight.mul_(4)
        torch.random.set_rng_state(generator)

    def forward(self, tokens: torch.Tensor, pos: torch.Tensor | None = None) -> torch.Tensor:
        start: Any = 0
        if pos is not None:
            start = pos[0].item()
            torch._check(start >= 0)
            torch._check(start < CONTEXT)
        x = self.embed(tokens)
        for layer in self.layers:
            x = x + layer(torch.nn.functional.rms_norm(x, (DIM,)), start)
        x = x + self.down(torch.relu(self.up(torch.nn.functional.rms_norm(x, (DIM,)))))
        x = torch.nn.functional.rms_norm(x, (DIM,))
        return self.head(x if self.every else x[:, -1])


def constants(**more: Any) -> dict[str, Any]:
    results = {
        "get_max_seq_len": LONGEST + 1,
        "get_max_context_len": CONTEXT,
        "get_bos_id": BOS,
        "get_eos_ids": list(EOS),
        "get_vocab_size": VOCABULARY,
        "use_kv_cache": True,
        "enable_dynamic_shape": True,
    }
    return {name: value for name, value in {**results, **more}.items() if value is not None}


def _write(
    kind: str, positions: str, every: bool, fault: str, static: bool, more: dict[str, Any]
) -> bytes:
    longest = CONTEXT if kind == "none" else LONGEST
    n = torch.export.Dim("n", min=1, max=longest)
    count = 1 if static else 4
    inputs: list[Any] = [torch.zeros(1, count, dtype=torch.int64)]
    shapes: list[Any] = [None if static else {1: n}]
    if kind != "none":
        each = positions == "each"
        inputs.append(torch.arange(count if each else 1))
        shapes.append({0: n} if each and not static else None)
    model = Decoder(kind, every, fault)
    return manager(
        {"forward": (model, inputs)}, dynamic_shapes=tuple(shapes), constants=constants(**more)
    ).buffer


def program(
    kind: str = "position",
    *,
    positions: str = "first",
    every: bool = False,
    fault: str = "",
    static: bool = False,
    **more: Any,
) -> Path:
    """Return the path of an exported decoder, made once. `more`: constants to change."""
    what = (kind, positions, every, fault, static, more)
    name = kept.digest(Path(__file__), what, packages=("torch", "executorch"))
    return kept.file(f"llm/{kind}-{name}.pte", lambda path: path.write_bytes(_write(*what)))


def _write_pair(shared: bool) -> bytes:
    from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge
    from executorch.exir.passes import MemoryPlanningPass

    model = Decoder().eval()
    n = torch.export.Dim("n", min=2, max=LONGEST)
    one, several = (torch.zeros(1, k, dtype=torch.int64) for k in (1, 4))
    at = torch.zeros(1, dtype=torch.int64)
    with torch.no_grad():
        programs = {
            "prefill": torch.export.export(model, (several, at), dynamic_shapes=({1: n}, None)),
            "decode": torch.export.export(model, (one, at)),
        }
    edge = to_edge(
        programs,
        constant_methods=constants(),
        compile_config=EdgeCompileConfig(_check_ir_validity=False),
    )
    planner = MemoryPlanningPass(share_mutable_buffers=shared)
    config = ExecutorchBackendConfig(memory_planning_pass=planner, emit_mutable_buffer_names=True)
    return edge.to_executorch(config).buffer


def pair(shared: bool = True) -> Path:
    """Return the path of a program with the methods "prefill" and "decode"."""
    name = kept.digest(Path(__file__), "pair", shared, packages=("torch", "executorch"))
    return kept.file(f"llm/pair-{name}.pte", lambda path: path.write_bytes(_write_pair(shared)))


def ids(count: int, seed: int = 0) -> list[int]:
    """Return random tokens without special ones."""
    return np.random.default_rng(seed).integers(4, VOCABULARY, count).tolist()


@torch.no_grad()
def eager(kind: str, tokens: list[int]) -> np.ndarray:
    """Return eager's logits after each token, by single tokens from an empty state."""
    model = Decoder(kind)
    if kind == "none":
        rows = [model(torch.tensor([tokens[: i + 1]])) for i in range(len(tokens))]
    else:
        rows = [model(torch.tensor([[t]]), torch.tensor([i])) for i, t in enumerate(tokens)]
    return torch.cat(rows).numpy()


def tokenizer_json(folder: Path, size: int = 300, **options: Any) -> Path:
    """Return the path of a byte-level BPE in Hugging Face's format, trained on a few words."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    special = options.get("special", ["<unk>", "<s>", "</s>", "<|eot|>"])
    inner.train_from_iterator(
        [TEXT],
        trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=special,
            show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        ),
    )
    if options.get("bos", True):
        inner.post_processor = processors.TemplateProcessing(
            single="<s> $A", special_tokens=[("<s>", 1)]
        )
    path = folder / "tokenizer.json"
    inner.save(str(path))
    return path


def differing(report: LLMReport) -> set[str]:
    """Return the cases that differ."""
    return {row.case for row in report if row.verdict == "differ"}


def first_of(report: LLMReport) -> Any:
    """Return the operator where the program begins to differ from the model."""
    assert report.explanation is not None and report.explanation.first is not None, report.notes
    return report.explanation.first
