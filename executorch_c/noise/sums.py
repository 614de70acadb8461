"""Sums that ATen's operators compute: how many terms they have, and which arguments hold them.

The rounding error of a sum grows with its number of terms. `FORMULAS` has that number by the
definitions of operators, of which csrc/kernels/ops.def names one for each operator that sums.
tests/python/test_noise.py measures each row against float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from executorch_c.inspect.families import OPERATORS, unsuffixed, with_numbers

HALVES = (torch.float16, torch.bfloat16)
WIDE_EPSILON = 2.0**-23
"""Machine epsilon of the float32 in which sums of halves are accumulated."""
FFT_STAGE = 9
"""Terms to which a stage of a fast Fourier transform is equivalent."""
BIAS = 6
"""Terms to which a factor of a product is equivalent."""

Arguments = Sequence[Any]
"""Positional arguments of a call, with those given by keyword and the defaults."""
Count = Callable[[Arguments, Any], Any]
"""Returns the number of terms, from the arguments and the result."""


@dataclass(frozen=True)
class Sum:
    """A row of the table."""

    count: Count
    """Number of terms: an integer, or a tensor with that of each element of the result (0 where it
    is copied); None if a call with these arguments sums nothing."""
    held: tuple[int, ...] = (0,)
    """Positions of the arguments that hold the terms: these can be larger than the result."""
    in_float32: bool | Callable[[Arguments], bool] = True
    """True if halves are accumulated in float32 and rounded once; False if each step is."""
    is_root: bool = False
    """True if the result depends on the root of the sum, whose relative error is half as large."""
    is_logarithm: bool = False
    """True if the result is the logarithm of the sum, whose relative error is its absolute one."""


@dataclass(frozen=True)
class Terms:
    """The terms of the sums of one call."""

    count: Any
    held: tuple[int, ...]
    in_float32: bool
    is_root: bool = False
    is_logarithm: bool = False


# ---- numbers of terms -------------------------------------------------------------------------


def _width(at: int) -> Count:
    """Return a count of the columns of the argument `at`."""
    return lambda args, result: args[at].shape[-1] if args[at].ndim else 1


def _along(at: int) -> Count:
    """Return a count of the elements along the dimension that the argument `at` names."""
    return lambda args, result: args[0].shape[args[at]] if args[0].ndim else 1


def _reduced(args: Arguments, result: Any) -> int:
    """Return the number of elements of the first argument for each of the result."""
    first = result[0] if isinstance(result, (tuple, list)) else result
    return int(args[0].numel() // max(first.numel(), 1))


def _diagonal(args: Arguments, result: Any) -> int:
    """Return the elements of a diagonal."""
    return int(min(args[0].shape))


def _factors(args: Arguments, result: Any) -> int:
    """Return the terms to which the factors of a product are equivalent: those near 1 are rounded
    to the same side, again and again."""
    return BIAS * _reduced(args, result)


def _batches(args: Arguments, result: Any) -> int:
    """Return the terms of a sum over a batch of products of matrices."""
    return int(args[1].shape[0] * args[1].shape[-1])


def _kernel(args: Arguments, result: Any) -> int:
    """Return the terms of a convolution: channels of a group times places of the window. Of a
    transposed one, each element has the places that are a stride apart."""
    weight, stride, transposed, groups = args[1], args[3], args[6], args[8]
    if not transposed:
        return int(weight[0].numel())
    strides = [*stride] if len(stride) > 1 else [*stride] * (weight.ndim - 2)
    places = [math.ceil(size / step) for size, step in zip(weight.shape[2:], strides, strict=True)]
    return int(weight.shape[0] // groups * math.prod(places))


def _window(dims: int) -> Count:
    """Return a count of the elements of a pooling window."""
    return lambda args, result: math.prod(args[1]) ** (dims if len(args[1]) == 1 else 1)


def _adaptive(args: Arguments, result: Any) -> int:
    """Return the elements of a window of adaptive pooling or antialiased resizing."""
    sizes = zip(args[0].shape[2:], result.shape[2:], strict=True)
    return math.prod(math.ceil(before / max(after, 1)) for before, after in sizes)


def _normalized(args: Arguments, result: Any) -> int:
    """Return the elements of the dimensions that a layer norm normalises."""
    return math.prod(args[1])


def _group(args: Arguments, result: Any) -> int:
    """Return the elements of a group of channels."""
    channels, size, groups = args[4], args[5], args[6]
    return int(channels // groups * size)


def _batch(training: int) -> Count:
    """Return a count of the elements of a channel, which batch norm sums in training."""

    def count(args: Arguments, result: Any) -> int | None:
        return args[0].numel() // max(args[0].shape[1], 1) if args[training] else None

    return count


def _attended(args: Arguments, result: Any) -> int:
    """Return the larger number of terms of the two products of attention."""
    return int(max(args[0].shape[-1], args[1].shape[-2]))


def _transformed(args: Arguments, result: Any) -> int:
    """Return the terms to which the stages of a fast Fourier transform are equivalent."""
    sizes = [max(args[0].shape[dim], result.shape[dim]) for dim in args[1]]
    return math.ceil(FFT_STAGE * math.log2(max(math.prod(sizes), 2)))


def _gates(args: Arguments, result: Any) -> int:
    """Return the terms of a gate of a recurrent layer: of its input and of its state."""
    return int(args[1].shape[-1] + args[2].shape[-1])


def _bags(args: Arguments, result: Any) -> int | None:
    """Return the elements of the largest bag of embeddings; None where their maximum is taken."""
    indices, offsets, mode = args[1], args[2], args[4]
    if mode == 2 or not offsets.numel():
        return None
    ends = torch.cat([offsets, offsets.new_tensor([indices.numel()])])
    return int(ends.diff().max())


def _products(args: Arguments, result: Any) -> int:
    """Return the terms of a bilinear form."""
    return int(args[1].numel() // max(args[1].shape[0], 1))


def _written(places: Callable[[Any, Arguments], Any]) -> Count:
    """Return a count of the terms that each element of the first argument receives, its own value
    included; 0 for those that receive none. `places` adds ones where the operator adds."""

    def count(args: Arguments, result: Any) -> Any:
        zeros = torch.zeros(args[0].shape, dtype=torch.float32)
        counts = places(zeros, args)
        return None if counts is None else torch.where(counts > 0, counts + 1, counts)

    return count


def _at_rows(zeros: Any, args: Arguments) -> Any:
    return zeros.index_add(args[1], args[2], torch.ones(args[3].shape))


def _at_elements(zeros: Any, args: Arguments) -> Any:
    chosen = len(args) > 4 and args[4] in ("amax", "amin")
    return None if chosen else zeros.scatter_add(args[1], args[2], torch.ones(args[3].shape))


def _at_indices(zeros: Any, args: Arguments) -> Any:
    ones = torch.ones(args[2].shape)
    return zeros.index_put(args[1], ones, accumulate=True) if args[3] else None


# ---- the table --------------------------------------------------------------------------------

FORMULAS = {
    "ROW": Sum(_width(0)),
    "SECOND_ROW": Sum(_width(1), (1,)),
    "BATCHES": Sum(_batches, (1,)),
    "WINDOW_OF_WEIGHT": Sum(_kernel),
    "ATTENTION": Sum(_attended),
    "BILINEAR": Sum(_products, (1,)),
    "GATES": Sum(_gates, (1, 2)),
    "REDUCED": Sum(_reduced),
    "LOSS": Sum(_reduced, ()),
    "DIAGONAL": Sum(_diagonal),
    "EXPONENTIALS": Sum(_reduced, (), is_logarithm=True),
    "FACTORS": Sum(_factors, (), in_float32=False),
    "ALONG": Sum(_along(1)),
    "FACTORS_ALONG": Sum(_along(1), ()),
    "EXPONENTIALS_ALONG": Sum(_along(1), (), is_logarithm=True),
    "SOFTMAX": Sum(_along(1), ()),
    "LOG_SOFTMAX": Sum(_along(1), (), is_logarithm=True),
    "DISTANCE": Sum(_width(0), ()),
    "FOURIER": Sum(_transformed),
    "WINDOW_1D": Sum(_window(1)),
    "WINDOW_2D": Sum(_window(2)),
    "WINDOW_3D": Sum(_window(3)),
    "ADAPTIVE": Sum(_adaptive),
    "ADAPTIVE_STEPS": Sum(_adaptive, in_float32=False),
    "BAGS": Sum(_bags),
    "OVERLAPS": Sum(_reduced, in_float32=False),
    "LAYER": Sum(_normalized, (), is_root=True),
    "GROUP": Sum(_group, (), is_root=True),
    "BATCH": Sum(_batch(5), (), is_root=True),
    "ROWS_ADDED": Sum(_written(_at_rows), (3,)),
    "ROWS_REDUCED": Sum(_written(_at_rows), (3,), in_float32=False),
    "ELEMENTS_ADDED": Sum(_written(_at_elements), (3,)),
    "ELEMENTS_REDUCED": Sum(_written(_at_elements), (3,), lambda args: args[4] != "prod"),
    "INDICES_ADDED": Sum(_written(_at_indices), (2,), in_float32=False),
}
"""The formulas that `terms` of `executorch_c.operators()` names (csrc/kernels/ops.def).
`absolute.py` has the error of the means of norms: LAYER, GROUP, BATCH."""

EAGER = {
    "ROW": "dot inner inverse matmul mv vdot",
    "SECOND_ROW": "_addmm_activation baddbmm",
    "WINDOW_OF_WEIGHT": "_convolution convolution_overrideable",
    "ATTENTION": "_scaled_dot_product_attention_math _scaled_dot_product_flash_attention_for_cpu "
    "scaled_dot_product_attention",
    "GATES": "mkldnn_rnn_layer",
    "REDUCED": "nansum std std_mean",
    "LOSS": "binary_cross_entropy huber_loss linalg_vector_norm mse_loss norm smooth_l1_loss",
    "DIAGONAL": "trace",
    "EXPONENTIALS": "logsumexp",
    "SOFTMAX": "_safe_softmax softmax",
    "LOG_SOFTMAX": "log_softmax",
    "ADAPTIVE": "adaptive_avg_pool2d",
    "LAYER": "_fused_rms_norm layer_norm rms_norm",
    "BATCH": "_native_batch_norm_legit_functional native_batch_norm",
    "ROWS_ADDED": "index_add",
}
"""Operators of eager models that programs do not have, by formula."""

EAGER_EXACT = """
    alias as_strided channel_shuffle chunk clamp_max clamp_min detach diag_embed empty_like eye
    hardshrink index_copy index_fill max_pool2d max_unpool2d max_unpool3d native_channel_shuffle
    ones_like relu6 take threshold triu zeros_like
