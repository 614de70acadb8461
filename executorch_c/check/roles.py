"""What a model does with its inputs: indices of embeddings and their ranges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from executorch_c.check.shapes import placeholders
from executorch_c.debug._graphs.names import operator_of
from executorch_c.inspect.families import MOVES

PASSED_THROUGH = MOVES | {"view", "reshape", "_to_copy", "to", "contiguous", "unsqueeze", "squeeze",
                          "flatten", "permute", "transpose", "expand", "slice", "select", "alias",
                          "detach"}  # fmt: skip
"""Operators that return their input's values, in another shape or dtype."""


def _rows(node: Any) -> Iterator[int | None]:
    """Yield the number of rows for each use of an input as indices of an embedding; None for any
    other use."""
    for user in node.users:
        name = operator_of(user) or ""
        if name in PASSED_THROUGH and user.args and user.args[0] is node:
            yield from _rows(user)
        elif name == "embedding" and user.args[1] is node:
            yield int(user.args[0].meta["val"].shape[0])
        elif user.op == "call_function" and not name.startswith(("sym_size", "_assert")):
            yield None


def index_bounds(exported: Any, count: int) -> list[tuple[int, int] | None]:
    """Return by input the range of indices, if its only use is the lookup of embeddings."""
    bounds: list[tuple[int, int] | None] = [None] * count
    if exported is None:
        return bounds
    for i, node in enumerate(placeholders(exported)[:count]):
        rows = list(_rows(node)) if node is not None else []
        known = [row for row in rows if row is not None]
        if known and len(known) == len(rows):
            bounds[i] = (0, min(known) - 1)
    return bounds
