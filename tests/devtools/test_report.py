"""Reports of gaps by operator: which one is named, and how they read."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from executorch_c._gap import Gap, measure
from executorch_c.devtools._report import GapReport, OperatorGap, Verdict, relative

EXPECTED = np.linspace(0, 1, 50, dtype=np.float32)


def row(index: int, verdict: Verdict, total: float, own: float | None) -> OperatorGap:
    def gap(by: float) -> Gap:
        return measure(EXPECTED + np.float32(by), EXPECTED, 1e-6, 1e-5, True)

    return OperatorGap(
        index, f"instruction {index}", "aten::add.out", (50,), "float32", gap(total),
        None if own is None else gap(own), verdict, f"layers.{index}", f"/me/model.py:{index}",
    )  # fmt: skip


def report(*verdicts: Verdict, own: bool = True) -> GapReport:
    sizes: dict[Verdict, tuple[float, float]] = {
        "ok": (0, 0), "wrong": (0.1, 0.1), "carried": (0.1, 0), "starts": (0.1, 0)
    }  # fmt: skip
    rows = [row(i, v, sizes[v][0], sizes[v][1] if own else None) for i, v in enumerate(verdicts)]
    return GapReport("a against b", tuple(rows), ("all matched",))


def test_the_first_operator_that_is_wrong_itself() -> None:
    found = report("ok", "starts", "wrong", "carried", "wrong")
    assert not found and found.first is found[2]
    assert len(found) == 5 and [one.index for one in found.worst(2)] == [2, 4]
    text = str(found)
    assert "wrong itself: aten::add.out of 'layers.2' (model.py:2), instruction 2" in text
    assert "1 operator after it also wrong" in text and "all matched" in text


def test_without_own_gaps_the_first_that_differs() -> None:
    found = report("ok", "starts", "starts", own=False)
    assert found.first is found[1] and "own" not in found.head()
    assert "first result that is off: aten::add.out of 'layers.1'" in found.summary()


def test_nothing_is_off() -> None:
    found = report("ok", "ok")
    assert found and found.first is None and "none is off" in str(found)
    assert not GapReport("nothing", ()).rows and "nothing" in str(GapReport("nothing", ()))


def test_long_reports_print_short() -> None:
    found = report(*["ok"] * 200, "wrong", *["carried"] * 200)
    assert len(str(found).splitlines()) < 20 and "(12 of 401 operators" in str(found)
    assert "'layers.200'" in str(found) and found.shown()[0].index == 199


def test_relative() -> None:
    def of(actual: list[float], expected: list[float]) -> float:
        return relative(measure(np.array(actual), np.array(expected), 0, 0, True))

    assert of([3, 4.5], [3, 4]) == pytest.approx(0.1)
    assert of([1, 2], [1, 2]) == 0 and of([0, 0], [0, 0]) == 0
    assert of([1, np.inf], [1, 2]) == of([np.nan], [1]) == of([1], [0]) == np.inf
    assert of([1, np.inf], [1, np.inf]) == 0


def test_files_and_pictures(tmp_path: Path) -> None:
    found = report("ok", "wrong", "carried")
    found.to_html(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "data:image/svg+xml" in page and "layers.1" in page and "wrong itself" in page
    figures = json.loads(found.to_json())
    assert figures["first"] == 1 and figures["rows"][1]["own"]["relative"] > 0.1
    assert figures["rows"][0]["total"]["snr_db"] == "inf"
    assert "<table>" in found._repr_html_()
    assert len(found.plot().axes[0].lines) == 3  # total, own, where it starts
    report(own=False).plot()  # nothing to show is no error
