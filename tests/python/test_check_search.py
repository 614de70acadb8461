"""The search of check_model: faults that no normal input shows are found, right programs match."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from executorch_c.check.cases import CallSequence
from executorch_c.check.power import ranges
from executorch_c.check.result import CheckedCase
from executorch_c.check.run import Check
from executorch_c.check.search import SEARCH_SECONDS, InputSearch, seconds_of
from executorch_c.check.watch import Reach, Watch, boundaries, toward, treats_non_finite
from executorch_c.testing import CheckResult, check_model
from tests.exports import Fn, export
from tests.verdicts import hidden

SEARCH_ALONE: dict[str, Any] = {"n_random": 0, "search": 1e6, "engines": ("here",)}
SEARCH_ALONE |= {"progress": False}
SAMPLE = (
    "relu6 is relu",
    "softplus in half overflows",
    "expert with a bias of -8",
    "unit with a bias of -10",
)


def sampled(names: Iterable[str], sample: Sequence[str]) -> list[Any]:
    """Return rows of a test, of which those outside a sample are heavy."""
    heavy = pytest.mark.heavy
    return [name if name in sample else pytest.param(name, marks=heavy) for name in names]


@pytest.mark.parametrize(
    "name", sampled((name for name in hidden.HIDDEN if name not in hidden.MISSED), SAMPLE)
)
def test_hidden_faults_are_found(name: str) -> None:
    """By the search alone: the default cases match."""
    result = hidden.run(name, 60.0)
    assert {case.kind for case in result.failures} == {"search"}, result


@pytest.mark.parametrize("name", sampled(hidden.HIDDEN, SAMPLE[:2]))
def test_right_programs_match_in_a_search(name: str) -> None:
    result = hidden.run(name, 1.0, planted=False)
    assert result.ok and any(note.startswith("search: ") for note in result.notes), result


def test_the_search_has_a_limit_and_a_note() -> None:
    assert [seconds_of(one) for one in (False, True, 0, 2)] == [0.0, SEARCH_SECONDS, 0.0, 2.0]
    x = torch.randn(3, generator=torch.Generator().manual_seed(0))
    result = check_model(torch.tanh, x, search=0.5, n_random=0)
    assert result.ok and 0 < sum(case.kind == "search" for case in result) <= 8
    [note] = [one for one in result.notes if one.startswith("search: ")]
    assert " calls tried, " in note
    assert not [one for one in check_model(torch.tanh, x).notes if one.startswith("search")]
    with pytest.raises(ValueError, match="`search` is -1"):
        check_model(torch.tanh, x, search=-1)


def refusing(x: Tensor) -> Tensor:
    """Compute what has no export, and refuses large numbers."""
    if float(x.abs().max()) > 20:
        raise ValueError("too large")
    return torch.tanh(x)


def test_inputs_that_eager_refuses_end_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [torch.tensor([0.3, -1.0, 0.6]) * scale for scale in (1.0, 300.0, 2.0)]
    program = export(Fn(torch.tanh), calls[0])
    result = searched(monkeypatch, Fn(refusing), calls, program=program)
    assert result.ok and [case.kind for case in result] == ["example", "search", "search"]
    note = "search: 3 calls tried, 2 reached something new; without a guide: the model has no "
    assert note in str(result.notes)


def test_gradients_lead_to_dead_units_experts_and_ids() -> None:
    torch.manual_seed(0)
    layer, table = nn.Linear(8, 4), nn.Embedding(30, 8)
    with torch.no_grad():
        layer.bias[2] = -9.0

    def floats(x: Tensor) -> Tensor:
        return torch.relu(layer(x)).sum() + layer(x).argmax(-1).sum()

    def indices(ids: Tensor) -> Tensor:
        return torch.relu(layer(table(ids))).sum()

    generator = torch.Generator().manual_seed(0)
    for function, call in ((floats, torch.randn(5, 8)), (indices, torch.randint(30, (5,)))):
        module = torch.export.export(Fn(function), (call,)).module()
        reached = Reach()
        with torch.no_grad():
            Watch(module, reached).run(call)
        kinds = {(one.kind, one.unit, one.sign) for one in reached.targets()}
        assert ("unit", 2, 1.0) in kinds
        if function is floats:
            assert ("index", 2, 1.0) in kinds
        for target in reached.targets():
            if target.unit == 2 and target.sign > 0:
                [moved] = toward(module, [call], target, generator)
                before, after = (
                    layer(x if function is floats else table(x))[:, 2].max() for x in (call, moved)
                )
                assert moved.dtype == call.dtype and after > before + 1


def test_units_are_targets_until_they_are_beyond_the_bounds_of_a_clamp() -> None:
    """A maximum of 1.25 times the bound is; without bounds, one of 8."""

    def function(x: Tensor) -> Tensor:
        return x.clamp(-2, 40.0) + torch.tanh(x)

    module, reached = torch.export.export(Fn(function), (torch.zeros(3),)).module(), Reach()
    with torch.no_grad():
        Watch(module, reached).run(torch.tensor([-9.0, 9.0, 51.0]))
        Watch(module, reached).run(torch.tensor([9.0, -9.0, -9.0]))
    targets = {(one.node.name, one.unit, one.sign) for one in reached.targets()}
    assert targets == {("clamp", 0, 1.0), ("clamp", 1, 1.0)}


def test_boundaries_are_the_numbers_that_a_graph_compares_with() -> None:
    """Not those that it adds, nor large constants."""
    pad, steps, large = torch.tensor(257.0), torch.tensor([-0.5, 7.0]), torch.arange(100.0)

    def function(x: Tensor) -> Tensor:
        y = (x + 11).clamp(-3, 40.0) + (x == pad) + torch.bucketize(x, steps)
        return torch.nn.functional.relu6(y) + torch.bucketize(x, large)

    module = torch.export.export(Fn(function), (torch.randn(4),)).module()
    assert {-3.0, 40.0, 257.0, -0.5, 7.0} == set(boundaries(module))
    assert not treats_non_finite(module)


def test_integers_that_eager_refuses_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be indices that nothing shows to be some; others go beyond the example's range."""
    compared, run = list[tuple[Tensor, Tensor]](), Check.run

    def seen(self: Check, case: CallSequence) -> CheckedCase:
        compared.append(case.calls[0][0])
        return run(self, case)

    monkeypatch.setattr(Check, "run", seen)
    draw = InputSearch._candidates
    monkeypatch.setattr(InputSearch, "_candidates", lambda self: islice(draw(self), 40))

    def function(ids: Tensor, count: Tensor) -> Tensor:
        return nn.functional.one_hot((ids - 3).abs(), 9).float() + count[:, None] / 7

    result = check_model(function, (torch.arange(4, 9), torch.arange(1, 6)), **SEARCH_ALONE)
    counts = torch.stack([count for _, count in compared])
    assert result.verdict == "match" and len(compared) > 10
    assert counts.max() > 10_000 and counts.min() < -10


