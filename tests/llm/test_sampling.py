"""Samplers: their rules, and the official one in the order of its own loops."""

import math

import numpy as np
import pytest

from executorch_c.llm.sampling import DefaultSampler, OfficialSampler, Sampling, distribution
from executorch_c.llm.sampling import log_softmax, penalised

RNG = np.random.default_rng(0)
LOGITS = (RNG.standard_normal(50) * 3).astype(np.float32)


def probabilities(temperature: float = 1.0) -> np.ndarray:
    wide = LOGITS.astype(np.float64) / temperature
    e = np.exp(wide - wide.max())
    return e / e.sum()


def test_log_softmax() -> None:
    np.testing.assert_allclose(np.exp(log_softmax(LOGITS)), probabilities(), rtol=1e-12)
    assert log_softmax(np.array([0, -np.inf])).tolist() == [0, -math.inf]


def test_temperature() -> None:
    np.testing.assert_allclose(distribution(LOGITS, Sampling(temperature=0.5)), probabilities(0.5))


@pytest.mark.parametrize("k", [1, 5, 50, 500])
def test_top_k(k: int) -> None:
    p = distribution(LOGITS, Sampling(temperature=1.0, top_k=k))
    best = np.argsort(-LOGITS)[:k]
    assert set(np.flatnonzero(p)) == set(best)
    np.testing.assert_allclose(p[best], probabilities()[best] / probabilities()[best].sum())


@pytest.mark.parametrize("top_p", [0.1, 0.5, 0.9, 0.999])
def test_top_p(top_p: float) -> None:
    p = distribution(LOGITS, Sampling(temperature=1.0, top_p=top_p))
    order, whole = np.argsort(-LOGITS), probabilities()
    kept = np.count_nonzero(p)
    assert set(np.flatnonzero(p)) == set(order[:kept])
    assert whole[order[:kept]].sum() >= top_p > whole[order[: kept - 1]].sum()


def test_min_p() -> None:
    p = distribution(LOGITS, Sampling(temperature=1.0, min_p=0.2))
    whole = probabilities()
    assert set(np.flatnonzero(p)) == set(np.flatnonzero(whole >= 0.2 * whole.max()))


def test_repetition_penalty() -> None:
    result = penalised(np.array([2.0, -2.0, 1.0], np.float32), [0, 1, 99], 2.0)
    assert result.tolist() == [1.0, -4.0, 1.0]
    sampler = DefaultSampler(Sampling(repetition_penalty=100.0))
    best = int(LOGITS.argmax())
    assert sampler(LOGITS, []) == best != sampler(LOGITS, [best])


def test_frequencies() -> None:
    sampler = DefaultSampler(Sampling(temperature=1.0, seed=0))
    count = 20_000
    result = np.bincount([sampler(LOGITS, []) for _ in range(count)], minlength=50) / count
    p = probabilities()
    assert (np.abs(result - p) < 5 * np.sqrt(p / count) + 1e-4).all()


def test_equal_logits_give_the_first() -> None:
    for sampler in (DefaultSampler(Sampling()), OfficialSampler(0, 0.0)):
        assert sampler(np.array([1, 3, 3], np.float32), []) == 1


def test_the_official_generator() -> None:
    """xorshift64*: the numbers that the same formula gives in exact integers."""
    sampler, state = OfficialSampler(1_700_000_000), 1_700_000_000
    for _ in range(100):
        state ^= state >> 12
        state = (state ^ (state << 25)) % 2**64
        state ^= state >> 27
        expected = ((state * 0x2545F4914F6CDD1D % 2**64) >> 40) / 2**24
        assert float(sampler.coin()) == expected


def official(
    logits: np.ndarray, coin: np.float32, temperature: float, top_p: float, top_k: int
) -> int:
    """Return the official choice, element by element in float32."""
    scaled = [np.float32(x) * (np.float32(1) / np.float32(temperature)) for x in logits]
    e = [np.float32(math.exp(float(x - max(scaled)))) for x in scaled]
    total = np.float32(0)
    for one in e:
        total = np.float32(total + one)
    p = [np.float32(one / total) for one in e]
    order = list(range(len(p)))
    end = len(p)
    if 0 < top_k < len(p):
        order, end = sorted(order, key=lambda i: -p[i])[:top_k], top_k
        scale = np.float32(0)
        for i in order:
            scale = np.float32(scale + p[i])
    elif 0 < top_p < 1:
        least = (np.float32(1) - np.float32(top_p)) / np.float32(len(p) - 1)
        order = sorted((i for i in order if p[i] >= least), key=lambda i: -p[i])
        scale, end = np.float32(0), len(order)
        for n, i in enumerate(order):
            scale = np.float32(scale + p[i])
            if scale > np.float32(top_p):
                end = n + 1
                break
    else:
        scale = np.float32(1)
    r, cdf = np.float32(coin * scale), np.float32(0)
    for i in order[:end]:
        cdf = np.float32(cdf + p[i])
        if r < cdf:
            return i
    return order[end - 1]


@pytest.mark.parametrize("temperature", [0.1, 0.8, 1.0])
@pytest.mark.parametrize("top_p, top_k", [(0.9, 0), (0.5, 0), (0.0, 0), (1.0, 0), (0.9, 5)])
def test_official_choices(temperature: float, top_p: float, top_k: int) -> None:
    sampler = OfficialSampler(5, temperature, top_p, top_k)
    twin = OfficialSampler(5)
    for _ in range(150):
        logits = (RNG.standard_normal(60) * 2).astype(np.float32)
        assert sampler(logits) == official(logits, twin.coin(), temperature, top_p, top_k)


def test_the_vocabulary_of_the_tokenizer() -> None:
    logits = np.array([0, 1, 9], np.float32)
    assert OfficialSampler(0, 0.0, vocabulary=2)(logits) == 1
    sampler = OfficialSampler(0, 1.0, vocabulary=2)
    assert {sampler(logits) for _ in range(50)} <= {0, 1}


def test_seeds_are_seconds() -> None:
    import time

    before = int(time.time())
    assert before <= OfficialSampler().state <= int(time.time())
