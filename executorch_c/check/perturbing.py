"""Estimate of the power of a check without gradients: of quantised graphs, and of integers.

Each constant is changed as a whole, then its parts, halved from turn to turn: a part whose other
numbers (`constants.other`) change no output of any case, to the last bit, is untested. The middle
slice of each part is wrong by 1 % (a code by one step), and the judge's rule decides whether that
is found. The result holds for all slices of the part until a smaller part is tried.
"""

from __future__ import annotations

import heapq
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from executorch_c._arrays import Array
from executorch_c.check import untested
from executorch_c.check.constants import constants_of, other
from executorch_c.check.gradients import Differentiable, Slices
from executorch_c.check.judged import (
    CheckedCases,
    MatchingCase,
    in_turn,
    limits_of_graph,
    with_ties,
)
from executorch_c.check.power import Power
from executorch_c.check.trials import WHOLE, Trials

if TYPE_CHECKING:
    from executorch_c.check.quantized import Sides
    from executorch_c.check.reference import Eager

MAX_RUNS = 4096
"""Maximum number of runs of the reference."""
MAX_CASES = 16
"""Number of cases in which parts are tried one by one; in the others, all together."""
COLUMNS_SHARE = 0.25
"""Share of the time that is left for slices of the second axis."""
MAX_ERROR_CASES = 4
"""Maximum number of cases in which an error of 1 % is looked for."""


