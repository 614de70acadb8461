"""The power of check_model where there are no gradients: quantised graphs and integers. What is
listed as untested matches with a fault in it, and what would be found differs."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from tests import exports

pytest.importorskip("torchao")

from torch import Tensor, nn

from executorch_c.check import sensitivity
from executorch_c.check.constants import Constant, constants_of, other, wrong
from executorch_c.check.search import InputSearch
from executorch_c.testing import CheckResult, check_model

IDLE = (
    "rows 12..29 of emb never read",
    "channel 5 of first changes no output",
    "columns 5, 30..31 of last.weight change no output",
)


@pytest.fixture(autouse=True)
def no_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of runs alone limits what is measured."""
    monkeypatch.setattr(sensitivity, "TIME_SHARE", 1000.0)


def words() -> nn.Module:
    """Build an embedding of 30 rows, of which 12 are read, and a layer whose channel 5 is dead; the
    layer after it gets zeros from it, and two more."""

    def run(ids: Tensor, emb: Any, first: Any, last: Any) -> Tensor:
        x = first(emb(ids.clamp(max=11))).relu()
        return last(torch.cat([x, torch.zeros_like(x[..., :2])], -1))

    torch.manual_seed(0)
    layers = {"first": nn.Linear(64, 30), "last": nn.Linear(32, 16)}
    layers["first"].bias.data[5] = -50.0
    return exports.Fn(run, emb=nn.Embedding(30, 64), **layers)


MIN_SHARES = {"static": 0.9, "dynamic": 0.0, "8da4w": 0.1}
"""For each scheme the share that is found at least."""
each_scheme = pytest.mark.parametrize("scheme", MIN_SHARES)


def lower(module: nn.Module, inputs: tuple[Tensor, ...]) -> bytes:
    return exports.lowered(module, *inputs, delegated=True)


@dataclass(frozen=True)
class Case:
    module: nn.Module
    inputs: tuple[Tensor, ...]
    result: CheckResult

    def check(self, program: bytes) -> CheckResult:
        torch.manual_seed(0)
        options = {"engines": ("here",), "progress": False}
        return check_model(self.module, self.inputs, program=program, **options)

    def planted(self, name: str, at: int, change: Any) -> str:
        """Return the verdict on a program with a changed slice of a constant."""
        broken = copy.deepcopy(self.module)
        one: Constant = constants_of(broken)[name]
        mask = np.arange(one.tensor.shape[0]) == at
        with torch.no_grad():
            one.tensor.copy_(change(one.tensor, mask))
        return self.check(lower(broken, self.inputs)).verdict


@cache
def case(scheme: str) -> Case:
    inputs = (torch.arange(40).reshape(4, 10) % 12,)
    module = exports.SCHEMES[scheme](words(), inputs)
    one = Case(module, inputs, None)  # type: ignore[arg-type]
    return Case(module, inputs, one.check(lower(module, inputs)))


@each_scheme
def test_dead_channels_and_unread_rows_are_listed(scheme: str) -> None:
    power = case(scheme).result.power
    assert case(scheme).result.verdict == "match"
    idle = [line for line in power.untested if "never read" in line or "change" in line]
    assert idle == [*IDLE], power.untested
    assert power.share is not None and power.share >= MIN_SHARES[scheme] * 0.5
    assert power.is_least is (scheme != "static")
    names = {row.name for row in power.weights}
    assert {"emb.weight", "first.weight", "first.weight.scale", "first.bias"} <= names


@pytest.mark.sweep(4)
@pytest.mark.parametrize(
    ("name", "at", "verdict"),
    [
        *(("emb.weight", 20, "match"), ("first.weight", 5, "match")),
        *(("first.weight.scale", 5, "match"), ("emb.weight", 3, "differ")),
        ("first.weight", 6, "differ"),
    ],
)
@each_scheme
def test_a_fault_in_what_is_listed_matches(scheme: str, name: str, at: int, verdict: str) -> None:
    """The same fault in another slice differs."""
    assert case(scheme).planted(name, at, other) == verdict


DEAD = (5,)
SMALL = (3, 5, 13)
"""Channels whose scales may be wrong by 1 % within the limit: a planted fault matches there."""


