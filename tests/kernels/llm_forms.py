"""The operators of executorch.extension.llm in eager PyTorch: the expected results.

They are written out, because the official kernels round differently (they may compute in float16),
and end the process on wrong arguments; test_llm.py compares them with those kernels. Wrong
arguments raise ValueError or TypeError. Changed arguments (samples_llm.CHANGED) precede the
results.

float64 stands for the exact numbers of narrower dtypes; `check_dtypes` rejects it where the
operators do.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

Tensors = list[torch.Tensor]
SINGLE = (torch.float32, torch.float16, torch.bfloat16, torch.float64)  # float64: exact results


def need(condition: bool, message: str, kind: type[Exception] = ValueError) -> None:
    if not condition:
        raise kind(message)


def wider(t: torch.Tensor) -> torch.Tensor:
    return t if t.dtype == torch.float64 else t.float()


def attend(q, k, v, start, mask, causal, scale, terms) -> torch.Tensor:
    """Return softmax(q k^T * scale + mask) v of tensors [batch, heads, n, dim].

    With `terms`, return the magnitude of its terms instead: |v| by weight, times one and the terms
    of the exponent, whose errors are relative errors of weights.
    """
    need(q.dim() == k.dim() == v.dim() == 4, "rank")
    queries, size = q.shape[2], k.shape[2]
    need(k.shape == v.shape and k.shape[0] == q.shape[0] and k.shape[3] == q.shape[3], "shapes")
    need(k.shape[1] > 0 and q.shape[1] % k.shape[1] == 0, "heads")
    mask = None if mask is None or not mask.numel() else mask
    keys = size if mask is not None else start + queries
    need(mask is None or not causal, "causal with a mask")
    need(mask is None or mask.shape == (queries, size), "mask")
    need(mask is not None or (start >= 0 and keys <= size), "start")
    q, k, v = (wider(t) for t in (q, k[:, :, :keys], v[:, :, :keys]))
    k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], 1) for t in (k, v))
    factor = scale if scale is not None else 1 / math.sqrt(q.shape[3] or 1)
    scores = q @ k.transpose(2, 3) * factor
    if mask is not None:
        scores = scores + mask.to(scores.dtype)
    if causal:
        hidden = torch.ones(queries, keys, dtype=torch.bool).triu(start + 1)
        scores = scores.masked_fill(hidden, -math.inf)
    weights = scores.softmax(-1)
    if not terms:
        return weights @ v
    sizes = 1 + q.abs() @ k.abs().transpose(2, 3) * abs(factor)
    sizes += 0 if mask is None else mask.masked_fill(mask.isinf(), 0).abs()
    sizes += (weights * sizes).sum(-1, keepdim=True)
    return (weights * sizes) @ v.abs()


def custom_sdpa(q, k, v, start, mask, dropout, causal, scale, terms=False) -> Tensors:
    need(q.dtype in SINGLE and q.dtype == k.dtype == v.dtype, "dtype", TypeError)
    turned = [t.transpose(1, 2) for t in (q, k, v)]
    result = attend(*turned, start, mask, causal, scale, terms)
    return [result.transpose(1, 2).contiguous().to(q.dtype)]


def custom_quantized_sdpa(q, k, v, *rest, terms=False) -> Tensors:
    start, mask, _, causal, scale, *zeros_and_scales, heads_first = rest
    if q.dtype != torch.int8:
        return custom_sdpa(q, k, v, *rest[:5], terms)
    plain = []
    pairs = zip(zeros_and_scales[::2], zeros_and_scales[1::2], strict=True)
    for t, (zeros, scales) in zip((q, k, v), pairs, strict=True):
        need(t.dtype == torch.int8 and zeros is not None and scales is not None, "int8", TypeError)
        need(zeros.shape == scales.shape == (*t.shape[:-1], 1), "parameters")
        need(zeros.dtype == torch.int8, "zero points", TypeError)
        real = (t.to(scales.dtype) - zeros) * scales
        plain.append(real if heads_first else real.transpose(1, 2))
    rows = attend(*plain, start, mask, causal, scale, terms)
    return [(rows if heads_first else rows.transpose(1, 2)).contiguous()]


def positions(value: Any, cache: Any) -> Any:
    need(value.dim() == cache.dim() == 4, "rank")
    need(value.shape[:1] + value.shape[2:] == cache.shape[:1] + cache.shape[2:], "shapes")
    need(value.element_size() == cache.element_size(), "element size", TypeError)
    return value if value.dtype == cache.dtype else value.contiguous().view(cache.dtype)


def update_cache(value: Any, cache: Any, start: int) -> Tensors:
    value, n = positions(value, cache), value.shape[1]
    need(0 <= start < cache.shape[1] and start + n <= cache.shape[1], "start")
    cache = cache.clone()
    cache[:, start : start + n] = value
    return [cache]


def update_cache_with_indices(value: Any, cache: Any, start: int, at: Any) -> Tensors:
    value, cache = positions(value, cache), cache.clone()
    need(at.dtype == torch.int64, "indices", TypeError)
    need(at.shape == value.shape[:2], "indices")
    need(bool(((at >= 0) & (at < cache.shape[1])).all()), "indices out of range")
    for b in range(value.shape[0]):
        for s in range(value.shape[1]):
            cache[b, at[b, s]] = value[b, s]
    return [cache]


def sdpa_with_kv_cache(q, k, v, k_cache, v_cache, start, length, *rest, **terms) -> Tensors:
    need(0 <= length <= k_cache.shape[1] - start, "seq_len")
    need(k.dtype == k_cache.dtype and v.dtype == v_cache.dtype, "dtype", TypeError)
    (k_cache,), (v_cache,) = update_cache(k, k_cache, start), update_cache(v, v_cache, start)
    return [k_cache, v_cache, *custom_sdpa(q, k_cache, v_cache, start, *rest, **terms)]


def of_order_28() -> torch.Tensor:
    """Return the Hadamard matrix of order 28 that the official kernel has, from the first rows of
    its circulant blocks."""
    rows = [
        "+------ ++----+ +-+--+- +--++--",
        "--++++- +------ -++--++ +-+--+-",
        "-+-++-+ +--++-- +------ --++++-",
        "-++--++ -+-++-+ ++----+ +------",
    ]

    def block(signs: str) -> torch.Tensor:
        first = torch.tensor([1.0 if c == "+" else -1.0 for c in signs])
        return torch.stack([first.roll(i) for i in range(7)])

    result = torch.cat([torch.cat([block(signs) for signs in row.split()], 1) for row in rows])
    need(torch.equal(result @ result.T, 28 * torch.eye(28)), "not a Hadamard matrix")
    return result


def fast_hadamard_transform(x: Any, terms: bool = False) -> Tensors:
    need(x.is_floating_point(), "dtype", TypeError)
    need(x.dim() > 0, "rank")
    n = x.shape[-1]
    part = n if n % 28 else n // 28
    need(part > 0 and part & (part - 1) == 0, "size")
    matrix = torch.ones(1, 1)
    while matrix.shape[0] < part:
        matrix = torch.kron(torch.tensor([[1.0, 1.0], [1.0, -1.0]]), matrix)
    matrix = matrix if part == n else torch.kron(of_order_28(), matrix)
    matrix = matrix.to(wider(x).dtype) / math.sqrt(part)
    return [(wider(x).abs() @ matrix.abs() if terms else wider(x) @ matrix.T).to(x.dtype)]


def fallback(x: Any) -> Tensors:
    return [x.clone()]


def tile_crop(x: Any, size: int) -> Tensors:
    need(x.dim() == 3 and size > 0, "rank and size")
    channels, height, width = x.shape
    need(height % size == 0 and width % size == 0, "size")
    split = x.reshape(channels, height // size, size, width // size, size)
    count = (height // size) * (width // size)
    return [split.permute(1, 3, 0, 2, 4).reshape(count, channels, size, size)]


def gated_delta_rule(q: Any, k: Any, v: Any, decay: Any, beta: Any, state: Any) -> list[Any]:
    arguments = (q, k, v, decay, beta, state)
    need(q.dtype in (torch.float32, torch.float64), "dtype", TypeError)
    need(all(t.dtype == q.dtype for t in arguments), "dtypes", TypeError)
    batch, heads, tokens, keys = k.shape
    values = v.shape[3]
    need(q.shape[1] % heads == 0 and q.shape == (batch, q.shape[1], tokens, keys), "query")
    need(v.shape[:3] == k.shape[:3] and beta.shape == k.shape[:3], "value, beta")
    need(decay.shape in (k.shape, k.shape[:3]), "decay")
    need(state.shape == (batch, heads, keys, values), "state")
    group, out = q.shape[1] // heads, q.new_empty(batch, q.shape[1], tokens, values)
    decay = decay if decay.dim() == 4 else decay[..., None]
    for t in range(tokens):
        state = state * decay[:, :, t, :, None]
        result = (state * k[:, :, t, :, None]).sum(-2)
        change = beta[:, :, t, None] * (v[:, :, t] - result)
        state = state + k[:, :, t, :, None] * change[:, :, None]
        out[:, :, t] = (state.repeat_interleave(group, 1) * q[:, :, t, :, None]).sum(-2)
    return [out, state.clone()]


def unpacked(blob: Any, rows: int, columns: int, group: int, bits: int) -> torch.Tensor:
    """Return the matrix that samples_llm.packed packed."""
    data, blocks, groups = blob.numpy().tobytes()[64:], -(-rows // 8), columns // group
    size = group * bits + 64  # of a group in a block
    need(len(data) >= blocks * groups * size, "packed weights")
    matrix = np.zeros((blocks * 8, columns), np.float32)
    for i in range(blocks * groups):
        part = data[i * size : (i + 1) * size]
        numbers = np.frombuffer(part[:-64], np.int8)
        if bits == 4:
            pairs = numbers.view(np.uint8).reshape(-1, 16)
            numbers = np.stack([pairs & 15, pairs >> 4], 1).astype(np.int8) - 8
        numbers = numbers.reshape(-1, 2, 8, 8).transpose(2, 0, 1, 3).reshape(8, group)
        scales = np.frombuffer(part[-64:-32], np.float32)
        row, column = i // groups * 8, i % groups * group
        matrix[row : row + 8, column : column + group] = numbers * scales[:, None]
    return torch.from_numpy(matrix[:rows])


def quantized_moe_ffn(
    x, gate, bias, w13, w2, active, count, hidden, dim, group, bits, score, route
) -> Tensors:
    need(x.dtype in (torch.float32, torch.float64), "dtype", TypeError)
    need(gate.dtype == x.dtype == bias.dtype, "dtypes", TypeError)
    need(score == "sigmoid" or (score == "softmax" and not bias.numel()), "score_func")
    need(0 < active <= count and bits in (4, 8), "numbers")
    output = torch.zeros_like(x)
    scores = x @ gate.T
    scores = scores.sigmoid() if score == "sigmoid" else scores
    chosen = (scores + bias if bias.numel() else scores).topk(active).indices
    weights = scores.gather(1, chosen)
    shares = weights / weights.sum(1, keepdim=True) * route
    weights = shares if score == "sigmoid" else weights.softmax(1)
    for e in range(count):
        first = unpacked(w13[e], 2 * hidden, dim, group, bits).to(x.dtype)
        second = unpacked(w2[e], dim, hidden, group, bits).to(x.dtype)
        a, b = (x @ first.T).chunk(2, 1)
        share = (weights * (chosen == e)).sum(1, keepdim=True)
        output += share * ((torch.nn.functional.silu(a) * b) @ second.T)
    return [output]


ATTENTIONS = (custom_quantized_sdpa, custom_sdpa, sdpa_with_kv_cache)
SINGLE_FORMS = (*ATTENTIONS, gated_delta_rule, quantized_moe_ffn)
"""Operators without a kernel for float64."""
UPDATES = (update_cache, update_cache_with_indices)
OTHER_FORMS = (*UPDATES, fallback, fast_hadamard_transform, tile_crop)
FORMS: dict[str, Callable[..., Tensors]] = {
    "channelwise_gated_delta_rule": gated_delta_rule,
    **{form.__name__: form for form in (*SINGLE_FORMS, *OTHER_FORMS)},
}
SPACES = ("llama::", "preprocess::")


def check_dtypes(name: str, args: list) -> None:
    """Raise TypeError for arguments in float64 of an operator that has no such kernel."""
    form = FORMS.get(name.split("::")[1].removesuffix(".out"))
    wide = any(isinstance(a, np.ndarray) and a.dtype == np.float64 for a in args)
    need(not wide or form not in SINGLE_FORMS, "float64", TypeError)


def results(name: str, args: list, **options: bool) -> Tensors:
    """Return the changed arguments and the results of the operator `llama::....out`; with
    terms=True, the magnitudes of their terms."""
    return FORMS[name.split("::")[1].removesuffix(".out")](*args, **options)
