"""Input of the power measurement: the matching cases of a check, with the limits beyond which the
judge finds wrong outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from executorch_c._arrays import Array, as_array
from executorch_c.check.cases import CallSequence
from executorch_c.check.reference import Eager
from executorch_c.check.result import CheckedCase
from executorch_c.compare import tolerance
from executorch_c.compare.comparison import OutputComparison
from executorch_c.compare.tolerance import Tolerance
from executorch_c.noise.rounding import samples

FIRST_NOISE_RUNS = 2
"""Runs with random rounding that measure the limits of a wrong output."""


@dataclass(frozen=True)
class CheckedCases:
    """Results of a check that the power measurement reads."""

    cases: Sequence[tuple[CallSequence, CheckedCase, list[list[Any]]]]
    """The cases, their comparisons, and the outputs of the reference."""
    frozen: Sequence[str]
    """Names of the buffers of the reference that calls change."""
    names: Sequence[str]
    """Names of the inputs."""
    unvaried: tuple[str, ...]
    """Sentences about inputs that do not vary."""
    seconds: float
    """Limit of the thread's processor time."""

    def matching(self, limits: Callable[[CheckedCase, list[list[Any]]], Any]) -> list[MatchingCase]:
        """Return the cases that match, with the limits of their outputs."""
        return [
            MatchingCase(case, limits(one, outputs), outputs)
            for case, one, outputs in self.cases
            if one.verdict == "match"
        ]


@dataclass(frozen=True)
class MatchingCase:
    """A case that matches, the limits of its outputs, and the reference's outputs, by call."""

    case: CallSequence
    limits: list[list[Tolerance | float | None]]
    expected: list[list[Any]]


def limits_of(checked: CheckedCase, expected: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Return the limit of each output, by call."""
    return [
        [one.tolerance if one.metrics is not None else None for one in call]
        for call in _by_call(checked, len(expected))
    ]


def limits_of_graph(
    checked: CheckedCase, expected: Sequence[Sequence[Any]], is_static: bool
) -> list[list[Any]]:
    """Return the limit of each output of a quantised graph, by call: the caller's; a few roundings,
    beyond which the judge compares all layers, if these have integers (`is_static`), so that it
    finds every error but a tie; else the one beyond which an output differs whatever its layers.
    """
    return [
        [_of_graph(one, value, is_static) for one, value in zip(call, _some(values))]
        for call, values in zip(_by_call(checked, len(expected)), expected)
    ]


def with_ties(eager: Eager, cases: Sequence[MatchingCase]) -> list[MatchingCase]:
    """Return cases with limits that are at least the noise of rounding ties, measured in the first
    case."""
    runs = _noisy(eager, cases[0])
    factors = dict[int, float]()
    for i, (rule, value) in enumerate(zip(cases[0].limits[0], _some(cases[0].expected[0]))):
        if isinstance(rule, Tolerance) and rule.kind == "quantized" and i in runs:
            ties = tolerance.of_steps(value, runs[i])
            factors[i] = tolerance.of_wrong(value, rule, ties)[0]
    return [
        replace(
            one,
            limits=[
                [
                    rule.scaled(factors[i])
                    if i in factors and isinstance(rule, Tolerance)
                    else rule
                    for i, rule in enumerate(call)
                ]
                for call in one.limits
            ],
        )
        for one in cases
    ]


def _by_call(checked: CheckedCase, calls: int) -> list[Sequence[OutputComparison]]:
    outputs = () if checked.comparison is None else checked.comparison.outputs
    count = len(outputs) // max(calls, 1)
    return [outputs[i * count : (i + 1) * count] for i in range(calls)]


def _of_graph(one: OutputComparison, value: Any, is_static: bool) -> Tolerance | None:
    if one.metrics is None or not isinstance(value, np.ndarray):
        return None
    if one.tolerance is not None and (one.tolerance.kind == "caller" or not is_static):
        return one.tolerance
    return tolerance.rounding(value, value)


def of_wrong_outputs(eager: Eager, cases: Sequence[MatchingCase]) -> list[MatchingCase]:
    """Return the cases with limits of wrong outputs: noise (`tolerance.of_wrong`) in place of a few
    roundings, as the judge measured it in some case, or else measured in the first case."""
    factors = dict[int, tuple[float, bool]]()
    for one in cases:
        for i, rule in enumerate(one.limits[0]):
            values = _some(one.expected[0])[i]
            if isinstance(rule, Tolerance) and not rule.is_rounding and i not in factors:
                few = tolerance.rounding(values, values)
                factors[i] = tolerance.of_wrong(values, few, rule)
    if any(
        isinstance(rule, Tolerance) and i not in factors
        for one in cases
        for call in one.limits
        for i, rule in enumerate(call)
    ):
        factors = {**dict(enumerate(_measured_factors(eager, cases[0]))), **factors}

    def wrong(rule: Any, index: int) -> Any:
        if not isinstance(rule, Tolerance) or not rule.is_rounding:
            return rule
        return rule.scaled(*factors.get(index, (1.0, True)))

    return [
        replace(
            one, limits=[[wrong(rule, i) for i, rule in enumerate(call)] for call in one.limits]
        )
        for one in cases
    ]


def _some(values: Sequence[Any]) -> list[Any]:
    """Return the outputs without None, which programs omit."""
    return [one for one in values if one is not None]


def _measured_factors(eager: Eager, first: MatchingCase) -> Iterator[tuple[float, bool]]:
    """Yield by output how much larger limits of noise are than those of a few roundings, measured
    in a case."""
    runs = _noisy(eager, first)
    for i, values in enumerate(_some(first.expected[0])):
        if not isinstance(values, np.ndarray):
            yield 1.0, True
            continue
        few = tolerance.rounding(values, values)
        rule = (
            tolerance.measured(values, values, runs[i])
            if i in runs
            else tolerance.by_dtype(values, values)
        )
        yield tolerance.of_wrong(values, few, rule)


def _noisy(eager: Eager, first: MatchingCase) -> dict[int, list[Array]]:
    """Return the outputs of the first call of a case in runs with random rounding, by output;
    without those of other shapes."""
    runs = samples(lambda mode: eager(first.case.calls, mode), range(FIRST_NOISE_RUNS)) or []
    outputs = {
        i: [as_array(_some(run[0])[i]) for run in runs]
        for i in range(len(_some(first.expected[0])))
    }
    return {
        i: others
        for i, others in outputs.items()
        if others and all(one.shape == np.shape(_some(first.expected[0])[i]) for one in others)
    }


def in_turn(cases: Sequence[MatchingCase]) -> list[MatchingCase]:
    """Return cases with the first of each kind before the second."""
    counts: dict[str, int] = {}
    keys = []
    for one in cases:
        counts[one.case.kind] = counts.get(one.case.kind, 0) + 1
        keys.append(counts[one.case.kind])
    return [cases[i] for i in sorted(range(len(cases)), key=keys.__getitem__)]
