"""Gemma 3 with images and Whisper, exported from models of transformers with the methods and
signatures of Optimum: every logit as in eager PyTorch, without caches."""

from typing import Any

import numpy as np
import pytest
import torch

from executorch_c.llm import EncoderDecoder, MultimodalRunner
from tests import kept
from tests.exports import lowered

transformers = pytest.importorskip("transformers")

from tests.llm import encoder_decoders, static_caches
from tests.llm.encoder_decoders import FRAMES, MELS
from tests.llm.static_caches import Caches

CONTEXT, LONGEST, VOCABULARY, WINDOW, SIDE, IMAGE_TOKENS = 32, 12, 96, 8, 16, 4
METADATA = static_caches.metadata(
    CONTEXT, VOCABULARY, get_n_layers=3, get_dtype=6, vision_token_id=9
)
RNG = np.random.default_rng(0)


# ---- Gemma 3 ---------------------------------------------------------------------------------


def gemma(activation: str = "gelu_pytorch_tanh") -> Any:
    torch.manual_seed(0)
    text = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "intermediate_size": 48,
        "max_position_embeddings": CONTEXT,
        "sliding_window": WINDOW,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "pad_token_id": 0,
        "query_pre_attn_scalar": 8,
        "hidden_activation": activation,
    }
    vision = {
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 40,
        "image_size": SIDE,
        "patch_size": 4,
        "hidden_act": activation,
    }
    config = transformers.Gemma3Config(
        text_config=text, vision_config=vision, mm_tokens_per_image=IMAGE_TOKENS
    )
    model = transformers.Gemma3ForConditionalGeneration(config).eval().requires_grad_(False)
    for name, value in model.named_parameters():
        if "norm" not in name and value.dim() > 1:
            value.normal_(std=value.shape[-1] ** -0.5)
    return model


class Vision(torch.nn.Module):
    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model.model

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.model.get_image_features(pixel_values).pooler_output
        return result


class TextDecoder(Caches):
    def __init__(self, model: Any) -> None:
        super().__init__(model.config.text_config, CONTEXT)
        self.model, self.head = model.model.language_model, model.lm_head

    def run(self, embeds: torch.Tensor, positions: torch.Tensor, cache: Any) -> torch.Tensor:
        masks = {
            "full_attention": self.seen(positions),
            "sliding_attention": self.seen(positions, WINDOW),
        }
        if cache is None:
            masks = {name: mask[..., : len(positions)] for name, mask in masks.items()}
        states = self.model(
            inputs_embeds=embeds,
            attention_mask=masks,
            past_key_values=cache,
            position_ids=positions[None],
            use_cache=cache is not None,
        )
        result: torch.Tensor = self.head(states.last_hidden_state)
        return result

    def forward(self, inputs_embeds: torch.Tensor, cache_position: torch.Tensor) -> torch.Tensor:
        return self.run(inputs_embeds, cache_position, self.cache(cache_position))


def gemma_methods() -> dict[str, tuple[torch.nn.Module, Any, Any]]:
    """Return module, example and dynamic shapes of each method."""
    model, n = gemma(), torch.export.Dim("n", min=1, max=LONGEST)
    ids, at = torch.zeros(1, 5, dtype=torch.int64), torch.arange(5)
    return {
        "vision_encoder": (Vision(model), (torch.zeros(1, 3, SIDE, SIDE),), None),
        "token_embedding": (model.get_input_embeddings(), (ids,), ({1: n},)),
        "text_decoder": (TextDecoder(model), (torch.zeros(1, 5, 32), at), ({1: n}, {0: n})),
    }


# ---- programs --------------------------------------------------------------------------------


def exported(has_xnnpack: bool) -> bytes:
    """Return the program of Gemma 3, made once."""

    def make() -> bytes:
        methods = gemma_methods()
        with torch.no_grad():
            graphs = {
                key: torch.export.export(module.eval(), inputs, dynamic_shapes=shapes)
                for key, (module, inputs, shapes) in methods.items()
            }
        return lowered(graphs, delegated=has_xnnpack, constant_methods=METADATA)

    sources = (kept.Path(__file__), kept.Path(static_caches.__file__))
    key = kept.digest(*sources, packages=("torch", "executorch", "transformers"))
    return kept.data(f"llm/gemma3-{has_xnnpack}-{key}.pte", make)


def image() -> np.ndarray:
    return RNG.standard_normal((1, 3, SIDE, SIDE)).astype(np.float32)


def ids(count: int) -> list[int]:
    outputs: list[int] = RNG.integers(3, VOCABULARY, count).tolist()
    return outputs


@pytest.mark.heavy
@pytest.mark.parametrize("has_xnnpack", [False, True])
def test_gemma_3_with_images(has_xnnpack: bool) -> None:
    """Each prefix, past the windows of its sliding layers.

    The exporter's partitioner for XNNPACK drops the form of GELU, so that such a file, in the
    official runtime, too, computes the exact one: up to 1e-3 from the model's.
    """
    runner = MultimodalRunner(exported(has_xnnpack))
    model = gemma("gelu" if has_xnnpack else "gelu_pytorch_tanh")
    parts: list[Any] = [ids(3), image(), ids(4), image(), *([one] for one in ids(8))]
    with torch.no_grad():
        embeds = torch.cat(
            [
                Vision(model)(torch.from_numpy(part))
                if isinstance(part, np.ndarray)
                else model.get_input_embeddings()(torch.tensor([part]))
                for part in parts
            ],
            1,
        )
        decoder = TextDecoder(model)
        expected = decoder.run(embeds, torch.arange(embeds.shape[1]), None)[0].numpy()
    assert embeds.shape[1] == 23 > 2 * WINDOW
    for part in parts:
        result = runner.prefill([part])
        np.testing.assert_allclose(result, expected[runner.position - 1], atol=1e-5)
    assert runner.position == len(expected)


@pytest.mark.heavy
def test_whisper() -> None:
    """Every logit, and the tokens of a greedy generation."""
    runner = EncoderDecoder(encoder_decoders.program("whisper", has_xnnpack=True))
    features = RNG.standard_normal((1, MELS, FRAMES)).astype(np.float32)
    model = encoder_decoders.model_of("whisper")

    @torch.no_grad()
    def logits(tokens: list[int]) -> np.ndarray:
        numbers = {"decoder_input_ids": torch.tensor([tokens])}
        return model(input_features=torch.from_numpy(features), **numbers).logits[0].numpy()

    runner.encode_input(features)
    tokens = [1, *ids(encoder_decoders.CONTEXT - 1)]
    rows = np.concatenate([runner.forward([token]) for token in tokens])
    np.testing.assert_allclose(rows, logits(tokens), atol=1e-5)
    runner.encode_input(features)
    known = list(runner.start_ids)
    for token in runner.generate(known, max_new_tokens=6, ignore_eos=True).ids:
        assert token == int(logits(known)[-1].argmax())
        known.append(token)
