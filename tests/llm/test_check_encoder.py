"""check_llm of encoder-decoders: right programs, planted faults, and the layers that it names."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

from executorch_c import cli
from executorch_c.llm import EncoderDecoder, LLMReport, check_llm
from tests.backends import xnnpack_flow
from tests.llm import encoder_decoders, small_llm
from tests.llm.small_llm import differing, first_of
from tests.llm.small_multimodal import FRAMES, MELS, eager_speech, lower, modules, program

FEATURES = np.random.default_rng(3).standard_normal((1, MELS, FRAMES)).astype(np.float32)


def check(source: Any, reference: Any = None, prompts: Any = None, **options: Any) -> LLMReport:
    options.setdefault("engines", "here")
    return check_llm(reference, prompts, program=source, progress=False, **options)


def test_a_right_program_matches() -> None:
    """Modules by the names of methods, a function, arrays and another program are references."""
    path = program("speech")
    report = check(path, modules("speech"), engines=None)
    assert report.ok, str(report)
    assert [row.case for row in report][:3] == ["encoder", "encoder", "steps"]
    assert len(report["encoder"].positions) == FRAMES
    assert {row.official.verdict for row in report if row.official} == {"match"}
    assert len(report["context"].positions) == small_llm.CONTEXT
    assert max(map(len, str(report).splitlines())) <= 80
    row = json.loads(report.to_json())["rows"][0]
    assert row["case"] == "encoder" and "max_relative" in row and "top1" not in row

    def logits(value: np.ndarray, ids: list[int]) -> np.ndarray:
        return np.stack([eager_speech(value, ids[: i + 1]) for i in range(len(ids))])

    prompts, inputs = [[1, 20, 30, 40], [1, 20]], [FEATURES, -FEATURES]
    arrays = [logits(value, ids) for value, ids in zip(inputs, prompts)]
    for reference in (logits, arrays, path, EncoderDecoder(path)):
        report = check(path, reference, prompts, encoder_inputs=inputs, cases=["encoder", "steps"])
        assert report.ok, str(report)
        knows_states = reference is path or isinstance(reference, EncoderDecoder)
        assert (report["encoder"].verdict == "match") == knows_states


def test_planted_faults_are_found_in_their_method() -> None:
    path, prompts = program("speech"), [[1, 20, 30, 40], [1, 20, 7]]
    wrong = modules("speech")
    wrong["encoder"].inner.weight.data[3] *= 1.5
    report = check(path, wrong, prompts)
    assert differing(report) == {"encoder"} and report["encoder"].first == 0
    assert first_of(report).module == "model.inner"
    wrong = modules("speech")
    wrong["text_decoder"].cross.weight.data[3] *= 1.5
    report = check(path, wrong, prompts, engines=None)
    assert differing(report) >= {"steps", "turns", "rewind", "context"}
    assert report["encoder"].verdict == "match"
    assert "the file is at fault: ExecuTorch's own runtime" in report.fault
    assert first_of(report).module == "cross"


SCHEMES = {"encoder": "8da8w", "text_decoder": "8da4w_32"}
"""The scheme of each method: int8 by channel, int4 by group."""

DECODER_LAYERS = (
    "cross",
    "inner.layers.0.v",
    "inner.layers.0.out",
    "inner.layers.1.out",
    "inner.head",
)


def quantized(methods: set[str], wrong: str = "") -> dict[str, Any]:
    """Return the modules, some of them quantised; `wrong`: a layer with a wrong row."""
    model = modules("speech")
    if wrong:
        name, _, layer = wrong.partition(".")
        model[name].get_submodule(layer).weight.data[3] *= 3
    for name in methods:
        model[name] = xnnpack_flow.SCHEMES[SCHEMES[name]](model[name], (), None)
    return model


@pytest.mark.parametrize("methods", [{"encoder"}, {"encoder", "text_decoder"}], ids=len)
def test_quantised_methods(methods: set[str]) -> None:
    """Limits follow from the module of each method: a quantised encoder beside a float decoder gets
    the limit of quantised models."""
    path = lower("speech", quantized(methods), XnnpackPartitioner(), get_n_layers=2)
    ways = {"cases": ["encoder", "steps", "context"]}
    report = check(path, quantized(methods), **ways)
    assert report.ok, str(report)
    assert report["encoder"].limit.sqnr_db == pytest.approx(28.5, abs=0.1)
    assert (report["steps"].limit.sqnr_db is None) == ("text_decoder" not in methods)
    assert check(path, modules("speech"), **ways).ok
    wrong = check(path, quantized(methods, "encoder.inner"), **ways)
    assert differing(wrong) == {"encoder"}, str(wrong)
    assert first_of(wrong).module == "model.inner"
    wrong = check(path, quantized(methods, "text_decoder.cross"), **ways)
    assert differing(wrong) == {"steps", "context"}, str(wrong)
    assert first_of(wrong).module == "cross"


def test_layers_are_counted() -> None:
    """The limit of a program without get_n_layers follows from the module's blocks: 16 layers were
    assumed, and wrong rows of a decoder of 2 matched."""
    path = lower("speech", quantized(set(SCHEMES)), XnnpackPartitioner())
    cases = ["encoder", "steps"]
    report = check(path, quantized(set(SCHEMES)), cases=cases)
    assert report.ok, str(report)
    assert report["encoder"].limit.sqnr_db == pytest.approx(31.5)
    assert report["steps"].limit.sqnr_db == pytest.approx(28.5, abs=0.1)
    for layer in DECODER_LAYERS:
        wrong = quantized(set(SCHEMES), f"text_decoder.{layer}")
        report = check(path, wrong, cases=cases, explain=False)
        assert differing(report) == {"steps"}, (layer, str(report))


def test_arguments_are_checked() -> None:
    path = program("speech")
    with pytest.raises(TypeError, match=r"has no get_encoder\(\)"):
        check(path, torch.nn.Linear(2, 2))
    with pytest.raises(ValueError, match="found modules encoder, expected 'encoder' and"):
        check(path, {"encoder": torch.nn.Linear(2, 2)})
    with pytest.raises(TypeError, match="takes features of float32, not text"):
        check(path, encoder_inputs=["text"])
    with pytest.raises(ValueError, match="`encoder_inputs` is empty"):
        check(path, encoder_inputs=[])
    with pytest.raises(ValueError, match="`encoder_inputs`: the program has no methods"):
        check(small_llm.program(), encoder_inputs=[FEATURES])


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "features.npy", FEATURES)
    command = [
        *("check", str(program("speech")), "--reference", str(program("speech")), "--engines"),
        *("here", "--inputs", str(tmp_path / "features.npy"), "--ids", "1,20,30"),
    ]
    assert cli.main(command) == 0
    printed = capsys.readouterr().out
    assert "encoder" in printed and "match" in printed


# ---- models of transformers ------------------------------------------------------------------


LAYERS = {
    "t5": (
        "encoder.block.1.layer.1.DenseReluDense.wo",
        "decoder.block.1.layer.1.EncDecAttention.v",
        "decoder.block.0.layer.2.DenseReluDense.wi_1",
    ),
    "whisper": (
        "model.encoder.layers.0.fc1",
        "model.decoder.layers.1.encoder_attn.v_proj",
        "model.decoder.layers.0.self_attn.v_proj",
    ),
}
"""A layer of the encoder, of the attention to its states, and of the decoder."""


FAULTS = {
    "": ("row", "row", "row"),
    "8da8w": ("rows in reverse", "scale", "rows moved"),
}
"""Fault of each of these layers, by scheme: weights and activations of int8 have scales found at
run time."""
MOVES = {"rows in reverse": lambda rows: rows.flip(0), "rows moved": lambda rows: rows.roll(1, 0)}


def plant(model: Any, layer: str, fault: str) -> None:
    """Change a layer in place: one row, or of a quantised one its rows, or a row's scale."""
    weight = model.get_submodule(layer).weight
    if fault == "row":
        weight.data[3] *= 2
    elif fault == "scale":
        weight.scale[3] *= 3
    else:
        for part in (weight.qdata, weight.scale):
            part.copy_(MOVES[fault](part).clone())


