"""Targets, and what outputs reach."""

import math

import numpy as np
import pytest

from executorch_c.advice.targets import reached, targets_of


@pytest.mark.parametrize(
    "text, requirement",
    [("30dB", "sqnr_db>=30"), ("27.5 db", "sqnr_db>=27.5"), ("top1 >= 0.99", "top1>=0.99")],
)
def test_texts(text: str, requirement: str) -> None:
    [one] = targets_of(text).requirements
    assert one.text == requirement


@pytest.mark.parametrize(
    "text, message",
    [
        ("30", "target '30': expected 30dB, or"),
        ("top1", "target 'top1': expected 30dB"),
        ("cosin>=1", "did you mean 'cosine'"),
        ("sqnr_db<=3", "larger is better of sqnr_db"),
    ],
)
def test_wrong_texts(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        targets_of([text])
    with pytest.raises(ValueError, match="`target` is empty"):
        targets_of([])


def test_the_worst_case_of_sqnr_and_the_share_of_all_rows() -> None:
    exact = [np.eye(2, dtype=np.float32)] * 2
    close, far = exact[0] * 1.01, exact[0][::-1]
    result = reached(targets_of(["20dB", "top1>=0.5"]), [[close], [far]], [[exact[0]]] * 2)
    sqnr, top1 = result.rows
    assert sqnr.value == pytest.approx(-3.01, abs=0.01) and not sqnr.ok and sqnr.case == "1"
    assert top1.value == 0.5 and top1.ok and not result.ok
    assert result.noise == pytest.approx(2) and result.text().startswith("sqnr_db -3")
    good = reached(targets_of("20dB"), [[close]], [[exact[0]]])
    assert good.ok and good.sqnr_db == pytest.approx(40, abs=0.1)


def test_outputs_that_cannot_reach_anything() -> None:
    numbers = [np.arange(3)]
    assert not reached(targets_of("20dB"), [], []).ok
    assert math.isnan(reached(targets_of("equal>=1"), [numbers], [numbers]).noise)
    assert reached(targets_of("equal>=1"), [numbers], [numbers]).ok
    with pytest.raises(ValueError, match=r"outputs have the shapes \(3,\), those of eager \(2,\)"):
        reached(targets_of("20dB"), [numbers], [[np.arange(2)]])
    with pytest.raises(ValueError, match="no output 'logits'"):
        reached(targets_of("logits:top1>=1"), [numbers], [numbers])
