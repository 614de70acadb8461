"""What got worse since an earlier result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from executorch_c._render.text import unknown
from executorch_c.suite.figures import COMPARED

if TYPE_CHECKING:
    from executorch_c.suite.result import CheckRow

RANKS = ("match", "inconclusive", "error", "differ")
"""Verdicts, the best first."""


def allowances_of(given: Mapping[str, float] | None) -> dict[str, float]:
    """Return the allowance of each compared figure: "sqnr" in dB, "delegated" as a share, "size"
    and "ms" relative. Raises ValueError."""
    allowances = {name: figure.allowance for name, figure in COMPARED.items()}
    for name, value in (given or {}).items():
        if name not in COMPARED:
            raise ValueError(f"allowance of {unknown(name, COMPARED)}")
        if not value >= 0:
            raise ValueError(f"allowance of '{name}' is {value}, expected 0 or more")
        allowances[name] = value
    return allowances


def worse(row: CheckRow, old: CheckRow, allowances: Mapping[str, float]) -> Iterator[str]:
    """Yield a phrase for each figure of a check that is worse: "SQNR dB 31.2, was 38.0"."""
    if RANKS.index(row.verdict) > RANKS.index(old.verdict):
        yield f"{row.verdict}, was {old.verdict}"
    for name, figure in COMPARED.items():
        now, before = getattr(row, figure.name), getattr(old, figure.name)
        if now is None or before is None:
            continue
        if figure.is_worse(before, now, allowances[name]):
            yield f"{figure.title} {figure.text(now)}, was {figure.text(before)}"


def changes(
    rows: Sequence[CheckRow], old: Sequence[CheckRow], allowances: Mapping[str, float]
) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Return what got worse, by check, and the names of new checks."""
    before = {row.name: row for row in old}
    found, new = dict[str, tuple[str, ...]](), list[str]()
    for row in rows:
        if row.name not in before:
            new.append(row.name)
        elif phrases := tuple(worse(row, before[row.name], allowances)):
            found[row.name] = phrases
    return found, new
