"""Calls of operators that compute, which are refused, with the words of the message."""

from typing import Any

import numpy as np

from tests.kernels.samples_llm import SAMPLES as LLM_SAMPLES
from tests.kernels.samples_llm import inputs
from tests.op_harness import Out

F = np.float32
NAN, INF = float("nan"), float("inf")
Rows = list[tuple[str, list[Any], str | list[str]]]
Changes = list[tuple[dict[int, Any], str | list[str]]]


def ones(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.ones(shape, dtype)


def changed(name: str, base: list[Any], rows: Changes) -> Rows:
    """Return rows of a call of which some arguments are wrong."""
    return [(name, [change.get(i, a) for i, a in enumerate(base)], words) for change, words in rows]


def wide(*shape: int) -> Out:
    """Return an output that takes any result."""
    return Out(shape, "complex128")


I1, I4, BOOLS = (ones(3, dtype=dtype) for dtype in ("i1", "i4", "bool"))
POINTWISE: Rows = [
    ("add.out", [ones(3, 4), ones(4, 3), 1, wide(3, 4)], "'other': shape (4, 3) does not"),
    ("add.out", [I4] * 2 + [1.5, wide(3)], "'alpha': floating point"),
    ("sub.out", [BOOLS] * 2 + [1, wide(3)], "'self': is bool"),
    ("add.out", [ones(3, dtype="u2"), I4, 1, wide(3)], "no common dtype"),
    ("div.out_mode", [ones(3), ones(3), "up", wide(3)], "'rounding_mode': 'up', expected"),
    ("floor_divide.out", [I1, np.zeros(3, "i1"), wide(3)], "division by zero"),
    ("remainder.Scalar_out", [I1, 256, wide(3)], "division by zero"),
    ("gelu.out", [ones(3), "erf", wide(3)], "'approximate': 'erf', expected"),
    ("gelu.out", [I4, "none", wide(3)], "dtype int32, expected one of float16"),
    ("bitwise_and.Tensor_out", [np.ones(3)] * 2 + [wide(3)], "dtype float64, expected one of"),
    ("pow.Tensor_Scalar_out", [I4, -1, wide(3)], "'exponent': -1: integers have no"),
    ("clamp.out", [I1, -300, 1, wide(3)], "'min': -300 does not fit dtype int8"),
    ("clamp.out", [I1, None, None, wide(3)], "'min': None"),
    ("hardtanh.out", [ones(3, dtype="u1"), -1, 1, wide(3)], "'min_val': a negative limit"),
    ("masked_fill.Scalar_out", [I1, BOOLS, 300, wide(3)], "'value': 300 does not fit dtype int8"),
    ("masked_fill.Scalar_out", [I1, I4, 1, wide(3)], "'mask': dtype int32, expected one of bool"),
    ("where.self_out", [np.ones(3)] * 3 + [wide(3)], "'condition': dtype float64"),
    ("mul.out", [ones(3, 4), ones(3, 1), Out((2, 4))], ["'out'", "upper bound"]),
    ("mul.out", [ones(3, 4), ones(3, 1), Out((4, 4), dynamism=0)], ["'out'", "fixes"]),
    ("mul.out", [ones(3, 4), ones(3, 1), Out((12,))], ["'out'", "rank"]),
    ("polygamma.out", [-1, ones(2), Out((2,))], "'n': a negative derivative"),
]
M = [ones(2, 3), ones(3, 2), Out((2, 2))]
B = [ones(2, 3), ones(2, 3), ones(3, 2), 1, 1, Out((2, 2))]
W, B3, O2, O24 = ones(4, 3), ones(2, 2, 3), Out((2,)), Out((2, 4))
TRILINEAR, M2 = "_trilinear.out", [M[0], ones(2, 4)]
LINALG: Rows = [
    ("mm.out", [M[0], M[0], Out((2, 3))], "argument 'mat2': 2 rows, expected 3"),
    ("mm.out", [M[0], np.ones((3, 2)), M[2]], ["'mat2': dtype float64", "float32 as in 'self'"]),
    ("mm.out", [M[0] > 0, M[1] > 0, Out((2, 2), "bool")], "argument 'self': dtype bool"),
    ("mm.out", [*M[:2], Out((2, 2), "float64")], "argument 'out': dtype float64, expected float32"),
    ("mm.out", [M[0], ones(3), M[2]], "argument 'mat2': shape (3,), expected 2 dimensions"),
    ("mm.out", [*M[:2], Out((2, 1))], "argument 'out'"),
    ("bmm.out", [B3, ones(1, 3, 2), Out((2, 2, 2))], "'mat2': batch of 1, expected 2 as in 'self'"),
    ("addmm.out", B, "argument 'self': shape (2, 3), expected one that"),
    ("addmm.out", [np.ones(2), *B[1:]], "argument 'self': dtype float64"),
    ("addmv.out", [ones(2), M[0], ones(2), 1, 1, O2], "argument 'vec': 2 elements, expected 3"),
    ("addmv.out", [ones(3), M[0], ones(3), 1, 1, O2], "argument 'self': 3 elements, expected 2"),
    (TRILINEAR, [*M2, W[0], [], [], [0], [1], 0, O2], "'i2': 4 in dimension 1, expected 3"),
    (TRILINEAR, [M[0], M[0], W[0], [], [], [0], [1, -1], 0, O2], "'sumdim': dimension 1 is given"),
    ("linear.out", [M[0], ones(4, 2), None, O24], "argument 'weight': 2 columns, expected 3"),
    ("linear.out", [M[0], W, ones(3), O24], "argument 'bias': 3 elements, expected 4"),
    ("linear.out", [M[0], W, None, Out((4,))], "argument 'out': shape (4,), expected 2 dimensions"),
    ("linear.out", [ones(), W, None, Out((4,))], "argument 'input': shape (), expected 1 to 16"),
]
HUGE = 2**62
X, W = ones(1, 4, 5, 5), ones(6, 4, 3, 3)
CONVOLUTION = changed(
    "convolution.out",
    [X, W, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, Out((1, 6, 3, 3))],
    [
        ({0: ones(4, 5)}, "argument 'input': shape (4, 5), expected 3 to 5 dimensions"),
        ({0: np.ones((1, 4, 5, 5), bool)}, "argument 'input': dtype bool"),
        ({1: ones(6, 4, 3)}, "argument 'weight': shape (6, 4, 3), expected 4 dimensions"),
        ({1: np.ones((6, 4, 3, 3))}, "argument 'weight': dtype float64, expected float32"),
        ({1: ones(6, 3, 3, 3)}, "argument 'weight': 3 input channels, expected 4"),
        ({1: ones(6, 4, 0, 3)}, "argument 'weight': kernel of size 0"),
        ({1: ones(6, 4, 6, 3)}, "argument 'input': size 5 in dimension 2 gives no output"),
        ({1: ones(0, 4, 3, 3)}, "argument 'weight': 0 output channels"),
        ({2: ones(5)}, "argument 'bias': 5 elements, expected one for each of 6 channels"),
        ({2: ones(6, 1)}, "argument 'bias': shape (6, 1), expected 1 dimensions"),
        ({2: np.ones(6)}, "argument 'bias': dtype float64"),
        ({3: [0, 1]}, "argument 'stride': found (0, 1), expected positive numbers"),
        ({3: [-1]}, "argument 'stride': found (-1,), expected positive"),
        ({3: [1, 1, 1]}, "argument 'stride': 3 numbers, expected 1 or 2"),
        ({3: []}, "argument 'stride': 0 numbers"),
        ({4: [-1, 0]}, "argument 'padding': found (-1, 0), expected non-negative"),
        ({4: [HUGE, HUGE]}, "argument 'input': size 5"),
        ({4: [HUGE // 2, HUGE // 2]}, "argument 'out'"),
        ({5: [0, 0]}, "argument 'dilation': found (0, 0)"),
        ({5: [HUGE, HUGE]}, "argument 'input': size 5"),
        ({5: [3, 1]}, "argument 'input': size 5"),
        ({7: [-1, 0]}, "argument 'output_padding'"),
        ({8: 0}, "argument 'groups': found 0, expected a positive number"),
        ({8: -2}, "argument 'groups'"),
        ({8: 3}, "argument 'groups': 3, expected a divisor of the 4 channels"),
        ({8: 2}, "argument 'weight': 4 input channels, expected 2"),
        ({8: 4, 1: ones(6, 1, 3, 3)}, "argument 'weight': 6 output channels, expected a mult"),
        ({9: Out((1, 6, 3, 2))}, "argument 'out'"),
        ({9: Out((6, 3, 3))}, "argument 'out': shape (6, 3, 3), expected 4 dimensions"),
        ({9: Out((1, 6, 3, 3), "float64")}, "argument 'out': dtype float64"),
        ({6: True}, "argument 'weight': 6 input channels, expected 4"),
        ({6: True, 1: ones(4, 2, 3, 3), 7: [1, 0]}, "argument 'output_padding': found 1"),
        ({6: True, 1: ones(4, 2, 3, 3), 3: [HUGE, 1]}, "argument 'input': size 5"),
        ({6: True, 1: ones(4, 2, 3, 3), 4: [9, 9]}, "argument 'input': size 5"),
    ],
)
X, W, GRAD = ones(1, 2, 5), ones(3, 2, 2), ones(1, 3, 4)
GRADIENTS = [Out((1, 2, 5)), Out((3, 2, 2)), Out((3,))]
CONVOLUTION += changed(
    "convolution_backward.out",
    [GRAD, X, W, [3], [1], [0], [1], False, [0], 1, [True] * 3, *GRADIENTS],
    [
        ({0: GRAD[..., :3]}, "argument 'grad_output': shape (1, 3, 3), expected (1, 3, 4)"),
        ({0: GRAD[0]}, "argument 'grad_output': shape (3, 4)"),
        ({0: GRAD.astype("float64")}, "argument 'grad_output': dtype float64"),
        ({2: W[:, :1]}, "argument 'weight': 1 input channels"),
        ({9: 0}, "argument 'groups': found 0"),
        ({10: [True]}, "argument 'output_mask': 1 bools, expected 3"),
        ({12: Out((3, 2, 1))}, "argument 'out1'"),
        ({13: Out((3,), "float64")}, "argument 'out2': dtype float64"),
    ],
)
X = ones(2, 4)
V = ones(4)
OUTS = [Out((2, 4)), Out((2, 1)), Out((2, 1))]
STATS = [Out((0, 4)), Out((4,)), Out((4,))]
BN_OUTS = [Out((2, 4)), Out((0,)), Out((0,))]
SOFTMAX, LAYER, GROUP = "_softmax.out", "native_layer_norm.out", "native_group_norm.out"
NO_TRAINING = "_native_batch_norm_legit_no_training.out"
VARIANCE = "argument 'running_var': shape (3,), expected (4,)"
NO_STATS = "_native_batch_norm_legit.no_stats_out"
NORMS: Rows = [
    (SOFTMAX, [X, 2, False, Out((2, 4))], "dim 2 is out of range, expected [-2, 1]"),
    (SOFTMAX, [X, 1, True, Out((2, 4))], "argument 'half_to_float'"),
    (SOFTMAX, [X, 1, False, Out((2, 4), "float64")], "argument 'out': dtype float64"),
    (SOFTMAX, [X, 1, False, Out((2, 3))], "argument 'out'"),
    ("_log_softmax.out", [X.astype(int), 1, False, Out((2, 4))], "argument 'self': dtype int64"),
    (LAYER, [X, [], None, None, 1e-5, *OUTS], "argument 'normalized_shape': found ()"),
    (LAYER, [X, [2], None, None, 1e-5, *OUTS], "argument 'normalized_shape': found (2,)"),
    (LAYER, [X, [1, 2, 4], None, None, 1e-5, *OUTS], "argument 'normalized_shape'"),
    (LAYER, [X, [4], ones(3), None, 1e-5, *OUTS], "argument 'weight': shape (3,)"),
    (LAYER, [X, [4], None, ones(4, 1), 1e-5, *OUTS], "argument 'bias': shape (4, 1)"),
    (LAYER, [X, [4], np.ones(4), None, 1e-5, *OUTS], "argument 'weight': dtype float64"),
    (LAYER, [X, [4], None, None, 1e-5, OUTS[0], Out((2,)), OUTS[2]], "argument 'out1'"),
    (LAYER, [X, [4], None, None, 1e-5, *OUTS[:2], Out((2, 1), "int64")], "argument 'out2': dtype"),
    (GROUP, [X, None, None, 2, 4, 1, 3, 1e-5, *OUTS], "argument 'group': 3, expected"),
    (GROUP, [X, None, None, 2, 4, 1, 0, 1e-5, *OUTS], "argument 'group': 0, expected"),
    (GROUP, [X, None, None, 2, 4, 2, 1, 1e-5, *OUTS], "argument 'input': 8 elements"),
    (GROUP, [X, None, None, 2**40, 2**40, 2**40, 1, 1e-5, *OUTS], "argument 'input': 8 elements"),
    (GROUP, [X, None, None, -2, -4, 1, 1, 1e-5, *OUTS], "argument 'group'"),
    (GROUP, [X, ones(2), None, 2, 4, 1, 1, 1e-5, *OUTS], "argument 'weight': shape (2,)"),
    (NO_TRAINING, [X, V, V, V, V[:3], 0.1, 1e-5, *BN_OUTS], VARIANCE),
    (NO_TRAINING, [X, V, np.ones(4), V, V, 0.1, 1e-5, *BN_OUTS], "argument 'bias': dtype float64"),
    (NO_TRAINING, [V, V, V, V, V, 0.1, 1e-5, *BN_OUTS], "argument 'input': shape (4,)"),
    (NO_TRAINING, [X.astype(int), V, V, V, V, 0.1, 1e-5, *BN_OUTS], "argument 'input': dtype"),
    (NO_STATS, [X[:0], V, V, True, 0.1, 1e-5, *STATS], "argument 'input': no elements"),
]
X = ones(1, 2, 5, 5)
OUTS = [Out((1, 2, 2, 2)), Out((1, 2, 2, 2), "int64")]
MAX_POOL: Changes = [
    ({0: ones(5, 5)}, "argument 'self': shape (5, 5), expected 3 to 4 dimensions"),
    ({0: ones(1, 0, 5, 5)}, "argument 'self': shape (1, 0, 5, 5), expected no 0"),
    ({0: np.ones((1, 2, 5, 5), bool)}, "argument 'self': dtype bool"),
    ({1: []}, "argument 'kernel_size': found ()"),
    ({1: [2, 2, 2]}, "argument 'kernel_size': 3 numbers, expected 1 or 2"),
    ({1: [0, 2]}, "argument 'kernel_size': found (0, 2), expected positive numbers"),
    ({1: [7, 7]}, "argument 'kernel_size': size 7 with padding 0"),
    ({1: [HUGE, 1]}, "argument 'kernel_size': size"),
    ({2: [0]}, "argument 'stride': found (0,), expected positive"),
    ({3: [-1, 0]}, "argument 'padding': found (-1, 0), expected non-negative"),
    ({3: [2, 2]}, "padding at most half of it"),
    ({4: [0, 1]}, "argument 'dilation': found (0, 1)"),
    ({4: [2**63 - 1]}, "argument 'kernel_size'"),
    ({1: [2**63 - 1], 2: [HUGE]}, "argument 'kernel_size'"),
    ({6: Out((1, 2, 2, 2), "float64")}, "argument 'out': dtype float64"),
    ({6: Out((1, 2, 2, 1))}, "argument 'out'"),
    ({7: Out((1, 2, 2, 2), "int32")}, "argument 'indices': dtype int32"),
    ({7: Out((1, 2, 2, 1), "int64")}, "argument 'indices'"),
]
AVERAGE_POOL: Changes = [
    ({6: 0}, "argument 'divisor_override': found 0"),
    ({0: np.ones((1, 2, 5, 5), np.int32)}, "argument 'self': dtype int32"),
    ({3: [2, 2]}, "padding at most half"),
    ({2: [-1, 1]}, "argument 'stride'"),
]
ADAPTIVE_POOL: Changes = [
    ({1: [2]}, "argument 'output_size': found (2,), expected 2"),
    ({1: [-1, 2]}, "argument 'output_size': found (-1, 2)"),
    ({1: [2**40, 2**40]}, "argument 'out'"),
    ({0: ones(1, 2, 0, 5)}, "argument 'self': shape (1, 2, 0, 5)"),
    ({0: np.ones((1, 2, 5, 5), np.int64)}, "argument 'self': dtype int64"),
]
SAMPLES = np.full((1, 2, 2), 0.5, F)
WINDOW = "'random_samples': the number at (0, 0, 1) puts a window"
FRACTIONAL_POOL: Changes = [
    ({3: SAMPLES * F(1e30)}, WINDOW),
    ({3: SAMPLES * F(-1e30)}, WINDOW),
    ({3: SAMPLES * F(NAN)}, WINDOW),
    ({3: SAMPLES[:, :1]}, "argument 'random_samples': shape (1, 1, 2), expected (1, 2, 2)"),
    ({3: SAMPLES.astype("float64")}, "argument 'random_samples': dtype float64"),
    ({1: [2]}, "argument 'kernel_size': 1 numbers, expected 2"),
    ({1: [2, 4]}, "argument 'kernel_size': found 4"),
    ({1: [0, 2]}, "argument 'kernel_size': found 0"),
    ({2: [2**62, 3]}, "argument 'kernel_size': found 2"),
    ({2: [3]}, "argument 'output_size': found (3,)"),
]
X4, GRAD, AT = ones(1, 2, 4, 4), ones(1, 2, 2, 2), np.zeros((1, 2, 2, 2), np.int64)
LISTS: list[Any] = [[2, 2], [2, 2], [0, 0], [1, 1], False]
MAX_BACKWARD: Changes = [
    ({7: AT + 16}, "'indices': index 16, expected one of a plane"),
    ({7: AT - 2}, "argument 'indices': index -2"),
    ({0: GRAD[..., :1]}, "argument 'grad_output': shape (1, 2, 2, 1)"),
    ({7: AT[:, :1]}, "argument 'indices': shape (1, 1, 2, 2)"),
    ({3: [1, 1]}, "expected (1, 2, 3, 3)"),
    ({0: GRAD.astype("float64")}, "argument 'grad_output': dtype float64"),
]
GRADS = "'grad_output': shape "
FRACTIONS = [Out((1, 2, 3, 3)), Out((1, 2, 3, 3), "int64")]
DEEP = [Out((1, 2, 3, 2, 2)), Out((1, 2, 3, 2, 2), "int64")]
POOLS = [
    *changed(
        "max_pool2d_with_indices.out", [X, [2, 2], [2, 2], [0, 0], [1, 1], False, *OUTS], MAX_POOL
    ),
    *changed(
        "avg_pool2d.out", [X, [2, 2], [2, 2], [0, 0], False, True, None, OUTS[0]], AVERAGE_POOL
    ),
    *changed("_adaptive_avg_pool2d.out", [X, [2, 2], OUTS[0]], ADAPTIVE_POOL),
    *changed(
        "fractional_max_pool2d.output", [X, [2, 2], [3, 3], SAMPLES, *FRACTIONS], FRACTIONAL_POOL
    ),
    *changed(
        "max_pool2d_with_indices_backward.grad_input",
        [GRAD, X4, *LISTS, AT, Out(X4.shape)],
        MAX_BACKWARD,
    ),
    *changed(
        "_adaptive_avg_pool2d_backward.out",
        [GRAD, X4, Out(X4.shape)],
        [
            ({0: GRAD[:, :1]}, GRADS + "(1, 1, 2, 2), expected (1, 2, 2, 2)"),
            ({0: GRAD[0]}, GRADS + "(2, 2, 2), expected 4 dimensions"),
        ],
    ),
    (
        "fractional_max_pool3d.output",
        [ones(1, 2, 4, 4, 4), [2] * 3, [3, 2, 2], np.full((1, 2, 3), 0.5, F), *DEEP],
        "'kernel_size': found 2",
    ),
]
X, O = ones(1, 2, 3, 4), Out((1, 2, 6, 8))
UPSAMPLED = [
    ([X, None, None, O], "argument 'output_size': expected exactly one of it and 'scale_factors'"),
    ([X, [6, 8], [2.0, 2.0], O], "argument 'output_size': expected exactly one"),
    ([X, [6], None, O], "argument 'output_size': 1 numbers, expected 2"),
    ([X, [0, 8], None, O], "argument 'output_size': found 0, expected positive"),
    ([X, [2**40, 2**40], None, O], "argument 'out'"),
    ([X, None, [2.0, 0.1], O], "argument 'scale_factors': 0.1 times size 4"),
    ([X, None, [-2.0, 2.0], O], "argument 'scale_factors'"),
    ([X, None, [float("nan"), 2.0], O], "argument 'scale_factors'"),
    ([X, None, [float("inf"), 2.0], O], "argument 'scale_factors'"),
    ([X[0], [6, 8], None, O], "argument 'input': shape (2, 3, 4), expected 4 dimensions"),
    ([X[:, :0], [6, 8], None, O], "argument 'input': shape (1, 0, 3, 4)"),
    ([X.astype(int), [6, 8], None, O], "argument 'input': dtype int64"),
    ([X, [6, 8], None, Out((1, 2, 6, 8), "float64")], "argument 'out': dtype float64"),
]
PADDED = [
    ("reflection_pad1d", (2, 3, 4), [4, 0], "(4, 0), expected less than the size 4"),
    ("reflection_pad2d", (2, 3, 4), [0, 0, 0, 3], "(0, 3), expected less than the size 3"),
    ("replication_pad1d", (2, 3, 4), [-2, -2], "(-2, -2) leave too little of size 4"),
    ("replication_pad2d", (2, 3, 4), [-2, -2, -2, -1], "no elements are left"),
    ("replication_pad3d", (2, 1, 1, 1), [-1, 0, -1, 0, -1, 0], "no elements are left"),
    ("replication_pad1d", (2, 3, 4), [2**63 - 1, 1], "leave too little of size 4"),
    ("replication_pad1d", (2, 3, 4), [2**62, 2**61], "argument 'out'"),
    ("replication_pad1d", (2, 3, 4), [1], "argument 'padding': 1 numbers, expected 2"),
    ("replication_pad1d", (2, 0, 4), [1, 1], "shape (2, 0, 4), expected no 0"),
    ("replication_pad2d", (2, 3, 4, 5, 6), [1] * 4, "expected 3 to 4 dimensions"),
]
SAMPLED = [
    ("grid_sampler_3d", (2, 3, 4, 5, 6), (2, 1, 1, 1, 3), [2, 0], "mode': unknown mode 2"),
    ("grid_sampler_2d", (2, 3, 4, 5), (2, 1, 1, 2), [3, 0], "'interpolation_mode': unknown mode 3"),
    (
        "grid_sampler_2d",
        (2, 3, 4, 5),
        (2, 1, 1, 2),
        [0, -1],
        ["'padding_mode'", "unknown padding mode -1"],
    ),
    ("grid_sampler_2d", (2, 3, 4, 5), (1, 1, 1, 2), [0, 0], "'grid': shape (1, 1, 1, 2), expected"),
    ("grid_sampler_2d", (2, 3, 4, 5), (2, 1, 1, 3), [0, 0], "batch 2 and 2 coordinates"),
    ("grid_sampler_2d", (2, 3, 0, 5), (2, 1, 1, 2), [0, 0], "'input': shape (2, 3, 0, 5)"),
    ("grid_sampler_2d", (2, 3, 4), (2, 1, 1, 2), [0, 0], "'input': shape (2, 3, 4)"),
]
RESIZED: Rows = [
    *(("upsample_nearest2d.vec_out", args, words) for args, words in UPSAMPLED),
    *(("upsample_bilinear2d.vec_out", [*a[:2], False, *a[2:]], words) for a, words in UPSAMPLED),
    *((f"{name}.out", [ones(*x), pad, Out(x)], words) for name, x, pad, words in PADDED),
    *(
        (f"{name}.out", [ones(*x), ones(*grid), *modes, True, Out(x)], words)
        for name, x, grid, modes, words in SAMPLED
    ),
]


def transform(shape: tuple[int, ...], rest: list, dtype="complex64", out="complex64") -> list:
    return [np.zeros(shape, dtype), *rest, Out(shape, out)]


def drawn(*args: Any, dtype: str = "float64") -> list:
    return [*(np.array(a) if isinstance(a, list) else a for a in args), None, Out((3,), dtype)]


DISTANCE, SPECTRUM = "_cdist_forward.out", "_fft_c2c.out"
RATES = [1.0, -1.0], [0.0, 0.0], [INF, 1.0], [NAN, 1.0]
AT_MOST, RATE = "trials, expected at most 2", ["rate of ", "expected from 0 to 2"]
OTHERS: Rows = [
    (SPECTRUM, transform((3, 4), [[0, 0], 0, True]), "is out of range or repeated"),
    (SPECTRUM, transform((3, 4), [[2], 0, True]), "out of range"),
    (SPECTRUM, transform((3, 4), [[0], 3, True]), "normalization"),
    *(
        ("_fft_c2r.out", transform(shape, rest, out="float32"), words)
        for shape, rest, words in (
            ((3, 4), [[], 0, 4], "no dimension"),
            ((3, 4), [[1], 0, 8], "8 elements from 4"),
            ((3, 4), [[1], 0, 0], "0 elements from 4"),
            ((), [[0], 0, 1], "is out of range or repeated"),
            ((2, 0), [[1, 0], 0, 2], "no elements"),
        )
    ),
    *((SPECTRUM, transform((3,), [[0], 0, True], dtype), "dtype") for dtype in ("f4", "f8")),
    ("_fft_r2c.out", transform((3,), [[0], 0, True]), "dtype"),
    (DISTANCE, [ones(3, 4), ones(5, 3), 2.0, None, Out((90,))], "3 columns, expected 4"),
    (DISTANCE, [ones(3, 4), ones(5, 4), -1.0, None, Out((90,))], "'p': -1"),
    (DISTANCE, [ones(3, 4), ones(5, 4), 2.0, 3, Out((90,))], "expected 0, 1 or 2"),
    (DISTANCE, [ones(4), ones(5, 4), 2.0, None, Out((90,))], "expected 2 to 16 dim"),
    (DISTANCE, [ones(2, 3, 4), ones(3, 5, 4), 2.0, None, Out((90,))], ""),
    ("_pdist_forward.out", [ones(4), 2.0, Out((90,))], "expected 2 dim"),
    ("_pdist_forward.out", [ones(3, 4), NAN, Out((90,))], "'p'"),
    *(("poisson.out", drawn([x]), RATE) for x in (-1.0, NAN, INF, 1e300)),
    *(("binomial.out", drawn([trials], [0.5]), AT_MOST) for trials in (NAN, INF)),
    ("binomial.out", drawn([1.0] * 3, [[1.0] * 3] * 2), "'prob': does not broadcast"),
    ("randperm.out", [300, Out((300,), "uint8")], "too large for dtype uint8"),
    *(("multinomial.out", drawn(row, 2, True, dtype="int64"), "'self': row 0") for row in RATES),
    ("multinomial.out", drawn([1.0, 0.0], 2, False, dtype="int64"), "'self': row 0"),
]
ONES, ZERO, NANS = ones(2, 2), np.zeros((2, 2), F), np.full((2, 2), NAN, F)
M, V, I2, I0 = Out((2, 2)), Out((2,)), Out((2,), "int32"), Out((), "int32")
PIVOTS = np.array([1, 3], np.int32)
COMPLEX = [Out((2,), "complex64"), Out((2, 2), "complex64")]
V32, REST = ones(3, 2), [ONES, True, False, M]
TRIANGLE, REFLECTIONS = "linalg_solve_triangular.out", "linalg_householder_product.out"
DECOMPOSED: Rows = [
    ("linalg_inv_ex.inverse", [ONES, True, M, I0], "singular"),
    ("_linalg_solve_ex.result", [ONES, ONES, True, True, M, M, I2, I0], "singular"),
    ("linalg_lu_factor_ex.out", [ONES, True, True, M, I2, I0], "a zero on the diagonal of U (2)"),
    ("linalg_lu_factor_ex.out", [ONES, False, False, M, I2, I0], "argument 'pivot': false"),
    ("linalg_cholesky_ex.L", [-ONES, False, True, M, I0], "not positive-definite (1)"),
    ("cholesky.out", [ONES, False, M], "not positive-definite (2)"),
    ("linalg_ldl_factor_ex.out", [ZERO, False, True, M, I2, I0], "D is singular (1)"),
    ("_linalg_svd.U", [NANS, False, True, None, M, V, M], "elements that are not finite"),
    ("linalg_eig.out", [NANS, *COMPLEX], "not all elements are finite"),
    ("linalg_lu_solve.out", [ONES, PIVOTS, ONES, True, False, M], "pivot 1 is 3, expected 1 to 2"),
    ("lu_unpack.out", [ONES, PIVOTS, True, True, M, M, M], "pivot 1 is 3"),
    ("linalg_ldl_solve.out", [ONES, -PIVOTS, ONES, False, M], "argument 'pivots': -1 at 0"),
    ("linalg_qr.out", [ONES, "all", M, M], "argument 'mode': 'all', expected"),
    ("_linalg_eigh.eigenvalues", [ONES, "X", True, V, M], "argument 'UPLO': 'X'"),
    ("_linalg_det.result", [ones(2, 3), Out(()), M, I2], "expected square"),
    ("_linalg_det.result", [np.ones((2, 2), np.int64), Out((), "int64"), M, I2], "dtype int64"),
    (TRIANGLE, [ONES, V32, True, True, False, M], "'B': shape (3, 2), expected (2, 2) at its end"),
    (REFLECTIONS, [ones(2, 3), ones(2), M], "argument 'input': more columns than rows"),
    ("ormqr.out", [ONES, ones(3), *REST], "'input2': more numbers than rows or columns of 'self'"),
]
ATTENTION = [
    *inputs(np.random.default_rng(0), (1, 2, 4, 2, 8, 9, 3), "float32"),
    3,
    None,
    0.0,
    True,
    None,
    Out((1, 2, 4, 8)),
]
MASK, ENDS = np.zeros((2, 9), F), "expected the first and last dimension of 'query'"
LLM: Rows = changed(
    "llama::custom_sdpa.out",
    ATTENTION,
    [
        ({0: ones(1, 2, 4)}, "'query': shape (1, 2, 4), expected 4 dimensions"),
        ({0: ones(1, 2, 4, 8, dtype="float64")}, "'query': dtype float64, expected one of"),
        ({1: ones(1, 9, 2, 8, dtype="f2")}, "'key': dtype float16, expected float32 as in 'query'"),
        ({1: ones(9, 2, 8)}, "'key': shape (9, 2, 8), expected 4 dim"),
        ({1: ones(2, 9, 2, 8)}, ["'key': shape ", ENDS]),
        ({2: ones(1, 9, 2, 7)}, ["'value': shape ", "expected the first and last dimension"]),
        ({1: ones(1, 9, 3, 8)}, ["'key': ", "has 3 heads, expected a divisor of the 4 of 'query'"]),
        ({1: ones(1, 9, 0, 8)}, ["'key': ", " has 0 heads"]),
        ({2: ones(1, 8, 2, 8)}, "'value': shape (1, 8, 2, 8), expected that of 'key'"),
        ({3: 8}, "'start_pos': 8 with 2 queries, expected at most 9 keys of 'key'"),
        ({3: -1}, "'start_pos': -1 with"),
        ({3: 2**63 - 1}, "'start_pos': 9223372036854775807 with"),
        ({4: MASK}, "'is_causal': true, expected false with a mask"),
        ({4: MASK[:, :8].copy(), 6: False}, "'attn_mask': shape (2, 8), expected (2, 9)"),
        ({4: MASK[None], 6: False}, ["'attn_mask': ", " expected 2 dim"]),
        ({4: MASK > 0, 6: False}, "'attn_mask': dtype bool"),
    ],
)
EXPERTS = list(LLM_SAMPLES["llama::quantized_moe_ffn.out"](np.random.default_rng(0), "float32"))[6]
LLM += changed(
    "llama::quantized_moe_ffn.out",
    [*EXPERTS, Out((5, 64))],
    [
        ({5: 4}, "'num_activated_experts': 4, expected at most 3"),
        ({5: 0}, "'num_activated_experts': 0, expected 1 or more"),
        ({6: 4}, "'gate_weight': shape (3, 64), expected (4, 64)"),
        ({8: 32}, "'x': shape (5, 64), expected (5, 32)"),
        ({9: 24}, "'group_size': 24, expected a multiple of 16 that divides 64 and 32"),
        ({10: 5}, "'weight_nbit': 5, expected 4 or 8"),
        ({10: 8}, ["'packed_w13': ", " bytes for each expert, expected at least those of 64 x 64"]),
        ({7: 2**62}, "argument '"),
        ({11: "linear"}, "'score_func': 'linear', expected 'sigmoid' or 'softmax'"),
        ({2: np.zeros(3, F)}, "'expert_bias': elements, expected none with 'softmax'"),
    ],
)
DELTA = list(LLM_SAMPLES["llama::gated_delta_rule.out"](np.random.default_rng(0), "float32"))[0]
LLM += changed(
    "llama::gated_delta_rule.out",
    [*DELTA, Out(DELTA[2].shape), Out(DELTA[5].shape)],
    [
        ({4: DELTA[4][:, :, :0].copy()}, "shape "),
        ({1: DELTA[1][:, :0].copy()}, "heads, expected a multiple of the 0 of 'key'"),
    ],
)
REFUSED: Rows = [
    *(*POINTWISE, *LINALG, *CONVOLUTION, *NORMS, *POOLS, *RESIZED, *OTHERS),
    *(*DECOMPOSED, *LLM),
]
