"""csrc/kernels/llm against eager (llm_forms.py) and the official kernels."""

from typing import Any

import numpy as np
import pytest

from tests.kernels import llm_forms
from tests.kernels.accuracy import compare
from tests.kernels.eager import HALVES, eager
from tests.kernels.samples_llm import CHANGED, LAST, SAMPLES, inputs
from tests.op_harness import OpError, Out, run

DTYPES = {name: ["float32", *HALVES] for name in SAMPLES}
for name_ in ("gated_delta_rule", "channelwise_gated_delta_rule", "quantized_moe_ffn"):
    DTYPES[f"llama::{name_}.out"] = ["float32"]
DTYPES["llama::custom_quantized_sdpa.out"] = ["int8", "float32", *HALVES]
for name_ in (
    "llama::update_cache.out",
    "llama::update_cache_with_indices.out",
    "llama::fallback.out",
    "preprocess::tile_crop.out",
):
    DTYPES[name_] = ["float32", *HALVES, "int8", "bool", "complex128", "int64"]


def expected(name: str, args: list) -> list[np.ndarray] | None:
    """Return eager's results; None if it rejects the arguments."""
    try:
        llm_forms.check_dtypes(name, args)
        return eager(name, args)
    except (ValueError, TypeError):
        return None


def prepared(name: str, args: list, results: list[np.ndarray], order: Any = None) -> list:
    """Return the arguments with those that change as `Out`s, and the outputs."""
    changed = CHANGED.get(name, ())
    given = [
        Out(a.shape, a.dtype.name, order_of(a), initial=a) if i in changed else a
        for i, a in enumerate(args)
    ]
    outs = [Out(r.shape, r.dtype.name, order) for r in results[len(changed) :]]
    return [*given, *(outs or [Out((1,), args[0].dtype.name)])]


def order_of(a: np.ndarray) -> tuple[int, ...]:
    return tuple(sorted(range(a.ndim), key=lambda d: (-a.strides[d], d)))


def check(name: str, args: list, order: Any = None) -> None:
    results = expected(name, args)
    for reference in (True, False):
        if results is None:
            with pytest.raises(OpError, match="argument '"):
                run(name, prepared(name, args, outputs_like(name, args)), reference)
            continue
        found = run(name, prepared(name, args, results, order), reference)[: len(results)]
        compare(name, args, found, results, (name, args, reference))


def outputs_like(name: str, args: list) -> list[np.ndarray]:
    """Return outputs that would fit arguments that are wrong."""
    dtype = "float32" if args[0].dtype == np.int8 else args[0].dtype.name
    count = 0 if "update" in name else 2 if "delta" in name else 1
    return [*(args[i] for i in CHANGED.get(name, ())), *[np.zeros(args[0].shape, dtype)] * count]


@pytest.mark.parametrize(("name", "dtype"), [(n, d) for n in SAMPLES for d in DTYPES[n]])
def test_samples(name: str, dtype: str, rng: np.random.Generator) -> None:
    accepted = 0
    for args in SAMPLES[name](rng, dtype):
        check(name, args)
        accepted += expected(name, args) is not None
    assert accepted


ATTENTION = "llama::custom_sdpa.out"
WITH_CACHE = "llama::sdpa_with_kv_cache.out"


def attention(shape: tuple[int, ...], **changes: Any) -> list:
    """Return arguments of custom_sdpa, changed by name."""
    q, k, v = inputs(np.random.default_rng(0), shape, "float32")
    given = {
        "q": q,
        "k": k,
        "v": v,
        "start": shape[-1],
        "mask": None,
        "dropout": 0.0,
        "causal": True,
        "scale": None,
    } | changes
    return list(given.values())


