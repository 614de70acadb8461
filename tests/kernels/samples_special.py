"""Sample arguments of the operators in csrc/kernels/special, by operator name."""

from collections.abc import Iterator

import numpy as np

from tests.dtypes import np_dtype
from tests.kernels.eager import FLOATING, HALVES, Samples, array
from tests.kernels.samples_pointwise import PAIRS, in_range, laid_out, specials, unary


def between(low: float, high: float, infinite: bool = True) -> Samples:
    """Return a sample function: a unary operator's arguments: floating-point ones in [low, high),
    and special ones."""

    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        yield from in_range(rng, dtype, low, high)
        if dtype in FLOATING and infinite:
            yield [specials(rng, array(rng, (300,), dtype))]
        yield [np.asarray([0, 1, 2, 3, 8, 40]).astype(np_dtype(dtype))]

    return samples


def pairs(least: float = 0.0, degrees: bool = False) -> Samples:
    """Return a sample function: two tensors that broadcast: positive ones, the first from `least`;
    or a variable and integer degrees."""

    def make(
        rng: np.random.Generator, shape: tuple, dtype: str, order: object, second: bool
    ) -> np.ndarray:
        a = array(rng, shape, dtype, order)
        if degrees and second:
            return laid_out(rng.integers(0 if dtype[0] == "u" else -1, 6, shape), a)
        if dtype not in FLOATING or degrees:
            return a
        return laid_out(np.abs(a.astype("float64")) + (0 if second else least), a)

    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        for (shape, order), (other_shape, other_order) in PAIRS:
            yield [
                make(rng, shape, dtype, order, False),
                make(rng, other_shape, dtype, other_order, True),
            ]
        for other in ("int64", "float32", "float64", "float16"):
            yield [make(rng, (3, 7), dtype, None, False), make(rng, (7,), other, None, True)]

    return samples


def number_first(numbers: tuple, tensors: Samples) -> Samples:
    return lambda rng, dtype: ([n, args[1]] for n in numbers for args in tensors(rng, dtype))


def number_second(numbers: tuple, tensors: Samples) -> Samples:
    return lambda rng, dtype: ([args[0], n] for n in numbers for args in tensors(rng, dtype))


POLYNOMIALS = [
    *(f"{s}chebyshev_polynomial_{k}" for s in ("", "shifted_") for k in "tuvw"),
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
]
DEGREES = pairs(degrees=True)
ZETAS = pairs(least=1.25)

SAMPLES: dict[str, Samples] = {
    "aten::lgamma.out": between(0.1, 9),
    "aten::digamma.out": between(0.1, 9),
    "aten::polygamma.out": lambda rng, dtype: (
        [n, *args]
        for n in ((0, 1, 2) if dtype in HALVES else (0, 1, 2, 5))  # eager rounds between steps
        for args in between(0.5, 9)(rng, dtype)
    ),
    "aten::erfinv.out": between(-0.99, 0.99),
    **{f"aten::{n}.out": unary for n in ("i0", "special_i0e", "special_i1", "special_i1e")},
    "aten::special_erfcx.out": between(-2, 9),
    "aten::special_ndtri.out": between(0, 1),
    "aten::special_airy_ai.out": between(-9, 9),
    "aten::special_spherical_bessel_j0.out": between(-9, 9),
    **{f"aten::special_bessel_{n}.out": between(-9, 20) for n in ("j0", "j1")},
    **{f"aten::special_bessel_{n}.out": between(0.5, 20) for n in ("y0", "y1")},
    **{f"aten::special_modified_bessel_{n}.out": between(-4, 4) for n in ("i0", "i1")},
    **{
        f"aten::special_{s}modified_bessel_{n}.out": between(0.1, 9)
        for s in ("", "scaled_")
        for n in ("k0", "k1")
    },
    "aten::igamma.out": pairs(),
    "aten::igammac.out": pairs(),
    "aten::special_zeta.out": ZETAS,
    "aten::special_zeta.self_scalar_out": number_first((2, 3.5), ZETAS),
    "aten::special_zeta.other_scalar_out": number_second((2, 0.5), ZETAS),
    **{f"aten::special_{n}.out": DEGREES for n in POLYNOMIALS},
    **{f"aten::special_{n}.x_scalar_out": number_first((2, 0.25), DEGREES) for n in POLYNOMIALS},
    **{f"aten::special_{n}.n_scalar_out": number_second((3, 1.0), DEGREES) for n in POLYNOMIALS},
}
