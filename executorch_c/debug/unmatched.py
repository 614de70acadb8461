"""Rows of `explain` where only the program, or only the model, has an operator."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from executorch_c._arrays import as_array
from executorch_c.compare import tolerance
from executorch_c.compare.metrics import measure_size
from executorch_c.debug._graphs.names import before_moves, operator_of
from executorch_c.debug._graphs.reference import module_of
from executorch_c.debug.report import NodeError

if TYPE_CHECKING:
    from executorch_c.compare.nodes import NodeTolerances
    from executorch_c.debug._matching.parting import Parting


def parted(error: NodeError, parting: Parting) -> NodeError:
    """Return the row of a value that the program has where it lacks an operator of the model."""
    names = tuple(dict.fromkeys(name for node in parting.missing if (name := operator_of(node))))
    steps = tuple(dict.fromkeys(step.name for step in parting.instead))
    layers = tuple(dict.fromkeys(layer for node in parting.missing if (layer := module_of(node))))
    if parting.limits is not None:
        steps = (f"a limit {_range(*parting.limits)}",)
    if not names:  # an activation too many, inside the layer's node
        before = error.module or ""
        return replace(error, instead=steps, module=None, modules=(), parameters=(), before=before)
    return replace(error, missing=names, instead=steps, modules=layers, parameters=())


def _range(low: float | None, high: float | None) -> str:
    """Return "at 0", "at 0 and 6" or "at 6 from above"."""
    sides = [
        f"{side:.4g} from {name}"
        for side, name in ((low, "below"), (high, "above"))
        if side is not None
    ]
    return "at " + " and at ".join(sides)


def added(parting: Parting, rerun: Any, eager: Any, limits: NodeTolerances | None) -> NodeError:
    """Return the row of an operator that only the program has.

    Args:
        rerun: The program's value before the operator, which the model reads.
        eager: Eager's.
    """
    actual, before, first = as_array(parting.value), as_array(rerun), as_array(eager)
    step = parting.instead[-1]
    if limits is None:
        local, accumulated = measure_size(actual, before), measure_size(actual, first)
    else:
        local = limits.error(actual, before, [tolerance.rounding(actual, before)])
        accumulated = limits.error(actual, first, [tolerance.rounding(actual, first)])
    is_wrong = bool(local.mismatched and accumulated.mismatched)
    return NodeError(
        0,
        step.where,
        step.name,
        before.shape,
        actual.dtype.name,
        accumulated,
        local,
        "source" if is_wrong else "ok",
        instead=tuple(dict.fromkeys(step.name for step in parting.instead)),
        before=module_of(before_moves(parting.node)) or "",
    )
