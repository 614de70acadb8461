"""Files of the language model for `llm`: one shape, random weights, a file for each runtime.

`python -m benchmarks.llm_models` makes those that are missing; the area `llm` does so, too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import ROOT
from benchmarks.common import CACHE

DIM, LAYERS, HEADS, HIDDEN, VOCABULARY, CONTEXT = 768, 12, 12, 2048, 32000, 512
EPSILON, ROPE, BOS, EOS = 1e-5, 10000.0, 1, 2
INT4, FLOAT32 = "int4", "fp32"
FOLDER = CACHE / "llm"
MADE = "made"
"""The file in a folder of a model that says that it is complete."""

Part = Callable[[Path, str], None]


# ---- ExecuTorch ------------------------------------------------------------------------------


def write_weights(folder: Path, params: dict[str, Any]) -> Path:
    """Write random weights for export_llm and return their path."""
    import torch
    from executorch.examples.models.llama.llama_transformer import construct_transformer
    from executorch.examples.models.llama.model_args import ModelArgs

    torch.manual_seed(0)
    model = construct_transformer(ModelArgs(**params))
    state = dict(model.state_dict())
    for name, value in model.named_parameters():
        scale = 1.0 if "tok_embeddings" in name else value.shape[-1] ** -0.5
        noise = torch.randn(value.shape)
        state[name] = 1 + 0.1 * noise if value.dim() == 1 else scale * noise
    path = folder / "weights.pt"
    torch.save({name: value.detach().clone() for name, value in state.items()}, path)
    return path


def export(folder: Path, scheme: str) -> None:
    """Write model.pte: export_llm with XNNPACK, key-value caches and custom attention."""
    from executorch.examples.models.llama.export_llama_lib import _export_llama
    from executorch.extension.llm.export.config.llm_config import LlmConfig, ModelType

    params = {
        "dim": DIM,
        "n_layers": LAYERS,
        "n_heads": HEADS,
        "n_kv_heads": HEADS,
        "hidden_dim": HIDDEN,
        "vocab_size": VOCABULARY,
        "norm_eps": EPSILON,
        "rope_theta": ROPE,
    }
    (folder / "params.json").write_text(json.dumps(params))
    weights = write_weights(folder, params)
    config = LlmConfig()
    config.base.model_class = ModelType("llama3")
    config.base.checkpoint, config.base.params = str(weights), str(folder / "params.json")
    config.base.metadata = json.dumps({"get_bos_id": BOS, "get_eos_ids": [EOS]})
    config.export.max_seq_length = config.export.max_context_length = CONTEXT
    config.export.output_dir, config.export.output_name = str(folder), "model"
    config.model.use_kv_cache = config.model.use_sdpa_with_kv_cache = True
    config.backend.xnnpack.enabled = config.backend.xnnpack.extended_ops = True
    if scheme == INT4:
        config.quantization.qmode, config.quantization.group_size = "8da4w", 32
        config.quantization.use_hqq = False
        config.quantization.embedding_quantize = "4,32"
    _export_llama(config)
    weights.unlink()
    write_ascii_tokenizer(folder / "tokenizer.json")


def write_ascii_tokenizer(path: Path) -> None:
    """Write a tokenizer for the official runner, whose BPE takes a letter as a token. It has no
    parts of UTF-8 characters, at which that runner fails."""
    tokens = ["<unk>", "<s>", "</s>", *(chr(i) for i in range(33, 127))]
    tokens += [f"w{i}" for i in range(VOCABULARY - len(tokens))]
    model = {"type": "BPE", "vocab": {t: i for i, t in enumerate(tokens)}, "merges": []}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    special = [{"id": i, "content": tokens[i], "special": True, **flags} for i in range(3)]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    path.write_text(
        json.dumps(
            {
                "version": "1.0",
                "added_tokens": special,
                "model": model,
                "pre_tokenizer": level,
                "decoder": level,
            }
        )
    )


# ---- llama.cpp -------------------------------------------------------------------------------


def tensors() -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Yield random weights by llama.cpp's names."""
    rng = np.random.default_rng(0)

    def matrix(rows: int, columns: int) -> np.ndarray[Any, Any]:
        return rng.standard_normal((rows, columns), np.float32) * np.float32(columns**-0.5)

    yield "token_embd.weight", rng.standard_normal((VOCABULARY, DIM), np.float32)
    sizes = {f"attn_{name}": (DIM, DIM) for name in ("q", "k", "v", "output")}
    sizes |= {"ffn_gate": (HIDDEN, DIM), "ffn_up": (HIDDEN, DIM), "ffn_down": (DIM, HIDDEN)}
    for layer in range(LAYERS):
        for name, size in sizes.items():
            yield f"blk.{layer}.{name}.weight", matrix(*size)
        for name in ("attn_norm", "ffn_norm"):
            yield f"blk.{layer}.{name}.weight", np.ones(DIM, np.float32)
    yield "output_norm.weight", np.ones(DIM, np.float32)
    yield "output.weight", matrix(VOCABULARY, DIM)


