"""Where two programs part, without their model: portable against delegated, before against after.

    from executorch_c.devtools import compare_programs

    report = compare_programs("portable.pte", "delegated.pte", [x])
    print(report)     # a sentence, and a table of the operators around it
    report.first      # the first operator whose result differs
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from executorch_c import _text
from executorch_c._arrays import as_array
from executorch_c._gap import Gap, check_not_negative, measure
from executorch_c._programs import open_program, title_of
from executorch_c.devtools._align import Array, Step, align, kind, layouts
from executorch_c.devtools._events import named
from executorch_c.devtools._report import GapReport, OperatorGap, relative
from executorch_c.devtools._steps import Origins, Steps
from executorch_c.devtools._structure import View

if TYPE_CHECKING:
    from executorch_c._core import Program
    from executorch_c._types import Data, Output
    from executorch_c.trace import Event, Trace

MAX_BYTES = 1 << 30
"""Bytes of values that are kept of each program's run, unless given."""

EIGHT_BITS = 2.0**-8
"""The step of quantised numbers, to their range."""

STEPS = 4
"""So many of these steps quantised numbers may be off."""

GRADUAL = 10
"""A gap that is at most so many times the largest of what it was made from is one that was there
before."""

_QUANTIZED = re.compile(r"quantize|\bQ[SUDCP][0-9]|\bQ[SU]\d")


def precision(dtype: np.dtype[Any]) -> float:
    """The distance of numbers around 1; 0 of integers."""
    if dtype.name == "bfloat16":
        return 2.0**-7
    kinds = dtype.kind in "fc"
    return float(np.finfo(dtype).eps) if kinds else 0.0


@dataclass
class _Run:
    """What a program did with the inputs."""

    title: str
    method: str
    steps: list[Step]
    sources: dict[int, frozenset[int]]
    """By number of a step: those that it was made from."""
    ends: dict[str, frozenset[int]]
    """The same of outputs, "output 0"."""
    keys: list[tuple[object, ...]]
    """What makes two runs ones of the same instructions."""
    outputs: list[Output]
    dropped: int
    coarsest: tuple[float, bool]


def _is_random(event: Event) -> bool:
    return kind(event.name).startswith(("rand", "normal", "bernoulli", "native_dropout"))


def _arrays(
    trace: Trace, fixed: set[int | None]
) -> Iterator[tuple[int, Event, str, int, Array]]:
    """Results of kernels and nodes; of a delegate itself where it shows no nodes.

    Gives the place of the event in the trace, the event and what to call that, the number of the
    output and its data.

    What is made of constants alone (a transposed weight) counts as a part of whoever takes it;
    `fixed` has the slots of constants, to which those of such results come.
    """
    events = list(named(trace.events))
    for place, (event, where) in enumerate(events):
        following = events[place + 1][0].kind if place + 1 < len(events) else ""
        if event.kind not in ("kernel", "node", "delegate", "move"):
            continue
        if event.depth == 0 and event.kind in ("kernel", "move"):
            written = {value.slot for value in event.outputs}
            if fixed.issuperset(value.slot for value in event.inputs) and not _is_random(event):
                fixed |= written
                continue
            fixed -= written
        if event.kind == "move":
            continue
        if event.kind == "delegate" and following in ("node", "execute"):
            continue
        if kind(event.name).startswith(("empty", "new_empty")):
            continue  # whatever was in memory
        for i, value in enumerate(event.outputs):
            if isinstance(value.data, np.ndarray):
                yield place, event, where, i, value.data


