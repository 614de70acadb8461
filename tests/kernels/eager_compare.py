"""Compares one operator of the C core with torch eager, on the fast and on the reference loops."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import torch
from op_harness import Out, np_dtype, run

INTS = ["uint8", "int8", "int16", "int32", "int64"]
HALVES = ["float16", "bfloat16"]
FLOATS = [*HALVES, "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
EVERY = [*INTS, "uint16", "uint32", "uint64", *FLOATS, *COMPLEX, "bool"]
# One unit in the last place at 1, by which tolerances are scaled.
EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52,
           "complex64": 2.0**-23, "complex128": 2.0**-52}  # fmt: skip


def make(rng: np.random.Generator, dtype: str, shape: tuple[int, ...], order=None) -> np.ndarray:
    """Random numbers, laid out in memory with the dimensions in `order` (outermost first)."""
    if dtype == "bool":
        a = rng.integers(0, 2, shape)
    elif dtype in EPSILON:
        a = rng.standard_normal(shape)
        if dtype in COMPLEX:
            a = a + 1j * rng.standard_normal(shape)
    else:
        a = rng.integers(0 if dtype.startswith("u") else -9, 10, shape)
    a = np.asarray(a).astype(np_dtype(dtype))
    return laid_out(a, order) if order else a


def laid_out(a: np.ndarray, order) -> np.ndarray:
    return np.ascontiguousarray(a.transpose(order)).transpose(np.argsort(order))


def channels_last(rank: int) -> tuple[int, ...]:
    return (0, *range(2, rank), 1)


def to_torch(x: Any) -> Any:
    """Arrays in their layout become tensors; lists and numbers stay."""
    if isinstance(x, np.ndarray):
        if x.dtype.name == "bfloat16":
            return torch.from_numpy(x.view(np.uint16).copy("K")).view(torch.bfloat16)
        return torch.from_numpy(x)
    return x


def to_numpy(t: torch.Tensor) -> np.ndarray:
    if t.dtype == torch.bfloat16:
        return t.contiguous().view(torch.uint16).numpy().view(ml_dtypes.bfloat16)
    return t.numpy()


def eager(name: str, args: list) -> list[np.ndarray]:
    """What torch's functional form of an out operator gives."""
    packet, _, overload = name.removeprefix("aten::").partition(".")
    overload = overload.removesuffix("out").removesuffix("_") or "default"
    result = getattr(getattr(torch.ops.aten, packet), overload)(*[to_torch(a) for a in args])
    return [to_numpy(t) for t in (result if isinstance(result, tuple | list) else (result,))]


def assert_close(found: np.ndarray, wanted: np.ndarray, ulps: float, what: str = "") -> None:
    """Integers equal; floats within `ulps` units of the type, relative to the largest magnitude."""
    assert found.shape == wanted.shape, what
    assert found.dtype == wanted.dtype, what
    name = wanted.dtype.name
    if name not in EPSILON or wanted.size == 0:
        np.testing.assert_array_equal(found, wanted, what)
        return
    wide = np.complex128 if name in COMPLEX else np.float64
    found, wanted = found.astype(wide), wanted.astype(wide)
    finite = np.abs(wanted[np.isfinite(wanted)])
    scale = max(1.0, float(finite.max())) if finite.size else 1.0
    tolerance = ulps * EPSILON[name]
    np.testing.assert_allclose(found, wanted, tolerance, tolerance * scale, err_msg=what)


def check(name: str, args: list, outs: int = 1, ulps: float = 4, orders=None, wanted=None) -> list:
    """Runs `name` with `args` followed by outputs of eager's shapes; returns the fast results."""
    wanted = eager(name, args) if wanted is None else wanted
    assert len(wanted) == outs
    orders = orders or [None] * outs
    for reference in (True, False):
        out = [Out(w.shape, w.dtype.name, o) for w, o in zip(wanted, orders, strict=True)]
        found = run(name, [*args, *out], reference)
        for i, (f, w) in enumerate(zip(found, wanted, strict=True)):
            assert_close(f, w, ulps, f"output {i}, {'reference' if reference else 'fast'}")
    return found
