"""Rules for outputs of quantised programs, with the scales of the program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from executorch_c._arrays import Array
from executorch_c.compare import tolerance
from executorch_c.compare.arrays import Rule
from executorch_c.compare.tolerance import Tolerance
from executorch_c.inspect.scales import scales_of_outputs

if TYPE_CHECKING:
    from executorch_c._core import Program


def with_scales(rule: Rule, program: Program, method: str, min_sqnr_db: float | None) -> Rule:
    """Return a rule that compares outputs with a scale in steps, and other outputs by `rule`."""
    scales = scales_of_outputs(program, method)

    def found(index: int, actual: Array, expected: Array) -> Tolerance:
        scale = scales[index] if index < len(scales) else None
        if scale is None or expected.dtype.kind not in "fV":
            return rule(index, actual, expected)
        return tolerance.on_grid(expected, scale, min_sqnr_db)

    return found