def _run(
    program: Program,
    name: str,
    kernels: Literal["default", "reference"],
    title: str,
    inputs: Sequence[object],
    max_bytes: int,
) -> _Run:
    method = program.load_method(name, kernels=kernels, seed=0)
    view = View(program, name)
    fixed: set[int | None] = {
        i for i, value in enumerate(view.values) if value.get("where") in ("constant", "external")
    }
    with method.tracing(values=True, max_bytes=max_bytes) as trace:
        outputs = method.execute(inputs)
    steps: list[Step] = []
    keys: list[tuple[object, ...]] = []
    coarsest, quantized = 0.0, False
    numbers: dict[tuple[int, int], int] = {}
    for place, event, where, i, data in _arrays(trace, fixed):
        numbers[place, i] = len(steps)
        finest = EIGHT_BITS if _QUANTIZED.search(event.name) else precision(data.dtype)
        if finest > coarsest:
            coarsest, quantized = finest, finest == EIGHT_BITS
        where += f", result {i}" if i else ""
        steps.append(Step(where, event.name, data, coarsest, quantized))
        keys.append((event.kind, event.depth, event.chain, event.instruction, event.name, i,
                     data.shape, data.dtype))  # fmt: skip
    dropped = trace.dropped_events + trace.dropped_values
    reader = Steps(view, inputs)
    origins = Origins(reader.read(trace.events), numbers)
    ends = {f"output {i}": origins.of(reader.results.get(i)) for i in range(len(outputs))}
    return _Run(title, name, steps, origins.of_value, ends, keys, outputs, dropped,
                (coarsest, quantized))  # fmt: skip


@dataclass(frozen=True)
class _Limits:
    """What two healthy programs may differ by: the caller's numbers, or half of the digits."""

    rtol: float | None
    atol: float | None

    def gap(self, actual: Array, expected: Array, coarse: float, quantized: bool) -> Gap:
        """An element is off by more than half of the digits allow, of it and of the size of the
        whole: root mean square, or of quantised numbers the range."""
        limit = math.sqrt(max(coarse, precision(actual.dtype), precision(expected.dtype)))
        if quantized:
            limit = STEPS * EIGHT_BITS
        if expected.dtype.kind in "iub" and not quantized:
            limit = 0.0
        size = 0.0
        if limit and expected.size:
            wide = expected.astype(np.complex128 if expected.dtype.kind == "c" else np.float64)
            wide = wide[np.isfinite(wide)]
            if wide.size:
                size = float(np.ptp(wide) if quantized else np.sqrt(np.mean(np.abs(wide) ** 2)))
        rtol = limit if self.rtol is None else self.rtol
        return measure(actual, expected, rtol, limit * size if self.atol is None else self.atol,
                       True)  # fmt: skip

    def steps(self, actual: Step, expected: Step) -> Gap:
        """In the layout that fits best."""
        coarse = max(actual.precision, expected.precision)
        quantized = actual.quantized or expected.quantized
        gaps = [self.gap(view, expected.data, coarse, quantized)
                for view in layouts(actual.data, expected.data.shape)]  # fmt: skip
        return min(gaps, key=relative)


def _both(a: str, b: str) -> str:
    return a if a == b else f"{a} / {b}"


def _row(a: Step, b: Step, gap: Gap) -> OperatorGap:
    verdict: Literal["ok", "starts"] = "starts" if gap.outside else "ok"
    return OperatorGap(0, _both(a.where, b.where), _both(a.name, b.name), a.data.shape,
                       _both(a.data.dtype.name, b.data.dtype.name), gap, None, verdict)  # fmt: skip


def _outputs(a: _Run, b: _Run, limits: _Limits) -> Iterator[OperatorGap]:
    if len(a.outputs) != len(b.outputs):
        raise ValueError(f"{b.title} has {_text.plural(len(b.outputs), 'output')}, "
                         f"{a.title} {len(a.outputs):,}")  # fmt: skip
    for i, (expected, actual) in enumerate(zip(a.outputs, b.outputs)):
        if isinstance(expected, (str, list, type(None))) or isinstance(actual, (str, list)):
            continue
        mine, theirs = as_array(actual), as_array(expected)
        if mine.shape != theirs.shape:
            raise ValueError(f"output {i} of {b.title} has shape {_text.shape(mine.shape)}, of "
                             f"{a.title} {_text.shape(theirs.shape)}")  # fmt: skip
        coarse, quantized = max(a.coarsest, b.coarsest)
        gap = limits.gap(mine, theirs, coarse, quantized)
        step = Step(f"output {i}", "result", theirs, coarse, quantized)
        yield _row(step, step, gap)


