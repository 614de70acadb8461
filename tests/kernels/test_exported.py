"""Every row through the official flow: export, to_edge, to_executorch, compared with eager.

The sweep covers every dtype of sweep.DTYPES that eager accepts, in every layout and shape of
sweep.KINDS with samples, for fast and plain loops. Cases without a comparison with eager's operator
are rejected by the flow (the message and the number of cases are checked) or have a proof that runs
(PROOFS).
"""

import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from executorch_c import Error, Runtime, operators
from tests.kernels import eager, rows, sweep

# Rows that the flow does not emit for their own functional form, with the reason.
ELSEWHERE = {
    **{
        f"aten::{n}": "a method that returns only a number cannot be planned"
        for n in (
            "_local_scalar_dense sym_is_contiguous sym_numel sym_size.int sym_storage_offset "
            "sym_stride.int"
        ).split()
    },
    "aten::_native_batch_norm_legit.out": "training: its functional form has no out variant",
    "aten::_to_copy.out": "becomes _to_dim_order_copy",
    "aten::adaptive_avg_pool1d.out": "becomes _adaptive_avg_pool2d",
    "aten::arange.out": "becomes arange.start_out",
    "aten::avg_pool1d.out": "becomes avg_pool2d",
    "aten::bernoulli.float_out": "its functional form has no out variant that the flow finds",
    "aten::bernoulli.out": "decomposed: rand, lt",
    "aten::bincount.out": "its output has no bound that the flow could plan",
    "aten::clone.out": "becomes _clone_dim_order",
    "aten::col2im.out": "decomposed: arange, index_put",
    "aten::embedding_dense_backward.out": "decomposed: index_put",
    "aten::empty.out": "becomes _empty_dim_order",
    "aten::fill.Scalar_out": "becomes full_like",
    "aten::fill.Tensor_out": "becomes copy",
    "aten::floor_divide.out": "becomes div with a rounding mode",
    "aten::glu.out": "decomposed: slice_copy, sigmoid, mul",
    "aten::im2col.out": "decomposed: arange, index",
    "aten::index_put_": "becomes index_put; the memory planner brings it back for buffers",
    "aten::lift_fresh_copy.out": "becomes _clone_dim_order",
    "aten::linear.out": "becomes addmm or bmm unless preserved (tests/zoo.py, flow lower)",
    "aten::logit.out": "decomposed: log, div, where",
    "aten::masked_fill.Scalar_out": "becomes where",
    "aten::native_group_norm_backward.out": "decomposed: mul, sum",
    "aten::native_layer_norm_backward.out": "decomposed: mul, sum",
    "aten::ones.out": "becomes full",
    "aten::pixel_shuffle.out": "views and permute_copy",
    "aten::pixel_unshuffle.out": "views and permute_copy",
    **{f"aten::reflection_pad{n}d.out": "decomposed: arange, abs, index" for n in (1, 2, 3)},
    **{f"aten::replication_pad{n}d.out": "decomposed: arange, clamp, index" for n in (1, 2, 3)},
    "aten::roll.out": "decomposed: index_select",
    "aten::rsub.Scalar_out": "becomes sub",
    "aten::select_scatter.out": "decomposed: where",
    "aten::squeeze_copy.dim_out": "becomes squeeze_copy.dims_out",
    "aten::stack.out": "becomes cat",
    "aten::resize_": "becomes as_strided_copy, or clone of the same sizes",
    "aten::t_copy.out": "becomes permute_copy, or alias_copy of fewer dimensions",
    "aten::transpose_copy.int_out": "becomes permute_copy",
    "aten::tril.out": "decomposed: arange, le, where",
    "aten::unfold_backward.out": "decomposed: unfold_copy, index_put",
    **{
        f"aten::{n}.out": "decomposed: arange, mul, clamp, index"
        for n in ("upsample_bicubic2d", "upsample_bilinear2d", "upsample_linear1d")
    },
    "aten::var.out": "becomes var.correction_out",
    "aten::zeros.out": "becomes full",
    "quantized_decomposed::add.out": "the pattern that it stands for; QuantFusionPass makes it",
}
NAMES = [
    row["name"]
    for row in operators()
    if row["name"].startswith(("aten::", "quantized_decomposed::")) and row["name"] in rows.tables()
]
# Cases that the flow rejects: row -> pattern of str(Call), their number, and the message.
NO_FORMAT = r"AssertionError: Failed to (map a given dim_order|generate dim_order for a given)"
NO_OUT = "RuntimeError: Missing out variants"
ONLY_A_NUMBER = "AssertionError: graph_output_allocated not set"
NO_BOUND = "RuntimeError: Cannot evaluate a finite upper bound for symbolic expression"
NO_CAST = "RuntimeError: result type Float can't be cast to the desired output type"
NO_BOOLS = "shift: Expected input tensor to have an integral dtype"
INTEGRAL, HALF = r"(u?int\d+|bool)", "b?float16"
REFUSED: dict[str, list[tuple[str, int, str]]] = {
    **{
        f"aten::__{n}shift__.{k}_out": [("bool", count, f"RuntimeError: {n}{NO_BOOLS}")]
        for n in ("l", "r")
        for k, count in (("Scalar", 6), ("Tensor", 1))
    },
    **{
        f"aten::{n}.out": [(r"\w+ transposed", 11, NO_FORMAT)] for n in ("clone", "lift_fresh_copy")
    },
    **{
        f"aten::{n}.out": [(f"{HALF} transposed", 2, NO_FORMAT)]
        for n in (
            "col2im embedding_dense_backward glu native_group_norm_backward "
            "reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d "
            "upsample_linear1d"
        ).split()
    },
    **{
        f"aten::upsample_{n}2d.out": [(f"({HALF}|uint8) transposed", 3, NO_FORMAT)]
        for n in ("bicubic", "bilinear")
    },
    "aten::div.out": [(rf"{INTEGRAL} transposed", 6, NO_FORMAT)],
    "aten::logit.out": [(rf"({INTEGRAL}|{HALF}) transposed", 8, NO_FORMAT)],
    "aten::div.out_mode": [
        (rf"{INTEGRAL} transposed", 6, NO_FORMAT),
        (r"\w+ mixed.*uint64", 5, "InternalError: .*torch.uint64"),
    ],
    **{
        f"aten::{n}_pad3d.out": [(rf"\w+ channels-last|{HALF} transposed", 12, NO_FORMAT)]
        for n in ("reflection", "replication")
    },
    "aten::resize_": [(r"\w+ (channels-last|transposed)", 22, r"AssertionError: len\(mutations\)")],
    "aten::arange.start_out": [
        (r".*\[5, 0, -2\]", 5, "RuntimeError: upper bound and lower bound inconsistent")
    ],
    "aten::masked_fill.Scalar_out": [
        ("complex64", 6, "ExportError: .*Unsupported constant type: complex")
    ],
    "aten::masked_select.out": [
        (r"\w+ empty", 11, "InternalError: .*mem_offset|TypeError: bad num")
    ],
    "aten::native_dropout.out": [(f"complex64|{INTEGRAL} empty", 11, NO_CAST)],
    "aten::nonzero.out": [(r"\w+ empty", 11, "RuntimeError: 0 in strides is not supported")],
    **{
        f"aten::{n}": [(".", count, ONLY_A_NUMBER)]
        for n, count in (
            *(("_local_scalar_dense", 30), ("sym_is_contiguous", 66), ("sym_numel", 55)),
            *(("sym_size.int", 33), ("sym_storage_offset", 55), ("sym_stride.int", 44)),
        )
    },
    "aten::_native_batch_norm_legit.out": [(".", 16, NO_OUT)],
    "aten::bernoulli.float_out": [(".", 40, NO_OUT)],
    "aten::bincount.out": [(".", 15, NO_BOUND)],
    "aten::repeat_interleave.Tensor_out": [(r".*\[None\]", 4, NO_BOUND)],
}
# Cases whose program cannot run with the others: their number, eager's error for the graph
# (empty if only the plan is wrong), and the runtime's error.
BROKEN: dict[str, tuple[str, int, str, str]] = {
    # The mask broadcasts: more elements than self has (of the complex ones none is selected).
    "aten::masked_select.out": (r"(?!complex).*\(3, 1\)", 10, "u0 <= 3", "upper bound"),
    # It plans a row of results, eager's are 0-d.
    "quantized_decomposed::choose_qparams_per_token_asymmetric.out": (
        r"\w+ 0-d",
        4,
        "",
        r"shape \(\) has another rank than the planned \(1,\)",
    ),
}
# Rows with float32 outputs in programs, and the scales' dtype in eager.
FLOAT32_ONLY = tuple(f"quantized_decomposed::embedding_{n}bit.out" for n in (2, 4))


