"""Which values of one program are which of another: as many as agree, in the order of both.

Two programs of one model differ in what their flow has fused, split or moved: values that one has,
the other need not have. Those that correspond are found as for two texts, by the best monotone
alignment: pairs of as many elements that agree count most, then pairs of the same operator.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

SAMPLE = 4096
"""So many elements of a value are looked at to find its partner."""

AGREES, SAME_OPERATOR, SIMILAR = 4.0, 1.0, 0.7
"""What a pair is worth: within tolerance; of one kind; and how similar it must be otherwise."""

KINDS = {
    "addmm": "linear", "mm": "linear", "fullyconnected": "linear",
    "conv1d": "convolution", "conv2d": "convolution", "depthwiseconv2d": "convolution",
    "dwconv": "convolution", "convtranspose2d": "convolution", "deconvolution": "convolution",
    "batchmatrixmultiply": "bmm",
    "multiply": "mul", "subtract": "sub", "divide": "div", "negate": "neg",
    "squareroot": "sqrt", "reciprocalsquareroot": "rsqrt", "squaring": "square",
    "maximum": "maximum", "minimum": "minimum",
    "relu": "clamp", "hardtanh": "clamp", "relu6": "clamp", "clamp_min": "clamp",
    "leakyrelu": "leaky_relu",
    "maxpooling": "max_pool2d", "maxpooling2d": "max_pool2d",
    "max_pool2d_with_indices": "max_pool2d",
    "averagepooling": "avg_pool2d", "avgpooling2d": "avg_pool2d",
    "globalaveragepooling": "mean", "globalavgpooling2d": "mean",
    "transpose": "permute", "permute_copy": "permute", "statictranspose": "permute",
    "concatenate": "cat", "concatenate2": "cat", "concatenate3": "cat", "concatenate4": "cat",
    "concatenate5": "cat", "ceiling": "ceil",
    "safe_softmax": "softmax",
    "view_copy": "view", "et_view": "view", "reshape": "view", "staticreshape": "view",
    "clone_dim_order": "clone", "et_copy_index": "stack",
    "copy": "view", "staticslice": "slice", "slice_copy": "slice",
    "staticconstantpad": "pad", "constantpad": "pad", "constant_pad_nd": "pad",
    "resizebilinear": "upsample_bilinear2d", "staticresizebilinear2d": "upsample_bilinear2d",
}  # fmt: skip
"""Operators, and nodes as XnnpackBackend calls them, that do the same under another name."""


def kind(name: str) -> str:
    """"aten::add.out" -> "add", "Fully Connected (NC, F32) GEMM" -> "linear"."""
    text = name.rpartition("::")[2].partition(".")[0] if "::" in name else name.partition(" (")[0]
    text = text.lower().replace(" ", "").strip("_")
    return KINDS.get(text, text)


@dataclass(frozen=True)
class Step:
    """A value that a program has computed."""

    where: str
    name: str
    data: Array
    precision: float
    """How far apart numbers around 1 are: the coarsest of this value and those before it."""
    quantized: bool
    """Whether that is because of integers that stand for other numbers."""

    @cached_property
    def views(self) -> list[tuple[tuple[int, ...], Array]]:
        """Shapes, and samples in their order: as it is, and channels last as channels first."""
        found = [self.data]
        if self.data.ndim >= 3:
            found.append(np.moveaxis(self.data, -1, 1))
        return [(view.shape, sample(view)) for view in found]

    @cached_property
    def kind(self) -> str:
        """As `kind`."""
        return kind(self.name)


def sample(array: Array) -> Array:
    """Evenly spaced elements in C order as float64; what is not finite as 0."""
    flat = array.reshape(-1)
    if flat.size > SAMPLE:
        flat = flat[np.linspace(0, flat.size - 1, SAMPLE).astype(np.int64)]
    wide: Array = np.abs(flat) if flat.dtype.kind == "c" else flat
    return np.nan_to_num(wide.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)


def _sizes(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


def layouts(value: Array, shape: tuple[int, ...]) -> Iterator[Array]:
    """A value in the shape of another: as it is, and with channels moved either way."""
    views = [value]
    if value.ndim >= 3:
        views += [np.moveaxis(value, -1, 1), np.moveaxis(value, 1, -1)]
    for view in views:
        if _sizes(view.shape) == _sizes(shape):
            yield view.reshape(shape)


def _distance(a: Step, b: Step) -> float | None:
    """|a - b| / (|a| + |b|) of the samples, from 0 to 1, in the layouts in which it is smallest;
    None where no layout fits."""
    best: float | None = None
    for i, (shape, x) in enumerate(a.views):
        for j, (other, y) in enumerate(b.views):
            if i + j > 1 or _sizes(shape) != _sizes(other):
                continue
            both = float(np.linalg.norm(x) + np.linalg.norm(y))
            gap = float(np.linalg.norm(x - y)) / both if both else 0.0
            best = gap if best is None else min(best, gap)
    return best


Known = Mapping[str, set[str]]
"""Kinds of one program's operators, by kind of the other's that agree with them."""


def _worth(a: Step, b: Step, known: Known) -> float:
    """Of a pair; 0 is none."""
    if a.data.size != b.data.size or (a.data.dtype.kind == "b") != (b.data.dtype.kind == "b"):
        return 0.0
    distance = _distance(a, b)
    if distance is None:
        return 0.0
    same = a.kind in known.get(b.kind, (b.kind,))
    if 2 * distance <= math.sqrt(max(a.precision, b.precision)):
        return AGREES - distance + SAME_OPERATOR * same
    if same:
        return SAME_OPERATOR + 1 - distance
    return 1 - distance if 1 - distance > SIMILAR else 0.0


def _agree(a: Step, b: Step) -> bool:
    """Whether values are the same, within half of the digits."""
    distance = _distance(a, b)
    return distance is not None and 2 * distance <= math.sqrt(max(a.precision, b.precision))


def align(a: Sequence[Step], b: Sequence[Step]) -> list[tuple[int, int]]:
    """The pairs of the best monotone alignment.

    Where some do not agree, those that do tell which operators correspond: a convolution of one
    program may be what convolution and activation are of the other.
    """
    pairs = _align(a, b, {})
    known: dict[str, set[str]] = {}
    agree = [(i, j) for i, j in pairs if _agree(a[i], b[j])]
    for i, j in agree:
        known.setdefault(b[j].kind, set()).add(a[i].kind)
    return pairs if len(agree) == len(pairs) else _align(a, b, known)


def _align(a: Sequence[Step], b: Sequence[Step], known: Known) -> list[tuple[int, int]]:
    worth = np.zeros((len(a) + 1, len(b) + 1))
    best = np.zeros_like(worth)
    sizes: dict[int, list[int]] = {}
    for j, step in enumerate(b):
        sizes.setdefault(step.data.size, []).append(j)
    for i, step in enumerate(a):
        for j in sizes.get(step.data.size, ()):
            worth[i, j] = _worth(step, b[j], known)
    for i in range(len(a) - 1, -1, -1):
        take = worth[i, :-1] + np.where(worth[i, :-1] > 0, best[i + 1, 1:], 0)
        take = np.maximum(take, best[i + 1, :-1])
        best[i, :-1] = np.maximum.accumulate(take[::-1])[::-1]
    pairs, i, j = [], 0, 0
    while i < len(a) and j < len(b):
        if worth[i, j] > 0 and best[i, j] == worth[i, j] + best[i + 1, j + 1]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif best[i, j] == best[i + 1, j]:
            i += 1
        else:
            j += 1
    return pairs
