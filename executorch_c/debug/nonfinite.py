"""The origin of NaN and infinity, and the outputs that they reach.

    from executorch_c.devtools import check_nan

    report = check_nan("model.pte", [x])
    print(report)
    report.first.name    # "aten::exp.out": the operator that overflowed

The runtime traces ranges during the run (`Method.tracing(ranges=True)`), without copies.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from executorch_c._render import html as _html
from executorch_c._render import text as _text
from executorch_c._delegation import DelegateAtLoad, trace_notes
from executorch_c._programs import ProgramSource, method_of, opened
from executorch_c.compare.verdicts import Verdict
from executorch_c.inspect import families
from executorch_c.inspect.events import named
from executorch_c.inspect.where import id_of
from executorch_c.report import JudgedReport

if TYPE_CHECKING:
    from executorch_c.trace import Event, Range, Value

OriginKind: TypeAlias = Literal["computed", "written", "constant", "input"]
"""Origin of a value that is not finite:

    computed  an operator made it of finite numbers (an overflow, log of 0), or NaN of infinities
    written   an operator wrote a number of the program: full(-inf), masked_fill
    constant  it is in the file, or in the method's state
    input     it is in an input of the call
"""

WRITERS = {
    "constant_pad_nd",
    "empty",
    "empty_like",
    "empty_strided",
    "fill",
    "full",
    "full_like",
    "index_fill",
    "masked_fill",
    "new_empty",
    "new_full",
    "pad",
    "scalar_tensor",
    "where",
    "Static Constant Pad",
    "Constant Pad",
    "StaticConstantPad",
}
"""Operators, and nodes of delegates, that write numbers of the program into their results."""

LARGEST_FINITE = {"float16": 65504.0, "bfloat16": 3.3895e38, "float32": 3.4028e38}
"""Largest finite numbers by dtype."""


@dataclass
class Source:
    """The first value of a data flow that is not finite."""

    origin: OriginKind
    where: str
    """"instruction 3", "delegate 0, node 5", "input 0"; of a constant, the node that reads it."""
    name: str
    """The operator; of constants and inputs the argument."""
    dtype: str
    shape: tuple[int, ...]
    range: Range
    inputs: tuple[Value, ...] = ()
    """Inputs of the operator: `value.range.high` and so on."""
    carriers: int = 0
    """Number of results of other operators that are not finite because of it."""
    outputs: list[int] = field(default_factory=list)
    """Outputs of the method that have it."""
    gone: str | None = None
    """First operator that reads it and has finite results."""

    @property
    def is_fault(self) -> bool:
        """False for infinity that is a constant of the program, as in a mask; True for NaN."""
        return self.origin == "computed" or self.range.nan > 0

    def __str__(self) -> str:
        """Return "aten::exp.out, instruction 3"."""
        return f"{self.name}, {self.where}"

    def what(self) -> str:
        """Return "12 infinite of 64 elements of float16, first at (0, 3)"."""
        total = math.prod(self.shape)
        return (
            f"{_counts(self.range)} of {_text.plural(total, 'element')} of {self.dtype}, "
            f"first at {_text.sizes(self.range.first or ())}"
        )

    def share(self) -> str:
        """Return "12 infinite of 64 float16"."""
        return f"{_counts(self.range)} of {math.prod(self.shape):,} {self.dtype}"

    def why(self) -> str:
        """Return its inputs and their ranges, in words."""
        if self.origin != "computed":
            return ""
        ranges = ", ".join(_taken(value) for value in self.inputs if value.range)
        bad = [value for value in self.inputs if value.range and not value.range.finite]
        if bad:
            return f"NaN out of infinities: {ranges}"
        text = f"of finite {ranges}" if ranges else "of finite numbers"
        if not self.range.nan and self.dtype in LARGEST_FINITE:
            text += f"; {self.dtype} ends at {LARGEST_FINITE[self.dtype]:g}"
        return text

    def fate(self) -> str:
        """Return the outputs that it reaches, in words."""
        if self.outputs:
            return "reaches output " + ", ".join(map(str, self.outputs))
        return "reaches no output" + (f", ends at {self.gone}" if self.gone else "")


def _counts(extent: Range) -> str:
    parts = [(extent.nan, "NaN"), (extent.positive, "infinite"), (extent.negative, "-infinite")]
    return " and ".join(f"{count:,} {text}" for count, text in parts if count)


def _taken(value: Value) -> str:
    """Return "self float16 in [-3, 7]"."""
    assert value.range is not None
    name = f"{value.name} " if value.name else ""
    if math.isnan(value.range.low):
        return f"{name}{value.dtype} without finite numbers"
    text = f"{name}{value.dtype} in [{value.range.low:.4g}, {value.range.high:.4g}]"
    return text if value.range.finite else f"{text} with {_counts(value.range)}"


@dataclass(frozen=True)
class NonFiniteReport(JudgedReport[Source]):
    """Values of a call that are NaN or infinite. `bool(report)` is `report.ok`."""

    ROWS = "sources"

    method: str
    sources: tuple[Source, ...]
    """In order of execution, without values that only carry others."""
    outputs: tuple[int, ...]
    """Outputs of the method that have NaN or infinity, for any reason."""
    events: int
    """Number of examined instructions and nodes."""
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """ "match", or "differ" if NaN or computed infinity reaches the outputs."""
        return "match" if self.first is None else "differ"

    @property
    def first(self) -> Source | None:
        """The first fault that reaches the outputs."""
        return next((s for s in self.sources if s.is_fault and s.outputs), None)

    def summary(self) -> str:
        """Return the finding in a sentence or two."""
        watched = _text.plural(self.events, "result")
        first = self.first
        if first is not None:
            verb = {
                "computed": "is computed by",
                "written": "is written by",
                "constant": "is in a constant or the state",
                "input": "is in",
            }
            kind = "NaN" if first.range.nan else "infinity"
            why = first.why()
            return f"{kind} {verb[first.origin]} {first} and {first.fate()}: {first.what()}" + (
                f", {why}" if why else ""
            )
        if not self.sources:
            return f"all finite: {watched} of {self.method!r}"
        faults = [source for source in self.sources if source.is_fault]
        if faults:
            more = f" (and {len(faults) - 1:,} more)" if len(faults) > 1 else ""
            return (
                f"no output has what comes about at {faults[0]}{more}: {faults[0].what()}; "
                "look whether it should end where it does"
            )
        places = _text.plural(len(self.sources), "place")
        reach = "reaches outputs" if self.outputs else "reaches no output"
        return f"no fault: infinity is put there in {places} and {reach}"

    def _rows(self) -> list[list[object]]:
        return [
            [id_of(s.where), s.name, s.origin, s.what(), s.why(), f"{s.carriers:,}", s.fate()]
            for s in self.sources
        ]

    def table(self) -> str:
        """Return a row for each source as text."""
        rows = [
            [where, name, origin, source.share(), *rest]
            for source, (where, name, origin, _, *rest) in zip(self.sources, self._rows())
        ]
        return _text.table(rows, HEAD, width=_text.width(), optional=OPTIONAL) if rows else ""

    def __str__(self) -> str:
        parts = [_text.wrapped(self.summary()), self.table(), *map(_text.wrapped, self.notes)]
        return "\n".join(filter(None, parts))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.summary()}>"

    def _repr_html_(self) -> str:
        finding = _html.verdict(self.verdict, self.summary())
        return _html.table(_html.lines(finding, *self.notes), HEAD, self._rows(), 5)

    def heading(self) -> str:
        """Return the heading of its page."""
        return f"NaN and infinity in '{self.method}'"

    def sections(self) -> Iterator[object]:
        """Yield the parts of its page after the finding."""
        yield _html.table("sources, in order of execution", HEAD, self._rows(), 5)
        yield from self.notes

    def rows_as_dicts(self) -> list[dict[str, object]]:
        """Return a row for each source."""
        return [
            {
                "where": s.where,
                "name": s.name,
                "origin": s.origin,
                "dtype": s.dtype,
                "shape": s.shape,
                "what": s.what(),
                "why": s.why(),
                "is_fault": s.is_fault,
                "carriers": s.carriers,
                "outputs": tuple(s.outputs),
            }
            for s in self.sources
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return all figures: {"method", "ok", "summary", "outputs", "first", "sources": [...]}."""
        rows: list[dict[str, Any]] = [
            {**asdict(s), "is_fault": s.is_fault, "what": s.what(), "why": s.why()}
            for s in self.sources
        ]
        for row in rows:
            row["inputs"] = [
                {key: value[key] for key in ("name", "dtype", "shape", "range")}
                for value in row["inputs"]
            ]
        first = self.first
        return {
            "method": self.method,
            "ok": self.ok,
            "summary": self.summary(),
            "outputs": list(self.outputs),
            "events": self.events,
            "notes": list(self.notes),
            "first": None if first is None else self.sources.index(first),
            "sources": rows,
        }


