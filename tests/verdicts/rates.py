"""Error rates of verdicts by flow, with their bounds."""

import math
from collections.abc import Sequence

from tests.verdicts.proof import Row

CONFIDENCE = 0.95
"""Confidence of the two-sided bounds."""
STEPS = 60
"""Bisections of a bound."""


def _at_most(count: int, trials: int, rate: float) -> float:
    """Return the probability of at most `count` events in some trials."""
    if rate >= 1:
        return float(count >= trials)
    logs = (
        math.lgamma(trials + 1)
        - math.lgamma(i + 1)
        - math.lgamma(trials - i + 1)
        + i * math.log(rate)
        + (trials - i) * math.log1p(-rate)
        for i in range(count + 1)
    )
    return math.fsum(map(math.exp, logs))


def upper(count: int, trials: int) -> float:
    """Return the upper end of the interval of Clopper and Pearson for a rate."""
    if count >= trials:
        return 1.0
    low, high = count / trials, 1.0
    for _ in range(STEPS):
        middle = (low + high) / 2
        likely = _at_most(count, trials, middle) > (1 - CONFIDENCE) / 2
        low, high = (middle, high) if likely else (low, middle)
    return high


def lower(count: int, trials: int) -> float:
    """Return the lower end of that interval."""
    return 1 - upper(trials - count, trials)


def table(rows: Sequence[Row], order: Sequence[str]) -> str:
    """Return the table of error rates by flow, in Markdown."""
    lines = [
        "| flow | programs | right outputs | false alarms | at most | inconclusive "
        "| faults | accepted | at most | layer named |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for flow in order:
        if any(row.flow == flow and row.kind != "not run" for row in rows):
            lines.append(f"| {flow} | {_figures([row for row in rows if row.flow == flow])} |")
    return "\n".join([*lines, f"| **all** | {_figures(rows)} |"])


def _figures(rows: Sequence[Row]) -> str:
    right = [row for row in rows if row.kind == "right"]
    counted = [row for row in rows if row.counts]
    named = [row.named for row in rows if row.named is not None]
    programs = {(row.net, row.weights, row.flow) for row in right}
    alarms, accepted = (
        sum(getattr(row, name) for row in rows) for name in ("is_alarm", "is_accepted")
    )
    unknown = sum(row.verdict == "inconclusive" for row in right)
    names = f"{sum(named):,} of {len(named):,}" if named else ""
    if named:
        names += f" (at least {lower(sum(named), len(named)):.1%})"
    figures = [
        *(f"{len(programs):,}", f"{len(right):,}", f"{alarms:,}", _bound(alarms, len(right))),
        *(f"{unknown:,}", f"{len(counted):,}", f"{accepted:,}", _bound(accepted, len(counted))),
        names,
    ]
    return " | ".join(figures)


def _bound(count: int, trials: int) -> str:
    return f"{upper(count, trials):.2%}" if trials else ""


def not_run(rows: Sequence[Row]) -> str:
    """Return a list of what did not run, and why."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.kind == "not run":
            reasons.setdefault((row.flow, row.fault), []).append(f"{row.net} ({row.weights})")
    return "\n".join(
        f"* {flow}: {', '.join(names)}: {why}" for (flow, why), names in sorted(reasons.items())
    )
