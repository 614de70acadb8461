"""csrc/kernels/index against eager: every operator, dtype and layout."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import embedding_bag

from executorch_c import Runtime
from tests.exports import export
from tests.judge import Limit, assert_right
from tests.kernels.accuracy import check, compare
from tests.kernels.eager import ALL, COMPLEX, FLOATING, WIDE_UNSIGNED, array, eager, orders
from tests.kernels.samples_index import SAMPLES, bools, ints
from tests.op_harness import OpError, Out, assert_rejected, run

# Copied without interpretation, so eager's kernels of the signed dtype of that width apply.
NO_EAGER = set(
    (
        "aten::index_select.out aten::gather.out aten::scatter.src_out "
        "aten::scatter.value_out aten::scatter_add.out aten::masked_select.out "
        "aten::masked_scatter.out aten::nonzero.out aten::index_put.out aten::index_put_ "
        "aten::put.out aten::nonzero_static.out"
    ).split()
)
FOLDING = {
    "aten::_embedding_bag.out",
    "aten::_embedding_bag_forward_only.out",
    "aten::embedding_dense_backward.out",
    "aten::segment_reduce.out",
}
COMBINING = {
    "aten::scatter.reduce_out",
    "aten::scatter.value_reduce_out",
    "aten::scatter_reduce.two_out",
    "aten::index_reduce.out",
}


def signed(a: object) -> object:
    wide = isinstance(a, np.ndarray) and a.dtype.name in WIDE_UNSIGNED
    return a.view(a.dtype.name[1:]) if wide else a  # type: ignore[attr-defined]


def in_place(a: np.ndarray) -> Out:
    """Return a tensor that the operator modifies."""
    order = tuple(sorted(range(a.ndim), key=lambda d: (-a.strides[d], -a.shape[d], d)))
    return Out(a.shape, a.dtype.name, order, 0, initial=a)


def check_sample(name: str, args: list) -> None:
    """Check a sample, including operators that write in place and dtypes that eager lacks."""
    lacking = name in NO_EAGER
    refused = name in COMBINING and args[4] in {"b": ("mean",), "c": ("amax", "amin")}.get(
        args[0].dtype.kind, ()
    )
    if refused and (args[2].size or args[4] == "mean"):
        with pytest.raises(OpError, match="the mean of bool is not defined|is not ordered"):
            run(name, [*args, Out(args[0].shape, args[0].dtype.name)])
        return
    expected = eager(name, [signed(a) for a in args] if lacking else args)
    if lacking and args[0].dtype.name in WIDE_UNSIGNED and "nonzero" not in name:
        expected = [e.view(args[0].dtype) for e in expected]
    if name.endswith("_"):
        found = run(name, [in_place(args[0]), *args[1:]])
    else:
        found = run(name, [*args, *[Out(e.shape, e.dtype.name) for e in expected]])
    compare(name, args, found, expected)


def dtypes_of(name: str) -> list[str]:
    """Return the dtypes of eager's kernels, or those derivable from signed dtypes."""
    if name == "aten::repeat_interleave.Tensor_out":
        return ["int32", "int64"]
    if name in ("aten::topk.values", "aten::index_reduce.out"):
        return [d for d in ALL if d not in (*COMPLEX, *WIDE_UNSIGNED, "bool")]
    if name in FOLDING:
        return FLOATING
    if name == "aten::embedding_renorm.out":
        return [*FLOATING, *COMPLEX]
    return [d for d in ALL if d not in WIDE_UNSIGNED] if name in COMBINING else ALL


@pytest.mark.filterwarnings("ignore:.*deprecated", "ignore:.*beta")
@pytest.mark.parametrize(("name", "dtype"), [(n, d) for n in SAMPLES for d in dtypes_of(n)])
def test_samples(name: str, dtype: str, rng: np.random.Generator) -> None:
    for args in SAMPLES[name](rng, dtype):
        check_sample(name, args)


