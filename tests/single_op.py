"""Writer of a .pte with many methods, each one call of one operator on given arguments.

Without torch.export: the program is built from the official schema dataclasses, so that one
file tests hundreds of combinations of operator, dtype and layout, and the official runtime can
run the very same file as a second oracle.

    ops = SingleOps()
    ops.add("aten::add.out", a, b, 1, Out((2, 3), "float32"))
    ops.add("aten::max.dim_max", a, 0, False, Out((3,), "float32"), Out((3,), "int64"))
    ops.add("executorch_prim::add.Scalar", 1, 2, Slot())
    pte = ops.build()
    ops.inputs["op_0"]  # the inputs of the method "op_0"

Arguments stand in schema order. Arrays and torch tensors become inputs of the method, everything
else is written into the file; `Arg` says otherwise or adds details. A list of ints, floats, bools
or tensors (with None between them) is a list argument. Run this file to see the official runtime
agree with eager on a few of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from executorch.exir import schema
from executorch.exir._serialize._program import PTEFile, serialize_pte_binary

STATIC, BOUNDED, UNBOUND = schema.TensorShapeDynamism
DTYPES = {
    "uint8": 0,
    "int8": 1,
    "int16": 2,
    "int32": 3,
    "int64": 4,
    "float16": 5,
    "float32": 6,
    "float64": 7,
    "complex64": 9,
    "complex128": 10,
    "bool": 11,
    "bfloat16": 15,
    "uint16": 27,
    "uint32": 28,
    "uint64": 29,
}
WIDTHS = {
    0: 1,
    1: 1,
    2: 2,
    3: 4,
    4: 8,
    5: 2,
    6: 4,
    7: 8,
    9: 8,
    10: 16,
    11: 1,
    15: 2,
    27: 2,
    28: 4,
    29: 8,
}
ALIGNMENT = 16


def dtype_id(name: str) -> int:
    """Return the ScalarType number of a NumPy dtype name, as operators take it."""
    return DTYPES[name]


@dataclass(frozen=True)
class Out:
    """An output tensor; `shape` is the upper bound when `dynamism` is BOUNDED."""

    shape: Sequence[int]
    dtype: str = "float32"
    dim_order: Sequence[int] | None = None
    dynamism: int = STATIC
    planned: bool = True


@dataclass(frozen=True)
class Slot:
    """The value that a prim operator overwrites, with its initial value."""

    value: Any = 0


@dataclass(frozen=True)
class Arg:
    """An argument with details: `value` is an array, a tensor or a Python value.

    `bound` gives the tensor in the file another (larger) shape than `value` has.
    """

    value: Any
    constant: bool = False
    dim_order: Sequence[int] | None = None
    dynamism: int = STATIC
    bound: Sequence[int] | None = None
    planned: bool = True


class Optionals(list[Any]):
    """A list argument of optional tensors, even without None in it."""


def is_tensor(value: Any) -> bool:
    """Return True for an array or a torch tensor."""
    return isinstance(value, np.ndarray) or type(value).__module__.startswith("torch")


def dtype_name(value: Any) -> str:
    """Return NumPy's name of the dtype of an array or a torch tensor."""
    return value.dtype.name if isinstance(value, np.ndarray) else str(value.dtype).split(".")[1]


def dim_order_of(value: Any) -> list[int]:
    """Return the dimensions from the largest stride to the smallest; ties keep their order."""
    strides = value.strides if isinstance(value, np.ndarray) else value.stride()
    return sorted(range(len(strides)), key=lambda i: -strides[i])


def raw_bytes(value: Any, order: Sequence[int]) -> bytes:
    """Return the bytes of the elements in the given dim order."""
    if isinstance(value, np.ndarray):
        return value.transpose(order).tobytes()
    import torch

    permuted = value.detach().permute(tuple(order)).contiguous()
    return permuted.reshape(-1).view(torch.uint8).numpy().tobytes()