@pytest.mark.sweep(2)
@pytest.mark.parametrize(
    ("scheme", "name", "at", "missed"),
    [
        *(("static", "first.weight", 6, DEAD), ("static", "first.weight.scale", 11, SMALL)),
        *(("static", "last.weight", 2, ()), ("8da4w", "first.weight", 6, DEAD)),
        ("8da4w", "last.weight", 9, ()),
    ],
)
def test_what_would_be_found_differs(
    scheme: str, name: str, at: int, missed: tuple[int, ...]
) -> None:
    """The share of found slices is that of planted faults, or one slice less."""
    [row] = [one for one in case(scheme).result.power.weights if one.name == name]
    slices, share = row.shape[0], row.share
    assert share is not None and round((1 - share) * slices) - len(missed) in (0, 1)
    assert case(scheme).planted(name, at, wrong) == "differ"
    for slice_at in missed:
        assert case(scheme).planted(name, slice_at, wrong) == "match"


def test_a_quantised_flow() -> None:
    """The names are those of the float model."""
    inputs = (torch.arange(40).reshape(4, 10) % 12,)
    options = {"flow": "xnnpack-int8", "engines": ("here",), "progress": False}
    power = check_model(words(), inputs, **options).power
    assert set(IDLE) <= set(power.untested) and power.share


# ---- integers ---------------------------------------------------------------------------------


class Tables(nn.Module):
    """A table of integers of which 8 of 20 entries are read, and an input that nothing reads but a
    product with zero."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.register_buffer("table", torch.randperm(20))
        self.norm, self.last = nn.BatchNorm1d(4), nn.Linear(4, 4)

    def forward(self, x: Tensor, ids: Tensor, kind: Tensor) -> Tensor:
        shift = self.table[ids.clamp(0, 7)].float() + kind * 0
        return self.last(self.norm(x)) + shift


def by_ids(ids: Tensor, emb: Any, first: Any, last: Any) -> Tensor:
    """Read a table of 40 rows by ids, with a layer for large ids."""
    x = emb(ids)
    return torch.where((ids > 30)[..., None], last(x), first(x))


@pytest.mark.sweep(3)
@each_scheme
def test_all_cases_that_a_search_compares_count(
    monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    """Each of 36 calls reads another row; the last four another layer. The graph's first cases
    are tried one by one, the others together."""
    inputs = (torch.zeros(1, 4, dtype=torch.int64),)
    torch.manual_seed(0)
    layers = {"first": nn.Linear(64, 8), "last": nn.Linear(64, 8)}
    chosen = exports.Fn(by_ids, emb=nn.Embedding(40, 64), **layers)
    module = exports.SCHEMES[scheme](chosen, inputs)

    def candidates(_: InputSearch) -> Iterator[tuple[str, Any]]:
        yield from ((str(i), ((torch.full((1, 4), i),), {})) for i in range(1, 36))

    monkeypatch.setattr(InputSearch, "_candidates", candidates)
    options = {"program": lower(module, inputs), "n_random": 0, "engines": ("here",)}
    untested = [
        check_model(module, inputs, search=seconds, progress=False, **options).power.untested
        for seconds in (0, 1e6)
    ]
    assert "rows 1..39 of emb never read" in untested[0] and "last.* changes no" in str(untested[0])
    assert "rows 36..39 of emb never read" in untested[1] and "last.*" not in str(untested[1])


def test_integers_of_a_float_model() -> None:
    """Constants and inputs of integers that change no output are named; others count."""
    ids, kind = torch.arange(24).reshape(6, 4) % 8, torch.ones(6, 1, dtype=torch.int64)
    inputs = torch.randn(6, 4), ids, kind
    net = Tables()
    net(*inputs)  # counts a batch
    power = check_model(net.eval(), inputs, engines=("here",), progress=False).power
    rows = {row.name: row.share for row in power.weights}
    assert "table" in rows and "norm.num_batches_tracked" not in rows
    assert rows["table"] == pytest.approx(8 / 20)
    assert "channels 8..19 of table change no output" in power.untested
    assert "kind changes no output" in power.untested
    assert not any(line.startswith("ids") for line in power.untested)


def test_other_and_wrong_numbers_stay_in_the_range_of_a_tensor() -> None:
    mask = np.array([False, True, True])
    for value in (
        torch.tensor([[3, 9], [3, 9], [5, 5]]),
        torch.tensor([[-8, 7]] * 3).char(),
        torch.tensor([[True, False]] * 3),
    ):
        for change in (wrong, other):
            changed = change(value, mask)
            assert changed.dtype == value.dtype and torch.equal(changed[0], value[0])
            assert (changed[1:] != value[1:]).all()
            assert changed.min() >= value.min() and changed.max() <= value.max()
    assert torch.equal(wrong(torch.ones(3), mask), torch.tensor([1.0, 1.01, 1.01]))
