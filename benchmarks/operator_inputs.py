"""Arguments of some hundred thousand elements for every operator of the official runtime.

`arguments(name, schema, dtype)` returns them in schema order without outputs. Arguments of
pointwise operators follow from the schema, others from TABLE. A name in TABLE applies to all
overloads with that prefix, unless a longer name matches. `small` arguments have one row of 1,024
elements, or 16 planes of 8 x 8, unless TABLE has other sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

COLUMNS = 1024
Make = Callable[["Arrays"], list[Any]]


class Arrays:
    """Seeded arrays of one dtype, and of related dtypes."""

    def __init__(self, dtype: str, small: bool = False) -> None:
        self.dtype, self.rng = dtype, np.random.default_rng(0)
        self.rows, self.side = (1, 8) if small else (256, 96)

    def x(self, *shape: int) -> np.ndarray:
        from tests.kernels.eager import np_dtype

        shape = shape or (self.rows, COLUMNS)
        if self.dtype == "bool":
            return self.rng.random(shape) < 0.5
        if "int" in self.dtype:
            return self.rng.integers(1, 9, shape).astype(self.dtype)
        return (self.rng.random(shape) * 0.8 + 0.1).astype(np_dtype(self.dtype))

    def index(self, high: int, *shape: int) -> np.ndarray:
        return self.rng.integers(0, high, shape)

    def mask(self, *shape: int) -> np.ndarray:
        return self.rng.random(shape or (self.rows, COLUMNS)) < 0.5


def image(a: Arrays) -> np.ndarray:
    return a.x(2, 16, a.side, a.side)


def convolution(a: Arrays) -> list[Any]:
    tensors = [a.x(1, 32, 28, 28), a.x(32, 32, 3, 3), a.x(32)]
    return [*tensors, [1, 1], [1, 1], [1, 1], False, [0, 0], 1]


def batch_norm(a: Arrays) -> list[Any]:
    return [image(a), a.x(16), a.x(16), a.x(16), a.x(16)]


def indexed(a: Arrays) -> list[Any]:
    return [a.x(), [a.index(a.rows, 4096), a.index(COLUMNS, 4096)]]


def quarters(a: Arrays) -> np.ndarray:
    """Return indices of max pooling: every fourth element of each plane."""
    half = a.side // 2
    plane = np.arange(0, a.side**2, 4).reshape(half, half)
    return np.broadcast_to(plane, (2, 16, half, half)).copy()


TABLE: dict[str, Make] = {
    "aten::_adaptive_avg_pool2d.out": lambda a: [image(a), [7, 7]],
    "aten::_cdist_forward.out": lambda a: [a.x(128, 64), a.x(128, 64), 2.0, None],
    "aten::_conj_physical.out": lambda a: [a.x().astype(np.complex64)],
    "aten::_fft_c2r.out": lambda a: [a.x(256, 513).astype(np.complex64), [1], 0, 1024],
    "aten::_fft_r2c.out": lambda a: [a.x(), [1], 0, True],
    "aten::_log_softmax.out": lambda a: [a.x(), 1, False],
    "aten::_native_batch_norm_legit.no_stats_out": lambda a: [*batch_norm(a)[:3], True, 0.1, 1e-5],
    "aten::_native_batch_norm_legit.out": lambda a: [*batch_norm(a), False, 0.1, 1e-5],
    "aten::_native_batch_norm_legit_no_training.out": lambda a: [*batch_norm(a), 0.1, 1e-5],
    "aten::_pdist_forward.out": lambda a: [a.x(256, 64), 2.0],
    "aten::_softmax.out": lambda a: [a.x(), 1, False],
    "aten::_to_copy.out": lambda a: [a.x(), False, None],
    "aten::_upsample_bilinear2d_aa.out": lambda a: [image(a), [48, 48], False, None, None],
    "aten::addmm.out": lambda a: [a.x(256), a.x(256, 256), a.x(256, 256), 1, 1],
    "aten::amax": lambda a: [a.x(), [1], False],
    "aten::amin": lambda a: [a.x(), [1], False],
    "aten::any.all_out": lambda a: [np.zeros_like(a.x())],
    "aten::any.dims_out": lambda a: [np.zeros_like(a.x()), [1], False],
    "aten::any.out": lambda a: [np.zeros_like(a.x()), 1, False],
    "aten::arange.out": lambda a: [a.rows * COLUMNS // 2],
    "aten::arange.start_out": lambda a: [0, a.rows * COLUMNS // 2, 1],
    "aten::argmax": lambda a: [a.x(), 1, False],
    "aten::argmin": lambda a: [a.x(), 1, False],
    "aten::as_strided_copy.out": lambda a: [a.x(), [128, 512], [2048, 2], 1],
    "aten::avg_pool2d.out": lambda a: [image(a), [3, 3], [2, 2], [1, 1], False, True, None],
    "aten::bmm.out": lambda a: [a.x(8, 64, 128), a.x(8, 128, 64)],
    "aten::cat.out": lambda a: [[a.x(), a.x()], 1],
    "aten::clamp.out": lambda a: [a.x(), 0.3, 0.7],
    "aten::clone.out": lambda a: [a.x(), None],
    "aten::constant_pad_nd.out": lambda a: [image(a), [2, 2, 2, 2], 0],
    "aten::convolution.out": convolution,
    "aten::convolution_backward.out": lambda a: [
        a.x(1, 32, 28, 28),
        *convolution(a)[:2],
        [32],
        *convolution(a)[3:],
        [True, True, True],
    ],
    "aten::copy": lambda a: [a.x(), a.x(), False],
    "aten::cumsum.out": lambda a: [a.x(), 1, None],
    "aten::diagonal_copy.out": lambda a: [a.x(512, 512), 0, 0, 1],
    "aten::div.Scalar_mode_out": lambda a: [a.x(), 2, "floor"],
    "aten::div.out_mode": lambda a: [a.x(), a.x(), "floor"],
    "aten::embedding.out": lambda a: [a.x(1000, 256), a.index(1000, 512), -1, False, False],
    "aten::empty.out": lambda a: [[a.rows, COLUMNS], None],
    "aten::expand_copy.out": lambda a: [a.x(1, COLUMNS), [a.rows, COLUMNS], False],
    "aten::fill.Tensor_out": lambda a: [a.x(), np.array(2, a.x(1).dtype)],
    "aten::flip.out": lambda a: [a.x(), [0, 1]],
    "aten::full.out": lambda a: [[a.rows, COLUMNS], 2],
    "aten::full_like.out": lambda a: [a.x(), 2, None],
    "aten::gather.out": lambda a: [a.x(), 1, a.index(COLUMNS, a.rows, 512), False],
    "aten::gelu.out": lambda a: [a.x(), "none"],
    "aten::glu.out": lambda a: [a.x(), 1],
    "aten::grid_sampler_2d.out": lambda a: [image(a), a.x(2, 64, 64, 2), 0, 0, False],
    "aten::index.Tensor_out": indexed,
    "aten::index_put": lambda a: [*indexed(a), a.x(4096), False],
    "aten::index_select.out": lambda a: [a.x(), 0, a.index(a.rows, 512)],
    "aten::leaky_relu.out": lambda a: [a.x(), 0.01],
    "aten::linear.out": lambda a: [a.x(64, 256), a.x(256, 256), a.x(256)],
    "aten::masked_scatter.out": lambda a: [a.x(), a.mask(), a.x()],
    "aten::masked_select.out": lambda a: [a.x(), a.mask()],
    "aten::max.dim_max": lambda a: [a.x(), 1, False],
    "aten::max.unary_out": lambda a: [a.x()],
    "aten::max_pool2d_with_indices.out": lambda a: [
        image(a),
        [3, 3],
        [2, 2],
        [1, 1],
        [1, 1],
        False,
    ],
    "aten::max_pool2d_with_indices_backward.grad_input": lambda a: [
        a.x(2, 16, a.side // 2, a.side // 2),
        image(a),
        [2, 2],
        [2, 2],
        [0, 0],
        [1, 1],
        False,
        quarters(a),
    ],
    "aten::mean.dtype_out": lambda a: [a.x(), None],
    "aten::mean.out": lambda a: [a.x(), [1], False, None],
    "aten::min.dim_min": lambda a: [a.x(), 1, False],
    "aten::min.unary_out": lambda a: [a.x()],
    "aten::mm.out": lambda a: [a.x(256, 256), a.x(256, 256)],
    "aten::narrow_copy.out": lambda a: [a.x(), 1, 100, 512],
    "aten::native_dropout.out": lambda a: [a.x(), 0.3, True],
    "aten::native_group_norm.out": lambda a: [
        image(a),
        a.x(16),
        a.x(16),
        2,
        16,
        a.side**2,
        4,
        1e-5,
    ],
    "aten::native_layer_norm.out": lambda a: [a.x(), [COLUMNS], a.x(COLUMNS), a.x(COLUMNS), 1e-5],
    "aten::nonzero.out": lambda a: [a.x()],
    "aten::ones.out": lambda a: [[a.rows, COLUMNS]],
    "aten::permute_copy.out": lambda a: [image(a), [0, 2, 3, 1]],
    "aten::pixel_shuffle.out": lambda a: [image(a), 2],
    "aten::pixel_unshuffle.out": lambda a: [image(a), 2],
    "aten::prod.int_out": lambda a: [a.x(), 1, False, None],
    "aten::prod.out": lambda a: [a.x(), None],
    "aten::rand.out": lambda a: [[a.rows, COLUMNS]],
    "aten::randn.out": lambda a: [[a.rows, COLUMNS]],
    "aten::reflection_pad1d.out": lambda a: [a.x(16, 128, 128), [3, 3]],
    "aten::reflection_pad2d.out": lambda a: [image(a), [3, 3, 3, 3]],
    "aten::reflection_pad3d.out": lambda a: [a.x(1, 4, 32, 48, 48), [3, 3, 3, 3, 3, 3]],
    "aten::repeat.out": lambda a: [a.x(a.rows // 4 or 1, COLUMNS), [4, 1]],
    "aten::repeat_interleave.Tensor_out": lambda a: [a.index(4, 65536), None],
    "aten::replication_pad1d.out": lambda a: [a.x(16, 128, 128), [3, 3]],
    "aten::replication_pad2d.out": lambda a: [image(a), [3, 3, 3, 3]],
    "aten::replication_pad3d.out": lambda a: [a.x(1, 4, 32, 48, 48), [3, 3, 3, 3, 3, 3]],
    "aten::roll.out": lambda a: [a.x(), [100], [1]],
    "aten::scalar_tensor.out": lambda a: [2],
    "aten::scatter.src_out": lambda a: [a.x(), 1, a.index(COLUMNS, a.rows, 512), a.x(a.rows, 512)],
    "aten::scatter.value_out": lambda a: [a.x(), 1, a.index(COLUMNS, a.rows, 512), 2],
    "aten::scatter_add.out": lambda a: [a.x(), 1, a.index(COLUMNS, a.rows, 512), a.x(a.rows, 512)],
    "aten::select_copy.int_out": lambda a: [a.x(64, 64, 64), 1, 5],
    "aten::select_scatter.out": lambda a: [a.x(64, 64, 64), a.x(64, 64), 1, 5],
    "aten::slice_copy.Tensor_out": lambda a: [a.x(), 1, 10, 900, 2],
    "aten::slice_scatter.out": lambda a: [a.x(), a.x(a.rows, 500), 1, 10, 510, 1],
    "aten::split_copy.Tensor_out": lambda a: [a.x(), 256, 1],
    "aten::split_with_sizes_copy.out": lambda a: [a.x(), [512, 512], 1],
    "aten::squeeze_copy.dim_out": lambda a: [a.x(a.rows, 1, COLUMNS), 1],
    "aten::squeeze_copy.dims_out": lambda a: [a.x(a.rows, 1, COLUMNS), [1]],
    "aten::stack.out": lambda a: [[a.x(), a.x()], 0],
    "aten::sum.IntList_out": lambda a: [a.x(), [1], False, None],
    "aten::t_copy.out": lambda a: [a.x()],
    "aten::topk.values": lambda a: [a.x(), 10, 1, True, True],
    "aten::transpose_copy.int_out": lambda a: [a.x(), 0, 1],
    "aten::tril.out": lambda a: [a.x(), 0],
    "aten::unbind_copy.int_out": lambda a: [a.x(4, a.rows, 256), 0],
    "aten::unfold_copy.out": lambda a: [a.x(64, COLUMNS), 1, 8, 4],
    "aten::unsqueeze_copy.out": lambda a: [a.x(), 1],
    "aten::upsample_bilinear2d.vec_out": lambda a: [image(a), [144, 144], False, None],
    "aten::upsample_nearest2d.vec_out": lambda a: [image(a), [192, 192], None],
    "aten::var.correction_out": lambda a: [a.x(), [1], 1, False],
    "aten::var.out": lambda a: [a.x(), [1], True, False],
    "aten::var_mean.correction_out": lambda a: [a.x(), [1], 1, False],
    "aten::view_as_real_copy.out": lambda a: [a.x().astype(np.complex64)],
    "aten::view_copy.out": lambda a: [a.x(), [COLUMNS, a.rows]],
    "aten::where.self_out": lambda a: [a.mask(), a.x(), a.x()],
    "aten::masked_fill.Scalar_out": lambda a: [a.x(), a.mask(), 2],
    "aten::zeros.out": lambda a: [[a.rows, COLUMNS]],
    "dim_order_ops::_clone_dim_order.out": lambda a: [image(a), False, [0, 1, 2, 3]],
    "dim_order_ops::_empty_dim_order.out": lambda a: [[a.rows, COLUMNS], None],
    "dim_order_ops::_to_dim_order_copy.out": lambda a: [image(a), False, [0, 1, 2, 3]],
}


def of_schema(schema: str, a: Arrays) -> list[Any]:
    """Return the arguments of a pointwise operator, by their types."""
    values: list[Any] = []
    for part in schema[schema.index("(") + 1 : schema.index(") ->")].split(", "):
        kind, _, name = part.partition(" ")
        if kind == "*" or "!" in kind:
            continue
        default = name.partition("=")[2]
        if kind.startswith("Tensor"):
            values.append(a.x())
        elif default:
            values.append({"None": None, "False": False, "True": True}.get(default, default))
        else:
            values.append(2 if kind in ("Scalar", "int") else 0.5)
    return [float(v) if isinstance(v, str) and v.strip("-.").isdigit() else v for v in values]


def arguments(name: str, schema: str, dtype: str, small: bool = False) -> list[Any] | None:
    """Return the arguments; None if the operator has no large arguments here."""
    keys = [key for key in TABLE if name.startswith(key)]
    arrays = Arrays(dtype, small)
    if keys:
        return TABLE[max(keys, key=len)](arrays)
    try:
        return of_schema(schema, arrays)
    except ValueError:
        return None
