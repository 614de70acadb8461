"""Safe softmax as one call: equal results, complete traces, and no fusion where a call can tell."""

import warnings

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from executorch_c import Method, Runtime
from tests.exports import export
from tests.plans import Plan, V, build

LEFT = ("aten::_softmax.out", "fused with other calls")


class Attention(torch.nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, k * 2, attn_mask=mask)


def arrays(rows: int = 9) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    q, k = (rng.standard_normal((2, 3, rows, 16)).astype(np.float32) for _ in range(2))
    mask = np.where(rng.random((2, 1, rows, rows)) < 0.4, -np.inf, 0).astype(np.float32)
    mask[0, 0, 2] = mask[1, 0, 0] = -np.inf
    return [q, k, mask]


def is_fused(method: Method) -> bool:
    return LEFT in [(row["operator"], row["reason"]) for row in method.undelegated()]


def attention() -> tuple[bytes, list[np.ndarray]]:
    inputs = arrays()
    tensors = tuple(torch.from_numpy(x) for x in inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return export(Attention(), *tensors), inputs


def test_attention_with_rows_of_minus_infinity() -> None:
    data, inputs = attention()
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


class Safe:
    """The seven calls on x, which is an input times one; every tensor has memory of its own."""

    shape, number, dim = (70, 60), -np.inf, -1

    def __init__(self) -> None:
        self.plan = plan = Plan()
        row = (*self.shape[:-1], 1)
        self.input, self.x = plan.input(self.shape), plan.tensor(self.shape)
        self.softmax, self.zeros = plan.tensor(self.shape), plan.tensor(self.shape)
        self.equal, self.finite = (plan.tensor(self.shape, "bool") for _ in range(2))
        self.any, self.none = (plan.tensor(row, "bool") for _ in range(2))
        self.out, self.y = plan.tensor(self.shape), plan.output(self.shape)

    def calls(self, between: V | None = None) -> None:
        plan = self.plan
        plan.call("aten::mul.Scalar_out", self.input, 1.0, self.x)
        plan.call("aten::_softmax.out", self.x, -1, False, self.softmax)
        plan.call("aten::eq.Scalar_out", self.x, self.number, self.equal)
        plan.call("aten::logical_not.out", self.equal, self.finite)
        plan.call("aten::any.out", self.finite, self.dim, True, self.any)
        plan.call("aten::logical_not.out", self.any, self.none)
        plan.call("aten::full_like.out", self.softmax, 0, None, self.zeros)
        if between is not None:
            plan.call("aten::mul.Scalar_out", self.softmax, 3.0, between)
        plan.call("aten::where.self_out", self.none, self.zeros, self.softmax, self.out)
        plan.call("aten::mul.Scalar_out", self.out, 2.0, self.y)

    def check(self, fused: bool, also: str = "") -> None:
        x = np.random.default_rng(1).standard_normal(self.shape).astype(np.float32)
        x[x > 1] = -np.inf
        x[1] = x[4] = -np.inf
        x[2, 3], x[3, 5] = np.nan, np.inf
        x[4, 7] = np.nan
        program = Runtime.get().load_program(build(self.plan))
        method = program.load_method("forward")
        plain = program.load_method("forward", kernels="reference")
        assert is_fused(method) == fused, also
        for one in (method, program.load_method("forward", delegate_at_load=False)):
            for _ in range(2):
                result, want = one.execute([x]), plain.execute([x])
                for a, b in zip(result, want, strict=True):
                    np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-7, equal_nan=True)


def test_nan_and_infinity() -> None:
    safe = Safe()
    safe.calls()
    safe.check(True)


def test_another_number_or_dimension() -> None:
    for attribute, value in (("number", 0.0), ("dim", 0)):
        safe = type("Other", (Safe,), {attribute: value})()
        if attribute == "dim":
            row = (1, *safe.shape[1:])
            safe.any, safe.none = (safe.plan.tensor(row, "bool") for _ in range(2))
        safe.calls()
        safe.check(False, attribute)


@pytest.mark.parametrize("name", ["softmax", "equal", "finite", "zeros"])
def test_a_result_that_is_an_output(name: str) -> None:
    safe = Safe()
    safe.plan.take(getattr(safe, name))
    safe.calls()
    safe.check(False, name)


def test_a_call_between() -> None:
    safe = Safe()
    between = safe.plan.output(safe.shape)
    safe.calls(between)
    safe.check(False)


def test_a_result_that_is_read_later() -> None:
    safe = Safe()
    safe.calls()
    later = safe.plan.output(safe.shape)
    safe.plan.call("aten::mul.Scalar_out", safe.softmax, 3.0, later)
    safe.check(False)


