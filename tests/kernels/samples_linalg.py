"""Sample arguments of the operators in csrc/kernels/linalg, by operator name."""

from collections.abc import Iterator

import numpy as np

from tests.dtypes import np_dtype
from tests.kernels.eager import DType, array, in_order

FACTORS = [(1, 1), (2, 3), (0, 1), (1, 0), (1, 2)]  # beta, alpha
SIZES = [(1, 5, 40), (3, 20, 37), (40, 9, 2), (2, 0, 3), (0, 2, 3)]  # m, k, n
ORDERS = [(0, 1), (1, 0)]


def mm(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for i, (m, k, n) in enumerate(SIZES):
        a = array(rng, (m, k), dtype, ORDERS[i % 2])
        yield [a, array(rng, (k, n), dtype, ORDERS[i // 2 % 2])]


def bmm(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for m, k, n in SIZES:
        yield [array(rng, (3, m, k), dtype), array(rng, (3, k, n), dtype, (0, 2, 1))]


def addmm(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for (beta, alpha), (m, k, n) in zip(FACTORS, SIZES, strict=True):
        for shape in ((m, n), (n,), (m, 1), ()):
            yield [*(array(rng, s, dtype) for s in (shape, (m, k), (k, n))), beta, alpha]


def linear(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for m, k, n in SIZES:
        yield [array(rng, (m, k), dtype), array(rng, (n, k), dtype), array(rng, (n,), dtype)]
    yield [array(rng, (2, 3, 5), dtype, (1, 2, 0)), array(rng, (4, 5), dtype), None]
    yield [array(rng, (5,), dtype), array(rng, (4, 5), dtype, (1, 0)), None]


def addbmm(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for (beta, alpha), (m, k, n) in zip(FACTORS, SIZES, strict=True):
        for batch, shape in ((3, (m, n)), (1, (n,)), (0, (m, 1)), (2, ())):
            added, a = array(rng, shape, dtype), array(rng, (batch, m, k), dtype)
            yield [added, a, array(rng, (batch, k, n), dtype, (0, 2, 1)), beta, alpha]


def addmv(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for (beta, alpha), (m, k, _) in zip(FACTORS, SIZES, strict=True):
        for shape, order in (((m,), (0, 1)), ((1,), (1, 0)), ((), (0, 1))):
            if m * k == 0 and shape != (m,):
                continue  # eager's result then has the shape of self, not the exported one
            added, a = array(rng, shape, dtype), array(rng, (m, k), dtype, order)
            yield [added, a, array(rng, (k,), dtype), beta, alpha]


def trilinear(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for b, o, i, j in ((2, 3, 4, 5), (1, 2, 1, 3), (2, 0, 2, 2), (2, 2, 0, 3)):
        yield [
            *(array(rng, (b, i), dtype), array(rng, (o, i, j), dtype, (2, 0, 1))),
            *(array(rng, (b, j), dtype), [1, 3], [0], [1, 2], [2, 3], 1),
        ]
        yield [
            *(array(rng, (b, i), dtype), array(rng, (o, i, j), dtype)),
            *(array(rng, (b, j), dtype), [1, 3], [0], [1, 2], [3], 2),
        ]
        yield [
            *(array(rng, (b, o, i), dtype), array(rng, (b, o, i), dtype)),
            *(array(rng, (i,), dtype), [], [], [0, 1], [0, 2], 0),
        ]


def int_mm(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for m, k, n in (*SIZES, (3, 700, 5)):
        for order in ((0, 1), (1, 0)):
            yield [array(rng, (m, k), dtype, order), array(rng, (k, n), "int8", order)]
    full = np.full((2, 300), np.iinfo(dtype).max if dtype in ("int8", "uint8") else 9)
    yield [full.astype(np_dtype(dtype)), np.full((300, 2), -128, np.int8)]


def powers(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return 1, 2 and 4 in float32."""
    return np.float32(2.0) ** rng.integers(0, 3, shape).astype(np.float32)


def scaled_mm(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    """Yield products of float8 matrices, with a result of the dtype (one of another is refused);
    eager wants columns. Powers of two: their sums are exact, as eager has no wider form."""
    result = dtype if dtype in ("float16", "bfloat16", "float32") else "float32"
    pairs = (("float8_e4m3fn", "float8_e4m3fn"), ("float8_e5m2", "float8_e4m3fn"))
    for (m, k, n), (left, right) in zip(((16, 32, 48), (3, 64, 16)), pairs, strict=True):
        a = powers(rng, (m, k)).astype(np_dtype(left if result == dtype else dtype))
        b = in_order(powers(rng, (k, n)).astype(np_dtype(right)), (1, 0))
        rows, columns = powers(rng, (m, 1)), powers(rng, (1, n))
        for scales in ([rows[0], columns[0, :1]], [rows, columns]):
            for bias in (None, array(rng, (n,), result)):
                yield [a, b, *scales, bias, None, DType(result), False]


SAMPLES = {
    "aten::_scaled_mm.out": scaled_mm,
    "aten::_int_mm.out": int_mm,
    "aten::mm.out": mm,
    "aten::bmm.out": bmm,
    "aten::addmm.out": addmm,
    "aten::linear.out": linear,
    "aten::addbmm.out": addbmm,
    "aten::addmv.out": addmv,
    "aten::_trilinear.out": trilinear,
}
