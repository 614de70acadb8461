"""A call of a program with all values and their noise: one side of compare_programs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from executorch_c._arrays import Array, as_array
from executorch_c._delegation import DelegateAtLoad
from executorch_c._eager_caches import cache_for
from executorch_c._files import named_after
from executorch_c.compare import tolerance
from executorch_c.compare.limits import INPUT_RUNS, INT8_STEP
from executorch_c.compare.scale import widened
from executorch_c.debug._graphs.names import is_random_operator, kind
from executorch_c.debug._graphs.program import Origins, Steps
from executorch_c.debug._matching.programs import ComputedValue
from executorch_c.inspect.events import EventPlaces, named
from executorch_c.inspect.structure import View

if TYPE_CHECKING:
    from executorch_c._core import Method
    from executorch_c._programs import ProgramFile
    from executorch_c._types import Output
    from executorch_c.trace import Event, Trace

_QUANTIZED = re.compile(r"quantize|\bQ[SUDCP][0-9]|\bQ[SU]\d")


@dataclass
class TracedRun:
    """A program, its values and outputs of one call."""

    title: str
    method: str
    values: list[ComputedValue]
    sources: dict[int, frozenset[int]]
    """Numbers of the sources of a value, by its number."""
    ends: dict[str, frozenset[int]]
    """Numbers of the sources of an output, by its name: "output 0"."""
    keys: list[tuple[object, ...]]
    """Keys of the values; runs with equal keys have the same instructions."""
    outputs: list[Output]
    dropped: int
    seen: EventPlaces
    """Places of events inside delegates."""
    noise: list[Array] | None = None
    """Standard deviation of each value where the inputs change by a rounding, in units of its
    machine epsilon."""

    @property
    def coarsest(self) -> float:
        """Machine epsilon of the coarsest dtype."""
        return max((value.precision for value in self.values), default=0.0)

    def precision_of(self, output: str) -> float:
        """Return the machine epsilon of the coarsest dtype that an output ("output 0") was computed
        in; that of all values for one that is from none of them."""
        sources = self.ends.get(output)
        return max(self.values[one].precision for one in sources) if sources else self.coarsest

    @property
    def is_quantized(self) -> bool:
        """True if any value is held as 8-bit integers."""
        return any(value.quantized for value in self.values)


@dataclass
class _Result:
    """An array that an event wrote."""

    place: int
    """Of the event in the trace."""
    event: Event
    where: str
    output: int
    data: Array

    @property
    def title(self) -> str:
        """ "instruction 3", "instruction 3, result 1"."""
        return self.where + (f", result {self.output}" if self.output else "")

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for the same result of two runs of the same instructions."""
        event = self.event
        return (
            event.kind,
            event.depth,
            event.chain,
            event.instruction,
            event.name,
            self.output,
            self.data.shape,
            self.data.dtype,
        )


def traced_run(
    source: ProgramFile,
    method: str,
    inputs: Sequence[object],
    *,
    kernels: Literal["default", "reference"],
    delegate_at_load: DelegateAtLoad = False,
    title: str,
    max_bytes: int,
) -> TracedRun:
    """Call a method once, and return its values, each with its sources. With `delegate_at_load`,
    values are those of operators that are delegated separately, outputs those of runs of them."""

    def load(choice: DelegateAtLoad | Literal["each"]) -> Method:
        return source.program.load_method(
            method,
            kernels=kernels,
            seed=0,
            delegate_at_load=choice,
            kv_cache=cache_for(source.program, method),
        )

    view = View(source.program, method)
    with named_after(source.source):
        loaded = load("each" if delegate_at_load else False)
        with loaded.tracing(values=True, max_bytes=max_bytes) as trace:
            outputs = loaded.execute(inputs)
        if delegate_at_load:
            outputs = load(delegate_at_load).execute(inputs)
    results = list(_results(trace, view))
    steps = Steps(view, inputs)
    integers = {step.order for step in steps.read(trace.events) if step.quantized}
    numbers = {(result.place, result.output): i for i, result in enumerate(results)}
    origins = Origins(steps.steps, numbers)
    return TracedRun(
        title,
        method,
        list(_computed(results, integers, origins)),
        origins.of_value,
        {f"output {i}": origins.of(steps.results.get(i)) for i in range(len(outputs))},
        [result.key for result in results],
        outputs,
        trace.dropped_events + trace.dropped_values,
        EventPlaces(trace.events),
    )


