"""Recorded calls: the results of kernels, in every later call, with every change between calls.

`ec_testing_run_op` replays each kernel that `tests/kernels` runs on other elements
(`csrc/testing/run_op.c`).
"""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from executorch_c import InvalidArgumentError, Method, Runtime
from tests.exports import export
from tests.plans import Constants, Plan, build

GENERATOR = np.random.default_rng(0)


def cell(plan: Plan, constants: Constants, x: object, y: object) -> None:
    """Add a step of a gated layer: a product of one row, its halves, and loops on them."""
    weight = plan.constant(constants, GENERATOR.standard_normal((8, 16)).astype(np.float32))
    bias = plan.constant(constants, GENERATOR.standard_normal(16).astype(np.float32))
    inner, gates, mixed = plan.tensor((1, 8)), plan.tensor((1, 16)), plan.tensor((1, 8))
    halves = [plan.tensor((1, 8)) for _ in range(2)]
    plan.call("aten::mul.Scalar_out", x, 0.5, inner)
    plan.call("aten::addmm.out", bias, inner, weight, 1, 1, gates)
    plan.call("aten::split_copy.Tensor_out", gates, 8, 1, plan.value(halves))
    plan.call("aten::sigmoid.out", halves[0], mixed)
    plan.call("aten::tanh.out", halves[1], halves[1])
    plan.call("aten::mul.out", mixed, halves[1], mixed)
    plan.call("aten::add.out", mixed, inner, 2, y)


def method_of(plan: Plan, constants: Constants | None = None, **options: object) -> Method:
    data = build(plan, constants=constants)
    load = Runtime.get().load_program(data).load_method
    return load("forward", delegate_at_load=False, **options)  # type: ignore[arg-type]


def gated() -> tuple[Plan, Constants]:
    plan, constants = Plan(), Constants()
    cell(plan, constants, plan.input((1, 8)), plan.output((1, 8)))
    return plan, constants


@pytest.mark.parametrize("threads", [1, 2])
def test_later_calls_compute_what_the_first_computes(threads: int) -> None:
    plan, constants = gated()
    method = method_of(plan, constants, num_threads=threads)
    assert method.memory()["recorded"] == 0
    for round in range(4):
        x = GENERATOR.standard_normal((1, 8)).astype(np.float32)
        (output,) = method.execute([x])
        assert method.memory()["recorded"] > 0
        (first,) = method_of(plan, constants).execute([x])
        np.testing.assert_array_equal(output, first, err_msg=f"call {round}")


