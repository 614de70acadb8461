"""Ways to run a prompt, as plans that any runner can follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from executorch_c._arrays import Array
    from executorch_c.llm.check_report import Case
    from executorch_c.llm.runner import TextRunner

Kind: TypeAlias = Literal["reset", "zero", "feed", "rewind"]
"""reset the state; go to position 0 without a reset; one call with tokens; go back."""


@dataclass(frozen=True)
class Action:
    """One step of a plan."""

    kind: Kind
    tokens: tuple[int, ...] = ()
    position: int = 0
    keep: bool = False
    """Compare the last logits of the call."""


@dataclass(frozen=True)
class Plan:
    """A way to run a prompt."""

    case: Case
    prompt: int
    actions: tuple[Action, ...]

    @property
    def ids(self) -> tuple[int, ...]:
        """The tokens in the caches at the end."""
        return self.known()[-1] if self.actions else ()

    def known(self) -> list[tuple[int, ...]]:
        """Return the tokens in the caches after each action."""
        found: list[tuple[int, ...]] = []
        ids: tuple[int, ...] = ()
        for action in self.actions:
            if action.kind == "feed":
                ids += action.tokens
            else:
                ids = ids[: action.position]
            found.append(ids)
        return found

    def kept(self) -> list[tuple[int, ...]]:
        """Return the tokens up to each compared position."""
        return [ids for a, ids in zip(self.actions, self.known()) if a.keep]


def follow(plan: Plan, runner: TextRunner, show: Callable[[], object] = lambda: None) -> Array:
    """Run a plan and return the compared logits, float32 [n, V].

    Raises RuntimeError where a rewind is not possible, and the exceptions of calls.
    """
    rows = []
    for action in plan.actions:
        if action.kind == "reset":
            runner.reset()
        elif action.kind == "zero":
            del runner._session.ids[:]
            runner._start(runner._session)
        elif action.kind == "rewind":
            runner.rewind(action.position)
        else:
            logits = runner.forward(action.tokens)
            if action.keep:
                rows.append(logits[-1])
        show()
    whole: Array = np.stack(rows)
    return whole


def steps(tokens: Sequence[int], keep: bool = True) -> list[Action]:
    """Return a call for each token."""
    return [Action("feed", (token,), keep=keep) for token in tokens]


def parts(tokens: Sequence[int], sizes: Sequence[int], keep: bool = True) -> list[Action]:
    """Return calls of some sizes, in turn, over tokens."""
    found, at, i = [], 0, 0
    while at < len(tokens):
        size = sizes[i % len(sizes)]
        found.append(Action("feed", tuple(tokens[at : at + size]), keep=keep))
        at, i = at + size, i + 1
    return found
