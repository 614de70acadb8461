"""First divergence of two programs of one model, without the model: portable against delegated,
before against after a change.

    from executorch_c.devtools import compare_programs

    report = compare_programs("portable.pte", "delegated.pte", [x])
    print(report)     # the finding, and a table of the nodes around it
    report.first      # the first node whose result differs

long: the docstring of compare_programs is its reference
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from executorch_c._render import text as _text
from executorch_c._arrays import Array, as_array
from executorch_c._programs import ProgramSource, name_in, opened, title_of
from executorch_c.compare import tolerance
from executorch_c.compare.metrics import ErrorSize, measure_size
from executorch_c.debug._graphs.layouts import in_either_order
from executorch_c.debug._graphs.names import kind
from executorch_c.debug._graphs.program import Origins, Steps
from executorch_c.debug._matching.programs import Computed, match, sources_between
from executorch_c.debug.report import ErrorReport, NodeError, Verdict
from executorch_c.inspect.events import named
from executorch_c.inspect.structure import View
from executorch_c.progress import Progress

if TYPE_CHECKING:
    from executorch_c._core import Program
    from executorch_c._types import Output
    from executorch_c.trace import Event, Trace

MAX_BYTES = 1 << 30
"""Bytes of values that are kept of each program's run, unless given."""

EIGHT_BITS = 2.0**-8
"""The step of quantised numbers, relative to their range."""

GRADUAL = 10
"""An error that is at most this many times the largest of a node's inputs has come from there."""

LEAST_COVERAGE = 0.3
"""Share of the values of the shorter program that must be paired to name a first divergence."""

_QUANTIZED = re.compile(r"quantize|\bQ[SUDCP][0-9]|\bQ[SU]\d")


@dataclass
class _Run:
    """A program, its values and outputs of one call."""

    title: str
    method: str
    values: list[Computed]
    sources: dict[int, frozenset[int]]
    """By number of a value: those that it was computed from."""
    ends: dict[str, frozenset[int]]
    """The same of outputs, "output 0"."""
    keys: list[tuple[object, ...]]
    """Keys of the values; runs with equal keys have the same instructions."""
    outputs: list[Output]
    dropped: int
    noise: list[Array] | None = None
    """Standard deviation of each value where the inputs change by a rounding."""

    @property
    def coarsest(self) -> float:
        """Machine epsilon of the coarsest dtype."""
        return max((value.precision for value in self.values), default=0.0)

    @property
    def is_quantized(self) -> bool:
        """Return whether any value is held as 8-bit integers."""
        return any(value.quantized for value in self.values)


def _is_random(event: Event) -> bool:
    return kind(event.name).startswith(("rand", "normal", "bernoulli", "native_dropout"))


