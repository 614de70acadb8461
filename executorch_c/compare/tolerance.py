"""Tolerances: the limits of each output's error.

Every comparison of the package (`compare`, `assert_matches`, `check_model`, `validate`, `explain`,
`compare_programs`, the pytest plugin) gets its limits here, its verdict from `verdicts`. The rules:

caller     The caller's rtol and atol: an element matches if |actual - expected| <= atol +
           rtol * |expected|, as in torch.testing.assert_close. No other rule applies.
by dtype   Two arrays without a model: rtol by dtype, and atol proportional to the scale of the
           output around the element (`scale_of`), so that neither a single large element nor a
           small output hides errors.
measured   A reference that can be run: the change of each element under random rounding of its
           operations (`executorch_c/noise/rounding.py`, Monte Carlo arithmetic), times a constant.

quantized  A quantised program and its quantised graph, or a quantised and a float program: a limit
           of the RMS error, relative to the quantisation error (`check/judge.py` has the rest).

grid       Outputs dequantised from 8 bits, without a model: see `on_grid`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from executorch_c._arrays import Array
from executorch_c.compare.limits import (
    ASSERT_CLOSE,
    BY_DTYPE,
    ELEMENT_SIGMAS,
    EPSILON,
    FIRST_RUNS,
    FLOAT_RANGE_MIN_SQNR_DB,
    INPUT_SIGMAS,
    MAX_CHANGED_SHARE,
    MAX_GRID_ERROR,
    MAX_GRID_STEPS,
    MIN_SQNR_DB,
    NOISE_RUNS,
    RMS_CHANCE,
    RMS_SIGMAS,
    ROUNDING_EPSILONS,
)
from executorch_c.compare.metrics import ErrorMetrics, errors_of, rms
from executorch_c.compare.scale import (
    are_finite,
    magnitudes_of,
    mask_values,
    scale_of,
    unmasked,
    widened,
)


@dataclass(frozen=True)
class Tolerance:
    """The largest error of one output."""

    kind: Literal["caller", "dtype", "measured", "quantized", "grid"]
    limit: Array | float
    """Limit of each element; a scalar is for all elements."""
    rtol: float
    atol: float
    """Components of `limit`, for reports. By dtype, atol is relative to the scale. Measured, rtol
    is the noise relative to the output, atol the noise (both RMS)."""
    noise: Array | None = None
    """Standard deviation of rounding noise of each element, if measured."""
    undecided: Array | None = None
    """Elements whose value depends on rounding (an index of equal maxima): not compared."""
    step: float = 0.0
    """Scale of an output that is a multiple of a scale."""
    min_sqnr_db: float | None = None
    """Least signal-to-quantisation-noise ratio, where the reference is the float model."""
    is_rounding: bool = False
    """True for the tolerance of a few roundings (`rounding`): outputs beyond it are judged again,
    by measured noise."""

    def units(self) -> Array | float:
        """Return the errors of the elements that are found if their RMS, in these units, is 1."""
        return self.limit if self.noise is None else RMS_SIGMAS * self.noise

    def scaled(self, factor: float, noise: bool = True) -> Tolerance:
        """Return limits that are larger by a factor; without `noise`, limits of elements only."""
        wider = None if self.noise is None or not noise else self.noise * factor
        return replace(self, limit=self.limit * factor, noise=wider)

    def about(self) -> str:
        """Return the rule in words: "atol 1e-05 + rtol 1.3e-06 * |expected|"."""
        if self.kind == "grid":
            return f"one step of {self.step:g}"
        if self.min_sqnr_db is not None:
            return f"an SQNR of {self.min_sqnr_db:g} dB against the float model"
        if self.kind == "quantized":
            return f"the quantisation error of the output ({self.rtol:.1e} of it)"
        if self.kind == "measured":
            return (
                f"{ELEMENT_SIGMAS:g} times the rounding noise of the reference "
                f"({self.rtol:.1e} of the output)"
            )
        scale = " * scale" if self.kind == "dtype" and self.atol else ""
        return f"atol {self.atol:g}{scale} + rtol {self.rtol:g} * |expected|"


def _coarsest(dtypes: Iterable[np.dtype[Any]], table: dict[str, tuple[float, float]]) -> Any:
    rows = [table.get(dtype.name, (0.0, 0.0)) for dtype in dtypes]
    return max(r for r, _ in rows), max(a for _, a in rows)


def epsilon_of(*dtypes: np.dtype[Any]) -> float:
    """Return the largest machine epsilon of some dtypes; 0 for integers."""
    return max(EPSILON.get(dtype.name, 0.0) for dtype in dtypes)


def check_not_negative(**values: float | None) -> None:
    """Raise ValueError for a negative tolerance or count; None is allowed."""
    for name, value in values.items():
        if value is not None and not value >= 0:
            raise ValueError(f"`{name}` is {value}, expected 0 or more")


# ---- the caller's ----------------------------------------------------------------------------

PerOutput: TypeAlias = "float | Mapping[int | str, float] | None"
"""A tolerance for all outputs, or for some by index or name; the others have the default."""


def _of(limit: PerOutput, index: int, name: str | None) -> float | None:
    if not isinstance(limit, Mapping):
        return limit
    return limit.get(index, limit.get(name) if name is not None else None)


@dataclass(frozen=True)
class CallerTolerances:
    """rtol and atol of outputs. Raises ValueError for a negative one."""

    rtol: PerOutput = None
    atol: PerOutput = None

    def __post_init__(self) -> None:
        for name, limit in (("rtol", self.rtol), ("atol", self.atol)):
            if not isinstance(limit, Mapping):
                check_not_negative(**{name: limit})
                continue
            for key, value in limit.items():
                check_not_negative(**{f"{name}[{key!r}]": value})

    def of(self, index: int, name: str | None = None) -> tuple[float | None, float | None]:
        """Return rtol and atol of an output; None for a default."""
        return _of(self.rtol, index, name), _of(self.atol, index, name)

    def cover(self, index: int, name: str | None = None) -> bool:
        """Return True if the caller has set a tolerance of an output."""
        return self.of(index, name) != (None, None)

    @property
    def cover_all(self) -> bool:
        """True if all outputs have the caller's tolerance."""
        limits = [limit for limit in (self.rtol, self.atol) if limit is not None]
        return any(not isinstance(limit, Mapping) for limit in limits)

    def check_names(self, names: Sequence[str | None]) -> None:
        """Raise ValueError for a tolerance of an unknown output."""
        known: set[object] = {*range(len(names)), *names}
        for name, limit in (("rtol", self.rtol), ("atol", self.atol)):
            for key in limit if isinstance(limit, Mapping) else ():
                if key not in known:
                    listed = ", ".join(repr(one) for one in names if one is not None)
                    raise ValueError(
                        f"`{name}[{key!r}]`: no such output; outputs are 0 to "
                        f"{len(names) - 1}" + (f", with the names {listed}" if listed else "")
                    )


