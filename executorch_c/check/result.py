"""The result of check_model: a row for each case."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from executorch_c._names import visible
from executorch_c._render import text as _text
from executorch_c._render.figures import NothingToDraw
from executorch_c.check import engines as _engines
from executorch_c.check import report
from executorch_c.check.engines import EngineCase, EngineName, OfficialRun
from executorch_c.check.power import Power
from executorch_c._stages import notes_of
from executorch_c.compare import cases as _cases
from executorch_c.compare import policies as _policies
from executorch_c.compare import verdicts
from executorch_c.compare.comparison import FIGURES, Comparison, OutputComparison, joined, number
from executorch_c.compare.drawn import DrawnOutput, DrawsOutputs, drawn_output
from executorch_c.compare.requiring import settled
from executorch_c.compare.verdicts import Verdict
from executorch_c.report import JudgedReport

if TYPE_CHECKING:
    from executorch_c._core import Method, Program
    from executorch_c._render.html import Markup
    from executorch_c._types import FilePath
    from executorch_c.check.ladder import Ladder
    from executorch_c.debug.report import ErrorReport
    from executorch_c.inspect.device import Remark

HEAD = ("case", "", "inputs", "verdict", "official", *FIGURES, "SQNR dB")
OPTIONAL = ("ulp", "max rel", "inputs", "cosine", "argmax")
"""Columns that narrow tables omit, in this order."""


@dataclass(frozen=True)
class CheckedCase(EngineCase):
    """One case: calls from the initial state, and their comparison."""

    kind: str
    """"example", "random", "edge" (a shape at the bounds), "real", "state" (calls in a row) or
    "bundled" (a test case of a .bpte)."""
    about: str
    """Number of the case, or the sizes of an edge shape."""
    inputs: Sequence[tuple[object, ...]]
    """Inputs of each call, in the program's order; of many files, those of the last are read again
    when they are used."""
    comparison: Comparison | None
    """Comparison of the outputs of all calls; None without outputs."""
    error: Exception | None = None
    """Exception of the program, if eager raises none."""
    skipped: str | None = None
    """Reason of a skipped case: eager raises for these inputs."""
    to_float: Comparison | None = None
    """Comparison with the float model, for the SQNR; quantised flows only. The case's verdict
    does not depend on it."""
    actual: tuple[object, ...] = field(default=(), repr=False)
    """Outputs that do not match."""
    expected: tuple[object, ...] = field(default=(), repr=False)
    official: OfficialRun | None = None
    """The case in the official runtime; None if that was not asked for, or the case skipped."""

    @property
    def verdict(self) -> Literal["match", "differ", "inconclusive", "error", "skipped"]:
        """The verdict on this runtime's outputs; "error": it raised, "skipped": eager did."""
        if self.skipped is not None:
            return "skipped"
        if self.error is not None:
            return "error"
        return "inconclusive" if self.comparison is None else self.comparison.verdict

    @property
    def ok(self) -> bool:
        """False if the program is wrong or raises, here or in the official runtime; True for an
        inconclusive case."""
        return self.ok_here and (self.official is None or self.official.ok)

    @property
    def name(self) -> str:
        """ "random 2", "edge x.shape[0]=1"."""
        return f"{self.kind} {self.about}".rstrip()

    def worst(self) -> OutputComparison | None:
        """Return the output with the largest error; of equal ones, the first."""
        return None if self.comparison is None else self.comparison.worst()

    def badness(self) -> tuple[int, float]:
        """Return a key that orders cases by error, the largest last."""
        if self.comparison is None:
            return (2 if self.error is not None else 0), -math.inf
        return (0 if self.ok else 1), self.comparison.noise_db()

    def problems(self) -> list[str]:
        """Return a sentence for each error."""
        if self.error is not None:
            return [f"{type(self.error).__name__}: {self.error}", *notes_of(self.error)]
        if self.skipped is not None:
            return [self.skipped]
        return [] if self.comparison is None else self.comparison.problems()

    def shapes(self) -> str:
        """Return "(1, 3), (4,)": shapes of the first call."""
        shapes = getattr(self.inputs, "shapes", None) or [
            [getattr(value, "shape", None) for value in call] for call in self.inputs
        ]
        first = shapes[0] if shapes else ()
        text = ", ".join(_text.shape(shape) for shape in first if shape is not None)
        return text + (f" x {len(self.inputs)} calls" if len(self.inputs) > 1 else "")

    def row(self) -> list[str]:
        """Return the cells of a row under HEAD: figures of the worst output."""
        worst = self.worst()
        figures = worst.row()[-len(FIGURES) :] if worst is not None else [""] * len(FIGURES)
        known = [o.metrics.snr_db for o in _outputs(self.to_float) if o.metrics is not None]
        to_float = number(min(known)) if known else ""
        official = "" if self.official is None else self.official.verdict
        return [self.kind, self.about, self.shapes(), self.verdict, official, *figures, to_float]