def gguf(folder: Path, scheme: str) -> None:
    """Write model.gguf, all in float32 or with matrices in Q4_0."""
    from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType
    from gguf.quants import quantize

    out = GGUFWriter(folder / "model.gguf", "llama")
    out.add_context_length(CONTEXT)
    out.add_embedding_length(DIM)
    out.add_block_count(LAYERS)
    out.add_feed_forward_length(HIDDEN)
    out.add_head_count(HEADS)
    out.add_head_count_kv(HEADS)
    out.add_layer_norm_rms_eps(EPSILON)
    out.add_rope_dimension_count(DIM // HEADS)
    out.add_rope_freq_base(ROPE)
    out.add_vocab_size(VOCABULARY)
    is_int4 = scheme == INT4
    out.add_file_type(LlamaFileType.MOSTLY_Q4_0 if is_int4 else LlamaFileType.ALL_F32)
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256))]
    words = VOCABULARY - len(tokens)
    out.add_tokenizer_model("llama")
    out.add_token_list(tokens + [f"\u2581w{i}" for i in range(words)])
    out.add_token_scores([0.0] * VOCABULARY)
    out.add_token_types([2, 3, 3] + [6] * 256 + [1] * words)
    out.add_bos_token_id(BOS)
    out.add_eos_token_id(EOS)
    q4 = GGMLQuantizationType.Q4_0
    for name, value in tensors():
        if is_int4 and value.ndim == 2:
            out.add_tensor(name, quantize(value, q4), raw_dtype=q4)
        else:
            out.add_tensor(name, value)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


# ---- onnxruntime-genai -----------------------------------------------------------------------


def genai(folder: Path, scheme: str) -> None:
    """Write a folder for onnxruntime-genai, by its own builder, from a folder of transformers."""
    import runpy

    sys.modules["torchvision"] = None  # type: ignore[assignment]  # not needed, and may be broken
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    source = folder / "source"
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=DIM,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        intermediate_size=HIDDEN,
        vocab_size=VOCABULARY,
        max_position_embeddings=CONTEXT,
        rms_norm_eps=EPSILON,
        bos_token_id=BOS,
        eos_token_id=EOS,
        tie_word_embeddings=False,
    )
    LlamaForCausalLM(config).save_pretrained(source)
    words = {f"w{i}": i for i in range(3, VOCABULARY)}
    vocab = {"<unk>": 0, "<s>": BOS, "</s>": EOS, **words}
    model = {"type": "WordLevel", "vocab": vocab, "unk_token": "<unk>"}
    (source / "tokenizer.json").write_text(json.dumps({"added_tokens": [], "model": model}))
    names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    names["tokenizer_class"] = "PreTrainedTokenizerFast"
    (source / "tokenizer_config.json").write_text(json.dumps(names))
    options = ["--extra_options", "int4_block_size=32", "int4_accuracy_level=4"]
    sys.argv = [
        "builder",
        "-i",
        str(source),
        "-o",
        str(folder),
        "-p",
        scheme,
        "-e",
        "cpu",
        "-c",
        str(folder / "cache"),
        *(options if scheme == INT4 else ()),
    ]
    runpy.run_module("onnxruntime_genai.models.builder", run_name="__main__")
    for path in source.iterdir():
        path.unlink()


# ---- all -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Format:
    """A kind of files: the function that writes them, and their names."""

    write: Part
    model: str
    weights: str
    packages: tuple[str, ...] = ()


FORMATS = {
    "pte": Format(export, "model.pte", "model.pte"),
    "gguf": Format(gguf, "model.gguf", "model.gguf", ("gguf",)),
    "genai": Format(genai, "", "model.onnx.data", ("onnxruntime_genai", "transformers", "onnx_ir")),
}


def environment() -> dict[str, str]:
    """Return the environment of processes that import this package."""
    variables = os.environ | {"PYTHONWARNINGS": "ignore", "TOKENIZERS_PARALLELISM": "false"}
    # installed packages are compiled, all rivals' too
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    variables["PYTHONPATH"] = os.pathsep.join(
        [str(ROOT), *os.environ.get("PYTHONPATH", "").split()]
    )
    return variables


def folder_of(kind: str, scheme: str) -> Path:
    return FOLDER / f"{kind}-{scheme}"


def file_of(kind: str, scheme: str) -> Path:
    return folder_of(kind, scheme) / FORMATS[kind].model


def size_of(kind: str, scheme: str) -> int:
    """Return the bytes of a model's weights."""
    return (folder_of(kind, scheme) / FORMATS[kind].weights).stat().st_size


def prepare(kind: str, scheme: str, python: str) -> None:
    """Write a model's files if they are missing, in a process of its own."""
    folder = folder_of(kind, scheme)
    if (folder / MADE).exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    command = [python, "-m", "benchmarks.llm_models", kind, scheme]
    with (folder / "log").open("w") as log:
        process = subprocess.run(command, stdout=log, stderr=log, env=environment(), check=False)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: see {folder / 'log'}")
    (folder / MADE).touch()


if __name__ == "__main__":
    if len(sys.argv) == 3:
        FORMATS[sys.argv[1]].write(folder_of(*sys.argv[1:]), sys.argv[2])
    else:
        from benchmarks import bench_llm

        print(*bench_llm.prepared().missing, sep="\n")
