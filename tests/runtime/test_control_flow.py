"""Jumps, loops and numbers: torch.cond and map from the exporter, other programs by hand."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import executorch_c
from executorch_c import InvalidProgramError, Runtime
from tests.exports import export
from tests.models import zoo
from tests.plans import Constants, Plan, both, build, load, reference
from tests.single_op import Arg, Out, SingleOps, Slot

ONES = np.ones(4, np.float32)


# ---- from the exporter -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cond", "cond_twice", "map_loop"])
@pytest.mark.parametrize("kernels", ["default", "reference"])
def test_exported_control_flow(name: str, kernels: Any) -> None:
    exported = zoo.load(name)
    method = Runtime.get().load_program(exported.pte).load_method("forward", kernels=kernels)
    for call in exported.calls["forward"] * 2:
        for output, wanted in zip(method.execute(call.inputs), call.outputs, strict=True):
            np.testing.assert_allclose(output, wanted, rtol=1e-5, atol=1e-6)


def test_the_reference_overwrites_a_result_of_the_first_cond() -> None:
    """Its MoveCall creates an alias of memory that the planner gives to the next branch."""
    exported = zoo.load("cond_twice")
    wrong = 0
    for call in exported.calls["forward"]:
        outputs = reference(exported.pte, *call.inputs).outputs or [np.nan] * len(call.outputs)
        wrong += not all(map(np.allclose, outputs, call.outputs))
    assert wrong


def test_cond_on_a_number() -> None:
    def run(x: Tensor) -> Tensor:
        return torch.cond(x.shape[0] > 3, lambda x: x + 1, lambda x: x * 2, (x,))

    dim = {0: torch.export.Dim("n", min=2, max=8)}
    method = load(export(run, torch.ones(5), dynamic_shapes=((dim,),)))
    for n in (8, 3, 4, 2):
        x = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(method(x), x + 1 if n > 3 else x * 2)


def test_cond_that_returns_its_operand() -> None:
    """A branch without instructions: the move copies the input."""

    def run(x: Tensor, y: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x, y: x.clone(), lambda x, y: x + y, (x, y))

    method = load(export(run, torch.ones(4), torch.ones(4)))
    for sign in (1, -1, 1):
        x = sign * ONES
        kept = x.copy()
        result = method(x, ONES)
        np.testing.assert_array_equal(result, x if sign > 0 else x + ONES)
        assert not np.shares_memory(result, x)
        np.testing.assert_array_equal(x, kept)


def test_nested_cond() -> None:
    def run(x: Tensor) -> Tensor:
        def inner(x: Tensor) -> Tensor:
            return torch.cond(x.sum() > 10, lambda x: x - 1, lambda x: x + 1, (x,))

        return torch.cond(x.sum() > 0, inner, lambda x: x.abs(), (x,))

    method = load(export(run, torch.ones(4)))
    for scale in (1.0, 5.0, -1.0, 0.5):
        x = torch.full((4,), scale)
        np.testing.assert_array_equal(method(x.numpy()), run(x).numpy())


# ---- jumps -----------------------------------------------------------------------------------


def choice(plan: Plan, condition: Any) -> bytes:
    """Return a method that returns 1 if the condition holds, else 2."""
    result = plan.value(2)
    plan.jump_false(condition, len(plan.code) + 2)
    plan.call("executorch_prim::add.Scalar", 1, 0, result)
    plan.take(result)
    return build(plan)


@pytest.mark.parametrize("value", [True, False])
def test_jump_on_a_bool(value: bool) -> None:
    assert both(choice(Plan(), value)) == [1 if value else 2]


@pytest.mark.parametrize("value", [3, 1, 0, -1, 0.5, 0.0, -0.0])
def test_jump_on_a_number(value: float) -> None:
    """Truth as in Python. The reference accepts bools only."""
    assert load(choice(Plan(), value)).execute([]) == [1 if value else 2]


@pytest.mark.parametrize("value", ["text", None, [1], [True]])
def test_jump_on_something_else(value: Any) -> None:
    with pytest.raises(InvalidProgramError, match="instruction 0: the condition is a"):
        load(choice(Plan(), value))


TENSORS = [[True, True, True], [True, False, True], [False] * 3, [], True, False]


@pytest.mark.parametrize("value", TENSORS, ids=str)
def test_jump_on_a_tensor(value: Any) -> None:
    """True if all elements are, as in the reference; true for an empty tensor."""
    array = np.array(value, bool)
    plan = Plan()
    pte = choice(plan, plan.input(array.shape, "bool"))
    assert load(pte).execute([array]) == [1 if array.all() else 2]
    if array.size:
        assert both(pte, array) == [1 if array.all() else 2]


def test_jump_on_a_tensor_of_another_dtype() -> None:
    plan = Plan()
    with pytest.raises(InvalidProgramError, match="Tensor of another dtype than bool"):
        load(choice(plan, plan.input((1,), "int32")))


def test_loop() -> None:
    """A loop with a counter: y = 2 ** n * x, n from a tensor."""
    plan = Plan()
    x, n, y = plan.input((4,)), plan.input((), "int64"), plan.output((4,))
    limit, i, done = plan.value(0), plan.value(0), plan.value(False)
    plan.call("aten::_local_scalar_dense", n, limit, returns=[])
    plan.call("aten::mul.Scalar_out", x, 1.0, y)
    head = plan.call("executorch_prim::ge.Scalar", i, limit, done)
    plan.call("executorch_prim::sym_not.Scalar", done, done)
    plan.jump_false(done, head + 6)
    plan.call("aten::add.out", y, y, 1, y)
    plan.call("executorch_prim::add.Scalar", i, 1, i)
    plan.jump_false(False, head)
    plan.take(i)
    method = load(build(plan))
    for count in (0, 1, 5, 3):
        y_found, i_found = method.execute([ONES, np.array(count)])
        np.testing.assert_array_equal(y_found, 2**count * ONES)
        assert i_found == count


def test_jump_over_the_writer_of_an_output() -> None:
    """A skipped output would have the value of the last call."""
    for planned in (True, False):
        plan = Plan()
        x, go = plan.input((4,)), plan.input((), "bool")
        y = plan.output((4,), **({} if planned else {"at": None}))
        plan.jump_false(go, 2)
        plan.call("aten::add.out", x, x, 1, y)
        method = load(build(plan))
        np.testing.assert_array_equal(method(ONES, np.array(True)), 2 * ONES)
        for _ in range(2):
            with pytest.raises(executorch_c.Error, match="output 0: a jump skipped"):
                method(ONES, np.array(False))
            np.testing.assert_array_equal(method(3 * ONES, np.array(True)), 6 * ONES)


def test_jump_over_the_writer_of_an_intermediate_output() -> None:
    """Only the skipped output counts: one that was written before the jump has a value."""
    plan = Plan()
    x, go = plan.input((4,)), plan.input((), "bool")
    y, z = plan.output((4,)), plan.output((4,))
    plan.call("aten::mul.Scalar_out", x, 1.0, y)
    plan.call("aten::mul.Scalar_out", x, 2.0, z)
    plan.jump_false(go, 4)
    plan.call("aten::add.out", y, x, 1, y)
    method = load(build(plan))
    for sign in (True, False, True):
        outputs = method.execute([ONES, np.array(sign)])
        np.testing.assert_array_equal(outputs, [ONES * (1 + sign), 2 * ONES])


def test_jump_over_the_writer_of_a_state() -> None:
    """A state keeps its value, though it is an output."""
    plan = Plan()
    x, go = plan.input((4,)), plan.input((), "bool")
    constants = Constants()
    state = plan.tensor((4,), buffer=constants.add_mutable(5 * ONES))
    plan.take(state)
    plan.jump_false(go, 2)
    plan.call("aten::add.out", state, x, 1, state)
    method = load(build(plan, constants=constants))
    for sign, wanted in ((False, 5), (True, 6), (False, 6), (True, 7)):
        np.testing.assert_array_equal(method(ONES, np.array(sign)), wanted * ONES)


# ---- numbers ---------------------------------------------------------------------------------

BIG = 2**53 + 1
"""An integer that float64 cannot represent."""

PRIMS: list[tuple[str, tuple[Any, ...], Any]] = [
    *(("add.Scalar", (2, 3), 5), ("add.Scalar", (2, 0.5), 2.5)),
    *(("add.Scalar", (BIG, 1), BIG + 1), ("add.Scalar", (-1.5, 0.25), -1.25)),
    *(("sub.Scalar", (2, 3), -1), ("sub.Scalar", (0.5, 2), -1.5)),
    *(("sub.Scalar", (BIG, 2), BIG - 2), ("mul.Scalar", (4, -3), -12)),
    *(("mul.Scalar", (0.5, 3), 1.5), ("mul.Scalar", (BIG, 3), BIG * 3)),
    *(("floordiv.Scalar", (7, 2), 3), ("floordiv.Scalar", (-7, 2), -4)),
    *(("floordiv.Scalar", (7, -2), -4), ("floordiv.Scalar", (-8, 2), -4)),
    *(("floordiv.Scalar", (BIG, 1), BIG), ("floordiv.int", (7, 2), 3)),
    *(("floordiv.int", (-7, 2), -4), ("floordiv.int", (6, -3), -2)),
    *(("truediv.Scalar", (7, 2), 3.5), ("truediv.Scalar", (1.5, 0.5), 3.0)),
    *(("truediv.Scalar", (-6, 3), -2.0), ("mod.Scalar", (7, 3), 1), ("mod.Scalar", (-7, 3), 2)),
    *(("mod.Scalar", (7, -3), -2), ("mod.Scalar", (BIG, 2), 1), ("mod.int", (7, 3), 1)),
    *(("mod.int", (-7, 3), 2), ("mod.int", (6, 3), 0), ("eq.Scalar", (2, 2), True)),
    *(("eq.Scalar", (2, 2.0), True), ("eq.Scalar", (2, 3), False)),
    *(("eq.Scalar", (BIG, BIG - 1), False), ("ge.Scalar", (2, 2), True)),
    *(("ge.Scalar", (1.5, 2), False), ("ge.Scalar", (BIG - 1, BIG), False)),
    *(("gt.Scalar", (2, 2), False), ("gt.Scalar", (2.5, 2), True)),
    *(("gt.Scalar", (BIG, BIG - 1), True), ("le.Scalar", (2, 2), True)),
    *(("le.Scalar", (2.5, 2), False), ("le.Scalar", (BIG, BIG - 1), False)),
    *(("lt.Scalar", (2, 2), False), ("lt.Scalar", (1.5, 2), True)),
    *(("lt.Scalar", (BIG - 1, BIG), True), ("neg.Scalar", (3,), -3)),
    *(("neg.Scalar", (-2.5,), 2.5), ("neg.Scalar", (BIG,), -BIG), ("ceil.Scalar", (1.25,), 2)),
    *(("ceil.Scalar", (-1.25,), -1), ("ceil.Scalar", (-0.5,), 0), ("round.Scalar", (1.25,), 1)),
    *(("round.Scalar", (2.5,), 2), ("round.Scalar", (3.5,), 4), ("round.Scalar", (-2.5,), -2)),
    *(("trunc.Scalar", (1.75,), 1), ("trunc.Scalar", (-1.75,), -1)),
    *(("sym_float.Scalar", (3,), 3.0), ("sym_float.Scalar", (-2,), -2.0)),
    *(("sym_int.Scalar", (3.75,), 3), ("sym_int.Scalar", (-3.75,), -3)),
    *(("sym_ite.Scalar", (True, 3, 4), 3), ("sym_ite.Scalar", (False, 3, 4), 4)),
    *(("sym_max.Scalar", (3, 4), 4), ("sym_max.Scalar", (0.5, 0.25), 0.5)),
    *(("sym_max.Scalar", (-BIG, -BIG + 1), -BIG + 1), ("sym_min.Scalar", (3, 4), 3)),
    *(("sym_min.Scalar", (0.5, 0.25), 0.25), ("sym_min.Scalar", (BIG, BIG - 1), BIG - 1)),
    *(("sym_not.Scalar", (True,), False), ("sym_not.Scalar", (False,), True)),
]
"""Results of Python's own operators for these."""


