"""dtypes of programs: NumPy's names, and their numbers in files (ScalarType)."""

import ml_dtypes
import numpy as np

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
    "float8_e5m2": 23,
    "float8_e4m3fn": 24,
    "float8_e5m2fnuz": 25,
    "float8_e4m3fnuz": 26,
    "uint16": 27,
    "uint32": 28,
    "uint64": 29,
}

FLOAT8 = [name for name in DTYPES if name.startswith("float8")]


def dtype_id(name: str) -> int:
    """Return the ScalarType number of a NumPy dtype name, as operators take it."""
    return DTYPES[name]


def np_dtype(name: str) -> np.dtype:
    """Return NumPy's dtype of a name."""
    is_extension = name == "bfloat16" or name in FLOAT8
    return np.dtype(getattr(ml_dtypes, name)) if is_extension else np.dtype(name)


WIDTHS = {number: np_dtype(name).itemsize for name, number in DTYPES.items()}
"""Bytes of an element, by ScalarType number."""
