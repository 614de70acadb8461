"""Match the steps of a program's run with nodes of the reference's graph, by value.

A step is an instruction, or a node inside a delegate. Steps are taken in order of execution. The
sources of a step are known as nodes of the graph, from the steps before; so the step is one of the
few nodes that follow from these. It is the one that computes the same numbers from the program's
own values. Debug handles differ from export to export, so they only decide between equals. Layers
that a delegate fuses, splits or moves need no rules.

Worked example. The graph is x -> convolution -> batch_norm -> relu -> mean -> addmm; the program
has three steps:

    step  operator         reads    candidates (distance from the step's value)
    0     Convolution      input 0  convolution 0.53, batch_norm 0.68, relu 7e-8
    1     aten::mean.out   step 0   mean 6e-8
    2     Fully Connected  step 1   addmm 4e-8

The only source of step 0 is x. Three nodes follow from x; relu has the same numbers (`_agreeing`:
the limit is 1.7e-4 in float32), so the delegate has fused batch_norm and relu into the convolution.
From here on relu has the program's value (`_put`), and step 1 is compared with mean of *that*.

Where no node has the same numbers, the step is wrong, or has no counterpart. Say that batch_norm's
bias is wrong in the program: step 0 is 0.53, 0.68 and 0.03 from the three nodes. It is assumed to
be the node of its kind that is computed from all of its sources (`_guess`): each of the three
contains the convolution. The options are tried when step 1 comes (`_with_guesses`): if the value
of step 0 stands for convolution, mean is 0.11 off; if it stands for relu, mean agrees. So step 0 is
relu, and wrong (`_confirm`). If a later step agrees without the assumption, the step had no
counterpart (`_drop`). An assumption that no step decides is kept only where no other node is
left (`_decide`). So a wrong step is found by what the program computes from it, and a right
program is never made wrong by an assumption.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import getitem
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c.compare.tolerance import epsilon_of
from executorch_c.debug._graphs.evaluator import NOTHING, Evaluator
from executorch_c.debug._graphs.layouts import closest, may_fit, sample
from executorch_c.debug._graphs.names import (
    FUSED,
    MOVES,
    dequantizes,
    has_several,
    is_number,
    is_quantizer,
    is_read,
    kind_of,
    operator_of,
    twins,
)
from executorch_c.debug._graphs.program import Step, Steps
from executorch_c.debug._graphs.reference import Reference, handles_of
from executorch_c.debug._matching import misshapen
from executorch_c.debug._matching.candidates import Found, Front, Guess, Parts
from executorch_c.debug._matching.matches import Match, Matches

if TYPE_CHECKING:
    from torch.fx import Node

NEAR = 64
"""Maximum number of candidates after a step's sources, in the graph's order."""

OPTIONS = 8
"""Maximum number of nodes that a wrong step is assumed to be."""

CLOSER = 8
"""Ratio of distances at which a later step chooses another option of an assumption."""

CLOSEST = 3
"""Ratio to the nearest distance (or to rounding) within which nodes are equally near."""

FINEST = 2.0**-23
"""Distance of numbers around 1 that may round differently, at least: that of float32."""

QUANTIZED = 2.0**-7
"""Machine epsilon of 8-bit quantised values."""

TIES = 2.0**-9
"""Distance of quantised integers that differ in rounding ties only."""

PRODUCTS = {"linear", "convolution", "bmm"}
"""Kinds that are not on the path to a step of another kind."""

ANY = {"", "scaleddotproductattention"}
"""Kinds of steps that may contain several products."""

ENOUGH = 0.25
"""Minimum share of matches without a warning."""


class Pairing:
    """The matching of steps with nodes."""

    def __init__(self, graph: Reference, arguments: Mapping[Node, Any]) -> None:
        self.nodes = graph.nodes
        self.place = {node: i for i, node in enumerate(self.nodes)}
        self.fed = Evaluator(graph.module, arguments, self.place)
        self.inputs = graph.inputs
        self.free = self._constants()
        self.same: dict[tuple[Step, int], list[Node]] = {}
        """Nodes of each output of a matched step."""
        self.taken: dict[Node, Step] = {}
        self.found: dict[Step, Found] = {}
        self.guesses: dict[Step, Guess] = {}
        self.known: set[Step] = set()
        self.wrong: set[Step] = set()
        """Steps whose assumption held."""
        self.reached = 0
        self.interrupted = False

    def _constants(self) -> set[Node]:
        """Return the nodes that depend on no user input."""
        found: set[Node] = set()
        given = set(self.inputs)
        for node in self.nodes:
            if node not in given and all(before in found for before in node.all_input_nodes):
                found.add(node)
        return found

    def run(
        self,
        steps: Sequence[Step],
        outputs: Sequence[tuple[Node, Step]],
        progress: Callable[[int, int], None] | None = None,
    ) -> list[Match]:
        """Matches of steps; `outputs` are the method's results as steps, with their nodes."""
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
        return [self._match(step, found) for step, found in self.found.items()]

    def _match(self, step: Step, found: Found) -> Match:
        anchor = next((n for n in found.path if kind_of(n) in step.node_kinds), found.node)
        if kind_of(found.node) in step.node_kinds and not is_quantizer(found.node):
            anchor = found.node
        return Match(step.order, step.where, step.name, step.inside, list(step.outputs),
                     [found.node], anchor, found.path)  # fmt: skip

    # ---- one step -------------------------------------------------------------------------

    def _place_step(self, step: Step) -> None:
        front = self.front(step)
        found = self._agreeing(step, front)
        if front.guesses:
            found = self._with_guesses(step, front, found)
        found = found or self._anywhere(step)
        if found is not None:
            self._accept(step, found)
        elif not front.is_open:
            self._guess(step, front)

    def _guess(self, step: Step, front: Front) -> None:
        """Assume that a step is wrong: computed from its node's values, or without one of them, as
        where a sum is missing, which holds only where a later step follows."""
        for sources in (front.all, front.all | self._around()):
            if options := self._options(step, front, sources):
                self.guesses[step] = guess = Guess(step, options, is_sure=sources == front.all)
                self._assume(guess)
                return

    def _with_guesses(self, step: Step, front: Front, found: Found | None) -> Found | None:
        """Return the match of a step after trying other options of the assumptions before it."""
        skipped = frozenset(self.guesses)
        without = self._agreeing(step, self.front(step, skipped))
        if without is not None and (found is None or without.distance < found.distance):
            self._drop(step)
            return without
        for before in front.guesses:
            guess = self.guesses[before]
            best = guess.at
            for at in range(len(guess.options)):
                if at != guess.at and guess.options[at].node not in self.taken:
                    self._assume(guess, at)
                    other = self._agreeing(step, self.front(step))
                    if other is None or guess.found.node not in other.used:
                        continue
                    if found is None or CLOSER * other.distance < found.distance:
                        best, found = at, other
            self._assume(guess, best)
        return found

    def _drop(self, step: Step) -> None:
        """Withdraw all assumptions among the sources of a step."""
        queue, seen = [step], {step}
        while queue:
            for source, _ in queue.pop().sources:
                if isinstance(source, int) or source in seen:
                    continue
                seen.add(source)
                if source in self.guesses:
                    self._withdraw(self.guesses.pop(source))
                if source not in self.known:
                    queue.append(source)

    def _withdraw(self, guess: Guess) -> None:
        for node in twins(guess.found.node):
            if node in self.fed.given and self.taken.get(guess.found.node) is guess.step:
                self.fed.unset(node)
        if self.taken.get(guess.found.node) is guess.step:
            del self.taken[guess.found.node]
        for number in range(len(guess.step.outputs)):
            self.same.pop((guess.step, number), None)

    def _assume(self, guess: Guess, at: int = 0) -> None:
        self._withdraw(guess)
        guess.at = at
        self._put(guess.step, guess.found)

    def _put(self, step: Step, found: Found) -> None:
        """Set the value of the node to the program's."""
        node = found.node
        self.taken[node] = step
        value = found.parts[0]
        old = self.fed.value(node)
        if isinstance(old, (list, tuple)):
            value = type(old)([new if new is not None else one
                               for new, one in zip(found.parts, old)])  # fmt: skip
            for number in range(len(step.outputs)):
                self.same[step, number] = [
                    user for user in node.users
                    if user.target is getitem and user.args[1] == number
                ]  # fmt: skip
        else:
            self.same[step, 0] = list(dict.fromkeys([*twins(node), *found.same]))
        for one in twins(node):
            self.fed.set(one, value)
        self.reached = self.place[node]

    def _accept(self, step: Step, found: Found) -> None:
        self.known.add(step)
        if self._is_old(step, found):
            if self._owner(found.node) not in self.guesses:
                self.same[step, 0] = found.same  # what was there before, in another layout
            return  # a copy of an assumption says nothing about it
        if found.is_sure or found.level:
            self._confirm(found.used)
        self._put(step, found)
        self.found[step] = found

    def _is_old(self, step: Step, found: Found) -> bool:
        """Return whether the match is an earlier value, possibly in another layout."""
        node = found.node
        is_source = not found.level and node in self.front(step).all
        return is_source or node in self.taken or node.op != "call_function"

    def _owner(self, node: Node) -> Step | None:
        """Return the step of a node, or of its tuple."""
        whole: Any = node.args[0] if node.target is getitem else node
        return self.taken.get(node) or self.taken.get(whole)

    def _confirm(self, nodes: Iterable[Node]) -> None:
        """Confirm the assumptions of these nodes, and of their sources."""
        for node in nodes:
            step = self._owner(node)
            guess = self.guesses.pop(step, None) if step is not None else None
            if step is not None and guess is not None:
                self.known.add(step)
                self.wrong.add(step)
                self.found[step] = guess.found
                self._confirm(guess.found.used)

    def _decide(self) -> None:
        """Keep or withdraw the assumptions that no step has decided."""
        for step, guess in list(self.guesses.items()):
            if step not in self.guesses:
                continue
            left = [option for option in guess.options
                    if self.taken.get(option.node, step) is step]  # fmt: skip
            decided = len(left) == 1 and left[0] is guess.found and guess.found.level == 2
            if decided and guess.is_sure:
                self._confirm([guess.found.node])
            else:
                self._withdraw(self.guesses.pop(step))

    def _result(self, node: Node, step: Step) -> None:
        """Confirm the assumptions that lead to a right result of the method."""
        found = self._compare(step, self.fed.value(node))
        if found is None or not found[0] <= self._limit(step, []):
            return
        front = self.front(step)
        _, used = self.path(node, front.all | set(self.fed.given))
        self._confirm(used)

    # ---- where a step comes from ----------------------------------------------------------

    def front(self, step: Step, skipped: frozenset[Step] = frozenset()) -> Front:
        """Return the nodes of its sources; for a source without a node, those of its sources."""
        front = Front([], is_open=step.is_open)
        queue, seen = list(step.sources), set(step.sources)
        while queue:
            source, number = queue.pop()
            if isinstance(source, int):
                front.nodes.append({self.inputs[source]})
                continue
            nodes = self.same.get((source, number))
            if nodes and source not in skipped:
                front.nodes.append(set(nodes))
                if source in self.guesses:
                    front.guesses.append(source)
                continue
            front.through.add(source.kind)
            front.is_open |= source.is_open
            fresh = [one for one in source.sources if one not in seen]
            seen.update(fresh)
            queue += fresh
        return front

    def near(self, start: Iterable[Node], step: Step, through: set[str],
             free: bool) -> Iterator[Node]:  # fmt: skip
        """Nodes that follow from others and from constants alone, nearest first; the same again
        as far as they only move what is there."""
        inside = set(start)
        products = step.node_kind in PRODUCTS | ANY or not through.isdisjoint(PRODUCTS | ANY)
        queue: list[tuple[int, Node]] = []
        queued: set[Node] = set()

        def push(nodes: Iterable[Node]) -> None:
            for node in nodes:
                if node not in queued and node not in inside and node in self.place and all(
                    before in inside or before in self.free or is_number(before)
                    for before in node.all_input_nodes
                ) and (products or kind_of(node) not in PRODUCTS):  # fmt: skip
                    queued.add(node)
                    heapq.heappush(queue, (self.place[node], node))

        push(user for node in start for user in node.users)
        if free:
            push(node for node in self.free if node.op == "call_function")
        seen = 0
        while queue and seen < NEAR:
            node = heapq.heappop(queue)[1]
            if node.op != "call_function":
                continue
            yield node
            if node not in self.taken:
                seen += node.target is not getitem
                inside.add(node)
                push(node.users)
            elif node in self.free:
                continue

    def path(self, node: Node, front: set[Node]) -> tuple[list[Node], set[Node]]:
        """Return the nodes between a node and its sources, in order, and the used sources."""
        path, used, queue = {node}, set(), [node]
        while queue:
            for before in queue.pop().all_input_nodes:
                if before in front:
                    used.add(before)
                elif before not in path and before not in self.free:
                    path.add(before)
                    queue.append(before)
        return sorted(path, key=self.place.__getitem__), used

    # ---- what agrees ----------------------------------------------------------------------

    def _limit(self, step: Step, path: Sequence[Node]) -> float:
        """How far equal values may be from each other: |a - b| / (|a| + |b|)."""
        coarsest = _rounding(step)
        if step.quantized or any(map(is_quantizer, path)):
            coarsest = QUANTIZED
        return math.sqrt(coarsest) / 2

    def _compare(self, step: Step, value: Any) -> tuple[float, Parts] | None:
        """Return the distance of a step from a value, and its outputs in the value's shapes."""
        import torch

        several = isinstance(value, (list, tuple))
        values = list(value) if several else [value]
        parts: Parts = [None] * len(values)
        worst = -1.0
        for i, (array, expected) in enumerate(zip(step.outputs, values)):
            if array is None or not isinstance(expected, torch.Tensor):
                continue
            best = closest(array, expected)
            if best is None:
                return None
            worst, parts[i] = max(worst, best[0]), best[1]
        return (worst, parts) if worst >= 0 else None

    def _candidate(self, step: Step, node: Node, front: Front,
                   others: Iterable[Node] = ()) -> Found | None:  # fmt: skip
        """Return a node as the candidate of a step, from its sources (and other nodes)."""
        array = next((one for one in step.outputs if one is not None), None)
        if array is None or not may_fit(node, array):
            return None
        if is_quantizer(node) and not step.quantized and step.node_kind != "convert":
            return None
        several = has_several(node)
        if several and step.inside:
            return None
        value = self.fed.value(node)
        if value is NOTHING:
            return None
        if several:
            read = [is_read(node, i) for i in range(len(value))]
            value = [one if ok else None for one, ok in zip(value, read)]
        compared = self._compare(step, value)
        if compared is None:
            return None
        nodes = front.all
        if node in nodes:  # equal to another source
            path, used = [node], nodes if len(front.nodes) == 1 else {node}
        else:
            path, used = self.path(node, nodes.union(others))
        found = Found(node, compared[1], compared[0], path, used)
        mine = step.node_kinds
        kinds = [kind_of(n) for n in path] if node not in self.taken else []
        found.level = 2 if kinds and kind_of(node) in mine else int(not mine.isdisjoint(kinds))
        found.exact = all(not one.isdisjoint(used) or one <= self.free for one in front.nodes)
        if node in nodes and not found.exact:
            found.level = 0  # one of the sources, which another one has not changed much
        found.is_sure = array.size > 1 and float(np.ptp(sample(array))) > 0
        return found

    def _agreeing(self, step: Step, front: Front) -> Found | None:
        """Return the best candidate with the step's numbers."""
        nodes = front.all
        if front.is_open:
            nodes |= self._around()
            front = Front([nodes], front.through, front.guesses)
        agreeing: list[Found] = []
        candidates = sorted(nodes, key=self.place.__getitem__)
        done = False
        following: set[Node] = set()
        for node in (*candidates, *self.near(nodes, step, front.through, free=not front.nodes)):
            if done and following.isdisjoint(node.all_input_nodes):
                continue
            if is_quantizer(node) or has_several(node):
                following.add(node)
            found = self._candidate(step, node, front)
            if found is None:
                continue
            limit = self._limit(step, found.path)
            if not found.distance <= limit:
                continue
            agreeing.append(found)
            following.add(node)
            done |= found.level > 0 and found.is_sure
        if not agreeing:
            return None
        agreeing = self._nearest(step, agreeing)
        best = max(agreeing, key=lambda found: self._preference(step, found, nodes))
        is_old = best.node in nodes or best.node in self.taken
        if not best.level and not is_old and not (
            best.is_sure and best.distance <= self._limit(step, [])
        ):
            return None
        best.same = [
            found.node for found in agreeing if not has_several(found.node)
            and (is_quantizer(found.node) or not dequantizes(best.node))
        ]  # fmt: skip
        return best

    def _nearest(self, step: Step, agreeing: list[Found]) -> list[Found]:
        """Without nodes that are further off than others by more than rounding: a convolution
        alone, where batch norm that is nearly the identity is fused into it."""
        rounding = _rounding(step)
        if step.quantized or any(is_quantizer(n) for found in agreeing for n in found.path):
            rounding = TIES
        least = CLOSEST * max(min(found.distance for found in agreeing), rounding)
        return [found for found in agreeing if found.distance <= least]

    def _preference(self, step: Step, found: Found, front: set[Node]) -> tuple[Any, ...]:
        node = found.node
        is_old = node in self.taken or (node in front and not found.level)
        tight = found.distance <= math.sqrt(FINEST) / 2
        rounds = step.quantized and dequantizes(node)
        known = not step.handles.isdisjoint(handles_of(node))
        return (
            rounds, tight, 0 if is_old else min(found.level, 1), is_old != bool(found.level),
            found.level, found.exact, known, 0.0 if tight else -found.distance, -self.place[node],
        )  # fmt: skip

    def _around(self) -> set[Node]:
        """Return the matched nodes near the last step, for steps with unknown sources."""
        near = range(max(self.reached - NEAR, 0), min(self.reached + NEAR, len(self.nodes)))
        return {*self.inputs, *(self.nodes[i] for i in near if self.nodes[i] in self.fed.given)}

    def _anywhere(self, step: Step) -> Found | None:
        """A node that the sources do not lead to, as where equal ones have been made one: its
        numbers must say it, and its kind."""
        if step.is_open:
            return None
        found = self._agreeing(step, Front([], is_open=True))
        return found if found is not None and found.is_sure and found.level == 2 else None

    def _options(self, step: Step, front: Front, sources: set[Node]) -> list[Found]:
        """Return the nodes that a wrong step may be: of its kind, computed from all of its sources
        (and no nodes but `sources`), with what can be fused into them."""
        options = []
        for node in self.near(sources, step, front.through, free=not front.nodes):
            if node in self.taken:
                continue
            found = self._candidate(step, node, front, sources)
            if found is not None and found.level and found.exact and self._is_fused(step, found):
                options.append(found)
        close = CLOSER * min((found.distance for found in options), default=0.0)
        options.sort(key=lambda found: (
            found.distance > close, -int(step.quantized and is_quantizer(found.node)), -found.level,
            step.handles.isdisjoint(handles_of(found.node)), found.distance,
        ))  # fmt: skip
        return options[:OPTIONS]

    def _is_fused(self, step: Step, found: Found) -> bool:
        """Return whether a delegate fuses all nodes after the operator into one."""
        mine = step.node_kinds
        at = next(i for i, node in enumerate(found.path) if kind_of(node) in mine)
        behind = found.path[at + 1 :]
        sums = sum(kind_of(node) == "add" for node in behind)
        return sums <= (step.node_kind in PRODUCTS) and all(
            is_quantizer(n) or n.target is getitem or operator_of(n) in FUSED | MOVES
            or kind_of(n) in ("add", "clamp") for n in behind
        )  # fmt: skip


