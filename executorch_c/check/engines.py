"""The engines of a check: this runtime ("here"), and the official one, beside it ("official").

The cases run in the official runtime while this one computes them; both are compared with eager by
the same judge.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from executorch_c._core import Method, TensorInfo
from executorch_c._files import is_package
from executorch_c._programs import ProgramFile, method_info
from executorch_c._render import text as _text
from executorch_c.check import official, official_blame
from executorch_c.check.flows import FLOWS
from executorch_c.check.official import Process, Reply, Unavailable
from executorch_c.check.official_child import unwired
from executorch_c.check.reference import array
from executorch_c.compare.comparison import Comparison

if TYPE_CHECKING:
    from executorch_c.check.result import CheckedCase

EngineName = Literal["here", "official"]
ENGINES: tuple[EngineName, ...] = ("here", "official")
OFFICIAL_SECONDS = 20.0
"""Default time limit of a case in the official runtime."""
MAX_NAMED_CASES = 3
"""Maximum number of cases that a sentence names."""
MAX_CRASHES = 3
"""Cases that may end the official runtime's process, before a check leaves out the others."""
DELEGATES = frozenset({"XnnpackBackend"})
"""Backends of the official wheel that run on any CPU."""
NATIVE_FLOWS = frozenset({"portable", "xnnpack", "xnnpack-int8", "xnnpack-dynamic"})
"""Flows whose programs the official runtime can run on any CPU."""
CHANNELS_LAST = (0, 2, 3, 1)

JudgeOutputs = Callable[[list[list[Any]]], Comparison]
"""Returns the comparison of the outputs of a case's calls with eager's."""


def engines_of(engines: str | Sequence[str] | None) -> tuple[EngineName, ...]:
    """Return the engines of an option: names, or "here,official"; None: all. Raises ValueError."""
    if engines is None:
        return ENGINES
    names = (
        [name.strip() for name in engines.split(",")] if isinstance(engines, str) else list(engines)
    )
    unknown = [name for name in names if name not in ENGINES]
    if unknown or "here" not in names:
        raise ValueError(
            f"`engines` is {engines!r}, expected ('here', 'official') or ('here',): "
            + (f"'{unknown[0]}' is unknown" if unknown else "'here' is missing")
        )
    return tuple(name for name in ENGINES if name in names)


@dataclass(frozen=True)
class OfficialRun:
    """A case in the official runtime."""

    verdict: Literal["match", "differ", "inconclusive", "error", "not run"]
    """The verdict on its outputs; "error": it refuses the program or inputs, or crashes."""
    about: str = ""
    """A phrase: the error, or why it was not run."""
    comparison: Comparison | None = None
    """Comparison with the reference; None without outputs."""
    actual: tuple[object, ...] = field(default=(), repr=False)
    """Outputs that do not match, of all calls."""
    where: str = ""
    """Where they go wrong, if known: "aten::amax.out, instruction 3"."""
    what: str = ""
    """The wrong result ("logits") of a case of check_llm, whose outputs have no numbers."""

    @property
    def ok(self) -> bool:
        """False if the official runtime is wrong, refuses or crashes."""
        return self.verdict not in ("differ", "error")

    def as_dict(self) -> dict[str, Any]:
        """Return {"verdict", "problems", "figures"}."""
        figures = {} if self.comparison is None else self.comparison.figures()
        return {"verdict": self.verdict, "problems": self.problems(), "figures": figures}

    def problems(self) -> list[str]:
        """Return a phrase for each error."""
        if self.comparison is None:
            return [self.about] if self.about else []
        return self.comparison.problems()


def name() -> str:
    """Return "the official runtime 1.5.1"."""
    return f"the official runtime {official.version()}".rstrip()


