"""Comparison of an exported language model with its reference, for each way to run it.

    from executorch_c.llm import check_llm

    report = check_llm("model.pte", model, ["The quick brown fox"], tokenizer="tokenizer.json")
    print(report)

Logits are compared at every position, token by token and in calls of many tokens, over second
turns, rewinds, resets and the end of the context.

long: the docstring of check_llm is its reference
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

import numpy as np

from executorch_c._delegation import run_notes
from executorch_c._programs import title_of
from executorch_c.debug._graphs.quantized import is_quantized_model
from executorch_c.inspect.quantized import quantization_of
from executorch_c.llm import agreement as _agreement
from executorch_c.llm.agreement import Limit
from executorch_c.llm.check_report import Case, LLMReport, Row, perplexities
from executorch_c.llm.fault import Findings, find_fault
from executorch_c.llm.plans import Action, Plan, follow, parts, steps
from executorch_c.llm.reference import (
    ModelReference,
    ProgramReference,
    Reference,
    make_reference,
)
from executorch_c.llm.runner import TextRunner, as_ids
from executorch_c.llm.signature import integer
from executorch_c.progress import Progress

if TYPE_CHECKING:
    from executorch_c._arrays import Array
    from executorch_c._programs import ProgramSource
    from executorch_c._types import Data, FilePath
    from executorch_c.llm.tokenizers import Tokenizer

Expected: TypeAlias = "tuple[Array, str, Limit]"
"""Logits, their source, and the limit."""
CASES: tuple[Case, ...] = get_args(Case)
LONGEST_CONTEXT = 1024
"""Default limit of the tokens of the cases "context" and "chunks"."""
RANDOM_TOKENS = 24
SOME_LAYERS, MOST_LAYERS = 16, 1000
TAIL, TURN = 3, 5
"""Steps after a prefill; tokens that are generated between two turns."""
ITSELF = "its own steps"
WAYS: tuple[Case, ...] = ("prefill", "steps")
BY_TOKEN: tuple[Case, ...] = ("steps", "rewind", "context")
"""Cases in which the reference, too, is called for each token."""


def _plans(runner: TextRunner, prompts: Sequence[list[int]], length: int) -> list[Plan]:
    """Return all ways to run prompts, in the order of cases."""
    found: list[Plan] = []
    longest, reset = runner.signature.longest, Action("reset")
    can_prefill = longest > 1
    for i, ids in enumerate(prompts):
        found.append(Plan("steps", i, (reset, *steps(ids))))
    for i, ids in enumerate(prompts if can_prefill else []):
        size = min(longest, max(len(ids) - TAIL, 1))
        whole = Action("feed", tuple(ids[:size]), keep=True)
        tail = steps(ids[size : size + TAIL])
        short = parts(ids[: min(2, len(ids))], [2])
        found.append(Plan("prefill", i, (reset, *short, reset, whole, *tail)))
    long = _long(prompts, length)
    if can_prefill:
        sizes = [longest, 1, max(longest // 2, 1), 2, longest]
        found.append(Plan("chunks", -1, (reset, *parts(long, sizes))))
    other = prompts[1 % len(prompts)]
    found += _turns(runner, prompts[0], other)
    half = max(len(prompts[0]) // 2, 1)
    back = Action("rewind", position=half)
    first = parts(prompts[0], [longest], keep=False)
    after = steps(other[::-1][: runner.context - half])
    if len(prompts[0]) > 1:
        found.append(Plan("rewind", 0, (reset, *first, back, *after)))
    again = _again(prompts[0], longest)
    used = parts(long[: runner.context // 2], [longest], keep=False)
    found.append(Plan("reset", 0, (reset, *used, reset, *again)))
    if runner.signature.has_cache:
        found.append(Plan("official reset", 0, (reset, *used, Action("zero"), *again)))
    found.append(Plan("context", -1, (reset, *steps(long))))
    return found


def _again(ids: Sequence[int], longest: int) -> list[Action]:
    """Return calls that show the state before them: the first tokens one by one."""
    return [*steps(ids[:TAIL]), *parts(ids[TAIL:], [longest])]


def _turns(runner: TextRunner, first: list[int], second: list[int]) -> list[Plan]:
    """Return a plan with generated tokens between two prompts."""
    longest, room = runner.signature.longest, runner.context - len(first) - len(second)
    if room < 1:
        return []
    runner.reset()
    logits, between = runner.prefill(first), []
    for _ in range(min(TURN, room)):
        between.append(int(np.nan_to_num(logits).argmax()))
        logits = runner.step(between[-1])
    actions = [*parts(first, [longest]), *steps(between), *parts(second, [longest])]
    return [Plan("turns", 0, (Action("reset"), *actions))]


def _long(prompts: Sequence[list[int]], length: int) -> list[int]:
    """Return a sequence of a length, of all prompts in turn."""
    whole = [token for ids in prompts for token in ids]
    return (whole * (length // len(whole) + 1))[:length]


class _Check:
    """One run of check_llm."""

    def __init__(self, runner: TextRunner, reference: Reference | None, limits: tuple[Limit, Limit],
                 fresh: Array) -> None:  # fmt: skip
        self.runner, self.reference = runner, reference
        self.limit, self.own = limits
        self.fresh = fresh
        """Logits of the first prompt before anything else has run."""
        self._known: list[tuple[bool, tuple[int, ...], Array]] = []
        self._steps: dict[tuple[int, ...], Array] = {}

    def expected(self, ids: tuple[int, ...], case: Case) -> Expected | None:
        """Return the logits after each token, their source, and the limit."""
        by_token = case in BY_TOKEN
        if self.reference is not None:
            for how, known, rows in self._known:
                if how == by_token and known[: len(ids)] == ids:
                    return rows[: len(ids)], self.reference.title, self.limit
            found = self.reference.logits(ids, by_token)
            if found is not None:
                self._known.append((by_token, ids, found))
                return found, self.reference.title, self.limit
        return None

    def itself(self, ids: Sequence[int]) -> str:
        """Return a remark if the reference's logits depend on how it is called."""
        whole, steps_ = (self.expected(tuple(ids), case) for case in WAYS)
        if whole is None or steps_ is None:
            return ""
        found = _agreement.measure(steps_[0], whole[0], self.own)
        if found.first is None:
            return ""
        return (f"{whole[1]} itself differs between one call and a call for each token: by "
                f"{found.errors.max():.4g} from position {found.first} on; cases are compared "
                "with the reference called likewise")  # fmt: skip

    def own_steps(self, ids: tuple[int, ...]) -> Expected:
        """Return the program's own logits, token by token from an empty state."""
        if ids not in self._steps:
            plan = Plan("steps", -1, (Action("reset"), *steps(ids)))
            self._steps[ids] = follow(plan, self.runner)
        return self._steps[ids], ITSELF, self.own

    def row(self, plan: Plan, show: Any) -> Row:
        """Run a plan and return its row."""
        kept = plan.kept()
        positions = tuple(len(ids) - 1 for ids in kept)
        try:
            actual = follow(plan, self.runner, show)
        except RuntimeError as error:
            if plan.case != "rewind" or "cannot rewind" not in str(error):
                raise
            return Row(plan.case, plan.prompt, plan.ids, (), "", None, None, str(error))
        if plan.case in ("reset", "official reset"):
            limit = Limit(0.0) if plan.case == "reset" else self.own
            found = _agreement.measure(actual, self.fresh, limit)
            against = "the first run after loading"
            return Row(plan.case, plan.prompt, plan.ids, positions, against, found, limit)
        return self._compared(plan, kept, positions, actual)

    def _compared(self, plan: Plan, kept: list[tuple[int, ...]], positions: tuple[int, ...],
                  actual: Array) -> Row:  # fmt: skip
        found = self._of_reference(plan, kept)
        if found is None and plan.case in ("steps", "context"):
            if not np.isnan(actual).any():
                return Row(plan.case, plan.prompt, plan.ids, (), "", None, None, "no reference")
            found = np.nan_to_num(actual), "finite numbers", self.own
        expected, against, limit = found or self._at(kept, self.own_steps)
        agreement = _agreement.measure(actual, expected, limit)
        losses = None
        if plan.case in ("steps", "context") and len(plan.ids) > 1 and against != ITSELF:
            losses = (_agreement.mean_loss(actual, plan.ids),
                      _agreement.mean_loss(expected, plan.ids))  # fmt: skip
        return Row(plan.case, plan.prompt, plan.ids, positions, against, agreement, limit, "",
                   losses)  # fmt: skip

    def _of_reference(self, plan: Plan, kept: list[tuple[int, ...]]) -> Expected | None:
        """Return the reference's logits at the compared positions: by the plan's own calls, or of
        the sequences."""
        if self.reference is None:
            return None
        replayed = self.reference.replay(plan)
        if replayed is not None:
            return replayed, self.reference.title, self.limit
        if self.expected(max(kept, key=len), plan.case) is None:
            return None
        return self._at(kept, lambda ids: self.expected(ids, plan.case))

    def _at(self, kept: list[tuple[int, ...]],
            source: Callable[[tuple[int, ...]], Expected | None]) -> Expected:  # fmt: skip
        """Return the logits after the last token of each of several sequences. Those that begin
        the longest are taken from it."""
        longest = max(kept, key=len)
        whole, rows = source(longest), []
        assert whole is not None
        for ids in kept:
            one = whole if longest[: len(ids)] == ids else source(ids)
            assert one is not None
            rows.append(one[0][len(ids) - 1])
        return np.stack(rows), whole[1], whole[2]