@pytest.mark.filterwarnings("ignore:.*deprecated", "ignore:.*beta")
@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize(
    ("name", "tail"),
    [
        *(("scatter_add.out", []), ("scatter.reduce_out", ["add"])),
        *(("scatter.reduce_out", ["multiply"]), ("scatter_reduce.two_out", ["sum", True])),
        ("scatter_reduce.two_out", ["prod", False]),
        *(("scatter_reduce.two_out", ["mean", True]), ("index_reduce.out", ["prod", True])),
        *(("index_reduce.out", ["mean", False]), ("index_put.out", [True])),
        *(("embedding_dense_backward.out", [False]), ("embedding_dense_backward.out", [True])),
    ],
)
def test_many_to_few_places(name: str, tail: list, dtype: str, rng: np.random.Generator) -> None:
    """Scattered float16 values round once, after all additions; elsewhere at each, as in eager."""
    self, source = (array(rng, (n, 5), dtype) for n in (7, 200))
    if {"prod", "multiply"} & set(tail):
        self, source = ((1 + a / 8).astype(a.dtype) for a in (self, source))
    at = ints(rng, (200,), 7)
    args = {
        "index_put.out": [self, [at, None], source],
        "embedding_dense_backward.out": [source, at, 7, -1],
        "index_reduce.out": [self, 0, at, source],
    }.get(name, [self, 0, at[:, None].repeat(5, 1), source])
    check(f"aten::{name}", [*args, *tail])


@pytest.mark.parametrize("order", orders(3))
def test_output_dim_orders(order: tuple, rng: np.random.Generator) -> None:
    a = array(rng, (4, 5, 6), "float32", (1, 2, 0))
    at = ints(rng, (4, 2, 6), 5)
    for name, args in (
        ("index_select.out", [a, 1, ints(rng, (9,), 5)]),
        ("embedding.out", [a[0], ints(rng, (2, 3), 5), -1, False, False]),
        ("index.Tensor_out", [a, [None, ints(rng, (7,), 5), None]]),
        ("index.Tensor_out", [a, [ints(rng, (2, 3), 4), None, ints(rng, (3,), 6)]]),
        ("index_put.out", [a, [None, ints(rng, (2,), 5)], array(rng, (2, 1), "float32"), False]),
        ("gather.out", [a, 1, at, False]),
        ("scatter_add.out", [a, 1, at, array(rng, (4, 2, 6), "float32", order)]),
        ("masked_scatter.out", [a, bools(rng, (5, 1)), array(rng, (5, 5, 5), "float32", order)]),
    ):
        check("aten::" + name, args, orders=[order])
    check("aten::nonzero.out", [bools(rng, (3, 4))], orders=[[d for d in order if d < 2]])


def test_sizes_grow_within_their_bound(rng: np.random.Generator) -> None:
    mask = np.array([True, False, True])
    a = array(rng, (3,), "float32")
    assert run("aten::nonzero.out", [mask, Out((3, 1), "int64", (1, 0))])[0].tolist() == [[0], [2]]
    assert np.array_equal(run("aten::masked_select.out", [a, mask, Out((3,))])[0], a[mask])
    for name, args in (
        ("aten::nonzero.out", [mask, Out((1, 1), "int64")]),
        ("aten::masked_select.out", [a, mask, Out((1,))]),
        ("aten::index.Tensor_out", [a, [mask], Out((1,))]),
    ):
        with pytest.raises(OpError, match="'out': .*upper bound is 1"):
            run(name, args)


def test_hostile_bools_count_as_one(rng: np.random.Generator) -> None:
    mask = np.array([2, 0, 255], np.uint8).view(bool)
    assert run("aten::nonzero.out", [mask, Out((3, 1), "int64")])[0].tolist() == [[0], [2]]


INDICES = "'indices'"


def test_topk_with_nan_and_ties() -> None:
    nan = float("nan")
    a = np.array([1, nan, 3, 3, nan, 0], np.float32)
    for largest in (True, False):
        outs = [Out((4,)), Out((4,), "int64")]
        values, at = run("aten::topk.values", [a, 4, 0, largest, True, *outs])
        wanted = torch.topk(torch.from_numpy(a), 4, largest=largest)
        assert at.tolist() == wanted.indices.tolist()  # of equal elements, those of eager
        np.testing.assert_array_equal(values, wanted.values.numpy())