def _equal(one: Any, other: Any) -> bool:
    """Return True if two outputs are the same bits."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return (
            one.dtype == other.dtype
            and one.shape == other.shape
            and one.tobytes() == other.tobytes()
        )
    return type(one) is type(other) and bool(one == other)


def _is_same(ours: list[list[Any]] | None, theirs: list[list[Any]]) -> bool:
    """Return True if the outputs of all calls are the same bits."""
    return ours is not None and all(
        len(a) == len(b) and all(map(_equal, a, b)) for a, b in zip(ours, theirs, strict=True)
    )


def as_sent(value: Any, info: Any) -> Any:
    """Return what is sent of an input: of an array, the bytes in the layout of the program's input.
    Raises Unavailable for values that the official bindings do not take."""
    if isinstance(value, str):
        raise Unavailable("the official bindings take no text")
    if not isinstance(value, np.ndarray):
        return value
    order = info.dim_order if isinstance(info, TensorInfo) else tuple(range(value.ndim))
    if order != tuple(range(value.ndim)) and order != CHANNELS_LAST:
        raise Unavailable(f"the official bindings take no input of dimension order {order}")
    dtype, data = value.dtype.name, np.ascontiguousarray(value.transpose(order))
    if isinstance(info, TensorInfo) and info.dtype() == BFLOAT16 and dtype != "bfloat16":
        dtype, data = "bfloat16", _upper_half(data)  # ml_dtypes is not installed
    return dtype, value.shape, order, data.tobytes()


BFLOAT16 = 15
"""PyTorch's number of the dtype."""


def _upper_half(data: Any) -> Any:
    """Return float32 numbers that are bfloat16's as the bits of bfloat16."""
    return (np.ascontiguousarray(data, np.float32).view(np.uint32) >> 16).astype(np.uint16)


class OfficialProgram:
    """A program in the official runtime, whose process starts early and stays for later checks."""

    def __init__(self, asked: bool, seconds: float) -> None:
        self.seconds = seconds
        self.why_not: str | None = None if asked else ""
        """Why no case runs; None if cases run, empty if the engine was not asked for."""
        self._process: Process | None = None
        self._is_loaded = False
        self._crashes = 0
        self._pending: OfficialRun | None = None
        """The finding on a case that was not sent."""
        self._is_located = False

    def start(self, program: object = None) -> None:
        """Start the process, which imports the runtime meanwhile, unless the program, or the flow
        that makes it, is known to be of no use there."""
        flow = FLOWS.get(program) if isinstance(program, str) else None
        if flow is not None and flow.leaves_out and self.why_not is None:
            self.why_not = "the graph before a vendor's compiler is no program for it"
        foreign = flow is not None and flow.name not in NATIVE_FLOWS
        if self.why_not is None and not foreign and not isinstance(program, Method):
            try:
                self._process = official.acquire()
            except Unavailable as error:
                self.why_not = str(error)

    def take(self, source: ProgramFile | None, methods: Iterable[str]) -> None:
        """Take the program of the check, of which some methods are called."""
        if self.why_not is not None:
            return
        try:
            self._program, self._data = _file(source)
            assert source is not None
            self._loaded_program = source.program
            self._needed = frozenset[str]().union(*(_needs(source, name) for name in methods))
        except Unavailable as error:
            self.why_not = str(error)
            self.close()

    def close(self) -> None:
        """Keep the process for the next check."""
        if self._process is not None:
            if self._is_loaded:
                self._process.forget()
            official.release(self._process)
        self._process, self._is_loaded = None, False

    def _ready(self) -> Process:
        """Return the process, with the program. Raises Unavailable."""
        if self._process is None:
            self._process = official.acquire()
        if not self._is_loaded:
            import torch

            self._process.load(self._program, self._data, torch.get_num_threads())
            self._is_loaded = True
        return self._process

    def prepared(self) -> Process | None:
        """Return the process, with the program, for the next case; None if no case can run, whose
        finding `received` has."""
        try:
            process = self._ready()
        except Unavailable as error:
            self.why_not = str(error)
            return None
        missing = sorted(self._needed - process.operators())
        self._pending = _without(missing, process.operators()) if missing else None
        return process if self._pending is None else None

    def received(self, seconds: float) -> Reply | OfficialRun | None:
        """Return the reply to the case that was sent, if it has outputs; else the finding on the
        case; None if the engine was not asked for."""
        if self.why_not is not None:
            return OfficialRun("not run", self.why_not) if self.why_not else None
        if self._pending is not None:
            return self._pending
        assert self._process is not None
        reply = self._process.reply(seconds)
        return reply if reply.outcome == "ran" else self._failed(reply, seconds)

    def located(self, find: Callable[[Process], str]) -> str:
        """Return where the first case that is wrong goes wrong, if the values tell; empty for later
        cases."""
        if self._is_located or self._process is None:
            return ""
        self._is_located = True
        try:
            return find(self._process)
        except Exception:  # the finding stands without its place
            return ""
        finally:
            self.forget_if_unusable()

    def _failed(self, reply: Reply, seconds: float) -> OfficialRun:
        """Return the finding on a case without outputs."""
        if reply.outcome == "refused":
            return OfficialRun("error", reply.about)
        self._process, self._is_loaded = None, False
        if reply.outcome == "timeout":
            self.why_not = f"a case took longer than {seconds:g} s (official_seconds)"
            return OfficialRun("not run", f"it took longer than {seconds:g} s (official_seconds)")
        self._crashes += 1
        if self._crashes == MAX_CRASHES:
            self.why_not = f"it crashed in {MAX_CRASHES} cases"
        else:
            self.start()
        return OfficialRun("error", reply.about)

    def forget_if_unusable(self) -> None:
        """Let the next case start a process if this one ended."""
        if self._process is not None and not self._process.is_usable:
            self._process, self._is_loaded = None, False


