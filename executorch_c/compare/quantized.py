"""Rules for outputs of quantised programs, with the scales of the program: the same in `validate`
and, with a float model, in `check_model`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from executorch_c._arrays import Array
from executorch_c.compare import tolerance
from executorch_c.compare.arrays import Rule, default_rule
from executorch_c.compare.tolerance import PerOutput, Tolerance
from executorch_c.inspect.quantized import Quantization, quantization_of
from executorch_c.inspect.scales import scales_of_outputs

if TYPE_CHECKING:
    from executorch_c._core import Program


def least_sqnr_db(quantization: Quantization, min_sqnr_db: float | None) -> float:
    """Return the minimum of a program's SQNR against its float model: the caller's, or the default
    for the way in which it is quantised."""
    default = tolerance.least_sqnr_db(quantization.scheme == "static", quantization.bits)
    return default if min_sqnr_db is None else min_sqnr_db


def quantized_rule(
    program: Program, method: str, quantization: Quantization, min_sqnr_db: float | None
) -> Rule:
    """Return the rule of a quantised program's outputs against expected ones without a graph: in
    steps, if both are multiples of the output's scale, by SQNR otherwise."""
    scales = scales_of_outputs(program, method)
    minimum = least_sqnr_db(quantization, min_sqnr_db)

    def rule(index: int, actual: Array, expected: Array) -> Tolerance:
        scale = scales[index] if index < len(scales) else None
        if scale is None or expected.dtype.kind not in "fV":
            return tolerance.against_float(actual, expected, minimum)
        return tolerance.on_grid(expected, scale, minimum)

    return rule


def rule_by_program(
    program: Program, method: str, rtol: PerOutput, atol: PerOutput, min_sqnr_db: float | None
) -> Rule:
    """Return the rule of a method's outputs against expected ones: the caller's tolerances, or
    `quantized_rule` for a quantised method, or the default. Raises ValueError for a minimum SQNR
    that would have no effect, and for a negative tolerance."""
    if rtol is not None or atol is not None:
        check_has_effect(min_sqnr_db, "rtol and atol decide")
        return default_rule(rtol, atol)
    quantization = quantization_of(program, [method])
    if quantization is None:
        check_has_effect(min_sqnr_db, "the program has no quantised values or operators")
        return default_rule(None, None)
    return quantized_rule(program, method, quantization, min_sqnr_db)


def check_has_effect(min_sqnr_db: float | None, reason: str) -> None:
    """Raise ValueError for a minimum SQNR that is set though, for a reason, nothing reads it."""
    if min_sqnr_db is not None:
        raise ValueError(f"`min_sqnr_db` has no effect: {reason}")
