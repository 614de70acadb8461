"""Verdicts of outputs by the caller's requirements (`policies.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from executorch_c._arrays import Array, as_array
from executorch_c.compare import policies as _policies
from executorch_c.compare import verdicts
from executorch_c.compare.comparison import Comparison, OutputComparison
from executorch_c.compare.policies import Measured, Policies, Requirement
from executorch_c.compare.verdicts import Verdict


def required(
    comparison: Comparison,
    actual: Sequence[object],
    expected: Sequence[object],
    policies: Policies,
) -> Comparison:
    """Return a comparison whose outputs have the metrics of requirements, and their verdict."""
    if not policies:
        return comparison
    pairs = [
        (as_array(a), as_array(e)) if output.metrics is not None else None
        for output, a, e in zip(comparison.outputs, actual, expected)
    ]
    kinds = [
        (output.index, output.name, None if pair is None else pair[1].dtype)
        for output, pair in zip(comparison.outputs, pairs)
    ]
    rows = [
        output if pair is None or not asked else _required(output, *pair, asked)
        for output, pair, asked in zip(comparison.outputs, pairs, policies.of(kinds))
    ]
    return replace(comparison, outputs=tuple(rows))


def _required(
    output: OutputComparison, actual: Array, expected: Array, asked: Sequence[Requirement]
) -> OutputComparison:
    values = tuple(_policies.measured(one, actual, expected) for one in asked)
    output = replace(output, requirements=values)
    is_callers = output.tolerance is not None and output.tolerance.kind == "caller"
    if not any(one.relation for one in values) or output.problem is not None:
        return output
    if is_callers and output.verdict == "differ":
        return output
    wrong = [one for one in values if not one.ok]
    reason = "; ".join(one.why() for one in wrong)
    verdict: Verdict = "differ" if wrong else "match"
    if wrong and all(one.value != one.value for one in wrong):
        if why := verdicts.uninformative(expected):
            verdict, reason = "inconclusive", f"{reason}: {why}"
    return replace(output, verdict=verdict, reason=reason, by_default=output.verdict)


def settled(parts: Sequence[Comparison]) -> list[Comparison]:
    """Return the comparisons of several cases with requirements on shares (top5) decided by the
    rows of all cases."""
    groups: dict[tuple[str, int], list[Measured]] = {}
    for part in parts:
        for output in part:
            for one in output.requirements:
                if one.rows:
                    groups.setdefault((one.requirement, output.index), []).append(one)
    held = {
        key for key, group in groups.items() if _policies.within(group[0], _policies.share(group))
    }

    def decided(output: OutputComparison) -> OutputComparison:
        values = tuple(
            replace(one, ok=True) if (one.requirement, output.index) in held else one
            for one in output.requirements
        )
        if output.by_default is None or values == output.requirements:
            return output
        output = replace(output, requirements=values)
        if not all(one.ok for one in values):
            return output
        return replace(output, verdict="match", reason="")

    return [replace(part, outputs=tuple(map(decided, part.outputs))) for part in parts]
