"""check_model's second engine: the official runtime in a process of its own. Faults of its: wrong
numbers, refusals, crashes, hangs; programs that are right in both; why a program is not run."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests import process

pytest.importorskip("executorch.extension.pybindings")

from torch import Tensor, nn

from executorch_c import Runtime, cli
from executorch_c.check import engines, official
from executorch_c.check.engines import engines_of
from executorch_c.check.official_child import packed, unpacked
from executorch_c.testing import CheckError, CheckResult, check_model
from tests.exports import Decaying, Fn, export, two_conditions

X = torch.tensor([[-1.5, 0.25, 2.0], [3.0, -0.5, 1.0]])


RIGHT = Fn(lambda x: torch.relu(x) * 2)


def pad(x: Tensor) -> Tensor:
    """The official runtime refuses negative padding."""
    return nn.functional.pad(x, (-1, 1)) * 2


def remainder(a: Tensor, b: Tensor) -> Tensor:
    """In the official runtime the sign of integers is that of the dividend."""
    return torch.remainder(a * 2, b)


INTEGERS = (
    torch.tensor([-7, 7, -8, 5], dtype=torch.int16),
    torch.tensor([4, -4, 3, 3], dtype=torch.int16),
)


def crash(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rows without elements divide by zero in the official runtime."""
    return x + 1, torch.log_softmax(x[:, :0], 1)


@pytest.fixture(scope="module")
def programs() -> dict[str, bytes]:
    return {
        "right": export(RIGHT, X),
        "refused": export(Fn(pad), X),
        "wrong": export(Fn(remainder), *INTEGERS),
        "crash": export(Fn(crash), X),
    }


def verdicts(result: CheckResult) -> set[str]:
    return {case.official.verdict for case in result if case.official is not None}


def test_right_programs_match_in_both(programs: dict[str, bytes]) -> None:
    result = check_model(RIGHT, (X,), program=programs["right"])
    assert result.ok and result.engines == ("here", "official")
    assert verdicts(result) == {"match"}
    assert "official" in result.table() and "official" in result.to_csv()
    assert json.loads(result.to_json())["cases"][0]["official"]["verdict"] == "match"
    assert max(map(len, str(result).splitlines())) <= 80


def test_wrong_numbers_differ(programs: dict[str, bytes]) -> None:
    result = check_model(Fn(remainder), INTEGERS, program=programs["wrong"], n_random=0)
    assert result.verdict == "differ" and not result.ok
    [case] = result
    assert case.ok_here and not case.ok and case.official.verdict == "differ"
    text = " ".join(str(result).split())
    name = f"the official runtime {official.version()}"
    assert (
        f"{name} computes output 0 wrongly (aten::remainder.Tensor_out, instruction 2): "
        "right in this runtime; example: "
    ) in text
    assert f"1 case match, on the example and random inputs only, 1 differ in {name}" in text
    assert "official runtime" in result.to_html()
    with pytest.raises(CheckError, match="official runtime"):
        result.raise_if_wrong()
    with pytest.raises(ValueError, match="every case matches in this runtime"):
        result.explain()


def test_a_move_whose_source_is_overwritten_is_named() -> None:
    result = check_model(Fn(two_conditions), (torch.arange(1.0, 9.0),), n_random=0)
    assert result.verdict == "differ"
    text = " ".join(str(result).split())
    assert "computes output 0 wrongly (move, instruction 6: its source was overwritten)" in text


def test_a_refusal_is_an_error(programs: dict[str, bytes]) -> None:
    result = check_model(Fn(pad), (X,), program=programs["refused"], n_random=1)
    assert result.verdict == "error" and verdicts(result) == {"error"}
    text = " ".join(str(result).split())
    assert "aten::constant_pad_nd.out, instruction 0" in text
    assert "Padding values must be non-negative" in text
    assert "2 fail in the official runtime" in text
    assert all(case.verdict == "match" for case in result)


def test_a_crash_is_a_row_and_the_next_check_runs(programs: dict[str, bytes]) -> None:
    result = check_model(Fn(crash), (X,), program=programs["crash"], n_random=1)
    assert result.verdict == "error" and verdicts(result) == {"error"}
    assert "crashed (SIGFPE)" in str(result)
    result = check_model(RIGHT, (X,), program=programs["right"])
    assert result.ok and verdicts(result) == {"match"}


def test_a_program_that_crashes_each_time_is_left(programs: dict[str, bytes]) -> None:
    result = check_model(Fn(crash), (X,), program=programs["crash"], n_random=4)
    states = [case.official.verdict for case in result if case.official is not None]
    assert states == ["error"] * engines.MAX_CRASHES + ["not run"] * 2
    assert f"it crashed in {engines.MAX_CRASHES} cases" in str(result)


