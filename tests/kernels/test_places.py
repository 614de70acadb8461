"""Operators on places of elements, and sorting: what comparisons with eager do not show."""

import numpy as np
import pytest
import torch
from torch.nn.functional import embedding_bag

from executorch_c import Runtime
from tests.exports import export
from tests.judge import Limit, assert_equal, assert_right
from tests.kernels.eager import WIDE_UNSIGNED, array, eager, to_numpy, to_torch, with_nan
from tests.kernels.samples_sort import ties
from tests.op_harness import OpError, Out, run


def test_resize_larger(rng: np.random.Generator) -> None:
    """Elements that fit are kept, in memory order, followed by zeros (undefined in eager)."""
    a = array(rng, (3, 5), "int32", (1, 0))
    want = np.zeros(24, "int32")
    want[:15] = a.T.ravel()
    output = run("aten::resize.out", [a, [4, 6], None, Out((4, 6), "int32")])[0]
    assert_equal(output, want.reshape(4, 6), "resize")


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_resize_in_place(order: tuple, rng: np.random.Generator) -> None:
    """The tensor keeps its dim order; its elements are eager's."""
    for size in ([2, 3, 4], [1, 3, 3], [4, 3, 2], [0, 3, 4]):
        a = array(rng, (2, 3, 4), "float32", order)
        self = Out(a.shape, "float32", order, initial=a)
        want = to_numpy(torch.ops.aten.resize(torch.from_numpy(a), size))
        assert_equal(run("aten::resize_", [self, size, None, None])[0], want, size)


def test_fully_cat_to_a_wider_output(rng: np.random.Generator) -> None:
    a, b = array(rng, (2, 3), "float32"), array(rng, (1, 3), "float16")
    output = run("aten::cat.out", [[a, b], 0, Out((3, 3), "float64")])[0]
    assert np.array_equal(output, np.concatenate([a, b]).astype(np.float64))


def test_sizes_grow_within_their_bound(rng: np.random.Generator) -> None:
    mask = np.array([True, False, True])
    a = array(rng, (3,), "float32")
    assert run("aten::nonzero.out", [mask, Out((3, 1), "int64", (1, 0))])[0].tolist() == [[0], [2]]
    assert np.array_equal(run("aten::masked_select.out", [a, mask, Out((3,))])[0], a[mask])


def test_hostile_bools_count_as_one() -> None:
    mask = np.array([2, 0, 255], np.uint8).view(bool)
    assert run("aten::nonzero.out", [mask, Out((3, 1), "int64")])[0].tolist() == [[0], [2]]


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_with_a_last_offset(mode: str) -> None:
    """For gradients, the exporter plans other output sizes than eager's."""
    weight = torch.randn(5, 3)
    at, starts = torch.tensor([0, 2, 2, 4, 1, 2]), torch.tensor([0, 2, 2, 6])

    def bag(w: torch.Tensor, i: torch.Tensor, o: torch.Tensor) -> torch.Tensor:
        return embedding_bag(i, w, o, mode=mode, include_last_offset=True)

    program = Runtime.get().load_program(export(bag, weight, at, starts))
    (result,) = program.load_method("forward").execute([weight, at, starts])
    (absolute,) = (bag(t.abs(), at, starts).numpy() for t in (weight,))
    assert_right(result, bag(weight, at, starts).numpy(), mode, Limit(0.5, 1), terms=absolute)


def view(a: np.ndarray, size: list[int], out: Out) -> np.ndarray:
    """Return the elements of et_view's output, which has the memory of its input."""
    (elements,) = run("executorch_prim::et_view.default", [a, size, out])
    t = out._tensor  # type: ignore[attr-defined]
    assert t.data != out._buffer.ctypes.data and t.capacity == a.nbytes
    return elements


def test_a_transposed_row(rng: np.random.Generator) -> None:
    column = array(rng, (3, 4), "float32", (1, 0))
    name = "executorch_prim::et_copy_index.tensor"
    (whole,) = run(name, [Out((5, 3, 4)), column, 1])
    assert_equal(np.asarray(whole[1]), column, "transposed")
    assert whole.shape == (2, 3, 4) and not whole[0].any()


