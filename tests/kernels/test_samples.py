"""Every sample of every operator, without a program: fast and plain loops against eager."""

import itertools
from typing import Any

import numpy as np
import pytest

from tests.kernels import rows
from tests.kernels.eager import WIDE_UNSIGNED, in_order
from tests.kernels.more_samples import MORE
from tests.op_harness import OpError

BITWISE = tuple(
    (
        "index_select gather scatter scatter_add masked_select masked_scatter nonzero "
        "nonzero_static index_put index_put_ put tril flip pixel_shuffle pixel_unshuffle"
    ).split()
)
"""Operators that move and add bits, whose unsigned kernels eager lacks."""
DECOMPOSITIONS = 8  # samples of a dtype: eager takes long
OPEN = {"aten::view_copy.dtype_out": "some tensors without elements"}
"""Operators with samples that eager rejects without need."""
BY_LAYOUT = {
    **dict.fromkeys(("aten::_linalg_det.result", "aten::_linalg_slogdet.sign"), "LU of rows"),
    **dict.fromkeys(("aten::as_strided_copy.out", "aten::as_strided_scatter.out"), "strides"),
    **dict.fromkeys(("aten::resize.out", "aten::resize_"), "elements by their place in memory"),
    **dict.fromkeys(("aten::sym_is_contiguous", "aten::sym_stride.int"), "strides"),
    **dict.fromkeys(("aten::view_as_complex_copy.out", "aten::view_copy.dtype_out"), "last stride"),
    **dict.fromkeys((rows.ROW, "executorch_prim::et_view.default"), "test_places.py"),
    "aten::frexp.Tensor_out": "run_op.c compares joined loops of one output",
}
"""Operators whose results depend on the order of dimensions in memory."""


def every_sample(name: str, dtype: str) -> list[list]:
    if rows.tables()[name][0] == "decomp":
        return rows.pick(name, dtype, DECOMPOSITIONS)
    more = MORE[name](np.random.default_rng(0), dtype) if name in MORE else []
    return [*rows.every_sample(name, dtype), *more]


def signed(a: Any) -> Any:
    """Return the argument with integers of the signed dtype of that width."""
    wide = isinstance(a, np.ndarray) and a.dtype.name in WIDE_UNSIGNED
    return a.view(a.dtype.name[1:]) if wide else a


def expected(name: str, dtype: str) -> list[tuple[list, list[Any] | None]]:
    """Return samples with eager's results; None if it rejects them."""
    samples = every_sample(name, dtype)
    if dtype not in WIDE_UNSIGNED or name[6:].split(".")[0] not in BITWISE:
        return rows.expected(name, samples, dtype)
    results = rows.expected(name, [[signed(a) for a in args] for args in samples], dtype[1:])
    return [
        (args, wanted and [w if "nonzero" in name else w.view(dtype) for w in wanted])
        for args, (_, wanted) in zip(samples, results, strict=True)
    ]


@pytest.mark.sweep(3)  # test_rows.py has some samples of all
@pytest.mark.filterwarnings("ignore")  # eager's own
@pytest.mark.parametrize("name", sorted(rows.tables()))
def test_samples(name: str) -> None:
    """Results are eager's; arguments that eager rejects are rejected."""
    for dtype in rows.dtypes_of(name):
        for args, results in expected(name, dtype):
            for reference in (False, True) if results is not None else ():
                outputs = rows.called(name, args, rows.outs_of(results), reference)
                rows.check(name, args, outputs, results)
        for args, outs in rows.rejected(name, dtype, every_sample):
            if name not in OPEN:
                with pytest.raises(OpError):
                    rows.called(name, args, outs)
                    pytest.fail(f"eager rejects {name} {dtype} {args}")


def orders(rank: int) -> list[tuple[int, ...]]:
    """Return all orders of up to four dimensions, and some of more."""
    every = itertools.islice(itertools.permutations(range(rank)), 720)
    return list(every)[:: 1 if rank < 5 else 40]


def laid_out(value: Any, at: int) -> Any:
    """Return the argument with its arrays in the order `at` of dimensions in memory."""
    if isinstance(value, list):
        return [laid_out(v, at + i) for i, v in enumerate(value)]
    if not isinstance(value, np.ndarray) or value.ndim < 2:
        return value
    order = orders(value.ndim)[at % len(orders(value.ndim))]
    return in_order(value, order)


def rank_of(args: list, results: list[Any] | None) -> int:
    """Return the highest rank; 0 without results or elements."""
    every = rows.arrays([args, results or []])
    full = results and all(a.size for a in every)
    return max((a.ndim for a in every), default=0) if full else 0


@pytest.mark.sweep(3)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(set(rows.tables()) - set(BY_LAYOUT)))
def test_layouts(name: str) -> None:
    """Arguments and outputs in any order of dimensions in memory."""
    for dtype in ("float32", "int64", "int8", "bool", "complex64"):
        samples = [(args, r) for args, r in expected(name, dtype) if rank_of(args, r) > 1]
        for args, results in rows.spread(samples, 6):
            for at in range(len(orders(rank_of(args, results)))):
                ours = [laid_out(a, at + i) for i, a in enumerate(args)]
                ranks = [orders(np.ndim(r)) for r in results]
                outs = [each[(5 * at + i) % len(each)] for i, each in enumerate(ranks)]
                outputs = rows.called(name, ours, rows.outs_of(results), at % 3 == 2, outs)
                rows.check(name, args, outputs, results)
        if samples:
            break