def about(limit: PerOutput, default: str) -> str:
    """Return a tolerance as text: "0.001", "logits: 0.001, others by dtype"."""
    if limit is None:
        return default
    if not isinstance(limit, Mapping):
        return f"{limit:g}"
    return ", ".join(f"{key}: {value:g}" for key, value in limit.items()) + f", others {default}"


# ---- rules ------------------------------------------------------------------------------------


def of_caller(actual: Array, expected: Array, rtol: float | None, atol: float | None) -> Tolerance:
    """Return the tolerance of explicit numbers; if one is None, it is assert_close's default."""
    default_rtol, default_atol = _coarsest((actual.dtype, expected.dtype), ASSERT_CLOSE)
    rtol = default_rtol if rtol is None else rtol
    atol = default_atol if atol is None else atol
    with np.errstate(all="ignore"):
        return Tolerance("caller", atol + rtol * magnitudes_of(expected), rtol, atol)


def by_dtype(actual: Array, expected: Array, precision: float = 0.0) -> Tolerance:
    """Return the tolerance for two arrays without a model; `precision` is the machine epsilon of
    the coarsest dtype that floats were computed in, if that is not their own."""
    rtol, atol = _coarsest((actual.dtype, expected.dtype), BY_DTYPE)
    if rtol:
        coarse = [BY_DTYPE[name] for name, epsilon in EPSILON.items() if epsilon <= precision]
        rtol, atol = map(max, zip((rtol, atol), *coarse))
    if not rtol:
        return Tolerance("dtype", 0.0, 0.0, 0.0)
    magnitudes = magnitudes_of(expected)
    scale = scale_of(magnitudes, mask_values(expected))
    return Tolerance("dtype", atol * scale + rtol * magnitudes, rtol, atol)


def rounding(actual: Array, expected: Array) -> Tolerance:
    """Return the tolerance of one or a few roundings, which needs no measurement."""
    epsilon = epsilon_of(actual.dtype, expected.dtype)
    magnitudes = magnitudes_of(expected)
    scale = scale_of(magnitudes, mask_values(expected), fine=True)
    limit = ROUNDING_EPSILONS * epsilon * np.maximum(scale, magnitudes)
    noise = ROUNDING_EPSILONS / 2 / RMS_SIGMAS * epsilon * np.maximum(scale, magnitudes)
    return Tolerance("measured", limit, epsilon, epsilon * rms(magnitudes), noise, is_rounding=True)


