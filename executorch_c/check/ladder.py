"""The steps from a model to its program, one by one, and the first that loses.

    print(check_model(model, (x,), flow="xnnpack-int8").ladder())

Each step runs on the same inputs and has a verdict and its signal-to-quantisation-noise ratio
against eager: exported (torch.export), decomposed (the edge dialect), quantised (PT2E's converted
graph), lowered (a program without delegates, on the kernels), delegated (the program itself).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from executorch_c import _extras
from executorch_c._arrays import as_array
from executorch_c._order import model_first
from executorch_c._programs import ProgramSource, method_of, opened, title_of
from executorch_c._render import html as _html
from executorch_c._render import text as _text
from executorch_c.check import flows
from executorch_c.check.judge import Judge, sqnr_db
from executorch_c.check.reference import Eager, array
from executorch_c.compare import tolerance, verdicts
from executorch_c.compare.arrays import compare_flat
from executorch_c.compare.comparison import Comparison, number
from executorch_c.compare.limits import MAX_GRAPH_FACTOR, MIN_SQNR_DB
from executorch_c.compare.tolerance import CallerTolerances
from executorch_c.debug._graphs.reference import to_edge
from executorch_c.report import JudgedReport

if TYPE_CHECKING:
    from executorch_c.check.flows import Call

StepVerdict: TypeAlias = Literal[
    "reference", "match", "differ", "inconclusive", "none", "not known"
]
"""Verdict on a step: "none" if the flow does not have it, "not known" if it cannot be run."""

HEAD = ("step", "verdict", "SQNR dB", "")
NONE, UNKNOWN = "none", "not known"


@dataclass(frozen=True)
class LadderStep:
    """One step from the model to the program."""

    name: str
    """ "eager", "exported", "decomposed", "quantised", "lowered", "delegated"."""
    verdict: StepVerdict
    sqnr_db: float | None
    """Signal-to-quantisation-noise ratio against eager, the least of all outputs; None without."""
    about: str
    """What differs, or why there is no verdict."""

    def row(self) -> list[str]:
        """Return the cells of a row under HEAD."""
        return [
            self.name,
            self.verdict,
            "" if self.sqnr_db is None else number(self.sqnr_db),
            self.about,
        ]


@dataclass(frozen=True)
class Ladder(JudgedReport[LadderStep]):
    """The steps from a model to its program. Prints as a table; iterates over its steps."""

    ROWS = "steps"

    title: str
    steps: tuple[LadderStep, ...]

    @property
    def first(self) -> LadderStep | None:
        """The first step that loses."""
        return next((step for step in self.steps if step.verdict == "differ"), None)

    @property
    def verdict(self) -> verdicts.Verdict:
        """ "differ" if a step loses, "match" if the last one that is known matches."""
        known = [step for step in self.steps if step.verdict not in (NONE, UNKNOWN, "reference")]
        if self.first is not None:
            return "differ"
        return "match" if known and known[-1].verdict == "match" else "inconclusive"

    def summary(self) -> str:
        """Return the first step that loses, in a sentence."""
        if self.first is None:
            return f"{self.title}: no step that is known loses"
        return f"{self.title}: the first step that loses is '{self.first.name}'"

    def table(self) -> str:
        """Return a row for each step as text."""
        cells = [[*step.row()[:3], ""] for step in self.steps]
        return _text.table(cells, HEAD, width=_text.width(), optional=())

    def problems(self) -> list[str]:
        """Return what differs, and why steps have no verdict."""
        return [f"{step.name}: {step.about}" for step in self.steps if step.about]

    def __str__(self) -> str:
        lines = map(_text.wrapped, [self.summary(), *self.problems()])
        summary, *rest = lines
        return "\n".join([summary, self.table(), *rest])

    def rows_as_dicts(self) -> list[dict[str, object]]:
        """Return a row for each step."""
        return [
            {
                "step": step.name,
                "verdict": step.verdict,
                "sqnr_db": step.sqnr_db,
                "about": step.about,
            }
            for step in self.steps
        ]

    def heading(self) -> str:
        """Return the heading of its page."""
        return f"Steps to {self.title}"

    def sections(self) -> Iterator[_html.Markup]:
        """Yield the parts of its page after the finding."""
        yield _html.table("steps", HEAD, [step.row() for step in self.steps], 2)


class _StepRunner:
    """Runs the steps of one sequence of calls; the outputs of the last call are compared."""

    def __init__(self, model: Any, calls: Sequence[Call], min_sqnr_db: float) -> None:
        self.calls, self.min_sqnr_db = calls, min_sqnr_db
        self.eager = Eager(model)
        self.floats = self.eager(calls)[-1]
        self.graph: list[Any] | None = None
        """Outputs of the quantised graph."""
        self.judge = Judge(CallerTolerances(), equal_nan=True, check_dtype=False)

    def noise(self, epsilon: float, count: int) -> list[Any] | None:
        """Return eager's outputs of runs with random rounding."""
        runs = self.eager.noise(self.calls, epsilon, range(count))
        return None if runs is None else [run[-1] for run in runs]

    def outputs(self, module: Any) -> list[Any]:
        """Return the outputs of a module."""
        return Eager(module)(self.calls)[-1]

    def of_program(self, program: Any, method: str) -> list[Any]:
        """Return the outputs of a program as written."""
        from torch.utils._pytree import tree_leaves

        loaded = method_of(opened(program).program, method)
        outputs: list[Any] = []
        for call in self.calls:
            outputs = loaded.execute([array(leaf) for leaf in tree_leaves(call)])
        return outputs

    def step(self, name: str, run: Callable[[], list[Any]]) -> LadderStep:
        """Return the step of outputs, against eager's or the quantised graph's."""

        try:
            outputs = run()
        except Exception as error:  # exporters, graphs and programs raise many kinds
            first = next(iter(str(error).strip().splitlines()), "")
            return LadderStep(name, "not known", None, f"{type(error).__name__}: {first}")
        floats, graph = self.floats, self.graph
        if name == "quantised":
            self.graph = outputs
            return self._quantised(name, outputs)
        comparison: Comparison
        if graph is None:
            comparison = self.judge(outputs, floats, self.noise)
        else:
            comparison = compare_flat(
                outputs,
                graph,
                lambda i, a, e: tolerance.within_quantization(
                    a, e, as_array(floats[i]), MAX_GRAPH_FACTOR
                ),
                check_dtype=False,
            )
        why = "; ".join(comparison.problems()) if comparison.verdict != "match" else ""
        return LadderStep(name, comparison.verdict, _sqnr(outputs, floats), why)

    def _quantised(self, name: str, outputs: list[Any]) -> LadderStep:
        ratio = _sqnr(outputs, self.floats)
        if ratio is None or ratio >= self.min_sqnr_db:
            return LadderStep(name, "match", ratio, "")
        return LadderStep(name, "differ", ratio, f"at least {self.min_sqnr_db:g} dB expected")


