"""check_model on inputs of files and loaders (`real_inputs=`), and with requirements."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from executorch_c import cli
from executorch_c.testing import check_model, input_set
from tests.exports import export

MODEL = """\
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(4, 6)

    def forward(self, x):
        return {"logits": self.linear(x)}

def make():
    return Net().eval(), (torch.ones(2, 4),)

def only_model():
    return Net().eval()
"""


class Net(nn.Module):
    """A linear layer with an offset: a planted fault is another offset."""

    def __init__(self, offset: float = 0.0, last: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.offset, self.last = nn.Linear(4, 6), offset, last

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.linear(x) + self.offset
        return {"logits": torch.cat([logits[:, :5], logits[:, 5:] + self.last], dim=1)}


EXAMPLE = (torch.ones(2, 4),)


@pytest.fixture(scope="module")
def right() -> bytes:
    """Return a program of `Net()`."""
    return export(Net().eval(), *EXAMPLE)


@pytest.fixture(scope="module")
def wrong() -> bytes:
    """Return a program whose outputs are larger by 1e-3."""
    return export(Net(1e-3).eval(), *EXAMPLE)


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: bytes) -> Path:
    """Return a working directory with a model, a wrong program and three files of inputs."""
    (tmp_path / "inputs").mkdir()
    for i in range(3):
        x = np.random.default_rng(i).standard_normal((2, 4)).astype(np.float32)
        np.savez(tmp_path / "inputs" / f"{'abc'[i]}.npz", x=x)
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "wrong.pte").write_bytes(wrong)
    monkeypatch.chdir(tmp_path)
    return tmp_path


OPTIONS = {"n_random": 1, "engines": ("here",)}


def test_cases_have_the_names_of_their_files(room: Path, right: bytes) -> None:
    cases = input_set("inputs", max_cases=2)
    result = check_model(Net().eval(), EXAMPLE, program=right, real_inputs=cases, **OPTIONS)
    assert [case.name for case in result if case.kind == "real"] == ["real a.npz", "real b.npz"]
    assert result.verdict == "match"
    assert "the first 2 of 3 cases of inputs (max_cases)" in " ".join(result.notes)


def test_a_file_of_another_structure_is_named(room: Path, right: bytes) -> None:
    np.savez(room / "inputs" / "b.npz", x=np.ones((2, 4)), y=np.ones(3))
    with pytest.raises(ValueError, match=r"b.npz has 2 positional arguments.*the example has 1"):
        check_model(Net().eval(), EXAMPLE, program=right, real_inputs="inputs", **OPTIONS)


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ({"x": np.ones((2, 4)), "y": np.ones(3)}, "c.npz has 2 positional arguments"),
        ({"x": np.ones((2, 4))}, r"c.npz: array 0 is float64 \(2, 4\), .* float32 \(2, 4\)"),
        ({"x": np.ones(4, np.float32)}, r"c.npz: array 0 is float32 \(4,\), .* float32 \(2, 4\)"),
        (None, "c.npz: not an .npz or .npy file of arrays"),
    ],
)
def test_a_wrong_file_is_found_before_the_export(
    room: Path, monkeypatch: pytest.MonkeyPatch, arrays: dict[str, Any] | None, text: str
) -> None:
    """By the headers: of the files before it no elements are read either."""
    from executorch_c import _input_files
    from executorch_c.check import flows

    if arrays is None:
        (room / "inputs" / "c.npz").write_bytes((room / "inputs" / "c.npz").read_bytes()[:-30])
    else:
        np.savez(room / "inputs" / "c.npz", **arrays)
    monkeypatch.setattr(flows, "export", None)
    monkeypatch.setattr(_input_files, "read_arrays", None)
    with pytest.raises(ValueError, match=text):
        check_model(Net().eval(), EXAMPLE, flow="portable", real_inputs="inputs", **OPTIONS)


def test_a_loader_with_labels_is_refused(right: bytes) -> None:
    data = [(torch.ones(4), 1), (torch.zeros(4), 2)]
    loader = torch.utils.data.DataLoader(data, batch_size=2)
    with pytest.raises(ValueError, match="pass the inputs without the labels"):
        check_model(Net().eval(), EXAMPLE, program=right, real_inputs=loader, **OPTIONS)


def test_a_loader_of_torch(right: bytes) -> None:
    torch.manual_seed(0)
    loader = torch.utils.data.DataLoader(torch.randn(4, 4), batch_size=2)
    result = check_model(Net().eval(), EXAMPLE, program=right, real_inputs=loader, **OPTIONS)
    assert [case.about for case in result if case.kind == "real"] == ["0", "1"]
    assert result.verdict == "match"


def test_a_match_without_inputs_of_the_users_says_so(room: Path, right: bytes) -> None:
    random = check_model(Net().eval(), EXAMPLE, program=right, **OPTIONS)
    assert "2 cases match, on the example and random inputs only" in random.summary()
    assert random.as_dict()["inputs"] == "random"
    real = check_model(Net().eval(), EXAMPLE, program=right, real_inputs="inputs", **OPTIONS)
    assert "only" not in real.summary() and real.as_dict()["inputs"] == "real"


def test_memory_of_many_cases_is_bounded(
    room: Path, right: bytes, wrong: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of outputs beyond the limit, matching real cases are not kept; all of them are judged."""
    from executorch_c.check import run

    monkeypatch.setattr(run, "MAX_KEPT_BYTES", 0)
    kept = list[str]()
    measure = run._power
    monkeypatch.setattr(
        run,
        "_power",
        lambda check: kept.extend(case.kind for case, _, _ in check.compared) or measure(check),
    )
    options = {"real_inputs": "inputs", **OPTIONS}
    result = check_model(Net().eval(), EXAMPLE, program=right, **options)
    assert result.verdict == "match" and len(result) == 5 and kept == ["example", "random"]
    assert result.power.share is not None
    real = [case for case in result if case.kind == "real"]
    assert [type(case.inputs).__name__ for case in real] == ["InputsOfFile"] * 3
    assert [case.shapes() for case in real] == ["(2, 4)"] * 3
    for name, case in zip("abc", real):
        [inputs] = case.inputs
        assert np.array_equal(inputs[0], np.load(f"inputs/{name}.npz")["x"])
    result.save_inputs("saved.npz", real[1])
    assert np.array_equal(np.load("saved.npz")["input_0"], np.load("inputs/b.npz")["x"])
    assert len(check_model(Net().eval(), EXAMPLE, program=wrong, **options).failures) == 5


