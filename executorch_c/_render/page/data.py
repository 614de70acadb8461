"""Data of a page as compact JSON: columns, numbers in place of repeated texts, bounded lengths.

Names come from a program's file: control characters are shown as escapes, and no text of the
data can end the element that holds it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from executorch_c._names import visible
from executorch_c._render.page import layout
from executorch_c._render.page.model import GraphPage, GraphView, Link, Node, Overlay
from executorch_c._render.text import shortened

MAX_NODES = 42_000
"""Maximum number of nodes of all views; `Graph.page` folds larger graphs."""
MAX_TEXT = 300
"""Maximum number of characters of a name or an attribute."""
MAX_TEXTS = 1_500_000
"""Maximum number of characters of all attributes; a note says how many were left out."""
DIGITS = 4
"""Significant digits of values."""


def dumps(page: GraphPage) -> str:
    """Return the data of a page as JSON that an HTML element may hold.

    Raises ValueError for more than MAX_NODES nodes.
    """
    count = sum(len(view.nodes) for view in page.views)
    if count > MAX_NODES:
        raise ValueError(f"a page holds at most {MAX_NODES:,} nodes, found {count:,}")
    texts = _Texts()
    boxes = [layout.boxes(list(view.nodes.values())) for view in page.views]
    views = [_view(*both, texts) for both in zip(page.views, boxes)]
    numbers = [_numbers(*both) for both in zip(page.views, boxes)]
    names = [view.name for view in page.views]
    data = {
        "title": _clean(page.title),
        "views": views,
        "overlays": [
            overlay
            for one in page.overlays
            for i, name in enumerate(names)
            if one.view in ("", name) and (overlay := _overlay(one, i, numbers[i]))
        ],
        "links": [_link(one, names, numbers) for one in page.links],
        "colours": dict(page.colours),
        "shown": page.shown,
        "texts": texts.list,
        "omitted": texts.omitted,
    }
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _clean(text: str) -> str:
    return visible(shortened(text, MAX_TEXT))


class _Texts:
    """The texts of a page, each once."""

    def __init__(self) -> None:
        self.list: list[str] = []
        self.numbers: dict[str, int] = {}
        self.used = self.omitted = 0

    def number(self, text: str) -> int:
        """Return the number of a text."""
        if text not in self.numbers:
            self.numbers[text] = len(self.list)
            self.list.append(_clean(text))
            self.used += min(len(text), MAX_TEXT)
        return self.numbers[text]

    def attribute(self, name: str, value: str) -> list[int]:
        """Return the numbers of an attribute; nothing if there is no room."""
        if value not in self.numbers and self.used > MAX_TEXTS:
            self.omitted += 1
            return []
        return [self.number(name), self.number(value)]


def _view(view: GraphView, boxes: Sequence[layout.Box], texts: _Texts) -> dict[str, Any]:
    nodes = list(view.nodes.values())
    index = {node.id: number for number, node in enumerate(nodes)}
    return {
        "name": _clean(view.name),
        "note": _clean(view.note),
        "ids": [_clean(node.id) for node in nodes],
        "labels": [texts.number(node.label) for node in nodes],
        "kinds": [texts.number(node.family) for node in nodes],
        "places": [texts.number(node.place) for node in nodes],
        "outputs": [[texts.number(one) for one in node.outputs] for node in nodes],
        "attributes": [_attributes(node, texts) for node in nodes],
        "inputs": [_inputs(node, index, texts) for node in nodes],
        "boxes": [
            [texts.number(box.kind), texts.number(box.name), box.children, box.rows, box.chains]
            for box in boxes
        ],
    }


def _inputs(node: Node, index: Mapping[str, int], texts: _Texts) -> list[int]:
    pairs = ((index[source[0]], texts.number(name)) for source, name in node.inputs)
    return [number for pair in pairs for number in pair]


def _attributes(node: Node, texts: _Texts) -> list[int]:
    layer = {"layer": node.module} if node.module else {}
    items = {**layer, **node.attributes}.items()
    shown = ((name, value) for name, value in items if value != node.id)
    return [number for name, value in shown for number in texts.attribute(name, value)]


def _numbers(view: GraphView, boxes: Sequence[layout.Box]) -> dict[str, list[int]]:
    """Return the numbers of nodes and boxes by place and by id."""
    known: dict[str, list[int]] = {}
    for number, node in enumerate(view.nodes.values()):
        for key in {node.place, node.id} - {""}:
            known.setdefault(key, []).append(number)
    for number, box in enumerate(boxes, len(view.nodes)):
        if box.place:
            known.setdefault(box.place, []).append(number)
    return known


def _overlay(one: Overlay, view: int, known: Mapping[str, list[int]]) -> dict[str, Any] | None:
    """Return an overlay on a view; None where it has no node of it."""
    names = [name for name, _ in one.categories]
    at: list[int] = []
    values: list[object] = []
    for key, value in one.values.items():
        for number in known.get(key, ()):
            at.append(number)
            values.append(names.index(value) if isinstance(value, str) else _rounded(value))
    if not at:
        return None
    return {
        "name": one.name,
        "unit": one.unit,
        "view": view,
        "total": one.total,
        "log": one.log,
        "categories": [list(pair) for pair in one.categories],
        "at": at,
        "values": values,
    }


def _rounded(value: float) -> float | str:
    """Return a number with DIGITS digits; JSON has no infinity and no NaN."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "inf" if value > 0 else "-inf"
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() else short


def _link(
    one: Link, names: Sequence[str], numbers: Sequence[Mapping[str, list[int]]]
) -> dict[str, Any]:
    first, second = names.index(one.first), names.index(one.second)
    pairs: Iterable[tuple[int, int]] = dict.fromkeys(
        (a, b)
        for left, right in one.pairs
        for a in numbers[first].get(left, ())
        for b in numbers[second].get(right, ())
    )
    return {"views": [first, second], "pairs": [number for pair in pairs for number in pair]}