def _results(trace: Trace, view: View) -> Iterator[_Result]:
    """Yield the results of kernels and nodes; of a delegate itself where it shows no nodes.

    A value of constants alone (a transposed weight) counts as a part of the node that reads it.
    """
    fixed: set[int | None] = {
        i for i, value in enumerate(view.values) if value.get("where") in ("constant", "external")
    }
    events = list(named(trace.events))
    for place, (event, where) in enumerate(events):
        if event.depth == 0 and event.kind in ("kernel", "move"):
            written = {value.slot for value in event.outputs}
            is_fixed = fixed.issuperset(value.slot for value in event.inputs)
            if is_fixed and not is_random_operator(event.name):
                fixed |= written
                continue
            fixed -= written
        following = events[place + 1][0].kind if place + 1 < len(events) else ""
        if _has_results(event, following):
            for i, value in enumerate(event.outputs):
                if isinstance(value.data, np.ndarray):
                    yield _Result(place, event, where, i, value.data)


def _has_results(event: Event, following: str) -> bool:
    """Return True if an event has its own results; `following` is the kind of the next event."""
    if event.kind == "delegate":
        return following not in ("node", "execute")
    is_uninitialised = kind(event.name).startswith(("empty", "new_empty"))
    return event.kind in ("kernel", "node") and not is_uninitialised


def _computed(
    results: Sequence[_Result], integers: set[int], origins: Origins
) -> Iterator[ComputedValue]:
    """Yield results as values; `integers` are the places of events with quantised results."""
    coarsest = list[tuple[float, bool]]()
    for number, result in enumerate(results):
        name = result.event.name
        is_quantized = result.place in integers or bool(_QUANTIZED.search(name))
        epsilon = INT8_STEP if is_quantized else tolerance.epsilon_of(result.data.dtype)
        sources = origins.of_value.get(number, frozenset(range(number)))
        before = (coarsest[one] for one in sources if one < number)
        coarsest.append(max([(epsilon, is_quantized), *before]))
        yield ComputedValue(result.title, name, result.data, *coarsest[-1], sources)


# ---- noise ------------------------------------------------------------------------------------


def noise_of(
    run: TracedRun,
    again: Callable[[Sequence[object]], TracedRun],
    inputs: Sequence[object],
    coarsest: float,
) -> list[Array] | None:
    """Return the standard deviation of each value of a run where the inputs change by a rounding,
    in units of its machine epsilon; None for inputs without floats, or where other instructions
    run.

    Args:
        again: Runs the same program on other inputs.
        coarsest: Machine epsilon of the rounding, at least that of the coarsest input's dtype.
    """
    arrays = map(as_array, (value for value in inputs if hasattr(value, "shape")))
    epsilon = max(coarsest, tolerance.epsilon_of(*(array.dtype for array in arrays)))
    rng = np.random.default_rng(0)
    total: list[Array] | None = None
    for _ in range(INPUT_RUNS):
        changed = [_rounded(value, rng, epsilon) for value in inputs]
        if all(a is b for a, b in zip(changed, inputs)):
            return None
        other = again(changed)
        if other.keys != run.keys:
            return None
        with np.errstate(all="ignore"):
            squares = [
                np.nan_to_num(np.abs(widened(b.data) - widened(a.data)), posinf=0.0) ** 2
                for a, b in zip(run.values, other.values)
            ]
        total = squares if total is None else [x + y for x, y in zip(total, squares)]
    return [np.sqrt(one / INPUT_RUNS) / epsilon for one in total or ()]


def _rounded(value: object, rng: np.random.Generator, epsilon: float) -> object:
    """Return an input with relative errors of one machine epsilon, in its own dtype and layout."""
    array = as_array(value) if hasattr(value, "shape") else None
    if array is None or array.dtype.kind not in "fV" or array.dtype.names:
        return value
    error = rng.uniform(-1, 1, array.shape) * epsilon
    changed = array.astype(np.float64) * (1 + error)
    out = np.empty_like(array)
    np.copyto(
        out, np.where(np.isfinite(changed), changed, array.astype(np.float64)), casting="unsafe"
    )
    return out