def _rounding(step: Step) -> float:
    """Return the machine epsilon of a step's coarsest result, that of float32 at least."""
    dtypes = [array.dtype for array in step.outputs if array is not None]
    return max([FINEST, *map(epsilon_of, dtypes)])


def pair(
    steps: Steps,
    graph: Reference,
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
    from torch.fx import Node

    results = []
    for number, (place, output) in enumerate(zip(graph.outputs, outputs)):
        source = steps.results.get(number)
        if isinstance(place, Node) and isinstance(output, np.ndarray) and source is not None:
            step = Step(0, f"output {number}", "result", "", False, (output,), (source,))
            results.append((place, step))
    pairing = Pairing(graph, arguments)
    with torch.no_grad():
        found = pairing.run(steps.steps, results, progress)
    counted = [s for s in steps.steps if s.counts and any(o is not None for o in s.outputs)]
    done = [step for step in counted if step in pairing.known]
    inside = sum(step.inside for step in done)
    result = Matches(
        sorted(found, key=lambda match: match.order), sum(not step.inside for step in counted),
        sum(step.counts for step in steps.steps if step.inside), (len(done) - inside, inside),
    )  # fmt: skip
    result.interrupted = pairing.interrupted
    result.misshapen = misshapen.find(pairing, steps.steps)
    if len(done) < ENOUGH * len(counted):
        result.notes.append("few could be matched: what is called wrong may be something before it")
    return result
