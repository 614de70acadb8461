"""Modules of the model by nodes of a program's graph, which has no names of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os.path import commonprefix
from typing import TYPE_CHECKING

from executorch_c._render.page.model import Node
from executorch_c.inspect.where import id_of

if TYPE_CHECKING:
    from executorch_c.inspect.etrecord import ETRecord


def name_modules(
    nodes: Iterable[Node], modules: Mapping[str, str], places: Mapping[str, str] | None = None
) -> None:
    """Set the module of each node that `modules` has by its place, in words or as an id.

    Args:
        places: Places of nodes by those of `modules`, where they differ.
    """
    others = {id_of(where): id_of(place) for where, place in (places or {}).items()}
    known = {others.get(id_of(at), id_of(at)): module for at, module in modules.items()}
    for node in nodes:
        if node.place:
            node.module = known.get(id_of(node.place), node.module)


def modules_of_record(nodes: Iterable[Node], record: ETRecord, method: str) -> dict[str, str]:
    """Return the modules of nodes by place, as an ETRecord of the export knows them; the module
    around all of a node that a backend fused. Programs inside payloads have none."""
    found: dict[str, str] = {}
    for node in nodes:
        chain, _, rest = node.id.partition(":")
        instruction, is_inner, number = rest.partition("/")
        if chain != "0" or not instruction.isdigit() or "/" in number:
            continue
        handle = node.attributes.get("debug handle")
        if is_inner and handle is None:
            continue
        names = record.modules_at(method, int(instruction), int(handle) if handle else None)
        if names and node.place:
            found[node.place] = around(names)
    return found


def around(modules: Iterable[str]) -> str:
    """Return the innermost module around others: "body.0" of "body.0.conv" and "body.0.norm"."""
    return ".".join(commonprefix([module.split(".") for module in modules]))
