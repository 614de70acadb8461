"""Error reports by node: the named node and the text; the worked example of
docs/explanation/matching.md."""

import json
import math
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
from executorch_c.debug._float_model import limits_of
from executorch_c.debug._matching import search
from executorch_c.debug.report import ErrorReport, NodeError, NodeVerdict
from executorch_c.devtools import explain
from executorch_c.inspect.quantized import Quantization


EXPECTED = np.linspace(0, 1, 50, dtype=np.float32)


def row(index: int, verdict: NodeVerdict, accumulated: float, local: float | None) -> NodeError:
    def error(by: float) -> ErrorMetrics:
        return measure_size(EXPECTED + np.float32(by), EXPECTED, mismatched=50 if by else 0)

    where = index, f"instruction {index}", "aten::add.out", (50,), "float32"
    errors = error(accumulated), None if local is None else error(local)
    return NodeError(*where, *errors, verdict, f"layers.{index}", f"/me/model.py:{index}")


def report(*verdicts: NodeVerdict, local: bool = True) -> ErrorReport:
    rows = [
        row(i, v, 0.1 * (v != "ok"), 0.1 * (v == "source") if local else None)
        for i, v in enumerate(verdicts)
    ]
    return ErrorReport("a against b", tuple(rows), ("all matched",))


def test_the_first_source() -> None:
    errors = report("ok", "unexplained", "source", "propagated", "source")
    assert not errors and errors.verdict == "differ" and errors.first is errors[2]
    assert len(errors) == 5 and [one.index for one in errors.worst(2)] == [2, 4]
    text = " ".join(str(errors).split())
    assert "first divergence: aten::add.out of 'layers.2' (model.py:2), instruction 2" in text
    assert "1 node after it wrong as well" in text and "all matched" in text


def test_without_a_source_or_local_errors() -> None:
    errors = report("ok", "first", "first", local=False)
    assert errors.first is errors[1] and "local" not in errors.head()
    assert "first divergence: aten::add.out of 'layers.1'" in errors.summary()
    errors = report("ok", "unexplained")
    assert errors.verdict == "differ" and errors.first is errors[1]
    assert "every node that was matched is right on its own inputs" in errors.summary()


def test_nothing_differs() -> None:
    errors = report("ok", "ok")
    assert errors and errors.first is None and "every one is within tolerance" in str(errors)
    nothing = ErrorReport("nothing", ())
    assert not nothing and nothing.verdict == "inconclusive" and "nothing" in str(nothing)
    unsure = ErrorReport("few", errors.rows, reason="too little could be compared")
    assert not unsure and unsure.verdict == "inconclusive"
    assert "inconclusive: too little could be compared" in str(unsure)


def test_long_reports_print_short() -> None:
    errors = report(*["ok"] * 200, "source", *["propagated"] * 200)
    assert len(str(errors).splitlines()) < 20 and "(12 of 401 nodes" in str(errors)
    assert "'layers.200'" in str(errors) and errors.shown()[0].index == 199
    assert max(map(len, str(errors).splitlines())) <= 80
    assert len(errors.text(top=None).splitlines()) > 401
    assert errors.table(1, "error").splitlines()[1].split()[0] == "200"


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
    errors = report("ok", "source", "propagated")
    errors.to_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "data:image/svg+xml" in page and "layers.1" in page and "first divergence" in page
    figures = json.loads(errors.to_json())
    assert figures["first"] == 1 and figures["rows"][1]["local"]["relative"] > 0.1
    assert figures["verdict"] == "differ"
    assert "<table>" in errors._repr_html_()
    [axes] = errors.plot().axes
    known = {line.get_label(): line.get_ydata() for line in axes.lines}
    assert known["first: layers.1"] is not None and {"accumulated", "local", "limit"} < set(known)
    zero = axes.get_yticks()[0]
    assert axes.get_yticklabels()[0].get_text() == "0" and known["accumulated"][0] == zero
    assert list(known["accumulated"][1:]) == [row.accumulated.relative for row in errors.rows[1:]]
    assert list(errors.plot("sqnr").axes[0].lines[0].get_ydata()[1:]) == [
        pytest.approx(-20 * math.log10(row.accumulated.relative)) for row in errors.rows[1:]
    ]
    report(local=False).plot()  # an empty report is not an error


