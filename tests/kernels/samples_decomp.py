"""Sample arguments of the operators in csrc/kernels/decomp, by operator name."""

from collections.abc import Iterator

import numpy as np
import torch

from tests.kernels.eager import Samples, array, to_numpy, to_torch

SQUARE = [(3, 3), (1, 1), (5, 5), (2, 4, 4), (0, 0), (0, 3, 3), (2, 0, 0), (2, 1, 3, 3)]
SHAPES = [*SQUARE, (3, 5), (5, 3), (2, 4, 2), (2, 2, 4), (0, 3), (3, 0), (1, 4)]


def order_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the column-major order of matrices, as in LAPACK."""
    return (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)


def matrices(rng: np.random.Generator, dtype: str, shapes: list) -> Iterator[np.ndarray]:
    for i, shape in enumerate(shapes):
        yield array(rng, shape, dtype)
        if i % 2 == 0:
            yield array(rng, shape, dtype, order_of(shape))


def simple(shapes: list, *rest: object) -> Samples:
    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        for a in matrices(rng, dtype, shapes):
            yield [a, *rest]

    return samples


def solve_ex(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for a in matrices(rng, dtype, SQUARE):
        n, batch = a.shape[-1], a.shape[:-2]
        others = ((n,), (*batch, n), (2, *[1] * len(batch), n, 1))
        for shape in ((*batch, n, 2), (*batch, 3, n), *others):
            yield [a, array(rng, shape, dtype), shape != (*batch, 3, n), False]


def factored(a: np.ndarray) -> list[np.ndarray]:
    """Return LU and pivots; for dtypes without them, arrays of the right shape."""
    try:
        lu, pivots, _ = torch.linalg.lu_factor_ex(to_torch(a))
        return [to_numpy(lu), to_numpy(pivots)]
    except RuntimeError:
        k = min(a.shape[-2:])
        return [a, np.broadcast_to(np.arange(1, k + 1, dtype=np.int32), (*a.shape[:-2], k)).copy()]


def lu_solve(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for a in matrices(rng, dtype, SQUARE):
        n, batch = a.shape[-1], a.shape[:-2]
        for left, adjoint in ((True, False), (True, True), (False, False), (False, True)):
            b = array(rng, (*batch, n, 2) if left else (2, *[1] * len(batch), 3, n), dtype)
            yield [*factored(a), b, left, adjoint]


def lu_unpack(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for a in matrices(rng, dtype, SHAPES):
        for data, pivots in ((True, True), (True, False), (False, True)):
            yield [*factored(a), data, pivots]
        yield [factored(a)[0], np.zeros(0, np.int32), True, False]  # which eager does not read


def definite(a: np.ndarray) -> np.ndarray:
    """Return a Hermitian positive definite matrix that is not symmetric in memory."""
    if a.shape[-2] != a.shape[-1] or a.dtype.kind not in "fc":
        return a
    wide = a.astype(complex)
    b = wide @ wide.conj().swapaxes(-1, -2) + np.eye(a.shape[-1])
    return (b if a.dtype.kind == "c" else b.real).astype(a.dtype)


def cholesky(*rest: object) -> Samples:
    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        for a in matrices(rng, dtype, SQUARE):
            for upper in (False, True):
                other = np.tril(definite(a)) if upper is False else np.triu(definite(a))
                yield [other, upper, *rest]

    return samples


def triangle(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return well-conditioned triangular matrices with elements in both triangles."""
    a = array(rng, shape, dtype)
    i = np.arange(shape[-1])
    a[..., i, i] = np.abs(a[..., i, i]) + np.asarray(2).astype(a.dtype)
    return a


