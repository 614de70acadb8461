"""The names and shapes of ExecuTorch's own Python runner, for code that has them.

    from executorch_c.llm.official import GenerationConfig, TextLLMRunner

    runner = TextLLMRunner("model.pte", "tokenizer.json")
    runner.generate("Hello", GenerationConfig(max_new_tokens=20), token_callback=print)

Differences: pieces have whole characters; generated tokens are all counted; times are of a
monotonic clock; errors say their cause; `reset()` resets the state; nothing is printed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from executorch_c._arrays import as_array
from executorch_c.llm import multimodal as _multimodal
from executorch_c.llm.runner import TextRunner
from executorch_c.llm.sampling import OfficialSampler

if TYPE_CHECKING:
    from executorch_c.llm.generation import Stream
    from executorch_c.llm.result import RunStats

__all__ = [
    "GenerationConfig",
    "MultimodalInput",
    "MultimodalRunner",
    "Stats",
    "TextLLMRunner",
    "generate_hf",
    "generate_text_hf",
    "make_audio_input",
    "make_image_input",
    "make_raw_audio_input",
    "make_text_input",
    "make_token_input",
]

UNITS = 1000
"""Units of times per second: milliseconds."""


@dataclass
class GenerationConfig:
    """Options of a generation, with the official defaults."""

    echo: bool = True
    """Pass the prompt to the callback first."""
    max_new_tokens: int = -1
    """-1: as many as fit."""
    warming: bool = False
    seq_len: int = -1
    """Maximum length of prompt and answer together; -1: the context."""
    temperature: float = 0.8
    num_bos: int = 0
    num_eos: int = 0

    def resolve_max_new_tokens(self, max_context_len: int, num_tokens_occupied: int) -> int:
        """Return the number of tokens that may be generated, 0 or more."""
        whole = max_context_len if self.seq_len == -1 else min(self.seq_len, max_context_len)
        room = whole - num_tokens_occupied
        if self.max_new_tokens != -1:
            room = min(room, self.max_new_tokens)
        return max(0, room)


@dataclass
class Stats:
    """Counts and times of a runner, in milliseconds of a monotonic clock."""

    model_load_start_ms: int = 0
    model_load_end_ms: int = 0
    inference_start_ms: int = 0
    token_encode_end_ms: int = 0
    model_execution_start_ms: int = 0
    model_execution_end_ms: int = 0
    prompt_eval_end_ms: int = 0
    first_token_ms: int = 0
    inference_end_ms: int = 0
    aggregate_sampling_time_ms: int = 0
    aggregate_model_execution_time_ms: int = 0
    num_prompt_tokens: int = 0
    num_generated_tokens: int = 0
    SCALING_FACTOR_UNITS_PER_SECOND: int = UNITS
    _sampling_since: float = 0.0

    def on_sampling_begin(self) -> None:
        """Start the clock of sampling."""
        self._sampling_since = time.monotonic()

    def on_sampling_end(self) -> None:
        """Stop the clock of sampling."""
        self.aggregate_sampling_time_ms += round(UNITS * (time.monotonic() - self._sampling_since))

    def reset(self, all_stats: bool = False) -> None:
        """Set all figures to 0; those of loading only with `all_stats`."""
        kept = (
            {}
            if all_stats
            else {
                name: getattr(self, name) for name in ("model_load_start_ms", "model_load_end_ms")
            }
        )
        self.__init__(**kept)  # type: ignore[misc]

    def to_json_string(self) -> str:
        """Return the figures as JSON, with the official keys in their order."""
        prefill = self.prompt_eval_end_ms - self.inference_start_ms
        decode = self.inference_end_ms - self.prompt_eval_end_ms
        figures: dict[str, float] = {}
        if prefill > 0:
            figures["prefill_token_per_sec"] = self.num_prompt_tokens * UNITS / prefill
        if decode > 0:
            figures["decode_token_per_sec"] = max(self.num_generated_tokens - 1, 0) * UNITS / decode
        figures |= {
            "prompt_tokens": self.num_prompt_tokens,
            "generated_tokens": self.num_generated_tokens,
        }
        names = (
            "model_load_start_ms",
            "model_load_end_ms",
            "inference_start_ms",
            "inference_end_ms",
            "model_execution_start_ms",
            "model_execution_end_ms",
            "prompt_eval_end_ms",
            "first_token_ms",
            "aggregate_sampling_time_ms",
            "aggregate_model_execution_time_ms",
            "SCALING_FACTOR_UNITS_PER_SECOND",
        )
        return json.dumps(figures | {name: getattr(self, name) for name in names})

    def note(self, run: RunStats, ended: float) -> None:
        """Set the figures of a generation that ended at a time of the monotonic clock."""
        started = ended - run.total_seconds
        self.inference_start_ms = self.model_execution_start_ms = round(UNITS * started)
        self.inference_end_ms = self.model_execution_end_ms = round(UNITS * ended)
        first = round(UNITS * (started + run.first_token_seconds))
        self.prompt_eval_end_ms = self.first_token_ms = first
        self.aggregate_sampling_time_ms = round(UNITS * run.sampling_seconds)
        model = run.prefill_seconds + run.decode_seconds
        self.aggregate_model_execution_time_ms = round(UNITS * model)
        self.num_prompt_tokens = run.prompt_tokens
        self.num_generated_tokens = run.generated_tokens


Token = Callable[[str], object]
Figures = Callable[[Stats], object]


@contextmanager
def _as_runtime_error() -> Iterator[None]:
    """Raise errors of arguments as RuntimeError too, which code for the official runner expects."""
    try:
        yield
    except RuntimeError:
        raise
    except ValueError as error:
        raise RuntimeError(str(error)) from error


def check_temperature(config: GenerationConfig) -> None:
    """Raise ValueError unless the temperature is between 0 and 1, as officially."""
    if not 0 <= config.temperature <= 1:
        raise ValueError(f"`temperature` is {config.temperature}, expected 0 to 1")


class TextLLMRunner:
    """A text program with a tokenizer, by the official names.

    Args:
        model_path: Path of a .pte.
        tokenizer_path: Path of a tokenizer.
        data_path: Path of a .ptd, or several.
        seed: Of the sampler; default: the time in seconds, as officially.

    Program and tokenizer are loaded at the first use.
    """

    _open: Callable[..., TextRunner] = TextRunner
    _first_is_greedy = True
    """The first token of a generation is the most likely one, at any temperature."""

    def __init__(
        self,
        model_path: Any,
        tokenizer_path: Any,
        data_path: Any = None,
        *,
        seed: int | None = None,
    ) -> None:
        self._sources = (model_path, tokenizer_path, data_path)
        self._runner: TextRunner | None = None
        self._sampler = OfficialSampler(seed)
        self.stats = Stats()

    def _loaded(self) -> TextRunner:
        if self._runner is None:
            self.stats.model_load_start_ms = round(UNITS * time.monotonic())
            self._runner = type(self)._open(*self._sources)
            self.stats.model_load_end_ms = round(UNITS * time.monotonic())
            self._sampler.vocabulary = self.get_vocab_size()
        return self._runner

    def get_vocab_size(self) -> int:
        """Return the number of the tokenizer's tokens."""
        tokenizer = self._loaded().tokenizer
        assert tokenizer is not None
        return tokenizer.vocab_size

    def load(self) -> None:
        """Load program and tokenizer."""
        self._loaded()

    def _ids(self, prompt: str, config: GenerationConfig) -> list[int]:
        runner = self._loaded()
        ids = runner.encode(prompt, config.num_bos > 0) if prompt else []
        return ids + list(runner.eos_ids[:1]) * config.num_eos

    def generate(
        self,
        prompt: str,
        config: GenerationConfig | None = None,
        token_callback: Token | None = None,
        stats_callback: Figures | None = None,
    ) -> None:
        """Generate after the earlier conversation, and pass pieces of text to a callback.

        Raises RuntimeError for a prompt that does not fit, a temperature outside of [0, 1], and no
        room for new tokens; exceptions of the callbacks.
        """
        with self._turn():
            self._generate(prompt, config or GenerationConfig(), token_callback, stats_callback)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Load, and let calls of other threads wait."""
        with _as_runtime_error():
            runner = self._loaded()
        with runner._session.lock:
            yield

    def _generate(
        self,
        prompt: str,
        config: GenerationConfig,
        token_callback: Token | None,
        stats_callback: Figures | None,
    ) -> None:
        with _as_runtime_error():
            check_temperature(config)
            runner = self._loaded()
            runner._pending = []  # the last sampled token never enters the cache
            ids = self._ids(prompt, config)
            limit = config.resolve_max_new_tokens(runner.context, runner.position + len(ids))
            if limit <= 0:
                raise ValueError(
                    f"no room for new tokens: {runner.position + len(ids)} of "
                    f"{runner.context} tokens are used"
                )
            self._sampler.temperature = config.temperature
            stream = runner.stream(ids, max_new_tokens=limit, sampler=self._choose)
        if config.echo and prompt and token_callback is not None:
            token_callback(prompt)
        self._finish(runner, stream, token_callback, stats_callback)

    def _finish(
        self,
        runner: TextRunner,
        stream: Stream,
        token_callback: Token | None,
        stats_callback: Figures | None,
    ) -> None:
        """Run a generation and pass pieces and figures to the callbacks."""
        self._is_first = self._first_is_greedy
        while True:
            with _as_runtime_error():
                piece = next(stream, None)
            if piece is None:
                break
            if token_callback is not None:
                token_callback(piece)
        runner._pending = []
        self.stats.note(stream.result.stats, time.monotonic())
        if stats_callback is not None:
            stats_callback(self.stats)

    def _choose(self, logits: Any, ids: Sequence[int]) -> int:
        """Return the next token; the first one of a generation is the most likely one."""
        if self._is_first:
            self._is_first = False
            return int(logits[: self._sampler.vocabulary].argmax())
        return self._sampler(logits, ids)

    def prefill(self, prompt: str, config: GenerationConfig | None = None) -> None:
        """Append a text without generating."""
        with self._turn(), _as_runtime_error():
            runner = self._loaded()
            runner._pending = []
            runner.prefill(self._ids(prompt, config or GenerationConfig()))

    def warmup(self, prompt: str, max_new_tokens: int) -> None:
        """Generate once, and reset."""
        self.generate(
            prompt,
            GenerationConfig(
                echo=False, max_new_tokens=max_new_tokens, warming=True, temperature=0.0
            ),
        )
        self.reset()

    def stop(self) -> None:
        """End the running generation after its current token."""
        self._loaded().stop()

    def reset(self) -> None:
        """Forget the conversation, with the program's state, and the figures."""
        if self._runner is not None:
            self._runner.reset()
        self.stats.reset()


