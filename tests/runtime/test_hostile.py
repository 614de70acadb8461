"""Invalid programs: rejected with a message at load or at the first run, never a crash.

Hand-written programs run in both runtimes: in the official one in a forked process, because it
often crashes. Its failures are asserted, too, so that a fixed version is noticed.
"""

from typing import Any

import numpy as np
import pytest
import torch

import executorch_c
from executorch_c import InvalidArgumentError, InvalidProgramError, NotFoundError, Runtime
from tests.exports import export
from tests.plans import BOUNDED, Constants, Plan, V, adding, build, edited, load, reference, schema
from tests.resident import resident_bytes

ONES = np.ones(4, np.float32)


def test_sane_program() -> None:
    plan, _ = adding(2)
    wanted = [3 * ONES]
    np.testing.assert_array_equal(load(build(plan)).execute([ONES]), wanted)
    np.testing.assert_array_equal(reference(build(plan), ONES).outputs, wanted)


@pytest.mark.parametrize("index", [1, 7, 2**31 - 1, -1])
def test_operator_index(index: int) -> None:
    """Out of range in a call that is not the last one: the reference calls an invalid address."""
    plan, _ = adding(2)
    plan.code[0].instr_args.op_index = index
    pte = build(plan)
    with pytest.raises(InvalidProgramError, match=rf"instruction 0: operator {index} of 1"):
        load(pte)
    assert reference(pte, ONES).crashed


@pytest.mark.parametrize("where", ["inputs", "outputs"])
@pytest.mark.parametrize("index", [99, -1])
def test_index_of_an_input_or_output(where: str, index: int) -> None:
    plan, _ = adding()
    getattr(plan.plan, where)[0] = index
    pte = build(plan)
    with pytest.raises(InvalidProgramError, match=rf"{where[:-1]} 0 is value {index} of"):
        load(pte)
    with pytest.raises(InvalidProgramError, match=rf"{where[:-1]} 0"):
        Runtime.get().load_program(pte).metadata("forward")
    assert reference(pte, ONES).outputs is None


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


@pytest.mark.parametrize("index", [99, -1, -(2**31)])
def test_index_of_an_argument(index: int) -> None:
    plan, _ = adding()
    plan.code[0].instr_args.args[1] = index
    with pytest.raises(InvalidProgramError, match=f"argument 1 is value {index} of"):
        load(build(plan))


@pytest.mark.parametrize("count", range(4))
def test_too_few_arguments(count: int) -> None:
    plan, _ = adding()
    del plan.code[0].instr_args.args[count:]
    sentence = rf"{count} arguments, expected 4 \(aten::add\.out"
    with pytest.raises(InvalidProgramError, match=sentence):
        load(build(plan))


def test_list_outputs() -> None:
    """Outputs that the reference cannot return; it crashes."""
    plan, (x, y) = adding()
    plan.plan.outputs.clear()
    plan.take([x, y], [3, 4, 5], [1.5, 2.0], [True, False, True], None, "text")
    plan.take(plan.put(schema.OptionalTensorList([int(y), -1])), 7, 0.25, True)
    pte = build(plan)
    tensors, ints, doubles, bools, none, text, optional, i, d, b = load(pte).execute([ONES])
    np.testing.assert_array_equal(tensors, [ONES, 2 * ONES])
    assert (ints, doubles, bools) == ([3, 4, 5], [1.5, 2.0], [True, False, True])
    assert (none, text, i, d, b) == (None, "text", 7, 0.25, True)
    np.testing.assert_array_equal(optional[0], 2 * ONES)
    assert optional[1] is None
    assert reference(pte, ONES).outputs is None


def test_list_outputs_of_two_calls_are_apart() -> None:
    plan, (x, y) = adding()
    plan.plan.outputs.clear()
    plan.take([x, y])
    method = load(build(plan))
    (first,) = method.execute([ONES])
    (second,) = method.execute([5 * ONES])
    np.testing.assert_array_equal(first, [ONES, 2 * ONES])
    np.testing.assert_array_equal(second, [5 * ONES, 10 * ONES])


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


@pytest.mark.parametrize("arguments", [0, 1])
def test_delegate_call_with_too_few_arguments(arguments: int) -> None:
    np.testing.assert_allclose(
        load(build(delegating(), payloads=[SINE]))(HALF), [0.5 - 0.125 / 6], rtol=1e-6
    )
    method = load(build(delegating(arguments), payloads=[SINE]))
    with pytest.raises(InvalidArgumentError, match=rf"{arguments} arguments, expected 2"):
        method.execute([HALF])


@pytest.mark.parametrize("index", [1, 2**31 - 1, -1])
def test_delegate_index(index: int) -> None:
    """Detected at load, not only at run time."""
    plan = delegating()
    plan.code[0].instr_args.delegate_index = index
    with pytest.raises(InvalidProgramError, match=rf"instruction 0: delegate {index} of 1"):
        load(build(plan, payloads=[SINE]))


def test_delegate_without_fields() -> None:
    for field, sentence in (("id", "backend id"), ("processed", "payload")):
        plan = delegating()
        setattr(plan.plan.delegates[0], field, None)
        pte = build(plan, payloads=[SINE])
        with pytest.raises(InvalidProgramError, match=f"without {sentence}"):
            load(pte)
        with pytest.raises(InvalidProgramError, match=f"no {sentence}"):
            Runtime.get().load_program(pte).requirements()


