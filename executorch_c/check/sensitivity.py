"""Estimate of the power of a check (`check/power.py`): reverse mode on eager.

An error of 1 % in a slice s of a weight (a channel, a row of an embedding, an expert) changes the
outputs by J_s delta_s. With random signs v in units of the limits, the mean of (v^T J_s delta_s)^2
is the squared length of that change in units of the limit (Hutchinson's estimator): each backward
pass adds a sample for every slice of every weight and for every input.

Slices whose change is certainly beyond the limit count as found, those that change nothing do not.
Of those between, and of those whose gradient may be lost (`torch.no_grad` in a model, `round`), a
few are tried: the weight is changed, eager runs, and the judge's own rule decides.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree

from executorch_c._arrays import Array, as_array
from executorch_c.check import untested
from executorch_c.check.cases import CallSequence
from executorch_c.check.gradients import Differentiable, like
from executorch_c.check.noise import samples
from executorch_c.check.power import Power
from executorch_c.check.reference import Eager
from executorch_c.check.result import CheckedCase
from executorch_c.compare import tolerance
from executorch_c.compare.tolerance import ERROR, Tolerance

PASSES = 4
"""Number of backward passes, over the first cases of each kind."""
SHARE = 0.2
"""Share of a check's time after which no further pass or trial starts."""
MOST_CASES = 16
"""Maximum number of cases in which weights without a gradient are changed."""
MOST_TRIALS = 8
"""Maximum number of trials of slices that are neither certainly found nor lost."""
FEW_RUNS = 2
"""Runs with random rounding that measure the limits of a wrong output."""
MOST_WEIGHTS = 1 << 29
"""Maximum number of weights of a model whose power is measured: their gradients take memory."""


class Trials:
    """Eager with weights and inputs that are wrong by 1 %."""

    def __init__(self, eager: Eager, cases: Sequence[Judged]) -> None:
        self.eager, self.cases = eager, cases

    def run(
        self, number: int, weights: Mapping[str, Array], inputs: Sequence[int] = (),
        ones: str = "",
    ) -> list[list[Any]]:  # fmt: skip
        """Return the outputs of a case with wrong slices of weights, and wrong inputs; the weight
        named `ones` has ones."""
        model = self.eager.model
        replaced = {}
        with torch.no_grad():
            for name, mask in weights.items():
                value = _tensor(model, name)
                wrong = value.detach().clone()
                rows = wrong if value.ndim else wrong.reshape(1)
                rows[torch.from_numpy(mask)] *= 1 + ERROR
                replaced[id(value)] = like(value, wrong)
            if ones:
                value = _tensor(model, ones)
                replaced[id(value)] = like(value, torch.ones_like(value))
        calls = [_wrong(call, inputs) for call in self.cases[number].case.calls]
        return self.eager(calls, replaced=replaced)

    def effect(
        self, number: int, weights: Mapping[str, Array], inputs: Sequence[int] = ()
    ) -> tuple[bool, bool]:
        """Return whether wrong weights and inputs change an output of a case, and whether the judge
        finds them."""
        outputs, one = self.run(number, weights, inputs), self.cases[number]
        if _equal(outputs, one.expected):
            return False, False
        return True, self._is_found(outputs, one)

    @staticmethod
    def _is_found(outputs: Sequence[Sequence[Any]], one: Judged) -> bool:
        """Return True if the judge finds outputs of a case wrong."""
        for ours, theirs, rules in zip(outputs, one.expected, one.limits, strict=True):
            pairs = [pair for pair in zip(ours, theirs) if pair[1] is not None]
            for (a, e), rule in zip(pairs, rules):
                if not isinstance(rule, Tolerance) or not isinstance(a, np.ndarray):
                    continue
                if a.shape != e.shape or tolerance.outside(a, e, rule):
                    return True
        return False


def _tensor(module: Any, name: str) -> Any:
    """Return a parameter or buffer."""
    path, _, last = name.rpartition(".")
    return getattr(module.get_submodule(path), last)