def _limits(runner: TextRunner, reference: Reference | None, relative: float | None,
            min_sqnr_db: float | None) -> tuple[Limit, Limit]:  # fmt: skip
    """Return the limits against the reference and against the program itself."""
    method = runner.signature.decode.method
    dtype = runner.program.metadata(method).output_tensor_meta(0).numpy_dtype
    name = "bfloat16" if dtype == np.uint16 else dtype.name
    quantized = _is_quantized(runner)
    if isinstance(reference, ProgramReference):
        quantized = quantized or _is_quantized(reference.runner)
    own = Limit(_agreement.LOGITS[name], _agreement.SELF_SQNR_DB if quantized else None)
    limit = Limit(own.relative, _agreement.LEAST_SQNR_DB if quantized else None)
    if quantized and _is_quantized_reference(reference):
        limit = _agreement.quantised_limit(_layers(runner), own.relative)
    if min_sqnr_db is not None:
        limit = Limit(limit.relative, min_sqnr_db)
    if relative is not None:
        limit = Limit(relative)
    return limit, own


def _is_quantized(runner: TextRunner) -> bool:
    return quantization_of(runner.program, runner.signature.methods) is not None


def _is_quantized_reference(reference: Reference | None) -> bool:
    return isinstance(reference, ModelReference) and is_quantized_model(reference.model)


