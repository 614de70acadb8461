"""Values of a quantised program, matched with the graph of its float model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from executorch_c.compare.limits import MIN_SQNR_DB
from executorch_c.compare.nodes import NodeTolerances
from executorch_c.compare.quantized import least_sqnr_db
from executorch_c.debug._graphs import names
from executorch_c.debug._matching.order import Sequences
from executorch_c.inspect.quantized import Quantization, quantization_of

if TYPE_CHECKING:
    from torch.fx import Node

    from executorch_c.debug._graphs.reference import ReferenceGraph
    from executorch_c.debug._graphs.run import Run
    from executorch_c.debug._matching.matches import Matches
    from executorch_c.trace import Event


def quantization_against_float(run: Run) -> Quantization | None:
    """Return how a program is quantised, if its reference is not; None for any other."""
    if any(map(names.is_quantizer, run.graph.nodes)):
        return None
    return quantization_of(run.view.program, [run.method])


def limits_of(quantization: Quantization, limits: NodeTolerances) -> NodeTolerances:
    """Return the limits of a quantised program against its float model: the caller's, if any."""
    if limits.cover_all:
        return limits
    return replace(limits, min_sqnr_db=least_sqnr_db(quantization, None))


def about(quantization: Quantization) -> str:
    """Return a note on these limits."""
    return (
        f"the program is quantised ({quantization}), the model is float: layers with an SQNR of at "
        f"least {MIN_SQNR_DB:g} dB on their own inputs, and without channels that "
        "err far more than the others, are right as far as that can tell; quantization_error "
        "ranks their errors, the quantised module as the reference finds smaller "
        "faults"
    )


def matches_of(run: Run) -> Matches:
    """Return the matches of a program's dequantised values, by operator and in order."""
    steps = run.steps(list(dequantised(run.trace.events)))
    matches = Sequences(run.graph.nodes).match(steps.steps)
    constants = constants_of(run.graph)
    matches.pairs = [match for match in matches.pairs if match.nodes[-1] not in constants]
    return matches


def dequantised(events: Sequence[Event]) -> Iterator[Event]:
    """Yield events; a result that is only quantised has its value after that, as in delegates.

    So the rounding and clamping of an activation count for the layer that computes it.
    """
    readers = _readers(events)

    def reader(i: int, begin: str) -> int | None:
        """Return the first event that reads a result, if the names of all begin so."""
        places = readers.get(i, [])
        fits = all(names.base(events[r].name).startswith(begin) for r in places)
        return places[0] if places and fits else None

    for i, event in enumerate(events):
        quantised = reader(i, "quantize_") if event.kind == "kernel" else None
        after = None if quantised is None else reader(quantised, "dequantize_")
        yield event if after is None else _with_result_of(event, events[after])


def _readers(events: Sequence[Event]) -> dict[int, list[int]]:
    """Return the numbers of the events that read a result, by the number of its event."""
    writers: dict[int | None, int] = {}
    readers: dict[int, list[int]] = {}
    for i, event in enumerate(events):
        for value in event.inputs:
            if value.slot is not None and value.slot in writers:
                readers.setdefault(writers[value.slot], []).append(i)
        for value in event.outputs:
            if value.slot is not None:
                writers[value.slot] = i
    return readers


def _with_result_of(event: Event, other: Event) -> Event:
    """Return an event with the result of another one, if both have one of a shape and dtype."""
    if len(event.outputs) != 1 or len(other.outputs) != 1:
        return event
    [mine], [theirs] = event.outputs, other.outputs
    if (mine.shape, mine.dtype) != (theirs.shape, theirs.dtype):
        return event
    kept = tuple(value for value in event.values if value is not mine)
    return replace(event, values=(*kept, replace(mine, data=theirs.data)))


def constants_of(graph: ReferenceGraph) -> set[Node]:
    """Return the nodes that depend on no input or state: weights, and values computed from them."""
    from torch.export.graph_signature import InputKind

    signature = graph.program.graph_signature
    places = [node for node in graph.nodes if node.op == "placeholder"]
    changed = set(signature.buffers_to_mutate.values())
    constants: set[Node] = {
        node
        for node, spec in zip(places, signature.input_specs)
        if spec.kind != InputKind.USER_INPUT and spec.target not in changed
    }
    for node in graph.nodes:
        before = node.all_input_nodes
        if node.op == "get_attr" or (
            node.op == "call_function" and before and constants.issuperset(before)
        ):
            constants.add(node)
    return constants
