"""One program: made from its seed, run in every way, compared with eager."""

import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests import judge
from tests.differential import graphs, rounding, ways
from tests.differential.graphs import Graph
from tests.differential.rounding import Rooms

OFFICIAL = "official"
MAX_TEXT = 300
Results = list[list[Any]]


@dataclass
class Difference:
    """An output of a way that is not eager's, or a runtime's error (`output` is -1)."""

    way: str
    text: str
    call: int = -1
    output: int = -1
    found: Any = None
    wrong: Any = None
    """Mask of the elements that differ."""
    cause: str = ""


@dataclass
class Report:
    """The outcome of a seed."""

    seed: int
    outcome: str = "right"
    """"no graph", "not exported", "right", "differ"."""
    flow: str = ""
    about: str = ""
    official: str = ""
    """"right", "differ", "refused", "crashed", "timeout"."""
    operators: list[str] = field(default_factory=list)
    calls: int = 0
    undecided: int = 0
    """Elements of results that rounding decides, and that differ."""
    differences: list[dict[str, Any]] = field(default_factory=list)
    source: str = ""
    seconds: float = 0.0


@dataclass(eq=False)
class Trial:
    """A graph with its program and eager's results."""

    graph: Graph
    flow: str
    pte: bytes
    operators: list[str]
    calls: list[ways.Eager]
    rooms: list[Rooms] = field(init=False)
    undecided: int = 0
    wrong_here: dict[tuple[int, int], Any] = field(default_factory=dict)
    """This runtime's results that differ, by call and output."""
    by_official: Results = field(default_factory=list)
    """The official runtime's results; empty if it was not run, or failed."""
    process: ways.Official | None = None
    """The official runtime, if it was asked."""

    def __post_init__(self) -> None:
        self.rooms = []
        for call in self.calls:
            self.rooms.append(Rooms(lambda call=call: ways.again(self.graph, call), call.wanted))

    @property
    def inputs(self) -> list[ways.Call]:
        """The inputs of the calls."""
        return [call.inputs for call in self.calls]

    @functools.cached_property
    def edge(self) -> Any:
        """The ExportedProgram before its delegates and memory are planned."""
        with ways.quiet():
            flow = "lower" if self.flow == "lower" else "edge"
            return ways.to_edge(ways.traced(self.graph), flow).exported_program()


def compared(trial: Trial, way: str, found: Results) -> list[Difference]:
    """Return the outputs that are not eager's."""
    differences = []
    for c, (outputs, rooms) in enumerate(zip(found, trial.rooms, strict=True)):
        if len(outputs) != len(rooms.wanted):
            text = f"{len(outputs)} outputs, eager {len(rooms.wanted)}"
            differences.append(Difference(way, text, c))
            continue
        for i, (output, wanted) in enumerate(zip(outputs, rooms.wanted, strict=True)):
            difference = compared_output(trial, c, i, output, wanted)
            if difference is not None:
                difference.way = way
                differences.append(difference)
    return differences


def compared_output(trial: Trial, c: int, i: int, found: Any, wanted: Any) -> Difference | None:
    """Return the difference of an output from eager's by more than rounding explains."""
    if judge.difference(found, wanted, judge.EXACT) is None:
        return None
    rooms = trial.rooms[c]
    if not (
        isinstance(found, np.ndarray)
        and isinstance(wanted, np.ndarray)
        and (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    ):
        rooms.draw(rounding.DRAWS)
        if rooms.has_shape(i, np.shape(found)):
            trial.undecided += int(np.size(found))
            return None
        text = judge.difference(found, wanted, judge.EXACT) or ""
        return Difference("", text, c, i, found)
    for draws in (0, rounding.DRAWS, rounding.MORE_DRAWS):
        rooms.draw(draws)
        wrong, undecided = rooms.wrong(i, found)
        if not wrong.any():
            trial.undecided += int(undecided.sum())
            return None
    return Difference("", judge.describe(found, wanted, wrong), c, i, found, wrong)


def run_here(trial: Trial, names: Sequence[str]) -> list[Difference]:
    """Return the differences of this runtime; of the first way only, where others have the same."""
    differences: list[Difference] = []
    seen: list[Results] = []
    for way in names:
        try:
            result = ways.here(trial.pte, trial.inputs, way)
        except ways.Failed as error:
            differences.append(Difference(way, str(error)[:MAX_TEXT], error.call))
            continue
        if not any(equal(result, other) for other in seen):
            differences += compared(trial, way, result)
        seen.append(result)
    return differences


def equal(found: Results, other: Results) -> bool:
    """Return True if results are equal, NaN included."""
    return all(
        judge.difference(a, b, judge.EXACT) is None
        for x, y in zip(found, other, strict=True)
        for a, b in zip(x, y, strict=True)
    )


def made(graph: Graph, flow: str) -> Trial:
    """Return the graph's program with eager's results. Raises whatever the exporter raises."""
    exported = ways.traced(graph)
    calls = [call for call in ways.calls(graph) if ways.takes(exported, call)]
    pte, operators, calls, changed = ways.export(exported, flow, calls)
    return Trial(graph, flow, pte, operators, ways.by_eager(graph, calls, changed))


def run_official(trial: Trial, process: ways.Official, report: Report) -> list[Difference]:
    """Return the differences of the official runtime; none if it does not run the program."""
    trial.process = process
    try:
        outputs = process.run(trial.pte, trial.inputs)
    except ways.Failed as error:
        report.official = str(error).partition(":")[0]
        return []
    trial.by_official = outputs
    differences = compared(trial, OFFICIAL, outputs)
    report.official = "differ" if differences else "right"
    return differences


Tried = tuple[Report, "Trial | None", list[Difference]]
"""The report of a graph, its trial and the differences, without causes."""


def of_seed(seed: int, process: ways.Official | None = None) -> Tried:
    """Return the outcome of a seed."""
    graph = graphs.make(seed)
    return (Report(seed, "no graph"), None, []) if graph is None else tried(graph, process)


def tried(graph: Graph, process: ways.Official | None = None) -> Tried:
    """Return the outcome of a graph."""
    start = time.perf_counter()
    report = Report(graph.seed, flow=ways.flow_of(graph), calls=len(graph.lines))
    try:
        trial = made(graph, report.flow)
    except Exception as error:  # whatever the exporter raises
        report.outcome = "not exported"
        report.about = f"{type(error).__name__}: {error}".strip()[:MAX_TEXT]
        report.seconds = time.perf_counter() - start
        return report, None, []
    report.operators = trial.operators
    differences = run_here(trial, tuple(ways.WAYS))
    trial.wrong_here = {(d.call, d.output): d.found for d in differences}
    if process is not None:
        differences += run_official(trial, process, report)
    report.outcome = "differ" if any(d.way != OFFICIAL for d in differences) else "right"
    report.undecided = trial.undecided
    if differences:
        report.source = graph.source()
    report.seconds = time.perf_counter() - start
    return report, trial, differences


def shrunk(graph: Graph, process: ways.Official | None = None) -> Graph:
    """Return the graph without the calls that its difference does not need."""
    names = {d.way for d in tried(graph, process)[2]}
    for place in reversed(range(len(graph.lines))):
        smaller = graphs.without_call(graph, place) if place < len(graph.lines) else None
        if smaller is not None and names & {d.way for d in tried(smaller, process)[2]}:
            graph = smaller
    return graph
