"""Lines of traces: the events of an instruction or node over all calls, and totals of lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from executorch_c._render import text as _text
from executorch_c.inspect.where import Where

if TYPE_CHECKING:
    from executorch_c._types import InnerNode, InnerValue
    from executorch_c.inspect.etrecord import ETRecord
    from executorch_c.inspect.structure import View
    from executorch_c.trace import Event, Trace, Value

Key: TypeAlias = tuple[object, ...]
Sort: TypeAlias = Literal["time", "order", "bytes"]
By: TypeAlias = Literal["operator", "module", "delegate"]
SORTS: tuple[Sort, ...] = ("time", "order", "bytes")
TOTALS: tuple[By, ...] = ("operator", "module", "delegate")
NOT_DELEGATED = "not delegated"


@dataclass(frozen=True)
class Times:
    """Times of a call in microseconds, over all calls: mean, least, percentiles, largest."""

    mean: float
    min: float
    p50: float
    p90: float
    max: float


def times(nanoseconds: Iterable[int], runs: int) -> Times:
    """Return the times of calls; calls without a time count as 0."""
    spans = np.zeros(max(runs, 1))
    known = [*nanoseconds]
    spans[: len(known)] = known
    p50, p90 = np.percentile(spans, (50, 90)) / 1e3
    mean, low, high = (float(f(spans)) / 1e3 for f in (np.mean, np.min, np.max))
    return Times(mean, low, float(p50), float(p90), high)


@dataclass(frozen=True)
class Tensor:
    """A tensor of a payload's node: dtype in the payload's words, and shape, if the payload has
    them."""

    dtype: str | None
    shape: tuple[int, ...] | None


@dataclass
class Line:
    """An instruction or node, aggregated over all runs."""

    id: str
    """Its place (`inspect/where.py`): instruction "i3", in chain 1 "c1.i3"; node 5 of delegate 0
    "d0.5"; in a program inside that delegate "d0/i3"."""
    kind: str
    name: str
    level: int = 0
    """Nesting depth in delegates."""
    delegate: int | None = None
    """Index of the delegate in the method, of its call and of what is inside."""
    handle: int | None = None
    """Debug handle of a node."""
    shapes: str = ""
    module: str = ""
    inputs: tuple[Value | Tensor, ...] = ()
    outputs: tuple[Value | Tensor, ...] = ()
    nbytes: int = 0
    """Bytes of input and output tensors, in one call."""
    calls: int = 0
    spans: dict[int, int] = field(default_factory=dict)
    """Duration by call, in nanoseconds."""
    offsets_ns: int = 0
    """Sum of its first start times in these calls."""

    @property
    def nanoseconds(self) -> int:
        """Durations of all its calls."""
        return sum(self.spans.values())

    @property
    def runs(self) -> int:
        """Number of method calls that executed it."""
        return len(self.spans)

    def add(self, event: Event, started: int) -> None:
        """Add an event, with the start time of its call."""
        self.calls += 1
        if event.run not in self.spans:
            self.offsets_ns += event.start_ns - started
        self.spans[event.run] = self.spans.get(event.run, 0) + event.duration_ns


def shapes(what: Event | Line) -> str:
    """Return the shapes of the inputs and outputs, and the numbers among the inputs: "(2, 3), (3,)
    -> (2, 4)"."""

    def one(value: Value | Tensor) -> str:
        data = getattr(value, "data", None)
        if isinstance(data, (bool, int, float)):
            return str(data)
        return "(?)" if value.shape is None else _text.sizes(value.shape)

    sides = [", ".join(map(one, values)) for values in (what.inputs, what.outputs)]
    return " -> ".join(filter(None, sides))


def nbytes(event: Event) -> int:
    """Return the bytes of an event's input and output tensors."""
    return sum(value.nbytes for value in event.values)


