"""The picture of a memory plan. Raises ImportError if matplotlib is not installed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from executorch_c._render import figures as _figures
from executorch_c._render import text as _text
from executorch_c._render.axes import INK, RED, dress
from executorch_c.inspect import families, structure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from executorch_c.inspect.memory import Allocation, Arena, MemoryPlan

PAPER, GAP = "#ffffff", "#f2f3f5"
POINT = 1 / 72
"""Inches of a point of type."""

LETTER = 3.9
"""Width of a letter of a label, in points."""


def draw(plan: MemoryPlan) -> Figure:
    """Draw two axes for each arena, live bytes and places, with a legend of families."""
    arenas = [arena for arena in plan.arenas if arena.nbytes]
    columns = len(plan.instructions) + 2
    width = min(max(7.5, 2.5 + 0.42 * columns), 26.0)
    size = (width, 1.6 + 5.2 * max(len(arenas), 1))
    figure = _figures.figure(figsize=size, facecolor=PAPER, layout="constrained")
    figure.suptitle(
        f"Planned memory of '{plan.method}': {_text.size(plan.nbytes)}, "
        f"{_text.size(plan.waste)} of it unused",
        color=INK,
        fontsize=11,
    )
    if not arenas:
        return figure
    axes = figure.subplots(
        2 * len(arenas), 1, sharex=True, squeeze=False, height_ratios=[1, 4] * len(arenas)
    )
    for i, arena in enumerate(arenas):
        _draw_live(plan, arena, axes[2 * i][0])
        _draw_places(plan, arena, axes[2 * i + 1][0])
    _label_times(plan, axes[-1][0], width)
    from matplotlib.patches import Patch

    shown = list(dict.fromkeys(a.family for a in plan.allocations if a.base is None))
    handles = [Patch(facecolor=families.colour(f), label=f) for f in shown]
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=min(len(handles), 8),
        frameon=False,
        fontsize=8,
    )
    figure.draw_without_rendering()  # after layout, the size of the axes is known
    for i, arena in enumerate(arenas):
        _label_places(plan, arena, axes[2 * i + 1][0])
    return figure


def live_bytes(plan: MemoryPlan, arena: int | None, ax: Axes | None) -> Figure:
    """Draw the live bytes of an arena, by default the largest, into axes."""
    axes = _figures.axes_of(ax, (9, 2.8))
    found = [one for one in plan.arenas if one.index == arena or arena is None and one.nbytes]
    if not found:
        if arena is not None:
            raise ValueError(f"arena {arena}: the plan has {len(plan.arenas)}, from 1")
        dress(axes, "no planned memory")
        return _figures.figure_of(axes)
    largest = max(found, key=lambda one: one.nbytes)
    _draw_live(plan, largest, axes)
    axes.set_xlim(-1, len(plan.instructions) + 1)
    _label_times(plan, axes, 9.0)
    return _figures.figure_of(axes)


def _label_bytes(axes: Axes, top: int, limit: int) -> None:
    """Label the byte axis with round numbers of a suitable unit."""
    unit, name = next(
        (u, n)
        for u, n in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes"))
        if top >= 2 * u or u == 1
    )
    axes.yaxis.set_major_formatter(lambda value, _: f"{value / unit:g}")
    step = 1 / 4
    while top / unit / step > limit:
        step *= 2
    axes.set_yticks([i * step * unit for i in range(int(top / unit / step) + 1)])
    axes.set_ylabel(name, fontsize=8, color=INK)
    axes.tick_params(labelsize=7, colors=INK, length=2)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _draw_live(plan: MemoryPlan, arena: Arena, axes: Axes) -> None:
    live = plan.live(arena.index)
    edges = [time - 1 for time in range(len(live) + 1)]
    axes.stairs(live, edges, fill=True, color="#9db7d5")
    axes.axhline(arena.nbytes, color=RED, linewidth=1, linestyle="--")
    axes.axhline(arena.peak, color=INK, linewidth=0.7, linestyle=":")
    axes.plot([arena.peak_at + 0.5], [arena.peak], "v", color=RED, markersize=6)
    axes.set_ylim(0, arena.nbytes * 1.12)
    _label_bytes(axes, arena.nbytes, 3)
    share = 100 * arena.waste / arena.nbytes
    axes.set_title(
        f"arena {arena.index}: {arena.nbytes:,} bytes planned (dashed), at most {arena.peak:,} "
        f"live (mark) at {plan.time(arena.peak_at)}, {share:.1f} % unused",
        fontsize=8.5,
        loc="left",
        color=INK,
    )


def _shown(plan: MemoryPlan, arena: Arena) -> list[Allocation]:
    return [a for a in plan.allocations if a.arena == arena.index and a.base is None]


def _draw_places(plan: MemoryPlan, arena: Arena, axes: Axes) -> None:
    from matplotlib.patches import Rectangle

    axes.set_facecolor(GAP)
    axes.set_xlim(-1, len(plan.instructions) + 1)
    axes.set_ylim(0, arena.nbytes)
    for a in _shown(plan, arena):
        colour = families.colour(a.family)
        axes.add_patch(
            Rectangle(
                (a.first, a.offset),
                a.last - a.first + 1,
                a.nbytes,
                linewidth=0.7,
                edgecolor=_darker(colour),
                facecolor=colour,
            )
        )
    _label_bytes(axes, arena.nbytes, 8)


def _label_places(plan: MemoryPlan, arena: Arena, axes: Axes) -> None:
    figure = axes.get_figure()
    assert figure is not None
    box = axes.get_window_extent()
    across = box.width / figure.dpi / (len(plan.instructions) + 2)
    up = box.height / figure.dpi / arena.nbytes
    for a in _shown(plan, arena):
        span = a.last - a.first + 1
        label, turned = _fit(a, span * across, a.nbytes * up)
        if label:
            axes.text(
                a.first + span / 2,
                a.offset + a.nbytes / 2,
                label,
                ha="center",
                va="center",
                fontsize=6.5,
                color=INK,
                clip_on=True,
                rotation=90 if turned else 0,
                linespacing=1.1,
            )


def _darker(colour: str) -> str:
    """Return a darker edge colour, so that tensors of a few bytes are visible."""
    return "#" + "".join(f"{int(colour[i : i + 2], 16) * 3 // 5:02x}" for i in (1, 3, 5))


def _fit(a: Allocation, width: float, height: float) -> tuple[str, bool]:
    """Return the longest label that fits into a box (in inches), and True if it is vertical."""
    name, size = a.name or families.short(a.maker), _text.size(a.nbytes)
    shape = f"{a.dtype} {structure.shape(a.shape)}"
    full = f"%{a.value} {name}"
    cut = full[: int(max(width, height) / (LETTER * POINT)) - 2] + "…"
    labels = [[full, f"{shape}, {size}"], [full, size], [full], [cut], [f"%{a.value}"]]
    if len(cut) < len(full) / 2:
        labels.remove([cut])
    for lines in labels:
        long, high = max(map(len, lines)) * LETTER * POINT, len(lines) * 8.5 * POINT
        if long < width and high < height:
            return "\n".join(lines), False
        if long < height and high < width < height:
            return "\n".join(lines), True
    return "", False


def _label_times(plan: MemoryPlan, axes: Axes, width: float) -> None:
    """Label the time axis with the operator of each instruction, or with indices if there is no
    room."""
    count = len(plan.instructions)
    if (width - 1.6) / (count + 2) > 0.14:
        ticks = [t + 0.5 for t in range(-1, count + 1)]
        names = [f"{i} {families.short(name)}" for i, name in enumerate(plan.instructions)]
        names = ["start", *names, "end"]
        names = [name if len(name) <= 28 else name[:27] + "…" for name in names]
        axes.set_xticks(ticks, names, rotation=90, fontsize=6.5)
    else:
        axes.set_xlabel("instruction", fontsize=8, color=INK)
    axes.tick_params(axis="x", labelsize=6.5, colors=INK, length=2)