def zeros(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.zeros(shape, dtype)


SMALL = (1, 2, 4, 2, 8, 9, 3)  # as samples_llm.SHAPES


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"q": zeros(1, 2, 4)}, r"'query': shape \(1, 2, 4\), expected 4 dimensions"),
        ({"q": zeros(1, 2, 4, 8, dtype="float64")}, "'query': dtype float64, expected one of"),
        (
            {"k": zeros(1, 9, 2, 8, dtype="float16")},
            "'key': dtype float16, expected float32 as in 'qu",
        ),
        ({"k": zeros(9, 2, 8)}, r"'key': shape \(9, 2, 8\), expected 4 dim"),
        (
            {"k": zeros(2, 9, 2, 8)},
            r"'key': shape .*expected the first and last dimension of 'query'",
        ),
        ({"v": zeros(1, 9, 2, 7)}, r"'value': shape .*expected the first and last dimension"),
        ({"k": zeros(1, 9, 3, 8)}, "'key': .* has 3 heads, expected a divisor of the 4 of 'query'"),
        ({"k": zeros(1, 9, 0, 8)}, "'key': .* has 0 heads"),
        ({"v": zeros(1, 8, 2, 8)}, r"'value': shape \(1, 8, 2, 8\), expected that of 'key'"),
        ({"start": 8}, "'start_pos': 8 with 2 queries, expected at most 9 keys of 'key'"),
        ({"start": -1}, "'start_pos': -1 with"),
        ({"start": 2**63 - 1}, "'start_pos': 9223372036854775807 with"),
        ({"mask": zeros(2, 9), "causal": True}, "'is_causal': true, expected false with a mask"),
        ({"mask": zeros(2, 8), "causal": False}, r"'attn_mask': shape \(2, 8\), expected \(2, 9\)"),
        ({"mask": zeros(1, 2, 9), "causal": False}, "'attn_mask': .* expected 2 dim"),
        ({"mask": zeros(2, 9, dtype="bool"), "causal": False}, "'attn_mask': dtype bool"),
    ],
)
def test_refused_attention(changes: dict, message: str) -> None:
    for reference in (True, False):
        with pytest.raises(OpError, match=message):
            run(ATTENTION, [*attention(SMALL, **changes), Out((1, 2, 4, 8))], reference)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (1, zeros(1, 2, 1, 8), r"'key': shape \(1, 2, 1, 8\), expected that of 'key_cache'"),
        (
            2,
            zeros(1, 2, 2, 8, dtype="float16"),
            "'value': dtype float16, expected elements of 4 bytes",
        ),
        (
            2,
            zeros(1, 2, 2, 8, dtype="int32"),
            "'value': dtype int32, expected float32 as in 'value_c",
        ),
        (1, zeros(1, 7, 2, 8), r"'start_pos': 3 with 7 positions to write, expected .* \[0, 9\)"),
        (5, 9, "'start_pos': 9 with 2 positions"),
        (6, 7, r"'seq_len': 7, expected \[0, 6\]"),
        (6, -1, "'seq_len': -1"),
        (7, zeros(3, 9), "'is_causal': true"),
        (0, zeros(1, 2, 3, 8), "'key_cache': .* 2 heads, expected a divisor of the 3"),
    ],
)
def test_nothing_is_written_before_an_error(place: int, value: Any, message: str) -> None:
    new = [np.ones((1, 2, 2, 8), np.float32) for _ in range(2)]
    args = [
        zeros(1, 2, 4, 8),
        *new,
        zeros(1, 9, 2, 8),
        zeros(1, 9, 2, 8),
        3,
        2,
        None,
        0.0,
        True,
        None,
    ]
    args[place] = value
    caches = [Out((1, 9, 2, 8), initial=zeros(1, 9, 2, 8)) for _ in range(2)]
    with pytest.raises(OpError, match=message):
        run(WITH_CACHE, [*args[:3], *caches, *args[5:], Out((1, 2, 4, 8))])
    assert not any(c._buffer.any() for c in caches)  # type: ignore[attr-defined]