class _Merge:
    """Merges the events of all calls, by the events that enclose them."""

    def __init__(self, trace: Trace) -> None:
        self.lines: dict[Key, Line] = {}
        self.whole = Line("", "execute", "the whole call")
        self._enclosing: list[tuple[Key, str, int | None]] = [((), "", None)]
        """Key, prefix of ids and delegate of the enclosing delegates, by depth."""
        self._nodes = self._started = 0
        for event in trace.events:
            self._add(event)

    def _add(self, event: Event) -> None:
        if event.kind == "node":
            key, prefix, delegate = self._enclosing[-1]
            number, self._nodes = self._nodes, self._nodes + 1
            id_ = f"{prefix.removesuffix('/')}.{number}"
            self._line((*key, number), event, len(self._enclosing) - 1, id_, delegate)
            return
        del self._enclosing[event.depth + 1 :]
        outer, prefix, delegate = self._enclosing[-1]
        key, self._nodes = (*outer, event.kind, event.chain, event.instruction), 0
        if event.kind == "delegate":
            delegate = event.delegate if delegate is None else delegate
            self._enclosing.append((key, f"{prefix}d{event.delegate}/", delegate))
        if event.kind != "execute":
            place = Where(event.instruction, chain=event.chain or 0)
            self._line(key, event, event.depth, f"{prefix}{place.id}", delegate)
        elif not event.depth:
            self._started = event.start_ns
            self.whole.add(event, self._started)

    def _line(self, key: Key, event: Event, level: int, id_: str, delegate: int | None) -> None:
        if key not in self.lines:
            name = (event.name or f"node {event.debug_handle}") + " (failed)" * event.failed
            self.lines[key] = Line(
                id_,
                event.kind,
                name,
                level,
                delegate,
                event.debug_handle,
                shapes(event),
                inputs=event.inputs,
                outputs=event.outputs,
                nbytes=nbytes(event),
            )
        self.lines[key].add(event, self._started)


@dataclass(frozen=True)
class Lines:
    """The lines of a trace in the order of execution."""

    inner: tuple[Line, ...]
    """Instructions and nodes."""
    rest: Line
    """The time between instructions."""
    whole: Line
    """The calls."""

    @property
    def is_timed(self) -> bool:
        """True if nodes in delegates have times of their own."""
        return any(line.level and line.nanoseconds for line in self.inner)

    def sorted(self, sort: Sort) -> list[Line]:
        """Return instructions and nodes by time or bytes, largest first, or in order. A delegate
        whose nodes have times is left out by time: its nodes have what it takes."""
        if sort == "order":
            return [*self.inner]
        if sort == "bytes":
            return sorted(self.inner, key=lambda line: -line.nbytes)
        return sorted(self.leaves(), key=lambda line: -line.nanoseconds)

    def leaves(self) -> list[Line]:
        """Return lines whose times do not overlap: in place of a delegate with timed nodes the
        nodes, and the rest of its time."""
        return list(_leaves(self.inner))

    def totals(self, by: By) -> list[Total]:
        """Return the totals of a kind, largest first."""
        lines = self.leaves() if by == "module" else [x for x in self.inner if not x.level]
        totals: dict[str, Total] = {}
        for line in lines:
            name = _KEYS[by](line)
            if name is not None:
                totals.setdefault(name, Total(name)).add(line)
        return sorted(totals.values(), key=lambda total: -total.nanoseconds)


def _leaves(lines: Sequence[Line]) -> Iterator[Line]:
    at = 0
    while at < len(lines):
        line, end = lines[at], at + 1
        while end < len(lines) and lines[end].level > line.level:
            end += 1
        inside = lines[at + 1 : end]
        known = sum(one.nanoseconds for one in inside if one.level == line.level + 1)
        if 0 < known <= line.nanoseconds:
            yield from _leaves(inside)
            yield _rest_of(line, inside)
        else:
            yield line
        at = end


