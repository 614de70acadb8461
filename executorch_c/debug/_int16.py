"""The arithmetic of int16 in a delegate, where it is coarser than the rounding of its results.

TOSA's RESCALE multiplies sums of int48 by factors of 15 bits, where those of int8 have 31, and its
TABLE has 513 entries, integers of the results, one for each 128 of the operand's, and interpolates.
Results are some steps off those of the quantised graph, in Arm's reference model, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from executorch_c.debug._graphs.evaluator import call
from executorch_c.debug._graphs.names import dequantizes, grid_of, operator_of, quantizes

if TYPE_CHECKING:
    from torch.fx import Node

TABLE_STRIDE = 128
"""Integers between two entries of a table."""

TABLES = {
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "elu",
    "erf",
    "erfinv",
    "exp",
    "expm1",
    "floor",
    "gelu",
    "hardsigmoid",
    "hardswish",
    "leaky_relu",
    "log",
    "log10",
    "log1p",
    "pow",
    "reciprocal",
    "remainder",
    "round",
    "rsqrt",
    "sigmoid",
    "silu",
    "sin",
    "sinh",
    "tan",
    "tanh",
}
"""Functions that become a TABLE."""


def is_int16(node: Node | None) -> bool:
    """Return True if a (de)quantising node has more integers than int8."""
    grid = None if node is None else grid_of(node)
    return grid is not None and grid[3] - grid[2] > 255


def _step_of(node: Node) -> float:
    """Return the scale of a function's results, in which its table has integers; 0: unknown."""
    grids = [grid_of(user) for user in node.users if quantizes(user)]
    return grids[0][0] if len(grids) == 1 and grids[0] is not None else 0.0


def by_table(node: Node, argument: Callable[[Node], Any]) -> Any:
    """Return the result of a node; of a function of int16, as a table with interpolation."""
    import torch

    result = call(node, argument)
    before = node.all_input_nodes[0] if len(node.all_input_nodes) == 1 else None
    if operator_of(node) not in TABLES or before is None or not dequantizes(before):
        return result
    grid = grid_of(before)
    if grid is None or not is_int16(before):
        return result
    scale, zero, *_ = grid
    integers = argument(before) / scale + zero
    entry, step = torch.floor(integers / TABLE_STRIDE), _step_of(node)

    def value(at: Any) -> Any:
        x = ((at * TABLE_STRIDE - zero) * scale).to(result.dtype)
        exact = call(node, lambda n: x if n is before else argument(n))
        return torch.round(exact / step) * step if step else exact

    left, right = value(entry), value(entry + 1)
    between = left + (right - left) * (integers / TABLE_STRIDE - entry)
    return torch.where(between.isfinite(), between, result)
