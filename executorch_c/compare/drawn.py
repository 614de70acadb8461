"""Plots of reports about outputs: of one output, by default the worst."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from executorch_c._render.figures import NothingToDraw

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from executorch_c._arrays import Array
    from executorch_c.compare.comparison import Comparison


@dataclass(frozen=True)
class DrawnOutput:
    """An output, the expected one, and the largest error of each element within tolerance."""

    title: str
    actual: object
    expected: object
    limit: Array | float | None
    index: int = 0
    """Number of the output."""


def drawn_output(
    comparison: Comparison,
    actual: Sequence[object],
    expected: Sequence[object],
    output: int | None = None,
    title: str = "",
) -> DrawnOutput:
    """Return one of the compared outputs: of an index, or the one with the largest error.

    Raises NothingToDraw if there is none whose error can be measured.
    """
    known = [
        (one, ours, theirs)
        for one, ours, theirs in zip(comparison.outputs, actual, expected)
        if one.metrics is not None and output in (None, one.index)
    ]
    if not known:
        which = "no output" if output is None else f"no output {output}"
        raise NothingToDraw(f"{which} whose error can be drawn: numbers of one shape on both sides")
    one, ours, theirs = max(known, key=lambda row: row[0].badness())
    limit = None if one.tolerance is None else one.tolerance.limit
    name = f"{title}: {one.title}" if title else one.title
    return DrawnOutput(f"{name}, {one.verdict}", ours, theirs, limit, one.index)


class DrawsOutputs:
    """A report with plots of an output. Options of all of them are those of `_drawn`."""

    PLOTS: ClassVar[Mapping[str, str]] = {
        "output": "an output beside the expected one",
        "error_map": "where the error of an output is",
        "error_hist": "how many elements have an error of a size",
        "value_hist": "how many elements have a value",
        "scatter": "each element, expected and computed",
    }

    _drawn: Callable[..., DrawnOutput]
    """Returns the output to draw."""

    def _plot_output(self, ax: Axes | None = None, **which: Any) -> Figure:
        from executorch_c.plotting import outputs

        if ax is not None:
            raise ValueError("the plot 'output' has four axes: other kinds take ax")
        one = self._drawn(**which)
        return outputs.output(one.actual, one.expected, limit=one.limit, title=one.title)

    def _plot_error_map(
        self,
        ax: Axes | None = None,
        index: Sequence[int] | Literal["all"] | None = None,
        **which: Any,
    ) -> Figure:
        from executorch_c.plotting import outputs

        one = self._drawn(**which)
        return outputs.error_map(one.actual, one.expected, index=index, ax=ax)

    def _plot_error_hist(self, ax: Axes | None = None, **which: Any) -> Figure:
        from executorch_c.plotting import outputs

        one = self._drawn(**which)
        return outputs.error_hist(one.actual, one.expected, limit=one.limit, ax=ax)

    def _plot_value_hist(self, ax: Axes | None = None, **which: Any) -> Figure:
        from executorch_c.plotting import outputs

        one = self._drawn(**which)
        return outputs.value_hist(one.actual, one.expected, ax=ax)

    def _plot_scatter(self, ax: Axes | None = None, **which: Any) -> Figure:
        from executorch_c.plotting import outputs

        one = self._drawn(**which)
        return outputs.scatter(one.actual, one.expected, limit=one.limit, ax=ax)
