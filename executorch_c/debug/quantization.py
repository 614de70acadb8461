"""What each layer of a quantised program costs at the outputs, against its float model.

from executorch_c.devtools import quantization_error

report = quantization_error(float_model, [x], program="quantized.pte")
print(report)         # layers, the most expensive first, and the one to keep in float
report[0].module      # "features.3"
report[0].gain_db     # 6.2: what the outputs gain without its errors

long: the docstring of quantization_error is its reference
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from executorch_c._order import model_first
from executorch_c._programs import ProgramSource
from executorch_c._render import figures as _figures
from executorch_c._render import html as _html
from executorch_c._render import text as _text
from executorch_c._delegation import DelegateAtLoad
from executorch_c._names import visible
from executorch_c.compare import costs as _costs
from executorch_c.compare.costs import Costs, costs_of
from executorch_c.compare.metrics import ErrorMetrics
from executorch_c.debug._costs import FloatModel, MeasuredWalk
from executorch_c.debug._float_model import matches_of
from executorch_c.debug._many import Inputs, calls, exported_once, set_of
from executorch_c.debug._graphs import names
from executorch_c.debug._graphs.reference import module_of
from executorch_c.debug._graphs.run import MAX_BYTES, run_with_graph
from executorch_c.debug._matching.order import ALIGNED
from executorch_c.debug.drawn import decibel
from executorch_c.debug.report import (
    PLACE,
    MAX_PRINTED_ROWS,
    Column,
    ErrorReport,
    NodeError,
    ReportedCase,
)
from executorch_c.inspect.quantized import quantization_of
from executorch_c.progress import Progress

if TYPE_CHECKING:
    from executorch_c.debug._graphs.reference import ReferenceGraph
    from executorch_c.debug._judge import _Row
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch.fx import Node

MAX_DRAWN_LAYERS = 40
"""Maximum number of layers in the figure."""

MAX_NAMED_LAYERS = 3
"""Maximum number of named layers that are not in the program."""


def _percent(size: float) -> str:
    """Return a share, which may be very small or infinite, as text."""
    if not 1e-4 <= size < math.inf:
        return f"{size:.1e}" if 0 < size < math.inf else "infinite" if size else "0"
    return f"{size:.2%}" if size < 0.1 else f"{size:.1%}"


def added(row: NodeError) -> float:
    """Return the error that a layer adds, relative to its result (RMS); may be infinite."""
    return (row.local or row.accumulated).relative


def _decibel(value: float, sign: str = "") -> str:
    """Return dB as text: "12.3", with the sign "+" "+12.3"; "-" where it is not known."""
    return "-" if math.isnan(value) else f"{value:{sign}.1f}"


@dataclass(frozen=True)
class LayerError(NodeError):
    """The error that a layer adds, and what it costs at the outputs."""

    cost_db: float = math.nan
    """Signal-to-noise ratio of the outputs where the errors of this layer are the only ones: the
    smaller, the more expensive. NaN if no output is a float."""
    gain_db: float = math.nan
    """Increase of the outputs' ratio without the errors of this layer."""
    worst_db: float = math.nan
    """Of many cases, the cost in the worst one; `cost_db` is that of their mean noise."""
    worst_case: str = ""
    """Name of that case."""