@dataclass
class _Method:
    """One execution plan under construction."""

    name: str
    buffers: list[schema.Buffer]
    values: list[schema.EValue] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    given: list[Any] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    arena: int = 0

    def put(self, value: Any) -> int:
        """Append a value and return its index."""
        self.values.append(schema.EValue(value))
        return len(self.values) - 1

    def allocate(self, size: int) -> schema.AllocationDetails:
        """Return the next free bytes of the method's only arena."""
        offset = self.arena
        self.arena += -(-size // ALIGNMENT) * ALIGNMENT
        return schema.AllocationDetails(1, offset & 0xFFFFFFFF, offset >> 32)

    def tensor(
        self,
        shape: Sequence[int],
        dtype: str,
        order: Sequence[int] | None,
        dynamism: int,
        planned: bool,
        buffer: int = 0,
    ) -> int:
        """Add a tensor value, planned or not, or a constant if `buffer` is given."""
        number = DTYPES[dtype]
        size = int(np.prod(shape, dtype=np.int64)) * WIDTHS[number]
        known = number in schema.ScalarType._value2member_map_
        return self.put(
            schema.Tensor(
                scalar_type=schema.ScalarType(number) if known else number,  # type: ignore
                storage_offset=0,
                sizes=[int(n) for n in shape],
                dim_order=list(range(len(shape)) if order is None else order),
                requires_grad=False,
                layout=0,
                data_buffer_idx=buffer,
                allocation_info=self.allocate(size) if planned and buffer == 0 else None,
                shape_dynamism=schema.TensorShapeDynamism(dynamism),
            )
        )

    def out(self, out: Out) -> int:
        """Add an output tensor, which is an output of the method, too."""
        index = self.tensor(out.shape, out.dtype, out.dim_order, out.dynamism, out.planned)
        self.outputs.append(index)
        return index

    def given_tensor(self, arg: Arg) -> int:
        """Add a tensor that is an input or a constant."""
        value = arg.value
        order = arg.dim_order if arg.dim_order is not None else dim_order_of(value)
        shape = arg.bound if arg.bound is not None else tuple(value.shape)
        if arg.constant:
            self.buffers.append(schema.Buffer(raw_bytes(value, order)))
            last = len(self.buffers) - 1
            return self.tensor(shape, dtype_name(value), order, STATIC, False, last)
        index = self.tensor(shape, dtype_name(value), order, arg.dynamism, arg.planned)
        self.inputs.append(index)
        self.given.append(value)
        return index

    def scalar(self, value: Any) -> int:
        """Add a value that is neither a tensor nor a list."""
        kinds: list[tuple[type, Any]] = [
            (type(None), lambda _: schema.Null()),
            (bool, schema.Bool),
            (int, schema.Int),
            (float, schema.Double),
            (str, schema.String),
        ]
        for kind, make in kinds:
            if isinstance(value, kind):
                return self.put(make(value))
        raise TypeError(f"no value kind for {type(value).__name__}")

    def list_of(self, items: Sequence[Any]) -> int:
        """Add a list argument; its kind follows from the items, an empty list is a list of ints."""
        if any(item is None or isinstance(item, Arg | Out) or is_tensor(item) for item in items):
            indices = [-1 if item is None else self.argument(item) for item in items]
            optional = isinstance(items, Optionals) or any(item is None for item in items)
            return self.put((schema.OptionalTensorList if optional else schema.TensorList)(indices))
        if items and all(isinstance(item, bool) for item in items):
            return self.put(schema.BoolList(list(items)))
        if any(isinstance(item, float) for item in items):
            return self.put(schema.DoubleList([float(item) for item in items]))
        return self.put(schema.IntList([self.scalar(int(item)) for item in items]))

    def argument(self, arg: Any) -> int:
        """Return the index of any argument."""
        if isinstance(arg, Out):
            return self.out(arg)
        if isinstance(arg, Slot):
            self.outputs.append(self.scalar(arg.value))
            return self.outputs[-1]
        if is_tensor(arg):
            return self.given_tensor(Arg(arg))
        if isinstance(arg, Arg):
            if is_tensor(arg.value):
                return self.given_tensor(arg)
            index = self.argument(arg.value)
            if not arg.constant:
                self.inputs.append(index)
                self.given.append(arg.value)
            return index
        return self.list_of(arg) if isinstance(arg, list | tuple) else self.scalar(arg)


def _returns(args: Sequence[Any], indices: list[int], method: _Method) -> list[int]:
    """Return the values after the arguments: the out tensor again, or a list of all of them."""
    outs = [i for arg, i in zip(args, indices, strict=True) if isinstance(arg, Out)]
    for arg, index in zip(args, indices, strict=True):
        if isinstance(arg, list | tuple) and any(isinstance(item, Out) for item in arg):
            items = method.values[index].val.items  # type: ignore[union-attr]
            return [method.put(schema.TensorList(list(items)))]
    return outs if len(outs) < 2 else [method.put(schema.TensorList(outs))]


class SingleOps:
    """A program under construction; `inputs` and `operators` are by method name."""

    def __init__(self) -> None:
        self.inputs: dict[str, list[Any]] = {}
        self.operators: dict[str, str] = {}
        self._buffers = [schema.Buffer(b"")]
        self._plans: list[schema.ExecutionPlan] = []

    def add(
        self,
        operator: str,
        *args: Any,
        name: str | None = None,
        returns: Sequence[int] | None = None,
        outputs: Sequence[int] | None = None,
    ) -> str:
        """Add a method with one call of `operator` and return its name.

        `returns` lists the positions of the arguments that are repeated as return values, for
        in-place operators such as aten::copy_; they become the outputs of the method. `outputs`
        lists the positions of the arguments that are the outputs, in place of each `Out`.
        """
        method = _Method(name or f"op_{len(self._plans)}", self._buffers)
        indices = [method.argument(arg) for arg in args]
        if returns is None:
            extra = _returns(args, indices, method)
        else:
            extra = [indices[i] for i in returns]
            method.outputs.extend(extra)
        if outputs is not None:
            method.outputs = [indices[i] for i in outputs]
        base, _, overload = operator.partition(".")
        call = schema.Instruction(schema.KernelCall(0, indices + extra))
        self.inputs[method.name] = method.given
        self.operators[method.name] = operator
        self._plans.append(
            schema.ExecutionPlan(
                name=method.name,
                container_meta_type=schema.ContainerMetadata("", ""),
                values=method.values,
                inputs=method.inputs,
                outputs=method.outputs,
                chains=[schema.Chain([], [], [call], None)],
                operators=[schema.Operator(base, overload)],
                delegates=[],
                non_const_buffer_sizes=[0, method.arena],
            )
        )
        return method.name

    def program(self) -> schema.Program:
        """Return the program, for changes before serialisation."""
        empty = schema.SubsegmentOffsets(0, [])
        return schema.Program(0, self._plans, self._buffers, [], [], empty)

    def build(self) -> bytes:
        """Return the bytes of the .pte."""
        return bytes(serialize_pte_binary(PTEFile(self.program(), None, None)))


def _self_check() -> None:
    """Compare a few operators of the official runtime with eager."""
    import torch
    from executorch.runtime import Runtime

    a, b = torch.randn(2, 3), torch.randn(2, 3)
    image = torch.randn(1, 2, 4, 4).to(memory_format=torch.channels_last)
    ops = SingleOps()
    expected: dict[str, list[Any]] = {}

    def check(operator: str, *args: Any, expect: list[Any], **options: Any) -> None:
        expected[ops.add(operator, *args, **options)] = expect

    check("aten::add.out", a, b, 2, Out((2, 3)), expect=[a + 2 * b])
    bounded, wide, half = (
        Out((4, 3), dynamism=BOUNDED),
        Out((2, 1), "float64"),
        Out((2, 3), "bfloat16"),
    )
    check("aten::add.out", a, Arg(b, constant=True), 1, bounded, expect=[a + b])
    check("aten::max.dim_max", a, 0, False, Out((3,)), Out((3,), "int64"), expect=list(a.max(0)))
    check("aten::cat.out", [a, b], 0, Out((4, 3)), expect=[torch.cat([a, b])])
    halves, indices = [Out((1, 3)), Out((1, 3))], [None, torch.tensor([2, 0])]
    check("aten::split_copy.Tensor_out", a, 1, 0, halves, expect=list(a.split(1)))
    check("aten::index.Tensor_out", a, indices, Out((2, 2)), expect=[a[:, [2, 0]]])
    check("aten::relu.out", image, Out((1, 2, 4, 4), dim_order=(0, 2, 3, 1)), expect=[image.relu()])
    check("aten::copy_", a, b, False, returns=[0], expect=[b])
    gelu = torch.nn.functional.gelu(a, approximate="tanh")
    check("aten::gelu.out", a, "tanh", Out((2, 3), planned=False), expect=[gelu])
    total, double = a.sum(1, True, dtype=torch.float64), dtype_id("float64")
    check("aten::sum.IntList_out", a, [1], True, double, wide, expect=[total])
    x, y = a.bfloat16(), b.bfloat16()
    check("aten::add.out", x, y, 1, half, expect=[x + y])
    check("executorch_prim::truediv.Scalar", Arg(3), 2, Slot(), expect=[1.5])
    program = Runtime.get().load_program(ops.build())
    for name, wanted in expected.items():
        outputs = program.load_method(name).execute(ops.inputs[name])
        torch.testing.assert_close(outputs, wanted)
        print(f"{ops.operators[name]:34} agrees")


if __name__ == "__main__":
    _self_check()
