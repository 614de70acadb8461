"""Programs of text and images, or text and audio: encoder, token embedding and text decoder.

    runner = MultimodalRunner("model.pte", "tokenizer.json")
    result = runner.generate([image, "What is in the picture?"], max_new_tokens=30)

Methods of the program: `vision_encoder` or `audio_encoder`, `token_embedding`, `text_decoder`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c.llm import signature as _signature
from executorch_c.llm.runner import TextRunner

if TYPE_CHECKING:
    from executorch_c import Method
    from executorch_c._arrays import Array
    from executorch_c.llm.generation import Stream

ENCODERS = ("vision_encoder", "audio_encoder", "image_encoder")
EMBEDDING, DECODER = "token_embedding", "text_decoder"


def shaped(array: Array, wanted: Sequence[int], name: str) -> Array:
    """Return an array with the batch dimension of an encoder's input.

    A last dimension of channels (height, width, 3) is moved to the front if the program wants it
    there. Raises ValueError for another shape.
    """
    values = array[None] if array.ndim == len(wanted) - 1 else array
    if values.ndim == 4 and values.shape[-1] in (1, 3, 4) and values.shape[-1] == wanted[1]:
        if values.shape[1] != wanted[1]:
            values = np.ascontiguousarray(values.transpose(0, 3, 1, 2))
    fits = values.ndim == len(wanted) and all(a <= b for a, b in zip(values.shape, wanted))
    if not fits:
        raise ValueError(
            f"method '{name}': found an array of shape {array.shape}, expected {tuple(wanted)}"
        )
    return values


class MultimodalRunner(TextRunner):
    """A text program with an encoder of images or audio.

    Arguments and methods as for `TextRunner`. A prompt is a text, or a list of texts, lists of
    ids, and arrays: an array of the encoder's input shape and dtype is an image, or audio features.
    """

    def _read_signature(self, method: str | None) -> _signature.TextSignature:
        call = _signature.read_embedding_call(self.program, method or DECODER)
        constants = _signature.read_constants(self.program)
        names = self.program.method_names
        self._encoder_name = next((name for name in ENCODERS if name in names), None)
        if EMBEDDING not in names:
            raise ValueError(
                f"no method '{EMBEDDING}' in this program, which has: {', '.join(sorted(names))}"
            )
        self._embedding: Method = self.program.load_method(EMBEDDING)
        self._encoder: Method | None = None
        return _signature.signature_of(call, call, constants)

    def embed(self, ids: Sequence[int]) -> Array:
        """Return the embeddings of tokens, [1, len(ids), D], in the program's dtype."""
        info = self._embedding.metadata.input_tensor_meta(0)
        limit = info.shape[1]
        parts = [list(ids[i : i + limit]) for i in range(0, len(ids), limit)]
        embeddings = [
            self._embedding.execute([np.asarray([part], info.numpy_dtype)])[0] for part in parts
        ]
        whole: Array = np.concatenate(embeddings, axis=1)
        return whole

    def encode_array(self, array: object) -> Array:
        """Return the embeddings of an image or of audio features, [1, n, D].

        Raises ValueError for a program without an encoder, and for another shape; TypeError for
        another dtype (float64 is cast to float32).
        """
        name = self._encoder_name
        if name is None:
            raise ValueError(f"the program has no encoder (none of {', '.join(ENCODERS)})")
        if self._encoder is None:
            self._encoder = self.program.load_method(name)
        info = self._encoder.metadata.input_tensor_meta(0)
        values = np.asarray(array)
        if values.dtype == np.float64 and info.numpy_dtype.kind == "f":
            values = values.astype(info.numpy_dtype)
        if values.dtype != info.numpy_dtype:
            raise TypeError(
                f"method '{name}': found dtype {values.dtype}, expected "
                f"{info.numpy_dtype}; preprocess the image or audio as the model's "
                "processor does"
            )
        states: Array = self._encoder.execute([shaped(values, info.shape, name)])[0]
        return states

    def _inputs(self, call: _signature.MethodCall, ids: Sequence[int], start: int) -> list[Array]:
        return self._embedded(call, self.embed(ids), start)

    def _embedded(self, call: _signature.MethodCall, embeds: Array, start: int) -> list[Array]:
        last = start + embeds.shape[1] if call.positions == "each" else start + 1
        return [embeds, np.arange(start, last).astype(call.position_dtype)]

    def prefill(self, prompt: Any, *, bos: bool | None = None) -> Array:
        """Append texts, ids and arrays in order, and return the next logits, float32 [V].

        Exceptions as for `TextRunner.prefill` and `encode_array`.
        """
        with self._session.lock:
            return self._prefill_parts(prompt if is_mixed(prompt) else [prompt], bos)

    def _prefill_parts(self, parts: Sequence[Any], bos: bool | None) -> Array:
        logits = None
        for i, part in enumerate(parts):
            if is_mixed(part):
                logits = self._prefill_array(part)
            else:
                logits = super().prefill(part, bos=bos if i == 0 else False)
        if logits is None:
            raise ValueError("an empty prompt: expected at least 1 token")
        return logits

    def _prefill_array(self, array: object) -> Array:
        embeds = self.encode_array(array)
        self._check_room(embeds.shape[1])
        if self._pending:
            super().prefill([])
        call, start = self.signature.prefill, 0
        constants = self.signature.constants
        mark = _signature.integer(constants, "vision_token_id", "audio_token_id", "image_token_id")
        while start < embeds.shape[1]:
            part = embeds[:, start : start + call.longest]
            logits = self._run(call, self._embedded(call, part, self.position))
            self._advance([mark or 0] * part.shape[1], logits[-1])
            start += part.shape[1]
        assert self._logits is not None
        return self._logits

    def stream(self, prompt: Any = "", **options: Any) -> Stream:
        """Return an iterator over the pieces of a generated text; see `TextRunner.stream`. A prompt
        of several parts is prefilled at once."""
        if not is_mixed(prompt):
            return super().stream(prompt, **options)
        with self._session.lock:
            self.prefill(prompt, bos=options.pop("bos", None))
            return super().stream([], **options)


def is_mixed(prompt: object) -> bool:
    """Return True for a list of parts; False for a text, and for one sequence of ids."""
    if isinstance(prompt, str):
        return False
    if isinstance(prompt, np.ndarray):
        return prompt.dtype.kind not in "iu" or prompt.ndim > 2
    if not isinstance(prompt, Sequence) or not prompt:
        return False
    return not all(isinstance(part, (int, np.integer)) for part in prompt)
