"""Answers of the engine's process, which a hostile model may have written: checked, field by field.

Functions raise ValueError for a malformed answer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from executorch_c._coreai.messages import shown

Reply = dict[str, Any]


def _list(value: object, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{what} is {shown(value)}, expected a list")
    return value


def _text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{what} is {shown(value)}, expected a text")
    return "".join(c if c.isprintable() else "?" for c in value)


def _numbers(value: object, what: str, low: int, high: int) -> list[int]:
    items = _list(value, what)
    if not all(type(item) is int and low <= item <= high for item in items):
        raise ValueError(f"{what} is {shown(value)}, expected numbers from {low} to {high}")
    return items


def error(reply: Reply) -> str | None:
    """Return the message of an exception of the engine; None: there was none."""
    return _text(reply["error"], "'error'") if "error" in reply else None


def functions(reply: Reply, _: list[np.ndarray]) -> list[Reply]:
    """Return the functions of a model: names, states, and names, dtypes and sizes of inputs."""
    return [_function(item) for item in _list(reply.get("functions"), "'functions'")]


def _function(item: object) -> Reply:
    if not isinstance(item, dict):
        raise ValueError(f"a function is {shown(item)}, expected an object")
    states = _list(item.get("states"), "'states'")
    return {
        "name": _text(item.get("name"), "'name'"),
        "inputs": [_input(row) for row in _list(item.get("inputs"), "'inputs'")],
        "states": [_text(state, "a state") for state in states],
    }


def _input(row: object) -> list[Any]:
    fields = _list(row, "an input")
    if len(fields) != 3:
        raise ValueError(f"an input is {shown(row)}, expected a name, a dtype and sizes")
    name, dtype, sizes = fields
    limit = (1 << 63) - 1
    return [
        *(_text(name, "an input's name"), _text(dtype, "an input's dtype")),
        _numbers(sizes, "an input's shape", -limit, limit),
    ]


def values(
    reply: Reply, arrays: list[np.ndarray]
) -> tuple[list[tuple[str, bool]], list[np.ndarray]]:
    """Return the names of nodes, with whether they have values, and these before the outputs."""
    nodes = []
    for row in _list(reply.get("nodes", []), "'nodes'"):
        fields = _list(row, "a node")
        if len(fields) != 2 or not isinstance(fields[1], bool):
            raise ValueError(f"a node is {shown(row)}, expected a name and a bool")
        nodes.append((_text(fields[0], "a node's name"), fields[1]))
    count = sum(has_value for _, has_value in nodes)
    if count > len(arrays):
        raise ValueError(f"{count} nodes have values, but there are {len(arrays)} arrays")
    return nodes, arrays


def graph(reply: Reply, _: list[np.ndarray]) -> Reply:
    """Return the nodes (names, numbers of values that they read, dtypes) and outputs of a graph;
    None: an output that is a constant."""
    rows, limit = _list(reply.get("nodes"), "'nodes'"), 1 << 31
    nodes = []
    for row in rows:
        fields = _list(row, "a node")
        if len(fields) != 3:
            raise ValueError(f"a node is {shown(row)}, expected a name, values and a dtype")
        name, reads, dtype = fields
        reads = _numbers(reads, "a node's values", 0, limit)
        nodes.append((_text(name, "a node's name"), reads, _text(dtype, "a node's dtype")))
    outputs = _list(reply.get("outputs"), "'outputs'")
    _numbers([number for number in outputs if number is not None], "'outputs'", 0, limit)
    return {"nodes": nodes, "outputs": outputs}