def of_wrong(expected: Array, few: Tolerance, rule: Tolerance) -> tuple[float, bool]:
    """Return how much larger the limits of a wrong output are than those of a right one (`few`),
    and whether its noise has a limit: an output beyond a few roundings is judged by another rule.
    """
    has_noise = rule.noise is not None
    wide, narrow = (
        rms(np.broadcast_to(one.units() if has_noise else one.limit, expected.shape))
        for one in (rule, few)
    )
    return max(wide / narrow, 1.0) if narrow else 1.0, has_noise


def measured(actual: Array, expected: Array, samples: Sequence[Array]) -> Tolerance:
    """Return the tolerance of measured rounding noise.

    Args:
        expected: The reference's output.
        samples: The same output of runs with random rounding (`NOISE_RUNS` of them).

    The noise of an element is the standard deviation of the samples around `expected`. Its limit
    is ELEMENT_SIGMAS times the sum of that and of the noise around it (`scale_of` the noise), and
    ROUNDING_EPSILONS machine epsilons of the element.
    """
    epsilon = epsilon_of(actual.dtype, expected.dtype)
    if not epsilon:
        changed = [sample != expected for sample in samples]
        return Tolerance("measured", 0.0, 0.0, 0.0, undecided=np.logical_or.reduce(changed))
    noise, undecided = _spread(expected, samples)
    magnitudes = magnitudes_of(expected)
    masked = mask_values(expected)
    around = scale_of(noise, masked, fine=True)
    limit = ELEMENT_SIGMAS * (noise + around) + ROUNDING_EPSILONS * epsilon * magnitudes
    body = ... if masked is None else ~masked
    signal, floor = rms(magnitudes[body]), rms(noise[body])
    return Tolerance(
        "measured",
        limit,
        floor / signal if signal else 0.0,
        floor,
        around + epsilon / 2 * magnitudes,
        undecided,
    )


def _spread(expected: Array, samples: Sequence[Array]) -> tuple[Array, Array | None]:
    """Return the standard deviation of samples around the reference's output, and a mask of the
    elements that are finite in some of them only; None without any."""
    with np.errstate(all="ignore"):
        errors = [errors_of(sample, expected) for sample in samples]
    undecided: Array | None = None
    if not all(map(are_finite, errors)):
        finite = np.isfinite(widened(expected))
        undecided = np.logical_or.reduce([np.isfinite(error) != finite for error in errors])
        errors = [np.where(np.isfinite(error), error, 0.0) for error in errors]
    squares = errors[0] ** 2
    for error in errors[1:]:
        squares += error**2
    noise = np.sqrt(squares / len(errors))
    return noise, undecided if undecided is not None and undecided.any() else None


def is_clear(actual: Array, expected: Array, first: Tolerance, count: int) -> bool:
    """Return True if an output is within the tolerance of the first `count` samples, and stays so
    with all: further ones make the standard deviation smaller by at most the root of their share.
    False where noise decides: of integers, elements that are not finite in some sample."""
    max_noise, fewest, _ = FIRST_RUNS[count]
    if first.undecided is not None or first.rtol > max_noise or expected.size < fewest:
        return False
    return not outside(actual, expected, first.scaled(math.sqrt(count / NOISE_RUNS)))


def of_runs(
    actual: Array, expected: Array, runs: Callable[[int], Sequence[Array] | None]
) -> Tolerance | None:
    """Return the tolerance of measured rounding noise: of a few runs, where more would not change
    the verdict; None where noise cannot be measured.

    Args:
        runs: Returns the output of that many runs with random rounding; None or nothing if the
            reference cannot run with it.
    """
    for count in (*FIRST_RUNS, NOISE_RUNS):
        samples = runs(count)
        if not samples or any(sample.shape != expected.shape for sample in samples):
            break
        limits = measured(actual, expected, samples)
        if count == NOISE_RUNS:
            return limits
        if is_clear(actual, expected, limits, count):
            *_, ratio = FIRST_RUNS[count]
            return limits.scaled(ratio)
    return None


