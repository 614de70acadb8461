"""The page of `blame`: eager, edge, the program and the device in step."""

from typing import Any

import numpy as np
import pytest
import torch

from executorch_c._render.page import data
from executorch_c._render.page.model import GraphPage
from executorch_c.blame import page as pages
from executorch_c.blame.replay import Replay
from executorch_c.devtools import BlameReport, blame
from tests import exports
from tests.backends.xnnpack_flow import lower
from tests.blame.test_locating import recorded
from tests.blame.test_verdicts import X, model


def page_of(report: BlameReport) -> GraphPage:
    page = report.graph_page()
    assert page is not None
    data.dumps(page)
    return page


def values(page: GraphPage, view: str) -> dict[str, dict[str, Any]]:
    """Return the overlays of a view by name."""
    return {one.name: dict(one.values) for one in page.overlays if one.view == view}


def values_of(replay: Replay, at: str) -> dict[str, Any]:
    """Return the values of a device that is wrong at a place."""
    known: dict[str, Any] = {}

    def alter(place: Any, array: Any) -> None:
        if place.id == at:
            array.reshape(-1)[::2] = 0
        known[place.id] = array.copy()

    outputs, _ = replay.run(alter)
    return known | {f"output_{i}": one for i, one in enumerate(outputs)}


def test_a_fault_at_a_node() -> None:
    """The device's graph shows it, and the values before that the device did not return."""
    program, inputs = recorded("coreml", "cnn_fp16")
    run = values_of(Replay(program, inputs), "d0.5")
    del run["d0.4"]
    report = blame(None, inputs, program=program, device=[run], progress=False)
    page = page_of(report)
    assert [view.name for view in page.views] == ["cnn_fp16.pte", "device"]
    seen = values(page, "device")
    wrong = {at for at, verdict in seen["verdict"].items() if verdict == "leaves"}
    assert wrong == {"delegate 0, node 5", "output 0"}
    assert seen["verdict"]["delegate 0, node 4"] == "suspect"
    assert seen["verdict"]["delegate 0, node 0"] == "ok"
    node = "delegate 0, node 5"
    assert seen["error / limit"][node] == pytest.approx(seen["error"][node] / seen["limit"][node])
    assert seen["error / limit"][node] > 1 > seen["error / limit"]["delegate 0, node 3"]
    assert node in values(page, "cnn_fp16.pte")["time"]
    places = {one.place: one.label for one in page.views[1].nodes.values()}
    assert places[node] == report.rows[[row.where for row in report].index("d0.5")].name
    [link] = page.links
    assert (link.first, link.second) == ("cnn_fp16.pte", "device")
    assert all(a == b for a, b in link.pairs) and len(link.pairs) == len(page.views[0].nodes)


def test_in_step_with_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eager, edge and program have the errors of `explain`; each is linked with the device."""
    pte = bytes(lower(torch.export.export(model(), (X,))).buffer)
    replay = Replay(pte, [X.numpy()])
    run = values_of(replay, [one for one in replay.places() if one[0] == "d"][-1])
    report = blame(model(), [X.numpy()], program=pte, device=[run], progress=False)
    assert report.fault == "device", str(report)
    page = page_of(report)
    assert [view.name for view in page.views] == ["eager", "edge", "forward", "device"]
    assert {name for name in values(page, "forward")} >= {"verdict", "error", "time"}
    assert set(values(page, "forward")["verdict"].values()) == {"ok"}
    assert "leaves" in values(page, "device")["verdict"].values()
    verdicts = [one.categories for one in page.overlays if one.name == "verdict"]
    assert len(verdicts) == 4 and len({*verdicts}) == 1
    linked = {(one.first, one.second): one.pairs for one in page.links}
    assert {first for first, second in linked if second == "device"} == {
        *("eager", "edge", "forward")
    }
    assert linked["eager", "device"] == linked["eager", "forward"]
    assert report.to_html().count('class="graph"') == 1
    monkeypatch.setattr(pages, "MAX_NODES", 3 * len(page.views[-1].nodes))
    assert [view.name for view in page_of(report).views][-2:] == ["forward", "device"]


def test_outputs_alone() -> None:
    """Without values of nodes, the outputs have the device's errors."""
    pte = exports.lowered(model(), X)
    outputs = Replay(pte, [X.numpy()]).run()[0]
    wrong = [outputs[0] * np.float32(1.01)]
    report = blame(None, [X.numpy()], program=pte, device=[wrong], progress=False)
    assert values(page_of(report), "device")["verdict"] == {"output 0": "leaves"}
    assert '"shown":"verdict"' in report.to_html()
