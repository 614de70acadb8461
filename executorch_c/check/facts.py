"""Notes and facts of check_model: sentences and figures beside its table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from executorch_c import _delegation, _engines
from executorch_c._core import Method, Program
from executorch_c._stages import training_note
from executorch_c.check import contract, unread
from executorch_c.check.judge import QuantizedJudge, SqnrJudge
from executorch_c.compare.tolerance import about
from executorch_c.inspect import device

if TYPE_CHECKING:
    from executorch_c.check.case_source import CaseSource
    from executorch_c.check.reference import Eager
    from executorch_c.check.run import Check


def _is_graph(model: Any) -> bool:
    """Return True for a graph whose mode changes nothing, such as PT2E's converted module, which
    has no eval()."""
    from torch.fx import GraphModule

    return isinstance(model, GraphModule) and not training_note(model)


def notes_of(
    check: Check, source: CaseSource, model: Any, remarks: list[device.Remark]
) -> Iterator[str]:
    """Yield the notes of a result: what was not compared, and what else is to be known."""
    yield from check.subject.notes
    yield from check.sides.notes()
    yield from source.set_notes
    if getattr(model, "training", False) and not check.subject.exported and not _is_graph(model):
        yield "the model is in training mode; exports usually use model.eval()"
    dynamic = any(limit is not None for limit in check.limits())
    if dynamic and not source.symbols.ranges:
        yield (
            "inputs of the program may change their shapes; pass `dynamic_shapes` to try edge "
            "shapes"
        )
    program = check.subject.program
    if check.subject.label.startswith("xnnpack") and isinstance(program, Program):
        if not any(one["delegates"] for one in program.info()["methods"]):
            yield "nothing of the model was delegated to XNNPACK"
    yield from _on_other_engines(program)
    yield from _delegation.run_notes(check.loaded)
    yield from device.notes(remarks)
    yield from check.coverage.notes()
    yield from contract.notes(check, source)
    yield from check.variation.notes()
    yield from unread.notes(check, source)
    if source.stateful and _starts_nonzero(check.eager):
        yield (
            "buffers that the model changes do not start from zero; the official exporter "
            "writes such values only with InitializedMutableBufferPass"
        )
    if check.subject.quantizes and not source.real:
        yield "calibrated on the example only; add `real_inputs` for a better choice of scales"


def _on_other_engines(program: Program | Method) -> Iterator[str]:
    """Yield a note for each engine that is not the device's."""
    methods = program.info()["methods"] if isinstance(program, Program) else []
    lines = {line for method in methods for line in _engines.hints(method)}
    yield from sorted(line for line in lines if not line.startswith("XnnpackBackend"))


def _starts_nonzero(eager: Eager) -> bool:
    return any(bool((buffer != 0).any()) for buffer in eager.model.buffers())


def facts_of(check: Check, seconds: float, seed: int) -> dict[str, str]:
    """Return facts about the program and the comparison, by name."""
    import torch

    from executorch_c import __version__

    limits, judge = check.options.limits, check.judge
    facts = {
        "program": check.subject.label,
        "method": check.meta.name(),
        **_program_facts(check.subject.program, check.meta.name()),
        "rtol": about(limits.rtol, "by rounding noise"),
    }
    default = "by rounding noise"
    if isinstance(judge, QuantizedJudge):
        default = "by layer, against the quantised graph"
    if isinstance(judge, SqnrJudge):
        default = "by SQNR, against the float model"
    if check.sides.kind in ("flow", "sqnr"):
        assert isinstance(judge, (QuantizedJudge, SqnrJudge))
        facts["least SQNR"] = f"{judge.min_sqnr_db:g} dB"
    return {
        **facts,
        **check.sides.facts(),
        "atol": about(limits.atol, default),
        "seed": str(seed),
        "versions": f"executorch_c {__version__}, torch {torch.__version__}",
        "time": f"{seconds:.1f} s",
    }


def _program_facts(program: Program | Method, method: str) -> dict[str, str]:
    """Return size, instructions and delegates of a program; nothing of a loaded method."""
    if not isinstance(program, Program):
        return {}
    info = program.info()
    facts = {"bytes": f"{info['file_size']:,}"}
    for one in info["methods"]:
        if one["name"] == method:
            uses = [use["id"] for use in one["delegates"]]
            facts["instructions"] = f"{one['instructions']:,}"
            facts["delegates"] = f"{len(uses)} ({', '.join(sorted(set(uses)))})" if uses else "none"
    return facts