HEAD = ("where", "name", "origin", "what", "why", "carried by", "fate")
OPTIONAL = ("carried by", "why", "origin")
"""Columns that narrow terminals leave out; the summary has those of the first fault."""

Causes: TypeAlias = "frozenset[int]"
"""Numbers of sources."""

Mark: TypeAlias = "tuple[int, int, int, str, str]"
"""Counts and range, by which a value without a slot is recognised."""


def _mark(extent: Range) -> Mark:
    return extent.nan, extent.positive, extent.negative, repr(extent.low), repr(extent.high)


@dataclass
class _Scope:
    """Values of a method, or inside a delegate."""

    slots: dict[int, Causes] = field(default_factory=dict)
    marks: dict[Mark, Causes] = field(default_factory=dict)
    inputs: dict[int, int] = field(default_factory=dict)
    """Slots of the method's inputs: which ones."""


class _Watch:
    """Follow values that are not finite through the events of one call."""

    def __init__(self) -> None:
        self.sources: list[Source] = []
        self.known: dict[tuple[str, str], int] = {}
        self.scopes = [_Scope()]
        self.open: list[tuple[Event, str, int, int]] = []
        self.watched = 0

    # ---- where values come from -----------------------------------------------------------

    def _add(self, source: Source) -> Causes:
        key = (source.origin, source.where + source.name)
        if key not in self.known:  # once for all rounds of a loop
            self.known[key] = len(self.sources)
            self.sources.append(source)
        return frozenset({self.known[key]})

    def _causes(self, scope: _Scope, value: Value, taker: str) -> Causes:
        """Return the sources of a value that an event takes."""
        assert value.range is not None
        if value.range.finite:
            return frozenset()
        causes = scope.slots.get(-1 if value.slot is None else value.slot)
        causes = causes or scope.marks.get(_mark(value.range))
        if causes:
            return causes
        number = scope.inputs.get(-1 if value.slot is None else value.slot)
        if number is not None:
            source = Source(
                "input",
                f"input {number}",
                "the caller's array",
                value.dtype,
                value.shape,
                value.range,
            )
        else:
            name = f"argument '{value.name}'" if value.name else "an argument"
            source = Source(
                "constant", f"taken by {taker}", name, value.dtype, value.shape, value.range
            )
        causes = self._add(source)
        self._give(scope, value, causes)
        return causes

    def _give(self, scope: _Scope, value: Value, causes: Causes) -> None:
        if value.slot is not None:
            scope.slots[value.slot] = causes
        if value.range is not None and not value.range.finite:
            scope.marks[_mark(value.range)] = causes

    # ---- events ---------------------------------------------------------------------------

    def see(self, event: Event, where: str) -> None:
        """Follow the values of the next event."""
        if event.kind == "execute":
            self._end_delegate(event.depth)
            if event.depth == 0:
                self.scopes[0].inputs = {
                    v.slot: i for i, v in enumerate(event.inputs) if v.slot is not None
                }
            return
        if event.kind in ("jump", "free"):
            return
        if event.kind != "node":
            self._end_delegate(event.depth)
        scope = self.scopes[-1]
        if event.kind == "delegate":
            self._begin_delegate(event, where)
        else:
            self._step(scope, event, where, event.outputs)

    def _step(self, scope: _Scope, event: Event, where: str, outputs: Sequence[Value]) -> None:
        """Follow the values of an instruction or node."""
        inputs = [value for value in event.inputs if value.range is not None]
        taken = [self._causes(scope, value, f"{event.name}, {where}") for value in inputs]
        for value in outputs:
            self.watched += 1
            if value.range is None:
                continue
            causes: Causes = frozenset()
            if not value.range.finite:
                causes, carried = self._causes_of_result(event, where, value, inputs, taken)
                for number in carried:
                    self.sources[number].carriers += 1
            self._give(scope, value, causes)
        is_bad = any(value.range and not value.range.finite for value in inputs)
        if is_bad and all(v.range is None or v.range.finite for v in outputs):
            for number in _union(taken):
                self.sources[number].gone = self.sources[number].gone or f"{event.name}, {where}"

    def _causes_of_result(
        self,
        event: Event,
        where: str,
        value: Value,
        inputs: Sequence[Value],
        taken: Sequence[Causes],
    ) -> tuple[Causes, Causes]:
        """Return the sources of a result that is not finite, and those that it has from inputs.

        Args:
            taken: The sources of each input.
        """
        assert value.range is not None
        bad = [i for i, v in enumerate(inputs) if v.range and not v.range.finite]
        nans = [i for i in bad if (extent := inputs[i].range) and extent.nan]
        if bad and (not value.range.nan or nans or _writes(event)):
            only_nan = not value.range.positive + value.range.negative
            carried = _union(taken[i] for i in nans) if nans and only_nan else _union(taken)
            return carried, carried
        origin: OriginKind = "written" if _writes(event) else "computed"
        own = self._add(
            Source(origin, where, event.name, value.dtype, value.shape, value.range, tuple(inputs))
        )
        # NaN carries on a fault that was infinity before.
        faults = frozenset(n for n in _union(taken) if self.sources[n].is_fault)
        return own | faults, faults

    # ---- delegates: nodes and programs inside ---------------------------------------------

    def _begin_delegate(self, event: Event, where: str) -> None:
        outer, inner = self.scopes[-1], _Scope()
        for value in event.inputs:
            if value.range is not None and (causes := self._causes(outer, value, where)):
                inner.marks[_mark(value.range)] = causes
        self.scopes.append(inner)
        self.open.append((event, where, len(self.sources), self.watched))

    def _end_delegate(self, depth: int) -> None:
        """Leave the delegates that an event of this depth is outside of."""
        while self.open and self.open[-1][0].depth >= depth:
            event, where, first, watched = self.open.pop()
            inner, outer = self.scopes.pop(), self.scopes[-1]
            if self.watched == watched:  # the backend traces no nodes
                self._step(outer, event, where, event.outputs)
                continue
            every = _union([range(first, len(self.sources)), *inner.marks.values()])
            for value in event.outputs:
                if value.range is None or value.range.finite:
                    self._give(outer, value, frozenset())
                elif causes := inner.marks.get(_mark(value.range)) or every:
                    self._give(outer, value, causes)
                else:
                    self._step(outer, event, where, [value])

    def end(self, call: Event | None) -> tuple[int, ...]:
        """Return the outputs of the call that are not finite."""
        self._end_delegate(0)
        bad = []
        for i, value in enumerate(call.outputs if call else ()):
            if value.range is not None and not value.range.finite:
                bad.append(i)
                for number in self._causes(self.scopes[0], value, f"output {i}"):
                    self.sources[number].outputs.append(i)
        return tuple(bad)


