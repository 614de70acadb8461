"""Choice of the next token from logits: greedy, or random with a seed; and the official sampler.

sampler = make_sampler(Sampling(temperature=0.8, top_p=0.9, seed=1))
token = sampler(logits, earlier_ids)
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from executorch_c.llm._numbers import REAL, check_type

if TYPE_CHECKING:
    from executorch_c._arrays import Array

Sampler: TypeAlias = "Callable[[Array, Sequence[int]], int]"
"""A function from logits (float32, [V]) and all earlier tokens to the next token."""
SamplerName: TypeAlias = Literal["default", "official"]

OFFICIAL_TOP_P = 0.9
MASK64 = 2**64 - 1


@dataclass(frozen=True)
class Sampling:
    """Rules for the choice of the next token. They apply in this order."""

    repetition_penalty: float = 1.0
    """Logits of earlier tokens are divided by it if positive, else multiplied."""
    temperature: float = 0.0
    """0: the largest logit, the first of equals. Else logits are divided by it."""
    top_k: int = 0
    """Keep the k most likely tokens; 0: all."""
    top_p: float = 1.0
    """Keep the smallest set of most likely tokens whose probability reaches top_p."""
    min_p: float = 0.0
    """Keep tokens with at least min_p times the largest probability."""
    seed: int | None = None
    """None: from the system's entropy."""

    def __post_init__(self) -> None:
        for name in ("repetition_penalty", "temperature", "top_p", "min_p"):
            check_type(name, getattr(self, name), REAL)
        check_type("top_k", self.top_k)
        if self.seed is not None:
            check_type("seed", self.seed)
        checks = (
            ("temperature", 0 <= self.temperature < math.inf, "a finite number of at least 0"),
            ("top_k", self.top_k >= 0, "0 (all tokens) or more"),
            ("top_p", 0 < self.top_p <= 1, "a number above 0, at most 1"),
            ("min_p", 0 <= self.min_p <= 1, "a number from 0 to 1"),
            ("repetition_penalty", 0 < self.repetition_penalty < math.inf, "a number above 0"),
            ("seed", self.seed is None or self.seed >= 0, "0 or more, or None"),
        )
        for name, is_right, expected in checks:
            if not is_right:
                raise ValueError(f"`{name}` is {getattr(self, name)}, expected {expected}")


def log_softmax(logits: Array) -> Array:
    """Return log probabilities along the last axis, as float64."""
    values = np.asarray(logits, np.float64)
    highest = values.max(-1, keepdims=True)
    shifted = values - np.where(np.isfinite(highest), highest, 0)
    result: Array = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return result


def check_finite(logits: Array, position: int) -> None:
    """Raise ValueError for logits without a largest one: NaN, or all infinite."""
    bad = int(np.isnan(logits).sum())
    if bad or not np.isfinite(logits.max(initial=-np.inf)):
        what = f"{bad:,} of {logits.size:,} logits are NaN" if bad else "no logit is finite"
        raise ValueError(
            f"position {position}: {what}; the program may be exported without its "
            "weights (devtools.check_nan finds the operator)"
        )


def penalised(logits: Array, ids: Sequence[int], penalty: float) -> Array:
    """Return logits with a repetition penalty."""
    seen = np.unique(np.asarray([i for i in ids if 0 <= i < logits.size], np.int64))
    changed: Array = logits.copy()
    old = logits[seen]
    changed[seen] = np.where(old > 0, old / penalty, old * penalty)
    return changed


def distribution(logits: Array, rules: Sampling) -> Array:
    """Return the probabilities that tokens are drawn with, float64 [V], for a temperature above
    0."""
    scaled = np.asarray(logits, np.float64) / rules.temperature
    if 0 < rules.top_k < scaled.size:
        kept = np.argsort(-scaled, kind="stable")[: rules.top_k]
        cut = np.full_like(scaled, -np.inf)
        cut[kept] = scaled[kept]
        scaled = cut
    p: Array = np.exp(log_softmax(scaled))
    if rules.top_p < 1:
        order = np.argsort(-p, kind="stable")
        sums = np.cumsum(p[order])
        p[order[int(np.searchsorted(sums, rules.top_p)) + 1 :]] = 0
    if rules.min_p > 0:
        p[p < rules.min_p * p.max()] = 0
    p /= p.sum()
    return p


