"""Checks of decompositions whose factors are unique only up to signs, phases or order."""

from collections.abc import Callable

import numpy as np

from tests.judge import ROUNDED, Limit, assert_right, bound, info, wide
from tests.kernels.accuracy import exactly

EPSILON = float(info("float64").eps)
# Decompositions compute in double precision and round once. The units of residuals are for dtypes
# that are rounded to, and for those that are computed in; the float64 units of values come on top
# of their rounding. All are relative to the size of the matrix.
ROUNDED_RESIDUAL, RESIDUAL, VALUES = 1, 8, 8


def adjoint(a: np.ndarray) -> np.ndarray:
    return a.conj().swapaxes(-1, -2)


def size_of(a: np.ndarray) -> np.ndarray:
    """Return the norm of each matrix: the root of the sum of its squares."""
    return np.asarray(np.sqrt((np.abs(wide(a)) ** 2).sum((-2, -1))))


def residual(dtype: np.dtype) -> float:
    """Return the allowed error for numbers of size 1."""
    eps = float(info(dtype.name).eps)
    return eps * (RESIDUAL if eps == EPSILON else ROUNDED_RESIDUAL)


def assert_zero(a: np.ndarray, dtype: np.dtype, size: np.ndarray, what: str) -> None:
    """Assert that residuals are zero, by matrix, within some units of its size."""
    room = residual(dtype) * size[..., None, None]
    assert (np.abs(a) <= room).all(), (what, np.abs(a).max(), room)


def assert_values(result: np.ndarray, exact: np.ndarray, size: np.ndarray, what: str) -> None:
    """Assert that eigenvalues or singular values, in order, are a single rounding of float64's."""
    room = bound(exact, result.dtype.name, ROUNDED) + VALUES * EPSILON * size[..., None]
    off = np.abs(wide(result) - exact)
    assert (off <= room).all(), (what, off.max(), room)


def assert_orthogonal(q: np.ndarray, what: str) -> None:
    """Assert that columns are orthogonal and of length 1."""
    w = wide(q)
    assert_zero(adjoint(w) @ w - np.eye(q.shape[-1]), q.dtype, np.ones(q.shape[:-2]), what)


def check_eigh(args: list, outputs: list, results: list) -> None:
    what = f"_linalg_eigh {args}"
    (a, *_), exact = exactly("aten::_linalg_eigh.eigenvalues", args, results)
    half = np.triu(a, 1) if args[1] in "Uu" else np.tril(a, -1)
    i = np.arange(a.shape[-1])
    whole = half + adjoint(half)
    whole[..., i, i] = a[..., i, i].real
    size = size_of(whole)
    assert_values(outputs[0], exact[0], size, what)
    if not args[2]:
        return
    values, vectors = wide(outputs[0]), wide(outputs[1])
    assert_orthogonal(outputs[1], what)
    assert_zero(whole @ vectors - vectors * values[..., None, :], outputs[1].dtype, size, what)


def check_svd(args: list, outputs: list, results: list) -> None:
    what = f"_linalg_svd {args}"
    u, s, v = outputs
    (a, *_), exact = exactly("aten::_linalg_svd.U", args, results)
    assert_values(s, exact[1], size_of(a), what)
    if not args[2]:
        return
    assert_orthogonal(u, what)
    assert_orthogonal(adjoint(v), what)
    k = s.shape[-1]
    product = (wide(u)[..., :k] * wide(s)[..., None, :]) @ wide(v)[..., :k, :]
    assert_zero(product - a, u.dtype, size_of(a), what)


def series(a: np.ndarray) -> np.ndarray:
    """Return e^a from its series in extended precision."""
    x = a.astype(np.clongdouble if a.dtype.kind == "c" else np.longdouble)
    norm = float(np.abs(x).astype(np.float64).sum(-2).max(initial=0))
    halvings = max(0, int(np.ceil(np.log2(4 * norm)))) if norm else 0
    x = x / 2**halvings
    term = total = np.zeros_like(x) + np.eye(a.shape[-1])
    for i in range(1, 40):
        term = term @ x / i
        total = total + term
    for _ in range(halvings):
        total = total @ total
    with np.errstate(over="ignore"):
        return np.asarray(total.astype(np.complex128 if a.dtype.kind == "c" else np.float64))


def check_exp(args: list, outputs: list, results: list) -> None:
    """Check against the series: eager's error is 4e-12 where it takes degree 8."""
    what, (a,) = f"matrix_exp {args}", args
    exact = series(a)
    with np.errstate(over="ignore"):
        rounded = exact.astype(a.dtype)
    terms = series(np.abs(a).astype(np.float64))
    assert_right(outputs[0], rounded, what, Limit(1, 4), exact, terms)


def check_pinv(args: list, outputs: list, results: list) -> None:
    """Check with an error proportional to the condition number."""
    what, name = f"pinv {args}", "aten::linalg_pinv.atol_rtol_tensor_out"
    (a, *_), exact = exactly(name, args, results)
    size = size_of(exact[0])
    condition = np.maximum(1.0, size * size_of(a))
    room = bound(exact[0], outputs[0].dtype.name, ROUNDED)
    room = room + VALUES * EPSILON * (size * condition)[..., None, None]
    off = np.abs(wide(outputs[0]) - exact[0])
    assert (off <= room).all(), (what, off.max(), room)


def check_eig(args: list, outputs: list, results: list) -> None:
    """Check eigenvalues in any order; real matrices have conjugate pairs."""
    what = f"linalg_eig {args}"
    (a,), exact = exactly("aten::linalg_eig.out", args, results)
    values, vectors = wide(outputs[0]), wide(outputs[1])
    assert_zero(a @ vectors - vectors * values[..., None, :], outputs[1].dtype, size_of(a), what)
    lengths = np.linalg.norm(vectors, axis=-2)
    assert (np.abs(lengths - 1) <= residual(outputs[1].dtype)).all(), what
    rows = (-1, max(1, values.shape[-1]))
    for k, (mine, theirs) in enumerate(
        zip(outputs[0].reshape(rows), exact[0].reshape(rows), strict=True)
    ):
        left, ordered = list(theirs), []
        for value in mine:
            ordered.append(min(left, key=lambda x, v=value: abs(x - v)))
            left.remove(ordered[-1])
            assert a.dtype.kind == "c" or value.conj() in mine, what
        assert_values(mine, np.array(ordered), size_of(a).reshape(-1)[k], what)


CHECKS: dict[str, Callable[[list, list, list], None]] = {
    "aten::_linalg_eigh.eigenvalues": check_eigh,
    "aten::_linalg_svd.U": check_svd,
    "aten::linalg_eig.out": check_eig,
    "aten::linalg_matrix_exp.out": check_exp,
    "aten::linalg_pinv.atol_rtol_tensor_out": check_pinv,
}


def check(name: str, args: list, outputs: list, results: list) -> None:
    for output, result in zip(outputs, results, strict=True):
        assert (output.shape, output.dtype) == (result.shape, result.dtype), (name, args)
    CHECKS[name](args, outputs, results)
