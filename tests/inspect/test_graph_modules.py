"""Modules of the model on the graph of a program: from an ETRecord, from the model, given."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("executorch.exir")
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower

from executorch_c import cli
from executorch_c._render.page import layout
from executorch_c.devtools import Graph, graph, read_etrecord
from executorch_c.inspect import memory
from executorch_c.inspect.diagram.modules import around
from executorch_c.inspect.diagram.view import structured
from executorch_c.inspect.memory import MemoryPlan, memory_plan

SOURCE = """
from tests.inspect import test_graph_modules

def make():
    return test_graph_modules.model(), (test_graph_modules.X,)
"""
X = torch.linspace(-1, 1, 8).reshape(2, 4)


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(torch.sin(self.a(x)).relu()) + x


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(Block(), Block()).eval()


@pytest.fixture(scope="module", params=["portable", "xnnpack"])
def files(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with model.pte, model.etrecord and model.py."""
    folder = tmp_path_factory.mktemp(request.param)
    partitioner = [XnnpackPartitioner()] if request.param == "xnnpack" else None
    exported = torch.export.export(model(), (X,))
    manager = to_edge_transform_and_lower(
        exported, partitioner=partitioner, generate_etrecord=True
    ).to_executorch()
    (folder / "model.pte").write_bytes(manager.buffer)
    manager.get_etrecord().save(str(folder / "model.etrecord"))
    (folder / "model.py").write_text(SOURCE)
    return folder


def layers(picture: Graph) -> dict[str, set[str]]:
    """Return the modules of the nodes of each family."""
    found: dict[str, set[str]] = {}
    for one in structured(picture.nodes.values()).values():
        found.setdefault(one.family, set()).add(one.module)
    return found


def boxes(picture: Graph) -> set[str]:
    nodes = list(structured(picture.nodes.values()).values())
    return {box.name for box in layout.boxes(nodes) if box.kind == "module"}


def test_plain_programs_have_no_modules(files: Path) -> None:
    assert not boxes(graph(files / "model.pte"))


@pytest.mark.parametrize("of", ["path", "record", "modules"])
def test_modules(files: Path, of: str) -> None:
    """Each linear node is in its layer, and the page has a box for each block."""
    record = read_etrecord(files / "model.etrecord")
    named = graph(files / "model.pte", etrecord=record)
    arguments: dict[str, Callable[[], dict[str, Any]]] = {
        "path": lambda: {"etrecord": files / "model.etrecord"},
        "record": lambda: {"etrecord": record},
        "modules": lambda: {"modules": {one.place: one.module for one in named.nodes.values()}},
    }
    picture = graph(files / "model.pte", **arguments[of]())
    assert layers(picture)["linalg"] == {"0.a", "0.b", "1.a", "1.b"}
    assert boxes(picture) >= {"0", "1"}
    assert not any(one.module for one in picture.nodes.values() if one.family == "input")


@pytest.mark.parametrize("files", ["xnnpack"], indirect=True)
def test_commands(files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pte, out = str(files / "model.pte"), tmp_path / "g.html"
    record, make = str(files / "model.etrecord"), f"{files / 'model.py'}:make"
    for words in (
        ["graph", pte, "--etrecord", record, "-o"],
        ["graph", pte, "--model", make, "-o"],
        ["trace", pte, "--etrecord", record, "--html"],
        ["trace", pte, "--model", make, "-o"],
        ["memory", pte, "--etrecord", record, "--html"],
    ):
        assert cli.main([*words, str(out)]) == 0
        assert all(f'"{name}"' in out.read_text() for name in ("0.a", "1.b")), words
        has_errors = '"name":"local error"' in out.read_text()
        assert has_errors == (words[0] == "graph" and "--model" in words), words
    capsys.readouterr()
    with pytest.raises(SystemExit):
        cli.main(["graph", pte, "--etrecord", record, "--model", make])
    assert "pass one" in capsys.readouterr().err


@pytest.mark.parametrize("files", ["xnnpack"], indirect=True)
def test_a_trace_has_a_memory_plan_for_its_page_only(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans: list[object] = []

    def planned(*args: Any) -> MemoryPlan:
        plans.append(args)
        return memory_plan(*args)

    monkeypatch.setattr(memory, "memory_plan", planned)
    for name, count in (("t.json", 0), ("t.html", 1)):
        assert cli.main(["trace", str(files / "model.pte"), "-o", str(tmp_path / name)]) == 0
        assert len(plans) == count


def test_around() -> None:
    assert around(["body.0.conv", "body.0.norm"]) == "body.0"
    assert around(["a.b"]) == "a.b" and around(["a", "b"]) == around([]) == ""
    assert around(["layers.1", "layers.10"]) == "layers"