def _arrays(trace: Trace, fixed: set[int | None]) -> Iterator[tuple[int, Event, str, int, Array]]:
    """Results of kernels and nodes; of a delegate itself where it shows no nodes.

    Yields the place of the event in the trace, the event and its name, the number of the output
    and its data. A value of constants alone (a transposed weight) counts as a part of the node that
    reads it; `fixed` has the slots of constants, and gets those of such results.
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
    reader = Steps(view, inputs)
    integers = {step.order for step in reader.read(trace.events) if step.quantized}
    values: list[Computed] = []
    keys: list[tuple[object, ...]] = []
    coarsest, quantized = 0.0, False
    numbers: dict[tuple[int, int], int] = {}
    for place, event, where, i, data in _arrays(trace, fixed):
        numbers[place, i] = len(values)
        is_quantized = place in integers or bool(_QUANTIZED.search(event.name))
        finest = EIGHT_BITS if is_quantized else tolerance.epsilon_of(data.dtype)
        if finest > coarsest:
            coarsest, quantized = finest, is_quantized
        where += f", result {i}" if i else ""
        values.append(Computed(where, event.name, data, coarsest, quantized))
        keys.append((event.kind, event.depth, event.chain, event.instruction, event.name, i,
                     data.shape, data.dtype))  # fmt: skip
    dropped = trace.dropped_events + trace.dropped_values
    origins = Origins(reader.steps, numbers)
    values = [replace(value, sources=origins.of_value.get(number, frozenset()))
              for number, value in enumerate(values)]  # fmt: skip
    ends = {f"output {i}": origins.of(reader.results.get(i)) for i in range(len(outputs))}
    return _Run(title, name, values, origins.of_value, ends, keys, outputs, dropped)


PERTURBED = 3
"""Runs with inputs that are changed by a rounding."""


def _rounded(value: object, rng: np.random.Generator) -> object:
    """An input with relative errors of one machine epsilon, in its own dtype and layout."""
    array = as_array(value) if hasattr(value, "shape") else None
    if array is None or array.dtype.kind not in "fV" or array.dtype.names:
        return value
    error = rng.uniform(-1, 1, array.shape) * tolerance.epsilon_of(array.dtype)
    changed = array.astype(np.float64) * (1 + error)
    out = np.empty_like(array)
    np.copyto(out, np.where(np.isfinite(changed), changed, array.astype(np.float64)),
              casting="unsafe")  # fmt: skip
    return out


def _noise(run: _Run, again: Callable[[Sequence[object]], _Run],
           inputs: Sequence[object]) -> list[Array] | None:  # fmt: skip
    """What a rounding of the inputs does to each value of a run; None where it does nothing, or
    where the program takes another way."""
    rng = np.random.default_rng(0)
    total: list[Array] | None = None
    for _ in range(PERTURBED):
        changed = [_rounded(value, rng) for value in inputs]
        if all(a is b for a, b in zip(changed, inputs)):
            return None
        other = again(changed)
        if other.keys != run.keys:
            return None
        with np.errstate(all="ignore"):
            squares = [np.nan_to_num(np.abs(as_float(b.data) - as_float(a.data)), posinf=0.0) ** 2
                       for a, b in zip(run.values, other.values)]  # fmt: skip
        total = squares if total is None else [x + y for x, y in zip(total, squares)]
    return [np.sqrt(one / PERTURBED) for one in total or ()]


def as_float(array: Array) -> Array:
    """Return numbers as float64, complex ones as complex128."""
    found: Array = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    return found


# ---- limits -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Limits:
    """The caller's tolerances, or those of `tolerance.between`."""

    rtol: float | None
    atol: float | None

    def __post_init__(self) -> None:
        tolerance.check_not_negative(rtol=self.rtol, atol=self.atol)

    def error(
        self, actual: Array, expected: Array, quantized: int, noise: Array | None = None
    ) -> ErrorSize:
        """Return the error of a value, with the number of elements out of tolerance; arguments as
        for `tolerance.between`."""
        if self.rtol is not None or self.atol is not None:
            rule = tolerance.given(actual, expected, self.rtol, self.atol)
        else:
            rule = tolerance.between(actual, expected, quantized, noise)
        count = tolerance.outside(actual, expected, rule)
        return measure_size(actual, expected, mismatched=count)

    def values(self, actual: Computed, expected: Computed, noise: Array | None) -> ErrorSize:
        """Return the error of a value in the layout that fits best."""
        views = list(in_either_order(actual.data, expected.data.shape))
        sizes = [measure_size(view, expected.data).relative for view in views]
        view = views[int(np.argmin(sizes))]
        return self.error(view, expected.data, actual.quantized + expected.quantized, noise)


# ---- rows -------------------------------------------------------------------------------------


def _both(a: str, b: str) -> str:
    return a if a == b else f"{a} / {b}"


def _row(a: Computed, b: Computed, error: ErrorSize) -> NodeError:
    verdict: Verdict = "first" if error.mismatched else "ok"
    return NodeError(0, _both(a.where, b.where), _both(a.name, b.name), a.data.shape,
                     _both(a.data.dtype.name, b.data.dtype.name), error, None, verdict)  # fmt: skip


def _problem(where: str, text: str) -> NodeError:
    """A row for an output that cannot be measured."""
    error = ErrorSize(0, 1, math.nan, math.inf, (0, 0), (0, 0))
    return NodeError(0, where, f"result: {text}", (), "", error, None, "first")


def _outputs(a: _Run, b: _Run, limits: _Limits) -> Iterator[NodeError]:
    """A row for each output, also for one that is no tensor; a difference in number, dtype, shape
    or kind is one."""
    if len(a.outputs) != len(b.outputs):
        yield _problem("outputs", f"{b.title} has {_text.plural(len(b.outputs), 'output')}, "
                                  f"{a.title} {len(a.outputs):,}")  # fmt: skip
    coarse, quantized = max(a.coarsest, b.coarsest), a.is_quantized + b.is_quantized
    noise = _end_noise(a)
    for i, (expected, actual) in enumerate(zip(a.outputs, b.outputs)):
        where = f"output {i}"
        if not (_is_number(expected) and _is_number(actual)):
            if type(expected) is not type(actual) or expected != actual:
                yield _problem(where, f"{actual!r}, in {a.title} {expected!r}")
            continue
        mine, theirs = as_array(actual), as_array(expected)
        if (mine.shape, mine.dtype) != (theirs.shape, theirs.dtype):
            yield _problem(where, f"{mine.dtype.name} {_text.shape(mine.shape)}, in {a.title} "
                                  f"{theirs.dtype.name} {_text.shape(theirs.shape)}")  # fmt: skip
            continue
        found = noise.get(where)
        fits = found is not None and found.shape == theirs.shape
        error = limits.error(mine, theirs, quantized, found if fits else None)
        ours, others = (Computed(where, "result", side, coarse, bool(quantized))
                        for side in (mine, theirs))  # fmt: skip
        yield _row(others, ours, error)