# ---- proofs: a case whose results are not those of eager's operator ---------------------------


Proof = Callable[[str, sweep.Call, list[Any], list[Any]], bool]


def is_right(name: str, args: list, outputs: list[Any], wanted: list[Any]) -> bool:
    try:
        rows.check(name, args, outputs, wanted)
    except AssertionError:
        return False
    return True


def of_the_graph(name: str, case: sweep.Call, outputs: list[Any], graph: list[Any]) -> bool:
    """Prove that the flow has changed the function: eager's results for the graph differ from the
    operator's and equal ours."""
    return not is_right(name, case.args, graph, case.results) and is_right(
        name, case.args, outputs, graph
    )


def as_planned(name: str, case: sweep.Call, arrays: list[Any], graph: list[Any]) -> bool:
    """Prove that the flow plans other outputs than eager's, from meta tensors; the others are
    eager's."""
    with torch._subclasses.fake_tensor.FakeTensorMode() as mode:
        args = [
            mode.from_tensor(a) if isinstance(a, torch.Tensor) else a
            for a in map(eager.to_torch, case.args)
        ]
        planned = eager.functional(name)(*args)
    shapes = [(tuple(t.shape), str(t.dtype).split(".")[1]) for t in planned]
    own = [(r.shape, r.dtype.name) for r in case.results]
    other = [i for i, (a, b) in enumerate(zip(shapes, own, strict=True)) if a != b]
    pairs = enumerate(zip(arrays, case.results, strict=True))
    agreed = [r if i in other else f for i, (f, r) in pairs]
    return (
        bool(other)
        and is_right(name, case.args, agreed, case.results)
        and all((arrays[i].shape, arrays[i].dtype.name) == shapes[i] for i in other)
    )


