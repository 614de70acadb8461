"""Graphs by Arm's TOSA serializer, as payloads of TOSABackend and for the reference model."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tosa_reference_model
import tosa_serializer as ts
from executorch.exir import schema

import executorch_c
from tests.plans import Plan, build

DTYPES = {
    ts.DType.BOOL: "bool",
    ts.DType.INT4: "int8",
    ts.DType.INT8: "int8",
    ts.DType.INT16: "int16",
    ts.DType.INT32: "int32",
    ts.DType.INT48: "int64",
    ts.DType.FP32: "float32",
    ts.DType.FP16: "float16",
    ts.DType.BF16: "bfloat16",
}
"""dtypes of the arguments of a program."""

Shape = Sequence[int]


@dataclass
class Graph:
    """A graph under construction; operands are names."""

    minor: int = 0
    inputs: list[Any] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    writer: Any = None
    """Of another graph, whose current block this one is."""

    def __post_init__(self) -> None:
        if self.writer is None:
            self.writer = ts.TosaSerializer("", ts.ConstMode.EMBED, 1, self.minor, 0, False)

    def input(self, shape: Shape, dtype: Any) -> str:
        tensor = ts.TosaSerializerTensor(f"in{len(self.inputs)}", list(shape), dtype)
        self.writer.addInputTensor(tensor)
        self.inputs.append((tuple(shape), dtype))
        return str(tensor.name)

    def const(self, shape: Shape, dtype: Any, values: Any) -> str:
        flat = np.asarray(values).reshape(-1).tolist()
        return str(self.writer.addConst(list(shape), dtype, flat).name)

    def shape(self, numbers: Sequence[int]) -> str:
        result = self.writer.addConst([len(numbers)], ts.DType.SHAPE, list(numbers))
        return str(result.name)

    def apply(
        self,
        op: str,
        inputs: Sequence[str],
        shape: Shape,
        dtype: Any,
        *attribute: Any,
        final: bool = True,
    ) -> str:
        """Add an operator and return its result, which is the graph's if `final`."""
        make = self.writer.addOutput if final else self.writer.addIntermediate
        out = make(list(shape), dtype)
        if final:
            self.outputs.append((tuple(shape), dtype))
        self.add(op, inputs, [out.name], *attribute)
        return str(out.name)

    def add(self, op: str, inputs: Sequence[str], outputs: Sequence[str], *attribute: Any) -> None:
        result = ts.TosaSerializerAttribute()
        result.setAttribute(getattr(ts.Op, op), *attribute)
        self.writer.addOperator(getattr(ts.Op, op), list(inputs), list(outputs), result)

    def payload(self) -> bytes:
        return bytes(self.writer.serialize())

    def program(self, **options: Any) -> bytes:
        """Return a .pte whose method is one delegate with this graph."""
        plan = Plan()
        args = [plan.input(shape, DTYPES[dtype]) for shape, dtype in self.inputs]
        args += [plan.output(shape, DTYPES[dtype]) for shape, dtype in self.outputs]
        plan.append(schema.DelegateCall(plan.delegate("TOSABackend", 0), [int(a) for a in args]))
        return build(plan, payloads=[self.payload()], **options)

    def run(self, *inputs: np.ndarray) -> list[np.ndarray]:
        program = executorch_c.Runtime.get().load_program(self.program())
        return list(program.load_method("forward").execute(list(inputs)))

    def reference(self, *inputs: np.ndarray) -> list[np.ndarray]:
        """Return the reference model's outputs."""
        outputs, status = tosa_reference_model.run(
            self.payload(), list(inputs), initialize_variable_tensor_from_numpy=True
        )
        assert status == tosa_reference_model.GraphStatus.TOSA_VALID, status
        return [np.asarray(array) for array in outputs]