@pytest.mark.parametrize("name", ["rtol", "atol"])
def test_limits_of_nodes_are_numbers(name: str) -> None:
    """A mapping by output would set no limit at all."""
    with pytest.raises(TypeError):
        NodeTolerances(**{name: {0: 1e-3}})
    with pytest.raises(ValueError, match=f"`{name}` is -1, expected 0 or more"):
        NodeTolerances(**{name: -1})


def test_limits_beside_errors() -> None:
    """The limit is that of the error that the verdict is about; exempt elements are marked."""
    noisy = EXPECTED + np.float32(1e-4)
    local = NodeTolerances(atol=1e-3, rtol=0).error(noisy, EXPECTED, ())
    assert local.limit == pytest.approx(1e-3 / np.sqrt(np.mean(EXPECTED**2)), rel=1e-3)
    errors = report("ok")
    errors = replace(errors, rows=(replace(errors[0], accumulated=local, local=local),))
    assert errors.cells(errors.rows)[0][errors.head().index("limit")] == f"{local.limit:.1e}"
    assert errors.rows_as_dicts()[0]["limit"] == local.limit

    indices = np.array([3, 1, 2])
    rule = tolerance.measured(indices, indices, [np.array([1, 3, 2])])
    error = NodeTolerances().error(indices[[1, 0, 2]], indices, [rule])
    assert (error.mismatched, error.not_judged, error.limit) == (0, 2, 0)
    errors = replace(errors, rows=(replace(errors[0], accumulated=error, local=error),))
    assert "ok (2 not judged)" in str(errors)
    wrong = NodeTolerances().error(indices[[1, 2, 0]], indices, [rule])
    assert wrong.mismatched == 1


def test_caller_limits_of_quantised_programs() -> None:
    """Against the float model no channel may be wrong, unless the caller's limits allow it."""
    quantization = Quantization("static", 8, ("XNNPACK",))
    expected = np.random.default_rng(0).normal(size=(1, 64, 16)).astype(np.float32)
    actual = expected + np.float32(1e-3)
    actual[:, 5] = -expected[:, 5]
    for limits, mismatched in ((NodeTolerances(), 16), (NodeTolerances(rtol=0, atol=10), 0)):
        error = limits_of(quantization, limits).error(actual, expected, ())
        assert error.mismatched == mismatched


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
        pair = original(self, step, node, *rest)
        if pair is not None:
            seen.append((step.name, node.name, pair.distance))
        return pair

    monkeypatch.setattr(search.Search, "_candidate", candidate)
    names = example()
    report = explain(names["model"], (names["x"],), program=names["lowered"](names[model]))
    return report, seen


def said(text: str) -> list[float]:
    """The distances in a part of the page."""
    return [float(number) for number in re.findall(r"\b(?:0\.\d+|\de-\d)\b", text)]


def assert_close(distance: float, written: float) -> None:
    if written < ROUNDING:
        assert distance < ROUNDING
    else:
        assert distance == pytest.approx(written, abs=0.006)


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
        distances = {node: distance for step, node, distance in seen if step.startswith(operator)}
        assert list(distances) == [NODES[name] for name in written]
        for name, number in written.items():
            assert_close(distances[NODES[name]], float(number))
        assert min(distances, key=lambda node: distances[node]) == NODES[match]


def test_a_wrong_program(monkeypatch: pytest.MonkeyPatch) -> None:
    report, seen = measured(monkeypatch, "wrong")
    assert [row.verdict for row in report] == ["source", "propagated", "propagated"], str(report)
    text = PAGE.read_text()
    [sentence] = re.findall(r"^Step 0 is .+? from the three nodes", text, re.M)
    distances = {node: distance for step, node, distance in seen if step.startswith("Convolution")}
    for name, number in zip(("convolution", "batch_norm", "relu"), said(sentence), strict=True):
        assert_close(distances[NODES[name]], number)
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
