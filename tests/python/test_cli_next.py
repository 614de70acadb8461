"""What commands keep for the next step: files of a check, and the command to go on with."""

import json
import shlex
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import executorch_c
from executorch_c import cli
from executorch_c._commands import _next
from executorch_c.testing import check_model
from tests.exports import Decaying, export
from tests.python import digits

MODEL = """
import torch

def make():
    torch.manual_seed(1)
    return torch.nn.Linear(3, 2).eval(), (torch.randn(4, 3),)

class Nested(torch.nn.Module):
    def forward(self, pair):
        return pair[0] + pair[1]

def table():
    return torch.nn.Embedding(5, 2), (torch.tensor([4]),)

def nested():
    return Nested(), ([torch.ones(2), torch.ones(2)],)
"""

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a model, and a program with other weights."""
    folder = tmp_path_factory.mktemp("next") / "a folder"
    folder.mkdir()
    (folder / "model.py").write_text(MODEL)
    torch.manual_seed(2)
    (folder / "other.pte").write_bytes(export(torch.nn.Linear(3, 2), torch.ones(4, 3)))
    difference = export(lambda pair: pair[0] - pair[1], [torch.ones(2), torch.ones(2)])
    (folder / "difference.pte").write_bytes(difference)
    shutil.copy(digits.DIGITS, folder / "digits.pte")
    np.savez(folder / "x.npz", x=digits.IMAGES)
    np.savez(folder / "bad.npz", y=digits.EXPECTED + 1)
    return folder


@pytest.fixture
def folder(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return it as the working directory; temporary files are in a folder of the test."""
    (tmp_path / "new").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "new"))
    monkeypatch.chdir(programs)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def call(capsys: Capture, line: str) -> tuple[int, str, str]:
    """Return exit code, standard output and error of a command line."""
    code = cli.main(shlex.split(line))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def next_of(text: str) -> str:
    """Return the arguments of the next command that a command prints."""
    (line,) = [line for line in text.splitlines() if line.startswith("next: ")]
    return line.removeprefix("next: executorch-c ")


def test_check_keeps_what_it_made(folder: Path, capsys: Capture) -> None:
    files = [folder / name for name in ("m.pte", "x.npz", "y.npz", "e.npz")]
    names = ("--save-pte", "--save-inputs", "--save-outputs", "--save-expected")
    words = " ".join(f"{name} {shlex.quote(str(path))}" for name, path in zip(names, files))
    code, out, _ = call(capsys, f"check model.py:make --random 0 {words}")
    assert code == 0 and "next:" not in out
    pte, *arrays = files
    (x,), (y,), (e,) = (np.load(path).values() for path in arrays)
    (output,) = executorch_c.load(pte).load_method("forward").execute([x])
    assert np.array_equal(output, y)
    torch.manual_seed(1)
    assert np.allclose(torch.nn.Linear(3, 2)(torch.from_numpy(x)).detach(), e)
    line = f"validate {files[0]} --inputs {files[1]} --expect"
    assert call(capsys, f"{line} {files[2]}")[0] == call(capsys, f"{line} {files[3]}")[0] == 0
    assert not list((folder / "new").iterdir())


def test_check_explains(folder: Path, capsys: Capture) -> None:
    line = "check other.pte --model model.py:make --random 1 --explain"
    code, out, _ = call(capsys, line)
    assert code == 3 and "\nfirst divergence: aten::" in out
    code, out, _ = call(capsys, f"{line} --json")
    report = json.loads(out)
    assert code == 3 and report["explain"]["first"] is not None and report["verdict"] == "differ"
    code, out, _ = call(capsys, "check model.py:make --random 0 --explain")
    assert code == 0 and "divergence" not in out


def test_the_next_command_of_check_explains(folder: Path, capsys: Capture) -> None:
    line = "check other.pte --model model.py:make --random 2 --rtol=1e-5 --kernels reference"
    code, out, _ = call(capsys, line)
    following = next_of(out)
    assert code == 3
    words = shlex.split(following)
    assert words[:4] == ["explain", "other.pte", "--model", "model.py:make"]
    assert words[6:] == ["--rtol=1e-5", "--kernels", "reference"]
    (written,) = (folder / "new").glob("*/*")
    assert words[4:6] == ["--inputs", str(written)]
    code, out, _ = call(capsys, following)
    assert code == 3 and "first divergence" in out


def test_the_worst_case_is_kept(folder: Path, capsys: Capture) -> None:
    """A file that is asked for is the one that the next command names."""
    path = folder / "it's.npz"
    line = (
        f"check other.pte --model model.py:make --random 3 --save-inputs {shlex.quote(str(path))}"
    )
    code, out, _ = call(capsys, line)
    assert code == 3 and shlex.split(next_of(out))[5] == str(path)
    assert not list((folder / "new").iterdir())
    torch.manual_seed(1)
    model = torch.nn.Linear(3, 2)
    result = check_model(model, (torch.ones(4, 3),), program="other.pte", progress=False)
    sizes = {
        case.name: output.metrics.snr_db
        for case in result.cases
        if (output := case.worst()) and output.metrics
    }
    assert sizes[result.worst_case().name] == min(sizes.values())


