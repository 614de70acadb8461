"""Signature of a text program, read from its file: methods, lengths, positions, logits.

    signature = read(program)
    signature.longest, signature.context, signature.positions    # 127, 128, "first"

Two conventions are in use: `forward(tokens [1, S], input_pos [1])` of export_llm, and
`forward(input_ids [1, S], cache_position [S])` of Optimum. Programs without a cache take tokens
alone. Newer exports have a method "prefill" and a method "decode".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from executorch_c import MethodMeta, Program, TensorInfo

Positions: TypeAlias = Literal["none", "first", "each"]
"""The second input: none (no cache), the position of the first token [1], or of each token [S]."""
Constants: TypeAlias = "Mapping[str, tuple[object, ...]]"
"""Outputs of the methods without inputs, by name: {"get_eos_ids": (2, 3)}."""

CONSTANT_NAMES = ("get_", "use_", "enable_")
MAX_METADATA_BYTES = 1 << 20
"""Upper bound of one value of metadata; larger outputs are none."""
OTHER_CONSTANTS = {
    "sliding_window",
    "decoder_start_token_id",
    "modality",
    "vision_token_id",
    "audio_token_id",
    "image_token_id",
}


@dataclass(frozen=True)
class MethodCall:
    """The shape of one method's call."""

    method: str
    longest: int
    """Maximum number of tokens of a call."""
    is_static: bool
    """Every call takes exactly `longest` tokens."""
    positions: Positions
    all_logits: bool
    """A call returns the logits of all its tokens, not only of the last."""
    vocabulary: int
    """Logits of a token."""
    token_dtype: np.dtype[np.generic]
    position_dtype: np.dtype[np.generic] | None