def _union(parts: Iterable[Iterable[int]]) -> Causes:
    return frozenset(number for part in parts for number in part)


def _writes(event: Event) -> bool:
    node = event.name.partition(" (")[0]
    return families.short(event.name).rstrip("_") in WRITERS or node in WRITERS


def check_nan(
    program: ProgramSource,
    inputs: Sequence[object],
    *,
    method: str = "forward",
    kernels: Literal["default", "reference"] = "default",
    delegate_at_load: DelegateAtLoad = False,
    max_bytes: int = 1 << 28,
) -> NonFiniteReport:
    """Return the origin of NaN and infinity in a run of a program, and the outputs they reach.

    Inputs and outputs of every instruction, and of every node inside delegates, are examined in
    memory; values that are not finite are followed to the outputs. Infinity that is a constant
    (an attention mask: full(-inf), where) is a source, but not a fault. NaN and computed infinity
    are faults if they reach an output.

    Args:
        program: A path, bytes or file of a .pte, .ptn or .bpte, a Program, a loaded Method (whose
            state is then used and changed), a BundledProgram, or a manager of the official flow.
        inputs: Inputs of one call: arrays, torch tensors, numbers, strings, None.
        method: Name of the method, unless `program` is a Method.
        kernels, delegate_at_load: As for `explain`.
        max_bytes: Memory of events (1 to 5 KB each, as Python objects), without that of delegates:
            nodes of XnnpackBackend are run once more with all their results in memory.

    Returns a `NonFiniteReport`. Raises exceptions of loading and running.
    """
    source = opened(program)
    loaded = method_of(source, method, kernels, "each" if delegate_at_load else False)
    with loaded.tracing(ranges=True, max_bytes=max_bytes) as trace:
        loaded.execute(inputs)
    watch = _Watch()
    for event, where in named(trace.events):
        watch.see(event, where)
    outputs = watch.end(trace.events[0] if trace.events else None)
    notes = list(trace_notes(loaded))
    if trace.dropped_events or trace.dropped_values:
        notes.append(
            f"{trace.dropped_events:,} events and {trace.dropped_values:,} values did not "
            "fit; pass a larger `max_bytes`"
        )
    report = NonFiniteReport(
        loaded.metadata.name(), tuple(watch.sources), outputs, watch.watched, tuple(notes)
    )
    report.set_origins(program=source.origin)
    return report
