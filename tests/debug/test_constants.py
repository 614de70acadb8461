"""explain: what a program computes of constants alone, as weights that it quantises itself."""

import copy
from typing import Any

import executorch.kernels.quantized  # noqa: F401  the out variants of quantize and dequantize
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401  the operators
from torch import Tensor, nn

from executorch_c.check import flows, lowering
from executorch_c.devtools import explain

QUANTIZED = torch.ops.quantized_decomposed
GRID = (0, -127, 127, torch.int8)
X = torch.linspace(-3, 3, 96).sin().reshape(3, 32)


class Quantized(nn.Module):
    """A linear layer whose weight is quantised in the graph, as vendors' flows leave it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear, self.last = nn.Linear(64, 48), nn.Linear(48, 8)
        scales = self.linear.weight.detach().abs().amax(1) / 127
        self.scales, self.zeros = nn.Buffer(scales), nn.Buffer(torch.zeros(48, dtype=torch.int64))

    def forward(self, x: Tensor) -> Any:
        numbers = (self.scales, self.zeros, *GRID)
        codes = QUANTIZED.quantize_per_channel(self.linear.weight, *numbers)
        weight = QUANTIZED.dequantize_per_channel(codes, *numbers)
        return self.last(nn.functional.linear(x, weight, self.linear.bias).tanh())


def test_a_wrong_element_of_a_weight_that_is_quantised_at_run_time() -> None:
    """One of 3,072 integers: few may be ties, but not one that is 190 steps off."""
    model, x = Quantized().eval(), torch.randn(4, 64)
    wrong = copy.deepcopy(model)
    at = int(wrong.linear.weight.detach().abs().argmax())
    wrong.linear.weight.data.view(-1)[at] *= -0.5
    for one, sources in ((model, []), (wrong, ["instruction 0"])):
        lowered = flows.undelegated(flows.export(one, ((x,), {}), None), "forward")
        report = explain(model, (x,), program=bytes(lowered.buffer))
        assert [line.where for line in report if line.verdict == "source"] == sources, str(report)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_view_of_constants_is_no_wrong_view_of_the_model(dtype: torch.dtype) -> None:
    """The flow views a batch norm's parameters as they are added, and Flatten's result has as many
    numbers. In bfloat16 the program goes on in float32 from the norm on."""
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(16)
    norm.weight.data.uniform_(0.5, 1.5)
    norm.bias.data.normal_()
    layers = nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 9)
    model = nn.Sequential(nn.Conv2d(3, 16, 3), norm, nn.AdaptiveAvgPool2d(1), nn.Flatten(), *layers)
    model, x = model.to(dtype), torch.randn(1, 3, 8, 8, dtype=dtype)
    lowered = lowering.mlx(flows.export(model.eval(), ((x,), {}), None), "forward")
    report = explain(model, (x,), program=bytes(lowered.buffer))
    assert {"1", "4", "5", "6"} <= {line.module for line in report}, str(report)


def test_weights_of_several_parts_that_no_operator_dequantises() -> None:
    """torchao's Int8Tensor computes linear layers itself: it is no single array of numbers."""
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 4)).eval(), X
    quantize_(model, Int8WeightOnlyConfig())
    lowered = flows.undelegated(flows.export(model, ((x,), {}), None), "forward")
    report = explain(model, (x,), program=bytes(lowered.buffer))
    assert report.verdict == "match" and "0" in {line.module for line in report}, str(report)
