"""The cases of check_llm: all ways to run some prompts, as scripts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from executorch_c.llm.scripts import Action, Script, parts, perform, steps

if TYPE_CHECKING:
    from executorch_c._arrays import Array
    from executorch_c.llm.runner import TextRunner

TAIL_STEPS, TURN_TOKENS = 3, 5
"""Steps after a prefill; tokens that are generated between two turns."""


class Cases:
    """The scripts of prompts for one program."""

    def __init__(
        self,
        runner: TextRunner,
        prompts: Sequence[list[int]],
        length: int,
        encoder_inputs: Sequence[Array] = (),
    ) -> None:
        """`length`: tokens of the long cases. `encoder_inputs`: one for each prompt, if the program
        has an encoder."""
        self.runner, self.prompts = runner, prompts
        self.inputs = encoder_inputs
        whole = [token for ids in prompts for token in ids]
        self.long = (whole * (length // len(whole) + 1))[:length]

    def begin(self, prompt: int) -> tuple[Action, ...]:
        """Return the actions before the tokens of a prompt, from any state."""
        return (*self.encode(prompt), Action("reset"))

    def encode(self, prompt: int) -> tuple[Action, ...]:
        """Return the call of the encoder for a prompt, if there is one."""
        return (Action("encode", value=self.inputs[prompt]),) if self.inputs else ()

    def again(self) -> tuple[Action, ...]:
        """Return calls that show the state before them: the first tokens one by one."""
        ids = self.prompts[0]
        return (*steps(ids[:TAIL_STEPS]), *parts(ids[TAIL_STEPS:], [self.runner.signature.longest]))

    def scripts(self) -> list[Script]:
        """Return all ways to run the prompts, in the order of cases."""
        scripts = [
            Script("encoder", i, (Action("encode", keep=True, value=one),))
            for i, one in enumerate(self.inputs)
        ]
        scripts += [
            Script("steps", i, (*self.begin(i), *steps(ids))) for i, ids in enumerate(self.prompts)
        ]
        if self.runner.signature.longest > 1:
            scripts += self._in_one_call()
        scripts += self._turns()
        scripts += self._rewind()
        scripts += self._resets()
        scripts.append(Script("context", -1, (*self.begin(0), *steps(self.long))))
        return scripts

    def _in_one_call(self) -> list[Script]:
        """Return scripts with several tokens in a call."""
        longest = self.runner.signature.longest
        scripts = []
        for i, ids in enumerate(self.prompts):
            size = min(longest, max(len(ids) - TAIL_STEPS, 1))
            whole = Action("feed", tuple(ids[:size]), keep=True)
            tail = steps(ids[size : size + TAIL_STEPS])
            short = parts(ids[: min(2, len(ids))], [2])
            scripts.append(
                Script("prefill", i, (*self.begin(i), *short, Action("reset"), whole, *tail))
            )
        sizes = [longest, 1, max(longest // 2, 1), 2, longest]
        scripts.append(Script("chunks", -1, (*self.begin(0), *parts(self.long, sizes))))
        return scripts

    def _turns(self) -> list[Script]:
        """Return a script with generated tokens between two prompts."""
        first, second = self.prompts[0], self.prompts[1 % len(self.prompts)]
        runner = self.runner
        longest, room = runner.signature.longest, runner.context - len(first) - len(second)
        if room < 1:
            return []
        between: list[int] = []
        with suppress(Exception):  # the script raises, too: its row has the error
            for action in self.begin(0):
                perform(action, runner)
            logits = runner.prefill(first)
            for _ in range(min(TURN_TOKENS, room)):
                between.append(int(np.nan_to_num(logits).argmax()))
                logits = runner.step(between[-1])
        actions = [*parts(first, [longest]), *steps(between), *parts(second, [longest])]
        return [Script("turns", 0, (*self.begin(0), *actions))]

    def _rewind(self) -> list[Script]:
        """Return a script that goes back to the middle of a prompt, and on with other tokens."""
        first, other = self.prompts[0], self.prompts[1 % len(self.prompts)]
        half = max(len(first) // 2, 1)
        before = parts(first, [self.runner.signature.longest], keep=False)
        after = steps(other[::-1][: self.runner.context - half])
        if len(first) < 2:
            return []
        back = Action("rewind", position=half)
        return [Script("rewind", 0, (*self.begin(0), *before, back, *after))]

    def _resets(self) -> list[Script]:
        """Return scripts that begin again after other tokens, and another input of the encoder."""
        used = parts(
            self.long[: self.runner.context // 2], [self.runner.signature.longest], keep=False
        )
        before = (*self.begin(len(self.inputs) - 1 if self.inputs else 0), *used)
        scripts = [Script("reset", 0, (*before, *self.begin(0), *self.again()))]
        if self.runner.signature.has_cache:
            zero = (*self.encode(0), Action("zero"))
            scripts.append(Script("official reset", 0, (*before, *zero, *self.again())))
        return scripts
