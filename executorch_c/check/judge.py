"""Verdicts of a check: one call's outputs against the reference's.

Float flows: within a rounding or two is a match; beyond that, the reference runs with random
rounding, and its noise is the limit (`compare/tolerance.py`).

Quantised flows: outputs equal to those of the quantised eager graph match. Rounding ties let
integers differ from the graph's by a step, and such steps grow on the way. An audit finds any other
difference, layer by layer (`debug/layers.py`): every integer must be the nearest one, or the other
next to a tie, of the number that the graph computes from the program's own values. Then the outputs
may be as far from the graph as quantising has put the graph from the float model, or as ties alone
put it (the graph with random rounding); the verdict is "inconclusive" where such ties change the
output by more than a tenth. The signal-to-quantisation-noise ratio against the float model must
have its least value on the inputs that the graph was calibrated with.

Quantised programs of another origin: `quantized.py` sees whether the model is the quantised graph,
or the float model, for which the ratio decides, of the outputs and layer by layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from executorch_c._arrays import Array, as_array
from executorch_c.check import sets
from executorch_c.compare import tolerance, verdicts
from executorch_c.compare.arrays import Rule, compare_flat, rule_of
from executorch_c.compare.comparison import Comparison, OutputComparison
from executorch_c.compare.limits import MAX_GRAPH_FACTOR, NOISE_RUNS
from executorch_c.compare.metrics import rms
from executorch_c.compare.scale import unmasked, widened
from executorch_c.compare.tolerance import CallerTolerances, Tolerance
from executorch_c.compare.verdicts import Verdict

Outputs = Sequence[Any]
Noise = Callable[[float, int], "Sequence[Sequence[Any]] | None"]
"""Returns outputs of a number of runs of the reference with random rounding of (at least) a machine
epsilon."""


@dataclass(frozen=True)
class Audit:
    """Finding of a layer-by-layer comparison of a quantised program with its reference."""

    verdict: Verdict
    summary: str


class Judge:
    """Tolerances of the caller, else measured ones."""

    def __init__(self, limits: CallerTolerances, *, equal_nan: bool, check_dtype: bool) -> None:
        self.limits = limits
        self.names: Sequence[str | None] = ()
        """Names of the outputs, if known."""
        self.equal_nan, self.check_dtype = equal_nan, check_dtype
        self.unordered: Callable[[], Mapping[int, int]] = dict
        """Returns the dims of outputs that are sets: results of topk(sorted=False), by number."""

    def caller_rule(self, index: int) -> Rule | None:
        """Return the caller's rule for an output, or None."""
        name = self.names[index] if index < len(self.names) else None
        return self._caller_rules() if self.limits.cover(index, name) else None

    def _caller_rules(self) -> Rule:
        return rule_of(self.limits, self.names)

    def compare(self, actual: Outputs, expected: Outputs, rule: Rule) -> Comparison:
        """Return outputs compared by a rule."""
        return compare_flat(
            actual,
            expected,
            rule,
            equal_nan=self.equal_nan,
            check_dtype=self.check_dtype,
            names=self.names,
        )

    def __call__(self, actual: Outputs, expected: Outputs, noise: Noise) -> Comparison:
        """Return the outputs of one call compared with the reference's."""
        comparison = self._by_noise(actual, expected, noise)
        if comparison.verdict == "match" or not (dims := self.unordered()):
            return comparison
        ours, theirs = sets.as_sets(actual, dims), sets.as_sets(expected, dims)

        def noise_of_sets(epsilon: float, count: int) -> list[list[Any]] | None:
            runs = noise(epsilon, count)
            return None if runs is None else [sets.as_sets(run, dims) for run in runs]

        return sets.with_remark(self._by_noise(ours, theirs, noise_of_sets), dims)

    def _by_noise(self, actual: Outputs, expected: Outputs, noise: Noise) -> Comparison:
        """Return outputs compared by the caller's tolerances, or the reference's rounding noise."""

        def rule(index: int, ours: Array, theirs: Array) -> Tolerance:
            if (by_caller := self.caller_rule(index)) is not None:
                return by_caller(index, ours, theirs)
            few = tolerance.rounding(ours, theirs)
            if not tolerance.outside(ours, theirs, few):
                return few
            return _measured(index, ours, theirs, noise)

        return self.compare(actual, expected, rule)


def _measured(index: int, ours: Array, theirs: Array, noise: Noise) -> Tolerance:
    """Return the tolerance of an output by the reference's rounding noise."""
    epsilon = tolerance.epsilon_of(ours.dtype, theirs.dtype)

    def outputs(count: int) -> list[Array] | None:
        runs = noise(epsilon, count)
        return None if runs is None else [as_array(run[index]) for run in runs]

    return tolerance.of_runs(ours, theirs, outputs) or tolerance.by_dtype(ours, theirs)


class AuditingJudge(Judge):
    """Compares the layers of a quantised program where its outputs do not decide."""

    def __init__(
        self,
        limits: CallerTolerances,
        *,
        min_sqnr_db: float,
        audit: Callable[[int], Audit],
        **options: bool,
    ) -> None:
        """`audit` compares layer by layer in the call with a number; it is asked once."""
        super().__init__(limits, **options)
        self.min_sqnr_db = min_sqnr_db
        self._audit = audit
        self._finding: Audit | None = None

    def audited(
        self, comparison: Comparison, call: int, depends: Callable[[OutputComparison], bool]
    ) -> Comparison:
        """Return a comparison with the finding of the audit for the outputs that depend on it."""
        if not any(map(depends, comparison.outputs)):
            return comparison
        if self._finding is None:
            self._finding = self._audit(call)
        finding = self._finding
        if finding.verdict == "match":
            return comparison
        outputs = (
            replace(output, verdict=finding.verdict, reason=finding.summary)
            if depends(output)
            else output
            for output in comparison.outputs
        )
        return replace(comparison, outputs=tuple(outputs))


