"""Moves: copies into memory, aliases of tensors without memory, numbers that change kind."""

import numpy as np
import pytest

import executorch_c
from executorch_c import NotSupportedError
from tests.alone import alone
from tests.plans import Plan, V, both, build, load

ONES = np.ones(4, np.float32)


def test_move_copies_into_memory() -> None:
    plan = Plan()
    x = plan.input((4,))
    a, b = plan.tensor((4,)), plan.output((4,))
    plan.call("aten::add.out", x, x, 1, a)
    plan.move(a, b)
    plan.call("aten::add.out", a, x, 1, a)  # the moved value stays
    plan.take(a)
    outputs = load(build(plan)).execute([ONES])
    np.testing.assert_array_equal(outputs, [2 * ONES, 3 * ONES])


def test_move_into_a_placeholder() -> None:
    """A target without memory becomes an alias of the source."""
    plan = Plan()
    x, y = plan.input((4,)), plan.output((4,))
    slot = plan.tensor((4,), at=None)
    plan.move(x, slot)
    plan.call("aten::add.out", slot, x, 1, y)
    pte = build(plan)
    np.testing.assert_array_equal(both(pte, ONES), [2 * ONES])
    np.testing.assert_array_equal(load(pte)(3 * ONES), 6 * ONES)


def test_move_to_an_output_without_memory() -> None:
    plan = Plan()
    x = plan.input((4,))
    slot = plan.output((4,), at=None)
    plan.move(x, slot)
    method = load(build(plan))
    value = ONES.copy()
    result = method(value)
    np.testing.assert_array_equal(result, value)
    assert not np.shares_memory(result, value)


def test_move_of_dynamic_shapes() -> None:
    plan = Plan()
    x = plan.input((8,), dynamism=1)
    y = plan.output((8,), dynamism=1)
    plan.move(x, y)
    method = load(build(plan))
    for n in (8, 3, 0, 5):
        np.testing.assert_array_equal(method(np.arange(n, dtype=np.float32)), np.arange(n))


def test_a_move_does_not_make_an_output_an_input() -> None:
    """A slot keeps its tensor: a resize under one name sets the shape under the other."""
    count = 2_000_000

    def run() -> int:
        plan = Plan()
        bounds = plan.tensor((count,), "int32", dynamism=1)
        slot = plan.tensor((count,), "int32", at=None, dynamism=1)
        values = plan.input((count,), "int64")
        plan.plan.outputs.append(bounds)
        plan.call("aten::full.out", [4], 9, bounds)
        plan.move(bounds, slot)
        plan.call("aten::searchsorted.Tensor_out", slot, values, True, False, None, None, bounds)
        output = load(build(plan)).execute([np.full(count, 10, np.int64)])[0]
        return int((output != 4).sum())

    assert alone(run) == 0


def test_a_move_does_not_make_an_output_an_input_of_a_batch() -> None:
    """Scratch memory for the old shape is not filled with rows of the new one."""
    n, columns = 4, 200_000

    def run() -> tuple[int, ...]:
        plan = Plan()
        factors = plan.tensor((n, columns), dynamism=1)
        slot = plan.tensor((n, columns), at=None, dynamism=1)
        right, pivots = plan.input((n, columns)), plan.input((n,), "int32")
        plan.plan.outputs.append(factors)
        plan.call("aten::full.out", [n, n], 1.5, factors)
        plan.move(factors, slot)
        plan.call("aten::linalg_ldl_solve.out", slot, pivots, right, False, factors)
        values = np.ones((n, columns), np.float32), np.arange(1, n + 1, dtype=np.int32)
        return load(build(plan)).execute(list(values))[0].shape

    assert alone(run) == (n, columns)


