"""Accuracy of each operator: the limits that the judge (judge.py) allows.

Operators without a row here give bitwise equal results to eager. Other results are compared with
eager's float64 result for the same arguments, which replaces the exact value; a result equal to
eager's own is always right. float64 and complex128 have no wider dtype: they are compared with
eager, and both may have errors.

The limit of sums is in units of the sum of magnitudes: eager's result for the absolute values of
the arguments. The limit of functions with cancellation is in units of the measured change of the
result for a relative change of the arguments.
"""

import itertools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tests.judge import EXACT, Limit, assert_equal, assert_right, changes, difference, is_inexact
from tests.kernels import llm_forms
from tests.kernels.eager import DType, eager, functional, ours, to_numpy, to_torch
from tests.op_harness import Out, run

Terms = Callable[[str, list], Sequence[np.ndarray | None]]
WIDER = {
    "float16": "float64",
    "bfloat16": "float64",
    "float32": "float64",
    "complex64": "complex128",
}
REFUSALS = (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError)


def replaced(
    args: list, change: Callable[[np.ndarray], Any], kinds: str = "fcV", order: Any = "K"
) -> list:
    """Return the arguments with every array of these kinds replaced (ml_dtypes' kind is V), in its
    layout or in NumPy's `order`."""

    def changed(value: Any) -> Any:
        if isinstance(value, list):
            return [changed(v) for v in value]
        if not isinstance(value, np.ndarray) or value.dtype.kind not in kinds:
            return value
        new = np.asarray(change(value))
        result = np.empty_like(value, dtype=new.dtype, order=order)
        result[...] = new
        return result

    return [changed(a) for a in args]


def widened(args: list, order: Any = "K") -> list:
    """Return arguments in float64 or complex128, and the corresponding dtypes."""
    result = replaced(args, lambda a: a.astype(WIDER.get(a.dtype.name, a.dtype)), order=order)
    return [DType(WIDER.get(a, a)) if isinstance(a, DType) else a for a in result]


# ---- magnitudes of terms ----------------------------------------------------------------------


def absolute(name: str, args: list) -> list[np.ndarray]:
    """Return the operator on absolute values of tensors, factors and divisors, not of
    dimensions."""
    inputs = replaced(args, np.abs)
    for i, spec in enumerate(functional(name)._schema.arguments[: len(args)]):
        if str(spec.type) == "number" or spec.name == "divisor_override":
            inputs[i] = inputs[i] and abs(inputs[i])
    return eager(name, inputs)


def measured(name: str, args: list) -> list[np.ndarray | None]:
    """Return the change of results relative to a relative change of the arguments."""
    return changes(lambda change: eager(name, replaced(args, change)))


def argument(name: str, args: list) -> list[np.ndarray]:
    """Return the operand as the term: eager's gelu multiplies it by 1 + erf, even if that is nearly
    0."""
    return [np.abs(args[0])]


def exponentials(name: str, args: list) -> list[np.ndarray]:
    """Return the terms of exponentials: the distance from the largest element, which is rounded
    before exp, and the later steps. softmax is relative to it, its logarithm adds the logarithm of
    a sum."""
    x, dim, _ = args
    (y,) = eager(name, args)
    if not x.size:
        return [y]
    with np.errstate(invalid="ignore"):
        below = (x.max(dim, keepdims=True) if x.ndim else x) - x
    return [y * (1 + below) if name == "aten::_softmax.out" else 1 + below + np.abs(y)]


def attention(name: str, args: list) -> list[np.ndarray]:
    """Return the weighted terms of an attention, and of the exponents; the terms of sums."""
    arguments = [to_torch(a) for a in args]
    return [to_numpy(t) for t in llm_forms.results(name, arguments, terms=True)]


def around(name: str, args: list) -> list[np.ndarray]:
    """Return the largest magnitudes near the positions that outputs read, times the largest
    position: positions are rounded, so that a neighbour may contribute."""
    a = np.abs(args[0])
    for axis in range(2, a.ndim):
        size, edges = a.shape[axis], [(1, 1) if i == axis else (0, 0) for i in range(a.ndim)]
        parts = [np.pad(a, edges).take(range(k, k + size), axis) for k in range(3)]
        a = np.max(parts, axis=0)
    positions = max(a.shape[2:])
    return [r * positions for r in absolute(name, [np.ascontiguousarray(a), *args[1:]])]


