"""Small encoder-decoders of transformers with random weights, exported with Optimum's methods."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers

from tests import kept
from tests.backends import xnnpack_flow
from tests.exports import lowered
from tests.llm import static_caches
from tests.llm.static_caches import Caches, Layer

CONTEXT, VOCABULARY, LENGTH, MELS, FRAMES = 12, 96, 9, 8, 24
METADATA = static_caches.metadata(CONTEXT, VOCABULARY, decoder_start_token_id=0)


def whisper_config() -> Any:
    return transformers.WhisperConfig(
        vocab_size=VOCABULARY,
        num_mel_bins=MELS,
        encoder_layers=2,
        decoder_layers=2,
        d_model=32,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        max_source_positions=FRAMES // 2,
        max_target_positions=CONTEXT + 1,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )


def model_of(name: str, scheme: str = "", plant: Callable[[Any], None] | None = None) -> Any:
    """Return "t5" or "whisper", always with the same weights, quantised by a scheme of the XNNPACK
    flow's. `plant`: changes it in place, after quantising."""
    torch.manual_seed(0)
    if name == "t5":
        config = transformers.T5Config(
            vocab_size=VOCABULARY,
            d_model=32,
            d_kv=8,
            d_ff=48,
            num_layers=2,
            num_heads=4,
            decoder_start_token_id=0,
            feed_forward_proj="gated-gelu",
        )
        model = transformers.T5ForConditionalGeneration(config)
    else:
        config = whisper_config()
        model = transformers.WhisperForConditionalGeneration(config)
    for key, value in model.named_parameters():
        if "norm" not in key and value.dim() > 1:
            torch.nn.init.normal_(value, std=value.shape[-1] ** -0.5)
    model = model.eval().requires_grad_(False)
    if scheme:
        model = xnnpack_flow.SCHEMES[scheme](model, (), None)
    if plant is not None:
        with torch.no_grad():
            plant(model)
    return model


class Counted(Layer):
    """A static cache that knows its length: T5's positions come from it."""

    def get_seq_length(self) -> Any:
        return self.at[0]


class Crossed(transformers.StaticLayer):  # type: ignore[misc]
    """Keys and values of the encoder's states: computed at position 0, read from a buffer later.

    `fault`: "lost" (the buffer is never filled), "stale" (filled once, for the first input).
    """

    def __init__(self, size: int, fault: str) -> None:
        super().__init__(size)
        self.fault = fault

    def get_seq_length(self) -> int:
        return 0

    def update(self, key_states: Any, value_states: Any, *_: Any, **__: Any) -> Any:
        is_new = (self.full == 0) if self.fault == "stale" else (self.at == 0)
        for buffer, states in ((self.keys, key_states), (self.values, value_states)):
            if self.fault != "lost":
                buffer.copy_(torch.where(is_new, states, buffer))
        if self.fault == "lost":
            return (
                torch.where(is_new, key_states, self.keys),
                torch.where(is_new, value_states, self.values),
            )
        return self.keys, self.values


class Decoder(Caches):
    """The text decoder: (ids, encoder's states, position) to logits.

    `kind`: "plain" (keys and values of the states are computed in each call), "cached", or a
    fault: "lost", "stale", "late" (positions are one too large), "unscaled" (without T5's factor
    before the logits, as in optimum-executorch 1.1).
    """

    def __init__(self, model: Any, kind: str) -> None:
        config = model.config
        super().__init__(config, CONTEXT)
        if config.model_type == "t5":
            counted = [Counted(CONTEXT) for _ in self.layers]
            for old, new in zip(self.layers, counted):
                new.lazy_initialization(old.keys[:, :, :1], old.values[:, :, :1])
            self.layers = counted
        self.decoder, self.kind, self.is_t5 = model.get_decoder(), kind, config.model_type == "t5"
        self.head = model.lm_head if self.is_t5 else model.proj_out
        self.scale = config.d_model**-0.5 if self.is_t5 else 1.0
        self.crossed = []
        if kind in ("cached", "lost", "stale"):
            self._add_crossed(config.num_attention_heads, self.layers[0].keys.shape[-1])

    def _add_crossed(self, heads: int, dim: int) -> None:
        size = LENGTH if self.is_t5 else FRAMES // 2
        self.register_buffer("full", torch.zeros(1), persistent=False)
        for i in range(len(self.layers)):
            one = Crossed(size, self.kind)
            one.lazy_initialization(*[torch.zeros(1, heads, 1, dim)] * 2)
            self.crossed.append(one)
            self.register_buffer(f"cross_keys_{i}", one.keys, persistent=False)
            self.register_buffer(f"cross_values_{i}", one.values, persistent=False)

    def forward(
        self,
        decoder_input_ids: torch.Tensor,
        encoder_hidden_states: torch.Tensor,
        cache_position: torch.Tensor,
    ) -> torch.Tensor:
        at = cache_position + 1 if self.kind == "late" else cache_position
        for i, one in enumerate(self.crossed):
            one.keys = getattr(self, f"cross_keys_{i}")
            one.values = getattr(self, f"cross_values_{i}")
            one.at, one.full = cache_position, self.full
        cross = (
            transformers.Cache(layers=self.crossed)
            if self.crossed
            else (transformers.DynamicCache())
        )
        both = transformers.EncoderDecoderCache(self.cache(cache_position), cross)
        if self.is_t5 and self.kind == "late":
            for layer in self.layers:
                layer.get_seq_length = lambda: at[0]
        places = {} if self.is_t5 else {"position_ids": at[None]}
        states = self.decoder(
            input_ids=decoder_input_ids,
            encoder_hidden_states=encoder_hidden_states,
            attention_mask=self.seen(cache_position),
            past_key_values=both,
            use_cache=True,
            **places,
        )
        if self.kind == "stale":
            self.full.fill_(1)
        last: torch.Tensor = states.last_hidden_state
        last = last if self.kind == "unscaled" else last * self.scale
        result: torch.Tensor = self.head(last)
        return result


class Encoder(torch.nn.Module):
    """The encoder: ids or features to states."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.encoder = model.get_encoder()

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.encoder(value).last_hidden_state
        return result


def _write(name: str, kind: str, has_xnnpack: bool, scheme: str) -> bytes:
    model, one = model_of(name, scheme), torch.zeros(1, 1, dtype=torch.int64)
    is_text = name == "t5"
    value = torch.ones(1, LENGTH, dtype=torch.int64) if is_text else torch.zeros(1, MELS, FRAMES)
    length = torch.export.Dim("length", min=2, max=2 * LENGTH)
    is_dynamic = is_text and kind in ("plain", "unscaled")
    methods = {
        "encoder": (Encoder(model), (value,), ({1: length},)),
        "text_decoder": (
            Decoder(model, kind),
            (one, Encoder(model)(value), one[0]),
            (None, {1: length}, None),
        ),
    }
    with torch.no_grad():
        graphs = {
            key: torch.export.export(
                module.eval(), inputs, dynamic_shapes=shapes if is_dynamic else None
            )
            for key, (module, inputs, shapes) in methods.items()
        }
    return lowered(graphs, delegated=has_xnnpack, constant_methods=METADATA)


def program(name: str, kind: str = "plain", has_xnnpack: bool = False, scheme: str = "") -> bytes:
    """Return a program, made once."""
    sources = (Path(__file__), Path(static_caches.__file__))
    key = kept.digest(*sources, packages=("torch", "executorch", "transformers"))
    return kept.data(
        f"llm/encoder-decoder-{name}-{kind}-{has_xnnpack}{scheme}-{key}.pte",
        lambda: _write(name, kind, has_xnnpack, scheme),
    )
