"""A graph as a view of a page: layers by the names of weights, clusters of quantisation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from executorch_c._render.page.data import MAX_NODES
from executorch_c._render.page.model import GraphView, Group, Node
from executorch_c._render.text import plural
from executorch_c.inspect.diagram.layers import ENDS, by_layer, layer_of
from executorch_c.inspect.diagram.modules import around

MAX_MEMBERS = 16
"""Maximum number of nodes of a cluster of quantisation."""


def view_of(name: str, nodes: Mapping[str, Node], limit: int = MAX_NODES) -> GraphView:
    """Return the view of a graph. A graph of more than `limit` nodes is folded into layers."""
    note = ""
    if len(nodes) > limit:
        note = f"{plural(len(nodes), 'node')}: the page has their layers, .csv has all nodes"
        nodes = by_layer(nodes, limit // 2)
    return GraphView(name, structured(nodes.values()), note)


def structured(nodes: Iterable[Node]) -> dict[str, Node]:
    """Return nodes by id, with their layers and clusters."""
    return {node.id: node for node in with_clusters(with_layers(nodes))}


# ---- layers -----------------------------------------------------------------------------------


def with_layers(nodes: Iterable[Node]) -> list[Node]:
    """Return nodes with their layers. A node whose layer is not known is in the layer that holds
    both the one before it and the one after it, in its delegate."""
    listed = list(nodes)
    known = [node.module or layer_of(node) or "" for node in listed]
    before: dict[tuple[str, ...], str] = {}
    after: dict[tuple[str, ...], str] = {}
    earlier, later = [""] * len(listed), [""] * len(listed)
    for found, side, order in (
        (before, earlier, range(len(listed))),
        (after, later, range(len(listed) - 1, -1, -1)),
    ):
        for i in order:
            if known[i]:
                found[listed[i].groups] = known[i]
            side[i] = found.get(listed[i].groups, "")
    return [
        node
        if node.family in ENDS
        else replace(node, module=known[i] or around([earlier[i], later[i]]))
        for i, node in enumerate(listed)
    ]


# ---- quantisation -----------------------------------------------------------------------------


def with_clusters(nodes: Iterable[Node]) -> list[Node]:
    """Return nodes with a box around each operator, its dequantised inputs, and the quantisation of
    its result."""
    known = {node.id: node for node in nodes}
    readers: dict[str, set[str]] = {}
    for node in known.values():
        for source, _ in node.inputs:
            readers.setdefault(source[0], set()).add(node.id)
    clustered: dict[str, Node] = {}
    for node in known.values():
        if node.label.startswith("quantize_"):
            members = _cluster(node, known, readers, clustered)
            layer = next((one.module for one in members if one.module), "")
            group = Group("quantized", f"{_operator(members)}, quantised", key=node.id)
            for one in members:
                clustered[one.id] = replace(one, clusters=(group,), module=layer)
    return [clustered.get(id, node) for id, node in known.items()]


def _operator(members: Sequence[Node]) -> str:
    """Return the name of a cluster's first operator."""
    names = [one.label for one in members if not one.label.startswith(("quantize_", "dequantize_"))]
    return names[0] if names else ""


def _cluster(
    end: Node,
    nodes: Mapping[str, Node],
    readers: Mapping[str, set[str]],
    clustered: Mapping[str, Node],
) -> list[Node]:
    """Return a quantisation with the operators before it that nothing else reads, back to their
    dequantised inputs, in order of execution; nothing if it ends no such operator."""
    members, waiting, has_inputs = {end.id: end}, [end], False
    while waiting and len(members) <= MAX_MEMBERS:
        node = waiting.pop()
        for (source, _), _ in node.inputs:
            before = nodes[source]
            alone = readers[source] <= members.keys() and source not in clustered
            if not alone or before.groups != end.groups or before.family in ENDS:
                continue
            if before.label.startswith("dequantize_"):
                members[source], has_inputs = before, True
            elif not before.label.startswith("quantize_"):
                members[source] = before
                waiting.append(before)
    is_operator = has_inputs and not waiting and _operator([*members.values()])
    return list(members.values())[::-1] if is_operator else []