class QuantizedJudge(AuditingJudge):
    """The quantised graph as the reference, the float model as the measure of its noise."""

    def against_graph(
        self,
        actual: Outputs,
        expected: Outputs,
        floats: Outputs,
        call: int,
        noise: Noise,
        is_audited: bool = True,
    ) -> Comparison:
        """Return the outputs of one call compared with the graph's and the float model's;
        `is_audited`: they are this runtime's, whose layers can be compared."""
        if self.limits.cover_all:
            return self.compare(actual, expected, self._caller_rules())

        def measured(index: int, ours: Array, theirs: Array) -> Tolerance:
            if (by_caller := self.caller_rule(index)) is not None:
                return by_caller(index, ours, theirs)
            few = tolerance.within_quantization(
                ours, theirs, as_array(floats[index]), MAX_GRAPH_FACTOR
            )
            if theirs.dtype.kind not in "fV" or not tolerance.outside(ours, theirs, few):
                return few
            samples = [as_array(run[index]) for run in noise(0.0, NOISE_RUNS) or ()]
            if not samples or any(sample.shape != theirs.shape for sample in samples):
                return few
            ties = replace(tolerance.of_steps(theirs, samples), kind="measured")
            return few if tolerance.outside(ours, theirs, ties) else ties

        comparison = self.compare(actual, expected, measured)
        return self.audited(comparison, call, self._depends_on_audit) if is_audited else comparison

    def _depends_on_audit(self, output: OutputComparison) -> bool:
        """Return True for an output that is neither equal to the graph's nor wrong already."""
        metrics = output.metrics
        if (
            self.caller_rule(output.index) is not None
            or output.verdict == "differ"
            or metrics is None
        ):
            return False
        return metrics.relative != 0 and not tolerance.is_rounding(metrics, output.dtype)

    def against_float(
        self, comparison: Comparison, actual: Outputs, floats: Outputs, expected: Outputs
    ) -> Comparison:
        """Return a comparison with the verdict of the signal-to-quantisation-noise ratio."""
        rows = []
        for output, ours, theirs, graph in zip(comparison.outputs, actual, floats, expected):
            judged = output.ok and self.caller_rule(output.index) is None
            reason = self._too_noisy(ours, theirs, graph) if judged else ""
            rows.append(replace(output, verdict="differ", reason=reason) if reason else output)
        return replace(comparison, outputs=tuple(rows))

    def _too_noisy(self, actual: Any, floats: Any, graph: Any) -> str:
        a, f = as_array(actual), as_array(floats)
        if f.dtype.kind not in "fV" or a.shape != f.shape or verdicts.uninformative(f):
            return ""
        ratio = sqnr_db(a, f)
        if not ratio < self.min_sqnr_db:
            return ""
        own = sqnr_db(as_array(graph), f)
        whose = (
            "quantising costs it: the quantised graph itself has "
            if own < self.min_sqnr_db
            else "the quantised graph has "
        )
        return (
            f"SQNR {ratio:.1f} dB against the float model, at least {self.min_sqnr_db:g} dB "
            f"expected (min_sqnr_db); {whose}{own:.1f} dB"
        )


class SqnrJudge(AuditingJudge):
    """The float model as the reference of a quantised program."""

    def __init__(
        self,
        limits: CallerTolerances,
        *,
        rule: Rule,
        min_sqnr_db: float,
        is_static: bool,
        audit: Callable[[int], Audit],
        **options: bool,
    ) -> None:
        """`is_static` programs have scales of calibration."""
        super().__init__(limits, min_sqnr_db=min_sqnr_db, audit=audit, **options)
        self.rule, self.is_static = rule, is_static

    def __call__(self, actual: Outputs, expected: Outputs, noise: Noise) -> Comparison:
        """Return the outputs of one call compared with the float model's; without its noise."""

        def rule(index: int, ours: Array, theirs: Array) -> Tolerance:
            return (self.caller_rule(index) or self.rule)(index, ours, theirs)

        return self.compare(actual, expected, rule)

    def calibrated(self, comparison: Comparison, call: int) -> Comparison:
        """Return the comparison of inputs that a program is calibrated for, with the finding of the
        audit: an SQNR of the outputs alone hides a wrong channel of a layer."""
        if self.limits.cover_all or comparison.verdict == "differ":
            return comparison
        return self.audited(
            comparison, call, lambda one: one.ok and self.caller_rule(one.index) is None
        )

    def uncalibrated(self, comparison: Comparison) -> Comparison:
        """Return the comparison of inputs that a static program may not be calibrated for: a small
        SQNR is inconclusive."""
        if not self.is_static:
            return comparison
        return replace(comparison, outputs=tuple(map(_undecided, comparison.outputs)))


def _undecided(output: OutputComparison) -> OutputComparison:
    limits, metrics = output.tolerance, output.metrics
    by_sqnr = limits is not None and limits.min_sqnr_db is not None
    if output.verdict != "differ" or not by_sqnr or metrics is None or metrics.mismatched:
        return output
    reason = f"{output.reason}; the scales may not be calibrated for these inputs"
    return replace(output, verdict="inconclusive", reason=reason)


def sqnr_db(actual: Array, expected: Array) -> float:
    """Return the signal-to-quantisation-noise ratio of finite elements but mask values, in
    decibel."""
    a, e = widened(actual), widened(expected)
    both = np.isfinite(a) & unmasked(expected)
    signal, noise = rms(e[both]), rms((a - e)[both])
    if not noise:
        return float("inf")
    return float(20 * np.log10(signal / noise)) if signal else float("-inf")
