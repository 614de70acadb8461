"""Errors of a check say the stage and the way on, and keep their types."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from executorch_c import cli
from executorch_c.check.stages import notes_of, stage_of
from executorch_c.testing import check_model
from tests.exports import manager

X = torch.linspace(-1, 1, 12).reshape(4, 3)


def note_of(error: type[Exception], *args: Any, **options: Any) -> str:
    """The note of the exception that a check raises."""
    with pytest.raises(error) as caught:
        check_model(*args, n_random=0, progress=False, **options)
    [note] = notes_of(caught.value)
    assert note.split()[1] == stage_of(caught.value)
    return note


class Branch(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.sum().item() > 100 else -x


def fails(exported: Any) -> Any:
    raise RuntimeError("the partitioner fails")


def test_each_stage(tmp_path: Path) -> None:
    note = note_of(TypeError, nn.Linear(3, 2).eval(), (X, X))
    assert note.startswith("stage: eager (") and "call model(*inputs)" in note
    note = note_of(Exception, Branch().eval(), (X,))
    assert note.startswith("stage: export (")
    note = note_of(RuntimeError, nn.Linear(3, 2).eval(), (X,), flow=fails)
    assert note.startswith("stage: lower (")
    broken = tmp_path / "broken.pte"
    broken.write_bytes(b"no program")
    note = note_of(Exception, nn.Linear(3, 2).eval(), (X,), program=broken)
    assert note.startswith("stage: load (")
    note = note_of(ValueError, nn.Linear(3, 2).eval(), (X,), rtol={"logits": 1e-3})
    assert note.startswith("stage: compare (")


def test_a_program_that_fails() -> None:
    """It is a case of the result, whose text has the stage."""
    tokens = torch.tensor([1, 7])
    pte = bytes(manager(nn.Embedding(4, 2), tokens % 4).buffer)
    result = check_model(
        nn.Embedding(10, 2).eval(), (tokens,), program=pte, n_random=0, engines=("here",)
    )
    case = result.cases[0]
    assert case.verdict == "error" and case.error is not None and stage_of(case.error) == "run"
    assert "stage: run (the program raises: see executorch-c explain)" in " ".join(
        str(result).split()
    )


def test_training_mode() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    note = note_of(ValueError, model, (X,))
    assert note == (
        "stage: eager (BatchNorm1d '1' and 1 more in training mode: call model.eval() first)"
    )
    note = note_of(ValueError, nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)), (X[:1],))
    assert "call model.eval() first" in note


def test_a_model_that_does_not_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pte = tmp_path / "m.pte"
    pte.write_bytes(manager(nn.Linear(3, 2), X).buffer)
    y = torch.linspace(-1, 1, 20).reshape(4, 5)
    for x in (y, X[0], X.double(), X[:2]):
        with pytest.raises(ValueError, match=r"the model does not fit the program: input 0") as got:
            check_model(nn.LazyLinear(2).eval() if x is y else lambda x: x + 1, (x,), program=pte)
        assert stage_of(got.value) == "load"
    (tmp_path / "make.py").write_text(
        "import torch\n\n\ndef make():\n    return torch.nn.Linear(5, 2), (torch.ones(4, 5),)\n"
        "\n\ndef bad():\n    raise OSError('no weights')\n"
    )
    monkeypatch.chdir(tmp_path)
    assert cli.main(["check", "m.pte", "--model", "make.py:make"]) == 1
    assert "the model does not fit the program" in capsys.readouterr().err
    assert cli.main(["check", "m.pte", "--model", "make.py:bad"]) == 1
    assert "no weights; stage: make (" in capsys.readouterr().err


def test_a_model_that_fits() -> None:
    """Static and dynamic shapes, bfloat16 and integers are no misfit."""
    rows = torch.export.Dim("rows", max=8)
    pte = bytes(manager(nn.Linear(3, 2), X, dynamic_shapes=({0: rows},)).buffer)
    torch.manual_seed(0)
    for x in (X, X[:3]):
        result = check_model(nn.Linear(3, 2).eval(), (x,), program=pte, n_random=0)
        assert {case.verdict for case in result} <= {"match", "differ"}
    half, tokens = X.bfloat16(), torch.arange(4)
    for x in (half, tokens):
        pte = bytes(manager(lambda x: x * 2, x).buffer)
        assert check_model(lambda x: x * 2, (x,), program=pte, n_random=0)
