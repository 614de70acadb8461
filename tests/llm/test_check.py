"""check_llm: programs that are right, and faults that it must find and attribute."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from executorch_c.llm import LLMReport, TextRunner, check_llm
from executorch_c.llm.cases import TAIL_STEPS
from executorch_c.llm.check import CASES
from tests.llm import calibration, ring_llm, small_llm
from tests.llm.exported_llm import load
from tests.llm.exported_rows import BY_NAME, model_of
from tests.llm.small_llm import CONTEXT, KINDS, VOCABULARY, Decoder
from tests.llm.small_llm import differing, eager, first_of, ids, program

PROMPTS = [ids(12), ids(9, seed=1)]
SHORT = [[i % 250 + 4 for i in prompt] for prompt in PROMPTS]  # a smaller vocabulary


def check(path: Any, reference: Any = None, prompts: Any = PROMPTS, **options: Any) -> LLMReport:
    return check_llm(reference, prompts, program=path, progress=False, **options)


def model(kind: str = "position", **options: Any) -> Decoder:
    return Decoder(kind, **options).eval()


@pytest.mark.sweep(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("every", [False, True])
def test_right_programs_match(kind: str, every: bool) -> None:
    report = check(program(kind, every=every), model(kind))
    surviving = {"official reset"} if kind == "recurrent" else set()
    assert differing(report) == surviving, str(report)
    compared = {row.case for row in report if row.agreement is not None}
    missing = {"rewind"} if kind == "recurrent" else {"official reset"} if kind == "none" else set()
    assert compared == set(CASES) - missing - {"encoder"}
    context = report["context"]
    assert len(context.positions) == CONTEXT and context.agreement is not None
    assert context.agreement.relative.max() < 1e-5 and context.agreement.same_top.all()
    assert context.losses is not None and abs(context.losses[0] - context.losses[1]) < 1e-5
    assert any("perplexity of the prompts" in note for note in report.notes)


def test_all_kinds_of_references() -> None:
    path = program()
    arrays = [eager("position", one) for one in PROMPTS]
    for reference in (
        model(),
        lambda tokens: eager("position", tokens),
        lambda tokens: torch.from_numpy(eager("position", tokens))[None],
        program(positions="each", every=True),
        TextRunner(program(positions="each", every=True)),
    ):
        report = check(path, reference, cases=["steps", "turns", "context"])
        assert report.ok and len(report) == 4, str(report)
    report = check(path, arrays)
    assert report.ok and report["steps"].against == "the logits of `model`"
    assert report["turns"].against == "its own steps"
    assert check(path, arrays[0], [PROMPTS[0]]).ok


def test_a_model_keeps_its_buffers() -> None:
    eager_model = model("recurrent")
    before = {name: b.clone() for name, b in eager_model.named_buffers()}
    check(program("recurrent"), eager_model)
    for name, b in eager_model.named_buffers():
        assert torch.equal(b, before[name])


def test_two_methods() -> None:
    assert check(small_llm.pair(), model()).ok
    report = check(small_llm.pair(shared=False), model(), explain=False)
    assert {"prefill", "turns"} <= differing(report), "decode does not see what prefill wrote"
    assert "steps" not in differing(report)


def test_the_reference_is_called_as_the_program_is() -> None:
    """Logits of a ring depend on the division into calls."""
    prompts = [[(7 * i) % ring_llm.VOCABULARY for i in range(12)]]
    report = check(ring_llm.program(), ring_llm.model(), prompts)
    assert report.ok, str(report)
    assert any("itself differs between one call" in note for note in report.notes)
    wrong = check(ring_llm.program("late"), ring_llm.model(), prompts)
    assert {"prefill", "steps", "context"} <= differing(wrong)  # a full ring hides the order
    assert "the file is at fault: ExecuTorch's own runtime" in wrong.fault


# ---- planted faults --------------------------------------------------------------------------


def test_a_wrong_layer_is_found() -> None:
    report = check(program(fault="scale"), model())
    assert report.verdict == "differ" and {"steps", "context"} <= differing(report)
    assert "the file is at fault: ExecuTorch's own runtime" in report.fault
    assert first_of(report).module == "down"
    assert "after token" in report.token and "'down'" in report.summary()


def test_a_decoder_that_forgets_is_found() -> None:
    """As in an export that traced the path of a first prompt (shared layers of keys and values):
    right in one call, wrong after it."""
    report = check(program(fault="forgets"), model())
    assert {"steps", "prefill", "turns", "context"} <= differing(report)
    assert report["prefill"].first == 9  # the step after a right call of 9 tokens
    assert "the file is at fault" in report.fault
    assert "custom_sdpa" in first_of(report).name
    alone = check(program(fault="forgets"))
    assert "prefill" in differing(alone), "its own steps and calls disagree, without a reference"


def test_missing_weights_are_found() -> None:
    for reference in (model(), None):
        report = check(program(fault="nan"), reference)
        assert report.verdict == "differ" and "NaN" in report.summary()
        assert "the file is at fault" in report.fault


def test_state_that_survives_is_found() -> None:
    report = check(program("recurrent"), model("recurrent"))
    assert report.verdict == "differ" and differing(report) == {"official reset"}
    assert report["official reset"].first == 0
    assert "ExecuTorch's runner does not" in report.fault
    assert report["reset"].verdict == "match"


def test_a_reset_that_does_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from executorch_c.llm.state import Engine

    monkeypatch.setattr(Engine, "restore", lambda self, saved: None)
    report = check(program("recurrent"), model("recurrent"))
    assert "reset" in differing(report)


def test_a_wrong_runtime_is_told_from_a_wrong_file(monkeypatch: pytest.MonkeyPatch) -> None:
    execute = TextRunner._run

    def wrong(self: TextRunner, call: Any, inputs: Any) -> np.ndarray:
        logits = execute(self, call, inputs)
        return logits if self is not runner else logits * np.float32(1.01)

    runner = TextRunner(program())
    monkeypatch.setattr(TextRunner, "_run", wrong)
    report = check(runner, model(), explain=False)
    assert report.verdict == "differ" and report.fault.startswith("the runtime is at fault")


@pytest.mark.parametrize(
    "case", [c for c in CASES if c not in ("encoder", "reset", "official reset")]
)
def test_one_wrong_position_is_found(case: str) -> None:
    """A reference that differs at one token of a sequence."""
    report = check(program(), lambda tokens: eager("position", tokens), cases=[case])
    row = report.rows[0]
    wrong = row.positions[len(row.positions) // 2]

    def reference(tokens: list[int]) -> np.ndarray:
        rows = eager("position", tokens)
        if len(rows) > wrong:
            rows[wrong, 7] += 0.01
        return rows

    report = check(program(), reference, cases=[case])
    assert report.verdict == "differ" and report.rows[0].first == wrong


# ---- exports of the official flow that are wrong ------------------------------------------------


@pytest.mark.heavy
@pytest.mark.parametrize("quantised", [False, True])
def test_a_weight_only_export_is_found(quantised: bool) -> None:
    """`qmode=4w` with XNNPACK: the delegate multiplies by the integers, without their scales."""
    row = BY_NAME["wrong-4w"]
    report = check(load(row).program, model_of(row, quantised), SHORT)
    assert {"steps", "prefill", "turns", "context"} <= differing(report)
    assert "the file is at fault: ExecuTorch's own runtime" in report.fault
    assert report["steps"].first == 0
    assert first_of(report)


@pytest.mark.heavy
def test_an_export_with_shared_caches_is_found() -> None:
    """Layers that share caches: the exporter keeps the path of its example, a prompt, so that a
    call with one token differs, the first after a prompt in one call too."""
    row = BY_NAME["wrong-shared-caches"]
    report = check(load(row).program, model_of(row), SHORT, explain=False)
    assert {"steps", "context"} <= differing(report)
    assert (report["steps"].first, report["prefill"].first) == (0, len(SHORT[0]) - TAIL_STEPS)
    assert "the file is at fault: ExecuTorch's own runtime" in report.fault


@pytest.mark.heavy
def test_an_export_without_a_checkpoint_is_found() -> None:
    """Memory that nobody has written: NaN, or logits that do not depend on the tokens."""
    report = check(load(BY_NAME["wrong-no-checkpoint"]).program, None, SHORT)
    assert report.verdict == "differ" and "the file is at fault" in report.fault


@pytest.mark.heavy
def test_a_thousand_tokens() -> None:
    row = BY_NAME["long-context"]
    report = check(load(row).program, model_of(row), [calibration.IDS[:20]], cases=["context"])
    assert report.ok and len(report["context"].positions) == 1024


# ---- quantised programs ----------------------------------------------------------------------


@pytest.mark.heavy
@pytest.mark.parametrize("name", calibration.NAMES)
def test_quantised_programs(name: str) -> None:
    """By default a right program matches the model after quantisation, and one with a fault in one
    layer, in the tables of positions or in its state does not."""
    row = BY_NAME[name]
    program, quantised = load(row).program, model_of(row)
    report = check(program, quantised, SHORT)
    surviving = {"official reset"} if name.startswith("lfm2") else set()
    assert differing(report) == surviving, str(report)
    layers = row.params.get("n_layers", 2)
    limit = report["steps"].limit
    assert limit is not None and limit.sqnr_db == pytest.approx(31.5 - 10 * np.log10(layers))
    results = {
        (fault, check(program, wrong, [calibration.IDS], cases=["steps"], explain=False).verdict)
        for fault, wrong in calibration.faulty(quantised, 2)
    }
    assert {verdict for _, verdict in results} == {"differ"}, results
    assert len(results) >= len(calibration.FAULTS)
    assert ("cannot go back" in report["rewind"].skipped) == bool(surviving)
    runner = TextRunner(program)
    stale = calibration.stale(runner)
    assert not check(
        runner, [stale], [calibration.IDS], cases=["steps"], min_sqnr_db=limit.sqnr_db
    ).ok


# ---- reports and errors ----------------------------------------------------------------------


def test_the_report(tmp_path: Path) -> None:
    report = check(program(fault="scale"), model(), explain=False)
    assert max(map(len, str(report).splitlines())) <= 80
    data = json.loads(report.to_json())
    assert data["verdict"] == "differ" and data["fault"] and len(data["rows"]) == len(report)
    assert {"case", "max_kl", "top1", "top5", "perplexity"} <= set(data["rows"][0])
    for ending in ("html", "csv", "txt"):
        report.save(tmp_path / f"report.{ending}")
    assert "meaning of the cases" in (tmp_path / "report.html").read_text()
    assert report.problems() and not report.ok and not report
    assert report["steps"].case == "steps"
    with pytest.raises(KeyError):
        report["none"]


def test_without_a_reference_nothing_is_claimed() -> None:
    report = check(program(), cases=["steps"])
    assert report.verdict == "inconclusive" and "nothing could be compared" in report.summary()


def test_arguments_are_checked() -> None:
    with pytest.raises(ValueError, match="'all' is unknown"):
        check(program(), cases=["all"])
    with pytest.raises(ValueError, match=rf"`prompts\[0\]` has {CONTEXT + 1} tokens"):
        check(program(), None, [ids(CONTEXT + 1)])
    with pytest.raises(ValueError, match="`prompts` is empty"):
        check(program(), None, [])
    with pytest.raises(ValueError, match="`model` has 1 arrays of logits for 2 prompts"):
        check(program(), [eager("position", PROMPTS[0])])
    with pytest.raises(ValueError, match=r"found logits of shape \(3, 5\), expected \[12, 320\]"):
        check(program(), lambda tokens: np.zeros((3, 5)))
    with pytest.raises(ValueError, match="cannot be called with tokens and positions"):
        check(program(), torch.nn.Linear(3, VOCABULARY))


def test_random_prompts() -> None:
    first, second = (
        check_llm(model(), program=program(), progress=False, seed=seed) for seed in (0, 1)
    )
    assert first.ok and second.ok and first.rows[0].ids != second.rows[0].ids
