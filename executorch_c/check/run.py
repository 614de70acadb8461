"""check_model: eager and the program on the same inputs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import InitVar, dataclass, field, replace
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

from executorch_c import _delegation, _extras
from executorch_c._core import MethodMeta, Program, TensorInfo
from executorch_c._delegation import DelegateAtLoad
from executorch_c._input_sets import Source
from executorch_c._programs import method_of
from executorch_c.check import cases as making
from executorch_c.check import by_flow, facts, flows, methods, quantized, sets
from executorch_c.check.case_run import run_case
from executorch_c.check.case_source import CaseSource, InputsOfFile, first_line, flat
from executorch_c.check.cases import CallSequence, leaves, structure_of
from executorch_c.check.coverage import Coverage
from executorch_c.check.engines import ENGINES, OFFICIAL_SECONDS, EngineName, JudgeOutputs, Official
from executorch_c.check.flows import Call, Samples, Subject
from executorch_c.check.judge import Audit, Noise, QuantizedJudge, SqnrJudge
from executorch_c.check.power import Power
from executorch_c.check.reference import Eager
from executorch_c.check.result import CheckedCase, CheckResult, settled_cases
from executorch_c.check.search import InputSearch, seconds_of
from executorch_c._stages import check_fit, stage
from executorch_c.check.variation import Variation, input_names
from executorch_c.compare.arrays import compare
from executorch_c.compare.comparison import Comparison, joined, of_call
from executorch_c.compare.policies import Policies
from executorch_c.compare.requiring import required
from executorch_c.compare.tolerance import CallerTolerances, PerOutput, check_not_negative
from executorch_c.inspect import device
from executorch_c.inspect.structure import view_of
from executorch_c.progress import Progress

if TYPE_CHECKING:
    from executorch_c.bundled import TestCase

MAX_KEPT_BYTES = 1 << 28
"""Bytes of inputs and of the reference's outputs from which further real cases are not kept."""
CALIBRATED = ("example", "real")
"""Cases that calibrated a quantised flow: their SQNR has a minimum."""
STATELESS = "the quantised graph keeps no state: quantising folded buffers that the model changes"
"""Difference of the case "state" of a quantised model."""


@dataclass
class CheckOptions:
    """Arguments of check_model about the comparison. Raises ValueError for a negative tolerance."""

    rtol: InitVar[PerOutput]
    atol: InitVar[PerOutput]
    min_sqnr_db: float | None
    equal_nan: bool
    check_dtype: bool
    kernels: Literal["default", "reference"]
    delegate_at_load: DelegateAtLoad
    engines: tuple[EngineName, ...] = ENGINES
    official_seconds: float = OFFICIAL_SECONDS
    policies: Policies = Policies()
    limits: CallerTolerances = field(init=False)

    def __post_init__(self, rtol: PerOutput, atol: PerOutput) -> None:
        self.limits = CallerTolerances(rtol, atol)
        check_not_negative(official_seconds=self.official_seconds)
        if self.policies and self.min_sqnr_db is not None:
            raise ValueError(
                f"`min_sqnr_db` and `require`: add the requirement 'sqnr_db>={self.min_sqnr_db:g}'"
            )

    def official(self, program: Any) -> Official:
        """Return the official runtime's side, which starts now, for a program or flow."""
        official = Official("official" in self.engines, self.official_seconds)
        official.start(program)
        return official


