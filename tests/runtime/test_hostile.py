"""Invalid programs: rejected with a message at load or at the first run, never a crash.

Hand-written programs run in both runtimes: in the official one in a forked process, because it
often crashes. Its failures are asserted, too, so that a fixed version is noticed.
"""

import re
from typing import Any

import numpy as np
import pytest
import torch
from executorch.exir.backend.compile_spec_schema import CompileSpec

import executorch_c
from executorch_c import InvalidArgumentError, InvalidProgramError, NotFoundError, Runtime
from tests.exports import export
from tests.plans import BOUNDED, Constants, Plan, V, adding, build, edited, load, reference, schema
from tests.resident import resident_bytes

ONES = np.ones(4, np.float32)


CALL, TENSOR = "chains[0].instructions[0].instr_args", "values[0].val"
MEMORY, CODE = f"{TENSOR}.allocation_info", "chains[0].instructions[+]"
LARGEST = 2**32 - 1
FIELDS: list[tuple[str, Any, str]] = [
    *((f"{CALL}.op_index", i, f"instruction 0: operator {i} of 1") for i in (1, 7, 2**31 - 1, -1)),
    *(
        (f"{puts}s[0]", i, f"{puts} 0 is value {i} of")
        for puts in ("input", "output")
        for i in (99, -1)
    ),
    *((f"{CALL}.args[1]", i, f"argument 1 is value {i} of") for i in (99, -1, -(2**31))),
    *((f"{CALL}.args", [0] * n, rf"{n} arguments, expected 4 \(aten::add\.out") for n in range(4)),
    *(
        (CODE, schema.Instruction(instruction), f"instruction 2: value {i} of 5")
        for i in (99, -1)
        for instruction in (schema.MoveCall(0, i), schema.JumpFalseCall(i, 0), schema.FreeCall(i))
    ),
    *(
        (CODE, schema.Instruction(schema.JumpFalseCall(2, i)), f"2: a jump to instruction {i}")
        for i in (-1, -(2**31))
    ),
    ("values[+]", schema.EValue(None), "value 5: unknown kind 0"),
    *(
        ("values[+]", schema.EValue(schema.IntList([i])), f"IntList item 0 is value {i} of 6")
        for i in (-1, 99, 2**40)
    ),
    *(
        (field, None, field.rstrip("s"))
        for field in ("name", "values", "inputs", "outputs", "chains", "non_const_buffer_sizes")
    ),
    ("operators[0].name", None, "operator 0 has no name"),
    *((f"{TENSOR}.{field}", None, r"value.*0.*sizes") for field in ("sizes", "dim_order")),
    (f"{TENSOR}.sizes", [-4], r"execution_plan\[0\].*-4"),
    *((f"{TENSOR}.dim_order", order, "dim_order") for order in ([1], [255], [0, 0], [])),
    (f"{MEMORY}.memory_offset_low", 2, "offset 2 is not a multiple of 4 bytes"),
    *(
        (MEMORY, schema.AllocationDetails(*place), r"memory (id )?\d")
        for place in ((1, 36, 0), (1, 0, 1), (1, LARGEST - 3, LARGEST), (2, 0, 0), (0, 0, 0))
    ),
]
"""A field of a method of two additions ("+": a further item), its value, and the message."""


def set_field(method: schema.ExecutionPlan, field: str, value: Any) -> None:
    """Set a field of a method by its path."""
    target: Any = method
    *names, last = re.findall(r"\w+|\+", field)
    for name in names:
        target = target[int(name)] if name.isdigit() else getattr(target, name)
    if last == "+":
        target.append(value)
    elif last.isdigit():
        target[int(last)] = value
    else:
        setattr(target, last, value)


@pytest.mark.parametrize("field, value, message", FIELDS)
def test_a_wrong_field(field: str, value: Any, message: str) -> None:
    plan, _ = adding(2)
    set_field(plan.plan, field, value)
    pte = build(plan)
    with pytest.raises(executorch_c.Error, match=message) as error:
        load(pte)
    assert isinstance(error.value, InvalidProgramError) or field == MEMORY
    if "put" in field and value is not None:
        with pytest.raises(InvalidProgramError, match=message):
            Runtime.get().load_program(pte).metadata("forward")
        assert reference(pte, ONES).outputs is None
    if "op_index" in field:
        assert reference(pte, ONES).crashed, "a call that is not the last one"