def _end_noise(run: _Run) -> dict[str, Array]:
    """Noise of outputs that are values of the program."""
    found = {}
    for where, numbers in run.ends.items():
        if run.noise is not None and len(numbers) == 1:
            found[where] = run.noise[next(iter(numbers))]
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, (np.ndarray, int, float, complex))


def _judged(row: NodeError, before: Sequence[NodeError], finest: float) -> NodeError:
    """Return a row with its gain and verdict."""
    size = row.accumulated.relative
    taken = max((one.accumulated.relative for one in before), default=0.0)
    gain = 1.0 if math.isinf(taken) else size / max(taken, finest or sys.float_info.epsilon)
    verdict = row.verdict
    if not row.ok and not all(one.ok for one in before):
        verdict = "amplified" if gain > GRADUAL else "propagated"
    return replace(row, verdict=verdict, inputs_error=taken, gain=gain)


def _with_verdicts(
    rows: Sequence[NodeError], pairs: Sequence[tuple[int, int]], a: _Run, b: _Run
) -> Iterator[NodeError]:
    """Rows, those of `pairs` first, then those of outputs, judged by the inputs of b's nodes."""
    places = {j: k for k, (_, j) in enumerate(pairs)}
    for k, row in enumerate(rows):
        start = b.sources.get(pairs[k][1]) if k < len(pairs) else b.ends.get(row.where)
        known = set(range(k)) if start is None else sources_between(b.sources, start, places)
        finest = b.coarsest
        if k < len(pairs):
            finest = max(a.values[pairs[k][0]].precision, b.values[pairs[k][1]].precision)
        yield _judged(row, [rows[one] for one in known if one < k], finest)


def _compare(a: _Run, b: _Run, limits: _Limits) -> tuple[list[NodeError], list[str], str]:
    """Rows, notes, and why no place can be named."""
    same = a.keys == b.keys
    pairs = ([(i, i) for i in range(len(a.values))] if same else match(a.values, b.values))
    rows = [
        _row(a.values[i], b.values[j],
             limits.values(b.values[j], a.values[i], a.noise[i] if a.noise else None))
        for i, j in pairs
    ]  # fmt: skip
    ends = list(_outputs(a, b, limits))
    notes = [f"compared {len(rows):,} of {len(a.values):,} and {len(b.values):,} values"]
    if not same:
        rows, pairs = _without_mispaired(rows, pairs, ends, notes, a, b)
    fewer = min(len(a.values), len(b.values))
    if not all(row.ok for row in ends) and len(rows) < LEAST_COVERAGE * fewer:
        notes.append("too few values could be paired to say where the first divergence is")
        rows, pairs = [], []
    judged = list(_with_verdicts(rows + ends, pairs, a, b))
    return judged, notes, "" if rows or ends else "no values and no outputs were compared"


def _without_mispaired(
    rows: list[NodeError], pairs: list[tuple[int, int]], ends: Sequence[NodeError],
    notes: list[str], a: _Run, b: _Run,
) -> tuple[list[NodeError], list[tuple[int, int]]]:  # fmt: skip
    """Without pairs that differ while every result after them agrees: these were none."""
    well = bool(ends) and all(row.ok for row in ends)
    last = max((i for i, row in enumerate(rows) if row.ok), default=-1)
    kept = [k for k, (row, (i, j)) in enumerate(zip(rows, pairs))
            if row.ok or not (well or (k < last and a.values[i].kind != b.values[j].kind))]
    if len(kept) < len(rows):
        notes.append(f"{_text.plural(len(rows) - len(kept), 'pair')} left out: they differ, "
                     "but results after them agree")  # fmt: skip
    return [rows[k] for k in kept], [pairs[k] for k in kept]


def _growth(rows: Sequence[NodeError]) -> str | None:
    """Return a note about the growth of errors before the first divergence; None without one."""
    bad = next((i for i, row in enumerate(rows) if not row.ok), None)
    if bad is None:
        return None
    before = max((row.accumulated.relative for row in rows[:bad]), default=0.0)
    after = rows[bad].accumulated.relative
    if bad and after < GRADUAL * before:
        return (f"errors before it are up to {before:.1e}, there {after:.1e}: they have grown on "
                "the way, look at the plot for where")  # fmt: skip
    between = f", or what lies between it and {rows[bad - 1].where}" if bad else ""
    return (f"errors before it are at most {before:.1e}, there {after:.1e}: it is that node"
            f"{between}")  # fmt: skip


