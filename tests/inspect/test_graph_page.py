"""Contents of pages with graphs: boxes and rows, layers, clusters, data, values of reports."""

import copy
import json
import math
import pickle
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import executorch_c
from executorch_c import cli
from executorch_c._render.html import page as html_page
from executorch_c._render.page import data, document, layout
from executorch_c._render.page.model import GraphPage, GraphView, Group, Link, Node, Overlay
from executorch_c.devtools import Graph, graph, memory_plan
from executorch_c.inspect.diagram import view
from executorch_c.trace import Event, Trace
from tests.inspect import page_graphs
from tests.inspect.page_graphs import by_id, node
from tests.python.digits import DIGITS, IMAGES


def page_of(nodes: dict[str, Node], *overlays: Overlay) -> GraphPage:
    return GraphPage("page", (view.view_of("graph", nodes),), overlays)


def decoded(page: GraphPage) -> dict:
    return json.loads(data.dumps(page))


# ---- layout ----------------------------------------------------------------------------------


def leaves(boxes: list[layout.Box], number: int, count: int) -> list[int]:
    found = []
    for child in boxes[number].children:
        found += [child] if child < count else leaves(boxes, child - count, count)
    return found


@pytest.mark.parametrize("count, layers", [(1, 0), (40, 0), (40, 5), (900, 0), (3000, 60)])
def test_boxes_hold_each_node_once(count: int, layers: int) -> None:
    nodes = list(view.structured(page_graphs.random_graph(count, 1, layers).values()).values())
    boxes = layout.boxes(nodes)
    assert sorted(leaves(boxes, 0, count)) == list(range(count))
    for number, box in enumerate(boxes):
        assert len(box.children) <= layout.MAX_CHILDREN
        assert all(
            boxes[child - count].parent == number for child in box.children if child >= count
        )
        assert number == 0 or 0 <= box.parent < number
        assert box.kind != "module" or len(box.children) > 1


@pytest.mark.parametrize("count, layers", [(40, 0), (40, 5), (900, 0), (3000, 60)])
def test_rows_hold_each_child_once_and_edges_go_down(count: int, layers: int) -> None:
    """Chains pass each row once; only edges that are too long have no bends."""
    nodes = list(view.structured(page_graphs.random_graph(count, 2, layers).values()).values())
    boxes = layout.boxes(nodes)
    total = 0
    for box in boxes:
        slots = [slot for row in box.rows for slot in row]
        assert sorted(slots) == list(range(len(slots))) and len(slots) >= len(box.children)
        row_of = {slot: r for r, row in enumerate(box.rows) for slot in row}
        for chain in box.chains:
            rows = [row_of[slot] for slot in chain]
            assert all(slot >= len(box.children) for slot in chain[1:-1])
            assert rows[0] < rows[-1]
            if len(chain) > 2:
                assert rows == list(range(rows[0], rows[-1] + 1))
        total += len(box.chains)
    assert total > len(nodes) // 3


def test_loops_have_a_layout() -> None:
    """A value that a later instruction writes is read by an earlier one."""
    nodes = [node("a", "add", "c"), node("b", "add", "a", "b"), node("c", "add", "b")]
    (box,) = layout.boxes(nodes)
    assert box.rows == [[0], [1], [2]] or len(box.rows) == 3
    ends = {(chain[0], chain[-1]) for chain in box.chains}
    assert ends == {(0, 1), (1, 2), (0, 2)}  # the edge back is drawn from below


def test_crossings_are_untangled() -> None:
    """Two chains side by side, named in crossed order, do not cross."""
    nodes = [node("a", "x"), node("b", "y"), node("d", "y", "b"), node("c", "x", "a")]
    nodes += [node("f", "y", "d"), node("e", "x", "c")]
    (box,) = layout.boxes(nodes)
    order = [[nodes[slot].label for slot in row] for row in box.rows]
    assert order in ([["x", "y"]] * 3, [["y", "x"]] * 3)


def test_a_source_stands_above_its_reader() -> None:
    nodes = [node("w", "state"), node("a", "x"), node("b", "x", "a"), node("c", "x", "b", "w")]
    (box,) = layout.boxes(nodes)
    assert [sorted(row) for row in box.rows if 0 in row] == [[0, 2]]


