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
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Literal

import numpy as np

from executorch_c._arrays import Array, as_array
from executorch_c._delegation import DelegateAtLoad
from executorch_c._names import visible
from executorch_c._programs import ProgramSource, name_in, opened, output_names, title_of
from executorch_c._render import text as _text
from executorch_c.compare import tolerance, verdicts
from executorch_c.compare.arrays import compare_flat, default_rule
from executorch_c.compare.comparison import Comparison
from executorch_c.compare.limits import MAX_GRADUAL_RATIO, MIN_PAIRED_SHARE
from executorch_c.compare.metrics import ErrorMetrics, incomparable, measure_size
from executorch_c.compare.nodes import NodeTolerances
from executorch_c.compare.policies import Function, Policies, policies_of
from executorch_c.compare.requiring import required
from executorch_c.debug._graphs.layouts import in_either_order
from executorch_c.debug._matching.programs import ComputedValue, match, sources_between
from executorch_c.debug._many import Inputs, of_inputs
from executorch_c.debug._traced import TracedRun, noise_of, traced_run
from executorch_c.debug.pages import draw_compared
from executorch_c.debug.report import ErrorReport, NodeError, NodeVerdict
from executorch_c.progress import Progress

MAX_BYTES = 1 << 30
"""Default of the maximum bytes of kept values of each program's run."""


# ---- errors -----------------------------------------------------------------------------------


def _error(
    limits: NodeTolerances,
    actual: Array,
    expected: Array,
    quantized: int,
    precision: float,
    noise: Array | None = None,
) -> ErrorMetrics:
    """Return the error of a value; arguments as for `tolerance.between`, but `noise` is in units of
    `precision`."""
    rules = []
    if not limits.cover_all:
        noise = None if noise is None else noise * precision
        rules = [tolerance.between(actual, expected, quantized, noise, precision)]
    return limits.error(actual, expected, rules)


def _error_of_value(
    limits: NodeTolerances, actual: ComputedValue, expected: ComputedValue, noise: Array | None
) -> ErrorMetrics:
    """Return the error of a value in the layout that fits best."""
    views = list(in_either_order(actual.data, expected.data.shape))
    sizes = [measure_size(view, expected.data).relative for view in views]
    view = views[int(np.argmin(sizes))]
    quantized, precision = actual.quantized + expected.quantized, _precision(actual, expected)
    return _error(limits, view, expected.data, quantized, precision, noise)


def _precision(*values: ComputedValue) -> float:
    """Return the machine epsilon of the coarsest dtype of values and their sources."""
    return max(value.precision for value in values)


# ---- rows -------------------------------------------------------------------------------------


def _both(a: str, b: str) -> str:
    return a if a == b else f"{a} / {b}"


def _row(a: ComputedValue, b: ComputedValue, error: ErrorMetrics) -> NodeError:
    verdict: NodeVerdict = "first" if error.mismatched else "ok"
    return NodeError(
        0,
        _both(a.where, b.where),
        _both(a.name, b.name),
        a.data.shape,
        _both(a.data.dtype.name, b.data.dtype.name),
        error,
        None,
        verdict,
    )


def _problem(where: str, text: str) -> NodeError:
    """Return the row of an output that cannot be measured."""
    error = incomparable(0)
    return NodeError(0, where, f"result: {text}", (), "", error, None, "first")


def _outputs(a: TracedRun, b: TracedRun, limits: NodeTolerances) -> Iterator[NodeError]:
    """Yield a row for each output, tensor or number; another number of outputs, dtype, shape or
    kind is a difference."""
    if len(a.outputs) != len(b.outputs):
        yield _problem(
            "outputs",
            f"{b.title} has {_text.plural(len(b.outputs), 'output')}, {a.title} {len(a.outputs):,}",
        )
    quantized, noise = a.is_quantized + b.is_quantized, _end_noise(a)
    for i, (expected, actual) in enumerate(zip(a.outputs, b.outputs)):
        where = f"output {i}"
        if not (_is_number(expected) and _is_number(actual)):
            if type(expected) is not type(actual) or expected != actual:
                yield _problem(where, f"{actual!r}, in {a.title} {expected!r}")
            continue
        mine, theirs = as_array(actual), as_array(expected)
        if (mine.shape, mine.dtype) != (theirs.shape, theirs.dtype):
            yield _problem(
                where,
                f"{mine.dtype.name} {_text.shape(mine.shape)}, in {a.title} "
                f"{theirs.dtype.name} {_text.shape(theirs.shape)}",
            )
            continue
        deviation = noise.get(where)
        fits = deviation is not None and deviation.shape == theirs.shape
        coarse = max(a.precision_of(where), b.precision_of(where))
        error = _error(limits, mine, theirs, quantized, coarse, deviation if fits else None)
        ours, others = (
            ComputedValue(where, "result", side, coarse, bool(quantized)) for side in (mine, theirs)
        )
        yield _row(others, ours, error)


