"""Calls in a row in check_model: positions advance, and the state is compared by what reads it."""

import pytest
import torch
from executorch.exir import ExecutorchBackendConfig, to_edge
from executorch.exir.capture._capture import patch_forward
from torch import Tensor, nn

from executorch_c import testing
from executorch_c.check.roles import roles_of
from executorch_c.check.sequences import MAX_CALLS, starts
from executorch_c.testing import check_model
from tests.exports import Decaying, Fn, export


class Decoder(nn.Module):
    """A key/value cache, written at an input position; a ring, if it may wrap."""

    def __init__(self, fault: str = "", size: int = 8, ring: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.qkv, self.last = nn.Linear(16, 48), nn.Linear(16, 16)
        self.fault, self.size, self.ring = fault, size, ring
        self.register_buffer("k", torch.zeros(1, size, 16))
        self.register_buffer("v", torch.zeros(1, size, 16))

    def forward(self, x: Tensor, pos: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        at = pos % self.size if self.ring else pos
        if self.fault == "wraps one early":
            at = pos % (self.size - 1)
        if self.fault == "clamped":
            at = pos.clamp(max=self.size // 2)
        if self.fault == "wraps to 1":
            at = torch.where(pos >= self.size, pos % self.size + 1, pos)
        keys = torch.zeros_like(self.k) if self.fault == "lost" else self.k
        keys = keys.index_copy(1, at, k)
        self.k.copy_(keys)
        self.v.index_copy_(1, at, v)
        seen = torch.arange(self.size) <= pos[-1]
        scores = torch.where(seen, q @ keys.transpose(1, 2) / 4, torch.tensor(-1e9))
        return self.last(scores.softmax(-1) @ self.v)


def example(span: int = 1) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    return torch.randn(1, span, 16), torch.arange(span)


FAULTS = [
    *(("", 8, 1, False), ("clamped", 8, 1, False), ("wraps one early", 8, 1, False)),
    *(("lost", 8, 1, False), ("wraps to 1", 8, 1, True), ("wraps one early", 40, 1, True)),
    *(("clamped", 40, 1, False), ("", 40, 1, True), ("", 8, 2, False), ("clamped", 8, 2, True)),
]
"""Faults, sizes of the cache, positions a call, and whether the cache is a ring."""


@pytest.mark.parametrize(("fault", "size", "span", "ring"), FAULTS)
def test_positions_advance_to_the_end_and_past_it(
    fault: str, size: int, span: int, ring: bool
) -> None:
    """A wrong index is found where it begins, and no call past the end of a cache is compared."""
    model = Decoder(size=size, ring=ring).eval()
    inputs = example(span)
    program = export(Decoder(fault, size, ring).eval(), *inputs)
    result = check_model(model, inputs, program=program, n_random=0)
    [first, state] = result.cases
    assert first.verdict == "match" and state.kind == "state"
    assert state.verdict == ("differ" if fault else "match"), result
    positions = [int(call[1][0]) for call in state.inputs]
    assert len(positions) <= MAX_CALLS and positions[0] == 0
    assert positions[-1] == (size + span if ring else size - span)
    if fault and size == 8:
        first_wrong = {"clamped": 5, "wraps one early": 7, "lost": 1, "wraps to 1": 8}[fault]
        assert f"of call {first_wrong // span + 1}: " in str(result).replace("\n  ", " ")
        report = result.explain()
        assert report.verdict == "differ"


def test_positions_of_calls() -> None:
    assert starts(0, 1, 4) == [1, 2, 3, 4, 5]
    assert starts(3, 2, 6) == [0, 2, 4, 6, 8]
    long = starts(0, 1, 1000)
    assert len(long) == MAX_CALLS - 1 and long[:3] == [1, 2, 3]
    assert long[-4:] == [998, 999, 1000, 1001] and 400 < long[-5] < 600


def test_a_counter_of_the_model_runs_past_the_end() -> None:
    def counting(size: int) -> nn.Module:
        def run(x: Tensor, at: Tensor, ring: Tensor) -> Tensor:
            ring.index_copy_(0, at % size, x)
            at.add_(1)
            return ring.cumsum(0) * 2

        return Fn(run, at=nn.Buffer(torch.tensor([0])), ring=nn.Buffer(torch.zeros(5, 3)))

    x = torch.randn(1, 3)
    assert roles_of(counting(5), ((x,), {})).capacity == 5
    assert check_model(counting(5), x, program=export(counting(5), x), n_random=0)
    wrong = check_model(counting(5), x, program=export(counting(4), x), n_random=0)
    assert not wrong and "of call 5: " in str(wrong).replace("\n  ", " ")


def test_integers_equal_to_the_positions_advance_with_them() -> None:
    class Rotary(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("cache", torch.zeros(6, 4))
            self.table = nn.Embedding(6, 4)

        def forward(self, x: Tensor, position_ids: Tensor, cache_position: Tensor) -> Tensor:
            self.cache.index_copy_(0, cache_position, x + self.table(position_ids)[0])
            return self.cache.sum(0)

    inputs = torch.randn(2, 4), torch.tensor([[0, 1]]), torch.tensor([0, 1])
    result = check_model(Rotary().eval(), inputs, n_random=2)
    assert result.ok, result
    for case in result:
        for _, ids, position in case.inputs:
            assert ids[0].tolist() == position.tolist() and position[1] == position[0] + 1
    assert [int(call[2][0]) for call in result.cases[-1].inputs] == [0, 2, 4]


# ---- the user's calls -------------------------------------------------------------------------


def test_calls_of_the_user_in_a_row() -> None:
    """One case; both sides start anew, and the calls share their state."""
    x = torch.randn(3)
    real = [(x * 2,), testing.calls((x,), x * 3, [x.numpy() * 4])]
    right, wrong = (
        check_model(Decaying(0.5).eval(), x, program=pte, n_random=0, real_inputs=real)
        for pte in (export(Decaying(factor), x) for factor in (0.5, 0.25))
    )
    assert [len(case.inputs) for case in right if case.kind == "real"] == [1, 3]
    assert right.ok and [case.name for case in wrong.failures] == ["real 1", "state 7 calls"]
    assert "real 1: output 0 of call 2: 3 of 3 elements" in str(wrong).replace("\n  ", " ")
    assert "likewise in calls 3" in str(wrong)
    assert wrong.explain().verdict == "differ"


def test_wrong_calls_in_a_row() -> None:
    x = torch.ones(3)
    with pytest.raises(ValueError, match=r"`real_inputs\[1\]` has 2 positional arguments"):
        check_model(torch.tanh, x, real_inputs=[x, testing.calls((x,), (x, x))])
    with pytest.raises(ValueError, match="takes at least one call"):
        testing.calls()


# ---- methods ----------------------------------------------------------------------------------


class Stored(nn.Module):
    """Two methods that share a state."""

    def __init__(self, fault: float = 0.0) -> None:
        super().__init__()
        self.fault = fault
        self.register_buffer("state", torch.zeros(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        self.state.add_(x)
        return self.state * 2

    def set_state(self, v: Tensor) -> Tensor:
        self.state.copy_(v)
        return self.state.reshape(-1) + 1 + self.fault


@pytest.mark.parametrize("fault", [0.0, 0.5])
def test_a_method_is_compared_with_the_one_of_its_name(fault: float) -> None:
    v, exported = torch.arange(6.0).reshape(2, 3), {}
    program = Stored(fault).eval()
    for name in ("forward", "set_state"):
        with patch_forward(program, getattr(program, name)):
            exported[name] = torch.export.export(program, (v,), strict=False)
    config = ExecutorchBackendConfig(emit_mutable_buffer_names=True)
    pte = bytes(to_edge(exported).to_executorch(config).buffer)
    right = Stored().eval()
    with patch_forward(right, right.set_state):
        reference = torch.export.export(right, (v,), strict=False)
    for model in (right, right.set_state, reference):
        result = check_model(model, (v,), program=pte, method="set_state", n_random=1)
        assert result.ok is (not fault), result
        assert not [note for note in result.notes if "has no method" in note]
    assert check_model(right, (v,), program=pte, n_random=1).ok
    assert not right.state.any()  # the caller's module is unchanged


def test_a_module_without_the_method_is_said_to_be_compared_by_its_forward() -> None:
    result = check_model(nn.Linear(3, 2).eval(), torch.randn(1, 3), method="encode", n_random=0)
    [note] = [one for one in result.notes if "has no method" in one]
    assert result.ok and note.startswith("the module has no method 'encode': the program's")


def test_a_flow_exports_the_method() -> None:
    v = torch.arange(6.0).reshape(2, 3)
    result = check_model(Stored().eval(), v, method="set_state", n_random=0)
    assert result.ok and result.cases[0].comparison is not None
    assert result.cases[0].comparison[0].shape == (6,), result
