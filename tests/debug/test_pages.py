"""Graphs on the pages of explain and compare: views in step, errors at the planted node."""

import copy
import functools
import math

import pytest

pytest.importorskip("executorch.exir")
import torch

import executorch_c
from executorch_c._commands._calls import random_inputs
from executorch_c._render.page import data
from executorch_c._render.page.model import GraphPage
from executorch_c.compare.metrics import incomparable
from executorch_c.debug import pages
from executorch_c.debug.report import ErrorReport, NodeError
from executorch_c.devtools import compare_programs, explain
from tests import ROOT
from tests.backends.xnnpack_flow import lower

GOLDEN = ROOT / "tests/release/golden"


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 8), torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.second(torch.sigmoid(self.first(x)))


@functools.cache
def pair() -> tuple[torch.nn.Module, tuple[torch.Tensor, ...], bytes, bytes]:
    """Return a model, its inputs, its program, and a program with another weight in one layer."""
    torch.manual_seed(0)
    model, inputs = torch.nn.Sequential(Block(), Block()).eval(), (torch.randn(3, 4),)
    wrong = copy.deepcopy(model)
    with torch.no_grad():
        wrong[1].first.weight[0] *= 1.5
    programs = (lower(torch.export.export(one, inputs)).buffer for one in (model, wrong))
    return model, inputs, *map(bytes, programs)


def page_of(report: ErrorReport) -> GraphPage:
    make = report._drawing.make
    assert make is not None
    page = make()
    data.dumps(page)
    return page


def values(page: GraphPage, name: str) -> dict[str, dict]:
    return {one.view: dict(one.values) for one in page.overlays if one.name == name}


def test_explain() -> None:
    """The planted node is the source in all views; links join nodes of one layer."""
    model, inputs, _, wrong = pair()
    report = explain(model, inputs, program=wrong)
    assert report.first is not None and report.first.module == "1.first"
    page = page_of(report)
    views = {view.name: view for view in page.views}
    assert list(views) == ["eager", "edge", "forward"] and page.shown == "verdict"
    eager, edge, program = page.views
    assert [node.label for node in eager.nodes.values()] == [
        "input 0",
        *(["linear", "sigmoid", "linear", "add"] * 2),
        "output 0",
    ]
    for name, verdicts in values(page, "verdict").items():
        (at,) = [place for place, verdict in verdicts.items() if verdict == "source"]
        nodes = [one for one in views[name].nodes.values() if at in (one.id, one.place)]
        assert [one.module for one in nodes] == ["1.first"]
        assert at == report.first.where or name != "forward"
    for link in page.links:
        left, right = (views[name].nodes.values() for name in (link.first, link.second))
        modules = [
            {key: one.module for one in side for key in (one.id, one.place) if key}
            for side in (left, right)
        ]
        found = [(modules[0].get(a), modules[1].get(b)) for a, b in link.pairs]
        assert len(found) > 8 and all(a == b for a, b in found)
    weights = [one.attributes["weight"] for one in eager.nodes.values() if one.label == "linear"]
    assert weights[0] == "float32 (8, 4) 0.first.weight"
    assert report.to_html().count('class="graph"') == 1


def test_compare() -> None:
    _, inputs, right, wrong = pair()
    report = compare_programs(right, wrong, inputs)
    page = page_of(report)
    assert [view.name for view in page.views] == ["baseline", "candidate"]
    assert report.first is not None
    for verdicts in values(page, "verdict").values():
        assert [at for at, one in verdicts.items() if one == "first"] == [report.first.where]
    assert (report.first.where, report.first.where) in page.links[0].pairs
    assert len(values(page, "error")) == 2


def row(where: str, verdict: str, relative: float) -> NodeError:
    error = incomparable(1)
    object.__setattr__(error, "relative", relative)
    return NodeError(0, where, "op", (1,), "float32", error, None, verdict)  # type: ignore


def test_several_results_of_a_node() -> None:
    """A node has the worst verdict and the largest error of its results."""
    rows = [
        row("instruction 3 / instruction 5", "ok", 0.5),
        row("instruction 3, result 1 / instruction 5, result 1", "first", 0.25),
        row("output 0", "propagated", math.inf),
    ]
    for side, place in ((0, "instruction 3"), (-1, "instruction 5")):
        verdict, error = pages.errors(rows, side)
        assert verdict.values == {place: "first", "output 0": "propagated"}
        assert error.values == {place: 0.5, "output 0": math.inf}
        assert [name for name, _ in verdict.categories] == ["ok", "propagated", "first"]


def test_nodes_that_a_profile_does_not_have() -> None:
    """An error is at its node where a profile has other steps than the graph has nodes; they follow
    the nodes."""
    program = GOLDEN / "1.5.1/xnnpack_clamp.pte"
    loaded = executorch_c.load(program)
    inputs = random_inputs(loaded.info()["methods"][0], 0)
    report = compare_programs(program, program, inputs)
    page = page_of(report)
    names = {row.where: row.name for row in report if "node" in row.where}
    for view in page.views:
        places = report.graph_places(view.nodes.values())
        labels = {node.place: node.label for node in view.nodes.values()}
        assert {labels[places[where]] for where in names} > {"Conv2d", "Div"}
        assert all(labels[places[where]] == name for where, name in names.items())
    assert names["delegate 0, node 0"] == labels["delegate 0, node 0"]
    report = report.changed(notes=())
    assert report.graph_places(page.views[0].nodes.values())
