"""csrc/kernels/fft against eager and NumPy: every kind of length, accuracy, invalid arguments.

Transforms of float64 are compared with NumPy's in extended precision: eager's library loses 8 to
11 bits of float64 for lengths with factors like 67 and 73 on CPUs with AVX-512.
"""

from typing import Any

import numpy as np
import pytest

from tests.kernels.accuracy import check
from tests.kernels.eager import eager
from tests.kernels.samples_fft import SAMPLES
from tests.op_harness import OpError, Out, run

LONG = (127, 211, 256, 400, 1000, 1009, 1024, 2018, 4096, 4489, 5040)


def spectrum(name: str, args: list[Any]) -> np.ndarray:
    """Return the result of `name`, computed by NumPy in extended precision and rounded once."""
    a, dims, normalization, last = args
    if not a.size or not dims:
        return eager(name, args)[0]
    wide = a.astype(np.clongdouble if np.iscomplexobj(a) else np.longdouble)
    sizes = [a.shape[dim] for dim in dims]
    if name == "aten::_fft_c2r.out":
        sizes[-1] = last
        found = np.fft.irfftn(wide, s=sizes, axes=dims, norm="forward")
    elif name == "aten::_fft_c2c.out" and not last:
        found = np.fft.ifftn(wide, axes=dims, norm="forward")
    else:
        one_sided = name == "aten::_fft_r2c.out" and last
        found = (np.fft.rfftn if one_sided else np.fft.fftn)(wide, axes=dims)
    count = np.longdouble(np.prod(sizes))
    found = found / [np.longdouble(1), np.sqrt(count), count][normalization]
    is_complex = np.iscomplexobj(found)
    return found.astype(np.result_type(a.dtype, np.complex64) if is_complex else a.real.dtype)


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_spectrum(name: str) -> None:
    """NumPy's transforms have the conventions of eager's."""
    dtype = "float32" if name == "aten::_fft_r2c.out" else "complex64"
    for args in SAMPLES[name](np.random.default_rng(1), dtype):
        expected, found = eager(name, args)[0], spectrum(name, args)
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        if found.size:
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_samples(name: str, dtype: str) -> None:
    if (name == "aten::_fft_r2c.out") == dtype.startswith("complex"):
        args = next(SAMPLES[name](np.random.default_rng(0), dtype))
        with pytest.raises(OpError, match="dtype"):
            run(name, [*args, Out((1,), dtype)])
        return
    for args in SAMPLES[name](np.random.default_rng(0), dtype):
        is_wide = dtype in ("float64", "complex128")
        check(name, args, wanted=[spectrum(name, args)] if is_wide else None)


@pytest.mark.parametrize("length", LONG)
@pytest.mark.parametrize(("dtype", "epsilon"), [("float32", 2.0**-23), ("float64", 2.0**-52)])
def test_accuracy(length: int, dtype: str, epsilon: float) -> None:
    """The error relative to the spectrum is within a few units of the dtype."""
    rng = np.random.default_rng(length)
    real = rng.standard_normal((5, length)).astype(dtype)
    wide = "complex128" if dtype == "float64" else "complex64"
    pairs = (real + 1j * rng.standard_normal(real.shape)).astype(wide)
    calls = [
        ("aten::_fft_r2c.out", [real, [1], 0, False]),
        ("aten::_fft_c2c.out", [pairs, [1], 0, True]),
        ("aten::_fft_c2c.out", [pairs, [1], 2, False]),
        ("aten::_fft_c2r.out", [pairs, [1], 1, 2 * length - 2]),
        ("aten::_fft_c2r.out", [pairs, [1], 1, 2 * length - 1]),
    ]
    for name, args in calls:
        wanted = spectrum(name, args)
        found = run(name, [*args, Out(wanted.shape, wanted.dtype.name)])[0]
        scale = np.sqrt(np.mean(np.abs(wanted) ** 2))
        assert np.abs(found - wanted).max() < 24 * epsilon * scale, name


def test_nan_affects_only_its_row() -> None:
    a = np.random.default_rng(0).standard_normal((9, 67)).astype("float32")
    a[4, 3] = np.nan
    found = run("aten::_fft_r2c.out", [a, [1], 0, True, Out((9, 34), "complex64")])[0]
    assert np.isnan(found[4]).any()
    assert np.isfinite(np.delete(found, 4, 0)).all()


@pytest.mark.parametrize(
    ("name", "rest", "shape", "message"),
    [
        ("_fft_c2c", [[0, 0], 0, True], (3, 4), "is out of range or repeated"),
        ("_fft_c2c", [[2], 0, True], (3, 4), "out of range"),
        ("_fft_c2c", [[0], 3, True], (3, 4), "normalization"),
        ("_fft_c2r", [[], 0, 4], (3, 4), "no dimension"),
        ("_fft_c2r", [[1], 0, 8], (3, 4), "8 elements from 4"),
        ("_fft_c2r", [[1], 0, 0], (3, 4), "0 elements from 4"),
        ("_fft_c2r", [[0], 0, 1], (), "is out of range or repeated"),
        ("_fft_c2r", [[1, 0], 0, 2], (2, 0), "no elements"),
    ],
)
def test_refused(name: str, rest: list, shape: tuple[int, ...], message: str) -> None:
    out = Out(shape, "float32" if name == "_fft_c2r" else "complex64")
    with pytest.raises(OpError, match=message):
        run(f"aten::{name}.out", [np.zeros(shape, "complex64"), *rest, out])
