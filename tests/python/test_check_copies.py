"""The copy of a model that each run starts from: it is restored, or made again."""

from __future__ import annotations

import copy
from collections import deque
from typing import Any

import pytest
import torch

from executorch_c.check.copies import Copies
from executorch_c.check.reference import Eager


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
        return (
            self.linear(x) * self.total
            + self.hidden
            + self.cache.sum(0)
            + self.names["a"]
            + self.names["b"][0]
            + self.pair[0]
            + sum(map(float, numbers))
        )

    def change(self, x: Any) -> None:
        raise NotImplementedError


class Holder:
    value, total = 1.0, 0.0
    inner: Any = None


def _attribute(self: Net, x: Any) -> None:
    self.count += 1


def _buffer_in_place(self: Net, x: Any) -> None:
    self.total.add_(x.sum())


def _buffer_replaced(self: Net, x: Any) -> None:
    self.total = self.total + x.sum()


def _buffer_data(self: Net, x: Any) -> None:
    self.total.data.mul_(2)  # without a new version


def _buffer_set(self: Net, x: Any) -> None:
    self.total.data = self.total.data + 1


def _buffer_resized(self: Net, x: Any) -> None:
    self.cache.resize_(len(self.cache) + 1, 2).fill_(1)


def _expanded(self: Net, x: Any) -> None:
    self.hidden[:1].add_(1)


def _tensor_grows(self: Net, x: Any) -> None:
    self.cache = torch.cat([self.cache, torch.ones(1, 2)])


def _list(self: Net, x: Any) -> None:
    self.steps.append(2.0)


def _nested_tensors(self: Net, x: Any) -> None:
    self.names["a"].add_(1)
    self.names["b"][0] += 1
    self.names["b"] = [self.names["b"][0] + 1]


def _objects(self: Net, x: Any) -> None:
    self.holder.value += 1
    self.holder.inner.total += 2


def _deque(self: Net, x: Any) -> None:
    self.queue.append(1.0)


def _in_tuple(self: Net, x: Any) -> None:
    self.pair[0].add_(1)
    self.pair[1][0] += 1


def _set(self: Net, x: Any) -> None:
    self.seen.add(len(self.seen) + 1)


def _new_attribute(self: Net, x: Any) -> None:
    self.calls = getattr(self, "calls", 0) + 1
    self.holder.value = self.calls


def _module(self: Net, x: Any) -> None:
    self.linear = torch.nn.Sequential(self.linear, torch.nn.Tanh())


def _gradient(self: Net, x: Any) -> None:
    self.total.add_(self.linear.weight.sum())


CHANGES = (
    *(_attribute, _buffer_in_place, _buffer_replaced, _buffer_data, _buffer_set),
    *(_buffer_resized, _expanded, _tensor_grows, _list, _nested_tensors, _objects, _deque),
    *(_in_tuple, _set, _new_attribute, _module),
)


@pytest.mark.parametrize("change", CHANGES, ids=lambda one: one.__name__[1:])
def test_each_run_starts_from_the_models_state(change: Any) -> None:
    torch.manual_seed(0)
    model = type("Changed", (Net,), {"change": change})()
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
    model = type("Changed", (Net,), {"change": _gradient})()
    copies, x = Copies(model), torch.ones(1, 2)
    with torch.no_grad():
        expected = copies.fresh()(x)
    copies.fresh()(x)  # the buffer has a history now
    with torch.no_grad():
        assert torch.equal(copies.fresh()(x), expected)
    assert not copies.fresh().total.requires_grad


class Counter:
    """A class whose copies share what `copy` does not see."""

    def __init__(self) -> None:
        self.numbers = [0]

    def __deepcopy__(self, memo: Any) -> Counter:
        return Counter()


@pytest.mark.parametrize(
    "held",
    [Counter(), iter([1.0] * 9), torch.zeros(2).to_sparse()],
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
        model.held = Counter()
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