class Official(OfficialProgram):
    """The official runtime's side of a check."""

    def open(self, source: ProgramFile | None, method: Method) -> None:
        """Take the program of the check."""
        self._method, self._infos = method, [info for _, info in method.metadata.inputs]
        self.take(source, [method.metadata.name()])

    def begin(self, calls: Sequence[Sequence[Any]], names: Sequence[str]) -> None:
        """Begin to run the calls of a case from the initial state; `end` has the finding."""
        self._pending = None
        if self.why_not is not None:
            return
        try:
            self._calls = calls
            self._packed = [
                [as_sent(value, info) for value, info in zip(inputs, self._infos)]
                for inputs in calls
            ]
        except Unavailable as error:
            self._pending = OfficialRun("not run", str(error))
            return
        if (process := self.prepared()) is not None:
            name = self._method.metadata.name()
            process.submit(name, self._packed, list(names), self.seconds)

    def end(
        self, ours: list[list[Any]] | None, own: Comparison | None, judged: JudgeOutputs
    ) -> OfficialRun | None:
        """Return the finding on the case that was begun; None if the engine was not asked for.

        Args:
            ours: Outputs of this runtime, and their comparison: equal bits have equal verdicts.
            judged: Compares outputs with the reference.
        """
        reply = self.received(self.seconds)
        if not isinstance(reply, Reply):
            return reply
        theirs = [[array(unwired(value)) for value in outputs] for outputs in reply.outputs]
        if own is not None and _is_same(ours, theirs):
            comparison = own
        else:
            comparison = judged(theirs)
        wrong = () if comparison.ok else tuple(value for outputs in theirs for value in outputs)
        is_ours = own is not None and own.verdict == "differ"
        where = self._located(comparison) if comparison.verdict == "differ" and not is_ours else ""
        return OfficialRun(comparison.verdict, "", comparison, wrong, where)

    def _located(self, comparison: Comparison) -> str:
        """Return where the case goes wrong, if it is the first and the values tell."""
        wrong = [
            (one.index, one.metrics.relative)
            for one in comparison.outputs
            if one.verdict == "differ" and one.metrics
        ]
        if not wrong:
            return ""
        index, relative = wrong[0]
        return self.located(
            lambda process: official_blame.find(
                process,
                self._method,
                self._loaded_program,
                self._calls,
                self._packed,
                index % self._method.metadata.num_outputs(),
                relative,
                self.seconds,
            )
        )


