"""csrc/kernels/index against eager: every operator, dtype and layout."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from eager import ALL, WIDE_UNSIGNED, array, check, compare, eager, orders
from op_harness import OpError, Out, run
from samples_index import SAMPLES, bools, ints, selections

# Moved without a look at the values, so eager's kernels of the signed type of that width will do.
NO_EAGER = {"aten::gather.out", "aten::scatter.src_out", "aten::scatter.value_out",
            "aten::scatter_add.out", "aten::masked_select.out", "aten::masked_scatter.out",
            "aten::nonzero.out", "aten::index_put.out", "aten::index_put_"}  # fmt: skip
ADDING = {"aten::scatter_add.out", "aten::index_put.out", "aten::index_put_"}


def signed(a: object) -> object:
    wide = isinstance(a, np.ndarray) and a.dtype.name in WIDE_UNSIGNED
    return a.view(a.dtype.name[1:]) if wide else a  # type: ignore[attr-defined]


def check_sample(name: str, args: list, dtype: str, **options: object) -> None:
    """As `check`, for operators that write in place and dtypes that eager lacks, too."""
    expected = eager(name, [signed(a) for a in args] if name in NO_EAGER else args)
    own = args[0].dtype
    expected = [e.view(own) if e.dtype == signed(args[0]).dtype else e for e in expected]
    if name.endswith("_"):
        target = In(args[0])
        run(name, [target, *args[1:]])
        found = [target.array()]
    else:
        outs = [Out(e.shape, e.dtype.name, **options) for e in expected]  # type: ignore[arg-type]
        found = run(name, [*args, *outs])
    for f, e in zip(found, expected, strict=True):
        compare(f, e, name not in ADDING, (name, args))


class In(Out):
    """A tensor with data that the operator writes to."""

    def __init__(self, a: np.ndarray) -> None:
        order = sorted(range(a.ndim), key=lambda d: (-a.strides[d], -a.shape[d], d))
        super().__init__(a.shape, a.dtype.name, tuple(order), 0)
        self.given = a

    def array(self) -> np.ndarray:
        return self.written