def test_what_only_a_call_of_no_use_reaches_stays_a_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs of the first call overflow; its side of the comparison is not tested."""
    kinds = list[set[str]]()

    def candidates(self: InputSearch) -> Iterator[tuple[str, Any]]:
        for scale in (0.0, 1000.0, 10.0):
            yield "", ((torch.linspace(-1, 1, 6) * scale,), {})
            assert self.reached is not None
            kinds.append({one.kind for one in self.reached.targets()})

    monkeypatch.setattr(InputSearch, "_candidates", candidates)
    x = torch.linspace(-1, 1, 6)
    result = check_model(lambda x: torch.where(x > 5, x.exp(), x), x, **SEARCH_ALONE)
    assert result.ok and kinds == [{"unit", "comparison"}, {"unit", "comparison"}, {"unit"}]


# ---- power ------------------------------------------------------------------------------------


class Rare(nn.Module):
    """A table whose rows are indexed by numbers of the input, and experts for large ones."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Parameter(torch.randn(300, 6) + 2)
        self.experts = nn.ModuleList(nn.Linear(6, 5) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        row = self.table[x[:, 0].abs().long().clamp(max=299)]
        parts = torch.stack([one(row) for one in self.experts], 1)
        return parts[torch.arange(len(x)), (x[:, 0] / 100).long().clamp(0, 2)]


class Rooted(Rare):
    """The same, plus a root of zero, whose gradient makes all gradients NaN."""

    def forward(self, x: Tensor) -> Tensor:
        row = self.table[x[:, 0].abs().long().clamp(max=299)]
        parts = torch.stack([one(row) for one in self.experts], 1)
        root = (parts * 0).abs().sqrt().sum((1, 2))[:, None]
        return parts[torch.arange(len(x)), (x[:, 0] / 100).long().clamp(0, 2)] + root


def searched(
    monkeypatch: pytest.MonkeyPatch, model: nn.Module, calls: list[Tensor], **options: Any
) -> CheckResult:
    """Return the check of a right program whose search has some calls, in whatever time."""

    def candidates(self: InputSearch) -> Iterator[tuple[str, Any]]:
        yield from ((str(i), ((call,), {})) for i, call in enumerate(calls))

    monkeypatch.setattr(InputSearch, "_candidates", candidates)
    return check_model(model, calls[0], **SEARCH_ALONE, **options)


@pytest.mark.parametrize("expert", [1, 2])
def test_all_cases_that_a_search_compares_count(
    monkeypatch: pytest.MonkeyPatch, expert: int
) -> None:
    """Each of 80 calls reads a row. Most reach nothing that the search sees, so that every fourth
    is compared, and not kept; the last reaches another expert."""
    compared, run = set[int](), Check.run

    def seen(self: Check, case: CallSequence) -> CheckedCase:
        compared.add(int(case.calls[0][0][0][0, 0]))
        return run(self, case)

    monkeypatch.setattr(Check, "run", seen)
    calls = [torch.tensor([[row + 0.5, 0.5]] * 2) for row in (*range(79), 100 * expert + 3)]
    result = searched(monkeypatch, Rare().eval(), calls)
    assert result.verdict == "match" and 20 < len(compared) < 60 and len(result.cases) < 10
    never = sorted(set(range(300)) - compared)
    assert result.power.untested[:2] == (
        f"experts.{3 - expert}.* never routed",
        f"rows {ranges(never)} of table change no output",
    )
    shares = {one.name: one.share for one in result.power.weights}
    assert shares["table"] is not None and 0.9 <= shares["table"] * 300 / len(compared) < 1.001
    assert [shares[f"experts.{i}.weight"] for i in range(3)] == [1.0, 2 - expert, expert - 1]


def test_a_gradient_that_is_no_number_tests_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [torch.tensor([[row + 0.5, 0.5]] * 2) for row in (*range(24), 103)]
    result = searched(monkeypatch, Rooted().eval(), calls)
    assert result.verdict == "match"
    assert result.power.untested[0] == "experts.2.* never routed"
