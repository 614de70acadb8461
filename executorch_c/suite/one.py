"""One check, in a process of its own: what its row has."""

from __future__ import annotations

import math
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from executorch_c import testing
from executorch_c._core import Program
from executorch_c._programs import method_of
from executorch_c.check import named
from executorch_c._stages import notes_of
from executorch_c.inspect.delegated import delegated_share
from executorch_c.inspect.structure import view_of

if TYPE_CHECKING:
    from executorch_c.check.result import CheckResult
    from executorch_c.suite.checks import CheckTask

TIMED_SECONDS = 0.2
"""Time of the calls of which the fastest counts."""
MAX_PROBLEMS = 8
"""Maximum number of sentences of a row."""


def run_check(task: CheckTask) -> dict[str, Any]:
    """Return the row of a check, of which exceptions are errors. Changes the working directory."""
    start = time.perf_counter()
    os.chdir(task.folder)
    sys.path.insert(0, task.folder)
    try:
        model, example, options = named.model_and_inputs(task.make)
        source = {"flow": task.flow} if task.program is None else {"program": task.program}
        options |= {**source, **task.options, "progress": False}
        result = testing.check_model(model, example, **options)
        row = _row(result)
        if task.page is not None and not result.ok:
            result.to_html(task.page, task.name)
            row["page"] = task.page
    except Exception as error:
        row = error_row(error)
    return {**row, "seconds": time.perf_counter() - start}


def error_row(error: BaseException) -> dict[str, Any]:
    """Return the row of a check that raised."""
    text = " ".join(str(error).split())
    return {
        "verdict": "error",
        "about": f"{type(error).__name__}: {text}" if text else type(error).__name__,
        "problems": notes_of(error),
    }


def _row(result: CheckResult) -> dict[str, Any]:
    """Return verdict and figures of a check."""
    row: dict[str, Any] = {
        "verdict": result.verdict,
        "about": result.summary(),
        "problems": result.problems()[:MAX_PROBLEMS] if not result.ok else [],
        "sqnr_db": _worst_sqnr(result),
        "power": result.power.share,
    }
    program = result.program if isinstance(result.program, Program) else result.program._program
    row["size_bytes"] = program.info()["file_size"]
    view = view_of(program, result.method)
    row["delegated"] = None if view is None else delegated_share(view)
    row["call_ms"] = _call_ms(result)
    return row


def _worst_sqnr(result: CheckResult) -> float | None:
    """Return the least ratio of all outputs in all cases: of quantised programs against the float
    model, of others against eager."""
    comparisons = [one.comparison if one.to_float is None else one.to_float for one in result]
    ratios = [
        output.metrics.snr_db
        for comparison in comparisons
        for output in (() if comparison is None else comparison.outputs)
        if output.metrics is not None and not math.isnan(output.metrics.snr_db)
    ]
    return min(ratios, default=None)


def _call_ms(result: CheckResult) -> float | None:
    """Return the time of a call on the inputs of the first case: the fastest of several after the
    first. None if the program raises."""
    calls = [case.inputs[0] for case in result if case.inputs and case.error is None]
    if not calls:
        return None
    method = method_of(result.program, result.method, result.kernels, result.delegate_at_load)
    times, start = list[float](), time.perf_counter()
    while len(times) < 2 or time.perf_counter() - start < TIMED_SECONDS:
        method.reset()
        begin = time.perf_counter()
        method.execute(list(calls[0]))
        times.append(time.perf_counter() - begin)
    return 1000 * min(times[1:])