"""
"""Operators of eager models that programs do not have, and that do not round."""


def _formulas() -> dict[str, str]:
    """Return the formula of each operator that sums, without namespace and overload."""
    eager = {name: formula for formula, names in EAGER.items() for name in names.split()}
    ours = {unsuffixed(name): row["terms"] for name, row in OPERATORS.items() if row["terms"]}
    return {**ours, **eager}


FORMULA = _formulas()

TABLE = {name: FORMULAS[formula] for name, formula in FORMULA.items()}
"""The sums of each operator."""

OF_PRODUCTS = set("ROW SECOND_ROW BATCHES WINDOW_OF_WEIGHT ATTENTION BILINEAR GATES".split())
PRODUCTS = {name for name, formula in FORMULA.items() if formula in OF_PRODUCTS}
"""Operators that sum products."""

EXACT = {*with_numbers("same", "moves", "picks", "exact"), "index_put", *EAGER_EXACT.split()}
"""Operators that do not round: they move, select or clamp numbers. `index_put` may sum, too."""


def positional(schema: Any, args: Arguments, kwargs: dict[str, Any]) -> list[Any]:
    """Return the positional arguments of a call, with those given by keyword and the defaults."""
    rest = schema.arguments[len(args) :]
    return [*args, *(kwargs.get(one.name, one.default_value) for one in rest if not one.kwarg_only)]


def terms_of(
    name: str, schema: Any, args: Arguments, kwargs: dict[str, Any], result: Any
) -> Terms | None:
    """Return the terms of the sums of a call; None if it sums nothing."""
    if not any(isinstance(arg, torch.Tensor) and arg.numel() for arg in args):
        return None
    row = TABLE.get(name) if schema.name.startswith("aten::") else None
    if row is None:
        return None if name in EXACT else _of_unknown(args, result)
    full = positional(schema, args, kwargs)
    count, steps = row.count(full, result), row.in_float32
    if count is None:
        return None
    in_float32 = steps(full) if callable(steps) else steps
    return Terms(count, row.held, in_float32, row.is_root, row.is_logarithm)


def _of_unknown(args: Arguments, result: Any) -> Terms | None:
    """Return the terms of an operator that is not in the table and has fewer elements in its result
    than in its only tensor; None for any other."""
    places = [i for i, arg in enumerate(args) if isinstance(arg, torch.Tensor)]
    first = result[0] if isinstance(result, (tuple, list)) and result else result
    if len(places) != 1 or not isinstance(first, torch.Tensor) or not first.numel():
        return None
    count = args[places[0]].numel() // first.numel()
    return Terms(count, (places[0],), in_float32=False) if count > 1 else None