A = np.arange(12, dtype=np.float32).reshape(3, 4)
AT = np.array([0, 3])
LOW = np.array([-4])
SHORT = np.array([1], np.int16)
PLACE = ["index 3", "dimension 0 of size 3"]
ERRORS = [
    ("embedding.out", [A, AT, -1, False, False, Out((2, 4))], ["'indices'", *PLACE]),
    ("embedding.out", [A, np.array([-1]), -1, False, False, Out((1, 4))], [INDICES, "index -1"]),
    ("embedding.out", [A, SHORT, -1, False, False, Out((1, 4))], ["'indices'", "int16"]),
    ("embedding.out", [A[0], AT, -1, False, False, Out((2, 4))], ["'weight'", "expected 2"]),
    ("embedding.out", [A, AT[:1], -1, False, False, Out((1, 4), "int8")], ["'out'", "int8"]),
    ("index_select.out", [A, 0, AT, Out((2, 4))], ["'index'", *PLACE]),
    ("index_select.out", [A, 0, AT[None], Out((2, 4))], ["'index'", "2 dimensions"]),
    ("index_select.out", [np.array(1.0), 0, AT, Out((), "float64")], ["'index'", "exactly one"]),
    ("index.Tensor_out", [A, [AT], Out((2, 4))], ["'indices'", *PLACE]),
    ("index.Tensor_out", [A, [LOW], Out((1, 4))], ["'indices'", "index -4"]),
    ("index.Tensor_out", [A, [None, np.array([4])], Out((3, 1))], ["index 4", "dimension 1 of"]),
    ("index.Tensor_out", [A, [SHORT], Out((1, 4))], ["'indices'", "int16"]),
    ("index.Tensor_out", [A, [AT, AT, AT], Out((1, 4))], ["'indices'"]),
    ("index.Tensor_out", [A, [AT - 1, np.arange(3)], Out((3,))], [INDICES, "(3,)", "(2,)"]),
    ("index.Tensor_out", [A, [np.array([True])], Out((1, 4))], ["mask of shape (1,)", "(3, 4)"]),
    ("index.Tensor_out", [A, [np.ones((3, 4, 1), bool)], Out((1, 4))], ["mask of shape (3, 4, 1)"]),
    ("index.Tensor_out", [A, [], Out((1, 4))], ["'indices'", "empty"]),
    ("index.Tensor_out", [A, [AT[:1]], Out((1, 4), "float64")], ["'out'", "float64"]),
    ("index_put.out", [A, [AT], A[:1], False, Out((3, 4))], ["'indices'", *PLACE]),
    ("index_put.out", [A, [AT[:1]], A[:1, :3], False, Out((3, 4))], ["'values'", "(1, 3)"]),
    ("index_put.out", [A, [AT[:1]], A.astype(int), False, Out((3, 4))], ["'values'", "int64"]),
    ("index_put_", [A, [AT], A[:1], True], ["'indices'", *PLACE]),
    ("gather.out", [A, 0, AT[None], False, Out((1, 2))], ["'index'", *PLACE]),
    ("gather.out", [A, 0, np.zeros((5, 5), int), False, Out((5, 5))], ["(5, 5)", "(3, 4)"]),
    ("gather.out", [A, 0, AT, False, Out((2,))], ["'index'", "(2,)"]),
    ("gather.out", [A, 0, SHORT[None], False, Out((1, 1))], ["'index'", "int16"]),
    ("scatter.src_out", [A, 0, AT[None], A, Out((3, 4))], ["'index'", *PLACE]),
    ("scatter.src_out", [A, 0, AT[None, :1], A[:0], Out((3, 4))], ["'index'", "(1, 1)", "(0, 4)"]),
    ("scatter.src_out", [A, 0, AT[None, :1], A.astype(int), Out((3, 4))], ["'src'", "int64"]),
    ("scatter.value_out", [A, 1, LOW[None], 1.0, Out((3, 4))], ["'index'", "index -4"]),
    ("scatter_add.out", [A, 2, AT[None], A, Out((3, 4))], ["dim 2"]),
    ("nonzero.out", [A, Out((12, 2), "int32")], ["'out'", "int32"]),
    ("masked_select.out", [A, A, Out((12,))], ["'mask'", "float32"]),
    ("masked_select.out", [A, A[:, :3] > 0, Out((12,))], ["'mask'", "(3, 3)", "(3, 4)"]),
    ("masked_scatter.out", [A, A > 1, A[0], Out((3, 4))], ["'source'", "4 elements for 10"]),
    ("topk.values", [A, 5, 1, True, True, Out((3,)), Out((3,), "int64")], ["'k'", "4 elements"]),
    ("topk.values", [A > 1, 1, 0, True, True, Out((4,)), Out((4,), "int64")], ["'self'", "bool"]),
    ("topk.values", [A, 1, 0, True, True, Out((1, 4)), Out((1, 4), "int8")], ["'indices'", "int8"]),
    ("repeat_interleave.Tensor_out", [LOW, None, Out((4,), "int64")], ["'repeats'", "-4"]),
    ("repeat_interleave.Tensor_out", [AT, 4, Out((4,), "int64")], ["'output_size'", "sum to 3"]),
    ("masked_scatter.out", [A, A > 1, A.astype(int), Out((3, 4))], ["'source'", "int64"]),
    (
        "scatter.value_out",
        [A.astype("u1"), 0, AT[None], 300, Out((3, 4), "uint8")],
        ["'value'", "300 does not fit dtype uint8"],
    ),
    (
        "index_put.out",
        [A.astype("u1"), [A > 1], np.array(300), False, Out((3, 4), "uint8")],
        ["'values'", "300 does not fit dtype uint8"],
    ),
    ("index_put.out", [A, [A > 1], np.array([1, 2]), False, Out((3, 4))], ["'values'", "int64"]),
    ("index_put.out", [A, [A > 1], np.array(1), True, Out((3, 4))], ["'values'", "int64"]),
]


