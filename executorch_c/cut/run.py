"""cut: the smallest part of a program that shows its fault, with files for a report.

long: the docstring of cut is its reference
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import getitem
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c import _extras
from executorch_c._arrays import as_array
from executorch_c._core import Error
from executorch_c._order import model_first
from executorch_c._programs import ProgramFile, ProgramSource, method_of, opened
from executorch_c.check import by_flow
from executorch_c.check.cases import leaves
from executorch_c.check.engines import ENGINES
from executorch_c.check.reference import array
from executorch_c.check.run import CheckOptions, check_model
from executorch_c.cut import constants, files, search, trial as trials
from executorch_c.cut.graph import Part, Whole
from executorch_c.cut.own import OwnNodes
from executorch_c.cut.report import Cut, OfficialVerdict
from executorch_c.cut.trial import Trial
from executorch_c.debug import layers
from executorch_c.debug._graphs.names import is_quantizer, operator_of
from executorch_c.debug.places import Places, places_of
from executorch_c.progress import Progress

if TYPE_CHECKING:
    from executorch_c._types import FilePath
    from executorch_c.debug.report import ErrorReport
    from torch.fx import Node

SECONDS = 60.0
"""Default time after which the search ends with what it has."""
OF_FILE = "A part of a program, as its file has it"
"""Begins the title of a part of a program that its flow makes rightly."""
BY_BACKEND = {
    "XnnpackBackend": "xnnpack",
    "VulkanBackend": "vulkan",
    "CoreMLBackend": "coreml",
    "CoreAIBackend": "coreai",
    "MLXBackend": "mlx",
    "OpenvinoBackend": "openvino",
    "NativeBackend": "native",
}
"""The flow that hands a graph, quantised or not, to a backend."""


@model_first
def cut(
    model: Any,
    inputs: Any,
    *,
    folder: FilePath,
    program: ProgramSource | None = None,
    flow: Any = None,
    method: str = "forward",
    dynamic_shapes: Any = None,
    real_inputs: Iterable[Any] = (),
    seconds: float = SECONDS,
    progress: bool | None = None,
) -> Cut:
    """Write the smallest part of a program that shows its fault, and return what it is.

    The source of `explain`, the first node that is wrong on its own inputs, is lowered alone by the
    same flow, with its weights. If that is right, its neighbours are added until the fault shows,
    and what it does not need is left out again. Each part runs on the values of the failing call,
    and on the same numbers in another order. If the flow makes other constants than the program
    has, the part gets the program's; if it makes another program, of another attribute for example,
    the part is the program's own nodes.

    Args:
        model, inputs, method, dynamic_shapes, real_inputs: As for `check_model`.
        folder: A new or empty folder: `cut.pte`, the part; `module.py`, the part in torch, with
            `weights.pt`; `inputs.npz`, the inputs of the failing call; `samples.pt`, all inputs;
            `repro.py`, which compares both and needs torch and executorch alone.
        program: A program; default: the one that `flow` makes.
        flow: Name of the flow, or a function from ExportedProgram to a program. Default: by the
            program's delegates.
        seconds: Time after which the search ends with what it has.
        progress: Show progress on stderr. Default: if it is a terminal.

    Returns a `Cut`; `ok` is False if no part shows the fault, with a reason. Raises ValueError for
    a program that matches its model, FileExistsError for a folder with files, and the exceptions of
    `explain`.
    """
    _extras.require("cut", "torch", "executorch")
    reference, is_made = model, program is None
    values: Sequence[Any] = inputs if isinstance(inputs, (list, tuple)) else (inputs,)
    if program is None:
        made = by_flow.make(
            model,
            inputs,
            flow or "portable",
            method=method,
            dynamic_shapes=dynamic_shapes,
            real_inputs=real_inputs,
            progress=progress,
        )
        reference, program, values = made.reference, made.subject.opened, leaves(made.example)
        flow = flow or "portable"
    assert program is not None
    file = opened(program)
    report = layers.explain(reference, values, program=file, method=method, progress=progress)
    return of_report(
        report, folder, file, flow=flow, is_made=is_made, seconds=seconds, progress=progress
    )


def of_report(
    report: ErrorReport,
    folder: FilePath,
    program: ProgramFile,
    *,
    flow: Any = None,
    is_made: bool = False,
    seconds: float = SECONDS,
    progress: bool | None = None,
) -> Cut:
    """Return the cut of a program around the first source of a report of `explain`; `is_made`: the
    flow has made the program of the report's reference, in this process."""
    places, first = places_of(report), report.first
    if places is None or first is None:
        raise ValueError("nothing to cut: the program matches its model")
    target = Path(folder)
    start = time.monotonic()
    with files.prepared(target), Progress("cut", progress) as say:
        say("the graph")
        whole = Whole(places.graph, places.inputs)
        nodes = places.nodes_of(first)
        source, fault = whole.nodes_from(nodes), trials.operators_of(nodes)
        work = _Work(whole, program, flow or flow_of(program), f"{first}", fault, places, say)
        if not source:
            return work.none("its node is not in the exported graph", start)
        if not is_made:
            work.compare_files()
        found = work.own_nodes(source, first.where) if work.is_other else None
        found = found or search.smallest(whole, source, work.attempt, start + seconds)
        if found is None:
            return work.none(work.why(time.monotonic() > start + seconds), start)
        files.write(target, found, work.flow, found.title)
        say("the official runtime")
        return work.result(found, target, start)


