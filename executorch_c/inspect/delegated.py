"""The share of a method that delegates compute."""

from __future__ import annotations

from executorch_c.inspect.structure import View


def delegated_share(view: View) -> float | None:
    """Return the share of the operators of a method that delegates compute: nodes of their payloads
    in nodes and operator calls together. None without either, and if a payload cannot be read."""
    calls, inside = 0, 0
    for step in view.steps:
        calls += step.row["kind"] == "kernel"
        if step.row["delegate"] is not None:
            nodes = _nodes(view, step.row["delegate"])
            if nodes is None:
                return None
            inside += nodes
    return inside / (inside + calls) if inside + calls else None


def _nodes(view: View, delegate: int) -> int | None:
    """Return the number of nodes of a payload; of one that is a program, of its instructions."""
    content = view.inside(delegate)
    if isinstance(content, dict):
        return len(content["nodes"])
    nested = view.nested(delegate)
    return sum(len(one.steps) for one in nested) if nested else None
