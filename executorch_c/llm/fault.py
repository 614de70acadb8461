"""First divergence of a language model's program: token, layer, and the faulty part, file or
runtime."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c import _extras
from executorch_c.llm import agreement as _agreement
from executorch_c.llm.plans import Plan, follow
from executorch_c.llm.reference import ModelReference, Reference, deep_copy
from executorch_c.llm.runner import TextRunner, as_float32

if TYPE_CHECKING:
    from executorch_c._arrays import Array
    from executorch_c.debug.report import ErrorReport
    from executorch_c.llm.agreement import Limit
    from executorch_c.llm.check_report import Row


@dataclass(frozen=True)
class Findings:
    """Findings about a difference."""

    token: str = ""
    fault: str = ""
    explanation: ErrorReport | None = None
    notes: tuple[str, ...] = ()


def _agrees(a: Array, b: Array, limit: Limit) -> bool:
    """Return True if two sets of logits agree, where they are finite: NaN spreads differently."""
    finite = np.isfinite(a).all(-1) & np.isfinite(b).all(-1)
    return not finite.any() or _agreement.measure(a[finite], b[finite], limit).first is None


def official_logits(plan: Plan, runner: TextRunner) -> Array | None:
    """Return the compared logits of a plan in ExecuTorch's own runtime.

    None without the package, for a program that is not from a file or bytes, and for several .ptd
    files (its Python API takes one). A reset loads the program again.
    """
    if not all(_extras.is_installed(name) for name in ("torch", "executorch")):
        return None
    if runner.source.bundled:
        return None
    files = (runner.source.source, *runner.source.data)
    if len(files) > 2 or not (
        all(isinstance(one, bytes) for one in files)
        or all(isinstance(one, (str, os.PathLike)) for one in files)
    ):
        return None
    import torch
    from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401
    from executorch.extension.pybindings import portable_lib
    from executorch.kernels import quantized  # noqa: F401

    def load() -> Any:
        if isinstance(files[0], bytes):
            return portable_lib._load_for_executorch_from_buffer(*files)
        return portable_lib._load_for_executorch(*(str(one) for one in files))

    module = load()
    rows, at = [], 0
    for action, known in zip(plan.actions, plan.known()):
        if action.kind == "reset" and at:
            module = load()
        elif action.kind == "feed":
            call = runner._call_for(len(action.tokens))
            inputs = runner._inputs(call, action.tokens, at)
            found = module.run_method(call.method, tuple(map(torch.from_numpy, inputs)))[0]
            found = found.float() if found.dtype == torch.bfloat16 else found
            if action.keep:
                rows.append(as_float32(found.numpy()).reshape(-1, runner.vocabulary)[-1])
        at = len(known)
    return np.stack(rows)


def find_fault(
    pairs: Sequence[tuple[Plan, Row]],
    runner: TextRunner,
    reference: Reference | None,
    limit: Limit,
    explain: bool | None,
) -> Findings:
    """Return what is at fault in the first row that differs.

    `limit` is that between two ways to run one program.
    """
    bad = [pair for pair in pairs if pair[1].verdict == "differ"]
    if not bad:
        return Findings()
    plan, row = bad[0]
    if row.case == "reset":
        return Findings("", "the runtime is at fault: reset() does not restore all state")
    if row.case == "official reset":
        return Findings("", "the program keeps state that position 0 does not clear (recurrent "
                        "state): reset() of executorch_c resets it, ExecuTorch's runner does not"
                        )  # fmt: skip
    notes: list[str] = []
    fault = _attributed(plan, row, runner, limit, notes)
    explanation = None
    if explain or (explain is None and isinstance(reference, ModelReference)):
        explanation = _explained(plan, row, runner, reference, notes)
    return Findings(_token(plan, row, runner), fault, explanation, tuple(notes))


def _token(plan: Plan, row: Row, runner: TextRunner) -> str:
    assert row.agreement is not None and row.agreement.first is not None
    ids = plan.kept()[row.agreement.first]
    text = "" if runner.tokenizer is None else f" ({runner.tokenizer.decode(ids[-1:])!r})"
    return f"at position {len(ids) - 1}, after token {ids[-1]}{text}"


def _attributed(plan: Plan, row: Row, runner: TextRunner, limit: Limit, notes: list[str]) -> str:
    """Return the faulty part, file or runtime, in a sentence: compared with plain kernels, and with
    ExecuTorch's runtime."""
    method = None if len(runner.signature.methods) > 1 else runner.signature.decode.method
    plain = type(runner)(runner.source, method=method, kernels="reference")
    ours = follow(plan, runner)
    kernels_agree = _agrees(ours, follow(plan, plain), limit)
    del plain
    try:
        theirs = official_logits(plan, runner)
    except Exception as error:  # of another package, in many ways
        theirs = None
        notes.append(f"ExecuTorch's runtime did not run the program: {error}")
    if not kernels_agree:
        return "the runtime is at fault: its optimised and its plain kernels differ"
    if theirs is None:
        return "the file is at fault, as far as known: optimised and plain kernels agree"
    if _agrees(ours, theirs, limit):
        return "the file is at fault: ExecuTorch's own runtime computes the same logits"
    return "the runtime is at fault, or ExecuTorch's: the two differ"


