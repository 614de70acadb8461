"""Limits of the values inside programs: the caller's, those of rules, or those of a float model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from executorch_c._arrays import Array
from executorch_c.compare import channels, tolerance
from executorch_c.compare.limits import MIN_SQNR_DB
from executorch_c.compare.metrics import ErrorMetrics, measure_size
from executorch_c.compare.shown import limited
from executorch_c.compare.tolerance import CallerTolerances, Tolerance, check_not_negative


@dataclass(frozen=True)
class NodeTolerances(CallerTolerances):
    """rtol and atol of every node; without them, the tool's rules, or the SQNR."""

    rtol: float | None = None
    atol: float | None = None
    min_sqnr_db: float | None = None
    """Minimum SQNR of the outputs of a quantised program against its float model; None for any
    other reference, and with the caller's limits. Other values have MIN_SQNR_DB, and channels may
    not err far more than others."""

    def __post_init__(self) -> None:
        check_not_negative(rtol=self.rtol, atol=self.atol)  # no mappings: nodes are not outputs

    def error(
        self, actual: Array, expected: Array, rules: Iterable[Tolerance], is_output: bool = False
    ) -> ErrorMetrics:
        """Return the error; mismatched elements are those outside of the most generous rule, or all
        elements of a value or channel with a too small SQNR.

        Args:
            rules: From the cheapest to the most generous; the first without exceeding elements is
                the last one used.
        """
        if actual.dtype == expected.dtype and np.array_equal(actual, expected):
            return measure_size(actual, expected, mismatched=0)
        if self.cover_all:
            rules = [tolerance.of_caller(actual, expected, *self.of(0))]
        elif self.min_sqnr_db is not None:
            minimum = self.min_sqnr_db if is_output else MIN_SQNR_DB
            rules = [tolerance.against_float(actual, expected, minimum)]
        count, rule = actual.size, None
        for rule in rules:
            count = min(count, tolerance.outside(actual, expected, rule))
            if not count:
                break
        if self.min_sqnr_db is not None and not count:
            count = channels.mismatched(actual, expected)
        metrics = measure_size(actual, expected, mismatched=count)
        return metrics if rule is None else limited(metrics, rule, actual, expected)
