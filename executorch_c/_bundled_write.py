"""Writes .bpte files with the package `flatbuffers`, which the schema's own compiler comes with.

Field numbers are those of bundled_program_schema.fbs; csrc/format/bundled.def has them, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c import _core, _flatbuffers
from executorch_c._arrays import Array

if TYPE_CHECKING:
    from executorch_c.bundled import TestCase, Value

TENSOR, INT, BOOL, DOUBLE = 1, 2, 3, 4
"""Types of ValueUnion."""

SCALAR_TYPES = _core._scalar_types()


def _bytes(builder: Any, data: bytes, alignment: int) -> int:
    """A vector of bytes whose first one is aligned in the file."""
    builder.StartVector(1, len(data), alignment)
    builder.head -= len(data)
    builder.Bytes[builder.head : builder.head + len(data)] = data
    offset: int = builder.EndVector()
    return offset


def _dim_order(array: Array) -> list[int]:
    """The order of a dense array's dimensions in memory; C order for one that is not dense."""
    order = sorted(range(array.ndim), key=lambda d: -array.strides[d])
    return order if array.transpose(order).flags.c_contiguous else list(range(array.ndim))


def _tensor(builder: Any, array: Array) -> int:
    if array.dtype.name not in SCALAR_TYPES:
        raise _core.NotSupportedError(f"no scalar type for an array of dtype {array.dtype}")
    order = _dim_order(array)
    data = _bytes(builder, np.ascontiguousarray(array.transpose(order)).tobytes(), 16)
    dims = _bytes(builder, bytes(order), 1)
    sizes = builder.CreateNumpyVector(np.array(array.shape, np.int32))
    builder.StartObject(4)
    builder.PrependInt8Slot(0, SCALAR_TYPES[array.dtype.name], 0)
    builder.PrependUOffsetTRelativeSlot(1, sizes, 0)
    builder.PrependUOffsetTRelativeSlot(2, data, 0)
    builder.PrependUOffsetTRelativeSlot(3, dims, 0)
    offset: int = builder.EndObject()
    return offset


def _number(builder: Any, value: float) -> tuple[int, int]:
    """Union type and table of a number."""
    builder.StartObject(1)
    if isinstance(value, bool):
        builder.PrependBoolSlot(0, value, False)
        return BOOL, builder.EndObject()
    if isinstance(value, int):
        builder.PrependInt64Slot(0, value, 0)
        return INT, builder.EndObject()
    builder.PrependFloat64Slot(0, value, 0.0)
    return DOUBLE, builder.EndObject()


def _value(builder: Any, value: Value) -> int:
    if isinstance(value, np.ndarray):
        kind, table = TENSOR, _tensor(builder, value)
    else:
        kind, table = _number(builder, value)
    builder.StartObject(2)
    builder.PrependUint8Slot(0, kind, 0)
    builder.PrependUOffsetTRelativeSlot(1, table, 0)
    offset: int = builder.EndObject()
    return offset


def _table(builder: Any, *offsets: int) -> int:
    """A table whose fields are all offsets."""
    builder.StartObject(len(offsets))
    for field, offset in enumerate(offsets):
        builder.PrependUOffsetTRelativeSlot(field, offset, 0)
    table: int = builder.EndObject()
    return table


def _case(builder: Any, case: TestCase) -> int:
    sides = [_flatbuffers.offsets(builder, [_value(builder, v) for v in side])
             for side in (case.inputs, case.expected)]  # fmt: skip
    return _table(builder, *sides)


def write(program: bytes, suites: Mapping[str, Sequence[TestCase]]) -> bytes:
    """A .bpte of a program and its test cases by method."""
    builder = _flatbuffers.builder(len(program) + 1024, "bundled programs")
    tables = []
    for name, cases in suites.items():
        rows = _flatbuffers.offsets(builder, [_case(builder, case) for case in cases])
        tables.append(_table(builder, builder.CreateString(name), rows))
    vector = _flatbuffers.offsets(builder, tables)
    blob = _bytes(builder, program, 32)
    builder.StartObject(3)
    builder.PrependUOffsetTRelativeSlot(1, vector, 0)
    builder.PrependUOffsetTRelativeSlot(2, blob, 0)
    builder.Finish(builder.EndObject(), file_identifier=b"BP08")
    return bytes(builder.Output())
