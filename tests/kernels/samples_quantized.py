"""Sample arguments of the operators in csrc/kernels/quantized, by operator name."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.dtypes import np_dtype
from tests.kernels.eager import FLOATING, DType, Samples, array, in_order

RANGES = {
    "uint8": (0, 255),
    "int8": (-128, 127),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
}
SHAPES = [
    *(((3, 40), None), ((3, 40), (1, 0)), ((2, 3, 5), (2, 0, 1)), ((7,), None)),
    *(((2, 3, 2, 4), (0, 2, 3, 1)), ((0, 3), None), ((), None)),
]


def floats(rng: np.random.Generator, shape: Any, dtype: str, order: Any = None) -> np.ndarray:
    """Return many halves (rounding ties), and numbers beyond the integers' range."""
    a = array(rng, shape, dtype, order)
    if dtype in FLOATING:
        a[...] = (np.round(a.astype(np.float64) * 16) / 4).astype(a.dtype)
        places = rng.permutation(a.size)[: a.size // 6]
        for at, value in zip(places, (np.nan, np.inf, -np.inf, 6e4), strict=False):
            a[np.unravel_index(at, a.shape)] = value
    return a


def integers(rng: np.random.Generator, shape: Any, dtype: str, order: Any = None) -> np.ndarray:
    """Return the whole range of an integer dtype."""
    if dtype not in RANGES:
        return array(rng, shape, dtype, order)
    low, high = RANGES[dtype]
    a = np.asarray(rng.integers(low, high + 1, shape)).astype(dtype)
    return a if order is None else in_order(a, order)


def scales(rng: np.random.Generator, shape: Any, dtype: str = "float32") -> np.ndarray:
    return np.asarray(rng.choice([0.5, 0.25, 0.1, 0.3, 1.7], shape)).astype(np_dtype(dtype))


def zeros(rng: np.random.Generator, shape: Any, dtype: str = "int64") -> np.ndarray:
    least = -9 if dtype[0] != "u" else 0
    return np.asarray(rng.integers(least, 100, shape)).astype(np_dtype(dtype))


def quantize_per_tensor(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape, order in SHAPES:
        for to, (low, high) in RANGES.items():
            x = floats(rng, shape, dtype, order)
            yield [x, 0.5, 3 if to != "int32" else -7, low, high, DType(to)]
    x = floats(rng, (5, 9), dtype)
    for scale, zero, low, high in (
        *((0.013, 100, 0, 15), (-0.3, -20, -7, 7), (1e-30, 0, -128, 127), (1e30, 2**40, 5, -5)),
        *((float("inf"), -(2**62), 0, 127), (float("nan"), 0, -128, 127)),
    ):
        yield [x, scale, zero, low, high, DType("int8")]
    yield [x, 0.0, 0, 0, 127, DType("int8")]
    yield [x, 1.0, 0, -129, 127, DType("int8")]
    yield [x, 1.0, 0, 0, 256, DType("uint8")]
    yield [x, 1.0, 0, 0, 100, DType("int64")]


def by_tensor(samples: Samples) -> Samples:
    """Return scale and zero point as tensors of one element."""

    def turned(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        for i, (x, scale, zero, *rest) in enumerate(samples(rng, dtype)):
            zero_dtype = "int64" if abs(zero) > 2**31 else ("int64", "int32", "float32")[i % 3]
            shape = ((), (1,), (1, 1))[i % 3]
            factor = np.full(shape, scale, ("float64", "float32")[i % 2])
            yield [x, factor, np.full(shape, zero, zero_dtype), *rest]
        if dtype in ("float32", "int8"):
            two = np.ones(2, np.float32)
            yield [x, two, np.zeros((), np.int64), 0, 100, *rest[2:]]
            yield [x, two[:1], np.zeros(2, np.int64), 0, 100, *rest[2:]]

    return turned


def dequantize_per_tensor(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    low, high = RANGES.get(dtype, (0, 100))
    for shape, order in SHAPES:
        x = integers(rng, shape, dtype, order)
        yield [x, 0.3, 5, low, high, DType(dtype), None]
        for to in FLOATING:
            yield [x, 0.013, -100, low, high, DType(dtype), DType(to)]
    x = integers(rng, (4, 9), dtype)
    for scale, zero in ((1e30, 2**40), (float("nan"), -1), (0.0, 0), (-1e300, 2**62 + 1)):
        yield [x, scale, zero, high, low, DType(dtype), None]
        yield [x, scale, zero, high, low, DType(dtype), DType("float64")]
    yield [x, 1.0, 0, 0, 1, DType("int8" if dtype != "int8" else "uint8"), None]
    for to in FLOATING:
        yield [x, 0.013, 4097, low, high, DType(dtype), DType(to)]  # beyond float16's range


def axes() -> Iterator[tuple[tuple[int, ...], Any, int]]:
    for shape, order in SHAPES:
        for axis in range(-len(shape), len(shape)) if shape else (0, -1):
            yield shape, order, axis


def quantize_per_channel(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    kinds = [
        *(("float32", "int64"), ("float64", "int64"), ("float32", "int32")),
        *(("float16", "int8"), ("float32", "float32"), ("float32", "float64")),
        ("int64", "uint8"),
    ]
    for i, (shape, order, axis) in enumerate(axes()):
        n = shape[axis] if shape else 1
        to, (low, high) = list(RANGES.items())[i % len(RANGES)]
        x, (s, z) = floats(rng, shape, dtype, order), kinds[i % len(kinds)]
        yield [
            *(x, np.asarray(scales(rng, (n,)) + (s[0] == "i")).astype(s), zeros(rng, (n,), z)),
            *(axis, low, high, DType(to)),
        ]
    x = floats(rng, (3, 4), dtype)
    one, four, three = scales(rng, (1,)), scales(rng, (4, 1)), zeros(rng, (3,))
    yield [x, one, zeros(rng, (1,)), 1, -128, 127, DType("int8")]
    yield [x, four, zeros(rng, (1, 4)), 1, -128, 127, DType("int8")]
    yield [x, one * 0, zeros(rng, (1,)), 1, -128, 127, DType("int8")]
    yield [x, four, three, 1, -128, 127, DType("int8")]
    yield [x, four[:2], three, 0, -128, 127, DType("int8")]
    yield [x, one, zeros(rng, (1,)), 2, -128, 127, DType("int8")]
    yield [x, one, zeros(rng, (1,)), -3, -128, 127, DType("int8")]
    yield [x, one, zeros(rng, (1,)), 0, -128, 128, DType("int8")]


def dequantize_per_channel(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    kinds = [
        *(("float32", "int64"), ("float32", None), ("float64", "int32"), ("float16", "int8")),
        *(("float32", "float32"), ("bfloat16", "float16"), ("float32", "uint8")),
        *(("float32", "float64"), ("float16", "int64")),
    ]
    low, high = RANGES.get(dtype, (0, 100))
    for i, (shape, order, axis) in enumerate(axes()):
        n = shape[axis] if shape else 1
        x, (s, z) = integers(rng, shape, dtype, order), kinds[i % len(kinds)]
        to = (None, DType("float32"), DType("float16"), DType("float64"), DType("int32"))[i % 5]
        yield [
            *(x, scales(rng, (n,), s), z and zeros(rng, (n,), z), axis, low, high),
            *(DType(dtype), to),
        ]
    x, one = integers(rng, (3, 4), dtype), scales(rng, (1,))
    for z in ("int8", "int16", "int32", "int64"):  # differences that wrap, or do not fit float32
        far = zeros(rng, (3,), z) + np.iinfo(z).max - 100
        for s in ("float32", "float64", "bfloat16"):
            yield [x, scales(rng, (3,), s), far, 0, low, high, DType(dtype), None]
    yield [x, scales(rng, (4, 1)), zeros(rng, (1, 4)), 1, low, high, DType(dtype), None]
    yield [x, one, zeros(rng, (3,)), 0, low, high, DType(dtype), None]
    yield [x, one, zeros(rng, (2,)), 0, low, high, DType(dtype), None]
    yield [x, scales(rng, (2,)), None, 0, low, high, DType(dtype), None]
    yield [x, one, None, 5, low, high, DType(dtype), None]
    yield [x, one, None, 0, low - 1, high, DType(dtype), None]


TOKENS = [
    *(((3, 40), (3, 1), None), ((40, 3), (40, 1), (1, 0)), ((2, 3, 5), (2, 3, 1), (2, 0, 1))),
    *(((7,), (1,), None), ((7,), (), None), ((1, 9), (), None), ((0, 3), (0, 1), None)),
    *(((4, 4), (4,), None), ((3, 4), (3,), None), ((3, 4), (4, 1), None)),
]


def quantize_per_token(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    if dtype.startswith("complex"):
        return
    kinds = [
        *(("float64", "int64"), ("float32", "int32"), ("float16", "int64")),
        *(("bfloat16", "int8"), ("float32", "float32"), ("float32", "float64")),
        *(("float16", "float32"), ("float16", "float64"), ("int64", "uint8")),
    ]
    for i, (shape, of, order) in enumerate(TOKENS * 3):
        to, (low, high) = list(RANGES.items())[i % 2 if i < 20 else i % 5]
        x, (s, z) = floats(rng, shape, dtype, order), kinds[i % len(kinds)]
        yield [
            *(x, np.asarray(scales(rng, of) + (s[0] == "i")).astype(np_dtype(s))),
            *(zeros(rng, of, z), low, high, DType(to)),
        ]


def dequantize_per_token(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    if dtype.startswith("complex"):
        return
    kinds = [
        *(("float64", "int64"), ("float32", "int32"), ("float16", "int8")),
        *(("bfloat16", "int64"), ("float32", "float32"), ("float32", "uint8")),
        ("bfloat16", "float16"),
    ]
    for i, (shape, of, order) in enumerate(TOKENS * 2):
        to = (*FLOATING, "int8")[i % 5]
        x, (s, z) = integers(rng, shape, dtype, order), kinds[i % len(kinds)]
        if to == "int8":
            x = x // 16 if "int" in dtype else x
        yield [x, scales(rng, of, s), zeros(rng, of, z), 0, 1, DType("int8"), DType(to)]


def extremes(dtype: str) -> np.ndarray:
    """Return rows of two numbers: equal ones, of one sign, not finite, tiny and huge ones."""
    rows = [
        *([0, 0], [5, 5], [-3, -3], [7, 3], [-7, -1], [np.nan, 1], [np.inf, 1], [-np.inf, 1]),
        *([np.inf, -np.inf], [1e-20, 0], [6e4, -6e4], [3e38, -3e38]),
    ]
    with np.errstate(over="ignore"):
        return np.array(rows).astype(np_dtype(dtype))


def choose_qparams(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    ranges = [
        *((-128, 127, "int8"), (0, 255, "uint8"), (-(2**15), 2**15 - 1, "int16")),
        *((-(2**31), 2**31 - 1, "int32"), (0, 65535, "uint16"), (-8, 7, "int8")),
    ]
    for i, (shape, order) in enumerate([*SHAPES, ((1, 70), None), ((1,), None)]):
        x = array(rng, shape, dtype, order)
        for eps in (1.1920928955078125e-07, 0.3):
            yield [x, ranges[i % 6][0], ranges[i % 6][1], eps, DType(ranges[i % 6][2])]
    for x in extremes(dtype) if dtype in FLOATING else ():
        for low, high, to in ranges[:4]:
            yield [x, low, high, 1e-7, DType(to)]
    x = array(rng, (3,), dtype)
    for low, high, to in (
        *((1, 5, "int8"), (-5, -1, "int8"), (0, 0, "int8"), (-(2**40), 5, "int32")),
        *((-5, 2**31, "int32"), (-5, 5, "int64")),
    ):
        yield [x, low, high, 1e-7, DType(to)]
    yield [x, -5, 300, float("nan"), DType("int8")]


def choose_qparams_per_token(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    if dtype not in FLOATING:
        return  # eager accepts integers, which nobody quantises
    for shape, order in [*SHAPES, ((2, 0), None), ((5, 70), None), ((1,), None)]:
        yield [array(rng, shape, dtype, order), DType("int8")]
    yield [extremes(dtype), DType("uint8")]
    yield [array(rng, (30, 9), dtype, (1, 0)), DType("int8")]


def add(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for a, b, order in (
        *(((3, 4), (3, 4), None), ((3, 4), (4,), (1, 0)), ((2, 1, 3), (5, 1), None)),
        *(((), (3,), None), ((0, 3), (1, 3), None), ((9, 40), (9, 40), (1, 0))),
    ):
        x, y = integers(rng, a, dtype, order), integers(rng, b, dtype)
        yield [x, 0.1, 3, 0, 255, y, 0.2, 100, -7, 300, 0.15, 10, 0, 255]
        yield [x, 0.5, 0, 0, 255, y, 0.25, 0, 0, 255, 0.5, 3, 20, 100]
    yield [x, 1e30, -(2**62), 0, 255, y, 1e30, 5, 0, 255, 1e-3, 2**40, 0, 255]
    yield [x, float("nan"), 0, 0, 255, y, 1.0, 5, 0, 255, 1e-3, 0, 0, 255]
    yield [x, 1.0, 0, 0, 255, y, 1.0, 5, 0, 255, 0.0, 0, 0, 255]
    yield [x, 1.0, 0, 0, 255, y, 1.0, 5, 0, 255, 1.0, 0, -1, 255]
    yield [x, 1.0, 0, 0, 255, y, 1.0, 5, 0, 255, 1.0, 0, 0, 256]
    yield [x, 1.0, 0, 0, 255, y[:2], 1.0, 5, 0, 255, 1.0, 0, 0, 25]


def embedding(bits: int, with_dtype: bool) -> Samples:
    """Return a sample function whose dtype is that of the scales."""
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        def table(rows: int, width: int, groups: Any, of: str, zero: bool, *index: int) -> list:
            s = scales(rng, (rows, groups) if groups else (rows,), dtype)
            weight = integers(rng, (rows, width), of)
            if with_dtype and groups == 2:
                weight = np.asfortranarray(weight)
            z = np.asarray(zeros(rng, s.shape) / 4).astype(s.dtype) if zero else None
            at = np.asarray(rng.integers(0, rows, index)).astype("int32" if groups else "int64")
            return [weight, s, z, low, high, at]

        for i, (groups, of, zero) in enumerate(
            [
                *((None, "uint8", True), (1, "uint8", False), (2, "int8", True)),
                *((4, "uint8", True), (None, "int8", False), (2, "uint8", False)),
            ]
        ):
            tail = [DType(FLOATING[i % 4])] if with_dtype else []
            for index in ((4,), (2, 3), (), (0,)):
                yield [*table(10, 8, groups, of, zero, *index), *tail]
            yield [*table(3, 48, groups, of, zero, 5), *tail]
        tail = [DType("float32")] if with_dtype else []
        yield [*table(1, 8, 3, "uint8", True, 2), *tail]
        yield [*table(3, 8, 8 * 8 // bits, "uint8", True, 2), *tail]
        yield [*table(3, 0, 1, "uint8", True, 2), *tail]
        weight, s, z, _, _, at = table(1, 8, 2, "uint8", True, 3)
        yield [weight, s, z[:, 0], low, high, at, *tail]
        yield [weight, s, z[:, 0].astype(np.float64), low, high, at, *tail]
        yield [weight, s[:0], z, low, high, at, *tail]
        yield [weight, s, None, low, high, at + 1, *tail]
        yield [weight, s, None, low, high, at - 1, *tail]
        yield [weight, s, None, low, high, at.astype(np.float32), *tail]
        yield [weight.astype(np.int16), s, None, low, high, at, *tail]
        if bits < 8:
            yield [weight, s, None, low - 1, high, at, *tail]
            yield [weight, s, None, low, high + 1, at, *tail]

    return samples


def mixed_mm(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    if dtype not in ("float32", "float16", "bfloat16"):
        return  # defined only by the kernels
    for m, k, n in ((1, 5, 40), (3, 20, 37), (40, 9, 2), (2, 0, 3), (0, 2, 3), (3, 2, 0)):
        for zero, order in ((False, (0, 1)), (True, (1, 0))):
            x, w = array(rng, (m, k), dtype, order), integers(rng, (k, n), "int8", order)
            yield [x, w, scales(rng, (k,), dtype), zeros(rng, (k,), dtype) if zero else None]


def mixed_linear(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    if dtype not in ("float32", "float16", "bfloat16"):
        return
    for m, k, n in ((1, 5, 40), (3, 20, 37), (40, 9, 2), (2, 0, 3), (0, 2, 3), (3, 2, 0)):
        for groups, order in ((None, (0, 1)), (1, (1, 0)), (2, (0, 1)), (3, (1, 0))):
            x, w = array(rng, (m, k), dtype, order), integers(rng, (n, k), "int8", order)
            of = (n, groups) if groups else (n,)
            z = zeros(rng, of, dtype) if groups == 2 else None
            to = None if order[0] else DType(("float32", "float16")[m % 2])
            yield [x, w, scales(rng, of, dtype), z, to]


SAMPLES: dict[str, Samples] = {
    "quantized_decomposed::add.out": add,
    "quantized_decomposed::choose_qparams.Tensor_out": choose_qparams,
    "quantized_decomposed::choose_qparams_per_token_asymmetric.out": choose_qparams_per_token,
    "quantized_decomposed::embedding_byte.out": embedding(8, False),
    "quantized_decomposed::embedding_byte.dtype_out": embedding(8, True),
    "quantized_decomposed::embedding_4bit.out": embedding(4, False),
    "quantized_decomposed::embedding_4bit.dtype_out": embedding(4, True),
    "quantized_decomposed::embedding_2bit.out": embedding(2, False),
    "quantized_decomposed::embedding_2bit.dtype_out": embedding(2, True),
    "quantized_decomposed::mixed_mm.out": mixed_mm,
    "quantized_decomposed::mixed_linear.out": mixed_linear,
    "quantized_decomposed::quantize_per_tensor.out": quantize_per_tensor,
    "quantized_decomposed::quantize_per_tensor.Tensor_out": by_tensor(quantize_per_tensor),
    "quantized_decomposed::dequantize_per_tensor.out": dequantize_per_tensor,
    "quantized_decomposed::dequantize_per_tensor.Tensor_out": by_tensor(dequantize_per_tensor),
    "quantized_decomposed::quantize_per_channel.out": quantize_per_channel,
    "quantized_decomposed::dequantize_per_channel.out": dequantize_per_channel,
    "quantized_decomposed::quantize_per_token.out": quantize_per_token,
    "quantized_decomposed::dequantize_per_token.out": dequantize_per_token,
}
