"""Verdicts on right programs and on planted faults, over the architectures of `nets.py`.

A fault counts if it is larger than ten times the rounding noise: a smaller one may be
indistinguishable from rounding. The noise is eager's under random rounding, with other seeds than
the judge's.
"""

import copy
import inspect
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from executorch.exir import EdgeCompileConfig, to_edge

from executorch_c import KVCache, Runtime
from executorch_c._arrays import as_array
from executorch_c._eager_caches import cache_for
from executorch_c.check import flows
from executorch_c.check.inputs import draw
from executorch_c.check.judge import Judge
from executorch_c.check.reference import Eager
from executorch_c.compare import tolerance
from executorch_c.compare.scale import scale_of
from executorch_c.compare.tolerance import CallerTolerances
from executorch_c.devtools import explain
from executorch_c.noise.rounding import RandomRounding
from tests.backends import xnnpack_flow
from tests.models import nets
from tests.verdicts import faults

FLOWS = tuple(name for name, flow in flows.FLOWS.items() if flow.quantizer is None)
HALVES = tuple(nets.HALVES)
WEIGHTS = ("fresh", "trained", *HALVES)
HALVES_AWAY = "Arm's passes round halves away from zero, eager to even numbers"
CHANGED = {
    ("ties", "tosa"): HALVES_AWAY,
    ("ties", "vgf"): HALVES_AWAY,
    ("cancelling", "xnnpack-int8"): "the exporter loses an output of a delegate",
}
"""Architectures whose program is wrong, because the flow itself changes them, with the reason:
`check_model` says that they differ."""
TEN = 10.0
"""Minimum size of a counted fault, in units of rounding noise."""
COUNTS_ALWAYS = ("output one step off",)
"""Faults that must be found at any size: the noise of a quantised program consists of single steps,
so a step in every element is a fault."""


@dataclass(frozen=True)
class Variant:
    """A transformation of actual and expected outputs, in float32 and float64. It keeps right
    outputs right, and the errors of wrong outputs constant in units of noise."""

    name: str
    factor: float = 1.0
    """Factor, a power of two."""
    mask: float | None = None
    """Value of masked elements."""
    every: int = 0
    """Distance of masked elements; 0 for the first one alone."""

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        """Return the transformed outputs."""
        return [self._changed(v) if v.dtype in (np.float32, np.float64) else v for v in values]

    def _changed(self, array: np.ndarray) -> np.ndarray:
        result = array * array.dtype.type(self.factor)
        if self.mask is not None:
            result.flat[: None if self.every else 1 : self.every or 1] = self.mask
        return result


PLAIN = Variant("")
VARIANTS = (
    *(PLAIN, Variant("tiny", 2.0**-30), Variant("huge", 2.0**30)),
    *(Variant("one masked, -1e4", mask=-1e4), Variant("half masked, -1e9", mask=-1e9, every=2)),
    Variant("one masked, finfo.min", mask=float(np.finfo(np.float32).min)),
)


@dataclass(frozen=True)
class Row:
    """A verdict."""

    net: str
    weights: str
    flow: str
    kind: str
    """"right", "output", "weight", "graph", "state", "quantised"; "not run" of a program that the
    flow does not make: the fault is the reason."""
    fault: str
    size: float
    """Size of the fault in units of rounding noise; infinite for wrong shapes."""
    verdict: str
    layer: str = ""
    named: bool | None = None
    """True if `explain` names the layer; None without a layer."""
    variant: str = ""
    """Verdict on the outputs."""

    @property
    def counts(self) -> bool:
        """True for a fault that must be found."""
        is_fault = self.kind not in ("right", "not run")
        return is_fault and (self.size > TEN or self.fault in COUNTS_ALWAYS)

    @property
    def is_accepted(self) -> bool:
        """True for a fault that was not found."""
        return self.counts and self.verdict == "match"

    @property
    def is_alarm(self) -> bool:
        """True for right outputs that were rejected."""
        return self.kind == "right" and self.verdict == "differ"


