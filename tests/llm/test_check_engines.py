"""check_llm's second engine: plans that the official runtime computes wrongly or refuses."""

from typing import Any

import pytest
import torch

from executorch_c.check import official
from executorch_c.llm import LLMReport, check_llm
from tests.exports import manager

VOCABULARY, LENGTH = 50, 12
PROMPTS = [[3, 40, 17, 22], [8, 9]]


class Decoder(torch.nn.Module):
    """Logits of a bigram model, plus what one operator computes from the tokens."""

    def __init__(self, operator: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.operator = operator
        self.table = torch.nn.Embedding(VOCABULARY, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits = self.table(tokens)
        if self.operator == "remainder":  # of the dividend's sign in the official runtime
            rest = torch.remainder((tokens - 25).to(torch.int16) * 2, torch.tensor([7]).short())
            return logits * (2 + rest[..., None].float())
        # The official runtime refuses negative padding.
        return torch.nn.functional.pad(logits, (-1, 1))


def check(operator: str, **options: Any) -> LLMReport:
    model = Decoder(operator).eval()
    length = torch.export.Dim("length", min=1, max=LENGTH)
    program = manager(
        {"forward": (model, [torch.zeros(1, 4, dtype=torch.int64)])},
        dynamic_shapes=({1: length},),
        constants={},
    ).buffer
    return check_llm(model, PROMPTS, program=program, progress=False, **options)


def test_wrong_logits_differ() -> None:
    report = check("remainder")
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
    report = check("remainder", engines="here")
    assert report.ok and "official" not in report.table()


def test_a_refusal_is_an_error() -> None:
    report = check("pad")
    assert report.verdict == "error" and {row.verdict for row in report} == {"match"}
    text = " ".join(str(report).split())
    assert "Padding values must be non-negative" in text and "fails: steps, prompt 0 and" in text


def test_options_are_checked() -> None:
    with pytest.raises(ValueError, match="'elsewhere' is unknown"):
        check("pad", engines="here,elsewhere")
    with pytest.raises(ValueError, match="`official_seconds` is -1"):
        check("pad", official_seconds=-1)
