"""Runs with random rounding that the judge of `check_model` asks for."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from executorch_c.check.judge import Judge
from executorch_c.check.reference import Eager
from executorch_c.compare import tolerance, verdicts
from executorch_c.compare.limits import FIRST_RUNS
from executorch_c.compare.tolerance import CallerTolerances


def runs_of(net: Any, x: Any) -> tuple[Any, list[int], Callable[[float, int], Any]]:
    """Return a judge, a list of the numbers of runs that it asks for, and its noise."""
    judge, asked = Judge(CallerTolerances(), equal_nan=True, check_dtype=True), list[int]()
    eager = Eager(net)

    def runs(epsilon: float, count: int) -> Any:
        asked.append(count)
        return [run[0] for run in eager.noise([((x,), {})], epsilon, range(count)) or ()]

    return judge, asked, runs


def net_of(rows: int) -> tuple[Any, Any]:
    """Return a network with 8 outputs a row, and rows."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 8)).eval()
    return net, torch.randn(rows, 64)


def test_further_runs_are_left_out_where_they_change_no_verdict() -> None:
    net, x = net_of(16)
    judge, asked, runs = runs_of(net, x)
    [expected] = Eager(net)([((x,), {})])
    limit = tolerance.measured(expected[0], expected[0], [one[0] for one in runs(0.0, 4)]).limit
    asked.clear()
    away = np.float32(0.1) * limit.astype(np.float32)
    found = judge([expected[0] + away], expected, runs)
    assert found.verdict == "match" and asked == [1]
    one = tolerance.measured(expected[0], expected[0], [one[0] for one in runs(0.0, 1)])
    used = found.outputs[0].tolerance  # by a little more: those of all runs are larger in the mean
    assert used is not None and np.allclose(used.limit, 1.03 * np.asarray(one.limit))
    asked.clear()
    away[1, 2] = 0.6 * limit[1, 2]
    assert judge([expected[0] + away], expected, runs).verdict == "match"
    assert asked == [1, 2]
    asked.clear()
    away[1, 2] = 1.2 * limit[1, 2]
    assert judge([expected[0] + away], expected, runs).verdict == "differ"
    assert asked == [1, 2, 4]


def test_the_noise_of_few_elements_takes_two_runs() -> None:
    net, x = net_of(1)
    judge, asked, runs = runs_of(net, x)
    [expected] = Eager(net)([((x,), {})])
    few = tolerance.rounding(expected[0], expected[0]).limit.astype(np.float32)
    assert judge([expected[0] + few], expected, runs).verdict == "match"
    assert asked == [1, 2]


@pytest.mark.parametrize("count", FIRST_RUNS)
@pytest.mark.parametrize("seed", range(20))
def test_what_few_runs_accept_is_within_the_limits_of_all(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    expected = rng.normal(size=(8, 16)).astype(np.float32)
    size = 1e-5 * np.exp(rng.normal(size=expected.shape))
    runs = [(expected + size * rng.normal(size=size.shape)).astype(np.float32) for _ in range(4)]
    few, all_runs = (tolerance.measured(expected, expected, runs[:n]) for n in (count, 4))
    accepted = 0
    for scale in np.linspace(0, 4, 40):
        actual = expected + (scale * size * rng.choice([-1, 1], size.shape)).astype(np.float32)
        if tolerance.is_clear(actual, expected, few, count):
            accepted += 1
            assert verdicts.judge(actual, expected, all_runs).verdict == "match"
            assert verdicts.judge(actual, expected, few).verdict == "match"
    assert 0 < accepted < 40


def test_elements_that_rounding_decides_take_all_runs() -> None:
    expected, near = np.array([3, 4]), np.array([3, 5])
    assert not tolerance.is_clear(
        expected, expected, tolerance.measured(expected, expected, [expected, near]), 2
    )
