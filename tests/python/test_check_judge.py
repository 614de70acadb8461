"""The judge of check_model: runs with random rounding that it asks for, ties in a sort, and outputs
of quantised programs."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from executorch_c.check import sets
from executorch_c.check.judge import Audit, Judge, QuantizedJudge
from executorch_c.check.reference import Eager
from executorch_c.compare import tolerance, verdicts
from executorch_c.compare.limits import FIRST_RUNS
from executorch_c.compare.tolerance import CallerTolerances
from executorch_c.noise import ties
from executorch_c.noise.rounding import RandomRounding
from tests.exports import Fn


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
    one, two, limit = (
        np.asarray(tolerance.measured(*expected * 2, [run[0] for run in runs(0.0, n)]).limit)
        for n in (1, 2, 4)
    )
    asked.clear()
    away = np.float32(0.1) * limit.astype(np.float32)
    outcome = judge([expected[0] + away], expected, runs)
    assert outcome.verdict == "match" and asked == [1]
    used = outcome.outputs[0].tolerance
    # By a little more: those of all runs are larger in the mean.
    assert used is not None and np.allclose(used.limit, 1.03 * one)
    asked.clear()
    # How runs round depends on the processor.
    at = np.unravel_index(np.argmax(two / one), one.shape)
    away[at] = 0.95 * np.sqrt(2 / 4) * two[at]
    assert judge([expected[0] + away], expected, runs).verdict == "match"
    assert asked == [1, 2]
    asked.clear()
    away[at] = 1.2 * limit[at]
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


X = torch.tensor([[3.0, 1.0, 3.0, 2.0, 3.0, 1.0, 0.0]])


def judged(fn: Callable[..., Any], actual: list[Any], x: Any = X) -> Any:
    """The outcome of outputs with eager's of a function."""
    eager = Eager(Fn(fn))
    calls = [((x,), {})]
    [expected] = eager(calls)
    judge = Judge(CallerTolerances(), equal_nan=True, check_dtype=True)
    judge.unordered = partial(sets.unordered, eager, calls)
    runs = eager.noise(calls)
    assert runs is not None
    return judge(
        [np.asarray(a, e.dtype) for a, e in zip(actual, expected)],
        expected,
        lambda epsilon, count: [run[0] for run in runs[:count]],
    )


def ordered(x: Any) -> Any:
    return tuple(x.sort(-1, descending=True))


def stable(x: Any) -> Any:
    return tuple(torch.sort(x, descending=True, stable=True))


def largest(x: Any) -> Any:
    return tuple(x.topk(2))


SORTED = [[3, 3, 3, 2, 1, 1, 0]]


def test_another_order_of_equal_values() -> None:
    outcome = judged(ordered, [SORTED, [[4, 0, 2, 3, 5, 1, 6]]])
    assert outcome and "5 of 7 elements differ (not judged)" in str(outcome), str(outcome)
    assert "the order of equal values" in " ".join(str(outcome).split())
    x = torch.tensor([[3.0, 1.0, 3.0, 2.0, 5.0, 1.0, 0.0]])  # the second 3 is left out
    assert judged(largest, [[[5, 3]], [[4, 0]]], x) and judged(largest, [[[5, 3]], [[4, 2]]], x)
    assert judged(largest, [[[5, 3]], [[0, 2]]], x).verdict == "differ"


def test_a_wrong_index() -> None:
    order = [[0, 2, 4, 6, 1, 5, 3]]  # 3 and 6 have values of their own
    assert judged(ordered, [SORTED, order]).verdict == "differ"
    assert judged(stable, [SORTED, [[4, 0, 2, 3, 5, 1, 6]]]).verdict == "differ"
    first = judged(lambda x: (x.argmax(-1),), [[2]])  # of equal values, by definition
    assert first.verdict != "match", str(first)


def test_every_member_of_a_run_changes() -> None:
    with RandomRounding(1):
        _, rotated = torch.sort(X, descending=True)
    _, plain = torch.sort(X, descending=True, stable=True)
    assert (rotated != plain).tolist() == [[True, True, True, False, True, True, False]]
    assert X.gather(1, rotated).equal(X.gather(1, plain))
    assert set(ties.OPERATORS) == {"sort", "topk"}
    for dim in (0, 1):
        x = X.repeat(2, 1) if dim else X.t().repeat(1, 2)
        with RandomRounding(1):
            values, indices = x.topk(4, dim)
        assert x.gather(dim, indices).equal(values)


