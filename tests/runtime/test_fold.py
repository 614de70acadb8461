"""Constant folding at load: equal results, complete traces, nothing that a call can observe."""

import contextlib

import numpy as np
import pytest
import torch

from executorch_c import Error
from tests.exports import export
from tests.plans import PLANNED, Constants, Plan, build, load, reference


class Transposed(torch.nn.Module):
    """A product with a weight that is transposed, scaled and expanded in every call."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.weight = torch.nn.Parameter(torch.randn(30, 20, generator=generator))
        self.register_buffer("table", torch.randn(20, generator=generator))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, self.weight.t() * 2) + self.table.unsqueeze(1).expand(20, 20).sum()


def test_a_transposed_weight() -> None:
    model, x = Transposed(), torch.randn(4, 20, generator=torch.Generator().manual_seed(1))
    pte = export(model, x)
    method = load(pte)
    assert method.memory()["folded"] >= 30 * 20 * 4
    plain = load(pte, kernels="reference")
    assert plain.memory()["folded"] == 0
    for _ in range(2):
        (output,) = method.execute([x.numpy()])
        np.testing.assert_allclose(output, model(x).detach().numpy(), rtol=1e-5, atol=1e-5)
    method.reset()
    np.testing.assert_array_equal(method.execute([x.numpy()])[0], output)


# ---- programs of single instructions: memory that tensors share --------------------------------

X, C = np.array([1, 2, 3, 4], np.float32), np.array([5, 6, 7, 8], np.float32)


class Doubled:
    """t = 2 * constant, in memory of its own or at an address."""

    def __init__(
        self, at: object = PLANNED, x_at: object = PLANNED, is_called: bool = True
    ) -> None:
        self.constants, self.plan = Constants(), Plan()
        self.x, self.y = self.plan.input((4,), at=x_at), self.plan.output((4,))
        self.c = self.plan.constant(self.constants, C)
        self.t = self.plan.tensor((4,), at=at)
        if is_called:
            self.double()

    def double(self) -> None:
        self.plan.call("aten::mul.Scalar_out", self.c, 2.0, self.t)

    def check(self, expected: np.ndarray, folded: int) -> None:
        method = load(build(self.plan, constants=self.constants))
        assert method.memory()["folded"] == folded
        for _ in range(2):
            np.testing.assert_array_equal(method.execute([X])[0], expected)


@pytest.mark.parametrize(
    ("weight", "dims", "shared"), [(0, (1, 0), True), (0, (0, 1), False), (1, (1, 0), False)]
)
def test_equal_calls_share_a_result(weight: int, dims: tuple[int, int], shared: bool) -> None:
    """Each step of a recurrent layer transposes the same weight."""
    plan, constants = Plan(), Constants()
    weights = np.arange(18, dtype=np.float32).reshape(2, 3, 3)
    slots = [plan.constant(constants, w) for w in weights]
    x, y, z = plan.input((3, 3)), plan.output((3, 3)), plan.output((3, 3))
    t, u = plan.tensor((3, 3)), plan.tensor((3, 3))
    plan.call("aten::permute_copy.out", slots[0], [1, 0], t)
    plan.call("aten::permute_copy.out", slots[weight], list(dims), u)
    plan.call("aten::add.out", x, t, 1, y)
    plan.call("aten::mul.Scalar_out", u, 2.0, z)
    method = load(build(plan, constants=constants))
    assert method.memory()["folded"] == (36 if shared else 72)
    ones = np.ones((3, 3), np.float32)
    expected = (ones + weights[0].T, 2 * weights[weight].transpose(dims))
    for traced in (False, True, False):
        with method.tracing() if traced else contextlib.nullcontext() as trace:
            for result, one in zip(method.execute([ones]), expected, strict=True):
                np.testing.assert_array_equal(result, one)
        names = [event.name for event in trace.events] if trace else []
        assert names.count("aten::permute_copy.out") == 2 * traced


def test_memory_that_is_written_again() -> None:
    """Another tensor has the same address, and is written before it is read."""
    one = Doubled(at=64)
    u = one.plan.tensor((4,), at=64)
    one.plan.call("aten::add.out", one.x, one.t, 1, one.y)
    one.plan.call("aten::mul.out", one.y, one.y, u)
    one.plan.call("aten::add.out", u, one.x, 1, one.y)
    one.check((X + 2 * C) ** 2 + X, folded=16)


@pytest.mark.parametrize("between", ["nothing", "a view", "a result"])
def test_a_view_of_the_same_shape(between: str) -> None:
    """The exporter elides a view_copy of a result to its own shape. One such view is constant, too,
    unless another tensor is used in its memory before it is read."""
    one = Doubled(at=64)
    view, other = one.plan.tensor((4,), at=64), one.plan.tensor((2,), at=64)
    z, w = one.plan.tensor((4,)), one.plan.tensor((2,))
    if between == "a view":
        one.plan.call("aten::mul.Scalar_out", other, 1.0, w)
    if between == "a result":
        one.plan.call("aten::slice_copy.Tensor_out", one.x, 0, 0, 2, 1, other)
    one.plan.call("aten::mul.Scalar_out", view, 3.0, z)
    one.plan.call("aten::add.out", z, one.x, 1, one.y)
    expected = 6 * C + X
    if between == "a result":
        expected[:2] = 4 * X[:2]
    one.check(expected, folded=32 if between == "nothing" else 0)


def test_a_view_without_an_instruction() -> None:
    """Another tensor at the same address shows the result, so the call is not folded."""
    one = Doubled(at=64)
    view = one.plan.tensor((2, 2), at=64)
    z = one.plan.tensor((2, 2))
    one.plan.call("aten::mul.Scalar_out", view, 1.0, z)
    one.plan.call("aten::view_copy.out", z, [4], one.y)
    one.check(2 * C, folded=0)


def test_an_input_that_the_result_overwrites() -> None:
    """An input has the same address, and is read after the result is there: as in the reference,
    the input is copied to this address, and has the result's value then."""
    one = Doubled(at=64, x_at=64)
    one.plan.call("aten::add.out", one.x, one.t, 1, one.y)
    one.check(4 * C, folded=0)
    pte = build(one.plan, constants=one.constants)
    np.testing.assert_array_equal(reference(pte, X).outputs[0], 4 * C)


