"""Noise of quantised graphs, of rows quantised at run time, and of a state in half precision: what
rounding may change, and what is a fault."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401  registers the operators

from executorch_c.check.flows import FLOWS
from executorch_c.compare import tolerance
from executorch_c.debug._graph_noise import GraphNoise
from executorch_c.debug._graphs import rowwise
from executorch_c.debug._graphs.reference import reference_of
from executorch_c.noise.rounding import RandomRounding
from executorch_c.testing import check_model
from tests.exports import Fn


GRID, STEP = 0.2, 0.1
"""Steps of the inputs and of their means."""
ROWS = 16
OPS = torch.ops.quantized_decomposed


def on_grid(x: Any, step: float) -> Any:
    """Return numbers rounded to int8 and back."""
    q = OPS.quantize_per_tensor.default(x, step, 0, -128, 127, torch.int8)
    return OPS.dequantize_per_tensor.default(q, step, 0, -128, 127, torch.int8)


MEAN = Fn(lambda x: on_grid(on_grid(x, GRID).mean(0), STEP))
"""Means of rounded numbers, rounded."""


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
    graph = reference_of(torch.export.export(MEAN, (rows,)), (rows,), "forward")
    [place] = graph.outputs
    noise, eager = GraphNoise(graph, graph.arguments((rows,)), [place]), MEAN(rows).numpy()
    other = eager.copy()
    other[0] = STEP - other[0]
    assert not noise.error(place, other, eager).mismatched
    assert not noise.outside_of_output(0, other, eager)
    assert noise.error(place, eager + 2 * STEP, eager).mismatched
    assert noise.outside_of_output(0, eager + 2 * STEP, eager)


ENDS = torch.tensor([[-128.0, 127.0]])
"""The ends of a range of 255 steps, with a scale of 1 and a zero point of 0."""


def quantized(x: Any, seed: int | None = None) -> Any:
    """Return the integers of rows, under random rounding with a seed."""
    if seed is None:
        return by_row(x)
    with RandomRounding(seed):
        return by_row(x)


def by_row(x: Any) -> Any:
    scale, zero = rowwise._choose_qparams(-1)(x, -128, 127)
    return rowwise._quantize(x, scale, zero, -128, 127, torch.int8)


def test_each_tie_rounds_to_both_sides_in_two_runs() -> None:
    """A tie that no run rounds the other way would make its layer a source: of four runs that round
    at random, one in sixteen ties had none."""
    ties = torch.arange(10, 100).add(0.5) * torch.tensor([[1.0], [-1.0]])
    x = torch.cat([ENDS.expand(2, 2), ties], 1)
    runs = [quantized(x, seed)[:, 2:].int() for seed in range(4)]
    for one, other in (runs[:2], runs[2:]):
        assert torch.equal((one - other).abs(), torch.ones_like(one))
    assert not torch.equal(runs[0], runs[2])


def test_zero_points_at_a_tie_round_to_both_sides() -> None:
    x = torch.tensor([[-149.5, 3.0, 105.5], [-106.5, 3.0, 148.5]])
    for seed in (0, 2):
        pair = [quantized(x, seed + i)[:, 1].int() for i in range(2)]
        assert torch.equal((pair[0] - pair[1]).abs(), torch.ones(2, dtype=torch.int32))


@pytest.mark.parametrize("distance", [1e-3, -1e-3])
def test_nothing_else_moves(distance: float) -> None:
    """Numbers a thousandth of a step away from a tie keep their rounding: the tolerance is a few
    epsilons, not the 0.03 steps of integer arithmetic."""
    steps = torch.arange(10, 100).add(0.5 + distance)
    x = torch.cat([ENDS, steps[None]], 1)
    assert all(torch.equal(quantized(x, seed), quantized(x)) for seed in range(8))


@pytest.mark.parametrize("fault", [lambda q: q + 1, lambda q: (q * 1.01).round()])
def test_a_fault_is_outside_of_the_noise(fault: Any) -> None:
    """A zero point that is off by one, and a scale that is off by 1 %, are larger than ties."""
    torch.manual_seed(0)
    x = torch.cat([ENDS.expand(8, 2), torch.rand(8, 64) * 255 - 128], 1)
    x[0, 2] = 60.5
    weight = torch.randn(66, 16)
    right = (quantized(x).float() @ weight).numpy()
    runs = [(quantized(x, seed).float() @ weight).numpy() for seed in range(4)]
    wrong = (fault(quantized(x).float()) @ weight).numpy()
    rule = tolerance.measured(right, right, runs)
    assert not tolerance.outside(right, right, rule)
    assert tolerance.outside(wrong, right, rule) > right.size // 2


HALVES = (torch.linspace(-1, 1, 8).reshape(1, 8),)


def recurrent(x: Tensor, state: Tensor, linear: Any) -> Tensor:
    """Compute with a state that each call halves before it adds to it."""
    state.mul_(0.5).add_(linear(x))
    return torch.tanh(state) * 2


@pytest.mark.skipif(not FLOWS["coreml"].is_installed, reason="needs coremltools")
def test_the_state_is_named() -> None:
    """Core ML keeps float32 buffers in float16: the reading operator is right, the state is not."""
    torch.manual_seed(0)
    model = Fn(recurrent, state=nn.Buffer(torch.zeros(1, 8)), linear=nn.Linear(8, 8))
    result = check_model(model, HALVES, flow="coreml", n_random=0)
    assert [case.kind for case in result.failures] == ["state"], str(result)
    report = result.explain()
    assert report.first is not None and "(float16)" in report.first.name, str(report)
    sources = [row.name for row in report if row.verdict == "source"]
    assert sources == [report.first.name], str(report)
    assert next(row for row in report if row.name.startswith("mul")).local.mismatched == 0
    assert result.explain(result.cases[0])  # a state of zeros is the same in halves
