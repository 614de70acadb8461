"""Planned memory over time, compared with the exporter's numbers and the official profiler."""

import json
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("executorch.exir")
from executorch.exir import to_edge_transform_and_lower
from executorch.util.activation_memory_profiler import create_tensor_allocation_info

from executorch_c import Runtime, cli
from executorch_c.devtools import MemoryPlan, memory_plan
from executorch_c.inspect.memory import START
from tests.inspect.seen_programs import MAKERS, exported, opened, pte_of
from tests.plans import Plan, build

TOP_LEVEL = sorted(MAKERS.keys() - {"branches", "nested", "external", "state"})
"""The profiler skips torch.cond and state with an initial value."""


def plan_of(name: str, method: str = "forward") -> MemoryPlan:
    return memory_plan(opened(name), method)


def methods(name: str) -> set[str]:
    return opened(name).method_names


@pytest.mark.parametrize("name", MAKERS)
def test_arenas_are_the_exporter_s(name: str) -> None:
    from executorch.exir._serialize._program import deserialize_pte_binary

    for official in deserialize_pte_binary(pte_of(name)).program.execution_plan:
        plan = plan_of(name, official.name)
        assert [a.nbytes for a in plan.arenas] == official.non_const_buffer_sizes[1:]
        for arena in plan.arenas:
            assert max(a.end for a in plan.allocations) <= arena.nbytes
            assert 0 < arena.peak <= arena.nbytes and arena.waste == arena.nbytes - arena.peak


def timeline(name: str, method: str) -> list[Any]:
    """Return the live tensors at each node of the exported graph, from the official profiler."""
    steps = create_tensor_allocation_info(exported(name).exported_program(method).graph)
    return [step.allocations for step in steps if step]


@pytest.mark.parametrize("name", TOP_LEVEL)
def test_as_the_official_profiler_sees_it(name: str) -> None:
    for method in methods(name):
        plan, steps = plan_of(name, method), timeline(name, method)
        official = {(a.memory_id, a.memory_offset, a.size_bytes) for s in steps for a in s}
        ours = {(a.arena, a.offset, a.nbytes) for a in plan.allocations if a.base is None}
        assert ours == {place for place in official if place[2]}
        (arena,) = plan.arenas
        assert arena.peak == max(sum(a.size_bytes for a in step) for step in steps)


@pytest.mark.parametrize("name", TOP_LEVEL)
def test_lifetimes_overlap_as_in_the_official_profiler(name: str) -> None:
    """The same tensors are live together, independently of instruction indices."""
    for method in methods(name):
        plan, steps = plan_of(name, method), timeline(name, method)
        together = set()
        for step in steps:
            places = sorted({(a.memory_offset, a.size_bytes) for a in step if a.size_bytes})
            together |= {(a, b) for a in places for b in places if a < b}
        ours = set()
        for time in range(START, len(plan.instructions) + 1):
            places = sorted(
                {
                    (a.offset, a.nbytes)
                    for a in plan.allocations
                    if a.is_live(time) and a.base is None
                }
            )
            ours |= {(a, b) for a in places for b in places if a < b}
        assert ours == together


@pytest.mark.parametrize("name", MAKERS)
def test_nothing_that_is_live_overlaps(name: str) -> None:
    """The planner is correct, so lifetimes that are too long would overlap."""
    for method in methods(name):
        plan = plan_of(name, method)
        for time in range(START, len(plan.instructions) + 1):
            live = [a for a in plan.allocations if a.is_live(time) and a.base is None]
            live.sort(key=lambda a: (a.arena, a.offset))
            for a, b in zip(live, live[1:]):
                assert a.arena != b.arena or a.end <= b.offset, (time, a, b)
            for arena in plan.arenas:
                covered = sum(a.nbytes for a in live if a.arena == arena.index)
                assert plan.live(arena.index)[time + 1] == covered


def test_lifetimes() -> None:
    plan = plan_of("cnn")
    by = {a.maker: a for a in plan.allocations}
    assert by["input"].first == START and by["input"].last == 0
    assert by["aten::_softmax.out"].last == len(plan.instructions) == 10
    assert plan.time(START) == "start" and plan.time(10) == "end" and plan.time(3) == "3"
    pooled = next(a for a in plan.allocations if a.shape == (1, 8, 7, 7) and a.dtype == "float32")
    view = next(a for a in plan.allocations if a.base is not None)
    assert view.base == pooled.value and view.maker == f"view of %{pooled.value}"
    assert (pooled.first, pooled.last) == (6, 8) == (6, view.last)
    assert by["aten::convolution.out"].family == "conv"