def test_a_box_does_not_begin_with_its_weights() -> None:
    """Dequantised weights run first, and the box around them stands below what it reads."""
    nodes = [node("w", "dequantize"), node("input 0", "input"), node("q", "quantize", "input 0")]
    nodes += [node("c", "conv", "q", "w"), node("o", "output", "c")]
    for one in nodes:
        one.module = "body" if one.id in "wc" else ""
    outer, _ = layout.boxes(nodes)
    assert [[outer.children[slot] for slot in row] for row in outer.rows] == [[1], [2], [6], [4]]


# ---- layers, clusters -------------------------------------------------------------------------


def test_layers_by_names_of_weights() -> None:
    """A node between two layers is in what both share."""
    names = ["net.0.conv", "", "net.0.norm", "", "net.1.conv", ""]
    nodes = [
        node(f"{i}", "op", **({"weight": f"float32 (3, 3) {name}.weight"} if name else {}))
        for i, name in enumerate(names)
    ]
    assert [one.module for one in view.with_layers(nodes)] == [
        *("net.0.conv", "net.0", "net.0.norm", "net", "net.1.conv", "")
    ]
    inside = replace(nodes[1], groups=("XnnpackBackend 0",))
    assert view.with_layers([nodes[0], inside, nodes[2]])[1].module == ""


def quantized(*operators: str, shared: bool = False) -> dict[str, Node]:
    """Return x -> quantize -> dequantize -> operators -> quantize; `shared`: another node reads the
    first operator."""
    nodes = [node("x", "input 0"), node("q0", "quantize_per_tensor", "x")]
    nodes += [node("d0", "dequantize_per_tensor", "q0"), node("dw", "dequantize_per_channel")]
    before = ["d0", "dw"]
    for i, operator in enumerate(operators):
        nodes.append(node(f"o{i}", operator, *before))
        before = [f"o{i}"]
    nodes.append(node("q1", "quantize_per_tensor", *before))
    if shared:
        nodes.append(node("s", "sin", "o0"))
    nodes[0].family = "input"
    return by_id(*nodes)


def test_clusters_of_quantisation() -> None:
    nodes = view.structured(quantized("convolution", "relu").values())
    clusters = {id: one.clusters for id, one in nodes.items() if one.clusters}
    group = Group("quantized", "convolution, quantised", key="q1")
    assert clusters == dict.fromkeys(("d0", "dw", "o0", "o1", "q1"), (group,))
    boxes = layout.boxes(list(nodes.values()))
    assert [box.kind for box in boxes] == ["view", "quantized"]


def test_operators_that_others_read_are_no_cluster() -> None:
    assert not any(
        one.clusters for one in view.with_clusters(quantized("conv", shared=True).values())
    )
    assert not any(one.clusters for one in view.with_clusters(quantized().values()))


# ---- data --------------------------------------------------------------------------------------


def test_hostile_names_stay_text() -> None:
    """Nothing in the data ends its element; control characters are escapes; texts are bounded."""
    page = page_of(page_graphs.hostile())
    text = data.dumps(page)
    assert not re.search(r"[<>&\u2028\u202e\x00]", text) and text.isascii()
    texts = json.loads(text)["texts"]
    assert all(one.isprintable() and len(one) <= data.MAX_TEXT for one in texts)
    assert any("</script>" in one for one in texts) and any("\\u202e" in one for one in texts)
    whole = document.render(replace(page, title=page_graphs.HOSTILE[0]))
    assert whole.count("<script") == whole.count("</script>") == 3 and "<img" not in whole


def test_attributes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "MAX_TEXTS", 2000)
    nodes = by_id(*(node(f"{i}", "op", name=f"{i}" * 100) for i in range(50)))
    found = decoded(page_of(nodes))
    kept = sum(bool(one) for one in found["views"][0]["attributes"])
    assert found["omitted"] == 50 - kept > 10 and kept > 5
    monkeypatch.setattr(data, "MAX_NODES", 49)
    with pytest.raises(ValueError, match="at most 49 nodes, found 50"):
        data.dumps(GraphPage("", (GraphView("g", nodes),)))