def test_sets() -> None:
    """Results of topk(sorted=False) have no order; their elements are judged."""
    x = torch.tensor([[3.0, 1.0, 4.0, 2.0, 5.0, 2.5, 0.0]])

    def best(x: Any) -> Any:
        return tuple(x.topk(3, sorted=False))

    outcome = judged(best, [[[3, 5, 4]], [[0, 4, 2]]], x)
    assert outcome, str(outcome)
    text = " ".join(str(outcome).split())
    assert "output 1 is compared as a set along axis -1: topk(sorted=False)" in text
    wrong = ([3, 5, 2.5], [0, 4, 5]), ([3, 5, 4], [0, 4, 5]), ([3, 5, 5], [0, 4, 4])
    for values, indices in wrong:
        outcome = judged(best, [[values], [indices]], x)
        assert outcome.verdict == "differ", str(outcome)
    outcome = judged(lambda x: tuple(x.topk(3)), [[[3, 5, 4]], [[0, 4, 2]]], x)
    assert outcome.verdict == "differ", str(outcome)
    last = torch.tensor([[3.0, 1.0, 4.0, 3.0, 5.0, 2.5, 0.0]])  # either 3 may be left out
    for index in (0, 3):
        outcome = judged(best, [[[3, 5, 4]], [[index, 4, 2]]], last)
        assert outcome, str(outcome)
    outcome = judged(lambda x: x.topk(3, sorted=False)[1].flip(-1) * 2, [[[0, 4, 8]]], x)
    assert outcome[0].metrics.not_judged == 2 and "0 (2 not judged)" in str(outcome)  # the order's


def test_ties_of_a_quantised_graph(rng: np.random.Generator) -> None:
    """An element moved by two steps is a tie; all elements moved by ten times the noise are not."""
    expected = rng.normal(size=400).astype(np.float32)
    step = float(np.ptp(expected)) / 256
    runs = [expected + step * (rng.random(400) < 0.02).astype(np.float32) for _ in range(4)]
    noise = np.sqrt(np.mean([(run - expected) ** 2 for run in runs]))
    tie, wrong = expected.copy(), expected + np.float32(10 * noise)
    tie[7] += np.float32(2 * step)
    rule = tolerance.of_steps(expected, runs)
    assert tolerance.outside(tie, expected, rule) == 0
    assert tolerance.outside(wrong, expected, rule) == 400
    still = tolerance.of_steps(expected, [expected] * 4)  # no run had a tie
    assert tolerance.outside(tie, expected, still) == 0
    assert tolerance.outside(expected + np.float32(step), expected, still) == 400


def quantized_judge(audit: Callable[[int], Audit]) -> QuantizedJudge:
    options = {"min_sqnr_db": 10.0, "equal_nan": True, "check_dtype": True}
    return QuantizedJudge(CallerTolerances(), audit=audit, **options)


def near(expected: np.ndarray, size: float, rng: np.random.Generator) -> np.ndarray:
    """Return values with normal errors of a size."""
    return expected + np.float32(size) * rng.normal(size=expected.shape).astype(np.float32)


@pytest.mark.parametrize(
    ("noise", "verdict"),
    [(0.0, "differ"), (0.001, "differ"), (0.04, "match"), (1.0, "inconclusive")],
)
def test_ties_that_move_a_quantised_output(
    noise: float, verdict: str, rng: np.random.Generator
) -> None:
    """An error above the quantisation error is compared with the effect of the graph's rounding
    ties."""
    expected = rng.normal(size=400).astype(np.float32)
    floats, actual = near(expected, 0.01, rng), near(expected, 0.05, rng)
    runs = [[near(expected, noise, rng)] for _ in range(4)]
    judge = quantized_judge(lambda _: Audit("match", ""))
    outcome = judge.against_graph([actual], [expected], [floats], 0, lambda *_: runs)
    assert outcome.verdict == verdict
    actual[3] = np.nan
    outcome = judge.against_graph([actual], [expected], [floats], 0, lambda *_: runs)
    assert outcome.verdict == "differ"


