"""Layers of large graphs for drawing: the nodes of one layer become one node.

Programs rarely have layer names. If its weights have names, a node belongs to the layer of
the last weight read before it; otherwise a layer is a run of nodes in order of execution. Nodes of
delegates and of the method are never in one layer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from executorch_c._render.page.model import Node

MAX_DRAWN_NODES = 300
"""Maximum number of nodes of a graph drawn node by node: `dot` needs minutes for more."""
LAYERS = 120
"""Approximate number of nodes of a graph of layers."""
ENDS = ("input", "output", "state")
"""Families of nodes that are in no layer."""
MAX_LABEL_OPERATORS = 3
"""Maximum number of operators in the label of a layer."""


def layer_of(node: Node) -> str | None:
    """Return the layer of a node, from the name of a weight: "body.0" of "float32 (8, 3)
    body.0.weight"."""
    for text in node.attributes.values():
        name = text.rpartition(") ")[2]
        if ") " in text and "." in name:
            return name.rpartition(".")[0]
    return None


def _runs(nodes: Mapping[str, Node], count: int) -> Iterator[tuple[str, list[Node]]]:
    """Yield layers with their nodes, in order."""
    inner = [node for node in nodes.values() if node.family not in ENDS]
    size = max(-(-len(inner) // count), 2)
    run: list[Node] = []
    layer: str | None = None
    for node in inner:
        path = layer_of(node)
        is_other = path is not None and layer is not None and path != layer
        is_full = path is None and layer is None and len(run) >= size
        if run and (run[-1].groups != node.groups or is_other or is_full):
            yield layer or "", run
            run, layer = [], None
        layer = layer or path
        run.append(node)
    if run:
        yield layer or "", run


def _label(layer: str, run: list[Node]) -> str:
    kinds = Counter(node.label for node in run).most_common()
    counts = [
        f"{kind} \u00d7{count}" if count > 1 else kind
        for kind, count in kinds[:MAX_LABEL_OPERATORS]
    ]
    more = f", {len(kinds) - MAX_LABEL_OPERATORS} more" if len(kinds) > MAX_LABEL_OPERATORS else ""
    title = layer or (f"{len(run)} nodes" if len(run) > 1 else "")
    return "\n".join(filter(None, [title, ", ".join(counts) + more]))


def by_layer(nodes: Mapping[str, Node], count: int = LAYERS) -> dict[str, Node]:
    """Return a graph's layers, and the nodes that are in none: inputs, outputs and state. Without
    names of layers there are about `count`."""
    place = {node.id: node.id for node in nodes.values()}
    groups: dict[str, Node] = {}
    layers = {}
    for layer, run in _runs(nodes, count):
        name = run[0].id
        family = Counter(node.family for node in run).most_common(1)[0][0]
        where = {"nodes": f"{run[0].id} to {run[-1].id}"}
        layers[name] = Node(name, _label(layer, run), family, run[0].groups, where)
        place.update((node.id, name) for node in run)
    for node in nodes.values():
        name = place[node.id]
        if name not in groups:
            groups[name] = layers.get(name) or Node(
                name, node.label, node.family, node.groups, node.attributes, node.outputs
            )
    for node in nodes.values():
        target = groups[place[node.id]]
        for source, _ in node.inputs:
            if place[source[0]] != target.id:
                target.read({(place[source[0]], 0)}, "")
    return groups