@pytest.mark.parametrize(("columns", "shared"), [(256, True), (200, True), (40, False)])
def test_products_with_one_weight_share_its_panels(columns: int, shared: bool) -> None:
    """Recurrent steps; 200 columns are three panels and a rest, 40 have none."""
    plan, constants = Plan(), Constants()
    values = GENERATOR.standard_normal((128, columns)).astype(np.float32)
    weight = plan.constant(constants, values)
    bias = plan.constant(constants, GENERATOR.standard_normal(columns).astype(np.float32))
    x, outputs = plan.input((1, 128)), [plan.output((1, columns)) for _ in range(3)]
    for i, y in enumerate(outputs):
        row, sums = plan.tensor((1, 128)), plan.tensor((1, columns))
        plan.call("aten::mul.Scalar_out", x, i + 0.5, row)
        plan.call("aten::addmm.out", bias, row, weight, 1, 1, sums)
        plan.call("aten::tanh.out", sums, y)
    method = method_of(plan, constants, num_threads=1)
    for _ in range(4):
        row = GENERATOR.standard_normal((1, 128)).astype(np.float32)
        first = method_of(plan, constants, num_threads=1).execute([row])
        for result, one in zip(method.execute([row]), first, strict=True):
            np.testing.assert_array_equal(result, one)
    panels = 128 * (columns // 64 * 64) * 4
    assert (method.memory()["recorded"] > max(panels, 40_000)) == shared


@pytest.mark.parametrize("depth", [5, 64, 200])
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("columns", [64, 66, 120, 129, 200, 300])
def test_products_of_few_rows(rows: int, columns: int, depth: int) -> None:
    """Three products with one weight, whose rows are computed together or alone: the bits of calls
    that are not recorded, whatever the rest of the columns and the memory of the result."""
    plan, constants = Plan(), Constants()
    weight = GENERATOR.standard_normal((depth, columns)).astype(np.float32)
    bias = GENERATOR.standard_normal(columns).astype(np.float32)
    w, b = plan.constant(constants, weight), plan.constant(constants, bias)
    x = plan.input((rows, depth))
    outputs = [plan.output((rows, columns)) for _ in range(3)]
    for i, y in enumerate(outputs):
        row, sums = plan.tensor((rows, depth)), plan.tensor((rows, columns))
        plan.call("aten::mul.Scalar_out", x, i + 0.5, row)
        if i == 1:
            plan.call("aten::mm.out", row, w, sums)
        else:
            plan.call("aten::addmm.out", b, row, w, 1, 1, sums)
        plan.call("aten::mul.Scalar_out", sums, 1.0, y)
    method = method_of(plan, constants, num_threads=1)
    for k in range(3):
        a = GENERATOR.standard_normal((rows, depth)).astype(np.float32)
        first = method_of(plan, constants, num_threads=2, passes=["fold"]).execute([a])
        for i, (result, one) in enumerate(zip(method.execute([a]), first, strict=True)):
            np.testing.assert_array_equal(result, one, err_msg=f"call {k}")
            expected = np.float64(a) * (i + 0.5) @ weight + (0 if i == 1 else bias)
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("different", [False, True])
def test_a_batch_of_one_matrix(different: bool) -> None:
    """The weight of a linear layer, expanded for each step; in a batch of others each is read."""
    plan, constants = Plan(), Constants()
    weights = np.repeat(GENERATOR.standard_normal((1, 24, 40)).astype(np.float32), 6, 0)
    weights[5, 23, 39] += different
    x, y = plan.input((6, 2, 24)), plan.output((6, 2, 40))
    t = plan.tensor((6, 2, 40))
    plan.call("aten::bmm.out", x, plan.constant(constants, weights), t)
    plan.call("aten::mul.Scalar_out", t, 1.0, y)
    method = method_of(plan, constants)
    for _ in range(3):
        a = GENERATOR.standard_normal((6, 2, 24)).astype(np.float32)
        (result,) = method.execute([a])
        np.testing.assert_allclose(result, np.float64(a) @ weights, rtol=1e-4, atol=1e-5)


def test_reference_kernels_record_nothing() -> None:
    method = method_of(*gated(), kernels="reference")
    for _ in range(2):
        method.execute([np.ones((1, 8), np.float32)])
    assert method.memory()["recorded"] == 0


def test_traces_between_calls() -> None:
    method, x = method_of(*gated()), np.ones((1, 8), np.float32)
    results, names = [], []
    for traced in (True, False, True, False):
        if traced:
            with method.tracing(values=True) as trace:
                results.append(method.execute([x])[0])
            names.append([event.name for event in trace.events])
        else:
            results.append(method.execute([x])[0])
    assert names[0] == names[1] and "aten::sigmoid.out" in names[1]
    for rows in results[1:]:
        np.testing.assert_array_equal(rows, results[0])


def test_a_memory_limit_leaves_calls_unrecorded() -> None:
    plan, constants = gated()
    x = np.ones((1, 8), np.float32)
    free = method_of(plan, constants)
    expected = free.execute([x])[0]
    used = free.memory()
    limit = sum(used.values()) + 20_000
    method = method_of(plan, constants, max_bytes=limit)
    for _ in range(3):
        np.testing.assert_array_equal(method.execute([x])[0], expected)


def test_an_error_of_a_loop_is_reported_in_each_call() -> None:
    plan = Plan()
    x, y = plan.input((4,), "int32"), plan.output((4,), "int32")
    one, two = plan.tensor((4,), "int32"), plan.tensor((4,), "int32")
    plan.call("aten::mul.Scalar_out", x, 1, one)
    plan.call("aten::floor_divide.out", one, one, two)
    plan.call("aten::mul.Scalar_out", two, 3, y)
    method = method_of(plan)
    ones, zeros = np.ones(4, np.int32), np.array([1, 0, 1, 1], np.int32)
    for _ in range(3):
        np.testing.assert_array_equal(method.execute([ones])[0], 3 * ones)
        with pytest.raises(InvalidArgumentError, match="instruction 1.*division by zero"):
            method.execute([zeros])


class Counter(torch.nn.Module):
    """State that each call changes by small calls."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(1, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_((x * 0.5).tanh())
        return torch.cat([self.total * 2, self.total.flip(0)], 1)


class Looped(torch.nn.Module):
    """Branches that take turns."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def yes(v: torch.Tensor) -> torch.Tensor:
            return (v * 2).sigmoid() + v

        def no(v: torch.Tensor) -> torch.Tensor:
            return (v - 1).tanh() * v

        return torch.cond(x.sum() > 0, yes, no, (x,))


@pytest.mark.parametrize("make", [Counter, Looped])
def test_state_and_branches(make: Callable[[], torch.nn.Module]) -> None:
    model = make().eval()
    inputs = [torch.randn(1, 8, generator=torch.Generator().manual_seed(i)) for i in range(6)]
    program = Runtime.get().load_program(export(make(), inputs[0]))
    method = program.load_method("forward", delegate_at_load=False)
    for x in inputs:
        expected = model(x).detach().numpy()
        np.testing.assert_allclose(method.execute([x.numpy()])[0], expected, rtol=1e-5, atol=1e-6)
    assert method.memory()["recorded"] > 0
    if make is Counter:
        method.reset()
        (output,) = method.execute([inputs[0].numpy()])
        expected = make()(inputs[0]).numpy()
        np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-6)
