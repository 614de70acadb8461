"""What nodes of MLX compute, in NumPy; convolutions in torch."""

from typing import Any

import ml_dtypes
import numpy as np

Array = np.ndarray
F, H, B = np.float32, np.float16, ml_dtypes.bfloat16
I32, I64, U8, U32 = np.int32, np.int64, np.uint8, np.uint32
random = np.random.default_rng(0)


def floats(*shape: int, low: float = -2, high: float = 2, dtype: Any = F) -> Array:
    return random.uniform(low, high, shape).astype(dtype)


def ints(*shape: int, low: int = -5, high: int = 6, dtype: Any = I32) -> Array:
    return random.integers(low, high, shape).astype(dtype)


def erf(x: Array) -> Array:
    import math

    return np.vectorize(math.erf)(x)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x.astype(np.float64)))


def softmax(x: Array, axis: int = -1) -> Array:
    e = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def unpacked(w: Array, bits: int) -> Array:
    """Return the codes of rows of words."""
    stream = np.unpackbits(w.view(U8), axis=-1, bitorder="little")
    codes = stream.reshape(*w.shape[:-1], -1, bits).astype(np.int64)
    return (codes << np.arange(bits)).sum(-1)


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])


def dequantized(w: Array, scales: Array, biases: Any, mode: str, bits: int, group: int) -> Array:
    codes = unpacked(w, bits)
    if mode == "affine":
        values, factors = codes.astype(np.float64), scales.astype(np.float64)
    else:
        is_byte = mode == "mxfp8"
        values = codes.astype(U8).view(ml_dtypes.float8_e4m3fn) if is_byte else E2M1[codes]
        kind = ml_dtypes.float8_e4m3fn if mode == "nvfp4" else ml_dtypes.float8_e8m0fnu
        factors = scales.view(kind).astype(np.float64)
    result = values.astype(np.float64) * np.repeat(factors, group, -1)
    return result if biases is None else result + np.repeat(biases.astype(np.float64), group, -1)


def packed(mode: str, bits: int, group: int, *batch: int, width: int = 64, dtype: Any = F) -> Any:
    """Return random weights [*batch, width], scales and biases."""
    w = random.integers(0, 1 << 32, (*batch, width * bits // 32), dtype=np.uint64).astype(U32)
    shape = (*batch, width // group)
    if mode == "affine":
        return [w, floats(*shape, low=0.1, high=1, dtype=dtype), floats(*shape, dtype=dtype)]
    if mode == "mxfp8":
        w &= U32(0x7E7E7E7E)  # no NaN
    low, high = (0x20, 0x50) if mode == "nvfp4" else (124, 130)
    return [w, random.integers(low, high, shape).astype(U8)]


def rope(
    x: Array, start: float, dims: int, base: float, scale: float, pairs: bool, freqs: Any = None
) -> Array:
    half = dims // 2
    steps = base ** (-2 * np.arange(half) / dims) if freqs is None else 1 / freqs
    angle = (start + np.arange(x.shape[-2]))[:, None] * scale * steps
    result = x.astype(np.float64).copy()
    a = result[..., 0:dims:2].copy() if pairs else result[..., :half].copy()
    b = result[..., 1:dims:2].copy() if pairs else result[..., half:dims].copy()
    first, second = a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)
    if pairs:
        result[..., 0:dims:2], result[..., 1:dims:2] = first, second
    else:
        result[..., :half], result[..., half:dims] = first, second
    return result


HIDDEN = float(np.finfo(F).min)
"""The score of a key that a query does not see."""


def sdpa(q: Array, k: Array, v: Array, mask: Any = None, causal: bool = False) -> Array:
    repeats = q.shape[1] // k.shape[1]
    k, v = (np.repeat(t.astype(np.float64), repeats, 1) for t in (k, v))
    scores = q @ k.swapaxes(-1, -2) * 0.5
    if mask is not None:
        scores = np.where(mask, scores, HIDDEN) if mask.dtype == bool else scores + mask
    if causal:
        queries, keys = scores.shape[-2:]
        scores = np.where(np.tri(queries, keys, keys - queries, bool), scores, HIDDEN)
    return softmax(scores) @ v


def norm(x: Array, weight: Any = None, bias: Any = None, centred: bool = False) -> Array:
    x = x.astype(np.float64)
    x = x - x.mean(-1, keepdims=True) if centred else x
    y = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def conv(x: Array, w: Array, transposed: bool = False, **options: Any) -> Array:
    """Return a convolution of torch, with channels last."""
    import torch

    dims = x.ndim - 2
    groups = options.get("groups", 1)
    first = torch.from_numpy(np.moveaxis(x, -1, 1).copy()).double()
    weight = torch.from_numpy(np.moveaxis(w, -1, 1).copy()).double()
    if transposed:
        parts = weight.chunk(groups, 0)
        weight = torch.cat([part.transpose(0, 1) for part in parts])
    name = f"conv{'_transpose' if transposed else ''}{dims}d"
    result = getattr(torch.nn.functional, name)(first, weight, **options)
    return np.moveaxis(result.numpy(), 1, -1)