class Check:
    """One check_model: a subject, its reference, and the cases one by one."""

    def __init__(
        self,
        subject: Subject,
        eager: Eager,
        method: str,
        options: CheckOptions,
        example: Call,
        official: Official,
        exporter: Callable[[], Any] = lambda: None,
    ) -> None:
        self.subject, self.eager, self.example, self.options = subject, eager, example, options
        self.official = official
        program = subject.program
        self.loaded = method_of(program, method, options.kernels, options.delegate_at_load)
        self.meta: MethodMeta = self.loaded.metadata
        name = self.meta.name()
        self.view = view_of(program, name) if isinstance(program, Program) else None
        """The program's method; None of a loaded one, or of too many instructions."""
        self.sides = quantized.sides_of(subject, eager, name, self.view, exporter)
        self.oracle = self.sides.oracle
        self.structure = structure_of(example)
        count = len(leaves(example))
        if self.meta.num_inputs() != count:
            raise ValueError(
                f"method '{self.meta.name()}' takes {self.meta.num_inputs()} inputs, the example "
                f"has {count}"
            )
        tolerances = {"equal_nan": options.equal_nan, "check_dtype": options.check_dtype}
        self.judge = self.sides.judge(
            subject, name, options.limits, options.min_sqnr_db, self._audit, **tolerances
        )
        self._case: CallSequence | None = None
        self.sequence: tuple[Call, ...] = ()
        """Calls of the case "state"."""
        if not subject.quantizes and self.loaded.attribute_names:
            known = set(self.loaded.attribute_names)
            self.oracle.watched = tuple(name for name in self.changed if name in known)
            if self.sides.floats is not None:
                self.sides.floats.watched = self.oracle.watched
        self.coverage = Coverage(self.view, self.loaded)
        self.variation = Variation(input_names(eager.model, example))
        self.compared: list[tuple[CallSequence, CheckedCase, list[list[Any]]]] = []
        """Cases, and the outputs of the reference."""
        self._kept_bytes = 0
        self.start = time.thread_time()
        official.open(subject.opened, self.loaded)

    def limits(self) -> list[tuple[int, ...] | None]:
        """Return the largest sizes of each dynamic input that the program has room for."""
        return [
            info.shape if isinstance(info, TensorInfo) and info.is_dynamic else None
            for _, info in self.meta.inputs
        ]

    @cached_property
    def changed(self) -> list[str]:
        """Names of the reference's buffers that a call changes."""
        return self.oracle.changed_buffers(self.example)

    def ours(self, calls: Sequence[Sequence[Any]], watched: Sequence[str] = ()) -> list[list[Any]]:
        """Return the program's outputs of each call, from a fresh state, then buffers by name."""
        self.loaded.reset()
        results = []
        for inputs in calls:
            outputs = self.loaded.execute(list(inputs))
            state = [self.loaded.get_attribute(name).copy() for name in watched]
            results.append([*outputs, *state])
        return results

    def run(self, case: CallSequence) -> CheckedCase:
        """Run both sides of one case. Raises eager's exceptions on inputs of the user's."""
        result = self._run(case)
        if case.refused is None or result.ok:
            return result
        why = f"the exported program does not allow it: {case.refused}"
        return CheckedCase(case.kind, case.about, result.inputs, None, skipped=why)

    def _run(self, case: CallSequence) -> CheckedCase:
        """Run both sides of one case, whatever the export allows."""
        inputs = tuple(flat(call) for call in case.calls)
        try:
            with stage("eager", self.eager.model):
                expected = self.oracle.known(case.calls)
        except Exception as error:
            if (simpler := self._simpler(case)) is not None:
                return self._run(simpler)
            if case.kind not in ("edge", "random", "search"):
                raise
            why = f"eager raises {type(error).__name__}: {first_line(error)}"
            return CheckedCase(case.kind, case.about, inputs, None, skipped=why)
        floats = self.sides.floats(case.calls) if self.sides.floats is not None else None
        noise = self._noise(case)
        self.judge.unordered = cache(partial(sets.unordered, self.oracle, case.calls))
        judged = partial(self._judged, case, expected, floats, noise)

        def judge(actual: list[list[Any]]) -> CheckedCase:
            self.coverage.see(inputs)
            self._case = case
            if case.kind == "state":
                self.sequence = case.calls
            with stage("compare"):
                row = self._compared(case, inputs, actual, expected, floats, noise)
            row = self._kept(case, row, expected)
            assert row.comparison is not None
            if case.kind == "state" and floats is not None and not self.changed:
                row = replace(row, comparison=replace(row.comparison, problem=STATELESS))
            return replace(row, official=self.official.end(actual, row.comparison, judged))

        return self._in_both(case, inputs, self.oracle.watched, judge, judged)

    def _kept(self, case: CallSequence, row: CheckedCase, expected: list[list[Any]]) -> CheckedCase:
        """Keep a case for the measurement of power: of many real ones that match, the first. Return
        its row; the row of another case has no inputs, which are read again from its file."""
        values = [value for each in (*row.inputs, *expected) for value in each]
        self._kept_bytes += sum(getattr(value, "nbytes", 0) for value in values)
        if case.kind != "real" or not row.ok or self._kept_bytes <= MAX_KEPT_BYTES:
            self.compared.append((case, row, expected))
            return row
        if case.again is None:
            return row
        return replace(row, inputs=InputsOfFile(case.again, row.inputs))

    def _in_both(
        self,
        case: CallSequence,
        inputs: Sequence[tuple[Any, ...]],
        watched: Sequence[str],
        judge: Callable[[list[list[Any]]], CheckedCase],
        judged: JudgeOutputs,
    ) -> CheckedCase:
        """Run a case in both engines, and return its row: that of `judge`, or the error's."""

        def fail(error: Exception) -> CheckedCase:
            theirs = self.official.end(None, None, judged)
            return CheckedCase(
                case.kind, case.about, tuple(inputs), None, error=error, official=theirs
            )

        begin = partial(self.official.begin, inputs, watched)
        return run_case(begin, partial(self.ours, inputs, watched), judge, fail)

    def _simpler(self, case: CallSequence) -> CallSequence | None:
        """Return a case to run instead of one in which eager raises: the calls before that, such
        as those before the end of a cache, or numbers like the example's; None if there is none."""
        done = len(self.oracle.completed)
        if case.kind == "state" and (done > 1 or (done and case.fallback is None)):
            return replace(case, about=f"{done} calls", calls=case.calls[:done])
        if case.fallback is not None:
            return replace(case, calls=case.fallback(), fallback=None)
        return None

    def _compared(
        self,
        case: CallSequence,
        inputs: tuple[tuple[Any, ...], ...],
        actual: list[list[Any]],
        expected: list[list[Any]],
        floats: list[list[Any]] | None,
        noise: Noise,
    ) -> CheckedCase:
        """Return a case with the comparison of all calls; `floats` are the outputs of the model
        without quantisation, if the reference is a quantised graph."""
        parts, to_float, ours, theirs = [], list[Comparison](), list[Any](), list[Any]()
        for i, (outputs, wanted) in enumerate(zip(actual, expected)):
            outputs, wanted, self.judge.names = _without_none(outputs, wanted, self.oracle.names)
            self.judge.limits.check_names(self.judge.names)
            self.options.policies.check_names(self.judge.names)
            noise_of_call = partial(_call_of, noise, i)
            if floats is None:
                part = self._one(case, i, outputs, wanted, noise_of_call)
            else:
                part = self._quantized(case, i, outputs, wanted, floats[i], noise_of_call)
            part = self._required(case, part, outputs, wanted if floats is None else floats[i])
            parts.append(part if len(actual) == 1 else of_call(part, i + 1))
            if floats is not None and self.subject.quantizes:
                to_float.append(compare(outputs, floats[i], check_dtype=False))
            self.variation.see(inputs[i], wanted, parts[-1], exact=self.sides.kind != "float")
            ours += outputs
            theirs += wanted
        comparison = joined(parts)
        return CheckedCase(
            case.kind,
            case.about,
            inputs,
            comparison,
            to_float=joined(to_float) if to_float else None,
            actual=() if comparison.ok else tuple(ours),
            expected=() if comparison.ok else tuple(theirs),
        )

    def _noise(self, case: CallSequence) -> Noise:
        """Return a function that runs the reference with random rounding, each run once."""

        @cache
        def run(epsilon: float, seed: int) -> Any:
            return self.oracle.noise(case.calls, epsilon, [seed]) if case.calls else None

        def noise(epsilon: float, count: int) -> Any:
            samples = []
            for seed in range(count):
                if (runs := run(epsilon, seed)) is None:
                    return None
                samples += runs
            return samples

        return noise

    def _judged(
        self,
        case: CallSequence,
        expected: list[list[Any]],
        floats: list[list[Any]] | None,
        noise: Noise,
        actual: list[list[Any]],
    ) -> Comparison:
        """Return the comparison of all calls of another engine."""
        parts = []
        for i, (outputs, wanted) in enumerate(zip(actual, expected)):
            outputs, wanted, self.judge.names = _without_none(outputs, wanted, self.oracle.names)
            runs = partial(_call_of, noise, i)
            part = (
                self._one(case, i, outputs, wanted, runs, is_audited=False)
                if floats is None
                else self._quantized(case, i, outputs, wanted, floats[i], runs, is_audited=False)
            )
            model = wanted if floats is None else floats[i]
            parts.append(self._required(case, part, outputs, model))
        return joined(parts)

    def _required(
        self, case: CallSequence, part: Comparison, actual: list[Any], expected: list[Any]
    ) -> Comparison:
        """Return the comparison of one call with the verdicts of requirements, which are about the
        model: of a quantised program on the inputs that it is made for."""
        is_quantized = isinstance(self.judge, (QuantizedJudge, SqnrJudge))
        if is_quantized and case.kind not in (*CALIBRATED, "bundled"):
            return part
        return required(part, actual, expected, self.options.policies)

    def _one(
        self,
        case: CallSequence,
        number: int,
        actual: list[Any],
        expected: list[Any],
        noise: Noise,
        is_audited: bool = True,
    ) -> Comparison:
        """Return the comparison of one call with the model's, which is not a quantised graph."""
        comparison = self.judge(actual, expected, noise)
        if not isinstance(self.judge, SqnrJudge) or case.kind == "bundled":
            return comparison
        if case.kind not in CALIBRATED:
            return self.judge.uncalibrated(comparison)
        return self.judge.calibrated(comparison, number) if is_audited else comparison

    def _quantized(
        self,
        case: CallSequence,
        number: int,
        actual: list[Any],
        expected: list[Any],
        floats: list[Any],
        noise: Noise,
        is_audited: bool = True,
    ) -> Comparison:
        """Return the comparison of one call with the quantised graph's, and of a flow's with the
        float model's."""
        assert isinstance(self.judge, QuantizedJudge)
        comparison = self.judge.against_graph(actual, expected, floats, number, noise, is_audited)
        if case.kind in CALIBRATED and self.subject.quantizes:
            comparison = self.judge.against_float(comparison, actual, floats, expected)
        return comparison

    def _audit(self, call: int) -> Audit:
        """Return the finding of `explain` for a call of the present case: the program's layers
        against the reference's."""
        from executorch_c.check import finding

        assert self._case is not None
        calls = self._case.calls[: call + 1]
        method = _delegation.separately(self.loaded)
        try:
            report = finding.compared(
                method, self.oracle.model, self.subject.source, calls, self.structure
            )
        except Exception as error:
            if self.sides.is_graph:
                raise
            why = f"{type(error).__name__}: {first_line(error)}"
            self.subject.notes.append(f"layers are not compared with the float model's: {why}")
            return Audit("match", why)
        finally:
            self.loaded.reset()
        if not self.sides.is_graph:
            return quantized.audit_of(report)
        return Audit(report.verdict, report.summary())

    def bundled(self, method: str) -> Iterator[CheckedCase]:
        """Run the test cases of a .bpte, and compare with its expected outputs."""
        cases = [] if self.subject.bundled is None else self.subject.bundled.cases
        yield from (self._bundled(test) for test in cases if test.method == method)

    def _bundled(self, test: TestCase) -> CheckedCase:
        case = CallSequence("bundled", str(test.index), ())
        inputs, expected = (test.inputs,), [list(test.expected)]
        judged = partial(self._judged, case, expected, None, self._noise(case))

        def judge(actual: list[list[Any]]) -> CheckedCase:
            if not test.expected:
                nothing = Comparison((), reason="the test case has no expected outputs")
                theirs = self.official.end(actual, nothing, lambda _: nothing)
                return CheckedCase(case.kind, case.about, inputs, nothing, official=theirs)
            row = self._compared(case, inputs, actual, expected, None, self._noise(case))
            return replace(row, official=self.official.end(actual, row.comparison, judged))

        return self._in_both(case, inputs, (), judge, judged)