def solve_triangular(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for i, shape in enumerate(SQUARE):
        n, batch = shape[-1], shape[:-2]
        for left in (True, False):
            b = (*batch, n, 2) if left else (2, *[1] * len(batch), 3, n)
            for upper in (True, False):
                other = array(rng, b, dtype, order_of(b))
                yield [triangle(rng, dtype, shape), other, upper, left, i % 3 == 0]


def triangular_solve(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for i, shape in enumerate(SQUARE):
        for upper in (True, False):
            for transposed in (True, False):
                b = array(rng, (*shape[:-2], shape[-1], 2), dtype)
                yield [b, triangle(rng, dtype, shape), upper, transposed, i % 3 == 0]


def cholesky_inverse(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for _, *args in cholesky_solve(rng, dtype):
        yield args


def cholesky_solve(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape in SQUARE:
        for upper in (False, True):
            b = array(rng, (*shape[:-2], shape[-1], 2), dtype)
            yield [b, triangle(rng, dtype, shape), upper]


def reflections(a: np.ndarray) -> list[np.ndarray]:
    if a.dtype.name not in ("float32", "float64", "complex64", "complex128"):
        return [a, np.zeros((*a.shape[:-2], min(a.shape[-2:])), a.dtype)]
    return [to_numpy(t) for t in torch.geqrf(to_torch(a))]


TALL = [(3, 3), (5, 3), (2, 4, 2), (1, 1), (2, 3, 1), (3, 0), (0, 3, 2)]


def householder_product(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for a in matrices(rng, dtype, TALL):
        v, tau = reflections(a)
        yield [v, tau]
        yield [v, tau[..., : tau.shape[-1] // 2].copy()]


def ormqr(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for a in matrices(rng, dtype, [*TALL, (2, 3), (2, 0, 4)]):
        for left in (True, False):
            for transposed in (True, False):
                m = a.shape[-2]
                shape = (*a.shape[:-2], m, 2) if left else (*a.shape[:-2], 4, m)
                yield [*reflections(a), array(rng, shape, dtype), left, transposed]


def qr(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for a in matrices(rng, dtype, SHAPES):
        for mode in ("reduced", "complete", "r"):
            yield [a, mode]


def repeated(rng: np.random.Generator, dtype: str) -> Iterator[np.ndarray]:
    """Yield matrices of low rank, with equal singular values, diagonal, and zero."""
    a = array(rng, (4, 2), dtype)
    yield (a @ a.T if dtype not in ("bfloat16", "float16") else array(rng, (4, 4), dtype))
    yield np.eye(4).astype(a.dtype)
    yield np.zeros((2, 3, 3), a.dtype)
    yield np.ones((3, 3), a.dtype)


def eigh(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for a in [*matrices(rng, dtype, SQUARE), *repeated(rng, dtype)]:
        for uplo, vectors in (("L", True), ("U", True), ("l", False)):
            yield [a, uplo, vectors]


def svd(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for a in [*matrices(rng, dtype, SHAPES), *repeated(rng, dtype)]:
        for full, vectors in ((False, True), (True, True), (False, False)):
            yield [a, full, vectors, None]


def pinv(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    low_rank, *others = repeated(rng, dtype)
    for a in [*matrices(rng, dtype, SHAPES), *others, low_rank]:
        for atol, rtol in ((None, 0.3), (0.7, None), (0.0, 0.1), (None, None)):
            if a is low_rank and rtol is None:
                continue  # the number of zero singular values depends on rounding
            tensors = [None if t is None else np.full(a.shape[:-2], t) for t in (atol, rtol)]
            yield [a, *tensors, False]
            if a.shape[-1] == a.shape[-2]:
                yield [a, *tensors, True]


def matrix_exp(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for a in matrices(rng, dtype, SQUARE):
        yield [a]
        if "int" not in dtype and dtype != "bool":
            yield [a / np.asarray(64, a.dtype)]


def eig(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for a in matrices(rng, dtype, [*SQUARE, (2, 6, 6), (9, 9)]):
        yield [a]
    for a in ([[0, 1], [-1, 0]], [[2, 0], [0, 2]], [[0, 0, 1], [1, 0, 0], [0, 1, 0]]):
        yield [np.asarray(a).astype(array(rng, (1,), dtype).dtype)]


def symmetric(a: np.ndarray, hermitian: bool) -> np.ndarray:
    if a.dtype.kind not in "fc" or a.dtype.itemsize < 4:
        return a
    b = a + a.conj().swapaxes(-1, -2) if hermitian else a + a.swapaxes(-1, -2)
    return b


def ldl_matrices(rng: np.random.Generator, dtype: str) -> Iterator[tuple[np.ndarray, bool]]:
    for a in matrices(rng, dtype, [*SQUARE, (2, 7, 7), (9, 9)]):
        for hermitian in (False, True):
            s = symmetric(a, hermitian)
            yield s, hermitian
            if s.dtype.kind in "fc" and s.size and s.shape[-1] > 1:
                i = np.arange(s.shape[-1])
                s = s.copy("K")
                s[..., i, i] = 0  # pairs of pivots
                yield s, hermitian


def ldl_factor(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for a, hermitian in ldl_matrices(rng, dtype):
        yield [a, hermitian, False]


def ldl_solve(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for a, hermitian in ldl_matrices(rng, dtype):
        b = array(rng, (*a.shape[:-1], 2), dtype)
        try:
            ld, pivots, _ = torch.linalg.ldl_factor_ex(to_torch(a), hermitian=hermitian)
            yield [to_numpy(ld), to_numpy(pivots), b, hermitian]
        except RuntimeError:
            k = a.shape[-1]
            pivots = np.zeros(a.shape[:-1], np.int32) + np.arange(1, k + 1, dtype=np.int32)
            yield [a, pivots, b, hermitian]


SAMPLES: dict[str, Samples] = {
    "aten::_linalg_det.result": simple(SQUARE),
    "aten::_linalg_slogdet.sign": simple(SQUARE),
    "aten::_linalg_eigh.eigenvalues": eigh,
    "aten::_linalg_svd.U": svd,
    "aten::linalg_matrix_exp.out": matrix_exp,
    "aten::linalg_pinv.atol_rtol_tensor_out": pinv,
    "aten::_linalg_solve_ex.result": solve_ex,
    "aten::cholesky.out": cholesky(),
    "aten::cholesky_inverse.out": cholesky_inverse,
    "aten::cholesky_solve.out": cholesky_solve,
    "aten::geqrf.a": simple(SHAPES),
    "aten::linalg_cholesky_ex.L": cholesky(False),
    "aten::linalg_eig.out": eig,
    "aten::linalg_householder_product.out": householder_product,
    "aten::linalg_inv_ex.inverse": simple(SQUARE, True),
    "aten::linalg_ldl_factor_ex.out": ldl_factor,
    "aten::linalg_ldl_solve.out": ldl_solve,
    "aten::linalg_lu.out": simple(SHAPES, True),
    "aten::linalg_lu_factor_ex.out": simple(SHAPES, True, False),
    "aten::linalg_lu_solve.out": lu_solve,
    "aten::linalg_qr.out": qr,
    "aten::linalg_solve_triangular.out": solve_triangular,
    "aten::lu_unpack.out": lu_unpack,
    "aten::ormqr.out": ormqr,
    "aten::triangular_solve.X": triangular_solve,
}
