"""Why no output depends on a state that calls change: `check/unread.py`."""

import inspect

import pytest
import torch
from torch import Tensor, nn

from executorch_c.check.unread import reason
from executorch_c.testing import check_model


class State(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(3))
        self.register_buffer("other", torch.zeros(3))


class Overwritten(State):
    def forward(self, x: Tensor) -> Tensor:
        self.state.copy_(x)
        return self.state * 2


class Filled(State):
    def forward(self, x: Tensor) -> Tensor:
        self.state.zero_()
        self.state.add_(x)
        return self.state * 2


class Counted(State):
    def forward(self, x: Tensor) -> Tensor:
        self.state.add_(1)
        return x * 2


class Copied(State):
    def forward(self, x: Tensor) -> Tensor:
        self.other.add_(self.state)
        self.state.add_(x)
        return x * 2


class Clamped(State):
    """The index of what is written stays at the end of the cache from the first call on."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("position", torch.full((1,), 3, dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        at = self.position.clamp(max=2)
        self.position.add_(1)
        return x * self.other.index_copy(0, at, torch.ones(1)) + x


class Read(State):
    def forward(self, x: Tensor) -> Tensor:
        self.state.add_(x)
        return self.state * 2


LINE = inspect.getsourcelines(Clamped.forward)[1] + 1
REASONS = {
    Overwritten: " (each call overwrites it before it is read)",
    Filled: " (each call overwrites it before it is read)",
    Counted: " (only its own next value is computed from it)",
    Copied: " (only state 'other' is computed from it)",
    Clamped: f" (clamp in test_check_unread.py:{LINE} limits it before it is read)",
    Read: "",
}


@pytest.mark.parametrize("model", REASONS)
def test_reasons(model: type[State]) -> None:
    name = "position" if model is Clamped else "state"
    found = reason(torch.export.export(model(), (torch.ones(3),)), name)
    assert found.endswith(REASONS[model]) and bool(found) is bool(REASONS[model])


@pytest.mark.parametrize("model", [Counted, Clamped])
def test_the_note_has_the_reason(model: type[State]) -> None:
    result = check_model(model(), (torch.ones(3),), engines=("here",), progress=False)
    [note] = [note for note in result.notes if "read by no output of later calls" in note]
    assert f"read by no output of later calls{' (' if model is Clamped else ''}" in note
    assert REASONS[model] in note


def test_a_state_that_is_read_has_no_note() -> None:
    result = check_model(Read(), (torch.ones(3),), engines=("here",), progress=False)
    assert not any("read by no output" in note for note in result.notes)
