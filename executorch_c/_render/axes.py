"""Axes of pictures: places of zeros, infinities and NaN, labels of many rows, one style."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from executorch_c._arrays import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, RED, GREY, INK = "#1f6feb", "#bc4c00", "#b3261e", "#8b949e", "#1b1f24"
PALE = "#d8dee4"
"""Colour of elements without an error."""
MAX_DRAWN = 1e280
"""Largest number with a place of its own, whose inverse is the smallest: beyond them matplotlib's
ranges overflow."""
MAX_TICKS = 8
MAX_LABELS = 56
"""Largest number of labelled rows."""
MAX_LETTERS = 32
"""Largest length of a label."""


class Scale:
    """Places of numbers on an axis, on which what has no place among them stands apart: zeros of a
    logarithmic axis (or minus infinity of a linear one) below the numbers, infinity and then NaN
    above.

    Dotted lines divide them, and each has a tick of its own.
    """

    def __init__(
        self, values: Iterable[float] | Array, log: bool, keep: Iterable[float] = ()
    ) -> None:
        """Choose the ends of the axis for `values`, and for limits (`keep`) beside them."""
        self.log = log
        every = np.asarray([*np.ravel(np.asarray(values, np.float64)), *keep], np.float64)
        sizes = np.abs(every) if log else every
        drawn = sizes[np.isfinite(sizes) & (sizes <= MAX_DRAWN) & ((sizes > 0) | (not log))]
        if log:
            drawn = np.maximum(drawn, 1 / MAX_DRAWN)
        places = np.log10(drawn) if log else drawn
        low, high = (
            (float(places.min()), float(places.max()))
            if places.size
            else (-1.0, 0.0)
            if log
            else (0.0, 40.0)
        )
        self._step = max(1.0, math.ceil((high - low) / 12)) if log else max((high - low) / 12, 1.0)
        self._low = math.floor(low) if log else low - self._step / 2
        self._high = max(math.ceil(high), self._low + 1) if log else high + self._step / 2
        self.has_low = bool((sizes == (0 if log else -np.inf)).any())
        self.has_infinite = bool((sizes > MAX_DRAWN).any())
        self.has_nan = bool(np.isnan(every).any())

    def _unscaled(self, place: float) -> float:
        return 10.0**place if self.log else place

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of the numbers' part of the axis."""
        return self._unscaled(self._low), self._unscaled(self._high)

    @property
    def low(self) -> float:
        """Place of zero, of a linear axis of minus infinity."""
        return self._unscaled(self._low - self._step)

    @property
    def infinite(self) -> float:
        """Place of infinity."""
        return self._unscaled(self._high + self._step)

    @property
    def nan(self) -> float:
        """Place of NaN."""
        return self._unscaled(self._high + (2 if self.has_infinite else 1) * self._step)

    def around(self, place: float) -> tuple[float, float]:
        """Return the ends of a bar at a place of its own."""
        half = self._step / 3
        if self.log:
            return place / 10**half, place * 10**half
        return place - half, place + half

    def places(self, values: Iterable[float] | Array) -> Array:
        """Return the places of numbers; of a logarithmic axis, of their magnitudes."""
        every = np.asarray([*values], np.float64)
        sizes = np.abs(every) if self.log else every
        floor = 1 / MAX_DRAWN if self.log else -MAX_DRAWN
        apart = sizes == 0 if self.log else sizes == -np.inf
        found = np.where(apart, self.low, np.maximum(sizes, floor))
        found = np.where(sizes > MAX_DRAWN, self.infinite, found)
        return np.where(np.isnan(every), self.nan, found)

    def label(self, axes: Axes, which: Literal["x", "y"]) -> None:
        """Set the scale, the limits and the ticks of an axis, and draw the dividing lines."""
        axis, divide = (axes.xaxis, axes.axvline) if which == "x" else (axes.yaxis, axes.axhline)
        low, high, half = self._low, self._high, self._step / 2
        ticks = self._ticks()
        if self.has_low:
            ticks = [(self.low, "0" if self.log else "-∞"), *ticks]
            divide(self._unscaled(low - half), color=GREY, linestyle=":", linewidth=1)
            low -= 2 * half
        if self.has_infinite or self.has_nan:
            divide(self._unscaled(high + half), color=GREY, linestyle=":", linewidth=1)
        if self.has_infinite:
            ticks.append((self.infinite, "∞"))
            high += 2 * half
        if self.has_nan:
            ticks.append((self.nan, "NaN"))
            high += 2 * half
        ends = self._unscaled(low - half), self._unscaled(high + half)
        getattr(axes, f"set_{which}lim")(*ends)
        if self.log:
            getattr(axes, f"set_{which}scale")("log")
        axis.set_ticks([place for place, _ in ticks], labels=[text for _, text in ticks])
        axis.set_ticks([], minor=True)

    def _ticks(self) -> list[tuple[float, str]]:
        """Return the ticks of numbers: round ones."""
        span = self._high - self._low
        if self.log:
            decades = max(1, math.ceil(span / MAX_TICKS))
            at = range(math.ceil(self._low), math.floor(self._high) + 1, decades)
            return [(10.0**k, f"1e{k}" if k else "1") for k in at]
        step = 10.0 ** math.floor(math.log10(span))
        step *= next(f for f in (0.1, 0.2, 0.5, 1, 2) if span / (f * step) <= MAX_TICKS + 2)
        first = math.ceil(self._low / step)
        count = math.floor(self._high / step) - first + 1
        return [((first + i) * step, f"{(first + i) * step:.6g}") for i in range(count)]


def thinned(count: int, first: Sequence[int] = (), most: int = MAX_LABELS) -> list[int]:
    """Return indices of rows to label: all of at most `most`, of more those in `first` and others
    between them that leave room for their neighbours."""
    if count <= most:
        return list(range(count))
    room, taken = count / most, list[int]()
    for i in (*first, *range(0, count, math.ceil(room))):
        if all(abs(i - other) >= room for other in taken):
            taken.append(i)
    return sorted(taken)


def dress(
    axes: Axes,
    title: str = "",
    x: str = "",
    y: str = "",
    legend: Literal["", "inside", "above"] = "",
) -> None:
    """Give axes the style of all pictures, and a legend above them, or inside."""
    axes.set_title(title, fontsize=9, loc="left", color=INK)
    axes.set_xlabel(x, fontsize=8, color=INK)
    axes.set_ylabel(y, fontsize=8, color=INK)
    axes.tick_params(labelsize=7, colors=INK, length=2)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if legend and (labels := axes.get_legend_handles_labels()[1]):
        above = {"loc": "lower right", "bbox_to_anchor": (1, 1), "ncols": min(len(labels), 5)}
        place: Any = above if legend == "above" else {"loc": "best"}
        axes.legend(fontsize=7, frameon=False, **place)
