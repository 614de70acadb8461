"""Tolerances and verdicts: the only place that decides what "match" means.

Every comparison of the package (`compare`, `assert_matches`, `check_model`, `validate`, `explain`,
`compare_programs`, the pytest plugin) gets its limits and its verdict here. Which rule applies:

given      The caller's rtol and atol: an element matches where |actual - expected| <= atol +
           rtol * |expected|, as in torch.testing.assert_close, and nothing else is asked.
by dtype   Two arrays and nothing more: rtol by dtype, and atol proportional to the scale of the
           output around the element (`scale_of`), so that neither one large element nor a small
           output makes the comparison blind.
measured   A reference that can be run: what random rounding of its operations does to each element
           (`executorch_c/check/noise.py`, Monte Carlo arithmetic), times a constant.

quantized  A quantised program against its quantised graph, or two programs of which one is
           quantised: the RMS error, by what quantising does to the output
           (`check/judge.py` has the rest).

grid       Outputs that the program dequantises from 8 bits, with no model at hand: see `on_grid`.

A verdict is "match", "differ", or "inconclusive" where the reference cannot tell a right output
from a wrong one: it is empty, constant, all zero, all NaN, or rounding alone changes it too much.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from executorch_c._arrays import Array
from executorch_c.compare.metrics import ErrorMetrics, measure, rms
from executorch_c.compare.scale import magnitudes_of, mask_values, scale_of, widened

Verdict: TypeAlias = Literal["match", "differ", "inconclusive"]

EPSILON = {
    "float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52,
    "complex64": 2.0**-23, "complex128": 2.0**-52,
}  # fmt: skip
"""Machine epsilon by dtype; integers have none."""

ASSERT_CLOSE = {
    "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7), "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7),
}  # fmt: skip
"""(rtol, atol) of torch.testing.assert_close by dtype: the default of the one that is not given
where the other is. Any other dtype must be equal."""

BY_DTYPE = {
    "float16": (1e-3, 8e-3), "bfloat16": (1.6e-2, 6e-2), "float32": (1.3e-6, 1e-5),
    "float64": (1e-12, 1e-12), "complex64": (1.3e-6, 1e-5), "complex128": (1e-12, 1e-12),
}  # fmt: skip
"""(rtol, atol in units of the output's scale) where arrays are all there is: rtol as in
assert_close, atol some 8 (half precision), 84 (float32) or 4,500 (float64) machine epsilons, which
is what rounding leaves in ordinary networks."""

SAMPLES = 4
"""Runs of the reference with random rounding."""
ELEMENT_LIMIT = 4.0
"""Limit of an element's error, in standard deviations of the measured noise (its own and that of
its slice). The largest of 1,440 right outputs: 1.6."""
RMS_LIMIT = 3.0
"""Limit of the RMS error, in standard deviations of the noise. The largest of 1,440: 2.1."""
ROUNDINGS = 4.0
"""Machine epsilons of an element, and of the scale around it, that are rounding in any case."""
TIE = 0.03
"""Distance from a tie, in steps, within which integer arithmetic may round the other way: bias and
scale of a layer are rounded themselves. The largest seen in XNNPACK: 0.024."""
DYNAMIC_TIE = 2.0**-12
"""The same where the scale is computed at run time, in the reference too: float32 rounds a number
of 255 steps, and its scale, by 2^-15 steps each."""
INPUT_LIMIT = 8.0
"""Limit of an error between two programs, in standard deviations of what a rounding of the inputs
does to the value."""
GRID_STEPS = 4
"""Steps of 256 of their range by which values of two quantised programs may differ."""
LEAST_SQNR_DB = 10.0
"""Signal-to-quantisation-noise ratio of a quantised program against its float model, at least."""
FEW = 4.0
"""Two samples of n elements may differ in RMS by a factor of 1 + FEW / sqrt(n) by chance."""
GRID_ERROR = 1e-4
"""Relative distance from a multiple of the scale at which an expected output still is one."""
TIE_SHARE, FEW_TIES, BIAS = 0.02, 8, 3.0
"""Rounding ties: at most this share of elements; from FEW_TIES on, the difference between those
that are too large and too small is at most BIAS times the square root of their number."""
LEAST_SNR_DB = 20.0
"""Signal-to-noise ratio that rounding alone must leave for a verdict."""


@dataclass(frozen=True)
class Tolerance:
    """The largest error of one output."""

    kind: Literal["given", "dtype", "measured", "quantized", "grid"]
    limit: Array | float
    """Of each element; a scalar is for all."""
    rtol: float
    atol: float
    """The numbers that `limit` was made of, for reports. By dtype, atol is relative to the scale.
    Measured, rtol is the noise relative to the output, atol the noise (both RMS)."""
    noise: Array | None = None
    """Standard deviation of rounding noise for each element, where it was measured."""
    undecided: Array | None = None
    """Elements whose value rounding decides (an index of equal maxima): not compared."""
    step: float = 0.0
    """Scale of an output that is a multiple of one."""

    def about(self) -> str:
        """Return the rule in words: "atol 1e-05 + rtol 1.3e-06 * |expected|"."""
        if self.kind == "grid":
            return f"one step of {self.step:g}"
        if self.kind == "quantized":
            return f"what quantising does to the output ({self.rtol:.1e} of it)"
        if self.kind == "measured":
            return (f"{ELEMENT_LIMIT:g} times the rounding noise of the reference "
                    f"({self.rtol:.1e} of the output)")  # fmt: skip
        scale = " * scale" if self.kind == "dtype" and self.atol else ""
        return f"atol {self.atol:g}{scale} + rtol {self.rtol:g} * |expected|"


@dataclass(frozen=True)
class Judgement:
    """A verdict with its figures."""

    verdict: Verdict
    metrics: ErrorMetrics
    reason: str = ""
    """Why it is inconclusive, or differs though no element exceeds its limit."""


def _coarsest(dtypes: Iterable[np.dtype[Any]], table: dict[str, tuple[float, float]]) -> Any:
    rows = [table.get(dtype.name, (0.0, 0.0)) for dtype in dtypes]
    return max(r for r, _ in rows), max(a for _, a in rows)


def epsilon_of(*dtypes: np.dtype[Any]) -> float:
    """Return the largest machine epsilon of some dtypes; 0 for integers."""
    return max(EPSILON.get(dtype.name, 0.0) for dtype in dtypes)


def check_not_negative(**values: float | None) -> None:
    """Raise ValueError for a tolerance or count below 0; None is no value."""
    for name, value in values.items():
        if value is not None and not value >= 0:
            raise ValueError(f"{name} is {value}, expected 0 or more")


# ---- rules ------------------------------------------------------------------------------------


def given(actual: Array, expected: Array, rtol: float | None, atol: float | None) -> Tolerance:
    """Return the tolerance of explicit numbers; the one that is None is assert_close's."""
    default_rtol, default_atol = _coarsest((actual.dtype, expected.dtype), ASSERT_CLOSE)
    rtol = default_rtol if rtol is None else rtol
    atol = default_atol if atol is None else atol
    with np.errstate(all="ignore"):
        return Tolerance("given", atol + rtol * magnitudes_of(expected), rtol, atol)


