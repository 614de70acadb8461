"""The worked example of docs/explanation/matching.md: its distances, matches and errors hold."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("executorch.exir")

from executorch_c.debug._matching import search
from executorch_c.devtools import explain

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
