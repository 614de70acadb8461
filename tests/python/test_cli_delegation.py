"""The option --delegate-at-load of commands, and what `info` says with it."""

import json
import os
from pathlib import Path

import pytest
import torch

from tests.exports import export
from tests.python.test_cli import DIGITS, Capture, command, options


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
    found = json.loads(out)["methods"][0]["delegated_at_load"]
    assert found["error"] is None and found["delegates"][0]["calls_delegated_at_load"] == 3
    assert found["undelegated"][0]["operator"] == "aten::flip.out"


def test_info_of_a_method_that_cannot_be_loaded(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {"error": "no backend", "delegates": [], "undelegated": []}
    monkeypatch.setattr("executorch_c._commands.info.delegated_at_load", lambda *_: found)
    code, out, _ = command(capsys, "info", DIGITS, "--delegate-at-load")
    assert code == 0 and "cannot be loaded: no backend" in out


@pytest.mark.parametrize(
    "name",
    (
        "run check validate compare explain check-nan trace quantization-error generate "
        "perplexity info"
    ).split(),
)
def test_commands_that_load_methods_have_the_option(name: str) -> None:
    assert {"--delegate-at-load", "--no-delegate-at-load"} <= options(name).keys()


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
        (None, []),
        (None, ["--delegate-at-load"]),
        ("always", []),
        ("always", ["--delegate-at-load"]),
        ("1", ["--no-delegate-at-load"]),
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


@pytest.mark.parametrize(
    "name", ["check", "validate", "compare", "explain", "check-nan", "quantization-error"]
)
def test_checks_run_the_program_as_written(name: str) -> None:
    assert options(name)["--delegate-at-load"].default is False
    assert options(name)["--delegate-at-load"].dest == "checks_delegated"