@dataclass(frozen=True)
class QuantizationReport(ErrorReport):
    """What each layer of a quantised program costs, the most expensive first; no verdict.

    Prints as a short table with an advice, in a notebook with bars; iterates over all rows, whose
    `index` is their rank. The local error of a row is the error that the layer adds.
    """

    arrives: ErrorMetrics | None = None
    """Error of the last value against the float model: of all layers together."""
    whole_db: float = math.nan
    """Signal-to-quantisation-noise ratio of the outputs, with the errors of all layers."""
    worst_db: float = math.nan
    """Of many cases, the ratio of the worst one; `whole_db` is that of their mean noise."""
    worst_case: str = ""
    """Name of that case."""
    has_scales: bool = False
    """True if results have scales of calibration, in which the layers after them read them."""

    SOME: ClassVar[str] = "layers: the most expensive"
    PLOTS: ClassVar[Mapping[str, str]] = {
        "sqnr": "signal-to-quantisation-noise ratio by layer",
        "added": "error that each layer adds",
        "errors": "local and accumulated error of each layer",
    }
    CAPTION: ClassVar[str] = (
        "cost: SNR of the outputs with the errors of this layer only; gain: increase of their SNR "
        "without these errors, both in dB; local: |program - float| / |float| on the program's own "
        "activations; accumulated: on those of the float model"
    )

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns of the table: cost and gain at the outputs, local and accumulated error,
        relative to the layer's result."""
        top = self._largest()
        return (
            *PLACE,
            Column("cost dB", lambda row: _decibel(_layer(row).cost_db), False),
            *self._worst_columns(),
            Column("gain dB", lambda row: _decibel(_layer(row).gain_db, "+"), False),
            Column("local", lambda row: _percent(added(row)), False),
            Column("accumulated", lambda row: _percent(row.accumulated.relative), False),
            Column(
                "local, to the largest", lambda row: _html.bar(0, added(row) / top), False, True
            ),
        )

    def _worst_columns(self) -> list[Column]:
        """Return the columns of the worst case; none for one case."""
        if not self.worst_case:
            return []
        return [
            Column("worst dB", lambda row: _decibel(_layer(row).worst_db), False),
            Column("worst case", lambda row: _layer(row).worst_case, False),
        ]

    def _largest(self) -> float:
        """Return the largest finite figure, the scale of bars."""
        sizes = [size for row in self.rows if (size := added(row)) < math.inf]
        return max(sizes, default=0.0) or 1.0

    def shown(self, count: int = MAX_PRINTED_ROWS) -> list[NodeError]:
        """Return the most expensive layers."""
        return list(self.rows[:count])

    def summary(self) -> str:
        """Return the most expensive layer, the ratio of the outputs, and the advice."""
        if not self.rows:
            return "nothing could be compared"
        row = self.rows[0]
        if math.isnan(self.whole_db):
            end = "" if self.arrives is None else f"; at the end {_percent(self.arrives.relative)}"
            return f"adds most: {row}: {_percent(added(row))} of its result{end}"
        return (
            f"costs most: {row}: {_percent(added(row))} of its result; SQNR of the outputs "
            f"{_decibel(self.whole_db)} dB{self._about_worst()}. {self.advice()}"
        )

    def _about_worst(self) -> str:
        if not self.worst_case:
            return ""
        count = _text.plural(len(self.cases), "case")
        return f" (mean of {count}; worst {_decibel(self.worst_db)} dB, case {self.worst_case})"

    def advice(self) -> str:
        """Return which layer to keep in float, and what that gains."""
        best = _layer(self.rows[0]) if self.rows else None
        if best is None:
            return _costs.advice("", math.nan)
        name = f"'{best.module}'" if best.module else f"{best.name}, {best.where}"
        result = " (and the layers that read its result)" if self.has_scales else ""
        return _costs.advice(name, best.gain_db, result)

    def _plot_sqnr(self, ax: Axes | None = None, target_db: float | None = None) -> Figure:
        """Draw the ratio of the outputs with the errors of each layer only, and that of the layer's
        result, the most expensive layer first."""
        from executorch_c.plotting import nodes

        costs = [None if math.isnan(c := _layer(row).cost_db) else c for row in self.rows]
        series: dict[str, Sequence[float | None]] = {}
        if costs != [None] * len(costs):
            series["outputs, by this layer only"] = costs
        series["layer's result"] = [decibel(row.local or row.accumulated) for row in self.rows]
        names = [row.module or f"{row.name}, {row.where}" for row in self.rows]
        lines = {"target_db": target_db, "whole_db": self.whole_db}
        return nodes.sqnr(names, series, ax=ax, **lines)

    def _plot_added(self, ax: Axes | None = None) -> Figure:
        """Draw the error that each layer adds, the most expensive on top, in percent of its
        result."""
        rows, top = self.rows[:MAX_DRAWN_LAYERS], self._largest()
        axes = _figures.axes_of(ax, (8, 1.2 + 0.25 * max(len(rows), 1)))
        at = range(len(rows))
        limit = 1.1 * max(top, *(s for r in rows if (s := r.accumulated.relative) < math.inf), 0.0)
        axes.barh(at, [100 * min(added(row), limit) for row in rows], label="local")
        axes.plot(
            [100 * min(row.accumulated.relative, limit) for row in rows],
            at,
            "|",
            color="tab:orange",
            markersize=9,
            markeredgewidth=2,
            label="accumulated",
        )
        axes.set_yticks(at, [row.module or f"{row.name}, {row.where}" for row in rows])
        axes.margins(y=0.02)
        axes.invert_yaxis()
        more = f" ({len(rows)} of {len(self.rows):,} layers)" if len(rows) < len(self) else ""
        axes.set(xlabel="% of the layer's result", title=self.title + more)
        axes.grid(True, axis="x", alpha=0.3)
        axes.legend(loc="lower right")
        return _figures.figure_of(axes)

    def as_dict(self) -> dict[str, Any]:
        """Return {"title", "summary", "advice", "whole_db", "notes", "arrives", "rows": [...]}.

        A row has the fields of LayerError without a verdict, errors those of ErrorMetrics.
        """
        figures = super().as_dict()
        rows: Any = figures["rows"]
        for row in rows:
            del row["verdict"]
        return {
            "title": self.title,
            "summary": self.summary(),
            "notes": list(self.notes),
            "advice": self.advice(),
            "whole_db": self.whole_db,
            "worst_db": self.worst_db,
            "worst_case": self.worst_case,
            "cases": figures["cases"],
            "arrives": None if self.arrives is None else asdict(self.arrives),
            "rows": rows,
        }


