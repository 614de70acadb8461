"""State that calls change and that no output of a later call depends on, and why: seen in the graph
of the export."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from executorch_c.debug._graphs.names import operator_of
from executorch_c.debug._graphs.reference import source_of

if TYPE_CHECKING:
    from torch.fx import Node

    from executorch_c.check.case_source import CaseSource
    from executorch_c.check.run import Check

NUMBERLESS = {
    "copy",
    "fill",
    "zero",
    "full_like",
    "ones_like",
    "zeros_like",
    "empty_like",
    "rand_like",
    "randn_like",
    "new_zeros",
    "new_ones",
    "new_full",
    "new_empty",
    "sym_size",
}
"""Operators that read no number of their first argument."""
LIMITING = {"clamp", "clamp_min", "clamp_max", "minimum", "maximum", "hardtanh"}
"""Operators whose result may stay the same where an argument changes."""


def notes(check: Check, source: CaseSource) -> Iterator[str]:
    """Yield a note if buffers were changed, and are in no output and no named buffer."""
    unnamed = [name for name in check.changed if name not in check.oracle.watched]
    if not source.stateful or not unnamed:
        return
    names = check.oracle.unread(check.sequence, unnamed)
    if not names:
        return
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    why = ""
    with suppress(Exception):  # a model without an export has no graph to look at
        why = reason(_exported(check), names[0])
    yield (
        f"state '{names[0]}'{more}: written, and read by no output of later calls{why}: not "
        "compared; a program of ExecutorchBackendConfig(emit_mutable_buffer_names=True) "
        "has it by name"
    )


def _exported(check: Check) -> Any:
    from executorch_c.check import flows

    known = check.subject.exported
    return known if known is not None else flows.export(check.oracle.model, check.example, None)


def reason(exported: Any, name: str) -> str:
    """Return why no output of a later call depends on a buffer of an exported program: " (each call
    overwrites it before it is read)"; empty if the graph does not show it."""
    program = exported.run_decompositions({})  # a functional graph
    signature, graph = program.graph_signature, program.graph_module.graph
    [place] = [node for node in graph.nodes if signature.inputs_to_buffers.get(node.name) == name]
    if not any(map(_reads, place.users, [place] * len(place.users))):
        return " (each call overwrites it before it is read)"
    before = _before(place)
    ends = {node.name for node in before}
    if not ends.intersection(signature.user_outputs):
        others = {
            other
            for end, other in signature.buffers_to_mutate.items()
            if end in ends and other != name
        }
        return (
            f" (only state '{min(others)}' is computed from it)"
            if others
            else (" (only its own next value is computed from it)")
        )
    for node in before:
        if operator_of(node) in LIMITING:
            at = os.path.basename(source_of(node) or "")
            return f" ({operator_of(node)}{f' in {at}' if at else ''} limits it before it is read)"
    return ""


def _reads(user: Node, value: Node) -> bool:
    """Return True if a node reads numbers of a value."""
    is_first_alone = bool(user.args) and user.args[0] is value and value not in user.args[1:]
    return not (is_first_alone and operator_of(user) in NUMBERLESS)


def _before(place: Node) -> list[Node]:
    """Return the nodes that are computed from a value, in the graph's order."""
    nodes = dict.fromkeys([place])
    for node in place.graph.nodes:
        if node.op == "call_function" and any(
            one in nodes and _reads(node, one) for one in node.all_input_nodes
        ):
            nodes[node] = None
    return [*nodes][1:]
