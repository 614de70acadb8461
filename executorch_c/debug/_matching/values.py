"""Match the steps of a program's run with nodes of the reference's graph, by value.

A step is an instruction, or a node inside a delegate. Steps are taken in order of execution. The
sources of a step are known as nodes of the graph, from the steps before; so the step is one of the
few nodes that follow from these. It is the one that computes the same numbers from the program's
own values. Debug handles differ from export to export, so they only decide between equals. Layers
that a delegate fuses, splits or moves need no rules.

`docs/explanation/matching.md` follows a graph of five nodes step by step, right and with a wrong
bias. The functions of that example, in order:

    a step's sources as nodes          Assignment.front
    candidates and their distances     Assignment.near, Search.agreeing
    the match takes the step's value   Pairing._accept, Assignment.put
    no candidate agrees: it is assumed to be one of Search.options   Pairing._assume
    the next step tries the options    Pairing._with_hypotheses
      it agrees through one: it holds  Pairing._confirm
      it agrees without: no node       Pairing._drop
    no later step decides              Pairing._decide
    only one side has an operator      parting.py, Pairing._part

So a wrong step is found by what the program computes from it, and a right program is never made
wrong by an assumption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c._arrays import as_array
from executorch_c.compare.limits import BETTER_RATIO, MIN_MATCHED_SHARE
from executorch_c.compare.tolerance import epsilon_of
from executorch_c.debug._graphs.names import is_quantizer, kind_of
from executorch_c.debug._graphs.program import Step, Steps
from executorch_c.debug._graphs.reference import ReferenceGraph
from executorch_c.debug._matching import misshapen
from executorch_c.debug._matching.assignment import Assignment
from executorch_c.debug._matching.candidates import Candidate, StepSources, Hypothesis
from executorch_c.debug._matching.matches import Match, Matches
from executorch_c.debug._matching.parting import DirectComputation, Parting, Partings
from executorch_c.debug._matching.search import (
    Search,
    compare,
    is_tight,
    limit_of,
    operator_on,
)

if TYPE_CHECKING:
    from torch.fx import Node


class Pairing:
    """The matching of steps with nodes."""

    def __init__(self, graph: ReferenceGraph, arguments: Mapping[Node, Any]) -> None:
        self.state = Assignment(graph, arguments)
        self.search = Search(self.state)
        self.candidates: dict[Step, Candidate] = {}
        """Matches: steps with a node that no later step can change."""
        self.known: set[Step] = set()
        """Steps with a match, and copies of earlier values."""
        self.wrong: set[Step] = set()
        """Steps whose assumption held."""
        self.kept = set(graph.state)
        """Nodes of the state before the call."""
        self.halves: dict[Node, Match] = {}
        """States that the program keeps in half precision."""
        self.partings = Partings(self.state)
        self.parted: list[Parting] = []
        """Places where only the program, or only the graph, has an operator."""
        self.added: dict[Step, DirectComputation] = {}
        """Steps that read the result of an operator that only the program has."""
        self.interrupted = False

    def run(
        self,
        steps: Sequence[Step],
        outputs: Sequence[tuple[Node, Step]],
        progress: Callable[[int, int], None] | None = None,
    ) -> list[Match]:
        """Return the matches of steps; `outputs` are the method's results as steps, with their
        nodes."""
        try:
            for number, step in enumerate(steps):
                if progress is not None:
                    progress(number, len(steps))
                if any(array is not None for array in step.outputs):
                    self._place_step(step)
        except KeyboardInterrupt:
            self.interrupted = True
        for node, step in outputs:
            self._result(node, step)
        self._decide()
        return [
            *self.halves.values(),
            *map(_match_of_parting, filter(lambda parting: parting.missing, self.parted)),
            *(self._match(step, candidate) for step, candidate in self.candidates.items()),
        ]

    # ---- one step -------------------------------------------------------------------------

    def _place_step(self, step: Step) -> None:
        """Find the node of a step: it agrees, through an assumption or anywhere, or it is wrong."""
        if self._match_half(step):
            return
        front = self.state.front(step)
        candidate = self.search.agreeing(step, front)
        if front.hypotheses:
            candidate = self._with_hypotheses(step, front, candidate)
        candidate = candidate or self.search.anywhere(step)
        direct = (
            None if candidate is not None and is_tight(candidate) else self.partings.direct(step)
        )
        if direct is not None and (
            candidate is None or BETTER_RATIO * direct.candidate.distance < candidate.distance
        ):
            self._part(step, direct)
        elif candidate is not None:
            self._accept(step, candidate)
        elif not front.is_open and not step.is_part:
            self._assume(step, front)

    def _accept(self, step: Step, candidate: Candidate) -> None:
        """Take a candidate for the match of a step."""
        self.known.add(step)
        if self._is_old(step, candidate):
            if self.state.owner(candidate.node) not in self.state.hypotheses:
                self.state.same[step, 0] = candidate.same  # an earlier value, in another layout
            return  # a copy neither confirms nor drops an assumption
        if candidate.is_sure or candidate.level:
            self._confirm(candidate.used)
        self.state.put(step, candidate)
        self.candidates[step] = candidate

    def _match_half(self, step: Step) -> bool:
        """Match a state that a delegate keeps in half precision, where that changes its numbers, so
        that the operators that read it are right; return whether the step reads one."""
        array = step.outputs[0] if step.outputs else None
        if step.sources or not step.inside or array is None or not epsilon_of(array.dtype):
            return False
        for node in self.kept - set(self.halves):
            value = self.state.values.value(node)
            compared = compare(step, value)
            if compared is None or not compared[0] <= limit_of(step) or compared[1][0].equal(value):
                continue
            if epsilon_of(array.dtype) <= epsilon_of(as_array(value).dtype):
                continue
            name = f"{step.name} ({array.dtype.name})"
            self.halves[node] = Match(
                step.order, step.where, name, False, [as_array(compared[1][0])], [node], node
            )
            self.state.values.set(node, compared[1][0])
            self.state.same[step, 0] = [node]
            self.known.add(step)
            return True
        return False

    def _is_old(self, step: Step, candidate: Candidate) -> bool:
        """Return True if the match is an earlier value, possibly in another layout."""
        node = candidate.node
        is_source = not candidate.level and node in self.state.front(step).all
        return is_source or node in self.state.taken or node.op != "call_function"

    def _result(self, node: Node, step: Step) -> None:
        """Confirm the assumptions that lead to a right result of the method."""
        if self.search.agrees(step, node):
            front = self.state.front(step)
            _, used = self.state.path(node, front.all | set(self.state.values.fixed))
            self._confirm(used)
        elif (parting := self.partings.at_result(step, node)) is not None:
            self._set_parted(parting)

    # ---- operators that only one side has -------------------------------------------------

    def _part(self, step: Step, direct: DirectComputation) -> None:
        """Take the node of a step that is right on its direct sources, and part before it."""
        self._drop(step)
        for parting in direct.partings:
            self._set_parted(parting)
        if any(direct.added()):
            self.added[step] = direct
        self.known.add(step)
        self.state.put(step, direct.candidate)
        self.candidates[step] = direct.candidate

    def _set_parted(self, parting: Parting) -> None:
        """Give the node of a parting the program's value."""
        self.parted.append(parting)
        if not parting.missing:
            return
        source, number = parting.source
        self.state.set_parted(parting)
        if parting.instead and isinstance(source, Step):
            self.known.add(source)
            self.wrong.add(source)

    def _match(self, step: Step, candidate: Candidate) -> Match:
        """Return the match of a step."""
        is_parted = any(candidate.node is parting.node for parting in self.parted)
        is_wrong = step in self.wrong and not is_parted
        parting = self.partings.of_wrong(step, candidate) if is_wrong else None
        if parting is not None:
            return _match_of_parting(parting, candidate)
        return _match(step, candidate, self.added.get(step))

    # ---- assumptions: steps without an agreeing node --------------------------------------

    def _assume(self, step: Step, front: StepSources) -> None:
        """Assume that a step is wrong: computed from its node's values, or without one of them, as
        where a sum is missing, which holds only where a later step follows. A step on constants
        lacks none: MLX's view of a batch norm's parameters is not one of the model's views."""
        around = self.state.around() if front.nodes else set()
        for sources in (front.all, front.all | around):
            if options := self.search.options(step, front, sources):
                hypothesis = Hypothesis(step, options, is_sure=sources == front.all)
                self.state.hypotheses[step] = hypothesis
                self._choose(hypothesis, 0)
                return

    def _choose(self, hypothesis: Hypothesis, at: int) -> None:
        """Give the value of an assumption's step to another of its options."""
        self.state.withdraw(hypothesis)
        hypothesis.at = at
        self.state.put(hypothesis.step, hypothesis.candidate)

    def _with_hypotheses(
        self, step: Step, front: StepSources, candidate: Candidate | None
    ) -> Candidate | None:
        """Return the match of a step after trying other options of the assumptions before it."""
        skipped = frozenset(self.state.hypotheses)
        without = self.search.agreeing(step, self.state.front(step, skipped))
        if without is not None and (candidate is None or without.distance < candidate.distance):
            self._drop(step)
            return without
        for before in front.hypotheses:
            candidate = self._best_option(step, self.state.hypotheses[before], candidate)
        return candidate

    def _best_option(
        self, step: Step, hypothesis: Hypothesis, candidate: Candidate | None
    ) -> Candidate | None:
        """Choose the option of an assumption with which a step agrees best, and return the match;
        `candidate` is the match with the present option."""
        best = hypothesis.at
        for at, option in enumerate(hypothesis.options):
            if at == hypothesis.at or option.node in self.state.taken:
                continue
            self._choose(hypothesis, at)
            other = self.search.agreeing(step, self.state.front(step))
            if other is None or option.node not in other.used:
                continue
            if candidate is None or BETTER_RATIO * other.distance < candidate.distance:
                best, candidate = at, other
        self._choose(hypothesis, best)
        return candidate

    def _confirm(self, nodes: Iterable[Node]) -> None:
        """Confirm the assumptions of some nodes, and of their sources: their steps are wrong."""
        for node in nodes:
            step = self.state.owner(node)
            hypothesis = self.state.hypotheses.pop(step, None) if step is not None else None
            if step is not None and hypothesis is not None:
                self.known.add(step)
                self.wrong.add(step)
                self.candidates[step] = hypothesis.candidate
                self._confirm(hypothesis.candidate.used)

    def _drop(self, step: Step) -> None:
        """Withdraw all assumptions among the sources of a step."""
        queue, seen = [step], {step}
        while queue:
            for source, _ in queue.pop().sources:
                if isinstance(source, int) or source in seen:
                    continue
                seen.add(source)
                if source in self.state.hypotheses:
                    self.state.withdraw(self.state.hypotheses.pop(source))
                if source not in self.known:
                    queue.append(source)

    def _decide(self) -> None:
        """Keep or withdraw the assumptions that no step has decided."""
        hypotheses = self.state.hypotheses
        for step, hypothesis in list(hypotheses.items()):
            if step in hypotheses:
                if hypothesis.is_sure and self._is_the_only_one(hypothesis):
                    self._confirm([hypothesis.candidate.node])
                else:
                    self.state.withdraw(hypotheses.pop(step))

    def _is_the_only_one(self, hypothesis: Hypothesis) -> bool:
        """Return True if no other option is left, and the node has the step's kind."""
        taken = self.state.taken
        left = [
            one
            for one in hypothesis.options
            if taken.get(one.node, hypothesis.step) is hypothesis.step
        ]
        return (
            len(left) == 1 and left[0] is hypothesis.candidate and hypothesis.candidate.level == 2
        )