def lowered(exported: Any, flow: str) -> bytes:
    """Return the .pte or the .ptn of an exported program."""
    program = flows._lower(exported, flows.FLOWS[flow], "forward")
    return program if isinstance(program, bytes) else bytes(program.buffer)


def edge_of(exported: Any) -> Any:
    """Return the edge program of an exported one, for `explain`, which would otherwise create it
    each time."""
    config = EdgeCompileConfig(_check_ir_validity=False)
    with flows.quiet():
        return to_edge(copy.deepcopy(exported), compile_config=config)


def inputs_of(example: tuple[Any, ...], number: int) -> tuple[Any, ...]:
    """Return the inputs of a call: number 0 is the example, others are random."""
    if not number:
        return example
    return draw((example, {}), None, [None] * len(example), number)[0]


class Subject:
    """An architecture with its weights: eager's outputs, noise, programs and the judge."""

    def __init__(self, net: str, weights: str) -> None:
        self.net, self.weights = net, weights
        self.variants = VARIANTS if weights not in HALVES else (PLAIN,)
        self.model, self.inputs = nets.build(net, weights)
        self.exported = flows.export(self.model, (self.inputs, {}), None)
        self.eager = Eager(self.model)
        self.judge = Judge(CallerTolerances(), equal_nan=True, check_dtype=True)
        self.edge = edge_of(self.exported)

    def program(self, flow: str) -> bytes:
        """Return the right program."""
        key = f"verdicts-{self.net}-{self.weights}-{flow}"
        make = lambda: lowered(copy.deepcopy(self.exported), flow)  # noqa: E731
        result: bytes = xnnpack_flow.cached(key, inspect.getfile(nets.NETS[self.net]), make)
        return result

    def call(self, number: int) -> tuple[Any, ...]:
        """Return inputs: number 0 is the example."""
        return inputs_of(self.inputs, number)

    @cache
    def expected(self, number: int) -> list[Any]:
        """Return eager's outputs of a call."""
        return self.eager([(self.call(number), {})])[0]

    @cache
    def noise(self, number: int, epsilon: float) -> Any:
        """Return the judge's samples of a call."""
        result = self.eager.noise([(self.call(number), {})], epsilon)
        return None if result is None else [run[0] for run in result]

    @cache
    def spread(self, number: int) -> list[Any]:
        """Return the standard deviation of each output's noise, from other seeds; None for outputs
        of integers."""
        call = [(self.call(number), {})]
        runs = [self.eager(call, RandomRounding(100 + seed))[0] for seed in range(4)]
        results = []
        for i, right in enumerate(self.expected(number)):
            wide = np.asarray(right, np.float64)
            errors = [(np.asarray(run[i], np.float64) - wide) ** 2 for run in runs]
            results.append(np.sqrt(np.mean(errors, axis=0)) if faults.is_float(right) else None)
        return results

    def size(self, actual: Sequence[Any], number: int, variant: Variant = PLAIN) -> float:
        """Return the largest error of outputs (of a variant) in units of rounding noise."""
        right, spread = variant(self.expected(number)), self.spread(number)
        if len(actual) != len(right):
            return np.inf
        result = 0.0
        for ours, theirs, noise in zip(actual, right, spread):
            if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
                return np.inf
            if noise is None:
                result = max(result, np.inf if not np.array_equal(ours, theirs) else 0.0)
                continue
            wide = theirs.astype(np.float64)
            error = np.abs(ours.astype(np.float64) - wide) / variant.factor
            if not np.isfinite(error).all():
                return np.inf
            epsilon = tolerance.epsilon_of(theirs.dtype)
            unit = noise + scale_of(noise, None) + epsilon * np.abs(wide / variant.factor)
            with np.errstate(divide="ignore", invalid="ignore"):
                result = max(result, float(np.nanmax(np.where(error > 0, error / unit, 0.0))))
        return result

    def verdict(self, actual: Sequence[Any], number: int, variant: Variant = PLAIN) -> str:
        """Return the judge's verdict on outputs (of a variant)."""

        def noise(epsilon: float, count: int) -> Any:
            runs = self.noise(number, epsilon)
            return None if runs is None else [variant(run) for run in runs[:count]]

        return self.judge(actual, variant(self.expected(number)), noise).verdict


