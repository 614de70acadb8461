"""The steps from a model to its program: the first that loses is named."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from executorch_c import cli
from executorch_c.check.ladder import Ladder, compare_steps
from executorch_c.testing import check_model
from tests.debug.deep import lower

X = (torch.linspace(-2, 2, 52).sin().reshape(2, 2, 13),)


class Net(nn.Module):
    """A linear layer, a resize and an activation."""

    def __init__(self, factor: float = 2.0, bias: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.factor = nn.Linear(13, 13), factor
        self.a.bias.data += bias

    def forward(self, x: Tensor) -> Tensor:
        y = nn.functional.interpolate(self.a(x), scale_factor=self.factor, mode="linear")
        return torch.tanh(y)


def verdicts(steps: Ladder) -> dict[str, str]:
    return {step.name: step.verdict for step in steps}


def test_no_step_loses() -> None:
    steps = check_model(Net().eval(), X, flow="xnnpack", n_random=0).ladder()
    assert steps and steps.first is None, str(steps)
    assert verdicts(steps) == {
        "eager": "reference",
        "exported": "match",
        "decomposed": "match",
        "quantised": "none",
        "lowered": "match",
        "delegated": "match",
    }
    assert all(step.sqnr_db is None or step.sqnr_db > 100 for step in steps)
    assert "no step that is known loses" in str(steps)
    assert max(map(len, str(steps).splitlines())) <= 80
    assert [row["step"] for row in steps.rows_as_dicts()][0] == "eager"
    assert "<table" in steps.to_html()


def test_a_decomposition_that_differs() -> None:
    steps = check_model(Net(1.04).eval(), X, n_random=0).ladder()
    assert steps.first is not None and steps.first.name == "decomposed", str(steps)
    assert verdicts(steps)["exported"] == "match" and verdicts(steps)["delegated"] == "none"
    assert "the first step that loses is 'decomposed'" in steps.summary()


def test_a_quantised_flow() -> None:
    result = check_model(Net().eval(), X, flow="xnnpack-int8", n_random=0)
    steps = result.ladder()
    assert verdicts(steps)["quantised"] == "match" and steps, str(steps)
    sqnr = {step.name: step.sqnr_db or 0 for step in steps}
    assert 10 < sqnr["quantised"] < 80 < sqnr["decomposed"]


def test_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a wrong program only the file is known: its own step loses."""
    pte = tmp_path / "m.pte"
    pte.write_bytes(lower(Net(bias=0.5).eval(), X, "xnnpack").buffer)
    steps = compare_steps(pte, Net().eval(), [(X, {})])
    assert verdicts(steps) == {
        "eager": "reference",
        "exported": "match",
        "decomposed": "match",
        "quantised": "not known",
        "lowered": "not known",
        "delegated": "differ",
    }
    with pytest.raises(TypeError, match="nn.Module"):
        compare_steps(pte, "etrecord.bin", [(X, {})])
    (tmp_path / "make.py").write_text(
        "import torch\n\n\nclass Net(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.a = torch.nn.Linear(13, 13)\n\n"
        "    def forward(self, x):\n        return torch.tanh(self.a(x))\n\n\n"
        "def make():\n    return Net().eval(), (torch.randn(2, 13),)\n"
    )
    monkeypatch.chdir(tmp_path)
    assert cli.main(["check", "make.py:make", "--ladder", "--random", "0"]) == 0
    assert "no step that is known loses" in " ".join(capsys.readouterr().out.split())
