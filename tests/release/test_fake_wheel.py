"""A wheel with planted changes: the command lists each of them, and of the same wheel nothing."""

import contextlib
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.release import __main__ as command

NAMES = ("example MulModule", "example AddModule")
BACKEND = """\
from executorch.exir.backend.backend_details import BackendDetails


class NewestBackend(BackendDetails):
    pass
"""


def linked(folder: Path) -> Path:
    """Return a copy, by links, of the installed package."""
    executorch = pytest.importorskip("executorch")
    (source,) = map(Path, list(executorch.__path__)[:1])
    for place, _, files in os.walk(source, followlinks=True):
        copy = folder / "executorch" / Path(place).relative_to(source)
        copy.mkdir(parents=True)
        for name in files:
            (copy / name).symlink_to(Path(place) / name)
    return folder / "executorch"


def edit(path: Path, old: str, new: str) -> None:
    """Replace a text that a file has once, in a copy of the file."""
    text = path.read_text()
    assert text.count(old) == 1, (path, text.count(old))
    path.unlink()
    path.write_text(text.replace(old, new))


def plant(root: Path) -> None:
    """Rename an overload; add a field and a backend; break an example."""
    edit(root / "kernels/portable/functions.yaml", "- op: add.out\n", "- op: add.outer\n")
    last = "named_data: [NamedData];\n"
    edit(root / "schema/program.fbs", last, f"{last}\n  newest: int;\n")
    (root / "backends/newest").mkdir()
    (root / "backends/newest/preprocess.py").write_text(BACKEND)
    edit(root / "examples/models/toy_model/model.py", "return input * other", "return broken")


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> tuple[int, str]:
    """Return the exit code and the output of the command."""
    monkeypatch.setattr(sys, "argv", ["release", "--wheel", str(folder), *options])
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = command.main()
    return code, out.getvalue()


FIELD = "schema/program.fbs table Program.newest"
LISTED = {
    ("schemas", FIELD, "new"),
    ("operators", "kernel aten::add.outer", "new"),
    ("backends", "NewestBackend", "new"),
    ("examples", "example MulModule", "fault"),
}


@pytest.mark.heavy
def test_planted_changes_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By name, each once; the examples that are not broken run. Without plants: silence."""
    root = linked(tmp_path)
    steps = ("--steps", "snapshot", "examples", "--examples", *NAMES)
    assert run(tmp_path, monkeypatch, *steps) == (0, "")
    plant(root)
    code, text = run(tmp_path, monkeypatch, *steps, "--json")
    rows: list[dict[str, Any]] = json.loads(text)["changes"]
    unknown = [(row["part"], row["name"], row["what"]) for row in rows if not row["reason"]]
    assert code == 1 and set(unknown) == LISTED and len(unknown) == len(LISTED)
    assert "broken" in next(row["detail"] for row in rows if row["part"] == "examples")