def _by_rms(expected: Array, max_rms: float, rtol: float, atol: float) -> Tolerance:
    """Return the tolerance of a quantised output: an RMS error of at most `max_rms`, and no limit
    per element except for mask values, which are copied. `rtol` and `atol` are for reports."""
    floor = max(max_rms / RMS_SIGMAS, float(np.finfo(np.float64).tiny))
    noise, masked = np.full(expected.shape, floor), mask_values(expected)
    if masked is None:
        return Tolerance("quantized", math.inf, rtol, atol, noise)
    rounded = ROUNDING_EPSILONS * EPSILON.get(expected.dtype.name, 0.0) * magnitudes_of(expected)
    noise = np.where(masked, np.maximum(noise, rounded), noise)
    return Tolerance("quantized", np.where(masked, rounded, math.inf), rtol, atol, noise)


def _by_chance(count: int) -> float:
    """Return the factor by which RMS values of two samples of `count` elements may differ."""
    return 1 + RMS_CHANCE / math.sqrt(max(count, 1))


def within_quantization(actual: Array, expected: Array, floats: Array, times: float) -> Tolerance:
    """Return the tolerance of a quantised program's output against its quantised graph: `times` the
    RMS distance between the graph and the float model. An RMS of n elements is uncertain: it may be
    1 + 4 / sqrt(n) times as large, up to half of the output's RMS.

    If that distance is 0 (an output before any quantised operator), the tolerance is a rounding. Of
    integers (such as an argmax), `times` as many elements as quantising changes may differ, and a
    few more.
    """
    rounded = rounding(actual, expected)
    if floats.shape != expected.shape:
        return rounded
    if expected.dtype.kind not in "fV":
        return _decided_by_steps(actual, expected, floats, times)
    with np.errstate(all="ignore"):
        error = np.abs(widened(expected) - widened(floats))
    body = unmasked(expected)
    noise = rms(error[np.isfinite(error) & body])
    signal = rms(magnitudes_of(expected)[body])
    if noise <= EPSILON.get(expected.dtype.name, 0.0) * signal:
        return rounded
    max_rms = times * noise
    max_rms = max(max_rms, min(max_rms * _by_chance(expected.size), signal / 2))
    return _by_rms(expected, max_rms, noise / signal if signal else 0.0, noise)


def _decided_by_steps(actual: Array, expected: Array, floats: Array, times: float) -> Tolerance:
    """Return the tolerance of integers: a few differing elements are undecided."""
    wrong = actual != expected
    limit = (
        times * np.count_nonzero(floats != expected) + math.sqrt(max(expected.size, 1)) / RMS_CHANCE
    )
    undecided = wrong if np.count_nonzero(wrong) <= limit else None
    return Tolerance("measured", 0.0, 0.0, 0.0, undecided=undecided)


def of_steps(expected: Array, samples: Sequence[Array]) -> Tolerance:
    """Return the tolerance of a value of a quantised graph whose operators are all correct: the RMS
    of its noise from rounding ties.

    Args:
        samples: Values of runs with random rounding.

    One tie moves a single element by a step, and the values computed from it by any amount, so
    there is no limit of elements. A step of 256 in one element is noise in any case.
    """
    exact = widened(expected)
    body = unmasked(expected)
    with np.errstate(all="ignore"):
        errors = [(widened(sample) - exact)[body & np.isfinite(sample)] for sample in samples]
    size = int(np.count_nonzero(body))
    step = float(np.ptp(exact[body])) / 256 if body.any() else 0.0
    noise = max(rms(np.concatenate(errors)) if errors else 0.0, step / math.sqrt(max(size, 1)))
    signal = rms(magnitudes_of(expected)[body])
    return _by_rms(
        expected, RMS_SIGMAS * _by_chance(size) * noise, noise / signal if signal else 0.0, noise
    )


def on_grid(expected: Array, step: float, min_sqnr_db: float | None) -> Tolerance:
    """Return the tolerance of an output that is a multiple of `step`, by `grid_verdict`.

    An expected output that is a multiple of it, too, is the quantised model's: steps are counted.
    Any other is the float model's: the SQNR has a minimum (rtol of the tolerance).
    """
    minimum = MIN_SQNR_DB if min_sqnr_db is None else min_sqnr_db
    with np.errstate(all="ignore"):
        steps = magnitudes_of(expected) / step
    if np.all(np.abs(steps - np.rint(steps)) <= MAX_GRID_ERROR * np.maximum(steps, 1)):
        return Tolerance("grid", 1.01 * step, 10 ** (-minimum / 20), step, step=step)
    return of_float_model(expected, minimum)


def least_sqnr_db(is_static: bool, bits: int) -> float:
    """Return the default minimum of a program's SQNR: `is_static` if activations have scales of
    calibration, `bits` of the smallest quantised numbers."""
    return MIN_SQNR_DB if is_static or bits < 8 else FLOAT_RANGE_MIN_SQNR_DB


