"""Well-formed programs with hostile values, by the official serializer.

`random_damage` changes numbers, lists and fields anywhere in a program's dataclasses; `CASES` are
named ones, each with the expected error at load or at run time. runtime/test_hostile.py has more.
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
Pick = Callable[[schema.ExecutionPlan], Any]
"""Returns a part of a method."""


def method(plan: schema.ExecutionPlan) -> schema.ExecutionPlan:
    return plan


def kernel(plan: schema.ExecutionPlan) -> schema.KernelCall:
    """Return the first call of a kernel."""
    calls = [i.instr_args for i in plan.chains[0].instructions]
    return next(c for c in calls if isinstance(c, schema.KernelCall))


def first(plan: schema.ExecutionPlan) -> schema.Tensor:
    """Return the first input, a tensor."""
    value = plan.values[plan.inputs[0]].val
    assert isinstance(value, schema.Tensor)
    return value


def chain(plan: schema.ExecutionPlan) -> schema.Chain:
    return plan.chains[0]


def planned(plan: schema.ExecutionPlan) -> list[schema.Tensor]:
    """Return the tensors in planned memory."""
    tensors = [v.val for v in plan.values if isinstance(v.val, schema.Tensor)]
    return [tensor for tensor in tensors if tensor.allocation_info]


def fields(part: Pick, **changes: Any) -> Change:
    """Set fields of a part."""

    def change(_: schema.Program, plan: schema.ExecutionPlan) -> None:
        for name, value in changes.items():
            setattr(part(plan), name, value)

    return change


def value(made: Any, instruction: Callable[..., Any] | None = None) -> Change:
    """Add a value, and an instruction in front; functions are of the method, `instruction` also of
    the value's index."""

    def change(_: schema.Program, plan: schema.ExecutionPlan) -> None:
        plan.values.append(schema.EValue(made(plan) if callable(made) else made))
        if instruction is not None:
            code = instruction(plan, len(plan.values) - 1)
            plan.chains[0].instructions.insert(0, schema.Instruction(code))

    return change


def instruction(make: Callable[[schema.ExecutionPlan], Any]) -> Change:
    """Add an instruction in front."""
    return lambda _, plan: plan.chains[0].instructions.insert(0, schema.Instruction(make(plan)))


def jump(to: int) -> Callable[..., Any]:
    """Return a jump, on a value, to an instruction."""
    return lambda _, index: schema.JumpFalseCall(index, to)


def output_is_argument(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    for call in (i.instr_args for i in plan.chains[0].instructions):
        if isinstance(call, schema.KernelCall):
            ends = [plan.values[call.args[i]].val for i in (0, -1)]
            if all(isinstance(end, schema.Tensor) for end in ends):
                ends[0].shape_dynamism = schema.TensorShapeDynamism.DYNAMIC_BOUND
                call.args[-2:] = [call.args[0]] * 2  # `out`, and the returned tensor


def size_beyond_arena(_: schema.Program, plan: schema.ExecutionPlan) -> None:
    for tensor in planned(plan):
        tensor.sizes = [n * 1000 for n in tensor.sizes]


NO_STRING: Any = schema.String(None)  # type: ignore[arg-type]
NO_LIST: Any = schema.TensorList(None)  # type: ignore[arg-type]

CASES: dict[str, tuple[Change, str]] = {
    "output_is_argument": (
        output_is_argument,
        "an output whose shape can change is another argument, too",
    ),
    "no_arguments": (fields(kernel, args=None), "0 arguments, expected"),
    "size_beyond_arena": (size_beyond_arena, "do not fit into planned memory"),
    "dtype_unknown": (fields(first, scalar_type=99), "scalar type 99"),
    "arenas_without_end": (
        fields(method, non_const_buffer_sizes=[0, *[16] * 100_000]),
        "at most 256 are supported",
    ),
    "constant_out_of_range": (
        fields(first, data_buffer_idx=1000, allocation_info=None),
        "data_buffer_idx 1000",
    ),
    "jump_forever": (value(schema.Bool(False), jump(0)), "loops for ever"),
    "jump_on_a_string": (value(schema.String("x"), jump(1)), "the condition is a String"),
    "move_into_a_list": (
        value(
            lambda plan: schema.TensorList([plan.inputs[0]]),
            lambda plan, index: schema.MoveCall(plan.inputs[0], index),
        ),
        "a Tensor is moved into a TensorList",
    ),
    "free_of_a_number": (
        value(schema.Int(1), lambda _, index: schema.FreeCall(index)),
        "a Int is freed",
    ),
    "free_before_use": (
        instruction(lambda plan: schema.FreeCall(kernel(plan).args[0])),
        "has no data yet",
    ),
    "list_without_items": (value(NO_LIST), "no items|without items"),
    "string_without_characters": (value(NO_STRING), "String without characters"),
    "no_instructions": (fields(chain, instructions=None), "instructions are missing"),
}
"""Changes by name, with a pattern of the expected message."""


def hostile(pte: bytes, change: Change) -> bytes:
    """Return a program with one named change to its first method."""
    file = deserialize_pte_binary(pte)
    change(file.program, file.program.execution_plan[0])
    return serialize(file.program, file)