def test_large_graphs_are_folded_into_layers() -> None:
    nodes = page_graphs.random_graph(500, 3)
    folded = view.view_of("graph", nodes, 100)
    assert len(folded.nodes) <= 100 and "500 nodes: the page has their layers" in folded.note
    assert view.view_of("graph", nodes, 500).note == ""


def test_values_of_places_ids_and_boxes() -> None:
    inner = node("0:0/0", "Conv2d", groups=("XnnpackBackend 0",))
    inner.place, inner.calls = "delegate 0, node 0", ("instruction 0",)
    other = node("0:1", "add", "0:0/0")
    times = {"instruction 0": 5.0, "delegate 0, node 0": 2.0, "at 0:1": math.inf, "absent": 1.0}
    found = decoded(page_of(by_id(inner, other), Overlay("time", "us", times)))
    (overlay,) = found["overlays"]
    assert dict(zip(overlay["at"], overlay["values"])) == {3: 5, 0: 2, 1: "inf"}
    colours = (("same", "#000000"), ("added", "#ffffff"))
    change = Overlay("change", "", {"0:1": "added"}, categories=colours)
    (overlay,) = decoded(page_of(by_id(inner, other), change))["overlays"]
    assert (overlay["at"], overlay["values"]) == ([1], [1])
    assert not decoded(page_of(by_id(inner, other), Overlay("x", "", {"y": 1.0})))["overlays"]


def test_links() -> None:
    views = (
        GraphView("a", by_id(node("1", "x"), node("2", "x"))),
        GraphView("b", by_id(node("7", "y"))),
    )
    link = Link("a", "b", [("2", "at 7"), ("at 2", "7"), ("3", "7")])
    assert decoded(GraphPage("", views, (), (link,)))["links"] == [
        {"views": [0, 1], "pairs": [1, 0]}
    ]


