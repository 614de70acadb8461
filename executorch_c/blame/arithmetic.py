"""The arithmetic of devices: what each may round otherwise, and runs of the payload with it.

The payload runs several times here, each result of a node changed at random as far as the device's
documented arithmetic allows: sums of halves that are accumulated in halves, in any order; results
that are stored as halves; denormal numbers that are flushed to zero (in every other run);
approximations of functions; integers that are rounded to the other neighbour next to a tie. The
spread of a value over these runs is what a healthy device may change in it (Monte Carlo arithmetic;
`executorch_c/noise/` does the same to eager models).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from executorch_c._arrays import Array
from executorch_c._core import Error
from executorch_c.blame.places import Numbering, Place
from executorch_c.blame.replay import Change, Replay, shaped
from executorch_c.blame.signatures import common
from executorch_c.compare import tolerance
from executorch_c.compare.limits import DEVICE_RUNS, DEVICE_TIE_SHARE, EPSILON, SUM_GROWTH
from executorch_c.compare.metrics import rms
from executorch_c.compare.scale import widened
from executorch_c.compare.tolerance import Tolerance
from executorch_c.inspect.families import MOVES, OPERATORS, short
from executorch_c.trace import Result

if TYPE_CHECKING:
    from executorch_c.trace import Event

# ---- devices ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Arithmetic:
    """Permitted differences in the arithmetic of a backend's devices."""

    functions: float = 4.0
    """Largest error of exp, tanh and the like, in machine epsilons."""
    angles: float = 0.0
    """Largest absolute error of sine and cosine."""
    epsilon: float = 0.0
    """Least machine epsilon that float32 is computed with."""
    flushes: bool = True
    """True if denormal numbers may be flushed to zero."""


GPU = Arithmetic(functions=8.0)
BACKENDS = {
    # Vulkan's specification, "Precision and Operation of SPIR-V Instructions": exp within
    # 3 + 2 |x| units in the last place, sine and cosine within 2^-11.
    "VulkanBackend": Arithmetic(functions=8.0, angles=2.0**-11),
    "CoreMLBackend": GPU,
    "CoreAIBackend": GPU,
    "MLXBackend": GPU,
    "TOSABackend": GPU,
    "VgfBackend": GPU,
    # The engine's own default precision of inference, on devices that have it.
    "OpenvinoBackend": Arithmetic(functions=8.0, epsilon=EPSILON["bfloat16"]),
    "QnnBackend": Arithmetic(functions=8.0, epsilon=EPSILON["float16"]),
}
"""Arithmetic by backend; others, and operators outside of delegates, have `Arithmetic()`."""
ENGINES = ("OpenvinoBackend", "CoreAIBackend")
"""Backends that run a payload as a whole: what a trace shows of their nodes are copies, so that
changed ones reach no later node."""

FUSED, SUMS_IN_FUSED = ("Subgraph",), 2
"""Nodes that OpenVINO has fused of others, as its profile has them, and the sums in each, at most:
two products, of two linear layers or of attention."""

# ---- operators --------------------------------------------------------------------------------

Kind = Literal["exact", "once", "function", "angle", "sum"]

