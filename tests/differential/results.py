"""Reports as text: each program that differs, and the table of all."""

import json
import re
import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.differential.programs import OFFICIAL, Report

HEAD = """# Random programs compared with eager's results

Written by `python -m tests.differential --saved FILE --markdown tests/differential/results.md`.
README.md says what is compared.
"""
MAX_REASONS = 12


def read(path: Path) -> list[Report]:
    """Return saved reports."""
    return [Report(**json.loads(line)) for line in path.read_text().splitlines()]


def unexplained(report: Report) -> list[dict[str, Any]]:
    """Return the differences without an explained cause."""
    if report.outcome == "crashed":
        return [{"way": "this runtime", "text": report.about, "cause": ""}]
    return [d for d in report.differences if not d["cause"]]


def text(report: Report) -> str:
    """Return a program with its differences."""
    lines = [f"seed {report.seed}: {report.outcome} {report.about}".rstrip(), report.source]
    for d in report.differences:
        place = f"call {d['call']}, output {d['output']}: " if d["output"] >= 0 else ""
        lines.append(f"  {d['way']}: {place}{d['text']}" + f" [{d['cause']}]" * bool(d["cause"]))
    return "\n".join(lines)


def table(reports: Sequence[Report]) -> str:
    """Return the numbers of programs by outcome, and of differences by cause, in Markdown."""
    items = [r for r in reports if r.outcome != "no graph"]
    run = [r for r in items if r.outcome != "not exported"]
    here = Counter(_verdict(r) for r in run)
    official = Counter(r.official or "not run" for r in run)
    operators = {name for r in run for name in r.operators}
    rows = [
        ("graphs", len(items)),
        ("not exported", len(items) - len(run)),
        ("programs", len(run)),
        ("right in each way of this runtime", here["right"]),
        ("differences explained", here["explained"]),
        ("differences not explained", here["not explained"]),
        ("elements that rounding decides", sum(r.undecided for r in run)),
        *[(f"official runtime: {name}", n) for name, n in sorted(official.items())],
        ("operators", len(operators)),
    ]
    lines = [
        "| | number |",
        "|---|--:|",
        *[f"| {name} | {n} |" for name, n in rows],
        "",
        *by_cause(run),
        "",
        *_not_explained(run),
        *_not_exported(items),
    ]
    return "\n".join(lines)


def _verdict(report: Report) -> str:
    if report.outcome == "right":
        return "right"
    mine = [d for d in unexplained(report) if d["way"] != OFFICIAL]
    return "not explained" if mine else "explained"


def by_cause(reports: Sequence[Report]) -> list[str]:
    """Return a table of programs by cause of their differences."""
    here: Counter[str] = Counter()
    official: Counter[str] = Counter()
    for report in reports:
        for count, is_official in ((here, False), (official, True)):
            count.update(
                {
                    d["cause"] or "not explained"
                    for d in report.differences
                    if (d["way"] == OFFICIAL) == is_official
                }
            )
    lines = ["| cause of a difference | programs here | in the official runtime |", "|---|--:|--:|"]
    names = sorted({*here, *official}, key=lambda name: -here[name] - official[name])
    return [*lines, *[f"| {name} | {here[name]} | {official[name]} |" for name in names]]


def _not_explained(reports: Sequence[Report]) -> list[str]:
    """Return the seeds of programs with a difference that has no cause yet."""
    seeds = sorted(r.seed for r in reports if unexplained(r))
    return (
        ["Seeds that are not explained:", "", *textwrap.wrap(", ".join(map(str, seeds)), 100), ""]
        if seeds
        else []
    )


def _not_exported(reports: Sequence[Report]) -> list[str]:
    reasons = Counter(_reason(r.about) for r in reports if r.outcome == "not exported")
    return [
        "Reasons for graphs that are not exported:",
        "",
        *[f"- {n} x {reason}" for reason, n in reasons.most_common(MAX_REASONS)],
    ]


def _reason(about: str) -> str:
    first = next(iter(about.strip().splitlines()), "")
    return re.sub(r"\d+", "N", first)[:110].strip()