class DefaultSampler:
    """Draws by `Sampling`; one random number for each token."""

    def __init__(self, rules: Sampling) -> None:
        self.rules = rules
        self._rng = np.random.default_rng(rules.seed)

    def __call__(self, logits: Array, ids: Sequence[int]) -> int:
        """Return the next token."""
        if self.rules.repetition_penalty != 1:
            logits = penalised(logits, ids, self.rules.repetition_penalty)
        if self.rules.temperature == 0:
            return int(logits.argmax())
        p = distribution(logits, self.rules)
        sums = np.cumsum(p)
        at = int(np.searchsorted(sums, self._rng.random() * sums[-1], side="right"))
        return min(at, int(np.flatnonzero(p)[-1]))


class OfficialSampler:
    """The sampler of ExecuTorch's runner, token by token.

    xorshift64* with one number for each token; float32 in the order of its loops: sums are those of
    `cumsum`, exponentials are rounded once.

    Args:
        seed: State of the generator. Default: the time in whole seconds, as the official runner.
        temperature: 0 (the largest logit), or up to 1.
        top_p: 0.9 in the official runner; 0 or 1: the whole distribution.
        top_k: 0, or the number of tokens, which then replaces top_p.
        vocabulary: Number of logits that are considered: the official runner's tokenizer's.
    """

    def __init__(
        self,
        seed: int | None = None,
        temperature: float = 0.8,
        top_p: float = OFFICIAL_TOP_P,
        top_k: int = 0,
        vocabulary: int | None = None,
    ) -> None:
        if not 0 <= temperature <= 1:
            raise ValueError(f"`temperature` is {temperature}, expected 0 to 1 (official sampler)")
        self.state = (int(time.time()) if seed is None else seed) & MASK64
        self.temperature, self.top_p, self.top_k = temperature, np.float32(top_p), top_k
        self.vocabulary = vocabulary

    def coin(self) -> np.float32:
        """Return the next random number in [0, 1)."""
        s = self.state
        s ^= s >> 12
        s = (s ^ (s << 25)) & MASK64
        s ^= s >> 27
        self.state = s
        high = ((s * 0x2545F4914F6CDD1D) & MASK64) >> 32
        number: np.float32 = np.float32((high >> 8) / 16777216)  # exact: 24 bits
        return number

    def probabilities(self, logits: Array) -> Array:
        """Return softmax(logits / temperature) in float32."""
        one = np.float32(1)
        scaled = logits.astype(np.float32) * (one / np.float32(self.temperature))
        shifted = (scaled - scaled.max()).astype(np.float64)
        e: Array = np.exp(shifted).astype(np.float32)
        e /= np.cumsum(e)[-1]
        return e

    def __call__(self, logits: Array, ids: Sequence[int] = ()) -> int:
        """Return the next token; `ids` is not used."""
        logits = logits[: self.vocabulary]
        if self.temperature == 0:
            return int(logits.argmax())
        p, coin = self.probabilities(logits), self.coin()
        if 0 < self.top_k < p.size:
            order = np.argsort(-p, kind="stable")[: self.top_k]
            sums = np.cumsum(p[order])
            return _drawn(order, sums, coin * sums[-1])
        if not 0 < self.top_p < 1:
            return _drawn(np.arange(p.size), np.cumsum(p), coin)
        kept = np.flatnonzero(p >= (np.float32(1) - self.top_p) / np.float32(p.size - 1))
        order = kept[np.argsort(-p[kept], kind="stable")]
        sums = np.cumsum(p[order])
        over = np.flatnonzero(sums > self.top_p)
        end = int(over[0]) if over.size else order.size - 1
        return _drawn(order[: end + 1], sums[: end + 1], coin * sums[end])


def _drawn(order: Array, sums: Array, r: np.float32) -> int:
    """Return the first token whose cumulative probability exceeds r, else the last."""
    return int(order[min(int(np.searchsorted(sums, r, side="right")), order.size - 1)])


def make_sampler(
    rules: Sampling, sampler: SamplerName | Sampler = "default", vocabulary: int | None = None
) -> Sampler:
    """Return a sampler by name, or the given function.

    Raises ValueError for an unknown name, and for rules that the official sampler does not have.
    """
    if callable(sampler):
        return sampler
    if sampler == "default":
        return DefaultSampler(rules)
    if sampler != "official":
        raise ValueError(f"`sampler` is {sampler!r}, expected 'default', 'official' or a function")
    if rules.min_p or rules.repetition_penalty != 1:
        raise ValueError(
            "`min_p` and `repetition_penalty` have no effect with the official sampler"
        )
    top_p = rules.top_p if rules.top_p < 1 else OFFICIAL_TOP_P
    return OfficialSampler(rules.seed, rules.temperature, top_p, rules.top_k, vocabulary)
