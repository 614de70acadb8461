"""Programs of optimum-executorch itself: every logit as in eager PyTorch.

It needs transformers 5.0.0rc1 (its custom caches do not work with 5.0), so `.ci/run` runs this file
in a separate environment. With another version it is skipped.
"""

import sys
from typing import Any

import numpy as np
import pytest
import torch

transformers = pytest.importorskip("transformers")
if transformers.__version__ != "5.0.0rc1":
    pytest.skip("optimum-executorch 1.1 needs transformers 5.0.0rc1", allow_module_level=True)
sys.modules.setdefault("torchvision", None)  # type: ignore[arg-type]  # may be broken, not needed
pytest.importorskip("optimum.exporters.executorch")

import optimum.exporters.executorch.convert  # noqa: F401  (registers custom_sdpa)
from optimum.exporters.executorch.integrations import CausalLMExportableModule
from optimum.exporters.executorch.recipes.portable import export_to_executorch_with_portable

from executorch_c import load
from executorch_c.llm import TextRunner

CONTEXT, VOCABULARY = 64, 256
IDS = np.random.default_rng(0).integers(3, VOCABULARY, 37).tolist()
ROWS = {
    "plain": ((False, False, True), set()),
    "custom_sdpa": ((False, True, True), {"llama::custom_sdpa.out"}),
    "custom_cache": ((True, False, True), {"llama::update_cache.out"}),
    "both": ((True, True, True), {"llama::custom_sdpa.out", "llama::update_cache.out"}),
    "dynamic": ((True, True, False), {"llama::custom_sdpa.out", "llama::update_cache.out"}),
}
"""Options (custom cache, custom attention, static shapes), and the operators that they add."""


def make() -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=128,
        vocab_size=VOCABULARY,
        max_position_embeddings=CONTEXT,
    )
    model = transformers.LlamaForCausalLM(config).eval()
    model.generation_config = transformers.GenerationConfig(
        use_cache=True,
        cache_implementation="static",
        max_length=CONTEXT,
        cache_config={"batch_size": 1, "max_cache_len": CONTEXT},
    )
    return model


@pytest.mark.parametrize("name", list(ROWS))
def test_every_logit(name: str) -> None:
    (cache, sdpa, is_static), operators = ROWS[name]
    with torch.no_grad():
        expected = make()(torch.tensor([IDS]), use_cache=False).logits[0].numpy()
    module = CausalLMExportableModule(make(), CONTEXT, cache, sdpa, is_static)
    program = load(bytes(export_to_executorch_with_portable(module)["model"].buffer))
    results = {row["name"] for method in program.info()["methods"] for row in method["operators"]}
    assert {operator for operator in results if operator.startswith("llama::")} == operators
    runner = TextRunner(program)
    assert runner.signature.prefill.is_static == is_static
    np.testing.assert_allclose(runner.all_logits(IDS), expected, atol=1e-5)
    runner.rewind(5)
    np.testing.assert_allclose(runner.prefill(IDS[5:20]), expected[19], atol=1e-5)
