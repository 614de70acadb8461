"""Programs that fail in the middle: `explain` shows the nodes before it, and both shapes there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from executorch_c._render import text as _text
from executorch_c.compare.metrics import incomparable
from executorch_c.debug._graphs.names import kind, kind_of, shape_of
from executorch_c.debug._graphs.reference import module_of, source_of
from executorch_c.debug.report import NodeError

if TYPE_CHECKING:
    from executorch_c._core import Error
    from executorch_c.debug._graphs.reference import ReferenceGraph
    from executorch_c.debug._matching.matches import Matches
    from executorch_c.inspect.structure import View
    from executorch_c.trace import Event, Trace
    from torch.fx import Node

NODE = re.compile(r"node (\d+) \((\w+)")
"""The node of a delegate in the message of an error."""

PLACE = re.compile(r"^method '[^']*'(, instruction \d+)?: ")
"""The place that a message begins with."""


def failed_event(trace: Trace) -> Event | None:
    """Return the instruction at which a call failed; None if it failed before the first one."""
    failed = [event for event in trace.events if event.failed and event.instruction is not None]
    return failed[-1] if failed else None


def failed_row(
    failure: Error, trace: Trace, view: View, graph: ReferenceGraph, matches: Matches
) -> NodeError:
    """Return the row of the instruction, or node of a delegate, at which a call failed."""
    event = failed_event(trace)
    assert event is not None
    name, where = event.name, f"instruction {event.instruction}"
    shapes = [value.shape for value in event.inputs]
    inside = view.inside(event.delegate) if event.delegate is not None else None
    match = NODE.search(str(failure))
    if match is not None and inside is not None and not isinstance(inside, str):
        number, name = int(match[1]), match[2]
        where = f"delegate {event.delegate}, node {number}"
        values = {value["id"]: value for value in inside["values"]}
        row = inside["nodes"][number] if number < len(inside["nodes"]) else None
        inputs = [values[i] for i in row["inputs"] if i in values] if row is not None else []
        shapes = [tuple(value["shape"] or ()) for value in inputs if not value["constant"]]
    node = _node(graph, matches, name)
    return NodeError(
        0,
        where,
        name,
        shapes[0] if shapes else (),
        "",
        incomparable(0),
        None,
        "source",
        None if node is None else module_of(node),
        None if node is None else source_of(node),
        problem=_problem(failure, shapes, graph, node),
    )


def _problem(
    failure: Error, shapes: Sequence[tuple[int, ...]], graph: ReferenceGraph, node: Node | None
) -> str:
    """Return the message of a failure, with the shapes of the inputs on both sides."""
    text = f"the program fails here: {PLACE.sub('', str(failure))}"
    if shapes:
        text += f"; its inputs are {', '.join(map(_text.shape, shapes))}"
    if node is not None:
        inputs = [n for n in node.all_input_nodes if n not in graph.parameters]
        theirs = [shape for n in inputs if (shape := shape_of(n)) is not None]
        text += f", the model's {', '.join(map(_text.shape, theirs))}" if theirs else ""
    return text


def _node(graph: ReferenceGraph, matches: Matches, name: str) -> Node | None:
    """Return the first node of an operator's kind that is not matched."""
    known = {node for match in matches.pairs for node in (*match.path, *match.nodes)}
    wanted = {kind(name), "bmm"} if kind(name) == "linear" else {kind(name)}
    return next((n for n in graph.nodes if n not in known and kind_of(n) in wanted), None)
