"""Well-formed programs with hostile values, by the official serializer.

`random_damage` changes numbers, lists and fields anywhere in a program's dataclasses; `CASES` are
the named ones, each with the expected error at load or at run time.
"""

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from executorch.exir import schema
from executorch.exir._serialize._program import PTEFile, deserialize_pte_binary
from executorch.exir._serialize._program import serialize_pte_binary

NUMBERS = [
    *(-1, -2, 0, 1, 2, 3, 7, 8, 100, 255, 256, 65535, 2**31 - 1, -(2**31), 2**32 - 1, 2**40),
    *(2**60, 2**63 - 1, -(2**63), 2**64 - 1),
]


def serialize(program: schema.Program, file: PTEFile) -> bytes:
    return bytes(serialize_pte_binary(dataclasses.replace(file, program=program)))


# ---- anywhere --------------------------------------------------------------------------------


def places(node: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Return every (dataclass, field name) and (list, index) below a node."""
    if dataclasses.is_dataclass(node):
        for field in dataclasses.fields(node):
            found.append((node, field.name))
            places(getattr(node, field.name), found)
    elif isinstance(node, list):
        for i, item in enumerate(node):
            found.append((node, i))
            if dataclasses.is_dataclass(item):
                places(item, found)
    return found


def damaged(value: Any, rng: np.random.Generator, others: list[Any]) -> Any:
    """Return another value of the same type, or another object that may appear in its place."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        near = [value + 1, value - 1, value * 2]
        return rng.choice(np.array(NUMBERS + near, dtype=object))
    if isinstance(value, float):
        return float(rng.choice([0.0, float("nan"), float("inf"), 1e300, -1.0]))
    if isinstance(value, str):
        return str(rng.choice(["", "x", value + value, value[:-1], "x" * 5000]))
    if isinstance(value, list) and value:
        kind = rng.integers(5)
        if kind == 0:
            return []
        if kind == 1:
            return value[:-1]
        if kind == 2:
            return value + value
        return value[::-1] if kind == 3 else [value[0]] * int(rng.integers(1, 60))
    same = [o for o in others if type(o).__module__ == type(value).__module__]
    return copy.deepcopy(same[rng.integers(len(same))]) if same and rng.random() < 0.8 else None


def random_damage(pte: bytes, rng: np.random.Generator) -> bytes | None:
    """Return a program with one to four changes; None if it cannot be serialised."""
    file = deserialize_pte_binary(pte)
    program = file.program
    spots = places(program.execution_plan, [])
    spots = [s for s in spots if s[1] not in ("stacktrace", "storage", "requires_grad")]
    bodies = [getattr(o, k) for o, k in spots if k in ("val", "instr_args")]
    for _ in range(int(rng.integers(1, 5))):
        owner, key = spots[rng.integers(len(spots))]
        try:
            old = owner[key] if isinstance(owner, list) else getattr(owner, key)
        except IndexError:
            continue
        new = damaged(old, rng, bodies)
        if isinstance(owner, list):
            owner[key] = new
        else:
            setattr(owner, key, new)
    try:
        return serialize(program, file)
    except Exception:  # the serializer's own checks raise many types
        return None


# ---- named -----------------------------------------------------------------------------------

Change = Callable[[schema.Program, schema.ExecutionPlan], None]
CASES: dict[str, tuple[Change, str]] = {}
"""Changes by name, with a pattern of the expected message."""


def case(says: str) -> Callable[[Change], Change]:
    """Register a case under the name of its function."""

    def add(change: Change) -> Change:
        CASES[change.__name__] = change, says
        return change

    return add


def tensors(plan: schema.ExecutionPlan) -> list[schema.Tensor]:
    return [v.val for v in plan.values if isinstance(v.val, schema.Tensor)]


def kernel(plan: schema.ExecutionPlan) -> schema.KernelCall:
    calls = [i.instr_args for i in plan.chains[0].instructions]
    return next(c for c in calls if isinstance(c, schema.KernelCall))


def first(plan: schema.ExecutionPlan) -> schema.Tensor:
    """Return the first input, a tensor."""
    value = plan.values[plan.inputs[0]].val
    assert isinstance(value, schema.Tensor)
    return value


def insert(plan: schema.ExecutionPlan, arguments: Any) -> None:
    plan.chains[0].instructions.insert(0, schema.Instruction(arguments))


@case("input 0 is value")
def input_out_of_range(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    plan.inputs[0] = len(plan.values)


@case("input 0 is value -1")
def input_negative(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    plan.inputs[0] = -1


@case("output 0 is value")
def output_out_of_range(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    plan.outputs[0] = 2**31 - 1


@case("operator")
def op_index_out_of_range(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    kernel(plan).op_index = len(plan.operators)


@case("operator -1")
def op_index_negative(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    kernel(plan).op_index = -1


@case("argument 0 is value")
def argument_out_of_range(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    kernel(plan).args[0] = len(plan.values)


@case("is a String, expected Tensor")
def argument_of_wrong_kind(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    plan.values.append(schema.EValue(schema.String("x")))
    kernel(plan).args[0] = len(plan.values) - 1


@case("an output whose shape can change is another argument, too")
def output_is_argument(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    for call in (i.instr_args for i in plan.chains[0].instructions):
        if isinstance(call, schema.KernelCall):
            ends = [plan.values[call.args[i]].val for i in (0, -1)]
            if all(isinstance(value, schema.Tensor) for value in ends):
                ends[0].shape_dynamism = schema.TensorShapeDynamism.DYNAMIC_BOUND
                call.args[-2:] = [call.args[0]] * 2  # `out`, and the returned tensor


@case("1 arguments, expected")
def too_few_arguments(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    del kernel(plan).args[1:]


@case("0 arguments, expected")
def no_arguments(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    kernel(plan).args = None  # type: ignore[assignment]


@case("impossible shape")
def size_negative(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    first(plan).sizes[0] = -2


@case("impossible shape")
def sizes_overflow(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    tensor = first(plan)
    tensor.sizes, tensor.dim_order = [2**31 - 1] * 5, [0, 1, 2, 3, 4]


@case("do not fit into planned memory")
def size_beyond_arena(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    for tensor in tensors(plan):
        if tensor.allocation_info:
            tensor.sizes = [n * 1000 for n in tensor.sizes]


@case("rank 100")
def rank_too_large(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    tensor = first(plan)
    tensor.sizes, tensor.dim_order = [1] * 100, list(range(100))


@case("permutation")
def dim_order_is_no_permutation(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    tensor = first(plan)
    tensor.dim_order = [len(tensor.sizes) - 1] * len(tensor.sizes)


@case("entries of dim_order")
def dim_order_too_short(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    first(plan).dim_order = []


@case("entries of dim_order")
def no_sizes(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    first(plan).sizes = None  # type: ignore[assignment]


@case("scalar type 99")
def dtype_unknown(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    first(plan).scalar_type = 99  # type: ignore[assignment]


@case("storage_offset 4")
def storage_offset(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    first(plan).storage_offset = 4


@case("memory id 77")
def memory_id_out_of_range(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    for tensor in tensors(plan):
        if tensor.allocation_info:
            tensor.allocation_info.memory_id = 77


@case("do not fit into planned memory")
def memory_offset_huge(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    for tensor in tensors(plan):
        if tensor.allocation_info:
            tensor.allocation_info.memory_offset_low = 2**32 - 16
            tensor.allocation_info.memory_offset_high = 2**32 - 1


@case("no memory for")
def arena_huge(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    plan.non_const_buffer_sizes = [0, 2**60]


@case("has size -1")
def arena_negative(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    plan.non_const_buffer_sizes = [0, -1]


@case("at most 256 are supported")
def arenas_without_end(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    plan.non_const_buffer_sizes += [16] * 100_000


@case("non_const_buffer_sizes is missing")
def no_arenas(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    plan.non_const_buffer_sizes = None  # type: ignore[assignment]


@case("data_buffer_idx 1000")
def constant_out_of_range(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    tensor = first(plan)
    tensor.data_buffer_idx, tensor.allocation_info = 1000, None


@case("a jump to instruction -1")
def jump_negative(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    plan.values.append(schema.EValue(schema.Bool(False)))
    insert(plan, schema.JumpFalseCall(len(plan.values) - 1, -1))


@case("loops for ever")
def jump_forever(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    plan.values.append(schema.EValue(schema.Bool(False)))
    insert(plan, schema.JumpFalseCall(len(plan.values) - 1, 0))


@case("the condition is a String")
def jump_on_a_string(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    plan.values.append(schema.EValue(schema.String("x")))
    insert(plan, schema.JumpFalseCall(len(plan.values) - 1, 1))


@case("a Int is moved into a Tensor")
def move_of_another_kind(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    plan.values.append(schema.EValue(schema.Int(1)))
    insert(plan, schema.MoveCall(len(plan.values) - 1, plan.inputs[0]))


@case("a Tensor is moved into a TensorList")
def move_into_a_list(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    plan.values.append(schema.EValue(schema.TensorList([plan.inputs[0]])))
    insert(plan, schema.MoveCall(plan.inputs[0], len(plan.values) - 1))


@case("value 2147483647")
def move_out_of_range(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    insert(plan, schema.MoveCall(plan.inputs[0], 2**31 - 1))


@case("a Int is freed")
def free_of_a_number(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    plan.values.append(schema.EValue(schema.Int(1)))
    insert(plan, schema.FreeCall(len(plan.values) - 1))


@case("has no data yet")
def free_before_use(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    insert(plan, schema.FreeCall(kernel(plan).args[0]))


@case("delegate 0 of 0")
def delegate_out_of_range(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    insert(plan, schema.DelegateCall(0, [plan.inputs[0]]))


@case("delegate without payload")
def delegate_without_payload(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    plan.delegates.append(schema.BackendDelegate("ExecutorBackend", None, []))  # type: ignore


@case("delegate without backend id")
def delegate_without_id(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    reference = schema.BackendDelegateDataReference(schema.DataLocation.INLINE, 0)
    plan.delegates.append(schema.BackendDelegate(None, reference, []))  # type: ignore


@case("not a tensor|a TensorList")
def tensor_list_of_itself(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    plan.values.append(schema.EValue(schema.TensorList([len(plan.values)])))


@case("a OptionalTensorList")
def tensor_lists_in_a_circle(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    n = len(plan.values)
    plan.values.append(schema.EValue(schema.OptionalTensorList([n + 1])))
    plan.values.append(schema.EValue(schema.OptionalTensorList([n])))


@case("a Tensor")
def int_list_of_tensors(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    plan.values.append(schema.EValue(schema.IntList([plan.inputs[0]])))


@case("is value 4611686018427387904")
def int_list_out_of_range(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    plan.values.append(schema.EValue(schema.IntList([2**62])))


@case("no items|without items")
def list_without_items(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    plan.values.append(schema.EValue(schema.TensorList(None)))  # type: ignore[arg-type]


@case("String without characters")
def string_without_characters(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    plan.values.append(schema.EValue(schema.String(None)))  # type: ignore[arg-type]


@case("no values|values are missing")
def no_values(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    plan.values = None  # type: ignore[assignment]


@case("chains are missing")
def no_chains(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    plan.chains = None  # type: ignore[assignment]


@case("instructions are missing")
def no_instructions(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    plan.chains[0].instructions = None  # type: ignore[assignment]


@case("inputs are missing")
def no_inputs(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    plan.inputs = None  # type: ignore[assignment]


@case("no name")
def operator_without_name(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    plan.operators[0].name = None  # type: ignore[assignment]


@case("has no name")
def method_without_name(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    plan.name = None  # type: ignore[assignment]


@case("two methods are named")
def methods_of_one_name(program: schema.Program, plan: schema.ExecutionPlan) -> None:
    program.execution_plan.append(copy.deepcopy(plan))


def hostile(pte: bytes, change: Change) -> bytes:
    """Return a program with one named change to its first method."""
    file = deserialize_pte_binary(pte)
    change(file.program, file.program.execution_plan[0])
    return serialize(file.program, file)
