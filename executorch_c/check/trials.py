"""Runs of a reference with errors in its weights and inputs, and whether the judge finds them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree

from executorch_c._arrays import Array, as_array
from executorch_c.check.constants import Constant, like, other, replacements, wrong
from executorch_c.check.flows import Call
from executorch_c.check.judged import MatchingCase
from executorch_c.check.reference import Eager
from executorch_c.compare import tolerance
from executorch_c.compare.tolerance import Tolerance

Change = Callable[[Any, Array], Any]
"""Returns a tensor with changed slices: `wrong`, `alternately` or `other` of constants.py."""
WHOLE = np.ones(1, bool)


class Trials:
    """The reference with wrong weights and inputs."""

    def __init__(
        self, eager: Eager, cases: Sequence[MatchingCase], constants: Mapping[str, Constant]
    ) -> None:
        self.eager, self.cases, self.constants = eager, cases, constants
        self.count = 0
        """Number of runs so far."""

    @property
    def numbers(self) -> range:
        """The numbers of the cases."""
        return range(len(self.cases))

    def run(
        self,
        number: int,
        weights: Mapping[str, Array],
        inputs: Sequence[int] = (),
        ones: str = "",
        change: Change = wrong,
    ) -> list[list[Any]]:
        """Return the outputs of a case with changed slices of weights, and changed inputs; the
        weight named `ones` has ones."""
        self.count += 1
        with torch.no_grad():
            changed = {
                name: change(self.constants[name].tensor, mask) for name, mask in weights.items()
            }
            replaced = replacements(self.constants, changed)
            if ones:
                value = self.constants[ones].tensor
                replaced[id(value)] = like(value, torch.ones_like(value))
            calls = [
                self._changed(number, at, inputs, change)
                for at in range(len(self.cases[number].case.calls))
            ]
        return self.eager(calls, replaced=replaced)

    def _changed(self, number: int, at: int, inputs: Sequence[int], change: Change) -> Call:
        """Return a call with some changed inputs."""
        flat, spec = _pytree.tree_flatten(self.cases[number].case.calls[at])
        for i in inputs:
            value = self._of_another_case(number, i) if change is other else None
            flat[i] = change(flat[i], _all(flat[i])) if value is None else value
        args, kwargs = _pytree.tree_unflatten(flat, spec)
        return args, kwargs

    def _of_another_case(self, number: int, i: int) -> Any:
        """Return other integers for an input, which are valid: those of another case; None without
        any of its shape."""
        own = _pytree.tree_leaves(self.cases[number].case.calls[0])[i]
        if own.is_floating_point():
            return None
        for one in self.cases:
            value = _pytree.tree_leaves(one.case.calls[0])[i]
            if value.shape == own.shape and not torch.equal(value, own):
                return value
        return None

    def effect(
        self,
        number: int,
        weights: Mapping[str, Array],
        inputs: Sequence[int] = (),
        change: Change = wrong,
    ) -> tuple[bool, bool]:
        """Return whether wrong weights and inputs change an output of a case, and whether the judge
        finds them."""
        outputs = self.run(number, weights, inputs, change=change)
        if equal(outputs, self.cases[number].expected):
            return False, False
        return True, self._is_outside(number, outputs)

    def _is_outside(self, number: int, outputs: Sequence[Sequence[Any]]) -> bool:
        """Return True if outputs of a case are out of its limits."""
        one = self.cases[number]
        for ours, theirs, rules in zip(outputs, one.expected, one.limits, strict=True):
            pairs = [pair for pair in zip(ours, theirs) if pair[1] is not None]
            for (a, e), rule in zip(pairs, rules):
                if not isinstance(rule, Tolerance) or not isinstance(a, np.ndarray):
                    continue
                if a.shape != e.shape or tolerance.outside(a, e, rule):
                    return True
        return False

    def is_idle(
        self,
        number: int,
        weights: Mapping[str, Array],
        inputs: Sequence[int] = (),
        change: Change = wrong,
    ) -> bool:
        """Return True if changed weights and inputs change no output of a case."""
        outputs = self.run(number, weights, inputs, change=change)
        return equal(outputs, self.cases[number].expected)

    def is_read(self, number: int, weights: Mapping[str, Array], change: Change = wrong) -> bool:
        """Return True if changed weights change an output of a case."""
        try:
            return not self.is_idle(number, weights, change=change)
        except Exception:  # an index out of range, for example: the number is read
            return True

    def read(
        self,
        number: int,
        weights: Mapping[str, Array],
        is_late: Callable[[], bool],
        change: Change = wrong,
    ) -> Iterator[str]:
        """Yield the names of the weights of which changed slices change an output of a case: found
        in halves, or not told apart when it is late."""
        groups = [list(weights)] if weights else []
        while groups:
            names = groups.pop()
            if not self.is_read(number, {name: weights[name] for name in names}, change):
                continue
            if len(names) == 1 or is_late():
                yield from names
                continue
            middle = len(names) // 2
            groups += [names[middle:], names[:middle]]

    def idle_inputs(self, inputs: Iterable[int]) -> Iterator[int]:
        """Yield those of some inputs that change no output of any case, whatever their values."""
        for i in inputs:
            try:
                if all(self.is_idle(number, {}, [i], other) for number in self.numbers):
                    yield i
            except Exception:  # an index out of range, for example: the input is read
                continue

    def tensors(self, is_float: bool) -> list[int]:
        """Return the numbers of the inputs that are tensors of floats, or of others."""
        leaves = _pytree.tree_leaves(self.cases[0].case.calls[0])
        return [
            i
            for i, one in enumerate(leaves)
            if isinstance(one, torch.Tensor) and one.numel() and one.is_floating_point() == is_float
        ]


def _all(value: Any) -> Array:
    """Return a mask of all slices of a tensor."""
    return np.ones(value.shape[0] if value.ndim else 1, bool)


def equal(first: list[list[Any]], second: list[list[Any]]) -> bool:
    """Return True if all outputs of some calls are equal."""
    pairs = [pair for a, b in zip(first, second) for pair in zip(a, b)]
    return all(
        np.array_equal(as_array(a), as_array(b), equal_nan=as_array(a).dtype.kind in "fc")
        if isinstance(a, np.ndarray)
        else a == b
        for a, b in pairs
    )
