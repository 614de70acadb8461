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
or tensors (with None between them) is a list argument.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from executorch.exir import schema

from tests import plans
from tests.plans import PLANNED, STATIC, Constants, Plan, V


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


class _Method(Plan):
    """A method with one call; `arrays` are its inputs."""

    def __init__(self, name: str, constants: Constants) -> None:
        super().__init__(name)
        self.constants = constants
        self.arrays: list[Any] = []

    def out(self, out: Out) -> V:
        """Add an output tensor, which is an output of the method, too."""
        at = PLANNED if out.planned else None
        options = {"at": at, "order": out.dim_order, "dynamism": out.dynamism}
        return self.output(out.shape, out.dtype, **options)

    def given(self, arg: Arg) -> V:
        """Add a tensor that is an input or a constant."""
        value, dtype = arg.value, dtype_name(arg.value)
        order = arg.dim_order if arg.dim_order is not None else dim_order_of(value)
        shape = arg.bound if arg.bound is not None else tuple(value.shape)
        if arg.constant:
            buffer = self.constants.add(raw_bytes(value, order))
            return self.tensor(shape, dtype, at=None, order=order, buffer=buffer)
        self.arrays.append(value)
        at = PLANNED if arg.planned else None
        return self.input(shape, dtype, at=at, order=order, dynamism=arg.dynamism)

    def list_of(self, items: Sequence[Any]) -> V:
        """Add a list argument; its kind follows from the items, an empty list is a list of ints."""
        if not any(isinstance(item, Arg | Out) or is_tensor(item) for item in items):
            return self.value(list(items))
        indices = [None if item is None else self.argument(item) for item in items]
        if isinstance(items, Optionals) and None not in indices:
            return self.put(schema.OptionalTensorList([int(i) for i in indices]))
        return self.value(indices)

    def argument(self, arg: Any) -> V:
        """Return the index of any argument."""
        if isinstance(arg, Out):
            return self.out(arg)
        if isinstance(arg, Slot):
            return self.take(arg.value)[0]
        if is_tensor(arg):
            return self.given(Arg(arg))
        if isinstance(arg, Arg):
            if is_tensor(arg.value):
                return self.given(arg)
            index = self.argument(arg.value)
            if not arg.constant:
                self.give(index)
                self.arrays.append(arg.value)
            return index
        return self.list_of(arg) if isinstance(arg, list | tuple) else self.value(arg)


def _returns(args: Sequence[Any], indices: list[V], method: _Method) -> list[V]:
    """Return the values after the arguments: the out tensor again, or a list of all of them."""
    outs = [i for arg, i in zip(args, indices, strict=True) if isinstance(arg, Out)]
    for arg, index in zip(args, indices, strict=True):
        if isinstance(arg, list | tuple) and any(isinstance(item, Out) for item in arg):
            items = method.plan.values[index].val.items  # type: ignore[union-attr]
            return [method.put(schema.TensorList(list(items)))]
    return outs if len(outs) < 2 else [method.value(outs)]


class SingleOps:
    """A program under construction; `inputs` and `operators` are by method name."""

    def __init__(self) -> None:
        self.inputs: dict[str, list[Any]] = {}
        self.operators: dict[str, str] = {}
        self._constants = Constants()
        self._methods: list[Plan] = []

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
        name = name or f"op_{len(self._methods)}"
        method = _Method(name, self._constants)
        indices = [method.argument(arg) for arg in args]
        if returns is None:
            results = _returns(args, indices, method)
        else:
            results = method.take(*(indices[i] for i in returns))
        if outputs is not None:
            method.plan.outputs = [indices[i] for i in outputs]
        method.call(operator, *indices, returns=results)
        self.inputs[name], self.operators[name] = method.arrays, operator
        self._methods.append(method)
        return name

    def program(self) -> schema.Program:
        """Return the program, for changes before serialisation."""
        return plans.program(*self._methods, constants=self._constants)

    def build(self) -> bytes:
        """Return the bytes of the .pte."""
        return plans.build(*self._methods, constants=self._constants)
