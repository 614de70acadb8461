"""The command line: output, exit codes, error messages, and the option --delegate-at-load."""

import argparse
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import executorch_c
from executorch_c import cli
from executorch_c.bundled import BundledProgram
from executorch_c.testing import compare
from tests import ROOT, process
from tests.exports import Fn, export
from tests.python import digits


Capture = pytest.CaptureFixture[str]
DIGITS = str(digits.DIGITS)
GOLDEN = ROOT / "tests" / "release" / "golden"
COMMANDS = ["", *map(cli.name_of, cli.COMMANDS)]


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with small programs of the official flow."""
    torch = pytest.importorskip("torch")
    from executorch.exir import ExecutorchBackendConfig, to_edge

    folder = tmp_path_factory.mktemp("programs")

    mixed = Fn(lambda x, n, flag: ((x * n if flag else x).to(torch.bfloat16), n + 1))

    class Linear(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 2)

        def forward(self, tokens, x):  # type: ignore[no-untyped-def]
            return self.linear(x) + tokens

    def export(module, inputs, name, **config):  # type: ignore[no-untyped-def]
        edge = to_edge(torch.export.export(module.eval(), inputs))
        program = edge.to_executorch(ExecutorchBackendConfig(**config))
        (folder / name).write_bytes(program.buffer)
        program.write_tensor_data_to_file(str(folder))

    torch.manual_seed(0)
    export(mixed, (torch.ones(2, 3), 3, True), "mixed.pte")
    inputs = (torch.ones(2, dtype=torch.int64), torch.ones(2, 3))
    export(Linear(), inputs, "linear.pte", external_constants=True)
    export(torch.nn.Embedding(3, 2), (torch.tensor([1]),), "table.pte")
    export(torch.nn.Linear(3, 2), (torch.ones(4, 3),), "pair.pte")
    np.savez(folder / "two.npz", np.ones(2), np.ones(2))
    np.save(folder / "square.npy", np.zeros((2, 3), np.float32))
    (folder / "zeros.pte").write_bytes(b"\0" * 64)
    (folder / "digits.pte").write_bytes(Path(DIGITS).read_bytes())
    (folder / "checked_model.py").write_text(MODEL)
    return folder


@pytest.fixture
def inside(files: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder, as the working directory; modules that a command imports are local."""
    monkeypatch.chdir(files)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return files


def saved(path: Path, **arrays: np.ndarray) -> str:
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return str(path)


MODEL = """
import torch

class Product(torch.nn.Module):
    def forward(self, a, b):
        return a @ b

def make():
    real = [(torch.zeros(4, 3),)]
    return torch.nn.Linear(3, 2).eval(), (torch.ones(4, 3),), {"real_inputs": real}

def other():
    return torch.nn.Linear(3, 2).eval(), (torch.ones(4, 3),)

def product():
    return Product().eval()

def nothing():
    return None

def fails():
    raise ValueError("no")
"""


def command(capsys: Capture, *args: str) -> tuple[int, str, str]:
    """Return exit code, stdout and stderr of the command line, run in this process."""
    try:
        code = cli.main(args)
    except SystemExit as stop:  # argparse
        assert isinstance(stop.code, int)
        code = stop.code
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def failed(capsys: Capture, *args: str) -> str:
    """Assert a runtime error and return its line on stderr."""
    code, _, err = command(capsys, *args)
    assert code == 1
    assert err.startswith("executorch-c: error: ") and err.count("\n") == 1
    return err


def misused(capsys: Capture, *args: str) -> str:
    """Assert a usage error and return the usage and the error."""
    code, out, err = command(capsys, *args)
    is_known = bool(args) and args[0] in COMMANDS
    assert (code, out) == (2, "")
    assert err.startswith(f"usage: executorch-c {args[0]} " if is_known else "usage: executorch-c ")
    return err


