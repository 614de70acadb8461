"""Language models through the official exporter, export_llm.

A `Row` is an architecture and the options of its export. `load` exports a row, or reads it from the
cache: the program, its .ptd files, the tokens of a conversation, and the logits that eager PyTorch
(the model that was exported, also in float64) and the official runtime compute for them, call by
call. The weights are random with the statistics of trained ones: scaled by fan-in, heavy tails,
gains around 1.

`exported_rows.py` has the rows.
"""

import copy
import json
import tempfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import executorch.extension.llm.custom_ops.custom_ops  # noqa: F401  (torch.ops.llama)
import numpy as np
import torch

from tests import kept

VOCABULARY, DIM, HEADS, KV_HEADS, HIDDEN = 256, 64, 4, 2, 96
LONGEST, CONTEXT = 16, 48  # max_seq_length: a call takes one token less; max_context_length
STEPS = (5, 1, 1, 7, 2, 1, 1, 15, 1, 8, 1, 1)
LLAMA = {
    "dim": DIM,
    "n_layers": 2,
    "n_heads": HEADS,
    "n_kv_heads": KV_HEADS,
    "hidden_dim": HIDDEN,
    "vocab_size": VOCABULARY,
    "norm_eps": 1e-5,
    "rope_theta": 10000.0,
}
CACHED = {"model.use_kv_cache": True, "model.use_sdpa_with_kv_cache": True}
ADAPTED = ("q_proj", "v_proj", "down_proj")


@dataclass(frozen=True)
class Row:
    """A model and the options of its export.

    `params` are ModelArgs of export_llm; `options` fields of its LlmConfig, by path. `uses` must be
    among the program's operators and backends. `limit` is the largest error of a logit (about 10)
    against eager ("official": against the official runtime) of rows that are not `in_float64`.
    """

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=lambda: CACHED)
    uses: tuple[str, ...] = ("llama::custom_sdpa", "llama::update_cache")
    official: bool = False
    limit: float = 1e-5
    steps: tuple[int, ...] = STEPS
    model_class: str = "llama3"
    lora: str = ""
    methods: tuple[str, ...] = ("forward",)

    @property
    def in_float64(self) -> bool:
        """Whether eager also runs in float64: only models without quantised parts can."""
        return not self.official and not any("quanti" in name for name in self.options)


@dataclass(frozen=True)
class ExportedRow:
    """An exported row."""

    program: Path
    data: tuple[Path, ...]
    tokens: tuple[list[int], ...]
    """Of each call."""
    eager: Mapping[str, list[np.ndarray]]
    """Logits of each call, by method: float32 [rows, V]."""
    exact: Mapping[str, list[np.ndarray]]
    """As `eager`, computed in float64; of rows `in_float64`."""
    official: Mapping[str, list[np.ndarray]]


# ---- weights ---------------------------------------------------------------------------------


def _weight(name: str, like: torch.Tensor, offset: bool) -> torch.Tensor:
    if like.dim() == 1:
        noise = 0.1 * torch.randn(like.shape)
        return noise if offset or "bias" in name else 1 + noise
    tails = torch.distributions.StudentT(torch.tensor(5.0)).sample(like.shape) * (3 / 5) ** 0.5
    if "tok_embeddings" in name:
        return tails
    # experts are [experts, hidden, dim]
    gain = 3.0 if name.startswith("output") else 1.0
    return tails * gain / like.shape[-1] ** 0.5