# ---- rows -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """Limits of a result's error: in units of its last place (twice as many for complex numbers,
    unless given) and of its terms. `wide`: both for float64 and complex128 (default: twice as many,
    except for correct rounding); `half_ulps`: `halves` of Limit."""

    ulps: float = 0.5
    units: float = 0.0
    terms: Terms | None = None
    complex_ulps: float | None = None
    wide: tuple[float, float] | None = None
    half_ulps: float = 0.5

    def limit(self, dtype: str, is_complex: bool) -> Limit:
        """Return the limit for results of a dtype; `is_complex`: of complex arguments."""
        ulps, units = self.ulps, self.units
        if is_complex:
            ulps = 2 * ulps if self.complex_ulps is None else self.complex_ulps
        if dtype in ("float64", "complex128"):
            ulps, units = self.wide or (2 * ulps if ulps > 0.5 else ulps, 2 * units)
        return Limit(ulps, units, self.half_ulps)


def rows(row: Row, names: str) -> dict[str, Row]:
    return dict.fromkeys(names.split(), row)


ROWS: dict[str, Row] = {
    # Pointwise: roundings of one result.
    **rows(Row(), "arange leaky_relu softshrink_backward hardshrink_backward floor_divide"),
    **rows(Row(complex_ulps=1), "abs"),
    **rows(Row(complex_ulps=2.5), "reciprocal div mul"),
    **rows(Row(complex_ulps=2.5, wide=(1, 0)), "sqrt"),  # eager's is not correctly rounded
    **rows(Row(0.5, 0.5, absolute), "add sub rsub"),
    **rows(Row(1), "exp exp2 log log2 polar hypot special_spherical_bessel_j0"),
    **rows(Row(1.5), "expm1 sin cosh erf acos"),
    **rows(Row(1.5, complex_ulps=3), "ldexp angle"),
    **rows(Row(1.5, complex_ulps=4), "log1p"),
    **rows(Row(2), "pow cos atan2 asinh acosh log10 _cdist_forward _pdist_forward dist"),
    **rows(Row(2.5), "sigmoid tanh atan sinh erfc asin atanh rsqrt elu glu"),
    **rows(Row(4), "tan"),
    **rows(
        Row(5),
        "lgamma erfinv i0 special_erfcx special_ndtri special_zeta "
        "special_modified_bessel_i0 special_modified_bessel_i1 "
        "special_scaled_modified_bessel_k1",
    ),
    **rows(Row(8), "special_i0e special_i1 special_i1e special_modified_bessel_k1"),
    **rows(Row(12), "special_modified_bessel_k0 special_scaled_modified_bessel_k0"),
    **rows(Row(16), "igamma"),
    **rows(Row(28, wide=(96, 0)), "igammac"),
    # Pointwise with cancellation near zeros.
    **rows(Row(2, 2, measured), "logit silu_backward"),
    **rows(Row(4, 0.5, argument), "gelu"),
    **rows(Row(4, 4, measured), "digamma polygamma"),
    **rows(
        Row(16, 24, measured),
        "special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1",
    ),
    # Sums.
    **rows(
        Row(1, 2, absolute),
        "convolution convolution_backward mm bmm addmm linear addbmm addmv "
        "_trilinear sum mean avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d "
        "_adaptive_avg_pool2d _adaptive_avg_pool3d avg_pool2d_backward avg_pool3d_backward "
        "_adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward "
        "max_pool2d_with_indices_backward max_pool3d_with_indices_backward "
        "adaptive_max_pool2d_backward adaptive_max_pool3d_backward "
        "fractional_max_pool2d_backward fractional_max_pool3d_backward col2im unfold_backward "
        "scatter_add index_put index_put_ scatter.reduce_out scatter.value_reduce_out "
        "_embedding_bag _embedding_bag_forward_only embedding_dense_backward put",
    ),
    **rows(
        Row(1, 1, measured),
        "scatter_reduce index_reduce segment_reduce embedding_renorm "
        "prod cumprod cumsum logcumsumexp mixed_mm mixed_linear",
    ),
    # Edges round as eager's vectors happen to be long; a density is divided by their differences.
    **rows(
        Row(1, 64, measured, half_ulps=1),
        "histogram _histogramdd_bin_edges _histogramdd_from_bin_cts _histogramdd_from_bin_tensors",
    ),
    **rows(Row(1.5, 1, exponentials, wide=(4, 3)), "_softmax _log_softmax"),
    **rows(Row(1, 1, attention), "custom_sdpa sdpa_with_kv_cache fast_hadamard_transform"),
    **rows(Row(1, 4, measured), "gated_delta_rule channelwise_gated_delta_rule quantized_moe_ffn"),
    **rows(Row(1, 2, attention), "custom_quantized_sdpa"),
    **rows(
        Row(1, 1.5, measured, wide=(8, 6)),
        "native_layer_norm native_group_norm "
        "native_layer_norm_backward native_group_norm_backward "
        "_native_batch_norm_legit_no_training _native_batch_norm_legit",
    ),
    **rows(Row(1, 1, measured, wide=(32, 2)), "var var_mean"),  # eager's is off by 24 in float64
    **rows(Row(1, 8, measured), "_fft_c2c _fft_r2c _fft_c2r"),
    **rows(
        Row(1, 2, around),
        "upsample_bilinear2d upsample_linear1d upsample_trilinear3d "
        "upsample_nearest2d_backward upsample_bilinear2d_backward _upsample_bilinear2d_aa",
    ),
    **rows(Row(1, 3, around), "upsample_bicubic2d _upsample_bicubic2d_aa _upsample_lanczos2d_aa"),
    **rows(Row(2, 64, measured), "grid_sampler_2d grid_sampler_3d"),
    # Decompositions that are unique (decomp_check.py has the others).
    **rows(
        Row(2, 4, measured),
        "_linalg_det _linalg_slogdet _linalg_solve_ex cholesky "
        "cholesky_inverse cholesky_solve geqrf linalg_cholesky_ex linalg_householder_product "
        "linalg_inv_ex linalg_ldl_factor_ex linalg_ldl_solve linalg_lu linalg_lu_factor_ex "
        "linalg_lu_solve linalg_qr linalg_solve_triangular ormqr triangular_solve",
    ),
}

ALL_FLOATS = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
ORDER = "which of equal elements eager finds depends on their order"
OPEN_ZEROS: dict[str, tuple[Sequence[str], str]] = {
    "clamp.Tensor_out": (ALL_FLOATS, "eager's vectors take the other zero than what follows them"),
    "fmax.out": (["bfloat16"], "the second zero, that of the other dtypes is the first"),
    "fmin.out": (["bfloat16"], "the second zero, that of the other dtypes is the first"),
    "median.out": (ALL_FLOATS, ORDER),
    "nanmedian.out": (ALL_FLOATS, ORDER),
    "_unique2.out": (ALL_FLOATS, ORDER),
}
"""Dtypes, by operator without a row, in which zeros may have any sign, with the reason;
test_exclusions.py proves it with eager."""


def has_open_zeros(name: str, dtype: str) -> bool:
    return dtype in OPEN_ZEROS.get(name.split("::")[1], ((), ""))[0]


def row_of(name: str) -> Row | None:
    space, short = name.split("::")
    if space not in ("aten", "llama") and not short.startswith("mixed_"):
        return None
    return ROWS.get(short, ROWS.get(short.split(".")[0]))


# ---- judging ----------------------------------------------------------------------------------


def eager_results(
    call: Callable[[str, list], list[np.ndarray]], name: str, args: list
) -> list | None:
    """Return eager's results; None if eager rejects the arguments."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call(name, replaced(args, np.copy, "fcViub"))
        except REFUSALS:
            return None


