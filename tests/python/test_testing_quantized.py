"""compare() of quantised outputs: ties, classes, masks, values that are not finite."""

import numpy as np
import pytest

from executorch_c.compare import tolerance, verdicts


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


@pytest.mark.parametrize(
    ("noise", "verdict"),
    [(0.0, "differ"), (0.001, "differ"), (0.04, "match"), (1.0, "inconclusive")],
)
def test_ties_that_move_a_quantised_output(
    noise: float, verdict: str, rng: np.random.Generator
) -> None:
    """An error above the quantisation error is compared with the effect of the graph's rounding
    ties."""
    from executorch_c.check.judge import Audit, QuantizedJudge
    from executorch_c.compare.tolerance import CallerTolerances

    expected = rng.normal(size=400).astype(np.float32)
    floats, actual = (
        expected + np.float32(size) * rng.normal(size=400).astype(np.float32)
        for size in (0.01, 0.05)
    )
    runs = [
        [expected + np.float32(noise) * rng.normal(size=400).astype(np.float32)] for _ in range(4)
    ]
    judge = QuantizedJudge(
        CallerTolerances(),
        min_sqnr_db=10.0,
        audit=lambda _: Audit("match", ""),
        equal_nan=True,
        check_dtype=True,
    )
    found = judge.against_graph([actual], [expected], [floats], 0, lambda *_: runs)
    assert found.verdict == verdict
    actual[3] = np.nan
    found = judge.against_graph([actual], [expected], [floats], 0, lambda *_: runs)
    assert found.verdict == "differ"


def test_an_output_that_differs_needs_no_audit(rng: np.random.Generator) -> None:
    """The audit compares all layers: it is asked for outputs that it decides alone."""
    from executorch_c.check.judge import Audit, QuantizedJudge
    from executorch_c.compare.tolerance import CallerTolerances

    asked = list[int]()

    def audit(call: int) -> Audit:
        asked.append(call)
        return Audit("differ", "a layer")

    expected = rng.normal(size=400).astype(np.float32)
    floats = expected + np.float32(0.01) * rng.normal(size=400).astype(np.float32)
    near = expected + np.float32(0.005) * rng.normal(size=400).astype(np.float32)
    for actual, reason, calls in [
        (-expected, None, []),
        (expected, None, []),
        (near, "a layer", [0]),
    ]:
        judge = QuantizedJudge(
            CallerTolerances(), min_sqnr_db=10.0, audit=audit, equal_nan=True, check_dtype=True
        )
        found = judge.against_graph([actual], [expected], [floats], 0, lambda *_: [[expected]] * 4)
        assert (found.verdict == "match") == (actual is expected)
        assert asked == calls and (reason is None or found[0].reason == reason)


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
    floats = expected + np.float32(0.05) * rng.normal(size=(9, 50)).astype(np.float32)
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
            found = verdicts.judge(a, e, rule)
            assert found.verdict == ("match" if same else "differ"), rule.kind
            assert found.metrics.first == (None if same else (4, 7))
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
    floats = expected + rng.normal(size=(9, 50)).astype(np.float32) * np.float32(0.05)
    right = expected + rng.normal(size=(9, 50)).astype(np.float32) * np.float32(0.05)
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
