"""One case of a check in each engine: the runner of check_model and of check_llm."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from executorch_c._stages import stage, stage_of

Outputs = TypeVar("Outputs")
Row = TypeVar("Row")


def run_case(
    begin: Callable[[], object],
    run: Callable[[], Outputs],
    judge: Callable[[Outputs], Row],
    fail: Callable[[Exception], Row],
) -> Row:
    """Return the row of a case.

    Args:
        begin: Begins the case in the official runtime, which computes while this one does.
        run: Returns the outputs of this runtime.
        judge: Returns the row of outputs, with the official runtime's.
        fail: Returns the row of an exception of the program, with the official runtime's.

    Raises the exceptions of the other stages: of the reference, and of comparisons.
    """
    begin()
    try:
        with stage("run"):
            outputs = run()
        return judge(outputs)
    except Exception as error:
        if stage_of(error) != "run":
            raise
        return fail(error)
