"""Each node of MLX once: fields, inputs, and what NumPy gives."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.backends.mlx_nodes import Node, integer, integers, real
from tests.backends.mlx_references import (
    F,
    H,
    B,
    I32,
    I64,
    U8,
    U32,
    Array,
    conv,
    dequantized,
    erf,
    floats,
    ints,
    norm,
    packed,
    random,
    rope,
    sdpa,
    sigmoid,
    softmax,
)


@dataclass
class Row:
    """A node: inputs are tensors 0, 1, ..., the result is the next one."""

    node: str
    inputs: list[Array]
    expected: Callable[..., Any]
    fields: dict[str, Any] = field(default_factory=dict)
    names: str = "x"
    """The fields that are inputs, in order."""
    dtype: Any = None
    """Of the result; None: of the first input."""
    limit: float = 1e-6
    id: str = ""

    def chain(self) -> list[Node]:
        tensors = {name: i for i, name in enumerate(self.names.split())}
        return [(self.node, {**tensors, **self.fields, "out": len(self.inputs)})]

    def outputs(self) -> list[Array]:
        dtype = self.dtype or self.inputs[0].dtype
        return [np.asarray(self.expected(*self.inputs)).astype(dtype)]


X, Y = floats(3, 4), floats(3, 4)
POSITIVE = floats(3, 4, low=0.1, high=3)
UNIT = floats(3, 4, low=-0.9, high=0.9)
N, M = ints(3, 4), ints(3, 4, low=1)
BOOLS = random.integers(0, 2, (3, 4)).astype(bool)


UNARY: list[tuple[str, Array, Callable[..., Any]]] = [
    ("IdCopy", X, lambda x: x),
    ("Contiguous", X, lambda x: x),
    ("Silu", X, lambda x: x * sigmoid(x)),
    ("Sigmoid", X, sigmoid),
    ("Tanh", X, np.tanh),
    ("Rsqrt", POSITIVE, lambda x: 1 / np.sqrt(x)),
    ("Log", POSITIVE, np.log),
    ("LogicalNot", BOOLS, np.logical_not),
    ("BitwiseInvert", N, np.invert),
    ("Floor", X, np.floor),
    ("Ceil", X, np.ceil),
    ("Trunc", X, np.trunc),
    ("Square", X, np.square),
    ("Exp", X, np.exp),
    ("Sin", X, np.sin),
    ("Cos", X, np.cos),
    ("Tan", UNIT, np.tan),
    ("Arcsin", UNIT, np.arcsin),
    ("Arccos", UNIT, np.arccos),
    ("Arctan", X, np.arctan),
    ("Sinh", X, np.sinh),
    ("Cosh", X, np.cosh),
    ("Arcsinh", X, np.arcsinh),
    ("Arccosh", POSITIVE + 1, np.arccosh),
    ("Arctanh", UNIT, np.arctanh),
    ("Log2", POSITIVE, np.log2),
    ("Log10", POSITIVE, np.log10),
    ("Log1p", POSITIVE, np.log1p),
    ("Erf", X, erf),
    ("Expm1", X, np.expm1),
    ("Reciprocal", POSITIVE, np.reciprocal),
    ("Sqrt", POSITIVE, np.sqrt),
    ("Abs", X, np.abs),
    ("Neg", X, np.negative),
    ("Sign", N, np.sign),
]

BINARY: list[tuple[str, Array, Array, Callable[..., Any], Any]] = [
    ("Add", X, Y[:1], np.add, F),
    ("Subtract", N, M[:, :1], np.subtract, I32),
    ("Multiply", X.astype(H), Y, np.multiply, F),
    ("Multiply", X.astype(B), Y.astype(H), np.multiply, F),
    ("Add", N.astype(I64), Y.astype(H), lambda a, b: a + b, H),
    ("Add", N.astype(U8), M.astype(np.int8), lambda a, b: a.astype(I32) + b, np.int16),
    ("Add", N.astype(U32), M.astype(U32), np.add, U32),
    ("Subtract", N.astype(np.uint16), M.astype(np.uint16), np.subtract, np.uint16),
    ("Divide", N, M, lambda a, b: a / b, F),
    ("Divide", X, M, lambda a, b: a / b, F),
    ("FloorDivide", N, M, np.floor_divide, I32),
    ("Remainder", N, -M, np.remainder, I32),
    ("Remainder", X, POSITIVE, np.remainder, F),
    ("Power", POSITIVE, Y, np.power, F),
    ("Maximum", X, Y, np.maximum, F),
    ("Minimum", X, Y, np.minimum, F),
    ("Atan2", X, Y, np.arctan2, F),
    ("LogAddExp", X, Y[:1], np.logaddexp, F),
    ("Less", X, Y, np.less, bool),
    ("LessEqual", N, M, np.less_equal, bool),
    ("Greater", X, Y, np.greater, bool),
    ("GreaterEqual", N.astype(U32), M.astype(U32), np.greater_equal, bool),
    ("Equal", N, M, np.equal, bool),
    ("NotEqual", N, M, np.not_equal, bool),
    ("LogicalAnd", BOOLS, N, lambda a, b: a & (b != 0), bool),
    ("LogicalOr", BOOLS, N, lambda a, b: a | (b != 0), bool),
    ("BitwiseAnd", N, M, np.bitwise_and, I32),
    ("BitwiseOr", N.astype(U32), M.astype(U32), np.bitwise_or, U32),
    ("BitwiseXor", N, M, np.bitwise_xor, I32),
]

Z = floats(2, 3, 4)
REDUCED: list[tuple[str, Callable[..., Any], dict[str, Any], Any]] = [
    ("Sum", np.sum, {}, F),
    ("Mean", np.mean, {}, F),
    ("Var", np.var, {}, F),
    ("Std", np.std, {}, F),
    ("Prod", np.prod, {}, F),
    ("Max", np.max, {}, F),
    ("Min", np.min, {}, F),
    ("Median", np.median, {}, F),
    ("LogSumExp", lambda x, **k: np.log(np.sum(np.exp(x), **k)), {}, F),
]
SPANS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"axes": [-1]}, {"axis": -1}),
    ({"axes": [0, 2], "keepdims": 1}, {"axis": (0, 2), "keepdims": True}),
]


MODES = [
    *(("affine", bits, group) for bits, group in ((2, 32), (3, 64), (4, 32), (5, 32), (6, 64))),
    ("affine", 8, 128),
    ("nvfp4", 4, 16),
    ("mxfp4", 4, 32),
    ("mxfp8", 8, 32),
]


def quantized(mode: str, bits: int, group: int, dtype: Any = F) -> list[Row]:
    """Return rows of the nodes that have packed weights, of one mode."""
    key = (mode, bits, group)
    width, turned_width = 128, max(64, group)
    names = "w scales biases" if mode == "affine" else "w scales"
    fields = {"mode": mode, "bits": bits, "group_size": group}
    w = packed(*key, 5, width=width, dtype=dtype)
    turned = packed(*key, width, width=turned_width, dtype=dtype)
    experts = packed(*key, 3, 6, width=width, dtype=dtype)
    x, many = floats(2, 3, width, dtype=dtype), floats(4, 1, width, dtype=dtype)
    at = np.array([2, 0, 1, 2], U32)

    def plain(*parts: Array) -> Array:
        return dequantized(*parts[:2], parts[2] if len(parts) > 2 else None, *key)

    def row(node: str, inputs: list[Array], f: Any, names: str, end: str = "", **more: Any) -> Row:
        kind = f"{mode}-{bits}-{np.dtype(dtype).name}{end}"
        limit = 1e-6 if dtype is F else 3e-3
        return Row(node, inputs, f, {**fields, **more}, names, dtype, limit, id=kind)

    def product(x: Array, *w: Array) -> Array:
        return x.astype(np.float64) @ plain(*w).T

    def chosen(x: Array, *w: Array) -> Array:
        return x.astype(np.float64) @ plain(*w[:-1])[w[-1]].swapaxes(-1, -2)

    return [
        row("Dequantize", w, plain, names, dtype=6 if dtype is F else 5),
        row("QuantizedMatmul", [x, *w], product, f"x {names}"),
        row(
            "QuantizedMatmul",
            [x, *turned],
            lambda x, *w: x.astype(np.float64) @ plain(*w),
            f"x {names}",
            "-turned",
            transpose=0,
        ),
        row("GatherQmm", [many, *experts, at], chosen, f"x {names} rhs_indices"),
    ]


Q, K, V = floats(1, 4, 3, 8), floats(1, 2, 5, 8), floats(1, 2, 5, 6)
MOVES: list[tuple[str, Callable[..., Any], dict[str, Any]]] = [
    ("ExpandDims", lambda x: x[:, None], {"axis": 1}),
    ("Transpose", np.transpose, {"perm": [1, 0]}),
    ("Tile", lambda x: np.tile(x, (1, 2)), {"reps": integers(1, 2)}),
    ("Slice", lambda x: x[1:], dict(axis=integer(0), start=integer(1), stop=integer(9))),
    ("Take", lambda x: x[1], {"index": integer(1)}),
    ("BroadcastTo", lambda x: np.stack([x, x]), {"shape": integers(2, 3, 4)}),
    ("Stack", lambda x: x[None], {"tensors": [0]}),
    ("Flip", lambda x: x[::-1], {"axes": [0]}),
    ("Tril", np.tril, {}),
    ("Max", np.max, {}),
    ("Sum", np.sum, {"axes": [0, 1]}),
    ("Sort", np.sort, {"axis": 1}),
]
"""Nodes on unsigned integers."""
INDICES = np.array([[0, -1], [2, 1]], I64)

ROWS = [
    *(Row(name, [x], f) for name, x, f in UNARY),
    *(
        Row(name, [x.astype(dtype)], f, limit=4e-3)
        for name, x, f in UNARY
        if x.dtype == F
        for dtype in (H, B)
    ),
    *(
        Row(name, [a, b], f, names="a b", dtype=dtype, limit=1e-6 if dtype != H else 3e-3)
        for name, a, b, f, dtype in BINARY
    ),
    *(
        Row(name, [Z], lambda x, f=f, k=k, more=more: f(x, **more, **k), fields, dtype=dtype)
        for name, f, more, dtype in REDUCED
        for fields, k in SPANS
    ),
    Row("Var", [Z], lambda x: np.var(x, 1, ddof=1), {"axes": [1], "ddof": 1}),
    Row("Std", [Z.astype(H)], lambda x: np.std(x.astype(F), 1), {"axes": [1]}, limit=3e-3),
    Row("Sum", [BOOLS], lambda x: x.sum(1), {"axes": [1]}, dtype=I32),
    Row("Mean", [N], lambda x: x.mean(0), {"axes": [0]}, dtype=F),
    Row("Prod", [M], lambda x: x.prod(0), {"axes": [0]}),
    Row("Prod", [M[:, :3] * 4099], lambda x: x.prod(1, dtype=I32), {"axes": [1]}),
    Row("Prod", [M.astype(I64) * (2**31 + 1)], lambda x: x.prod(1), {"axes": [1]}),
    Row("Any", [BOOLS], lambda x: x.any(0), {"axes": [0]}),
    Row("Any", [BOOLS], np.any),
    Row("Any", [X], lambda x: x.any(keepdims=True), {"keepdims": 1}, dtype=bool),
    Row("All", [M], lambda x: x.all(), {}, dtype=bool),
    Row("Argmax", [X], lambda x: x.argmax(1), {"axis": -1}, dtype=U32),
    Row("Argmin", [X], lambda x: x.argmin(0)[None], {"axis": 0, "keepdims": 1}, dtype=U32),
    Row("Cumsum", [X], lambda x: x.cumsum(1), {"axis": 1}),
    Row("Cumsum", [N], lambda x: x[:, ::-1].cumsum(1)[:, ::-1], {"axis": 1, "reverse": 1}),
    Row("Cumsum", [X], lambda x: x.cumsum(0) - x, {"axis": 0, "inclusive": 0}),
    Row("Cumsum", [BOOLS], lambda x: x.cumsum(1), {"axis": 1}, dtype=I32),
    Row("Sort", [X], lambda x: np.sort(x, 0), {"axis": 0}),
    Row("Argsort", [X], lambda x: np.argsort(x, 1), {"axis": -1}, dtype=U32),
    Row("Partition", [X[0]], np.sort, {"kth": integer(3), "axis": 0}),
    Row("ArgPartition", [X[0, :1]], np.argsort, {"kth": integer(0), "axis": 0}, dtype=U32),
    Row("Round", [X], lambda x: np.round(x, 1), {"decimals": 1}),
    Row("Round", [X * 2], np.round),
    Row("Gelu", [X], lambda x: x * (1 + erf(x / 2**0.5)) / 2, {"approximate": "none"}),
    Row(
        "Gelu",
        [X],
        lambda x: x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))) / 2,
        {"approximate": "tanh"},
    ),
    Row("Softmax", [X], softmax, {"axis": -1}),
    Row("Softmax", [X.astype(H)], lambda x: softmax(x, 0), {"axis": 0, "precise": 1}, limit=3e-3),
    Row("AsType", [X * 3], np.trunc, {"scalar_type": 3}, dtype=I32),
    Row("AsType", [N], lambda x: x, {"scalar_type": 15}, dtype=B),
    Row("AsType", [N], lambda x: x != 0, {"scalar_type": 11}, dtype=bool),
    Row("AsType", [M], lambda x: x, {"scalar_type": 28}, dtype=U32),
    Row("Where", [BOOLS, X, Y[:1].astype(H)], np.where, names="condition x y", dtype=F, limit=1e-3),
    Row("Clip", [X, np.array(-1, F), np.array(0.5, F)], np.clip, names="x a_min a_max"),
    Row("Clip", [X, np.array(0.5, F)], lambda x, a: np.minimum(x, a), names="x a_max"),
    Row("Tril", [Z], lambda x: np.tril(x, 1), {"k": 1}),
    Row("Triu", [Z], np.triu),
    Row("Triu", [N.astype(np.int8)], lambda x: np.triu(x, -1), {"k": -1}),
    Row(
        "Roll",
        [Z],
        lambda x: np.roll(x, (1, -2), (0, 2)),
        {"shift": integers(1, -2), "axes": [0, 2]},
    ),
    Row("Flip", [Z], lambda x: x[:, ::-1, ::-1], {"axes": [1, -1]}),
    Row("FullLike", [X], lambda x: np.full_like(x, 2.5), {"v": real(2.5)}),
    Row(
        "FullLike", [X], lambda x: np.full(x.shape, 2), {"v": real(2), "scalar_type": 4}, dtype=I64
    ),
    Row("ExpandDims", [X], lambda x: x[..., None], {"axis": -1}),
    Row("Squeeze", [X[:1, None]], lambda x: x[0], {"dims": [0, -1]}),
    Row("Squeeze", [X[:1, None]], lambda x: x[0, 0]),
    Row("Reshape", [Z], lambda x: x.reshape(4, -1), {"shape": integers(4, -1)}),
    Row("Reshape", [N.astype(U32)], lambda x: x.reshape(-1), {"shape": integers(-1)}),
    *(
        Row(
            name,
            [M.astype(dtype)],
            f,
            fields,
            "" if "tensors" in fields else "x",
            U32 if name == "Sum" and dtype in (U8, np.uint16) else None,
            id=np.dtype(dtype).name,
        )
        for dtype in (U8, np.uint16, U32, np.uint64)
        for name, f, fields in MOVES
    ),
    Row(
        "BroadcastTo",
        [X[:, :1]],
        lambda x: np.broadcast_to(x, (2, 3, 5)),
        {"shape": integers(2, -1, 5)},
    ),
    Row("Tile", [X], lambda x: np.tile(x, 2), {"reps": integers(2)}),
    Row("Tile", [X], lambda x: np.tile(x, (2, 1, 3)), {"reps": integers(2, 1, 3)}),
    Row("Transpose", [Z], lambda x: x.transpose(2, 0, 1), {"perm": [2, 0, -2]}),
    Row(
        "AsStrided",
        [X],
        lambda x: np.lib.stride_tricks.sliding_window_view(x.reshape(-1)[1:], 3)[::2][:3],
        {"shape": integers(3, 3), "strides": integers(2, 1), "offset": 1},
    ),
    Row(
        "Pad",
        [X],
        lambda x: np.pad(x, ((1, 0), (0, 2)), constant_values=1.5),
        {"pad_width": integers(1, 0, 0, 2), "mode": "constant", "constant_value": 1.5},
    ),
    Row(
        "Pad",
        [N],
        lambda x: np.pad(x, ((1, 2), (0, 1)), "edge"),
        {"pad_width": integers(1, 2, 0, 1), "mode": "edge"},
    ),
    Row("Repeat", [X], lambda x: np.repeat(x, 3, 1), {"repeats": integer(3), "axis": 1}),
    *(
        Row(
            "Slice",
            [X],
            lambda x, a=a, b=b, s=s: x[:, slice(a, b if b > -9 else None, s)],
            {"axis": integer(-1), "start": integer(a), "stop": integer(b), "step": s},
        )
        for a, b, s in ((1, 3, 1), (-3, -1, 1), (0, 2**63 - 1, 2), (3, 0, -1), (-1, -(2**31), -2))
    ),
    Row(
        "SliceUpdate",
        [X, Y[:, :2].astype(H)],
        lambda x, u: np.concatenate([x[:, :1], u, x[:, 3:]], 1),
        {"axis": integer(1), "start": integer(-3), "stop": integer(3)},
        "dst update",
    ),
    Row(
        "IndexCopy",
        [X, Y[:2], np.array([2, -3])],
        lambda x, u, i: np.stack([u[1], x[1], u[0]]),
        {"axis": 0},
        "dst update indices",
    ),
    Row("Take", [X], lambda x: x[:, -1], {"index": integer(-1), "axis": 1}),
    Row("Take", [N.astype(U32), INDICES], lambda x, i: x[i], {"index": {"kind": 2, "tid": 1}}, "x"),
    Row(
        "Take",
        [Z, INDICES[0]],
        lambda x, i: x[:, i],
        {"index": {"kind": 2, "tid": 1}, "axis": 1},
    ),
    Row(
        "TakeAlongAxis",
        [X, np.argsort(X, 1)],
        lambda x, i: np.take_along_axis(x, i, 1),
        {"axis": 1},
        "x indices",
    ),
    Row("TakeAlongAxis", [X[0], INDICES[0]], lambda x, i: x[i], {"axis": 0}, "x indices"),
    Row(
        "TakeAlongAxis",
        [Z, INDICES[:, 1:, None].astype(I32)],
        lambda x, i: np.take_along_axis(x, np.broadcast_to(i % 3, (2, 1, 4)), 1),
        {"axis": -2},
        "x indices",
    ),
    Row(
        "TakeAlongAxis",
        [X[:1], INDICES.astype(np.int16)],
        lambda x, i: x[0][i],
        {"axis": 1},
        "x indices",
    ),
    Row(
        "Gather",
        [Z, np.array([1, 0]), np.array([[3], [1]], I32)],
        lambda x, a, b: np.stack(
            [x[i][:, j][None, :, None] for i, j in np.broadcast(a, b)]
        ).reshape(2, 2, 1, 3, 1),
        {"indices": [1, 2], "axes": [0, 2], "slice_sizes": [1, 3, 1]},
    ),
    Row(
        "ScatterAdd",
        [X, np.array([[0, 1, 0, 2]]), Y[:1]],
        lambda x, i, u: x + np.array([[0, 1, 2]]).T.__eq__(i) * u,
        {"axis": 0},
        "x indices updates",
    ),
    Row(
        "Concatenate",
        [X, N, Y.astype(H)],
        lambda *t: np.concatenate(t, 1),
        {"tensors": [0, 1, 2], "axis": 1},
        "",
        F,
    ),
    Row("Stack", [X, Y], lambda *t: np.stack(t, -1), {"tensors": [0, 1], "axis": -1}, ""),
    Row(
        "ARange",
        [X],
        lambda x: np.arange(2, 9, 3),
        {"start": integer(2), "stop": integer(9), "step": integer(3)},
        "",
        I32,
    ),
    Row(
        "ARange",
        [X],
        lambda x: np.arange(5, 0, -2),
        {"start": integer(5), "stop": integer(0), "step": integer(-2), "scalar_type": 6},
        "",
        F,
    ),
    Row(
        "Full",
        [X],
        lambda x: np.full((2, 3), 7),
        {"shape": integers(2, 3), "v": real(7), "scalar_type": 28},
        "",
        U32,
    ),
    Row(
        "Tri",
        [X],
        lambda x: np.tri(3, 4, 1),
        {"n": integer(3), "m": integer(4), "k": 1, "scalar_type": 11},
        "",
        bool,
    ),
    Row("Addmm", [X, Y.T.copy()], np.matmul, {"alpha": 3.0, "beta": 2.0}, "mat1 mat2"),
    Row(
        "Addmm",
        [X, Y.T.copy(), X[0, :3]],
        lambda a, b, c: 0.5 * (a @ b) + 2 * c,
        {"alpha": 0.5, "beta": 2.0},
        "mat1 mat2 bias",
    ),
    Row("Addmm", [Z, floats(2, 2, 4, 5)[:, :1]], np.matmul, {}, "mat1 mat2"),
    Row("Addmm", [Z, X[0]], np.matmul, {}, "mat1 mat2"),
    Row("Addmm", [X[0], Z.swapaxes(1, 2).copy()], np.matmul, {}, "mat1 mat2"),
    Row("Addmm", [X.astype(B), Y.T.astype(B)], np.matmul, {}, "mat1 mat2", limit=8e-3),
    Row(
        "GatherMm",
        [floats(4, 1, 6), floats(3, 6, 5), np.array([2, 0, 1, 2], U32)],
        lambda a, b, i: a @ b[i],
        {},
        "a b rhs_indices",
    ),
    Row(
        "GatherMm",
        [floats(4, 2, 6), floats(3, 6, 5), np.array([[3], [0]], U32), np.array([[2, 1]], U32)],
        lambda a, b, i, j: a[i] @ b[j],
        {"sorted_indices": 1},
        "a b lhs_indices rhs_indices",
    ),
    *(row for mode in MODES for row in quantized(*mode)),
    *quantized("affine", 4, 32, H),
    Row("RMSNorm", [Z], norm, {"eps": 1e-5}),
    Row("RMSNorm", [Z, X[0]], norm, {"eps": 1e-5}, "x weight"),
    Row("RMSNorm", [Z.astype(B), X[0].astype(B)], norm, {"eps": 1e-5}, "x weight", limit=8e-3),
    Row(
        "LayerNorm",
        [Z, X[0], Y[0]],
        lambda x, w, b: norm(x, w, b, True),
        {"eps": 1e-5},
        "x weight bias",
    ),
    *(
        Row(
            "Rope",
            [Q.astype(dtype)],
            lambda x, pairs=pairs: rope(x, 5, 6, 100.0, 0.5, pairs),
            {
                "offset": {"tid": 1, "vid": 0, "is_vid": 1},
                "dims": 6,
                "traditional": int(pairs),
                "base": 100.0,
                "scale": 0.5,
            },
            limit=1e-6 if dtype is F else 3e-3,
            id="value",
        )
        for pairs in (False, True)
        for dtype in (F, H)
    ),
    Row(
        "Rope",
        [floats(2, 1, 3, 8), np.array([7, 2], I32)],
        lambda x, i: np.stack(
            [rope(t, s, 8, 500000.0, 1, False) for t, s in zip(x, i, strict=True)]
        ),
        {"offset": {"tid": 1}, "dims": 8},
    ),
    Row(
        "Rope",
        [Q, np.array(4), np.array([1, 3, 9, 27], F)],
        lambda x, i, f: rope(x, 4, 8, 0, 1, False, f.astype(np.float64)),
        {"offset": {"tid": 1}, "dims": 8, "freqs": 2},
    ),
    Row("Sdpa", [Q, K, V], sdpa, {"scale": 0.5}, "q k v"),
    Row("Sdpa", [Q, K, V], lambda *t: sdpa(*t, causal=True), {"scale": 0.5, "causal": 1}, "q k v"),
    Row(
        "Sdpa",
        [floats(1, 2, 5, 8), K[:, :, :3].copy(), V[:, :, :3].copy()],
        lambda *t: sdpa(*t, causal=True),
        {"scale": 0.5, "causal": 1},
        "q k v",
    ),
    Row("Sdpa", [Q, K, V, np.array([[True], [False], [True]])], sdpa, {"scale": 0.5}, "q k v mask"),
    Row("Sdpa", [Q, K, V, floats(3, 5).astype(H)], sdpa, {"scale": 0.5}, "q k v mask"),
    Row(
        "Sdpa",
        [Q, K, V, np.tri(3, 5, 1, bool)[None, None]],
        sdpa,
        {"scale": 0.5},
        "q k v mask",
    ),
    Row(
        "Conv1D",
        [floats(2, 9, 4), floats(6, 3, 2)],
        lambda x, w: conv(x, w, stride=2, padding=1, dilation=2, groups=2),
        {"stride": 2, "padding": 1, "dilation": 2, "groups": 2},
        "x w",
    ),
    Row(
        "Conv2D",
        [floats(1, 6, 5, 3), floats(4, 3, 2, 3)],
        lambda x, w: conv(x, w, stride=(2, 1), padding=(1, 0)),
        {"stride_h": 2, "padding_h": 1},
        "x w",
    ),
    Row(
        "Conv2D",
        [floats(1, 6, 5, 3).astype(H), floats(4, 3, 2, 3).astype(H)],
        conv,
        {},
        "x w",
        limit=3e-3,
    ),
    Row("Conv3D", [floats(1, 3, 4, 5, 2), floats(2, 2, 2, 2, 2)], conv, {}, "x w"),
    Row(
        "ConvTranspose1D",
        [floats(2, 5, 4), floats(6, 3, 2)],
        lambda x, w: conv(x, w, True, stride=2, padding=1, output_padding=1, groups=2),
        {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2},
        "x w",
    ),
    Row(
        "ConvTranspose2D",
        [floats(1, 3, 4, 3), floats(4, 3, 2, 3)],
        lambda x, w: conv(x, w, True, stride=(1, 2), dilation=(2, 1)),
        {"stride_w": 2, "dilation_h": 2},
        "x w",
    ),
    Row(
        "ConvTranspose3D",
        [floats(1, 2, 3, 2, 2), floats(2, 2, 2, 2, 2)],
        lambda x, w: conv(x, w, True),
        {},
        "x w",
    ),
]