def _end_noise(run: TracedRun) -> dict[str, Array]:
    """Return the noise of outputs that are values of the program."""
    deviations = {}
    for where, numbers in run.ends.items():
        if run.noise is not None and len(numbers) == 1:
            deviations[where] = run.noise[next(iter(numbers))]
    return deviations


def _is_number(value: Any) -> bool:
    return isinstance(value, (np.ndarray, int, float, complex))


def _judged(row: NodeError, before: Sequence[NodeError], finest: float) -> NodeError:
    """Return a row with its gain and verdict."""
    size = row.accumulated.relative
    inputs_error = max((one.accumulated.relative for one in before), default=0.0)
    gain = (
        1.0
        if math.isinf(inputs_error)
        else size / max(inputs_error, finest or sys.float_info.epsilon)
    )
    verdict = row.verdict
    if not row.ok and not all(one.ok for one in before):
        verdict = "amplified" if gain > MAX_GRADUAL_RATIO else "propagated"
    return replace(row, verdict=verdict, inputs_error=inputs_error, gain=gain)


def _with_verdicts(
    rows: Sequence[NodeError], pairs: Sequence[tuple[int, int]], a: TracedRun, b: TracedRun
) -> Iterator[NodeError]:
    """Yield rows, those of `pairs` first, then those of outputs, judged by the inputs of b's
    nodes."""
    places = {j: k for k, (_, j) in enumerate(pairs)}
    for k, row in enumerate(rows):
        start = b.sources.get(pairs[k][1]) if k < len(pairs) else b.ends.get(row.where)
        known = set(range(k)) if start is None else sources_between(b.sources, start, places)
        finest = b.coarsest
        if k < len(pairs):
            finest = _precision(a.values[pairs[k][0]], b.values[pairs[k][1]])
        yield _judged(row, [rows[one] for one in known if one < k], finest)


def _compare(
    a: TracedRun, b: TracedRun, limits: NodeTolerances
) -> tuple[list[NodeError], list[str], str, str]:
    """Return rows, notes, the reason why nothing can be compared, and why no place can be named."""
    same = a.keys == b.keys
    pairs = [(i, i) for i in range(len(a.values))] if same else match(a.values, b.values)
    rows = [
        _row(
            a.values[i],
            b.values[j],
            _error_of_value(limits, b.values[j], a.values[i], a.noise[i] if a.noise else None),
        )
        for i, j in pairs
    ]
    ends = list(_outputs(a, b, limits))
    notes = [
        f"compared {_text.plural(len(rows), 'value')}: of {len(a.values):,} in the baseline "
        f"and {len(b.values):,} in the candidate"
    ]
    if not same:
        rows, pairs = _without_mispaired(rows, pairs, ends, notes, a, b)
    fewer, unlocated = min(len(a.values), len(b.values)), ""
    if not all(row.ok for row in ends) and len(rows) < MIN_PAIRED_SHARE * fewer:
        unlocated = f"{len(rows) / fewer:.0%} of the values are paired"
        rows, pairs = [], []
    judged = list(_with_verdicts(rows + ends, pairs, a, b))
    if not judged:
        return judged, notes, "no values and no outputs were compared", ""
    values = (a.values[i].data for i, _ in pairs)
    outputs = list(map(as_array, filter(_is_number, a.outputs)))
    inner = (value for value in values if value.size > 1)  # no factors and other numbers
    reason = verdicts.uninformative_ends(outputs)
    reason = reason or verdicts.uninformative_all(chain(inner, outputs))
    return judged, notes, "" if limits.cover_all else reason, unlocated


