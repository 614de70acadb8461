"""check_model and info on what the official runtime does otherwise, and on undefined values: from
the program alone, without a run of that runtime."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests import exports

pytest.importorskip("executorch.exir")

from executorch_c.cli import main
from executorch_c.inspect.structure import View
from executorch_c.testing import check_model

ADVICE = "Clone the result of each torch.cond"


class Twice(torch.nn.Module):
    """Two conditions in a row, whose branches share planned memory (executorch #21490)."""

    def __init__(self, clone: bool = False) -> None:
        super().__init__()
        self.clone = clone

    def forward(self, x: Any) -> Any:
        positive = x.sum() > 0
        a = torch.cond(positive, lambda v: v.sin() + 1, lambda v: v.cos(), [x])
        a = a.clone() if self.clone else a
        return a, torch.cond(positive, lambda v: v * 2, lambda v: v * 3, [x])


class Scan(torch.nn.Module):
    """A carry that the export loses: nothing writes what the linear layer reads."""

    def __init__(self) -> None:
        super().__init__()
        self.l = torch.nn.Linear(3, 3)

    def forward(self, xs: Any, carry: Any) -> Any:
        from torch._higher_order_ops.scan import scan

        def step(c: Any, x: Any) -> tuple[Any, Any]:
            new = torch.tanh(self.l(c) + x)
            return new, new * 2

        return tuple(scan(step, carry, xs, dim=0))


def checked(model: Any, *inputs: Any) -> Any:
    torch.manual_seed(0)
    return check_model(model.eval(), inputs, n_random=1, engines="here", progress=False)


def test_a_match_by_chance_is_inconclusive() -> None:
    """The example's carry is zeros, like memory that nothing has written."""
    torch.manual_seed(0)
    inputs = (torch.randn(1, 3), torch.zeros(3))
    result = check_model(Scan().eval(), inputs, n_random=0, engines="here", progress=False)
    assert result.cases[0].verdict == "match" and result.is_undefined
    assert result.verdict == "inconclusive" and not result.ok
    assert "match by chance" in result.summary()
    assert "nothing writes %" in str(result).replace("\n  ", " ")


def test_conditions_in_a_row_are_noted(tmp_path: Path, capsys: Any) -> None:
    x = torch.arange(1.0, 9.0)
    pte = exports.lowered(Twice(), x)
    result = check_model(Twice(), (x,), program=pte, n_random=1, engines="here", progress=False)
    (note,) = [note for note in result.notes if "#21490" in note]
    assert result.ok and ADVICE in note
    path = tmp_path / "m.pte"
    path.write_bytes(pte)
    assert main(["info", str(path)]) == 0
    assert "#21490" in capsys.readouterr().out
    assert main(["info", "--json", str(path)]) == 0
    (method,) = json.loads(capsys.readouterr().out)["methods"]
    (row,) = [row for row in method["remarks"] if row["kind"] == "moved"]
    assert row["instruction"] is None and row["text"] == note


def test_the_advice_helps() -> None:
    result = checked(Twice(clone=True), torch.arange(1.0, 9.0))
    assert result.ok and not [note for note in result.notes if "official" in note]


def test_operators_that_the_official_runtime_lacks_or_rejects() -> None:
    class Operators(torch.nn.Module):
        def forward(self, x: Any, bounds: Any) -> Any:
            padded = torch.nn.functional.pad(x, (0, 0, -1, 2))
            return torch.bucketize(padded, bounds)

    x = torch.linspace(-2, 2, 6).reshape(3, 2)
    result = checked(Operators(), x, torch.tensor([-1.0, 0.0, 1.0]))
    kinds = {one.operator: one.kind for one in result.findings}
    assert not result.failures
    assert kinds["aten::bucketize.Tensor_out"] == "lacks"
    assert kinds["aten::constant_pad_nd.out"] == "rejects"
    text = str(result).replace("\n  ", " ")
    assert "has no such operator" in text and "pad: negative" in text


def test_each_delegate_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the search for quantised values and by the remarks."""
    read, read_inside = list[int](), View._read_inside

    def counted(self: View, delegate: int) -> Any:
        read.append(delegate)
        return read_inside(self, delegate)

    monkeypatch.setattr(View, "_read_inside", counted)
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Softmax(0), torch.nn.Linear(3, 3))
    torch.manual_seed(0)
    found = check_model(net.eval(), (torch.randn(3),), flow="xnnpack", n_random=1, progress=False)
    assert found.ok and read == [*range(len(read))] and read
