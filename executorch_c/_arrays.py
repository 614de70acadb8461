"""Conversion of array-like objects to NumPy arrays, and dtypes by name."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c import _extras
from executorch_c._paths import writing

if TYPE_CHECKING:
    from executorch_c._types import FilePath

Array = np.ndarray[Any, np.dtype[Any]]

FLOAT8 = ("float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz")
EXTENSIONS = ("bfloat16", *FLOAT8)
"""Dtypes that NumPy lacks."""


def dtype_of(name: str) -> np.dtype[Any]:
    """Return the NumPy dtype of a name; bfloat16 and float8 are those of ml_dtypes."""
    if name in EXTENSIONS:
        ml_dtypes = _extras.load(f"an array of {name}", "ml_dtypes")
        extension: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return extension
    return np.dtype(name)


def as_array(value: object) -> Array:
    """Return an array-like object as a NumPy array. A torch.Tensor may require a gradient, or be
    bfloat16 or float8.

    Raises TypeError for an object that is not an array of numbers.
    """
    if type(value).__module__.startswith("torch"):
        value = _from_torch(value)
    array: Array = np.asarray(value)
    if array.dtype.kind not in "biufcV" or array.dtype.names:
        raise TypeError(
            f"expected an array of numbers, found {type(value).__name__} of dtype {array.dtype}"
        )
    if not array.dtype.isnative:  # the order of bytes is of the memory, not of the numbers
        return array.astype(array.dtype.newbyteorder("="))
    return array


def _from_torch(tensor: Any) -> Any:
    torch = sys.modules["torch"]
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in EXTENSIONS:
        return tensor.numpy()
    try:
        dtype = dtype_of(name)
    except ImportError:
        return tensor.float().numpy()  # the same numbers
    bits = torch.int16 if dtype.itemsize == 2 else torch.uint8
    return tensor.contiguous().view(bits).numpy().view(dtype)


def write_arrays(path: FilePath, kind: str, values: Sequence[Any]) -> None:
    """Write an .npz file with input_0, input_1, ... (for the kind "input"); None is skipped."""
    named = {f"{kind}_{i}": np.asarray(v) for i, v in enumerate(values) if v is not None}
    with writing(path, "wb") as file:  # savez would append .npz to a path
        np.savez(file, **named)  # type: ignore[arg-type]