WRONG_KINDS: dict[str, tuple[int, Any]] = {
    "None for a tensor": (0, schema.Null()),
    "Int for a tensor": (0, schema.Int(1)),
    "String for a tensor": (1, schema.String("x")),
    "TensorList for a tensor": (1, schema.TensorList([0])),
    "IntList for a tensor": (3, schema.IntList([])),
    "Tensor for a number": (2, None),
    "None for a number": (2, schema.Null()),
    "BoolList for a number": (2, schema.BoolList([True])),
}


@pytest.mark.parametrize("case", WRONG_KINDS)
def test_kind_of_an_argument(case: str) -> None:
    position, value = WRONG_KINDS[case]
    plan, (x, _) = adding()
    plan.code[0].instr_args.args[position] = x if value is None else plan.put(value)
    pte = build(plan)
    result, wanted = case.split(" for a ")
    pattern = rf"aten::add.out: argument '\w+' is a {result}, expected {wanted.capitalize()}"
    with pytest.raises(InvalidProgramError, match=rf"(?i)instruction 0: {pattern}"):
        load(pte)
    assert reference(pte, ONES).outputs is None


def test_list_outputs() -> None:
    """Outputs that the reference cannot return; it crashes."""
    plan, (x, y) = adding()
    plan.plan.outputs.clear()
    plan.take([x, y], [3, 4, 5], [1.5, 2.0], [True, False, True], None, "text")
    plan.take(plan.put(schema.OptionalTensorList([int(y), -1])), 7, 0.25, True)
    pte = build(plan)
    method = load(pte)
    tensors, ints, doubles, bools, none, text, optional, i, d, b = method.execute([ONES])
    np.testing.assert_array_equal(method.execute([5 * ONES])[0], [5 * ONES, 10 * ONES])
    np.testing.assert_array_equal(tensors, [ONES, 2 * ONES])
    assert (ints, doubles, bools) == ([3, 4, 5], [1.5, 2.0], [True, False, True])
    assert (none, text, i, d, b) == (None, "text", 7, 0.25, True)
    np.testing.assert_array_equal(optional[0], 2 * ONES)
    assert optional[1] is None
    assert reference(pte, ONES).outputs is None


def test_an_elided_view_of_an_input_in_a_list_output() -> None:
    """A list item in an input's planned memory, without an instruction."""
    plan = Plan()
    plan.input((2, 2), at=0)
    plan.take([plan.tensor((4,), at=0)])
    method = load(build(plan))
    for value in (1, 2):
        ((item,),) = method.execute([np.full((2, 2), value, np.float32)])
        np.testing.assert_array_equal(item, np.full(4, value, np.float32))


def delegating(arguments: int = 2) -> Plan:
    """Return a call of the demo backend's sine."""
    plan = Plan()
    x, y = plan.input((1,)), plan.output((1,))
    delegate = plan.delegate("BackendWithCompilerDemo", 0)
    plan.append(schema.DelegateCall(delegate, [x, y][:arguments]))
    return plan


SINE = b"1version:0#op:demo::aten.sin.default, numel:1, dtype:torch.float32<debug_handle>1#"
HALF = np.array([0.5], np.float32)
PLACE = "delegates[0].processed"
DELEGATES: list[tuple[str, Any, str]] = [
    *(
        (f"{CALL}.delegate_index", i, f"instruction 0: delegate {i} of 1")
        for i in (1, 2**31 - 1, -1)
    ),
    *(
        ("delegates[0].compile_specs", [CompileSpec(*spec)], f"compile spec 0 has no {field}")
        for field, spec in (("key", (None, b"\x01")), ("value", ("max_value", None)))
    ),
    ("delegates[0].id", None, "without backend id"),
    (PLACE, None, "without payload"),
    *(
        (PLACE, schema.BackendDelegateDataReference(schema.DataLocation(location), i), message)
        for location, message in ((0, "backend_delegate_data"), (1, "segment"))
        for i in (1, LARGEST)
    ),
]
"""As FIELDS, in a method that calls a delegate."""


