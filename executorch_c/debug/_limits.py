"""Tolerances of a node's result: the caller's, those of rules, or those of a float model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from executorch_c._arrays import Array
from executorch_c.compare import channels, shown, tolerance
from executorch_c.compare.limits import MIN_SQNR_DB
from executorch_c.compare.metrics import ErrorSize, measure_size
from executorch_c.compare.tolerance import Tolerance


@dataclass(frozen=True)
class NodeLimits:
    """rtol and atol of every node; None for the default, which is a rule of the tool."""

    rtol: float | None = None
    atol: float | None = None

    def __post_init__(self) -> None:
        tolerance.check_not_negative(rtol=self.rtol, atol=self.atol)

    @property
    def given(self) -> bool:
        """True if the caller has set one."""
        return self.rtol is not None or self.atol is not None

    def error(self, actual: Array, expected: Array, rules: Iterable[Tolerance]) -> ErrorSize:
        """Return the error; mismatched elements are those outside of the most generous rule.

        Args:
            rules: From the cheapest to the most generous; the first without exceeding elements is
                the last one used.
        """
        if actual.dtype == expected.dtype and np.array_equal(actual, expected):
            return measure_size(actual, expected, mismatched=0)
        if self.given:
            rules = [tolerance.given(actual, expected, self.rtol, self.atol)]
        found, last = actual.size, None
        for last in rules:
            found = min(found, tolerance.outside(actual, expected, last))
            if not found:
                break
        size = measure_size(actual, expected, mismatched=found)
        return size if last is None else limited(size, last, actual, expected)


@dataclass(frozen=True)
class SqnrLimits(NodeLimits):
    """Limits of a quantised program's values against those of its float model: an SQNR of the whole
    value, and of channels that err far more than the others."""

    least_of_outputs: float = MIN_SQNR_DB
    """Minimum SQNR of the outputs, in dB."""

    def error(self, actual: Array, expected: Array, rules: Iterable[Tolerance]) -> ErrorSize:
        """Return the error; all elements of a value or channel with a too small SQNR are
        mismatched."""
        return self._error(actual, expected, MIN_SQNR_DB)

    def of_output(self, actual: Array, expected: Array) -> ErrorSize:
        """Return the error of an output."""
        return self._error(actual, expected, self.least_of_outputs)

    def _error(self, actual: Array, expected: Array, least: float) -> ErrorSize:
        rule = tolerance.against_float(actual, expected, least)
        mismatched = tolerance.outside(actual, expected, rule) or channels.mismatched(
            actual, expected
        )
        size = measure_size(actual, expected, mismatched=mismatched)
        return limited(size, rule, actual, expected)


def limited(size: ErrorSize, rule: Tolerance, actual: Array, expected: Array) -> ErrorSize:
    """Return the size of an error with its limit, and the number of elements that have none."""
    return replace(
        size,
        limit=shown.relative_limit(rule, expected),
        not_judged=shown.not_judged(rule, actual, expected),
    )
