"""Programs with Optimum's signature, exported from models of transformers: tokens [1, S] and their
positions [S], all logits, a static cache.

They are exported by hand, because optimum-executorch, which is measured in test_optimum.py, needs
another version of transformers than the other tests.
"""

from typing import Any

import numpy as np
import pytest
import torch

from executorch_c.llm import TextRunner, check_llm
from tests import kept
from tests.exports import lowered

transformers = pytest.importorskip("transformers")

from tests.llm import static_caches
from tests.llm.static_caches import Caches

CONTEXT, LONGEST, VOCABULARY = 32, 12, 96
METADATA = static_caches.metadata(CONTEXT, VOCABULARY, get_n_layers=2, get_dtype=6)
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": CONTEXT,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
MODELS = {"llama": ("LlamaConfig", {}), "qwen3": ("Qwen3Config", {"head_dim": 8})}


class Cached(Caches):
    """A model with static caches in buffers, called as Optimum's programs are."""

    def __init__(self, model: Any) -> None:
        super().__init__(model.config, CONTEXT)
        self.model = model

    def forward(self, input_ids: torch.Tensor, cache_position: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.model(
            input_ids,
            attention_mask=self.seen(cache_position),
            position_ids=cache_position[None],
            past_key_values=self.cache(cache_position),
            use_cache=True,
        ).logits
        return result


def model_of(name: str) -> Any:
    config, options = MODELS[name]
    torch.manual_seed(0)
    config = getattr(transformers, config)(**SIZES, **options)
    config._attn_implementation = "sdpa"
    return transformers.AutoModelForCausalLM.from_config(config).eval().requires_grad_(False)


def exported(name: str, is_static: bool) -> bytes:
    """Return the program of a model, for one token or up to LONGEST of them."""

    def make() -> bytes:
        n = 1 if is_static else 5
        length = torch.export.Dim("length", min=1, max=LONGEST)
        shapes = None if is_static else ({1: length}, {0: length})
        inputs = (torch.zeros(1, n, dtype=torch.int64), torch.arange(n))
        constants = {**METADATA, "enable_dynamic_shape": not is_static}
        model = Cached(model_of(name))
        return lowered(model, *inputs, dynamic_shapes=shapes, constant_methods=constants)

    sources = (kept.Path(__file__), kept.Path(static_caches.__file__))
    key = kept.digest(*sources, packages=("torch", "executorch", "transformers"))
    return kept.data(f"llm/transformers-{name}-{is_static}-{key}.pte", make)


def eager(name: str, ids: list[int]) -> np.ndarray:
    with torch.no_grad():
        result: np.ndarray = model_of(name)(torch.tensor([ids]), use_cache=False).logits[0].numpy()
    return result


IDS = np.random.default_rng(0).integers(3, VOCABULARY, CONTEXT).tolist()


@pytest.mark.sweep(2)
@pytest.mark.parametrize("name", list(MODELS))
def test_every_logit(name: str) -> None:
    expected = eager(name, IDS)
    for is_static in (True, False):
        runner = TextRunner(exported(name, is_static))
        signature = runner.signature
        assert signature.prefill.positions == ("first" if is_static else "each")
        assert signature.prefill.all_logits
        assert signature.prefill.is_static == is_static
        assert runner.context == CONTEXT and runner.eos_ids == (2,)
        np.testing.assert_allclose(runner.all_logits(IDS), expected, atol=1e-5)
        runner.rewind(3)
        np.testing.assert_allclose(runner.prefill(IDS[3:20]), expected[19], atol=1e-5)


def test_checks_pass_and_see_a_fault() -> None:
    program = exported("llama", False)
    assert check_llm(
        lambda ids: eager("llama", ids), [IDS[:20]], program=program, progress=False
    ).ok
    wrong = model_of("llama")
    wrong.model.layers[1].mlp.down_proj.weight.data[3] *= 1.5

    def logits(ids: list[int]) -> np.ndarray:
        with torch.no_grad():
            result: np.ndarray = wrong(torch.tensor([ids]), use_cache=False).logits[0].numpy()
        return result

    assert not check_llm(logits, [IDS[:20]], program=program, progress=False).ok


def test_a_model_of_transformers_is_the_reference() -> None:
    """It has no cache here, and gets whole sequences: calls of the program in parts match, too."""
    program, prompts = exported("llama", False), [IDS[:20]]
    report = check_llm(model_of("llama"), prompts, program=program, progress=False)
    assert report.ok, str(report)
    assert len(report["context"].positions) == CONTEXT > LONGEST
    wrong = model_of("llama")
    wrong.model.layers[1].mlp.down_proj.weight.data[3] *= 1.5
    report = check_llm(wrong, prompts, program=program, progress=False)
    assert {row.case for row in report if row.verdict == "differ"} >= {"steps", "chunks", "context"}
    assert report.explanation is not None, report.notes
    assert report.explanation.first is not None
    assert report.explanation.first.module == "model.model.layers.1.mlp.down_proj"


def test_a_rewind_of_static_caches() -> None:
    """Transformers' caches count positions in a buffer that each call overwrites: no recurrent
    state."""
    runner = TextRunner(exported("llama", False))
    expected = runner.prefill([*IDS[:3], 20])
    runner.reset()
    runner.prefill(IDS[:5])
    runner.rewind(3)
    np.testing.assert_allclose(runner.step(20), expected, atol=1e-5)
