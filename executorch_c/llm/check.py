"""Comparison of an exported language model with its reference, for each way to run it.

    from executorch_c.llm import check_llm

    report = check_llm(model, ["A fox"], program="model.pte", tokenizer="tokenizer.json")
    print(report)

Logits are compared at every position, token by token and in calls of many tokens, over second
turns, rewinds, resets and the end of the context; of an encoder-decoder also the encoder's output.
Each script runs in the official runtime, too.

long: the docstring of check_llm is its reference
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

import numpy as np

from executorch_c._delegation import run_notes
from executorch_c._eager_caches import cache_for, empty_caches
from executorch_c._order import model_first
from executorch_c._programs import opened, title_of
from executorch_c.check.case_run import run_case
from executorch_c.check.engines import engines_of, remarks_on_runs
from executorch_c._stages import stage, stage_of
from executorch_c.compare.limits import LOGIT_MIN_SQNR_DB
from executorch_c.compare.logits import LogitTolerance, against_model, between_runs
from executorch_c.compare.tolerance import check_not_negative
from executorch_c.debug._graphs.quantized import is_quantized_model
from executorch_c.inspect.quantized import quantization_of
from executorch_c.llm.agreement import mean_loss, measure
from executorch_c.llm.cases import Cases
from executorch_c.llm.check_report import Case, LLMReport, Row, perplexities
from executorch_c.llm.depth import layers_of
from executorch_c.llm.encoder_decoder import ENCODER, EncoderDecoder, open_program
from executorch_c.llm.encoder_inputs import encoder_inputs_of
from executorch_c.llm.encoder_reference import (
    MethodsReference,
    Seq2SeqReference,
    make_encoder_reference,
)
from executorch_c.llm.fault import Findings, find_fault
from executorch_c.llm.official_scripts import OfficialScripts
from executorch_c.llm.reference import ModelReference, ProgramReference, Reference, make_reference
from executorch_c.llm.runner import TextRunner, as_ids
from executorch_c.llm.scripts import Action, Script, follow, states_of, steps
from executorch_c.progress import Progress

if TYPE_CHECKING:
    from executorch_c._arrays import Array
    from executorch_c._programs import ProgramSource
    from executorch_c import KVCache
    from executorch_c._types import Data, FilePath
    from executorch_c.llm.tokenizers import Tokenizer

Expected: TypeAlias = "tuple[Array, str, LogitTolerance]"
"""Logits, their source, and the limit."""
CASES: tuple[Case, ...] = get_args(Case)
MAX_CONTEXT = 1024
"""Default limit of the tokens of the cases "context" and "chunks"."""
RANDOM_TOKENS = 24
ITSELF = "its own steps"
WAYS: tuple[Case, ...] = ("prefill", "steps")
BY_TOKEN: tuple[Case, ...] = ("steps", "rewind", "context")
"""Cases in which the reference, too, is called for each token."""


class _Check:
    """One run of check_llm."""

    def __init__(
        self,
        runner: TextRunner,
        reference: Reference | None,
        limits: tuple[LogitTolerance, LogitTolerance],
        encoder: LogitTolerance,
        cases: Cases,
        official: OfficialScripts,
    ) -> None:
        self.runner, self.reference, self.official = runner, reference, official
        self.limit, self.own = limits
        self.of_encoder = encoder
        """Tolerance of the encoder's outputs."""
        first, start = Script("reset", 0, (*cases.begin(0), *cases.again())), time.perf_counter()
        self.fresh: Array | None = None
        """Logits of the first prompt before anything else has run; None if that raises."""
        self.encoded: list[Array] = []
        """The program's encoder outputs, from which the reference decodes, too."""
        with suppress(Exception):  # the rows of the scripts have the error
            self.fresh = follow(first, runner)
        official.open(runner, (time.perf_counter() - start) / len(first.actions))
        with suppress(Exception):
            if isinstance(runner, EncoderDecoder):
                self.encoded = [runner._encode(one) for one in cases.inputs]
        self._known: list[tuple[int, bool, tuple[int, ...], Array]] = []
        self._steps: dict[tuple[int, tuple[int, ...]], Array] = {}
        self._use(0)

    def _use(self, prompt: int) -> None:
        """Decode from the encoder's output for a prompt; -1: for the first."""
        self.input = max(prompt, 0) if self.encoded else 0
        if self.reference is not None and self.encoded:
            self.reference.use(self.encoded[self.input], self.input)

    def expected(self, ids: tuple[int, ...], case: Case) -> Expected | None:
        """Return the logits after each token, their source, and the limit."""
        by_token = case in BY_TOKEN
        if self.reference is not None:
            for where, how, known, rows in self._known:
                if (where, how) == (self.input, by_token) and known[: len(ids)] == ids:
                    return rows[: len(ids)], self.reference.title, self.limit
            logits = self.reference.logits(ids, by_token)
            if logits is not None:
                self._known.append((self.input, by_token, ids, logits))
                return logits, self.reference.title, self.limit
        return None

    def itself(self, ids: Sequence[int]) -> str:
        """Return a remark if the reference's logits depend on how it is called."""
        if self.fresh is None:
            return ""
        self._use(0)
        whole, steps_ = (self.expected(tuple(ids), case) for case in WAYS)
        if whole is None or steps_ is None:
            return ""
        agreement = measure(steps_[0], whole[0], self.own)
        if agreement.first is None:
            return ""
        return (
            f"{whole[1]} itself differs between one call and a call for each token: by "
            f"{agreement.errors.max():.4g} from position {agreement.first} on; cases are compared "
            "with the reference called likewise"
        )

    def own_steps(self, ids: tuple[int, ...]) -> Expected:
        """Return the program's own logits, token by token from an empty state."""
        key = self.input, ids
        if key not in self._steps:
            script = Script("steps", -1, (Action("reset"), *steps(ids)))
            with stage("run"):
                self._steps[key] = follow(script, self.runner)
        return self._steps[key], ITSELF, self.own

    def row(self, script: Script, show: Any) -> Row:
        """Run a script in each engine and return its row."""
        self._use(script.prompt)
        row = Row(script.case, script.prompt, script.ids, (), "", None, None)

        def judge(actual: Array) -> Row:
            expected = self._expected(script, actual)
            if expected is None:
                self.official.drop()
                return replace(row, skipped="no reference")
            return self._judged(script, actual, expected)

        def fail(error: Exception) -> Row:
            if script.case == "rewind" and "cannot rewind" in str(error):
                self.official.drop()
                return replace(row, skipped=str(error))
            theirs = self.official.failed(lambda rows: self._there(script, rows))
            return replace(row, error=error, official=theirs)

        begin = partial(self.official.begin, script)
        return run_case(begin, partial(follow, script, self.runner, show), judge, fail)

    def _there(self, script: Script, rows: Array) -> Row | None:
        """Return the row of the official runtime's results of a script that raises here; None
        without expected results."""
        try:
            expected = self._expected(script, rows)
        except Exception as error:
            if stage_of(error) != "run":  # of the program's own steps
                raise
            expected = None
        return None if expected is None else _compared(script, rows, expected)

    def _judged(self, script: Script, actual: Array, reference: Expected) -> Row:
        """Return the row of a script with its expected results, and the official runtime's."""
        expected, against, limit = reference
        row = _compared(script, actual, reference)
        if script.case in ("steps", "context") and len(script.ids) > 1 and against != ITSELF:
            row = replace(row, losses=(mean_loss(actual, row.ids), mean_loss(expected, row.ids)))
        loose = expected, against, self.own if script.case == "reset" else limit
        there = partial(_compared, script, reference=loose)
        return replace(row, official=self.official.end(script, row.verdict == "match", there))

    def _expected(self, script: Script, actual: Array) -> Expected | None:
        """Return what a script is compared with; None without a reference."""
        if script.case == "encoder":
            return self._of_encoder(script, actual)
        if script.case in ("reset", "official reset") and self.fresh is not None:
            limit = LogitTolerance(0.0) if script.case == "reset" else self.own
            return self.fresh, "the first run after loading", limit
        kept = script.kept()
        expected = self._of_reference(script, kept)
        if expected is None and script.case in ("steps", "context"):
            return self._finite(actual, self.own)
        return expected or self._at(kept, self.own_steps)

    def _finite(self, actual: Array, limit: LogitTolerance) -> Expected | None:
        """Return finite numbers in place of results that are not known, if some are NaN."""
        return (np.nan_to_num(actual), "finite numbers", limit) if np.isnan(actual).any() else None

    def _of_encoder(self, script: Script, actual: Array) -> Expected | None:
        """Return the states of the reference's encoder."""
        expected, value = None, script.actions[0].value
        if self.reference is not None and value is not None:
            expected = self.reference.encoded(value, script.prompt)
        if expected is None or self.reference is None:
            return self._finite(actual, self.of_encoder)
        rows = states_of(expected)
        if rows.shape != actual.shape:
            raise ValueError(
                f"the reference's encoder returns states of shape {rows.shape}, the "
                f"program's {actual.shape}"
            )
        return rows, self.reference.title, self.of_encoder

    def _of_reference(self, script: Script, kept: list[tuple[int, ...]]) -> Expected | None:
        """Return the reference's logits at the compared positions: by the script's own calls, or of
        the sequences."""
        if self.reference is None:
            return None
        replayed = self.reference.replay(script)
        if replayed is not None:
            return replayed, self.reference.title, self.limit
        if self.expected(max(kept, key=len), script.case) is None:
            return None
        return self._at(kept, lambda ids: self.expected(ids, script.case))

    def _at(
        self, kept: list[tuple[int, ...]], source: Callable[[tuple[int, ...]], Expected | None]
    ) -> Expected:
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