@pytest.mark.parametrize("field", ["key", "value"])
def test_compile_spec_without_fields(field: str) -> None:
    from executorch.exir.backend.compile_spec_schema import CompileSpec

    plan = delegating()
    spec = CompileSpec("max_value", b"\x01")
    setattr(spec, field, None)
    plan.plan.delegates[0].compile_specs.append(spec)
    with pytest.raises(InvalidProgramError, match=f"compile spec 0 has no {field}"):
        load(build(plan, payloads=[SINE]))


def test_delegate_payload_out_of_range() -> None:
    for location, index in ((0, 1), (0, 2**32 - 1), (1, 1), (1, 2**32 - 1)):
        plan = delegating()
        place = plan.plan.delegates[0].processed
        place.location, place.index = schema.DataLocation(location), index
        pte = build(plan, payloads=[SINE])
        with pytest.raises(InvalidProgramError, match=r"backend_delegate_data|segment"):
            load(pte)


@pytest.mark.parametrize("destination", [-1, -(2**31)])
def test_negative_jump(destination: int) -> None:
    plan, _ = adding()
    plan.jump_false(False, destination)
    sentence = f"instruction 1: a jump to instruction {destination}"
    with pytest.raises(InvalidProgramError, match=sentence):
        load(build(plan))


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


@pytest.mark.parametrize("kind", ["move", "jump", "free"])
@pytest.mark.parametrize("index", [99, -1])
def test_values_of_other_instructions(kind: str, index: int) -> None:
    plan, (x, _) = adding()
    instruction = {
        "move": schema.MoveCall(x, index),
        "jump": schema.JumpFalseCall(index, 0),
        "free": schema.FreeCall(index),
    }[kind]
    plan.append(instruction)
    with pytest.raises(InvalidProgramError, match=rf"instruction 1: value {index} of 3"):
        load(build(plan))


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


@pytest.mark.parametrize("index", [-1, 99, 2**40])
def test_int_list_items_out_of_range(index: int) -> None:
    plan = Plan()
    plan.take(plan.put(schema.IntList([index])))
    with pytest.raises(InvalidProgramError, match=f"IntList item 0 is value {index} of 1"):
        load(build(plan))


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


def test_null_value() -> None:
    plan, _ = adding()
    plan.plan.values.append(schema.EValue(None))
    with pytest.raises(InvalidProgramError, match="value 3: unknown kind 0"):
        load(build(plan))


@pytest.mark.parametrize(
    "field", ["name", "values", "inputs", "outputs", "chains", "non_const_buffer_sizes"]
)
def test_missing_fields_of_a_method(field: str) -> None:
    plan, _ = adding()
    setattr(plan.plan, field, None)
    with pytest.raises(InvalidProgramError, match=field.rstrip("s")):
        load(build(plan))


@pytest.mark.parametrize("field", ["sizes", "dim_order"])
def test_missing_fields_of_a_tensor(field: str) -> None:
    plan, _ = adding()
    setattr(plan.plan.values[0].val, field, None)
    with pytest.raises(InvalidProgramError, match=r"value.*0.*sizes"):
        load(build(plan))


def test_missing_operators_are_listed_at_once() -> None:
    plan, (x, y) = adding()
    plan.call("aten::add.out", x, y, 1, y)
    plan.call("mine::first.out", x, y)
    plan.call("mine::second", x, y)
    pte = build(plan)
    with pytest.raises(executorch_c.OperatorMissingError, match=r"mine::first\.out, mine::second"):
        load(pte)
    assert Runtime.get().load_program(pte).requirements()["missing_operators"] == [
        "mine::first.out",
        "mine::second",
    ]


def test_operator_without_a_name() -> None:
    plan, _ = adding()
    plan.plan.operators[0].name = None  # type: ignore[assignment]
    with pytest.raises(InvalidProgramError, match="operator 0 has no name"):
        load(build(plan))


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


def test_negative_sizes_are_refused_at_both_levels() -> None:
    """The reference's _load_for_executorch ignores its verification level."""
    plan, _ = adding()
    plan.plan.values[0].val.sizes = [-4]
    pte = build(plan)
    with pytest.raises(InvalidProgramError, match=r"execution_plan\[0\].*-4"):
        Runtime.get().load_program(pte)
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


@pytest.mark.parametrize("order", [[0, 0], [0, 2], [255, 0], [0]])
def test_dim_order_that_is_not_a_permutation(order: list[int]) -> None:
    plan = Plan()
    plan.take(plan.input((2, 2)))
    plan.plan.values[0].val.dim_order = order
    with pytest.raises(InvalidProgramError, match="dim_order"):
        load(build(plan))


def test_tensors_outside_their_arena() -> None:
    last = 2**32 - 1
    for memory, low, high in ((1, 20, 0), (1, 0, 1), (1, last - 3, last), (2, 0, 0), (0, 0, 0)):
        plan, _ = adding()
        alloc = plan.plan.values[0].val.allocation_info
        alloc.memory_id = memory
        alloc.memory_offset_low, alloc.memory_offset_high = low, high
        with pytest.raises(executorch_c.Error, match=r"memory (id )?\d"):
            load(build(plan))


def test_misaligned_tensors_are_refused() -> None:
    plan, _ = adding()
    plan.plan.values[0].val.allocation_info.memory_offset_low = 2
    with pytest.raises(InvalidProgramError, match="offset 2 is not a multiple of 4 bytes"):
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