def _layers(runner: TextRunner) -> int:
    """Return the number of layers that the metadata say; else some."""
    found = integer(runner.signature.constants, "get_n_layers")
    return min(max(found or SOME_LAYERS, 1), MOST_LAYERS)


def _prompts(given: Sequence[Any] | None, runner: TextRunner, seed: int) -> list[list[int]]:
    """Return prompts as ids; random ones if none are given."""
    if given is None:
        rng = np.random.default_rng(seed)
        size = max(min(RANDOM_TOKENS, runner.context // 3), 2)
        return [rng.integers(0, runner.vocabulary, size).tolist() for _ in range(2)]
    found = []
    for i, one in enumerate(given):
        runner.reset()
        ids = runner.encode(one) if isinstance(one, str) else as_ids(one, runner.vocabulary)
        if not 1 <= len(ids) <= runner.context:
            raise ValueError(f"prompt {i} has {len(ids)} tokens, expected 1 to {runner.context} "
                             "(the context)")  # fmt: skip
        found.append(ids)
    if not found:
        raise ValueError("check_llm needs at least 1 prompt")
    return found


def check_llm(
    program: ProgramSource | TextRunner,
    reference: Any = None,
    prompts: Sequence[Any] | None = None,
    *,
    tokenizer: FilePath | Tokenizer | None = None,
    data_path: Data | Sequence[Data] | None = None,
    method: str | None = None,
    cases: Sequence[Case] = CASES,
    length: int | None = None,
    relative: float | None = None,
    min_sqnr_db: float | None = None,
    explain: bool | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> LLMReport:
    """Return how a text program agrees with a reference, and with itself.

    Args:
        program: As for `TextRunner`, or a TextRunner (which is reset). A program runs as written;
            a note says if operators of a TextRunner were delegated when it was loaded.
        reference: A torch.nn.Module in eval mode (of Hugging Face, of export_llm, or with the
            program's own inputs); a function from ids to logits [n, V]; an array of logits [n, V]
            for each prompt; another program (a path, a Program, a TextRunner): a float program for
            a quantised one. None: only the program's own ways to run are compared.
        prompts: Texts (which need a tokenizer) or sequences of ids. Default: two random ones.
        tokenizer, data_path, method: As for `TextRunner`.
        cases: Names of cases: "steps", "prefill", "chunks", "turns", "rewind", "reset",
            "official reset", "context"; `executorch_c.llm.check_report.MEANINGS` explains them.
        length: Tokens of the cases "chunks" and "context". Default: the context, at most 1,024.
        relative: Largest error, relative to the RMS of the logits. Default: by dtype, 1e-4 for
            float32.
        min_sqnr_db: Minimum ratio of logits to error in place of that. Default of quantised
            programs: 6; if the reference is a model with quantised weights, 31.5 for one layer,
            28.5 for two, 20.7 for 12.
        explain: Look for the layer of the first difference. Default: if the reference is a
            torch.nn.Module.
        seed: Of random prompts.
        progress: Show progress on stderr. Default: on a terminal.

    The case "official reset" differs for programs with recurrent state: ExecuTorch's runner does
    not reset state, so a second conversation starts from the state of the first.

    Returns an `LLMReport`: verdict, rows, perplexities, the first token that differs, whether file
    or runtime is at fault, the layer. Raises ValueError for unknown cases, prompts that do not fit,
    references of another shape; TypeError and exceptions of loading as `TextRunner`.
    """
    wrong = [case for case in cases if case not in CASES]
    if wrong:
        raise ValueError(f"unknown case {wrong[0]!r}, expected some of {', '.join(CASES)}")
    runner = program
    if not isinstance(runner, TextRunner):
        runner = TextRunner(runner, tokenizer, data_path, method=method,
                            delegate_at_load=False)  # fmt: skip
    ids = _prompts(prompts, runner, seed)
    known = make_reference(reference, runner.signature, ids, tokenizer)
    limits = _limits(runner, known, relative, min_sqnr_db)
    most = min(runner.context, LONGEST_CONTEXT) if length is None else min(length, runner.context)
    again = (Action("reset"), *_again(ids[0], runner.signature.longest))
    check = _Check(runner, known, limits, follow(Plan("reset", 0, again), runner))
    plans = [plan for plan in _plans(runner, ids, most) if plan.case in cases]
    with Progress("check_llm", progress) as say:
        rows = []
        for plan in plans:
            done = iter(range(1, len(plan.actions) + 1))
            count = say.count(plan.case)
            rows.append(check.row(plan, lambda: count(next(done), len(plan.actions))))
        say("looking for the fault")
        pairs = list(zip(plans, rows))
        found = find_fault(pairs, runner, known, limits[1], explain)
    return _report(runner, rows, found, limits, check.itself(ids[0]))


def _report(runner: TextRunner, rows: list[Row], found: Findings,
            limits: tuple[Limit, Limit], remark: str) -> LLMReport:  # fmt: skip
    runner.reset()
    notes = [perplexities(rows), remark, *found.notes]
    for method in runner._engine.methods.values():
        notes += run_notes(method)
    if any(row.agreement is not None and row.limit == limits[0] for row in rows):
        notes.append(f"limit against the reference: {limits[0].about()}")
    if limits[0].sqnr_db == _agreement.LEAST_SQNR_DB:
        notes.append("the error of quantisation hides most faults of a quantised program: compare "
                     "it with the model after quantisation, too")  # fmt: skip
    report = LLMReport(title_of(runner.source, "a program"), tuple(rows),
                       tuple(filter(None, notes)), found.fault, found.token,
                       found.explanation)  # fmt: skip
    report.set_origins(program=runner.source.origin)
    return report