@dataclass(frozen=True)
class MultimodalInput:
    """A part of a multimodal prompt: a text, token ids, or an array of an image or of audio."""

    value: Any

    def is_text(self) -> bool:
        """Return whether it is a text."""
        return isinstance(self.value, str)


def make_text_input(text: str) -> MultimodalInput:
    """Return a text as a part of a prompt."""
    return MultimodalInput(str(text))


def make_token_input(tokens: Sequence[int]) -> MultimodalInput:
    """Return token ids as a part of a prompt."""
    return MultimodalInput([int(token) for token in tokens])


def make_image_input(image: Any) -> MultimodalInput:
    """Return an image as a part of a prompt: an array or tensor [C, H, W], [H, W, C] or with a
    batch of 1, of the dtype that the program's encoder takes."""
    return MultimodalInput(as_array(image))


def make_audio_input(features: Any) -> MultimodalInput:
    """Return audio features as a part of a prompt: an array or tensor of the encoder's shape."""
    return MultimodalInput(as_array(features))


def make_raw_audio_input(samples: Any) -> MultimodalInput:
    """Return samples of audio as a part of a prompt, for an encoder that takes them: an array or
    tensor [batch, channels, samples]. Raises RuntimeError for another shape."""
    array = as_array(samples)
    if array.ndim != 3:
        raise RuntimeError(
            f"raw audio: found shape {array.shape}, expected (batch, channels, samples)"
        )
    return MultimodalInput(array)


