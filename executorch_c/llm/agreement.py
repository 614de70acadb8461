"""Agreement of two sets of logits: as numbers, and as distributions of the next token."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from executorch_c.compare.logits import LogitTolerance
from executorch_c.llm.sampling import log_softmax

if TYPE_CHECKING:
    from executorch_c._arrays import Array

TOP_TOKENS = 5


@dataclass(frozen=True)
class Agreement:
    """Logits of a program against others, position by position."""

    errors: Array
    """Largest absolute error of each position."""
    relative: Array
    """The same, relative to the RMS of all expected logits."""
    divergence: Array
    """KL divergence of each position in nats: of the program's distribution from the expected."""
    same_top: Array
    """True where the most likely token is the same."""
    top5: Array
    """Share of the five most likely tokens that are the same."""
    sqnr_db: Array
    """Ratio of expected logits to the error, of each position."""
    bad: Array
    """Positions out of the limit."""
    nan: int
    """Logits of the program that are NaN while the expected ones are not."""

    @property
    def first(self) -> int | None:
        """The first position out of the limit."""
        positions = np.flatnonzero(self.bad)
        return int(positions[0]) if positions.size else None


def _top(values: Array, count: int) -> Array:
    """Return the indices of the largest values of each row, the largest first."""
    return np.argsort(-values, axis=-1, kind="stable")[:, :count]


def measure(actual: Array, expected: Array, limit: LogitTolerance) -> Agreement:
    """Return the agreement of logits [n, V] with expected ones."""
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(a) & np.isfinite(e)
    same = (a == e) | (np.isnan(a) & np.isnan(e))
    error = np.where(finite, np.abs(a - e), np.where(same, 0, np.inf))
    scale = math.sqrt(float(np.mean(np.where(finite, e, 0) ** 2))) or 1.0
    errors = error.max(-1)
    power = np.mean(np.where(finite, e, 0) ** 2, -1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        sqnr = 10 * np.log10(power / np.mean(error**2, -1))
        whole = float(10 * np.log10(power.mean() / np.mean(error**2)))
        p, q = log_softmax(e), log_softmax(a)
        divergence = np.where(np.exp(p) > 0, np.exp(p) * (p - q), 0).sum(-1)
    sqnr = np.where(errors == 0, np.inf, sqnr)
    relative = errors / scale
    bad = limit.outside(relative, sqnr, whole)
    count = min(TOP_TOKENS, a.shape[-1])
    ours, theirs = _top(np.nan_to_num(a, nan=-np.inf), count), _top(e, count)
    top5 = (ours[:, :, None] == theirs[:, None, :]).any(-1).mean(-1)
    return Agreement(
        errors,
        relative,
        np.maximum(divergence, 0),
        ours[:, 0] == theirs[:, 0],
        top5,
        sqnr,
        bad,
        int((np.isnan(a) & ~np.isnan(e)).sum()),
    )


def mean_loss(logits: Array, ids: Sequence[int]) -> float:
    """Return the mean of -log p of each token after the first, from logits [n, V] of all of
    them."""
    if len(ids) < 2:
        return math.nan
    rows = log_softmax(logits[: len(ids) - 1])
    return float(-rows[np.arange(len(ids) - 1), list(ids[1:])].mean())
