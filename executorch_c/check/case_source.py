"""The cases of a check: the example, random calls, edge shapes, the user's, and calls in a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

from executorch_c.check import inputs
from executorch_c.check.cases import CallSequence, RealCases, leaves
from executorch_c.check.flows import Call
from executorch_c.check.reference import Eager, array
from executorch_c.check.shapes import Symbols

if TYPE_CHECKING:
    from executorch_c.check.run import Check


def flat(call: Call) -> tuple[Any, ...]:
    """Return inputs of the program: arrays in the tensors' own layouts, and other values."""
    return tuple(array(leaf) for leaf in leaves(call))


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's text."""
    return next(iter(str(error).strip().splitlines()), "")


class InputsOfFile(Sequence[tuple[object, ...]]):
    """The inputs of a case's calls, which are read again when they are used."""

    def __init__(
        self, again: Callable[[], tuple[Call, ...]], inputs: Sequence[tuple[Any, ...]]
    ) -> None:
        self._again = again
        self.shapes = [tuple(getattr(value, "shape", None) for value in one) for one in inputs]
        """Of each value of each call; None of values that are no arrays."""

    def __len__(self) -> int:
        return len(self.shapes)

    @overload
    def __getitem__(self, index: int) -> tuple[object, ...]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[tuple[object, ...]]: ...
    def __getitem__(self, index: Any) -> Any:
        return [flat(call) for call in self._again()][index]


class CaseSource:
    """Generator of the cases of a check."""

    def __init__(self, check: Check, real: RealCases, n_random: int, seed: int) -> None:
        from executorch_c.check.roles import roles_of

        self.check = check
        self.example, self.n_random, self.seed = check.example, n_random, seed
        self.real, self.set_notes = real, real.notes
        self.exported, self.eager = check.subject.exported, check.eager
        self.roles = roles_of(self.eager.model, self.example, self.exported, self.eager.copies)
        self.symbols = Symbols(self.exported, self.example, check.limits())
        self._reads_numbers = False
        for role in self.roles.inputs if self.exported is not None else ():
            if role is not None and role.is_scalar:  # the export says which numbers it takes
                role.is_scalar, self._reads_numbers = False, True

    def draw(self, number: int, shapes: Any = None) -> Call:
        """Return a random call: of any numbers that the inputs' roles and the export allow."""
        from executorch_c.check.sequences import aligned

        call = inputs.draw(self.example, shapes, self.roles.inputs, self._seed(number))
        if shapes is None:
            call = aligned(self.example, call, self.roles)
        return self._cautious(number, shapes) if self.refused(call) else call

    def call_of(self, number: int, shapes: Any) -> Call:
        """Return a random call of other shapes, which the export may not allow."""
        return self._cautious(2000 + number, shapes)

    def _cautious(self, number: int, shapes: Any = None) -> Call:
        """Return a random call with numbers in the range of the example's."""
        nothing = [None] * len(leaves(self.example))
        return inputs.draw(self.example, shapes, nothing, self._seed(number))

    def _seed(self, number: int) -> int:
        return self.seed * 7919 + number

    @cached_property
    def stateful(self) -> bool:
        """True if a call of the model changes a buffer."""
        return bool(
            self.check.changed
            if not self.check.subject.quantizes
            else self.eager.changed_buffers(self.example)
        )

    @cached_property
    def _module(self) -> Any:
        """Return the exported program's graph module, with its assertions about inputs: torch omits
        them where "executorch" is in the path of a caller, so the caller is a thread."""
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(self.exported.module).result()

    @cached_property
    def _graph(self) -> Eager:
        return Eager(self._module)

    @cached_property
    def _guards(self) -> Any:
        """Return the exported program's assertions about inputs, as a function."""
        return getattr(self._module, "_guards_fn", None) if self.exported is not None else None

    def refused(self, call: Call) -> str | None:
        """Return the reason why the exported program does not allow a call; None if it does."""
        try:
            if self._guards is not None:
                self._guards(*leaves(call))
            if self._reads_numbers:
                self._graph([call])
        except Exception as error:
            return first_line(error)
        return None

    def __iter__(self) -> Iterator[CallSequence]:
        yield CallSequence("example", "", (self.example,))
        for i in range(self.n_random):
            yield self._random("random", str(i), i, None)
        for i, (name, shapes) in enumerate(self.symbols.edges()):
            case = self._random("edge", name, 1000 + i, shapes)
            yield replace(case, refused=self.refused(case.calls[0]))
        yield from self.real

    def _random(self, kind: str, about: str, number: int, shapes: Any) -> CallSequence:
        """Return a random case, and the cautious one to run if eager raises."""
        return CallSequence(
            kind, about, (self.draw(number, shapes),), lambda: (self._cautious(number, shapes),)
        )

    def state(self) -> CallSequence:
        """Return several calls in a row: each starts from the buffers of the one before."""
        from executorch_c.check.sequences import state_calls

        def calls(draw: Callable[[int], Call]) -> tuple[Call, ...]:
            user = self.real.calls()
            return tuple(state_calls(self.example, user, self.roles, lambda i: draw(500 + i)))

        drawn = calls(self.draw)
        return CallSequence("state", f"{len(drawn)} calls", drawn, lambda: calls(self._cautious))
