"""Mutants that load, run in several ways: a difference of results is a finding.

Each mutant (`mutants.py`) runs plainly (no passes that change rounding, no delegates) with two
calls of random inputs, then in each other way with the same inputs. Our exact ways must have the
same bits; others must agree within the rounding that `executorch_c.compare` allows, or that changes
of the inputs by their last bits cause. The official runtime is a process that stays; its refusals
and crashes are counted, its differences are findings unless a row of KNOWN explains them.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from executorch_c import Error, Program, Runtime
from executorch_c.compare import tolerance, verdicts
from executorch_c.compare.limits import EPSILON
from executorch_c.inspect.structure import View
from tests import judge
from tests.differential import causes, ways
from tests.dtypes import np_dtype
from tests.fuzz import mutants
from tests.kernels import eager

CALLS, DRAWS = 2, 4
MAX_INPUT_BYTES = 1 << 22
PROGRESS_SECONDS = 10.0
PLAIN = {"delegate_at_load": False}
Results = list[list[Any]]


@dataclass(frozen=True)
class Way:
    """A way to run a program here."""

    options: dict[str, Any]
    is_exact: bool = False
    is_traced: bool = False


WAYS = {
    "reference": Way({"kernels": "reference"}),
    "delegated": Way({"delegate_at_load": "always"}),
    "traced": Way(PLAIN, is_exact=True, is_traced=True),
    "unchanged": Way({**PLAIN, "passes": []}, is_exact=True),
}
OFFICIAL = "official"
AGAINST = (OFFICIAL, *WAYS)
ROUNDING_PASSES = ("fuse", "attend")


class Stopped(Exception):
    """A program that does not load or run, with the error's type and message."""


def inputs_of(program: Program, rng: np.random.Generator) -> list[Any]:
    """Return the inputs of a call, in the program's layouts. Raises Stopped if they are large."""
    result = []
    wild = bool(rng.random() < 0.1)
    for info in program.info()["methods"][0]["inputs"]:
        if info["kind"] != "Tensor":
            result.append(info.get("value"))
            continue
        shape, dtype = tuple(info["shape"]), np_dtype(info["dtype"])
        if int(np.prod(shape, dtype=object)) * dtype.itemsize > MAX_INPUT_BYTES:
            raise Stopped("large inputs")
        array = np.asarray(rng.integers(-4, 12, shape) / (4 if dtype.kind not in "iub" else 1))
        if wild and dtype.kind not in "iub":
            array = np.where(rng.random(shape) < 0.1, rng.choice([np.nan, np.inf, -0.0]), array)
        elif rng.random() < 0.5 and dtype.kind not in "iub":
            array = rng.standard_normal(shape)
        with np.errstate(all="ignore"):
            array = np.asarray(array).astype(dtype)
        result.append(eager.in_order(array, info["dim_order"]) if array.ndim > 1 else array)
    return result


def nudged(inputs: Sequence[Any], rng: np.random.Generator) -> list[Any]:
    """Return inputs whose floats are changed by up to two units in the last place."""

    def one(value: Any) -> Any:
        if not isinstance(value, np.ndarray) or not judge.is_inexact(value.dtype.name):
            return value
        step = judge.ulp(np.nan_to_num(judge.wide(value)), value.dtype.name)
        with np.errstate(all="ignore"):
            moved = judge.wide(value) + np.where(value == 0, 0, step) * rng.integers(
                -2, 3, value.shape
            )
        return np.asarray(moved, order="K").astype(value.dtype)

    return [one(value) for value in inputs]


def run(program: Program, way: Way, calls: Sequence[list[Any]]) -> Results:
    """Return the results of calls in a row. Raises Stopped."""
    try:
        method = program.load_method("forward", **way.options)
        method.manual_seed(1)
        results = []
        for inputs in calls:
            copies = [np.array(v, order="K") if isinstance(v, np.ndarray) else v for v in inputs]
            if way.is_traced:
                with method.tracing(values=True):
                    outputs = method.execute(copies)
            else:
                outputs = method.execute(copies)
            results.append([ways.kept(output) for output in outputs])
        return results
    except Error as error:
        raise Stopped(f"{type(error).__name__}: {error}") from error


# ---- comparing --------------------------------------------------------------------------------


def parts(array: np.ndarray) -> np.ndarray:
    """Return the parts of complex numbers."""
    return np.stack([array.real, array.imag])