def test_operators_that_it_lacks_are_an_error() -> None:
    bounds = torch.tensor([-1.0, 0.0, 1.0])
    result = check_model(Fn(lambda x: torch.bucketize(x, bounds) + 1), (X,), n_random=0)
    assert result.verdict == "error"
    assert "it lacks aten::bucketize.Tensor_out" in str(result)


# ---- not run ---------------------------------------------------------------------------------


def not_run(result: CheckResult) -> str:
    """Return the note of a check that matches here, and that the official runtime does not run."""
    assert result.ok and verdicts(result) == {"not run"}
    assert "official" not in result.table()
    return " ".join(str(result).partition("note: the official runtime")[2].split())


def test_a_method_has_no_file(programs: dict[str, bytes]) -> None:
    method = Runtime.get().load_program(programs["right"]).load_method("forward")
    result = check_model(RIGHT, (X,), program=method, n_random=0)
    assert "did not run any case: a loaded method has no file" in not_run(result)


def test_what_is_not_run() -> None:
    """Other delegates, channels-last of five dimensions, text."""
    result = check_model(nn.Linear(3, 3), (X,), flow="vulkan", n_random=0)
    assert "it has no VulkanBackend here" in not_run(result)
    x = torch.randn(1, 2, 3, 4, 5).to(memory_format=torch.channels_last_3d)
    assert "dimension order" in not_run(check_model(Fn(lambda x: x * 2), (x,), n_random=0))
    with pytest.raises(official.Unavailable, match="no text"):
        engines.as_sent("text", None)


def test_an_embedded_interpreter_is_not_started(
    programs: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("", "/usr/bin/editor"):
        monkeypatch.setattr(sys, "executable", name)
        result = check_model(RIGHT, (X,), program=programs["right"])
        assert "no Python interpreter" in not_run(result)


def test_a_hang_is_not_run(programs: dict[str, bytes]) -> None:
    process = official.acquire()
    process.operators()
    official.release(process)
    os.kill(process._process.pid, signal.SIGSTOP)
    start = time.monotonic()
    result = check_model(RIGHT, (X,), program=programs["right"], official_seconds=0.5)
    assert time.monotonic() - start < 100
    assert "longer than 0.5 s (official_seconds)" in not_run(result)
    assert process._process.returncode == -signal.SIGKILL


def test_engines_here_runs_no_process(programs: dict[str, bytes]) -> None:
    result = check_model(Fn(pad), (X,), program=programs["refused"], engines=("here",))
    assert result.ok and result.engines == ("here",)
    assert all(case.official is None for case in result)
    assert "official" not in result.table() and "wrongly" not in str(result)


@pytest.mark.parametrize("option", ["there", ("official",), ("here", "there"), ""])
def test_unknown_engines_are_an_error(option: Any) -> None:
    with pytest.raises(ValueError, match="expected"):
        engines_of(option)


# ---- values that travel ----------------------------------------------------------------------


VALUES = [
    *(torch.tensor(1.5), torch.zeros(0, 3), torch.randn(2, 3).to(torch.bfloat16)),
    *(torch.arange(3), torch.randn(3).half(), torch.tensor([True, False])),
    torch.randn(2, 3, 4, 5).permute(0, 2, 3, 1),
    *(torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last), torch.randn(3, 2).t()),
    *(torch.tensor([1 + 2j]), torch.ones(1).half().as_strided((1,), (0,))),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda v: f"{v.dtype}{list(v.shape)}")
def test_tensors_survive(value: Tensor) -> None:
    copy = unpacked(*packed(value))
    assert copy.dtype == value.dtype and torch.equal(copy, value)
    assert copy.stride() == value.stride() or value.numel() == 1


def mixed(x: Tensor, y: Tensor, z: Tensor, a: int, b: float, c: bool, d: None) -> Any:
    return x + 1, y * 2, ~z, x.sum(), x[:0], y * a + (b if c else 0), x.to(torch.int64), a


def test_kinds_of_inputs_and_outputs() -> None:
    inputs = (
        *(torch.randn(3).half(), torch.randn(4).bfloat16(), torch.tensor([True, False]), 3),
        *(0.5, True, None),
    )
    result = check_model(Fn(mixed), inputs)
    assert result.ok and verdicts(result) == {"match"}


