"""explain of programs that fail in the middle, and of exports that differ from eager."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from executorch_c.devtools import ErrorReport, explain
from executorch_c.testing import check_model
from tests.debug.deep import lower
from tests.exports import manager


def text_of(report: ErrorReport) -> str:
    return " ".join(str(report).split())


# ---- programs that fail in the middle -----------------------------------------------------------


class Gather(nn.Module):
    """A sum of embeddings, at indices that are computed."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(rows, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.table((x * 10).abs().long()).sum(1)


X = (torch.linspace(0, 0.9, 6).reshape(2, 3),)


def test_the_place_of_a_failure() -> None:
    """The program has a table of three rows, the model of ten: an index is out of range."""
    pte = manager(Gather(3), *X).buffer
    report = explain(Gather(10).eval(), X, program=pte, progress=False)
    row = report[len(report) - 1]
    assert report.verdict == "differ" and report.first is row and len(report) > 1, str(report)
    assert row.name == "aten::embedding.out" and row.module == "table", str(row)
    assert report[0].ok and [one.name for one in report][-2].startswith("dim_order_ops::")
    assert "the program fails here: " in report.summary()
    assert "its inputs are (3, 4), (2, 3), the model's (2, 3)" in text_of(report)
    assert max(map(len, str(report).splitlines())) <= 80


def test_a_failing_delegate() -> None:
    """The official exporter writes a wrong layout for one channel in channels-last."""
    torch.manual_seed(0)
    x = torch.randn(1, 1, 7, 5).to(memory_format=torch.channels_last)
    result = check_model(nn.Conv2d(1, 5, 1).eval(), (x,), flow="xnnpack", n_random=0)
    if result.ok:
        pytest.skip("the exporter writes a program that runs")
    report = result.explain()
    assert report.first is not None and report.first.where == "delegate 0, node 1", str(report)
    assert "an input of 7 channels, expected 1" in text_of(report)
    assert "the model's (1, 1, 7, 5)" in text_of(report)


def test_inputs_that_the_program_refuses() -> None:
    pte = manager(Gather(10), *X).buffer
    with pytest.raises(Exception, match=r"shape|\[1, 3\]"):
        explain(Gather(10).eval(), (X[0][:1],), program=pte, progress=False)


# ---- exports that differ from eager -------------------------------------------------------------


class Resize(nn.Module):
    """A resize whose decomposition differs from eager for some factors, between two layers."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.factor = nn.Linear(13, 13), factor

    def forward(self, x: Tensor) -> Tensor:
        y = nn.functional.interpolate(self.a(x), scale_factor=self.factor, mode="linear")
        return torch.tanh(y)


class Only(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.interpolate(x, scale_factor=1.04, mode="linear")


SIGNAL = (torch.linspace(-2, 2, 26).sin().reshape(1, 2, 13),)


def test_a_decomposition_that_differs() -> None:
    model = Resize(1.04).eval()
    reference: Any
    for reference in (model, torch.export.export(model, SIGNAL)):
        report = explain(
            reference, SIGNAL, program=lower(model, SIGNAL, "portable").buffer, progress=False
        )
        assert report.verdict == "differ" and report.first is report[0]
        row = report[0]
        assert row.where == "export" and row.name == "upsample_linear1d", str(report)
        assert row.line.startswith("test_failing.py:")
        assert report.summary().startswith("the export changed it: upsample_linear1d (test_failing")
        assert all(one.ok for one in list(report)[1:]), str(report)


def test_a_decomposition_that_is_the_result() -> None:
    """Eager returns the input itself, which is a value of the decomposed graph, too."""
    model = Only().eval()
    report = explain(model, SIGNAL, program=lower(model, SIGNAL, "portable").buffer, progress=False)
    assert report.first is not None and report.first.name == "upsample_linear1d", str(report)


def test_an_export_that_is_right() -> None:
    """A right decomposition is no difference; a wrong program is not the export's fault."""
    model = Resize(2.0).eval()
    report = explain(model, SIGNAL, program=lower(model, SIGNAL, "portable").buffer, progress=False)
    assert report, str(report)
    wrong = Resize(1.04).eval()
    wrong.a.weight.data[:3] *= 1.5
    report = explain(Resize(1.04).eval(), SIGNAL, program=lower(wrong, SIGNAL, "portable").buffer)
    assert report.first is not None and report.first.module == "a", str(report)


class Draw(nn.Module):
    """A result that depends on a Python number, which an export keeps as it was."""

    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        type(self).calls += 1
        return torch.tanh(x) * float(1 + (type(self).calls > 2))


def test_an_export_of_a_number_that_changes() -> None:
    Draw.calls = 0
    pte = lower(Draw(), X, "portable").buffer
    Draw.calls = 1
    report = explain(Draw(), X, program=pte, progress=False)
    assert report.first is not None and report.first.where == "export", str(report)
    assert report.summary().startswith("the export changed it: the graph, export: ")