def difference(
    found: Any, wanted: Any, samples: Sequence[Any], is_exact: bool, precision: float = 0.0
) -> str | None:
    """Return the text of a difference that rounding does not explain; None without one. `samples`
    are wanted values of inputs that are changed by their last bits; `precision` is the epsilon of
    the coarsest dtype of the program: cos of an integer is computed in float32."""
    text = judge.difference(found, wanted, judge.EXACT)
    if text is None or is_exact or not isinstance(wanted, np.ndarray):
        return text
    if not isinstance(found, np.ndarray) or found.shape != wanted.shape:
        same = all(np.shape(sample) == wanted.shape for sample in samples)
        return text if same else None
    if found.dtype != wanted.dtype:
        return text
    if any(np.shape(sample) != wanted.shape for sample in samples):
        return None
    if wanted.dtype.kind == "c":  # one part of a number may be infinite
        found, wanted, *samples = map(parts, (found, wanted, *samples))
    rules = tolerance.by_dtype(found, wanted, precision), tolerance.measured(found, wanted, samples)
    with np.errstate(all="ignore"):
        wrong = [verdicts.judge(found, wanted, rule).verdict == "differ" for rule in rules]
    return text if all(wrong) else None


@dataclass
class Case:
    """A mutant that loads, its calls, and what they return."""

    number: int
    pte: bytes
    program: Program
    calls: list[list[Any]]
    plain: Results
    exact: Results
    """Results without passes that change rounding."""
    is_ordered: bool
    """False: kernels that are right may have other results."""
    _samples: list[Results] = field(default_factory=list)

    def samples(self) -> list[Results]:
        """Return results of calls with changed inputs."""
        for draw in range(DRAWS if not self._samples else 0):
            rng = np.random.default_rng([self.number, 3, draw])
            try:
                calls = [nudged(call, rng) for call in self.calls]
                self._samples.append(run(self.program, Way(PLAIN), calls))
            except Stopped:  # a value that a kernel refuses
                self._samples.append([[None] * len(call) for call in self.plain])
        return self._samples

    def precision(self) -> float:
        """Return the epsilon of the coarsest dtype; integers are computed in float32."""
        dtypes = {v.get("dtype") for v in View(self.program, "forward").values} - {None}
        return max((EPSILON.get(str(name), EPSILON["float32"]) for name in dtypes), default=0.0)

    def differing(self, found: Results, is_exact: bool) -> str | None:
        """Return the first difference."""
        wanted = self.exact if is_exact else self.plain
        for c, (outputs, expected) in enumerate(zip(found, wanted, strict=True)):
            if len(outputs) != len(expected):
                return f"call {c}: {len(outputs)} outputs, not {len(expected)}"
            for i, (a, b) in enumerate(zip(outputs, expected, strict=True)):
                if judge.difference(a, b, judge.EXACT) is None:
                    continue
                samples = [] if is_exact else [sample[c][i] for sample in self.samples()]
                if text := difference(a, b, samples, is_exact, self.precision()):
                    return f"call {c}, output {i}: {text}"
        return None


def made(number: int) -> Case:
    """Return a case by its number. Raises Stopped if it is no program that runs."""
    try:
        pte = mutants.mutant(number)
    except Exception as error:  # a number that no file has, in the serializer
        raise Stopped(f"not written: {error}") from error
    rng = np.random.default_rng([number, 2])
    try:
        program = Runtime.get().load_program(pte)
        calls = [inputs_of(program, rng) for _ in range(CALLS)]
    except Error as error:
        raise Stopped(f"{type(error).__name__}: {error}") from error
    plain = run(program, Way(PLAIN), calls)
    rows = program.load_method("forward", **PLAIN).passes()
    passes = [row["name"] for row in rows if row["name"] not in ROUNDING_PASSES]
    exact = run(program, Way({**PLAIN, "passes": passes}), calls)
    return Case(number, pte, program, calls, plain, exact, not depends_on_order(program))


def depends_on_order(program: Program) -> bool:
    """Return True if a call writes memory of its operands under another name: its results depend
    on the order in which a loop goes. No planner assigns memory so."""
    view = View(program, "forward")

    def places(step: Any, wanted: bool) -> Iterator[tuple[int, Any, int, int]]:
        for index, _, role in step.row["args"]:
            for item in view.items(index) or (index,):
                value = view.values[item]
                if value["kind"] == "Tensor" and value.get("arena") and (role == "in") != wanted:
                    at = value["offset"]
                    yield item, value["arena"], at, at + value["nbytes"]

    for step in view.steps:
        if step.row["kind"] != "kernel":
            continue
        for a, arena, begin, end in places(step, True):
            for b, other, first, last in (*places(step, False), *places(step, True)):
                if a != b and arena == other and begin < last and first < end:
                    return True
    return False


