"""Graphs of methods: edges, nodes of delegates, file formats."""

import json
import os
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("executorch.exir")
import torch

from executorch_c import Runtime, cli
from executorch_c.devtools import Graph, graph, memory_plan
from executorch_c._render.page.model import Node
from tests.inspect.seen_programs import MAKERS, exported, opened, pte_of
from tests.plans import Plan, build


def graph_of(name: str, method: str = "forward") -> Graph:
    return graph(opened(name), method)


def labelled(picture: Graph, pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(picture.nodes[a].label, picture.nodes[b].label) for a, b in pairs]


def edges(name: str) -> list[tuple[str, str]]:
    picture = graph_of(name)
    return labelled(picture, picture.edges)


# ---- edges -----------------------------------------------------------------------------------


def test_edges_are_those_of_the_exported_graph() -> None:
    """Edges between operator calls, without allocations and the view that the exporter removes."""
    calls = {}
    for node in exported("cnn").exported_program().graph.nodes:
        if node.op == "call_function" and str(node.target).startswith("aten"):
            calls[node] = str(node.target).split(".")[1]
    expected = set()

    def walk(call: torch.fx.Node, node: torch.fx.Node) -> None:
        for argument in node.all_input_nodes:
            if argument in calls:
                expected.add((calls[argument], calls[call]))
            else:  # views and items of tuples
                walk(call, argument)

    for node in calls:
        walk(node, node)
    pairs = {pair for pair in edges("cnn") if not {"input 0", "output 0"} & set(pair)}
    assert pairs == expected


def test_ends() -> None:
    pairs = edges("cnn")
    assert ("input 0", "convolution") in pairs and ("_softmax", "output 0") in pairs
    assert ("max_pool2d_with_indices", "addmm") in pairs  # through a view without an instruction


def test_both_branches_reach_what_follows() -> None:
    picture = graph_of("branches")
    moves = [id for id, node in picture.nodes.items() if node.label == "move"]
    assert len(moves) == 4
    into = {b: [a for a, target in picture.edges if target == b] for b in picture.nodes}
    assert sorted(into["output 0"]) == sorted(moves[2:])
    for label in ("cos", "mul"):
        (node,) = [n for n in picture.nodes.values() if n.label == label]
        assert set(moves[:2]) <= set(into[node.id])
    labels = [node.label for node in picture.nodes.values()]
    assert labels.count("if false: to 7") == 1 and labels.count("sum") == 2


def test_loops() -> None:
    """0: y = x + x; 1: y = y + x; 2: back to 1 if the condition is false."""
    plan = Plan()
    x, flag, y = plan.input((4,)), plan.input((), "bool"), plan.output((4,))
    one = plan.value(1)
    plan.call("aten::add.out", x, x, one, y)
    plan.call("aten::add.out", y, x, one, y)
    plan.jump_false(flag, 1)
    picture = graph(Runtime.get().load_program(build(plan)))
    assert set(picture.edges) == {
        *(("input 0", "0:0"), ("input 0", "0:1"), ("0:0", "0:1"), ("0:1", "0:1")),
        *(("input 1", "0:2"), ("0:1", "output 0")),
    }


def test_state_and_lists() -> None:
    pairs = edges("counter")
    assert ("state %0", "add") in pairs and ("add", "copy_") in pairs
    pairs = edges("splits")
    assert ("split_with_sizes_copy", "cat") in pairs and ("input 0", "cat") in pairs
    assert ("input 1", "index") in pairs and ("split_with_sizes_copy", "view_copy") in pairs
    picture = graph_of("splits")
    (cat,) = [n for n in picture.nodes.values() if n.label == "cat"]
    sources = [source for source, _ in cat.inputs]
    split = sources[0][0]
    assert sources == [(split, 0), (split, 1), ("input 0", 0)]


# ---- delegates -------------------------------------------------------------------------------


