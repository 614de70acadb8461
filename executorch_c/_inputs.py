"""Inputs by name: C calls this module for `method.execute({"x": x})`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from executorch_c._core import TensorInfo

if TYPE_CHECKING:
    from executorch_c._core import Method


def names(method: Method) -> list[str]:
    """Return the names of a method's inputs; "input_0" for an input without a name."""
    results = []
    for index, (_, info) in enumerate(method.metadata.inputs):
        name = info.name if isinstance(info, TensorInfo) else None
        results.append(name or f"input_{index}")
    return results


def by_name(what: tuple[Method, Mapping[str, object]]) -> list[object]:
    """Return inputs in the program's order. Omitted numbers and strings have their traced values.

    Raises TypeError for an unknown name and for a missing tensor.
    """
    method, values = what
    known = names(method)
    listed = ", ".join(map(repr, known)) or "none"
    where = f"method '{method.metadata.name()}'"
    for name in values:
        if name not in known:
            raise TypeError(f"{where} has no input {name!r}; its inputs: {listed}")
    inputs: list[object] = []
    for name, (_, info) in zip(known, method.metadata.inputs):
        if name not in values and isinstance(info, TensorInfo):
            raise TypeError(f"{where}: input {name!r} is missing; its inputs: {listed}")
        inputs.append(values.get(name, info))
    return inputs
