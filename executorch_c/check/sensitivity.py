"""Estimate of the power of a check (`check/power.py`): reverse mode on eager.

An error of 1 % in a slice s of a weight (a channel, a row of an embedding, an expert) changes the
outputs by J_s delta_s. With random signs v in units of the limits, the mean of (v^T J_s delta_s)^2
is the squared length of that change in units of the limit (Hutchinson's estimator): each backward
pass adds a sample for every slice of every weight and for every input.

Slices whose change is certainly beyond the limit count as found, those that change nothing do not.
Of those between, and of those whose gradient may be lost (`torch.no_grad` in a model, `round`), a
few are tried: the weight is changed, eager runs, and the judge's own rule decides. Integers have no
gradients, and are measured by such trials only (`perturbing.py`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property

import numpy as np
import torch

from executorch_c._arrays import Array
from executorch_c.check import untested
from executorch_c.check.constants import UNUSED, alternately, tensors_of
from executorch_c.check.gradients import Differentiable, Slices
from executorch_c.check.judged import (
    CheckedCases,
    MatchingCase,
    in_turn,
    limits_of,
    of_wrong_outputs,
)
from executorch_c.check.perturbing import Perturbation
from executorch_c.check.power import Power
from executorch_c.check.reference import Eager
from executorch_c.check.trials import Trials, equal

MIN_PASSES = 4
"""Least number of backward passes, over the first cases of each kind: the other cases have one each
if there is time and something left to find."""
TIME_SHARE = 0.2
"""Share of a check's processor time after which no further pass or trial starts,"""
PASSES_SHARE = 0.75
"""Share of that time for more than the first passes."""
CERTAIN_CASES = 16
"""Number of cases that are sampled, if they read what no other does, whatever the time."""
LATE_SHARE = 2.0
"""Share of that time after which not even weights are told apart."""
MIN_SECONDS = 1.0
"""and the least time: the thread's, which other load on the machine does not change."""
CLOSURE = "forward calls modules of a closure, which a copy of the model does not change"
"""Reason of a model whose weights cannot be varied."""
MAX_TRIALS = 8
"""Maximum number of trials of slices that are neither certainly found nor lost."""


