"""explain: a state that a backend keeps in half precision has a row of its own."""

import pytest
import torch
from torch import Tensor, nn

from executorch_c.check.flows import FLOWS
from executorch_c.testing import check_model

pytestmark = pytest.mark.skipif(not FLOWS["coreml"].is_installed, reason="needs coremltools")

X = (torch.linspace(-1, 1, 8).reshape(1, 8),)


class Recurrent(nn.Module):
    """A state that each call halves before it adds to it."""

    state: Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(8, 8)
        self.register_buffer("state", torch.zeros(1, 8))

    def forward(self, x: Tensor) -> Tensor:
        self.state.mul_(0.5).add_(self.linear(x))
        return torch.tanh(self.state) * 2


def test_the_state_is_named() -> None:
    """Core ML keeps float32 buffers in float16: the reading operator is right, the state is not."""
    result = check_model(Recurrent().eval(), X, flow="coreml", n_random=0)
    assert [case.kind for case in result.failures] == ["state"], str(result)
    report = result.explain()
    assert report.first is not None and "(float16)" in report.first.name, str(report)
    sources = [row.name for row in report if row.verdict == "source"]
    assert sources == [report.first.name], str(report)
    assert next(row for row in report if row.name.startswith("mul")).local.mismatched == 0
    assert result.explain(result.cases[0])  # a state of zeros is the same in halves