def exactly(name: str, args: list, wanted: list) -> tuple[list, list]:
    """Return arguments and results in float64. Eager computes functions of integers and bools in
    float32, so these are widened even if results for wide fractions remain narrow. It rejects some
    layouts; then all arguments are made contiguous."""
    values = widened(args)
    if name.startswith("aten::arange."):
        return values, [torch.arange(*args, dtype=torch.float64).numpy()]
    results = eager_results(eager, name, values)
    if results is None:
        values = widened(args, "C")
        results = eager_results(eager, name, values) or [None] * len(wanted)
    if any(isinstance(r, np.ndarray) and r.dtype.name == "float32" for r in results):
        values = replaced(values, lambda a: a.astype(np.float64), "iub")
        results = eager_results(eager, name, values) or [None] * len(wanted)
    return values, results


def is_reference(value: Any, wanted: np.ndarray) -> bool:
    """Return True if `value` represents the exact values of `wanted`."""
    return (
        isinstance(value, np.ndarray)
        and value.shape == wanted.shape
        and wanted.dtype.name in WIDER
        and value.dtype.name in WIDER.values()
        and (value.dtype.kind == "c") == (wanted.dtype.kind == "c")
    )


def compare(name: str, args: list, outputs: list, wanted: list, where: object = None) -> None:
    """Compare results of an operator with eager's."""
    where, row = (name, args) if where is None else where, row_of(name)
    assert len(outputs) == len(wanted), where
    if row is None:
        for f, w in zip(outputs, wanted, strict=True):
            dtype = getattr(getattr(w, "dtype", None), "name", "")
            assert_equal(f, w, where, signs=not has_open_zeros(name, dtype))
        return
    if all(difference(f, w, EXACT) is None for f, w in zip(outputs, wanted, strict=True)):
        return
    arguments, exact = exactly(name, args, wanted)
    terms = eager_results(row.terms, name, arguments) if row.terms else None
    is_complex = any(isinstance(a, np.ndarray) and a.dtype.kind == "c" for a in args)
    for i, (f, w) in enumerate(zip(outputs, wanted, strict=True)):
        if not isinstance(w, np.ndarray) or not is_inexact(w.dtype.name):
            assert_equal(f, w, (where, f"output {i}"))
            continue
        assert terms is not None or not row.terms, (where, "no magnitudes")
        assert_right(
            f,
            w,
            (where, f"output {i}"),
            row.limit(w.dtype.name, is_complex),
            exact[i] if is_reference(exact[i], w) else None,
            terms[i] if terms else None,
        )


def check(name: str, args: list, *, orders: Any = (), wanted: list | None = None) -> None:
    """Run the sample with plain and fast loops, and compare both with `wanted` or eager's results.
    `orders`: dim orders of the outputs, ignored for another rank."""
    if wanted is None:
        wanted = eager(name, args)
    shaped = list(itertools.zip_longest(wanted, itertools.islice(orders, len(wanted))))
    for reference in (True, False):
        outs = [
            Out(w.shape, w.dtype.name, order if w.ndim == len(order or ()) else None)
            for w, order in shaped
        ]
        arrays = run(name, [*ours(args), *outs], reference)
        compare(name, args, arrays, wanted, (name, args, "reference" if reference else "fast"))
