"""The cases of a check: the example, random calls, edge shapes, the user's, and calls in a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from executorch_c.check import inputs
from executorch_c.check.cases import CallSequence, leaves
from executorch_c.check.flows import Call
from executorch_c.check.reference import array
from executorch_c.check.result import CheckedCase
from executorch_c.check.roles import index_bounds
from executorch_c.check.shapes import Symbols

if TYPE_CHECKING:
    from executorch_c.check.run import Check

RANDOM_CALLS = 2
"""Calls after the example in the case "state" of a model with state."""


def flat(call: Call) -> tuple[Any, ...]:
    """Return inputs of the program: arrays in the tensors' own layouts, and other values."""
    return tuple(array(leaf) for leaf in leaves(call))


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's text."""
    return next(iter(str(error).strip().splitlines()), "")


class Plan:
    """Generator of the cases of a check."""

    def __init__(self, check: Check, real: Sequence[Call], n_random: int, seed: int) -> None:
        self.check = check
        self.example, self.real, self.n_random, self.seed = check.example, real, n_random, seed
        self.exported, self.eager = check.subject.exported, check.eager
        count = len(leaves(self.example))
        self.bounds = index_bounds(self.exported, count)
        self.symbols = Symbols(self.exported, self.example, check.limits())
        self.skipped: list[CheckedCase] = []

    def _draw(self, number: int, shapes: Any = None) -> Call:
        return inputs.draw(self.example, shapes, self.bounds, self.seed * 7919 + number)

    @cached_property
    def stateful(self) -> bool:
        """True if a call of the model changes a buffer."""
        return bool(self.check.changed if not self.check.subject.quantizes
                    else self.eager.changed_buffers(self.example))  # fmt: skip

    @cached_property
    def _guards(self) -> Any:
        """Return the exported program's assertions about inputs, as a function."""
        return getattr(self.exported.module(), "_guards_fn", None)

    def _refused(self, call: Call) -> str | None:
        """Return the reason why the exported program does not allow a call; None if it does."""
        try:
            if self._guards is not None:
                self._guards(*leaves(call))
        except AssertionError as error:
            return f"the exported program does not allow it: {first_line(error)}"
        return None

    def __iter__(self) -> Iterator[CallSequence]:
        yield CallSequence("example", "", (self.example,))
        for i in range(self.n_random):
            yield CallSequence("random", str(i), (self._draw(i),))
        for i, (name, shapes) in enumerate(self.symbols.edges()):
            call = self._draw(1000 + i, shapes)
            refused = self._refused(call)
            if refused is None:
                yield CallSequence("edge", name, (call,))
            else:
                self.skipped.append(CheckedCase("edge", name, (flat(call),), None, skipped=refused))
        for i, call in enumerate(self.real):
            yield CallSequence("real", str(i), (call,))

    def state(self) -> CallSequence:
        """Return several calls in a row: each starts from the buffers of the one before."""
        calls = [self.example, *(self._draw(500 + i) for i in range(RANDOM_CALLS))]
        return CallSequence("state", f"{len(calls)} calls", tuple(calls))