def inputs_of_processor(inputs: Any, image_token_id: int | None = None) -> list[MultimodalInput]:
    """Return the parts of a prompt from the result of a processor of Hugging Face: a mapping with
    `input_ids` and, for one image, `pixel_values`, which take the place of the run of
    `image_token_id`.

    Raises ValueError for missing keys, several images or runs, and image tokens without pixels.
    """
    if "input_ids" not in inputs:
        raise ValueError(f"no 'input_ids' in the inputs, which have: {', '.join(inputs)}")
    ids = as_array(inputs["input_ids"])
    if ids.ndim not in (1, 2) or (ids.ndim == 2 and len(ids) != 1) or ids.dtype.kind not in "iu":
        raise ValueError(
            f"input_ids: found {ids.dtype} of shape {ids.shape}, expected integers of "
            "one prompt, [n] or [1, n]"
        )
    tokens: list[int] = ids.reshape(-1).tolist()
    places = [i for i, token in enumerate(tokens) if token == image_token_id]
    if "pixel_values" not in inputs:
        if places:
            raise ValueError(
                f"input_ids have image tokens ({image_token_id}), but there are no 'pixel_values'"
            )
        return [make_token_input(tokens)]
    pixels = as_array(inputs["pixel_values"])
    if pixels.ndim not in (3, 4) or (pixels.ndim == 4 and len(pixels) != 1):
        raise ValueError(
            f"pixel_values: found shape {pixels.shape}, expected one image, [C, H, W] "
            "or [1, C, H, W]"
        )
    if image_token_id is None:
        raise ValueError("pixel_values without image_token_id")
    if not places or places[-1] - places[0] + 1 != len(places):
        raise ValueError(
            f"pixel_values for {len(places)} tokens {image_token_id} in input_ids, "
            "expected one run of them"
        )
    parts: list[Any] = [tokens[: places[0]], pixels, tokens[places[-1] + 1 :]]
    return [MultimodalInput(part) for part in parts if len(part)]