def _without_mispaired(
    rows: list[NodeError],
    pairs: list[tuple[int, int]],
    ends: Sequence[NodeError],
    notes: list[str],
    a: TracedRun,
    b: TracedRun,
) -> tuple[list[NodeError], list[tuple[int, int]]]:
    """Return rows and pairs without those that differ while every result after them agrees: such
    values do not correspond."""
    well = bool(ends) and all(row.ok for row in ends)
    last = max((i for i, row in enumerate(rows) if row.ok), default=-1)
    kept = [
        k
        for k, (row, (i, j)) in enumerate(zip(rows, pairs))
        if row.ok or not (well or (k < last and a.values[i].kind != b.values[j].kind))
    ]
    if len(kept) < len(rows):
        notes.append(
            f"{_text.plural(len(rows) - len(kept), 'pair')} left out: they differ, "
            "but results after them agree"
        )
    return [rows[k] for k in kept], [pairs[k] for k in kept]


def _growth(rows: Sequence[NodeError]) -> str | None:
    """Return a note about the growth of errors before the first divergence; None without one."""
    bad = next((i for i, row in enumerate(rows) if not row.ok), None)
    if bad is None:
        return None
    before = rows[bad].inputs_error or 0.0
    after = rows[bad].accumulated.relative
    if bad and after < MAX_GRADUAL_RATIO * before:
        return (
            f"errors before it are up to {before:.1e}, there {after:.1e}: they have grown on "
            "the way, look at the plot for where"
        )
    between = f", or what lies between it and {rows[bad - 1].where}" if bad else ""
    limit = f"at most {before:.1e}" if before else "0"
    return f"errors before it are {limit}, there {after:.1e}: it is that node{between}"


def _required(
    a: TracedRun,
    b: TracedRun,
    rows: Sequence[NodeError],
    names: Sequence[str | None],
    policies: Policies,
) -> Comparison | None:
    """Return the outputs with the verdicts of requirements, and of their rows; None without any."""
    if not policies:
        return None
    policies.check_names(names)
    whole = compare_flat(b.outputs, a.outputs, default_rule(None, None), names=names)
    oks = {row.where: row.ok for row in rows}
    outputs = tuple(
        replace(
            one, verdict="match" if oks.get(f"output {one.index}", True) else "differ", reason=""
        )
        for one in whole.outputs
    )
    return required(replace(whole, outputs=outputs), b.outputs, a.outputs, policies)


def _report(
    a: TracedRun,
    b: TracedRun,
    limits: NodeTolerances,
    names: Sequence[str | None],
    policies: Policies,
) -> ErrorReport:
    rows, notes, reason, unlocated = _compare(a, b, limits)
    rows = [replace(row, index=i) for i, row in enumerate(rows)]
    growth = _growth(rows)
    if growth and len(rows) > len(b.outputs):
        notes.insert(0, growth)
    if a.dropped + b.dropped:
        notes.append(f"{a.dropped + b.dropped:,} values did not fit; pass a larger `max_bytes`")
    title = f"{b.title} compared with {a.title}, method '{visible(a.method)}'"
    decided = _required(a, b, rows, names, policies)
    return ErrorReport(title, tuple(rows), tuple(notes), reason, unlocated, decided)