def _compared(script: Script, actual: Array, reference: Expected) -> Row:
    """Return the row of a script's results, compared with expected ones."""
    expected, against, limit = reference
    agreement, positions = measure(actual, expected, limit), _positions(script, expected)
    return Row(script.case, script.prompt, script.ids, positions, against, agreement, limit)


def _positions(script: Script, rows: Array) -> tuple[int, ...]:
    """Return the positions of the compared rows of a script."""
    if script.case == "encoder":
        return tuple(range(len(rows)))
    return tuple(len(ids) - 1 for ids in script.kept())


def _limits(
    runner: TextRunner,
    reference: Reference | None,
    relative: float | None,
    min_sqnr_db: float | None,
    method: str | None = None,
) -> tuple[LogitTolerance, LogitTolerance]:
    """Return the limits against the reference and against the program itself, of the decoder or of
    another method."""
    name = method or runner.signature.decode.method
    dtype = runner.program.metadata(name).output_tensor_meta(0).numpy_dtype
    kind = "bfloat16" if dtype == np.uint16 else dtype.name
    methods = runner.signature.methods if method is None else (method,)
    quantized = _is_quantized(runner, methods)
    if isinstance(reference, ProgramReference):
        quantized = quantized or _is_quantized(reference.runner, methods)
    module, blocks = _modules(reference, method)
    layers = None
    if quantized and module is not None and is_quantized_model(module):
        layers = layers_of(blocks, runner, name)
    own, limit = between_runs(kind, quantized), against_model(kind, quantized, layers)
    if min_sqnr_db is not None:
        limit = LogitTolerance(limit.relative, min_sqnr_db)
    if relative is not None:
        limit = LogitTolerance(relative)
    return limit, own