class MultimodalRunner(TextLLMRunner):
    """A program of text and images or audio, by the official names. Arguments as for
    `TextLLMRunner`."""

    _open = _multimodal.MultimodalRunner
    _first_is_greedy = False

    def _parts(self, inputs: Sequence[MultimodalInput], config: GenerationConfig) -> list[Any]:
        runner, parts = self._loaded(), []
        for i, one in enumerate(inputs):
            bos = i == 0 and runner.position == 0 and config.num_bos > 0
            parts.append(runner.encode(one.value, bos) if one.is_text() else one.value)
        if not parts:
            raise ValueError("an empty prompt: expected at least 1 input")
        return parts

    def generate(  # type: ignore[override]
        self,
        inputs: Sequence[MultimodalInput],
        config: GenerationConfig | None = None,
        token_callback: Token | None = None,
        stats_callback: Figures | None = None,
    ) -> None:
        """Generate after the inputs, in order. Exceptions as for `TextLLMRunner.generate`."""
        with self._turn():
            self._generate_after(
                inputs, config or GenerationConfig(), token_callback, stats_callback
            )

    def _generate_after(
        self,
        inputs: Sequence[MultimodalInput],
        config: GenerationConfig,
        token_callback: Token | None,
        stats_callback: Figures | None,
    ) -> None:
        with _as_runtime_error():
            check_temperature(config)
            self.prefill(inputs, config)
            runner = self._loaded()
            limit = config.resolve_max_new_tokens(runner.context, runner.position)
            if limit <= 0:
                raise ValueError(
                    f"no room for new tokens: {runner.position} of {runner.context} tokens are used"
                )
            self._sampler.temperature = config.temperature
            stream = runner.stream([], max_new_tokens=limit, sampler=self._choose)
        if config.echo and token_callback is not None:
            for one in inputs:
                if one.is_text():
                    token_callback(one.value)
        self._finish(runner, stream, token_callback, stats_callback)

    def generate_text(
        self, inputs: Sequence[MultimodalInput], config: GenerationConfig | None = None
    ) -> str:
        """Return the generated text, without the prompt."""
        pieces: list[str] = []
        config = replace(config or GenerationConfig(), echo=False)
        self.generate(inputs, config, pieces.append)
        return "".join(pieces)

    def prefill(  # type: ignore[override]
        self, inputs: Sequence[MultimodalInput], config: GenerationConfig | None = None
    ) -> None:
        """Append inputs without generating."""
        with self._turn(), _as_runtime_error():
            runner = self._loaded()
            runner._pending = []
            runner.prefill(self._parts(inputs, config or GenerationConfig()))

    def generate_hf(
        self,
        inputs: Any,
        config: GenerationConfig | None = None,
        image_token_id: int | None = None,
        token_callback: Token | None = None,
        stats_callback: Figures | None = None,
    ) -> None:
        """Generate after the result of a processor of Hugging Face (arrays or tensors), or after a
        list of inputs. Raises RuntimeError as `generate`, and for wrong inputs."""
        if not isinstance(inputs, list):
            with _as_runtime_error():
                if not isinstance(inputs, Mapping):
                    raise ValueError(
                        f"inputs: found {type(inputs).__name__}, expected the mapping "
                        "of a processor or a list of inputs"
                    )
                inputs = inputs_of_processor(inputs, image_token_id)
        self.generate(inputs, config, token_callback, stats_callback)

    def generate_text_hf(
        self, inputs: Any, config: GenerationConfig | None = None, image_token_id: int | None = None
    ) -> str:
        """Return the text that `generate_hf` generates, without the prompt."""
        pieces: list[str] = []
        config = replace(config or GenerationConfig(), echo=False)
        self.generate_hf(inputs, config, image_token_id, pieces.append)
        return "".join(pieces)


def generate_hf(
    runner: MultimodalRunner,
    inputs: Any,
    config: GenerationConfig | None = None,
    image_token_id: int | None = None,
    token_callback: Token | None = None,
    stats_callback: Figures | None = None,
) -> None:
    """Call `MultimodalRunner.generate_hf`."""
    runner.generate_hf(inputs, config, image_token_id, token_callback, stats_callback)


def generate_text_hf(
    runner: MultimodalRunner,
    inputs: Any,
    config: GenerationConfig | None = None,
    image_token_id: int | None = None,
) -> str:
    """Return the text of `MultimodalRunner.generate_text_hf`."""
    return runner.generate_text_hf(inputs, config, image_token_id)