def checkpoint(params: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Return the state dict of a model of export_llm; state (buffers) is as it begins."""
    from executorch.examples.models.llama.llama_transformer import construct_transformer
    from executorch.examples.models.llama.model_args import ModelArgs

    torch.manual_seed(zlib.crc32(json.dumps(dict(params)).encode()))
    model = construct_transformer(ModelArgs(**params))
    offset = bool(params.get("rms_norm_add_unit_offset"))
    results = dict(model.state_dict())
    for name, value in model.named_parameters():
        if name.rpartition(".")[2] not in ("A_log", "dt_bias"):
            results[name] = _weight(name, value, offset and "norm" in name)
    return {name: value.detach().clone().contiguous() for name, value in results.items()}


def adapter(path: Path, layers: int) -> None:
    """Write a LoRA adapter in the format of PEFT."""
    from safetensors.torch import save_file

    torch.manual_seed(5)
    sizes = {
        "self_attn.q_proj": (DIM, DIM),
        "self_attn.v_proj": (DIM, DIM * KV_HEADS // HEADS),
        "mlp.down_proj": (HIDDEN, DIM),
    }
    tensors = {}
    for layer in range(layers):
        for name, (inputs, outputs) in sizes.items():
            prefix = f"base_model.model.model.layers.{layer}.{name}"
            tensors[f"{prefix}.lora_A.weight"] = torch.randn(8, inputs) / inputs**0.5
            tensors[f"{prefix}.lora_B.weight"] = torch.randn(outputs, 8) / 8**0.5
    save_file(tensors, str(path))


# ---- export_llm ------------------------------------------------------------------------------


def config_of(row: Row, work: Path) -> Any:
    """Return the LlmConfig of a row whose files are in a folder."""
    from executorch.extension.llm.export.config.llm_config import (
        DtypeOverride,
        LlmConfig,
        LoraConfig,
        MethodConfig,
        ModelType,
        Pt2eQuantize,
    )

    params = {**LLAMA, **row.params}
    # the exporter takes paths with "int8" or "8da4w" for those of quantised checkpoints
    (work / "params.json").write_text(json.dumps(params))
    weights = work / "weights.pt"
    config = LlmConfig()
    if row.options.get("checkpoint", True):
        torch.save(checkpoint(params), weights)
        config.base.checkpoint = str(weights)
    config.base.model_class = ModelType(row.model_class)
    config.base.params = str(work / "params.json")
    config.base.metadata = '{"get_bos_id": 1, "get_eos_ids": [2, 3]}'
    config.export.max_seq_length, config.export.max_context_length = LONGEST, CONTEXT
    config.export.output_dir, config.export.output_name = str(work), "program"
    for path, value in row.options.items():
        owner, _, name = path.rpartition(".")
        kinds = {"dtype_override": DtypeOverride, "pt2e_quantize": Pt2eQuantize}
        at = config
        for part in filter(None, owner.split(".")):
            at = getattr(at, part)
        if owner:
            setattr(at, name, kinds.get(name, lambda v: v)(value))
    if row.lora:
        adapter(work / "adapter.safetensors", params["n_layers"])
        lora = LoraConfig(str(work / "adapter.safetensors"), None, 8, 16, list(ADAPTED))
        if row.lora == "method":
            config.multimethod.methods = [
                MethodConfig("forward"),
                MethodConfig("lora_forward", lora),
            ]
        else:
            config.base.lora_config = lora
    return config


def models_of(config: Any) -> dict[str, torch.nn.Module]:
    """Return the eager model of each method, after the exporter's transformations."""
    from executorch.examples.models.llama.export_llama_lib import _prepare_for_llama_export

    methods = {method.method_name: method.lora_config for method in config.multimethod.methods}
    results = {}
    for name, lora in (methods or {"forward": config.base.lora_config}).items():
        one = copy.deepcopy(config)
        one.multimethod.methods, one.base.lora_config = [], lora
        results[name] = _prepare_for_llama_export(one).model.eval()
    return results


Caller = Callable[[list[int], int], Any]


def from_export_llm(row: Row, work: Path) -> dict[str, dict[str, Caller]]:
    """Export a row to work/program.pte and return functions that call its eager models.

    By kind ("eager", "exact"), then by method.
    """
    from executorch.examples.models.llama.export_llama_lib import _export_llama

    config = config_of(row, work)
    models = models_of(config)
    _export_llama(copy.deepcopy(config))

    def caller(model: Any) -> Caller:
        def call(ids: list[int], start: int) -> Any:
            tokens = torch.tensor([ids])
            if not config.model.use_kv_cache:
                return model(tokens)
            return model(tokens, {"input_pos": torch.tensor([start])})

        return call

    exact = {name: copy.deepcopy(model).double() for name, model in models.items()}
    kinds = {"eager": models, "exact": exact if row.in_float64 else {}}
    return {
        kind: {name: caller(model) for name, model in by_name.items()}
        for kind, by_name in kinds.items()
    }


# ---- rows of the cache -----------------------------------------------------------------------


def _rows(logits: Any) -> np.ndarray:
    result = logits[0] if isinstance(logits, (tuple, list)) else logits
    result = result.detach().reshape(-1, result.shape[-1])
    return (result if result.dtype == torch.float64 else result.float()).numpy().copy()


def tokens_of(row: Row) -> list[list[int]]:
    rng = np.random.default_rng(0)
    return [rng.integers(4, VOCABULARY, n).tolist() for n in row.steps]


def run_eager(call: Caller, tokens: Sequence[list[int]], cached: bool) -> list[np.ndarray]:
    """Return the logits of each call."""
    results, before = [], list[int]()
    with torch.no_grad():
        for ids in tokens:
            results.append(_rows(call(ids if cached else before + ids, len(before))))
            before = before + ids
    return results


def run_official(path: Path, method: str, tokens: Sequence[list[int]]) -> list[np.ndarray]:
    """Return the logits of the official runtime for each call."""
    import executorch.kernels.quantized  # noqa: F401
    from executorch.runtime import Runtime

    loaded = Runtime.get().load_program(path).load_method(method)
    output, at = [], 0
    for ids in tokens:
        inputs = [torch.tensor([ids])]
        if loaded.metadata.num_inputs() > 1:
            inputs.append(torch.tensor([at]))
        output.append(_rows(loaded.execute(inputs)[0].clone()))
        at += len(ids)
    return output


def _write(row: Row, folder: Path) -> None:
    folder.mkdir()
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        callers = from_export_llm(row, work)
        for path in work.iterdir():
            if path.suffix in (".pte", ".ptd"):
                (folder / path.name).write_bytes(path.read_bytes())
    tokens, arrays = tokens_of(row), {}
    cached = bool(row.options.get("model.use_kv_cache"))
    for method in row.methods:
        for kind, by_method in callers.items():
            if method in by_method:
                for i, logits in enumerate(run_eager(by_method[method], tokens, cached)):
                    arrays[f"{kind}_{method}_{i}"] = logits
        if row.official:
            for i, logits in enumerate(run_official(folder / "program.pte", method, tokens)):
                arrays[f"official_{method}_{i}"] = logits
    np.savez(folder / "logits.npz", **arrays)


def load(row: Row) -> ExportedRow:
    """Return an exported row."""
    key = kept.digest(Path(__file__), row, packages=("torch", "executorch", "torchao"))
    folder = kept.file(f"llm/exported-{row.name}-{key}", lambda path: _write(row, path))
    with np.load(folder / "logits.npz") as arrays:

        def of(kind: str) -> dict[str, list[np.ndarray]]:
            return {
                method: [arrays[f"{kind}_{method}_{i}"] for i in range(len(row.steps))]
                for method in row.methods
                if f"{kind}_{method}_0" in arrays
            }

        return ExportedRow(
            folder / "program.pte",
            tuple(sorted(folder.glob("*.ptd"))),
            tuple(tokens_of(row)),
            of("eager"),
            of("exact"),
            of("official"),
        )