@pytest.mark.parametrize("field, value, message", DELEGATES)
def test_a_wrong_field_of_a_delegate(field: str, value: Any, message: str) -> None:
    """Detected at load, not only at run time."""
    plan = delegating()
    set_field(plan.plan, field, value)
    pte = build(plan, payloads=[SINE])
    with pytest.raises(InvalidProgramError, match=message):
        load(pte)
    if "without" in message:
        with pytest.raises(InvalidProgramError, match=message.replace("without", "no")):
            Runtime.get().load_program(pte).requirements()


def test_delegate_call_with_too_few_arguments() -> None:
    (output,) = load(build(delegating(), payloads=[SINE])).execute([HALF])
    np.testing.assert_allclose(output, [0.5 - 0.125 / 6], rtol=1e-6)
    for arguments in (0, 1):
        method = load(build(delegating(arguments), payloads=[SINE]))
        with pytest.raises(InvalidArgumentError, match=rf"{arguments} arguments, expected 2"):
            method.execute([HALF])


def test_jump_past_the_end_ends_the_chain() -> None:
    for destination in (2, 3, 2**31 - 1):
        plan, (_, y) = adding()
        plan.jump_false(False, destination)
        plan.call("aten::add.out", y, y, 1, y)
        pte = build(plan)
        # 2 is the next instruction, any index beyond the code is the end.
        wanted = 4 * ONES if destination == 2 else 2 * ONES
        np.testing.assert_array_equal(load(pte)(ONES), wanted)
        np.testing.assert_array_equal(reference(pte, ONES).outputs, [wanted])


def test_moves_that_change_the_kind_of_a_slot() -> None:
    """A number moved over a tensor would invalidate every list that contains the slot."""
    plan, (x, y) = adding()
    number = plan.value(3)
    plan.move(number, y)
    plan.take([x, y])
    pte = build(plan)
    with pytest.raises(InvalidProgramError, match="a Int is moved into a Tensor"):
        load(pte)
    for shape, dtype in (((4,), "int32"), ((2, 2), "float32")):
        plan, (x, y) = adding()
        plan.move(plan.tensor(shape, dtype), y)
        with pytest.raises(InvalidProgramError, match="moved into one of another kind"):
            load(build(plan))


def test_an_output_that_became_larger_than_its_array() -> None:
    """A larger tensor is moved into the slot of an output of fixed shape."""
    for how in ("free", "view"):
        plan = Plan()
        big = plan.input((4096,))
        small = plan.output((4,), at=None)
        if how == "free":
            plan.free(small)
        else:
            plan.append(schema.JumpFalseCall(plan.value(False), 2))
            plan.call("executorch_prim::et_view.default", big, [4], small)
        plan.move(big, small)
        method = load(build(plan))
        with pytest.raises(executorch_c.Error, match=r"\(4096,\), but the program fixes it to"):
            method.execute([np.zeros(4096, np.float32)])
        with pytest.raises(executorch_c.Error, match=r"\(4096,\), but the program fixes it to"):
            method.execute([np.zeros(4096, np.float32)], out=np.zeros(4, np.float32))


def test_an_unbound_input_beyond_its_planned_memory() -> None:
    plan = Plan()
    x = plan.input((4,), dynamism=2)
    y = plan.output((4,), dynamism=2, at=None)
    plan.call("aten::add.out", x, x, 1, y)
    method = load(build(plan))
    for n in (4, 100_000, 3):
        value = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(method(value), 2 * value)
        np.testing.assert_array_equal(method(value[::-1]), 2 * value[::-1])


def test_one_value_as_two_inputs() -> None:
    """The second array wins, independently of the first one's size."""
    plan = Plan()
    x = plan.input((1000,), dynamism=BOUNDED)
    plan.give(x)
    plan.call("aten::add.out", x, x, 1, plan.output((1000,), dynamism=BOUNDED))
    method = load(build(plan))
    short, long = np.ones(1, np.float32), np.full(1000, 2, np.float32)
    np.testing.assert_array_equal(method(short, long), 2 * long)
    np.testing.assert_array_equal(method(long, short), 2 * short)
    np.testing.assert_array_equal(method(long[::-1], short[::-1]), 2 * short)


