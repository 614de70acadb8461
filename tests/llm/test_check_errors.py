"""check_llm of programs that raise in the middle of a plan, and of plans that the official runtime
computes wrongly or refuses: rows have the stage and the error."""

from typing import Any

import numpy as np
import pytest
import torch

from executorch_c.check import official
from executorch_c.llm import EncoderDecoder, LLMReport, TextRunner, check_llm
from tests.exports import manager
from tests.llm import small_llm
from tests.llm.small_llm import CONTEXT, Decoder
from tests.llm.small_multimodal import modules, program


def check(source: Any, reference: Any, **options: Any) -> LLMReport:
    options.setdefault("engines", "here")
    return check_llm(reference, program=source, progress=False, **options)


def test_a_program_that_raises_at_a_position() -> None:
    """Its metadata promise a longer context than its caches have: calls beyond them raise, and the
    others are compared as ever."""
    path = small_llm.program(get_max_context_len=CONTEXT + 8)
    report = check(path, Decoder().eval(), cases=["steps", "turns", "reset", "context"])
    row = report["context"]
    assert row.verdict == "error" and row.error is not None and not row.ok_here
    assert {one.verdict for one in report if one is not row} == {"match"}, str(report)
    assert report.verdict == "differ" and not report.ok and report.first is row
    said = " ".join(report.summary().split())
    assert f"differ: 1 of {len(report)} cases; 'context' " in said
    assert type(row.error).__name__ in said and str(row.error) in said
    assert "stage: run (the program raises" in said
    assert "stage: run" in report.problems()[0] and "error" in str(report)
    assert report.as_dict()["rows"][-1]["error"].startswith(type(row.error).__name__)


def test_a_program_that_raises_in_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> np.ndarray:
        raise RuntimeError("no memory")

    monkeypatch.setattr(EncoderDecoder, "_encode", fails)
    report = check(program("speech"), modules("speech"))
    assert {row.verdict for row in report} == {"error"} and report.verdict == "differ"
    assert "RuntimeError: no memory; stage: run" in " ".join(str(report).split())


def fail_at_twelve(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let calls of this runtime raise from position 12 on."""
    forward = TextRunner.forward

    def fails(self: TextRunner, tokens: Any) -> np.ndarray:
        if self.position >= 12:
            raise RuntimeError("no memory")
        return forward(self, tokens)

    monkeypatch.setattr(TextRunner, "forward", fails)


def test_a_row_says_what_the_official_runtime_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The row of a plan that raises here names the official runtime's outcome: right, wrong or an
    error."""
    path, name = small_llm.program(get_max_context_len=CONTEXT + 8), official.version()
    report = check(path, Decoder().eval(), cases=["context"], engines=None)
    row = report["context"]
    assert row.official is not None and row.official.verdict == "error"
    assert f"the official runtime {name} fails, too: " in " ".join(report.summary().split())
    fail_at_twelve(monkeypatch)
    wrong = Decoder().eval()
    wrong.head.weight.data[5] *= 3
    for model, verdict, said in (
        (Decoder().eval(), "match", "computes it"),
        (wrong, "differ", "computes it wrongly: "),
        (None, "inconclusive", "computes it"),
    ):
        report = check(small_llm.program(), model, cases=["context"], engines=None)
        row = report["context"]
        assert row.verdict == "error" and row.official is not None, str(report)
        assert row.official.verdict == verdict, str(report)
        assert f"no memory; the official runtime {name} {said}" in row.cells()[-1]
        for text in (str(report), report.summary(), report.to_html()):
            assert said.split()[-1] in text
        assert f"the official runtime {name} {said}" in report.as_dict()["rows"][-1]["error"]
        assert report.verdict == "differ"


def test_an_encoder_that_raises_beside_the_official_runtime(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: object) -> np.ndarray:
        raise RuntimeError("no memory")

    monkeypatch.setattr(EncoderDecoder, "_encode", fails)
    report = check(program("speech"), modules("speech"), cases=["encoder", "steps"], engines=None)
    assert {row.verdict for row in report} == {"error"}
    assert report["encoder"].official is not None and report["encoder"].official.ok
    assert report["encoder"].official.verdict == "match"
    assert report["steps"].official is not None and report["steps"].official.verdict == "not run"


def test_errors_of_the_reference_are_raised() -> None:
    def fails(ids: object) -> np.ndarray:
        raise KeyError("ids")

    with pytest.raises(KeyError, match="ids"):
        check(small_llm.program(), fails, cases=["steps"])


# ---- the official runtime ---------------------------------------------------------------------

BIGRAMS, LENGTH = 50, 12
PROMPTS = [[3, 40, 17, 22], [8, 9]]


class Bigram(torch.nn.Module):
    """Logits of a bigram model, plus what one operator computes from the tokens."""

    def __init__(self, operator: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.operator = operator
        self.table = torch.nn.Embedding(BIGRAMS, BIGRAMS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits = self.table(tokens)
        if self.operator == "remainder":  # of the dividend's sign in the official runtime
            rest = torch.remainder((tokens - 25).to(torch.int16) * 2, torch.tensor([7]).short())
            return logits * (2 + rest[..., None].float())
        # The official runtime refuses negative padding.
        return torch.nn.functional.pad(logits, (-1, 1))


def check_bigram(operator: str, **options: Any) -> LLMReport:
    model = Bigram(operator).eval()
    length = torch.export.Dim("length", min=1, max=LENGTH)
    pte = manager(
        {"forward": (model, [torch.zeros(1, 4, dtype=torch.int64)])},
        dynamic_shapes=({1: length},),
        constants={},
    ).buffer
    return check_llm(model, PROMPTS, program=pte, progress=False, **options)


def test_wrong_logits_differ() -> None:
    report = check_bigram("remainder")
    assert report.verdict == "differ" and not report.ok, str(report)
    assert {row.verdict for row in report} == {"match"}
    text = " ".join(str(report).split())
    name = f"the official runtime {official.version()}"
    assert f"{name} computes logits wrongly (aten::remainder." in text
    assert "right in this runtime; steps, prompt 0: 3 of 4 positions differ, first 0" in text
    wrong = [row for row in report if row.official and row.official.verdict == "differ"]
    assert len(wrong) > 4 and f"in this runtime, {len(wrong)} differ in {name}" in text
    assert any("computes logits wrongly" in problem for problem in report.problems())
    assert report.fault == "" and report.explanation is None
    report = check_bigram("remainder", engines="here")
    assert report.ok and "official" not in report.table()


def test_a_refusal_is_an_error() -> None:
    report = check_bigram("pad")
    assert report.verdict == "error" and {row.verdict for row in report} == {"match"}
    text = " ".join(str(report).split())
    assert "Padding values must be non-negative" in text and "fails: steps, prompt 0 and" in text


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="'elsewhere' is unknown"):
        check_bigram("pad", engines="here,elsewhere")
    with pytest.raises(ValueError, match="`official_seconds` is -1"):
        check_bigram("pad", official_seconds=-1)