@pytest.mark.parametrize("distance, fused", [(0, True), (64, False)])
def test_an_output_in_the_memory_of_the_scores(distance: int, fused: bool) -> None:
    safe = Safe()
    safe.x = safe.plan.tensor(safe.shape)
    place = safe.plan.plan.values[safe.x].val.allocation_info
    safe.out = safe.plan.tensor(safe.shape, at=place.memory_offset_low + distance)
    safe.calls()
    safe.check(fused)


# ---- after a softmax of a delegate ---------------------------------------------------------------


class Tail(Safe):
    """The six calls after a softmax, whose result is an input times one."""

    order = ("equal", "zeros", "finite", "any", "none", "where")

    def __init__(self) -> None:
        super().__init__()
        self.second = self.plan.input(self.shape)

    def calls(self, between: V | None = None) -> None:
        plan = self.plan
        plan.call("aten::mul.Scalar_out", self.input, 1.0, self.x)
        plan.call("aten::mul.Scalar_out", self.second, 1.0, self.softmax)
        rows = {
            "equal": ("aten::eq.Scalar_out", self.x, self.number, self.equal),
            "finite": ("aten::logical_not.out", self.equal, self.finite),
            "any": ("aten::any.out", self.finite, self.dim, True, self.any),
            "none": ("aten::logical_not.out", self.any, self.none),
            "zeros": ("aten::full_like.out", self.softmax, 0, None, self.zeros),
            "where": ("aten::where.self_out", self.none, self.zeros, self.softmax, self.out),
        }
        for name in self.order:
            if name == "where" and between is not None:
                plan.call("aten::mul.Scalar_out", self.softmax, 3.0, between)
            plan.call(*rows[name])
        plan.call("aten::mul.Scalar_out", self.out, 2.0, self.y)

    def check(self, fused: bool, also: str = "") -> None:
        rng = np.random.default_rng(2)
        x, y = (rng.standard_normal(self.shape).astype(np.float32) for _ in range(2))
        x[x > 1] = -np.inf
        x[1] = x[4] = x[-1] = -np.inf
        x[2, 3], x[3, 5], x[4, 7] = np.nan, np.inf, np.nan
        x[6], x[7] = -np.inf, -np.inf
        x[6, -1] = x[7, 0] = 0.5
        y[0, 0], y[1, 1], y[5] = np.nan, np.nan, np.inf
        program = Runtime.get().load_program(build(self.plan))
        plain = program.load_method("forward", kernels="reference")
        want = plain.execute([x, y])
        left = ("aten::any.out", "fused with other calls")
        for threads in (1, 2):
            method = program.load_method("forward", num_threads=threads)
            reasons = [(row["operator"], row["reason"]) for row in method.undelegated()]
            assert (left in reasons) == fused, also
            for _ in range(2):
                for a, b in zip(method.execute([x, y]), want, strict=True):
                    np.testing.assert_array_equal(a, b, also)
        with method.tracing() as trace:
            method.execute([x, y])
        assert "aten::any.out" in [event.name for event in trace.events]


def test_the_calls_after_a_softmax_of_a_delegate() -> None:
    for order in (Tail.order, ("equal", "finite", "any", "none", "zeros", "where")):
        for shape in ((70, 60), (600, 64)):
            tail = type("Other", (Tail,), {"order": order, "shape": shape})()
            tail.calls()
            tail.check(True, f"{order} {shape}")


def test_calls_after_a_softmax_that_cannot_be_fused() -> None:
    for attribute, value in (("number", 0.0), ("dim", 0), ("between", True), ("later", True)):
        tail = type("Other", (Tail,), {attribute: value})()
        if attribute == "dim":
            row = (1, *tail.shape[1:])
            tail.any, tail.none = (tail.plan.tensor(row, "bool") for _ in range(2))
        if attribute == "later":
            tail.plan.take(tail.finite)
        tail.calls(tail.plan.output(tail.shape) if attribute == "between" else None)
        tail.check(False, attribute)


@pytest.mark.parametrize("of", ["x", "softmax"])
@pytest.mark.parametrize("distance, fused", [(0, True), (64, False)])
def test_a_result_in_the_memory_of_operands(of: str, distance: int, fused: bool) -> None:
    tail = Tail()
    setattr(tail, of, tail.plan.tensor(tail.shape))
    place = tail.plan.plan.values[getattr(tail, of)].val.allocation_info
    tail.out = tail.plan.tensor(tail.shape, at=place.memory_offset_low + distance)
    tail.calls()
    tail.check(fused)