def _wrong(call: Any, inputs: Sequence[int]) -> Any:
    """Return a call with some inputs wrong by 1 %."""
    flat, spec = _pytree.tree_flatten(call)
    for i in inputs:
        flat[i] = flat[i] * (1 + ERROR)
    return _pytree.tree_unflatten(flat, spec)


def _equal(first: list[list[Any]], other: list[list[Any]]) -> bool:
    """Return True if all outputs of some calls are equal."""
    pairs = [pair for a, b in zip(first, other) for pair in zip(a, b)]
    return all(np.array_equal(as_array(a), as_array(b), equal_nan=as_array(a).dtype.kind in "fc")
               if isinstance(a, np.ndarray) else a == b for a, b in pairs)  # fmt: skip


@dataclass(frozen=True)
class Judged:
    """A case that matches, the limits of its outputs, and eager's outputs, by call."""

    case: CallSequence
    limits: list[list[Tolerance | float | None]]
    expected: list[list[Any]]


def _limits_of(checked: CheckedCase, calls: int, is_judged: bool) -> list[list[Any]]:
    """Return the limit of each output, by call; 1 for all floats if they are not judged."""
    outputs = () if checked.comparison is None else checked.comparison.outputs
    count = len(outputs) // max(calls, 1)
    return [[(one.tolerance if is_judged else 1.0) if one.metrics is not None else None
             for one in outputs[i * count : (i + 1) * count]] for i in range(calls)]  # fmt: skip


def _of_wrong_outputs(eager: Eager, cases: Sequence[Judged]) -> list[Judged]:
    """Return the cases with limits of wrong outputs: those of a few roundings are replaced by
    measured noise (`tolerance.of_wrong`): that of a case where the judge measured it, else that of
    the first case."""
    factors = dict[int, tuple[float, bool]]()
    for one in cases:
        for i, rule in enumerate(one.limits[0]):
            values = _some(one.expected[0])[i]
            if isinstance(rule, Tolerance) and not rule.is_rounding and i not in factors:
                few = tolerance.rounding(values, values)
                factors[i] = tolerance.of_wrong(values, few, rule)
    if any(isinstance(rule, Tolerance) and i not in factors
           for one in cases for call in one.limits for i, rule in enumerate(call)):  # fmt: skip
        factors = {**dict(enumerate(_measured_factors(eager, cases[0]))), **factors}

    def wrong(rule: Any, index: int) -> Any:
        if not isinstance(rule, Tolerance) or not rule.is_rounding:
            return rule
        return rule.scaled(*factors.get(index, (1.0, True)))

    return [replace(one, limits=[[wrong(rule, i) for i, rule in enumerate(call)]
                                 for call in one.limits]) for one in cases]  # fmt: skip


def _some(values: Sequence[Any]) -> list[Any]:
    """Return the outputs without None, which programs omit."""
    return [one for one in values if one is not None]


def _measured_factors(eager: Eager, first: Judged) -> Iterator[tuple[float, bool]]:
    """Yield by output how much larger limits of noise are than those of a few roundings, measured
    in a case."""
    runs = samples(lambda mode: eager(first.case.calls, mode), FEW_RUNS)
    for i, values in enumerate(_some(first.expected[0])):
        if not isinstance(values, np.ndarray):
            yield 1.0, True
            continue
        few, rule = tolerance.rounding(values, values), tolerance.by_dtype(values, values)
        if runs is not None:
            others = [as_array(_some(run[0])[i]) for run in runs]
            if all(one.shape == values.shape for one in others):
                rule = tolerance.measured(values, values, others)
        yield tolerance.of_wrong(values, few, rule)


def _in_turn(cases: Sequence[Judged]) -> list[Judged]:
    """Return cases with the first of each kind before the second."""
    counts: dict[str, int] = {}
    keys = []
    for one in cases:
        counts[one.case.kind] = counts.get(one.case.kind, 0) + 1
        keys.append(counts[one.case.kind])
    return [cases[i] for i in sorted(range(len(cases)), key=keys.__getitem__)]


