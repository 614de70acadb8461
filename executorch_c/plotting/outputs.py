"""Pictures of an output beside the expected one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from executorch_c._arrays import Array, as_array
from executorch_c._render import axes as _axes
from executorch_c._render import figures as _figures
from executorch_c._render import text as _text
from executorch_c._render.axes import BLUE, GREY, INK, ORANGE, PALE, RED, Scale, dress

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BINS = 60
"""Bins of a histogram."""
MAX_POINTS = 5000
"""Largest number of points of a scatter plot: the largest errors, and others at equal distances."""
MAX_CELLS = (256, 512)
"""Largest rows and columns of a heat map; a cell of more elements has their largest error."""
INFINITE, RING = "#2da44e", "#00a2d9"
"""Colours of a heat map: elements that are finite on one side only, the mark of the largest."""
DECADES = 6
"""Decades of a heat map's colours."""
ERROR = "|actual - expected|"

Limit: TypeAlias = "Array | float | None"
"""Largest error of each element within tolerance, or of all."""


def _sides(actual: object, expected: object) -> tuple[Array, Array]:
    """Return two arrays. Raises ValueError unless they have one shape."""
    a, e = as_array(actual), as_array(expected)
    if a.shape != e.shape:
        shapes = f"{_text.shape(a.shape)}, expected {_text.shape(e.shape)}"
        raise ValueError(f"cannot draw an error: shape {shapes}")
    return a, e


def _numbers(array: Array) -> Array:
    """Return an array as float64, complex numbers as their magnitudes."""
    values: Array = np.abs(array) if array.dtype.kind == "c" else array
    return values.astype(np.float64)


@np.errstate(all="ignore")
def _errors(a: Array, e: Array) -> Array:
    """Return |a - e|: 0 where both are NaN or the same infinity, infinite where only one is
    finite."""
    kinds = a.dtype.kind + e.dtype.kind
    wide: type = np.complex128 if "c" in kinds else np.float64
    if set(kinds) <= set("iu"):
        wide = np.longdouble  # has all 64-bit integers
    wide_a: Array = a.astype(wide)
    wide_e: Array = e.astype(wide)
    sizes = np.abs(wide_a - wide_e).astype(np.float64)
    same = (wide_a == wide_e) | (np.isnan(wide_a) & np.isnan(wide_e))
    errors: Array = np.where(same, 0.0, np.where(np.isnan(sizes), np.inf, sizes))
    return errors


