"""Programs with an encoder and a text decoder: speech to text (Whisper), text to text (T5).

    model = EncoderDecoder("whisper.pte", "tokenizer.json")
    print(model.transcribe(audio, sample_rate=16000))

Methods of the program: `encoder`, `text_decoder(ids, encoder_hidden_states, cache_position)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c import _programs
from executorch_c.llm import signature as _signature
from executorch_c.llm.features import HOP, SAMPLE_RATE, log_mel
from executorch_c.llm.runner import TextRunner

if TYPE_CHECKING:
    from executorch_c import Method
    from executorch_c._arrays import Array
    from executorch_c._programs import ProgramSource
    from executorch_c._types import Data, FilePath
    from executorch_c.llm.result import Generation
    from executorch_c.llm.tokenizers import Tokenizer

ENCODER, DECODER = "encoder", "text_decoder"


def open_program(
    program: ProgramSource,
    tokenizer: FilePath | Tokenizer | None = None,
    data_path: Data | Sequence[Data] | None = None,
    **options: Any,
) -> TextRunner:
    """Return the runner of a program: an EncoderDecoder if it has an encoder, else a TextRunner.
    Arguments and exceptions as for `TextRunner`."""
    opened = _programs.opened(program, data_path)
    is_both = {ENCODER, DECODER} <= opened.program.method_names
    return (EncoderDecoder if is_both else TextRunner)(opened, tokenizer, **options)


class EncoderDecoder(TextRunner):
    """A program that encodes one input and decodes text from it.

    Arguments and methods as for `TextRunner`. `encode_input` sets the encoded input; it also resets
    the decoder.
    """

    def _read_signature(self, method: str | None) -> _signature.TextSignature:
        names = self.program.method_names
        if ENCODER not in names:
            raise ValueError(
                f"no method '{ENCODER}' in this program, which has: {', '.join(sorted(names))}"
            )
        call = _signature.read_embedding_call(self.program, method or DECODER, token_input=0)
        if self.program.metadata(call.method).num_inputs() != 3:
            raise ValueError(
                f"method '{call.method}': expected 3 inputs (ids, encoder states, positions)"
            )
        self._encoder: Method = self.program.load_method(
            ENCODER, **{**self._options, "kv_cache": None}
        )
        self._hidden: Array | None = None
        self._encoded: Array | None = None
        return _signature.signature_of(call, call, _signature.read_constants(self.program))

    @property
    def start_ids(self) -> list[int]:
        """The first tokens of the decoder: decoder_start_token_id of the metadata, else BOS."""
        first = _signature.integer(self.signature.constants, "decoder_start_token_id")
        first = self.special.bos_id if first is None else first
        return [] if first is None else [first]

    def encode_input(self, array: object) -> Array:
        """Encode features or ids, reset the decoder, and return the encoder's output.

        Raises ValueError for another shape, TypeError for another dtype.
        """
        features = self.as_encoder_input(array)
        with self._session.lock:
            self.reset()
            return self._encode(features)

    def as_encoder_input(self, array: object) -> Array:
        """Return features or ids with the encoder's dtype and rank. Exceptions as for
        `encode_input`."""
        info = self._encoder.metadata.input_tensor_meta(0)
        features = np.asarray(array)
        features = features[None] if features.ndim == len(info.shape) - 1 else features
        if features.dtype != info.numpy_dtype and features.dtype.kind == info.numpy_dtype.kind:
            features = features.astype(info.numpy_dtype)
        if features.dtype != info.numpy_dtype:
            raise TypeError(
                f"method '{ENCODER}': found dtype {features.dtype}, expected {info.numpy_dtype}"
            )
        fits = features.ndim == len(info.shape)
        if not fits or any(a > b for a, b in zip(features.shape, info.shape)):
            raise ValueError(
                f"method '{ENCODER}': found shape {features.shape}, expected {tuple(info.shape)}"
            )
        return features

    def _encode(self, features: Array) -> Array:
        """Encode an input and return the encoder's output; the decoder keeps its state."""
        hidden: Array = self._encoder.execute([features])[0]
        self._hidden, self._encoded = hidden, features
        return hidden

    def _inputs(self, call: _signature.MethodCall, ids: Sequence[int], start: int) -> list[Array]:
        if self._hidden is None:
            raise ValueError("nothing to decode: call encode_input() first")
        last = start + len(ids) if call.positions == "each" else start + 1
        positions = np.arange(start, last).astype(call.position_dtype)
        return [np.asarray([ids], call.token_dtype), self._hidden, positions]

    def features(self, audio: object, sample_rate: int = SAMPLE_RATE) -> Array:
        """Return the log-mel features of mono audio for this program's encoder, float32 [1, n_mels,
        n_frames]: padded with silence, or cut.

        Raises ValueError for another sample rate, and for audio that is not one channel of finite
        numbers.
        """
        shape = self._encoder.metadata.input_tensor_meta(0).shape
        if len(shape) != 3:
            raise ValueError(
                f"the encoder takes an input of shape {tuple(shape)}, expected "
                "log-mel features [1, n_mels, n_frames]"
            )
        return log_mel(audio, shape[1], shape[2] * HOP, sample_rate)[None]

    def transcribe(
        self,
        audio: object,
        *,
        sample_rate: int = SAMPLE_RATE,
        prompt: str | Sequence[int] | None = None,
        **options: Any,
    ) -> Generation:
        """Return the text of mono audio: floats in [-1, 1], at 16,000 samples per second.

        Args:
            prompt: First tokens of the decoder. Default: `start_ids`.
            options: As for `TextRunner.generate`.
        """
        features = self.features(audio, sample_rate)
        with self._session.lock:
            self.encode_input(features)
            return self.generate(self.start_ids if prompt is None else prompt, **options)
