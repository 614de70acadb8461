"""csrc/kernels/copy and its copy engine, compared with eager."""

import warnings

import numpy as np
import pytest
import torch

from tests.judge import assert_equal
from tests.kernels.eager import ALL, COMPLEX, array, to_numpy, to_torch
from tests.dtypes import np_dtype
from tests.op_harness import Out, run


def in_range(rng: np.random.Generator, shape: tuple, dtype: str, order: tuple | None) -> np.ndarray:
    """Return numbers that every dtype can represent, with fractions and both signs if supported."""
    a = array(rng, shape, dtype, order)
    return np.asarray(np.abs(a)) if dtype not in ("bool", *COMPLEX) else a


def converted(a: np.ndarray, dtype: str) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return to_numpy(to_torch(a).to(getattr(torch, dtype)))


@pytest.mark.parametrize("source", ALL)
@pytest.mark.parametrize("target", ALL)
def test_conversions(source: str, target: str, rng: np.random.Generator) -> None:
    for shape, order in (((), None), ((0,), None), ((700,), None), ((5, 20, 33), (1, 2, 0))):
        a = in_range(rng, shape, source, order)
        want = converted(a, target)
        for out_order in ((2, 0, 1), (2, 1, 0)) if len(shape) == 3 else (None,):
            for name in ("aten::_to_copy.out", "dim_order_ops::_to_dim_order_copy.out"):
                output = run(name, [a, False, None, Out(shape, target, out_order)])[0]
                assert_equal(output, want, (source, target, shape, out_order))


@pytest.mark.parametrize("source", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("target", ["float16", "bfloat16", "float32", "float64", "bool"])
def test_conversions_of_special_numbers(source: str, target: str) -> None:
    """Signed zeros, infinities, NaN, subnormals, ties and overflow round as in eager."""
    tiny = [2.0**-149, 2.0**-133, 2.0**-24, 2.0**-25, 3 * 2.0**-26, 6e-8, 1e-40]
    large = [65504.0, 65519.9, 65520.0, 3.3895e38, 3.4e38, 1e39, 1 + 2.0**-8, 1 + 3 * 2.0**-9]
    with np.errstate(over="ignore"):
        values = np.asarray([0.0, -0.0, np.inf, -np.inf, np.nan, *tiny, *large, 2049, 2051])
        a = np.concatenate([values, -values]).astype(np_dtype(source))
    output = run("aten::_to_copy.out", [a, False, None, Out(a.shape, target)])[0]
    want = converted(a, target)
    nan = np.isnan(want.astype(np.float64))
    assert np.array_equal(np.isnan(output.astype(np.float64)), nan)
    assert output[~nan].tobytes() == want[~nan].tobytes()


@pytest.mark.parametrize("source", ["float16", "float32", "float64"])
@pytest.mark.parametrize("target", ["int8", "uint8", "int16", "int32", "int64"])
def test_negative_numbers_to_integers(source: str, target: str) -> None:
    """Truncated; unsigned integers wrap as on x86."""
    a = np.asarray([-0.9, -1.0, -1.5, -100.7, 0.9, 99.99], source)
    output = run("aten::_to_copy.out", [a, False, None, Out(a.shape, target)])[0]
    assert_equal(output, converted(a, target), (source, target))


OUT_OF_RANGE = [
    *(np.nan, np.inf, -np.inf, 1e30, -1e30, 2.0**31, 2.0**62, 2.0**63, -(2.0**63), 2.0**64),
    *(5e9 + 77, -0.9, 16777217),
]


@pytest.mark.parametrize("source", ["float32", "float64"])
@pytest.mark.parametrize("target", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_numbers_out_of_range(source: str, target: str) -> None:
    """Element by element as in eager, whose vectors have other results for uint32; in vectors and
    in what is left."""
    a = np.asarray(OUT_OF_RANGE, source)
    wanted = np.concatenate([converted(a[i : i + 1], target) for i in range(a.size)])
    for count in (1, 7, 8, a.size, 15, 16, 33, 1000):
        outputs = run(
            "aten::_to_copy.out", [np.resize(a, count), False, None, Out((count,), target)]
        )
        assert_equal(outputs[0], np.resize(wanted, count), (source, target))
    assert (converted(a, target) == wanted).all() == (target != "uint32")
