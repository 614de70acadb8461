"""Error reports by node: the named node and the text; the worked example of
docs/explanation/matching.md."""

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("executorch.exir")

from executorch_c.compare import tolerance
from executorch_c.compare.metrics import ErrorMetrics, measure, measure_size
from executorch_c.compare.nodes import NodeTolerances
from executorch_c.debug._matching import search
from executorch_c.debug.report import ErrorReport, NodeError, NodeVerdict
from executorch_c.devtools import explain


EXPECTED = np.linspace(0, 1, 50, dtype=np.float32)


def row(index: int, verdict: NodeVerdict, accumulated: float, local: float | None) -> NodeError:
    def error(by: float) -> ErrorMetrics:
        return measure_size(EXPECTED + np.float32(by), EXPECTED, mismatched=50 if by else 0)

    return NodeError(
        index,
        f"instruction {index}",
        "aten::add.out",
        (50,),
        "float32",
        error(accumulated),
        None if local is None else error(local),
        verdict,
        f"layers.{index}",
        f"/me/model.py:{index}",
    )


def report(*verdicts: NodeVerdict, local: bool = True) -> ErrorReport:
    sizes: dict[NodeVerdict, tuple[float, float]] = {
        "ok": (0, 0),
        "source": (0.1, 0.1),
        "propagated": (0.1, 0),
        "first": (0.1, 0),
        "unexplained": (0.1, 0),
    }
    rows = [row(i, v, sizes[v][0], sizes[v][1] if local else None) for i, v in enumerate(verdicts)]
    return ErrorReport("a against b", tuple(rows), ("all matched",))


def test_the_first_source() -> None:
    found = report("ok", "unexplained", "source", "propagated", "source")
    assert not found and found.verdict == "differ" and found.first is found[2]
    assert len(found) == 5 and [one.index for one in found.worst(2)] == [2, 4]
    text = " ".join(str(found).split())
    assert "first divergence: aten::add.out of 'layers.2' (model.py:2), instruction 2" in text
    assert "1 node after it wrong as well" in text and "all matched" in text


def test_without_local_errors_the_first_that_differs() -> None:
    found = report("ok", "first", "first", local=False)
    assert found.first is found[1] and "local" not in found.head()
    assert "first divergence: aten::add.out of 'layers.1'" in found.summary()


def test_without_a_source_the_first_that_is_unexplained() -> None:
    found = report("ok", "unexplained")
    assert found.verdict == "differ" and found.first is found[1]
    assert "every node that was matched is right on its own inputs" in found.summary()


def test_nothing_differs() -> None:
    found = report("ok", "ok")
    assert found and found.first is None and "every one is within tolerance" in str(found)
    nothing = ErrorReport("nothing", ())
    assert not nothing and nothing.verdict == "inconclusive" and "nothing" in str(nothing)
    unsure = ErrorReport("few", found.rows, reason="too little could be compared")
    assert not unsure and unsure.verdict == "inconclusive"
    assert "inconclusive: too little could be compared" in str(unsure)


def test_long_reports_print_short() -> None:
    found = report(*["ok"] * 200, "source", *["propagated"] * 200)
    assert len(str(found).splitlines()) < 20 and "(12 of 401 nodes" in str(found)
    assert "'layers.200'" in str(found) and found.shown()[0].index == 199
    assert max(map(len, str(found).splitlines())) <= 80
    assert len(found.text(top=None).splitlines()) > 401
    assert found.table(1, "error").splitlines()[1].split()[0] == "200"


def test_relative_errors() -> None:
    def of(actual: list[float], expected: list[float]) -> float:
        arrays = np.array(actual), np.array(expected)
        size = measure_size(*arrays).relative
        metrics = measure(*arrays, 0, True).relative
        assert size == pytest.approx(metrics)
        return size

    assert of([3, 4.5], [3, 4]) == pytest.approx(0.1)
    assert of([1, 2], [1, 2]) == 0 and of([0, 0], [0, 0]) == 0
    assert of([1, np.inf], [1, 2]) == of([np.nan], [1]) == of([1], [0]) == np.inf
    assert of([1, np.inf], [1, np.inf]) == 0


def test_files_and_pictures(tmp_path: Path) -> None:
    found = report("ok", "source", "propagated")
    found.to_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "data:image/svg+xml" in page and "layers.1" in page and "first divergence" in page
    figures = json.loads(found.to_json())
    assert figures["first"] == 1 and figures["rows"][1]["local"]["relative"] > 0.1
    assert figures["verdict"] == "differ"
    assert "<table>" in found._repr_html_()
    assert len(found.plot().axes[0].lines) == 3  # accumulated, local, first divergence
    report(local=False).plot()  # an empty report is not an error