def _outputs(comparison: Comparison | None) -> tuple[OutputComparison, ...]:
    return () if comparison is None else comparison.outputs


def settled_cases(cases: Sequence[CheckedCase]) -> tuple[CheckedCase, ...]:
    """Return cases with requirements on shares (top5) decided by the rows of all, of each
    engine."""
    ours = _settled([case.comparison for case in cases])
    theirs = _settled(
        [None if case.official is None else case.official.comparison for case in cases]
    )
    results = []
    for case, here, there in zip(cases, ours, theirs):
        official = case.official
        if official is not None and there is not None:
            official = replace(official, verdict=there.verdict, comparison=there)
        results.append(replace(case, comparison=here, official=official))
    return tuple(results)


def _settled(parts: Sequence[Comparison | None]) -> list[Comparison | None]:
    known = iter(settled([part for part in parts if part is not None]))
    return [None if part is None else next(known) for part in parts]


class CheckError(AssertionError):
    """The program differs from its model; `result` is the CheckResult."""

    def __init__(self, result: CheckResult) -> None:
        super().__init__(str(result))
        self.result = result


@dataclass(frozen=True)
class CheckResult(DrawsOutputs, JudgedReport[CheckedCase]):
    """All cases of a check. Prints as a table, in a notebook too; bool() is `ok`."""

    ROWS = "cases"

    label: str
    """Name of the flow, or kind of the program."""
    method: str
    cases: tuple[CheckedCase, ...]
    notes: tuple[str, ...]
    """Remarks: cases that were left out, warnings."""
    facts: dict[str, str]
    """Facts about the check by name: for reports."""
    program: Program | Method = field(repr=False)
    reference: Any = field(repr=False)
    """The reference: a module, or the quantised graph."""
    model: Any = field(default=None, repr=False)
    """The float model."""
    exported: Any = field(default=None, repr=False)
    """The ExportedProgram that was lowered, if known."""
    structure: Any = field(default=None, repr=False)
    """Structure of the model's positional and keyword arguments (torch's TreeSpec)."""
    kernels: Literal["default", "reference"] = "default"
    delegate_at_load: bool = False
    """True if operators were delegated at load."""
    constant: str = ""
    """Reason why no case is decisive although its outputs match: no input changes them; or
    empty."""
    power: Power = field(default=Power(), repr=False)
    """What the cases would have found, and what they did not test."""
    findings: tuple[Remark, ...] = ()
    """Differences of the official runtime, and reads of values that nothing writes."""
    engines: tuple[EngineName, ...] = ("here",)
    """Engines that ran the cases: this runtime and, perhaps, the official one."""

    @property
    def verdict(self) -> Verdict | Literal["error"]:
        """ "match", "differ", "error" if only the official runtime fails, by refusing the program
        or its inputs; or "inconclusive" if no case is decisive, or if the program reads a value
        that nothing writes: it matches by chance."""
        if self.failures:
            others = [case.official for case in self.failures if case.ok_here]
            refused = all(run is not None and run.verdict == "error" for run in others)
            return "error" if refused and len(others) == len(self.failures) else "differ"
        if self.constant or self.is_undefined:
            return "inconclusive"
        return verdicts.combined("match" for case in self.cases if case.verdict == "match")

    @property
    def is_undefined(self) -> bool:
        """True if the program reads a value that nothing writes."""
        return any(one.is_undefined for one in self.findings)

    @property
    def has_real_inputs(self) -> bool:
        """True if a case has inputs of the caller's, other than the example, or of a .bpte."""
        return any(case.kind in ("real", "bundled") for case in self.cases)

    @property
    def failures(self) -> tuple[CheckedCase, ...]:
        """Cases that differ or fail, in any engine."""
        return tuple(case for case in self.cases if not case.ok)

    def summary(self) -> str:
        """Return the finding in one line."""
        counts = Counter(case.verdict for case in self.cases)
        run = len(self.cases) - counts["skipped"]
        bad = counts["differ"] + counts["error"]
        if bad:
            verdict = f"{bad} of {_text.plural(run, 'case')} differ"
        elif self.is_undefined:
            verdict = (
                f"inconclusive: {_text.plural(counts['match'], 'case')} match by chance, "
                "the program reads a value that nothing writes"
            )
        elif counts["match"] and not self.constant:
            verdict = f"{_text.plural(counts['match'], 'case')} match"
            verdict += "" if self.has_real_inputs else ", on the example and random inputs only"
        else:
            verdict = f"inconclusive: none of {_text.plural(run, 'case')} is decisive"
        for name in ("inconclusive", "skipped"):
            if counts[name] and not verdict.startswith(name):
                verdict += f", {counts[name]} {name}"
        verdict += _engines.summary(self.cases)
        verdict += _policies.beside(self.by_default())
        return f"{verdict} ({self.label}, method '{visible(self.method)}')"

    def by_default(self) -> Verdict | None:
        """Return the verdict by tolerances on this runtime's outputs; None without requirements."""
        return _cases.by_default(case.comparison for case in self.cases)

    def requirements(self) -> list[_policies.Row]:
        """Return a row for each requirement and output: the worst value of all cases, or the share
        in all of them."""
        return _cases.requirements((case.name, case.comparison) for case in self.cases)

    def hint(self) -> str:
        """Return the next step for the user; empty if all cases match."""
        if self.verdict == "inconclusive" and not (self.is_undefined or self.constant):
            return (
                "Add `real_inputs`: calls on data that the model is made for, whose outputs "
                "differ by more than rounding"
            )
        if self.ok or all(case.ok_here for case in self.cases):
            return ""
        return (
            "The first divergence: result.explain(), or executorch_c.devtools.explain("
            "model, inputs, program=program)"
        )

    def head(self) -> tuple[str, ...]:
        """Return the column names of `CheckedCase.row`; empty for columns without figures."""
        quantised = any(case.to_float is not None for case in self.cases)
        return HEAD if quantised else (*HEAD[:-1], "")

    def remarks(self, hint: bool = True) -> list[str]:
        """Return sentences: errors of the first cases that fail, skipped cases, notes, and the
        next step."""
        bad, lines = [case for case in self.cases if not case.ok_here], list[str]()
        for case in bad[: report.MAX_SHOWN_CASES]:
            lines += [f"{case.name}: {problem}" for problem in case.problems()]
        if len(bad) > report.MAX_SHOWN_CASES:
            lines.append(
                f"... and {len(bad) - report.MAX_SHOWN_CASES} more: result.failures has them"
            )
        lines += [
            f"{case.name} {case.verdict}: {problem}"
            for case in self.cases
            if case.verdict in ("skipped", "inconclusive")
            for problem in case.problems()
        ]
        lines += filter(None, [self.constant])
        lines += self._blind()
        lines += self._unresolved()
        lines += [] if self.failures else self.power.lines()
        lines += _engines.remarks(self.cases)
        lines += [f"note: {note}" for note in self.notes]
        return [*lines, *filter(None, [self.hint() if hint else ""])]

    def _blind(self) -> list[str]:
        """Return sentences about outputs that are inconclusive in every case."""
        decided: dict[int, bool] = {}
        why: dict[int, str] = {}
        for case in self.cases:
            for output in _outputs(case.comparison):
                decided[output.index] = (
                    decided.get(output.index, False) or output.verdict != "inconclusive"
                )
                why.setdefault(output.index, output.reason)
        if not any(decided.values()):
            return []  # in the sentence of each case
        return [
            f"output {index} is inconclusive in every case: {why[index]}"
            for index, known in decided.items()
            if not known
        ]

    def _unresolved(self) -> list[str]:
        """Return a note for each output with parts that were not compared: of its first case."""
        notes: dict[int, str] = {}
        for case in self.cases:
            for output in _outputs(case.comparison):
                if output.note:
                    notes.setdefault(output.index, f"note: {case.name}: {output.remark()}")
        return list(notes.values())

    def rows(self) -> list[list[str]]:
        """Return the cells of a row for each case; without the official runtime's verdicts, if it
        ran none."""
        return _engines.shown_verdicts(HEAD, [case.row() for case in self.cases])

    def table(self) -> str:
        """Return a row for each case as text: figures of its worst output; of many cases those
        with the largest errors."""
        shown = _cases.worst_of(self.cases)
        rows = _engines.shown_verdicts(HEAD, [case.row() for case in shown])
        table = _text.table(rows, self.head(), width=_text.width(), optional=OPTIONAL)
        return "\n".join([table, *_cases.left_out(len(shown), len(self.cases))])

    def __str__(self) -> str:
        return self.text()

    def text(self, hint: bool = True) -> str:
        """Return the finding, the tables and remarks; with the next step in Python, or without."""
        tables = [self.table(), *filter(None, [_policies.text_table(self.requirements())])]
        remarks = map(_text.wrapped, self.remarks(hint))
        return "\n".join([_text.wrapped(self.summary()), *tables, *remarks])

    def __repr__(self) -> str:
        return f"<executorch_c.testing.CheckResult: {self.summary()}>"

    def _drawn(self, output: int | None = None, case: CheckedCase | None = None) -> DrawnOutput:
        """Return an output to draw: of an index, or the one with the largest error; of a case,
        by default `worst_case()`. A case that matches runs again."""
        from executorch_c.check import keeping

        case = case or self.worst_case()
        if case.comparison is None:
            raise NothingToDraw(f"no outputs of {case.name}: {'; '.join(case.problems())}")
        actual, expected = case.actual, case.expected
        if not actual:
            actual = tuple(keeping.outputs_of(self, case))
            expected = tuple(keeping.expected_of(self, case))
        return drawn_output(case.comparison, actual, expected, output, case.name)

    def _repr_html_(self) -> str:
        return report.fragment(self)

    def heading(self) -> str:
        """Return the heading of its page."""
        return f"Check of {self.label}"

    def problems(self) -> list[str]:
        """Return a sentence for each error, and notes."""
        return self.remarks()

    def sections(self) -> Iterator[Markup]:
        """Yield the parts of its page after the finding: the cases, what was checked, and each
        case, those that differ first."""
        return report.sections(self)

    def as_dict(self) -> dict[str, Any]:
        """Return {"verdict", "ok", "engines", "facts", "notes", "power", "cases": [{"kind",
        "about", "verdict", "official", "figures", ...}]}."""
        cases = [
            {
                "kind": case.kind,
                "about": case.about,
                "inputs": case.shapes(),
                "verdict": case.verdict,
                "problems": case.problems(),
                "official": None if case.official is None else case.official.as_dict(),
                "figures": {} if case.comparison is None else case.comparison.figures(),
            }
            for case in self
        ]
        return {
            "verdict": self.verdict,
            "ok": self.ok,
            "engines": list(self.engines),
            "inputs": "real" if self.has_real_inputs else "random",
            "facts": self.facts,
            "notes": list(self.notes),
            "by_default": self.by_default(),
            "requirements": [asdict(row) for row in self.requirements()],
            "power": self.power.as_dict(),
            "cases": cases,
        }

    def rows_as_dicts(self) -> list[dict[str, object]]:
        """Return a row for each case: kind, inputs, verdict, the worst figures of its outputs."""
        return [
            {
                "case": case.kind,
                "about": case.about,
                "inputs": case.shapes(),
                "verdict": case.verdict,
                "why": "; ".join(case.problems()),
                "official": "" if case.official is None else case.official.verdict,
                **({} if case.comparison is None else case.comparison.figures()),
            }
            for case in self
        ]

    def raise_if_wrong(self) -> CheckResult:
        """Raise CheckError (an AssertionError with the table) unless the verdict is "match"; return
        the result itself. Parts of outputs that were not compared are warnings."""
        if not self.ok:
            __tracebackhide__ = True  # pytest shows the line of the test
            raise CheckError(self)
        for note in self._unresolved():
            warnings.warn(note, stacklevel=2)
        return self

    def figures(self) -> dict[str, float | int | str]:
        """Return the worst figures of all cases, for JUnit and other logs: counts, largest absolute
        and relative difference, ULP, least SNR (dB) and cosine."""
        figures: dict[str, float | int | str] = {
            "cases": len(self.cases),
            "failures": len(self.failures),
            "program": self.label,
        }
        return figures | joined(self._comparisons()).figures()

    def _comparisons(self) -> list[Comparison]:
        return [case.comparison for case in self.cases if case.comparison is not None]

    def explain(self, case: CheckedCase | None = None, **options: Any) -> ErrorReport:
        """Return the report of `devtools.explain` for a case, by default the first that is wrong.

        Of several calls in a row the first that differs is explained, after both sides have run
        those before it.
        The reference is that of the check: of quantised flows the quantised graph.

        Args:
            case: A case of this result.
            options: As for `devtools.explain`, without program, model and inputs.

        Raises ValueError without a case if none failed, and exceptions of the program.
        """
        from executorch_c.check import finding

        return finding.explain(self, self._case_of(case), options)

    def ladder(self, case: CheckedCase | None = None) -> Ladder:
        """Return the steps from the model to the program for a case (by default the first that is
        wrong, or the first): eager, exported, decomposed, quantised, lowered, delegated, each with
        its verdict and SQNR."""
        from executorch_c.check import finding

        wrong = any(not one.ok_here for one in self.cases)
        selected = self._case_of(case) if wrong else case or self.cases[0]
        return finding.ladder(self, selected)

    def worst_case(self) -> CheckedCase:
        """Return the case that differs most in this runtime; without one, the first that fails in
        any way, or the first of all. Raises ValueError without cases."""
        if not self.cases:
            raise ValueError("the check has no cases")
        wrong = [case for case in self.failures if not case.ok_here]
        sized = [case for case in wrong if case.worst()]
        if sized:
            return max(sized, key=lambda case: case.badness())
        return next(iter(wrong or self.failures or self.cases))

    def save_program(self, path: FilePath) -> None:
        """Write the program. Raises ValueError for one that was loaded by the caller."""
        from executorch_c.check import keeping

        keeping.save_program(self, path)

    def save_inputs(self, path: FilePath, case: CheckedCase | None = None) -> None:
        """Write the inputs of a case (default: `worst_case()`) as .npz: input_0, input_1, ... in
        the program's order; of calls in a row, those of the first that differs."""
        from executorch_c.check import keeping

        keeping.save_inputs(case or self.worst_case(), path)

    def save_outputs(self, path: FilePath, case: CheckedCase | None = None) -> None:
        """Write the program's outputs for a case, as `save_inputs`: output_0, output_1, ...

        Raises ValueError for a case that the program does not compute.
        """
        from executorch_c.check import keeping

        keeping.save_outputs(self, case or self.worst_case(), path)

    def save_expected(self, path: FilePath, case: CheckedCase | None = None) -> None:
        """Write eager's outputs for a case, as `save_outputs` with the same names."""
        from executorch_c.check import keeping

        keeping.save_expected(self, case or self.worst_case(), path)

    def _case_of(self, case: CheckedCase | None) -> CheckedCase:
        """Return a case, or the first that is wrong. Raises ValueError if none is."""
        bad = [case for case in self.failures if not case.ok_here]
        case = case or next(iter([one for one in bad if one.error is None] or bad), None)
        if case is None:
            raise ValueError("every case matches in this runtime; pass the case to explain")
        return case


for _public in (CheckedCase, CheckError, CheckResult):
    _public.__module__ = "executorch_c.testing"  # where users find them