def _missing(graph: ReferenceGraph, known: set[Node]) -> list[str]:
    """Return a sentence about layers of the model without a match in the program."""
    lost = [node for node in graph.nodes if names.kind_of(node) in ALIGNED and node not in known]
    if not lost:
        return []
    layers = [f"{names.operator_of(node)} of '{module_of(node) or 'the model'}'" for node in lost]
    more = f", ... {len(layers) - MAX_NAMED_LAYERS} more" if len(layers) > MAX_NAMED_LAYERS else ""
    return [f"not found in the program: {', '.join(layers[:MAX_NAMED_LAYERS])}{more}"]


def _layer(row: NodeError) -> LayerError:
    """Return a row of this report."""
    assert isinstance(row, LayerError)
    return row


def _units(rows: Sequence[_Row]) -> dict[str, list[_Row]]:
    """Return rows by their layer; an activation belongs to the layer whose result nothing else
    reads: its saturation undoes errors of that layer."""
    known = {row.node: row for row in rows}
    units: dict[str, list[_Row]] = {}
    for row in rows:
        node = row.node
        while names.operator_of(node) in names.FUSED and len(node.all_input_nodes[0].users) == 1:
            node = node.all_input_nodes[0]
        error = known.get(node, row).error
        units.setdefault(error.module or error.where, []).append(row)
    return units


def _layers(units: Mapping[str, Sequence[_Row]], costs: Costs) -> list[LayerError]:
    """Return the row of each layer with the largest added error, the most expensive layer first;
    those of equal cost by that error."""
    layers = []
    for name, rows in units.items():
        worst = max((row.error for row in reversed(rows)), key=added)
        figures = {f.name: getattr(worst, f.name) for f in fields(NodeError)}
        figures |= {"verdict": "ok", "module": rows[0].error.module}
        layers.append(LayerError(**figures, cost_db=costs.alone[name], gain_db=costs.gains[name]))
    layers.sort(key=lambda row: (math.isnan(row.cost_db), row.cost_db, -added(row)))
    return [replace(row, index=i) for i, row in enumerate(layers)]


@model_first
def quantization_error(
    model: object,
    inputs: Inputs,
    *,
    program: ProgramSource,
    method: str = "forward",
    kernels: Literal["default", "reference"] = "default",
    delegate_at_load: DelegateAtLoad = False,
    max_bytes: int = MAX_BYTES,
    title: str | None = None,
    progress: bool | None = None,
) -> QuantizationReport:
    """Return what each layer of a quantised program costs, against the float model.

    Dequantised values of the program are compared with the float layer's results: on the float
    model's activations (accumulated error), and on the program's activations (local error: the
    error of quantising this layer's weights and result, and of its arithmetic). The local errors of
    a layer are added to its result in the float model, those of one layer at a time: the distance
    of the outputs is what the layer costs. The sum over all layers without one says what the
    outputs gain if that layer stays in float; the report advises the most expensive one. The result
    of a layer with scales of calibration is an input of the layers that read it, and quantised for
    these, too: leave them out of the quantizer as well.

    Layers are matched by operator, in order: convolutions, linear layers, products, pools and
    softmax inside delegates, all operators outside. A layer of several operators, or with an
    activation, has a row for the one with the largest local error; an operator outside of
    submodules is a layer.

    Args:
        model: The float model, as for `explain`, like all other arguments.
        inputs: Those of one call, or of many: costs are then those of the mean noise of all cases,
            beside those of the worst one.

    Returns a report with a row for each layer, the most expensive one first, without a verdict;
    without floating-point outputs the largest local error is first. Raises the exceptions of
    `explain`.
    """
    with Progress("quantization_error", progress) as say:
        say("exporting the model, running the program")

        def measured(values: Sequence[object], model: object = model) -> QuantizationReport:
            return _measured(
                program, model, values, method, kernels, delegate_at_load, max_bytes, title, say
            )

        cases = set_of(inputs)
        if cases is None:
            assert isinstance(inputs, Sequence)
            return measured(inputs)
        reports = dict[str, QuantizationReport]()
        for name, values in calls(cases, program, method):
            model = exported_once(model, values)
            reports[name] = measured(values, model)
        return _mean(reports, cases.notes())