def _rest_of(line: Line, inside: Sequence[Line]) -> Line:
    """Return the time of a delegate outside its nodes."""
    spans = dict(line.spans)
    for one in inside:
        if one.level == line.level + 1:
            for run, span in one.spans.items():
                spans[run] = spans.get(run, 0) - span
    name = f"{line.name}, the rest"
    return replace(line, name=name, spans={run: max(span, 0) for run, span in spans.items()})


@dataclass
class Total:
    """Lines of one operator, module or delegate."""

    name: str
    lines: int = 0
    calls: int = 0
    nanoseconds: int = 0

    def add(self, line: Line) -> None:
        """Add a line."""
        self.lines += 1
        self.calls += line.calls
        self.nanoseconds += line.nanoseconds


def _delegate_key(line: Line) -> str:
    return NOT_DELEGATED if line.delegate is None else f"d{line.delegate} {line.name}"


_KEYS: dict[By, Callable[[Line], str | None]] = {
    "operator": lambda line: line.name,
    "module": lambda line: line.module or None,
    "delegate": _delegate_key,
}
"""The name under which a line counts; None: under none."""


def lines(trace: Trace) -> Lines:
    """Return the lines of a trace, with the names of `Trace.name_nodes`."""
    merged = _Merge(trace)
    inner = [*merged.lines.values()]
    for line in inner:
        line.module = trace.modules.get(line.id, "")
        if not line.shapes and line.id in trace.node_values:
            line.inputs, line.outputs = trace.node_values[line.id]
            line.shapes = shapes(line)
    rest = replace(merged.whole, kind="rest", name="outside instructions", spans={})
    for run, span in merged.whole.spans.items():
        known = sum(line.spans.get(run, 0) for line in inner if not line.level)
        rest.spans[run] = max(span - known, 0)
    return Lines(tuple(inner), rest, merged.whole)


# ---- names of nodes ---------------------------------------------------------------------------


def values_of_nodes(
    view: View, lines: Iterable[Line]
) -> dict[str, tuple[tuple[Tensor, ...], tuple[Tensor, ...]]]:
    """Return inputs, without constants, and outputs of nodes in delegates by the payloads, by id;
    of dynamic shapes the upper bounds."""

    def tensors(ids: Iterable[int], values: dict[int, InnerValue]) -> tuple[Tensor, ...]:
        known = (values[i] for i in ids if i in values)
        return tuple(Tensor(v["dtype"], v["shape"]) for v in known if not v["constant"])

    return {
        line.id: (tensors(node["inputs"], values), tensors(node["outputs"], values))
        for line, node, values in _described(view, lines)
    }


def _described(
    view: View, lines: Iterable[Line]
) -> Iterator[tuple[Line, InnerNode, dict[int, InnerValue]]]:
    """Yield lines of nodes with the payload's node of the same debug handle: the n-th of each."""
    waiting: dict[tuple[int, int | None], Iterator[InnerNode]] = {}
    for line in lines:
        inside = None
        if line.kind == "node" and line.delegate is not None and "/" not in line.id:
            inside = view.inside(line.delegate)
        if inside is None or isinstance(inside, str):
            continue
        assert line.delegate is not None
        key = line.delegate, line.handle
        if key not in waiting:
            nodes = [node for node in inside["nodes"] if node["debug_handle"] == line.handle]
            waiting[key] = iter(nodes)
        node = next(waiting[key], None)
        if node is not None:
            yield line, node, {value["id"]: value for value in inside["values"]}


def modules_of_record(record: ETRecord, method: str, lines: Iterable[Line]) -> dict[str, str]:
    """Return the modules of instructions and nodes by id, as an ETRecord knows them."""
    found: dict[str, str] = {}
    instruction: int | None = None
    for line in lines:
        if line.kind != "node":
            place = Where.parse(line.id)
            instruction = None if place is None or place.chain else place.instruction
        if instruction is None or "/" in line.id:
            continue
        handle = line.handle if line.kind == "node" else None
        modules = record.modules_at(method, instruction, handle)
        if len(modules) == 1 or line.kind == "node" and modules:
            found[line.id] = ", ".join(modules)
    return found
