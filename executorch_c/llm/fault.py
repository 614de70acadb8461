"""First divergence of a language model's program: token, layer, and the faulty part, file or
runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from executorch_c import _extras
from executorch_c._eager_caches import kept_caches
from executorch_c.llm import agreement as _agreement
from executorch_c.llm.encoder_decoder import EncoderDecoder
from executorch_c.llm.encoder_reference import MethodsReference, Seq2SeqReference
from executorch_c.llm.one_call import model_at, model_of_encoder
from executorch_c.llm.reference import ModelReference, Reference
from executorch_c.llm.runner import TextRunner
from executorch_c.llm.scripts import Script, calls_of, follow, perform

if TYPE_CHECKING:
    from executorch_c._arrays import Array
    from executorch_c.compare.logits import LogitTolerance
    from executorch_c.debug.report import ErrorReport
    from executorch_c.llm.check_report import Row


@dataclass(frozen=True)
class Findings:
    """Findings about a difference."""

    token: str = ""
    fault: str = ""
    explanation: ErrorReport | None = None
    notes: tuple[str, ...] = ()


def _agrees(a: Array, b: Array, limit: LogitTolerance) -> bool:
    """Return True if two sets of logits agree, where they are finite: NaN spreads differently."""
    finite = np.isfinite(a).all(-1) & np.isfinite(b).all(-1)
    return not finite.any() or _agreement.measure(a[finite], b[finite], limit).first is None


def find_fault(
    pairs: Sequence[tuple[Script, Row]],
    runner: TextRunner,
    reference: Reference | None,
    limit: LogitTolerance,
    explain: bool | None,
) -> Findings:
    """Return what is at fault in the first row that differs.

    `limit` is that between two ways to run one program.
    """
    bad = [pair for pair in pairs if pair[1].verdict == "differ"]
    if not bad:
        return Findings()
    script, row = bad[0]
    if row.case == "reset":
        return Findings("", "the runtime is at fault: reset() does not restore all state")
    if row.case == "official reset":
        return Findings(
            "",
            "the program keeps state that position 0 does not clear (recurrent "
            "state): reset() of executorch_c resets it, ExecuTorch's runner does not",
        )
    notes: list[str] = []
    fault = _attributed(script, row, runner, limit)
    explanation = None
    if explain or (explain is None and isinstance(reference, ModelReference)):
        explanation = _explained(script, row, runner, reference, notes)
    return Findings(_token(script, row, runner), fault, explanation, tuple(notes))


def _token(script: Script, row: Row, runner: TextRunner) -> str:
    assert row.agreement is not None and row.agreement.first is not None
    if script.case == "encoder":
        return ""
    ids = script.kept()[row.agreement.first]
    text = "" if runner.tokenizer is None else f" ({runner.tokenizer.decode(ids[-1:])!r})"
    return f"at position {len(ids) - 1}, after token {ids[-1]}{text}"


def _attributed(script: Script, row: Row, runner: TextRunner, limit: LogitTolerance) -> str:
    """Return the faulty part, file or runtime, in a sentence: compared with plain kernels, and with
    ExecuTorch's runtime."""
    method = None if len(runner.signature.methods) > 1 else runner.signature.decode.method
    cache = runner._options["kv_cache"]
    own = None if cache is None else cache.copy()
    plain = type(runner)(runner.source, method=method, kernels="reference", kv_cache=own)
    ours = follow(script, runner)
    kernels_agree = _agrees(ours, follow(script, plain), limit)
    del plain
    if not kernels_agree:
        return "the runtime is at fault: its optimised and its plain kernels differ"
    theirs = [] if row.official is None else row.official.actual
    if not theirs:
        return "the file is at fault, as far as known: optimised and plain kernels agree"
    if _agrees(ours, np.asarray(theirs[0]), limit):
        return "the file is at fault: ExecuTorch's own runtime computes the same logits"
    return "the runtime is at fault, or ExecuTorch's: the two differ"


def _explained(
    script: Script, row: Row, runner: TextRunner, reference: Reference | None, notes: list[str]
) -> ErrorReport | None:
    """Return the layers at the call of the first difference, or None with a note."""
    if not isinstance(reference, ModelReference) or row.first is None:
        notes.append("no layers: explain needs a torch.nn.Module as the reference")
        return None
    if not all(_extras.is_installed(name) for name in ("torch", "executorch")):
        notes.append("no layers: explain needs torch and executorch (extra check)")
        return None
    try:
        with kept_caches():
            return _explain(script, row, runner, reference)
    except Exception as error:  # the model may not be exportable by itself
        notes.append(f"no layers: explain failed: {type(error).__name__}: {error}")
        return None


def _explain(
    script: Script, row: Row, runner: TextRunner, reference: ModelReference
) -> ErrorReport:
    """Return the layers at the call of the first difference, after the script's calls before it."""
    from executorch_c.debug.layers import explain

    assert row.agreement is not None and row.agreement.first is not None
    kept = [i for i, a in enumerate(script.actions) if a.keep]
    number = kept[0 if script.case == "encoder" else row.agreement.first]
    calls = list(calls_of(script, runner))
    _, method, inputs = calls[number]
    if script.case == "encoder":
        assert isinstance(runner, EncoderDecoder)
        assert isinstance(reference, (Seq2SeqReference, MethodsReference))
        model = model_of_encoder(reference.encoder)
        return explain(model, tuple(inputs), program=runner._encoder, progress=False)
    model, arguments = model_at(script, number, calls, reference)
    with runner._engine.lock:
        for action in script.actions[:number]:
            perform(action, runner)
        return explain(model, arguments, program=runner._engine.methods[method], progress=False)