def run_program(
    data: bytes, *calls: Sequence[Any], kv_cache: KVCache | None = None
) -> list[np.ndarray]:
    """Return the outputs of the last of several calls; the first starts from the initial state, or
    with a cache in place of one like eager's."""
    program = Runtime.get().load_program(data)
    method = program.load_method("forward", kv_cache=kv_cache or cache_for(program))
    results: Sequence[Any] = ()
    for inputs in calls:
        results = method.execute([as_array(x) if hasattr(x, "numpy") else x for x in inputs])
    return [np.array(v) for v in results]


# ---- rows -------------------------------------------------------------------------------------


def right_programs(subject: Subject, flow: str, calls: int) -> Iterator[Row]:
    """Yield the verdicts on right outputs: of the example in all variants, of other calls
    without."""
    data = subject.program(flow)
    for number in range(calls):
        result = run_program(data, subject.call(number))
        for variant in subject.variants if number == 0 else (PLAIN,):
            verdict = subject.verdict(variant(result), number, variant)
            yield Row(
                subject.net, subject.weights, flow, "right", "", 0.0, verdict, variant=variant.name
            )


def output_faults(subject: Subject, flow: str, seed: int, calls: int = 1) -> Iterator[Row]:
    """Yield the verdicts on damaged outputs: of the example in all variants, of other calls
    without."""
    rng = np.random.default_rng(seed)
    data = subject.program(flow)
    results = [run_program(data, subject.call(number)) for number in range(calls + 1)]
    for number in range(calls):
        for variant in subject.variants if number == 0 else (PLAIN,):
            for name, planted in faults.in_outputs(results[number], results[number + 1], rng):
                wrong = variant(planted)
                verdict = subject.verdict(wrong, number, variant)
                yield Row(
                    subject.net,
                    subject.weights,
                    flow,
                    "output",
                    name,
                    subject.size(wrong, number, variant),
                    verdict,
                    variant=variant.name,
                )


def is_named(subject: Any, data: bytes, layers: Sequence[str]) -> bool:
    """Return True if `explain` names one of some layers, or a layer inside one: if a block's sum is
    dropped, the branch before it is lost."""
    first = explain(subject.edge, list(subject.inputs), program=data, progress=False).first
    names = () if first is None else tuple(filter(None, (first.module, *first.modules)))
    return any(name == layer or name.startswith(f"{layer}.") for name in names for layer in layers)


def weight_faults(subject: Subject, flow: str, seed: int, layers: int) -> Iterator[Row]:
    """Yield the verdicts on programs with a damaged weight."""
    rng = np.random.default_rng(seed)
    data = subject.program(flow)
    for placed in faults.weights_in(data, subject.model, rng, layers):
        for name, change in faults.IN_WEIGHTS.items():
            wrong = placed.changed(data, change)
            if wrong != data:
                yield _program_row(subject, flow, "weight", name, wrong, [placed.layer])


def damaged(
    net: str, exported: Any, flow: str, editors: Mapping[str, Any], seed: int, limit: int
) -> Iterator[tuple[str, bytes, list[str]]]:
    """Yield names of faults, programs lowered from graphs that have them, and the layers."""
    rng = np.random.default_rng(seed)
    done = 0
    for name in map(str, rng.permutation(list(editors))):
        program = copy.deepcopy(exported)
        layers = editors[name](program, rng=rng) if done < limit else None
        if layers is None:
            continue
        program.graph_module.recompile()
        try:
            data = lowered(program, flow)
        except Exception as error:  # the exporter rejects the planted fault
            warnings.warn(f"{net}, {name}: {error}", stacklevel=1)
            continue
        done += 1
        yield name, data, layers


EDITORS = {name: partial(faults.in_graph, name=name) for name in faults.IN_GRAPHS}


def graph_faults(subject: Subject, flow: str, seed: int, most: int) -> Iterator[Row]:
    """Yield the verdicts on programs of a damaged graph."""
    for name, data, layers in damaged(subject.net, subject.exported, flow, EDITORS, seed, most):
        yield _program_row(subject, flow, "graph", name, data, layers)


