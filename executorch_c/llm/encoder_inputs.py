"""Inputs of the encoder for check_llm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from executorch_c._arrays import Array
    from executorch_c.llm.encoder_decoder import EncoderDecoder

RANDOM_LENGTHS = 24, 17
"""Tokens of random inputs of an encoder of text, if its length is dynamic."""
AUDIO_DIMENSIONS = 1
"""Dimensions of audio; features of it have two, and a batch."""


def encoder_inputs_of(
    inputs: Sequence[Any] | None, runner: EncoderDecoder, seed: int
) -> list[Array]:
    """Return inputs of a program's encoder from texts, ids, audio or features; two random ones if
    none are given.

    Raises ValueError and TypeError for inputs that the encoder does not take.
    """
    info = runner._encoder.metadata.input_tensor_meta(0)
    if inputs is not None:
        if not len(inputs):
            raise ValueError("`encoder_inputs` is empty: pass at least 1")
        return [_input(one, runner) for one in inputs]
    rng = np.random.default_rng(seed)
    if info.numpy_dtype.kind in "iu":
        lengths = [
            min(n, info.shape[-1]) if info.is_dynamic else info.shape[-1] for n in RANDOM_LENGTHS
        ]
        return [
            rng.integers(0, runner.vocabulary, (*info.shape[:-1], n)).astype(info.numpy_dtype)
            for n in lengths
        ]
    return [rng.standard_normal(info.shape).astype(info.numpy_dtype) for _ in RANDOM_LENGTHS]


def _input(value: Any, runner: EncoderDecoder) -> Array:
    """Return one input as an array."""
    info = runner._encoder.metadata.input_tensor_meta(0)
    takes_tokens = info.numpy_dtype.kind in "iu"
    if isinstance(value, str):
        if not takes_tokens:
            raise TypeError(
                f"method '{runner._encoder.metadata.name()}' takes features of "
                f"{info.numpy_dtype}, not text"
            )
        runner.reset()
        return runner.as_encoder_input(np.asarray([runner.encode(value)]))
    array = np.asarray(value)
    if not takes_tokens and array.ndim == AUDIO_DIMENSIONS < len(info.shape) - 1:
        array = runner.features(array)
    return runner.as_encoder_input(array)