def _file(source: ProgramFile | None) -> tuple[official.Program, official.Program | None]:
    """Return the program and its data file, each as bytes or path. Raises Unavailable."""
    if source is None or source.method is not None:
        raise Unavailable("a loaded method has no file: pass the program's path or bytes")
    if len(source.data) > 1:
        raise Unavailable("the official bindings take one data file")
    program = source.source if source.bundled is None else source.bundled.program_data
    if program is None:
        raise Unavailable("a loaded program has no file: pass its path or bytes")
    if is_package(program):
        raise Unavailable("it reads no native packages (.ptn)")
    return _path_or_bytes(program), _path_or_bytes(source.data[0]) if source.data else None


def _path_or_bytes(source: Any) -> official.Program:
    if isinstance(source, (str, os.PathLike)):
        return os.path.abspath(os.fspath(source))
    if isinstance(source, bytes):
        return source
    with suppress(TypeError):
        return bytes(memoryview(source))
    raise Unavailable("an open file was read to its end: pass the program's path or bytes")


def _needs(source: ProgramFile | None, method: str) -> frozenset[str]:
    """Return the names of a method's operators. Raises Unavailable for delegates that the official
    runtime cannot run here."""
    assert source is not None
    info = method_info(source.program, method)
    foreign = sorted({use["id"] for use in info["delegates"]} - DELEGATES)
    if foreign:
        raise Unavailable(f"it has no {foreign[0]} here")
    return frozenset(one["name"] for one in info["operators"])


def _without(missing: Sequence[str], known: frozenset[str]) -> OfficialRun:
    """Return the finding for operators that the official runtime lacks: an error, unless they are
    of a library that the wheel does not have."""
    spaces = {operator.partition("::")[0] for operator in known}
    foreign = [operator for operator in missing if operator.partition("::")[0] not in spaces]
    if foreign:
        space = foreign[0].partition("::")[0]
        return OfficialRun("not run", f"the wheel has no library of operators '{space}'")
    return OfficialRun("error", f"it lacks {', '.join(missing)}")


# ---- sentences ----------------------------------------------------------------------------------


class EngineCase:
    """A case of check_model or check_llm."""

    official: OfficialRun | None

    @property
    def name(self) -> str:
        """The name in sentences."""
        raise NotImplementedError

    @property
    def verdict(self) -> str:
        """The verdict on this runtime's outputs; "error": the program raised."""
        raise NotImplementedError

    @property
    def ok_here(self) -> bool:
        """False if the program is wrong or raises in this runtime."""
        return self.verdict not in ("differ", "error")


AnyCase = TypeVar("AnyCase", bound=EngineCase)


def _runs(cases: Iterable[AnyCase], verdict: str) -> list[tuple[AnyCase, OfficialRun]]:
    return [
        (case, case.official)
        for case in cases
        if case.official is not None and case.official.verdict == verdict
    ]


def shown_verdicts(head: Sequence[str], rows: list[list[Any]]) -> list[list[Any]]:
    """Return rows with the column "official", empty if the official runtime ran no case."""
    at = head.index("official")
    if all(row[at] in ("", "not run") for row in rows):
        rows = [[*row[:at], "", *row[at + 1 :]] for row in rows]
    return rows


def summary(cases: Sequence[EngineCase]) -> str:
    """Return what the official runtime adds to a summary, if it is wrong: ", 3 differ in the
    official runtime 1.5.1"."""
    right = [case for case in cases if case.ok_here]
    words = [
        f"{len(runs)} {word}"
        for verdict, word in (("differ", "differ"), ("error", "fail"))
        if (runs := _runs(right, verdict))
    ]
    return f", {' and '.join(words)} in {name()}" if words else ""


def remarks(cases: Sequence[CheckedCase]) -> list[str]:
    """Return sentences about the official runtime: what it computes wrongly, refuses, or did not
    run."""
    return [*_differences(cases), *remarks_on_runs(cases)]


def remarks_on_runs(cases: Sequence[EngineCase]) -> list[str]:
    """Return sentences about the official runtime without its outputs by index: what it computes
    wrongly, refuses, computes rightly alone, or did not run."""
    return [*_wrong(cases), *_errors(cases), *_better(cases), *_not_run(cases)]