EXACT = re.compile(
    r"reshape|view|transpose|permute|expand|broadcast|squeeze|slice|select|split|concat|\bcat|stack"
    r"|pad|gather|embedding|take|clone|copy|contiguous|identity|const|clamp|clip|max_?pool|"
    r"(^|[^_a-z])relu|argm|reduce_m(ax|in)|maximum|minimum|amax|amin|where|flip|reverse|roll|repeat"
    r"|tile|dequantize|arange|full\b|zeros|ones|logical|greater|less|equal|negat|\babs\b|\bsign\b"
)
SUMS = re.compile(
    r"conv(?!ert)|linear|fully|(^|[^a-z])(mm|bmm)|addmm|matmul|matrix|gemm|gemv|\bdot|attention|"
    r"sdpa|mean|avg|average|pooling|pool|sum|prod|norm|\bvar|\bstd|lstm|gru|interpolate|upsample|"
    r"resize|einsum|softmax|rms"
)
ANGLES = re.compile(r"\b(sin|cos|tan)\b|rope")
FUNCTIONS = re.compile(
    r"exp|log|tanh|sigmoid|elu|silu|swish|mish|erf|pow|sqrt|recip|div|atan|softplus|unary|table"
)
"""Names of nodes, in lower case; the first of these that fits decides."""
KINDS: tuple[tuple[re.Pattern[str], Kind], ...] = (
    (re.compile("softmax|conv(?!ert)|linear|fully|matmul|addmm"), "sum"),  # with a clamp, too
    (EXACT, "exact"),
    (SUMS, "sum"),
    (ANGLES, "angle"),
    (FUNCTIONS, "function"),
)
RESCALES = re.compile(
    "quant|rescale|q8|q4|conv(?!ert)|linear|fully|matmul|table|convert|unary|binary"
)
"""Names of nodes whose small integers are quantised numbers."""
NUMBERS: dict[str, Kind] = {
    "same": "exact",
    "moves": "exact",
    "picks": "exact",
    "exact": "exact",
    "sums": "sum",
}
"""Kinds of the library's operators, by what they do with numbers."""


def kind_of(name: str) -> Kind:
    """Return how an operator or a backend's node rounds, by its name."""
    if short(name) in MOVES:
        return "exact"
    numbers = OPERATORS[name]["numbers"] if name in OPERATORS else ""
    if numbers in NUMBERS:
        return NUMBERS[numbers]
    plain = re.sub(r"^.*::|\.(default|out|Tensor|Scalar)\w*$", "", name).lower()
    return next((kind for pattern, kind in KINDS if pattern.search(plain)), "once")