def _match_of_parting(parting: Parting, candidate: Candidate | None = None) -> Match:
    """Return the match of the value that the program has where it lacks an operator;
    `candidate` is the node of a step that computes others, too."""
    value, step = as_array(parting.value), parting.instead[-1] if parting.instead else None
    reader = parting.reader
    order, where = (step.order, step.where) if step else (reader.order, f"before {reader.where}")
    name, inside = (step.name, step.inside) if step else ("(none)", False)
    path = parting.missing if candidate is None else candidate.path
    anchor = (*parting.missing, parting.node)[0]
    return Match(order, where, name, inside, [value], [parting.node], anchor, path, parting)


def _match(step: Step, candidate: Candidate, direct: DirectComputation | None) -> Match:
    """Return the match of a step; its anchor is the node on the path that it is."""
    anchor = operator_on(step, candidate.path)
    if kind_of(candidate.node) in step.node_kinds and not is_quantizer(candidate.node):
        anchor = candidate.node
    return Match(
        step.order,
        step.where,
        step.name,
        step.inside,
        list(step.outputs),
        [candidate.node],
        anchor,
        candidate.path,
        direct=direct,
    )


def _results(
    steps: Steps, graph: ReferenceGraph, outputs: Sequence[object]
) -> Iterator[tuple[Node, Step]]:
    """Yield the method's results as steps, with their nodes."""
    from torch.fx import Node

    for number, (place, output) in enumerate(zip(graph.outputs, outputs)):
        source = steps.results.get(number)
        if isinstance(place, Node) and isinstance(output, np.ndarray) and source is not None:
            yield place, Step(0, f"output {number}", "result", "", False, (output,), (source,))


def pair(
    steps: Steps,
    graph: ReferenceGraph,
    arguments: Mapping[Node, Any],
    outputs: Sequence[object],
    progress: Callable[[int, int], None] | None = None,
) -> Matches:
    """Return the matches of the steps of a run with nodes of the graph.

    Args:
        outputs: The run's results.
        progress: Is called with the number of steps done, and of all.
    """
    import torch

    pairing = Pairing(graph, arguments)
    with torch.no_grad():
        matches = pairing.run(steps.steps, list(_results(steps, graph, outputs)), progress)
    counted = [s for s in steps.steps if s.counts and any(o is not None for o in s.outputs)]
    done = [step for step in counted if step in pairing.known]
    inside = sum(step.inside for step in done)
    result = Matches(
        sorted(matches, key=lambda match: match.order),
        sum(not step.inside for step in counted),
        sum(step.counts for step in steps.steps if step.inside),
        (len(done) - inside, inside),
    )
    result.interrupted = pairing.interrupted
    result.misshapen = misshapen.find(pairing, steps.steps)
    if len(done) < MIN_MATCHED_SHARE * len(counted):
        result.notes.append("few values were matched: the fault may be before the reported node")
    return result