@pytest.mark.heavy
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("scheme", FAULTS)
def test_models_of_transformers(name: str, scheme: str) -> None:
    """Inputs of two lengths where the program takes them. A right quantised program also matches
    the float model; one that loses the encoder's states differs."""
    source = encoder_decoders.program(name, "plain", bool(scheme), scheme)
    report = check(source, encoder_decoders.model_of(name, scheme), engines=None)
    assert report.ok, str(report)
    assert {row.official.verdict for row in report if row.official} == {"match"}
    if scheme:
        assert report["steps"].limit.sqnr_db == pytest.approx(28.5, abs=0.1)
        assert check(source, encoder_decoders.model_of(name), cases=["encoder", "steps"]).ok
        lost = encoder_decoders.program(name, "lost", True, scheme)
        report = check(lost, encoder_decoders.model_of(name, scheme), explain=False)
        assert differing(report) >= {"steps", "turns", "context"} and report["steps"].first == 1


@pytest.mark.heavy
@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("scheme", FAULTS)
def test_a_wrong_layer_of_a_model(name: str, scheme: str, place: int) -> None:
    """The fault is found in the method that has it, and its layer is named."""
    layer, fault = LAYERS[name][place], FAULTS[scheme][place]
    wrong = encoder_decoders.model_of(name, scheme, lambda model: plant(model, layer, fault))
    source = encoder_decoders.program(name, "plain", bool(scheme), scheme)
    report = check(source, wrong, **({"cases": ["encoder", "steps"]} if scheme else {}))
    decoders = {"steps"} if scheme else {"steps", "turns", "context"}
    result, expected = differing(report), {"encoder"} if place == 0 else decoders
    assert result >= expected and ("encoder" in result) == (place == 0), str(report)
    assert not scheme or result == expected, str(report)
    module = first_of(report).module.removeprefix("model.model.").removeprefix("model.")
    assert layer.endswith(module), module


@pytest.mark.heavy
@pytest.mark.parametrize(
    "name, kind, cases",
    [
        ("t5", "cached", set()),
        ("t5", "lost", {"steps", "turns", "rewind", "context"}),
        ("whisper", "lost", {"steps", "turns", "rewind", "context"}),
        ("whisper", "stale", {"official reset"}),
        ("whisper", "late", {"steps", "context"}),
        ("t5", "unscaled", {"steps", "context"}),
    ],
)
def test_faults_of_programs(name: str, kind: str, cases: set[str]) -> None:
    """Keys and values of the encoder's states that are kept, lost, or those of the first input;
    positions that are off by one; logits without T5's factor, as optimum-executorch exports it."""
    report = check(encoder_decoders.program(name, kind), encoder_decoders.model_of(name))
    result = differing(report)
    assert result >= cases and "encoder" not in result, str(report)
    if not cases or kind == "stale":
        assert result == cases, str(report)
    if kind == "lost":
        assert report["steps"].first == 1
    if kind == "unscaled":
        assert first_of(report).missing == ("mul",)
    if kind == "late":
        first = first_of(report)  # the sum of embeddings and positions
        assert first.module == "model.model.decoder" and first.missing == ("add",)