def _report(a: _Run, b: _Run, limits: _Limits) -> ErrorReport:
    rows, notes, reason = _compare(a, b, limits)
    rows = [replace(row, index=i) for i, row in enumerate(rows)]
    growth = _growth(rows)
    if growth and len(rows) > len(b.outputs):
        notes.insert(0, growth)
    if a.dropped + b.dropped:
        notes.append(f"{a.dropped + b.dropped:,} values did not fit: give a larger max_bytes")
    title = f"{b.title} compared with {a.title}, method '{a.method}'"
    return ErrorReport(title, tuple(rows), tuple(notes), reason)


def compare_programs(
    baseline: ProgramSource,
    candidate: ProgramSource,
    inputs: Sequence[object],
    *,
    method: str = "forward",
    rtol: float | None = None,
    atol: float | None = None,
    kernels: Literal["default", "reference"] = "default",
    max_bytes: int = MAX_BYTES,
    progress: bool | None = None,
) -> ErrorReport:
    """Return the differences of two programs of one model on the same inputs, node by node.

    Programs with the same instructions are compared instruction by instruction, others by matched
    values, inside delegates too. Outputs are always compared.

    Args:
        baseline: The reference: a path, bytes or file of a .pte or .bpte, a Program, a Method
            (only its name is used), or a manager of the official flow.
        candidate: The program under test.
        inputs: Inputs of one call: arrays, torch tensors, numbers, strings, None.
        method: Name of the method.
        rtol, atol: A value differs if |actual - expected| > atol + rtol * |expected|. Default:
            those of `executorch_c.testing.compare`, plus the effect of rounding the inputs on the
            value in the baseline; if only one program computes in 8-bit integers, a
            signal-to-noise ratio of 10 dB (see `tolerance.between`).
        kernels: As for `Program.load_method`.
        max_bytes: Maximum bytes of the values of each program in memory.
        progress: Whether to show progress on stderr. Default: on a terminal.

    Programs cannot run node by node on other values, so errors are accumulated. The error that a
    node of the candidate adds is estimated by its `gain`: the relative error of its result divided
    by the largest relative error of its inputs (at least the machine epsilon of the coarsest dtype
    so far). The verdict is "first" if all inputs are within tolerance; else "amplified" if the gain
    is more than 10 (of a wrong node, or of a difference of nearly equal numbers); else
    "propagated". A second fault that is smaller than the accumulated error is "propagated", too.

    Returns an `ErrorReport`; names of nodes are "baseline's / candidate's" if they differ. Without
    enough matches it has no place. Raises exceptions of loading and running.
    """
    limits = _Limits(rtol, atol)
    names = title_of(baseline, "baseline"), title_of(candidate, "candidate")
    names = ("baseline", "candidate") if names[0] == names[1] else names
    with Progress("compare", progress) as say:
        say(f"running {names[0]}")
        sources = opened(baseline), opened(candidate)
        method = name_in(sources[0], method)
        loaded = sources[0].program

        def run(values: Sequence[object]) -> _Run:
            return _run(loaded, method, kernels, names[0], values, max_bytes)

        first = run(inputs)
        say(f"running {names[1]}")
        second = _run(sources[1].program, method, kernels, names[1], inputs, max_bytes)
        if rtol is None and atol is None and first.is_quantized + second.is_quantized == 0:
            say(f"running {names[0]} with rounded inputs")
            first.noise = _noise(first, run, inputs)
        say("comparing values")
        report = _report(first, second, limits)
        report.made_from(baseline=sources[0].origin, candidate=sources[1].origin)
        return report


def compare_kernels(
    program: ProgramSource,
    inputs: Sequence[object],
    *,
    method: str = "forward",
    rtol: float | None = None,
    atol: float | None = None,
    max_bytes: int = MAX_BYTES,
) -> ErrorReport:
    """Return the differences of a program's fast kernels from plain loops, node by node.

    Arguments and result are those of `compare_programs`. Delegates are the same in both.
    """
    limits = _Limits(rtol, atol)
    source = opened(program)
    loaded, method = source.program, name_in(source, method)

    def run(values: Sequence[object]) -> _Run:
        return _run(loaded, method, "reference", "reference kernels", values, max_bytes)

    plain = run(inputs)
    if rtol is None and atol is None and not plain.is_quantized:
        plain.noise = _noise(plain, run, inputs)
    fast = _run(loaded, method, "default", "default kernels", inputs, max_bytes)
    report = _report(plain, fast, limits)
    report.made_from(program=source.origin)
    return report
