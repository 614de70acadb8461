"""Cases of a check, layer by layer: `executorch_c.devtools.explain` for calls in a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from executorch_c._modules import fresh
from executorch_c._programs import method_of, opened
from executorch_c.check import flows
from executorch_c.check.cases import leaves
from executorch_c.check.flows import Call
from executorch_c.check.reference import array
from executorch_c.debug import layers

if TYPE_CHECKING:
    from executorch_c._core import Method
    from executorch_c.check.ladder import Ladder
    from executorch_c.check.result import CheckedCase, CheckResult
    from executorch_c.debug.report import ErrorReport


def call_of_inputs(structure: Any, inputs: tuple[object, ...]) -> Call:
    """Return flat inputs as arguments of the model."""
    from torch.utils import _pytree

    from executorch_c.debug._graphs.layouts import as_tensor

    flat = [as_tensor(leaf) if isinstance(leaf, np.ndarray) else leaf for leaf in inputs]
    args, kwargs = _pytree.tree_unflatten(flat, structure)
    return args, kwargs


def _reference(model: Any, exported: Any, calls: Sequence[Call]) -> Any:
    """Return the ExportedProgram to compare with, in the state after all calls but the last."""
    import torch

    *before, last = calls
    if not before and exported is not None:
        return exported
    module = fresh(model)
    with torch.no_grad():
        for args, kwargs in before:
            module(*args, **kwargs)
    return flows.export(module, last, None)


def compared(
    method: Method, model: Any, exported: Any, calls: Sequence[Call], structure: Any, **options: Any
) -> ErrorReport:
    """Return the report of `explain` for the last of several calls; both sides go through those
    before it.

    Args:
        model: The reference, from its initial state.
        exported: Its ExportedProgram, where there is one.
        structure: How the arguments are nested (torch's TreeSpec).
    """
    method.reset()
    flat = [[array(leaf) for leaf in leaves(call)] for call in calls]
    for inputs in flat[:-1]:
        method.execute(list(inputs))
    reference = _reference(model, exported, calls)
    return layers.explain(reference, flat[-1], program=method, **{"progress": False, **options})


LOADING = ("method", "kernels", "delegate_at_load")
"""Options of `loaded`."""


def loaded(
    result: CheckResult,
    method: str | None = None,
    kernels: Literal["default", "reference"] | None = None,
    delegate_at_load: bool | None = None,
) -> Method:
    """Return the method of a check's program; by default as the check has loaded it."""
    delegates = result.delegate_at_load if delegate_at_load is None else delegate_at_load
    program = opened(result.program).program if delegates else result.program
    how: Literal["each", False] = "each" if delegates else False
    return method_of(program, method or result.method, kernels or result.kernels, how)


def explain(result: CheckResult, case: CheckedCase, options: dict[str, Any]) -> ErrorReport:
    """Return the report of CheckResult.explain."""
    method = loaded(result, **{name: options.pop(name) for name in LOADING if name in options})
    options.setdefault("title", f"{result.label}, {case.name}")
    until = case.comparison.first_call() if case.comparison is not None else 0
    calls = [call_of_inputs(result.structure, inputs) for inputs in case.inputs[: until or None]]
    return compared(method, result.reference, result.exported, calls, result.structure, **options)


def ladder(result: CheckResult, case: CheckedCase) -> Ladder:
    """Return the steps of CheckResult.ladder."""
    from executorch_c.check.ladder import compare_steps

    calls = [call_of_inputs(result.structure, inputs) for inputs in case.inputs]
    quantized = None if result.reference is result.model else result.reference
    return compare_steps(
        result.model,
        calls,
        program=opened(result.program).program,
        method=result.method,
        quantized=quantized,
        source=result.exported,
        title=f"{result.label}, {case.name}",
    )