def test_inputs_that_no_file_holds_are_explained_by_the_check(
    folder: Path, capsys: Capture
) -> None:
    line = "check difference.pte --model model.py:nested --random 1"
    code, out, _ = call(capsys, line)
    assert code == 3 and next_of(out) == f"{line} --explain"
    code, out, _ = call(capsys, next_of(out))
    assert code == 3 and "first divergence" in out and "next:" not in out


def test_inputs_of_the_call_that_differs(folder: Path) -> None:
    """Of calls in a row, the first that differs: the second, where the sum has decayed."""
    program = export(Decaying(0.5), torch.ones(3))
    result = check_model(Decaying(0.25), (torch.ones(3),), program=program, progress=False)
    [case] = [case for case in result.cases if len(case.inputs) > 1]
    assert case.comparison is not None and case.comparison.first_call() == 2
    paths = [folder / name for name in ("x.npz", "y.npz", "e.npz")]
    result.save_inputs(paths[0], case)
    result.save_outputs(paths[1], case)
    result.save_expected(paths[2], case)
    x, y, e = (np.load(path) for path in paths)
    (first,), (second,) = case.inputs[:2]
    assert np.array_equal(x["input_0"], second)
    assert np.allclose(y["output_0"], np.sin(0.5 * first + second))
    assert np.allclose(e["output_0"], np.sin(0.25 * first + second))


def test_outputs_of_a_program_that_raises(folder: Path, capsys: Capture) -> None:
    """They are none: a warning says so, and the verdict stands."""
    (folder / "table.pte").write_bytes(export(torch.nn.Embedding(3, 2), torch.tensor([1])))
    line = f"check {folder}/table.pte --model model.py:table --random 0"
    code, out, err = call(capsys, f"{line} --save-outputs {folder}/y.npz")
    assert code == 3 and "y.npz is not written: no outputs of example: " in err
    assert not (folder / "y.npz").exists()
    assert call(capsys, next_of(out))[0] == 3


def test_explain_of_a_flow(folder: Path, capsys: Capture) -> None:
    path = folder / "m.pte"
    code, out, _ = call(capsys, f"explain model.py:make --flow xnnpack --save-pte {path}")
    assert code == 0 and out.startswith("model.py:make (xnnpack), method 'forward'")
    assert executorch_c.load(path).method_names == {"forward"}
    np.savez(folder / "two.npz", x=np.ones((4, 3), np.float32))
    line = f"explain model.py:make --flow portable --inputs {folder}/two.npz --ladder"
    code, out, _ = call(capsys, line)
    assert code == 0 and "\n  delegated   none\n" in out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("explain model.py:make --flow xnpack", "did you mean 'xnnpack'"),
        ("explain model.py:make", "one of the arguments --etrecord --model --flow is required"),
        ("explain model.pte --flow xnnpack", "is not module:function"),
        ("explain other.pte --model model.py:make --save-pte m.pte", "--save-pte"),
        ("check other.pte --model model.py:make --save-pte m.pte", "other.pte is a program"),
        ("check other.pte --llm --explain", "--explain is not an option of language models"),
    ],
)
def test_misuses(line: str, message: str, folder: Path, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(line.split())
    assert stop.value.code == 2 and message in capsys.readouterr().err


def test_validate_and_compare_go_on(folder: Path, capsys: Capture) -> None:
    """The function of the model has to be filled in."""
    code, out, _ = call(capsys, "validate digits.pte --inputs x.npz --expect bad.npz")
    assert code == 3
    assert next_of(out) == "explain digits.pte --model M.py:F --inputs x.npz"
    model = "model.py:make"
    (folder / "pair.pte").write_bytes(export(torch.nn.Linear(3, 2), torch.ones(4, 3)))
    code, out, _ = call(capsys, f"compare {shlex.quote(str(folder / 'pair.pte'))} other.pte")
    assert code == 3 and next_of(out).startswith("explain other.pte --model M.py:F --inputs ")
    assert call(capsys, next_of(out).replace("M.py:F", model))[0] == 3


def test_validate_of_new_nan_goes_on_with_check_nan(folder: Path, capsys: Capture) -> None:
    np.savez(folder / "nan.npz", x=np.full_like(digits.IMAGES, np.nan))
    np.savez(folder / "y.npz", y=digits.EXPECTED)
    line = f"validate digits.pte --inputs {folder}/nan.npz --expect {folder}/y.npz --rtol 1e-3"
    code, out, _ = call(capsys, line)
    assert code == 3 and next_of(out) == f"check-nan digits.pte --inputs {folder}/nan.npz"
    assert call(capsys, next_of(out))[0] == 3


def test_command_lines_are_quoted() -> None:
    words = ["explain", "a b.pte", "--inputs", "it's.npz", "$HOME"]
    assert shlex.split(_next.command_line(*words)) == ["executorch-c", *words]


def test_options_are_passed_on_as_written() -> None:
    line = "check m.pte --model m:f --rto 1 --search 3 --kv-cache=9 --data a --data=b --atol 1e-3"
    args = cli.parser().parse_args(line.split())
    args.words = line.split()[1:]
    assert _next.given(args) == "--rto 1 --kv-cache=9 --data a --data=b --atol 1e-3".split()
