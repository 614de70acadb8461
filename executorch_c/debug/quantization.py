"""The quantisation error of each layer: a quantised program against its float model.

from executorch_c.devtools import quantization_error

budget = quantization_error("quantized.pte", float_model, [x])
print(budget)         # layers, the one that adds most first
budget[0].module      # "features.3"
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from executorch_c._render import figures as _figures
from executorch_c._render import html as _html
from executorch_c._render import text as _text
from executorch_c._delegation import DelegateAtLoad
from executorch_c._programs import ProgramSource
from executorch_c.compare.metrics import ErrorSize
from executorch_c.debug._graphs import names
from executorch_c.debug._graphs.reference import module_of
from executorch_c.debug._graphs.run import MAX_BYTES, run_with_graph
from executorch_c.debug._judge import Walk
from executorch_c.debug._matching.order import ALIGNED, Sequences
from executorch_c.debug.report import PLACE, SHOWN, Column, ErrorReport, NodeError

if TYPE_CHECKING:
    from executorch_c.debug._graphs.reference import Reference
    from executorch_c.trace import Event
    from matplotlib.figure import Figure
    from torch.fx import Node

DRAWN = 40
"""Maximum number of layers in the figure."""

FEW = 3
"""Maximum number of named layers that are not in the program."""


def _percent(size: float) -> str:
    """Return a share, which may be very small or infinite, as text."""
    if not 1e-4 <= size < math.inf:
        return f"{size:.1e}" if 0 < size < math.inf else "infinite" if size else "0"
    return f"{size:.2%}" if size < 0.1 else f"{size:.1%}"


def added(row: NodeError) -> float:
    """Return the error that a layer adds, relative to its result (RMS); may be infinite."""
    return (row.local or row.accumulated).relative


@dataclass(frozen=True)
class QuantizationReport(ErrorReport):
    """The error that each layer of a quantised program adds, the largest first; no verdict.

    Prints as a short table, in a notebook with bars; iterates over all rows, whose `index` is
    their rank. The local error of a row is the error that the layer adds.
    """

    arrives: ErrorSize | None = None
    """Error of the last value against the float model: of all layers together."""

    SOME: ClassVar[str] = "layers: those that add most"
    PICTURE: ClassVar[str] = "error that each layer adds"
    CAPTION: ClassVar[str] = (
        "local: |program - float| / |float| on the program's own activations; accumulated: on "
        "those of the float model"
    )

    @property
    def columns(self) -> tuple[Column, ...]:
        """Columns of the table: local and accumulated error, relative to the layer's result."""
        top = self._largest()
        return (
            *PLACE,
            Column("local", lambda row: _percent(added(row)), False),
            Column("accumulated", lambda row: _percent(row.accumulated.relative), False),
            Column(
                "local, to the largest", lambda row: _html.bar(0, added(row) / top), False, True
            ),
        )

    def _largest(self) -> float:
        """Return the largest finite figure, the scale of bars."""
        sizes = [size for row in self.rows if (size := added(row)) < math.inf]
        return max(sizes, default=0.0) or 1.0

    def shown(self, count: int = SHOWN) -> list[NodeError]:
        """Return the layers with the largest added error."""
        return list(self.rows[:count])

    def summary(self) -> str:
        """Return the layer with the largest added error, and the error of the outputs."""
        if not self.rows:
            return "nothing could be compared"
        row = self.rows[0]
        end = "" if self.arrives is None else f"; at the end {_percent(self.arrives.relative)}"
        return f"adds most: {row}: {_percent(added(row))} of its result{end}"

    def plot(self) -> Figure:
        """Return a figure of added errors, the largest on top, in percent of the layer's result.

        Returns a matplotlib Figure, which a notebook shows. Raises ImportError without matplotlib.
        """
        rows, top = self.rows[:DRAWN], self._largest()
        height = 1.2 + 0.25 * max(len(rows), 1)
        figure = _figures.figure(figsize=(8, height), layout="constrained")
        axes = figure.add_subplot()
        at = range(len(rows))
        most = 1.1 * max(top, *(s for r in rows if (s := r.accumulated.relative) < math.inf), 0.0)
        axes.barh(at, [100 * min(added(row), most) for row in rows], label="local")
        axes.plot([100 * min(row.accumulated.relative, most) for row in rows], at, "|",
                  color="tab:orange", markersize=9, markeredgewidth=2,
                  label="accumulated")  # fmt: skip
        axes.set_yticks(at, [row.module or f"{row.name}, {row.where}" for row in rows])
        axes.margins(y=0.02)
        axes.invert_yaxis()
        more = f" ({len(rows)} of {len(self.rows):,} layers)" if len(rows) < len(self) else ""
        axes.set(xlabel="% of the layer's result", title=self.title + more)
        axes.grid(True, axis="x", alpha=0.3)
        axes.legend(loc="lower right")
        return figure

    def as_dict(self) -> dict[str, Any]:
        """Return {"title", "summary", "notes", "arrives", "rows": [...]}.

        A row has the fields of NodeError without a verdict, errors those of ErrorSize.
        """
        found = super().as_dict()
        rows: Any = found["rows"]
        for row in rows:
            del row["verdict"]
        return {"title": self.title, "summary": self.summary(), "notes": list(self.notes),
                "arrives": None if self.arrives is None else asdict(self.arrives),
                "rows": rows}  # fmt: skip


# ---- values that are compared -----------------------------------------------------------------


