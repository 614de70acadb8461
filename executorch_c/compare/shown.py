"""Limits beside values, and counts of what is not judged, in tables."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from executorch_c._arrays import Array
from executorch_c.compare.metrics import ErrorMetrics, rms
from executorch_c.compare.scale import magnitudes_of, unmasked
from executorch_c.compare.tolerance import Tolerance


def limit_of(limits: Tolerance, metrics: ErrorMetrics) -> str:
    """Return the limit of an output's worst element ("1.3e-05"); without a limit of elements, that
    of the RMS error ("0.02 rms") or of the SQNR ("10 dB")."""
    if metrics.worst is None:
        return ""
    bounds = limits.limit
    limit = (
        float(bounds[metrics.worst]) if isinstance(bounds, np.ndarray) and bounds.ndim else bounds
    )
    if math.isfinite(float(limit)):
        return f"{float(limit):.2g}"
    if limits.min_sqnr_db is not None:
        return f"{limits.min_sqnr_db:g} dB"
    return f"{rms(np.atleast_1d(limits.units())):.2g} rms"


def relative_limit(limits: Tolerance, expected: Array) -> float | None:
    """Return the largest relative error (of the arrays as vectors) that a tolerance allows; None
    for an array of zeros."""
    body = unmasked(expected)
    units = np.broadcast_to(limits.units(), expected.shape)
    signal = rms(np.where(body, magnitudes_of(expected), 0.0))
    allowed = rms(np.where(body & np.isfinite(units), units, 0.0))
    return allowed / signal if signal else None


def not_judged(limits: Tolerance, actual: Array, expected: Array) -> int:
    """Return how many elements differ and are exempt from the verdict."""
    if limits.undecided is None:
        return 0
    return int(np.count_nonzero(limits.undecided & (actual != expected)))


def limited(metrics: ErrorMetrics, rule: Tolerance, actual: Array, expected: Array) -> ErrorMetrics:
    """Return metrics with their limit, and the number of elements that are not judged."""
    return replace(
        metrics,
        limit=relative_limit(rule, expected),
        not_judged=not_judged(rule, actual, expected),
    )


def exempted(limits: Tolerance, actual: Array, expected: Array) -> str:
    """Return how many elements differ and are not judged, and why; empty for none."""
    count = not_judged(limits, actual, expected)
    if not count:
        return ""
    why = "rounding decides them"
    if limits.min_sqnr_db is not None:
        why = "quantising may change them"
    elif expected.dtype.kind in "iu":
        why = (
            "the order of equal values in an unstable sort (any in topk(sorted=False)), or "
            "rounding, decides them"
        )
    return f": {count:,} of {expected.size:,} elements differ (not judged): {why}"


def mark(count: int, elements: int) -> str:
    """Return " (not judged)", or " (5 not judged)" of several elements; empty for none."""
    if not count:
        return ""
    return " (not judged)" if count == elements else f" ({count:,} not judged)"