def test_a_page_runs_its_own_scripts_only() -> None:
    """The policy has the digest of each script, and allows no address."""
    for text in (html_page("t", "p"), document.render(page_of(by_id(node("1", "x"))))):
        (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
        assert policy.startswith("default-src 'none'; script-src 'sha256-")
        assert "http" not in policy and "unsafe-eval" not in policy
        scripts = re.findall(r"<script>", text)
        assert policy.count("sha256-") == len(scripts) > 0
        assert not re.search(r'(src|href)="(?!data:)|@import|url\(', text)


# ---- values of reports --------------------------------------------------------------------------


def event(kind: str, delegate: int | None, handle: int | None, us: float, run: int = 0) -> Event:
    name, number = ("node", None) if kind == "node" else ("op", 0)
    numbers = (0, number, delegate, handle)
    return Event(run, kind, name, 0, *numbers, 0, int(us * 1000), False, ())  # type: ignore


def inner(number: int, handle: int) -> Node:
    one = node(f"0:0/{number}", "op", groups=("B 0",), **{"debug handle": str(handle)})
    return replace(one, place=f"delegate 0, node {number}", calls=("instruction 0",))


def times(nodes: list[Node], handles: Sequence[int | None]) -> dict[str, float]:
    trace = Trace("forward")
    trace.events = tuple(
        one
        for run in (0, 1)
        for one in (
            event("execute", None, None, 9, run),
            event("delegate", 0, None, 8, run),
            *(event("node", 0, handle, 10 * run + i, run) for i, handle in enumerate(handles)),
        )
    )
    (overlay,) = trace.overlays(nodes)
    return dict(overlay.values)


def test_times_are_means_by_place() -> None:
    nodes = [inner(0, 1), inner(1, 65535), inner(2, 65535), inner(3, 4)]
    found = times(nodes, [1, 65535, 65535, 4])
    assert found == {"instruction 0": 8.0, **{f"delegate 0, node {i}": 5.0 + i for i in range(4)}}


def test_nodes_without_an_event_have_no_time() -> None:
    """XNNPACK runs no reshape: the times after it are those of the nodes after it."""
    nodes = [inner(0, 8), inner(1, 65535), inner(2, 10)]
    found = times(nodes, [65535, 10])
    assert found == {"instruction 0": 8.0, "delegate 0, node 1": 5.0, "delegate 0, node 2": 6.0}
    assert times(nodes, [10, 65535]) == {"instruction 0": 8.0}  # no part of the nodes


def test_events_of_a_backends_own_steps() -> None:
    """XNNPACK's profile may have more steps than the payload has nodes; the nodes follow."""
    nodes = [inner(0, 8), inner(1, 65535)]
    assert times(nodes, [None, None, None, 8, 65535]) == {
        "instruction 0": 8.0,
        "delegate 0, node 0": 8.0,
        "delegate 0, node 1": 9.0,
    }
    assert times(nodes, [None, None, None]) == {"instruction 0": 8.0}


def test_real_times_and_values() -> None:
    program = executorch_c.load(DIGITS)
    method = program.load_method("forward", delegate_at_load=False)
    with method.tracing(values=True, ranges=True) as trace:
        (result,) = method.execute([IMAGES[:1]])
    picture = graph(program, overlays=[trace, memory_plan(program), trace])
    values = {one.name: one for one in picture.values}
    figures = {
        "largest value": np.abs(result).max(),
        "minimum": result.min(),
        "maximum": result.max(),
        "mean": result.mean(),
    }
    assert list(values) == ["time", *figures, "planned bytes", "live bytes"]
    assert len(picture.values) == len(values)
    last = picture.nodes[next(iter(picture.nodes["output 0"].inputs))[0][0]]
    for name, wanted in figures.items():
        assert values[name].values[last.place] == pytest.approx(wanted, rel=1e-6)
    plan = memory_plan(program)
    assert sum(values["planned bytes"].values.values()) == sum(  # type: ignore[arg-type]
        one.nbytes for one in plan.allocations if one.base is None and one.first >= 0
    )
    peaks = [max(plan.live(arena.index)[1:-1]) for arena in plan.arenas]
    assert max(values["live bytes"].values.values()) == sum(peaks)  # type: ignore[type-var]


# ---- files, commands, reports ------------------------------------------------------------------


def test_reports_have_the_graph() -> None:
    """Pages of reports have it; a pickled or copied report does without, or shares it."""
    plan = memory_plan(DIGITS)
    text = plan.to_html()
    assert text.count('class="graph"') == 1 and '"shown":"planned bytes"' in text
    assert copy.deepcopy(plan).to_html().count('class="graph"') == 1
    again = pickle.loads(pickle.dumps(plan))
    assert again == plan and 'class="graph"' not in again.to_html()


def test_notebooks_have_a_frame() -> None:
    text = graph(DIGITS)._repr_html_()
    assert text.startswith("<iframe srcdoc=") and text.endswith('sandbox="allow-scripts"></iframe>')
    assert text.count("<") == 2  # the page is the escaped value of an attribute


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = str(DIGITS), tmp_path / "g.html"
    assert cli.main(["graph", file, "--run", "-o", str(out)]) == 0
    text = out.read_text()
    assert all(f'"name":"{name}"' in text for name in ("time", "largest value", "planned bytes"))
    assert cli.main(["graph", file, "-o", str(out)]) == 0
    assert '"name":"time"' not in out.read_text()
    assert cli.main(["graph", file, "--node-data", str(tmp_path / "values")]) == 0
    names = sorted(one.name for one in (tmp_path / "values").iterdir())
    assert names == ["live_bytes.json", "planned_bytes.json"]
    assert cli.main(["trace", file, "--html", str(out)]) == 0
    shown = ("time", "minimum", "mean", "planned bytes", "live bytes")
    assert all(out.read_text().count(f'"name":"{name}"') == 1 for name in shown)
    capsys.readouterr()
    for wrong, message in (
        (["--node-data", "no/folder"], "no/folder: folder no does not exist"),
        ([file, "--run"], "--run, --inputs, --format, --node-data, --etrecord and --model are"),
        ([file, "-o", str(tmp_path / "x.dot")], "expected a name that ends with .html"),
    ):
        with pytest.raises(SystemExit):
            cli.main(["graph", file, *wrong])
        assert message in capsys.readouterr().err


def test_pages_of_nothing() -> None:
    assert 'class="graph whole"' in Graph("forward", {}).to_html()
    assert decoded(page_of({}))["views"][0]["boxes"] == [[0, 1, [], [], []]]