@dataclass(frozen=True)
class TextSignature:
    """Methods and lengths of a text program."""

    prefill: MethodCall
    """For several tokens."""
    decode: MethodCall
    """For the next token; the same as `prefill` if the program has one method."""
    context: int
    """Maximum number of tokens that are remembered, or passed without a cache."""
    bos_id: int | None
    eos_ids: tuple[int, ...]
    """From get_eos_ids or get_eos_id; empty if the program names none."""
    constants: Constants = field(default_factory=dict)

    @property
    def has_cache(self) -> bool:
        """True if the program remembers earlier tokens."""
        return self.decode.positions != "none"

    @property
    def vocabulary(self) -> int:
        """The number of logits of a token."""
        return self.decode.vocabulary

    @property
    def longest(self) -> int:
        """The maximum number of tokens of one call."""
        return max(self.prefill.longest, self.decode.longest)

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of the methods, each once."""
        return tuple(dict.fromkeys((self.prefill.method, self.decode.method)))


def _is_small(meta: MethodMeta) -> bool:
    tensors = [i for i, (kind, _) in enumerate(meta.outputs) if kind == "Tensor"]
    return all(meta.output_tensor_meta(i).nbytes() <= MAX_METADATA_BYTES for i in tensors)


def read_constants(program: Program) -> dict[str, tuple[object, ...]]:
    """Return the outputs of all methods without inputs whose names are those of metadata."""
    constants = {}
    for name in sorted(program.method_names):
        if not name.startswith(CONSTANT_NAMES) and name not in OTHER_CONSTANTS:
            continue
        meta = program.metadata(name)
        if meta.num_inputs() == 0 and _is_small(meta):
            values = program.load_method(name).execute([])
            constants[name] = tuple(_plain(value) for value in values)
    return constants


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray):
        if value.nbytes > MAX_METADATA_BYTES:
            raise ValueError(
                f"metadata of {value.nbytes:,} bytes, expected {MAX_METADATA_BYTES:,} or less"
            )
        return value.item() if value.size == 1 else value.tolist()
    return value


def integer(constants: Constants, *names: str) -> int | None:
    """Return the first of some constants that is there, as an int; None without any."""
    for name in names:
        values = constants.get(name, ())
        if values and isinstance(values[0], (int, float)):
            return _whole(name, values[0])
    return None


def integers(constants: Constants, *names: str) -> tuple[int, ...]:
    """Return all values of the first constant that is there, as ints."""
    for name in names:
        values = constants.get(name)
        if values:
            flat = [v for one in values for v in (one if isinstance(one, list) else [one])]
            return tuple(_whole(name, v) for v in flat if isinstance(v, (int, float)))
    return ()


def _whole(name: str, value: float) -> int:
    if not math.isfinite(value):
        raise ValueError(f"method '{name}' returns {value}, expected an integer")
    return int(value)


def tensor_of(meta: MethodMeta, index: int, what: str, ranks: Sequence[int]) -> TensorInfo:
    """Return the description of an input. Raises ValueError unless it is a tensor of a rank."""
    kind, value = meta.inputs[index]
    if kind == "Tensor":
        info = meta.input_tensor_meta(index)
        if len(info.shape) in ranks:
            return info
    actual = f"a tensor of shape {getattr(value, 'shape', ())}" if kind == "Tensor" else kind
    expected = " or ".join(map(str, ranks))
    raise ValueError(
        f"method '{meta.name()}', input {index} ({what}): found {actual}, expected a "
        f"tensor of rank {expected}"
    )


def _positions(meta: MethodMeta) -> tuple[Positions, np.dtype[np.generic] | None]:
    if meta.num_inputs() == 1:
        return "none", None
    info = tensor_of(meta, 1, "positions", (1,))
    dtype = _integer_dtype(meta, 1, info)
    return ("each" if info.shape[0] > 1 or info.is_dynamic else "first"), dtype


def _integer_dtype(meta: MethodMeta, index: int, info: TensorInfo) -> np.dtype[np.generic]:
    if info.numpy_dtype.kind not in "iu":
        raise ValueError(
            f"method '{meta.name()}', input {index}: found dtype {info.numpy_dtype}, "
            "expected integers (token ids or positions)"
        )
    return info.numpy_dtype


def read_call(program: Program, name: str) -> MethodCall:
    """Return the shape of a method's call.

    Raises ValueError for a method that does not take tokens [1, S], with or without positions, and
    return logits [1, V] or [1, S, V].
    """
    if name not in program.method_names:
        names = ", ".join(sorted(program.method_names))
        raise ValueError(f"no method '{name}' in this program, which has: {names}")
    meta = program.metadata(name)
    if not 1 <= meta.num_inputs() <= 2 or meta.num_outputs() < 1:
        raise ValueError(
            f"method '{name}' has {meta.num_inputs()} inputs and "
            f"{meta.num_outputs()} outputs, expected tokens, optionally positions, "
            "and logits"
        )
    tokens = tensor_of(meta, 0, "tokens", (2,))
    if tokens.shape[0] != 1:
        raise ValueError(f"method '{name}' takes a batch of {tokens.shape[0]}, expected 1")
    logits = meta.output_tensor_meta(0)
    if len(logits.shape) not in (2, 3) or logits.numpy_dtype.kind not in "fVu":
        raise ValueError(
            f"method '{name}' returns {logits.shape} of {logits.numpy_dtype}, "
            "expected logits [1, V] or [1, S, V]"
        )
    longest = tokens.shape[1]
    positions, position_dtype = _positions(meta)
    every = len(logits.shape) == 3 and (logits.shape[1] == longest or logits.is_dynamic)
    return MethodCall(
        name,
        longest,
        not tokens.is_dynamic,
        positions,
        every,
        logits.shape[-1],
        _integer_dtype(meta, 0, tokens),
        position_dtype,
    )


def read_embedding_call(program: Program, name: str, token_input: int | None = None) -> MethodCall:
    """Return the shape of a decoder's call on embeddings [1, S, D], or on tokens with further
    inputs: `token_input` is then the index of the tokens. The last input has the positions.

    Raises ValueError for a method of another signature.
    """
    if name not in program.method_names:
        names = ", ".join(sorted(program.method_names))
        raise ValueError(f"no method '{name}' in this program, which has: {names}")
    meta = program.metadata(name)
    last = meta.num_inputs() - 1
    if last < 1:
        raise ValueError(f"method '{name}' has {last + 1} inputs, expected at least 2")
    info = tensor_of(meta, token_input or 0, "tokens or embeddings", (2, 3))
    place = tensor_of(meta, last, "positions", (1,))
    logits = meta.output_tensor_meta(0)
    dtype = np.dtype(np.int64) if token_input is None else _integer_dtype(meta, token_input, info)
    longest = info.shape[1]
    every = len(logits.shape) == 3 and (logits.shape[1] == longest or logits.is_dynamic)
    positions: Positions = "each" if place.shape[0] > 1 or place.is_dynamic else "first"
    return MethodCall(
        name,
        longest,
        not info.is_dynamic,
        positions,
        every,
        logits.shape[-1],
        dtype,
        _integer_dtype(meta, last, place),
    )


def find_methods(names: set[str], method: str | None = None) -> tuple[str, str]:
    """Return the names of the methods for several tokens and for the next token.

    Raises ValueError if a program has neither "forward" nor "prefill" and "decode".
    """
    if method is not None:
        return method, method
    if "forward" in names or {"prefill", "decode"} <= names:
        first = "forward" if "forward" in names else "prefill"
        return first, "decode" if "decode" in names else first
    if "text_decoder" in names:
        other = "EncoderDecoder" if "encoder" in names else "MultimodalRunner"
        raise ValueError(f"the program has a text_decoder: open it with executorch_c.llm.{other}")
    listed = ", ".join(sorted(names)) or "none"
    raise ValueError(
        "pass `method`: the program has no method 'forward', nor 'prefill' and 'decode', but: "
        f"{listed}"
    )


def context_of(call: MethodCall, constants: Constants) -> int:
    """Return the number of tokens that fit: the metadata's, or those of one call."""
    context = integer(constants, "get_max_context_len", "get_max_seq_len")
    if context is not None and context < 0:
        raise ValueError(f"the program's metadata say that its context has {context} tokens")
    if call.positions == "none":
        return min(context or call.longest, call.longest)
    return context or call.longest


