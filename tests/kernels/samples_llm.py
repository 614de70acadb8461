"""Sample arguments of the operators in csrc/kernels/llm, by operator name."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.kernels.eager import Samples, array, of_self


CHANGED: dict[str, tuple[int, ...]] = {
    "llama::update_cache.out": (1,),
    "llama::update_cache_with_indices.out": (1,),
    "llama::sdpa_with_kv_cache.out": (3, 4),
}
"""Operator -> the positions of arguments that it changes. Their new values precede the outputs;
that of an update is a placeholder, and no result."""

# Batch, queries, heads of queries and of keys, length of a head, size of the cache, start.
SHAPES = [
    *((1, 1, 2, 1, 4, 8, 3), (1, 2, 2, 2, 3, 5, 0), (2, 1, 2, 2, 2, 4, 3)),
    *((1, 3, 1, 1, 5, 3, 0), (1, 1, 4, 2, 64, 130, 17), (2, 3, 4, 4, 20, 50, 0)),
    *((1, 40, 6, 2, 64, 300, 250), (2, 130, 4, 1, 36, 300, 100), (1, 5, 12, 12, 64, 200, 190)),
    *((1, 150, 3, 3, 17, 150, 0), (1, 1, 1, 1, 1, 1, 0), (1, 17, 1, 1, 16, 90, 71)),
    (3, 2, 9, 1, 33, 70, 68),
]
EMPTY = [(1, 0, 2, 1, 4, 8, 3), (0, 2, 2, 1, 4, 8, 3), (1, 2, 0, 1, 4, 8, 3), (1, 2, 2, 1, 0, 8, 3)]
LAST = (3, 0, 2, 1)  # a dim order in which the numbers of a head are apart


def mask_of(rng: np.random.Generator, queries: int, keys: int) -> np.ndarray:
    """Return a mask that hides some keys, all of them for the last of several queries."""
    mask = rng.standard_normal((queries, keys)).astype(np.float32)
    mask[rng.random(mask.shape) < 0.4] = -np.inf
    mask[:1, :1] = 0
    if queries > 1:
        mask[-1] = -np.inf
    return mask


def inputs(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: str, order: Any = None
) -> list[np.ndarray]:
    """Return q and the caches."""
    batch, queries, heads, kv_heads, dim, size, _ = shape
    caches = [array(rng, (batch, size, kv_heads, dim), dtype, order) for _ in range(2)]
    return [array(rng, (batch, queries, heads, dim), dtype, order), *caches]


def settings(rng: np.random.Generator, shape: tuple[int, ...]) -> Iterator[list]:
    """Yield start, mask, dropout, causal, scale."""
    _, queries, _, _, _, size, start = shape
    yield [start, None, 0.0, True, None]
    yield [start, None, 0.5, False, 0.3]
    yield [0, mask_of(rng, queries, size), 0.0, False, None]


def attention(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape in SHAPES + EMPTY:
        for rest in settings(rng, shape):
            yield [*inputs(rng, shape, dtype), *rest]
    for shape in SHAPES[:6:2]:
        for rest in settings(rng, shape):
            yield [*inputs(rng, shape, dtype, LAST), *rest]
    q, k, v = inputs(rng, SHAPES[0], dtype)
    yield [q, k, v, 8, None, 0.0, True, None]
    yield [q, k, v, -1, None, 0.0, True, None]
    yield [q, k, v, 3, np.zeros((1, 7), np.float32), 0.0, False, None]
    yield [q, k, v, 3, np.zeros((1, 8), np.float32), 0.0, True, None]
    yield [q, k, v[:, 1:].copy(), 3, None, 0.0, True, None]


def attention_with_update(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for shape in SHAPES + EMPTY[1:]:
        batch, queries, _, kv_heads, dim, size, start = shape
        for order in (None, LAST):
            q, *caches = inputs(rng, shape, dtype, order)
            new = [array(rng, (batch, queries, kv_heads, dim), dtype, order) for _ in range(2)]
            yield [q, *new, *caches, start, queries, None, 0.0, True, None]
        mask = mask_of(rng, queries, size)
        yield [q, *new, *caches, start, queries, mask, 0.0, False, None]
    yield [q, *new, *caches, start, size, None, 0.0, True, None]


def bytes_of(rng: np.random.Generator, shape: tuple[int, ...]) -> list[np.ndarray]:
    """Return int8 numbers, and the zero point and scale of each row."""
    zeros = rng.integers(-9, 10, (*shape[:-1], 1)).astype(np.int8)
    scales = rng.uniform(0.01, 0.05, (*shape[:-1], 1)).astype(np.float32)
    return [rng.integers(-128, 128, shape).astype(np.int8), zeros, scales]


def quantized_attention(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for args in attention(rng, dtype) if dtype != "int8" else ():
        yield [*args, *[None] * 6, False]
    for shape in SHAPES + EMPTY if dtype == "int8" else []:
        for rest in settings(rng, shape):
            for heads_first in (False, True):
                turned = [
                    np.ascontiguousarray(a.swapaxes(1, 2)) if heads_first else a
                    for a in inputs(rng, shape, dtype)
                ]
                (q, *qp), (k, *kp), (v, *vp) = (bytes_of(rng, a.shape) for a in turned)
                yield [q, k, v, *rest, *qp, *kp, *vp, heads_first]
    if dtype == "int8":
        yield [q, k, v, *rest, *qp, *kp, *vp, not heads_first]
        yield [q, k, v, *rest, None, *qp[1:], *kp, *vp, heads_first]
        yield [q, k, v, *rest, *qp, *kp, vp[0], vp[1].astype(np.float64), heads_first]


def updates(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for batch, n, heads, dim, size, start in (
        *((1, 1, 2, 4, 8, 0), (1, 1, 2, 4, 8, 7), (2, 3, 2, 2, 5, 2), (1, 5, 1, 3, 5, 0)),
        *((2, 40, 3, 16, 90, 31), (1, 0, 2, 2, 3, 1), (0, 1, 2, 2, 3, 1)),
    ):
        for order in (None, LAST):
            value = array(rng, (batch, n, heads, dim), dtype, order)
            yield [value, array(rng, (batch, size, heads, dim), dtype), start]
            yield [value, array(rng, (batch, size, heads, dim), dtype, LAST), start]
    value, cache = array(rng, (1, 2, 1, 2), dtype), array(rng, (1, 4, 1, 2), dtype)
    other = {"float32": "int32", "int8": "uint8", "int64": "float64"}.get(dtype)
    if other:
        yield [value, cache.astype(other), 1]
    for start in (-1, 3, 4):
        yield [value, cache, start]
    yield [value, cache[:, :, :, :1].copy(), 0]


def updates_by_index(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for value, cache, start in updates(rng, dtype):
        low, high = (0, cache.shape[1]) if 0 <= start < 3 else (-1, cache.shape[1] + 1)
        yield [value, cache, start, rng.integers(low, high, value.shape[:2])]
    yield [value, cache, 0, np.array([[3, 3]])]
    yield [value, cache, 0, np.array([[3, 0]], np.int32)]
    yield [value, cache, 0, np.array([3, 0])]


HADAMARDS = [
    *(((1,), None), ((2, 4), None), ((3, 64), (1, 0)), ((2, 3, 28), None)),
    *(((2, 28 * 8), (1, 0)), ((56,), None), ((0, 8), None), ((2, 2048), None)),
    *(((9, 4096), None), ((2, 12), None), ((2, 84), None), ((2, 0), None), ((), None)),
]
TENSORS = [((), None), ((0, 3), None), ((2, 3, 4), None), ((2, 3, 4), (2, 0, 1)), ((70, 900), None)]


TILES = [
    *(((3, 4, 6), 2), ((1, 3, 3), 3), ((2, 4, 2), 1), ((0, 4, 2), 2), ((2, 0, 4), 2)),
    ((3, 64, 96), 32),
]
WRONG_TILES = [((3, 4, 6), 4), ((3, 4, 6), 0), ((3, 4, 6), -2), ((4, 6), 2)]
# Batch, heads of queries and of keys, tokens, keys, values.
STATES = [
    *((1, 1, 1, 1, 2, 3), (1, 2, 2, 3, 4, 4), (2, 2, 1, 5, 3, 2), (1, 4, 2, 40, 16, 33)),
    *((1, 4, 4, 1, 64, 48), (2, 6, 3, 7, 32, 128), (1, 2, 1, 0, 3, 2), (0, 2, 1, 3, 3, 2)),
    *((1, 2, 1, 3, 0, 2), (1, 2, 1, 3, 2, 0)),
]


def delta_rules(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    def state(batch, heads, kv_heads, tokens, keys, values, by_key, order) -> list:
        k = array(rng, (batch, kv_heads, tokens, keys), dtype, order)
        norm = np.sqrt(np.sum(np.abs(k.astype(np.complex128)) ** 2, -1, keepdims=True)) + 1
        if k.dtype.kind in "fcV":
            k = (k / norm.astype(k.dtype)).astype(k.dtype)
        factors = (batch, kv_heads, tokens, keys)[: 4 if by_key else 3]
        decay, beta = (rng.uniform(0.2, 1, s).astype(k.dtype) for s in (factors, k.shape[:3]))
        return [
            *(array(rng, (batch, heads, tokens, keys), dtype, order), k),
            *(array(rng, (batch, kv_heads, tokens, values), dtype, order), decay, beta),
            array(rng, (batch, kv_heads, keys, values), dtype, order),
        ]

    for shape in STATES:
        for by_key in (False, True):
            for order in (None, LAST):
                yield state(*shape, by_key, order)
    yield state(1, 3, 2, 2, 2, 2, True, None)
    *rest, beta, last = state(1, 2, 2, 2, 2, 2, True, None)
    yield [*rest, beta[:, :, :1].copy(), last]
    yield [*rest, beta, last[:, :, :1].copy()]
    yield [*rest[:3], rest[3][:, :1].copy(), beta, last]


def packed(whole: np.ndarray, scales: np.ndarray, bits: int) -> np.ndarray:
    """Return integers (rows, columns) with scales (rows, groups) in torchao's layout: blocks of 8
    rows, groups, steps of 16 columns; then the scales of a group, and unused sums."""
    rows, columns = whole.shape
    groups = scales.shape[1]
    whole, scales = (np.pad(a, ((0, -rows % 8), (0, 0))) for a in (whole, scales))
    steps = whole.reshape(-1, 8, groups, columns // groups // 16, 2, 8).transpose(0, 2, 3, 4, 1, 5)
    parts = [b"\0" * 64]
    for block, factors in zip(steps, scales.reshape(-1, 8, groups), strict=True):
        for g in range(groups):
            numbers = block[g].astype(np.int8)
            if bits == 4:
                low, high = (numbers.reshape(-1, 2, 16) + 8).astype(np.uint8).swapaxes(0, 1)
                numbers = low | high << 4
            parts += [numbers.tobytes(), factors[:, g].astype(np.float32).tobytes(), b"\0" * 32]
    return np.frombuffer(b"".join(parts), np.uint8)


# Tokens, experts, active ones, dim, hidden, length of a group, bits.
EXPERTS = [
    *((1, 2, 1, 16, 16, 16, 8), (3, 4, 2, 32, 16, 16, 4), (5, 3, 3, 64, 32, 32, 4)),
    *((0, 2, 1, 16, 16, 16, 4), (2, 3, 2, 48, 144, 48, 8)),
]


def experts(rng: np.random.Generator, dtype: str) -> Iterator[list]:
    for tokens, count, active, dim, hidden, group, bits in EXPERTS:
        weights = []
        for rows, columns in ((2 * hidden, dim), (dim, hidden)):
            whole = rng.integers(-(1 << bits - 1), 1 << bits - 1, (count, rows, columns))
            scales = rng.uniform(0.5, 1, (count, rows, columns // group)) / (4 << bits)
            weights.append(np.stack([packed(w, s, bits) for w, s in zip(whole, scales)]))
        x, gate = array(rng, (tokens, dim), dtype), array(rng, (count, dim), dtype)
        numbers = [active, count, hidden, dim, group, bits]
        yield [x, gate, array(rng, (0,), dtype), *weights, *numbers, "softmax", 1.0]
        yield [x, gate, array(rng, (count,), dtype), *weights, *numbers, "sigmoid", 2.5]
        yield [x, gate, array(rng, (0,), dtype), *weights, *numbers, "sigmoid", 1.0]
    short = [w[:, :-1].copy() for w in weights]
    none, some = array(rng, (0,), dtype), array(rng, (count,), dtype)
    for bias, *rest in (
        [some, *weights, *numbers, "softmax"],
        [none, *weights, *numbers, "other"],
        [none, *weights, count + 1, *numbers[1:], "softmax"],
        [none, *weights, *numbers[:-1], 5, "softmax"],
        [none, short[0], weights[1], *numbers, "softmax"],
        [none, weights[0], short[1], *numbers, "softmax"],
    ):
        yield [x, gate, bias, *rest, 1.0]


SAMPLES: dict[str, Samples] = {
    "llama::channelwise_gated_delta_rule.out": delta_rules,
    "llama::custom_quantized_sdpa.out": quantized_attention,
    "llama::custom_sdpa.out": attention,
    "llama::fallback.out": of_self(*((*layout, []) for layout in TENSORS)),
    "llama::fast_hadamard_transform.out": of_self(*((*layout, []) for layout in HADAMARDS)),
    "llama::gated_delta_rule.out": delta_rules,
    "llama::quantized_moe_ffn.out": experts,
    "llama::sdpa_with_kv_cache.out": attention_with_update,
    "llama::update_cache.out": updates,
    "llama::update_cache_with_indices.out": updates_by_index,
    "preprocess::tile_crop.out": of_self(
        *((shape, o, [size]) for shape, size in TILES for o in (None, (1, 2, 0), (2, 1, 0))),
        *((shape, None, [size]) for shape, size in WRONG_TILES),
    ),
}