def by_dtype(actual: Array, expected: Array) -> Tolerance:
    """Return the tolerance for two arrays of which nothing more is known."""
    rtol, atol = _coarsest((actual.dtype, expected.dtype), BY_DTYPE)
    if not rtol:
        return Tolerance("dtype", 0.0, 0.0, 0.0)
    magnitudes = magnitudes_of(expected)
    scale = scale_of(magnitudes, mask_values(expected))
    return Tolerance("dtype", atol * scale + rtol * magnitudes, rtol, atol)


def rounding(actual: Array, expected: Array) -> Tolerance:
    """Return the tolerance of one rounding or a few: what needs no measurement."""
    epsilon = epsilon_of(actual.dtype, expected.dtype)
    magnitudes = magnitudes_of(expected)
    scale = scale_of(magnitudes, mask_values(expected))
    limit = ROUNDINGS * epsilon * np.maximum(scale, magnitudes)
    noise = ROUNDINGS / 2 / RMS_LIMIT * epsilon * np.maximum(scale, magnitudes)
    return Tolerance("measured", limit, epsilon, epsilon * rms(magnitudes), noise)


def measured(actual: Array, expected: Array, samples: Sequence[Array]) -> Tolerance:
    """Return the tolerance of measured rounding noise.

    Args:
        expected: The reference's output.
        samples: The same output of runs with random rounding (`SAMPLES` of them).

    The noise of an element is the standard deviation of the samples around `expected`. Its limit
    is ELEMENT_LIMIT times the sum of that and of the noise around it (`scale_of` the noise), and
    ROUNDINGS machine epsilons of the element.
    """
    epsilon = epsilon_of(actual.dtype, expected.dtype)
    exact = widened(expected)
    with np.errstate(all="ignore"):
        errors = [np.abs(widened(sample) - exact) for sample in samples]
    if not epsilon:
        changed = [sample != expected for sample in samples]
        return Tolerance("measured", 0.0, 0.0, 0.0, undecided=np.logical_or.reduce(changed))
    finite = np.isfinite(exact)
    undecided = np.logical_or.reduce([np.isfinite(error) != finite for error in errors])
    variance = sum(np.where(np.isfinite(e), e, 0.0) ** 2 for e in errors) / len(errors)
    noise = np.sqrt(variance)
    magnitudes = magnitudes_of(expected)
    masked = mask_values(expected)
    around = scale_of(noise, masked)
    limit = ELEMENT_LIMIT * (noise + around) + ROUNDINGS * epsilon * magnitudes
    body = np.full(exact.shape, True) if masked is None else ~masked
    signal, floor = rms(magnitudes[body]), rms(noise[body])
    return Tolerance(
        "measured", limit, floor / signal if signal else 0.0, floor,
        around + epsilon / 2 * magnitudes, undecided if undecided.any() else None,
    )  # fmt: skip