def test_a_requirement_decides_in_every_case(room: Path, wrong: bytes) -> None:
    options = {"program": wrong, "real_inputs": "inputs", **OPTIONS}
    default = check_model(Net().eval(), EXAMPLE, **options)
    assert default.verdict == "differ" and default.by_default() is None
    require = ["cosine>=0.999", "logits:max_abs<=0.01"]
    result = check_model(Net().eval(), EXAMPLE, require=require, **options)
    assert (result.verdict, result.by_default()) == ("match", "differ")
    assert "5 cases match, by requirement (by default: differ)" in result.summary()
    assert [row.limit for row in result.requirements()] == [">= 0.999", "<= 0.01"]
    assert result.power.reason == "requirements decide"
    assert max(map(len, str(result).splitlines())) <= 80
    figures = json.loads(result.to_json())
    assert figures["requirements"][1]["value"] == pytest.approx(1e-3, rel=1e-2)
    assert "logits:max_abs&lt;=0.01" in result.to_html()
    tight = check_model(Net().eval(), EXAMPLE, require="max_abs<=1e-4", **options)
    assert tight.verdict == "differ" and len(tight.failures) == 5
    assert "max_abs is 0.001" in str(tight)


def test_both_engines_are_judged_by_the_requirement(wrong: bytes) -> None:
    options = {"program": wrong, "n_random": 1}
    result = check_model(Net().eval(), EXAMPLE, require="max_abs<=0.01", **options)
    assert result.verdict == "match"
    assert [case.official.verdict for case in result if case.official] == ["match", "match"]


def test_a_share_is_of_the_rows_of_all_cases() -> None:
    """The last class wins wrongly in one row of many: a case is wrong, the whole is not."""
    program = export(Net(last=0.15).eval(), *EXAMPLE)
    torch.manual_seed(1)
    data = [(torch.randn(2, 4),) for _ in range(12)]
    options = {"program": program, "real_inputs": data, **OPTIONS}
    result = check_model(Net().eval(), EXAMPLE, require="top1>=0.8", **options)
    [row] = result.requirements()
    assert 0.8 <= row.value < 1 and row.ok and result.verdict == "match"
    strict = check_model(Net().eval(), EXAMPLE, require="top1>=0.99", **options)
    assert strict.verdict == "differ" and 0 < len(strict.failures) < len(strict)


def test_min_sqnr_and_requirements_are_one(right: bytes) -> None:
    options = {"program": right, "require": "cosine>=0", "min_sqnr_db": 30.0}
    with pytest.raises(ValueError, match="add the requirement 'sqnr_db>=30'"):
        check_model(Net().eval(), EXAMPLE, **options)


def test_a_quantised_flow_is_compared_with_the_float_model() -> None:
    torch.manual_seed(0)
    data = [(torch.randn(2, 4),) for _ in range(3)]
    options = {"flow": "xnnpack-int8", "real_inputs": data, **OPTIONS}
    result = check_model(Net().eval(), EXAMPLE, require="sqnr_db>=100", **options)
    assert result.verdict == "differ"
    values = {row.output: row.value for row in result.requirements()}
    sqnr = min(
        one.metrics.snr_db
        for case in result
        if case.kind in ("example", "real") and case.to_float is not None
        for one in case.to_float
        if one.metrics is not None
    )
    assert min(values.values()) == pytest.approx(sqnr)
    assert {case.kind for case in result.failures} <= {"example", "real"}


# ---- command ----------------------------------------------------------------------------------


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = cli.main(["check", *args, "--engines", "here", "--random", "1"])
    return (code, *capsys.readouterr())


def test_check_of_a_folder(room: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["wrong.pte", "--model", "model.py:make", "--inputs", "inputs"]
    code, out, _ = run(capsys, *args)
    assert code == 3 and "real" in out and "b.npz" in out
    code, out, _ = run(capsys, *args, "--require", "cosine>=0.999", "--max-cases", "2")
    assert code == 0 and "cosine>=0.999" in out and "the first 2 of 3 cases" in out
    code, out, _ = run(capsys, "wrong.pte", "--model", "model.py:only_model", "--inputs", "inputs")
    assert code == 3 and "5 of 5 cases differ" in out


def test_a_damaged_file_ends_the_command(room: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (room / "inputs" / "b.npz").write_bytes(b"PK\3\4")
    args = ["wrong.pte", "--model", "model.py:make", "--inputs", "inputs"]
    code, _, err = run(capsys, *args)
    assert code == 1 and "b.npz: not an .npz or .npy file" in err
