"""The official runtime's side of check_llm: each script runs there, too, in its process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c._arrays import as_array
from executorch_c._core import TensorInfo
from executorch_c.check import official_blame
from executorch_c.check.engines import (
    BFLOAT16,
    OFFICIAL_SECONDS,
    OfficialProgram,
    OfficialRun,
    as_sent,
)
from executorch_c.check.official import Process, Reply, Unavailable
from executorch_c.check.official_child import unwired
from executorch_c.llm.check_report import Row, finding
from executorch_c.llm.encoder_decoder import ENCODER, EncoderDecoder
from executorch_c.llm.runner import as_float32
from executorch_c.llm.scripts import calls_of, states_of

if TYPE_CHECKING:
    from executorch_c import Method
    from executorch_c._arrays import Array
    from executorch_c.llm.runner import TextRunner
    from executorch_c.llm.scripts import Script

Step = tuple[str, list[Any], int]
"""A call: its method, its inputs, and how many rows of the output are compared; or, without a
method, the return to the initial state."""

MIN_TIME_RATIO = 20
"""Minimum ratio of a script's time limit to the time that the script takes in this runtime."""
ALL_ROWS = sys.maxsize


class OfficialScripts(OfficialProgram):
    """The official runtime, for the scripts of a language model."""

    def __init__(self, asked: bool, seconds: float | None) -> None:
        """`seconds`: time limit of a script; None: 20 s, or more for a slow program."""
        super().__init__(asked, OFFICIAL_SECONDS if seconds is None else seconds)
        self._has_limit = seconds is not None
        self._has_kept = False

    def open(self, runner: TextRunner, seconds_of_call: float) -> None:
        """Take the program of the check; `seconds_of_call`: time of a call in this runtime."""
        self._runner, self._per_call = runner, seconds_of_call
        methods = [*runner.signature.methods]
        if isinstance(runner, EncoderDecoder):
            methods.append(ENCODER)
        self.take(runner.source, methods)

    def begin(self, script: Script) -> None:
        """Begin to run a script; `end` has the finding."""
        self._pending, self._limit = None, self.seconds
        if self.why_not is not None:
            return
        try:
            steps = self._steps(script)
        except Unavailable as error:
            self.why_not = str(error)
            return
        except Exception:  # of the encoder, whose states the decoder takes; the row has it
            self._pending = OfficialRun("not run", "this runtime's encoder raises")
            return
        if (process := self.prepared()) is not None:
            if not self._has_limit:
                self._limit = max(self.seconds, MIN_TIME_RATIO * self._per_call * len(steps))
            process.replay(steps, self._limit)

    def _steps(self, script: Script) -> list[Step]:
        """Return the calls of a script as they are sent."""
        steps: list[Step] = []
        self._known: dict[int, tuple[Array, Any]] = {}
        for action, method, inputs in calls_of(script, self._runner):
            is_reset = action.kind == "reset" or (action.kind == "rewind" and not action.position)
            if method:
                rows = ALL_ROWS if action.kind == "encode" else 1
                steps.append((method, self._sent(method, inputs), rows if action.keep else 0))
            elif is_reset:
                steps.append(("", [], 0))
        return steps

    def _sent(self, method: str, inputs: Sequence[Array]) -> list[Any]:
        """Return the inputs of a call as they are sent."""
        infos = [info for _, info in self._runner.program.metadata(method).inputs]
        values = []
        for value, info in zip(inputs, infos):
            is_half = isinstance(info, TensorInfo) and info.dtype() == BFLOAT16
            if id(value) not in self._known:  # states of an encoder are sent once
                sent = as_sent(as_float32(value) if is_half else value, info)
                self._known[id(value)] = value, sent
            values.append(self._known[id(value)][1])
        return values

    def end(
        self, script: Script, is_right: bool, judged: Callable[[Array], Row]
    ) -> OfficialRun | None:
        """Return the finding on the script that was begun; None if the engine was not asked for.

        Args:
            is_right: The script matches in this runtime.
            judged: Returns the row of results, compared with the expected ones.
        """
        reply = self.received(self._limit)
        if not isinstance(reply, Reply):
            return reply
        rows = _rows_of(reply)
        row = judged(rows)
        kept = () if is_right or self._has_kept else (rows,)  # for `find_fault`
        self._has_kept = self._has_kept or bool(kept)
        if row.first is None:
            return OfficialRun("match", actual=kept)
        what = "the encoder's output" if script.case == "encoder" else "logits"
        where = ""
        if is_right:
            where = self.located(lambda process: self._place(process, script, row))
        return OfficialRun("differ", finding(row), None, kept, where, what)

    def failed(self, judged: Callable[[Array], Row | None]) -> OfficialRun | None:
        """Return the finding on the script that was begun, which raises in this runtime; None if
        the engine was not asked for. `judged` as for `end`; None if nothing is known to compare
        results with."""
        reply = self.received(self._limit)
        if not isinstance(reply, Reply):
            return reply
        row = judged(_rows_of(reply))
        if row is None:
            return OfficialRun("inconclusive", "nothing to compare with")
        return OfficialRun("match") if row.first is None else OfficialRun("differ", finding(row))

    def drop(self) -> None:
        """Wait for the script that was begun, and leave its results."""
        if self.why_not is None and self._pending is None and self._process is not None:
            self._process.reply(self._limit)
            self.forget_if_unusable()

    def _place(self, process: Process, script: Script, row: Row) -> str:
        """Return the place of the first wrong instruction in the calls up to the first wrong row:
        those after the last reset, if they are of one method."""
        try:
            return self._first_wrong(process, script, row)
        finally:
            self._runner.reset()

    def _first_wrong(self, process: Process, script: Script, row: Row) -> str:
        calls: list[tuple[str, list[Array]]] = []
        assert row.agreement is not None and row.agreement.first is not None
        first, number = row.agreement.first, -1
        for action, method, inputs in calls_of(script, self._runner):
            number += action.keep and action.kind == "feed"
            is_counted = script.case == "encoder" or action.kind == "feed"
            if action.kind == "reset":
                calls = []
            elif method and is_counted:
                calls.append((method, inputs))
            if number == first and script.case != "encoder":
                break
        [method] = {name for name, _ in calls}
        sent = [self._sent(method, inputs) for _, inputs in calls]
        loaded = self._loaded(method)
        return official_blame.find(
            process,
            loaded,
            self._loaded_program,
            [inputs for _, inputs in calls],
            sent,
            0,
            float(row.agreement.relative[first]),
            self._limit,
        )

    def _loaded(self, method: str) -> Method:
        runner = self._runner
        if method == ENCODER and isinstance(runner, EncoderDecoder):
            return runner._encoder
        return runner._engine.methods[method]


def _rows_of(reply: Reply) -> Array:
    """Return the compared rows of a script, float32 [n, V] or [n, D]."""
    rows: Array = np.concatenate([states_of(as_array(unwired(one))) for one in reply.outputs])
    return rows
