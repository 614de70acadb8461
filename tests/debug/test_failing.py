"""explain of programs that fail in the middle, and of exports that differ from eager; the steps
from a model to its program, of which the first that loses is named."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from executorch_c import cli
from executorch_c.check.ladder import compare_steps, Ladder
from executorch_c.devtools import ErrorReport, explain
from executorch_c.testing import check_model
from tests.debug.deep import explained, lower
from tests.exports import Fn, export


def text_of(report: ErrorReport) -> str:
    return " ".join(str(report).split())


# ---- programs that fail in the middle -----------------------------------------------------------


def gather(rows: int) -> nn.Module:
    """Build a sum of embeddings, at indices that are computed."""
    torch.manual_seed(0)
    return Fn(lambda x, table: table((x * 10).abs().long()).sum(1), table=nn.Embedding(rows, 4))


X = (torch.linspace(0, 0.9, 6).reshape(2, 3),)


def test_the_place_of_a_failure() -> None:
    """The program has a table of three rows, the model of ten: an index is out of range."""
    report = explain(gather(10), X, program=export(gather(3), *X), progress=False)
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


# ---- exports that differ from eager -------------------------------------------------------------


class Resize(nn.Module):
    """A linear layer, a resize whose decomposition differs from eager for some factors, and an
    activation."""

    def __init__(self, factor: float = 2.0, bias: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.factor = nn.Linear(13, 13), factor
        self.a.bias.data += bias

    def forward(self, x: Tensor) -> Tensor:
        y = nn.functional.interpolate(self.a(x), scale_factor=self.factor, mode="linear")
        return torch.tanh(y)


SIGNAL = (torch.linspace(-2, 2, 52).sin().reshape(2, 2, 13),)


@pytest.mark.parametrize("is_exported", [False, True])
def test_a_decomposition_that_differs(is_exported: bool) -> None:
    model = Resize(1.04).eval()
    pte = lower(model, SIGNAL, "portable").buffer
    reference = torch.export.export(model, SIGNAL) if is_exported else model
    report = explain(reference, SIGNAL, program=pte, progress=False)
    assert report.verdict == "differ" and report.first is report[0]
    row = report[0]
    assert row.where == "export" and row.name == "upsample_linear1d", str(report)
    assert row.line.startswith("test_failing.py:")
    assert report.summary().startswith("the export changed it: upsample_linear1d (test_failing")
    assert all(one.ok for one in list(report)[1:]), str(report)


def test_a_decomposition_that_is_the_result() -> None:
    """Eager returns the input itself, which is a value of the decomposed graph, too."""
    only = Fn(lambda x: nn.functional.interpolate(x, scale_factor=1.04, mode="linear"))
    report = explained(only, only, SIGNAL)
    assert report.first is not None and report.first.name == "upsample_linear1d", str(report)


def test_an_export_that_is_right() -> None:
    """A right decomposition is no difference; a wrong program is not the export's fault."""
    report = explained(Resize(2.0), Resize(2.0), SIGNAL)
    assert report, str(report)
    wrong = Resize(1.04)
    wrong.a.weight.data[:3] *= 1.5
    report = explained(Resize(1.04), wrong, SIGNAL)
    assert report.first is not None and report.first.module == "a", str(report)


def test_an_export_of_a_number_that_changes() -> None:
    """A result that depends on a Python number, which an export keeps as it was."""
    calls: list[int] = []

    def run(x: Tensor) -> Tensor:
        calls.append(1)
        return torch.tanh(x) * float(1 + (len(calls) > 2))

    pte = lower(Fn(run), X, "portable").buffer
    calls[:] = [1]
    report = explain(Fn(run), X, program=pte, progress=False)
    assert report.first is not None and report.first.where == "export", str(report)
    assert report.summary().startswith("the export changed it: the graph, export: ")


# ---- the steps from a model to its program ------------------------------------------------------

STEPS = {"eager": "reference", "exported": "match", "decomposed": "match"}


def verdicts(steps: Ladder) -> dict[str, str]:
    return {step.name: step.verdict for step in steps}


def test_no_step_loses() -> None:
    steps = check_model(Resize().eval(), SIGNAL, flow="xnnpack", n_random=0).ladder()
    assert steps and steps.first is None, str(steps)
    assert verdicts(steps) == STEPS | {
        "quantised": "none",
        "lowered": "match",
        "delegated": "match",
    }
    assert all(step.sqnr_db is None or step.sqnr_db > 100 for step in steps)
    assert "no step that is known loses" in str(steps)
    assert max(map(len, str(steps).splitlines())) <= 80
    assert [row["step"] for row in steps.rows_as_dicts()][0] == "eager"
    assert "<table" in steps.to_html()


def test_a_step_that_differs() -> None:
    steps = check_model(Resize(1.04).eval(), SIGNAL, n_random=0).ladder()
    assert steps.first is not None and steps.first.name == "decomposed", str(steps)
    assert verdicts(steps)["exported"] == "match" and verdicts(steps)["delegated"] == "none"
    assert "the first step that loses is 'decomposed'" in steps.summary()


def test_a_quantised_flow() -> None:
    result = check_model(Resize().eval(), SIGNAL, flow="xnnpack-int8", n_random=0)
    steps = result.ladder()
    assert verdicts(steps)["quantised"] == "match" and steps, str(steps)
    sqnr = {step.name: step.sqnr_db or 0 for step in steps}
    assert 10 < sqnr["quantised"] < 80 < sqnr["decomposed"]


def test_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a wrong program only the file is known: its own step loses."""
    pte = tmp_path / "m.pte"
    pte.write_bytes(lower(Resize(bias=0.5).eval(), SIGNAL, "xnnpack").buffer)
    steps = compare_steps(Resize().eval(), [(SIGNAL, {})], program=pte)
    assert verdicts(steps) == STEPS | {
        "quantised": "not known",
        "lowered": "not known",
        "delegated": "differ",
    }
    with pytest.raises(TypeError, match="nn.Module"):
        compare_steps("etrecord.bin", [(SIGNAL, {})], program=pte)
    (tmp_path / "make.py").write_text(
        "import torch\n\n\nclass Net(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.a = torch.nn.Linear(13, 13)\n\n"
        "    def forward(self, x):\n        return torch.tanh(self.a(x))\n\n\n"
        "def make():\n    return Net().eval(), (torch.randn(2, 13),)\n"
    )
    monkeypatch.chdir(tmp_path)
    assert cli.main(["check", "make.py:make", "--ladder", "--random", "0"]) == 0
    assert "no step that is known loses" in " ".join(capsys.readouterr().out.split())