def test_cyclic_and_forward_lists() -> None:
    plan, (x, y) = adding()
    itself = V(len(plan.plan.values))
    plan.take([x, itself])
    pte = build(plan)
    with pytest.raises(InvalidProgramError, match="item 1 is value 3, which is not a tensor"):
        load(pte)
    with pytest.raises(InvalidProgramError, match="item 1 is value 3, a TensorList"):
        load(pte, verification=executorch_c.Verification.Minimal)
    # A list may come before its items.
    plan = Plan()
    plan.take([V(1), V(2)])
    x = plan.input((4,))
    plan.call("aten::add.out", x, x, 1, plan.tensor((4,)))
    np.testing.assert_array_equal(load(build(plan))(ONES), [ONES, 2 * ONES])


def test_int_list_items_that_are_not_numbers() -> None:
    for value in (schema.String("5"), schema.Null(), schema.IntList([])):
        plan = Plan()
        item = plan.put(value)
        x, y = plan.input((4,)), plan.output((4,))
        plan.call("aten::view_copy.out", x, plan.put(schema.IntList([int(item)])), y)
        pte = build(plan)
        with pytest.raises(InvalidProgramError, match=r"IntList item 0 is value 0, a"):
            load(pte)
        assert reference(pte, ONES).outputs is None


def test_duplicate_method_names() -> None:
    first, second = adding()[0], adding(2)[0]
    with pytest.raises(InvalidProgramError, match="two methods are named 'forward'"):
        Runtime.get().load_program(build(first, second))


def test_unknown_method() -> None:
    second = adding()[0]
    second.plan.name = "other"
    loaded = Runtime.get().load_program(build(adding()[0], second))
    for ask in (loaded.load_method, loaded.metadata):
        with pytest.raises(NotFoundError, match=r"no method 'nope'.*'forward', 'other'") as info:
            ask("nope")
        assert isinstance(info.value, KeyError)
        assert info.value.code == 0x20


def test_negative_sizes_are_refused_without_verification() -> None:
    """The reference's _load_for_executorch ignores its verification level."""
    plan, _ = adding()
    plan.plan.values[0].val.sizes = [-4]
    pte = build(plan)
    minimal = Runtime.get().load_program(pte, verification=executorch_c.Verification.Minimal)
    with pytest.raises(executorch_c.Error, match="-4"):
        minimal.load_method("forward")


@pytest.mark.parametrize("sizes", [[2**31 - 1] * 4, [2**31 - 1, 2**31 - 1, 4], [1] * 17])
def test_impossible_tensors(sizes: list[int]) -> None:
    plan, _ = adding()
    plan.plan.values[1].val.sizes = sizes
    plan.plan.values[1].val.dim_order = list(range(len(sizes)))
    with pytest.raises(executorch_c.Error, match=r"overflow|impossible|rank 17|planned memory"):
        load(build(plan))


@pytest.mark.parametrize("size", [2**60, 2**63 - 1, -1])
def test_huge_arenas(size: int) -> None:
    """The reference allocates the arenas of every method at load."""
    plan, _ = adding()
    plan.plan.non_const_buffer_sizes[1] = size
    good = adding()[0]
    good.plan.name = "good"
    pte = build(plan, good)
    loaded = Runtime.get().load_program(pte)
    assert loaded.metadata("forward").num_inputs() == 1
    np.testing.assert_array_equal(loaded.load_method("good")(ONES), 2 * ONES)
    with pytest.raises(MemoryError if size > 0 else InvalidProgramError, match="planned memory 1"):
        loaded.load_method("forward")
    assert reference(pte, ONES, name="good").outputs is None


def test_metadata_needs_no_arenas() -> None:
    plans = []
    for i in range(4):
        plan, _ = adding()
        plan.plan.name = f"m{i}"
        plan.plan.non_const_buffer_sizes[1] = 256 << 20
        plans.append(plan)
    pte = build(*plans)
    before = resident_bytes("VmRSS")
    loaded = Runtime.get().load_program(pte)
    for name in loaded.method_names:
        assert loaded.metadata(name).input_tensor_meta(0).nbytes() == 16
    loaded.info()
    method = loaded.load_method("m0")
    np.testing.assert_array_equal(method(ONES), 2 * ONES)
    assert method.memory()["planned"] == 256 << 20
    assert resident_bytes("VmRSS") - before < 32 << 20


