"""csrc/kernels/fft against eager and NumPy: every kind of length, accuracy, invalid arguments.

Transforms of float64 are compared with NumPy's in extended precision: eager's library loses 8 to
11 bits of float64 for lengths with factors like 67 and 73 on CPUs with AVX-512.
"""

import numpy as np
import pytest

from tests.kernels.eager import eager, spectrum
from tests.kernels.samples_fft import SAMPLES
from tests.op_harness import Out, run

LONG = (127, 211, 256, 400, 1000, 1009, 1024, 2018, 4096, 4489, 5040)


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_spectrum(name: str) -> None:
    """NumPy's transforms have the conventions of eager's."""
    dtype = "float32" if name == "aten::_fft_r2c.out" else "complex64"
    for args in SAMPLES[name](np.random.default_rng(1), dtype):
        expected, result = eager(name, args)[0], spectrum(name, args)
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
        if result.size:
            np.testing.assert_allclose(result, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


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
        output = run(name, [*args, Out(wanted.shape, wanted.dtype.name)])[0]
        scale = np.sqrt(np.mean(np.abs(wanted) ** 2))
        assert np.abs(output - wanted).max() < 24 * epsilon * scale, name


def test_nan_affects_only_its_row() -> None:
    a = np.random.default_rng(0).standard_normal((9, 67)).astype("float32")
    a[4, 3] = np.nan
    output = run("aten::_fft_r2c.out", [a, [1], 0, True, Out((9, 34), "complex64")])[0]
    assert np.isnan(output[4]).any()
    assert np.isfinite(np.delete(output, 4, 0)).all()
