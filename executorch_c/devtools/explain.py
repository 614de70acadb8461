"""Where a program starts to differ from its PyTorch model, and which operator is to blame.

    from executorch_c.devtools import explain

    report = explain("model.pte", model, [x])
    print(report)         # a sentence, and a table of the operators around it
    report.first.module   # "features.3": the layer that is wrong itself
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from executorch_c.devtools import _beside
from executorch_c.devtools._beside import MAX_BYTES
from executorch_c.devtools._pair import pair
from executorch_c.devtools._report import GapReport
from executorch_c.devtools._walk import Limits, Walk

if TYPE_CHECKING:
    from executorch_c._core import Method, Program
    from executorch_c._types import Data

def explain(
    program: Program | Method | Data | object,
    model: object,
    inputs: Sequence[object],
    *,
    method: str = "forward",
    rtol: float | None = None,
    atol: float | None = None,
    kernels: Literal["default", "reference"] = "default",
    max_bytes: int = MAX_BYTES,
    title: str | None = None,
) -> GapReport:
    """Runs a program and its PyTorch model side by side, and says which operator differs first.

    Every value that the program computes, inside of delegates too, is compared twice: with eager's
    value (`total`), and with what eager computes from the values that the *program* had before
    (`own`). An operator is "wrong" where its own gap is out of tolerance; where only the total is,
    behind a wrong operator, it has "carried" the error. That says the same as running the program's
    operator on eager's inputs, and works inside of delegates, too.

    Args:
        program: A path, bytes or file of a .pte, a Program, a loaded Method (whose state is used
            and changed), or an ExecutorchProgramManager.
        model: The nn.Module in eval mode; what torch.export.export returned; an EdgeProgramManager
            that no backend has taken parts of; an ETRecord or its path; an
            ExecutorchProgramManager that has one. For a quantised program this is the converted
            module (for a comparison with the float model see `error_budget`).
        inputs: The positional arguments of the model: tensors or arrays, as the program takes them
            (a reference of another float dtype gets them cast).
        method: Which one to run. A module's `forward` stands for any.
        rtol, atol: An element is off by more than atol + rtol * |expected|. Default: by dtype, by
            the magnitude of the tensor, and by the rounding error that eager itself makes (_walk.py
            has the rule): another order of accumulation stays within it, another formula does not.
        kernels: As for `Program.load_method`.
        title: What to call the program in the report; default: its file's name.
        max_bytes: Of the program's values that are kept; a report says when more were needed.

    Returns a `GapReport`; its notes say how many instructions were matched. Raises ImportError
    without torch and executorch, TypeError and ValueError for a reference that cannot be used.
    """
    limits = Limits(rtol, atol)
    run = _beside.run(program, model, inputs, method, kernels, max_bytes)
    graph = run.graph
    arguments = graph.arguments(run.inputs)
    matches = pair(run.steps(), graph, arguments, run.outputs)
    rows = Walk(graph, matches, limits).run(arguments, run.outputs)
    head = f"{title or run.title}, method '{run.method}', beside PyTorch"
    notes = (matches.summary(), *matches.notes, *graph.notes, *run.dropped())
    return GapReport(head, tuple(rows), notes)
