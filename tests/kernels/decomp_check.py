"""Checks of decompositions whose factors are unique only up to signs, phases or order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from eager import EPSILON, compare

ULPS = 60


def wide(a: np.ndarray) -> np.ndarray:
    return a.astype(np.complex128 if a.dtype.kind == "c" else np.float64)


def adjoint(a: np.ndarray) -> np.ndarray:
    return a.conj().swapaxes(-1, -2)


def assert_zero(a: np.ndarray, dtype: np.dtype, scale: np.ndarray, what: str) -> None:
    """Elements of a residual: some units in the last place of `scale`."""
    if a.size:
        size = ULPS * EPSILON[dtype.name] * max(1.0, float(np.abs(scale).max(initial=0)))
        np.testing.assert_allclose(np.abs(a), 0, atol=size, err_msg=what)


def assert_orthogonal(q: np.ndarray, what: str) -> None:
    """Columns are orthogonal and of length 1."""
    w = wide(q)
    assert_zero(adjoint(w) @ w - np.eye(q.shape[-1]), q.dtype, np.ones(1), what)


def check_shapes(found: list, results: list, what: str) -> None:
    for f, r in zip(found, results, strict=True):
        assert (f.shape, f.dtype) == (r.shape, r.dtype), what


def check_eigh(args: list, found: list, results: list) -> None:
    what = f"_linalg_eigh {args}"
    check_shapes(found, results, what)
    compare(found[0], results[0], what, ulps=ULPS)
    if not args[2]:
        return
    a, values, vectors = wide(args[0]), wide(found[0]), wide(found[1])
    half = np.triu(a, 1) if args[1] in "Uu" else np.tril(a, -1)
    i = np.arange(a.shape[-1])
    whole = half + adjoint(half)
    whole[..., i, i] = a[..., i, i].real
    assert_orthogonal(found[1], what)
    assert_zero(whole @ vectors - vectors * values[..., None, :], found[1].dtype, a, what)


def check_svd(args: list, found: list, results: list) -> None:
    what = f"_linalg_svd {args}"
    check_shapes(found, results, what)
    u, s, v = found
    compare(s, results[1], what, ulps=ULPS)
    if not args[2]:
        return
    assert_orthogonal(u, what)
    assert_orthogonal(adjoint(v), what)
    k = s.shape[-1]
    product = (wide(u)[..., :k] * wide(s)[..., None, :]) @ wide(v)[..., :k, :]
    assert_zero(product - wide(args[0]), u.dtype, args[0], what)


def check_exp(args: list, found: list, results: list) -> None:
    """Against a series in extended precision: eager is off by 4e-12 where it takes degree 8."""
    check_shapes(found, results, f"matrix_exp {args}")
    (a,) = args
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
        wanted = total.astype(np.complex128 if a.dtype.kind == "c" else np.float64).astype(a.dtype)
    compare(found[0], wanted, f"matrix_exp {args}", ulps=ULPS)


def check_pinv(args: list, found: list, results: list) -> None:
    """Rounding counts as often as the condition says."""
    check_shapes(found, results, f"pinv {args}")
    p, most = wide(results[0]), np.abs(wide(args[0])).max(initial=0)
    condition = max(1.0, float(np.abs(p).max(initial=0) * most))
    assert_zero(wide(found[0]) - p, found[0].dtype, p * condition, f"pinv {args}")


def check_eig(args: list, found: list, results: list) -> None:
    """Eager's eigenvalues in any order; real matrices have conjugates in pairs."""
    what = f"linalg_eig {args}"
    check_shapes(found, results, what)
    a, values, vectors = wide(args[0]), wide(found[0]), wide(found[1])
    assert_zero(a @ vectors - vectors * values[..., None, :], found[1].dtype, a, what)
    lengths = np.linalg.norm(vectors, axis=-2)
    np.testing.assert_allclose(lengths, 1, ULPS * EPSILON[found[1].dtype.name], err_msg=what)
    rows = (-1, max(1, values.shape[-1]))
    for mine, theirs in zip(values.reshape(rows), wide(results[0]).reshape(rows), strict=True):
        left = list(theirs)
        for value in mine:
            nearest = min(left, key=lambda x, v=value: abs(x - v))
            assert_zero(np.asarray([nearest - value]), found[0].dtype, theirs, what)
            left.remove(nearest)
            if a.dtype.kind == "f":
                assert value.conj() in mine, what


CHECKS: dict[str, Callable[[list, list, list], None]] = {
    "aten::_linalg_eigh.eigenvalues": check_eigh,
    "aten::_linalg_svd.U": check_svd,
    "aten::linalg_eig.out": check_eig,
    "aten::linalg_matrix_exp.out": check_exp,
    "aten::linalg_pinv.atol_rtol_tensor_out": check_pinv,
}
