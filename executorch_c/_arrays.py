"""Conversion of array-like objects to NumPy arrays, and dtypes by name."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from executorch_c import _extras

Array = np.ndarray[Any, np.dtype[Any]]


def dtype_of(name: str) -> np.dtype[Any]:
    """Return the NumPy dtype of a name; bfloat16 is ml_dtypes.bfloat16."""
    if name == "bfloat16":
        ml_dtypes = _extras.load("an array of bfloat16", "ml_dtypes")
        bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    return np.dtype(name)


def as_array(value: object) -> Array:
    """Return an array-like object as a NumPy array. A torch.Tensor may require a gradient or be
    bfloat16.

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
    if tensor.dtype != torch.bfloat16:
        return tensor.numpy()
    try:
        import ml_dtypes
    except ImportError:
        return tensor.float().numpy()  # the same numbers
    return tensor.contiguous().view(torch.int16).numpy().view(ml_dtypes.bfloat16)
