"""Which rule a check of a quantised program follows: seen in the program and in the model.

A model that is quantised itself (a graph of PT2E, a module of torchao) is the graph that the
program was lowered from: the rule of graphs, equal but for ties. A float model is further away,
by what quantising costs: the program is compared by signal-to-quantisation-noise ratio.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from executorch_c._core import Method, Program
from executorch_c.check.judge import Audit, Judge, QuantizedJudge, SqnrJudge
from executorch_c.check.reference import Eager
from executorch_c.compare import quantized as rules
from executorch_c.debug._graphs.quantized import is_quantized_model, without_rounding
from executorch_c.inspect.quantized import Quantization, quantization_of

if TYPE_CHECKING:
    from executorch_c.check.flows import Subject
    from executorch_c.compare.tolerance import CallerTolerances
    from executorch_c.debug.report import ErrorReport
    from executorch_c.inspect.structure import View

Kind = Literal["float", "flow", "graph", "sqnr"]
"""How a program and its reference are related:

    float   the program is not quantised
    flow    the flow has quantised the model: its graph is the reference, the model the float one
    graph   the model is quantised, as the program is
    sqnr    the program is quantised, the model is not
"""


@dataclass(frozen=True)
class Sides:
    """The reference of a check, and how it is related to the program."""

    kind: Kind
    program: Quantization | None
    oracle: Eager
    """The reference."""
    floats: Eager | None = None
    """The model without quantisation, or without that of activations, of "flow" and "graph"."""

    @property
    def is_graph(self) -> bool:
        """True if the reference is a quantised graph."""
        return self.kind in ("flow", "graph")

    @property
    def is_static(self) -> bool:
        """True if the program's activations have scales of calibration: layers of integers."""
        return self.program is not None and self.program.scheme == "static"

    def judge(
        self,
        subject: Subject,
        method: str,
        limits: CallerTolerances,
        min_sqnr_db: float | None,
        audit: Callable[[int], Audit],
        **options: bool,
    ) -> Judge:
        """Return the judge of a check. Raises ValueError for a minimum SQNR without effect."""
        if self.kind == "float":
            rules.check_has_effect(min_sqnr_db, "the program has no quantised values or operators")
        elif self.kind == "graph":
            rules.check_has_effect(
                min_sqnr_db,
                "the model is quantised itself, and the program is compared with it; "
                "pass the float model for an SQNR",
            )
        elif limits.cover_all:
            rules.check_has_effect(min_sqnr_db, "rtol and atol decide")
        if self.is_graph:
            minimum = subject.min_sqnr_db if min_sqnr_db is None else min_sqnr_db
            return QuantizedJudge(limits, min_sqnr_db=minimum, audit=audit, **options)
        if self.kind == "sqnr":
            assert self.program is not None
            rule = rules.quantized_rule(
                program_of(subject.program), method, self.program, min_sqnr_db
            )
            return SqnrJudge(
                limits,
                rule=rule,
                min_sqnr_db=rules.least_sqnr_db(self.program, min_sqnr_db),
                is_static=self.is_static,
                audit=audit,
                **options,
            )
        return Judge(limits, **options)

    def facts(self) -> dict[str, str]:
        """Return how the program is quantised, and what it is compared with."""
        if self.program is None:
            return {}
        model = {"flow": "quantised by the flow", "graph": "quantised", "sqnr": "float"}
        return {"quantised": str(self.program), "model": model.get(self.kind, "")}

    def notes(self) -> Iterator[str]:
        """Yield a sentence about the rule that was chosen."""
        if self.kind == "sqnr":
            yield (
                f"the program is quantised ({self.program}), the model is float: judged by "
                "SQNR, of the outputs and layer by layer, which misses faults that are smaller "
                "than the quantisation error; the quantised module as the model finds "
                "them"
            )
        if self.kind == "graph":
            yield (
                f"the program is quantised ({self.program}), and so is the model: they have to "
                "be equal but for rounding ties"
            )


def audit_of(report: ErrorReport) -> Audit:
    """Return the finding of `explain` against a float model: channels that err far more than the
    others are no cost of quantising, a noisy layer may be."""
    sources = [row for row in report.rows if row.verdict == "source"]
    for row in sources:
        if row.local is not None and 0 < (row.local.mismatched or 0) < row.local.elements:
            return Audit("differ", f"{row}: channels err far more than the others")
    if not sources:
        return Audit("match", report.summary())  # outputs have a verdict of their own
    return Audit(
        "inconclusive",
        f"{report.summary()}; quantising may cost this, or the file is "
        "wrong: the quantised module as the model decides",
    )


def program_of(loaded: Program | Method) -> Program:
    """Return the program of a loaded method; a program itself."""
    return loaded._program if isinstance(loaded, Method) else loaded


def sides_of(
    subject: Subject, eager: Eager, method: str, view: View | None, exporter: Callable[[], Any]
) -> Sides:
    """Return the reference of a check.

    Args:
        eager: The user's model.
        view: The program's method, if it can be listed.
        exporter: Exports the model.
    """
    quantization = quantization_of(program_of(subject.program), [method], view)
    if subject.quantizes:
        return Sides("flow", quantization, Eager(subject.quantized), eager)
    if quantization is None:
        return Sides("float", None, eager)
    if not is_quantized_model(eager.model):
        return Sides("sqnr", quantization, eager)
    if subject.source is None:
        subject.source = exporter()
    return Sides("graph", quantization, eager, Eager(without_rounding(subject.source.module())))
