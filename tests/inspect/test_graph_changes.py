"""What changed between two graphs: pairs, rows, the page, the command."""

import random
from dataclasses import replace
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np
import pytest

import executorch_c
from executorch_c import cli
from executorch_c.devtools import Graph, compare_graphs
from executorch_c.inspect.diagram import changes
from tests.inspect.page_graphs import node
from tests.inspect.seen_programs import opened, pte_of
from tests.inspect.test_payloads import program as delegate_of
from tests.plans import Constants, Plan, build, schema
from tests.python.digits import DIGITS


def edited(rng: random.Random, items: list[str], count: int) -> list[str]:
    """Return a sequence with `count` items removed, added or replaced."""
    items = list(items)
    for _ in range(count):
        at = rng.randrange(len(items))
        items[at : at + rng.randrange(2)] = [rng.choice("uvw")] * rng.randrange(2)
    return items


@pytest.mark.parametrize("alphabet", ["ab", "abcdefghijklmnop"])
@pytest.mark.parametrize("seed", range(4))
def test_pairs_are_equal_and_in_order(alphabet: str, seed: int) -> None:
    """At least nine tenths of what a quadratic search finds."""
    rng = random.Random(seed)
    first = [rng.choice(alphabet) + str(rng.randrange(3)) for _ in range(600)]
    second = edited(rng, first, 30)
    pairs = changes.paired(first, second)
    assert all(first[i] == second[j] for i, j in pairs)
    assert all(a < c and b < d for (a, b), (c, d) in zip(pairs, pairs[1:]))
    best = SequenceMatcher(None, first, second, autojunk=False).get_matching_blocks()
    assert len(pairs) >= 0.9 * sum(block.size for block in best)


def test_long_sequences_of_few_items() -> None:
    """No item occurs once; a part is missing that is longer than a window."""
    rng = random.Random(0)
    first = [rng.choice("abc") for _ in range(6000)]
    second = first[:2000] + first[2100:]
    assert len(changes.paired(first, second)) > 5500
    assert changes.paired(first, []) == [] and changes.paired(["a"] * 3, ["b"] * 2) == []


def graphs(count: int = 8) -> tuple[Graph, Graph]:
    names = ["add", "relu", "mul", "conv"]
    nodes = {"x": node("x", "input 0")}
    for i in range(count):
        one = node(f"n{i}", names[i % 4], "x" if i == 0 else f"n{i - 1}", alpha="1")
        nodes[one.id] = one
    return Graph("forward", nodes), Graph("forward", {id: replace(n) for id, n in nodes.items()})


def changed(first: Graph, second: Graph) -> list[tuple[str, str, str, str]]:
    pairs = changes._all_pairs(list(first.nodes.values()), list(second.nodes.values()))
    rows = changes._rows(first, second, pairs)
    return [(row.status, row.was, row.now, row.what) for row in rows]


def test_equal_graphs() -> None:
    assert changed(*graphs()) == []


def test_planted_changes() -> None:
    """Another argument, another shape, another source, one node less, one more."""
    first, second = graphs()
    second.nodes["n3"].attributes = {"alpha": "2"}
    assert changed(first, second) == [("changed", "n3", "n3", "alpha: 1 -> 2")]
    first, second = graphs()
    second.nodes["n5"].outputs = ["float32 (2, 4)"]
    what = "output: float32 (2, 3) -> float32 (2, 4)"
    assert changed(first, second) == [("changed", "n5", "n5", what)]
    first, second = graphs()
    second.nodes["n4"].inputs = dict(node("", "", "n2").inputs)
    assert changed(first, second) == [("changed", "n4", "n4", "reads other nodes")]
    first, second = graphs()
    del second.nodes["n6"]
    second.nodes["n7"].inputs = dict(node("", "", "n5").inputs)
    assert changed(first, second) == [
        ("changed", "n7", "n7", "reads other nodes"),
        ("removed", "n6", "", "float32 (2, 3)"),
    ]
    assert changed(second, first)[0] == ("added", "", "n6", "float32 (2, 3)")
    first, second = graphs()
    second.nodes["n1"].groups = ("XnnpackBackend 0",)
    assert changed(first, second)[0][3] == "delegate: none -> XnnpackBackend 0"


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 64]) + data[at + 1 :]


def found(first: bytes, second: bytes) -> list[tuple[str, str, str]]:
    report = compare_graphs(first, second)
    assert report.note == "" and all(row.status == "changed" for row in report.rows)
    return [(row.operator, row.was, row.what) for row in report.rows]