def test_delegates_are_opened() -> None:
    assert edges("mixed") == [
        *(("input 0", "StaticTranspose"), ("StaticTranspose", "Conv2d")),
        *(("Conv2d", "StaticTranspose"), ("StaticTranspose", "erf"), ("erf", "StaticReshape")),
        *(("StaticReshape", "FullyConnected"), ("FullyConnected", "Clamp")),
        ("Clamp", "output 0"),
    ]
    picture = graph_of("mixed")
    groups = {node.label: node.groups for node in picture.nodes.values()}
    assert groups["Conv2d"] == ("XnnpackBackend 0",) and groups["erf"] == ()
    assert groups["Clamp"] == ("XnnpackBackend 1",)
    (conv,) = [n for n in picture.nodes.values() if n.label == "Conv2d"]
    assert conv.attributes["input 1"] == "fp32 (4, 3, 3, 3)"
    assert "stride_height=2" in conv.attributes["parameters"]
    assert conv.outputs == ["fp32 (1, 6, 6, 4)"]


def test_programs_in_payloads_are_opened() -> None:
    picture = graph_of("nested")
    groups = {node.label: node.groups for node in picture.nodes.values()}
    assert groups["sub"] == ("ExecutorBackend 0",)
    assert groups["aten.mm.default"] == ("ExecutorBackend 0", "BackendWithCompilerDemo 0")
    pairs = labelled(picture, picture.edges)
    assert ("sub", "aten.mm.default") in pairs and ("input 1", "aten.mm.default") in pairs
    assert ("aten.mm.default", "aten.add.Tensor") in pairs
    assert ("aten.add.Tensor", "output 0") in pairs


def test_closed_delegates_are_nodes() -> None:
    pte = pte_of("mixed").replace(b"XnnpackBackend", b"YnnpackBackend")
    picture = graph(Runtime.get().load_program(pte))
    assert labelled(picture, picture.edges) == [
        ("input 0", "YnnpackBackend"),
        ("YnnpackBackend", "erf"),
        ("erf", "YnnpackBackend"),
        ("YnnpackBackend", "output 0"),
    ]


# ---- formats ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MAKERS)
def test_model_explorer(name: str) -> None:
    """Its loader requires a label, graphs and valid ids. Black text is readable."""
    for method in opened(name).method_names:
        picture = graph_of(name, method)
        whole = json.loads(picture.model_explorer())
        assert whole["label"] == method
        (only,) = whole["graphs"]
        nodes = {node["id"]: node for node in only["nodes"]}
        assert only["id"] == method and len(nodes) == len(only["nodes"]) == len(picture.nodes)
        for node in nodes.values():
            assert node["label"] and isinstance(node["namespace"], str)
            colour = node["style"]["backgroundColor"]
            red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
            assert 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.5
            for edge, meta in zip(node["incomingEdges"], node["inputsMetadata"], strict=True):
                outputs = [o["id"] for o in nodes[edge["sourceNodeId"]]["outputsMetadata"]]
                assert edge["sourceNodeOutputId"] in outputs
                assert edge["targetNodeInputId"] == meta["id"]
            for pair in node["attrs"]:
                assert set(pair) == {"key", "value"} and isinstance(pair["value"], str)


def test_attributes() -> None:
    picture = graph_of("cnn")
    attributes = picture.nodes["0:0"].attributes
    assert attributes["weight"] == "float32 (8, 3, 3, 3)"
    assert attributes["stride"] == "[1, 1]" and attributes["transposed"] == "False"
    assert re.search(r"seen_programs.py:\d+ in forward", attributes["source"])
    named = graph_of("external").nodes["0:0"].attributes
    assert named["self"] == "float32 (2, 3) linear.weight"


@pytest.mark.parametrize("name", MAKERS)
def test_dot(name: str) -> None:
    """Each node and edge appears once, clusters are closed, strings are quoted."""
    for method in opened(name).method_names:
        picture = graph_of(name, method)
        text = picture.dot()
        bare = re.sub(r'"(?:[^"\\]|\\.)*"', "S", text)
        assert '"' not in bare and bare.count("{") == bare.count("}")
        assert len(re.findall(r"^ *S -> S;$", bare, re.M)) == len(picture.edges)
        assert len(re.findall(r"^ *S \[label=", bare, re.M)) == len(picture.nodes)
        groups = {n.groups[: i + 1] for n in picture.nodes.values() for i in range(len(n.groups))}
        assert bare.count("subgraph S {") == len(groups)