@pytest.mark.parametrize("name", TOP_LEVEL)
def test_the_peak_is_what_is_live(name: str) -> None:
    for method in methods(name):
        plan = plan_of(name, method)
        (arena,) = plan.arenas
        live = plan.at_peak(1)
        sizes = [a.nbytes for a in live]
        assert sum(sizes) == arena.peak and sizes == sorted(sizes, reverse=True)
        values = [line.split()[0] for line in plan.peak(2).splitlines() if line.startswith("  %")]
        assert values == [f"%{a.value}" for a in live[:2]]


def test_modules_of_an_etrecord(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layers = OrderedDict(act=torch.nn.ReLU(), head=torch.nn.Linear(4, 3))
    model, x = torch.nn.Sequential(layers), torch.ones(2, 4)
    edge = to_edge_transform_and_lower(torch.export.export(model, (x,)), generate_etrecord=True)
    manager = edge.to_executorch()
    pte, record = tmp_path / "model.pte", tmp_path / "model.etrecord"
    pte.write_bytes(manager.buffer)
    manager.get_etrecord().save(str(record))
    plan = memory_plan(pte, etrecord=record)
    modules = {a.maker: a.module for a in plan.allocations}
    assert modules["aten::relu.out"] == "act" and modules["aten::addmm.out"] == "head"
    assert modules["input"] == ""
    assert cli.main(["memory", str(pte), "--etrecord", str(record), "--top", "1"]) == 0
    assert "  head " in capsys.readouterr().out


def test_state_stays() -> None:
    for name in ("counter", "state"):
        plan = plan_of(name)
        (state,) = [a for a in plan.allocations if a.maker == "state"]
        assert (state.first, state.last, state.family) == (START, 4, "state")


def test_both_branches_of_a_cond() -> None:
    plan = plan_of("branches")
    moved = [a for a in plan.allocations if a.maker == "move"]
    assert len(moved) == 2
    first, last = sorted(moved, key=lambda a: a.first)
    assert plan.instructions[first.first] == "move" and last.last == len(plan.instructions)
    x = next(a for a in plan.allocations if a.maker == "input")
    assert plan.instructions[x.last] == "aten::sin.out"


def test_loops_extend_lifetimes() -> None:
    """0: y = x + x; 1: z = y + x; 2: back to 1 if the condition is false; 3: z = z + z."""
    plan = Plan()
    x, y, z = plan.input((4,)), plan.tensor((4,)), plan.output((4,))
    flag, one = plan.value(False), plan.value(1)
    plan.call("aten::add.out", x, x, one, y)
    plan.call("aten::add.out", y, x, one, z)
    plan.jump_false(flag, 1)
    plan.call("aten::add.out", z, z, one, z)
    memory = memory_plan(Runtime.get().load_program(build(plan)))
    times = {a.value: (a.first, a.last) for a in memory.allocations}
    assert times == {x: (START, 2), y: (0, 2), z: (1, 4)}


def test_table_and_html(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    plan = plan_of("cnn")
    text = str(plan)
    arena = plan.arenas[0]
    assert f"{arena.nbytes:,} bytes, at most {arena.peak:,} live" in text
    assert f"{arena.waste:,} unused (33.3 %)" in text
    assert plan.table().count("aten::convolution.out") == 2
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, [*str(plan).splitlines(), *plan.table().splitlines()])) <= 80
    html = plan._repr_html_()
    assert html.count("<tr>") == len(plan.allocations) + 1
    assert "data:image/svg+xml;base64," in html