def stride_faults(subject: Subject, flow: str, seed: int) -> Iterator[Row]:
    """Yield the verdict on a program of a model with another stride of one window."""
    rng = np.random.default_rng(seed)
    planted = faults.with_stride(subject.model, subject.inputs, rng)
    if planted is not None:
        model, layer = planted
        data = lowered(flows.export(model, (subject.inputs, {}), None), flow)
        yield _program_row(subject, flow, "graph", "wrong stride", data, [layer])


def state_faults(subject: Subject, flow: str) -> Iterator[Row]:
    """Yield the verdict on a call that starts from the state of another call."""
    if not subject.eager.changed_buffers((subject.inputs, {})):
        return
    before = [x if x.is_floating_point() else (x - 1).clamp(min=0) for x in subject.call(1)]
    # The previous call is at the previous position, if it has one.
    wrong = run_program(subject.program(flow), before, subject.call(0))
    yield _state_row(subject, flow, "not reset", wrong, 0)


def cache_faults(subject: Subject, flow: str, calls: int) -> Iterator[Row]:
    """Yield the verdicts on calls with another cache than eager's: other windows, and numbers of
    half precision."""
    data = subject.program(flow)
    right = cache_for(Runtime.get().load_program(data))
    if right is None:
        return
    layers = right.window if isinstance(right.window, list) else [right.window]
    changed: dict[str, Any] = {
        "cache without windows": {"window": None},
        "cache with longer windows": {"window": [size and size + 1 for size in layers]},
        "cache with windows of one": {"window": 1},
        "cache of half precision": {"window": layers, "dtype": "float16"},
    }
    for name, options in changed.items():
        for number in range(calls):
            cache = KVCache(right.capacity, **options)
            wrong = run_program(data, subject.call(number), kv_cache=cache)
            yield _state_row(subject, flow, name, wrong, number)


def _state_row(subject: Subject, flow: str, name: str, wrong: list[Any], number: int) -> Row:
    size, verdict = subject.size(wrong, number), subject.verdict(wrong, number)
    return Row(subject.net, subject.weights, flow, "state", name, size, verdict)


def _program_row(
    subject: Subject, flow: str, kind: str, name: str, data: bytes, layers: Sequence[str]
) -> Row:
    outputs = run_program(data, subject.inputs)
    size = subject.size(outputs, 0)
    verdict = subject.verdict(outputs, 0)
    named = is_named(subject, data, layers) if size > TEN and layers else None
    return Row(
        subject.net, subject.weights, flow, kind, name, size, verdict, ", ".join(layers), named
    )


# ---- the table --------------------------------------------------------------------------------


def table(rows: Sequence[Row]) -> str:
    """Return the table of the documentation, in Markdown."""
    lines = [
        "| fault | planted | above 10 x noise | found | accepted | layer named |",
        "|---|---|---|---|---|---|",
    ]
    wrong = [row for row in rows if row.kind not in ("right", "not run")]
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in wrong:
        groups.setdefault((row.kind, row.fault), []).append(row)
    for (kind, name), results in sorted(groups.items()):
        lines.append(f"| {kind}: {name} | " + " | ".join(_figures(results)) + " |")
    lines.append("| **all** | " + " | ".join(_figures(wrong)) + " |")
    right = [row for row in rows if row.kind == "right"]
    alarms = sum(row.is_alarm for row in right)
    told = sum(row.verdict == "match" for row in right)
    lines += [
        "",
        f"Correct outputs: {len(right):,}; match {told:,}, differ {alarms:,}, "
        f"inconclusive {len(right) - told - alarms:,}.",
    ]
    return "\n".join(lines)


def _figures(rows: Sequence[Row]) -> list[str]:
    counted = [row for row in rows if row.counts]
    accepted = sum(row.is_accepted for row in counted)
    named = [row.named for row in rows if row.named is not None]
    return [
        f"{len(rows):,}",
        f"{len(counted):,}",
        f"{len(counted) - accepted:,}",
        f"{accepted:,}",
        f"{sum(named):,} of {len(named):,}" if named else "",
    ]
