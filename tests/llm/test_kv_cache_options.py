"""Programs that need a KV cache or the memory of a device; the option --kv-cache."""

from pathlib import Path

import numpy as np
import pytest
import torch
from executorch.exir import schema
from executorch.extension.llm.cache.reference_cache import CacheConfig, ContiguousReferenceCache
from executorch.extension.llm.cache.update_and_attend import REGISTRY

import executorch_c
from executorch_c import KVCache, cli
from executorch_c.devtools import explain
from executorch_c.llm import TextRunner
from tests.backends import mlx_nodes
from tests.llm.test_kv_cache import (
    CAPACITY,
    HEAD,
    KV_HEADS,
    VALUE,
    arguments,
    arrays,
    decoder,
    layer,
)
from tests.plans import Plan, build


def plain(device: int = 0) -> bytes:
    """Return x + x; with a device, its planned memory is there."""
    plan = Plan()
    x, y = plan.input((4,)), plan.output((4,))
    plan.call("aten::add.out", x, x, 1, y)
    if device:
        plan.plan.non_const_buffer_device = [schema.NonConstBufferDevice(1, device, 0)]
    return build(plan)


def node() -> bytes:
    """Return a program whose payload has the call."""
    inputs = arrays(arguments(2))
    fields = dict(zip(("q", "k", "v", "position", "out"), range(5)), layer_id=0, scale=0.3)
    outputs = [np.zeros((1, 4, 2, 4), np.float32)]
    content = mlx_nodes.graph([[("UpdateAndAttend", {**fields, "out_dtype": 6})]], inputs, outputs)
    return bytes(mlx_nodes.program(content, inputs, outputs))


def nested() -> bytes:
    """Return a program whose payload is a program that has the call."""
    plan, n = Plan(), CAPACITY
    tensors = [plan.input((1, heads, n, size)) for heads, size in ((4, 8), (2, 8), (2, 4))]
    tensors += [plan.input((n, 1), "int64"), plan.output((1, 4, n, 4))]
    plan.append(schema.DelegateCall(plan.delegate("ExecutorBackend", 0), tensors))
    return build(plan, payloads=[layer()])


def test_requirements() -> None:
    for make, uses, devices in (
        (plain, False, []),
        (layer, True, []),
        (node, True, []),
        (nested, True, []),
        (lambda: plain(1), False, ["CUDA"]),
    ):
        needs = executorch_c.load(make()).requirements()
        assert (needs["uses_kv_cache"], needs["missing_devices"]) == (uses, devices)


def test_a_cache_without_a_use_is_refused() -> None:
    with pytest.raises(executorch_c.InvalidArgumentError, match="nothing calls kvcache"):
        executorch_c.load(plain()).load_method("forward", kv_cache=KVCache(4))
    executorch_c.load(node()).load_method("forward", kv_cache=KVCache(4))
    assert TextRunner(decoder(), kv_cache=KVCache(CAPACITY)).context == CAPACITY