# ---- the official runtime ---------------------------------------------------------------------


@dataclass(frozen=True)
class Known:
    """A cause of differences of the official runtime, which a program shows."""

    reason: str
    applies: Callable[[Case], bool]


def operators(case: Case) -> set[str]:
    view = View(case.program, "forward")
    return {step.row.get("name", "") for step in view.steps}


KNOWN = (
    Known(
        "`executorch-c info` says so of the program: inspect/reference.tsv, made by runs of both",
        lambda case: not causes.said_of_official(case.pte).isdisjoint(causes.DIFFERS),
    ),
    Known(
        "elements that are not written are zeros here, and anything there",
        lambda case: any("empty" in name for name in operators(case)),
    ),
    Known(
        "random numbers are of another generator",
        lambda case: any(
            part in name for name in operators(case) for part in ("rand", "dropout", "bernoulli")
        ),
    ),
)


def by_official(process: ways.Official, case: Case) -> Results:
    """Return the official runtime's results. Raises ways.Failed."""
    calls = [[eager.to_torch(v) if isinstance(v, np.ndarray) else v for v in c] for c in case.calls]
    return process.run(case.pte, calls)


# ---- the loop ---------------------------------------------------------------------------------


@dataclass
class Run:
    """Counts, and the findings as (number, way, text)."""

    counts: Counter[str] = field(default_factory=Counter)
    findings: list[tuple[int, str, str]] = field(default_factory=list)

    def finding(self, case: Case | int, way: str, text: str, out: Path | None) -> None:
        number = case if isinstance(case, int) else case.number
        self.findings.append((number, way, text))
        self.counts["findings"] += 1
        print(f"case {number}, {way}: {text}\n  {command(number, way)}", flush=True)
        if out is not None and isinstance(case, Case):
            out.mkdir(parents=True, exist_ok=True)
            (out / f"case-{number}-{way}.pte").write_bytes(case.pte)


def command(number: int, way: str) -> str:
    """Return the command that repeats a case."""
    return f"python -m tests.fuzz --differential --first {number} --cases 1 --against {way}"


def compare_here(result: Run, case: Case, name: str, out: Path | None) -> None:
    way = WAYS[name]
    try:
        found = run(case.program, way, case.calls)
    except Stopped as error:
        if "MemoryError" in str(error) or "MemoryAllocation" in str(error):
            return
        result.finding(case, name, f"{error}, but runs plainly", out)
        return
    result.counts["compared"] += 1
    if text := case.differing(found, way.is_exact):
        result.finding(case, name, text, out)


def compare_official(result: Run, case: Case, process: ways.Official, out: Path | None) -> None:
    try:
        found = by_official(process, case)
    except ways.Failed as error:
        result.counts["official " + str(error).partition(":")[0]] += 1
        return
    result.counts["compared"] += 1
    result.counts["in the official runtime"] += 1
    text = case.differing(found, is_exact=False)
    if not text:
        return
    if any(known.applies(case) for known in KNOWN):
        result.counts["known differences"] += 1
    else:
        result.finding(case, OFFICIAL, text, out)


def run_case(
    result: Run, number: int, against: Sequence[str], process: ways.Official, out: Path | None
) -> None:
    """Run one mutant in all ways."""
    result.counts["executions"] += 1
    try:
        case = made(number)
    except Stopped as error:
        result.counts["not loaded or run"] += 1
        result.counts["of these not written"] += str(error).startswith("not written")
        return
    result.counts["order decides"] += not case.is_ordered
    for name in against:
        if not case.is_ordered and (name == OFFICIAL or not WAYS[name].is_exact):
            continue
        if name == OFFICIAL:
            compare_official(result, case, process, out)
        else:
            compare_here(result, case, name, out)


def shown(counts: Counter[str]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in counts.items())


def main(options: argparse.Namespace) -> int:
    """Run cases until they are done or the time is over; return 1 if there is a finding."""
    result, process = Run(), ways.Official()
    started = shown_at = time.monotonic()
    against = options.against or AGAINST
    number = options.first
    with np.errstate(all="ignore"):
        for number in range(options.first, options.first + options.cases):
            run_case(result, number, against, process, options.out)
            now = time.monotonic()
            if now - shown_at > PROGRESS_SECONDS:
                shown_at = now
                print(f"{number}: {shown(result.counts)}", file=sys.stderr, flush=True)
            if now - started > options.seconds:
                break
    process.close()
    print(f"{shown(result.counts)}; next --first {number + 1}")
    return int(bool(result.findings))
