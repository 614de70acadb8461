"""Pictures of nodes and layers: a number for each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from executorch_c._arrays import Array
from executorch_c._render import axes as _axes
from executorch_c._render import figures as _figures
from executorch_c._render import text as _text
from executorch_c._render.axes import BLUE, GREY, INK, ORANGE, RED, Scale, dress

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Numbers: TypeAlias = "Sequence[float | None]"
"""A number for each row; None: the row has none."""
STYLES = (("o", BLUE), ("s", ORANGE), ("^", INK))
LIMIT = "limit"


def sqnr(
    names: Sequence[str],
    series: Mapping[str, Numbers],
    *,
    target_db: float | None = None,
    whole_db: float | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw the signal-to-quantisation-noise ratio of each layer, in decibel.

    Infinity (no error) stands apart above, minus infinity below, NaN on top.

    Args:
        names: A label for each layer; of more than 56 layers some are shown, NaN and the lowest
            ratios first.
        series: Ratios of the layers, by name of the series.
        target_db: Wanted ratio, drawn as a line.
        whole_db: Ratio of the outputs, drawn as a line.
        ax: Axes to draw into; default: a new figure.
    """
    lines = {"target": (target_db, RED), "outputs": (whole_db, INK)}
    known = {
        f"{name} {value:.1f} dB": (value, colour)
        for name, (value, colour) in lines.items()
        if value is not None and np.isfinite(value)
    }
    order = np.argsort(_first(series, math.inf, nan=-math.inf), kind="stable")
    return _by_row(names, series, known, order, log=False, unit="SQNR dB", ax=ax)


def node_errors(
    names: Sequence[str],
    series: Mapping[str, Numbers],
    *,
    limits: Numbers | None = None,
    first: int | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw the relative errors of nodes, logarithmic; 0, infinity and NaN stand apart.

    Args:
        names: A label for each node; of more than 56 nodes some are shown, the first divergence,
            NaN and the largest errors first.
        series: Relative errors of the nodes, by name of the series.
        limits: Largest relative error of each node within tolerance.
        first: Index of the first divergence, drawn as a line.
        ax: Axes to draw into; default: a new figure.
    """
    order = [
        *([] if first is None else [first]),
        *np.argsort(-_first(series, -1.0, nan=math.inf), kind="stable"),
    ]
    unit = "|actual - expected| / |expected|"
    every = {**series, **({} if limits is None else {LIMIT: limits})}
    figure = _by_row(names, every, {}, order, log=True, unit=unit, ax=ax)
    if first is not None:
        axes = figure.axes[0] if ax is None else ax
        axes.axvline(first, color=RED, linestyle="--", linewidth=1, label=f"first: {names[first]}")
        dress(axes, axes.get_title("left"), axes.get_xlabel(), axes.get_ylabel(), legend="above")
    return figure


def _first(series: Mapping[str, Numbers], unknown: float, nan: float) -> Array:
    """Return the first series as numbers, with others in the places of None and NaN."""
    numbers = [unknown if number is None else number for number in next(iter(series.values()), ())]
    return np.nan_to_num(
        np.asarray(numbers, np.float64), nan=nan, posinf=math.inf, neginf=-math.inf
    )


def _by_row(
    names: Sequence[str],
    series: Mapping[str, Numbers],
    lines: Mapping[str, tuple[float, str]],
    order: Sequence[int] | Array,
    *,
    log: bool,
    unit: str,
    ax: Axes | None,
) -> Figure:
    """Draw numbers of rows, with lines across all of them; labels in an order of importance."""
    axes = _figures.axes_of(ax, (9, 4.2))
    every = [number for values in series.values() for number in values if number is not None]
    scale = Scale(every, log=log, keep=[place for place, _ in lines.values()])
    at = np.arange(len(names))
    for i, (name, values) in enumerate(series.items()):
        mark, colour = ("_", GREY) if name == LIMIT else STYLES[i % len(STYLES)]
        numbers = scale.places(np.asarray([*values], np.float64))
        places = np.ma.masked_where([number is None for number in values], numbers)
        style: Any = {"color": colour, "markersize": 4, "linewidth": 0.8, "label": name}
        axes.plot(at, places, mark if i else f"{mark}-", **style)
    for label, (place, colour) in lines.items():
        axes.axhline(place, color=colour, linestyle="--", linewidth=1, label=label)
    scale.label(axes, "y")
    shown = _axes.thinned(len(names), [int(i) for i in order])
    axes.set_xticks(
        shown, [_text.shortened(names[i], _axes.MAX_LETTERS) for i in shown], rotation=90
    )
    axes.set_xlim(-0.6, max(len(names), 1) - 0.4)
    axes.grid(True, axis="y", alpha=0.3)
    more = "" if len(shown) == len(names) else f"{len(shown)} of {len(names):,} have a label"
    dress(axes, "", more, unit, legend="above")
    return _figures.figure_of(axes)
