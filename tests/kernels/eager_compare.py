"""Compares operators that sum many products with eager: tolerances in units of the dtype's last
place, relative to the largest result, and both the fast and the reference loops."""

from __future__ import annotations

import numpy as np
from eager import COMPLEX, array, eager, to_numpy, to_torch
from eager import FLOATING as FLOATS
from op_harness import Out, run

__all__ = ["COMPLEX", "FLOATS", "HALVES", "INTS", "channels_last", "check", "eager", "make",
           "to_numpy", "to_torch"]  # fmt: skip

INTS = ["uint8", "int8", "int16", "int32", "int64"]  # what eager's heavier operators take
HALVES = ["float16", "bfloat16"]
# One unit in the last place at 1.
EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52,
           "complex64": 2.0**-23, "complex128": 2.0**-52}  # fmt: skip


def make(rng: np.random.Generator, dtype: str, shape: tuple[int, ...], order=None) -> np.ndarray:
    return array(rng, shape, dtype, order)


def channels_last(rank: int) -> tuple[int, ...]:
    return (0, *range(2, rank), 1)


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
