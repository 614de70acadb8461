"""`advise`: the fewest layers in float for a target, verified on the program itself.

long: the docstring of advise is its reference
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter, process_time
from typing import Any

from executorch_c._input_sets import Source
from executorch_c._stages import stage
from executorch_c.advice import programs
from executorch_c.advice.configuration import configuration_of
from executorch_c.advice.programs import Made, Maker
from executorch_c.advice.report import Advice
from executorch_c.advice.search import Search
from executorch_c.advice.simulation import Simulation
from executorch_c.advice.targets import Reached, reached, targets_of
from executorch_c.check import by_flow, cases, methods
from executorch_c.check.flows import FLOWS, Call
from executorch_c.check.reference import Eager
from executorch_c.compare.policies import Policies
from executorch_c.progress import Progress

MAX_SETS = 500
"""Maximum number of sets of layers that are simulated."""
MAX_SECONDS = 90.0
"""Seconds of a search after the costs of layers, by the time of one set: large models have fewer
sets."""
MIN_SETS = 40
"""Number of sets that are simulated however long each takes."""
MAX_PRUNED = 8
"""Maximum number of programs with fewer layers, after layers were added."""
PRUNING_SECONDS = 40.0
"""Seconds of processor time after which no further one of them is exported."""
MIN_TIME = 1.0
"""Seconds of calls of each program."""


def advise(
    model: object,
    inputs: object = None,
    *,
    flow: str,
    target: str | Iterable[str],
    real_inputs: Source = (),
    held_out: Source = (),
    method: str = "forward",
    min_time: float = MIN_TIME,
    title: str = "",
    progress: bool | None = None,
) -> Advice:
    """Return the fewest layers to keep in float so that a flow's program reaches a target.

    The quantised graph runs in eager with sets of layers in float; the program of the set that is
    found is exported by the flow and run here: the target is reached by it, not by the graph. If
    the program misses it, further layers stay in float. Layers are modules whose own operators the
    flow's quantiser quantises.

    Args:
        model: A torch.nn.Module in eval mode, an ExportedProgram or a function; the reference.
        inputs: Example inputs: a tuple of positional arguments, a dict of keyword arguments or a
            tensor. May be omitted for an ExportedProgram.
        flow: A quantised flow whose quantiser can be told modules that stay in float:
            "xnnpack-int8", "xnnpack-dynamic", "vulkan-int8", "openvino-int8", "cortex-m", those of
            Arm's devices (such as "tosa-int8") and of Qualcomm's (such as "qnn").
        target: "30dB", the signal-to-quantisation-noise ratio of the outputs against the float
            model in dB, or a requirement such as "top1>=0.99"; several, too. Of many calls, the
            worst one counts, of shares all rows.
        real_inputs: Inputs of many calls (see `input_set`), which calibrate besides the example.
        held_out: Inputs of calls on which the target is measured. Default: those that calibrate.
        method: Name of the model's method.
        min_time: Seconds of calls of each program, for their times; 0: not measured.
        title: Name of the model in the report.
        progress: Whether to show progress on stderr. Default: on a terminal.

    Raises ValueError for an invalid target, for a flow that cannot be told, and for a model that
    changes its state or inputs; and the exceptions of exporting.
    """
    targets = targets_of(target)
    with Progress("advise", progress) as say:
        maker, notes = maker_of(model, inputs, flow, targets, real_inputs, held_out, method, say)
        say("reading the quantised graph")
        simulation = Simulation(maker.flow, maker.exported, maker.samples, maker.quantizer)
        choice = Choice(maker, simulation, say)
        names, made = choice.found()
        if min_time:
            say("measuring the programs")
            made = programs.timed(made, maker.calls[0], method, min_time)
    return Advice(
        title or type(getattr(model, "__self__", model)).__name__,
        flow,
        tuple(one.text for one in targets.requirements),
        tuple(simulation.layers.values()),
        tuple(names),
        tuple(made),
        maker.configuration.text(names),
        (*choice.notes, *notes),
    )


def maker_of(
    model: object,
    inputs: object,
    flow: str,
    targets: Policies,
    real_inputs: Source,
    held_out: Source,
    method: str,
    say: Progress,
) -> tuple[Maker, Sequence[str]]:
    """Return the maker of programs, and the notes of input sets."""
    configuration = configuration_of(flow)
    module, exported, _ = methods.reference(model, method)
    example = cases.example_of(inputs, exported)
    real, others = (cases.real_cases(one, example, module) for one in (real_inputs, held_out))
    samples = [example, *real.calls()]
    calls = [*others.calls()] or samples
    say("running the model")
    expected = _expected(module, calls)
    say("exporting the model")
    exported = by_flow.export_of(module, exported, example, None)
    row = FLOWS[flow]
    maker = Maker(row, configuration, exported, samples, calls, expected, targets, method)
    return maker, (*real.notes, *others.notes)


def _expected(module: Any, calls: Sequence[Call]) -> list[list[Any]]:
    """Return eager's outputs of each call. Raises ValueError for a model that changes its state or
    its inputs."""
    eager = Eager(module)
    with stage("eager", module):
        changed = eager.changed_buffers(calls[0])
        outputs = [eager([call])[0] for call in calls]
    changed += [name for name in eager.names if name == "a changed input"]
    if changed:
        raise ValueError(f"the model changes {changed[0]}: expected one without state")
    return outputs


@contextmanager
def _fastest_threads(run: Callable[[], object]) -> Iterator[None]:
    """Let torch compute on one thread if `run` is faster so: small operators, or a busy machine, on
    which threads wait for each other."""
    import torch

    several = torch.get_num_threads()

    def seconds(threads: int) -> float:
        torch.set_num_threads(threads)
        start = perf_counter()
        run()
        return perf_counter() - start

    try:
        if several > 1:
            run()  # the first one rounds weights
            torch.set_num_threads(1 if seconds(1) < seconds(several) else several)
        yield
    finally:
        torch.set_num_threads(several)


class Choice:
    """The choice of layers: simulated, then made and measured."""

    def __init__(self, maker: Maker, simulation: Simulation, say: Progress) -> None:
        self.maker, self.simulation, self.say = maker, simulation, say
        covers = {name: layer.covers for name, layer in simulation.layers.items()}
        self.search = Search(covers, self._measure, MAX_SETS, say.count("sets of layers"))
        self.notes: list[str] = []
        self.is_cut = False
        """True if the search ended at its maximum number of sets."""

    def _measure(self, names: frozenset[str]) -> Reached:
        outputs = self.simulation.outputs(names, self.maker.calls)
        return reached(self.maker.targets, outputs, self.maker.expected)

    def made(self, name: str, kept: Iterable[str]) -> Made:
        """Return the program with layers in float."""
        self.say(f"exporting the program: {name}")
        return self.maker.quantized(name, self._in_order(kept), self.search.size(kept))

    def _in_order(self, kept: Iterable[str]) -> list[str]:
        return [name for name in self.simulation.layers if name in frozenset(kept)]

    def _limit(self) -> None:
        """Limit the search by the time that a set takes."""
        start = perf_counter(), process_time()
        self.search.result([*self.simulation.layers][:1])
        seconds = min(perf_counter() - start[0], process_time() - start[1])  # of a busy machine
        sets = MAX_SECONDS / max(seconds, 1e-6)
        self.search.max_sets = max(MIN_SETS, min(MAX_SETS, int(sets)))

    def found(self) -> tuple[list[str], list[Made]]:
        """Return the names of the layers in float, and the programs: all quantised, advised and
        float. Without a set that reaches the target, those of the best one known."""
        layers = frozenset(self.simulation.layers)
        whole = self.made("all quantised", ())
        best, made = self._reaching(whole)
        self.say("exporting the program: float")
        rest = [] if made is whole else [made]
        limit = "; the search ended at its limit" if self.is_cut else ""
        self.notes.append(f"sets of layers simulated: {len(self.search.known):,}{limit}")
        return self._in_order(best), [whole, *rest, self.maker.in_float(len(layers))]

    def _reaching(self, whole: Made) -> tuple[frozenset[str], Made]:
        """Return the smallest set found whose program reaches the target, and the program."""
        layers = frozenset(self.simulation.layers)
        if whole.reached.ok:
            return frozenset(), whole
        self.search.result(())  # calibrates
        with _fastest_threads(lambda: self._measure(frozenset([*layers][:1]))):
            return self._searched(layers)

    def _searched(self, layers: frozenset[str]) -> tuple[frozenset[str], Made]:
        """Return the smallest set found whose program reaches the target, and the program; some
        layer has to be in float."""
        self._limit()
        kept = self.search.fewest()
        best = layers if kept is None else kept or self.search.likeliest(kept)
        self.is_cut = self.search.is_spent
        made, step = self.made("advised", best), 1
        if made.reached.ok or best == layers:
            return best, made
        self.notes.append("the program reaches less than its graph in eager: layers were added")
        while not made.reached.ok and best != layers:
            for _ in range(step):
                best = self.search.likeliest(best)
            step *= 2
            made = self.made("advised", best)
        return self._pruned(best, made, step // 4) if made.reached.ok else (best, made)

    def _pruned(self, best: frozenset[str], made: Made, step: int) -> tuple[frozenset[str], Made]:
        """Return a smaller set whose program reaches the target, and the program: those of a few
        sets whose graph reaches it, first with `step` layers less."""
        missed, start = set[frozenset[str]](), process_time()
        for _ in range(MAX_PRUNED):
            smaller = best
            for _ in range(max(1, step)):
                sets = (one for one in self.search.smaller(smaller) if one not in missed)
                smaller = next((one for one in sets if self.search.result(one).ok), smaller)
            if smaller == best or process_time() - start > PRUNING_SECONDS:
                break
            other = self.made("advised, with fewer layers", smaller)
            if other.reached.ok:
                best, made = smaller, replace(other, name=made.name)
            else:
                missed.add(smaller)
                step //= 2
        return best, made
