"""README.md: its Python snippets run in order; its commands exist."""

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from executorch_c import cli

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", README, re.S)


def test_snippets_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pte_check: Any, capsys: Any
) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("executorch.exir")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for snippet in SNIPPETS:
        exec(compile(snippet, "README.md", "exec"), names)
    assert names["result"].verdict == "match" and names["report"].verdict == "match"
    assert names["report"].first is None and names["y"].shape == (2, 3)
    names["test_model"](pte_check)
    out = capsys.readouterr().out
    assert "4 cases match (xnnpack, method 'forward')" in out and "compared with PyTorch" in out


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 120 and len(SNIPPETS) >= 4


@pytest.mark.parametrize(
    "command", sorted({*re.findall(r"`([a-z-]+) (?:[A-Z]\.pte|model\.py)", README), "demo"})
)
def test_commands_exist(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main([command, "--help"])
    assert end.value.code == 0 and command in capsys.readouterr().out


def test_functions_of_the_table_exist() -> None:
    rows = [line.split("|")[3] for line in README.splitlines() if line.startswith("| ")]
    names = re.findall(r"`(testing|devtools)\.(\w+)`", "".join(rows))
    assert len(names) > 5
    for module, function in names:
        assert callable(getattr(importlib.import_module(f"executorch_c.{module}"), function))