def wrongly(what: str, where: str, about: str) -> str:
    """Return the sentence about a result that is wrong in the official runtime only."""
    place = f" ({where})" if where else ""
    return f"{name()} computes {what} wrongly{place}: right in this runtime; {about}"


def beside_error(run: OfficialRun | None) -> str:
    """Return the phrase about a case that raises in this runtime: what the official one does;
    empty if it did not run."""
    if run is None or run.verdict == "not run":
        return ""
    if run.verdict == "error":
        return f"{name()} fails, too: {run.about}"
    wrongly = f" wrongly: {run.about}" if run.verdict == "differ" else ""
    return f"{name()} computes it{wrongly}"


def _wrong(cases: Sequence[EngineCase]) -> Iterator[str]:
    """Yield a sentence for each kind of result that is wrong there and right here: of its first
    case."""
    firsts: dict[str, str] = {}
    for case, run in _runs(cases, "differ"):
        if run.what and case.ok_here:
            about = f"{case.name}: {run.about}"
            firsts.setdefault(run.what, wrongly(run.what, run.where, about))
    yield from firsts.values()


def _differences(cases: Sequence[CheckedCase]) -> Iterator[str]:
    """Yield a sentence for each output that is wrong there and right here: of its first case."""
    seen: set[int] = set()
    for case, run in _runs(cases, "differ"):
        assert run.comparison is not None
        ours = {} if case.comparison is None else {o.index: o for o in case.comparison.outputs}
        for output in run.comparison.outputs:
            mine = ours.get(output.index)
            both = mine is not None and mine.verdict == "differ"
            if output.verdict != "differ" or both or output.index in seen:
                continue
            seen.add(output.index)
            about = f"{case.name}: {output.why().partition(': ')[2]}"
            yield wrongly(output.title, run.where, about)
        if run.comparison.problem and case.ok_here and -1 not in seen:
            seen.add(-1)
            yield f"{name()}: {case.name}: {run.comparison.problem}"


def _errors(cases: Sequence[EngineCase]) -> Iterator[str]:
    """Yield a sentence for each error: of its first case."""
    firsts: dict[str, tuple[EngineCase, int]] = {}
    for case, run in _runs(cases, "error"):
        first, count = firsts.get(run.about, (case, 0))
        firsts[run.about] = first, count + 1
    for about, (case, count) in firsts.items():
        many = f" and {_text.plural(count - 1, 'more case')}" if count > 1 else ""
        yield f"{name()} fails: {case.name}{many}: {about}"


def _better(cases: Sequence[EngineCase]) -> Iterator[str]:
    """Yield a sentence if this runtime alone is wrong, and one for cases that layers decide, which
    the official runtime does not show."""
    wrong = [case for case, _ in _runs(cases, "match") if not case.ok_here]
    audited = [case.name for case in wrong if _is_wrong_inside(case)]
    names = [case.name for case in wrong if case.name not in audited]
    if names:
        listed = ", ".join(names[:MAX_NAMED_CASES])
        yield f"{name()} computes {listed} rightly: wrong in this runtime only"
    if audited:
        listed = ", ".join(audited[:MAX_NAMED_CASES])
        yield f"{name()}: the outputs of {listed} are within limits, as here; layers decide here"


def _is_wrong_inside(case: EngineCase) -> bool:
    """Return True if no output has elements out of tolerance: layers decide the verdict."""
    comparison = getattr(case, "comparison", None)
    found = [] if comparison is None else comparison.outputs
    return bool(found) and not any(
        one.problem or (one.metrics is not None and one.metrics.mismatched) for one in found
    )


def _not_run(cases: Sequence[EngineCase]) -> Iterator[str]:
    """Yield a note for each reason of cases that were not run."""
    runs = _runs(cases, "not run")
    asked = sum(case.official is not None for case in cases)
    for about, count in Counter(run.about for _, run in runs).items():
        what = "any case" if count == asked else f"{count} of {_text.plural(asked, 'case')}"
        yield f"note: {name()} did not run {what}: {about}"
