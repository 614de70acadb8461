"""Plots of reports about nodes: their errors, and the ratios of signal and noise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from executorch_c.compare import costs
from executorch_c.compare.metrics import ErrorMetrics
from executorch_c.inspect.where import id_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from executorch_c.debug.report import NodeError


def _label(row: NodeError) -> str:
    """Return the name of a row in a picture: its layer, or place and operator."""
    return row.module or f"{id_of(row.where)} {row.name}"


def _of(
    figure: Callable[[ErrorMetrics], float], errors: Iterable[ErrorMetrics | None]
) -> list[float | None]:
    """Return a figure of each error; None for a row without one."""
    return [None if error is None else figure(error) for error in errors]


def decibel(error: ErrorMetrics) -> float:
    """Return the signal-to-noise ratio of an error in decibel: infinite without one."""
    return 2 * costs.decibel(error.relative)  # its square is the noise


class DrawsNodes:
    """A report with plots of its rows."""

    PLOTS: ClassVar[Mapping[str, str]] = {
        "errors": "error of each node",
        "sqnr": "signal-to-noise ratio of each node",
    }

    rows: tuple[NodeError, ...]
    first: Any
    has_local: Callable[[], bool]

    def _plot_errors(self, ax: Axes | None = None) -> Figure:
        """Draw the relative error of each node, accumulated and local, with their limits."""
        from executorch_c.plotting import nodes

        series = {"accumulated": _of(_relative, (row.accumulated for row in self.rows))}
        if self.has_local():
            series["local"] = _of(_relative, (row.local for row in self.rows))
        limits = [row.judged.limit or None for row in self.rows]
        first = None if self.first is None else self.rows.index(self.first)
        return nodes.node_errors(
            [*map(_label, self.rows)], series, limits=limits, first=first, ax=ax
        )

    def _plot_sqnr(self, ax: Axes | None = None, target_db: float | None = None) -> Figure:
        """Draw the signal-to-noise ratio of each node."""
        from executorch_c.plotting import nodes

        series = {"accumulated": _of(decibel, (row.accumulated for row in self.rows))}
        if self.has_local():
            series["local"] = _of(decibel, (row.local for row in self.rows))
        return nodes.sqnr([*map(_label, self.rows)], series, target_db=target_db, ax=ax)


def _relative(error: ErrorMetrics) -> float:
    return error.relative