def test_a_move_into_a_view_is_undone_after_the_call() -> None:
    """Otherwise the view would point to the first call's copy of an input, which the second call
    frees."""
    count = 1 << 18

    def run() -> float:
        plan = Plan()
        total = plan.tensor((count,))
        slot = plan.tensor((count,), at=None)
        x = plan.input((4 * count,), at=None, dynamism=1)
        plan.call("aten::add.out", total, total, 1, total)
        plan.call("aten::add.out", total, total, 1, plan.output((count,)))
        plan.move(total, slot)
        plan.call("executorch_prim::et_view.default", x, [-1], slot)
        method = load(build(plan))
        method(np.full(count, 7, np.float32))
        with pytest.raises(executorch_c.Error, match="instruction 3.*fixes it to"):
            method(np.full(2 * count, 7, np.float32))
        return float(np.abs(method(np.full(count, 7, np.float32))).max())

    assert alone(run) == 0


def test_a_move_does_not_change_a_fixed_shape() -> None:
    plan = Plan()
    x, y = plan.input((8,), dynamism=1), plan.output((8,), dynamism=1)
    slot = plan.tensor((8,), at=None)
    plan.move(x, slot)
    plan.call("aten::add.out", slot, slot, 1, y)
    method = load(build(plan))
    np.testing.assert_array_equal(method(np.ones(8, np.float32)), np.full(8, 2))
    with pytest.raises(NotSupportedError, match=r"instruction 0: shape \(4,\).*fixes it to \(8,\)"):
        method(ONES)


def test_moves_in_chains_and_loops() -> None:
    """Aliases of aliases, an alias moved to its source, and one that changes in each iteration."""
    plan = Plan()
    x, y = plan.input((8,), dynamism=1), plan.output((8,), dynamism=1)
    names = [plan.tensor((8,), at=None, dynamism=1) for _ in range(3)]
    a, b = plan.tensor((8,), dynamism=1), plan.tensor((8,), dynamism=1)
    done, i = plan.value(False), plan.value(0)
    plan.call("aten::mul.Scalar_out", x, 1.0, a)
    plan.move(a, names[0])
    head = plan.move(names[0], names[1])
    plan.move(names[1], names[2])
    plan.move(names[2], names[2])
    plan.call("aten::add.out", names[2], x, 1, b)
    plan.move(b, a)  # a copy, visible under all aliases
    plan.call("executorch_prim::add.Scalar", i, 1, i)
    plan.call("executorch_prim::ge.Scalar", i, 3, done)
    plan.jump_false(done, head)
    plan.call("aten::mul.Scalar_out", names[0], 1.0, y)
    method = load(build(plan))
    for size in (8, 3, 0, 5):
        np.testing.assert_array_equal(method(np.ones(size, np.float32)), np.full(size, 4))


def test_a_move_of_an_unbound_tensor_outlives_its_growth() -> None:
    """The alias shows a block that the source has left; in the next call the source has room."""
    plan = Plan()
    x, y = plan.input((4,), dynamism=1), plan.output((4,), dynamism=2, at=None)
    grows = plan.tensor((4,), at=None, dynamism=2)
    slot = plan.tensor((4,), at=None, dynamism=1)
    plan.call("aten::mul.Scalar_out", x, 3.0, grows)
    plan.move(grows, slot)
    plan.call("aten::full.out", [100_000], 1.0, grows)
    plan.call("aten::add.out", slot, x, 1, y)
    method = load(build(plan))
    for wanted in (4, 2, 2):
        np.testing.assert_array_equal(method(ONES), wanted * ONES)


def test_moved_numbers_change_kind() -> None:
    """A slot takes the kind of the moved or computed value."""
    plan = Plan()
    slots = [plan.value(0), plan.value(False), plan.value(0.0)]
    for slot, value in zip(slots, (2.5, 7, True), strict=True):
        plan.move(plan.value(value), slot)
    plan.take(*slots)
    method = load(build(plan))
    for _ in range(2):
        assert [repr(value) for value in method.execute([])] == ["2.5", "7", "True"]


def test_moved_items_of_lists() -> None:
    """A list of ints is read in each call: its items are slots."""
    plan = Plan()
    x = plan.input((2, 3))
    size = plan.value(0)
    shape = V(plan.value([3]))
    plan.plan.values[shape].val.items.append(int(size))
    plan.move(plan.value(2), size)
    plan.call("aten::view_copy.out", x, shape, plan.output((3, 2)))
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    (result,) = both(build(plan), value)
    np.testing.assert_array_equal(result, value.reshape(3, 2))
