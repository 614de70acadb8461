"""The official names: shapes of arguments, and the same text as ExecuTorch's own runner."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from executorch_c.llm.official import GenerationConfig, MultimodalRunner, Stats, TextLLMRunner
from executorch_c.llm.official import generate_hf, generate_text_hf, make_image_input
from executorch_c.llm.official import make_raw_audio_input, make_token_input
from tests.llm import small_llm
from tests.llm.small_llm import CONTEXT, program
from tests.llm.small_multimodal import SIDE, program as multimodal

PROMPTS = ["The quick brown", " fox jumps"]
SPECIAL = ("<unk>", "<s>", "</s>", "<|eot|>")
"""Tokens that the official runner writes as text: one generation in fifty samples one."""
SCRIPT = """
import json, sys, time
import torch
from executorch.extension.llm.custom_ops import custom_ops
from executorch.kernels import quantized
from executorch.extension.llm.runner import GenerationConfig, TextLLMRunner
pte, tokenizer, out, temperature, *prompts = sys.argv[1:]
before = int(time.time())
runner = TextLLMRunner(pte, tokenizer)
after, found = int(time.time()), []
for prompt in prompts:
    pieces = []
    config = GenerationConfig(temperature=float(temperature), max_new_tokens=12, echo=False)
    try:
        runner.generate(prompt, config, pieces.append)
    except UnicodeDecodeError:
        pieces.append(None)  # it dies at a part of a character
    found.append(pieces)
json.dump([before, after, found], open(out, "w"))
"""


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text of printable ASCII only: the official runner dies at parts of characters."""
    pytest.importorskip("tokenizers")
    return small_llm.tokenizer_json(tmp_path_factory.mktemp("official"), size=300)


def texts(pte: Path, tokenizer: Path, temperature: float, seed: int | None) -> list[list[str]]:
    runner = TextLLMRunner(pte, tokenizer, seed=seed)
    results = []
    for prompt in PROMPTS:
        pieces: list[str] = []
        runner.generate(
            prompt,
            GenerationConfig(temperature=temperature, max_new_tokens=12, echo=False),
            pieces.append,
        )
        results.append(pieces)
    return results


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_the_same_text_as_the_official_runner(
    tokenizer: Path, temperature: float, tmp_path: Path
) -> None:
    """Both turns, up to a part of a character, where the official runner dies."""
    pte, out = program(), tmp_path / "out.json"
    subprocess.run(
        [sys.executable, "-c", SCRIPT, pte, tokenizer, out, str(temperature), *PROMPTS],
        check=True,
        capture_output=True,
    )
    before, after, theirs = json.loads(out.read_text())
    seeds = range(before, after + 1) if temperature else [None]
    compared = max(_agreeing(texts(pte, tokenizer, temperature, seed), theirs) for seed in seeds)
    assert compared >= 1


def _agreeing(ours: list[list[str]], theirs: list[list[str | None]]) -> int:
    """Return the number of equal pieces; -1 if one differs before the official runner died."""
    count = 0
    for a, b in zip(ours, theirs):
        whole = "".join(a)
        known = "".join(piece for piece in b if piece is not None and piece not in SPECIAL)
        if not whole.startswith(known) or (None not in b and whole != known):
            return -1
        count += len(known)
        if None in b:
            break
    return count


def test_stats(tokenizer: Path) -> None:
    runner, seen = TextLLMRunner(program(), tokenizer), []
    config = GenerationConfig(temperature=0, max_new_tokens=7, echo=False)
    runner.generate("The fox", config, None, lambda stats: seen.append(stats))
    stats = seen[0]
    assert stats.num_generated_tokens == 7, "the official runner leaves out the first"
    assert stats.num_prompt_tokens == len(runner._runner.encode("The fox", False))
    keys = list(json.loads(stats.to_json_string()))
    assert (
        keys[-13:]
        == (
            "prompt_tokens generated_tokens model_load_start_ms model_load_end_ms "
            "inference_start_ms inference_end_ms model_execution_start_ms "
            "model_execution_end_ms prompt_eval_end_ms first_token_ms "
            "aggregate_sampling_time_ms aggregate_model_execution_time_ms "
            "SCALING_FACTOR_UNITS_PER_SECOND"
        ).split()
    )
    times = [
        stats.model_load_start_ms,
        stats.model_load_end_ms,
        stats.inference_start_ms,
        stats.first_token_ms,
        stats.inference_end_ms,
    ]
    assert times == sorted(times) and times[0] > 0
    full = Stats(
        inference_start_ms=10,
        prompt_eval_end_ms=30,
        inference_end_ms=130,
        num_prompt_tokens=4,
        num_generated_tokens=11,
    )
    rates = json.loads(full.to_json_string())
    assert rates["prefill_token_per_sec"] == 200 and rates["decode_token_per_sec"] == 100
    full.model_load_end_ms = 5
    full.reset()
    assert full.num_prompt_tokens == 0 and full.model_load_end_ms == 5
    full.reset(all_stats=True)
    assert full == Stats()
    full.on_sampling_begin()
    time.sleep(0.003)
    full.on_sampling_end()
    assert full.aggregate_sampling_time_ms >= 2


