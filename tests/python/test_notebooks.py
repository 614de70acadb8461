"""The notebooks in executorch_c/examples run, and their saved outputs are current."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

import executorch_c

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

FOLDER = Path(executorch_c.__file__).parent / "examples"
FOUND = {  # the result that each notebook demonstrates
    "validate": ["10 cases match", "Outputs match"],
    "chat": ["nats per byte", "A list is", "match: 9 cases", "bits per byte"],
    "find_divergence": ["blocks.7.up", "blocks.0", "reaches output 0"],
}


def shown(notebook: Any) -> str:
    """Return all text outputs, without the bytes of pictures."""
    parts = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            parts += [data.get("text/plain", ""), data.get("text/html", ""), output.get("text", "")]
    return re.sub(r"base64,[^\"]*", "", "\n".join("".join(part) for part in parts))


def test_every_notebook_is_known() -> None:
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(FOUND)


@pytest.mark.parametrize("name", FOUND)
def test_kept_outputs(name: str) -> None:
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    kept = shown(notebook)
    for text in FOUND[name]:
        assert text in kept
    assert not re.search(r"/(root|home|tmp|work)/", kept), "paths of a machine"


@pytest.mark.heavy
@pytest.mark.parametrize("name", FOUND)
def test_it_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [str(Path(executorch_c.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute()  # raises if a cell does
    for text in FOUND[name]:
        assert text in shown(notebook)