def may_have_part(report: ErrorReport) -> bool:
    """Return True if a program of some nodes may show the fault of a report: its first row has
    nodes in the graph of the reference."""
    places, first = places_of(report), report.first
    return places is not None and first is not None and bool(places.nodes_of(first))


def flow_of(program: ProgramFile) -> str:
    """Return the name of the flow that makes a program's delegates. Raises ValueError for several
    backends, or one that several flows make."""
    used = {use["id"] for one in program.program.info()["methods"] for use in one["delegates"]}
    if not used:
        return "portable"
    if len(used) == 1 and used <= BY_BACKEND.keys():
        return BY_BACKEND[used.pop()]
    raise ValueError(
        f"pass `flow`: the one that made the program's delegates ({', '.join(sorted(used))}) is "
        "not known"
    )


@dataclass
class _Work:
    """One search: parts are lowered and compared."""

    whole: Whole
    program: ProgramFile
    flow: Any
    source: str
    fault: frozenset[str]
    call: Places
    """The call that shows it."""
    say: Any
    fresh: bytes | None = None
    """What the flow makes of the whole graph, if that is not the program."""
    places: list[constants.Pair] = field(default_factory=list)
    """Where both differ."""
    is_other: bool = False
    """True if the flow makes a program with other outputs, whichever constants it gets."""
    problem: str = ""
    """Why a part could not be lowered: of the last one."""
    tried: int = 0
    file: bytes = field(init=False)

    def __post_init__(self) -> None:
        source: Any = self.program.source
        self.file = source if isinstance(source, bytes) else Path(source).read_bytes()

    @property
    def title(self) -> str:
        """What the files are about."""
        name = self.flow if isinstance(self.flow, str) else getattr(self.flow, "__name__", "flow")
        return f"A part of a model that flow {name} lowers wrongly"

    def lower(self, exported: Any) -> bytes:
        """Return the program that the flow makes."""
        return by_flow.lowered(self.flow, exported)

    def compare_files(self) -> None:
        """Find out whether the flow makes the program of the graph."""
        self.say("lowering the whole graph")
        try:
            fresh = by_flow.lowered(self.flow, self.whole.original, self.call.method)
        except Exception:  # exporters raise many kinds; parts may be lowered
            return
        if fresh != self.file:
            self.fresh, self.places = fresh, constants.pairs(self.file, fresh)
            if not self._explains(fresh):
                self.places, self.is_other = [], True

    def _explains(self, fresh: bytes) -> bool:
        """Return True if the flow's program with the file's constants has the file's outputs."""
        program, _ = constants.transplanted(fresh, self.file, fresh, self.places)
        inputs = [array(one) for one in self.call.inputs]
        try:
            ours, theirs = (
                method_of(one, self.call.method).execute(inputs) for one in (program, self.file)
            )
        except (Error, RuntimeError):
            return False
        return len(ours) == len(theirs) and all(map(_are_equal, ours, theirs))

    def own_nodes(self, source: Iterable[Node], where: str) -> Trial | None:
        """Return the program's own nodes as a part, compared; None if they cannot be one, or do not
        show the fault."""
        self.say("the program's own nodes")
        try:
            own = OwnNodes(self.whole, self.program, self.file, self.call)
            for part, program in own.parts(list(source), where):
                self.tried += 1
                trial = trials.of_program(part, self.fault, program, f"{OF_FILE}: {self.source}")
                trial = trial.compared()
                if trial.is_wrong:
                    return trial
        except Exception as error:  # of exporters, and of values that a backend does not show
            self.problem = f"{type(error).__name__}: {error}".splitlines()[0]
        return None

    def attempt(self, part: Part) -> Trial | None:
        """Return a part as a program, compared; None if the flow refuses it."""
        self.tried += 1
        self.say(f"part {self.tried}: {part.size} operators")
        try:
            title = f"{self.title}: {self.source}"
            trial = trials.lowered(part, self.fault, self.lower, title).compared()
            if not trial.is_wrong and self.fresh is not None:
                trial = self._with_constants(trial)
        except Exception as error:  # likewise
            self.problem = f"{type(error).__name__}: {error}".splitlines()[0]
            return None
        return trial

    def _with_constants(self, trial: Trial) -> Trial:
        """Return a trial with the program's constants for the flow's."""
        assert self.fresh is not None
        program, count = constants.transplanted(trial.program, self.file, self.fresh, self.places)
        if not count:
            return trial
        return trial.with_program(program, count, f"{OF_FILE}: {self.source}").compared()

    def why(self, is_late: bool) -> str:
        """Return why no part shows the fault."""
        if is_late:
            return f"none of {self.tried} parts did in time"
        if self.fresh is not None:
            return "the flow makes another program of this model, without the fault"
        more = f"; the last one was refused: {self.problem}" if self.problem else ""
        return f"it needs the whole program{more}"

    def none(self, reason: str, start: float) -> Cut:
        """Return the result without a part."""
        seconds = time.monotonic() - start
        size = Part(self.whole, frozenset(self.whole.operators)).size
        return Cut(
            None, self.source, (), size, (), 0, "not run", "", 0, reason, self.tried, seconds
        )

    def result(self, trial: Trial, folder: Path, start: float) -> Cut:
        """Return the result of a trial that shows the fault."""
        official, about = _official(trial)
        part = trial.part
        nodes = [n for n in part.order if n in part.nodes and n.target is not getitem]
        return Cut(
            str(folder),
            self.source,
            tuple(operator_of(n) or str(n.target) for n in nodes if not is_quantizer(n)),
            Part(self.whole, frozenset(self.whole.operators)).size,
            tuple(report.summary() for report in trial.reports),
            sum(trial.shows),
            official,
            about,
            trial.constants,
            "",
            self.tried,
            time.monotonic() - start,
            trial.program,
            trial.is_own,
        )


def _are_equal(one: object, other: object) -> bool:
    return bool(np.array_equal(as_array(one), as_array(other), equal_nan=True))


def _official(trial: Trial) -> tuple[OfficialVerdict, str]:
    """Return what the official runtime computes for the samples: its verdict, and an error."""
    first, *others = [tuple(sample) for sample in trial.samples]
    options = CheckOptions(None, None, None, True, True, "default", False, ENGINES)
    try:
        result = check_model(
            trial.exported,
            first,
            None,
            program=trial.program,
            dynamic_shapes=None,
            n_random=0,
            real_inputs=others,
            search=False,
            method="forward",
            data_path=None,
            seed=0,
            progress=False,
            options=options,
        )
    except Exception as error:  # of eager, on numbers in another order
        return "not run", f"{type(error).__name__}: {error}".splitlines()[0]
    runs = [case.official for case in result.cases if case.official is not None]
    order: tuple[OfficialVerdict, ...] = ("differ", "error", "match", "inconclusive", "not run")
    for verdict in order:
        for run in runs:
            if run.verdict == verdict:
                return verdict, run.about
    return "not run", ""