@pytest.mark.parametrize(("name", "args", "words"), ERRORS)
def test_errors(name: str, args: list, words: list[str]) -> None:
    assert_rejected("aten::" + name, args, *words)


@pytest.mark.parametrize(
    ("at", "starts", "why"),
    [
        ([1, 4], [0], "index 4 is out of range for dimension 0 of size 4"),
        ([-1, 1], [0], "index -1 is out of range"),
        ([1, 2], [1], "begins with 1"),
        ([1, 2], [0, 3], "bag 0 is"),
        ([1, 2], [0, 2, 1], "bag 1 is"),
        ([1, 2], [0, -1], "bag 0 is"),
    ],
)
def test_missing_bags(at: list, starts: list, why: str) -> None:
    bags = len(starts)
    args = [
        *(np.zeros((4, 2), np.float32), np.array(at), np.array(starts), False, 1, False, None),
        *(False, -1),
    ]
    outs = [Out((bags, 2)), *(Out((n,), "int64") for n in (2, bags, bags))]
    with pytest.raises(OpError, match=why):
        run("aten::_embedding_bag.out", [*args, *outs])


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_with_a_last_offset(mode: str) -> None:
    """For gradients, the exporter plans other output sizes than eager's."""
    weight = torch.randn(5, 3)
    at, starts = torch.tensor([0, 2, 2, 4, 1, 2]), torch.tensor([0, 2, 2, 6])

    def bag(w: torch.Tensor, i: torch.Tensor, o: torch.Tensor) -> torch.Tensor:
        return embedding_bag(i, w, o, mode=mode, include_last_offset=True)

    program = Runtime.get().load_program(export(bag, weight, at, starts))
    (found,) = program.load_method("forward").execute([weight, at, starts])
    (absolute,) = (bag(t.abs(), at, starts).numpy() for t in (weight,))
    assert_right(found, bag(weight, at, starts).numpy(), mode, Limit(0.5, 1), terms=absolute)


@pytest.mark.parametrize(
    ("lengths", "offsets", "why"),
    [
        ([2, 1], None, "the sum is 3, expected 4"),
        ([5, -1], None, "5 at position 0"),
        ([4, -1], None, "-1 at position 1"),
        (None, [0, 5], "5 at position 1"),
        (None, [2, 1], "1 at position 1"),
        (None, [-1, 4], "-1 at position 0"),
        (None, [], "empty, expected at least one offset"),
    ],
)
def test_missing_segments(lengths: Any, offsets: Any, why: str) -> None:
    given = [None if v is None else np.array(v, np.int64) for v in (lengths, None, offsets)]
    args = [np.zeros(4, np.float32), "sum", *given, 0, False, None, Out((2,))]
    with pytest.raises(OpError, match=why):
        run("aten::segment_reduce.out", args)


@pytest.mark.parametrize("name", ["scatter_reduce.two_out", "index_reduce.out"])
def test_reductions_to_invalid_places(name: str) -> None:
    for index in (3, -1):
        self, source = np.ones(3, np.float32), np.ones(2, np.float32)
        with pytest.raises(OpError, match=f"index {index} is out of range for dimension 0 of size"):
            run(f"aten::{name}", [self, 0, np.array([0, index]), source, "prod", True, Out((3,))])


@pytest.mark.parametrize("dtype", ["uint8", "int16", "bool", "float32", "complex64"])
def test_empty_indices_have_any_dtype(dtype: str) -> None:
    """As in eager's gather and scatter; non-empty indices must be int32 or int64."""
    a = np.ones((4, 3), np.float32)
    for count in (0, 2):
        index = np.zeros((count, 3), dtype)
        for name, tail in (("gather", [False]), ("scatter_add", [a]), ("scatter.value", [2.0])):
            full = f"aten::{name}_out" if "." in name else f"aten::{name}.out"
            out = Out((count, 3) if name == "gather" else a.shape)
            if count:
                with pytest.raises(OpError, match=f"'index': dtype {dtype}"):
                    run(full, [a, 0, index, *tail, out])
            else:
                check(full, [a, 0, index, *tail])