def _by_rms(expected: Array, most: float, rtol: float, atol: float) -> Tolerance:
    """Return the tolerance of a quantised output: an RMS error of `most`, and no limit of any
    element but mask values, which are copied; `rtol` and `atol` are for reports."""
    least = max(most / RMS_LIMIT, float(np.finfo(np.float64).tiny))
    noise, masked = np.full(expected.shape, least), mask_values(expected)
    if masked is None:
        return Tolerance("quantized", math.inf, rtol, atol, noise)
    rounded = ROUNDINGS * EPSILON.get(expected.dtype.name, 0.0) * magnitudes_of(expected)
    noise = np.where(masked, np.maximum(noise, rounded), noise)
    return Tolerance("quantized", np.where(masked, rounded, math.inf), rtol, atol, noise)


def _unmasked(expected: Array) -> Array:
    """Return which elements are finite, and no mask values."""
    finite, masked = np.isfinite(widened(expected)), mask_values(expected)
    return finite if masked is None else finite & ~masked


def within_quantization(
    actual: Array, expected: Array, floats: Array, times: float
) -> Tolerance:
    """Return the tolerance of a quantised program's output against its quantised graph: `times`
    the RMS of what quantising has put the graph away from the float model, which a few elements
    tell only roughly: of n it may be 1 + 4 / sqrt(n) times that, up to half of the output's RMS.

    Where that is nothing (an output before any quantised operator), it is a rounding. Integers (an
    argmax, say) may differ in `times` as many elements as quantising changes, and in a few more.
    """
    rounded = rounding(actual, expected)
    if floats.shape != expected.shape:
        return rounded
    if expected.dtype.kind not in "fV":
        return _decided_by_steps(actual, expected, floats, times)
    with np.errstate(all="ignore"):
        error = np.abs(widened(expected) - widened(floats))
    body = _unmasked(expected)
    noise = rms(error[np.isfinite(error) & body])
    signal = rms(magnitudes_of(expected)[body])
    if noise <= EPSILON.get(expected.dtype.name, 0.0) * signal:
        return rounded
    most = times * noise
    few = most * (1 + FEW / math.sqrt(max(expected.size, 1)))
    most = max(most, min(few, signal / 2))
    return _by_rms(expected, most, noise / signal if signal else 0.0, noise)


def _decided_by_steps(actual: Array, expected: Array, floats: Array, times: float) -> Tolerance:
    """Return the tolerance of integers: those that differ are undecided where they are few."""
    wrong = actual != expected
    most = times * np.count_nonzero(floats != expected) + math.sqrt(max(expected.size, 1)) / FEW
    undecided = wrong if np.count_nonzero(wrong) <= most else None
    return Tolerance("measured", 0.0, 0.0, 0.0, undecided=undecided)


def of_steps(expected: Array, samples: Sequence[Array]) -> Tolerance:
    """Return the tolerance of a value of a quantised graph whose operators are all right: the RMS
    of its noise, as ties that round the other way make it.

    Args:
        samples: Values of runs with random rounding.

    One such tie moves a single element by a step, and all that follows from it by any amount; so
    there is no limit of elements. A step of 256 in one element is noise in any case.
    """
    exact = widened(expected)
    body = _unmasked(expected)
    with np.errstate(all="ignore"):
        errors = [(widened(sample) - exact)[body & np.isfinite(sample)] for sample in samples]
    size = max(int(np.count_nonzero(body)), 1)
    step = float(np.ptp(exact[body])) / 256 if body.any() else 0.0
    noise = max(rms(np.concatenate(errors)) if errors else 0.0, step / math.sqrt(size))
    signal = rms(magnitudes_of(expected)[body])
    most = RMS_LIMIT * (1 + FEW / math.sqrt(size)) * noise
    return _by_rms(expected, most, noise / signal if signal else 0.0, noise)