def contiguous(name: str, case: sweep.Call, outputs: list[Any], graph: list[Any]) -> bool:
    """Prove that eager ignores the layout of arguments: its results for contiguous ones are
    ours."""
    args = [np.ascontiguousarray(a) if isinstance(a, np.ndarray) else a for a in case.args]
    wanted = rows.wanted(name, args, case.dtype)
    assert wanted is not None
    return not is_right(name, args, case.results, wanted) and is_right(name, args, outputs, wanted)


def copied(name: str, case: sweep.Call) -> tuple[list[Any], list[Any]]:
    """Return our results, and eager's, for the graph of the case with copies in place of views."""
    program = sweep.exported(name, [case], remove_view_copy=False)
    assert not program.refused and not isinstance(program.graph, str)
    method = Runtime.get().load_program(program.pte).load_method("forward")
    outputs = list(method.execute(inputs([case])))
    return split(name, [case], outputs)[0], split(name, [case], program.graph, changes=False)[0]


def without_views(name: str, case: sweep.Call, outputs: list[Any], graph: list[Any]) -> bool:
    """Prove that the flow lets a view share memory with another dim order, which is wrong in any
    runtime: with copies in place of views, the results are eager's."""
    return is_right(name, case.args, copied(name, case)[0], case.results)


def of_the_graph_without_views(
    name: str, case: sweep.Call, outputs: list[Any], graph: list[Any]
) -> bool:
    """Prove both: a changed function, and views that share such memory."""
    return of_the_graph(name, case, *copied(name, case))


# Row -> pattern of str(Call) of those that need a proof, their number, and the proof.
PROOFS: dict[str, list[tuple[str, int, Proof]]] = {
    # A method's outputs keep their planned sizes; those for the gradient are unused.
    **{
        f"aten::_embedding_bag{n}.out": [("bfloat16 contiguous", 1, as_planned)]
        for n in ("", "_forward_only")
    },
    # Its mask of an empty tensor is bool, eager's has the dtype of self.
    "aten::native_dropout.out": [(r"b?float\d+ empty", 4, as_planned)],
    **{
        f"aten::fractional_max_pool{n}d_backward.grad_input": [(r"\w+ transposed", 4, contiguous)]
        for n in (2, 3)
    },
    "aten::col2im.out": [(r"\w+ transposed", 4, without_views)],
    **{
        f"aten::pixel_{n}.out": [(r"\w+ (channels-last|transposed)", 22, without_views)]
        for n in ("shuffle", "unshuffle")
    },
    # Steps of the gradient round to half precision, or are computed in float32.
    "aten::native_layer_norm_backward.out": [
        (r"\w+ channels-last", 4, contiguous),
        (f"{HALF} (contiguous|transposed)", 3, of_the_graph),
    ],
    "aten::native_group_norm_backward.out": [
        ("float64 contiguous", 1, of_the_graph),
        ("float64 (channels-last|transposed)", 2, of_the_graph_without_views),
        (f"(float32|{HALF}) channels-last", 3, without_views),
    ],
    # Positions and weights are computed in float32; those of uint8 are not integers.
    "aten::upsample_bicubic2d.out": [
        ("(float32|float64|uint8) (contiguous|channels-last)", 4, of_the_graph)
    ],
    "aten::upsample_bilinear2d.out": [("float64|uint8", 5, of_the_graph)],
    "aten::upsample_linear1d.out": [("float64", 1, of_the_graph)],
    # They promote like another operator.
    "aten::rsub.Scalar_out": [(rf"{INTEGRAL} 0-d", 4, of_the_graph)],
    "aten::select_scatter.out": [(r"(bool|u?int8|int16) transposed", 4, of_the_graph)],
}


