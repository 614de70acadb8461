"""Mutable buffers of delegated programs: reset() begins anew, get_state() or not, lost state."""

from typing import Any

import numpy as np
import pytest
import torch

from executorch_c import Method, Runtime
from executorch_c.check import flows
from executorch_c.testing import check_model
from tests.plans import Plan, build, schema

pytestmark = pytest.mark.heavy  # an export needs some seconds

HOLDS = {
    "tosa": "program",
    "vgf": "program",
    "native": "delegate",
    "executor": "delegate",
    "portable": "program",
    "xnnpack": "program",
    "vulkan": "delegate",
    "coreml": "delegate",
}
"""Owners of the state, by flow. get_state() returns the program's, not a delegate's."""
LIMITS: dict[str, Any] = {"coreml": {"rtol": 2e-3, "atol": 2e-3}}
"""Limits of checks: Core ML keeps the state in float16, in which the sums of random inputs are
rounded. Those of `made` are eighths, whose sums are exact."""


class Sum(torch.nn.Module):
    """The sum of all inputs so far, through a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(2, 3))
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        self.total.add_(x)
        return self.layer(self.total)


class Forgetful(Sum):
    def forward(self, x: Any) -> Any:
        return self.layer(self.total + x)


def within_executor(payload: bytes) -> bytes:
    """Return a program whose only instruction is an ExecutorBackend delegate of a portable one."""
    plan = Plan()
    number = plan.delegate("ExecutorBackend", 0)
    plan.append(schema.DelegateCall(number, [plan.input((2, 3), "float32"), plan.output((2, 3))]))
    return build(plan, payloads=[payload])


def made(flow: str, kind: type[Sum] = Sum) -> tuple[Sum, Any, bytes]:
    row = flows.FLOWS["portable" if flow == "executor" else flow]
    if not row.is_installed:
        pytest.skip(f"needs {', '.join(row.packages)}")
    torch.manual_seed(0)
    model, x = kind().eval(), torch.rand(2, 3).mul(8).round() / 8
    exported = torch.export.export(model, (x,))
    pte = bytes(flows._lower(exported, row, "forward").buffer)
    return model, x, within_executor(pte) if flow == "executor" else pte


def turn(method: Method, x: Any) -> list[np.ndarray]:
    return [method.execute([x.numpy() * (i + 1)])[0].copy() for i in range(3)]


@pytest.mark.parametrize("flow", HOLDS)
def test_a_second_turn_equals_the_first(flow: str) -> None:
    model, x, pte = made(flow)
    method = Runtime.get().load_program(pte).load_method("forward")
    first = turn(method, x)
    with torch.no_grad():
        for i, result in enumerate(first):
            np.testing.assert_allclose(result, model(x * (i + 1)).numpy(), rtol=1e-5, atol=1e-6)
    assert not np.array_equal(turn(method, x)[0], first[0])  # the state lasts
    method.reset()
    np.testing.assert_array_equal(turn(method, x), first)


@pytest.mark.parametrize("flow", HOLDS)
def test_a_copy_of_the_state(flow: str) -> None:
    """A program that holds its state goes back to a copy; a delegate's own state is not in it."""
    _, x, pte = made(flow)
    method = Runtime.get().load_program(pte).load_method("forward")
    turn(method, x)
    saved = method.get_state()
    assert saved.size == (24 if HOLDS[flow] == "program" else 0)
    after = turn(method, x)
    method.set_state(saved)
    assert np.array_equal(turn(method, x), after) == (HOLDS[flow] == "program")


@pytest.mark.parametrize("flow", HOLDS)
def test_a_lost_state_is_found(flow: str) -> None:
    """The planted fault is the program of a model that does not write its buffer."""
    _, x, wrong = made(flow, Forgetful)
    torch.manual_seed(0)
    model = Sum().eval()
    limits = LIMITS.get(flow, {})
    result = check_model(model, (x,), program=wrong, n_random=1, **limits)
    assert {case.kind for case in result if case.verdict == "differ"} == {"state"}, str(result)
    right: Any = {"program": made(flow)[2]} if flow == "executor" else {"flow": flow}
    assert check_model(model, (x,), n_random=1, **right, **limits)


def test_a_state_that_quantising_loses_is_found() -> None:
    """PT2E folds the quantised buffer: the graph and the program agree, and keep no state."""
    made("tosa")
    torch.manual_seed(0)
    result = check_model(Sum().eval(), (torch.rand(2, 3),), flow="tosa-int8", n_random=0)
    assert result.verdict == "differ", str(result)
    assert "the quantised graph keeps no state" in " ".join(str(result).split())
