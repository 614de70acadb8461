"""Planned memory over time: places and lifetimes of tensors, and unused memory.

    plan = memory_plan(program, "forward")
    print(plan)                  # what is alive at the peak
    print(plan.table())          # all tensors
    plan.save("memory.svg")      # a picture (matplotlib)
    plan.to_chrome("memory.json")

Times are instructions, counted over all chains from 0: START is before the first of them (inputs
and state), END after the last. The order is that of the file: both branches of a `torch.cond`
follow each other.

Memory of backends (workspaces, packed weights) is not planned and not included.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from executorch_c._names import visible
from executorch_c._paths import writing
from executorch_c._render import html as _html
from executorch_c._render import text as _text
from executorch_c._render.page.model import Node, Overlay
from executorch_c._programs import ProgramSource, name_in, opened
from executorch_c.inspect import families, structure
from executorch_c.inspect.diagram.draw import draw_on
from executorch_c.inspect.etrecord import ETRecord, read_etrecord
from executorch_c.inspect.structure import View
from executorch_c.report import Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from executorch_c._types import FilePath


START = -1
"""The time before the first instruction."""
TOP = 12
"""Tensors of a summary."""

VIEW_MAKER = "executorch_prim::et_view.default"


@dataclass(frozen=True)
class Allocation:
    """Place and lifetime of a tensor in planned memory."""

    value: int
    """Index of the value in the method."""
    arena: int
    offset: int
    nbytes: int
    """Upper bound if the shape is dynamic."""
    first: int
    """The instruction that writes it first, or START (inputs, state)."""
    last: int
    """The last instruction that reads it, itself or through a view; the number of instructions for
    an output or state."""
    maker: str
    """Operator or backend that writes it first; "input", "state", "view of %7"."""
    family: str
    """Family of the operator ("conv", "pointwise", see executorch_c.operators()), "delegate",
    "input", "state" or "other"."""
    base: int | None
    """Base of a view, which has no bytes of its own."""
    dtype: str
    shape: tuple[int, ...]
    name: str | None
    """Name, if the file has one."""
    module: str = ""
    """Module of the model that writes it first, with an ETRecord."""

    @property
    def end(self) -> int:
        """Offset of its end."""
        return self.offset + self.nbytes

    def is_live(self, time: int) -> bool:
        return self.first <= time <= self.last


@dataclass(frozen=True)
class Arena:
    """A block of planned memory."""

    index: int
    """Number, from 1."""
    nbytes: int
    """Planned bytes."""
    peak: int
    """Peak of live bytes; shared bytes count once."""
    peak_at: int
    """First instruction of the peak."""

    @property
    def waste(self) -> int:
        """Unused bytes: planned bytes minus the peak, which is the lower bound of any plan."""
        return self.nbytes - self.peak


@dataclass(frozen=True)
class MemoryPlan(Report):
    """The result of memory_plan(). `print(plan)` prints the table; notebooks add the picture."""

    method: str
    arenas: tuple[Arena, ...]
    allocations: tuple[Allocation, ...]
    """Tensors by arena, time and offset; a view has the place of its base."""
    instructions: tuple[str, ...]
    """Operators and backends in order."""
    places: tuple[str, ...] = ()
    """Their places, as in other reports: "instruction 3"."""
    weights: int = 0
    """Bytes of constants and of named data, which are in no arena."""
    delegates: int = 0
    """Number of delegates, which allocate memory of their own."""

    @property
    def nbytes(self) -> int:
        """Bytes of all arenas."""
        return sum(arena.nbytes for arena in self.arenas)

    @property
    def waste(self) -> int:
        return sum(arena.waste for arena in self.arenas)

    def live(self, arena: int) -> list[int]:
        """Return the live bytes of an arena at START, at each instruction, and at END."""
        return _live(self._of(arena), len(self.instructions))

    def _of(self, arena: int) -> list[Allocation]:
        return [a for a in self.allocations if a.arena == arena]

    def time(self, time: int) -> str:
        """Return a time as text: "start", "end", or the index of an instruction."""
        if time == START:
            return "start"
        return "end" if time == len(self.instructions) else str(time)

    def overlays(self, nodes: Iterable[Node]) -> Sequence[Overlay]:
        """Return the bytes that each instruction begins to use, and the bytes that are live then,
        over all arenas."""
        new = dict.fromkeys(self.places, 0.0)
        for one in self.allocations:
            if one.base is None and 0 <= one.first < len(self.places):
                new[self.places[one.first]] += one.nbytes
        levels = [self.live(arena.index)[1:] for arena in self.arenas]
        live = {place: float(sum(levels)) for place, *levels in zip(self.places, *levels)}
        return (
            Overlay("planned bytes", "bytes", new, total="sum"),
            Overlay("live bytes", "bytes", live),
        )

    # ---- text ----

    def _notes(self) -> list[str]:
        notes = [
            f"method '{visible(self.method)}': {_text.size(self.nbytes)} planned, "
            f"{_text.plural(len(self.instructions), 'instruction')}"
        ]
        for arena in self.arenas:
            share = f" ({100 * arena.waste / arena.nbytes:.1f} %)" if arena.nbytes else ""
            notes.append(
                f"arena {arena.index}: {_text.plural(arena.nbytes, 'byte')}, at most "
                f"{arena.peak:,} live (at {self._when(arena.peak_at)}), "
                f"{arena.waste:,} unused{share}"
            )
        outside = [f"{_text.size(self.weights)} of weights in the file"] if self.weights else []
        if self.delegates:
            verb = "allocates" if self.delegates == 1 else "allocate"
            outside.append(f"what {_text.plural(self.delegates, 'delegate')} {verb}")
        if outside:
            notes.append(f"not in the plan: {', '.join(outside)}")
        return notes

    def _when(self, time: int) -> str:
        if not 0 <= time < len(self.instructions):
            return f"the {self.time(time)}"
        return f"instruction {time}, {visible(self.instructions[time])}"

    _HEAD = tuple("value,made by,tensor,name,module,arena,offset,bytes,from,to".split(","))

    def _rows(self, allocations: Iterable[Allocation]) -> Iterator[list[object]]:
        for a in allocations:
            tensor = f"{a.dtype} {structure.shape(a.shape)}"
            yield [
                f"%{a.value}",
                a.maker,
                tensor,
                a.name or "",
                a.module,
                a.arena,
                a.offset,
                a.nbytes,
                self.time(a.first),
                self.time(a.last),
            ]

    @property
    def ok(self) -> bool:
        """True: a plan is neither right nor wrong."""
        return True

    def summary(self) -> str:
        """Return planned bytes, the peak of live bytes, and unused bytes."""
        return "; ".join(self._notes())

    def table(self) -> str:
        """Return a row for each tensor as text: place, bytes, lifetime, operator."""
        return self._table(self.allocations)

    def _table(self, allocations: Iterable[Allocation]) -> str:
        return _text.table(
            self._rows(allocations), self._HEAD, width=_text.width(), optional=("module", "name")
        )

    def at_peak(self, arena: int) -> list[Allocation]:
        """Return the tensors that are live at the peak of an arena, largest first; views are not
        among them."""
        time = self.arenas[arena - 1].peak_at
        live = (a for a in self._of(arena) if a.base is None and a.is_live(time))
        return sorted(live, key=lambda a: -a.nbytes)

    def peak(self, top: int | None = TOP) -> str:
        """Return the largest tensors at the peak of each arena as text, at most `top` of each, and
        bytes by module where modules are known."""
        parts = []
        for arena in self.arenas:
            live = self.at_peak(arena.index)
            if not live:
                continue
            first = "" if top is None or len(live) <= top else f", the {top} largest"
            noun = _text.plural(len(live), "tensor")
            parts += [f"live at the peak of arena {arena.index}: {noun}{first}"]
            parts += [self._table(live[:top])]
            modules = Counter[str]()
            for a in live:
                modules[a.module or "(none)"] += a.nbytes
            if modules.keys() - {"(none)"}:
                parts += [_text.table(modules.most_common(top), ("module", "bytes"))]
        return "\n".join(parts)

    def rows_as_dicts(self) -> list[dict[str, object]]:
        """Return a row for each tensor."""
        return [{**asdict(one), "end": one.end} for one in self.allocations]

    def heading(self) -> str:
        """Return the heading of its page."""
        return f"Planned memory of '{self.method}'"

    def sections(self) -> Iterator[object]:
        """Yield the parts of its page after the finding: the picture, all tensors."""
        yield from self.pictures("places")
        yield self._html_table("tensors")

    def __repr__(self) -> str:
        return f"<executorch_c.devtools.MemoryPlan of {self._notes()[0]}>"

    def __str__(self) -> str:
        return self.text()

    def text(self, top: int | None = TOP) -> str:
        """Return the notes, and at most `top` tensors of each peak; None: all tensors."""
        tables = self.table() if top is None else self.peak(top)
        return "\n".join(filter(None, [*map(_text.wrapped, self._notes()), tables]))

    def as_dict(self) -> dict[str, Any]:
        """Return the plan for JSON."""
        return {**asdict(self), "live": {a.index: self.live(a.index) for a in self.arenas}}

    # ---- pictures ----

    PLOTS: ClassVar[Mapping[str, str]] = {
        "places": "place and lifetime of each tensor, and live bytes over time",
        "live": "live bytes over time",
    }

    def _plot_places(self, ax: Axes | None = None) -> Figure:
        """Draw, for each arena, the live bytes over time and the place and lifetime of each tensor,
        coloured by the family of its operator. Raises ValueError for axes of the caller."""
        from executorch_c.inspect import memory_figure

        if ax is not None:
            raise ValueError("the plot 'places' has two axes for each arena: kind='live' takes ax")
        return memory_figure.draw(self)

    def _plot_live(self, ax: Axes | None = None, arena: int | None = None) -> Figure:
        """Draw the live bytes of an arena over time, with the peak; by default of the largest."""
        from executorch_c.inspect import memory_figure

        return memory_figure.live_bytes(self, arena, ax)

    def _repr_html_(self) -> str:
        notes = self._html_table(_html.lines(*self._notes()))
        return _html.together(*self.pictures("places"), notes)

    def _html_table(self, caption: object) -> _html.Markup:
        text: _html.Rows = [
            [f"{cell:,}" if isinstance(cell, int) else cell for cell in row]
            for row in self._rows(self.allocations)
        ]
        return _html.table(caption, *_html.without_empty(self._HEAD, text, 5))

    # ---- traces ----

    def to_chrome(self, path: str | os.PathLike[str]) -> None:
        """Write a JSON file for chrome://tracing and ui.perfetto.dev: a process for each arena,
        with a track of live bytes and a thread for each offset. An instruction takes 1 us."""
        events = [event for arena in self.arenas for event in self._chrome(arena)]
        with writing(path) as file:
            json.dump({"traceEvents": events, "displayTimeUnit": "ns"}, file)

    def _chrome(self, arena: Arena) -> Iterator[dict[str, Any]]:
        pid = arena.index
        title = f"arena {pid}, {_text.plural(arena.nbytes, 'byte')}"
        yield {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": title}}
        for time, live in enumerate(self.live(pid)):
            yield {
                "name": "live bytes",
                "ph": "C",
                "pid": pid,
                "ts": time,
                "args": {"live": live, "free": arena.nbytes - live},
            }
        tids: dict[int, int] = {}
        for a in sorted(self._of(pid), key=lambda a: (a.offset, a.first)):
            if a.base is not None:
                continue
            if a.offset not in tids:
                tids[a.offset] = tid = len(tids) + 1
                yield {
                    "name": "thread_name",
                    "ph": "M",
                    "pid": pid,
                    "tid": tid,
                    "args": {"name": f"@ {a.offset}"},
                }
            yield {
                "name": f"%{a.value} {a.maker}",
                "cat": a.family,
                "ph": "X",
                "pid": pid,
                "tid": tids[a.offset],
                "ts": a.first + 1,
                "dur": a.last - a.first + 1,
                "args": {
                    "bytes": a.nbytes,
                    "offset": a.offset,
                    "dtype": a.dtype,
                    "shape": structure.shape(a.shape),
                    "from": self.time(a.first),
                    "to": self.time(a.last),
                },
            }


def _live(allocations: list[Allocation], instructions: int) -> list[int]:
    """Return the live bytes at each time from START on; only starts and ends of lifetimes are
    visited."""
    edges = np.unique([edge for a in allocations for edge in (a.offset, a.end)])
    widths, users = np.diff(edges), np.zeros(max(len(edges) - 1, 0), np.int64)
    changes: dict[int, list[tuple[int, int, int]]] = {START: []}
    for a in allocations:
        first, end = (int(at) for at in np.searchsorted(edges, (a.offset, a.end)))
        changes.setdefault(a.first, []).append((first, end, 1))
        changes.setdefault(a.last + 1, []).append((first, end, -1))
    visited, levels = sorted(changes), []
    for time in visited:
        for first, end, change in changes[time]:
            users[first:end] += change
        levels.append(int(widths[users > 0].sum()))
    times = range(START, instructions + 1)
    return [levels[bisect_right(visited, time) - 1] for time in times]


# ---- lifetimes -------------------------------------------------------------------------------


class _Lifetimes:
    """First and last use of the planned values of a method."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.end = len(view.steps)
        self.first: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self.maker: dict[int, str] = {}
        self.bases = dict(view.bases)
        self._scan()
        self._keep_state()
        self._extend_over_loops()
        self._extend_bases()

    def is_planned(self, index: int) -> bool:
        value = self.view.values[index]
        return value["kind"] == "Tensor" and value["arena"] is not None

    def use(self, index: int, time: int, maker: str = "") -> None:
        if not self.is_planned(index):
            return
        if index not in self.first:
            self.first[index], self.maker[index] = time, maker
        self.last[index] = time

    def _scan(self) -> None:
        structure = self.view.structure
        for index in structure["inputs"]:
            for item in self.view.items(index):
                self.use(item, START, "input")
        for step in self.view.steps:
            for index in step.reads:
                self.use(index, step.at)
            for index in step.writes:
                self.use(index, step.at, step.title)
            if step.row["name"] == VIEW_MAKER and step.reads and step.writes:
                self.bases[step.writes[0]] = step.reads[0]
        for index in structure["outputs"]:
            for item in self.view.items(index):
                self.use(item, self.end)

    def _keep_state(self) -> None:
        """Extend values with an initial value, and values that are read before any write, over the
        whole method: they keep their memory between calls."""
        for index in range(len(self.view.values)):
            state = self.view.values[index].get("where") == "state"
            if index in self.bases:
                continue
            if state or (index in self.maker and not self.maker[index]):
                self.first[index], self.last[index] = START, self.end
                self.maker[index] = "state"

    def _extend_over_loops(self) -> None:
        """Extend values that are live at the start of a loop and used in it to the end of the
        loop."""
        starts = {(step.chain, step.number): step.at for step in self.view.steps}
        for step in self.view.steps:
            target = step.row["destination"]
            begin = self.end if target is None else starts.get((step.chain, target), self.end)
            if begin > step.at:
                continue
            for index, last in self.last.items():
                if self.first[index] < begin <= last:
                    self.last[index] = max(last, step.at)

    def _extend_bases(self) -> None:
        """Extend the bases of views to the last use of the views. Views of views come after their
        bases."""
        for index, base in sorted(self.bases.items(), key=lambda item: -self.first.get(item[0], 0)):
            if index in self.last and base in self.last:
                self.last[base] = max(self.last[base], self.last[index])