DOT = """#!/bin/sh
test "$1" = -Tsvg || exit 3
cat > "$(dirname "$0")/input.dot"
echo '<?xml version="1.0"?><!DOCTYPE svg><svg xmlns="http://www.w3.org/2000/svg"/>'
"""


def test_svg_by_graphviz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for `dot`, for machines without Graphviz."""
    program = tmp_path / "dot"
    program.write_text(DOT)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    picture = graph_of("mixed")
    ET.fromstring(picture.svg())
    assert (tmp_path / "input.dot").read_text() == picture.dot()
    program.write_text("#!/bin/sh\necho 'syntax error in line 1' >&2\nexit 1\n")
    with pytest.raises(RuntimeError, match="dot failed: syntax error in line 1"):
        picture.svg()


def test_without_graphviz(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    picture = graph_of("mixed")
    with pytest.raises(FileNotFoundError, match="needs the program 'dot' of Graphviz"):
        picture.svg()
    assert picture._repr_html_().startswith("<iframe")


def test_files_and_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    picture, model = graph_of("mixed"), tmp_path / "mixed.pte"
    model.write_bytes(pte_of("mixed"))
    with_values = graph(model, overlays=[memory_plan(model)])
    for name, text in (
        ("a.dot", picture.dot()),
        ("a.gv", picture.dot()),
        ("a.json", with_values.model_explorer()),
    ):
        assert cli.main(["graph", str(model), "-o", str(tmp_path / name)]) == 0
        assert (tmp_path / name).read_text() == text
        assert capsys.readouterr().out == picture.summary() + "\n"
    assert cli.main(["graph", str(model)]) == 0
    assert capsys.readouterr().out == picture.dot()
    assert cli.main(["graph", str(model), "--format", "model-explorer"]) == 0
    assert capsys.readouterr().out == picture.model_explorer()
    for wrong, message in (
        (["--format", "png"], "found 'png', expected one of dot, svg"),
        (["-o", str(tmp_path / "a.xyz")], "a.xyz': expected a name that ends"),
    ):
        with pytest.raises(SystemExit) as stop:
            cli.main(["graph", str(model), *wrong])
        assert stop.value.code == 2 and message in capsys.readouterr().err
    with pytest.raises(ValueError, match="'png', expected one of dot, svg, model-explorer"):
        picture.save(tmp_path / "a.png", "png")
    with pytest.raises(ValueError, match=r"a\.xyz': expected a name that ends with \.dot"):
        picture.save(tmp_path / "a.xyz")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.main(["graph", str(model), "--format", "svg"]) == 1
    assert "Graphviz" in capsys.readouterr().err


def test_large_graphs_fold() -> None:
    layers = [f"body.{i}" for i in range(50)]
    nodes: dict[str, Node] = {"input 0": Node("input 0", "input 0", "input", (), {})}
    before = "input 0"
    for i in range(1000):
        weight = {"weight": f"float32 (8, 8) {layers[i // 20]}.weight"} if i % 20 == 0 else {}
        nodes[f"0:{i}"] = Node(f"0:{i}", "linear" if weight else "relu", "linalg", (), weight)
        nodes[f"0:{i}"].read({(before, 0)}, "self")
        before = f"0:{i}"
    nodes["output 0"] = Node("output 0", "output 0", "output", (), {})
    nodes["output 0"].read({(before, 0)}, "")
    named = Graph("forward", nodes)
    assert len(named.drawn.nodes) == 52 and len(named.drawn.edges) == 51
    assert all(f'label="{layer}\\nrelu ×19, linear"' in named.dot() for layer in layers)
    assert len(json.loads(named.model_explorer())["graphs"][0]["nodes"]) == 1002
    plain = {name: replace(node, attributes={}) for name, node in nodes.items()}
    drawn = Graph("forward", plain).drawn
    assert 50 < len(drawn.nodes) < 150 and len(drawn.edges) == len(drawn.nodes) - 1
    small = Graph("forward", {"input 0": nodes["input 0"]})
    assert small.drawn is small
