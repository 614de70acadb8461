"""The search of check_model: faults that no normal input shows are found, right programs match."""

from __future__ import annotations


import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("executorch")

from executorch_c.check.search import SECONDS, seconds_of
from executorch_c.check.watch import Reached, Watch, toward
from executorch_c.testing import check_model
from exports import Fn
from torch import Tensor, nn

import hidden

SAMPLE = ("relu6 is relu", "softplus in half overflows", "expert with a bias of -8",
          "unit with a bias of -10")  # fmt: skip


@pytest.mark.parametrize("name", [
    name if name in SAMPLE else pytest.param(name, marks=pytest.mark.heavy)
    for name in hidden.HIDDEN if name not in hidden.MISSED
])  # fmt: skip
def test_hidden_faults_are_found(name: str) -> None:
    """By the search alone: the default cases match."""
    result = hidden.run(name, 60.0)
    assert {case.kind for case in result.failures} == {"search"}, result


@pytest.mark.parametrize("name", [
    name if name in SAMPLE[:2] else pytest.param(name, marks=pytest.mark.heavy)
    for name in hidden.HIDDEN
])  # fmt: skip
def test_right_programs_match_in_a_search(name: str) -> None:
    result = hidden.run(name, 3.0, planted=False)
    assert result.ok and result.cases[-1].kind == "search", result


def test_the_search_has_a_limit_and_a_note() -> None:
    assert [seconds_of(one) for one in (False, True, 0, 2)] == [0.0, SECONDS, 0.0, 2.0]
    x = torch.randn(3, generator=torch.Generator().manual_seed(0))
    result = check_model(torch.tanh, x, search=0.5, n_random=0)
    assert result.ok and 0 < sum(case.kind == "search" for case in result) <= 8
    [note] = [one for one in result.notes if one.startswith("search: ")]
    assert " calls tried, " in note
    assert not [one for one in check_model(torch.tanh, x).notes if one.startswith("search")]
    with pytest.raises(ValueError, match="search is -1"):
        check_model(torch.tanh, x, search=-1)


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
        reached = Reached()
        with torch.no_grad():
            Watch(module, reached).run(call)
        kinds = {(one.kind, one.unit, one.sign) for one in reached.targets()}
        assert ("unit", 2, 1.0) in kinds
        if function is floats:
            assert ("index", 2, 1.0) in kinds
        for target in reached.targets():
            if target.unit == 2 and target.sign > 0:
                [moved] = toward(module, [call], target, generator)
                before, after = (layer(x if function is floats else table(x))[:, 2].max()
                                 for x in (call, moved))  # fmt: skip
                assert moved.dtype == call.dtype and after > before + 1