class Measurement:
    """The measurement of one check's power: samples, then trials of what they leave open."""

    def __init__(
        self, eager: Eager, cases: Sequence[MatchingCase], frozen: Sequence[str], seconds: float
    ) -> None:
        """`seconds` of the thread limit the passes and trials; two passes run in any case."""
        self.eager, self.cases, self.frozen = eager, in_turn(cases), frozen
        self.trials = Trials(eager, self.cases, tensors_of(eager.model))
        self.start, self.seconds = time.thread_time(), seconds
        self.sampled: set[int] = set()
        self.model = self._started()

    def _started(self) -> Differentiable:
        """Return the differentiable model after one pass: halves in float32, if it runs so; without
        samples, if it has no gradients."""
        for wide, plain in ((True, False), (False, False), (False, True)):
            model = Differentiable(self.eager, self.frozen, wide, plain)
            try:
                model.sample(0, self.cases[0].case, self.cases[0].limits, 0)
            except (RuntimeError, TypeError):
                torch._dynamo.reset()  # a failure of torch.cond's compiler stays for plain calls
                continue
            self.sampled.add(0)
            break
        return model

    def is_late(self, share: float = 1.0) -> bool:
        """Return True if a share of the time is up."""
        return time.thread_time() > self.start + share * self.seconds

    def run(self) -> None:
        """Decide about all weights."""
        self._sample_all()
        self._try_undecided()
        self._try_untouched()
        self._decided()
        self.integers.run()

    @cached_property
    def integers(self) -> Perturbation:
        """The measurement of the constants of integers, but states."""
        names = [
            name
            for name, one in self.trials.constants.items()
            if not (one.tensor.is_floating_point() or one.tensor.is_complex())
            and name not in self.frozen
            and not name.endswith(UNUSED)
        ]
        return Perturbation(self.trials, names, self.start + self.seconds)

    @property
    def weights(self) -> dict[str, Slices]:
        """Return all constants that were measured, in the model's order."""
        known = self.model.weights | self.integers.weights
        return {name: known[name] for name in self.trials.constants if name in known}

    def _sample_all(self) -> None:
        """Sample all cases, the first ones before others, while something is left to find: more
        cases find no less."""
        for turn in range(1, max(MIN_PASSES, len(self.cases))):
            if not self.sampled or (turn > 1 and self.is_late()):
                return
            if turn == MIN_PASSES:
                self._try_undecided()
            if turn >= MIN_PASSES:
                self._decided()
                if self.is_late(PASSES_SHARE) or not self._is_left():
                    return
            self._sample(turn % len(self.cases), turn)

    def _is_left(self) -> bool:
        """Return True if some weight or input is not found yet."""
        return any(
            one.is_left for one in (*self.model.weights.values(), *self.model.inputs.values())
        )

    def _sample(self, number: int, seed: int) -> None:
        """Run a backward pass through a case: it is sampled if all gradients are known."""
        one = self.cases[number]
        with suppress(RuntimeError):  # operators in place
            if self.model.sample(number, one.case, one.limits, seed):
                self.sampled.add(number)

    def _untouched(self) -> tuple[dict[str, Array], list[int]]:
        """Return the slices of weights, and the inputs, that have no gradient in any pass."""
        weights = {
            name: one.untested_places
            for name, one in self.model.weights.items()
            if one.untested_places.any()
        }
        return weights, [i for i, one in self.model.inputs.items() if one.untested.any()]

    def _try_untouched(self) -> None:
        """Change what has no gradient in every other case: it changes no output, or else the case
        is sampled. What changes an output without a gradient is tried one by one in these cases.
        """
        weights, inputs = self._untouched()
        lost = list[int]()
        for number in self.trials.numbers:
            if not weights and not inputs:
                break
            if number and number in self.sampled:
                continue  # the first shows that no gradients are lost
            if self.trials.is_idle(number, weights, inputs):
                continue
            if self.is_late() and number >= CERTAIN_CASES:
                self._leave(number, weights, inputs)
                weights, inputs = self._untouched()
                continue
            if self.sampled and number not in self.sampled:
                self._sample(number, number)
                weights, inputs = self._untouched()
                if self.trials.is_idle(number, weights, inputs):
                    continue
            lost.append(number)
        if lost:
            self._try_each(weights, lost)
            self._try_inputs(lost[0], inputs)

    def _leave(self, number: int, weights: Mapping[str, Array], inputs: Sequence[int]) -> None:
        """Mark the weights that a case reads, of whose slices there is no time to tell which."""
        for name in self.trials.read(number, weights, lambda: self.is_late(LATE_SHARE)):
            one = self.model.weights[name]
            one.is_column_touched[:] = True
            one.leave(one.untested)
        self._try_inputs(number, inputs)

    def _try_each(self, weights: Mapping[str, Array], numbers: Sequence[int]) -> None:
        """Decide about each of some weights whose gradients are lost in some cases; of columns,
        nothing is known then."""
        read = set[str]()
        for number in numbers:
            left = {name: mask for name, mask in weights.items() if name not in read}
            read.update(self.trials.read(number, left, self.is_late))
        masks = {name: self.model.weights[name].untested for name in read}
        sizes = {
            name: int(self.model.weights[name].sizes[mask].sum()) for name, mask in masks.items()
        }
        for turn, name in enumerate(sorted(sizes, key=lambda one: -sizes[one])):
            one = self.model.weights[name]
            one.is_column_touched[:] = True
            if turn >= MAX_TRIALS or (turn and self.is_late()):
                one.leave(masks[name])
            elif masks[name].any():
                self._try_slices(name, masks[name], numbers)

    def _try_slices(self, name: str, mask: Array, numbers: Sequence[int]) -> None:
        """Decide about slices of a weight by trials of a few, in those of some cases where all of
        them together are found, and where the few together change an output; the others are like
        the nearest. Slices that change nothing together are untested."""
        one, slices = self.model.weights[name], np.flatnonzero(mask)
        parts = np.array_split(slices, min(len(slices), MAX_TRIALS))
        few = np.isin(np.arange(len(mask)), [part[len(part) // 2] for part in parts])

        @cache
        def together(number: int) -> tuple[bool, bool]:
            return self.trials.effect(number, {name: mask}, change=alternately)

        @cache
        def is_likely(number: int) -> bool:
            if len(slices) < 2 * MAX_TRIALS:  # a norm may hide a factor of most slices
                return together(number)[1]
            return together(number)[1] and not self.trials.is_idle(number, {name: few})

        if not any(together(number)[0] for number in numbers):
            return
        one.is_touched |= mask  # of most slices, nothing is known
        for turn, part in enumerate(parts):
            if turn and self.is_late():
                return
            middle = part[len(part) // 2]
            wrong = {name: np.arange(len(mask)) == middle}
            effects = [(False, False)]
            for number in numbers:
                if not effects[-1][1] and is_likely(number):
                    effects.append(self.trials.effect(number, wrong))
            one.is_found[part] = effects[-1][1]
            one.is_touched[middle] = any(changes for changes, _ in effects) or not any(
                together(number)[1] for number in numbers
            )

    def _try_inputs(self, number: int, inputs: Sequence[int]) -> None:
        """Decide about inputs whose gradients are lost, in one case."""
        for i in inputs:
            one = self.model.inputs[i]
            is_changed, is_found = self.trials.effect(number, {}, [i])
            one.is_touched |= is_changed
            one.is_found |= is_found

    def _decided(self) -> dict[str, Array]:
        """Mark what is certainly found, and return the slices of weights that may be."""
        for one in self.model.inputs.values():
            one.decide()
        return {name: one.decide() for name, one in self.model.weights.items()}

    def _try_undecided(self) -> None:
        """Try the slice in the middle of those that are neither certainly found nor lost; the ones
        that change the outputs more are found if it is."""
        left = self._decided()
        sizes = {
            name: int(self.model.weights[name].sizes[mask].sum())
            for name, mask in left.items()
            if mask.any()
        }
        for name in sorted(sizes, key=lambda one: -sizes[one])[:MAX_TRIALS]:
            if self.is_late():
                return
            one, mask = self.model.weights[name], left[name]
            order = np.flatnonzero(mask)[np.argsort(one.best[mask])]
            middle = order[len(order) // 2]
            wrong = {name: np.arange(len(mask)) == middle}
            if self.trials.effect(int(one.where[middle]), wrong)[1]:
                one.is_found |= mask & (one.best >= one.best[middle])

    def is_bypassed(self) -> bool:
        """Return True if weights change nothing because forward calls others, of a closure."""
        is_idle = any(one.is_untested for one in self.weights.values())
        return is_idle and self.eager.holds_itself()

    def zeros(self) -> Iterator[str]:
        """Yield the names of weights that are zeros and hide others: with ones in their place, the
        outputs depend on weights that they do not depend on."""
        weights, _ = self._untouched()
        weights = {
            name: mask for name, mask in weights.items() if self.model.weights[name].is_untested
        }
        for name in untested.zeros(self.model.weights, weights) if weights else ():
            if self.is_late():
                return
            others = {one: mask for one, mask in weights.items() if one != name}
            runs = [self.trials.run(0, changes, (), name) for changes in (others, {})]
            if not equal(*runs):
                yield name


def measure(eager: Eager, checked: CheckedCases) -> Power:
    """Return the power of a check against a float model. Two passes run whatever its time."""
    cases = checked.matching(limits_of)
    tensors = [*eager.model.parameters(), *eager.model.buffers()]

    def power() -> Power:
        limited = of_wrong_outputs(eager, cases)
        measurement = Measurement(eager, limited, checked.frozen, checked.seconds)
        measurement.run()
        if measurement.is_bypassed():
            return Power(untested=checked.unvaried, reason=CLOSURE)
        return _power(measurement, checked.names, checked.unvaried)

    return untested.measured(cases, tensors, checked.unvaried, power)


def _power(measurement: Measurement, names: Sequence[str], unvaried: Sequence[str]) -> Power:
    weights, model = measurement.weights, measurement.model
    looked_up = {
        name for name, one in model.weights.items() if id(one.tensor) in model.watch.embeddings
    }
    lines = [f"{name} is 0" for name in measurement.zeros()]
    lines += untested.sentences(weights, model.eager.model, looked_up)
    lines += untested.of_inputs(model.inputs, measurement.trials, names)
    return untested.power_of(weights, model.inputs, names, [*lines, *unvaried])
