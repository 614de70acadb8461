"""A device's run beside the payload's here, and beside the model: `executorch_c.devtools.blame`.

    report = blame(model, [x], program="model.pte", device=["run1.npz", "run2.npz"])
    print(report)     # the verdict, and a table of outputs and nodes
    report.fault      # "device"
    report.first      # "d0.3 (conv)": the first place at which the device leaves

long: the docstring of blame is its reference
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c import _extras
from executorch_c._names import visible
from executorch_c._programs import ProgramSource, name_in, opened, title_of
from executorch_c._render.text import listed, plural
from executorch_c.blame import probes
from executorch_c.blame import verdict as _verdict
from executorch_c.blame.arithmetic import Allowance, Spread, named_results
from executorch_c.blame.device import DeviceRun, DeviceValues, Expected, read_dump, read_runs
from executorch_c.blame.locating import Departure, compare_nodes
from executorch_c.blame.page import Places, draw
from executorch_c.blame.replay import Replay
from executorch_c.blame.report import BlameReport, BlameRow
from executorch_c.compare.drawn import DrawnOutput
from executorch_c.compare.limits import DEVICE_RUNS
from executorch_c.compare.metrics import ErrorMetrics, measure_size
from executorch_c.inspect.events import EventPlaces
from executorch_c.inspect.where import Where
from executorch_c.progress import Progress

if TYPE_CHECKING:
    from executorch_c._arrays import Array
    from executorch_c._types import FilePath
    from executorch_c.blame.places import Place
    from executorch_c.debug.report import ErrorReport


@dataclass
class _Program:
    """The program here: its places, outputs and times."""

    allowance: Allowance
    places: dict[str, Place]
    outputs: list[Any]
    expected: Expected
    seconds: dict[str, float]
    """By id, and of the whole call under ""."""
    seen: EventPlaces
    """Places of its events inside delegates."""
    spreads: list[Spread | None]


def blame(
    model: object,
    inputs: Sequence[object],
    *,
    program: ProgramSource,
    device: Iterable[DeviceRun] = (),
    etdump: FilePath | None = None,
    debug_buffer: FilePath | None = None,
    time_scale: str = "ns",
    method: str = "forward",
    title: str | None = None,
    progress: bool | None = None,
) -> BlameReport:
    """Return who is at fault where a device computes something else than the model.

    The payload runs here node by node: the third point between the model and the device. It also
    runs with the device's documented arithmetic, so that the allowance is measured for these
    inputs: sums of halves in any order, denormals flushed to zero, ties of 8-bit integers.

    Args:
        model: As for `explain`; None to leave the model out: "export" and "lowering" are then not
            known.
        inputs: The inputs of the device's runs, in the program's order.
        program: The program that ran on the device, as for `explain`.
        device: Runs of the device on these inputs: paths of .npz, .npy or .bin files, or outputs as
            sequences or mappings of arrays. Arrays named "d0.3" are values of nodes. A folder that
            `write_probes` made: what the device returned for its programs.
        etdump: An ETDump of the device, with its runs' times and, with `debug_buffer`, values.
        time_scale: Unit of the ETDump's clock: "ns", "us", "ms", "s" or "cycles".
        method: Name of the method.
        title: Name of the program in the report; default: its file's name.
        progress: Whether to show progress on stderr. Default: on a terminal.

    Returns a `BlameReport`. Raises ValueError for runs that do not have the method's outputs (with
    the file, what was found, what was expected), or without any run; the exceptions of `explain`
    with a model.
    """
    source = opened(program)
    name = name_in(source, method)
    if model is not None:
        _extras.require("blame", "torch", "executorch")
    with Progress("blame", progress) as say:
        say("running the program")
        here = _survey(source, inputs, name)
        runs = _runs(device, etdump, debug_buffer, time_scale, here)
        say("measuring what the device's arithmetic allows")
        here.spreads = here.allowance.of_outputs()
        payload = eager = None
        if model is not None:
            say("comparing the payload with the model")
            payload, eager = _payload(model, inputs, source, name)
        say("comparing the device with the payload")
        evidence, judged = _evidence(runs, here, payload, eager)
    report = _report(
        title or title_of(program, "program"), name, here, runs, evidence, judged, eager
    )
    report.set_origins(program=source.origin)
    places = {node.place.id: _where(node.place) for node in evidence.nodes}
    suspects = [*map(_where, evidence.leaving.suspects)] if evidence.leaving else []
    draw(report, source, name, Places(places, suspects, here.seen))
    return report


def _survey(source: ProgramSource, inputs: Sequence[object], name: str) -> _Program:
    """Return the program here, without its allowance."""
    file = opened(source)
    replay = Replay(file, inputs, name)
    allowance = Allowance(replay)
    outputs, _ = replay.run()
    trace = replay.timed()
    seconds = {place: event.duration_ns / 1e9 for place, event in named_results(trace.events)}
    whole = next((e for e in trace.events if e.kind == "execute"), None)
    if whole is not None:
        seconds[""] = whole.duration_ns / 1e9
    seen = EventPlaces(trace.events)
    expected = Expected.of(replay.info, outputs)
    return _Program(allowance, replay.places(), outputs, expected, seconds, seen, [])


def _runs(
    device: Iterable[DeviceRun],
    etdump: FilePath | None,
    debug_buffer: FilePath | None,
    time_scale: str,
    here: _Program,
) -> list[DeviceValues]:
    if isinstance(device, (str, bytes, Mapping)):
        raise TypeError(f"`device` is a {type(device).__name__}, expected a list of runs")
    parts = [probes.read_probes(p) if (p := probes.folder_of(one)) else [one] for one in device]
    runs = read_runs([run for several in parts for run in several], here.expected)
    if etdump is not None:
        runs += read_dump(etdump, debug_buffer, here.expected, here.places, time_scale)
    elif debug_buffer is not None:
        raise ValueError("`debug_buffer` has the values of an ETDump: pass `etdump`, too")
    if not runs:
        raise ValueError("no run of a device: pass `device` or `etdump`")
    return runs


def _payload(
    model: object, inputs: Sequence[object], source: ProgramSource, name: str
) -> tuple[ErrorReport, list[Any] | None]:
    """Return the report of `explain`, and the model's outputs."""
    import torch

    from executorch_c.check.reference import Eager
    from executorch_c.debug._graphs.run import as_tensors
    from executorch_c.debug.layers import explain

    report = explain(model, inputs, program=source, method=name, progress=False)
    if not isinstance(model, torch.nn.Module):
        return report, None
    with torch.no_grad():
        outputs = Eager(model)([(as_tensors(inputs), {})])[-1]
    return report, [np.asarray(one) if hasattr(one, "shape") else one for one in outputs]


