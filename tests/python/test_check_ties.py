"""check_model: the order of equal values in an unstable sort is not judged; other indices are."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from executorch_c.check import sets
from executorch_c.check.judge import Judge
from executorch_c.check.reference import Eager
from executorch_c.compare.tolerance import CallerTolerances
from executorch_c.noise import ties
from executorch_c.noise.rounding import RandomRounding
from tests.exports import Fn

X = torch.tensor([[3.0, 1.0, 3.0, 2.0, 3.0, 1.0, 0.0]])


def judged(fn: Callable[..., Any], actual: list[Any], x: Any = X) -> Any:
    """The comparison of outputs with eager's of a function."""
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


def test_another_order_of_equal_values() -> None:
    values = [[3, 3, 3, 2, 1, 1, 0]]
    found = judged(lambda x: tuple(x.sort(-1, descending=True)), [values, [[4, 0, 2, 3, 5, 1, 6]]])
    assert found and "5 of 7 elements differ (not judged)" in str(found), str(found)
    assert "the order of equal values" in " ".join(str(found).split())
    x = torch.tensor([[3.0, 1.0, 3.0, 2.0, 5.0, 1.0, 0.0]])  # the second 3 is left out
    for index in (0, 2):
        found = judged(lambda x: tuple(x.topk(2)), [[[5, 3]], [[4, index]]], x)
        assert found, str(found)
    found = judged(lambda x: tuple(x.topk(2)), [[[5, 3]], [[0, 2]]], x)
    assert found.verdict == "differ", str(found)


def test_a_wrong_index() -> None:
    values = [[3, 3, 3, 2, 1, 1, 0]]
    order = [[0, 2, 4, 6, 1, 5, 3]]  # 3 and 6 have values of their own
    found = judged(lambda x: tuple(x.sort(-1, descending=True)), [values, order])
    assert found.verdict == "differ", str(found)
    found = judged(
        lambda x: tuple(torch.sort(x, descending=True, stable=True)),
        [values, [[4, 0, 2, 3, 5, 1, 6]]],
    )
    assert found.verdict == "differ", str(found)
    found = judged(lambda x: (x.argmax(-1),), [[2]])  # the first of equal values, by definition
    assert found.verdict != "match", str(found)


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

    found = judged(best, [[[3, 5, 4]], [[0, 4, 2]]], x)
    assert found, str(found)
    text = " ".join(str(found).split())
    assert "output 1 is compared as a set along axis -1: topk(sorted=False)" in text
    for values, indices in (
        ([3, 5, 2.5], [0, 4, 5]),
        ([3, 5, 4], [0, 4, 5]),
        ([3, 5, 5], [0, 4, 4]),
    ):
        found = judged(best, [[values], [indices]], x)
        assert found.verdict == "differ", str(found)
    found = judged(lambda x: tuple(x.topk(3)), [[[3, 5, 4]], [[0, 4, 2]]], x)
    assert found.verdict == "differ", str(found)
    last = torch.tensor([[3.0, 1.0, 4.0, 3.0, 5.0, 2.5, 0.0]])  # either 3 may be left out
    for index in (0, 3):
        found = judged(best, [[[3, 5, 4]], [[index, 4, 2]]], last)
        assert found, str(found)
    found = judged(lambda x: x.topk(3, sorted=False)[1].flip(-1) * 2, [[[0, 4, 8]]], x)
    assert found[0].metrics.not_judged == 2 and "0 (2 not judged)" in str(found)  # the order's