def python(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run a new interpreter in a folder where nothing shadows the installed package."""
    return process.python(*args, cwd=folder, ok=False)


def test_torch_is_not_imported(tmp_path: Path) -> None:
    """The package must not need torch."""
    code = """
import sys
from executorch_c import cli
assert cli.parser().format_help()
assert cli.main(["demo"]) == 0
assert not {"torch", "executorch", "ml_dtypes"} & set(sys.modules)
"""
    done = python(tmp_path, "-c", code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_help(name: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = command(capsys, *([name] if name else []), "--help")
    assert code == 0
    assert out.startswith("usage: executorch-c") and max(map(len, out.splitlines())) <= 80
    assert ("examples:" in out) == (not name)


def test_the_version_and_the_width_of_run(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = command(capsys, "run", DIGITS)
    assert code == 0 and max(map(len, out.splitlines())) <= 80 and "... (min" in out, out
    assert command(capsys, "--version") == (0, f"executorch_c {executorch_c.__version__}\n", "")


FOLDER = "folder no/such/folder does not exist"
MISUSES = {
    "": "usage: executorch-c",
    "nonsense": "usage: executorch-c",
    "validate": "usage: executorch-c validate",
    "validate digits.pte": "pass --inputs",
    "validate digits.pte --inputs x.npz --expect y.npz --rtol -1": "usage: executorch-c validate",
    "run digits.pte --repeat 0": "usage: executorch-c run",
    "info --what digits.pte": "usage: executorch-c info",
    "trace digits.pte --debug-buffer x.bin": "--debug-buffer requires --etdump",
    "check checked_model:make --flow x": "flow is 'x', expected one of",
    "check checked_model:make --flow xnpack": "flow is 'xnpack', did you mean 'xnnpack'?",
    "chek pair.pte": "found 'chek', did you mean 'check'?\n",
    "run pair.pte --repeats 3": "run: error: unrecognized arguments: --repeats 3, did you mean "
    "'--repeat'?\n",
    "run": "usage: executorch-c run [OPTIONS] MODEL.pte (see --help)\n",
    "check pair.pte": "pass its PyTorch model",
    "check pair.pte --model checked_model:other --flow xnnpack": "--flow",
    **{
        f"trace digits.pte {option} no/such/folder/t.html": FOLDER
        for option in ("--html", "--output", "--chrome", "--etdump")
    },
    **{f"{name} --no-such-option": f"usage: executorch-c {name}" for name in COMMANDS[1:]},
}
"""Command lines, and what the error says."""


@pytest.mark.parametrize("line", MISUSES)
def test_misuses(line: str, inside: Path, capsys: Capture) -> None:
    assert MISUSES[line] in misused(capsys, *line.split())


def test_demo(capsys: Capture) -> None:
    code, out, err = command(capsys, "demo")
    assert (code, err) == (0, "")
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if line.strip()}
    assert rows["label"] == [str(label) for label in digits.LABELS[:20]]
    assert sum(a == b for a, b in zip(rows["predicted"], rows["label"], strict=True)) >= 18
    assert int(rows["right"][0]) >= 60
    assert float(rows["difference"][0]) < 1e-4


def test_run_with_inputs_and_output(tmp_path: Path, capsys: Capture) -> None:
    images, expected = digits.IMAGES[:5], digits.EXPECTED[:5]
    output = tmp_path / "y.npz"
    args = ["run", DIGITS, "--inputs", saved(tmp_path / "x.npz", x=images), "--output", str(output)]
    code, out, err = command(capsys, *args, "--repeat", "3")
    assert (code, err) == (0, "")
    assert "(5, 1, 8, 8)" in out and "(5, 10)" in out and "median of 2 repeats" in out
    with np.load(output) as data:
        assert data.files == ["output_0"]
        assert compare(data["output_0"], expected), compare(data["output_0"], expected)


def test_run_numbers_and_bfloat16(files: Path, tmp_path: Path, capsys: Capture) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    output = tmp_path / "y.npz"
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for arrays in ([x], [x, np.array(3), np.array(True)]):
        np.savez(tmp_path / "x.npz", *arrays)
        args = ["--inputs", str(tmp_path / "x.npz"), "--output", str(output)]
        code, out, err = command(capsys, "run", str(files / "mixed.pte"), *args)
        assert (code, err) == (0, "")
        assert "bfloat16" in out and "int" in out
        with np.load(output) as data:
            value = data["output_0"].view(ml_dtypes.bfloat16).astype(np.float32)
            np.testing.assert_array_equal(value, 3 * x)
            assert data["output_1"] == 4


FAILURES = {
    "run linear.pte": "linear.weight",
    "run mixed.pte --inputs two.npz": "2 arrays.* 3 inputs",
    "run digits.pte --inputs square.npy": "input 0",
    "run digits.pte --method backward": "forward",
    "info no-such-file.pte": r"no-such-file\.pte",
    "info zeros.pte": r"zeros\.pte",
    "check digits.pte --model checked_model:make": "the model does not fit the program: input 0",
    "check checked_model:missing": "checked_model has no function 'missing'",
    "check no_such_module:f": "no module named 'no_such_module'",
    "check no_such_module:f --inputs none.npz": r"none\.npz",
    "check checked_model:nothing": r"returns a NoneType, expected \(model, example_inputs\)",
    "check checked_model": "is not module:function",
    "check checked_model.py": "is not module:function: add the function, checked_model.py:make$",
    "check checked_model.py:mak": r"error: checked_model.py has no function 'mak', did you mean",
    "compare pair.pte table.pte": "error: table.pte: ",
    "compare table.pte pair.pte": "error: pair.pte: ",
    "explain pair.pte --model none.py:make": "^executorch-c: error: .*none.py: No such file or "
    "directory$",
    "explain pair.pte --model checked_model.py:fails": "checked_model.py:fails: no; stage: make ",
}
"""Command lines, and what the error says."""


@pytest.mark.parametrize("line", FAILURES)
def test_failures(line: str, inside: Path, capsys: Capture) -> None:
    error = failed(capsys, *line.split())
    assert re.search(FAILURES[line], error), error


def damaged_deflate() -> bytes:
    """An .npz whose compressed bytes are not a deflate stream (zlib.error)."""
    file = io.BytesIO()
    np.savez_compressed(file, x=np.zeros(100))
    data = bytearray(file.getvalue())
    at = 30 + int.from_bytes(data[26:28], "little") + int.from_bytes(data[28:30], "little")
    data[at : at + 4] = b"\xff" * 4
    return bytes(data)


def npy(header: bytes) -> bytes:
    header = header.ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


@pytest.mark.parametrize(
    "data",
    [
        damaged_deflate(),
        npy(b"("),
        npy(b"{'descr': 'O', 'fortran_order': False, 'shape': (1,), }"),
        npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (9, 9), }"),
        b"",
        b"PK nothing",
    ],
)
def test_damaged_inputs(data: bytes, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "x.npz").write_bytes(data)
    err = failed(capsys, "run", DIGITS, "--inputs", str(tmp_path / "x.npz"))
    assert "x.npz: not an .npz or .npy file of arrays" in err
    assert "pickle.load" not in err  # numpy advises that


def test_info(capsys: Capture) -> None:
    code, out, err = command(capsys, "info", DIGITS)
    assert (code, err) == (0, "")
    size = f"{Path(DIGITS).stat().st_size:,} bytes"
    for part in (size, "method forward", "up to (64, 1, 8, 8)", "aten::convolution.out", "arena 1"):
        assert part in out
    assert "can run here" in out


def test_info_json(capsys: Capture) -> None:
    code, out, _ = command(capsys, "info", DIGITS, "--json")
    what = json.loads(out)
    assert code == 0
    [method] = what["methods"]
    calls = {o["name"]: o["calls"] for o in method["operators"]}
    assert calls["aten::convolution.out"] == 3
    assert what["file_size"] == Path(DIGITS).stat().st_size


def test_info_names_missing_operators(tmp_path: Path, capsys: Capture) -> None:
    data = Path(DIGITS).read_bytes()
    assert b"aten::convolution" in data
    (tmp_path / "x.pte").write_bytes(data.replace(b"aten::convolution", b"demo::convolution"))
    code, out, _ = command(capsys, "info", str(tmp_path / "x.pte"))
    assert code == 0
    assert "cannot run here, missing: operators demo::convolution.out" in out
    assert "demo::convolution.out" in failed(capsys, "run", str(tmp_path / "x.pte"))


def test_ops(capsys: Capture) -> None:
    code, out, _ = command(capsys, "operators")
    assert code == 0
    assert len(out.splitlines()) == len(executorch_c.operators()) + 2
    assert command(capsys, "operators", "--json")[1:] == (
        json.dumps(executorch_c.operators(), indent=2) + "\n",
        "",
    )


def test_validate(tmp_path: Path, capsys: Capture) -> None:
    images, expected = digits.IMAGES, digits.EXPECTED.copy()
    inputs = saved(tmp_path / "x.npz", x=images)
    right = saved(tmp_path / "y.npz", y=expected)
    expected[2, 5] -= 3
    wrong = saved(tmp_path / "wrong.npz", y=expected)
    args = ["validate", DIGITS, "--inputs", inputs, "--atol", "1e-4", "--expect"]
    code, out, _ = command(capsys, *args, right)
    assert (code, out.splitlines()[0]) == (0, "outputs match")
    code, out, _ = command(capsys, *args, wrong)
    assert (code, out.splitlines()[0]) == (3, "outputs differ")
    assert "worst at (2, 5)" in out
    code, out, _ = command(capsys, *args, wrong, "--json", "--kernels", "reference")
    report = json.loads(out)
    assert (code, report["ok"], report["outputs"][0]["metrics"]["worst"]) == (3, False, [2, 5])


def test_validate_writes_a_page(tmp_path: Path, capsys: Capture) -> None:
    images, expected = digits.IMAGES, digits.EXPECTED
    inputs = saved(tmp_path / "x.npz", x=images)
    wrong = saved(tmp_path / "wrong.npz", y=expected + np.eye(*expected.shape, dtype="f4"))
    page = tmp_path / "page.html"
    args = ["validate", DIGITS, "--inputs", inputs, "--expect", wrong, "--html", str(page)]
    assert command(capsys, *args)[0] == 3
    text = page.read_text()
    assert "Outputs of " in text and "differ" in text and "(0, 0)" in text
    bundle = str(tmp_path / "digits.bpte")
    cases = [([images], [expected]), ([images], [expected + 1])]
    BundledProgram(Path(DIGITS).read_bytes(), {"forward": cases}).save(bundle)
    assert command(capsys, "validate", bundle, "--atol", "1e-4", "--html", str(page))[0] == 3
    text = page.read_text()
    assert text.index("<h2>forward[0]</h2>") < text.index("<h2>forward[1]</h2>")


def test_check(inside: Path, capsys: Capture) -> None:
    code, out, _ = command(capsys, "check", "checked_model.py:make", "--random", "1")
    assert (code, out.splitlines()[0]) == (0, "3 cases match (portable, method 'forward')")
    code, out, _ = command(capsys, "check", "checked_model:make", "--json", "--random", "0")
    report = json.loads(out)
    assert code == 0 and report["ok"] and report["facts"]["method"] == "forward"
    assert [case["kind"] for case in report["cases"]] == ["example", "real"]


def test_check_takes_inputs_by_the_names_of_the_parameters(inside: Path, capsys: Capture) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape, np.float32) for shape in ((20, 3), (3, 40)))

    def warned(**arrays: np.ndarray) -> str:
        path = saved(inside / "x.npz", **arrays)
        args = ["check", "checked_model:product", "--inputs", path, "--random", "0"]
        code, out, err = command(capsys, *args)
        assert code == 0, out + err
        return "".join(line for line in err.splitlines() if "executorch-c: warning" in line)

    assert warned(b=b, a=a) == warned(input_1=b, input_0=a) == ""
    warning = warned(x=a, y=b)
    assert "x.npz: x, y are taken by order; the names" in warning and warning.endswith("are a, b")


def test_check_of_another_model_differs(inside: Path, capsys: Capture) -> None:
    args = ["check", "pair.pte", "--model", "checked_model.py:other", "--random", "1"]
    files = ["--output", "check.json", "--html", "page.html", "--plot", "plot.png"]
    code, out, _ = command(capsys, *args, *files)
    assert code == 3 and "2 of 2 cases differ" in out
    assert json.loads(Path("check.json").read_text())["verdict"] == "differ"
    assert "2 of 2 cases differ" in Path("page.html").read_text()
    assert Path("plot.png").read_bytes().startswith(b"\x89PNG")


def test_validate_what_run_has_written(files: Path, tmp_path: Path, capsys: Capture) -> None:
    model, written = str(files / "mixed.pte"), str(tmp_path / "y.npz")
    inputs = saved(tmp_path / "x.npz", x=np.ones((2, 3), np.float32))
    assert command(capsys, "run", model, "--inputs", inputs, "--output", written)[0] == 0
    assert command(capsys, "validate", model, "--inputs", inputs, "--expect", written)[0] == 0


def test_validate_a_bundled_program(tmp_path: Path, capsys: Capture) -> None:
    images, expected = digits.IMAGES, digits.EXPECTED
    pte = Path(DIGITS).read_bytes()
    model = str(tmp_path / "digits.bpte")
    BundledProgram(pte, {"forward": [([images], [expected])]}).save(model)
    code, out, _ = command(capsys, "validate", model, "--atol", "1e-4")
    assert (code, out.splitlines()[0]) == (0, "forward[0]: outputs match")
    assert "--inputs cannot be used" in misused(capsys, "validate", model, "--inputs", "x.npz")
    BundledProgram(pte, {"forward": [([images], [expected + 1])]}).save(model)
    code, out, _ = command(capsys, "validate", model, "--json")
    assert (code, json.loads(out)["forward[0]"]["ok"]) == (3, False)


def test_trace(tmp_path: Path, capsys: Capture) -> None:
    names = {
        name: tmp_path / name for name in ("t.html", "t.json", "t.csv", "t.etdp", "t.bin", "t.svg")
    }
    options = {"--plot": "t.svg"} | {"--html": "t.html", "--chrome": "t.json", "--csv": "t.csv"}
    options |= {"--etdump": "t.etdp", "--debug-buffer": "t.bin"}
    files = [part for option, name in options.items() for part in (option, str(names[name]))]
    args = ["trace", DIGITS, "--repeat", "3", "--threads", "1", *files]
    code, out, err = command(capsys, *args)
    assert (code, err) == (0, "") and "3 calls of 'forward'" in out and "the whole call" in out
    assert names["t.svg"].read_bytes().startswith(b"<?xml")
    assert names["t.html"].read_text().startswith("<!DOCTYPE html>")
    events = json.loads(names["t.json"].read_text())["traceEvents"]
    assert len(names["t.csv"].read_text().splitlines()) == 1 + len(events)
    assert names["t.etdp"].read_bytes()[8:12] == b"ED00"
    assert names["t.bin"].stat().st_size > 1000


def test_trace_of_a_delegate(tmp_path: Path, capsys: Capture) -> None:
    model = str(GOLDEN / "1.5.1" / "xnnpack_mlp.pte")
    code, out, _ = command(capsys, "trace", model, "--all")
    [node] = [line for line in out.splitlines() if line.startswith("d0.0 ")]
    assert code == 0 and " -> " in node
    code, out, _ = command(capsys, "trace", model, "--by", "delegate")
    rows = [line.split()[:2] for line in out.splitlines()[2:]]
    assert code == 0 and ["d0", "XnnpackBackend"] in rows
    assert "d0.0" not in out


def test_trace_of_a_call_that_fails(files: Path, tmp_path: Path, capsys: Capture) -> None:
    np.save(tmp_path / "x.npy", np.array([5]))
    args = ["trace", str(files / "table.pte"), "--inputs", str(tmp_path / "x.npy")]
    code, out, err = command(capsys, *args)
    assert code == 1 and "aten::embedding.out (failed)" in out
    assert err.startswith("executorch-c: error: ") and len(err.splitlines()) == 1


def options(name: str) -> dict[str, argparse.Action]:
    """Return the options of a command by name."""
    (commands,) = (
        action for action in cli.parser()._actions if isinstance(action, argparse._SubParsersAction)
    )
    return {
        option: action
        for action in commands.choices[name]._actions
        for option in action.option_strings
    }


def test_an_option_is_the_same_in_every_command() -> None:
    kinds: dict[str, set[tuple[object, ...]]] = {}
    for name in map(cli.name_of, cli.COMMANDS):
        assert "--json" in options(name), name
        for option, action in options(name).items():
            choices = "" if option == "--sort" else str(action.choices)  # columns of the table
            kind = (type(action).__name__, action.nargs, choices, action.metavar)
            kinds.setdefault(option, set()).add(kind)
    assert {option: forms for option, forms in kinds.items() if len(forms) > 1} == {}


def test_run_reports_and_saves_random_inputs(tmp_path: Path, capsys: Capture) -> None:
    kept = str(tmp_path / "x.npz")
    code, out, _ = command(capsys, "run", DIGITS, "--seed", "3", "--save-inputs", kept)
    assert code == 0 and "random, seed 3" in out
    first = json.loads(command(capsys, "run", DIGITS, "--seed", "3", "--json")[1])
    again = json.loads(command(capsys, "run", DIGITS, "--inputs", kept, "--json")[1])
    other = json.loads(command(capsys, "run", DIGITS, "--seed", "4", "--json")[1])
    assert first["random_inputs"] and not again["random_inputs"]
    assert first["outputs"] == again["outputs"] != other["outputs"]
    args = ("run", DIGITS, "--seed", "3", "--json", "--values")
    [whole], [brief] = json.loads(command(capsys, *args)[1])["outputs"], first["outputs"]
    values = np.asarray(whole["values"], np.float32)
    assert values.shape == tuple(whole["shape"]) and brief["first"] == values.ravel()[:6].tolist()
    assert brief["max"] == values.max() and brief["mean"] == pytest.approx(values.mean(), rel=1e-6)
    assert (brief["nan"], brief["infinite"]) == (0, 0) and "values" not in brief
    assert "--values is for --json" in misused(capsys, "run", DIGITS, "--values")


def test_arrays_go_by_name_and_warn_by_order(files: Path, tmp_path: Path, capsys: Capture) -> None:
    model, data = str(files / "linear.pte"), str(next(files.glob("*.ptd")))
    (method,) = executorch_c.load(model, data_path=data).info()["methods"]
    names = [row["name"] for row in method["inputs"]]
    tokens, x = np.array([3, 4]), np.ones((2, 3), np.float32)

    def run(**arrays: np.ndarray) -> tuple[str, str]:
        path = saved(tmp_path / "x.npz", **arrays)
        code, out, err = command(capsys, "run", model, "--data", data, "--inputs", path)
        assert code == 0, err
        return out.partition("time")[0], err

    right, err = run(input_0=tokens, input_1=x)
    assert err == "" and run(input_1=x, input_0=tokens) == (right, "")
    out, err = run(a=tokens, b=x)
    assert out == right and "x.npz: a, b are taken by order" in err
    if None not in names:
        assert run(**{names[1]: x, names[0]: tokens}) == (right, "")
    more = saved(tmp_path / "x.npz", in0=tokens, in1=x, out0=x)
    code, _, err = command(capsys, "run", model, "--data", data, "--inputs", more)
    assert code == 1 and "by order" not in err
    assert "3 arrays, the method takes 2 inputs with 2 tensors: leave only its inputs" in err


def test_info_of_delegation_at_load(capsys: Capture, tmp_path: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 9))
    pte = tmp_path / "net.pte"
    pte.write_bytes(export(lambda x: torch.flip(net(x), [0]), torch.ones(3, 256)))
    code, out, _ = command(capsys, "info", str(pte), "--delegate-at-load")
    lines = out.splitlines()
    assert code == 0 and max(map(len, lines[1:])) <= 80
    assert "  delegated at load" in lines and "  not delegated at load" in lines
    row = next(line for line in lines if "aten::flip.out" in line and "without a rule" in line)
    assert row.split()[0] == "1"
    assert any("aten::relu.out" in line and "XnnpackBackend" in line for line in lines)
    assert "delegates made at load: 1, with 3 of 4 calls" in out
    assert "at load" not in command(capsys, "info", str(pte))[1]  # which loads no method
    code, out, _ = command(capsys, "info", str(pte), "--delegate-at-load", "--json")
    [method] = json.loads(out)["methods"]
    delegation = method["delegated_at_load"]
    assert delegation["error"] is None
    assert delegation["delegates"][0]["calls_delegated_at_load"] == 3
    assert delegation["undelegated"][0]["operator"] == "aten::flip.out"


def test_info_of_a_method_that_cannot_be_loaded(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    delegation = {"error": "no backend", "delegates": [], "undelegated": []}
    monkeypatch.setattr("executorch_c._commands.info.delegated_at_load", lambda *_: delegation)
    code, out, _ = command(capsys, "info", DIGITS, "--delegate-at-load")
    assert code == 0 and "cannot be loaded: no backend" in out


CHECKS = ("check", "validate", "compare", "explain", "check-nan", "quantization-error")


@pytest.mark.parametrize("name", [*CHECKS, "run", "trace", "generate", "perplexity", "info"])
def test_commands_that_load_methods_have_the_option(name: str) -> None:
    """Checks run the program as written by default."""
    assert {"--delegate-at-load", "--no-delegate-at-load"} <= options(name).keys()
    option = options(name)["--delegate-at-load"]
    if name in CHECKS:
        assert (option.default, option.dest) == (False, "checks_delegated")


def test_the_option_is_the_variable_during_the_command(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = "EXECUTORCH_C_DELEGATE_AT_LOAD"
    seen: list[str | None] = []
    monkeypatch.setattr(
        "executorch_c._commands.run.inputs_of",
        lambda *_: seen.append(os.environ.get(variable)) or exit(0),
    )
    for before, args in (
        *((None, []), (None, ["--delegate-at-load"]), ("always", [])),
        *(("always", ["--delegate-at-load"]), ("1", ["--no-delegate-at-load"])),
    ):
        if before is None:
            monkeypatch.delenv(variable, raising=False)
        else:
            monkeypatch.setenv(variable, before)
        command(capsys, "run", DIGITS, *args)
        assert os.environ.get(variable) == before
    assert seen == [None, "1", "always", "always", "0"]


def test_compare_with_what_is_delegated_at_load(capsys: Capture) -> None:
    code, out, _ = command(capsys, "compare", DIGITS, "--delegate-at-load")
    assert code == 0 and "operators delegated at load compared with reference kernels" in out
