"""Decompositions: singular matrices, invalid arguments, and larger matrices."""

import numpy as np
import pytest

from tests.kernels import rows
from tests.kernels.accuracy import check
from tests.kernels.eager import array, eager
from tests.op_harness import Out, assert_rejected, run

F = np.float32
ONES, ZERO = np.ones((2, 2), F), np.zeros((2, 2), F)
NAN = np.full((2, 2), np.nan, F)
M, V, I2, I0 = Out((2, 2)), Out((2,)), Out((2,), "int32"), Out((), "int32")
PIVOTS = np.array([1, 3], np.int32)
REFUSED = [
    ("linalg_inv_ex.inverse", [ONES, True, M, I0], "singular"),
    ("_linalg_solve_ex.result", [ONES, ONES, True, True, M, M, I2, I0], "singular"),
    ("linalg_lu_factor_ex.out", [ONES, True, True, M, I2, I0], "a zero on the diagonal of U (2)"),
    ("linalg_lu_factor_ex.out", [ONES, False, False, M, I2, I0], "argument 'pivot': false"),
    ("linalg_cholesky_ex.L", [-ONES, False, True, M, I0], "not positive-definite (1)"),
    ("cholesky.out", [ONES, False, M], "not positive-definite (2)"),
    ("linalg_ldl_factor_ex.out", [ZERO, False, True, M, I2, I0], "D is singular (1)"),
    ("_linalg_svd.U", [NAN, False, True, None, M, V, M], "elements that are not finite"),
    (
        "linalg_eig.out",
        [NAN, Out((2,), "complex64"), Out((2, 2), "complex64")],
        "not all elements are finite",
    ),
    ("linalg_lu_solve.out", [ONES, PIVOTS, ONES, True, False, M], "pivot 1 is 3, expected 1 to 2"),
    ("lu_unpack.out", [ONES, PIVOTS, True, True, M, M, M], "pivot 1 is 3"),
    ("linalg_ldl_solve.out", [ONES, -PIVOTS, ONES, False, M], "argument 'pivots': -1 at 0"),
    ("linalg_qr.out", [ONES, "all", M, M], "argument 'mode': 'all', expected"),
    ("_linalg_eigh.eigenvalues", [ONES, "X", True, V, M], "argument 'UPLO': 'X'"),
    ("_linalg_det.result", [np.ones((2, 3), F), Out(()), M, I2], "expected square"),
    ("_linalg_det.result", [np.ones((2, 2), np.int64), Out((), "int64"), M, I2], "dtype int64"),
    (
        "linalg_solve_triangular.out",
        [ONES, np.ones((3, 2), F), True, True, False, M],
        "argument 'B': shape (3, 2), expected (2, 2) at its end",
    ),
    (
        "linalg_householder_product.out",
        [np.ones((2, 3), F), np.ones(2, F), Out((2, 3))],
        "argument 'input': more columns than rows",
    ),
    (
        "ormqr.out",
        [ONES, np.ones(3, F), ONES, True, False, M],
        "argument 'input2': more numbers than rows or columns of 'self'",
    ),
]


@pytest.mark.parametrize("name, args, message", REFUSED)
def test_refused(name: str, args: list, message: str) -> None:
    assert_rejected(f"aten::{name}", args, message)


LARGE = {
    "_linalg_eigh.eigenvalues": ["L", True],
    "_linalg_svd.U": [False, True, None],
    "linalg_eig.out": [],
    "linalg_qr.out": ["reduced"],
    "linalg_lu_factor_ex.out": [True, False],
    "geqrf.a": [],
    "linalg_ldl_factor_ex.out": [False, False],
}


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("name", LARGE)
def test_large(rng, name: str, dtype: str) -> None:
    a = array(rng, (70, 70), dtype)
    args = [a + a.T if "ldl" in name else a, *LARGE[name]]
    wanted = eager(f"aten::{name}", args)
    found = run(f"aten::{name}", [*args, *[Out(w.shape, w.dtype.name) for w in wanted]])
    rows.check(f"aten::{name}", args, found, wanted)


def test_info_of_unchecked_fields() -> None:
    singular = np.stack([np.eye(2, dtype=F), ONES])
    found = run(
        "aten::linalg_inv_ex.inverse", [singular, False, Out((2, 2, 2)), Out((2,), "int32")]
    )
    wanted = eager("aten::linalg_inv_ex.inverse", [singular, False])
    np.testing.assert_array_equal(found[1], wanted[1])
    np.testing.assert_array_equal(found[0][0], wanted[0][0])


@pytest.mark.parametrize("value", [np.inf, -np.inf, 0.0])
def test_signs_of_non_finite_values(value: float) -> None:
    check("aten::_linalg_slogdet.sign", [np.array([[value, 1], [0, -2]], F)])


def test_not_finite_eigenvalues() -> None:
    for found in run("aten::_linalg_eigh.eigenvalues", [NAN, "L", True, V, M]):
        assert np.isnan(found).all()


@pytest.mark.parametrize("shape", [(4, 5), (5, 5), (5, 3), (1, 3)])
def test_reflections_of_nan(rng, shape: tuple[int, int]) -> None:
    """A column of one element has no reflection (LAPACK's larfg), not even of NaN."""
    a = array(rng, shape, "float32")
    a[-1, -1] = np.nan
    wanted = eager("aten::geqrf.a", [a])
    found = run("aten::geqrf.a", [a, *[Out(w.shape) for w in wanted]])
    for ours, eagers in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.isnan(ours), np.isnan(eagers))


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_products_of_reflections_that_are_not_finite(rng, value: float, count: int) -> None:
    """Column i is 1 - tau at the diagonal, whatever stands below (LAPACK's orgqr)."""
    v, tau = array(rng, (5, 3), "float32"), array(rng, (count,), "float32")
    v[3, count - 1] = value
    wanted = eager("aten::linalg_householder_product.out", [v, tau])
    found = run("aten::linalg_householder_product.out", [v, tau, Out(v.shape)])
    np.testing.assert_array_equal(np.isnan(found[0]), np.isnan(wanted[0]))


def test_a_reflection_of_negative_zero() -> None:
    """LAPACK takes its sign for positive."""
    a = np.array([[-0.0, 1], [-1, 0], [0, 2]], F)
    wanted = eager("aten::linalg_qr.out", [a, "complete"])
    found = run("aten::linalg_qr.out", [a, "complete", Out((3, 3)), Out((3, 2))])
    for ours, eagers in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, eagers, rtol=1e-6, atol=1e-6)