torch.manual_seed(0)
IMAGE = torch.randn(2, 3, 4, 5)
LAST = IMAGE.to(memory_format=torch.channels_last)
CONV = nn.Conv2d(3, 4, 3).eval()
LAYERS = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)).eval()
ROWS = torch.randn(4, 16)
MATCHING: dict[str, tuple[nn.Module, Tensor, dict[str, Any]]] = {
    "the program's layout": (CONV, IMAGE, {"program": (CONV, IMAGE)}),
    "another layout": (CONV, LAST, {"program": (CONV, IMAGE)}),
    "channels last": (Fn(torch.relu), LAST, {}),
    "state": (Decaying(0.5), torch.tensor([1.0, 2.0, 3.0]), {}),
    "int8": (LAYERS, ROWS, {"flow": "xnnpack-int8", "real_inputs": [(ROWS * 0.5,)]}),
    "dynamic": (LAYERS, ROWS, {"flow": "xnnpack-dynamic", "real_inputs": [(ROWS * 0.5,)]}),
}
"""Models, inputs and options; an input has the program's layout, whatever the example's is."""


@pytest.mark.parametrize("name", MATCHING)
def test_programs_that_match_in_both(name: str) -> None:
    model, x, options = MATCHING[name]
    if "program" in options:
        options = {"program": export(*options["program"])}
    result = check_model(model, (x,), **options)
    assert result.ok and verdicts(result) == {"match"}
    assert name != "state" or {case.kind for case in result} >= {"example", "state"}


def test_data_files(tmp_path: Path) -> None:
    from executorch.exir import ExecutorchBackendConfig, to_edge

    model = nn.Linear(3, 3).eval()
    edge = to_edge(torch.export.export(model, (X,)))
    value = edge.to_executorch(ExecutorchBackendConfig(external_constants=True))
    result = check_model(model, (X,), program=value)
    assert result.ok and verdicts(result) == {"match"}
    value.save(str(tmp_path / "model.pte"))
    value.write_tensor_data_to_file(str(tmp_path))
    [data] = tmp_path.glob("*.ptd")
    result = check_model(model, (X,), program=tmp_path / "model.pte", data_path=data)
    assert result.ok and verdicts(result) == {"match"}


# ---- the process -----------------------------------------------------------------------------


def test_the_process_stays_for_later_checks(programs: dict[str, bytes]) -> None:
    pids = []
    for _ in range(2):
        check_model(RIGHT, (X,), program=programs["right"])
        [process] = official._idle
        pids.append(process._process.pid)
    assert pids[0] == pids[1]


def test_a_fork_does_not_take_the_process(programs: dict[str, bytes]) -> None:
    check_model(RIGHT, (X,), program=programs["right"])
    [process] = official._idle
    child = os.fork()
    if child == 0:
        os._exit(3 if official._idle else 0)
    assert os.waitpid(child, 0)[1] == 0
    assert process.is_usable


SCRIPT = """
import os, signal, sys
from executorch_c.check import official
process = official.acquire()
process.operators()
official.release(process)
print(process._process.pid, flush=True)
if sys.argv[1] == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("end", ["exit", "kill"])
def test_the_process_ends_with_its_parent(end: str) -> None:
    done = process.python("-c", SCRIPT, end, timeout=300, ok=False)
    assert done.stdout, done.stderr
    pid = int(done.stdout)
    for _ in range(100):
        if not os.path.exists(f"/proc/{pid}") or "Z" in _state(pid):
            return
        time.sleep(0.1)
    raise AssertionError("the process is still there")


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


# ---- the command -----------------------------------------------------------------------------

MODEL = """
import torch
class Pad(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.pad(x, (-1, 1)) * 2
def make():
    return Pad(), (torch.arange(6.0).reshape(2, 3),)
"""


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    model = f"{tmp_path / 'model.py'}:make"
    assert cli.main(["check", model, "--random", "0"]) == 1
    assert "official runtime" in capsys.readouterr().out
    assert cli.main(["check", model, "--random", "0", "--engines", "here"]) == 0
    assert "official" not in capsys.readouterr().out.splitlines()[1]  # the columns
    with pytest.raises(SystemExit) as caught:
        cli.main(["check", model, "--engines", "there"])
    assert caught.value.code == 2
    assert "'there' is unknown" in capsys.readouterr().err


def test_a_verdict_of_layers_is_not_wrong_in_this_runtime_only() -> None:
    """The outputs are within limits on both sides: the official runtime has the fault, too."""

    def case(mismatched: int) -> Any:
        metrics = SimpleNamespace(mismatched=mismatched)
        outputs = [SimpleNamespace(problem=None, metrics=metrics)]
        run = SimpleNamespace(verdict="match")
        return SimpleNamespace(
            name="example", ok_here=False, official=run, comparison=SimpleNamespace(outputs=outputs)
        )

    (said,) = engines._better([case(3)])
    assert said.endswith("computes example rightly: wrong in this runtime only")
    (said,) = engines._better([case(0)])
    assert "only" not in said and said.endswith("are within limits, as here; layers decide here")