def _evidence(
    runs: Sequence[DeviceValues],
    here: _Program,
    payload: ErrorReport | None,
    eager: list[Any] | None,
) -> tuple[_verdict.Evidence, DeviceValues | None]:
    """Return what the verdict depends on, and the run whose values of nodes are in it: a wrong one,
    if it has any."""
    errors = [
        _verdict.judge_outputs(i, run, here.spreads, here.expected) for i, run in enumerate(runs)
    ]
    wrong = [run for run, rows in zip(runs, errors) if any(r.verdict == "differ" for r in rows)]
    judged = next((run for run in [*wrong, *runs] if run.values), None)
    nodes: list[Departure] = []
    if judged is not None:
        nodes = compare_nodes(here.allowance, judged, here.places)
    reference = here.outputs if eager is None else eager
    close = all(_verdict.is_close(run, reference) for run in runs)
    groups = _verdict.groups(runs, here.spreads)
    return _verdict.Evidence(errors, nodes, groups, payload, close), judged


# ---- the report -------------------------------------------------------------------------------


def _report(
    title: str,
    name: str,
    here: _Program,
    runs: Sequence[DeviceValues],
    evidence: _verdict.Evidence,
    judged: DeviceValues | None,
    eager: list[Any] | None,
) -> BlameReport:
    fault, reason = _verdict.decide(evidence)
    rows = [*_output_rows(runs, evidence, here, eager), *_node_rows(evidence, judged, here)]
    leaving = evidence.leaving
    first: str | None = None
    suspects: tuple[str, ...] = ()
    if fault in ("export", "lowering") and evidence.payload is not None:
        first = str(evidence.payload.first)
    elif fault not in ("export", "lowering") and leaving is not None:
        first = str(leaving.place)
        suspects = tuple(map(str, leaving.suspects))
    finding = _FINDINGS[fault](evidence, leaving, reason)
    notes = tuple(_notes(evidence, runs, leaving, fault))
    head = f"{title}, method '{visible(name)}': {plural(len(runs), 'run')} of a device"
    drawn = tuple(_drawn(runs, evidence, here))
    return BlameReport(
        head, fault, tuple(rows), finding, first, suspects, notes, evidence.payload, drawn
    )