def test_no_index_is_written_before_a_wrong_one() -> None:
    cache = Out((1, 4, 1, 1), initial=zeros(1, 4, 1, 1))
    with pytest.raises(OpError, match="4"):
        value, at = np.ones((1, 2, 1, 1), np.float32), np.array([[0, 4]])
        run("llama::update_cache_with_indices.out", [value, cache, 0, at, Out((1,))])
    assert not cache._buffer.any()  # type: ignore[attr-defined]


@pytest.mark.parametrize("dtype", ["float32", *HALVES])
def test_output_layouts(dtype: str, rng: np.random.Generator) -> None:
    for name in (ATTENTION, "llama::fast_hadamard_transform.out", "preprocess::tile_crop.out"):
        for args in list(SAMPLES[name](rng, dtype))[:8]:
            rank = args[0].ndim + ("tile" in name)
            if expected(name, args) is not None and rank == 4:
                check(name, args, LAST)


@pytest.mark.parametrize("queries", [1, 40])
def test_keys_after_the_last_are_not_read(queries: int) -> None:
    """A cache beyond the written positions may have any contents."""
    q, k, v, *rest = attention((1, queries, 4, 2, 16, 100, 33))
    end = 33 + queries
    (clean,) = run(ATTENTION, [q, k, v, *rest, Out(q.shape)])
    k[:, end:], v[:, end:] = np.nan, np.inf
    (found,) = run(ATTENTION, [q, k, v, *rest, Out(q.shape)])
    np.testing.assert_array_equal(found, clean)


@pytest.mark.parametrize("queries", [1, 40])
def test_large_scores(queries: int) -> None:
    """Exponents far beyond float32's range: the largest score is subtracted first, also if it is
    in a later block of keys."""
    q, k, v, *rest = attention((1, queries, 2, 2, 16, 300, 300 - queries))
    k *= np.linspace(1, 60, 300, dtype=np.float32)[None, :, None, None]
    for keys in (k, k[:, ::-1].copy()):
        check(ATTENTION, [q * 20, keys, v, *rest])


def test_special_values() -> None:
    """NaN stays in its row; a row that sees no key is NaN."""
    shape = (1, 20, 2, 1, 16, 70, 0)
    q, k, v, *_ = attention(shape)
    q[0, 3, 1, 5] = np.nan
    mask = np.zeros((20, 70), np.float32)
    mask[7] = -np.inf
    for rows in (20, 4):
        for m, reference in ((m, r) for m in (mask, None) for r in (True, False)):
            rest = [0, m if m is None else m[-rows:].copy(), 0.0, m is None, None]
            (found,) = run(
                ATTENTION, [q[:, :rows].copy(), k, v, *rest, Out((1, rows, 2, 16))], reference
            )
            wrong = np.isnan(found).any(-1)[0]
            expected_ = np.zeros((rows, 2), bool)
            expected_[3, 1] = True
            if m is not None and rows == 20:
                expected_[7] = True
            np.testing.assert_array_equal(wrong, expected_)


# Wrong kernels: a result of the operator for other arguments, or of other loops.
FAULTS: dict[str, Any] = {
    "start": lambda a: a | {"start": a["start"] - 1},
    "not causal": lambda a: a | {"causal": False},
    "scale": lambda a: a | {"scale": 0.25 * 1.0001},
    "neighbouring heads": lambda a: a | {"k": a["k"][:, :, ::-1].copy()},
    "one value": lambda a: (
        a
        | {
            "v": np.where(
                np.arange(a["v"].size).reshape(a["v"].shape) == 40, a["v"] * 1.01, a["v"]
            ).astype(np.float32)
        }
    ),
    "half": lambda a: a | {n: a[n].astype(np.float16).astype(np.float32) for n in "qkv"},
}


@pytest.mark.parametrize("queries", [2, 30])
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_seen(fault: str, queries: int) -> None:
    names = ("q", "k", "v", "start", "mask", "dropout", "causal", "scale")
    args = attention((1, queries, 4, 2, 16, 60, 25))
    wanted = eager(ATTENTION, args)
    wrong = list(FAULTS[fault](dict(zip(names, args, strict=True))).values())
    compare(ATTENTION, args, run(ATTENTION, [*args, Out(args[0].shape)]), wanted)
    with pytest.raises(AssertionError):
        compare(ATTENTION, args, run(ATTENTION, [*wrong, Out(args[0].shape)]), wanted)


