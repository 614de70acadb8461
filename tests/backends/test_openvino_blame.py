"""`blame` on OpenVINO in bfloat16, as the official runtime runs it: an engine whose nodes cannot be
changed here."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import executorch_c
from executorch_c.devtools import blame
from tests.backends import flow_matrix

pytest.importorskip("openvino")
pytest.importorskip("nncf")
ID = "OpenvinoBackend"


class Deep(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(depth))
        for layer in self.layers:
            nn.init.kaiming_normal_(layer.weight)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x).relu()
        return x


@pytest.mark.parametrize("depth", [3, 48])
def test_bfloat16_is_precision(depth: int) -> None:
    """Its error grows with the depth; a wrong row is a fault of the device."""
    torch.manual_seed(0)
    model, x = Deep(depth).eval(), torch.randn(4, 64)
    program = executorch_c.load(flow_matrix._by_flow("openvino")(model, [x]).pte)
    options = {ID: {"precision": "bf16"}}
    device = program.load_method("forward", backend_options=options)
    inputs = [x.numpy()]
    [output] = device.execute(inputs)
    if np.array_equal(output, program.load_method("forward").execute(inputs)[0]):
        pytest.skip("this processor has no bfloat16: the engine computes in float32")
    report = blame(None, inputs, program=program, device=[[output]], progress=False)
    assert report.fault == "precision", str(report)
    wrong = output.copy()
    wrong[1] = 0
    report = blame(None, inputs, program=program, device=[[wrong]], progress=False)
    assert report.fault == "device" and "wrong: zeros" in report.finding, str(report)
