"""check_llm of programs that raise in the middle of a plan: a row has the stage and the error."""

from typing import Any

import numpy as np
import pytest

from executorch_c.check import official
from executorch_c.llm import EncoderDecoder, LLMReport, TextRunner, check_llm
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
