"""Writer of .bpte files, with the package `flatbuffers`.

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

SCALAR_TYPES = _core._scalar_types()


def _dim_order(array: Array) -> list[int]:
    """Return the dimension order of a dense array; C order for a non-dense array."""
    order = sorted(range(array.ndim), key=lambda d: -array.strides[d])
    return order if array.transpose(order).flags.c_contiguous else list(range(array.ndim))


def _tensor(array: Array) -> dict[str, Any]:
    if array.dtype.name not in SCALAR_TYPES:
        raise _core.NotSupportedError(f"no scalar type for an array of dtype {array.dtype}")
    order = _dim_order(array)
    data = np.ascontiguousarray(array.transpose(order)).tobytes()
    return {
        "scalar_type": SCALAR_TYPES[array.dtype.name],
        "sizes": array.shape,
        "dim_order": order,
        "data": data,
    }


def _value(value: Value) -> dict[str, Any]:
    if isinstance(value, np.ndarray):
        return {"val": ("Tensor", _tensor(value))}
    kinds = {bool: "Bool", int: "Int", float: "Double"}
    kind = next(name for type_, name in kinds.items() if isinstance(value, type_))
    return {"val": (kind, {f"{kind.lower()}_val": value})}


def _case(case: TestCase) -> dict[str, Any]:
    return {
        "inputs": [*map(_value, case.inputs)],
        "expected_outputs": [*map(_value, case.expected)],
    }


def write(program: bytes, suites: Mapping[str, Sequence[TestCase]]) -> bytes:
    """A .bpte of a program and its test cases by method."""
    rows = [{"method_name": n, "test_cases": [*map(_case, cases)]} for n, cases in suites.items()]
    return _flatbuffers.write(
        {"method_test_suites": rows, "program": program},
        _core._file_tables("bpte"),
        "BundledProgram",
        "bundled programs",
        identifier=b"BP08",
        size=len(program) + 1024,
    )
