"""Results of generation: text, tokens, log probabilities, why it ended, and times."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

FinishReason: TypeAlias = Literal["eos", "stop", "length", "context", "cancelled", ""]
"""Why generation ended: an end-of-sequence token, a stop text, max_new_tokens, a full context,
stop() or a closed stream; empty while it runs."""


@dataclass
class RunStats:
    """Counts and times of one generation, in seconds of a monotonic clock."""

    prompt_tokens: int = 0
    """Tokens that this call has prefilled."""
    generated_tokens: int = 0
    """All sampled tokens, the first and an end-of-sequence token included."""
    prefill_seconds: float = 0.0
    decode_seconds: float = 0.0
    """Calls of the program after the first token."""
    sampling_seconds: float = 0.0
    first_token_seconds: float = 0.0
    """From the start of the call to the first token."""
    total_seconds: float = 0.0

    @property
    def prefill_rate(self) -> float:
        """Prefilled tokens per second; 0 without any."""
        return self.prompt_tokens / self.prefill_seconds if self.prefill_seconds else 0.0

    @property
    def decode_rate(self) -> float:
        """Tokens per second after the first; 0 without any."""
        count = max(self.generated_tokens - 1, 0)
        return count / self.decode_seconds if self.decode_seconds and count else 0.0

    def as_dict(self) -> dict[str, float]:
        """Return all figures, for JSON."""
        return {
            **asdict(self),
            "prefill_tokens_per_second": self.prefill_rate,
            "decode_tokens_per_second": self.decode_rate,
        }

    def __str__(self) -> str:
        from executorch_c._render import text as _text  # its imports would delay the first token

        parts = []
        if self.prompt_tokens:
            parts.append(
                f"{_text.plural(self.prompt_tokens, 'prompt token')}, "
                f"{self.prefill_rate:,.0f} tokens/s"
            )
        rate = f", {self.decode_rate:,.0f} tokens/s" if self.decode_rate else ""
        parts.append(f"{_text.plural(self.generated_tokens, 'new token')}{rate}")
        if self.generated_tokens:
            parts.append(f"first token after {_text.seconds(self.first_token_seconds)}")
        return "; ".join(parts)


@dataclass
class Generation:
    """The result of TextRunner.generate. `str(result)` is the text.

    It has no verdict and no table, so it is not an `executorch_c.report.Report`.
    """

    text: str = ""
    """The new text, without the end-of-sequence token, up to a stop text."""
    ids: list[int] = field(default_factory=list)
    """The new tokens, with the end-of-sequence token and all tokens of a stop text."""
    prompt_ids: list[int] = field(default_factory=list)
    """Tokens of this call's prompt."""
    finish_reason: FinishReason = ""
    stats: RunStats = field(default_factory=RunStats)
    logprobs: list[float] | None = None
    """Log probability of each new token by the model's own distribution (temperature 1, without
    penalties and limits), if asked for."""
    top_logprobs: list[list[tuple[int, float]]] | None = None
    """The most likely tokens at each place with their log probabilities, if asked for."""

    def as_dict(self) -> dict[str, Any]:
        """Return all fields, for JSON."""
        figures: dict[str, Any] = {
            "text": self.text,
            "ids": self.ids,
            "prompt_ids": self.prompt_ids,
            "finish_reason": self.finish_reason,
            "stats": self.stats.as_dict(),
        }
        if self.logprobs is not None:
            figures["logprobs"] = self.logprobs
        if self.top_logprobs is not None:
            figures["top_logprobs"] = self.top_logprobs
        return figures

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        from executorch_c._render import text as _text

        shown = _text.shortened(repr(self.text), 60)
        return f"<Generation: {shown}, {self.finish_reason or 'running'}, {self.stats}>"

    def _repr_markdown_(self) -> str:
        return self.text