def _behind(
    sources: Mapping[int, frozenset[int]], start: frozenset[int], rows: Mapping[int, int]
) -> set[int]:
    """The rows that a value was made from: those of its sources, or behind the ones without."""
    found, seen, queue = set[int](), set(start), list(start)
    while queue:
        one = queue.pop()
        if one in rows:
            found.add(rows[one])
            continue
        fresh = sources.get(one, frozenset()) - seen
        seen |= fresh
        queue += fresh
    return found


def _judged(row: OperatorGap, before: Sequence[OperatorGap], finest: float) -> OperatorGap:
    """With what its gap is to those of what it was made from, and what that says."""
    size = relative(row.total)
    taken = max((relative(one.total) for one in before), default=0.0)
    gain = 1.0 if math.isinf(taken) else size / max(taken, finest or sys.float_info.epsilon)
    verdict = row.verdict
    if not row.ok and not all(one.ok for one in before):
        verdict = "grows" if gain > GRADUAL else "carried"
    return replace(row, verdict=verdict, taken=taken, gain=gain)


def _told(
    rows: Sequence[OperatorGap], pairs: Sequence[tuple[int, int]], a: _Run, b: _Run
) -> Iterator[OperatorGap]:
    """Rows, those of `pairs` first, then those of outputs, judged by what b made them from."""
    places = {j: k for k, (_, j) in enumerate(pairs)}
    for k, row in enumerate(rows):
        start = b.sources.get(pairs[k][1]) if k < len(pairs) else b.ends.get(row.where)
        known = set(range(k)) if start is None else _behind(b.sources, start, places)
        finest = b.coarsest[0]
        if k < len(pairs):
            finest = max(a.steps[pairs[k][0]].precision, b.steps[pairs[k][1]].precision)
        yield _judged(row, [rows[one] for one in known if one < k], finest)


def _matched(a: _Run, b: _Run, limits: _Limits) -> tuple[list[OperatorGap], list[str]]:
    """A row for each pair of values, and what to say about them."""
    if a.keys == b.keys:
        pairs = [(i, i) for i in range(len(a.steps))]
    else:
        pairs = align(a.steps, b.steps)
    rows = [_row(a.steps[i], b.steps[j], limits.steps(b.steps[j], a.steps[i])) for i, j in pairs]
    ends = list(_outputs(a, b, limits))
    notes = [f"compared {len(rows):,} of {len(a.steps):,} and {len(b.steps):,} values"]
    if a.keys != b.keys:
        # A pair that differs while what comes of it does not was none.
        well = all(row.ok for row in ends)
        last = max((i for i, row in enumerate(rows) if row.ok), default=-1)
        kept = [k for k, (row, (i, j)) in enumerate(zip(rows, pairs))
                if row.ok or not (well or (k < last and a.steps[i].kind != b.steps[j].kind))]
        if len(kept) < len(rows):
            notes.append(f"{_text.plural(len(rows) - len(kept), 'pair')} left out: they differ, "
                         "but results behind them agree")  # fmt: skip
        rows, pairs = [rows[k] for k in kept], [pairs[k] for k in kept]
    return list(_told(rows + ends, pairs, a, b)), notes


def _growth(rows: Sequence[OperatorGap]) -> str | None:
    """Whether the first gap came about there."""
    bad = next((i for i, row in enumerate(rows) if not row.ok), None)
    if bad is None:
        return None
    before = max((relative(row.total) for row in rows[:bad]), default=0.0)
    after = relative(rows[bad].total)
    if bad and after < GRADUAL * before:
        return (f"gaps before it are up to {before:.1e}, there {after:.1e}: they have grown on the "
                "way, look at the plot for where")  # fmt: skip
    behind = f", or what lies between it and {rows[bad - 1].where}" if bad else ""
    return (f"gaps before it are at most {before:.1e}, there {after:.1e}: it is that operator"
            f"{behind}")  # fmt: skip


