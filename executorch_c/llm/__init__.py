"""Language models: run, generate, stream and check exported programs.

    from executorch_c.llm import TextRunner

    runner = TextRunner("model.pte", "tokenizer.json")
    print(runner.generate("Hello", max_new_tokens=20))

Needs NumPy only; tokenizers need their packages (extra `llm`).
"""

from __future__ import annotations

from executorch_c.llm.chat import Chat
from executorch_c.llm.check import check_llm
from executorch_c.llm.check_report import LLMReport
from executorch_c.llm.encoder_decoder import EncoderDecoder
from executorch_c.llm.generation import Stream
from executorch_c.llm.layer_costs import CostReport, quantization_cost
from executorch_c.llm.multimodal import MultimodalRunner
from executorch_c.llm.losses import PerplexityReport, perplexity
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
