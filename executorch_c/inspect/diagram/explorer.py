"""Graphs and values of nodes as JSON for Model Explorer (ai-edge-model-explorer).

A graph collection opens as a model; the values of an overlay are a file of its own, which the page
loads on top (`--node_data_paths`). Nodes have their values as attributes, too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from executorch_c._render.page.model import Node, Overlay
from executorch_c.inspect import families

Row: TypeAlias = "dict[str, object]"

GRADIENT = (("#fdf3d0", "#1b1f24"), ("#c81e1e", "#ffffff"))
"""Colours of the smallest and the largest value, each with the colour of its text."""
DELEGATE, DELEGATE_BORDER = "#fff6e0", "#c98a00"
"""Colours of delegates."""


def collection(
    label: str, graphs: Mapping[str, Mapping[str, Node]], overlays: Sequence[Overlay] = ()
) -> str:
    """Return graphs by id as a graph collection."""
    rows = [_graph(id, nodes, overlays) for id, nodes in graphs.items()]
    return json.dumps({"label": label, "graphs": rows}, indent=1)


def node_data(id: str, nodes: Mapping[str, Node], overlay: Overlay) -> str:
    """Return the values of an overlay as node data of a graph; NaN and infinities are left out."""
    colours = dict(overlay.categories)
    results: dict[str, Row] = {}
    for node in nodes.values():
        value = value_of(overlay, node)
        if isinstance(value, str):
            results[node.id] = {"value": value, "bgColor": colours[value]}
        elif value is not None and math.isfinite(value):
            results[node.id] = {"value": value}
    data: Row = {"name": overlay.name, "results": results}
    if not colours:
        data["gradient"] = [
            {"stop": stop, "bgColor": back, "textColor": text}
            for stop, (back, text) in enumerate(GRADIENT)
        ]
    return json.dumps({id: data}, indent=1)


def value_of(overlay: Overlay, node: Node) -> float | str | None:
    """Return the value of a node; None without one."""
    return overlay.values.get(node.place, overlay.values.get(node.id))


def _pairs(items: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in items.items()]


def _graph(id: str, nodes: Mapping[str, Node], overlays: Sequence[Overlay]) -> Row:
    return {
        "id": id,
        "nodes": [_node(node, dict(_values(node, overlays))) for node in nodes.values()],
        "groupNodeConfigs": [
            {
                "namespaceRegex": r"^([^/]+Backend \d+/)*[^/]+Backend \d+$",
                "backgroundColor": DELEGATE,
                "borderColor": DELEGATE_BORDER,
            }
        ],
    }


def _values(node: Node, overlays: Sequence[Overlay]) -> Iterator[tuple[str, str]]:
    for overlay in overlays:
        value = value_of(overlay, node)
        if value is not None:
            text = value if isinstance(value, str) else f"{value:.6g} {overlay.unit}".strip()
            yield overlay.name, text


def _node(node: Node, values: Mapping[str, str]) -> Row:
    edges, inputs = [], []
    for (source, name), at in node.inputs.items():
        edges.append(
            {
                "sourceNodeId": source[0],
                "sourceNodeOutputId": str(source[1]),
                "targetNodeInputId": str(at),
            }
        )
        inputs.append({"id": str(at), "attrs": _pairs({"__tensor_tag": name})})
    outputs = [
        {"id": str(i), "attrs": _pairs({"tensor": text})} for i, text in enumerate(node.outputs)
    ]
    return {
        "id": node.id,
        "label": node.label,
        "namespace": "/".join(group.name.replace("/", "|") for group in node.path),
        "attrs": _pairs({"family": node.family, **values, **node.attributes}),
        "incomingEdges": edges,
        "inputsMetadata": inputs,
        "outputsMetadata": outputs,
        "style": {"backgroundColor": families.tint(node.family)},
    }
