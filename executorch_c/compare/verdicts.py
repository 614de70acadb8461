"""Verdicts: "match", "differ" or "inconclusive", of an output within its tolerance."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from executorch_c._arrays import Array
from executorch_c.compare.limits import (
    MAX_NOISE_SHARE,
    MAX_TIE_BIAS,
    MAX_TIE_SHARE,
    MIN_BIASED_TIES,
    RMS_SIGMAS,
)
from executorch_c.compare.metrics import ErrorMetrics, measure
from executorch_c.compare.scale import widened
from executorch_c.compare.tolerance import Tolerance, outside, rms_ratio

Verdict: TypeAlias = Literal["match", "differ", "inconclusive"]
"""Result of a comparison. Inconclusive: the reference is uninformative (empty, constant, all zero,
all NaN) or dominated by rounding noise."""


@dataclass(frozen=True)
class Judgement:
    """A verdict with its metrics."""

    verdict: Verdict
    metrics: ErrorMetrics
    reason: str = ""
    """Reason of an inconclusive verdict, or of "differ" without an element out of tolerance."""


def judge(
    actual: Array, expected: Array, tolerance: Tolerance, equal_nan: bool = True
) -> Judgement:
    """Return the verdict on an output of the right shape and dtype."""
    if tolerance.kind == "grid":
        return _judge_grid(actual, expected, tolerance, equal_nan)
    metrics = measure(actual, expected, tolerance.limit, equal_nan, tolerance.undecided)
    if metrics.mismatched:
        return Judgement("differ", metrics, _flushed(actual, expected))
    if tolerance.kind == "caller":
        return Judgement("match", metrics)
    why = uninformative(expected)
    if why:
        return Judgement("inconclusive", metrics, why)
    if metrics.snr_db == math.inf and metrics.nan[0] == metrics.nan[1]:
        return Judgement("match", metrics)
    if tolerance.undecided is not None and tolerance.undecided.all():
        return Judgement("inconclusive", metrics, _undecided(actual, expected, tolerance))
    if tolerance.noise is not None and np.size(tolerance.noise):
        with np.errstate(all="ignore"):
            spread = rms_ratio(np.abs(widened(actual) - widened(expected)), tolerance.noise)
        if spread > RMS_SIGMAS:
            return Judgement("differ", metrics, _too_far(tolerance, spread))
        if tolerance.kind == "measured" and tolerance.rtol > MAX_NOISE_SHARE:
            return Judgement(
                "inconclusive",
                metrics,
                f"rounding changes the expected output by {tolerance.rtol:.0%}",
            )
    return Judgement("match", metrics)


def _flushed(actual: Array, expected: Array) -> str:
    """Return the reason of a difference that consists of denormal numbers flushed to zero; an empty
    text for any other."""
    if expected.dtype.kind != "f" or expected.dtype != actual.dtype:
        return ""
    tiny = float(np.finfo(expected.dtype).tiny)
    other = (actual != expected) & ~(np.isnan(actual) & np.isnan(expected))
    if np.any(actual[other]) or not np.all(np.abs(expected[other]) < tiny):
        return ""
    return (
        f"denormal numbers (below {tiny:.1e}) were flushed to zero, as delegates do: the "
        "whole difference"
    )


def _undecided(actual: Array, expected: Array, tolerance: Tolerance) -> str:
    """Return the reason why no element of an output is decided."""
    if tolerance.min_sqnr_db is None:
        return "every element of the output depends on rounding"
    return (
        f"{np.count_nonzero(actual != expected):,} of {actual.size:,} integers differ from the "
        "float model's: quantising may have changed them"
    )


def _too_far(tolerance: Tolerance, spread: float) -> str:
    """Return the reason why an output differs although no element exceeds its limit."""
    if tolerance.min_sqnr_db is not None:
        decibel = tolerance.min_sqnr_db - 20 * math.log10(spread / RMS_SIGMAS)
        return (
            f"SQNR {decibel:.1f} dB against the float model, at least "
            f"{tolerance.min_sqnr_db:g} dB expected (min_sqnr_db)"
        )
    if tolerance.kind == "quantized":
        times = spread / RMS_SIGMAS
        return (
            f"the RMS error against the quantised graph is {times:.1f} times the largest that "
            "quantisation explains"
        )
    return (
        f"no element exceeds its limit, but the RMS error is {spread:.1f} times the rounding "
        f"noise of the reference, at most {RMS_SIGMAS:g} times is expected"
    )


def _judge_grid(actual: Array, expected: Array, tolerance: Tolerance, equal_nan: bool) -> Judgement:
    """Return the verdict on differences in steps.

    Differences of one step are rounding ties if few elements differ (MAX_TIE_SHARE) with either
    sign. Half of the elements, or one sign only, is a fault. Between the two, ties of several
    layers may have added up: only `check_model` with the model can decide.
    """
    metrics = measure(actual, expected, tolerance.limit, equal_nan)
    with np.errstate(all="ignore"):
        off = np.rint((widened(actual) - widened(expected)) / tolerance.step)
    off = off[np.isfinite(off)]
    count = int(np.count_nonzero(off))
    why = uninformative(expected)
    if not count:
        return Judgement(
            "inconclusive"
            if why and not metrics.mismatched
            else "match"
            if not metrics.mismatched
            else "differ",
            metrics,
            why,
        )
    bias = abs(float(np.sign(off).sum()))
    text = f"{count:,} of {off.size:,} elements are off by a step of {tolerance.step:g} or more"
    if measure(actual, expected, math.inf, equal_nan).mismatched:
        return Judgement("differ", metrics, "NaN or infinite elements are not rounding ties")
    if 2 * count > off.size or (
        count >= MIN_BIASED_TIES and bias > MAX_TIE_BIAS * math.sqrt(count)
    ):
        return Judgement("differ", metrics, f"{text}, {_signs(off)}: not rounding ties")
    if metrics.relative > tolerance.rtol:
        return Judgement("differ", metrics, f"{text}: too large for rounding ties")
    if not metrics.mismatched and count <= max(MAX_TIE_SHARE * off.size, 1):
        return Judgement("match", metrics)
    return Judgement(
        "inconclusive",
        metrics,
        (
            f"{text}: either rounding ties of several layers or a fault; `executorch-c check` "
            "with the model can tell"
        ),
    )


def _signs(off: Array) -> str:
    up, down = int((off > 0).sum()), int((off < 0).sum())
    return f"{up:,} too large and {down:,} too small"


def _is_nan(expected: Array) -> bool:
    """Return True if an array has elements, and all are NaN."""
    return expected.size > 0 and bool(np.isnan(widened(expected)).all())


def uninformative(expected: Array) -> str:
    """Return the reason why a reference is uninformative (it cannot show an error), or an empty
    text."""
    if not expected.size:
        return "the expected output is empty"
    if _is_nan(expected):
        return "the expected output is NaN everywhere"
    if not widened(expected).any():
        return "the expected output is all zero"
    first = expected.reshape(-1)[0]
    if expected.size > 1 and bool((expected == first).all()):
        return f"the expected output is constant ({first})"
    return ""


def uninformative_all(expected: Iterable[Array]) -> str:
    """Return the reason why none of several references can show an error, or an empty text."""
    if all(uninformative(one) for one in expected):
        return "every compared value is empty, constant, all zero or NaN; pass other inputs"
    return ""


def uninformative_ends(outputs: Sequence[Array]) -> str:
    """Return the reason why no output of a program can show an error, whatever its values between
    can, or an empty text."""
    if outputs and all(map(_is_nan, outputs)):
        return "every output is NaN everywhere; pass other inputs, or see check_nan"
    return ""


def is_unchanged(first: Array, other: Array, limits: Tolerance) -> bool:
    """Return True if the reference's outputs for two inputs are equal within the tolerance of the
    first: an output that ignores its inputs would match."""
    same = first.shape == other.shape and first.dtype == other.dtype
    return same and not outside(other, first, limits)


def combined(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict on several outputs or cases.

    "differ" if one of them differs, otherwise "match" if one of them matches. No comparison, or
    none that is conclusive, is "inconclusive".
    """
    kinds = set(verdicts)
    return "differ" if "differ" in kinds else "match" if "match" in kinds else "inconclusive"