def _drawn(
    runs: Sequence[DeviceValues], evidence: _verdict.Evidence, here: _Program
) -> Iterator[DrawnOutput]:
    """Yield each output of its worst run beside the payload's, the worst first."""
    seen = set[int]()
    for row in sorted((row for rows in evidence.errors for row in rows), key=_rank, reverse=True):
        value, spread = runs[row.run].outputs[row.output], here.spreads[row.output]
        if row.output not in seen and value is not None and spread is not None:
            seen.add(row.output)
            actual, exact, limits = spread.beside(value)
            run = f" of run {row.run}" if len(runs) > 1 else ""
            title = f"output {row.output}{run} on the device, beside the payload's here"
            yield DrawnOutput(title, actual, exact, limits.limit, row.output)


def _output_rows(
    runs: Sequence[DeviceValues],
    evidence: _verdict.Evidence,
    here: _Program,
    eager: list[Any] | None,
) -> list[BlameRow]:
    """Return a row for each output: that of its worst run, or, if runs differ, of the worst run of
    each group of those that agree."""
    times = [run.seconds for run in runs if run.seconds is not None]
    out = []
    for number, ours in here.expected.arrays.items():
        for group in evidence.agreeing:
            rows = [row for run in group for row in evidence.errors[run] if row.output == number]
            if not rows:
                continue
            row = max(rows, key=_rank)
            out.append(
                BlameRow(
                    f"output {number}",
                    _runs_of(group, row.run, evidence),
                    ours.shape,
                    {"match": "ok", "differ": "leaves"}.get(row.verdict, row.verdict),
                    row.error,
                    _error_here(ours, eager, number),
                    float(np.median(times)) if times else None,
                    here.seconds.get(""),
                    row.pattern,
                )
            )
    return out


def _runs_of(group: Sequence[int], worst: int, evidence: _verdict.Evidence) -> str:
    """Return the runs that a row is of."""
    if len(evidence.errors) == 1:
        return ""
    if len(evidence.agreeing) == 1:
        return f"run {worst}"
    return f"run{'s' * (len(group) > 1)} {listed(group)}"


def _rank(row: _verdict.OutputError) -> tuple[bool, float]:
    return row.verdict == "differ", row.error.relative


def _error_here(ours: Array, eager: list[Any] | None, number: int) -> ErrorMetrics | None:
    if eager is None or number >= len(eager) or getattr(eager[number], "shape", None) != ours.shape:
        return None
    return measure_size(ours, eager[number])


def _node_rows(
    evidence: _verdict.Evidence, judged: DeviceValues | None, here: _Program
) -> list[BlameRow]:
    """Return a row for each node that the device has a value of."""
    ours: dict[str, ErrorMetrics] = {}
    for row in evidence.payload or ():
        if row.local is not None:
            ours[row.where] = row.local
    return [
        BlameRow(
            node.place.id,
            node.place.name,
            node.place.shape,
            "ok" if node.is_right else "leaves",
            node.error,
            ours.get(_where(node.place)),
            None if judged is None else judged.node_seconds.get(node.place.id),
            here.seconds.get(node.place.id),
            node.pattern,
        )
        for node in evidence.nodes
    ]


def _where(place: Place) -> str:
    """Return the place as `explain` names it, without the number of the result."""
    found = Where.parse(place.id)
    assert found is not None
    return str(replace(found, result=0, times=0))


# ---- findings ---------------------------------------------------------------------------------


def _off(evidence: _verdict.Evidence, group: Sequence[int] | None = None) -> str:
    """Return the error of the worst output, of all runs or of those of a group, in words."""
    runs = range(len(evidence.errors)) if group is None else group
    rows = [row for run in runs for row in evidence.errors[run]]
    if not rows:
        return ""
    row = max(rows, key=_rank)
    text = f"output {row.output}"
    text += f" of run {row.run}" if len(evidence.errors) > 1 else ""
    text += f" is off by {row.error.relative:.2g} (relative)"
    if row.error.nan[0] != row.error.nan[1]:
        text += f", {row.error.nan[0]:,} NaN (expected {row.error.nan[1]:,})"
    if row.error.limit:
        text += f"; the device's arithmetic allows {row.error.limit:.2g}"
    if row.pattern:
        text += f"; wrong: {row.pattern}"
    return text