def on_grid(expected: Array, step: float, min_sqnr_db: float | None) -> Tolerance:
    """Return the tolerance of an output that is a multiple of `step`, by `grid_verdict`.

    Where the expected output is one, too, it is the quantised model's, and steps are counted;
    otherwise it is the float model's, and the SQNR has a least value (rtol of the tolerance).
    """
    least = LEAST_SQNR_DB if min_sqnr_db is None else min_sqnr_db
    share = 10 ** (-least / 20)
    with np.errstate(all="ignore"):
        steps = magnitudes_of(expected) / step
    if np.all(np.abs(steps - np.rint(steps)) <= GRID_ERROR * np.maximum(steps, 1)):
        return Tolerance("grid", 1.01 * step, share, step, step=step)
    signal = rms(magnitudes_of(expected)[_unmasked(expected)])
    return _by_rms(expected, share * signal, share, share * signal)


def _judge_grid(actual: Array, expected: Array, tolerance: Tolerance, equal_nan: bool) -> Judgement:
    """The verdict on steps.

    A step off is a rounding tie where few elements are (TIE_SHARE) and either sign is as likely.
    Half of the elements, or one sign alone, is a fault. Between the two, ties of several layers may
    have added up: only the model can tell (`check_model` does).
    """
    metrics = measure(actual, expected, tolerance.limit, equal_nan)
    with np.errstate(all="ignore"):
        off = np.rint((widened(actual) - widened(expected)) / tolerance.step)
    off = off[np.isfinite(off)]
    count = int(np.count_nonzero(off))
    why = uninformative(expected)
    if not count:
        return Judgement("inconclusive" if why and not metrics.mismatched else "match"
                         if not metrics.mismatched else "differ", metrics, why)  # fmt: skip
    bias = abs(float(np.sign(off).sum()))
    text = f"{count:,} of {off.size:,} elements are off by a step of {tolerance.step:g} or more"
    if 2 * count > off.size or (count >= FEW_TIES and bias > BIAS * math.sqrt(count)):
        return Judgement("differ", metrics, f"{text}, {_signs(off)}: no rounding ties are so")
    if metrics.relative > tolerance.rtol:
        return Judgement("differ", metrics, f"{text}: too far for rounding ties")
    if not metrics.mismatched and count <= max(TIE_SHARE * off.size, 1):
        return Judgement("match", metrics)
    return Judgement("inconclusive", metrics, (
        f"{text}: rounding ties of several layers may add up to that, or a fault; `executorch-c "
        "check` with the model tells them apart"
    ))  # fmt: skip


def _signs(off: Array) -> str:
    up, down = int((off > 0).sum()), int((off < 0).sum())
    return f"{up:,} too large and {down:,} too small"


def is_rounding(metrics: ErrorMetrics, dtype: str) -> bool:
    """Return whether an error is no more than a rounding or two of its output."""
    return metrics.relative <= ROUNDINGS * EPSILON.get(dtype, 0.0)


def between(
    actual: Array, expected: Array, quantized: int, noise: Array | None = None
) -> Tolerance:
    """Return the tolerance for a value of two programs of one model.

    Args:
        quantized: How many of the two programs hold it, or a value before it, as 8-bit integers.
        noise: Standard deviation of the value where the inputs change by a rounding, if known.

    Float programs: `by_dtype`, and INPUT_LIMIT times the noise and that around the element. Two
    quantised ones: GRID_STEPS steps of 256 of the value's range. One quantised, one float: the RMS
    error that LEAST_SQNR_DB leaves.
    """
    magnitudes = magnitudes_of(expected)
    if quantized == 1:
        signal = rms(magnitudes[_unmasked(expected)])
        share = 10 ** (-LEAST_SQNR_DB / 20)
        return _by_rms(expected, share * signal, share, share * signal)
    if quantized:
        finite = widened(expected)[np.isfinite(widened(expected))]
        step = float(np.ptp(finite)) / 256 if finite.size else 0.0
        return Tolerance("dtype", GRID_STEPS * step + 1e-6 * magnitudes, 0.0, GRID_STEPS / 256)
    found = by_dtype(actual, expected)
    if noise is None or not found.rtol:
        return found
    around = scale_of(noise, mask_values(expected))
    return replace(found, limit=found.limit + INPUT_LIMIT * (noise + around))


