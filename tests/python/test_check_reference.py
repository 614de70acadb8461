"""Eager's side of a check: which calls run, and what is known without a run."""

from typing import Any

import pytest
import torch
from torch import nn

from executorch_c.check.reference import Eager

RUNS = list[int]()


class Counter(nn.Module):
    """Adds its calls up in a buffer, if it has one."""

    def __init__(self, has_state: bool) -> None:
        super().__init__()
        self.has_state = has_state
        self.register_buffer("count", torch.zeros(1))
        self.register_buffer("fixed", torch.ones(1))

    def forward(self, x: Any) -> Any:
        RUNS.append(1)
        if self.has_state:
            self.count += 1
        return {"sum": x + self.count}


@pytest.fixture(autouse=True)
def _no_runs() -> None:
    RUNS.clear()


@pytest.mark.parametrize("has_state", [False, True])
def test_the_first_call_runs_once(has_state: bool) -> None:
    call = ((torch.arange(3.0),), {})
    eager = Eager(Counter(has_state))
    outputs = eager.first(call)
    assert eager.known([call]) == [outputs] and eager.completed == [outputs]
    assert eager.names == ["sum"]
    assert eager.changed_buffers(call) == ["count"] * has_state
    assert len(RUNS) == 1
    assert outputs[0].tolist() == [0 + has_state, 1 + has_state, 2 + has_state]


def test_other_calls_and_outputs_run() -> None:
    call, other = ((torch.arange(3.0),), {}), ((torch.arange(3.0),), {})
    eager = Eager(Counter(True))
    eager.first(call)
    assert eager.known([other])[0][0].tolist() == [1, 2, 3] and len(RUNS) == 2
    assert [one[0].tolist() for one in eager.known([call, call])] == [[1, 2, 3], [2, 3, 4]]
    assert len(RUNS) == 4
    eager.watched = ("count",)
    assert [one.tolist() for one in eager.known([call])[0]] == [[1, 2, 3], [1]]
    assert len(RUNS) == 5


def test_buffers_that_a_call_changes_are_those_of_this_call() -> None:
    class Sometimes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", torch.zeros(1))

        def forward(self, x: Any) -> Any:
            if x.sum() > 0:
                self.seen += 1
            return x

    eager = Eager(Sometimes())
    eager.first(((torch.zeros(1),), {}))
    assert eager.changed_buffers(((torch.ones(1),), {})) == ["seen"]
    assert eager.changed_buffers(((torch.zeros(1),), {})) == []


class Wrapper(nn.Module):
    def __init__(self, inner: nn.Module, function: Any = None) -> None:
        super().__init__()
        self.inner, self.function = inner, function

    def forward(self, x: Any) -> Any:
        return self.function(x, self.inner)


class OfGlobal(Wrapper):
    def forward(self, x: Any) -> Any:
        return INNER(x)


INNER = nn.Linear(2, 2)


def test_a_model_that_calls_its_own_modules_by_a_closure_or_a_global() -> None:
    inner = nn.Linear(2, 2)

    class OfClosure(Wrapper):
        def forward(self, x: Any) -> Any:
            return inner(x)

    assert Eager(Wrapper(inner, lambda x, _: inner(x))).holds_itself()
    assert Eager(OfClosure(inner)).holds_itself() and Eager(OfGlobal(INNER)).holds_itself()
    assert Eager(nn.Sequential(nn.ReLU(), OfClosure(inner))).holds_itself()
    assert not Eager(Wrapper(inner, lambda x, own: own(x))).holds_itself()
    assert not Eager(
        Wrapper(nn.Linear(2, 2), lambda x, own: own(x) + inner.in_features)
    ).holds_itself()
