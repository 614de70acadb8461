"""Sums that ATen's operators compute: how many terms they have, and which arguments hold them.

The rounding error of a sum grows with its number of terms. `TABLE` has that number for each
operator that sums, by its definition. tests/python/test_noise.py measures each row against float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

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
        found = places(zeros, args)
        return None if found is None else torch.where(found > 0, found + 1, found)

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

PRODUCTS = {
    **dict.fromkeys(
        ("mm", "bmm", "mv", "dot", "vdot", "matmul", "linear", "inner"), Sum(_width(0))
    ),
    **dict.fromkeys(("addmm", "baddbmm", "addmv", "_addmm_activation"), Sum(_width(1), (1,))),
    "addbmm": Sum(_batches, (1,)),
    **dict.fromkeys(("convolution", "_convolution", "convolution_overrideable"), Sum(_kernel)),
    **dict.fromkeys(
        (
            "_scaled_dot_product_flash_attention_for_cpu",
            "scaled_dot_product_attention",
            "_scaled_dot_product_attention_math",
        ),
        Sum(_attended),
    ),
    "_trilinear": Sum(_products, (1,)),
    "mkldnn_rnn_layer": Sum(_gates, (1, 2)),
    **dict.fromkeys(
        (
            "linalg_inv_ex",
            "_linalg_solve_ex",
            "linalg_cholesky_ex",
            "_linalg_det",
            "linalg_lu_factor_ex",
            "linalg_solve_triangular",
            "linalg_qr",
            "inverse",
        ),
        Sum(_width(0)),
    ),
}
"""Sums of products."""

REDUCTIONS = {
    **dict.fromkeys(("sum", "nansum", "mean", "var", "std", "var_mean", "std_mean"), Sum(_reduced)),
    **dict.fromkeys(
        (
            "norm",
            "linalg_vector_norm",
            "mse_loss",
            "smooth_l1_loss",
            "huber_loss",
            "binary_cross_entropy",
        ),
        Sum(_reduced, ()),
    ),
    "trace": Sum(_diagonal),
    "logsumexp": Sum(_reduced, (), is_logarithm=True),
    "prod": Sum(_factors, (), in_float32=False),
    "cumsum": Sum(_along(1)),
    "cumprod": Sum(_along(1), ()),
    "logcumsumexp": Sum(_along(1), (), is_logarithm=True),
    **dict.fromkeys(("softmax", "_softmax", "_safe_softmax"), Sum(_along(1), ())),
    **dict.fromkeys(("log_softmax", "_log_softmax"), Sum(_along(1), (), is_logarithm=True)),
    **dict.fromkeys(("_cdist_forward", "_pdist_forward"), Sum(_width(0), ())),
    **dict.fromkeys(("_fft_r2c", "_fft_c2c", "_fft_c2r"), Sum(_transformed)),
    "avg_pool1d": Sum(_window(1)),
    "avg_pool2d": Sum(_window(2)),
    "avg_pool3d": Sum(_window(3)),
    **dict.fromkeys(
        (
            "_adaptive_avg_pool2d",
            "adaptive_avg_pool1d",
            "adaptive_avg_pool2d",
            "_upsample_bilinear2d_aa",
            "_upsample_bicubic2d_aa",
        ),
        Sum(_adaptive),
    ),
    "_adaptive_avg_pool3d": Sum(_adaptive, in_float32=False),
    **dict.fromkeys(("_embedding_bag", "_embedding_bag_forward_only"), Sum(_bags)),
    "col2im": Sum(_reduced, in_float32=False),
}
"""Sums of the elements of an argument."""

NORMS = {
    **dict.fromkeys(
        ("native_layer_norm", "layer_norm", "rms_norm", "_fused_rms_norm"),
        Sum(_normalized, (), is_root=True),
    ),
    "native_group_norm": Sum(_group, (), is_root=True),
    **dict.fromkeys(
        ("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_functional"),
        Sum(_batch(5), (), is_root=True),
    ),
}
"""Norms: roots of the mean square. `absolute.py` has the error of their means."""

WRITES = {
    "index_add": Sum(_written(_at_rows), (3,)),
    "index_reduce": Sum(_written(_at_rows), (3,), in_float32=False),
    "scatter_add": Sum(_written(_at_elements), (3,)),
    "scatter_reduce": Sum(_written(_at_elements), (3,), lambda args: args[4] != "prod"),
    "index_put": Sum(_written(_at_indices), (2,), in_float32=False),
}
"""Sums of what is written to the same place."""

TABLE = {**PRODUCTS, **REDUCTIONS, **NORMS, **WRITES}

EXACT = {
    "_clone_dim_order",
    "_empty_dim_order",
    "_to_copy",
    "_to_dim_order_copy",
    "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d",
    "_upsample_nearest_exact3d",
    "abs",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "alias",
    "alias_copy",
    "amax",
    "amin",
    "arange",
    "as_strided",
    "as_strided_copy",
    "as_strided_scatter",
    "cat",
    "ceil",
    "channel_shuffle",
    "chunk",
    "clamp",
    "clamp_max",
    "clamp_min",
    "clone",
    "constant_pad_nd",
    "copy",
    "copysign",
    "cummax",
    "cummin",
    "detach",
    "detach_copy",
    "diag_embed",
    "diagonal_copy",
    "diagonal_scatter",
    "embedding",
    "empty",
    "empty_like",
    "expand_copy",
    "eye",
    "fill",
    "flip",
    "floor",
    "fmax",
    "fmin",
    "fractional_max_pool2d",
    "fractional_max_pool3d",
    "full",
    "full_like",
    "gather",
    "hardshrink",
    "hardtanh",
    "im2col",
    "index",
    "index_copy",
    "index_fill",
    "index_put",
    "index_select",
    "kthvalue",
    "lift_fresh_copy",
    "masked_fill",
    "masked_scatter",
    "masked_select",
    "max",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d_with_indices",
    "max_unpool2d",
    "max_unpool3d",
    "maximum",
    "median",
    "min",
    "minimum",
    "mode",
    "nanmedian",
    "narrow_copy",
    "native_channel_shuffle",
    "neg",
    "ones",
    "ones_like",
    "permute_copy",
    "pixel_shuffle",
    "pixel_unshuffle",
    "reflection_pad1d",
    "reflection_pad2d",
    "reflection_pad3d",
    "relu",
    "relu6",
    "repeat",
    "replication_pad1d",
    "replication_pad2d",
    "replication_pad3d",
    "roll",
    "round",
    "scalar_tensor",
    "scatter",
    "select_copy",
    "select_scatter",
    "sign",
    "slice_copy",
    "slice_scatter",
    "sort",
    "split_copy",
    "split_with_sizes_copy",
    "squeeze_copy",
    "stack",
    "t_copy",
    "take",
    "threshold",
    "topk",
    "transpose_copy",
    "tril",
    "triu",
    "trunc",
    "unbind_copy",
    "unfold_copy",
    "unique_consecutive",
    "unsqueeze_copy",
    "upsample_nearest1d",
    "upsample_nearest2d",
    "upsample_nearest3d",
    "view_copy",
    "where",
    "zeros",
    "zeros_like",
}
"""Operators that do not round: they move, select or clamp numbers."""


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