def _sqnr(actual: Sequence[Any], floats: Sequence[Any]) -> float | None:
    """Return the least ratio of all float outputs, in dB; None without any."""
    pairs = [(as_array(a), as_array(f)) for a, f in zip(actual, floats) if hasattr(f, "shape")]
    return min(
        (sqnr_db(a, f) for a, f in pairs if f.dtype.kind in "fV" and a.shape == f.shape),
        default=None,
    )


@model_first
def compare_steps(
    model: Any,
    calls: Sequence[Call],
    *,
    program: ProgramSource,
    method: str = "forward",
    quantized: Any = None,
    source: Any = None,
    min_sqnr_db: float = MIN_SQNR_DB,
    title: str | None = None,
) -> Ladder:
    """Return the steps from a model to its program, each compared with eager.

    Args:
        model: The float model, an nn.Module.
        calls: (args, kwargs) of calls in a row; the outputs of the last are compared.
        program: As for `explain`.
        method: Name of the program's method.
        quantized: The converted graph of a quantised flow.
        source: The ExportedProgram that was lowered. Without it, the steps "quantised" and
            "lowered" are not known.
        min_sqnr_db: Minimum signal-to-quantisation-noise ratio of the quantised graph.
        title: Name of the program.

    Raises TypeError for a model that is no nn.Module, and eager's exceptions.
    """
    _extras.require("compare_steps", "torch", "executorch")
    import torch

    if not isinstance(model, torch.nn.Module):
        raise TypeError(
            f"`model` is no nn.Module, with which the steps begin, but a {type(model).__name__}"
        )
    climb = _StepRunner(model, calls, min_sqnr_db)
    with torch.no_grad():
        steps = tuple(_steps(climb, program, model, method, quantized, source))
    return Ladder(title or title_of(program, "program"), steps)


def _steps(
    climb: _StepRunner, program: Any, model: Any, method: str, quantized: Any, source: Any
) -> Iterator[LadderStep]:
    """Yield the steps in order."""
    yield LadderStep("eager", "reference", None, "")
    exported: list[Any] = []

    def export() -> list[Any]:
        exported.append(flows.export(model, climb.calls[-1], None))
        return climb.outputs(exported[0].module())

    yield climb.step("exported", export)
    yield climb.step("decomposed", lambda: climb.outputs(to_edge(exported[0]).module()))
    if quantized is not None:
        yield climb.step("quantised", lambda: climb.outputs(quantized))
    elif source is not None:
        yield LadderStep("quantised", "none", None, "")
    else:
        yield LadderStep("quantised", "not known", None, "the program is a file")
    file = opened(program).program
    delegates = any(one["delegates"] for one in file.info()["methods"] if one["name"] == method)
    if not delegates:
        yield climb.step("lowered", lambda: climb.of_program(file, method))
        yield LadderStep("delegated", "none", None, "")
        return
    if source is None:
        yield LadderStep("lowered", "not known", None, "the program is a file")
    else:
        yield climb.step(
            "lowered", lambda: climb.of_program(flows.undelegated(source, method), method)
        )
    yield climb.step("delegated", lambda: climb.of_program(file, method))
