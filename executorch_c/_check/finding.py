"""CheckResult.explain: a case of a check, as `executorch_c.devtools.explain` takes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from executorch_c._check import flows
from executorch_c._check.flows import Call
from executorch_c._programs import method_of

if TYPE_CHECKING:
    from executorch_c._check.result import CheckedCase, CheckResult
    from executorch_c.devtools._report import GapReport


def _call(result: CheckResult, inputs: tuple[object, ...]) -> Call:
    """Flat inputs as arguments of the model."""
    from executorch_c.devtools._match import as_tensor
    from torch.utils import _pytree

    leaves = [as_tensor(leaf) if isinstance(leaf, np.ndarray) else leaf for leaf in inputs]
    args, kwargs = _pytree.tree_unflatten(leaves, result.structure)
    return args, kwargs


def _reference(result: CheckResult, case: CheckedCase) -> Any:
    """The ExportedProgram to compare with, with the state that calls before the last one leave."""
    import torch

    *before, last = (_call(result, inputs) for inputs in case.inputs)
    if not before and result.exported is not None:
        return result.exported
    module = flows.fresh(result.reference)
    with torch.no_grad():
        for args, kwargs in before:
            module(*args, **kwargs)
    return flows.export(module, last, None)


def explain(result: CheckResult, case: CheckedCase, options: dict[str, Any]) -> GapReport:
    """The body of CheckResult.explain, which says what all this is."""
    from executorch_c import devtools

    kernels = options.pop("kernels", result.kernels)
    method = method_of(result.program, options.pop("method", result.method), kernels)
    method.reset()
    for inputs in case.inputs[:-1]:
        method.execute(list(inputs))
    options.setdefault("title", f"{result.label}, {case.name}")
    reference = _reference(result, case)
    return devtools.explain(method, reference, list(case.inputs[-1]), **options)