def test_plot(tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    plan = plan_of("cnn")
    live, places = plan.plot().axes
    drawn = [p for p in places.patches if isinstance(p, matplotlib.patches.Rectangle)]
    rectangles = sorted((p.get_x(), p.get_y(), p.get_width(), p.get_height()) for p in drawn)
    expected = sorted(
        (a.first, a.offset, a.last - a.first + 1, a.nbytes)
        for a in plan.allocations
        if a.base is None
    )
    assert rectangles == expected
    assert places.get_ylim() == (0, plan.arenas[0].nbytes)
    labels = " ".join(text.get_text() for text in places.texts)
    assert "convolution" in labels and "input" in labels
    (stairs,) = [p for p in live.patches if hasattr(p, "get_data")]
    np.testing.assert_array_equal(stairs.get_data().values, plan.live(1))
    for ending, magic in ((".png", b"\x89PNG"), (".svg", b"<?xml")):
        plan.save(tmp_path / f"plan{ending}")
        assert (tmp_path / f"plan{ending}").read_bytes().startswith(magic)


def test_live_bytes_have_the_peak_marked() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    plan, axes = plan_of("cnn"), matplotlib.figure.Figure().add_subplot()
    assert plan.plot("live", ax=axes) is axes.figure
    (stairs,) = [p for p in axes.patches if hasattr(p, "get_data")]
    np.testing.assert_array_equal(stairs.get_data().values, plan.live(1))
    [mark] = [line for line in axes.lines if line.get_marker() == "v"]
    assert list(mark.get_ydata()) == [max(plan.live(1))]
    at = mark.get_xdata()[0]
    edges = stairs.get_data().edges
    assert plan.live(1)[np.searchsorted(edges, at) - 1] == max(plan.live(1))
    with pytest.raises(ValueError, match="kind='live' takes ax"):
        plan.plot(ax=axes)
    with pytest.raises(ValueError, match="arena 5: the plan has 1"):
        plan.plot("live", arena=5)


def test_plot_needs_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    plan = plan_of("cnn")
    with pytest.raises(ImportError, match=r"executorch_c\[view\]"):
        plan.plot()
    assert "<table>" in plan._repr_html_() and "<img" not in plan._repr_html_()


def test_chrome_trace(tmp_path: Path) -> None:
    plan = plan_of("splits")
    plan.to_chrome(tmp_path / "plan.json")
    events = json.loads((tmp_path / "plan.json").read_text())["traceEvents"]
    counters = [e["args"]["live"] for e in events if e["ph"] == "C"]
    assert counters == plan.live(1)
    slices = [e for e in events if e["ph"] == "X"]
    assert {(e["args"]["offset"], e["args"]["bytes"], e["dur"]) for e in slices} == {
        (a.offset, a.nbytes, a.last - a.first + 1) for a in plan.allocations
    }
    for a in slices:  # slices of one thread must not overlap
        for b in slices:
            if a is not b and a["tid"] == b["tid"]:
                assert a["ts"] + a["dur"] <= b["ts"] or b["ts"] + b["dur"] <= a["ts"]


def test_methods_without_planned_memory() -> None:
    plan = Plan()
    plan.give(3)
    memory = memory_plan(Runtime.get().load_program(build(plan)))
    assert memory.nbytes == 0 and not memory.allocations
    assert "0 bytes planned" in str(memory)
    pytest.importorskip("matplotlib")
    memory.plot()


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cnn.pte"
    file.write_bytes(pte_of("cnn"))
    picture, trace = tmp_path / "plan.png", tmp_path / "plan.json"
    assert cli.main(["memory", str(file), "--plot", str(picture), "--chrome", str(trace)]) == 0
    assert capsys.readouterr().out == f"{plan_of('cnn')}\n"
    assert picture.exists() and trace.exists()
    assert cli.main(["memory", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["arenas"][0]["nbytes"] == 28224
    file.write_bytes(pte_of("methods"))
    assert cli.main(["memory", str(file)]) == 1
    assert "the program has decode, encode" in capsys.readouterr().err
    assert cli.main(["memory", str(file), "--method", "decode"]) == 0
    assert "method 'decode'" in capsys.readouterr().out
    assert cli.main(["memory", str(file), "--method", "other"]) == 1


def test_what_is_not_in_the_plan_is_named() -> None:
    plan = plan_of("cnn_xnnpack")
    info = opened("cnn_xnnpack").info()
    (method,) = info["methods"]
    assert plan.delegates == len(method["delegates"]) == 2
    assert plan.weights == method["constant_bytes"] + sum(n["size"] for n in info["named_data"]) > 0
    assert "not in the plan: " in plan.text() and "what 2 delegates allocate" in plan.text()
