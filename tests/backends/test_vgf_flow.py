"""Models lowered to VGF at test time by Arm's converter equal eager; faults are found."""

import copy
from typing import Any

import pytest
import torch

import executorch_c

pytest.importorskip("tosa_serializer")
pytest.importorskip("model_converter")
from executorch_c.devtools import explain
from executorch_c.testing import check_model
from tests.backends.test_tosa_flow import lower
from tests.models import flow_models as models

pytestmark = pytest.mark.heavy  # an export needs five seconds


def delegates(program: Any) -> list[str]:
    return [use["id"] for use in program.info()["methods"][0]["delegates"]]


FLOWS = ["vgf", "vgf-int8", "vgf-a8w4", "vgf-a16w8"]


@pytest.mark.parametrize("flow", ["vgf", "vgf-int8"])
@pytest.mark.parametrize("name", models.MODELS)
def test_a_model_equals_eager(name: str, flow: str) -> None:
    """The int8 U-Net is lowered wrongly, as by the TOSA flow (test_flow_matrix.py)."""
    model, (x, *_) = models.make(name)
    result = check_model(model, (x,), flow=flow, n_random=1)
    assert delegates(result.program) == ["VgfBackend"]
    assert result.verdict == ("differ" if (name, flow) == ("unet", "vgf-int8") else "match"), str(
        result
    )


@pytest.mark.parametrize("flow", FLOWS)
def test_a_wrong_weight_is_named(flow: str) -> None:
    model, (x, *_) = models.make("cnn")
    pte, graph = lower(model, x, flow)
    assert explain(graph, (x,), program=bytes(pte))
    wrong: Any = copy.deepcopy(model)
    with torch.no_grad():
        wrong[4].weight[:4] *= -1
    pte, _ = lower(wrong, x, flow)
    report = explain(graph, (x,), program=bytes(pte))
    assert report.verdict == "differ" and report.first is not None, str(report)
    assert report.first.module == "4", str(report)


@pytest.mark.parametrize("flow", FLOWS)
def test_the_converter_keeps_the_nodes(flow: str) -> None:
    """A graph in SPIR-V has the nodes of the TOSA graph that it is converted from."""
    model, (x, *_) = models.make("mobilenet")
    nodes = []
    for one in (flow, flow.replace("vgf", "tosa")):
        inside: Any = executorch_c.load(bytes(lower(model, x, one)[0]))._delegate("forward", 0)
        nodes.append([node["name"] for node in inside["nodes"]])
    assert sorted(nodes[0]) == sorted(nodes[1])