_PLACES = ("input", "state")


def _allocations(view: View, modules: Mapping[int, str]) -> Iterator[Allocation]:
    times = _Lifetimes(view)
    backends = {row["id"] for row in view.structure["delegates"]}
    for index, first in times.first.items():
        value = view.values[index]
        maker, base = times.maker[index], times.bases.get(index)
        family = "delegate" if maker in backends else families.family(maker)
        family = maker if maker in _PLACES else family
        if base is not None:
            maker, family = f"view of %{base}", "view"
        assert value["arena"] is not None
        yield Allocation(
            index,
            value["arena"],
            value["offset"],
            value["nbytes"],
            first,
            times.last[index],
            maker,
            family,
            base,
            value["dtype"],
            value["shape"],
            value["name"],
            modules.get(first, ""),
        )


def _modules(record: ETRecord, view: View) -> dict[int, str]:
    """Return the module of each instruction that an ETRecord knows, by time."""
    modules = {}
    for step in view.steps:
        if step.chain == 0:
            names = record.modules_at(view.method, step.number)
            modules[step.at] = names[0] if len(names) == 1 else ""
    return modules


def memory_plan(
    program: ProgramSource,
    method: str = "forward",
    *,
    etrecord: ETRecord | FilePath | None = None,
) -> MemoryPlan:
    """Return the lifetimes of a method's tensors in planned memory. No method is loaded.

    Empty and unused tensors are omitted. An ETRecord of the export, or its path, names the modules
    that write tensors. Raises NotFoundError for an unknown method, InvalidProgramError for a wrong
    file, InvalidExternalDataError for a damaged ETRecord.
    """
    source = opened(program)
    method = name_in(source, method)
    view = View(source.program, method)
    if etrecord is not None and not isinstance(etrecord, ETRecord):
        etrecord = read_etrecord(etrecord)
    modules = {} if etrecord is None else _modules(etrecord, view)
    allocations = [a for a in _allocations(view, modules) if a.nbytes]
    allocations.sort(key=lambda a: (a.arena, a.first, a.offset, a.value))
    arenas = []
    for index, nbytes in enumerate(view.structure["arenas"], 1):
        live = _live([a for a in allocations if a.arena == index], len(view.steps))
        arenas.append(Arena(index, nbytes, max(live), live.index(max(live)) + START))
    titles = tuple(step.title for step in view.steps)
    places = tuple(step.place() for step in view.steps)
    info = source.program.info()
    (about,) = (one for one in info["methods"] if one["name"] == method)
    weights = about["constant_bytes"] + sum(one["size"] for one in info["named_data"])
    plan = MemoryPlan(
        method,
        tuple(arenas),
        tuple(allocations),
        titles,
        places,
        weights,
        len(view.structure["delegates"]),
    )
    plan.set_origins(program=source.origin)
    draw_on(plan, source, method, etrecord=etrecord)
    return plan
