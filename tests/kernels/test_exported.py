"""Every row through the official flow: export, to_edge, to_executorch, beside eager.

Every dtype of sweep.DTYPES that eager takes, in every layout and shape of sweep.KINDS of which
there are samples, by the fast and by the plain loops.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import rows
import sweep
from executorch_c import Runtime, operators

# Rows that the flow does not emit for their own functional form, and why.
ELSEWHERE = {
    "aten::_local_scalar_dense": "a method that returns only a number cannot be planned",
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
    "aten::empty.out": "no functional form of these arguments",
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
    "aten::repeat_interleave.Tensor_out": "its output has no bound that the flow could plan",
    **{f"aten::replication_pad{n}d.out": "decomposed: arange, clamp, index" for n in (1, 2, 3)},
    "aten::roll.out": "decomposed: index_select",
    "aten::rsub.Scalar_out": "becomes sub",
    "aten::select_scatter.out": "decomposed: where",
    "aten::squeeze_copy.dim_out": "becomes squeeze_copy.dims_out",
    "aten::stack.out": "becomes cat",
    "aten::resize_": "becomes as_strided_copy, or clone of the same sizes",
    **{f"aten::{n}": "a method that returns only a number cannot be planned"
       for n in ("sym_is_contiguous", "sym_storage_offset", "sym_stride.int")},
    "aten::sym_numel": "a method that returns only a number cannot be planned",
    "aten::sym_size.int": "sizes of static inputs are folded",
    "aten::t_copy.out": "becomes permute_copy, or alias_copy of fewer dimensions",
    "aten::transpose_copy.int_out": "becomes permute_copy",
    "aten::tril.out": "decomposed: arange, le, where",
    "aten::unfold_backward.out": "decomposed: unfold_copy, index_put",
    **{f"aten::{n}.out": "decomposed: arange, mul, clamp, index"
       for n in ("upsample_bicubic2d", "upsample_bilinear2d", "upsample_linear1d")},
    "aten::var.out": "becomes var.correction_out",
    "aten::zeros.out": "becomes full",
    "quantized_decomposed::add.out": "the pattern that it stands for; QuantFusionPass makes it",
}
NAMES = [row["name"] for row in operators()
         if row["name"].startswith(("aten::", "quantized_decomposed::"))
         and row["name"] in rows.tables()]  # fmt: skip
# Cases that the flow refuses: row -> pattern of str(Case), and why.
ORDER = "copies to an order of dimensions that is no memory format"
INTEGRAL = r"(u?int\d+|bool)"
REFUSED: dict[str, tuple[str, str]] = {
    **{f"aten::__{n}shift__.{k}_out": ("bool", "its shape function takes integers only")
       for n in ("l", "r") for k in ("Scalar", "Tensor")},
    **{f"aten::{n}.out": (r"\w+ transposed", ORDER)
       for n in ("clone", "lift_fresh_copy")},
    **{f"aten::{n}": (rf"{INTEGRAL} transposed", ORDER) for n in ("div.out", "logit.out")},
    "aten::div.out_mode": (rf"{INTEGRAL} transposed|\w+ mixed.*uint64",
                           f"{ORDER}; uint64 beside another dtype"),
    **{f"aten::{n}_pad3d.out": (r"\w+ channels-last", ORDER)
       for n in ("reflection", "replication")},
    "aten::resize_": (r"\w+ (channels-last|transposed)", "an input that is changed by a copy only"),
    "aten::arange.start_out": (r".*\[5, 0, -2\]", "bounds and sign are thought inconsistent"),
    "aten::masked_fill.Scalar_out": ("complex64", "complex constants"),
    "aten::masked_select.out": (r"\w+ empty", "the bound that it plans for nothing overflows"),
    "aten::native_dropout.out": ("complex64", "its decomposition multiplies"),
    "aten::nonzero.out": (r"\w+ empty", "strides of 0 of the result"),
    **{f"aten::{n}": (".", "see ELSEWHERE") for n in (
        "_local_scalar_dense", "_native_batch_norm_legit.out", "bernoulli.float_out",
        "bincount.out", "empty.out", "fill.Scalar_out", "fill.Tensor_out",
        "repeat_interleave.Tensor_out", "sym_is_contiguous", "sym_numel",
        "sym_storage_offset", "sym_stride.int",
    )},
}  # fmt: skip
# Cases whose program is not what eager computes: row -> pattern of str(Case), and why.
VIEWED = "its decomposition takes a view of memory of another order (official runtime: wrong, too)"
READ = "eager reads the positions as if they were contiguous: its results are wrong"
FLOAT32 = "its decomposition has scales in float32"
PROMOTED = "its decomposition promotes as another operator does"
LEFT_OUT: dict[str, tuple[str, str]] = {
    **{f"aten::fractional_max_pool{n}d_backward.grad_input": (r"\w+ transposed", READ)
       for n in (2, 3)},
    **{f"aten::{n}.out": (r"\w+ (channels-last|transposed)", VIEWED)
       for n in ("col2im", "pixel_shuffle", "pixel_unshuffle", "native_layer_norm_backward")},
    "aten::native_group_norm_backward.out": (r"\w+ (channels-last|transposed)|float64",
                                             f"{VIEWED}; {FLOAT32}"),
    **{f"aten::upsample_{n}.out": ("float64|uint8", FLOAT32)
       for n in ("bicubic2d", "bilinear2d", "linear1d")},
    "aten::native_dropout.out": (r"\w+ empty", "the mask of nothing is bool, eager's like self"),
    "aten::rsub.Scalar_out": (rf"{INTEGRAL} 0-d", PROMOTED),
    "aten::select_scatter.out": (r"(bool|u?int8|int16) transposed", PROMOTED),
    "aten::masked_select.out": (r".*\(3, 1\)", "its bound forgets that the mask broadcasts"),
    "quantized_decomposed::choose_qparams_per_token_asymmetric.out": (
        r"\w+ 0-d", "it plans a row of results where eager's are 0-d"),
}  # fmt: skip
# Rows that have float32 outputs in programs, and in eager the scales' dtype.
FLOAT32_ONLY = tuple(f"quantized_decomposed::embedding_{n}bit.out" for n in (2, 4))


def chosen(name: str) -> tuple[list[sweep.Case], list[sweep.Case]]:
    """The cases to run, and those that the flow refuses."""
    dtypes = ["float32"] if name in FLOAT32_ONLY else sweep.DTYPES
    if name in ELSEWHERE:  # halves round between the parts
        dtypes = [d for d in dtypes if d not in rows.HALVES]
    refused, left_out = (re.compile(table.get(name, ("$.", ""))[0])
                         for table in (REFUSED, LEFT_OUT))  # fmt: skip
    cases = [case for d in dtypes for case in sweep.cases_of_dtype(name, d)
             if not left_out.match(str(case))]  # fmt: skip
    kept = [case for case in cases if not refused.match(str(case))]
    return kept, [case for case in cases if refused.match(str(case))]


def split(name: str, cases: list[sweep.Case], outputs: list[Any]) -> list[list[Any]]:
    """The outputs of each case; in front of them are the inputs that the method changes."""
    outputs = [np.zeros(0, np.uint8) if o is None else o for o in outputs]  # as in eager.py
    counts = [len(case.results) for case in cases]
    changed = outputs[: len(outputs) - sum(counts)]
    assert len(changed) == (len(cases) if name == "aten::copy_" else 0)
    for case, value in zip(cases, changed, strict=False):
        rows.check(name, case.args, [value], case.results)
    ends = np.cumsum([len(changed), *counts])
    return [outputs[a:b] for a, b in zip(ends[:-1], ends[1:], strict=True)]


@pytest.mark.parametrize("name", NAMES)
def test_exported(name: str) -> None:
    cases, refused = chosen(name)
    if refused:
        assert sweep.exported(name, refused[:1]).refused, "exported by now"
    if not cases:
        assert name in ELSEWHERE
        return
    found = sweep.exported(name, cases)
    assert not found.refused, {str(cases[i]): why for i, why in found.refused.items()}
    if name == "aten::slice_copy.Tensor_out":  # a slice that takes all is left away
        assert 0 < found.uses < len(cases)
    else:
        assert found.uses == (0 if name in ELSEWHERE else len(cases))
    program = Runtime.get().load_program(found.pte)
    for kernels in ("default", "reference"):
        method = program.load_method("forward", kernels=kernels)
        outputs = method.execute([np.copy(a) for c in cases for a in rows.arrays(c.args)])
        for case, values in zip(cases, split(name, cases, outputs), strict=True):
            # The sizes of the bags' outputs for the gradient are planned otherwise than in eager.
            count = 1 if name.startswith("aten::_embedding_bag") else None
            rows.check(name, case.args, values[:count], case.results[:count])
