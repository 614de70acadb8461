"""Noise of quantised graphs: values of few elements, of which some are next to a tie."""

from typing import Any

import pytest
import torch
from torch.ao.quantization.fx import _decomposed  # noqa: F401  registers the operators

from executorch_c.debug._graph_noise import GraphNoise
from executorch_c.debug._graphs.reference import reference_of

GRID, STEP = 0.2, 0.1
"""Steps of the inputs and of their means."""
ROWS = 16
OPS = torch.ops.quantized_decomposed


def on_grid(x: Any, step: float) -> Any:
    """Return numbers rounded to int8 and back."""
    q = OPS.quantize_per_tensor.default(x, step, 0, -128, 127, torch.int8)
    return OPS.dequantize_per_tensor.default(q, step, 0, -128, 127, torch.int8)


class Mean(torch.nn.Module):
    """Means of rounded numbers, rounded."""

    def forward(self, x: Any) -> Any:
        return on_grid(on_grid(x, GRID).mean(0), STEP)


def rows_of(means: list[float]) -> Any:
    """Return rows with these means once they are rounded: half of them ties of GRID, of which as
    many may go up as down."""
    ties = torch.tensor([4.5, 5.5]).repeat(ROWS // 4)[:, None].expand(-1, len(means))
    rest = torch.zeros(ROWS // 2, len(means))
    for column, mean in enumerate(means):
        each, more = divmod(round(mean / GRID * ROWS) - 5 * ROWS // 2, ROWS // 2)
        rest[:, column] = each
        rest[:more, column] += 1
    return torch.cat([ties, rest]) * GRID


@pytest.mark.parametrize("near", [0.03, 0.035, 0.04, 0.06, 0.065, 0.07])
def test_an_element_next_to_a_tie_may_go_to_its_other_side(near: float) -> None:
    """The rounding of ties moves these means by 0.018 (standard deviation), so that four runs may
    leave 0.03 on its side of 0.05."""
    rows = rows_of([near, 0.1, 0.3, -0.4, 0.6, 1.1, -0.9, 0.0])
    graph = reference_of(torch.export.export(Mean(), (rows,)), (rows,), "forward")
    [place] = graph.outputs
    noise, eager = GraphNoise(graph, graph.arguments((rows,)), [place]), Mean()(rows).numpy()
    other = eager.copy()
    other[0] = STEP - other[0]
    assert not noise.error(place, other, eager).mismatched
    assert not noise.outside_of_output(0, other, eager)
    assert noise.error(place, eager + 2 * STEP, eager).mismatched
    assert noise.outside_of_output(0, eager + 2 * STEP, eager)