def test_windows_are_shown() -> None:
    for window in (None, 3, [None, 3]):
        cache = KVCache(4, n_layers=2, window=window)
        assert cache.window == cache.copy().window == window
        assert (f"window {window}" in repr(cache)) == (window is not None)


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    """Return exit code and text of a command."""
    try:
        code = cli.main([str(word) for word in words])
    except SystemExit as error:
        code = int(str(error.code))
    return code, " ".join("".join(capsys.readouterr()).split())


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts, one, whole, other = (
        tmp_path / f"{name}.pte" for name in ("decoder", "node", "whole", "plain")
    )
    for path, data in zip((texts, one, whole, other), (decoder(), node(), nested(), plain(1))):
        path.write_bytes(data)
    assert (
        "can run here with a KV cache, which is not in the file: --kv-cache"
        in (run(capsys, "info", one)[1])
    )
    text = run(capsys, "info", other)[1]
    assert "bytes memory of CUDA" in text and "cannot run here, missing: memory of CUDA" in text
    code, text = run(capsys, "selective", one, "-o", tmp_path / "small")
    assert code == 1 and "leave the interpreter of MLXBackend out" in text
    code, text = run(capsys, "run", one)
    assert code == 1 and "--kv-cache capacity=N" in text
    for option in ("16", "capacity=16,window=2", "capacity=16,window=none/4,dtype=float16"):
        assert run(capsys, "run", one, "--kv-cache", option)[0] == 0
    for path in (texts, one, whole):
        for seed in range(3):  # a position begins at 0
            assert run(capsys, "run", path, "--kv-cache", "16", "--seed", seed)[0] == 0
    assert run(capsys, "trace", one, "--kv-cache", "16")[0] == 0
    assert run(capsys, "compare", one, one, "--kv-cache", "16")[0] == 0
    assert run(capsys, "check-nan", one, "--kv-cache", "16")[0] == 0
    words = "--ids", "1,2,3", "--max-new-tokens", 2, "--kv-cache"
    assert run(capsys, "generate", texts, *words, CAPACITY)[0] == 0
    assert run(capsys, "check", texts, "--llm", "--engines", "here", "--kv-cache", "16")[0] == 0
    for option, text in (
        ("n_layers=2", "expected capacity=N"),
        ("16,size=2", "'size' is none of capacity"),
        ("16,capacity=2", "'capacity' is there twice"),
        ("16,window=a", "window=a: expected a number"),
        ("16,dtype=int8", "must be float32, float16 or bfloat16"),
    ):
        code, said = run(capsys, "run", one, "--kv-cache", option)
        assert code == 2 and text in said


class Plain(torch.nn.Module):
    """Attention without a cache."""

    def forward(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, position: torch.Tensor
    ) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(
            q, k, v, is_causal=True, scale=0.3, enable_gqa=True
        )


MODEL = """
import torch
from tests.llm.test_kv_cache import Decoder

def make():
    return Decoder().eval(), (torch.tensor([[1, 2, 3]]), torch.tensor([0]))
"""


def test_commands_that_compare(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = ContiguousReferenceCache(CacheConfig(2, KV_HEADS, HEAD, CAPACITY))
    made._v = [torch.zeros(1, KV_HEADS, 0, VALUE) for _ in range(2)]
    monkeypatch.setattr(REGISTRY, "_caches", {"tests": made})
    monkeypatch.setattr(REGISTRY, "_active", "tests")
    texts, x, y = (tmp_path / name for name in ("decoder.pte", "x.npz", "y.npz"))
    texts.write_bytes(decoder())
    (tmp_path / "model.py").write_text(MODEL)
    model = "--model", f"{tmp_path / 'model.py'}:make"
    for command, *words in (
        ("run", "--save-inputs", x, "-o", y),
        ("validate", "--inputs", x, "--expect", y),
        ("perplexity", "--ids", "1,2,3,4,5"),
        ("explain", *model),
        ("quantization-error", *model),
        ("check", *model, "--random", "0", "--engines", "here"),
    ):
        code, text = run(capsys, command, texts, *words, "--kv-cache", CAPACITY)
        assert code == 0, text


def test_a_missing_cache_of_eager_is_no_fault_of_the_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model's error says how eager gets a cache, and the program's how the program does."""
    monkeypatch.setattr(REGISTRY, "_active", None)
    program, make = tmp_path / "decoder.pte", tmp_path / "model.py"
    program.write_bytes(decoder())
    make.write_text(MODEL)
    for command, *cache in (
        ("explain",),
        ("explain", "--kv-cache", CAPACITY),
        ("quantization-error",),
        ("check",),
    ):
        code, text = run(capsys, command, program, "--model", f"{make}:make", *cache)
        assert code == 1 and f"error: {make}:make: " in text, text
        assert "stage: eager" in text and "REGISTRY.install" in text, text


def test_a_missing_cache_of_the_program_is_no_row_of_a_report() -> None:
    """The reference has no cache: it is the model before its attention is replaced."""
    with pytest.raises(executorch_c.InvalidStateError, match=r"KVCache\(capacity\)"):
        explain(Plain().eval(), arguments(3), program=layer(), progress=False)