def _is_quantized(runner: TextRunner, methods: Sequence[str]) -> bool:
    known = [name for name in methods if name in runner.program.method_names]
    return quantization_of(runner.program, known) is not None


def _modules(reference: Reference | None, method: str | None) -> tuple[Any, Any]:
    """Return the module of a reference that computes what a method does, and the part of it that
    has the blocks; None for another reference."""
    if not isinstance(reference, ModelReference):
        return None, None
    if method == ENCODER and isinstance(reference, (Seq2SeqReference, MethodsReference)):
        return reference.encoder, reference.encoder
    return reference.model, reference.decoder


def _prompts(
    prompts: Iterable[Any] | FilePath | None, runner: TextRunner, seed: int
) -> list[list[int]]:
    """Return prompts as ids; random ones if none are given."""
    if prompts is None:
        rng = np.random.default_rng(seed)
        size = max(min(RANDOM_TOKENS, runner.context // 3), 2)
        start = runner.start_ids if isinstance(runner, EncoderDecoder) else []
        return [
            [*start, *rng.integers(0, runner.vocabulary, size).tolist()][:size] for _ in range(2)
        ]
    rows = []
    for i, one in enumerate(_given_prompts(prompts)):
        runner.reset()
        ids = runner.encode(one) if isinstance(one, str) else as_ids(one, runner.vocabulary)
        if not 1 <= len(ids) <= runner.context:
            raise ValueError(
                f"`prompts[{i}]` has {len(ids)} tokens, expected 1 to {runner.context} "
                "(the context)"
            )
        rows.append(ids)
    if not rows:
        raise ValueError("`prompts` is empty: pass at least 1")
    return rows


def _given_prompts(prompts: Iterable[Any] | FilePath) -> Iterable[Any]:
    """Return prompts, or the lines of a file. Raises TypeError for one text, OSError, and
    ValueError for a file that is not UTF-8."""
    if isinstance(prompts, str):
        raise TypeError(
            "`prompts` is one text: pass a list, or the pathlib.Path of a file of lines"
        )
    if not isinstance(prompts, os.PathLike):
        return prompts
    try:
        text = Path(prompts).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{os.fspath(prompts)}: not UTF-8: {error}") from error
    return [line for line in text.splitlines() if line.strip()]


def _in_pairs(inputs: list[Array], prompts: list[list[int]]) -> tuple[list[Array], list[list[int]]]:
    """Return as many inputs of the encoder as prompts; the shorter list begins again."""
    count = max(len(inputs), len(prompts))
    return (
        [inputs[i % len(inputs)] for i in range(count)],
        [prompts[i % len(prompts)] for i in range(count)],
    )


@model_first
def check_llm(
    model: Any = None,
    prompts: Iterable[Any] | FilePath | None = None,
    *,
    program: ProgramSource | TextRunner,
    encoder_inputs: Sequence[Any] | None = None,
    tokenizer: FilePath | Tokenizer | None = None,
    data_path: Data | Sequence[Data] | None = None,
    method: str | None = None,
    cases: Sequence[Case] = CASES,
    length: int | None = None,
    relative: float | None = None,
    min_sqnr_db: float | None = None,
    engines: str | Sequence[str] | None = None,
    official_seconds: float | None = None,
    explain: bool | None = None,
    seed: int = 0,
    kv_cache: KVCache | None = None,
    progress: bool | None = None,
) -> LLMReport:
    """Return how a text program agrees with a model, and with itself.

    Args:
        model: A torch.nn.Module in eval mode (of Hugging Face, of export_llm, or with the
            program's own inputs); a function from ids to logits [n, V]; an array of logits [n, V]
            for each prompt; another program (a path, a Program, a TextRunner): a float program for
            a quantised one. None: only the program's own ways to run are compared. For a program
            with an encoder: an encoder-decoder of Hugging Face; a mapping of modules, {"encoder":
            ..., "text_decoder": ...}; a function from encoder input and ids to logits.
        prompts: Texts (which need a tokenizer) or sequences of ids; or the pathlib.Path of a text
            file, each line of which is a prompt. Default: two random ones.
        program: As for `TextRunner`, or a TextRunner (which is reset). A program runs as written;
            a note says if operators of a TextRunner were delegated when it was loaded.
        encoder_inputs: Inputs of a program with methods "encoder" and "text_decoder", one for each
            prompt: arrays of features, mono audio, ids or texts. Default: two random ones.
        tokenizer, data_path, method: As for `TextRunner`.
        kv_cache: As for `TextRunner`. Default: one like the active cache of ExecuTorch's registry,
            which eager uses. Caches of the registry are restored after each sequence.
        cases: Names of cases: "encoder", "steps", "prefill", "chunks", "turns", "rewind", "reset",
            "official reset", "context"; `executorch_c.llm.check_report.MEANINGS` explains them.
        length: Tokens of the cases "chunks" and "context". Default: the context, at most 1,024.
        relative: Largest error, relative to the RMS of the logits. Default: by dtype, 1e-4 for
            float32.
        min_sqnr_db: Minimum ratio of logits to error in place of that. Default of quantised
            programs: 6; if `model` has quantised weights, 31.5 for one layer, 28.5 for two, 20.7
            for 12.
        engines: ("here", "official"), or ("here",): this runtime only. Default: both.
        official_seconds: Time limit of a case in the official runtime. Default: 20, or 20 times
            the time that it takes in this runtime, if that is longer.
        explain: Look for the layer of the first difference. Default: if `model` is a
            torch.nn.Module.
        seed: Of random prompts.
        progress: Show progress on stderr. Default: on a terminal.

    The case "official reset" differs for programs with recurrent state: ExecuTorch's runner does
    not reset state, so a second conversation starts from the state of the first.

    An encoder-decoder is compared in two parts: the encoder's output, and the logits that follow
    from the output of the program's encoder.

    Returns an `LLMReport`: verdict, rows, perplexities, the first token that differs, whether file
    or runtime is at fault, the layer; a case in which the program raises is a row with the error.
    Raises ValueError for unknown cases, prompts that do not fit, logits of another shape;
    TypeError and exceptions of loading as `TextRunner`.
    """
    wrong = [case for case in cases if case not in CASES]
    if wrong:
        raise ValueError(f"`cases`: {wrong[0]!r} is unknown, expected some of {', '.join(CASES)}")
    check_not_negative(official_seconds=official_seconds)
    official = OfficialScripts("official" in engines_of(engines), official_seconds)
    official.start()
    with Progress("check_llm", progress) as say, closing(official), empty_caches():
        runner = program
        if not isinstance(runner, TextRunner):
            source = opened(runner, data_path)
            runner = open_program(
                source,
                tokenizer,
                method=method,
                delegate_at_load=False,
                kv_cache=kv_cache or cache_for(source.program),
            )
        ids, inputs = _prompts(prompts, runner, seed), list[Any]()
        if isinstance(runner, EncoderDecoder):
            inputs, ids = _in_pairs(encoder_inputs_of(encoder_inputs, runner, seed), ids)
            known = make_encoder_reference(model, runner.signature, ids, inputs, tokenizer)
        elif encoder_inputs is not None:
            raise ValueError(
                "`encoder_inputs`: the program has no methods 'encoder' and 'text_decoder'"
            )
        else:
            known = make_reference(model, runner.signature, ids, tokenizer)
        limits = _limits(runner, known, relative, min_sqnr_db)
        length_limit = min(runner.context, MAX_CONTEXT if length is None else length)
        ways = Cases(runner, ids, length_limit, inputs)
        of_encoder = limits[0]
        if inputs:
            of_encoder = _limits(runner, known, relative, min_sqnr_db, ENCODER)[0]
        check = _Check(runner, known, limits, of_encoder, ways, official)
        scripts = [script for script in ways.scripts() if script.case in cases]
        rows = []
        for script in scripts:
            numbers = iter(range(1, len(script.actions) + 1))
            count = say.count(script.case)
            rows.append(check.row(script, lambda: count(next(numbers), len(script.actions))))
        say("looking for the fault")
        pairs = list(zip(scripts, rows))
        findings = find_fault(pairs, runner, known, limits[1], explain)
    return _report(runner, rows, findings, limits, check.itself(ids[0]))


def _report(
    runner: TextRunner,
    rows: list[Row],
    findings: Findings,
    limits: tuple[LogitTolerance, LogitTolerance],
    remark: str,
) -> LLMReport:
    runner.reset()
    notes = [*remarks_on_runs(rows), perplexities(rows), remark, *findings.notes]
    methods = [*runner._engine.methods.values()]
    if isinstance(runner, EncoderDecoder):
        methods.append(runner._encoder)
    for method in methods:
        notes += [note for note in run_notes(method) if note not in notes]
    if any(row.agreement is not None and row.limit == limits[0] for row in rows):
        notes.append(f"limit against the reference: {limits[0].about()}")
    if limits[0].sqnr_db == LOGIT_MIN_SQNR_DB:
        notes.append(
            "the error of quantisation hides most faults of a quantised program: compare "
            "it with the model after quantisation, too"
        )
    report = LLMReport(
        title_of(runner.source, "a program"),
        tuple(rows),
        tuple(filter(None, notes)),
        findings.fault,
        findings.token,
        findings.explanation,
    )
    report.set_origins(program=runner.source.origin)
    return report