def terms_of(kind: Kind, arguments: Sequence[tuple[int, ...]], result: tuple[int, ...]) -> int:
    """Return the number of terms of a sum, from shapes: for a product with a weight, the elements
    of the weight for each channel of the result; for any other, the elements that are reduced."""
    if kind != "sum" or not arguments:
        return 1
    size = max(math.prod(result), 1)
    counts = [math.prod(arguments[0]) // size, arguments[0][-1] if arguments[0] else 1]
    for shape in arguments[1:]:
        channels = [d for d in shape if d in result and d > 1]
        if len(shape) > 1 and math.prod(shape) > 1:
            counts.append(math.prod(shape) // min(channels, default=1))
    return max(*counts, 1)


@dataclass(frozen=True)
class Rounding:
    """Permitted rounding of the result at one place."""

    kind: Kind
    terms: int
    arithmetic: Arithmetic
    step: float = 0.0
    """Scale of quantised numbers that are shown as the floats that they stand for; 0: none."""
    rescales: bool = False
    """True if small integers are quantised numbers: others are indices."""
    is_dynamic: bool = False
    """True for a product whose argument is quantised in the same node."""
    depth: int = 1
    """Number of sums that follow each other in it, at most: of results inside an engine, and of a
    delegate whose nodes cannot be changed here."""


def step_of(array: Array) -> float:
    """Return the scale of an array of multiples of a scale, of at most 512; 0 of any other."""
    if array.dtype.kind != "f" or not array.size:
        return 0.0
    levels = np.unique(array[np.isfinite(array)].astype(np.float64))
    if not 4 < levels.size <= MAX_LEVELS:
        return 0.0
    gaps = np.diff(levels)
    step = float(gaps.min())
    # the mean of the gaps, each a number of steps, has less rounding than the smallest
    step = float((levels[-1] - levels[0]) / max(np.rint(gaps / step).sum(), 1))
    counts = levels / step
    shift = counts - np.rint(counts)
    is_grid = np.abs(shift).max() < MAX_OFF_GRID and np.abs(counts).max() < MAX_STEPS
    return step if is_grid else 0.0


MAX_LEVELS, MAX_STEPS, MAX_OFF_GRID = 256, 512, 0.01
"""A grid of 8 bits: its levels, its largest number of steps from 0, its error in steps."""


def survey(replay: Replay) -> dict[str, Rounding]:
    """Return how the result of each place of a program may be rounded, by id."""
    places: dict[str, Place] = {}
    steps: dict[str, float] = {}

    def see(place: Place, array: Array) -> None:
        places[place.id] = place
        known = scales.get(place.id, 0.0) if array.dtype.kind == "f" else 0.0
        steps[place.id] = known or step_of(array)

    scales = replay.flow.scales
    trace = replay.run(see, ranges=True)[1]
    backends = {event.delegate: event.name for event in trace.events if event.kind == "delegate"}
    inside = {
        place.delegate
        for place in places.values()
        if place.kind == "node" and backends.get(place.delegate) not in ENGINES
    }
    converted = {e.delegate for e in trace.events if e.kind == "node" and not e.outputs}
    out: dict[str, Rounding] = {}
    last: dict[int | None, str] = {}
    """The result before, by delegate of an engine."""
    for name, event in named_results(trace.events):
        if name not in places:
            continue
        kind = kind_of(event.name)
        if event.kind == "delegate":
            kind = "exact" if event.delegate in inside else "sum"
        arithmetic = BACKENDS.get(backends.get(event.delegate, ""), Arithmetic())
        shapes = [value.shape for value in event.inputs]
        terms = terms_of(kind, shapes, places[name].shape)
        dynamic = kind == "sum" and _is_dynamic(event, converted)
        rescales = bool(RESCALES.search(event.name.lower()))
        rounding = Rounding(kind, terms, arithmetic, steps[name], rescales, dynamic)
        if event.kind == "delegate" and kind == "sum":
            rounding = replace(rounding, depth=_sums_in(replay, event.delegate or 0))
        elif event.kind == "node" and backends.get(event.delegate) in ENGINES:
            before = out.get(last.get(event.delegate, ""), None)
            rounding = _after(rounding, before)
            last[event.delegate] = name
        out[name] = rounding
    return out


def _after(rounding: Rounding, before: Rounding | None) -> Rounding:
    """Return the rounding of a result that has the errors of those before it, too."""
    depth = (before.depth if before is not None else 0) + (rounding.kind == "sum")
    terms = max(rounding.terms, before.terms if before is not None else 1)
    return replace(rounding, kind="sum", terms=terms, depth=max(depth, 1))


def _sums_in(replay: Replay, delegate: int) -> int:
    """Return the number of a payload's nodes that add; 1 without any, or for an unknown payload
    whose engine does not tell them."""
    inside = replay.flow.view.inside(delegate)
    if inside is None or isinstance(inside, str):
        names = [event.name for event in replay.profile() if event.delegate == delegate]
    else:
        names = [row["note"] or row["name"] or "" for row in inside["nodes"]]
    # the engine's own name of a node is first: several are from one operator
    own = [name.split(" ")[0] for name in names]
    fused = sum(name in FUSED for name in own)
    return max(sum(kind_of(name) == "sum" for name in own) + SUMS_IN_FUSED * fused, 1)


def _is_dynamic(event: Event, converted: set[int | None]) -> bool:
    """Return True for a product that quantises its argument, or reads one that XNNPACK has
    quantised and does not show."""
    if re.search("dq8|qd8|8da|dynamic", event.name.lower()):
        return True
    return event.delegate in converted and not any(len(v.shape) > 1 for v in event.inputs)


def named_results(events: Sequence[Event]) -> Iterator[tuple[str, Event]]:
    """Yield the results of a trace by the ids that `alter` has for them."""
    numbering, nodes = Numbering(), 0
    for event in events:
        nodes = nodes + 1 if event.kind == "node" else 0
        if event.kind == "execute":
            continue
        for output, value in enumerate(event.outputs):
            result = Result(
                event.kind,
                event.name,
                event.depth,
                event.chain,
                event.instruction,
                event.delegate,
                event.debug_handle,
                max(nodes - 1, 0),
                output,
            )
            yield numbering.place(result, np.empty(value.shape, np.uint8)).id, event


# ---- roundings --------------------------------------------------------------------------------


def disturb(array: Array, rounding: Rounding, rng: np.random.Generator, flush: bool) -> None:
    """Change an array as far as its rounding on a device allows.

    Args:
        flush: Flush denormal numbers to zero, where the device may.
    """
    if rounding.kind == "exact" or not array.size or not array.flags.writeable:
        return
    if array.dtype.name in SMALL_INTEGERS and rounding.rescales:
        array += _flips(array, rng).astype(array.dtype)
    elif rounding.step:
        array += (_flips(array, rng) * rounding.step).astype(array.dtype)
    elif array.dtype.name in EPSILON:
        _round_floats(array, rounding, rng, flush)


def _flips(array: Array, rng: np.random.Generator) -> Array:
    """Return -1 or 1 for the share of integers that is next to a tie, else 0. Where the range ends,
    or at a bound of the layer, which several elements have, they stay."""
    draw = rng.uniform(-1, 1, array.shape)
    near = np.abs(draw) < DEVICE_TIE_SHARE
    ends = () if array.dtype.kind == "f" else (np.iinfo(array.dtype).min, np.iinfo(array.dtype).max)
    for bound in (array.min(), array.max()):
        at = array == bound
        if bound in ends or np.count_nonzero(at) > 1:
            near &= ~at
    flips: Array = np.where(near, np.sign(draw), 0.0)
    return flips


def _round_floats(array: Array, rounding: Rounding, rng: np.random.Generator, flush: bool) -> None:
    name, arithmetic = array.dtype.name, rounding.arithmetic
    epsilon = EPSILON[name]
    if array.dtype.kind == "f" and array.dtype.itemsize == 4:
        epsilon = max(epsilon, arithmetic.epsilon)
    exact = widened(array)
    scale = np.abs(exact)
    growth = {"function": arithmetic.functions, "angle": arithmetic.functions}.get(
        rounding.kind, 1.0
    )
    with np.errstate(all="ignore"):
        if rounding.kind == "sum":
            growth = max(SUM_GROWTH * math.sqrt(rounding.terms), LEAST_GROWTH)
            growth = max(growth, DEPTH_GROWTH * math.sqrt(rounding.depth))
            scale = np.maximum(scale, rms(scale[np.isfinite(scale)]))
        share = max(epsilon * growth, DYNAMIC_ERROR if rounding.is_dynamic else 0.0)
        error = np.asarray(share * scale)
        if rounding.kind == "angle":
            error = error + arithmetic.angles
        moved = exact + rng.uniform(-1, 1, array.shape) * error
        if flush and arithmetic.flushes and array.dtype.kind == "f":
            tiny = float(np.finfo(array.dtype).tiny)
            moved = np.where(np.abs(moved) < tiny, 0.0, moved)
        stored = moved.astype(array.dtype)
    array[...] = np.where(np.isfinite(exact) & np.isfinite(widened(stored)), stored, array)


# ---- allowances -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spread:
    """A value of the payload, and what it is in runs with the device's arithmetic."""

    exact: Array
    samples: tuple[Array, ...]
    step: float = 0.0
    """Of quantised numbers: their scale; 1 for integers of 8 and 16 bits."""

    def beside(self, actual: Array) -> tuple[Array, Array, Tolerance]:
        """Return a device's value, the payload's, and the tolerance of the first; small integers
        as floats, because they are multiples of a scale; of another shape the elements that both
        have."""
        exact, samples = self.exact, self.samples
        if actual.shape != exact.shape:
            part = common(actual.shape, exact.shape)
            actual, exact = actual[part], exact[part]
            samples = tuple([sample[part] for sample in samples])
        if exact.dtype.name in SMALL_INTEGERS:
            exact, actual = exact.astype(np.float32), actual.astype(np.float32)
            samples = tuple([sample.astype(np.float32) for sample in samples])
        limits = tolerance.measured(actual, exact, samples)
        floor = self.step
        if not floor and exact.dtype.kind == "f":
            floor = float(np.finfo(exact.dtype).tiny)
        if floor and limits.noise is not None:
            noise = np.hypot(limits.noise, floor * math.sqrt(DEVICE_TIE_SHARE))
            limits = replace(limits, limit=limits.limit + floor * ONE_STEP, noise=noise)
        return actual, exact, limits


SMALL_INTEGERS = ("int8", "uint8", "int16")
DYNAMIC_ERROR = 0.01
"""Error of a product whose argument is quantised to 8 bits as it comes, relative to its RMS: a
share of 2 * TIE_STEPS of the argument has an error of a step, some 1/40 of its RMS."""
LEAST_GROWTH = 2.0
"""Least error of sums, in machine epsilons: of the functions inside softmax and norms."""
DEPTH_GROWTH = 1.5
"""The error of a chain of n sums is at most DEPTH_GROWTH * sqrt(n) machine epsilons of what each
stores. Largest of OpenVINO in bfloat16: 1.2, of 48 linear layers without residuals."""
ONE_STEP = 1.001
"""A step of quantised numbers, with its rounding."""


class Allowance:
    """The payload's values, and their spread in runs with the device's arithmetic."""

    def __init__(self, replay: Replay, runs: int = DEVICE_RUNS) -> None:
        self.replay, self.runs = replay, runs
        self.roundings = survey(replay)

    def spreads(
        self,
        given: Mapping[str, Array] | None = None,
        also: Collection[str] = (),
        counted: Callable[[int], object] | None = None,
    ) -> tuple[list[Any], list[list[Any]], dict[str, Spread]]:
        """Return the outputs, those of the runs with the device's arithmetic, and the spread of
        each value in `given`, before that takes the place of the program's.

        Args:
            given: Values by id; each place after them reads them.
            also: Ids of other values whose spread is wanted.
            counted: Called with the number of each run.
        """
        given = given or {}
        exact: dict[str, Array] = {}
        outputs = self._outputs(given, also, exact, lambda place, array: None)
        samples: dict[str, list[Array]] = {name: [] for name in exact}
        runs = []
        for run in range(self.runs):
            if counted is not None:
                counted(run)
            seen: dict[str, Array] = {}
            runs.append(self._outputs(given, also, seen, self.rounder(run)))
            for name, value in seen.items():
                samples.setdefault(name, []).append(value)
        spreads = {
            name: Spread(value, tuple(samples[name]), self.step(name, value))
            for name, value in exact.items()
            if len(samples[name]) == self.runs  # the same instructions ran
        }
        return outputs, runs, spreads

    def of_outputs(self, counted: Callable[[int], object] | None = None) -> list[Spread | None]:
        """Return the spread of each output; None for those that are no arrays."""
        outputs, runs, _ = self.spreads(counted=counted)
        scales = self.replay.scales
        return [
            Spread(one, tuple([run[i] for run in runs]), _step_of_output(one, scales[i]))
            if isinstance(one, np.ndarray)
            else None
            for i, one in enumerate(outputs)
        ]

    def _outputs(
        self,
        given: Mapping[str, Array],
        also: Collection[str],
        seen: dict[str, Array],
        before: Change,
    ) -> list[Any]:
        """Return the outputs of a run; [] where the program refuses given values (an index)."""
        try:
            return self.replay.run(_recorder(given, also, seen, before))[0]
        except Error:
            if not given:
                raise
            return []

    def rounder(self, seed: int) -> Change:
        """Return a change that rounds each result as the device may."""
        rng = np.random.default_rng(seed)

        def change(place: Place, array: Array) -> None:
            rounding = self.roundings.get(place.id)
            if rounding is not None:
                disturb(array, rounding, rng, flush=seed % 2 == 1)

        return change

    def step(self, name: str, value: Array) -> float:
        """Return the step of a place's quantised numbers; 0 of others."""
        if value.dtype.name in SMALL_INTEGERS:
            return 1.0
        rounding = self.roundings.get(name)
        return 0.0 if rounding is None else rounding.step


def _step_of_output(output: Array, scale: float | None) -> float:
    """Return the step of an output, `scale` if the program has it."""
    if output.dtype.name in SMALL_INTEGERS:
        return 1.0
    return scale if scale and output.dtype.kind == "f" else step_of(output)


def _recorder(
    given: Mapping[str, Array], also: Collection[str], seen: dict[str, Array], before: Change
) -> Change:
    """Return a change that calls `before`, keeps the values of given places and of those in `also`,
    and puts the given ones in their place."""

    def change(place: Place, array: Array) -> None:
        before(place, array)
        if place.id in given or place.id in also:
            seen[place.id] = array.copy()
        if place.id in given:
            value = shaped(given[place.id], place, array)
            if array.flags.writeable:  # not a view of an input
                array[...] = value

    return change
