"""Eager's side of a check: which calls run, what is known without a run, and the copy of the model
that each run starts from, which is restored, or made again."""

from __future__ import annotations

import copy
from collections import deque
from textwrap import dedent, indent
from typing import Any

import pytest
import torch
from torch import nn

from executorch_c.check.copies import Copies
from executorch_c.check.reference import Eager
from tests.models.blocks import Fn


class Net(torch.nn.Module):
    """A model whose calls change one thing, and return what depends on it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)
        self.register_buffer("total", torch.ones(2))
        self.register_buffer("hidden", torch.ones(1).expand(2), persistent=False)
        self.count = 0
        self.cache: Any = torch.zeros(1, 2)
        self.steps = [1.0]
        self.names = {"a": torch.ones(2), "b": [torch.ones(2)]}
        self.holder = Holder()
        self.holder.inner = Holder()
        self.queue = deque([1.0])
        self.pair = (torch.ones(2), [1.0])
        self.seen = {1}

    def forward(self, x: Any) -> Any:
        self.change(x)
        numbers = [
            *(self.count, sum(self.steps), self.holder.value, self.holder.inner.total),
            *(sum(self.queue), self.pair[1][0], len(self.seen)),
        ]
        tensors = self.cache.sum(0), self.names["a"], self.names["b"][0], self.pair[0]
        return self.linear(x) * self.total + self.hidden + sum(tensors) + sum(map(float, numbers))

    def change(self, x: Any) -> None:
        raise NotImplementedError


class Holder:
    value, total = 1.0, 0.0
    inner: Any = None


CHANGES = {
    "attribute": "self.count += 1",
    "buffer in place": "self.total.add_(x.sum())",
    "buffer replaced": "self.total = self.total + x.sum()",
    "buffer data": "self.total.data.mul_(2)",  # without a new version
    "buffer set": "self.total.data = self.total.data + 1",
    "buffer resized": "self.cache.resize_(len(self.cache) + 1, 2).fill_(1)",
    "expanded": "self.hidden[:1].add_(1)",
    "tensor grows": "self.cache = torch.cat([self.cache, torch.ones(1, 2)])",
    "list": "self.steps.append(2.0)",
    "nested tensors": """
        self.names["a"].add_(1)
        self.names["b"][0] += 1
        self.names["b"] = [self.names["b"][0] + 1]
    """,
    "objects": """
        self.holder.value += 1
        self.holder.inner.total += 2
    """,
    "deque": "self.queue.append(1.0)",
    "in tuple": """
        self.pair[0].add_(1)
        self.pair[1][0] += 1
    """,
    "set": "self.seen.add(len(self.seen) + 1)",
    "new attribute": """
        self.calls = getattr(self, "calls", 0) + 1
        self.holder.value = self.calls
    """,
    "module": "self.linear = torch.nn.Sequential(self.linear, torch.nn.Tanh())",
}
"""Changes that a call makes to the model: the body of `change(self, x)`."""


def changing(statements: str) -> Net:
    names = {"torch": torch}
    exec(f"def change(self, x):\n{indent(dedent(statements), '    ')}", names)
    return type("Changed", (Net,), {"change": names["change"]})()


@pytest.mark.parametrize("change", CHANGES)
def test_each_run_starts_from_the_models_state(change: str) -> None:
    torch.manual_seed(0)
    model = changing(CHANGES[change])
    calls = [((torch.tensor([[1.0, 2.0]]),), {})] * 2
    with torch.no_grad():
        module = copy.deepcopy(model)
        expected = [module(*calls[0][0]).numpy() for _ in calls]
    assert not (expected[0] == expected[1]).any()  # else the test would show nothing
    eager = Eager(model)
    for _ in range(3):
        for outputs, wanted in zip(eager(calls), expected, strict=True):
            assert (outputs[0] == wanted).all()
    assert eager.copies.is_restored


def test_the_copy_is_made_once() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    copies = Copies(model)
    assert copies.fresh() is copies.fresh() is not model


def test_gradients_of_a_run_do_not_stay() -> None:
    model = changing("self.total.add_(self.linear.weight.sum())")
    copies, x = Copies(model), torch.ones(1, 2)
    with torch.no_grad():
        expected = copies.fresh()(x)
    copies.fresh()(x)  # the buffer has a history now
    with torch.no_grad():
        assert torch.equal(copies.fresh()(x), expected)
    assert not copies.fresh().total.requires_grad


class Opaque:
    """A class whose copies share what `copy` does not see."""

    def __init__(self) -> None:
        self.numbers = [0]

    def __deepcopy__(self, memo: Any) -> Opaque:
        return Opaque()


@pytest.mark.parametrize(
    "held",
    [Opaque(), iter([1.0] * 9), torch.zeros(2).to_sparse()],
    ids=["protocol", "iterator", "sparse"],
)
def test_unknown_state_is_copied_for_each_run(held: Any) -> None:
    model = torch.nn.Linear(2, 2)
    model.held = held
    copies = Copies(model)
    assert copies.fresh() is not copies.fresh()
    assert not copies.is_restored
    assert copies.fresh().weight is model.weight


@pytest.mark.parametrize("is_restored", [True, False])
def test_replaced_weights(is_restored: bool) -> None:
    rnn = torch.nn.LSTM(2, 3)  # holds its weights twice
    norm = torch.nn.BatchNorm1d(3).eval()
    model = torch.nn.ModuleList([rnn, norm])
    if not is_restored:
        model.held = Opaque()
    copies = Copies(model)
    zeros, ones = torch.nn.Parameter(torch.zeros(12, 2)), torch.ones(3) * 2
    other = copies.fresh({id(rnn.weight_ih_l0): zeros, id(norm.running_var): ones})
    assert other[0].weight_ih_l0 is zeros and other[1].running_var is ones
    x = torch.randn(4, 3, 2)
    assert torch.equal(other[0](x)[0], other[0](x * 2)[0])
    again = copies.fresh()
    assert again[0].weight_ih_l0 is rnn.weight_ih_l0
    assert torch.equal(again[1].running_var, torch.ones(3))
    assert torch.equal(again[0](x)[0], rnn(x)[0])


def test_weights_in_a_tuple_are_replaced_in_a_copy() -> None:
    model = torch.nn.Linear(2, 2)
    model.all = (model.weight,)
    zeros = torch.nn.Parameter(torch.zeros(2, 2))
    other = Copies(model).fresh({id(model.weight): zeros})
    assert other.weight is zeros and other.all[0] is zeros


RUNS = list[int]()


def counter(has_state: bool) -> nn.Module:
    """Build a model that adds its calls up in a buffer, if it has one."""

    def run(x: Any, count: Any, fixed: Any) -> Any:
        RUNS.append(1)
        return {"sum": x + count.add_(int(has_state))}

    return Fn(run, count=nn.Buffer(torch.zeros(1)), fixed=nn.Buffer(torch.ones(1)))


@pytest.fixture(autouse=True)
def _no_runs() -> None:
    RUNS.clear()


@pytest.mark.parametrize("has_state", [False, True])
def test_the_first_call_runs_once(has_state: bool) -> None:
    call = ((torch.arange(3.0),), {})
    eager = Eager(counter(has_state))
    outputs = eager.first(call)
    assert eager.known([call]) == [outputs] and eager.completed == [outputs]
    assert eager.names == ["sum"]
    assert eager.changed_buffers(call) == ["count"] * has_state
    assert len(RUNS) == 1
    assert outputs[0].tolist() == [0 + has_state, 1 + has_state, 2 + has_state]


def test_other_calls_and_outputs_run() -> None:
    call, other = ((torch.arange(3.0),), {}), ((torch.arange(3.0),), {})
    eager = Eager(counter(True))
    eager.first(call)
    assert eager.known([other])[0][0].tolist() == [1, 2, 3] and len(RUNS) == 2
    assert [one[0].tolist() for one in eager.known([call, call])] == [[1, 2, 3], [2, 3, 4]]
    assert len(RUNS) == 4
    eager.watched = ("count",)
    assert [one.tolist() for one in eager.known([call])[0]] == [[1, 2, 3], [1]]
    assert len(RUNS) == 5


def test_buffers_that_a_call_changes_are_those_of_this_call() -> None:
    eager = Eager(Fn(lambda x, seen: x + seen.add_(x.sum() > 0), seen=nn.Buffer(torch.zeros(1))))
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