def _leaves(leaving: Departure | None, evidence: _verdict.Evidence) -> str:
    """Return where the device leaves."""
    if leaving is None:
        if evidence.nodes:
            return f". It leaves after {evidence.nodes[-1].place}, whose value is right"
        return ". Values of nodes (an ETDump, or probes) show where it leaves"
    pattern = f": {leaving.pattern}" if leaving.pattern else ""
    if len(leaving.suspects) == 1:
        return f". It leaves at {leaving.place}{pattern}"
    first, last = leaving.suspects[0], leaving.place
    return f". It leaves between {first} and {last} ({len(leaving.suspects)} results){pattern}"


def _of_device(evidence: _verdict.Evidence, leaving: Departure | None, reason: str) -> str:
    right = "the payload computes what the model does" if evidence.payload is not None else ""
    off = _off(evidence) or "values of nodes are beyond what the device's arithmetic allows"
    return "; ".join(filter(None, (right, off))) + _leaves(leaving, evidence)


def _of_runs(evidence: _verdict.Evidence, leaving: Departure | None, reason: str) -> str:
    count, wrong, groups = len(evidence.errors), evidence.wrong, evidence.agreeing
    named = f" ({listed(wrong)})" if wrong and len(wrong) < count else ""
    text = f"{len(wrong):,} of {count:,} runs on equal inputs are wrong{named}"
    if len(evidence.groups) > 1:
        more = " or more" if len(evidence.groups) > _verdict.MAX_RESULTS else ""
        text += f"; {len(groups)} results{more}, of {_sizes(groups)} runs"
    figures = [_off(evidence, group) for group in groups[:MAX_GROUPS]]
    text = "; ".join([text, *filter(None, figures)])
    return text + (_leaves(leaving, evidence) if wrong else "")


MAX_GROUPS = 3
"""Groups of runs whose figures are in a sentence."""


def _sizes(groups: Sequence[Sequence[int]]) -> str:
    """Return the sizes of groups: "3 and 2"."""
    sizes = [str(len(group)) for group in groups]
    return " and ".join(filter(None, (", ".join(sizes[:-1]), sizes[-1])))


def _of_payload(evidence: _verdict.Evidence, leaving: Departure | None, reason: str) -> str:
    assert evidence.payload is not None
    same = "the device does not compute what the payload does, either"
    if not evidence.wrong:
        same = "the device computes what the payload does"
    return f"{evidence.payload.summary()}; {same}"


def _of_precision(evidence: _verdict.Evidence, leaving: Departure | None, reason: str) -> str:
    return f"rounding of the device's arithmetic, or quantising, explains it: {_off(evidence)}"


def _of_match(evidence: _verdict.Evidence, leaving: Departure | None, reason: str) -> str:
    return "every output is within a few roundings" if _off(evidence) else "every value is right"


def _of_nothing(evidence: _verdict.Evidence, leaving: Departure | None, reason: str) -> str:
    return reason or "nothing could be compared"


_FINDINGS = {
    "match": _of_match,
    "precision": _of_precision,
    "export": _of_payload,
    "lowering": _of_payload,
    "device": _of_device,
    "nondeterministic": _of_runs,
    "inconclusive": _of_nothing,
}


def _notes(
    evidence: _verdict.Evidence,
    runs: Sequence[DeviceValues],
    leaving: Departure | None,
    fault: str,
) -> Iterable[str]:
    yield (
        f"the limit is measured: {DEVICE_RUNS} runs of the payload with what the device may round "
        "otherwise"
    )
    if evidence.payload is None:
        yield "without a model, faults of the export and of the lowering are not known"
    elif evidence.payload.verdict == "inconclusive":
        yield f"the payload: {evidence.payload.summary()}"
    if len(runs) > 1 and fault != "nondeterministic" and not _verdict.are_equal(runs):
        yield "runs on equal inputs differ within the allowance"
    if leaving is not None and fault in ("match", "precision"):
        yield f"{leaving.place} is beyond its allowance, which the outputs do not show"