@pytest.mark.parametrize("passes", [None, []])
def test_a_result_that_overwrites_an_output(passes: list[str] | None) -> None:
    """Planned by hand: what is not folded overwrites the end of an output."""
    plan, constants = Plan(), Constants()
    x, y, t = plan.input((4,)), plan.output((4,), at=0), plan.tensor((4,), at=8)
    plan.call("aten::add.out", x, x, 1, y)
    plan.call("aten::mul.Scalar_out", plan.constant(constants, C), 2.0, t)
    pte = build(plan, constants=constants)
    found = load(pte, passes=passes).execute([X])[0]
    np.testing.assert_array_equal(found, [*(2 * X)[:2], *(2 * C)[:2]])


def test_a_result_that_is_written_twice() -> None:
    one = Doubled()
    one.plan.call("aten::add.out", one.t, one.x, 1, one.t)
    one.plan.call("aten::mul.Scalar_out", one.t, 1.0, one.y)
    one.check(2 * C + X, folded=0)


def test_a_view_that_is_written() -> None:
    one = Doubled()
    view = one.plan.tensor((4,), at=None)
    one.plan.call("executorch_prim::et_view.default", one.t, [4], view)
    one.plan.call("aten::add.out", one.t, one.x, 1, view)
    one.plan.call("aten::add.out", view, one.t, 1, one.y)
    one.check(2 * (2 * C + X), folded=0)


def test_an_index_with_none() -> None:
    """None in a list of tensors is not a value of the method."""
    one = Doubled()
    index = one.plan.constant(one.constants, np.array([1, 1], np.int64))
    table = one.plan.constant(one.constants, np.arange(8, dtype=np.float32).reshape(2, 4))
    picked, u = one.plan.tensor((2, 2)), one.plan.tensor((4,))
    one.plan.call("aten::index.Tensor_out", table, [None, index], picked)
    one.plan.call("aten::view_copy.out", picked, [4], u)
    one.plan.call("aten::add.out", one.t, u, 1, one.t)
    one.plan.call("aten::add.out", one.x, u, 1, one.y)
    one.check(X + np.array([1, 1, 5, 5]), folded=32)


