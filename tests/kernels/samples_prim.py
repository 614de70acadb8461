"""Sample arguments of the operators in csrc/kernels/prim."""

from collections.abc import Callable, Iterator

import numpy as np

from tests.kernels.eager import array

Samples = Callable[[np.random.Generator, str], Iterator[list]]

NUMBERS = (0, 1, 7, -7, 2, -3, 2**62, -(2**63), 0.0, 0.5, -2.5, 7.0, 1e300, True, False)


def pairs(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for a in NUMBERS:
        for b in NUMBERS:
            yield [a, b]


def integers(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for a, b in pairs(rng, dtype):
        if type(a) is int and type(b) is int:
            yield [a, b]


def singles(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for a in (*NUMBERS, 1.5, 2.5, -0.5, -1.7, 3.999):
        yield [a]


def choices(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for a in (True, False, 1, 0):
        yield [a, 3, 4.5]


def sizes(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for dim in range(-4, 4):
        yield [array(rng, (2, 0, 3, 4), dtype, (0, 2, 3, 1)), dim]
    yield [array(rng, (5, 3), dtype), 1]


def strides(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for dim in (-5, *range(-4, 5)):
        for order in (None, (0, 2, 3, 1), (3, 1, 0, 2)):
            yield [array(rng, (2, 5, 3, 4), dtype, order), dim]
    yield [array(rng, (), dtype), 0]


def formats(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for format in range(4):
        for order in (None, (0, 2, 3, 1), (0, 1, 3, 2)):
            yield [array(rng, (2, 5, 3, 4), dtype, order), format]
            yield [array(rng, (1, 5, 1, 1), dtype, order), format]
        for order in (None, (0, 2, 3, 4, 1)):
            yield [array(rng, (2, 5, 3, 4, 2), dtype, order), format]
        for shape in ((), (3,), (2, 0), (2, 0, 3, 4), (1, 1, 1, 1)):
            yield [array(rng, shape, dtype), format]


def tensors(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape in ((), (1,), (2, 0), (3, 4)):
        yield [array(rng, shape, dtype)]


def one_element(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape in ((), (1,), (1, 1)):
        yield [array(rng, shape, dtype)]


def views(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    a = array(rng, (2, 3, 4), dtype)
    for size in ([24], [4, 6], [-1], [2, -1, 2], [2, 3, 4, 1], [1, 24, 1]):
        yield [a, size]
    yield [array(rng, (2, 0, 3), dtype), [0, 6]]
    yield [array(rng, (1,), dtype), []]


def rows(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for index in (0, 2, 4):
        yield [array(rng, (5, 3, 4), dtype), array(rng, (3, 4), dtype), index]
        yield [array(rng, (5,), dtype), array(rng, (), dtype), index]


PRIM: dict[str, Samples] = {
    **{
        f"executorch_prim::{n}.Scalar": pairs
        for n in "add sub mul truediv floordiv mod eq gt ge lt le sym_max sym_min".split()
    },
    **{
        f"executorch_prim::{n}.Scalar": singles
        for n in ("neg", "sym_not", "sym_float", "sym_int", "trunc", "ceil", "round")
    },
    "executorch_prim::floordiv.int": integers,
    "executorch_prim::mod.int": integers,
    "executorch_prim::sym_ite.Scalar": choices,
    "executorch_prim::et_view.default": views,
    "executorch_prim::et_copy_index.tensor": rows,
    "aten::sym_size.int": sizes,
    "aten::sym_numel": tensors,
    "aten::sym_stride.int": strides,
    "aten::sym_storage_offset": tensors,
    "aten::sym_is_contiguous": formats,
    "aten::_local_scalar_dense": one_element,
}