def _without_none(
    ours: list[Any], theirs: list[Any], names: Sequence[str | None]
) -> tuple[list[Any], list[Any], Sequence[str | None]]:
    """Return the outputs of both sides without eager's None outputs, if the program omits them,
    and a name, or None, for each."""
    if len(names) != len(theirs):
        names = [None] * len(theirs)
    some = [i for i, value in enumerate(theirs) if value is not None]
    if len(ours) == len(some) != len(theirs):
        return ours, [theirs[i] for i in some], [names[i] for i in some]
    return ours, theirs, names


def _call_of(noise: Noise, call: int, epsilon: float, count: int) -> Any:
    """Return the outputs of one call, of each run of several calls."""
    runs = noise(epsilon, count)
    return None if runs is None else [run[call] for run in runs]


def _require_deterministic(eager: Eager, example: Call) -> None:
    """Raise ValueError if two runs of eager differ."""
    first, [second] = eager.first(example), eager([example])
    if compare(first, second).verdict == "differ" and eager.copies.is_restored:
        eager.copies.is_restored = False  # by a state that nothing restores
        first, [second] = eager.first(example), eager([example])
    if compare(first, second).verdict == "differ":
        raise ValueError(
            "outputs of the model differ between two equal calls with the example (is it in "
            "training mode, with dropout? random operators?): nothing can be compared with it"
        )


