"""Verdicts of check_model on inputs that change no output: nothing was tested."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from executorch_c.check.variation import input_names
from executorch_c.testing import check_model
from tests.exports import Fn, export


class Scores(nn.Module):
    """Rounded scores, which a large bias decides unless `bias` is small."""

    def __init__(self, bias: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.last = nn.Linear(16, 4)
        with torch.no_grad():
            self.last.bias.copy_(torch.tensor([40.0, -40.0, 30.0, 25.0]) * bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(x).sigmoid().round()


class Residual(nn.Module):
    """A branch that a factor scales, beside a constant."""

    def __init__(self, gamma: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.branch, self.b = nn.Linear(16, 16), nn.Parameter(torch.randn(16))
        self.gamma = nn.Parameter(torch.tensor(gamma))

    def forward(self, x: Tensor) -> Tensor:
        return self.b + self.gamma * torch.relu(self.branch(x))


def classes(x: Tensor) -> Tensor:
    """Return the same classes for all inputs of a like size."""
    return (x + 100 * torch.eye(4)).argmax(-1)


X = (torch.randn(3, 16, generator=torch.Generator().manual_seed(0)),)

CONSTANT: dict[str, tuple[Callable[[], nn.Module], tuple[Tensor, ...]]] = {
    "saturated scores": (lambda: Scores(1.0), X),
    "a branch below rounding": (lambda: Residual(1e-9), X),
    "a branch of zero": (lambda: Residual(0.0), X),
    "classes": (lambda: Fn(classes), (torch.randn(4, 4),)),
    "a clamp": (lambda: Fn(lambda x: (x * 1e-3).clamp(1, 2) + torch.arange(16)), X),
}


@pytest.mark.parametrize("name", CONSTANT)
def test_outputs_that_no_input_changes_are_inconclusive(name: str) -> None:
    make, inputs = CONSTANT[name]
    result = check_model(make().eval(), inputs, progress=False)
    assert [case.verdict for case in result] == ["match"] * 4
    assert result.verdict == "inconclusive" and not result
    assert "the same values, up to rounding, in all 4 calls" in str(result)
    assert result.summary().startswith("inconclusive")
    with pytest.raises(AssertionError, match="real_inputs"):
        result.raise_if_wrong()


VARYING: dict[str, tuple[Callable[[], nn.Module], tuple[Tensor, ...]]] = {
    "scores": (lambda: Scores(0.0), X),
    "a branch": (lambda: Residual(1e-4), X),
}


@pytest.mark.parametrize("name", VARYING)
def test_outputs_that_an_input_changes_match(name: str) -> None:
    make, inputs = VARYING[name]
    assert check_model(make().eval(), inputs, progress=False).verdict == "match"


def test_a_single_call_says_nothing_about_changes() -> None:
    result = check_model(Residual(0.0).eval(), X, n_random=0, progress=False)
    assert result.verdict == "match"


def test_the_callers_tolerances_decide_without_this_rule() -> None:
    """As for constant outputs of a single call."""
    assert check_model(Scores(1.0).eval(), X, rtol=1e-3, progress=False).verdict == "match"


def test_real_inputs_that_change_the_outputs_decide() -> None:
    result = check_model(Scores(1.0).eval(), X, real_inputs=[(X[0] * 100,)], progress=False)
    assert result.verdict == "match"


def test_one_constant_output_of_two_is_a_note() -> None:
    model = Fn(lambda x: (x * 2, x * 0 + torch.arange(16)))
    result = check_model(model, X, progress=False)
    assert result.verdict == "match"
    assert any(note.startswith("output 1 has the same values") for note in result.notes)


def test_a_wrong_program_differs_all_the_same() -> None:
    result = check_model(Scores(1.0).eval(), X, program=export(Scores(-1.0), *X), progress=False)
    assert result.verdict == "differ"


def test_names_of_inputs() -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor, cache: list[Tensor], *rest: Tensor, mask: object) -> Tensor:
            return x

    one = torch.ones(1)
    call = ((one, [one, one], one), {"mask": {"a": one, "b": (one,)}})
    names = ["x", "cache.0", "cache.1", "input 2", "mask.a", "mask.b.0"]
    assert input_names(Model(), call) == names


def test_names_of_inputs_of_an_exported_program() -> None:
    class Model(nn.Module):
        def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
            return ids + mask

    call = (torch.ones(1), torch.ones(1))
    assert input_names(torch.export.export(Model(), call).module(), (call, {})) == ["ids", "mask"]