def _dequantised(events: Sequence[Event]) -> Iterator[Event]:
    """Yield events; a result that is only quantised has its value after that, as in delegates.

    So the rounding and clamping of an activation count for the layer that computes it.
    """
    readers = _readers(events)

    def reader(i: int, begin: str) -> int | None:
        """Return the first event that reads a result, if the names of all begin so."""
        found = readers.get(i, [])
        fits = all(names.base(events[r].name).startswith(begin) for r in found)
        return found[0] if found and fits else None

    for i, event in enumerate(events):
        quantised = reader(i, "quantize_") if event.kind == "kernel" else None
        after = None if quantised is None else reader(quantised, "dequantize_")
        yield event if after is None else _with_result_of(event, events[after])


def _readers(events: Sequence[Event]) -> dict[int, list[int]]:
    """Return the numbers of the events that read a result, by the number of its event."""
    writers: dict[int | None, int] = {}
    readers: dict[int, list[int]] = {}
    for i, event in enumerate(events):
        for value in event.inputs:
            if value.slot is not None and value.slot in writers:
                readers.setdefault(writers[value.slot], []).append(i)
        for value in event.outputs:
            if value.slot is not None:
                writers[value.slot] = i
    return readers


def _with_result_of(event: Event, other: Event) -> Event:
    """Return an event with the result of another one, if both have one of a shape and dtype."""
    if len(event.outputs) != 1 or len(other.outputs) != 1:
        return event
    [mine], [theirs] = event.outputs, other.outputs
    if (mine.shape, mine.dtype) != (theirs.shape, theirs.dtype):
        return event
    kept = tuple(value for value in event.values if value is not mine)
    return replace(event, values=(*kept, replace(mine, data=theirs.data)))


def _constants(graph: Reference) -> set[Node]:
    """Return the nodes that depend on no input or state: weights, and values computed from them."""
    from torch.export.graph_signature import InputKind

    signature = graph.program.graph_signature
    places = [node for node in graph.nodes if node.op == "placeholder"]
    changed = set(signature.buffers_to_mutate.values())
    found: set[Node] = {
        node for node, spec in zip(places, signature.input_specs)
        if spec.kind != InputKind.USER_INPUT and spec.target not in changed
    }  # fmt: skip
    for node in graph.nodes:
        before = node.all_input_nodes
        if node.op == "get_attr" or (
            node.op == "call_function" and before and found.issuperset(before)
        ):
            found.add(node)
    return found


def _missing(graph: Reference, known: set[Node]) -> list[str]:
    """Return a sentence about layers of the model without a match in the program."""
    lost = [node for node in graph.nodes
            if names.kind_of(node) in ALIGNED and node not in known]  # fmt: skip
    if not lost:
        return []
    said = [f"{names.operator_of(node)} of '{module_of(node) or 'the model'}'" for node in lost]
    more = f", ... {len(said) - FEW} more" if len(said) > FEW else ""
    return [f"not found in the program: {', '.join(said[:FEW])}{more}"]


def _layers(rows: Sequence[NodeError]) -> list[NodeError]:
    """Return the row of each layer with the largest added error, the largest first."""
    layers: dict[str, NodeError] = {}
    for row in rows:
        name = row.module or row.where
        if name not in layers or added(row) >= added(layers[name]):
            layers[name] = replace(row, verdict="ok")
    return sorted(layers.values(), key=added, reverse=True)


def quantization_error(
    program: ProgramSource,
    model: object,
    inputs: Sequence[object],
    *,
    method: str = "forward",
    kernels: Literal["default", "reference"] = "default",
    delegate_at_load: DelegateAtLoad = False,
    max_bytes: int = MAX_BYTES,
    title: str | None = None,
) -> QuantizationReport:
    """Return the error of each layer of a quantised program against the float model.

    Dequantised values of the program are compared with the float layer's results: on the float
    model's activations (accumulated error), and on the program's activations (local error: the
    error of quantising this layer's weights and result, and of its arithmetic). Layers are matched
    by operator, in order: convolutions, linear layers, products, pools and softmax inside
    delegates, all operators outside. A layer of several operators has a row for the one with the
    largest local error; an operator outside of submodules is a layer.

    Args:
        model: The float model, as for `explain`, like all other arguments.

    Returns a report with a row for each layer, the largest local error first, without a verdict.
    Raises the exceptions of `explain`.
    """
    run = run_with_graph(program, model, inputs, method, kernels, delegate_at_load, max_bytes)
    if run.failure is not None:
        raise run.failure
    graph = run.graph
    steps = run.steps(list(_dequantised(run.trace.events)))
    matches = Sequences(graph.nodes).match(steps.steps)
    constants = _constants(graph)
    matches.found = [match for match in matches.found if match.nodes[-1] not in constants]
    walk = Walk(graph, matches, None)
    found = walk.run(graph.arguments(run.inputs), run.outputs)
    rows = _layers(found)
    head = f"{title or run.title}, method '{run.method}': quantization error"
    head += ", compared with the float model"
    known = {node for match in matches.found for node in match.nodes}
    notes = (f"compared {_text.plural(len(rows), 'layer')}", *_missing(graph, known),
             *run.notes())  # fmt: skip
    report = QuantizationReport(
        head, tuple(replace(row, index=i) for i, row in enumerate(rows)), notes,
        arrives=found[-1].accumulated if found else None,
    )  # fmt: skip
    report.set_origins(program=run.origin)
    return report
