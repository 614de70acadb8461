"""Graphs and values of nodes in Model Explorer's own classes; skipped where it is not installed."""

import importlib.util
import json
import sys
import types

import pytest

pytest.importorskip("dacite")
package = importlib.util.find_spec("model_explorer")
if package is None:
    pytest.skip("ai-edge-model-explorer is not installed", allow_module_level=True)
# Without its __init__, which needs the server's packages and half a gigabyte of converters.
bare = sys.modules.setdefault("model_explorer", types.ModuleType("model_explorer"))
bare.__path__ = package.submodule_search_locations
from dacite import Config, from_dict
from model_explorer import graph_builder, node_data_builder

import executorch_c
from executorch_c._render.page.model import Overlay
from executorch_c.devtools import compare_graphs, graph, memory_plan
from executorch_c.inspect.diagram import explorer
from tests.inspect.page_graphs import by_id, node
from tests.python.digits import DIGITS, IMAGES

STRICT = Config(strict=True)


def collection_of(text: str) -> graph_builder.GraphCollection:
    return from_dict(graph_builder.GraphCollection, json.loads(text), STRICT)


def test_a_graph_with_values() -> None:
    method = executorch_c.load(DIGITS).load_method("forward", delegate_at_load=False)
    with method.tracing() as trace:
        method.execute([IMAGES[:1]])
    picture = graph(DIGITS, overlays=[trace, memory_plan(DIGITS)])
    (only,) = collection_of(picture.model_explorer()).graphs
    assert [one.id for one in only.nodes] == list(picture.nodes)
    known = {one.id: one for one in only.nodes}
    for one in only.nodes:
        assert all(edge.sourceNodeId in known for edge in one.incomingEdges)
    assert any(pair.key == "time" for one in only.nodes for pair in one.attrs)
    for name, text in picture.node_data().items():
        for id, data in json.loads(text).items():
            values = from_dict(node_data_builder.GraphNodeData, data, STRICT)
            assert id == only.id and values.name == name and values.results
            assert values.results.keys() <= known.keys()


def test_two_graphs() -> None:
    graphs = collection_of(compare_graphs(DIGITS, DIGITS.read_bytes()).model_explorer()).graphs
    assert [one.id for one in graphs] == ["digits.pte", "candidate"]


def test_values_that_json_does_not_have() -> None:
    nodes = by_id(node("1", "x"), node("2", "x"), node("3", "x"))
    values = {"1": 2.5, "2": float("nan"), "3": float("inf")}
    data = json.loads(explorer.node_data("g", nodes, Overlay("error", "", values)))
    assert list(data["g"]["results"]) == ["1"]
    status = Overlay("change", "", {"2": "added"}, categories=(("added", "#00ff00"),))
    data = json.loads(explorer.node_data("g", nodes, status))["g"]
    assert data["results"] == {"2": {"value": "added", "bgColor": "#00ff00"}}
