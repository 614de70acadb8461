"""Scales of quantised outputs, from the program only.

If the last operator of an output dequantises an 8-bit tensor, the output is a multiple of a scale
in the file. Comparisons of such an output count steps.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from executorch_c.inspect.families import INNER, MOVES, short
from executorch_c.inspect.structure import View

if TYPE_CHECKING:
    from executorch_c._core import Program
    from executorch_c._types import DelegateInside, InnerValue
    from executorch_c.inspect.structure import Instruction

_SCALE = re.compile(r"^scale ([-+0-9.e]+), zero point")


def scale_of(value: InnerValue) -> float | None:
    """Return the scale of a value in a delegate that is of 8-bit quantised numbers, or None."""
    text = _SCALE.match(value["note"] or "")
    is_integer = (value["dtype"] or "").startswith(("qint8", "quint8"))
    return float(text.group(1)) if text and is_integer else None


def scales_of_outputs(program: Program, method: str) -> list[float | None]:
    """Return the scale of each output of a method, or None."""
    view = View(program, method)
    return [_scale_of(view, slot) for slot in view.structure["outputs"]]


def _scale_of(view: View, slot: int) -> float | None:
    """Return the scale of a value: the scale of the instruction that writes it last."""
    seen = set()
    while slot not in seen:
        seen.add(slot)
        writers = [step for step in view.steps if slot in step.writes]
        if not writers and slot in view.bases:
            slot = view.bases[slot]
            continue
        if len(writers) != 1:
            return None
        step = writers[0]
        if step.row["kind"] == "delegate":
            return _delegate_scale(view, step, slot)
        name = short(step.row["name"] or "")
        arguments = {argument: index for index, argument, _ in step.row["args"] if argument}
        if name == "dequantize_per_tensor" and "scale" in arguments:
            value = view.values[arguments["scale"]].get("value")
            return float(value) if isinstance(value, (int, float)) else None
        if name not in MOVES or not step.reads:
            return None
        slot = step.reads[0]
    return None


def _delegate_scale(view: View, step: Instruction, slot: int) -> float | None:
    delegate = step.row["delegate"]
    inside = None if delegate is None else view.inside(delegate)
    if inside is None or isinstance(inside, str):
        return None
    position = next(i for i, (index, _, _) in enumerate(step.row["args"]) if index == slot)
    ids = [value["id"] for value in inside["values"] if value["argument"] == position]
    return _inner_scale(inside, ids[0]) if len(ids) == 1 else None


def _inner_scale(inside: DelegateInside, value: int) -> float | None:
    values = {row["id"]: row for row in inside["values"]}
    for _ in inside["nodes"]:
        writers = [node for node in inside["nodes"] if value in node["outputs"]]
        if len(writers) != 1 or not writers[0]["inputs"]:
            return None
        source = writers[0]["inputs"][0]
        if writers[0]["name"] == "Convert":
            return scale_of(values[source])
        if INNER.get(writers[0]["name"] or "") not in ("view", "copy"):
            return None
        value = source
    return None
