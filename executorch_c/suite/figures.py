"""The figures of a check: their names, units and texts, and which way is worse."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from executorch_c._render import text as _text
from executorch_c.compare.limits import ROUNDING_DB


@dataclass(frozen=True)
class Figure:
    """A figure of a row."""

    name: str
    """Name of the field."""
    title: str
    """Name of the column."""
    unit: str
    text: Callable[[float], str]
    worse: Literal["less", "more"] | None = None
    """Which way is worse, for a baseline; None if it is not compared."""
    allowance: float = 0.0
    """Change that is not worse: of dB and shares absolute, of others relative."""
    is_relative: bool = False
    least: float = 0.0
    """Absolute change from which a relative one counts."""
    most: float = math.inf
    """Value from which all are equal."""

    def is_worse(self, old: float, new: float, allowance: float) -> bool:
        """Return True if a figure is worse than an old one by more than the allowance."""
        old, new = min(old, self.most), min(new, self.most)
        change = old - new if self.worse == "less" else new - old
        return change > max(allowance * abs(old) if self.is_relative else allowance, self.least)


def _db(value: float) -> str:
    return f"{value:.1f}"


def percent(value: float) -> str:
    """Return a share as text: "97 %"; 100 % and 0 % are exact."""
    text = f"{value:.0%}".replace("%", " %")
    if text == "100 %" and value < 1:
        return ">99 %"
    return "<1 %" if text == "0 %" and value > 0 else text


def _ms(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


FIGURES = (
    Figure("sqnr_db", "SQNR dB", "dB", _db, "less", 1.0, most=ROUNDING_DB),
    Figure("power", "power", "share", percent),
    Figure("size_bytes", "size", "bytes", lambda n: _text.size(int(n)), "more", 0.01, True),
    Figure("delegated", "delegated", "share", percent, "less", 0.001),
    Figure("call_ms", "ms", "ms", _ms, "more", 0.5, True, least=0.05),
    Figure("seconds", "check s", "s", lambda value: f"{value:.1f}"),
)
"""In the order of columns."""
COMPARED = {
    "sqnr": FIGURES[0],
    "size": FIGURES[2],
    "delegated": FIGURES[3],
    "ms": FIGURES[4],
}
"""Figures that a baseline is compared in, by the names of their allowances."""
