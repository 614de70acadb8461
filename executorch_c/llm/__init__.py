"""Language models: run, generate, stream and check exported programs.

    from executorch_c.llm import TextRunner

    runner = TextRunner("model.pte", "tokenizer.json")
    print(runner.generate("Hello", max_new_tokens=20))

Needs NumPy only; tokenizers need their packages (extra `llm`).
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from executorch_c.llm.chat import Chat
    from executorch_c.llm.check import check_llm
    from executorch_c.llm.check_report import LLMReport
    from executorch_c.llm.encoder_decoder import EncoderDecoder
    from executorch_c.llm.generation import Stream
    from executorch_c.llm.kv_cache import KVCache
    from executorch_c.llm.layer_costs import CostReport, quantization_cost
    from executorch_c.llm.losses import PerplexityReport, perplexity
    from executorch_c.llm.multimodal import MultimodalRunner
    from executorch_c.llm.result import Generation, RunStats
    from executorch_c.llm.runner import TextRunner
    from executorch_c.llm.sampling import DefaultSampler, OfficialSampler, Sampling
    from executorch_c.llm.state import Snapshot
    from executorch_c.llm.tokenizers import Tokenizer, open_tokenizer

__all__ = [
    "Chat",
    "CostReport",
    "DefaultSampler",
    "EncoderDecoder",
    "Generation",
    "KVCache",
    "LLMReport",
    "MultimodalRunner",
    "OfficialSampler",
    "PerplexityReport",
    "RunStats",
    "Sampling",
    "Snapshot",
    "Stream",
    "TextRunner",
    "Tokenizer",
    "check_llm",
    "open_tokenizer",
    "perplexity",
    "quantization_cost",
]

_MODULES = {
    "chat": ("Chat",),
    "check": ("check_llm",),
    "check_report": ("LLMReport",),
    "encoder_decoder": ("EncoderDecoder",),
    "generation": ("Stream",),
    "kv_cache": ("KVCache",),
    "layer_costs": ("CostReport", "quantization_cost"),
    "multimodal": ("MultimodalRunner",),
    "losses": ("PerplexityReport", "perplexity"),
    "result": ("Generation", "RunStats"),
    "runner": ("TextRunner",),
    "sampling": ("DefaultSampler", "OfficialSampler", "Sampling"),
    "state": ("Snapshot",),
    "tokenizers": ("Tokenizer", "open_tokenizer"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

if not _TYPE_CHECKING:  # unknown names are errors of types

    def __getattr__(name: str) -> object:
        """Import a name at its first use: running a model needs no module of checks."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = _import_module(f"{__name__}.{_HOMES[name]}")
        return globals().setdefault(name, getattr(module, name))

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
