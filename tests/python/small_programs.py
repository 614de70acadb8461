"""Small programs for the tests of the Python layer, written without torch.export."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from executorch.exir import schema
from executorch.exir._serialize._program import PTEFile, serialize_pte_binary

from executorch_c import Method, Runtime
from tests.plans import BOUNDED
from tests.single_op import Arg, Out, SingleOps

CHANNELS_LAST = (0, 2, 3, 1)
IMAGE = (2, 3, 4, 5)
INTEGERS = "uint8 uint16 uint32 uint64 int8 int16 int32 int64"
DTYPES = f"bool {INTEGERS} float16 float32 float64 complex64 complex128".split()


def load(pte: bytes, name: str, **options: Any) -> Method:
    """Return the method of a program given as bytes."""
    return Runtime.get().load_program(pte).load_method(name, **options)


def values(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Return different small values; zeros and ones for bool."""
    count = int(np.prod(shape))
    return (np.arange(count) % (2 if dtype == "bool" else 100)).reshape(shape).astype(dtype)


def channels_last(x: np.ndarray) -> np.ndarray:
    """Return the same values with channels innermost in memory."""
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


def serialize(program: schema.Program) -> bytes:
    """Return the bytes of a program."""
    return bytes(serialize_pte_binary(PTEFile(program, None, None)))


def add_pte(shape: Sequence[int] = (2, 2), dtype: str = "float32", **out: Any) -> bytes:
    """Return a program: `forward(x, y)` is x + y, for arrays of one shape and dtype."""
    ops = SingleOps()
    like = np.zeros(shape, dtype)
    ops.add("aten::add.out", like, like, 1, Out(shape, dtype, **out), name="forward")
    return ops.build()


def clone_pte(shape: Sequence[int], dtype: str, order: Sequence[int] | None = None) -> bytes:
    """Return a program: `forward(x)` is a copy of x, in one dim order."""
    ops = SingleOps()
    value = Tensorlike(shape, dtype)
    out = Out(shape, dtype, order)
    ops.add("aten::clone.out", Arg(value, dim_order=order), None, out, name="forward")
    return ops.build()


def dynamic_pte(bound: Sequence[int] = (4, 2), dtype: str = "float32") -> bytes:
    """Return a program: `forward(x, y)` is x + y, for shapes up to `bound`."""
    ops = SingleOps()
    one = Arg(np.zeros(bound, dtype), dynamism=BOUNDED)
    two = Arg(np.zeros(bound, dtype), dynamism=BOUNDED)
    ops.add("aten::add.out", one, two, 1, Out(bound, dtype, dynamism=BOUNDED), name="forward")
    return ops.build()


class Tensorlike(np.ndarray):
    """Zeros that may report bfloat16, for which NumPy has no name."""

    def __new__(cls, shape: Sequence[int], dtype: str) -> Tensorlike:
        if dtype == "bfloat16":
            import ml_dtypes

            return np.zeros(shape, ml_dtypes.bfloat16).view(cls)
        return np.zeros(shape, dtype).view(cls)


def kinds_pte(inputs: Sequence[Any], outputs: Sequence[Any]) -> bytes:
    """Return a program: `forward(x, *inputs)` returns [x + 1, *outputs], for any kinds of Python
    values."""
    ops = SingleOps()
    ops.add("aten::add.Scalar_out", np.zeros(2, "float32"), 1, 1, Out((2,)), name="forward")
    program = ops.program()
    plan = program.execution_plan[0]

    def put(value: Any) -> int:
        plan.values.append(schema.EValue(value_of(value, put, plan.inputs[0])))
        return len(plan.values) - 1

    tensor = plan.inputs[0]
    plan.inputs += [put(value) for value in inputs]
    plan.outputs += [tensor if value is Ellipsis else put(value) for value in outputs]
    return serialize(program)


def value_of(value: Any, put: Any, tensor: int) -> Any:
    """Return the file's value for a Python value; Ellipsis inside a list is the input tensor."""
    if value is None:
        return schema.Null()
    if isinstance(value, list):
        if Ellipsis in value:
            items = [tensor if item is Ellipsis else -1 for item in value]
            kind = schema.OptionalTensorList if None in value else schema.TensorList
            return kind(items)
        if all(isinstance(item, bool) for item in value):
            return schema.BoolList(value)
        if all(isinstance(item, int) for item in value):
            return schema.IntList([put(item) for item in value])
        return schema.DoubleList(value)
    kinds = {bool: schema.Bool, int: schema.Int, float: schema.Double, str: schema.String}
    return kinds[type(value)](value)


def slow_pte(size: int) -> bytes:
    """Return a slow program: `forward(x, y)` is the matrix product of two square matrices."""
    ops = SingleOps()
    like = np.zeros((size, size), "float32")
    ops.add("aten::mm.out", like, like, Out((size, size)), name="forward")
    return ops.build()


def counter_pte() -> bytes:
    """Return a program: `forward(x)` adds x to the mutable attribute "total" and returns the
    sum."""
    ops = SingleOps()
    total = np.zeros(2, "float32")
    ops.add("aten::add.out", total, total, 1, Out((2,)), name="forward")
    program = ops.program()
    plan = program.execution_plan[0]
    state, x = plan.inputs
    plan.inputs = [x]
    plan.values[state].val.extra_tensor_info = schema.ExtraTensorInfo(
        mutable_data_segments_idx=0,
        fully_qualified_name="total",
        location=schema.TensorDataLocation.SEGMENT,
    )
    plan.values[plan.outputs[0]] = schema.EValue(schema.Null())
    plan.outputs = [state]
    call = plan.chains[0].instructions[0].instr_args
    call.args[-2:] = [state, state]
    return serialize(program)


def clone(shape: tuple[int, ...], dtype: str, order: Any = None) -> Method:
    """Return a method that copies its input."""
    return load(clone_pte(shape, dtype, order), "forward")