def test_generation_config() -> None:
    config = GenerationConfig()
    assert (config.echo, config.max_new_tokens, config.seq_len, config.temperature) == (
        True,
        -1,
        -1,
        0.8,
    )
    assert config.resolve_max_new_tokens(100, 20) == 80
    assert GenerationConfig(seq_len=50).resolve_max_new_tokens(100, 20) == 30
    assert GenerationConfig(max_new_tokens=10).resolve_max_new_tokens(100, 20) == 10
    assert GenerationConfig(max_new_tokens=99, seq_len=50).resolve_max_new_tokens(100, 20) == 30
    assert GenerationConfig(seq_len=10).resolve_max_new_tokens(100, 20) == 0


def test_echo_bos_and_turns(tokenizer: Path) -> None:
    runner, pieces = TextLLMRunner(program(), tokenizer), []
    config = GenerationConfig(temperature=0, max_new_tokens=4, num_bos=1)
    runner.generate("The fox", config, pieces.append)
    assert pieces[0] == "The fox"
    first = runner._runner.position
    assert runner._runner.ids[0] == 1
    runner.prefill(" jumps")
    runner.generate("", GenerationConfig(temperature=0, max_new_tokens=4), pieces.append)
    assert runner._runner.position > first
    runner.reset()
    assert runner._runner.position == 0
    runner.warmup("The fox", 3)
    assert runner._runner.position == 0 and runner.stats.num_generated_tokens == 0
    assert runner.get_vocab_size() == runner._runner.tokenizer.vocab_size


def test_stop_from_a_callback(tokenizer: Path) -> None:
    runner, pieces = TextLLMRunner(program(), tokenizer), []

    def stop(piece: str) -> None:
        pieces.append(piece)
        runner.stop()

    runner.generate("The fox", GenerationConfig(temperature=0, echo=False), stop)
    assert len(pieces) <= 2


@pytest.mark.parametrize(
    "config, prompt, match",
    [
        (dict(temperature=1.5), "x", "`temperature` is 1.5"),
        (dict(temperature=-0.1), "x", "`temperature` is -0.1"),
        (dict(seq_len=1), "The fox", "no room for new tokens"),
        (dict(), "x" * 400, "no room for new tokens"),
        (dict(), "", "an empty prompt"),
    ],
)
def test_errors(tokenizer: Path, config: dict[str, Any], prompt: str, match: str) -> None:
    runner = TextLLMRunner(program(), tokenizer)
    with pytest.raises(RuntimeError, match=match):
        runner.generate(prompt, GenerationConfig(**config))
    runner.generate("The fox", GenerationConfig(max_new_tokens=2, temperature=0))
    assert runner._runner.position < CONTEXT


# ---- inputs of processors ----------------------------------------------------------------------

IMAGE = np.random.default_rng(0).standard_normal((1, 3, SIDE, SIDE)).astype(np.float32)


def test_generate_hf(tokenizer: Path) -> None:
    """A processor's ids have a run of image tokens, whose place the image takes."""
    config = GenerationConfig(temperature=0, max_new_tokens=4, echo=False)
    runner = MultimodalRunner(multimodal("image"), tokenizer)
    parts = [make_token_input([5, 6]), make_image_input(IMAGE), make_token_input([7])]
    expected = runner.generate_text(parts, config)
    inputs = {"input_ids": np.array([[5, 6, 9, 9, 9, 7]]), "pixel_values": IMAGE}
    for arguments in (
        inputs,
        {**inputs, "pixel_values": IMAGE[0]},
        {name: torch.from_numpy(array) for name, array in inputs.items()},
        parts,
    ):
        runner.reset()
        assert generate_text_hf(runner, arguments, config, 9) == expected
    runner.reset()
    pieces: list[str] = []
    generate_hf(runner, inputs, config, 9, pieces.append)
    assert "".join(pieces) == expected
    runner.reset()
    text = runner.generate_text_hf({"input_ids": np.array([5, 6])}, config)
    runner.reset()
    assert text == runner.generate_text([make_token_input([5, 6])], config)


@pytest.mark.parametrize(
    "inputs, match",
    [
        ({"pixel_values": IMAGE}, "no 'input_ids' in the inputs"),
        ({"input_ids": np.zeros((2, 3), np.int64)}, "expected integers of one prompt"),
        ({"input_ids": np.zeros(3)}, "expected integers of one prompt"),
        ({"input_ids": np.array([5, 9])}, "there are no 'pixel_values'"),
        ({"input_ids": np.array([5, 6]), "pixel_values": IMAGE}, "for 0 tokens 9"),
        ({"input_ids": np.array([9, 5, 9]), "pixel_values": IMAGE}, "for 2 tokens 9 .* one run"),
        ({"input_ids": np.array([9]), "pixel_values": IMAGE[[0, 0]]}, "expected one image"),
        ("text", "found str, expected the mapping of a processor"),
    ],
)
def test_wrong_inputs_of_processors(tokenizer: Path, inputs: Any, match: str) -> None:
    runner = MultimodalRunner(multimodal("image"), tokenizer)
    with pytest.raises(RuntimeError, match=match):
        runner.generate_hf(inputs, GenerationConfig(max_new_tokens=2), 9)


def test_raw_audio() -> None:
    samples = np.zeros((1, 1, 160), np.float32)
    assert make_raw_audio_input(torch.from_numpy(samples)).value.shape == (1, 1, 160)
    with pytest.raises(RuntimeError, match=r"found shape \(160,\), expected"):
        make_raw_audio_input(samples[0, 0])