def error_map(
    actual: object,
    expected: object,
    *,
    index: Sequence[int] | Literal["all"] | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw |actual - expected| by place: a 2-D slice, in logarithmic colours.

    Elements without an error are grey; the largest error has a ring.

    Args:
        actual, expected: Arrays or torch tensors of one shape.
        index: Index of the slice in all axes but the last two, or "all": the rows of all slices
            below each other. Default: the slice with the largest error.
        ax: Axes to draw into; default: a new figure.

    Raises ValueError for arrays of different shapes, IndexError for a slice that does not exist.
    """
    axes = _figures.axes_of(ax, (7, 3.6))
    _map(axes, _errors(*_sides(actual, expected)), index)
    return _figures.figure_of(axes)


def _map(axes: Axes, errors: Array, index: Sequence[int] | Literal["all"] | None) -> None:
    rows, where, worst = _slice(errors, index)
    low, top = _colours(errors)
    _draw_map(axes, rows, low, top)
    if worst is not None:
        ring: Any = {"fillstyle": "none", "color": RING, "markersize": 11, "markeredgewidth": 2}
        axes.plot(*worst[::-1], "o", clip_on=False, **ring)
    _map_legend(axes, rows, worst is not None)
    wide = errors.ndim > 1
    dress(axes, f"{ERROR}{where}", _axis(errors, 1), _axis(errors, 2, index) if wide else "")
    for axis, size in ((axes.xaxis, rows.shape[1]), (axes.yaxis, rows.shape[0])):
        if size == 1:
            axis.set_ticks([])
        else:
            axis.get_major_locator().set_params(integer=True)  # type: ignore[call-arg]


def _colours(errors: Array) -> tuple[float, float]:
    """Return the ends of the colours: at most DECADES apart, and at least one."""
    sizes = errors[(errors > 0) & (errors <= _axes.MAX_DRAWN)]
    top = max(float(sizes.max(initial=0.0)) or 1.0, 1e8 / _axes.MAX_DRAWN)
    return max(top * 10.0**-DECADES, min(float(sizes.min(initial=top)), top / 10)), top


def _slice(
    errors: Array, index: Sequence[int] | Literal["all"] | None
) -> tuple[Array, str, tuple[int, int] | None]:
    """Return 2-D errors, their slice in words, and the row and column of the largest error of all
    if it is there."""
    if not errors.size:
        return np.zeros((0, 0)), f", no elements: {_text.shape(errors.shape)}", None
    shape = (1,) * (2 - errors.ndim) + errors.shape
    lead, (height, width) = shape[:-2], shape[-2:]
    at = int(np.argmax(errors))
    worst, inside = divmod(at, height * width)
    rows, where, place = errors.reshape(-1, width), ", all rows", divmod(at, width)
    if index != "all":
        chosen = index
        if chosen is None:
            chosen = [int(i) for i in np.unravel_index(worst, lead)] if lead else []
        number = _number(tuple(chosen), lead)
        rows, place = rows[number * height :][:height], divmod(inside, width)
        named = ", ".join([*map(str, chosen), ":", ":"])
        where = f" at [{named}] of {_text.shape(errors.shape)}" if lead else ""
        if number != worst:
            return rows, where, None
    return rows, where, place if errors.flat[at] > 0 else None


def _number(index: tuple[int, ...], lead: tuple[int, ...]) -> int:
    """Return the number of a slice. Raises IndexError if there is none of that index."""
    if len(index) != len(lead) or any(not -n <= i < n for i, n in zip(index, lead)):
        shape = _text.shape(lead)
        raise IndexError(f"no slice {_text.shape(index)}: axes before the last two have {shape}")
    number = 0
    for i, n in zip(index, lead):
        number = number * n + i % n
    return number


def _axis(errors: Array, last: int, index: object = None) -> str:
    """Return the name of the last axis, or the one before it."""
    axis = errors.ndim - last
    if last == 2 and index == "all" and axis > 0:
        return f"axes 0 to {axis}"
    return f"axis {axis}" if axis >= 0 else ""


def _draw_map(axes: Axes, rows: Array, low: float, top: float) -> None:
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm

    colours = colormaps["magma"].with_extremes(bad=PALE, over=INFINITE)
    if not rows.size:
        axes.set_facecolor(PALE)
        return
    blocks = _blocks(rows)
    colour = np.where(blocks > top, 10 * top, np.maximum(blocks, low))
    shown = axes.imshow(
        np.ma.masked_array(colour, blocks == 0),
        aspect="auto",
        interpolation="nearest",
        extent=(-0.5, rows.shape[1] - 0.5, rows.shape[0] - 0.5, -0.5),
        norm=LogNorm(low, top),
        cmap=colours,
    )
    bar = _figures.figure_of(axes).colorbar(shown, ax=axes)
    bar.ax.tick_params(labelsize=7)


def _blocks(rows: Array) -> Array:
    """Return a picture of at most MAX_CELLS: the largest element of each block."""
    for axis, most in enumerate(MAX_CELLS):
        if rows.shape[axis] > most:
            edges = np.linspace(0, rows.shape[axis], most, endpoint=False).astype(int)
            rows = np.maximum.reduceat(rows, edges, axis=axis)
    return rows


def _map_legend(axes: Axes, rows: Array, has_worst: bool) -> None:
    """Say what has no colour of the bar: equal elements, those that are finite on one side only,
    and the ring."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    zeros, infinite = int((rows == 0).sum()), int(np.isinf(rows).sum())
    handles: list[Any] = []
    if zeros or not rows.size:
        handles.append(Patch(color=PALE, label=f"0: {_text.plural(zeros, 'element')}"))
    if infinite:
        handles.append(Patch(color=INFINITE, label=f"NaN or infinite on one side: {infinite:,}"))
    if has_worst:
        ring = {"marker": "o", "linestyle": "", "fillstyle": "none", "color": RING}
        handles.append(Line2D([], [], label="largest error", **ring))  # type: ignore[arg-type]
    place: Any = {"loc": "upper left", "bbox_to_anchor": (0, -0.16), "ncols": 3}
    if handles:
        axes.legend(handles=handles, fontsize=7, frameon=False, borderaxespad=0, **place)


def error_hist(
    actual: object, expected: object, *, limit: Limit = None, ax: Axes | None = None
) -> Figure:
    """Draw how many elements have an error of a size, both logarithmic; equal elements stand
    apart at 0.

    Args:
        actual, expected: Arrays or torch tensors of one shape.
        limit: Largest error within tolerance, of all or of each element; drawn as a line or band.
        ax: Axes to draw into; default: a new figure.
    """
    axes = _figures.axes_of(ax, (6, 3.4))
    _hist(axes, _errors(*_sides(actual, expected)).ravel(), limit)
    return _figures.figure_of(axes)


def _hist(axes: Axes, errors: Array, limit: Limit) -> None:
    limits = np.asarray([] if limit is None else limit, np.float64)
    limits = limits[np.isfinite(limits)]
    ends = np.array([limits.min(), limits.max()]) if limits.size else limits
    scale = Scale(errors, log=True, keep=ends)
    finite = errors[np.isfinite(errors) & (errors > 0)]
    edges = np.geomspace(*scale.ends, BINS + 1)
    counts = np.histogram(np.clip(finite, *scale.ends), edges)[0]
    axes.stairs(counts, edges, fill=True, color=BLUE)
    apart = {scale.low: int((errors == 0).sum()), scale.infinite: int(np.isinf(errors).sum())}
    for place, count in apart.items():
        if count:
            axes.stairs([count], scale.around(place), fill=True, color=GREY)
    _draw_limits(axes, scale.places(ends))
    scale.label(axes, "x")
    _counts(axes, max(*counts, *apart.values()))
    dress(axes, f"{errors.size:,} elements by error", ERROR, "elements", legend="above")


def _draw_limits(axes: Axes, places: Array) -> None:
    if not places.size:
        return
    low, high = map(float, places)
    if low < high:
        axes.axvspan(low, high, color=RED, alpha=0.15, label=f"limits {low:.2g} to {high:.2g}")
    else:
        axes.axvline(low, color=RED, label=f"limit {low:.2g}")


def _counts(axes: Axes, most: int) -> None:
    """Make the y axis one of counts up to `most`: logarithmic, from below 1."""
    axes.set_ylim(0.5, 2 * max(most, 1))
    axes.set_yscale("log")
    powers = [10**k for k in range(len(str(max(most, 1))))]
    axes.set_yticks(powers, [f"{power:,}" for power in powers])
    axes.set_yticks([], minor=True)


def value_hist(
    actual: object,
    expected: object,
    *,
    names: tuple[str, str] = ("program", "expected"),
    ax: Axes | None = None,
) -> Figure:
    """Draw how many elements have a value, of both sides; counts are logarithmic.

    NaN and infinities are in the legend; of complex numbers, the magnitude is drawn.

    Args:
        actual, expected: Arrays or torch tensors; their shapes may differ.
        names: Names of the two.
        ax: Axes to draw into; default: a new figure.
    """
    sides = [_numbers(as_array(side)).ravel() for side in (actual, expected)]
    axes = _figures.axes_of(ax, (6, 3.4))
    drawn = [side[np.abs(side) <= _axes.MAX_DRAWN] for side in sides]
    edges = np.histogram_bin_edges(np.concatenate(drawn), BINS)
    most = 1
    styles: list[dict[str, Any]] = [{"color": BLUE}, {"color": ORANGE, "linestyle": "--"}]
    for name, side, shown, style in zip(names, sides, drawn, styles):
        lost = [
            f"{count:,} {kind}"
            for kind, count in (
                ("NaN", int(np.isnan(side).sum())),
                ("infinite", int((np.abs(side) > _axes.MAX_DRAWN).sum())),
            )
            if count
        ]
        label = f"{name} ({', '.join(lost)})" if lost else name
        counts = np.histogram(shown, edges)[0]
        axes.stairs(counts, edges, label=label, linewidth=1.4, **style)
        most = max(most, *counts)
    _counts(axes, most)
    dress(axes, "values", "value", "elements", legend="above")
    return _figures.figure_of(axes)


def scatter(
    actual: object, expected: object, *, limit: Limit = None, ax: Axes | None = None
) -> Figure:
    """Draw each element: expected and computed value, the diagonal, and the band within the limit.

    Elements beyond the limit are red. Of more than MAX_POINTS elements those with the largest
    errors, and others at equal distances. Elements that are not finite on one side stand at the
    edge.

    Args:
        actual, expected: Arrays or torch tensors of one shape; of complex numbers the magnitude.
        limit: Largest error within tolerance, of all or of each element.
        ax: Axes to draw into; default: a new figure.
    """
    a, e = _sides(actual, expected)
    axes = _figures.axes_of(ax, (4.6, 4.2))
    _scatter(axes, a, e, _errors(a, e).ravel(), limit)
    return _figures.figure_of(axes)


def _scatter(axes: Axes, a: Array, e: Array, errors: Array, limit: Limit) -> None:
    limits = np.broadcast_to(np.inf if limit is None else limit, a.shape).ravel()
    at = _sample(errors, errors > limits)
    x, y = _numbers(e.ravel()[at]), _numbers(a.ravel()[at])
    drawn = (np.abs(x) <= _axes.MAX_DRAWN) & (np.abs(y) <= _axes.MAX_DRAWN)
    beyond = (errors > limits)[at]
    if drawn.any():
        _draw_band(axes, x[drawn], limits[at][drawn])
    dots: Any = {"s": 9, "linewidths": 0, "alpha": 0.7}
    for chosen, colour, name in (
        (drawn & ~beyond, BLUE, "" if limit is None else "within the limit"),
        (drawn & beyond, RED, "beyond the limit"),
    ):
        if chosen.any():
            axes.scatter(x[chosen], y[chosen], color=colour, label=name or None, **dots)
    _draw_edges(axes, x, y)
    count = "" if len(at) == errors.size else f"{len(at):,} of "
    title = f"{count}{_text.plural(errors.size, 'element')}"
    dress(axes, title, "expected", "computed", legend="inside")


def _sample(errors: Array, beyond: Array) -> Array:
    """Return indices of at most MAX_POINTS elements: largest errors, and others at equal
    distances."""
    if errors.size <= MAX_POINTS:
        return np.arange(errors.size)
    half = MAX_POINTS // 2
    rank = np.where(beyond, np.inf, errors)
    worst = np.argpartition(-rank, half)[:half]
    others = np.linspace(0, errors.size - 1, MAX_POINTS - half).astype(int)
    return np.unique(np.concatenate([worst, others]))


def _draw_band(axes: Axes, x: Array, limits: Array) -> None:
    """Draw the diagonal, and the band of limits around it."""
    order = np.argsort(x, kind="stable")
    x, wide = x[order], limits[order]
    axes.plot(x[[0, -1]], x[[0, -1]], color=INK, linewidth=0.8)
    known = np.isfinite(wide)
    if known.any():
        band: Any = {"color": BLUE, "alpha": 0.15, "linewidth": 0, "label": "limit"}
        axes.fill_between(x[known], (x - wide)[known], (x + wide)[known], **band)


def _draw_edges(axes: Axes, x: Array, y: Array) -> None:
    """Draw elements that are not finite on one side at the edge of the other side's value."""
    lost = np.abs(x) <= _axes.MAX_DRAWN, np.abs(y) <= _axes.MAX_DRAWN
    for side, only in (("computed", lost[0] & ~lost[1]), ("expected", lost[1] & ~lost[0])):
        if only.any():
            place = x[only] if side == "computed" else y[only]
            edge = np.full(len(place), 0.99)
            across = side == "computed"
            frame = axes.get_xaxis_transform() if across else axes.get_yaxis_transform()
            points = (place, edge) if across else (edge, place)
            label = f"{side} NaN or infinite: {int(only.sum()):,}"
            axes.plot(*points, "x", color=ORANGE, markersize=5, transform=frame, label=label)


def output(actual: object, expected: object, *, limit: Limit = None, title: str = "") -> Figure:
    """Draw an output in four pictures: error_map, error_hist, scatter and value_hist.

    An output of more than two axes has a fifth, with the errors of all its rows.

    Args:
        actual, expected: Arrays or torch tensors of one shape.
        limit: Largest error within tolerance, of all or of each element.
        title: Heading.
    """
    a, e = _sides(actual, expected)
    rows = int(np.prod(a.shape[:-1]))
    has_all = a.ndim > 2 and rows > a.shape[-2]
    grid: Any = [["all", "all"]] * has_all + [["map", "errors"], ["scatter", "values"]]
    size = (10, 9 if has_all else 6.2)
    figure = _figures.figure(figsize=size, layout="constrained")
    figure.suptitle(title, fontsize=11, x=0.01, ha="left", color=INK)
    axes: dict[str, Any] = figure.subplot_mosaic(grid)
    errors = _errors(a, e)
    if has_all:
        _map(axes["all"], errors, "all")
    _map(axes["map"], errors, None)
    _hist(axes["errors"], errors.ravel(), limit)
    _scatter(axes["scatter"], a, e, errors.ravel(), limit)
    value_hist(a, e, ax=axes["values"])
    return figure