class Measurement:
    """The measurement of one check's power: samples, then trials of what they leave open."""

    def __init__(
        self, eager: Eager, cases: Sequence[Judged], frozen: Sequence[str], seconds: float
    ) -> None:
        """`seconds` limit the passes and trials; two passes run in any case."""
        self.eager, self.cases, self.frozen = eager, _in_turn(cases), frozen
        self.trials = Trials(eager, self.cases)
        self.end = time.monotonic() + seconds
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

    @property
    def is_late(self) -> bool:
        """True if the time is up."""
        return time.monotonic() > self.end

    def run(self) -> None:
        """Decide about all weights."""
        for turn in range(1, PASSES):
            if not self.sampled or (turn > 1 and self.is_late):
                break
            self._sample(turn % len(self.cases), turn)
        self._try_untouched()
        self._try_undecided()

    def _sample(self, number: int, seed: int) -> None:
        one = self.cases[number]
        self.model.sample(number, one.case, one.limits, seed)
        self.sampled.add(number)

    def _untouched(self) -> tuple[dict[str, Array], list[int]]:
        """Return the slices of weights, and the inputs, that have no gradient in any pass."""
        weights = {name: one.untested for name, one in self.model.weights.items()
                   if one.untested.any()}  # fmt: skip
        return weights, [i for i, one in self.model.inputs.items() if one.untested.any()]

    def _try_untouched(self) -> None:
        """Change what has no gradient in every case: it changes no output, or else it is tried one
        by one, or sampled, in a case where it changes one."""
        weights, inputs = self._untouched()
        for number in range(min(len(self.cases), MOST_CASES)):
            if not weights and not inputs:
                return
            if number and number in self.sampled:
                continue  # the first shows that no gradients are lost
            if self._is_idle(number, weights, inputs):
                continue
            if self.sampled and number not in self.sampled:
                self._sample(number, number)
                weights, inputs = self._untouched()
                if self._is_idle(number, weights, inputs):
                    continue
            self._try_each(weights)
            self._try_inputs(number, inputs)
            return

    def _is_idle(self, number: int, weights: Mapping[str, Array], inputs: Sequence[int]) -> bool:
        return _equal(self.trials.run(number, weights, inputs), self.cases[number].expected)

    def _try_each(self, weights: Mapping[str, Array]) -> None:
        """Decide about each of some weights whose gradients are lost."""
        sizes = {name: int(self.model.weights[name].sizes[mask].sum())
                 for name, mask in weights.items()}  # fmt: skip
        for turn, name in enumerate(sorted(sizes, key=lambda one: -sizes[one])):
            one = self.model.weights[name]
            if turn >= MOST_TRIALS or (turn and self.is_late):
                one.is_measured = not one.is_untested
                one.is_touched |= weights[name]  # nothing is known: not found
            else:
                self._try_slices(name, np.flatnonzero(weights[name]))

    def _try_slices(self, name: str, slices: Array) -> None:
        """Decide about slices of a weight by trials of a few; the others are like the nearest."""
        one = self.model.weights[name]
        parts = np.array_split(slices, min(len(slices), MOST_TRIALS))
        for turn, part in enumerate(parts):
            if turn and self.is_late:
                return
            middle = part[len(part) // 2]
            wrong = {name: np.arange(len(one.sizes)) == middle}
            numbers = range(min(len(self.cases), MOST_CASES))
            is_changed = is_found = False
            for number in numbers:
                changes, finds = self.trials.effect(number, wrong)
                is_changed, is_found = is_changed or changes, is_found or finds
                if is_found:
                    break
            one.is_found[part] = is_found
            one.is_touched[part] = True  # of the others, nothing is known
            one.is_touched[middle] = is_changed

    def _try_inputs(self, number: int, inputs: Sequence[int]) -> None:
        """Decide about inputs whose gradients are lost, in one case."""
        for i in inputs:
            one = self.model.inputs[i]
            is_changed, is_found = self.trials.effect(number, {}, [i])
            one.is_touched |= is_changed
            one.is_found |= is_found

    def _try_undecided(self) -> None:
        """Try the slice in the middle of those that are neither certainly found nor lost; the ones
        that change the outputs more are found if it is."""
        left = {name: one.decide() for name, one in self.model.weights.items()}
        for one in self.model.inputs.values():
            one.decide()
        sizes = {name: int(self.model.weights[name].sizes[mask].sum())
                 for name, mask in left.items() if mask.any()}  # fmt: skip
        for name in sorted(sizes, key=lambda one: -sizes[one])[:MOST_TRIALS]:
            if self.is_late:
                return
            one, mask = self.model.weights[name], left[name]
            whole = np.sum(one.squares, 0)
            order = np.flatnonzero(mask)[np.argsort(whole[mask])]
            middle = order[len(order) // 2]
            best = one.where[int(np.argmax([squares[middle] for squares in one.squares]))]
            if self.trials.effect(best, {name: np.arange(len(mask)) == middle})[1]:
                one.is_found |= mask & (whole >= whole[middle])

    def zeros(self) -> Iterator[str]:
        """Yield the names of weights that are zeros and hide others: with ones in their place, the
        outputs depend on weights that they do not depend on."""
        weights, _ = self._untouched()
        weights = {name: mask for name, mask in weights.items()
                   if self.model.weights[name].is_untested}  # fmt: skip
        for name in untested.zeros(self.model.weights, weights) if weights else ():
            if self.is_late:
                return
            others = {one: mask for one, mask in weights.items() if one != name}
            runs = [self.trials.run(0, changes, (), name) for changes in (others, {})]
            if not _equal(*runs):
                yield name


def measure(
    eager: Eager,
    checked: Sequence[tuple[CallSequence, CheckedCase, list[list[Any]]]],
    *,
    frozen: Sequence[str],
    names: Sequence[str],
    unvaried: Sequence[str],
    is_judged: bool,
    seconds: float,
) -> Power:
    """Return the power of a check.

    Args:
        eager: The float model.
        checked: The cases, their comparisons, and the model's outputs.
        frozen: Names of the buffers that calls change.
        names: Names of the inputs.
        unvaried: Sentences about inputs that do not vary.
        is_judged: False if the limits are not those of the float model's outputs.
        seconds: Limit of the time, after two passes.
    """
    left = tuple(unvaried)
    cases = [Judged(case, _limits_of(one, len(case.calls), is_judged), outputs)
             for case, one, outputs in checked if one.verdict == "match"]  # fmt: skip
    tensors = [*eager.model.parameters(), *eager.model.buffers()]
    if not any(one.is_floating_point() for one in tensors):
        return Power(untested=left)
    if not cases or sum(one.numel() for one in tensors) > MOST_WEIGHTS:
        reason = "no case matches" if not cases else f"over {MOST_WEIGHTS:,} weights"
        return Power(untested=left, reason=reason)
    try:
        found = Measurement(eager, _of_wrong_outputs(eager, cases), frozen, seconds)
        found.run()
        return _power(found, names, left, is_judged)
    except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
        first = next(iter(str(error).strip().splitlines()), "")
        return Power(untested=left, reason=f"{type(error).__name__}: {first}")


def _power(
    found: Measurement, names: Sequence[str], unvaried: tuple[str, ...], is_judged: bool
) -> Power:
    weights, model = found.model.weights, found.model
    looked_up = {name for name, one in weights.items() if id(one.tensor) in model.watch.embeddings}
    lines = [f"{name} is 0" for name in found.zeros()]
    lines += untested.sentences(weights, model.eager.model, looked_up)
    inputs = {names[i] if i < len(names) else f"input {i}": one for i, one in model.inputs.items()}
    lines += [f"{name} changes no output" for name, one in inputs.items() if one.is_untested]
    lines += unvaried
    lines += untested.within_limits(weights) if is_judged else ()
    size = sum(int(one.sizes.sum()) for one in weights.values())
    right = sum(int(one.sizes[one.is_found].sum()) for one in weights.values())
    return Power(
        share=right / size if is_judged and size else None,
        weights=tuple(one.row(name, is_judged) for name, one in weights.items()),
        inputs=tuple(one.row(name, is_judged) for name, one in inputs.items()),
        untested=tuple(lines),
        reason="" if is_judged else "the reference is a quantised graph",
    )