def test_an_output() -> None:
    one = Doubled()
    one.plan.plan.outputs.append(one.t)
    one.plan.call("aten::add.out", one.x, one.t, 1, one.y)
    one.check(X + 2 * C, folded=0)


def test_a_number_that_changes() -> None:
    one = Doubled()
    number, u = one.plan.value(1.0), one.plan.tensor((4,))
    first = one.plan.tensor(())
    one.plan.call("aten::select_copy.int_out", one.x, 0, 1, first)
    one.plan.call("aten::_local_scalar_dense", first, number, returns=[])
    one.plan.call("aten::mul.Scalar_out", one.c, number, u)
    one.plan.call("aten::add.out", one.t, u, 1, one.y)
    one.check(2 * C + X[1] * C, folded=16)


def test_a_call_that_fails() -> None:
    """The error is that of the call, not of the load."""
    one = Doubled()
    index = one.plan.constant(one.constants, np.array([9], np.int64))
    picked = one.plan.tensor((1,))
    one.plan.call("aten::index_select.out", one.c, 0, index, picked)
    one.plan.call("aten::add.out", one.t, picked, 1, one.y)
    method = load(build(one.plan, constants=one.constants))
    with pytest.raises(Error, match="index_select"):
        method.execute([X])


def test_results_larger_than_the_file() -> None:
    """A few bytes do not become much memory that stays."""
    plan = Plan()
    y = plan.output((4,))
    plan.input((4,))
    many = plan.tensor((1 << 23,))
    plan.call("aten::full.out", [1 << 23], 1.0, many)
    plan.call("aten::slice_copy.Tensor_out", many, 0, 0, 4, 1, y)
    method = load(build(plan))
    assert method.memory()["folded"] == 0
    np.testing.assert_array_equal(method.execute([X])[0], np.ones(4, np.float32))


def test_a_view_of_another_result() -> None:
    """Another tensor has the same address, and shows what was written there later."""
    one = Doubled(at=64)
    u, view = one.plan.tensor((4,), at=64), one.plan.tensor((2, 2), at=64)
    z = one.plan.tensor((2, 2))
    one.plan.call("aten::add.out", one.x, one.t, 1, one.y)
    one.plan.call("aten::mul.out", one.y, one.y, u)
    one.plan.call("aten::mul.Scalar_out", view, 3.0, z)
    one.plan.call("aten::view_copy.out", z, [4], one.y)
    one.check(3 * (X + 2 * C) ** 2, folded=16)


def test_a_view_of_an_earlier_result() -> None:
    """Another tensor has the same address, and is read before the result is written."""
    one = Doubled(at=64, is_called=False)
    u, view = one.plan.tensor((4,), at=64), one.plan.tensor((2, 2), at=64)
    z, w = one.plan.tensor((2, 2)), one.plan.tensor((4,))
    one.plan.call("aten::mul.out", one.x, one.x, u)
    one.plan.call("aten::mul.Scalar_out", view, 3.0, z)
    one.double()
    one.plan.call("aten::view_copy.out", z, [4], w)
    one.plan.call("aten::add.out", w, one.t, 1, one.y)
    one.check(3 * X * X + 2 * C, folded=16)


def test_a_view_of_an_input() -> None:
    """Another tensor has the address of an input, and is read before the result is written."""
    one = Doubled(at=64, x_at=64, is_called=False)
    view, z, w = one.plan.tensor((2, 2), at=64), one.plan.tensor((2, 2)), one.plan.tensor((4,))
    one.plan.call("aten::mul.Scalar_out", view, 3.0, z)
    one.double()
    one.plan.call("aten::view_copy.out", z, [4], w)
    one.plan.call("aten::add.out", w, one.t, 1, one.y)
    one.check(3 * X + 2 * C, folded=16)


def test_a_view_of_an_input_that_is_read_later() -> None:
    """Another tensor has the address of an input, and shows the result that is written there."""
    one = Doubled(at=64, x_at=64)
    view, z = one.plan.tensor((2, 2), at=64), one.plan.tensor((2, 2))
    one.plan.call("aten::mul.Scalar_out", view, 1.0, z)
    one.plan.call("aten::view_copy.out", z, [4], one.y)
    one.check(2 * C, folded=0)
