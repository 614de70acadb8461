"""The verdict on a device: who is at fault where it computes something else.

nondeterministic  runs on equal inputs differ: one is within the allowance and another is not, or
                  two are further from each other than the allowance, however many agree
export            the graph of the export computes something else than the model
lowering          the payload computes something else than that graph: a node is wrong on its own
                  inputs (`explain`)
device            the payload is right, and the device further from it than its arithmetic allows
precision         the device is within what its arithmetic allows, and further than a few roundings
match             it is within a few roundings

The first that fits is the verdict. "inconclusive": the allowance is as wide as the output, or the
output can show no error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from executorch_c._arrays import Array
from executorch_c.blame.arithmetic import Spread
from executorch_c.blame.signatures import describe, describe_extents
from executorch_c.compare import tolerance, verdicts
from executorch_c.compare.metrics import ErrorMetrics
from executorch_c.compare.shown import limited
from executorch_c.debug.report import EXPORT

if TYPE_CHECKING:
    from executorch_c.blame.device import DeviceValues, Expected
    from executorch_c.blame.locating import Departure
    from executorch_c.debug.report import ErrorReport

Fault: TypeAlias = Literal[
    "match", "precision", "export", "lowering", "device", "nondeterministic", "inconclusive"
]

VERDICTS: dict[Fault, verdicts.Verdict] = {
    "match": "match",
    "precision": "match",
    "export": "differ",
    "lowering": "differ",
    "device": "differ",
    "nondeterministic": "differ",
    "inconclusive": "inconclusive",
}
"""The verdict that each is, for exit codes."""

MAX_RESULTS = 16
"""Results of runs on equal inputs that are told apart."""


@dataclass(frozen=True)
class OutputError:
    """An output of one run beside the payload's."""

    run: int
    output: int
    verdict: verdicts.Verdict
    error: ErrorMetrics
    """`limit` is what the device's arithmetic allows."""
    reason: str = ""
    pattern: str = ""
    """Pattern of a wrong output, in words (`signatures.py`)."""


def judge_outputs(
    run: int, values: DeviceValues, spreads: Sequence[Spread | None], expected: Expected
) -> list[OutputError]:
    """Return the errors of the outputs that a run has. Of an output of another shape, they are
    those of the elements that both have."""
    return [
        _judge(run, number, output, spread, expected)
        for number, (output, spread) in enumerate(zip(values.outputs, spreads))
        if output is not None and spread is not None
    ]


def _judge(run: int, number: int, output: Array, spread: Spread, expected: Expected) -> OutputError:
    actual, exact, limits = spread.beside(output)
    judged = verdicts.judge(actual, exact, limits)
    metrics = limited(judged.metrics, limits, actual, exact)
    wanted = spread.exact.shape
    if output.shape != wanted:
        pattern = describe_extents(output.shape, wanted, expected.bound(number))
        return OutputError(run, number, "differ", metrics, pattern=pattern)
    pattern = describe(actual, exact, limits) if judged.verdict == "differ" else ""
    return OutputError(run, number, judged.verdict, metrics, judged.reason, pattern)


def groups(
    runs: Sequence[DeviceValues], spreads: Sequence[Spread | None]
) -> tuple[tuple[int, ...], ...]:
    """Return the numbers of runs that agree: whose outputs are no further from those of the first
    of them than the allowance of both. The largest group is first; runs that agree with none of
    MAX_RESULTS groups are together in one more, the last."""
    found: list[list[int]] = []
    rest: list[int] = []
    for number, run in enumerate(runs):
        for group in found:
            if _agree(runs[group[0]], run, spreads):
                group.append(number)
                break
        else:
            if len(found) < MAX_RESULTS:
                found.append([number])
            else:
                rest.append(number)
    ordered = [*sorted(found, key=len, reverse=True), rest]
    return tuple(tuple(group) for group in ordered if group)


def _agree(one: DeviceValues, other: DeviceValues, spreads: Sequence[Spread | None]) -> bool:
    for a, b, spread in zip(one.outputs, other.outputs, spreads):
        if a is None or b is None or spread is None or _equal(a, b):
            continue
        if a.shape != b.shape:
            return False
        actual, _, limits = spread.beside(a)
        second = spread.beside(b)[0]
        if tolerance.outside(actual, second.astype(actual.dtype), limits.scaled(math.sqrt(2))):
            return False
    return True


def _equal(a: Array, b: Array) -> bool:
    return bool(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"))


def are_equal(runs: Sequence[DeviceValues]) -> bool:
    """Return True if all runs have equal outputs."""
    first = runs[0].outputs if runs else ()
    return all(
        (a is None) == (b is None) and (a is None or b is None or _equal(a, b))
        for run in runs[1:]
        for a, b in zip(first, run.outputs)
    )


@dataclass(frozen=True)
class Evidence:
    """What a verdict depends on."""

    errors: Sequence[Sequence[OutputError]]
    """Of the outputs of each run."""
    nodes: Sequence[Departure]
    """Values of nodes of one run."""
    groups: Sequence[Sequence[int]]
    """Runs that agree, by number: one group, unless the device is not deterministic; as of
    `groups`."""
    payload: ErrorReport | None
    """The report of `explain`; None without a model."""
    is_close: bool
    """True if all outputs are within a few roundings of the reference's."""

    @property
    def agreeing(self) -> Sequence[Sequence[int]]:
        """The groups; where one has both, the right runs and the wrong ones."""
        wrong = {*self.wrong}
        parts = [
            tuple(run for run in group if (run in wrong) == is_wrong)
            for group in self.groups
            for is_wrong in (True, False)
        ]
        return [part for part in parts if part]

    @property
    def leaving(self) -> Departure | None:
        """The first node at which the device leaves the program; None without one."""
        return next((node for node in self.nodes if not node.is_right), None)

    @property
    def wrong(self) -> list[int]:
        """Runs with an output beyond the allowance."""
        return [
            i for i, run in enumerate(self.errors) if any(row.verdict == "differ" for row in run)
        ]


def decide(evidence: Evidence) -> tuple[Fault, str]:
    """Return the verdict, and the reason of an inconclusive one."""
    wrong, payload = evidence.wrong, evidence.payload
    rows = [row for run in evidence.errors for row in run]
    if len(evidence.groups) > 1 or 0 < len(wrong) < len(evidence.errors):
        return "nondeterministic", ""
    if payload is not None and payload.verdict == "differ":
        first = payload.first
        return ("export" if first is not None and first.where == EXPORT else "lowering"), ""
    if wrong or not rows and evidence.leaving is not None:
        return "device", ""
    verdict = verdicts.combined(row.verdict for row in rows)
    if rows and verdict != "match":
        return "inconclusive", next((row.reason for row in rows if row.reason), "")
    if not rows and not evidence.nodes:
        return "inconclusive", "the device has returned no output and no value of a node"
    return ("match" if evidence.is_close else "precision"), ""


def is_close(values: DeviceValues, expected: Sequence[object]) -> bool:
    """Return True if all outputs of a run are within a few roundings of the expected ones."""
    for actual, wanted in zip(values.outputs, expected):
        if actual is None or not isinstance(wanted, np.ndarray):
            continue
        if wanted.shape != actual.shape:
            return False
        if tolerance.outside(actual, wanted, tolerance.rounding(actual, wanted)):
            return False
    return True
