"""Rows that are quantised by scales of run time: what rounding may change of them."""

from typing import Any

import pytest
import torch

from executorch_c.debug._graphs import rowwise
from executorch_c.noise.rounding import RandomRounding

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
    from executorch_c.compare import tolerance

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