def check_model(
    model: Any,
    inputs: Any,
    flow: Any,
    *,
    program: Any,
    dynamic_shapes: Any,
    n_random: int,
    real_inputs: Source,
    search: bool | float,
    method: str,
    data_path: Any,
    seed: int,
    progress: bool | None,
    options: CheckOptions,
) -> CheckResult:
    """Run executorch_c.testing.check_model, whose docstring has the arguments."""
    check_not_negative(n_random=n_random, search=search)
    _extras.require("check_model", "torch", "executorch")
    start = time.perf_counter()
    module, exported, remark = methods.reference(model, method)
    if exported is not None and dynamic_shapes is not None:
        raise ValueError("`dynamic_shapes` is for modules: an ExportedProgram has its own")
    example = making.example_of(inputs, exported)
    real = making.real_cases(real_inputs, example, module)
    eager = Eager(module)
    with stage("eager", module):
        _require_deterministic(eager, example)
    exporter = partial(by_flow.export_of, module, exported, example, dynamic_shapes)
    official = options.official(flow if program is None else program)
    with Progress("check", progress) as say, closing(official):
        with stage("lower" if program is None else "load", module):
            samples = Samples(example, real.calls)
            about_program = {"method": method, "data_path": data_path, "say": say}
            subject = flows.subject(
                flow,
                program,
                exporter,
                dynamic_shapes=dynamic_shapes,
                samples=samples,
                **about_program,
            )
        subject.complete(exported, remark)
        with stage("load", module):
            check = Check(subject, eager, method, options, example, official, exporter)
            if program is not None:
                check_fit(check.meta, flat(example))
        source = CaseSource(check, real, n_random, seed)
        return _result(check, source, _cases(check, source, say, seconds_of(search)), model, start)


