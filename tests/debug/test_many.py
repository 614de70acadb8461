"""explain, compare_programs and quantization_error on the inputs of many calls."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from executorch_c import cli
from executorch_c.devtools import compare_programs, explain, quantization_error
from tests.debug.deep import lower
from tests.exports import export, quantized

MODEL = """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.last(torch.relu(self.first(x)).clamp(max=4))

def make():
    return Net().eval()
"""


class Net(nn.Module):
    """Two layers with a clamp that only large inputs reach: a planted fault is another clamp."""

    def __init__(self, limit: float = 4.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last, self.limit = nn.Linear(4, 8), nn.Linear(8, 3), limit

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.first(x)).clamp(max=self.limit))


X = torch.ones(2, 4)
CALLS = [
    ((1.0, 20.0, 8.0)[i] * torch.randn(2, 4, generator=torch.manual_seed(i)),) for i in range(3)
]


@pytest.fixture(scope="module")
def right() -> bytes:
    return export(Net().eval(), X)


@pytest.fixture(scope="module")
def wrong() -> bytes:
    return export(Net(3.5).eval(), X)


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, right: bytes, wrong: bytes) -> Path:
    """Return a working directory with the model, both programs and a file for each call."""
    (tmp_path / "inputs").mkdir()
    for i, (x,) in enumerate(CALLS):
        np.savez(tmp_path / "inputs" / f"{'abc'[i]}.npz", x=x.numpy())
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "right.pte").write_bytes(right)
    (tmp_path / "wrong.pte").write_bytes(wrong)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_compare_has_the_nodes_of_the_worst_case(right: bytes, wrong: bytes) -> None:
    report = compare_programs(right, wrong, iter(CALLS))
    assert [case.verdict for case in report.cases] == ["match", "differ", "differ"]
    assert report.verdict == "differ" and report.title.endswith("case 1")
    assert report.first is not None and "clamp" in report.first.name
    assert "3 cases: 2 differ; the nodes are those of the worst, case 1" in str(report)
    assert compare_programs(right, wrong, CALLS[0]).verdict == "match"
    assert compare_programs(right, right, iter(CALLS)).verdict == "match"
    rows = json.loads(report.to_json())["cases"]
    assert [row["case"] for row in rows] == ["0", "1", "2"]


def test_requirements_of_compare_are_about_all_cases(right: bytes, wrong: bytes) -> None:
    loose = compare_programs(right, wrong, iter(CALLS), require="cosine>=0.9")
    assert loose.verdict == "match" and "by requirement (by default: differ)" in str(loose)
    tight = compare_programs(right, wrong, iter(CALLS), require="max_abs<=0.001")
    [row] = tight.requirements()
    assert tight.verdict == "differ" and row.case == "1" and not row.ok
    one = compare_programs(right, wrong, CALLS[1], require="cosine>=0.9")
    assert one.verdict == "match" and one.by_default == "differ"


def test_explain_takes_the_worst_case(room: Path, wrong: bytes) -> None:
    report = explain(Net().eval(), "inputs", program=wrong)
    assert [case.name for case in report.cases] == ["a.npz", "b.npz", "c.npz"]
    assert report.verdict == "differ" and report.first is not None
    assert "clamp" in report.first.name or "minimum" in report.first.name
    assert "3 cases; the nodes are those of the worst, case b.npz" in str(report)
    assert explain(Net().eval(), CALLS[0], program=wrong).verdict == "match"


def test_a_case_in_which_the_program_raises_is_the_worst(wrong: bytes) -> None:
    calls = [CALLS[1], (torch.ones(3, 4),), CALLS[0]]
    with pytest.raises(Exception, match="shape|size"):
        explain(Net().eval(), iter(calls), program=wrong)


def test_integers_that_differ_are_the_worst() -> None:
    """The largest error of the floats is another case's."""

    class Positive(nn.Module):
        def __init__(self, limit: float) -> None:
            super().__init__()
            self.limit = limit

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x * (1 + (1 - self.limit) * 1e-3), x > self.limit

    calls = [(torch.full((2, 4), value),) for value in (0.1, 0.97, 30.0)]
    program = export(Positive(0.95).eval(), X)
    report = explain(Positive(1.0).eval(), iter(calls), program=program)
    assert "the nodes are those of the worst, case 1" in str(report) and report.verdict == "differ"


def test_a_wrong_file_of_a_set_is_named_first(room: Path, wrong: bytes) -> None:
    np.savez(room / "inputs" / "c.npz", x=np.ones((2, 4)), y=np.ones(3))
    with pytest.raises(ValueError, match=r"c.npz: contains 2 arrays"):
        explain(None, "inputs", program=wrong)  # before the model is exported


def test_commands(room: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["compare", "right.pte", "wrong.pte", "--inputs", "inputs"]) == 3
    assert "the worst, case b.npz" in capsys.readouterr().out
    args = ["explain", "wrong.pte", "--model", "model.py:make", "--inputs", "inputs"]
    assert cli.main(args) == 3
    assert "the worst, case b.npz" in capsys.readouterr().out
    assert cli.main([*args, "--max-cases", "1"]) == 0
    assert "the first 1 of 3 cases of inputs" in " ".join(capsys.readouterr().out.split())
    assert cli.main(["compare", "right.pte", "right.pte"]) == 0
    assert "on random inputs only" in capsys.readouterr().out


@pytest.fixture(scope="module")
def integers() -> bytes:
    """Return a quantised program of `Net()`."""
    return bytes(lower(quantized(Net().eval(), CALLS[1]), CALLS[1], "portable").buffer)


def test_quantization_error_has_mean_and_worst(integers: bytes) -> None:
    report = quantization_error(Net().eval(), iter(CALLS), program=integers)
    each = [quantization_error(Net().eval(), call, program=integers) for call in CALLS]
    for row in report:
        costs = [one.cost_db for few in each for one in few if one.module == row.module]
        noise = np.mean([10 ** (-cost / 10) for cost in costs])
        assert row.cost_db == pytest.approx(-10 * np.log10(noise))
        assert row.worst_db == min(costs) and row.worst_case == str(np.argmin(costs))
    whole = [one.whole_db for one in each]
    noise = np.mean([10 ** (-one / 10) for one in whole])
    assert report.whole_db == pytest.approx(-10 * np.log10(noise))
    assert report.worst_db == min(whole) and len(report.cases) == 3
    assert (
        f"(mean of 3 cases; worst {min(whole):.1f} dB, case {np.argmin(whole)})" in report.summary()
    )
    assert "worst dB" in str(report) and json.loads(report.to_json())["worst_case"] in "012"