def test_limits_beside_errors() -> None:
    """The limit is that of the error that the verdict is about; exempt elements are marked."""
    noisy = EXPECTED + np.float32(1e-4)
    local = NodeTolerances(atol=1e-3, rtol=0).error(noisy, EXPECTED, ())
    assert local.limit == pytest.approx(1e-3 / np.sqrt(np.mean(EXPECTED**2)), rel=1e-3)
    found = report("ok")
    found = replace(found, rows=(replace(found[0], accumulated=local, local=local),))
    assert found.cells(found.rows)[0][found.head().index("limit")] == f"{local.limit:.1e}"
    assert found.rows_as_dicts()[0]["limit"] == local.limit

    indices = np.array([3, 1, 2])
    rule = tolerance.measured(indices, indices, [np.array([1, 3, 2])])
    error = NodeTolerances().error(indices[[1, 0, 2]], indices, [rule])
    assert (error.mismatched, error.not_judged, error.limit) == (0, 2, 0)
    found = replace(found, rows=(replace(found[0], accumulated=error, local=error),))
    assert "ok (2 not judged)" in str(found)
    wrong = NodeTolerances().error(indices[[1, 2, 0]], indices, [rule])
    assert wrong.mismatched == 1


PAGE = Path(__file__).parents[2] / "executorch_c" / "docs" / "explanation" / "matching.md"
ROUNDING = 1e-6
NODES = {
    "convolution": "aten_convolution_default",
    "batch_norm": "getitem",
    "relu": "aten_relu_default",
    "mean": "aten_mean_dim",
    "addmm": "aten_addmm_default",
}
"""Nodes of the graph by the page's names; of the three results of batch norm the first."""


@cache
def example() -> dict[str, Any]:
    """The names of the page's snippets."""
    names: dict[str, Any] = {}
    for snippet in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.M | re.S):
        exec(compile(snippet, PAGE.name, "exec"), names)
    return names


def measured(
    monkeypatch: pytest.MonkeyPatch, model: str
) -> tuple[Any, list[tuple[str, str, float]]]:
    """The report of a model's program, and each comparison: step, node, distance."""
    seen = []
    original = search.Search._candidate

    def candidate(self: Any, step: Any, node: Any, *rest: Any) -> Any:
        found = original(self, step, node, *rest)
        if found is not None:
            seen.append((step.name, node.name, found.distance))
        return found

    monkeypatch.setattr(search.Search, "_candidate", candidate)
    names = example()
    report = explain(names["model"], (names["x"],), program=names["lowered"](names[model]))
    return report, seen


def said(text: str) -> list[float]:
    """The distances in a part of the page."""
    return [float(number) for number in re.findall(r"\b(?:0\.\d+|\de-\d)\b", text)]


def assert_close(found: float, written: float) -> None:
    if written < ROUNDING:
        assert found < ROUNDING
    else:
        assert found == pytest.approx(written, abs=0.006)


def test_a_right_program(monkeypatch: pytest.MonkeyPatch) -> None:
    report, seen = measured(monkeypatch, "model")
    assert report.ok and len(report) == 3, str(report)
    rows = re.findall(r"^\| \d \| `(.+?)` \| .+? \| (.+?) \| `(\w+)` \|$", PAGE.read_text(), re.M)
    assert [(operator, match) for operator, _, match in rows] == [
        ("Convolution", "relu"),
        ("aten::mean.out", "mean"),
        ("Fully Connected", "addmm"),
    ]
    for operator, candidates, match in rows:
        written = dict(re.findall(r"`(\w+)` ([\d.e-]+)", candidates))
        found = {node: distance for step, node, distance in seen if step.startswith(operator)}
        assert list(found) == [NODES[name] for name in written]
        for name, number in written.items():
            assert_close(found[NODES[name]], float(number))
        assert min(found, key=lambda node: found[node]) == NODES[match]


def test_a_wrong_program(monkeypatch: pytest.MonkeyPatch) -> None:
    report, seen = measured(monkeypatch, "wrong")
    assert [row.verdict for row in report] == ["source", "propagated", "propagated"], str(report)
    text = PAGE.read_text()
    [sentence] = re.findall(r"^Step 0 is .+? from the three nodes", text, re.M)
    found = {node: distance for step, node, distance in seen if step.startswith("Convolution")}
    for name, number in zip(("convolution", "batch_norm", "relu"), said(sentence), strict=True):
        assert_close(found[NODES[name]], number)
    rows = re.findall(r"^\| `(\w+)` \| ([\d.e-]+) \|$", text, re.M)
    assert [name for name, _ in rows] == ["convolution", "relu"]
    means = {distance for step, node, distance in seen if node == NODES["mean"]}
    assert len(means) == 2
    for distance, (_, number) in zip(sorted(means, reverse=True), rows):
        assert_close(distance, float(number))
    [sentence] = re.findall(r"^In the example step 0 .+", text, re.M)
    errors = said(sentence)
    first, second = report[0], report[1]
    sizes = (first.accumulated, second.accumulated, second.local)
    for size, number in zip(sizes, errors, strict=True):
        assert_close(size.relative, number)
    assert first.local.relative == first.accumulated.relative
