"""One generation: prefill, sample, decode, until something ends it."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from executorch_c.llm._numbers import check_type
from executorch_c.llm.detokenize import Detokenizer, StopTexts
from executorch_c.llm.result import FinishReason, Generation
from executorch_c.llm.sampling import (
    Sampler,
    SamplerName,
    Sampling,
    check_finite,
    log_softmax,
    make_sampler,
)

if TYPE_CHECKING:
    from executorch_c._arrays import Array
    from executorch_c.llm.runner import TextRunner

MAX_LOGPROBS = 1000


@dataclass(frozen=True)
class GenerationOptions:
    """Arguments of TextRunner.stream."""

    max_new_tokens: int | None
    stop: str | Sequence[str]
    logprobs: bool | int
    ignore_eos: bool
    rules: Sampling
    sampler: SamplerName | Sampler

    def __post_init__(self) -> None:
        if self.max_new_tokens is not None:
            check_type("max_new_tokens", self.max_new_tokens)
        check_type("logprobs", self.logprobs)
        if self.max_new_tokens is not None and self.max_new_tokens < 1:
            raise ValueError(f"`max_new_tokens` is {self.max_new_tokens}, expected 1 or more")
        if not 0 <= int(self.logprobs) <= MAX_LOGPROBS:
            raise ValueError(f"`logprobs` is {self.logprobs}, expected at most {MAX_LOGPROBS}")


class Stream(Iterator[str]):
    """Pieces of a generated text. `result` has text, tokens and statistics so far."""

    def __init__(self, runner: TextRunner, ids: list[int], options: GenerationOptions) -> None:
        self._runner, self._options = runner, options
        self.result = Generation(prompt_ids=ids)
        tokenizer = runner.tokenizer
        size = tokenizer.vocab_size if tokenizer is not None else None
        self._sample = make_sampler(options.rules, options.sampler, size)
        self._stops = StopTexts(options.stop)
        if self._stops.texts and tokenizer is None:
            raise ValueError("`stop` needs a tokenizer: TextRunner(program, tokenizer=...)")
        if options.logprobs:
            self.result.logprobs = []
        if options.logprobs and options.logprobs is not True:
            self.result.top_logprobs = []
        if not ids and not runner._pending and runner._logits is None:
            raise ValueError("an empty prompt: expected at least 1 token, or prefill() before")
        runner._check_room(len(ids) + len(runner._pending))
        self._chosen: list[int] = []
        """The runner's pending tokens after the last choice."""
        self._pieces = self._run()

    def __next__(self) -> str:
        return next(self._pieces)

    def close(self) -> None:
        """End the generation. The runner keeps the tokens so far."""
        self._pieces.close()

    # ---- the loop -----------------------------------------------------------------------------

    def _run(self) -> Generator[str, None, None]:
        runner, result = self._runner, self.result
        started = perf_counter()
        runner._stopped = False
        try:
            with runner._session.lock:
                token = self._choose(self._prefill())
                detokenizer = self._detokenizer()
            while True:
                if len(result.ids) == 1:
                    result.stats.first_token_seconds = perf_counter() - started
                reason = self._end_at(token)
                if reason != "eos" and detokenizer is not None:
                    piece = self._stops.add(detokenizer.add(token))
                    result.text += piece
                    if piece:
                        yield piece
                reason = "stop" if self._stops.stop is not None else reason or self._asked()
                if reason:
                    result.finish_reason = reason
                    break
                with runner._session.lock:
                    token = self._choose(self._decode(token))
            if detokenizer is not None and self._stops.stop is None:
                rest = self._stops.add(detokenizer.end()) + self._stops.end()
                result.text += rest
                if rest:
                    yield rest
        finally:
            result.finish_reason = result.finish_reason or "cancelled"
            result.stats.total_seconds = perf_counter() - started

    def _detokenizer(self) -> Detokenizer | None:
        tokenizer = self._runner.tokenizer
        return None if tokenizer is None else Detokenizer(tokenizer, self._runner.ids)

    def _prefill(self) -> Array:
        runner, stats = self._runner, self.result.stats
        ids = self.result.prompt_ids
        if not ids and not runner._pending:
            if runner._logits is None:
                raise ValueError("the runner was reset since this stream was made")
            return runner._logits
        stats.prompt_tokens = len(ids) + len(runner._pending)
        start = perf_counter()
        logits = runner.prefill(ids)
        stats.prefill_seconds = perf_counter() - start
        return logits

    def _decode(self, token: int) -> Array:
        runner, start = self._runner, perf_counter()
        if runner._pending is not self._chosen:
            raise RuntimeError(
                "another call has changed the conversation since the last piece of "
                "this stream: begin a new one"
            )
        logits = runner.step(token)
        self.result.stats.decode_seconds += perf_counter() - start
        return logits

    def _choose(self, logits: Array) -> int:
        runner, result, start = self._runner, self.result, perf_counter()
        check_finite(logits, runner.position - 1)
        is_first = not result.ids
        if is_first and self._options.sampler == "official":
            size = runner.tokenizer.vocab_size if runner.tokenizer is not None else None
            token = int(logits[:size].argmax())
        else:
            token = int(self._sample(logits, runner._session.ids))
        if not 0 <= token < runner.vocabulary:
            raise ValueError(
                f"the sampler chose token {token}, expected 0 to {runner.vocabulary - 1}"
            )
        self._note(logits, token)
        result.ids.append(token)
        self._chosen = runner._pending = [token]
        result.stats.generated_tokens += 1
        result.stats.sampling_seconds += perf_counter() - start
        return token

    def _note(self, logits: Array, token: int) -> None:
        """Keep log probabilities, if asked for."""
        result = self.result
        if result.logprobs is None:
            return
        p = log_softmax(logits)
        result.logprobs.append(float(p[token]))
        if result.top_logprobs is not None:
            indices = np.argsort(-p, kind="stable")[: int(self._options.logprobs)]
            result.top_logprobs.append([(int(i), float(p[i])) for i in indices])

    def _end_at(self, token: int) -> FinishReason:
        runner, options = self._runner, self._options
        if token in runner.eos_ids and not options.ignore_eos:
            return "eos"
        if options.max_new_tokens is not None and len(self.result.ids) >= options.max_new_tokens:
            return "length"
        return "context" if runner.position >= runner.context else ""

    def _asked(self) -> FinishReason:
        return "cancelled" if self._runner._stopped else ""