def _report(a: _Run, b: _Run, limits: _Limits) -> GapReport:
    rows, notes = _matched(a, b, limits)
    rows = [replace(row, index=i) for i, row in enumerate(rows)]
    growth = _growth(rows)
    if growth:
        notes.insert(0, growth)
    if a.dropped + b.dropped:
        notes.append(f"{a.dropped + b.dropped:,} values did not fit: give a larger max_bytes")
    return GapReport(f"{b.title} beside {a.title}, method '{a.method}'", tuple(rows), tuple(notes))


def compare_programs(
    a: Program | Data,
    b: Program | Data,
    inputs: Sequence[object],
    *,
    method: str = "forward",
    rtol: float | None = None,
    atol: float | None = None,
    kernels: Literal["default", "reference"] = "default",
    max_bytes: int = MAX_BYTES,
) -> GapReport:
    """Runs two programs of one model on the same inputs, and says where their values part.

    Programs with the same instructions are compared one by one; others (one is delegated, another
    version of the flow) value by value as far as values of one have a partner in the other, in
    the order of both, within delegates too. Outputs are compared in any case.

    Args:
        a: The one to go by: a path, bytes or file of a .pte, or a Program.
        b: The one to judge.
        inputs: Of one call of either: arrays, torch tensors, numbers, strings, None.
        method: Which one to run.
        rtol, atol: An element is off by more than atol + rtol * |expected|. Default: half of the
            digits of the coarsest dtype so far (rtol is the square root of its machine epsilon:
            3.5e-4 for float32, 3.1e-2 for float16; atol that times the root mean square of the
            tensor; of quantised numbers four of 256 steps of their range). What a flow or a
            backend changes in the order of operations stays within that.
        kernels: As for `Program.load_method`.
        max_bytes: Of the values that are kept of each program.

    Programs cannot be run operator by operator on other values, so gaps are total ones. What an
    operator of `b` has to do with its own is estimated: `gain` is the relative gap of its result,
    to the largest relative gap of what that was made from (at least the machine epsilon of the
    coarsest dtype so far). Where all of that is within tolerance, the verdict is "starts"; else
    "grows" if the gain is more than 10, as it is of a wrong operator, and of some that make errors
    larger (differences of what is nearly equal); else "carried". A second fault that is no larger
    than what a first one has left there looks carried: mend the first and compare again.

    Returns a `GapReport` whose operators are named "of a / of b" where names differ. Raises
    ValueError where outputs differ in number or shape, and what loading and running raise.
    """
    check_not_negative(rtol=rtol, atol=atol)
    limits = _Limits(rtol, atol)
    names = title_of(a, "a"), title_of(b, "b")
    names = ("a", "b") if names[0] == names[1] else names
    runs = [
        _run(open_program(program), method, kernels, name, inputs, max_bytes)
        for program, name in zip((a, b), names)
    ]
    return _report(runs[0], runs[1], limits)


def compare_kernels(
    program: Program | Data,
    inputs: Sequence[object],
    *,
    method: str = "forward",
    rtol: float | None = None,
    atol: float | None = None,
    max_bytes: int = MAX_BYTES,
) -> GapReport:
    """Runs a program with the fast kernels beside the plain loops, and says where they part.

    Arguments and result are those of `compare_programs`. Delegates are the same in both.
    """
    check_not_negative(rtol=rtol, atol=atol)
    limits = _Limits(rtol, atol)
    loaded = open_program(program)
    plain = _run(loaded, method, "reference", "reference kernels", inputs, max_bytes)
    fast = _run(loaded, method, "default", "default kernels", inputs, max_bytes)
    return _report(plain, fast, limits)