# ---- verdicts ---------------------------------------------------------------------------------


def uninformative(expected: Array) -> str:
    """Return why a reference cannot tell right outputs from wrong ones; empty where it can."""
    if not expected.size:
        return "the expected output is empty"
    wide = widened(expected)
    if np.isnan(wide).all():
        return "the expected output is NaN everywhere"
    if not wide.any():
        return "the expected output is all zero"
    first = expected.reshape(-1)[0]
    if expected.size > 1 and bool((expected == first).all()):
        return f"the expected output is constant ({first})"
    return ""


def outside(actual: Array, expected: Array, tolerance: Tolerance, equal_nan: bool = True) -> int:
    """Return how many elements are out of tolerance; all of them where the RMS error is."""
    a, e = widened(actual), widened(expected)
    with np.errstate(all="ignore"):
        error = np.abs(a - e)
        wrong = ~(error <= _limit(tolerance))
        if wrong.any():
            same = a == e
            if equal_nan:
                same |= np.isnan(a) & np.isnan(e)
            wrong &= ~same
            if tolerance.undecided is not None:
                wrong &= ~tolerance.undecided
    count = int(np.count_nonzero(wrong))
    if not count and tolerance.noise is not None and _spread(error, tolerance.noise) > RMS_LIMIT:
        return actual.size
    return count


def _limit(tolerance: Tolerance) -> Any:
    if tolerance.undecided is None:
        return tolerance.limit
    return np.where(tolerance.undecided, np.inf, tolerance.limit)


def judge(
    actual: Array, expected: Array, tolerance: Tolerance, equal_nan: bool = True
) -> Judgement:
    """Return the verdict on an output of the right shape and dtype."""
    if tolerance.kind == "grid":
        return _judge_grid(actual, expected, tolerance, equal_nan)
    metrics = measure(actual, expected, _limit(tolerance), equal_nan)
    if metrics.mismatched:
        return Judgement("differ", metrics)
    if tolerance.kind == "given":
        return Judgement("match", metrics)
    why = uninformative(expected)
    if why:
        return Judgement("inconclusive", metrics, why)
    if metrics.snr_db == math.inf and metrics.nan[0] == metrics.nan[1]:
        return Judgement("match", metrics)
    if tolerance.undecided is not None and tolerance.undecided.all():
        return Judgement("inconclusive", metrics, "rounding decides every element of the output")
    if tolerance.noise is not None and np.size(tolerance.noise):
        with np.errstate(all="ignore"):
            spread = _spread(np.abs(widened(actual) - widened(expected)), tolerance.noise)
        if spread > RMS_LIMIT:
            return Judgement("differ", metrics, _too_far(tolerance, spread))
        if tolerance.kind == "measured" and tolerance.rtol > 10 ** (-LEAST_SNR_DB / 20):
            return Judgement("inconclusive", metrics, (
                f"rounding alone changes the expected output by {tolerance.rtol:.0%}"
            ))  # fmt: skip
    return Judgement("match", metrics)


def _too_far(tolerance: Tolerance, spread: float) -> str:
    """Why an output differs of which no element exceeds its limit."""
    if tolerance.kind == "quantized":
        times = spread / RMS_LIMIT
        return (f"the RMS error is {times:.1f} times what quantising explains "
                "the output apart from its quantised graph")  # fmt: skip
    return (f"no element exceeds its limit, but the RMS error is {spread:.1f} times the rounding "
            f"noise of the reference, at most {RMS_LIMIT:g} times is expected")  # fmt: skip


def _spread(error: Array, noise: Array) -> float:
    """RMS of errors in units of the noise."""
    with np.errstate(all="ignore"):
        ratio = error / noise
    total = float(np.einsum("i,i->", ratio.reshape(-1), ratio.reshape(-1)))
    if not math.isfinite(total):
        ratio = ratio[np.isfinite(ratio)]
        total = float(np.einsum("i,i->", ratio, ratio))
    return math.sqrt(total / max(ratio.size, 1))


def combined(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the verdict on several outputs or cases.

    One that differs makes all differ; otherwise one that matches is enough. Nothing compared, or
    nothing that could tell, is inconclusive.
    """
    found = set(verdicts)
    return "differ" if "differ" in found else "match" if "match" in found else "inconclusive"