def limit_context(signature: TextSignature, capacity: int | None) -> TextSignature:
    """Return a signature whose context a cache of a capacity can hold; None: no such cache."""
    if capacity is None:
        return signature
    known = integer(signature.constants, "get_max_context_len", "get_max_seq_len")
    return replace(signature, context=min(known or capacity, capacity))


def read(program: Program, method: str | None = None) -> TextSignature:
    """Return the signature of a text program; `method`: one method for all calls ("lora_forward").

    Raises ValueError for a program without such methods, or whose metadata contradict each other.
    """
    prefill, decode = (read_call(program, n) for n in find_methods(program.method_names, method))
    cached = [call.positions != "none" for call in (prefill, decode)]
    if prefill.vocabulary != decode.vocabulary or cached[0] != cached[1]:
        raise ValueError(
            f"methods '{prefill.method}' and '{decode.method}' do not belong "
            "together: their logits or positions differ"
        )
    if decode.is_static and decode.longest > 1 and decode.positions != "none":
        raise ValueError(
            f"method '{decode.method}' takes exactly {decode.longest} tokens in each "
            "call, which cannot decode one token"
        )
    return signature_of(prefill, decode, read_constants(program))


def signature_of(prefill: MethodCall, decode: MethodCall, constants: Constants) -> TextSignature:
    """Return the signature of two calls, with the context and special tokens of the metadata."""
    return TextSignature(
        prefill,
        decode,
        context_of(decode, constants),
        integer(constants, "get_bos_id"),
        integers(constants, "get_eos_ids", "get_eos_id"),
        constants,
    )
