"""Sample arguments of the operators in csrc/kernels/prim."""

from collections.abc import Iterator

import numpy as np

from tests.kernels.eager import Samples, array, fixed, of_self


NUMBERS = (0, 1, 7, -7, 2, -3, 2**62, -(2**63), 0.0, 0.5, -2.5, 7.0, 1e300, True, False)


PAIRS = [[a, b] for a in NUMBERS for b in NUMBERS]
INTEGERS = fixed(*([a, b] for a, b in PAIRS if type(a) is type(b) is int))
SINGLES = (*NUMBERS, 1.5, 2.5, -0.5, -1.7, 3.999)
ORDERS = (None, (0, 2, 3, 1), (0, 1, 3, 2))


LAYOUTS = [
    *((shape, order) for order in ORDERS for shape in ((2, 5, 3, 4), (1, 5, 1, 1))),
    *(((2, 5, 3, 4, 2), order) for order in (None, (0, 2, 3, 4, 1))),
    *((shape, None) for shape in ((), (3,), (2, 0), (2, 0, 3, 4), (1, 1, 1, 1))),
]
TENSORS = of_self(*((shape, None, []) for shape in ((), (1,), (2, 0), (3, 4))))


def rows(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for index in (0, 2, 4):
        yield [array(rng, (5, 3, 4), dtype), array(rng, (3, 4), dtype), index]
        yield [array(rng, (5,), dtype), array(rng, (), dtype), index]


PRIM: dict[str, Samples] = {
    **{
        f"executorch_prim::{n}.Scalar": fixed(*PAIRS)
        for n in "add sub mul truediv floordiv mod eq gt ge lt le sym_max sym_min".split()
    },
    **{
        f"executorch_prim::{n}.Scalar": fixed(*([a] for a in SINGLES))
        for n in ("neg", "sym_not", "sym_float", "sym_int", "trunc", "ceil", "round")
    },
    "executorch_prim::floordiv.int": INTEGERS,
    "executorch_prim::mod.int": INTEGERS,
    "executorch_prim::sym_ite.Scalar": fixed(*([a, 3, 4.5] for a in (True, False, 1, 0))),
    "executorch_prim::et_view.default": of_self(
        *(
            ((2, 3, 4), None, [size])
            for size in ([24], [4, 6], [-1], [2, -1, 2], [2, 3, 4, 1], [1, 24, 1])
        ),
        *(((2, 0, 3), None, [[0, 6]]), ((1,), None, [[]])),
    ),
    "executorch_prim::et_copy_index.tensor": rows,
    "aten::sym_size.int": of_self(
        *(((2, 0, 3, 4), (0, 2, 3, 1), [dim]) for dim in range(-4, 4)), ((5, 3), None, [1])
    ),
    "aten::sym_numel": TENSORS,
    "aten::sym_stride.int": of_self(
        *(
            ((2, 5, 3, 4), order, [dim])
            for dim in (-5, *range(-4, 5))
            for order in (None, (0, 2, 3, 1), (3, 1, 0, 2))
        ),
        ((), None, [0]),
    ),
    "aten::sym_storage_offset": TENSORS,
    "aten::sym_is_contiguous": of_self(
        *((*layout, [format]) for format in range(4) for layout in LAYOUTS)
    ),
    "aten::_local_scalar_dense": of_self(*((shape, None, []) for shape in ((), (1,), (1, 1)))),
}