class Perturbation:
    """The measurement of some constants and of the inputs of floats."""

    def __init__(
        self,
        trials: Trials,
        names: Iterable[str],
        end: float,
        guess: Mapping[str, Slices] | None = None,
    ) -> None:
        """`end` is the thread's time after which no further run starts; `guess` has gradients of a
        like model, by constant."""
        self.trials, self.end = trials, end
        self.weights = {name: Slices.of(trials.constants[name].tensor) for name in names}
        for one in self.weights.values():
            one.is_column_touched[:] = True  # unless proven
        self.inputs: dict[int, Slices] = {}
        self._guess = guess or {}

    @property
    def is_over(self) -> bool:
        """True if no further run is to start."""
        return time.thread_time() > self.end or self.trials.count > MAX_RUNS

    def run(self) -> None:
        """Decide about all constants, their rows first."""
        last, self.end = self.end, self.end - COLUMNS_SHARE * (self.end - time.thread_time())
        self._run_rows()
        self.end = last
        self._run_columns()
        self._run_further()

    def _run_rows(self) -> None:
        """Decide about slices of the first axis: all of a constant first, the largest ones before
        others."""
        parts, turns = list[tuple[int, int, int, str, Array]](), count()
        for name, one in self.weights.items():
            one.is_measured = not one.sizes.any()
            for part in self._first(name):
                heapq.heappush(parts, (0, -int(one.sizes[part].sum()), next(turns), name, part))
        while parts and not self.is_over:
            depth, _, _, name, part = heapq.heappop(parts)
            sizes = self.weights[name].sizes
            if self._try(name, part) and len(part) > 1:
                for half in np.array_split(part, 2):
                    size = -int(sizes[half].sum())
                    heapq.heappush(parts, (depth + 1, size, next(turns), name, half))
        for _, _, _, name, part in parts:
            self.weights[name].is_touched[part] = True  # nothing more is known

    def _run_columns(self) -> None:
        """Decide about slices of the second axis, those without a gradient where there is a guess:
        all of a constant first, then halves of what an output depends on."""
        parts = [
            (name, np.flatnonzero(mask))
            for name, one in self.weights.items()
            if (mask := self._likely_columns(name, one)).any()
        ]
        while parts and not self.is_over:
            name, part = parts.pop(0)
            one = self.weights[name]
            if not self._is_read(name, _only(one, part, axis=1)):
                one.is_column_touched[part] = False
            elif len(part) > 1:
                parts += [(name, half) for half in np.array_split(part, 2)]

    def _run_further(self) -> None:
        """Decide about what changes no output of the first cases in each of the others: all of it
        together, then each constant, then its parts."""
        for number in self.trials.numbers[MAX_CASES:]:
            places = {
                name: one.untested_places
                for name, one in self.weights.items()
                if one.is_measured and one.untested_places.any()
            }
            if not places:
                return
            for name in self.trials.read(number, places, lambda: self.is_over, other):
                self._find(number, name)

    def _find(self, number: int, name: str) -> None:
        """Mark the parts of a constant that are read in a case, and no other before: halves of what
        is read; all of a half when no further run is to start."""
        one = self.weights[name]
        if one.is_untested:
            one.is_column_touched[:] = True  # nothing is known of them
        parts = [(1, np.flatnonzero(one.untested_columns)), (0, np.flatnonzero(one.untested))]
        while parts:
            axis, part = parts.pop()
            mask = _only(one, part, axis)
            if not len(part) or not self.trials.is_read(number, {name: mask}, other):
                continue
            if len(part) > 1 and not self.is_over:
                parts += [(axis, half) for half in np.array_split(part, 2)]
            elif axis:
                one.is_column_touched[part] = True
            elif len(part) > 1:
                one.leave(mask)
            else:
                one.is_touched[part] = True
                one.is_found[part] = self._is_found(number, name, mask)

    def _is_found(self, number: int, name: str, mask: Array) -> bool:
        """Return True if an error of 1 % in a slice is found in a case."""
        try:
            return self.trials.effect(number, {name: mask})[1]
        except Exception:  # an index out of range, for example
            return False

    def _likely_columns(self, name: str, one: Slices) -> Array:
        """Return the slices of the second axis of a constant that may be untested."""
        guess = self._guess.get(name)
        if guess is None or len(guess.columns) != len(one.columns):
            return one.columns > 0
        mask: Array = (one.columns > 0) & ~guess.is_column_touched
        return mask

    def run_inputs(self) -> None:
        """Decide about the inputs of floats."""
        for i in self.trials.tensors(is_float=True):
            if self.is_over:
                return
            self.inputs[i] = one = Slices.of(self._leaf(i), whole=True)
            one.is_found = WHOLE & any(
                self.trials.effect(number, {}, [i])[1]
                for number in self.trials.numbers[:MAX_ERROR_CASES]
            )
            one.is_touched = WHOLE & (one.is_found or not [*self.trials.idle_inputs([i])])

    def _leaf(self, i: int) -> object:
        from torch.utils import _pytree

        return _pytree.tree_leaves(self.trials.cases[0].case.calls[0])[i]

    def _first(self, name: str) -> list[Array]:
        """Return the parts of a constant that are tried first: what may be untested (where it has
        no gradient, or else the layer's bias has none), and the rest; slices without a number that
        can be wrong are in none."""
        one = self.weights[name]
        guess = self._guess.get(name) or self._guess.get(f"{name.partition('.weight')[0]}.bias")
        known = one.sizes > 0
        masks = [known]
        if guess is not None and len(guess.sizes) == len(known):
            masks = [known & guess.untested, known & ~guess.untested]
        return [np.flatnonzero(mask) for mask in masks if mask.any()]

    def _try(self, name: str, part: Array) -> bool:
        """Decide about a part of a constant; True if it changes an output."""
        one, middle = self.weights[name], part[len(part) // 2]
        one.is_measured = True
        touched, is_found = self._is_wrong(name, middle)
        touched = touched or self._is_read(name, _only(one, part))
        one.is_found[part], one.is_touched[part] = is_found, touched
        return touched

    def _is_wrong(self, name: str, at: int) -> tuple[bool, bool]:
        """Return whether an error of 1 % in a slice changes an output, and whether it is found."""
        mask, touched = _only(self.weights[name], np.array([at])), False
        for number in self.trials.numbers[:MAX_ERROR_CASES]:
            try:
                changes, is_found = self.trials.effect(number, {name: mask})
            except Exception:  # an index out of range, for example: the number is read
                return True, False
            if is_found:
                return True, True
            touched = touched or changes
        return touched, False

    def _is_read(self, name: str, mask: Array) -> bool:
        """Return whether other numbers in a part change an output of the first cases."""
        return any(
            self.trials.is_read(number, {name: mask}, other)
            for number in self.trials.numbers[:MAX_CASES]
        )


def _only(one: Slices, part: Array, axis: int = 0) -> Array:
    """Return a mask of some slices of the first axis, or of the second one."""
    mask = np.zeros((len(one.sizes), len(one.columns))[: axis + 1], bool)
    mask[..., part] = True
    return mask


def measure(sides: Sides, checked: CheckedCases) -> Power:
    """Return the power of a check against a quantised graph."""
    end, model = time.thread_time() + checked.seconds, sides.oracle.model
    states = {id(model.get_buffer(name)) for name in checked.frozen}
    constants = {
        name: one for name, one in constants_of(model).items() if id(one.owner) not in states
    }
    cases = in_turn(checked.matching(partial(limits_of_graph, is_static=sides.is_static)))

    def power() -> Power:
        limited = cases if sides.is_static else with_ties(sides.oracle, cases)
        guess = _guess(sides.floats, limited, checked.seconds / 4)
        perturbation = Perturbation(Trials(sides.oracle, limited, constants), constants, end, guess)
        perturbation.run_inputs()
        perturbation.run()
        looked_up = {name for name, one in constants.items() if one.is_looked_up}
        base = model if sides.floats is None else sides.floats.model
        names, inputs = checked.names, perturbation.inputs
        lines = [
            *untested.sentences(perturbation.weights, base, looked_up),
            *untested.of_inputs(inputs, perturbation.trials, names),
            *checked.unvaried,
        ]
        return untested.power_of(perturbation.weights, inputs, names, lines, not sides.is_static)

    tensors = [one.tensor for one in constants.values()]
    return untested.measured(cases, tensors, checked.unvaried, power)


def _guess(
    floats: Eager | None, cases: Sequence[MatchingCase], seconds: float
) -> dict[str, Slices]:
    """Return the gradients of the weights of floats in the first cases, by name: what has none may
    be untested in the quantised graph."""
    if floats is None:
        return {}
    end = time.thread_time() + seconds
    try:
        model = Differentiable(floats, floats.changed_buffers(cases[0].case.calls[0]), True, False)
        for number, one in enumerate(cases[:MAX_CASES]):
            ones = [[None if rule is None else 1.0 for rule in call] for call in one.limits]
            with warnings.catch_warnings():  # operators that quantise have no gradient
                warnings.simplefilter("ignore")
                model.sample(number, one.case, ones, number)
            if time.thread_time() > end:
                break
    except untested.REFUSALS:
        return {}
    return model.weights
