"""Samples of calls that random programs found to differ in the official runtime, besides those of
the kernels' tests: reference_table.py runs both."""

from collections.abc import Iterator

import numpy as np

from tests.kernels.eager import Samples, array, of_self


def of_one_element(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    """Yield operands of a sum: the first has one element, which is broadcast, or more."""
    alphas = (1,) if dtype == "bool" else (1, 2) if dtype[0] == "u" else (1, 2, -1)
    for alpha in (*alphas, 0.5) if "float" in dtype else alphas:
        for shape in ((), (1,), (1, 1), (5,), (3, 5)):
            yield [array(rng, shape, dtype), array(rng, (3, 5), dtype), alpha]


def of_several_dimensions(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    """Yield tensors with zeros: places of the others, which eager writes column by column."""
    for shape in ((3, 4), (5, 2), (6, 5), (2, 3, 4), (4, 4, 2), (2, 3, 2, 3)):
        x = array(rng, shape, dtype)
        yield [np.where(rng.random(shape) < 0.5, x, np.zeros_like(x))]


def of_large_integers(*tail: list) -> Samples:
    """Return a sample function: integers that float32 does not have; other dtypes have none."""

    def samples(rng: np.random.Generator, dtype: str) -> Iterator[list]:
        if dtype in ("int32", "int64"):
            high = np.iinfo(dtype).max // 2
            yield from ([rng.integers(-high, high, (n,), dtype), *tail] for n in (4, 7, 33))

    return samples


def of_powers(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    """Yield integers whose powers the dtype does not have (they wrap), and such as it has; other
    dtypes have none."""
    if dtype.startswith(("int", "uint")):
        for shape in ((4,), (3, 5), (2, 3, 2)):
            for most, least in ((100, 5), (4, 1)):
                bases = rng.integers(2, most, shape)
                yield [bases.astype(dtype), rng.integers(least, least + 3, shape).astype(dtype)]


def of_two_dtypes(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    """Yield tensors to be joined, of which the second has another dtype."""
    for other in ("int8", "int16", "int32", "float32"):
        if other != dtype:
            for shape in ((3, 4), (2, 3, 2), (5,)):
                yield [[array(rng, shape, dtype), array(rng, shape, other)], 0]


MORE = {
    "aten::add.out": of_one_element,
    "aten::sub.out": of_one_element,
    "aten::cat.out": of_two_dtypes,
    "aten::nonzero.out": of_several_dimensions,
    "aten::unsqueeze_copy.out": of_self(*(((2, 3, 4, 5), None, [dim]) for dim in (0, 1, 2, -1))),
    **{f"aten::{name}.out": of_large_integers() for name in ("ceil", "floor", "round", "trunc")},
    "aten::pow.Tensor_Scalar_out": of_large_integers(2),
    "aten::pow.Tensor_Tensor_out": of_powers,
    "aten::sum.IntList_out": of_large_integers([0], True, None),
}
"""Functions of samples, by operator."""
