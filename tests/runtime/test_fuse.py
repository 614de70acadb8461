"""Safe softmax as one call: equal results, complete traces, and no fusion where a call can tell."""

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from executorch_c import Method, Runtime
from tests.exports import export
from tests.plans import Plan, V, build


class Attention(torch.nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, k * 2, attn_mask=mask)


def arrays(rows: int = 9) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    q, k = (rng.standard_normal((2, 3, rows, 16)).astype(np.float32) for _ in range(2))
    mask = np.where(rng.random((2, 1, rows, rows)) < 0.4, -np.inf, 0).astype(np.float32)
    mask[0, 0, 2] = mask[1, 0, 0] = -np.inf
    return [q, k, mask]


def is_fused(method: Method, operator: str = "aten::_softmax.out") -> bool:
    reasons = [(row["operator"], row["reason"]) for row in method.undelegated()]
    return (operator, "fused with other calls") in reasons


def test_attention_with_rows_of_minus_infinity() -> None:
    inputs = arrays()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = export(Attention(), *(torch.from_numpy(x) for x in inputs))
    program = Runtime.get().load_program(data)
    method = program.load_method("forward")
    plain = program.load_method("forward", kernels="reference")
    assert is_fused(method) and not is_fused(plain)
    want = Attention()(*(torch.from_numpy(x) for x in inputs)).numpy()
    assert (want[0, :, 2] == 0).all() and np.isfinite(want).all()
    for threads in (1, 2):
        one = program.load_method("forward", num_threads=threads, delegate_at_load=False)
        for _ in range(2):
            np.testing.assert_allclose(one.execute(inputs)[0], want, rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(method.execute(inputs)[0], want, rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(plain.execute(inputs)[0], want, rtol=2e-6, atol=2e-6)


# ---- single calls --------------------------------------------------------------------------------

ORDERS = (
    ("equal", "finite", "any", "none", "zeros"),
    ("equal", "zeros", "finite", "any", "none"),
)


class Safe:
    """The seven calls on x, which is an input times one; every tensor has memory of its own.
    `tail`: the six calls after the softmax, which is another input times one, as a delegate's."""

    shape, number, dim, order = (70, 60), -np.inf, -1, ORDERS[0]

    def __init__(self, tail: bool, **changes: Any) -> None:
        vars(self).update(changes)
        self.tail, self.plan = tail, Plan()
        plan, row = self.plan, list(self.shape)
        row[self.dim] = 1
        self.inputs = [plan.input(self.shape) for _ in range(1 + tail)]
        self.x, self.softmax, self.zeros, self.out = (plan.tensor(self.shape) for _ in range(4))
        self.equal, self.finite = (plan.tensor(self.shape, "bool") for _ in range(2))
        self.any, self.none = (plan.tensor(row, "bool") for _ in range(2))
        self.y = plan.output(self.shape)

    def calls(self, between: V | None = None) -> None:
        plan = self.plan
        plan.call("aten::mul.Scalar_out", self.inputs[0], 1.0, self.x)
        if self.tail:
            plan.call("aten::mul.Scalar_out", self.inputs[1], 1.0, self.softmax)
        else:
            plan.call("aten::_softmax.out", self.x, -1, False, self.softmax)
        rows = {
            "equal": ("aten::eq.Scalar_out", self.x, self.number, self.equal),
            "finite": ("aten::logical_not.out", self.equal, self.finite),
            "any": ("aten::any.out", self.finite, self.dim, True, self.any),
            "none": ("aten::logical_not.out", self.any, self.none),
            "zeros": ("aten::full_like.out", self.softmax, 0, None, self.zeros),
        }
        for name in self.order:
            plan.call(*rows[name])
        if between is not None:
            plan.call("aten::mul.Scalar_out", self.softmax, 3.0, between)
        plan.call("aten::where.self_out", self.none, self.zeros, self.softmax, self.out)
        plan.call("aten::mul.Scalar_out", self.out, 2.0, self.y)

    def arrays(self) -> list[np.ndarray]:
        rng = np.random.default_rng(2)
        x, y = (rng.standard_normal(self.shape).astype(np.float32) for _ in range(2))
        x[x > 1] = -np.inf
        x[1] = x[4] = x[6] = x[7] = x[-1] = -np.inf
        x[2, 3], x[3, 5], x[4, 7], x[6, -1], x[7, 0] = np.nan, np.inf, np.nan, 0.5, 0.5
        y[0, 0], y[1, 1], y[5] = np.nan, np.nan, np.inf
        return [x, y][: 1 + self.tail]

    def check(self, fused: bool) -> None:
        inputs, program = self.arrays(), Runtime.get().load_program(build(self.plan))
        want = program.load_method("forward", kernels="reference").execute(inputs)
        operator = "aten::any.out" if self.tail else "aten::_softmax.out"
        limits = {} if self.tail else {"rtol": 2e-6, "atol": 1e-7}
        for options in ({"num_threads": 1}, {"num_threads": 2}, {"delegate_at_load": False}):
            method = program.load_method("forward", **options)
            if "num_threads" in options:
                assert is_fused(method, operator) == fused
            for _ in range(2):
                for a, b in zip(method.execute(inputs), want, strict=True):
                    np.testing.assert_allclose(a, b, **{"rtol": 0, **limits})
        with method.tracing() as trace:
            method.execute(inputs)
        assert "aten::any.out" in [event.name for event in trace.events]


@pytest.mark.parametrize("shape", [(70, 60), (600, 64)])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("tail", [False, True])
def test_orders_of_the_calls(tail: bool, order: tuple[str, ...], shape: tuple[int, int]) -> None:
    """The second order is that of exports with a delegate."""
    safe = Safe(tail, order=order, shape=shape)
    safe.calls()
    safe.check(tail or order == ORDERS[0])


@pytest.mark.parametrize("change", [{"number": 0.0}, {"dim": 0}])
@pytest.mark.parametrize("tail", [False, True])
def test_another_number_or_dimension(tail: bool, change: dict[str, Any]) -> None:
    safe = Safe(tail, **change)
    safe.calls()
    safe.check(False)


@pytest.mark.parametrize("name", ["softmax", "equal", "finite", "zeros"])
@pytest.mark.parametrize("tail", [False, True])
def test_a_result_that_is_an_output(tail: bool, name: str) -> None:
    safe = Safe(tail)
    safe.plan.take(getattr(safe, name))
    safe.calls()
    safe.check(tail and name == "softmax")


@pytest.mark.parametrize("tail", [False, True])
def test_a_call_between(tail: bool) -> None:
    safe = Safe(tail)
    safe.calls(safe.plan.output(safe.shape))
    safe.check(False)


@pytest.mark.parametrize("tail", [False, True])
def test_a_result_that_is_read_later(tail: bool) -> None:
    safe = Safe(tail)
    safe.calls()
    safe.plan.call("aten::mul.Scalar_out", safe.softmax, 3.0, safe.plan.output(safe.shape))
    safe.check(tail)


@pytest.mark.parametrize("tail, operand", [(False, "x"), (True, "x"), (True, "softmax")])
@pytest.mark.parametrize("distance, fused", [(0, True), (64, False)])
def test_an_output_in_the_memory_of_an_operand(
    tail: bool, operand: str, distance: int, fused: bool
) -> None:
    safe = Safe(tail)
    setattr(safe, operand, safe.plan.tensor(safe.shape))
    at = safe.plan.memory(getattr(safe, operand))[0] + distance
    safe.out = safe.plan.tensor(safe.shape, at=at)
    safe.calls()
    safe.check(fused)
