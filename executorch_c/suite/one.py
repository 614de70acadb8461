"""One check, in a process of its own: what its row has."""

from __future__ import annotations

import math
import os
import re
import shlex
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
MADE_KINDS = ("random", "edge")
"""Cases whose inputs are made up."""
FRAME = re.compile(r'File "([^"]+)", line (\d+), in (.+)\n(.*)')
"""A frame of a traceback in a message."""
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
        row = _row(result, task)
        if task.page is not None and not result.ok:
            result.to_html(task.page, task.name)
            row["page"] = task.page
    except Exception as error:
        row = error_row(error)
    return {**row, "seconds": time.perf_counter() - start}


def error_row(error: BaseException) -> dict[str, Any]:
    """Return the row of a check that raised."""
    text = _first_paragraph(str(error))
    return {
        "verdict": "error",
        "about": f"{type(error).__name__}: {text}" if text else type(error).__name__,
        "problems": notes_of(error),
    }


def _first_paragraph(text: str) -> str:
    """Return the first paragraph of a message, and the line of the user's code that it names:
    torch.export's have pages of advice between them."""
    first, *rest = re.split(r"\n\s*\n", text.strip())
    places = [place for place in FRAME.findall("\n".join(rest)) if "site-packages" not in place[0]]
    line = ""
    if places:
        path, number, function, code = places[-1]
        line = f" ({os.path.basename(path)}:{number}, {function}: {code.strip()})"
    return " ".join(first.split()) + line


def _next(result: CheckResult, task: CheckTask) -> list[str]:
    """Return the command that finds the first divergence; none if the program is right here."""
    if not result.hint() or result.verdict != "differ" or all(case.ok_here for case in result):
        return []
    make = os.path.relpath(task.make, task.folder) if os.path.isabs(task.make) else task.make
    words = ["executorch-c", "explain"]
    if task.program is None:
        words += [make, "--flow", task.flow or "portable"]
    else:
        words += [os.path.relpath(task.program, task.folder), "--model", make]
    return [f"next: {shlex.join(words)}"]


def _row(result: CheckResult, task: CheckTask) -> dict[str, Any]:
    """Return verdict and figures of a check."""
    row: dict[str, Any] = {
        "verdict": result.verdict,
        "about": result.summary(),
        "problems": _problems(result, task) if not result.ok else [],
        "sqnr_db": _worst_sqnr(result),
        "power": result.power.share,
    }
    program = result.program if isinstance(result.program, Program) else result.program._program
    row["size_bytes"] = program.info()["file_size"]
    view = view_of(program, result.method)
    row["delegated"] = None if view is None else delegated_share(view)
    row["call_ms"] = _call_ms(result)
    return row


def _problems(result: CheckResult, task: CheckTask) -> list[str]:
    """Return the first sentences about a check, and the next command."""
    command = _next(result, task)
    return [*result.remarks(hint=not command)[:MAX_PROBLEMS], *command]


def _worst_sqnr(result: CheckResult) -> float | None:
    """Return the least ratio of all outputs: of quantised programs against the float model in the
    cases of given inputs (random ones leave the ranges of calibration, and hide what given ones
    lose), of others against eager in all cases."""
    given = [one for one in result if one.to_float is not None and one.kind not in MADE_KINDS]
    comparisons = [
        one.comparison if one.to_float is None else one.to_float for one in given or result
    ]
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
