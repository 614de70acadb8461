"""Reads of undefined values: planted ones are found, right programs have none."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from executorch_c import Program, Runtime
from executorch_c.inspect import dataflow
from executorch_c.inspect.structure import View
from tests.inspect.seen_programs import MAKERS, pte_of
from tests.plans import Constants, Plan, V, build, edited, reference

BACKENDS = Path(__file__).parents[1] / "backends"


def views(program: Program) -> list[View]:
    return [View(program, name) for name in sorted(program.method_names)]


def suspects(pte: bytes) -> list[dataflow.Suspect]:
    program = Runtime.get().load_program(pte)
    return [one for view in views(program) for one in dataflow.suspects(view)]


def add(plan: Plan, a: V, b: V, out: V | None = None) -> V:
    out = plan.tensor((4,)) if out is None else out
    plan.call("aten::add.out", a, b, 1, out)
    return out


# ---- planted -----------------------------------------------------------------------------------


def test_a_value_that_nothing_writes() -> None:
    plan = Plan()
    x, nobody = plan.input((4,)), plan.tensor((4,))
    plan.take(add(plan, x, nobody))
    (one,) = suspects(build(plan))
    assert (one.kind, one.value, one.instruction, one.argument) == ("unwritten", nobody, 0, "other")
    assert "nothing writes %" in str(one) and not one.is_of_reference


def test_an_output_that_nothing_writes() -> None:
    plan = Plan()
    x = plan.input((4,))
    plan.take(add(plan, x, x))
    plan.output((4,))
    (one,) = suspects(build(plan))
    assert (one.kind, one.output, one.reader) == ("unwritten", 1, None)


@pytest.mark.parametrize("at", range(3))
def test_each_removed_writer_is_found(at: int) -> None:
    plan = Plan()
    values = [plan.input((4,))]
    for _ in range(3):
        values.append(add(plan, values[0], values[-1]))
    plan.take(values[-1])

    def remove(program: Any) -> None:
        del program.execution_plan[0].chains[0].instructions[at]

    (one,) = suspects(edited(build(plan), remove))
    assert (one.kind, one.value) == ("unwritten", values[at + 1])


def chosen(plan: Plan, both: bool) -> tuple[V, V]:
    """Append a condition whose first branch writes a value, the second one too if `both`; return
    the input and the value."""
    x, flag = plan.input((4,)), plan.input((), "bool")
    y = plan.tensor((4,))
    jump = plan.jump_false(flag, 0)
    add(plan, x, x, y)
    skip = plan.jump_false(False, 0) if both else None
    plan.code[jump].instr_args.destination_instruction = len(plan.code)
    if skip is not None:
        plan.call("aten::mul.out", x, x, y)
        plan.code[skip].instr_args.destination_instruction = len(plan.code)
    return x, y


def test_a_writer_that_a_jump_skips() -> None:
    plan = Plan()
    x, y = chosen(plan, both=False)
    plan.take(add(plan, x, y))
    (one,) = suspects(build(plan))
    assert (one.kind, one.value, one.writer is not None) == ("skipped", y, True)
    assert "a jump leads past it" in str(one)


def test_branches_that_both_write() -> None:
    plan = Plan()
    x, y = chosen(plan, both=True)
    plan.take(add(plan, x, y))
    assert not suspects(build(plan))


def moved(same_place: bool, clone: bool = False) -> tuple[bytes, V]:
    """Return a program that moves a sum, then computes another one, in the memory of the first or
    elsewhere."""
    plan = Plan()
    x = plan.input((4,))
    first, target = plan.tensor((4,)), plan.tensor((4,))
    add(plan, x, x, first)
    plan.move(first, target)
    kept = add(plan, target, x) if clone else target
    second = plan.tensor((4,), at=plan.memory(first)[0]) if same_place else plan.tensor((4,))
    add(plan, x, x, second)
    plan.take(add(plan, second, second), kept)
    return build(plan), target


def test_a_source_that_is_overwritten_after_a_move() -> None:
    pte, target = moved(same_place=True)
    (one,) = suspects(pte)
    assert (one.kind, one.value, one.is_of_reference) == ("moved", target, True)
    assert one.move is not None and one.writer is not None
    assert (one.move.number, one.writer.number) == (1, 2)


@pytest.mark.parametrize("same_place, clone", [(False, False), (True, True)])
def test_moves_that_keep_their_value(same_place: bool, clone: bool) -> None:
    assert not suspects(moved(same_place, clone)[0])


def test_the_reference_runtime_shares_memory_in_a_move() -> None:
    """The finding is true: the official runtime computes other numbers, and only then."""
    x = np.arange(1, 5, dtype=np.float32)
    for same_place, same in ((True, False), (False, True)):
        pte, _ = moved(same_place)
        wanted = Runtime.get().load_program(pte).load_method("forward")(x)[1]
        outputs = reference(pte, x).outputs
        assert outputs is not None
        if same:
            np.testing.assert_array_equal(outputs[1], wanted)
        assert bool(suspects(pte)) is not same


# ---- right programs ----------------------------------------------------------------------------


def test_views_that_the_exporter_omits() -> None:
    plan = Plan()
    x = plan.input((4,))
    y = add(plan, x, x)
    view = plan.tensor((4,), at=plan.memory(y)[0])
    of_input = plan.tensor((4,), at=plan.memory(x)[0])
    plan.take(add(plan, view, of_input))
    assert not suspects(build(plan))


def test_state_is_read_before_it_is_written() -> None:
    plan, constants = Plan(), Constants()
    x, counter = plan.input((4,)), plan.tensor((4,))
    start = plan.tensor((4,), buffer=constants.add_mutable(np.ones(4, np.float32)))
    y = add(plan, x, counter)
    plan.take(add(plan, y, start))
    plan.call("aten::copy_", counter, y, False, returns=[counter])
    assert not suspects(build(plan, constants=constants))


def test_constants_and_programs_of_backends_have_values() -> None:
    plan, constants = Plan(), Constants()
    x, named = plan.input((4,)), plan.tensor((4,), name="b")
    weight = plan.constant(constants, np.ones(4, np.float32))
    plan.take(add(plan, add(plan, x, named), weight))
    assert not suspects(build(plan, constants=constants))
    paths = sorted(BACKENDS.glob("*programs/*.pte"))
    assert len(paths) > 40
    assert not [(path.name, str(one)) for path in paths for one in suspects(path.read_bytes())]


def test_a_loop_that_writes_before_it_reads() -> None:
    plan = Plan()
    x, flag = plan.input((4,)), plan.input((), "bool")
    y = add(plan, x, x)
    z = add(plan, y, x)
    plan.jump_false(flag, 1)
    plan.take(add(plan, y, z))
    assert not suspects(build(plan))


@pytest.mark.parametrize("name", MAKERS)
def test_exported_programs_have_none(name: str) -> None:
    assert not suspects(pte_of(name))
