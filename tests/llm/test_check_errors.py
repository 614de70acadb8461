"""check_llm of programs that raise in the middle of a plan: a row has the stage and the error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import small_llm
from executorch_c.llm import EncoderDecoder, LLMReport, check_llm
from small_llm import CONTEXT, Decoder
from small_multimodal import modules, program


def check(source: Any, reference: Any, **options: Any) -> LLMReport:
    return check_llm(source, reference, engines="here", progress=False, **options)


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


def test_errors_of_the_reference_are_raised() -> None:
    def fails(ids: object) -> np.ndarray:
        raise KeyError("ids")

    with pytest.raises(KeyError, match="ids"):
        check(small_llm.program(), fails, cases=["steps"])
