"""Ways to run a prompt, as scripts that any runner can follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from executorch_c.llm.encoder_decoder import ENCODER, EncoderDecoder
from executorch_c.llm.runner import as_float32

if TYPE_CHECKING:
    from executorch_c._arrays import Array
    from executorch_c.llm.check_report import Case
    from executorch_c.llm.runner import TextRunner

Kind: TypeAlias = Literal["reset", "zero", "feed", "rewind", "encode"]
"""reset the state; go to position 0 without a reset; one call with tokens; go back; call the
encoder."""


@dataclass(frozen=True)
class Action:
    """One step of a script."""

    kind: Kind
    tokens: tuple[int, ...] = ()
    position: int = 0
    keep: bool = False
    """Compare the last logits of the call, or the encoder's output."""
    value: Array | None = field(default=None, repr=False, compare=False)
    """The encoder's input."""


@dataclass(frozen=True)
class Script:
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
        prefixes: list[tuple[int, ...]] = []
        ids: tuple[int, ...] = ()
        for action in self.actions:
            if action.kind == "feed":
                ids += action.tokens
            elif action.kind != "encode":
                ids = ids[: action.position]
            prefixes.append(ids)
        return prefixes

    def kept(self) -> list[tuple[int, ...]]:
        """Return the tokens up to each compared position."""
        return [ids for a, ids in zip(self.actions, self.known()) if a.keep]


def perform(action: Action, runner: TextRunner) -> Array | None:
    """Run one action, and return the logits of its call or the rows of the encoder's output."""
    if action.kind == "feed":
        return runner.forward(action.tokens)
    if action.kind == "encode":
        assert isinstance(runner, EncoderDecoder) and action.value is not None
        return states_of(runner._encode(action.value))
    if action.kind == "reset":
        runner.reset()
    elif action.kind == "zero":
        del runner._session.ids[:]
        runner._start(runner._session)
    else:
        runner.rewind(action.position)
    return None


def states_of(encoded: Array) -> Array:
    """Return an encoder's output as float32 [n, D]."""
    states = as_float32(encoded)
    return states.reshape(-1, states.shape[-1])


def follow(script: Script, runner: TextRunner, show: Callable[[], object] = lambda: None) -> Array:
    """Run a script and return the compared logits, float32 [n, V], or states of the encoder [n, D].

    Raises RuntimeError where a rewind is not possible, and the exceptions of calls.
    """
    rows = []
    for action in script.actions:
        output = perform(action, runner)
        if action.keep:
            assert output is not None
            rows.append(output if action.kind == "encode" else output[-1:])
        show()
    whole: Array = np.concatenate(rows)
    return whole


def calls_of(script: Script, runner: TextRunner) -> Iterator[tuple[Action, str, list[Array]]]:
    """Yield each action with the method that it calls and its inputs; without a call "" and [].
    The encoder runs for the inputs of the decoder, no other method does."""
    signature, at, encode = runner.signature, 0, None
    for action, known in zip(script.actions, script.known()):
        if action.kind == "encode":
            assert action.value is not None and isinstance(runner, EncoderDecoder)
            encode = action
            yield action, ENCODER, [action.value]
        elif action.kind == "feed":
            if encode is not None:
                _encoded(encode, runner)
            ids, start = (action.tokens, at) if signature.has_cache else (known, 0)
            call = runner._call_for(len(ids))
            yield action, call.method, runner._inputs(call, ids, start)
        else:
            yield action, "", []
        at = len(known)


def _encoded(action: Action, runner: TextRunner) -> None:
    """Run the encoder for the input of an action, unless it was the last one."""
    assert isinstance(runner, EncoderDecoder)
    if runner._encoded is not action.value:
        perform(action, runner)


def steps(tokens: Sequence[int], keep: bool = True) -> list[Action]:
    """Return a call for each token."""
    return [Action("feed", (token,), keep=keep) for token in tokens]


def parts(tokens: Sequence[int], sizes: Sequence[int], keep: bool = True) -> list[Action]:
    """Return calls of some sizes, in turn, over tokens."""
    actions, at, i = [], 0, 0
    while at < len(tokens):
        size = sizes[i % len(sizes)]
        actions.append(Action("feed", tuple(tokens[at : at + size]), keep=keep))
        at, i = at + size, i + 1
    return actions
