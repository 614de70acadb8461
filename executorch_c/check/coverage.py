"""Instructions of a program with jumps that no case of a check runs: a branch never taken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from executorch_c._core import Method
from executorch_c._render import text as _text
from executorch_c.inspect.structure import Instruction, View

COMPUTING = ("kernel", "delegate")
"""Kinds of instructions that compute results."""


class Coverage:
    """The instructions that calls have not run."""

    def __init__(self, view: View | None, loaded: Method) -> None:
        self.loaded, self.seen, self.is_complete = loaded, False, True
        self.left: dict[tuple[int, int], Instruction] = {}
        self.count = 0
        if view is not None:
            self._list(view)

    def _list(self, view: View) -> None:
        """List the instructions of a method that has jumps."""
        steps = view.steps
        if any(step.row["kind"] == "jump" for step in steps):
            computing = [step for step in steps if step.row["kind"] in COMPUTING]
            self.left = {(step.chain, step.number): step for step in computing}
            self.count = len(computing)

    def see(self, calls: Sequence[Sequence[Any]]) -> None:
        """Run calls again, from a fresh state, with a trace: it does not change results that were
        compared."""
        if not self.left:
            return
        self.loaded.reset()
        with self.loaded.tracing() as trace:
            for inputs in calls:
                self.loaded.execute(list(inputs))
        self.seen = True
        self.is_complete &= not trace.dropped_events
        for event in trace.events:
            if not event.depth and event.chain is not None and event.instruction is not None:
                self.left.pop((event.chain, event.instruction), None)

    def notes(self) -> Iterator[str]:
        """Yield a note if some instructions have not run."""
        if not (self.left and self.seen and self.is_complete):
            return
        first = next(iter(self.left.values()))
        yield (
            f"{len(self.left):,} of {_text.plural(self.count, 'instruction')} ran in no case, "
            f"{first.title} (instruction {first.number}) first: branches not taken were not "
            "tested; add `real_inputs` that take them"
        )
