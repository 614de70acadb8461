"""Windows of a program: some of its nodes, between values that become its inputs and its output."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from executorch_c._core import NotSupportedError
from executorch_c.inspect.where import Where
from executorch_c.rewrite import xnnpack
from executorch_c.rewrite.method import QUANTIZED, Rewriter
from executorch_c.rewrite.outputs import CannotBeOutput, Outputs
from executorch_c.rewrite.points import Computed, is_run

if TYPE_CHECKING:
    from executorch_c._core import Program
    from executorch_c.inspect.structure import Instruction

Given: TypeAlias = "Computed | int"
"""A value that the program computes, or the number of one of its inputs."""


@dataclass(frozen=True)
class Window:
    """Nodes of one delegate, or instructions of one chain."""

    nodes: Collection[str]
    """Ids, as those of `Computed`."""
    inputs: Sequence[Given]
    output: Computed


def of_program(program: Program, data: bytes, window: Window, method: str) -> bytes:
    """Return a program of the nodes of a window: a .pte of which the method is the only one.

    Args:
        program: The program of `data`, the bytes of a .pte.

    Raises NotSupportedError if the nodes cannot be a program, ImportError without the package
    flatbuffers.
    """
    rewriter = Rewriter(program, data, method, is_cut=True)
    step = rewriter.view.steps[window.output.point.at]
    try:
        if window.output.point.is_inside:
            _delegate(rewriter, window, step)
        else:
            _instructions(rewriter, window)
    except CannotBeOutput as refusal:
        raise NotSupportedError(str(refusal)) from None
    return rewriter.tables.write()


def _places(window: Window) -> list[Where]:
    """Return the places of the nodes."""
    places = [Where.parse(one) for one in window.nodes]
    known = [place for place in places if place is not None and not place.times]
    if len(known) < len(places):
        raise CannotBeOutput("its nodes are in loops")
    return known


def _instructions(rewriter: Rewriter, window: Window) -> None:
    wanted = {replace(place, result=0) for place in _places(window)}
    known = {Where(step.number, chain=step.chain): step.at for step in rewriter.view.steps}
    if not wanted <= known.keys() or len({place.chain for place in wanted}) > 1:
        raise CannotBeOutput("its nodes are in several delegates or chains")
    slots = [_slot(rewriter, one) for one in window.inputs]
    for slot in slots:
        rewriter.places.keep(slot)
    rewriter.plan["inputs"] = slots
    rewriter.add(window.output.point.value)
    rewriter.keep({known[place] for place in wanted})


def _delegate(rewriter: Rewriter, window: Window, step: Instruction) -> None:
    number, _, inside, writer = rewriter.opened(step)
    run = [i for i, row in enumerate(inside["nodes"]) if is_run(row)]
    numbers = {place.node for place in _places(window) if place.delegate == number}
    if any(place.delegate != number for place in _places(window)):
        raise CannotBeOutput("its nodes are in several delegates")
    nodes = frozenset(run[node] for node in numbers if node is not None)
    call = rewriter.call_of(step)
    places = {v["id"]: v["argument"] for v in inside["values"] if v["argument"] is not None}
    values = [_inside(rewriter, one, step, places, call["args"]) for one in window.inputs]
    output = window.output.point
    slots = []
    for one, value in zip(window.inputs, values):
        if isinstance(one, Computed) and value not in places:
            slots.append(rewriter.tensor(one.point, inside))
        else:
            slots.append(call["args"][places[value]])
    is_argument = output.value in places
    end = call["args"][places[output.value]] if is_argument else rewriter.tensor(output, inside)
    outputs = Outputs(inside, [output.value], nodes, values)
    payload = rewriter.payload(writer, number, outputs)
    rewriter.tables.set_payload(number, payload)
    call["args"] = [*slots, end]
    rewriter.plan["inputs"] = slots
    rewriter.add(end)
    rewriter.keep({step.at})


def _inside(
    rewriter: Rewriter,
    given: Given,
    step: Instruction,
    places: dict[int, int],
    arguments: Sequence[int],
) -> int:
    """Return the number of a value in the delegate that an instruction calls."""
    if isinstance(given, Computed) and given.point.is_inside and given.point.at == step.at:
        return given.point.value
    slot = _slot(rewriter, given)
    found = [value for value, at in places.items() if arguments[at] == slot]
    if not found:
        raise CannotBeOutput("a value that it reads is no argument of its delegate")
    return found[0]


def _slot(rewriter: Rewriter, given: Given) -> int:
    """Return the number of a value in the method."""
    if isinstance(given, int):
        return rewriter.view.structure["inputs"][given]
    if not given.point.is_inside:
        return given.point.value
    step = rewriter.view.steps[given.point.at]
    _, _, inside, _ = rewriter.opened(step)
    found = [v["argument"] for v in inside["values"] if v["id"] == given.point.value]
    if not found or found[0] is None:
        raise CannotBeOutput("a value that it reads is inside another delegate")
    return int(rewriter.call_of(step)["args"][found[0]])


def scales(program: Program, data: bytes, computed: Computed, method: str) -> tuple[float, int]:
    """Return scale and zero point of a value whose trace has what its integers stand for; (1.0, 0)
    of other values."""
    rewriter = Rewriter(program, data, method, is_cut=True)
    number, backend, _, _ = rewriter.opened(rewriter.view.steps[computed.point.at])
    if backend not in QUANTIZED:
        return 1.0, 0
    found = xnnpack.steps(rewriter.tables.payload(number), [computed.point.value])
    return found.get(computed.point.value, (1.0, 0))