def compare_programs(
    baseline: ProgramSource,
    candidate: ProgramSource,
    inputs: Inputs,
    *,
    method: str = "forward",
    rtol: float | None = None,
    atol: float | None = None,
    kernels: Literal["default", "reference"] = "default",
    delegate_at_load: DelegateAtLoad = False,
    require: str | Sequence[str] | None = None,
    metrics: Mapping[str, Function] | None = None,
    max_bytes: int = MAX_BYTES,
    progress: bool | None = None,
) -> ErrorReport:
    """Return the differences of two programs of one model on the same inputs, node by node.

    Programs with the same instructions are compared instruction by instruction, others by matched
    values, inside delegates too. Outputs are always compared.

    Args:
        baseline: The reference: a path, bytes or file of a .pte, .ptn or .bpte, a Program, a Method
            (only its name is used), or a manager of the official flow.
        candidate: The program under test.
        inputs: Inputs of one call: arrays, torch tensors, numbers, strings, None. Those of many
            calls, as for `executorch_c.testing.input_set` ("inputs/", a generator): each case is
            compared, the nodes are those of the worst one, and `report.cases` has all.
        method: Name of the method.
        rtol, atol: A value differs if |actual - expected| > atol + rtol * |expected|. Default:
            those of `executorch_c.testing.compare`, plus the effect of rounding the inputs on the
            value in the baseline; if only one program computes in 8-bit integers, a
            signal-to-noise ratio of 10 dB (see `tolerance.between`).
        kernels: As for `Program.load_method`.
        delegate_at_load: Whether XNNPACK computes the operators of both programs that no delegate
            has: each separately; for the outputs, runs of them. Default: the programs run as
            written.
        require, metrics: As for `executorch_c.testing.compare`, of the outputs: they decide, and
            the verdict on all nodes is shown beside.
        max_bytes: Maximum bytes of the values of each program in memory.
        progress: Whether to show progress on stderr. Default: on a terminal.

    Programs cannot run node by node on other values, so errors are accumulated. The error that a
    node of the candidate adds is estimated by its `gain`: the relative error of its result divided
    by the largest relative error of its inputs (at least the machine epsilon of the coarsest dtype
    so far). The verdict is "first" if all inputs are within tolerance; else "amplified" if the gain
    is more than 10 (of a wrong node, or of a difference of nearly equal numbers); else
    "propagated". A second fault that is smaller than the accumulated error is "propagated", too.

    Returns an `ErrorReport`; names of nodes are "baseline's / candidate's" if they differ. Without
    enough matches it has no place; where no value can show an error (inputs of zeros), it is
    "inconclusive". Raises exceptions of loading and running.
    """
    limits, policies = NodeTolerances(rtol, atol), policies_of(require, metrics)
    names = title_of(baseline, "baseline"), title_of(candidate, "candidate")
    names = ("baseline", "candidate") if names[0] == names[1] else names
    with Progress("compare", progress) as say:
        say(f"running {names[0]}")
        sources = opened(baseline), opened(candidate)
        method = name_in(sources[0], method)

        def run(values: Sequence[object], number: int = 0) -> TracedRun:
            return traced_run(
                sources[number],
                method,
                values,
                kernels=kernels,
                delegate_at_load=delegate_at_load,
                title=names[number],
                max_bytes=max_bytes,
            )

        def compared(values: Sequence[object]) -> ErrorReport:
            first = run(values)
            say(f"running {names[1]}")
            second = run(values, 1)
            if not limits.cover_all and first.is_quantized + second.is_quantized == 0:
                say(f"running {names[0]} with rounded inputs")
                coarsest = max(first.coarsest, second.coarsest)
                first.noise = noise_of(first, run, values, coarsest)
            say("comparing values")
            report = _report(
                first, second, limits, output_names(sources[0].program, method), policies
            )
            report.set_origins(baseline=sources[0].origin, candidate=sources[1].origin)
            draw_compared(report, sources, names, method, [first.seen, second.seen])
            return report

        return of_inputs(inputs, sources[0], method, compared)


def compare_kernels(
    program: ProgramSource,
    inputs: Inputs,
    *,
    method: str = "forward",
    rtol: float | None = None,
    atol: float | None = None,
    delegate_at_load: DelegateAtLoad = False,
    require: str | Sequence[str] | None = None,
    metrics: Mapping[str, Function] | None = None,
    max_bytes: int = MAX_BYTES,
) -> ErrorReport:
    """Return the differences of a program's fast kernels from plain loops, node by node.

    Arguments and result are those of `compare_programs`. Delegates of the program are the same in
    both. With `delegate_at_load`, what XNNPACK computes of the other operators is compared with
    plain loops.
    """
    limits, policies = NodeTolerances(rtol, atol), policies_of(require, metrics)
    source = opened(program)
    method = name_in(source, method)

    def run(values: Sequence[object]) -> TracedRun:
        return traced_run(
            source,
            method,
            values,
            kernels="reference",
            title="reference kernels",
            max_bytes=max_bytes,
        )

    def compared(values: Sequence[object]) -> ErrorReport:
        plain = run(values)
        if not limits.cover_all and not plain.is_quantized:
            plain.noise = noise_of(plain, run, values, plain.coarsest)
        title = "operators delegated at load" if delegate_at_load else "default kernels"
        fast = traced_run(
            source,
            method,
            values,
            kernels="default",
            title=title,
            delegate_at_load=delegate_at_load,
            max_bytes=max_bytes,
        )
        report = _report(plain, fast, limits, output_names(source.program, method), policies)
        report.set_origins(program=source.origin)
        draw_compared(report, [source], [title_of(program, "program")], method, [fast.seen])
        return report

    return of_inputs(inputs, source, method, compared)