def _explained(
    plan: Plan, row: Row, runner: TextRunner, reference: Reference | None, notes: list[str]
) -> ErrorReport | None:
    """Return the layers at the call of the first difference, or None with a note."""
    if not isinstance(reference, ModelReference) or row.first is None:
        notes.append("no layers: explain needs a torch.nn.Module as the reference")
        return None
    if not all(_extras.is_installed(name) for name in ("torch", "executorch")):
        notes.append("no layers: explain needs torch and executorch (extra check)")
        return None
    try:
        return _explain(plan, row, runner, reference)
    except Exception as error:  # the model may not be exportable by itself
        notes.append(f"no layers: explain failed: {type(error).__name__}: {error}")
        return None


def _explain(plan: Plan, row: Row, runner: TextRunner, reference: ModelReference) -> ErrorReport:
    import torch

    from executorch_c.debug.layers import explain

    assert row.agreement is not None and row.agreement.first is not None
    number = [i for i, a in enumerate(plan.actions) if a.keep][row.agreement.first]
    if hasattr(reference.model, "config"):
        return _explain_sequence(plan.kept()[row.agreement.first], runner, reference)
    model = deep_copy(reference.model)
    engine = runner._engine
    runner.reset()
    at = 0
    with torch.no_grad(), engine.lock:
        for action, known in zip(plan.actions[:number], plan.known()):
            if action.kind == "feed":
                call = runner._call_for(len(action.tokens))
                arrays = runner._inputs(call, action.tokens, at)
                engine.methods[call.method].execute(arrays)
                model(*reference.arguments(*map(torch.from_numpy, arrays)))
            at = len(known)
        tokens = plan.actions[number].tokens
        call = runner._call_for(len(tokens))
        inputs = reference.arguments(*map(torch.from_numpy, runner._inputs(call, tokens, at)))
        return explain(engine.methods[call.method], model, inputs, progress=False)


def _explain_sequence(
    ids: Sequence[int], runner: TextRunner, reference: ModelReference
) -> ErrorReport:
    """Return the layers of one call with a whole sequence: a model of Hugging Face has no cache
    here. Raises ValueError for a sequence that is too long for a call."""
    import torch

    from executorch_c.debug.layers import explain

    longest = runner.signature.longest
    if len(ids) > longest:
        raise ValueError(f"the first difference is after {len(ids)} tokens, a call of the program "
                         f"takes at most {longest}")  # fmt: skip

    class Whole(torch.nn.Module):
        """The model, with the inputs of the program."""

        def __init__(self) -> None:
            super().__init__()
            self.model = reference.model

        def forward(self, tokens: Any, positions: Any = None) -> Any:
            return reference.of_sequence(tokens).logits

    call = runner._call_for(len(ids))
    runner.reset()
    with runner._engine.lock:
        inputs = tuple(map(torch.from_numpy, runner._inputs(call, ids, 0)))
        return explain(runner._engine.methods[call.method], Whole(), inputs, progress=False)
