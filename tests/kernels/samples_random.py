"""Sample arguments of the operators in csrc/kernels/random, by operator name."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.dtypes import np_dtype
from tests.kernels.eager import FLOATING, Samples, array, fixed, of_self

SHAPES = ((3, 4), (), (2, 0), (5, 60))


def sized(*before: Any, after: tuple = ()) -> Samples:
    shapes = ((3, 4), (), (5, 60))  # eager accepts any dtype for empty results
    return fixed(*([*before, list(shape), *after] for shape in shapes))


def like(*tails: list) -> Samples:
    first, *others = tails
    return of_self(
        *((shape, None, first) for shape in SHAPES),
        *((SHAPES[0], None, tail) for tail in others),
        ((3, 5, 2), (2, 0, 1), first),
    )


def probabilities(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape in SHAPES:
        yield [np.asarray(rng.random(shape)).astype(np_dtype(dtype)), None]
    yield [np.asarray([0.5, -1, 2, 0]).astype(np_dtype(dtype)), None]


def multinomial(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape, count, again in (
        *(((5,), 3, False), ((2, 4), 9, True), ((3, 6), 6, False), ((2, 4), 5, False)),
        *(((4,), 0, True), ((2, 2, 2), 1, True)),
    ):
        a = np.asarray(np.abs(array(rng, shape, dtype)) + np.ones((), np_dtype(dtype)))
        yield [a.astype(np_dtype(dtype)), count, again, None]


def normal(mean: Any, std: Any) -> Samples:
    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        for shape in SHAPES if dtype in FLOATING else ():
            m = array(rng, shape, dtype) if mean is None else mean
            s = np.asarray(np.abs(array(rng, shape, dtype))) if std is None else std
            yield [m, s.astype(np_dtype(dtype)) if std is None else s, None]

    return samples


def poisson(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape in SHAPES if dtype in FLOATING else ():
        rate = np.asarray(np.abs(array(rng, shape, dtype)).astype(np.float64) * 9)
        yield [rate.astype(np_dtype(dtype)), None]
    yield [np.ones(3, np_dtype(dtype)), None]
    for wrong in (-1.0, np.nan) if dtype in FLOATING else ():
        yield [np.asarray([1.0, wrong]).astype(np_dtype(dtype)), None]


def binomial(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    """Yield samples without NaN trials, for which eager never returns."""
    for shape in SHAPES if dtype in FLOATING else ():
        count = np.asarray(rng.integers(-1, 200, shape)).astype(np_dtype(dtype))
        yield [count, np.asarray(rng.random(shape) * 1.2 - 0.1).astype(np_dtype(dtype)), None]
    if dtype in FLOATING:
        pairs = np.asarray([[3, 0], [3.5, 1], [7, 2], [7, -1], [0, 0.5]], np.float64)
        yield [*(v.astype(np_dtype(dtype)) for v in pairs.T.copy()), None]
    yield [np.ones((3, 4), np_dtype(dtype)), np.zeros((1, 4), np_dtype(dtype)), None]


SAMPLES: dict[str, Samples] = {
    "aten::rand.out": sized(),
    "aten::randn.out": sized(),
    "aten::rand_like.out": like([None]),
    "aten::randn_like.out": like([None]),
    "aten::randint.out": sized(7),
    "aten::randint.low_out": sized(3, 100),
    "aten::randint_like.out": like([7, None], [0, None]),
    "aten::randint_like.low_dtype_out": like([3, 9, None], [9, 3, None]),
    "aten::randperm.out": fixed([0], [1], [7], [100], [-1]),
    "aten::uniform.out": like([0.0, 1.0, None], [-2.0, 3.0, None], [3.0, -2.0, None]),
    "aten::exponential.out": like([1.0, None], [2.5, None], [-1.0, None]),
    "aten::geometric.out": like([0.4, None], [1.0, None]),
    "aten::cauchy.out": like([0.0, 1.0, None], [2.0, -1.0, None]),
    "aten::log_normal.out": like([0.1, 0.2, None], [1.0, -1.0, None]),
    "aten::normal.float_float_out": sized(1.5, 0.5, after=(None,)),
    "aten::normal.Tensor_float_out": normal(None, 0.5),
    "aten::normal.float_Tensor_out": normal(2.0, None),
    "aten::normal.Tensor_Tensor_out": normal(None, None),
    "aten::poisson.out": poisson,
    "aten::binomial.out": binomial,
    "aten::bernoulli.out": probabilities,
    "aten::bernoulli.float_out": like([0.3, None], [1.5, None]),
    "aten::multinomial.out": multinomial,
    "aten::native_dropout.out": like(
        [0.5, True], [0.25, None], [0.0, True], [1.0, True], [0.5, False], [1.5, False], [1.5, True]
    ),
}