def of_float_model(expected: Array, min_sqnr_db: float) -> Tolerance:
    """Return the tolerance of a quantised program's output against the float model's: an RMS error
    of at most that SQNR, without a limit per element except for mask values, which are copied."""
    share = 10 ** (-min_sqnr_db / 20)
    signal = rms(magnitudes_of(expected)[unmasked(expected)])
    rule = _by_rms(expected, share * signal, share, share * signal)
    return replace(rule, min_sqnr_db=min_sqnr_db)


def against_float(actual: Array, expected: Array, min_sqnr_db: float) -> Tolerance:
    """Return the tolerance of any output of a quantised program against the float model's.

    Floats within the limits of two arrays match, others need the SQNR. Of integers (classes), at
    most MAX_CHANGED_SHARE may differ; where more do, nothing is decided: quantising may change
    them.
    """
    if expected.dtype.kind not in "fV":
        wrong = actual != expected
        few = np.count_nonzero(wrong) <= MAX_CHANGED_SHARE * wrong.size
        undecided = wrong if few else np.full(wrong.shape, bool(wrong.any()))
        return Tolerance("quantized", 0.0, 0.0, 0.0, undecided=undecided, min_sqnr_db=min_sqnr_db)
    plain = by_dtype(actual, expected)
    return of_float_model(expected, min_sqnr_db) if outside(actual, expected, plain) else plain


def is_rounding(metrics: ErrorMetrics, dtype: str) -> bool:
    """Return True if an error is at most a rounding or two of its output."""
    return metrics.relative <= ROUNDING_EPSILONS * EPSILON.get(dtype, 0.0)


def between(
    actual: Array,
    expected: Array,
    quantized: int,
    noise: Array | None = None,
    precision: float = 0.0,
) -> Tolerance:
    """Return the tolerance for a value of two programs of one model.

    Args:
        quantized: Number of the programs (0 to 2) with 8-bit integers at or before the value.
        noise: Standard deviation of the value if the inputs change by a rounding, if known.
        precision: Machine epsilon of the coarsest dtype of the value and what it is computed from.

    Float programs: `by_dtype` of that precision, and INPUT_SIGMAS times the noise and that around
    the element. Two quantised ones: MAX_GRID_STEPS steps of 256 of the value's range. One
    quantised, one float: the RMS error of an SQNR of MIN_SQNR_DB.
    """
    magnitudes = magnitudes_of(expected)
    if quantized == 1:
        return of_float_model(expected, MIN_SQNR_DB)
    if quantized:
        finite = widened(expected)[np.isfinite(widened(expected))]
        step = float(np.ptp(finite)) / 256 if finite.size else 0.0
        return Tolerance(
            "dtype", MAX_GRID_STEPS * step + 1e-6 * magnitudes, 0.0, MAX_GRID_STEPS / 256
        )
    rule = by_dtype(actual, expected, precision)
    if noise is None or not rule.rtol:
        return rule
    around = scale_of(noise, mask_values(expected))
    return replace(rule, limit=rule.limit + INPUT_SIGMAS * (noise + around))


def wrong_elements(
    actual: Array, expected: Array, tolerance: Tolerance, equal_nan: bool = True
) -> Array:
    """Return a mask of the elements out of tolerance; all elements if only the RMS error is."""
    with np.errstate(all="ignore"):
        error = errors_of(actual, expected)
        wrong: Array = ~(error <= tolerance.limit)
        if not are_finite(error):
            wrong |= np.isinf(error)
        if wrong.any():
            same = actual == expected
            if equal_nan:
                same |= np.isnan(widened(actual)) & np.isnan(widened(expected))
            wrong &= ~same
            if tolerance.undecided is not None:
                wrong &= ~tolerance.undecided
    if tolerance.noise is not None and not wrong.any():
        if rms_ratio(error, tolerance.noise) > RMS_SIGMAS:
            return np.ones_like(wrong)
    return wrong


def outside(actual: Array, expected: Array, tolerance: Tolerance, equal_nan: bool = True) -> int:
    """Return the number of elements out of tolerance; all elements if the RMS error is."""
    return int(np.count_nonzero(wrong_elements(actual, expected, tolerance, equal_nan)))


def rms_ratio(error: Array, noise: Array) -> float:
    """Return the RMS of errors in units of the noise."""
    with np.errstate(all="ignore"):
        ratio = error / noise
    total = float(np.einsum("i,i->", ratio.reshape(-1), ratio.reshape(-1)))
    if not math.isfinite(total):
        ratio = ratio[np.isfinite(ratio)]
        total = float(np.einsum("i,i->", ratio, ratio))
    return math.sqrt(total / max(ratio.size, 1))
