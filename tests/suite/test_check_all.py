"""Checks that run: each in a process that a fault ends alone."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import Executor, Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from executorch_c import cli
from executorch_c.suite import one, worker
from executorch_c.suite.result import CheckRow, SuiteInterrupt, SuiteResult, read
from executorch_c.testing import check_all
from tests.python import digits

MODELS = """
import os, signal, subprocess, sys, time
import torch

def net():
    torch.manual_seed(0)
    torch.add = None  # ends with the process
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    return model.eval(), (torch.load("x.pt"),), {"engines": "here"}  # in the folder of the file

def other():
    assert torch.add is not None
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    return model.eval(), (torch.rand(1, 1, 8, 8),), {"engines": "here"}

def crash():
    print("last words", flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)

def slow():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    open("child", "w").write(str(child.pid))
    time.sleep(600)

def raises():
    raise RuntimeError("no weights")

def ends():
    raise SystemExit(3)
"""
CHECKS = """
[defaults]
n_random = 1
[models.crash]
model = "nets.py:crash"
[models.slow]
model = "nets.py:slow"
seconds = 1
[models.raises]
model = "nets.py:raises"
[models.ends]
model = "nets.py:ends"
[models.net]
model = "nets.py:net"
flows = ["xnnpack"]
[models.digits]
model = "nets.py:other"
program = "digits.pte"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checks")
    (folder / "nets.py").write_text(MODELS)
    (folder / "checks.toml").write_text(CHECKS)
    (folder / "digits.pte").write_bytes(digits.DIGITS.read_bytes())
    torch.save(
        torch.from_numpy(np.random.default_rng(0).random((2, 8), np.float32)), folder / "x.pt"
    )
    return folder


@pytest.fixture(scope="module")
def result(folder: Path) -> SuiteResult:
    return check_all(folder / "checks.toml", jobs=2, pages=folder / "pages")


def test_verdicts(result: SuiteResult) -> None:
    verdicts = [row.verdict for row in result]
    assert verdicts == ["error", "error", "error", "error", "match", "differ"], result
    assert result.verdict == "differ"


def test_errors_are_rows(result: SuiteResult) -> None:
    crash, slow, raises, ends, *_ = result
    assert crash.about == "the check crashed (SIGSEGV)" and "last words" in crash.problems[0]
    assert slow.about == "not done after 1 s, the time limit"
    assert raises.about == "RuntimeError: no weights" and "stage: make" in raises.problems[0]
    assert ends.about == "SystemExit: 3"


def test_a_time_limit_ends_what_the_check_started(result: SuiteResult, folder: Path) -> None:
    assert has_ended(folder / "child")