# ---- the test ---------------------------------------------------------------------------------


def chosen(name: str) -> tuple[list[sweep.Call], list[sweep.Call]]:
    """Return the cases that can run together, and the others."""
    dtypes = ["float32"] if name in FLOAT32_ONLY else sweep.DTYPES
    cases = [case for d in dtypes for case in sweep.cases_of_dtype(name, d)]
    apart = [pattern for pattern, *_ in REFUSED.get(name, [])]
    apart += [BROKEN[name][0]] if name in BROKEN else []
    left = [any(re.match(pattern, str(case)) for pattern in apart) for case in cases]
    return (
        [c for c, out in zip(cases, left, strict=True) if not out],
        [c for c, out in zip(cases, left, strict=True) if out],
    )


def inputs(cases: list[sweep.Call]) -> list[np.ndarray]:
    return [np.copy(a) for c in cases for a in rows.arrays(c.args)]


def split(
    name: str, cases: list[sweep.Call], outputs: list[Any], changes: bool = True
) -> list[list[Any]]:
    """Return the outputs of each case; a method's outputs begin with the inputs that it
    `changes`."""
    outputs = [np.zeros(0, np.uint8) if o is None else o for o in outputs]  # as in eager.py
    counts = [len(case.results) for case in cases]
    changed = outputs[: len(outputs) - sum(counts)]
    assert len(changed) == (len(cases) if changes and name == "aten::copy_" else 0)
    for case, value in zip(cases, changed, strict=False):
        rows.check(name, case.args, [value], case.results)
    ends = np.cumsum([len(changed), *counts])
    return [outputs[a:b] for a, b in itertools.pairwise(ends)]


def check_rejected(name: str, cases: list[sweep.Call]) -> None:
    """Check that each case is rejected with the message of its row, and that the number is
    exact."""
    result = sweep.exported(name, cases)
    for pattern, count, message in REFUSED.get(name, []):
        matching = [i for i, case in enumerate(cases) if re.match(pattern, str(case))]
        assert len(matching) == count, (name, pattern, len(matching))
        said = {str(cases[i]): result.refused.get(i, "taken by now") for i in matching}
        assert all(re.match(message, text, re.DOTALL) for text in said.values()), said
    if name in BROKEN:
        pattern, count, by_eager, message = BROKEN[name]
        matching = [case for case in cases if re.match(pattern, str(case))]
        assert len(matching) == count, (name, pattern, len(matching))
        for case in matching:
            program = sweep.exported(name, [case])
            assert isinstance(program.graph, str) == bool(by_eager)
            assert not by_eager or by_eager in program.graph, program.graph
            method = Runtime.get().load_program(program.pte).load_method("forward")
            with pytest.raises(Error, match=message):
                method.execute(inputs([case]))


def check_cases(
    name: str, cases: list[sweep.Call], outputs: list[list[Any]], graphs: list[list[Any]]
) -> None:
    """Check that the results are eager's, or that a proof explains each known exception."""
    proved = dict.fromkeys((pattern for pattern, *_ in PROOFS.get(name, [])), 0)
    for case, result, graph in zip(cases, outputs, graphs, strict=True):
        rows_of_case = [r for r in PROOFS.get(name, []) if re.match(r[0], str(case))]
        if not rows_of_case:
            rows.check(name, case.args, result, case.results)
        elif not is_right(name, case.args, result, case.results):
            ((pattern, _, proof),) = rows_of_case
            assert proof(name, case, result, graph), (name, str(case), proof.__name__)
            proved[pattern] += 1
    assert proved == {pattern: count for pattern, count, _ in PROOFS.get(name, [])}


@pytest.mark.sweep(20)
@pytest.mark.parametrize("name", NAMES)
def test_exported(name: str) -> None:
    cases, apart = chosen(name)
    assert cases or apart
    if apart:
        check_rejected(name, apart)
    if not cases:
        assert name in ELSEWHERE
        return
    result = sweep.exported(name, cases)
    assert not result.refused, {str(cases[i]): why for i, why in result.refused.items()}
    assert not isinstance(result.graph, str), result.graph
    if name == "aten::slice_copy.Tensor_out":  # the exporter removes a full slice
        assert 0 < result.uses < len(cases)
    else:
        assert result.uses == (0 if name in ELSEWHERE else len(cases))
    program = Runtime.get().load_program(result.pte)
    graphs = split(name, cases, result.graph, changes=False)
    for kernels in ("default", "reference"):
        outputs = list(program.load_method("forward", kernels=kernels).execute(inputs(cases)))
        check_cases(name, cases, split(name, cases, outputs), graphs)
