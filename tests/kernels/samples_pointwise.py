"""Sample arguments of the operators in csrc/kernels/pointwise, by operator name."""

from collections.abc import Iterator

import numpy as np

from tests.dtypes import np_dtype
from tests.kernels.eager import ALL, COMPLEX, FLOATING, Samples, array


# Shapes and memory orders for every kind of loop: 0-d, empty, merged, strided, longer than
# a block of the engine.
LAYOUTS = [
    *(((), None), ((1,), None), ((7,), None), ((600,), None), ((2, 0, 3), None)),
    *(((3, 300), (1, 0)), ((2, 3, 4, 5), (0, 2, 3, 1)), ((2, 17, 3), (2, 0, 1))),
]

# Pairs that broadcast: shapes and memory orders of both.
PAIRS = [
    *((((3, 300), None), ((3, 300), None)), (((3, 300), None), ((300,), None))),
    *((((3, 1), None), ((1, 300), None)), (((3, 300), (1, 0)), ((3, 300), None))),
    (((2, 3, 4, 5), (0, 2, 3, 1)), ((2, 3, 4, 5), (0, 2, 3, 1))),
    *((((2, 3, 4, 5), (0, 2, 3, 1)), ((3, 1, 1), None)), (((), None), ((2, 3), None))),
    *((((2, 3), None), ((), None)), (((), None), ((), None)), (((2, 0), None), ((2, 1), None))),
    *((((1, 1), None), ((5,), None)), (((5,), None), ((4, 1, 5), (2, 0, 1)))),
]


def specials(rng: np.random.Generator, a: np.ndarray) -> np.ndarray:
    """Return a copy with signed zeros, infinities and NaN, if the dtype has them."""
    a = a.copy(order="K")
    if a.dtype.kind not in "iub" and a.size > 2:
        for value in (np.nan, np.inf, -np.inf, 0.0, -0.0):
            a[rng.random(a.shape) < 0.04] = value
    return a