def has_ended(file: Path) -> bool:
    """Return True if the process whose number a file has is none, or a zombie."""
    state = Path(f"/proc/{file.read_text()}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


def test_figures(result: SuiteResult) -> None:
    net, wrong = result.rows[4:]
    assert net.sqnr_db > 100 and net.delegated == 1 and net.power > 0.5
    assert net.size_bytes > 1000 and 0 < net.call_ms < 1000
    assert wrong.sqnr_db < 20 and wrong.size_bytes == digits.DIGITS.stat().st_size
    assert wrong.problems[-1] == "next: executorch-c explain digits.pte --model nets.py:other"


def test_the_first_paragraph_and_the_users_line_of_an_error() -> None:
    text = """Could not guard on Eq(u0, 1).

Caused by: torch. For more information, run with TORCH_LOGS

The following call raised this error:
  File "/site-packages/torch/a.py", line 3, in f
    g()
  File "models/zoo.py", line 70, in forward
    if x.sum() > 0:

To fix"""
    assert one.error_row(ValueError(text))["about"] == (
        "ValueError: Could not guard on Eq(u0, 1). (zoo.py:70, forward: if x.sum() > 0:)"
    )
    assert one.error_row(ValueError("one\nline"))["about"] == "ValueError: one line"
    assert one.error_row(ValueError())["about"] == "ValueError"


def test_the_ratio_of_a_quantised_program_is_that_of_given_inputs() -> None:
    """Random inputs leave the ranges of calibration: what they lose hides a layer that got worse
    on data."""

    def case(kind: str, db: float | None, plain: float = 140.0) -> Any:
        def compared(ratio: float) -> Any:
            return SimpleNamespace(outputs=[SimpleNamespace(metrics=SimpleNamespace(snr_db=ratio))])

        to_float = None if db is None else compared(db)
        return SimpleNamespace(kind=kind, comparison=compared(plain), to_float=to_float)

    given = [case("example", 31.0), case("real", 29.0)]
    made = [case("random", 8.0), case("edge", 5.0)]
    assert one._worst_sqnr([*given, *made]) == 29.0
    assert one._worst_sqnr(made) == 5.0
    assert one._worst_sqnr([case("example", None), case("random", None, 120.0)]) == 120.0


def test_pages(result: SuiteResult, folder: Path) -> None:
    """Of checks with a result that does not match."""
    assert [path.name for path in (folder / "pages").iterdir()] == ["digits_program.html"]
    assert result.rows[5].page == str(folder / "pages" / "digits_program.html")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_what_is_done(folder: Path, number: int) -> None:
    """In the table, the JSON and JUnit, with the names of those that are not done."""
    checks = CHECKS.replace("seconds = 1", "").replace("sleep(600)", "sleep(60)")
    (folder / "long.toml").write_text(checks)
    (folder / "child").unlink(missing_ok=True)
    words = ["check-all", "long.toml", "--only", "raises", "--only", "slow", "--only", "digits"]
    files = ["-o", f"{number}.json", "--junit", f"{number}.xml"]
    command = [sys.executable, "-m", "executorch_c", *words, *files, "--jobs", "2"]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        assert "raises:portable: error" in process.stderr.readline()
        while not (folder / "child").exists():
            time.sleep(0.05)
        process.send_signal(number)
        text, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "error; interrupted: " in text and "slow:portable" not in text
    result = read(folder / f"{number}.json")
    assert result.interrupted and result.verdict == "error" and "slow:portable" in result.unfinished
    (suite,) = ElementTree.parse(folder / f"{number}.xml").getroot()
    skipped = [case.get("classname") for case in suite if case.find("skipped") is not None]
    assert "slow" in skipped and suite.get("skipped") == str(len(skipped))
    assert has_ended(folder / "child")


def test_an_interrupt_in_python(folder: Path) -> None:
    """The exception has the rows; a part has the names of its own checks only."""

    def stop(row: CheckRow) -> None:
        raise KeyboardInterrupt

    with pytest.raises(SuiteInterrupt) as stopped:
        only = ["raises", "ends", "crash"]
        check_all(folder / "checks.toml", only=only, shard="1/2", done=stop)
    result = stopped.value.result
    assert [row.name for row in result] == ["crash:portable"]
    assert result.unfinished == ("ends:portable",)
    assert "1 error; interrupted: 1 not done" in result.summary()


class Lost(Executor):
    """Runs nothing: its workers are lost."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        assert fn is worker.run and not kwargs
        future = Future[Any]()
        future.set_exception(RuntimeError("worker died"))
        return future


def test_an_executor_that_loses_checks(folder: Path) -> None:
    lost = check_all(folder / "checks.toml", executor=Lost(), only="net", shard="1/1")
    (row,) = lost
    assert row.about == "the executor lost the check: RuntimeError: worker died"


def test_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(folder / "checks.toml")
    assert cli.main(["check-all", path, "--list", "--only", "net", "--only", "slow"]) == 0
    assert "slow:portable  n_random=1" in capsys.readouterr().out
    parts = [str(folder / f"{i}.json") for i in (1, 2)]
    names = ["ends", "raises"]
    only = [word for name in names for word in ("--only", name)]
    for i, part in enumerate(parts, 1):
        assert cli.main(["check-all", path, *only, "--shard", f"{i}/2", "-o", part]) == 1
    assert "raises:portable: error (0." in capsys.readouterr().err
    assert cli.main(["check-all", "--merge", *parts, "--baseline", parts[0]]) == 1
    assert "note: 'ends:portable' is not in the baseline" in capsys.readouterr().out


@pytest.mark.parametrize(
    "line, text",
    {
        "": "expected CHECKS.toml, or --merge",
        "a.toml --merge b.json": "expected CHECKS.toml, or --merge",
        "--merge b.json --only x": "--only is for checks that run",
        "a.toml --shard 3/2": "expected a number from 1 to 2",
        "a.toml --allow ms=5%": "--allow is for --baseline",
        "a.toml --baseline b --allow mss=5%": "did you mean 'ms'?",
        "a.toml --baseline b --allow ms=x": "expected NAME=CHANGE",
        "a.toml --seconds 0": "expected more than 0",
        "a.toml --seconds x": "expected a number of seconds, got 'x'",
        "a.toml --jobs x": "expected a whole number, got 'x'",
        f"a.toml --shard 1/{'9' * 5000}": "9..9999999999999999999', expected i/n, as 2/4",
    }.items(),
)
def test_usage(line: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        cli.main(["check-all", *line.split()])
    assert exit.value.code == 2 and text in capsys.readouterr().err


def test_dask(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On two workers: processes of their own."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        chosen = ["crash", "raises", "digits"]
        found = check_all(
            folder / "checks.toml", executor=client.get_executor(), only=chosen, progress=False
        )
        workers = client.run(os.getpid)
    assert len(workers) == 2
    assert [row.verdict for row in found] == ["error", "error", "differ"]
    assert found.rows[0].about == "the check crashed (SIGSEGV)"
