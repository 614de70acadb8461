"""Delegates and their programs, built node by node, including graphs that no exporter writes.

    graph = Graph()
    x, y = graph.input((1, 4, 4, 8)), graph.output((1, 2, 2, 8))
    graph.pool("MaxPooling2d", x, y, window=(2, 2), stride=(2, 2))
    pte = graph.program()

Values have XNNPACK's order of dimensions (images: batch, height, width, channels). Quantisation:
`Tensor(scale, zero_point)`, `Channel(scales, dim)`, `Token(dims)` or `Group(scales, size)`; bytes
have that of `BYTES` by default.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from executorch_c import Method, Runtime
from tests import plans
from tests.backends.xnnpack_payload import BACKEND, Payload, datatypes

Shape = Sequence[int]
ABSENT = -1
NUMPY = {
    "fp32": "float32",
    "fp16": "float16",
    "qint8": "int8",
    "quint8": "uint8",
    "int32": "int32",
    "bf16": "bfloat16",
    "qint32": "int32",
    "qcint8": "int8",
    "qcint32": "int32",
    "qcint4": "uint8",
    "qbint4": "uint8",
}
"""Dtype of a value's bytes; two 4-bit values share a byte."""


@dataclass(frozen=True)
class Tensor:
    scale: float
    zero_point: int = 0


@dataclass(frozen=True)
class Channel:
    scales: Sequence[float]
    dim: int = 0


@dataclass(frozen=True)
class Token:
    dims: int = 1


@dataclass(frozen=True)
class Group:
    scales: Sequence[float]
    size: int
    dim: int = 0


Quantisation = Tensor | Channel | Token | Group | None
BYTES = {"qint8": Tensor(0.5, 3), "quint8": Tensor(0.25, 100)}


def sides(name: str, sizes: Shape) -> dict[str, int]:
    """Return the two fields of a node that are a height and a width."""
    return {f"{name}_height": sizes[0], f"{name}_width": sizes[1]}


def paddings(sizes: Shape) -> dict[str, int]:
    """Return the fields of a node that are paddings: top, right, bottom, left."""
    names = ("padding_top", "padding_right", "padding_bottom", "padding_left")
    return dict(zip(names, sizes, strict=True))


def bfloat16(numbers: Sequence[float]) -> bytes:
    """Return the upper halves of float32 values."""
    return b"".join(struct.pack("<f", number)[2:] for number in numbers)