def _measured(
    program: ProgramSource,
    model: object,
    inputs: Sequence[object],
    method: str,
    kernels: Literal["default", "reference"],
    delegate_at_load: DelegateAtLoad,
    max_bytes: int,
    title: str | None,
    say: Progress,
) -> QuantizationReport:
    run = run_with_graph(program, model, inputs, method, kernels, delegate_at_load, max_bytes)
    if run.failure is not None:
        raise run.failure
    graph = run.graph
    matches = matches_of(run)
    walk = MeasuredWalk(graph, matches)
    arguments = graph.arguments(run.inputs)
    errors = walk.run(arguments, run.outputs)
    units = _units(walk.rows)
    layers = {name: [row.node for row in rows] for name, rows in units.items()}
    floats, numbers, show = FloatModel(graph, arguments), count(), say.count("layers")

    def noise_of(name: str) -> float:
        show(next(numbers), len(layers))
        return floats.noise({node: walk.errors[node] for node in layers[name]})

    costs = costs_of(layers, noise_of, floats.noise(walk.errors))
    rows = _layers(units, costs)
    head = f"{title or run.title}, method '{visible(run.method)}': quantization error"
    head += ", compared with the float model"
    known = {node for match in matches.pairs for node in match.nodes}
    notes = (f"compared {_text.plural(len(rows), 'layer')}", *_missing(graph, known), *run.notes())
    quantization = quantization_of(run.view.program, [run.method])
    report = QuantizationReport(
        head,
        tuple(rows),
        notes,
        arrives=errors[-1].accumulated if errors else None,
        whole_db=costs.whole,
        has_scales=quantization is not None and quantization.scheme == "static",
    )
    report.set_origins(program=run.origin)
    return report


def _noise(decibel: float) -> float:
    """Return the relative power of noise of a signal-to-noise ratio; the inverse of
    `costs.decibel`."""
    return math.nan if math.isnan(decibel) else 10.0 ** (-decibel / 10)


def _known_mean(values: Iterable[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def _mean(reports: Mapping[str, QuantizationReport], notes: Sequence[str]) -> QuantizationReport:
    """Return the report of many cases: costs of the mean noise, and of the worst case."""
    layers: dict[str, list[tuple[str, LayerError]]] = {}
    for case, report in reports.items():
        for row in report.rows:
            layers.setdefault(row.module or row.where, []).append((case, _layer(row)))
    noise = {
        name: _known_mean(_noise(row.cost_db) for _, row in group) for name, group in layers.items()
    }
    costs = _costs.costs_of(noise, noise.__getitem__, math.nan)
    rows = []
    for name, group in layers.items():
        case, worst = min(group, key=lambda item: _or_infinite(item[1].cost_db))
        rows.append(
            replace(
                worst,
                cost_db=costs.alone[name],
                gain_db=costs.gains[name],
                worst_db=worst.cost_db,
                worst_case=case,
            )
        )
    rows.sort(key=lambda row: (math.isnan(row.cost_db), row.cost_db, -added(row)))
    worst_case = min(reports, key=lambda name: _or_infinite(reports[name].whole_db))
    worst_report = reports[worst_case]
    return worst_report.changed(
        rows=tuple(replace(row, index=i) for i, row in enumerate(rows)),
        notes=(*worst_report.notes, *notes),
        whole_db=_costs.decibel(_known_mean(_noise(one.whole_db) for one in reports.values())),
        worst_db=worst_report.whole_db,
        worst_case=worst_case,
        cases=tuple(
            ReportedCase(name, "", math.sqrt(_noise(one.whole_db))) for name, one in reports.items()
        ),
    )


def _or_infinite(value: float) -> float:
    return math.inf if math.isnan(value) else value