def test_constants_are_not_written() -> None:
    """The constant is in a mapped file or in the caller's bytes."""
    constants = Constants()
    plan = Plan()
    x = plan.input((4,))
    c = plan.constant(constants, ONES)
    view = plan.tensor((2, 2), at=None)
    plan.call("executorch_prim::et_view.default", c, [2, 2], view)
    plan.call("aten::copy_", view, plan.tensor((2, 2)), False, returns=[view])
    plan.take(view)
    pte = build(plan, constants=constants)
    before = bytes(pte)
    with pytest.raises(InvalidProgramError, match="'self' is written, but it is a constant"):
        load(pte).execute([ONES])
    plan = Plan()
    x, c = plan.input((4,)), plan.constant(constants, ONES)
    plan.call("aten::add.out", x, x, 1, c)
    with pytest.raises(InvalidProgramError, match="'out' is written, but it is a constant"):
        load(build(plan, constants=constants)).execute([ONES])
    plan = Plan()
    plan.give(plan.constant(constants, ONES))
    with pytest.raises(InvalidProgramError, match="input 0 is a constant"):
        load(build(plan, constants=constants))
    assert pte == before


def test_values_without_data() -> None:
    """Unplanned tensors without any write."""
    plan = Plan()
    x, y = plan.tensor((4,), at=None), plan.output((4,))
    plan.call("aten::add.out", x, x, 1, y)
    pte = build(plan)
    with pytest.raises(executorch_c.InvalidStateError, match="argument 'self' has no data yet"):
        load(pte).execute([])
    assert reference(pte).crashed
    plan = Plan()
    plan.jump_false(plan.tensor((), "bool", at=None), 0)
    with pytest.raises(executorch_c.InvalidStateError, match="condition has no data"):
        load(build(plan)).execute([])


def test_several_chains() -> None:
    """The reference's executor runs chains in order, too."""
    plan, (x, y) = adding()
    plan.plan.chains.append(schema.Chain([], [], [], None))
    plan.call("aten::add.out", x, y, 1, y)
    pte = build(plan)
    np.testing.assert_array_equal(load(pte)(ONES), 3 * ONES)
    assert reference(pte, ONES).outputs is not None
    plan.call("aten::add.out", x, plan.tensor((3,)), 1, y)
    with pytest.raises(executorch_c.Error, match="chain 1"):
        load(build(plan))(ONES)


def test_hostile_edits_of_an_exported_program_do_not_leak_into_the_next() -> None:
    """After every failed load, the valid file loads."""
    pte = export(torch.nn.Linear(4, 2), torch.ones(4))

    def no_values(program: schema.Program) -> None:
        program.execution_plan[0].values.clear()

    for _ in range(20):
        with pytest.raises(executorch_c.Error):
            load(edited(pte, no_values))
        assert load(pte)(ONES).shape == (2,)


def test_unbound_state_that_outgrows_its_memory() -> None:
    """Growth during a call does not affect planned memory in the next one."""
    plan = Plan()
    state = plan.tensor((4,), dynamism=2)
    plan.call("aten::add.out", state, state, 1, plan.output((4,), dynamism=2, at=None))
    plan.call("aten::full.out", [500_000], 3.0, state)
    method = load(build(plan))
    for _ in range(3):
        assert method.execute([])[0].shape == (4,)


EMPTY: dict[str, tuple[Any, ...]] = {
    "aten::empty.out": ([3, 5], None),
    "aten::empty_permuted.out": ([3, 5], [1, 0]),
    "aten::empty_strided.out": ([3, 5], [5, 1]),
    "dim_order_ops::_empty_dim_order.out": ([3, 5], None),
}


@pytest.mark.parametrize("name", EMPTY)
def test_elements_that_eager_leaves_uninitialised_are_zeros(name: str) -> None:
    """An output in the caller's memory, or in new memory, would show what the process had there."""
    plan = Plan()
    plan.call(name, *EMPTY[name], plan.output((3, 5)))
    memory = np.ones((3, 5), np.float32)
    load(build(plan)).execute([], out=[memory])
    assert not memory.any()