def test_views_of_other_layouts(rng: np.random.Generator) -> None:
    """Dense memory in another dim order is viewed if the order permits it."""
    a = array(rng, (2, 3, 4, 5), "float32", (0, 2, 3, 1))
    result = view(a, [2, 3, 20], Out((2, 3, 20), dim_order=(0, 2, 1)))
    assert_equal(result, a.reshape(2, 3, 20), "view")
    thin = array(rng, (2, 3, 1, 1), "float32", (0, 2, 3, 1))
    assert_equal(view(thin, [6], Out((6,))), thin.reshape(6), "thin")
    for size, out in (
        ([2, 3, 20], Out((2, 3, 20))),
        ([120], Out((120,))),
        ([6, 20], Out((6, 20), dim_order=(1, 0))),
    ):
        with pytest.raises(OpError, match="'out': self's memory layout cannot be viewed"):
            view(a, size, out)


@pytest.mark.parametrize("dtype", WIDE_UNSIGNED)
def test_sort_of_wide_unsigned(dtype: str, rng: np.random.Generator) -> None:
    """Eager lacks these kernels; NumPy is the reference."""
    a = rng.integers(0, np.iinfo(dtype).max, (3, 200), dtype)
    output, at = run("aten::sort.values", [a, 1, False, Out(a.shape, dtype), Out(a.shape, "int64")])
    assert np.array_equal(output, np.sort(a, 1))
    assert np.array_equal(at, np.argsort(a, 1, kind="stable"))


@pytest.mark.parametrize("name", ["median.dim_values", "nanmedian.dim_values", "kthvalue.values"])
def test_positions_of_equal_elements(name: str, rng: np.random.Generator) -> None:
    """The position among equal elements is undefined: it must hold the value."""
    a = with_nan(rng, ties(rng, (6, 300), "float32"))
    args = [a, *([150] if name[0] == "k" else []), 1, True]
    values, at = run(f"aten::{name}", [*args, Out((6, 1)), Out((6, 1), "int64")])
    np.testing.assert_array_equal(values, eager(f"aten::{name}", args)[0])
    np.testing.assert_array_equal(np.take_along_axis(a, at, 1), values)


def test_mode_of_long_rows(rng: np.random.Generator) -> None:
    a = array(rng, (5, 1000), "int32")
    values, at = run("aten::mode.values", [a, 1, False, Out((5,), "int32"), Out((5,), "int64")])
    assert np.array_equal(values, eager("aten::mode.values", [a, 1, False])[0])
    assert np.array_equal(a[np.arange(5), at], values)


def test_a_million_elements(rng: np.random.Generator) -> None:
    for a in (rng.standard_normal(1 << 20), rng.integers(-(2**62), 2**62, 1 << 20)):
        output, at = run(
            "aten::sort.values", [a, 0, True, Out(a.shape, a.dtype.name), Out(a.shape, "int64")]
        )
        wanted, positions = torch.sort(to_torch(a), stable=True, descending=True)
        assert np.array_equal(output, wanted.numpy()) and np.array_equal(at, positions.numpy())


def test_unique_slices_with_nan() -> None:
    """A slice with NaN is unique."""
    a = np.array([[1, np.nan], [0, 2], [1, np.nan], [0, 2]], np.float32)
    outs = [Out((4, 2)), Out((4,), "int64"), Out((4,), "int64")]
    values, inverse, counts = run("aten::unique_dim.out", [a, 0, True, True, True, *outs])
    np.testing.assert_array_equal(values, np.array([[0, 2], [1, np.nan], [1, np.nan]]))
    assert inverse.tolist() == [1, 0, 2, 0] and counts.tolist() == [2, 1, 1]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_even_edges_are_those_of_eager(dtype: str, rng: np.random.Generator) -> None:
    """To the last bit: an edge in the middle of the range is the rounding error of the step."""
    for bins in 1, 2, 41, 100, 121:
        x = np.array([-3, 3, *rng.uniform(-3, 3, 5)], dtype)
        args = [x, bins, None, None, False]
        wanted = eager("aten::histogram.bin_ct_out", args)
        outs = [Out(w.shape, w.dtype.name) for w in wanted]
        outputs = run("aten::histogram.bin_ct_out", [*args, *outs])
        np.testing.assert_array_equal(outputs[1], wanted[1])


def test_points_on_edges() -> None:
    """A bin contains its left edge, the last bin both edges."""
    a, edges = np.array([0, 0.5, 1, 2, 2, 3], np.float32), np.array([0, 1, 2], np.float32)
    for bins, ends in ([edges], []), ([2], [[0.0, 2.0]]):
        overload = "bin_ct_out" if ends else "bins_tensor_out"
        outputs = run(
            f"aten::histogram.{overload}", [a, *bins, *ends, None, False, Out((2,)), Out((3,))]
        )
        assert outputs[0].tolist() == [2, 3] and outputs[1].tolist() == edges.tolist()
