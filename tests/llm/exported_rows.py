"""The language models of test_exported.py: architectures, and options of their export.

`python -m tests.llm.exported_rows NAME...` prints the largest difference of each
call.
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.llm.exported_llm import CACHED, Row, config_of, load, models_of

XNNPACK = {**CACHED, "backend.xnnpack.enabled": True, "backend.xnnpack.extended_ops": True}
GROUPS = {
    **XNNPACK,
    "quantization.qmode": "8da4w",
    "quantization.group_size": 32,
    "quantization.use_hqq": False,
}
INT4 = {**GROUPS, "quantization.embedding_quantize": "4,32"}
QWEN25 = {"attention_qkv_bias": True, "use_hf_rope": True}
QWEN3 = {"use_hf_rope": True, "use_qk_norm": True, "qk_norm_before_rope": True, "head_dim": 32}
DELTA = {
    "n_layers": 3,
    "layer_types": ["linear_attention", "full_attention", "linear_attention"],
    "use_hf_rope": True,
    "use_qk_norm": True,
    "qk_norm_before_rope": True,
    "head_dim": 32,
    "partial_rotary_factor": 0.25,
    "use_q_gate": True,
    "rms_norm_add_unit_offset": True,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
}
LFM2 = {"n_layers": 3, "layer_types": ["conv", "full_attention", "conv"], **QWEN3}
PHI4 = {
    "use_hf_rope": True,
    "partial_rotary_factor": 0.75,
    "rope_scaling_short_factor": [1.0, 1.1, 1.3, 1.5, 2.0, 3.0],
    "rope_scaling_long_factor": [1.0, 1.5, 2.0, 4.0, 8.0, 16.0],
    "original_max_position_embeddings": 32,
    "max_position_embeddings": 128,
}
GEMMA3 = {
    **QWEN3,
    "act_fn": "gelu_approx",
    "rms_norm_add_unit_offset": True,
    "attention_multiplier": 0.2,
    "local_rope_theta": 1000.0,
}
MOE = {"moe": True, "num_experts": 4, "num_activated_experts": 2, "moe_hidden_dim": 48}
RING = ("llama::custom_sdpa", "llama::update_cache_with_indices")
BY_ONE = (1,) * 12


ROWS = (
    Row("llama3.1-rope", {"use_scaled_rope": True, "rope_theta": 500000.0}),
    Row("llama-static", options={**CACHED, "model.enable_dynamic_shape": False}, steps=BY_ONE),
    Row(
        "long-context",
        options={**CACHED, "export.max_seq_length": 128, "export.max_context_length": 1024},
        steps=(127, 1, 127, 127, 2, 127, 127, 127, 1, 127, 127, 1, 1),
    ),
    Row("qwen2.5", QWEN25, model_class="qwen2_5_0_5b"),
    Row("qwen3", QWEN3, model_class="qwen3_0_6b"),
    Row("qwen3.5", DELTA, uses=("llama::gated_delta_rule",), model_class="qwen3_5_0_8b"),
    Row("phi4", PHI4, model_class="phi_4_mini"),
    Row(
        "gemma3",
        GEMMA3,
        {**CACHED, "model.local_global_attention": [8, 0]},
        (*RING, "llama::update_cache"),
    ),
    Row("lfm2", LFM2, uses=("aten::convolution", "llama::custom_sdpa"), model_class="lfm2_350m"),
    Row("experts", MOE, uses=("aten::topk", "llama::custom_sdpa")),
    Row("sink", options={**CACHED, "model.use_attention_sink": "4,12"}, uses=RING),
    Row("lora", options=XNNPACK, lora="base", uses=("XnnpackBackend",)),
    *(
        Row(
            f"lora-methods-{name}",
            lora="method",
            methods=("forward", "lora_forward"),
            options={**XNNPACK, "multimethod.share_mutable_buffers": shared},
            uses=("XnnpackBackend",),
        )
        for name, shared in (("shared", True), ("private", False))
    ),
    Row(
        "lora-data",
        options={
            **XNNPACK,
            "export.foundation_weights_file": "foundation",
            "export.lora_weights_file": "adapter",
        },
        lora="base",
        uses=("XnnpackBackend",),
    ),
    Row("float16", options={**CACHED, "model.dtype_override": "fp16"}),
    Row("bfloat16", options={**CACHED, "model.dtype_override": "bf16"}),
    Row(
        "int8-cache",
        options={**CACHED, "model.quantize_kv_cache": True},
        uses=("llama::custom_quantized_sdpa", "quantized_decomposed::quantize_per_token"),
    ),
    # get_vulkan_partitioner sets no alias_buffer_mutations: the caches are constants that
    # llama.sdpa_with_kv_cache writes.
    Row("vulkan", options={**CACHED, "backend.vulkan.enabled": True}, uses=("VulkanBackend",)),
    *(
        Row(
            f"{name}-8da4w",
            params,
            INT4,
            ("XnnpackBackend", "llama::custom_sdpa"),
            True,
            5e-6,
            model_class=model,
        )
        for name, params, model in (
            ("llama", {}, "llama3"),
            ("qwen2.5", QWEN25, "qwen2_5_0_5b"),
            ("qwen3", QWEN3, "qwen3_0_6b"),
            ("phi4", PHI4, "phi_4_mini"),
            ("gemma3", GEMMA3, "llama3"),
            ("lfm2", LFM2, "lfm2_350m"),
        )
    ),
)

WRONG = (
    Row("wrong-4w", options={**GROUPS, "quantization.qmode": "4w"}),
    Row("wrong-shared-caches", {"n_layers": 4, "num_kv_shared_layers": 2}),
    Row("wrong-no-checkpoint", options={**CACHED, "checkpoint": False}),
)
"""Exports whose logits are not those of the model: check_llm must find each."""
BY_NAME = {row.name: row for row in (*ROWS, *WRONG)}
QUANTISED = (
    "quantization.qmode",
    "quantization.pt2e_quantize",
    "quantization.embedding_quantize",
    "model.quantize_kv_cache",
)


def model_of(row: Row, quantised: bool = True) -> Any:
    """Return the eager model of a row, or the one that it was quantised from."""
    options = {
        name: value for name, value in row.options.items() if quantised or name not in QUANTISED
    }
    with tempfile.TemporaryDirectory() as work:
        one = Row(row.name, row.params, options, model_class=row.model_class)
        return models_of(config_of(one, Path(work)))["forward"]


def differences(outputs: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> list[float]:
    """Return the largest difference of each call."""
    for a, b in zip(outputs, wanted, strict=True):
        assert a.shape == b.shape and np.isfinite(b).all()
    return [float(np.abs(a - b).max()) for a, b in zip(outputs, wanted)]


if __name__ == "__main__":
    for name in sys.argv[1:]:
        from executorch_c.llm import TextRunner

        export = load(BY_NAME[name])
        for method in BY_NAME[name].methods:
            runner = TextRunner(export.program, data_path=export.data or None, method=method)
            ours = [runner.forward(ids) for ids in export.tokens]
            for kind in (export.eager, export.official):
                if method in kind:
                    shown = [f"{x:.1e}" for x in differences(ours, kind[method])]
                    print(name, method, "eager" if kind is export.eager else "official", *shown)