def prim_programs() -> tuple[SingleOps, list[str]]:
    ops = SingleOps()
    names = []
    for name, args, _ in PRIMS:
        names.append(ops.add(f"executorch_prim::{name}", *[Arg(arg) for arg in args], Slot(0)))
    return ops, names


def test_all_prims() -> None:
    """All 25 prims: these with numbers, et_view and et_copy_index below."""
    ops, names = prim_programs()
    program = Runtime.get().load_program(ops.build())
    for method, (name, args, wanted) in zip(names, PRIMS, strict=True):
        (output,) = program.load_method(method).execute(list(args))
        assert (type(output), output) == (type(wanted), wanted), (name, args)
    known = {
        name.removeprefix("executorch_prim::")
        for name in Runtime.get().operator_registry.operator_names
        if name.startswith("executorch_prim::")
    }
    assert known == {name for name, _, _ in PRIMS} | {"et_view.default", "et_copy_index.tensor"}
    assert len(known) >= 25


OFFICIAL_DIFFERS = {
    ("floordiv.int", (-7, 2)): "truncates, where Python and eager round down",
    ("mod.Scalar", (-7, 3)): "takes the sign of the dividend, not of the divisor",
    ("mod.Scalar", (7, -3)): "takes the sign of the dividend, not of the divisor",
    ("mod.int", (-7, 3)): "takes the sign of the dividend, not of the divisor",
    ("sym_max.Scalar", (0.5, 0.25)): "refuses floats",
    ("sym_min.Scalar", (0.5, 0.25)): "refuses floats",
}


