"""The power of a check: what it would have found, and what its inputs did not test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from executorch_c._render import text as _text
from executorch_c.compare.limits import TESTED_ERROR

if TYPE_CHECKING:
    from executorch_c._render.html import Markup

HEAD = ("weight", "shape", "would be found", "change / limit")
TEXT_COLUMNS = 2
MAX_PRINTED_PARTS = 4
"""Maximum number of untested parts that str() prints; all are in `untested` and in the page."""


@dataclass(frozen=True)
class TestedWeight:
    """A parameter, a buffer, a part of a quantised weight ("fc.weight.scale") or an input of the
    model, and how much of it the check tested."""

    name: str
    shape: tuple[int, ...]
    share: float | None
    """Share of its elements, but zeros, in slices (of the first axis) of which an error of 1 %
    (integers: of one step) would have been found; None if it was not measured, or all are zeros."""
    change: float | None
    """RMS change of the outputs by an error of 1 % in a slice, in units of the limit; the median of
    all slices. None if it was not measured, or without a gradient."""

    def row(self) -> list[str]:
        """Return the cells of a row under HEAD."""
        share = "-" if self.share is None else percent(self.share)
        change = "-" if self.change is None else f"{self.change:.3g}"
        return [self.name, _text.shape(self.shape), share, change]


@dataclass(frozen=True)
class Power:
    """What a check would have found: the errors of 1 % in weights and inputs that change an output
    by more than its limit, in at least one case."""

    share: float | None = None
    """Share of the weights (elements but zeros) of which an error of 1 % would have been found, by
    a conservative estimate; None if it was not measured: `reason` says why."""
    weights: tuple[TestedWeight, ...] = ()
    """A row for each parameter and buffer that calls do not change, in the model's order."""
    inputs: tuple[TestedWeight, ...] = ()
    """A row for each input of floats."""
    untested: tuple[str, ...] = ()
    """What was not tested: "experts.3.* never routed", "rows 20..49 of emb.weight never read",
    "gamma is 0", "mask had the same values in every case"."""
    reason: str = ""
    is_least: bool = False
    """True if the share is a lower bound: of a program whose activations have scales of run time.
    The check compares its layers, too, which finds more than its outputs show."""

    def summary(self) -> str:
        """Return "would have found a 1 % error in 97 % of weights"; empty without weights."""
        if self.share is not None:
            share = f"{'at least ' if self.is_least else ''}{percent(self.share)}"
            return f"would have found a {percent(TESTED_ERROR)} error in {share} of weights"
        return f"power not measured: {self.reason}" if self.reason else ""

    def lines(self) -> Iterator[str]:
        """Yield the summary, and the first parts that were not tested."""
        yield from filter(None, [self.summary()])
        yield from (f"not tested: {one}" for one in self.untested[:MAX_PRINTED_PARTS])
        if len(self.untested) > MAX_PRINTED_PARTS:
            more = len(self.untested) - MAX_PRINTED_PARTS
            yield f"not tested: {more} more, in result.power.untested"

    def as_dict(self) -> dict[str, Any]:
        """Return {"share", "reason", "is_least", "untested", "weights": [...], "inputs": [...]}."""
        return {
            **asdict(self),
            "untested": list(self.untested),
            "weights": [asdict(one) for one in self.weights],
            "inputs": [asdict(one) for one in self.inputs],
        }

    def section(self) -> Markup:
        """Return what was not tested, and a row for each weight and input, as HTML."""
        from executorch_c._render.html import Markup, table, tag, together

        rows = [one.row() for one in (*self.weights, *self.inputs)]
        if not rows and not self.untested and not self.reason:
            return Markup()
        body = table("", HEAD, rows, TEXT_COLUMNS) if rows else ""
        lines = [tag("p", line) for line in [self.summary(), *self.untested] if line]
        return together(tag("h2", "What the check would have found"), *lines, body)


def percent(share: float) -> str:
    """Return a share as text; 100 % and 0 % are exact."""
    text = f"{share:.0%}".replace("%", " %")
    if text == "100 %" and share < 1:
        return "over 99 %"
    return "under 1 %" if text == "0 %" and share > 0 else text


def ranges(numbers: Sequence[int]) -> str:
    """Return "2, 5..9, 11" of sorted numbers; at most four runs."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number, number])
    texts = [f"{low}" if low == high else f"{low}..{high}" for low, high in runs]
    more = [f"{len(texts) - MAX_PRINTED_PARTS} more"] if len(texts) > MAX_PRINTED_PARTS else []
    return ", ".join(texts[:MAX_PRINTED_PARTS] + more)


for _public in (TestedWeight, Power):
    _public.__module__ = "executorch_c.testing"  # where users find them