def test_an_output_that_differs_needs_no_audit(rng: np.random.Generator) -> None:
    """The audit compares all layers: it is asked for outputs that it decides alone."""
    asked = list[int]()

    def audit(call: int) -> Audit:
        asked.append(call)
        return Audit("differ", "a layer")

    expected = rng.normal(size=400).astype(np.float32)
    floats = near(expected, 0.01, rng)
    close = near(expected, 0.005, rng)
    for actual, reason, calls in (
        (-expected, None, []),
        (expected, None, []),
        (close, "a layer", [0]),
    ):
        judge = quantized_judge(audit)
        outcome = judge.against_graph(
            [actual], [expected], [floats], 0, lambda *_: [[expected]] * 4
        )
        assert (outcome.verdict == "match") == (actual is expected)
        assert asked == calls and (reason is None or outcome[0].reason == reason)


@pytest.mark.parametrize(("count", "outside"), [(1, 0), (5, 0), (20, 20)])
def test_classes_of_a_quantised_program(count: int, outside: int) -> None:
    """A few classes may differ if quantisation changes some; more may not."""
    expected = np.arange(64) % 5
    floats, actual = expected.copy(), expected.copy()
    floats[:2] += 1
    actual[10 : 10 + count] += 1
    rule = tolerance.within_quantization(actual, expected, floats, 2.0)
    assert tolerance.outside(actual, expected, rule) == outside


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_not_finite_values_of_a_quantised_output(value: float, rng: np.random.Generator) -> None:
    """A limit of the RMS alone, or an infinite one, hides no NaN and no infinity."""
    expected = rng.normal(size=(9, 50)).astype(np.float32)
    floats = near(expected, 0.05, rng)
    actual = (floats + expected) / 2
    rules = (
        tolerance.within_quantization(actual, expected, floats, 2.0),
        tolerance.of_steps(expected, [floats] * 4),
        tolerance.between(actual, expected, 1),
        tolerance.of_caller(actual, expected, None, np.inf),
        tolerance.on_grid(expected, 0.1, None),
    )
    for rule in rules:
        assert verdicts.judge(actual, expected, rule).verdict == "match"
        assert tolerance.outside(actual, expected, rule) == 0
        for ours, theirs in ((value, 1.0), (1.0, value), (value, -value)):
            a, e = actual.copy(), expected.copy()
            a[4, 7], e[4, 7] = ours, theirs
            same = np.isnan(ours) and np.isnan(theirs)
            outcome = verdicts.judge(a, e, rule)
            assert outcome.verdict == ("match" if same else "differ"), rule.kind
            assert outcome.metrics.first == (None if same else (4, 7))
            assert tolerance.outside(a, e, rule) == (0 if same else 1)


def test_steps_of_a_grid_hide_no_nan() -> None:
    """NaN at another place, between rounding ties, is no tie."""
    expected = np.arange(400, dtype=np.float32)
    actual = expected.copy()
    actual[[10, 50, 90]] += [1, -1, 1]
    expected[20], actual[21] = np.nan, np.nan
    assert (
        verdicts.judge(actual, expected, tolerance.on_grid(expected, 1.0, None)).verdict == "differ"
    )


@pytest.mark.parametrize("mask", [-1e9, -1e4, float(np.finfo(np.float32).min)])
def test_masks_of_a_quantised_output(mask: float, rng: np.random.Generator) -> None:
    """A mask value is not the scale of other elements' quantisation error, and must itself be
    right."""
    expected = rng.normal(size=(9, 50)).astype(np.float32)
    floats, right = near(expected, 0.05, rng), near(expected, 0.05, rng)
    for array in (expected, floats, right):
        array[:, 0] = mask
    unmasked, zeroed, shifted = right.copy(), right.copy(), right.copy()
    unmasked[3, 0] = 0
    zeroed[:, 1:] = 0
    shifted[:, 1:] += 0.3
    outside = [
        tolerance.outside(one, expected, tolerance.within_quantization(one, expected, floats, 2.0))
        for one in (right, unmasked, zeroed, shifted)
    ]
    assert outside[0] == 0 and all(outside[1:]), outside
    runs = [expected] * 4
    assert tolerance.outside(expected, expected, tolerance.of_steps(expected, runs)) == 0
    assert tolerance.outside(zeroed, expected, tolerance.of_steps(expected, runs))