def test_faults_of_updates_are_seen() -> None:
    """A cache that is one position off, or in which the first of two equal indices wins."""
    name = "llama::update_cache.out"
    value, cache = np.ones((1, 1, 1, 2), np.float32), zeros(1, 4, 1, 2)
    wrong = run(name, [value, Out(cache.shape, initial=cache), 2, Out((1,))])[:1]
    with pytest.raises(AssertionError):
        compare(name, [value, cache, 1], wrong, eager(name, [value, cache, 1]))
    name, at = "llama::update_cache_with_indices.out", np.array([[3, 3]])
    value = np.arange(4, dtype=np.float32).reshape(1, 2, 1, 2)
    (found,) = run(name, [value, Out(cache.shape, initial=cache), 0, at, Out((1,))])[:1]
    np.testing.assert_array_equal(found[0, 3, 0], [2, 3])
    with pytest.raises(AssertionError):
        compare(name, [], [found], eager(name, [value[:, ::-1].copy(), cache, 0, at]))


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (5, 4, "'num_activated_experts': 4, expected at most 3"),
        (5, 0, "'num_activated_experts': 0, expected 1 or more"),
        (6, 4, r"'gate_weight': shape \(3, 64\), expected \(4, 64\)"),
        (8, 32, r"'x': shape \(5, 64\), expected \(5, 32\)"),
        (9, 24, "'group_size': 24, expected a multiple of 16 that divides 64 and 32"),
        (10, 5, "'weight_nbit': 5, expected 4 or 8"),
        (10, 8, "'packed_w13': .* bytes for each expert, expected at least those of 64 x 64"),
        (7, 2**62, "'packed_w13'|'hidden_dim'|'group_size'"),
        (11, "linear", "'score_func': 'linear', expected 'sigmoid' or 'softmax'"),
        (2, zeros(3), "'expert_bias': elements, expected none with 'softmax'"),
    ],
)
def test_refused_experts(place: int, value: Any, message: str) -> None:
    args = list(SAMPLES["llama::quantized_moe_ffn.out"](np.random.default_rng(0), "float32"))[6]
    args[place] = value
    with pytest.raises(OpError, match=message):
        run("llama::quantized_moe_ffn.out", [*args, Out((5, 64))])


def test_another_layout_of_experts() -> None:
    """A header of torchao that names the layout of another kernel is an error; no header is not."""
    args = list(SAMPLES["llama::quantized_moe_ffn.out"](np.random.default_rng(0), "float32"))[6]
    for layout in (1, 3):
        args[3][:, :8] = np.array([6712, layout], np.int32).view(np.uint8)
        if layout == 1:
            check("llama::quantized_moe_ffn.out", args)
            continue
        with pytest.raises(OpError, match="'packed_w13': packed in torchao's layout 3, expected 1"):
            run("llama::quantized_moe_ffn.out", [*args, Out((5, 64))])


@pytest.mark.parametrize(
    "name", ["gated_delta_rule", "fast_hadamard_transform", "tile_crop", "quantized_moe_ffn"]
)
def test_small_faults_are_seen(name: str, rng: np.random.Generator) -> None:
    """The results for arguments of which one number is 1% larger."""
    full = "preprocess::tile_crop.out" if name == "tile_crop" else f"llama::{name}.out"
    args = next(a for a in SAMPLES[full](rng, "float32") if a[0].size > 8)
    wanted = eager(full, args)
    wrong = [args[0].copy(), *args[1:]]
    wrong[0].flat[wrong[0].size // 2] *= 1.01
    compare(full, args, run(full, prepared(full, args, wanted)), wanted)
    with pytest.raises(AssertionError):
        compare(full, args, run(full, prepared(full, wrong, wanted)), wanted)