def test_prims_agree_with_the_reference() -> None:
    """By method, because the rejection of one method would end the run."""
    ops, names = prim_programs()
    pte = ops.build()
    differs = set()
    for method, (name, args, wanted) in zip(names, PRIMS, strict=True):
        if reference(pte, *args, name=method).outputs != [wanted]:
            differs.add((name, args))
    assert differs == set(OFFICIAL_DIFFERS)


def test_numbers_of_infinite_size() -> None:
    for name in ("ceil.Scalar", "round.Scalar", "trunc.Scalar", "sym_int.Scalar"):
        for value in (math.inf, -math.inf, 1e300, -1e19):
            plan = Plan()
            result = plan.value(0)
            plan.call(f"executorch_prim::{name}", value, result)
            plan.take(result)
            try:
                (output,) = load(build(plan)).execute([])
            except executorch_c.Error as error:
                assert name in str(error)
            else:
                assert isinstance(output, int | float)


def test_numbers_used_for_tensors() -> None:
    """Shapes computed from shapes, through a slot that was a float before."""
    plan = Plan()
    x = plan.input((6, 2), dynamism=1)
    n, half, whole = plan.value(0), plan.value(0), plan.value(0)
    plan.call("aten::sym_size.int", x, 0, n, returns=[])
    plan.call("executorch_prim::truediv.Scalar", n, 2, half)
    plan.call("executorch_prim::sym_int.Scalar", half, whole)
    shape = plan.value([4])
    plan.plan.values[shape].val.items.insert(0, int(whole))
    plan.call("aten::view_copy.out", x, shape, plan.output((3, 4), dynamism=1))
    plan.take(half, whole)
    method = load(build(plan))
    for rows in (6, 2, 4):
        value = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2)
        outputs, half_found, whole_found = method.execute([value])
        np.testing.assert_array_equal(outputs, value.reshape(rows // 2, 4))
        assert (half_found, whole_found) == (rows / 2, rows // 2)


def test_views_of_inputs_and_constants() -> None:
    """et_view by hand: out is the memory of self with another shape."""
    ops = SingleOps()
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    name = ops.add("executorch_prim::et_view.default", value, [3, -1], Out((3, 2), planned=False))
    constant = ops.add(
        "executorch_prim::et_view.default", Arg(value, constant=True), [6], Out((6,), planned=False)
    )
    program = Runtime.get().load_program(ops.build())
    kept = value.copy()
    (output,) = program.load_method(name).execute([value])
    np.testing.assert_array_equal(output, value.reshape(3, 2))
    output[:] = -1
    np.testing.assert_array_equal(value, kept)
    (output,) = program.load_method(constant).execute([])
    np.testing.assert_array_equal(output, value.reshape(6))
    output[:] = -1
    np.testing.assert_array_equal(program.load_method(constant).execute([])[0], value.reshape(6))


def test_rows_are_collected() -> None:
    """et_copy_index by hand, also beyond the planned size; into a static tensor (dynamism 0), as
    ExecuTorch 1.0 declares it."""
    for dynamism, index, wanted in ((1, 0, 1), (1, 2, 3), (1, 4, None), (0, 2, 4), (0, 4, None)):
        plan = Plan()
        row, rows = plan.input((3,)), plan.output((4, 3), dynamism=dynamism)
        plan.call("executorch_prim::et_copy_index.tensor", rows, row, index)
        method = load(build(plan))
        if wanted is None:
            limit = "upper bound is 12" if dynamism else "fixes it to"
            with pytest.raises(executorch_c.Error, match=limit):
                method(np.arange(3, dtype=np.float32))
        else:
            result = method(np.arange(3, dtype=np.float32))
            assert result.shape == (wanted, 3)
            np.testing.assert_array_equal(result[index], [0, 1, 2])


LOWEST = -(2**63)
DIVISIONS: dict[tuple[str, int, int], float | None] = {
    ("floordiv.Scalar", 1, 0): None,
    ("floordiv.int", 1, 0): None,
    ("mod.Scalar", 1, 0): None,
    ("mod.int", 1, 0): None,
    ("truediv.Scalar", 1, 0): np.inf,
    ("floordiv.Scalar", LOWEST, -1): LOWEST,
    ("floordiv.int", LOWEST, -1): LOWEST,
    ("mod.Scalar", LOWEST, -1): 0,
    ("mod.int", LOWEST, -1): 0,
    ("truediv.Scalar", LOWEST, -1): 2.0**63,
}


@pytest.mark.parametrize("case", DIVISIONS, ids=str)
def test_division_in_prims(case: tuple[str, int, int]) -> None:
    """No SIGFPE: integers wrap as in eager, and a zero divisor is an error."""
    name, a, b = case
    plan = Plan()
    result = plan.value(0)
    plan.call(f"executorch_prim::{name}", a, b, result)
    plan.take(result)
    method = load(build(plan))
    wanted = DIVISIONS[case]
    if wanted is None:
        with pytest.raises(executorch_c.Error, match=name.replace(".", r"\.")):
            method.execute([])
    else:
        assert method.execute([]) == [wanted]


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
def test_integer_division_in_kernels(name: str) -> None:
    plan = Plan()
    a, b = plan.input((2,), "int32"), plan.input((2,), "int32")
    overload = "out" if name == "floor_divide" else "Tensor_out"
    plan.call(f"aten::{name}.{overload}", a, b, plan.output((2,), "int32"))
    method = load(build(plan))
    lowest = np.iinfo(np.int32).min
    with pytest.raises(executorch_c.Error, match="(?i)zero"):
        method(np.array([1, 2], np.int32), np.array([1, 0], np.int32))
    result = method(np.array([7, lowest], np.int32), np.array([-2, -1], np.int32))
    wanted = {"floor_divide": [-4, lowest], "remainder": [-1, 0], "fmod": [1, 0]}[name]
    np.testing.assert_array_equal(result, wanted)


def test_endless_loop() -> None:
    plan = Plan()
    plan.jump_false(False, 0)
    method = load(build(plan))
    with pytest.raises(InvalidProgramError, match="ran 10000000 instructions"):
        method.execute([])