def unary(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape, order in LAYOUTS:
        yield [array(rng, shape, dtype, order)]
    if dtype not in COMPLEX:
        yield [specials(rng, array(rng, (300,), dtype))]


def in_range(rng: np.random.Generator, dtype: str, low: float, high: float) -> Iterator[list]:
    """Yield one array in every layout, floating-point ones in [low, high)."""
    for shape, order in LAYOUTS:
        a = array(rng, shape, dtype, order)
        if dtype in FLOATING:
            a = laid_out(np.asarray(low + (high - low) * rng.random(shape)), a)
        yield [a]


def inside(low: float, high: float) -> Samples:
    """Return a sample function for a unary operator whose floating-point domain is (low, high)."""

    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        yield from in_range(rng, dtype, low, high)
        yield [np.asarray([-2, -1, 0, 1, 2]).astype(np_dtype(dtype))]

    return samples


def with_tail(*tails: list, infinite: bool = True) -> Samples:
    """Return a sample function: self in every layout, followed by each tail."""

    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        for shape, order in LAYOUTS:
            for tail in tails:
                yield [array(rng, shape, dtype, order), *tail]
        for tail in tails if infinite else ():
            if dtype not in COMPLEX:
                yield [specials(rng, array(rng, (300,), dtype)), *tail]

    return samples


def laid_out(a: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Return the values of `a` in the memory order of `like`."""
    copy = np.empty_like(like)
    copy[...] = a
    return copy


def no_zero(a: np.ndarray) -> np.ndarray:
    return laid_out(np.where(a == 0, np.asarray(3).astype(a.dtype), a).astype(a.dtype), a)


def binary(*tail: object, divisor: bool = False) -> Samples:
    """Return a sample function: two tensors: every dtype with self's, broadcast and 0-d, then
    layouts of equal dtypes."""

    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        ready = no_zero if divisor else np.asarray
        for other in ALL:
            a = array(rng, (3, 37), dtype)
            for shape in ((37,), ()):
                yield [a, ready(array(rng, shape, other)), *tail]
        for (shape, order), (other_shape, other_order) in PAIRS:
            b = array(rng, other_shape, dtype, other_order)
            yield [array(rng, shape, dtype, order), no_zero(b) if divisor else b, *tail]
        if dtype not in COMPLEX:
            a = specials(rng, array(rng, (300,), dtype))
            b = specials(rng, array(rng, (300,), dtype))
            yield [a, no_zero(b) if divisor else b, *tail]

    return samples


def scalar(*tails: list, numbers: tuple = (2, -3, 2.5, 0.1, True, 0, 300)) -> Samples:
    """Return a sample function: a tensor and a number."""

    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        for number in numbers:
            for tail in tails or ([],):
                yield [array(rng, (3, 37), dtype), number, *tail]
        for shape, order in LAYOUTS:
            yield [array(rng, shape, dtype, order), 2, *(tails[0] if tails else [])]

    return samples


def positive_base(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    """Yield powers whose results are finite in every dtype."""
    for args in binary()(rng, dtype):
        a, b = args
        yield [np.asarray(np.abs(a)) if a.dtype.kind not in "bc" else a, no_zero(b)]


def exponents(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for number in (0, 1, 2, 3, 2.0, 0.5, -0.5, -1, -2, 2.5, 1.7, True, 7):
        a = array(rng, (3, 37), dtype)
        yield [np.abs(a) if a.dtype.kind not in "bc" else a, number]
        yield [no_zero(a), number]
    for shape, order in LAYOUTS:
        yield [array(rng, shape, dtype, order), 2]


def bases(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for number in (1, 2, 2.5, 0.1, True, 0):
        yield [number, array(rng, (3, 37), dtype)]


def where(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for other in ALL:
        a, b = array(rng, (3, 37), dtype), array(rng, (37,), other)
        yield [array(rng, (3, 1), "bool"), a, b]
        yield [array(rng, (3, 37), "bool"), a, array(rng, (), other)]
        yield [array(rng, (3, 37), "bool"), array(rng, (), dtype), b]
    for (shape, order), (other_shape, other_order) in PAIRS:
        a, b = array(rng, shape, dtype, order), array(rng, other_shape, dtype, other_order)
        yield [array(rng, shape, "bool", order), a, b]


def masked_fill(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for (shape, order), (mask_shape, mask_order) in PAIRS:
        for value in (1, 2.5, True, -1):
            a = array(rng, shape, dtype, order)
            yield [a, array(rng, mask_shape, "bool", mask_order), value]
    yield [array(rng, (4,), dtype), array(rng, (4,), "bool"), 300]
    yield [array(rng, (4,), dtype), array(rng, (4,), "int32"), 1]


def clamp_tensor(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for other in ALL:
        a, low, high = (array(rng, (3, 37), d) for d in (dtype, other, other))
        yield [a, low, None]
        yield [a, None, high]
        yield [a, low[:1], array(rng, (), other)]
    for (shape, order), (other_shape, other_order) in PAIRS:
        a, b = array(rng, shape, dtype, order), array(rng, other_shape, dtype, other_order)
        yield [a, b, np.asarray((b + b).astype(b.dtype))]
    if dtype not in COMPLEX:
        a, low, high = (specials(rng, array(rng, (300,), dtype)) for _ in range(3))
        yield [a, low, high]


def shifts(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    """Yield counts that are negative, in range and beyond the width."""
    yield from binary()(rng, dtype)
    counts = np.asarray([-9, -1, 0, 1, 3, 7, 8, 15, 16, 31, 32, 63, 64, 100])
    counts = counts.astype(np_dtype(dtype))
    yield [array(rng, (5, 1), dtype), counts]
    if "int" in dtype:
        ends = np.asarray([np.iinfo(dtype).min, np.iinfo(dtype).max, 1], dtype)
        yield [ends[:, None], counts]


def number_first(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for number in (1, -100, 7):
        yield [number, array(rng, (4, 5), dtype)]


def divisors(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    """Yield zeros, and ends of the range, whose magnitude or multiple overflows."""
    yield from binary()(rng, dtype)
    if "int" in dtype:
        least = np.iinfo(dtype).min + (dtype in ("int32", "int64"))  # eager raises SIGFPE
        ends = np.asarray([least, np.iinfo(dtype).max, 0, 6, 99], dtype)
        yield [ends[:, None].copy(), ends]


def glu(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape, order in LAYOUTS:
        for dim in {0, len(shape) // 2, -1}:
            yield [array(rng, (*shape[:-1], 2 * shape[-1]) if shape else (), dtype, order), dim]
    yield [array(rng, (6, 600), dtype), 1]
    yield [array(rng, (6, 5), dtype), 0]
    yield [array(rng, (6, 5), dtype), 1]
    yield [specials(rng, array(rng, (2, 300), dtype)), 0]


def exponents_of_two(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    """Yield self * 2 ** other: exponents out of range, and halves between the numbers."""
    for args in binary()(rng, dtype):
        kind, narrower = args[1].dtype.kind, args[1].dtype.itemsize < args[0].dtype.itemsize
        # Left out: cases for which eager returns an output of the wrong size, raises (bool), or
        # computes with a pow that is narrower than the result.
        if args[0].ndim >= args[1].ndim and (kind in "iu" or (kind != "b" and not narrower)):
            yield args
    ends = np.asarray([-2000, -160, -130, -20, 0, 20, 130, 160, 2000])
    for other in ("int16", "int64", "float32"):
        yield [array(rng, (9,), dtype), ends.astype(other)]


def decimals(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape, order in LAYOUTS:
        for n in (1, -1, 3):
            a = array(rng, shape, dtype, order)
            yield [laid_out(np.asarray(a * np.asarray(30, a.dtype)), a), n]
    for n in (0, 2, -3, 7, 40, -40):
        yield [specials(rng, array(rng, (300,), dtype)), n]


BOUNDS = ([-1, 1], [0, None], [None, 2.5], [0.5, 0.7], [3, -3], [None, 3], [0, 300], [None, None])


def numbers_first(*numbers: object) -> Samples:
    """Return a sample function: a number, then self."""

    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        for self, number in scalar(numbers=numbers)(rng, dtype):
            yield [number, self]

    return samples


SAMPLES: dict[str, Samples] = {
    **{
        f"aten::{n}.out": unary
        for n in (
            "abs neg sign floor ceil round trunc isnan isinf relu bitwise_not "
            "logical_not exp expm1 sigmoid tanh erf sin cos tan asinh atan sinh cosh "
            "reciprocal exp2 erfc signbit angle _conj_physical _conj_copy"
        ).split()
    },
    **{f"aten::{n}.out": inside(0.01, 9) for n in ("log", "log2", "log10", "sqrt", "rsqrt")},
    **{f"aten::{n}.out": inside(-0.99, 0.99) for n in ("asin", "acos", "atanh", "log1p")},
    "aten::acosh.out": inside(1, 9),
    "aten::logit.out": lambda rng, dtype: (
        [*a, eps] for eps in (None, 0.1) for a in inside(0.05, 0.95)(rng, dtype)
    ),
    "aten::gelu.out": with_tail(["none"], ["tanh"], infinite=False),  # eager: gelu(inf) is NaN
    "aten::elu.out": with_tail([1, 1, 1], [2, 1.5, 0.3]),
    "aten::silu_backward.grad_input": binary(),
    "aten::softshrink_backward.grad_input": binary(0.3),
    "aten::hardshrink_backward.grad_input": binary(0.5),
    "aten::leaky_relu.out": with_tail([0.1], [0.01]),
    "aten::hardtanh.out": with_tail([-1, 1], [0, 6], [-0.5, 6.0]),
    "aten::clamp.out": with_tail(*BOUNDS),
    "aten::clamp.Tensor_out": clamp_tensor,
    "aten::add.out": lambda rng, dtype: (
        a for alpha in (1, 2, 0.5, True) for a in binary(alpha)(rng, dtype)
    ),
    "aten::sub.out": lambda rng, dtype: (a for x in (1, 2) for a in binary(x)(rng, dtype)),
    **{
        f"aten::{n}.out": binary()
        for n in (
            "mul maximum minimum fmax fmin hypot copysign nextafter complex polar atan2 "
            "logical_and logical_or logical_xor"
        ).split()
    },
    **{f"aten::{n}.out": binary(divisor=True) for n in ("div", "floor_divide")},
    "aten::div.out_mode": lambda rng, dtype: (
        a for m in (None, "floor", "trunc") for a in binary(m, divisor=True)(rng, dtype)
    ),
    **{
        f"aten::{n}.Tensor_out": binary()
        for n in ("eq", "ne", "lt", "le", "gt", "ge", "bitwise_and", "bitwise_or", "bitwise_xor")
    },
    **{f"aten::{n}.Tensor_out": binary(divisor=True) for n in ("remainder", "fmod")},
    **{f"aten::{n}.Scalar_out": scalar([1], [2], [0.5]) for n in ("add", "sub", "rsub")},
    **{
        f"aten::{n}.Scalar_out": scalar()
        for n in (
            "mul div eq ne lt le gt ge bitwise_and bitwise_or bitwise_xor remainder fmod"
        ).split()
    },
    "aten::div.Scalar_mode_out": scalar([None], ["floor"], ["trunc"]),
    "aten::pow.Tensor_Tensor_out": positive_base,
    "aten::pow.Tensor_Scalar_out": exponents,
    "aten::pow.Scalar_out": bases,
    "aten::remainder.Scalar_Tensor_out": numbers_first(5, -7, 2.5, True),
    **{
        f"aten::bitwise_{n}.Scalar_Tensor_out": numbers_first(5, -7, 2.5, True)
        for n in ("and", "or", "xor")
    },
    **{f"aten::{n}.out": divisors for n in ("gcd", "lcm")},
    **{f"aten::bitwise_{n}_shift.Tensor_out": shifts for n in ("left", "right")},
    **{f"aten::__{n}shift__.Tensor_out": shifts for n in ("l", "r")},
    **{f"aten::__{n}shift__.Scalar_out": scalar(numbers=(2, -3, 7, 2.5)) for n in ("l", "r")},
    **{f"aten::bitwise_{n}_shift.Scalar_Tensor_out": number_first for n in ("left", "right")},
    **{
        f"aten::bitwise_{n}_shift.Tensor_Scalar_out": scalar(numbers=(2, -3, 7, 8, 64, True, 2.5))
        for n in ("left", "right")
    },
    "aten::copysign.Scalar_out": scalar(numbers=(2, -3, -0.0, 0.0, 2.5, True)),
    "aten::ldexp.out": exponents_of_two,
    "aten::frexp.Tensor_out": unary,
    "aten::round.decimals_out": decimals,
    "aten::glu.out": glu,
    "aten::where.self_out": where,
    "aten::masked_fill.Scalar_out": masked_fill,
}
