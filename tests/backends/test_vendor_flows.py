"""Flows whose compiler is not here: the quantised, decomposed graph equals eager."""

import os
import urllib.request

import pytest
import torch
from torch import nn

from executorch_c.check.flows import FLOWS
from executorch_c.testing import check_model
from tests.backends import vendor_packages
from tests.models import flow_models

VENDORS = [name for name, flow in FLOWS.items() if flow.leaves_out]
NEEDS = {
    "mtk": "flow 'mtk' needs the packages mtk_converter and mtk_neuron of MediaTek's NeuroPilot",
    "neutron": "flow 'neutron' needs the package eiq_neutron_sdk of NXP's eIQ Neutron SDK",
}


@pytest.fixture(autouse=True)
def no_downloads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where a flow looks for the SDK of a vendor on the network."""

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError(f"opens {args}")

    monkeypatch.delenv("QNN_SDK_ROOT", raising=False)
    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    monkeypatch.setattr(urllib.request, "urlretrieve", refuse)


ROWS = [
    (flow, model_name)
    for flow in VENDORS
    for model_name in ("mlp", "cnn", "transformer")
    if FLOWS[flow].is_installed or model_name == "mlp"  # with stand-ins; test_planted has all six
]


@pytest.mark.parametrize(("flow", "model_name"), ROWS)
def test_vendors_graph_equals_eager(flow: str, model_name: str) -> None:
    model, inputs = flow_models.make(model_name)
    quality = {"min_sqnr_db": 6.0} if flow.endswith("w4") else {}
    with vendor_packages.installed():
        result = check_model(model, (inputs[0],), flow=flow, n_random=1, **quality)
    assert result.ok, str(result)
    assert FLOWS[flow].leaves_out in result.notes
    assert "QNN_SDK_ROOT" not in os.environ


@pytest.mark.parametrize("flow", NEEDS)
def test_flow_without_its_sdk_names_the_package(flow: str) -> None:
    if FLOWS[flow].is_installed:
        pytest.skip("the SDK is installed")
    with pytest.raises(ImportError, match=NEEDS[flow]):
        check_model(nn.Linear(2, 2), (torch.ones(1, 2),), flow=flow)