class Graph:
    """A delegate under construction; values are indices."""

    def __init__(self) -> None:
        self.values: list[dict[str, Any]] = []
        self.nodes: list[dict[str, Any]] = []
        self.entries: list[dict[str, Any]] = [{"offset": 0, "size": 0}]
        self.constants = b""
        self.named: dict[str, bytes] = {}
        """Data of the program's, by name."""
        self.inputs: list[int] = []
        self.outputs: list[int] = []
        self.lost: set[int] = set()
        """Outputs that the payload does not mark; the program has them, in float32."""

    # ---- values ----

    def data(self, content: bytes, name: str | None = None) -> int:
        """Add constant data, inside the payload or with a name in the program; return its index."""
        if name is not None:
            self.named[name] = content
            self.entries.append({"offset": 0, "size": len(content), "named_key": name})
            return len(self.entries) - 1
        self.constants += b"\0" * (-len(self.constants) % 16)
        self.entries.append({"offset": len(self.constants), "size": len(content)})
        self.constants += content
        return len(self.entries) - 1

    def value(
        self, dims: Shape, dtype: str = "fp32", how: Quantisation = None, **fields: Any
    ) -> int:
        """Add a value that a node computes."""
        index, how = len(self.values), how or BYTES.get(dtype)
        tensor = {
            "datatype": datatypes().index(dtype),
            "num_dims": len(dims),
            "dims": list(dims),
            "id_out": index,
            "external_id": ABSENT,
            **fields,
        }
        if how is None:
            self.values.append({"xvalue_union": ["XNNTensorValue", tensor]})
            return index
        value = {"tensor_value": tensor, "quant_params": self.quantisation(how)}
        self.values.append({"xvalue_union": ["XNNQuantizedTensorValue", value]})
        return index

    def quantisation(self, how: Quantisation) -> list[Any]:
        """Return a member of the union of parameters, and its fields."""
        if isinstance(how, Tensor):
            return ["PerTensorQuant", {"scale": how.scale, "zero_point": how.zero_point}]
        if isinstance(how, Token):
            return ["PerTokenDynamicQuant", {"num_nonbatch_dims": how.dims}]
        if isinstance(how, Channel):
            return ["PerChannelQuant", {"scale": list(how.scales), "channel_dim": how.dim}]
        assert isinstance(how, Group)
        groups = {"channel_dim": how.dim, "group_size": how.size, "num_scales": len(how.scales)}
        groups["scale_buffer_idx"] = self.data(bfloat16(how.scales))
        return ["PerChannelGroupQuant", groups]

    def tensor(self, index: int) -> dict[str, Any]:
        fields = self.values[index]["xvalue_union"][1]
        tensor: dict[str, Any] = fields.get("tensor_value", fields)
        return tensor

    def dims(self, index: int) -> tuple[int, ...]:
        return tuple(self.tensor(index)["dims"])

    def input(self, dims: Shape, dtype: str = "fp32", how: Quantisation = None) -> int:
        self.inputs.append(self.value(dims, dtype, how, flags=1))
        return self.inputs[-1]

    def output(self, dims: Shape, dtype: str = "fp32", how: Quantisation = None) -> int:
        self.outputs.append(self.value(dims, dtype, how, flags=2))
        return self.outputs[-1]

    def constant(
        self,
        array: np.ndarray,
        dtype: str = "fp32",
        how: Quantisation = None,
        dims: Shape | None = None,
    ) -> int:
        content = np.ascontiguousarray(array.astype(NUMPY[dtype])).tobytes()
        shape = array.shape if dims is None else dims
        return self.value(shape, dtype, how, constant_buffer_idx=self.data(content))

    # ---- nodes ----

    def node(self, kind: str, bounds: tuple[float, float] | None = None, **fields: Any) -> None:
        """Add a node by the names of the schema."""
        entry: dict[str, Any] = {
            "xnode_union": ["XNN" + kind, fields],
            "debug_handle": len(self.nodes) + 1,
        }
        if bounds is not None:
            entry["output_min_max"] = {"output_min": bounds[0], "output_max": bounds[1]}
        self.nodes.append(entry)

    def unary(self, kind: str, x: int, y: int, **fields: Any) -> None:
        bounds = fields.pop("bounds", None)
        self.node(kind, bounds, input_id=x, output_id=y, **fields)

    def binary(self, kind: str, a: int, b: int, y: int, **fields: Any) -> None:
        self.node(kind, input1_id=a, input2_id=b, output_id=y, **fields)

    def step(
        self,
        kind: str,
        *operands: int,
        dims: Shape | None = None,
        dtype: str = "fp32",
        how: Quantisation = None,
        **fields: Any,
    ) -> int:
        """Add a node of one or two operands and the value that it computes, of the shape of the
        first one by default."""
        y = self.value(self.dims(operands[0]) if dims is None else dims, dtype, how)
        add = self.unary if len(operands) == 1 else self.binary
        add(kind, *operands, y, **fields)
        return y

    def show(self, index: int) -> int:
        """Make a value an output."""
        self.tensor(index)["flags"] = 2
        self.outputs.append(index)
        return index

    def concatenate(self, parts: Sequence[int], y: int, axis: int) -> None:
        ids = {f"input{i + 1}_id": part for i, part in enumerate(parts)}
        self.node(f"Concatenate{len(parts)}", axis=axis, output_id=y, **ids)

    def linear(self, x: int, weight: int, bias: int, y: int, **fields: Any) -> None:
        ends = {"input1_id": x, "filter_id": weight, "bias_id": bias, "output_id": y}
        self.node("FullyConnected", **ends, **fields)

    def pool(
        self,
        kind: str,
        x: int,
        y: int,
        window: Shape,
        stride: Shape = (1, 1),
        padding: Shape = (0, 0, 0, 0),
        dilation: Shape = (1, 1),
        **fields: Any,
    ) -> None:
        """Add a pooling; padding is top, right, bottom, left."""
        sizes = {**sides("pooling", window), **sides("stride", stride)}
        sizes |= {**sides("dilation", dilation), **paddings(padding)}
        self.unary(kind, x, y, **sizes, **fields)

    def conv(
        self,
        kind: str,
        x: int,
        weight: int,
        bias: int,
        y: int,
        *,
        groups: int = 1,
        stride: Shape = (1, 1),
        padding: Shape = (0, 0, 0, 0),
        dilation: Shape = (1, 1),
        **fields: Any,
    ) -> None:
        """Add a convolution with the window and the channels of its filter."""
        count, height, width, inputs = self.dims(weight)
        if kind == "DepthwiseConv2d":
            count, inputs = inputs, 1
        sizes = {**sides("kernel", (height, width)), **sides("subsampling", stride)}
        sizes |= {**sides("dilation", dilation), **sides("adjustment", (0, 0)), **paddings(padding)}
        sizes |= {"groups": groups, "group_input_channels": inputs}
        ends = {"input1_id": x, "filter_id": weight, "bias_id": bias, "output_id": y}
        self.node(kind, **ends, **sizes, group_output_channels=count // groups, **fields)

    # ---- bytes ----

    def payload(self) -> bytes:
        """Return the payload with its arguments in order: inputs, then outputs."""
        for place, index in enumerate([*self.inputs, *self.outputs]):
            self.tensor(index)["external_id"] = place
        for index in self.lost:
            self.tensor(index).update(flags=0, external_id=ABSENT)
        graph = {
            "version": "0",
            "xnodes": self.nodes,
            "xvalues": self.values,
            "num_externs": len(self.inputs) + len(self.outputs),
            "input_ids": self.inputs,
            "output_ids": self.outputs,
            "constant_data": self.entries,
        }
        return Payload(graph, self.constants).pack()

    def program(
        self, bounds: Mapping[int, Shape] | None = None, payload: bytes | None = None
    ) -> bytes:
        """Return a .pte whose arguments may have any shape up to `bounds`, or up to the value's
        shape, with the graph's payload or another one."""
        plan = plans.Plan()
        args = []
        for index in [*self.inputs, *self.outputs]:
            tensor = self.tensor(index)
            add = plan.input if index in self.inputs else plan.output
            lost = index in self.lost
            dtype = "float32" if lost else NUMPY[datatypes()[tensor["datatype"]]]
            shape = (bounds or {}).get(index, tensor["dims"])
            args.append(int(add(shape, dtype, dynamism=plans.BOUNDED)))
        plan.append(plans.schema.DelegateCall(plan.delegate(BACKEND, 0), args))
        return plans.build(plan, payloads=[payload or self.payload()])

    # ---- calls ----

    def load(self, bounds: Mapping[int, Shape] | None = None, **options: Any) -> Method:
        program = Runtime.get().load_program(self.program(bounds))
        return program.load_method("forward", **options)

    def run(self, *inputs: np.ndarray, **options: Any) -> list[Any]:
        """Return the outputs of one call of a method that is loaded with options."""
        return self.load(**options).execute(inputs)
