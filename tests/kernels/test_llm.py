"""csrc/kernels/llm against eager (llm_forms.py) and the official kernels."""

from typing import Any

import numpy as np
import pytest

from tests.kernels import rows
from tests.kernels.accuracy import check, compare
from tests.kernels.eager import eager
from tests.kernels.samples_llm import SAMPLES, inputs
from tests.op_harness import OpError, Out, run


ATTENTION = "llama::custom_sdpa.out"
WITH_CACHE = "llama::sdpa_with_kv_cache.out"


NAMES = ("q", "k", "v", "start", "mask", "dropout", "causal", "scale")


def attention(shape: tuple[int, ...], **changes: Any) -> list:
    """Return arguments of custom_sdpa, changed by name."""
    q, k, v = inputs(np.random.default_rng(0), shape, "float32")
    arguments = dict(zip(NAMES, (q, k, v, shape[-1], None, 0.0, True, None), strict=True))
    return list((arguments | changes).values())


def zeros(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.zeros(shape, dtype)


SHAPE = (1, 2, 2, 8)
HALVES, WHOLE = zeros(*SHAPE, dtype="float16"), zeros(*SHAPE, dtype="int32")


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (1, zeros(1, 2, 1, 8), r"'key': shape \(1, 2, 1, 8\), expected that of 'key_cache'"),
        (2, HALVES, "'value': dtype float16, expected elements of 4 bytes"),
        (2, WHOLE, "'value': dtype int32, expected float32 as in 'value_c"),
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
    old = [zeros(1, 9, 2, 8) for _ in range(2)]
    args = [zeros(1, 2, 4, 8), *new, *old, 3, 2, None, 0.0, True, None]
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


@pytest.mark.parametrize("queries", [1, 40])
def test_keys_after_the_last_are_not_read(queries: int) -> None:
    """A cache beyond the written positions may have any contents."""
    q, k, v, *rest = attention((1, queries, 4, 2, 16, 100, 33))
    end = 33 + queries
    (clean,) = run(ATTENTION, [q, k, v, *rest, Out(q.shape)])
    k[:, end:], v[:, end:] = np.nan, np.inf
    (output,) = run(ATTENTION, [q, k, v, *rest, Out(q.shape)])
    np.testing.assert_array_equal(output, clean)


@pytest.mark.parametrize("queries", [1, 40])
def test_large_scores(queries: int) -> None:
    """Exponents far beyond float32's range: the largest score is subtracted first, also if it is
    in a later block of keys."""
    q, k, v, *rest = attention((1, queries, 2, 2, 16, 300, 300 - queries))
    k *= np.linspace(1, 60, 300, dtype=np.float32)[None, :, None, None]
    for keys in (k, k[:, ::-1].copy()):
        check(ATTENTION, [q * 20, keys, v, *rest])


@pytest.mark.parametrize("reference", [True, False])
@pytest.mark.parametrize("queries", [20, 4])
@pytest.mark.parametrize("masked", [True, False])
def test_special_values(masked: bool, queries: int, reference: bool) -> None:
    """NaN stays in its row; a row that sees no key is NaN."""
    q, k, v, *_ = attention((1, queries, 2, 1, 16, 70, 0))
    q[0, 3, 1, 5] = np.nan
    mask = np.zeros((queries, 70), np.float32) if masked else None
    nan = np.zeros((queries, 2), bool)
    nan[3, 1] = True
    if mask is not None and queries > 7:
        mask[7], nan[7] = -np.inf, True
    args = [q, k, v, 0, mask, 0.0, not masked, None, Out(q.shape)]
    (outputs,) = run(ATTENTION, args, reference)
    np.testing.assert_array_equal(np.isnan(outputs).any(-1)[0], nan)


def scaled(a: np.ndarray, at: int) -> np.ndarray:
    """Return a copy of which one element is 1% larger."""
    a = a.copy()
    a.flat[at] *= 1.01
    return a


# Wrong kernels: a result of the operator for other arguments, or of other loops.
FAULTS: dict[str, Any] = {
    "start": lambda a: a | {"start": a["start"] - 1},
    "not causal": lambda a: a | {"causal": False},
    "scale": lambda a: a | {"scale": 0.25 * 1.0001},
    "neighbouring heads": lambda a: a | {"k": a["k"][:, :, ::-1].copy()},
    "one value": lambda a: a | {"v": scaled(a["v"], 40)},
    "half": lambda a: a | {n: a[n].astype(np.float16).astype(np.float32) for n in "qkv"},
}


@pytest.mark.parametrize("queries", [2, 30])
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_seen(fault: str, queries: int) -> None:
    args = attention((1, queries, 4, 2, 16, 60, 25))
    wanted = eager(ATTENTION, args)
    wrong = list(FAULTS[fault](dict(zip(NAMES, args, strict=True))).values())
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
    (output,) = run(name, [value, Out(cache.shape, initial=cache), 0, at, Out((1,))])[:1]
    np.testing.assert_array_equal(output[0, 3, 0], [2, 3])
    with pytest.raises(AssertionError):
        compare(name, [], [output], eager(name, [value[:, ::-1].copy(), cache, 0, at]))


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
    wrong = [scaled(args[0], args[0].size // 2), *args[1:]]
    outs = rows.outs_of(wanted)
    compare(full, args, rows.called(full, args, outs), wanted)
    with pytest.raises(AssertionError):
        compare(full, args, rows.called(full, wrong, outs), wanted)