def _cases(
    check: Check, source: CaseSource, say: Callable[[str], None], seconds: float
) -> Iterator[CheckedCase]:
    """Run all cases: those of the source, calls in a row of a model with state, those of a .bpte,
    and those that a search finds in some seconds."""
    for case in source:
        say(f"{case.kind} {case.about}")
        yield check.run(case)
    if source.stateful:
        say("several calls in a row")
        yield check.run(source.state())
    yield from check.bundled(check.meta.name())
    if seconds:
        search = InputSearch(check, source, seconds)
        yield from search.cases(say)
        check.subject.notes.append(search.note())


def _power(check: Check) -> Power:
    """Return what the cases would have found by tolerance, unless one differs."""
    from executorch_c.check import perturbing, sensitivity
    from executorch_c.check.judged import CheckedCases

    if not all(case.ok for _, case, _ in check.compared):
        return Power(reason="the program differs")
    if check.options.policies:
        return Power(reason="requirements decide")
    checked = CheckedCases(
        check.compared,
        frozen=check.changed,
        names=check.variation.names,
        unvaried=tuple(check.variation.unvaried()),
        seconds=max(
            sensitivity.MIN_SECONDS, sensitivity.TIME_SHARE * (time.thread_time() - check.start)
        ),
    )
    if check.sides.is_graph:
        return perturbing.measure(check.sides, checked)
    return sensitivity.measure(check.eager, checked)


def _result(
    check: Check, source: CaseSource, cases: Iterator[CheckedCase], model: Any, start: float
) -> CheckResult:
    subject, method = check.subject, check.meta.name()
    remarks = [] if check.view is None else device.of_view(check.view)
    result = CheckResult(
        label=subject.label,
        method=method,
        cases=settled_cases(list(cases)),
        notes=tuple(facts.notes_of(check, source, model, remarks)),
        findings=tuple(remarks),
        facts=facts.facts_of(check, time.perf_counter() - start, source.seed),
        program=subject.program,
        reference=check.oracle.model,
        model=check.eager.model,
        exported=subject.source,
        structure=check.structure,
        kernels=check.options.kernels,
        delegate_at_load=bool(_delegation.delegated_calls(check.loaded)),
        constant=check.variation.blind(),
        power=_power(check),
        engines=check.options.engines,
    )
    result.set_origins(program=subject.origin)
    return result