def test_named_weights_are_compared() -> None:
    """A byte of each weight of the digit classifier, in named data: the node that reads it."""
    data, program = DIGITS.read_bytes(), executorch_c.load(DIGITS)
    assert found(data, bytes(data)) == []
    for named in program.info()["named_data"]:
        weight = program._named_data(named["key"])
        assert weight is not None and data.count(weight) == 1
        ((operator, where, what),) = found(data, flipped(data, data.index(weight) + 3))
        assert operator in ("Conv2d", "FullyConnected") and where.startswith("0:0/")
        assert what.endswith(f"1 of {len(weight):,} bytes differ")


def test_scales_are_compared() -> None:
    """Scales of channels are named data of their own; the node that reads them is named."""
    data, program = pte_of("quantised"), opened("quantised")
    scales = [one["key"] for one in program.info()["named_data"] if "scale" in one["key"]]
    assert scales
    for key in scales:
        values = program._named_data(key)
        assert values is not None and data.count(values) == 1
        rows = found(data, flipped(data, data.index(values) + 1))
        assert rows and all(what.startswith("scales of input ") for _, _, what in rows)


def test_named_data_that_no_node_reads_is_compared() -> None:
    plan = Plan()
    x, y = plan.input((2,)), plan.output((2,))
    plan.append(schema.DelegateCall(plan.delegate("EnnBackend", 0), [x, y]))
    first, second = (
        build(plan, payloads=[b"p"], named={"weights": data}) for data in (b"1234", b"1235")
    )
    assert found(first, second) == [("named data", "", "weights: 1 of 4 bytes differ")]
    assert found(first, first) == []


def test_weights_of_instructions_are_compared() -> None:
    plan, constants = Plan(), Constants()
    x, y = plan.input((2, 3)), plan.output((2, 3))
    weight = plan.constant(constants, np.arange(6, dtype=np.float32).reshape(2, 3))
    plan.call("aten::mul.out", x, weight, y)
    data = build(plan, constants=constants)
    at = data.index(np.arange(6, dtype=np.float32).tobytes())
    assert found(data, flipped(data, at)) == [("mul", "0:0", "other: 1 of 24 bytes differ")]
    rows = compare_graphs(data, flipped(data, at)).as_dict()["rows"]
    assert [(row["was"], row["now"]) for row in rows] == [("i0", "i0")]
    loaded = executorch_c.load(data)
    assert "weights of instructions are not compared" in str(compare_graphs(loaded, data))


def test_payloads_and_compile_specs_are_compared() -> None:
    """Delegates without nodes here, and with nodes whose weights are in the payload."""
    first = delegate_of("EnnBackend", b"payload-1")
    what = "payload: 1 of 9 bytes differ"
    assert found(first, delegate_of("EnnBackend", b"payload-2")) == [("EnnBackend", "d0", what)]
    assert found(first, delegate_of("EnnBackend", b"p"))[0][2] == "payload: 9 -> 1 byte"
    target = delegate_of("EnnBackend", b"payload-1").replace(b"chip-7", b"chip-8")
    ((_, _, spec),) = found(first, target)
    assert spec.startswith("compile spec target: ") and " -> " in spec


def test_report_and_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = compare_graphs(DIGITS, DIGITS.read_bytes())
    assert report.titles == ("digits.pte", "candidate") and report.rows == ()
    assert report.summary().endswith(f"0 changed, 0 added, 0 removed, {len(report.pairs)} the same")
    page = report.page()
    assert [one.name for one in page.views] == list(report.titles) and page.shown == "change"
    assert len(page.links[0].pairs) == len(page.views[0].nodes)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for folder in "ab":
        (tmp_path / folder / "m.pte").write_bytes(DIGITS.read_bytes())
    files = [str(tmp_path / folder / "m.pte") for folder in "ab"]
    assert compare_graphs(*files).titles == ("a/m.pte", "b/m.pte")
    assert cli.main(["graph", *files, "-o", str(tmp_path / "c.html")]) == 0
    assert "a/m.pte" in (tmp_path / "c.html").read_text()
    assert "0 changed" in capsys.readouterr().out
    assert cli.main(["graph", *files]) == 0
    assert "0 changed" in capsys.readouterr().out
    assert cli.main(["graph", *files, "--json"]) == 0
    assert '"pairs"' in capsys.readouterr().out
